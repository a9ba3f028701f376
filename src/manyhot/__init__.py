"""manyhot: classification with zero, one or many labels, and confidences that can be trusted.

A loss and the link that turns its scores into probabilities belong together:

    loss = StrictlyProperAsymmetricLoss()
    loss(scores, targets).backward()      # targets: 1 present, 0 absent, -1 unknown; rows without labels are fine
    probs = loss.link.probs(scores)       # the loss knows what its scores mean
"""

from manyhot.checks import check_targets
from manyhot.distributed import GlobalBatch
from manyhot.heads import CosineHead, Head, LinearHead, TwoHeads, diverse_bias
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
    TwoWayLoss,
    WARPLoss,
    optimal_bias,
    uniform_classifier,
)

__version__ = "0.1.0"

__all__ = [
    "UNIFORM_LOSSES",
    "AdditiveLoss",
    "AssumeNegativeLoss",
    "AsymmetricFocalLoss",
    "AsymmetricLink",
    "AsymmetricLoss",
    "AverageKLoss",
    "BinaryCrossEntropyLoss",
    "ClassWiseLoss",
    "CosineHead",
    "CrossEntropyLoss",
    "EPRLoss",
    "GlobalBatch",
    "Head",
    "LabelPairRegulariser",
    "Labels",
    "LinearHead",
    "Link",
    "Loss",
    "NoLink",
    "NoisedTopKLoss",
    "QuasibinaryLink",
    "QuasibinaryLoss",
    "RMLLoss",
    "ROLELoss",
    "SigmoidLink",
    "SoftmaxLink",
    "SoftmaxLoss",
    "StrictlyProperAsymmetricLink",
    "StrictlyProperAsymmetricLoss",
    "TwoHeads",
    "TwoWayLoss",
    "WARPLoss",
    "check_targets",
    "diverse_bias",
    "one_hot",
    "optimal_bias",
    "phi",
    "ratio_link",
    "uniform_classifier",
]
