"""Every calibrator under trial, with what the laws need to know about it."""

import manyhot as mh
from manyhot.testing.calibrators import CalibratorCase

LINKS = {
    "": lambda: None,
    "-spa": mh.links.StrictlyProperAsymmetricLink,
    "-margin": lambda: mh.links.AsymmetricLink(4, 0, 0.05),
}
KINDS = {
    "temperature": mh.TemperatureScaling,
    "affine": mh.PlattScaling,
    "beta": mh.BetaCalibration,
    "isotonic": mh.IsotonicCalibration,
}

CASES = {
    f"{name}-{sharing}": CalibratorCase(lambda kind=kind, sharing=sharing: kind(sharing=sharing))
    for name, kind in KINDS.items()
    for sharing in ("all", "none", "partial")
}
CASES |= {
    f"{name}{suffix}": CalibratorCase(lambda kind=kind, link=link: kind(link=link()))
    for name, kind in KINDS.items()
    for suffix, link in LINKS.items()
    if suffix
}
CASES["quasibinary"] = CalibratorCase(mh.calibrate.QuasibinaryConstant)
CASES["softmax"] = CalibratorCase(mh.calibrate.SoftmaxTemperature, single_label=True)
