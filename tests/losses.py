"""Every public loss, as the laws try it."""

import torch

import manyhot as mh
from manyhot.testing import Case


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
    loss = mh.ROLELoss(targets, expected_labels=1.5)
    loss.guesses.data = torch.where(targets > 0, 3.0, -0.3).double()
    return loss


def spa_with_pairs(targets):
    return mh.LabelPairRegulariser(mh.StrictlyProperAsymmetricLoss(), weight=0.3)


CASES = {
    "bce": Case(lambda targets: mh.BinaryCrossEntropyLoss()),
    "bce-batchmean": Case(lambda targets: mh.BinaryCrossEntropyLoss(reduction="batchmean")),
    "bce-sum": Case(lambda targets: mh.BinaryCrossEntropyLoss(reduction="sum")),
    "bce-weighted": Case(lambda targets: mh.BinaryCrossEntropyLoss(pos_weight=3.0)),
    "bce-label-weights": Case(lambda targets: mh.BinaryCrossEntropyLoss(pos_weight=weights(targets))),
    "asl-label-weights": Case(lambda targets: mh.AsymmetricLoss(pos_weight=weights(targets))),
    "spa-label-weights": Case(lambda targets: mh.StrictlyProperAsymmetricLoss(pos_weight=weights(targets))),
    "spa-pairs-label-weights": Case(
        lambda targets: mh.LabelPairRegulariser(
            mh.StrictlyProperAsymmetricLoss(pos_weight=weights(targets)), weight=0.3
        )
    ),
    "focal": Case(lambda targets: mh.AsymmetricFocalLoss()),
    "focal-soft": Case(lambda targets: mh.AsymmetricFocalLoss(0.5, 0.5)),
    "asl": Case(lambda targets: mh.AsymmetricLoss()),
    "asl-official": Case(lambda targets: mh.AsymmetricLoss(4, 1, 0.05)),
    "asl-odd": Case(lambda targets: mh.AsymmetricLoss(0.7, 2.5, 0.2, pos_weight=0.5)),
    "asl-flat": Case(lambda targets: mh.AsymmetricLoss(0, 0, 0.1)),
    "spa": Case(lambda targets: mh.StrictlyProperAsymmetricLoss()),
    "spa-weighted": Case(lambda targets: mh.StrictlyProperAsymmetricLoss(k_pos=2, b_pos=-0.5, pos_weight=2.0)),
    "spa-pairs": Case(spa_with_pairs),
    "focal-pairs": Case(lambda targets: mh.LabelPairRegulariser(mh.AsymmetricFocalLoss(), weight=0.3)),
    "asl-plain-pairs": Case(lambda t: mh.LabelPairRegulariser(mh.AsymmetricLoss(), weight=0.3, link=mh.SigmoidLink())),
    "cross-entropy-pairs": Case(
        lambda targets: mh.LabelPairRegulariser(mh.CrossEntropyLoss(no_label="uniform"), weight=0.3), single_label=True
    ),
    "quasibinary": Case(lambda targets: mh.QuasibinaryLoss()),
    "two-way": Case(lambda targets: mh.TwoWayLoss()),
    "two-way-sample": Case(lambda targets: mh.TwoWayLoss("sample", temperature_neg=2, margin=0.5)),
    "two-way-class": Case(lambda targets: mh.TwoWayLoss("class")),
    "warp": Case(lambda targets: mh.WARPLoss()),
    "rml": Case(lambda targets: mh.RMLLoss()),
    "softmax": Case(lambda targets: mh.SoftmaxLoss()),
    "cross-entropy": Case(lambda targets: mh.CrossEntropyLoss()),
    "cross-entropy-uniform": Case(lambda targets: mh.CrossEntropyLoss(no_label="uniform")),
    "cross-entropy-maxconf": Case(lambda targets: mh.CrossEntropyLoss(no_label="maxconf", no_label_weight=0.5)),
    "average-k": Case(lambda targets: mh.AverageKLoss(2.3, alpha=0.7)),
    "average-1": Case(lambda targets: mh.AverageKLoss(1)),
    "noised-top-k": Case(lambda targets: mh.NoisedTopKLoss(2), aligned=fixed_noise, any_number_of_labels=False),
    "assume-negative": Case(lambda targets: mh.AssumeNegativeLoss()),
    "assume-negative-plain": Case(lambda targets: mh.AssumeNegativeLoss(negative_weight=1.0)),
    "epr": Case(lambda targets: mh.EPRLoss(1.5)),
    "role": Case(role, aligned=row_numbers, value_is_potential=False),
    "sum-additive": Case(
        lambda targets: mh.SumLoss(mh.BinaryCrossEntropyLoss(), mh.StrictlyProperAsymmetricLoss(), weights=(1, 2.0))
    ),
    "sum-ranking": Case(
        lambda targets: mh.SumLoss(
            mh.BinaryCrossEntropyLoss(), mh.TwoWayLoss(), weights=(1, 0.03), link=mh.SigmoidLink()
        )
    ),
    "class-wise": Case(lambda targets: mh.ClassWiseLoss(targets.shape[1])),
}
