"""manyhot: classification with zero, one or many labels, and confidences that can be trusted.

A loss and the link that turns its scores into probabilities belong together, and what users want follows from them:

    loss = StrictlyProperAsymmetricLoss()
    loss(scores, targets).backward()      # targets: 1 present, 0 absent, -1 unknown; rows without labels are fine
    probs = loss.link.probs(scores)       # the loss knows what its scores mean

    calibrator = BetaCalibration(link=loss.link).fit(held_out_scores, held_out_targets)
    rule = AverageK(3).fit(calibrator(held_out_scores))
    decision = rule(calibrator(scores))   # .labels (N, K) and .abstain (N,)
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# The public names by the subpackage that they are imported from when they are first used: the command line answers
# without torch, and the core needs nothing but torch and numpy. `__init__.pyi` says the same to type checkers.
NAMES = {
    name: module
    for module, names in {
        "losses": """AsymmetricLoss AverageKLoss BinaryCrossEntropyLoss FocalLoss LabelPairRegulariser Loss
            QuasibinaryLoss StrictlyProperAsymmetricLoss SumLoss TwoWayLoss uniform_classifier""",
        "links": "Link SigmoidLink ratio_link",
        "heads": "CosineHead LinearHead MLPHead",
        "calibrate": "BetaCalibration Calibrator IsotonicCalibration PlattScaling TemperatureScaling",
        "decide": """Abstain AverageK ConformalRiskControl Decision ExpectedFBeta LabelThresholds NoneOfThese Rule
            Threshold TopK""",
        "labels": "UNKNOWN Labels one_hot",
        "data": "Dataset from_arrays read_data read_images",
        "classifier": "Classifier",
        "estimator": "ManyHotClassifier",
        "backbones": "create_backbone",
        "training": "Run compare train",
        "settings": "TrainSettings",
        "predictions": "Predictions read_predictions",
        "evaluation": "Evaluation evaluate",
        "search": "Collection Query",
        "serialization": "load save",
        "distributed": "GlobalBatch",
        "errors": "InputError",
    }.items()
    for name in names.split()
}
# Subpackages that are meant to be used as `mh.metrics.AUROC`; the first four are part of the public list.
LISTED_SUBPACKAGES = ("calibrate", "decide", "losses", "metrics")
SUBPACKAGES = (
    *LISTED_SUBPACKAGES,
    *("backbones", "checks", "classifier", "data", "distributed", "engine", "errors", "estimator", "evaluation"),
    *("heads", "labels", "linear", "links", "network", "predictions", "preprocessing", "registry", "report", "scale"),
    *("search", "serialization", "settings", "studio", "testing", "training"),
)

__all__ = sorted([*NAMES, *LISTED_SUBPACKAGES])


def __getattr__(name: str) -> Any:
    if name in NAMES:
        return getattr(import_module(f"manyhot.{NAMES[name]}"), name)
    if name in SUBPACKAGES:
        return import_module(f"manyhot.{name}")
    raise AttributeError(f"module 'manyhot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES, *SUBPACKAGES})
