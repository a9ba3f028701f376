"""The arms that several experiments share."""

from dataclasses import replace

from experiments.harness.arms import Arm
from experiments.harness.catalogue import is_features
from experiments.tuning import tuned
from manyhot.losses import UNIFORM_LOSSES

CROSS_ENTROPY = "CrossEntropyLoss()"
SUMMED_BCE = "BinaryCrossEntropyLoss(reduction='batchmean')"

SOFTMAX = Arm("softmax", CROSS_ENTROPY, start="zero")
BCE_RATES = Arm("BCE, bias from the label rates", SUMMED_BCE)
BCE_ZERO = Arm("BCE, bias from zero", SUMMED_BCE, start="zero")
QUASIBINARY = Arm("quasibinary", "QuasibinaryLoss()")

ONE_LABEL = ("one_label", "uniform", "average_k")
KS = (2, 3, 5, 10)
SET_METHODS = ("CE", "AVG-K", "ROLE", "AN", "EPR", "top-K")


def uniform_arm(name: str, *, scale: float = 96.0, start: str | None = None) -> Arm:
    """One of the twelve losses of uniform classification; the bias of BCE starts at the label rates."""
    kind, head = name.split("-")
    loss = CROSS_ENTROPY if kind == "soft" else SUMMED_BCE
    bias = {"0": "none", "d": "label", "u": "shared"}[head[-1]]
    start = start or ("rates" if kind == "bce" and bias != "none" else "zero")
    if head.startswith("n"):
        return Arm(name, loss, head="cosine", bias=bias, scale=float(scale), start=start)
    return Arm(name, loss, bias=bias, start=start)


UNIFORM = {name: uniform_arm(name) for name in UNIFORM_LOSSES}


# What the trials chose for sigmoid heads that begin at one half; the networks that are kept were trained so.
FROM_ZERO = {
    "AVG-K": "AverageKLoss({K}, alpha=3)",
    "ROLE": "ROLELoss({K})",
    "AN": "AssumeNegativeLoss(negative_weight=0.02)",
    "EPR": "EPRLoss({K}, beta=1e-06)",
    "top-K": "NoisedTopKLoss({K}, epsilon=3)",
}


def set_arm(name: str, k: int, material: str) -> Arm:
    """A method for sets of k labels on average: as it was tuned, on features; from zero, on networks."""
    if name == "CE":
        return SOFTMAX
    features = is_features(material)
    loss = tuned("sets", name).loss if features else FROM_ZERO[name]
    shown = f"{name}, K = {k}" if "{K}" in loss else name
    text = loss.replace("{K}", str(k))
    return replace(tuned("sets", name).arm(shown), loss=text) if features else Arm(shown, text, start="zero")


def tuned_arm(family: str, name: str) -> Arm:
    """A method as it was tuned."""
    return tuned(family, name).arm(name)
