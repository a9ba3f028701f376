"""Every public loss, as the laws try it."""

import torch

import manyhot as mh
from manyhot.testing import LossCase


def weights(targets):
    """A weight for each label that depends on how often it is present, and so follows it to another place."""
    return 0.5 + (targets > 0).sum(0).double()


def row_numbers(targets):
    return (torch.arange(len(targets)),)


def fixed_noise(targets):
    """Noise that looks random but depends on nothing but the place of a cell."""
    rows, labels = (torch.arange(size, dtype=torch.float64) for size in targets.shape)
    draws = torch.arange(3, dtype=torch.float64)
    return (torch.sin(12.9898 * rows[:, None, None] + 78.233 * draws[:, None] + 37.719 * labels).to(torch.float64),)


def role(targets):
    loss = mh.losses.ROLELoss(targets, expected_labels=1.5)
    loss.guesses.data = torch.where(targets > 0, 3.0, -0.3).double()
    return loss


def spa_with_pairs(targets):
    return mh.LabelPairRegulariser(mh.StrictlyProperAsymmetricLoss(), weight=0.3)


CASES = {
    "bce": LossCase(lambda targets: mh.BinaryCrossEntropyLoss()),
    "bce-batchmean": LossCase(lambda targets: mh.BinaryCrossEntropyLoss(reduction="batchmean")),
    "bce-sum": LossCase(lambda targets: mh.BinaryCrossEntropyLoss(reduction="sum")),
    "bce-weighted": LossCase(lambda targets: mh.BinaryCrossEntropyLoss(pos_weight=3.0)),
    "bce-label-weights": LossCase(lambda targets: mh.BinaryCrossEntropyLoss(pos_weight=weights(targets))),
    "asl-label-weights": LossCase(lambda targets: mh.AsymmetricLoss(pos_weight=weights(targets))),
    "spa-label-weights": LossCase(lambda targets: mh.StrictlyProperAsymmetricLoss(pos_weight=weights(targets))),
    "spa-pairs-label-weights": LossCase(
        lambda targets: mh.LabelPairRegulariser(
            mh.StrictlyProperAsymmetricLoss(pos_weight=weights(targets)), weight=0.3
        )
    ),
    "focal": LossCase(lambda targets: mh.FocalLoss()),
    "focal-soft": LossCase(lambda targets: mh.FocalLoss(0.5, 0.5)),
    "asl": LossCase(lambda targets: mh.AsymmetricLoss()),
    "asl-official": LossCase(lambda targets: mh.AsymmetricLoss(4, 1, 0.05)),
    "asl-odd": LossCase(lambda targets: mh.AsymmetricLoss(0.7, 2.5, 0.2, pos_weight=0.5)),
    "asl-flat": LossCase(lambda targets: mh.AsymmetricLoss(0, 0, 0.1)),
    "spa": LossCase(lambda targets: mh.StrictlyProperAsymmetricLoss()),
    "spa-weighted": LossCase(lambda targets: mh.StrictlyProperAsymmetricLoss(k_pos=2, b_pos=-0.5, pos_weight=2.0)),
    "spa-pairs": LossCase(spa_with_pairs),
    "focal-pairs": LossCase(lambda targets: mh.LabelPairRegulariser(mh.FocalLoss(), weight=0.3)),
    "asl-plain-pairs": LossCase(
        lambda t: mh.LabelPairRegulariser(mh.AsymmetricLoss(), weight=0.3, link=mh.SigmoidLink())
    ),
    "cross-entropy-pairs": LossCase(
        lambda targets: mh.LabelPairRegulariser(mh.losses.SoftmaxCrossEntropyLoss(no_label="uniform"), weight=0.3),
        single_label=True,
    ),
    "quasibinary": LossCase(lambda targets: mh.QuasibinaryLoss()),
    "two-way": LossCase(lambda targets: mh.TwoWayLoss()),
    "two-way-sample": LossCase(lambda targets: mh.TwoWayLoss("sample", temperature_neg=2, margin=0.5)),
    "two-way-class": LossCase(lambda targets: mh.TwoWayLoss("class")),
    "warp": LossCase(lambda targets: mh.losses.WARPLoss()),
    "rml": LossCase(lambda targets: mh.losses.RMLLoss()),
    "softmax": LossCase(lambda targets: mh.losses.MultiLabelSoftmaxLoss()),
    "cross-entropy": LossCase(lambda targets: mh.losses.SoftmaxCrossEntropyLoss()),
    "cross-entropy-uniform": LossCase(lambda targets: mh.losses.SoftmaxCrossEntropyLoss(no_label="uniform")),
    "cross-entropy-maxconf": LossCase(
        lambda targets: mh.losses.SoftmaxCrossEntropyLoss(no_label="maxconf", no_label_weight=0.5)
    ),
    "average-k": LossCase(lambda targets: mh.AverageKLoss(2.3, alpha=0.7)),
    "average-1": LossCase(lambda targets: mh.AverageKLoss(1)),
    "noised-top-k": LossCase(
        lambda targets: mh.losses.NoisedTopKLoss(2), aligned=fixed_noise, any_number_of_labels=False
    ),
    "assume-negative": LossCase(lambda targets: mh.losses.AssumeNegativeLoss()),
    "assume-negative-plain": LossCase(lambda targets: mh.losses.AssumeNegativeLoss(negative_weight=1.0)),
    "epr": LossCase(lambda targets: mh.losses.EPRLoss(1.5)),
    "role": LossCase(role, aligned=row_numbers, value_is_potential=False),
    "sum-additive": LossCase(
        lambda targets: mh.SumLoss(mh.BinaryCrossEntropyLoss(), mh.StrictlyProperAsymmetricLoss(), weights=(1, 2.0))
    ),
    "sum-ranking": LossCase(
        lambda targets: mh.SumLoss(
            mh.BinaryCrossEntropyLoss(), mh.TwoWayLoss(), weights=(1, 0.03), link=mh.SigmoidLink()
        )
    ),
    "class-wise": LossCase(lambda targets: mh.losses.ClassWiseLoss(targets.shape[1])),
}
