"""The losses, one file a family."""

from manyhot.losses.additive import AdditiveLoss, Branches, Curve
from manyhot.losses.average_k import AverageKLoss, NoisedTopKLoss
from manyhot.losses.binary import (
    AsymmetricFocalLoss,
    AsymmetricLoss,
    BinaryCrossEntropyLoss,
    StrictlyProperAsymmetricLoss,
)
from manyhot.losses.combined import SumLink, SumLoss
from manyhot.losses.loss import Loss, Term
from manyhot.losses.pairs import LabelPairRegulariser
from manyhot.losses.quasibinary import QuasibinaryLoss
from manyhot.losses.ranking import RMLLoss, WARPLoss
from manyhot.losses.single_positive import AssumeNegativeLoss, EPRLoss, ROLELoss
from manyhot.losses.softmax import CrossEntropyLoss, SoftmaxLoss
from manyhot.losses.two_way import TwoWayLoss
from manyhot.losses.uniform import UNIFORM_LOSSES, ClassWiseLoss, optimal_bias, uniform_classifier

__all__ = [
    "UNIFORM_LOSSES",
    "AdditiveLoss",
    "AssumeNegativeLoss",
    "AsymmetricFocalLoss",
    "AsymmetricLoss",
    "AverageKLoss",
    "BinaryCrossEntropyLoss",
    "Branches",
    "ClassWiseLoss",
    "CrossEntropyLoss",
    "Curve",
    "EPRLoss",
    "LabelPairRegulariser",
    "Loss",
    "NoisedTopKLoss",
    "QuasibinaryLoss",
    "RMLLoss",
    "ROLELoss",
    "SoftmaxLoss",
    "StrictlyProperAsymmetricLoss",
    "SumLink",
    "SumLoss",
    "Term",
    "TwoWayLoss",
    "WARPLoss",
    "optimal_bias",
    "uniform_classifier",
]
