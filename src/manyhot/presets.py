"""Default losses, calibrator and rule of a training, as text; without torch, for the command line."""

from __future__ import annotations

# On frozen features a little of the two-way loss improves the ranks, and cross-entropy keeps the probabilities.
LOSSES = {
    "head": "SumLoss(BinaryCrossEntropyLoss(), TwoWayLoss(), weights=(1, 0.03), link=SigmoidLink())",
    "all": "BinaryCrossEntropyLoss()",
}
CALIBRATOR = "BetaCalibration()"
RULE = "ExpectedFBeta()"

# One of each family, as `manyhot compare --losses all` trains them; the first is what the others are held against.
ALL_LOSSES = {
    "BCE": "BinaryCrossEntropyLoss()",
    "focal": "FocalLoss()",
    "ASL": "AsymmetricLoss()",
    "SPA": "StrictlyProperAsymmetricLoss()",
    "SPA + LPR": "LabelPairRegulariser(StrictlyProperAsymmetricLoss(), weight=0.1)",
    "quasibinary": "QuasibinaryLoss()",
    "two-way": "TwoWayLoss()",
    "BCE + two-way": LOSSES["head"],
    "WARP": "WARPLoss()",
    "RML": "RMLLoss()",
    "class-wise": "ClassWiseLoss({num_labels})",
    "softmax": "MultiLabelSoftmaxLoss()",
    "AN": "AssumeNegativeLoss()",
    "EPR": "EPRLoss({mean_labels})",
    "cross-entropy": "SoftmaxCrossEntropyLoss()",
    "noised top-2": "NoisedTopKLoss(2)",
    "average-2": "AverageKLoss(2)",
}


def short_name(loss: str) -> str:
    """The short name of a loss, or its text where it has none.

    Example:
        >>> short_name("TwoWayLoss()")
        'two-way'
    """
    return next((name for name, text in ALL_LOSSES.items() if text == loss), loss)
