"""Every calibrator under trial, with what the laws need to know about it."""

import manyhot as mh
from manyhot.testing.calibrators import CalibratorCase

LINKS = {"": lambda: None, "-spa": mh.StrictlyProperAsymmetricLink, "-margin": lambda: mh.AsymmetricLink(4, 0, 0.05)}
KINDS = {"temperature": mh.Temperature, "affine": mh.Affine, "beta": mh.Beta, "isotonic": mh.Isotonic}

CASES = {
    f"{name}-{per}": CalibratorCase(lambda kind=kind, per=per: kind(per=per))
    for name, kind in KINDS.items()
    for per in ("all", "label", "shrunk")
}
CASES |= {
    f"{name}{suffix}": CalibratorCase(lambda kind=kind, link=link: kind(link=link()))
    for name, kind in KINDS.items()
    for suffix, link in LINKS.items()
    if suffix
}
CASES["quasibinary"] = CalibratorCase(mh.QuasibinaryConstant)
CASES["softmax"] = CalibratorCase(mh.SoftmaxTemperature, single_label=True, mixes_labels=True)
