"""The public names of manyhot, each from the room where it lives."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from manyhot import metrics, predictions
from manyhot.calibrate import (
    Affine,
    Beta,
    Calibrator,
    Isotonic,
    QuasibinaryConstant,
    SoftmaxTemperature,
    Temperature,
)
from manyhot.checks import check_targets
from manyhot.decide import (
    AskPerson,
    AverageK,
    ClassThresholds,
    CostThresholds,
    Decision,
    ExpectedF,
    LabelThresholds,
    NoneOfThese,
    RiskControl,
    Rule,
    Threshold,
    TopK,
    UniformThreshold,
)
from manyhot.distributed import GlobalBatch
from manyhot.evaluation import Evaluation, evaluate
from manyhot.heads import (
    CosineHead,
    Head,
    HiddenHead,
    LinearHead,
    TwoHeads,
    diverse_bias,
)
from manyhot.labels import Labels, one_hot
from manyhot.links import (
    AsymmetricLink,
    Link,
    NoLink,
    QuasibinaryLink,
    SigmoidLink,
    SoftmaxLink,
    StrictlyProperAsymmetricLink,
    phi,
    ratio_link,
)
from manyhot.losses import (
    UNIFORM_LOSSES,
    AdditiveLoss,
    AssumeNegativeLoss,
    AsymmetricFocalLoss,
    AsymmetricLoss,
    AverageKLoss,
    BinaryCrossEntropyLoss,
    ClassWiseLoss,
    CrossEntropyLoss,
    EPRLoss,
    LabelPairRegulariser,
    Loss,
    NoisedTopKLoss,
    QuasibinaryLoss,
    RMLLoss,
    ROLELoss,
    SoftmaxLoss,
    StrictlyProperAsymmetricLoss,
    SumLink,
    SumLoss,
    TwoWayLoss,
    WARPLoss,
    optimal_bias,
    uniform_classifier,
)
from manyhot.predictions import Predictions
from manyhot.saving import load, save

if TYPE_CHECKING:
    from manyhot.backbones import create_backbone
    from manyhot.classifier import Classifier
    from manyhot.data import Dataset, from_arrays, read_data, read_images
    from manyhot.engine import Plan
    from manyhot.estimator import ManyHotClassifier
    from manyhot.linear import LinearPath, fit_path
    from manyhot.network import Network
    from manyhot.search import Collection, Query
    from manyhot.training import Comparison, Recipe, Run, compare, train

# What trains and searches, imported when it is first used: most of it needs more than torch and numpy.
LATER = {
    "Classifier": "classifier",
    "Collection": "search",
    "Comparison": "training",
    "Dataset": "data",
    "LinearPath": "linear",
    "ManyHotClassifier": "estimator",
    "Network": "network",
    "Plan": "engine",
    "Query": "search",
    "Recipe": "training",
    "Run": "training",
    "compare": "training",
    "create_backbone": "backbones",
    "fit_path": "linear",
    "from_arrays": "data",
    "read_data": "data",
    "read_images": "data",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    if name in LATER:
        return getattr(import_module(f"manyhot.{LATER[name]}"), name)
    raise AttributeError(f"module 'manyhot.api' has no attribute {name!r}")


__all__ = [
    "UNIFORM_LOSSES",
    "AdditiveLoss",
    "Affine",
    "AskPerson",
    "AssumeNegativeLoss",
    "AsymmetricFocalLoss",
    "AsymmetricLink",
    "AsymmetricLoss",
    "AverageK",
    "AverageKLoss",
    "Beta",
    "BinaryCrossEntropyLoss",
    "Calibrator",
    "ClassThresholds",
    "ClassWiseLoss",
    "Classifier",
    "Collection",
    "Comparison",
    "CosineHead",
    "CostThresholds",
    "CrossEntropyLoss",
    "Dataset",
    "Decision",
    "EPRLoss",
    "Evaluation",
    "ExpectedF",
    "GlobalBatch",
    "Head",
    "HiddenHead",
    "Isotonic",
    "LabelPairRegulariser",
    "LabelThresholds",
    "Labels",
    "LinearHead",
    "LinearPath",
    "Link",
    "Loss",
    "ManyHotClassifier",
    "Network",
    "NoLink",
    "NoisedTopKLoss",
    "NoneOfThese",
    "Plan",
    "Predictions",
    "QuasibinaryConstant",
    "QuasibinaryLink",
    "QuasibinaryLoss",
    "Query",
    "RMLLoss",
    "ROLELoss",
    "Recipe",
    "RiskControl",
    "Rule",
    "Run",
    "SigmoidLink",
    "SoftmaxLink",
    "SoftmaxLoss",
    "SoftmaxTemperature",
    "StrictlyProperAsymmetricLink",
    "StrictlyProperAsymmetricLoss",
    "SumLink",
    "SumLoss",
    "Temperature",
    "Threshold",
    "TopK",
    "TwoHeads",
    "TwoWayLoss",
    "UniformThreshold",
    "WARPLoss",
    "check_targets",
    "compare",
    "create_backbone",
    "diverse_bias",
    "evaluate",
    "fit_path",
    "from_arrays",
    "load",
    "metrics",
    "one_hot",
    "optimal_bias",
    "phi",
    "predictions",
    "ratio_link",
    "read_data",
    "read_images",
    "save",
    "train",
    "uniform_classifier",
]
