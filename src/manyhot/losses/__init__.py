"""Losses for samples with zero, one or many labels, each with the link that turns its scores into probabilities."""

from manyhot.curves import Branches, Curve
from manyhot.links import SumLink
from manyhot.losses.baselines import AssumeNegativeLoss, EPRLoss, RMLLoss, ROLELoss, WARPLoss
from manyhot.losses.batch_statistics import QuasibinaryLoss, TwoWayLoss
from manyhot.losses.binary import (
    AdditiveLoss,
    AsymmetricLoss,
    BinaryCrossEntropyLoss,
    FocalLoss,
    StrictlyProperAsymmetricLoss,
)
from manyhot.losses.combined import LabelPairRegulariser, SumLoss
from manyhot.losses.loss import Loss, Term
from manyhot.losses.softmax import (
    UNIFORM_LOSSES,
    AverageKLoss,
    ClassWiseLoss,
    MultiLabelSoftmaxLoss,
    NoisedTopKLoss,
    SoftmaxCrossEntropyLoss,
    optimal_bias,
    uniform_classifier,
)

__all__ = [
    "UNIFORM_LOSSES",
    "AdditiveLoss",
    "AssumeNegativeLoss",
    "AsymmetricLoss",
    "AverageKLoss",
    "BinaryCrossEntropyLoss",
    "Branches",
    "ClassWiseLoss",
    "Curve",
    "EPRLoss",
    "FocalLoss",
    "LabelPairRegulariser",
    "Loss",
    "MultiLabelSoftmaxLoss",
    "NoisedTopKLoss",
    "QuasibinaryLoss",
    "RMLLoss",
    "ROLELoss",
    "SoftmaxCrossEntropyLoss",
    "StrictlyProperAsymmetricLoss",
    "SumLink",
    "SumLoss",
    "Term",
    "TwoWayLoss",
    "WARPLoss",
    "optimal_bias",
    "uniform_classifier",
]
