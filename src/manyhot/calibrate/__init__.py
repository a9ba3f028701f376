"""Calibrators: from scores to probabilities that held-out data bear out."""

from manyhot.calibrate.calibrator import Calibrator
from manyhot.calibrate.isotonic import Isotonic
from manyhot.calibrate.normalised import QuasibinaryConstant, SoftmaxTemperature
from manyhot.calibrate.parametric import Affine, Beta, Temperature

__all__ = [
    "Affine",
    "Beta",
    "Calibrator",
    "Isotonic",
    "QuasibinaryConstant",
    "SoftmaxTemperature",
    "Temperature",
]
