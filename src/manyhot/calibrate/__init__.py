"""Calibrators: from scores to calibrated probabilities."""

from manyhot.calibrate.calibrator import Calibrator
from manyhot.calibrate.isotonic import IsotonicCalibration
from manyhot.calibrate.scaling import (
    BetaCalibration,
    PlattScaling,
    Posterior,
    QuasibinaryConstant,
    SoftmaxTemperature,
    TemperatureScaling,
)

__all__ = [
    "BetaCalibration",
    "Calibrator",
    "IsotonicCalibration",
    "PlattScaling",
    "Posterior",
    "QuasibinaryConstant",
    "SoftmaxTemperature",
    "TemperatureScaling",
]
