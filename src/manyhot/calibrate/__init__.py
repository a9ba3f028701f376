"""Calibrators: from scores to calibrated probabilities."""

from manyhot.calibrate.calibrator import Calibrator
from manyhot.calibrate.isotonic import IsotonicCalibration
from manyhot.calibrate.scaling import (
    BetaCalibration,
    PlattScaling,
    QuasibinaryConstant,
    SoftmaxTemperature,
    TemperatureScaling,
)

__all__ = [
    "BetaCalibration",
    "Calibrator",
    "IsotonicCalibration",
    "PlattScaling",
    "QuasibinaryConstant",
    "SoftmaxTemperature",
    "TemperatureScaling",
]
