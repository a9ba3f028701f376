"""Losses made of losses: weighted sums, and the label-pair regulariser."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from manyhot.checks import LossBatch, check_number, check_weights, describe_type
from manyhot.errors import InputError
from manyhot.links import CurveLink, Link, RatioLink, SumLink
from manyhot.losses.kernels import label_pair_rows
from manyhot.losses.loss import Loss, Term


class SumLoss(Loss):
    """A weighted sum of several losses on the same scores, such as one that ranks and one with probabilities.

    loss = sum of weight * loss over the parts

    `manyhot train` uses binary cross-entropy with a small weight of the two-way loss on frozen features: it ranks like
    the two-way loss, and its probabilities are as good as those of cross-entropy.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}, and in [0, 1] where all parts allow it; returns ().
    Link: exact where all parts add over labels, by the slopes of their sum. A part that compares labels or rows leaves
        none, unless `link` is passed; calibrate its probabilities, which are then not exact.
    No-label rows: as in each part.

    Args:
        *losses: The parts: of one head, and means.
        weights: Of the parts; 1 for each by default.
        link: How the scores are read where the parts have no common link, usually that of the heaviest part.

    Reference: the parts are those of Cheng and Vasconcelos, Towards Calibrated Multi-label Deep Neural Networks, CVPR
        2024, and Kobayashi, Two-way Multi-Label Loss, CVPR 2023; their sum is ours.

    Example:
        >>> import manyhot
        >>> loss = SumLoss(manyhot.BinaryCrossEntropyLoss(), manyhot.TwoWayLoss(), weights=(1, 0.01))
        >>> loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 1]]))
        tensor(0.4610)
        >>> SumLoss(manyhot.BinaryCrossEntropyLoss(), manyhot.StrictlyProperAsymmetricLoss()).link.probs(torch.zeros(1))
        tensor([0.3457])
    """

    losses: Sequence[Loss]

    def __init__(self, *losses: Loss, weights: Sequence[float] | None = None, link: Link | None = None) -> None:
        _check_parts(losses)
        weights = check_weights("SumLoss", len(losses), (1.0,) * len(losses) if weights is None else weights)
        additive = all(loss.adds_over_labels for loss in losses)
        if additive and link is None:
            links = [loss.link for loss in losses if _link_knows_slopes(loss)]
            link = SumLink(links, weights) if len(links) == len(losses) else RatioLink(self)
        super().__init__(link)
        self.losses = nn.ModuleList(losses)  # type: ignore[assignment]
        self.weights = weights
        # What other losses know by their class, a sum knows by its parts.
        self.adds_over_labels = additive
        self.mixes_rows = any(loss.mixes_rows for loss in losses)
        self.soft_targets = all(loss.soft_targets for loss in losses)
        self.single_label = any(loss.single_label for loss in losses)

    def terms(self, batch: LossBatch) -> list[Term]:
        """The means of all parts, weighted."""
        return [
            Term(weight * term.values, term.count)
            for loss, weight in zip(self.losses, self.weights, strict=True)
            for term in loss.terms(batch)
        ]


def _link_knows_slopes(loss: Loss) -> bool:
    """Whether the slopes of the link are those of the loss, and not only in the same ratio."""
    link, curve = loss.link, getattr(loss, "curve", None)
    return isinstance(link, SumLink) or (isinstance(link, CurveLink) and link.curve is curve)


def _check_parts(losses: Sequence[Loss]) -> None:
    hint = "Pass, for example, BinaryCrossEntropyLoss(), TwoWayLoss()."
    if not losses:
        raise InputError("losses", "SumLoss", "be one or more", "none", hint)
    for loss in losses:
        if not isinstance(loss, Loss) or loss.heads > 1 or loss.extra:
            rule = "be losses of one head that take scores and targets alone"
            raise InputError("losses", "SumLoss", rule, describe_type(loss), hint)
        if loss.reduction not in ("mean", "batchmean"):
            hint = "Build the parts with reduction='mean'."
            raise InputError("losses", "SumLoss", "be means", f"reduction={loss.reduction!r}", hint)
    reductions = {loss.reduction for loss in losses if loss.adds_over_labels}
    if len(reductions) > 1:
        got, hint = " and ".join(sorted(reductions)), "Give all of them the same one, and weights for the rest."
        raise InputError("losses", "SumLoss", "have one reduction where they add over labels", got, hint)


class LabelPairRegulariser(Loss):
    """A loss plus the pairs that it orders wrongly: for search and ranking within a row.

    row = 2 / (K (K - 1)) sum over present t, absent t' of softplus(u_t' - u_t), u = log-odds of the link
    loss = given loss + weight * mean over rows

    Probabilities stay calibrated where labels are independent given the sample: the scores that minimise the given loss
    then minimise the pairs as well. Where labels depend on each other, as most do, the pairs pull the scores away
    from the true probabilities, the more so the larger the weight: marginals of (0.30, 0.50, 0.28) can be read as
    (0.24, 0.54, 0.28) at weight 1. Fit a calibrator if you act on the confidence.

    Shape: as the given loss, with targets in {1, 0, -1}; returns ().
    Link: that of the given loss, if its log-odds are those that are compared. With another `link` for the pairs the
        scores that minimise the two parts differ even for independent labels, so there is none: fit a calibrator.
    No-label rows: they have no pairs, and stay in the mean over rows.

    Args:
        loss: Any loss with a link whose log-odds are finite.
        weight: Of the pairs; the paper's value is not in its main text, so there is no default.
        link: Gives the log-odds that are compared; that of the loss by default. With another one the scores only rank.

    Reference: Cheng and Vasconcelos, Towards Calibrated Multi-label Deep Neural Networks, CVPR 2024. -log of the
        printed pair probability is softplus of the difference of log-odds; every pair is counted once.

    Example:
        >>> import manyhot
        >>> loss = LabelPairRegulariser(manyhot.StrictlyProperAsymmetricLoss(), weight=0.1)
        >>> loss(torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0991)
    """

    def __init__(self, loss: Loss, weight: float, *, link: Link | None = None) -> None:
        if not isinstance(loss, Loss) or not loss.link.gives_probs:
            hint = "Wrap a loss that adds over labels, such as `StrictlyProperAsymmetricLoss`."
            raise InputError("loss", "LabelPairRegulariser", "have a link", type(loss).__name__, hint)
        if loss.reduction not in ("mean", "batchmean"):
            hint = "Build the inner loss with reduction='mean'."
            raise InputError("loss", "LabelPairRegulariser", "be a mean", f"reduction={loss.reduction!r}", hint)
        pair_link = link or loss.link
        if not pair_link.finite:
            got = f"{type(pair_link).__name__}, which gives probabilities of exactly 0 or 1"
            hint = "Take margin=0, or pass link=SigmoidLink()."
            raise InputError("link", "LabelPairRegulariser", "keep log-odds finite", got, hint)
        own = link is None or repr(link) == repr(loss.link)
        super().__init__(loss.link if own else None)
        self.loss, self.pair_link = loss, pair_link
        self.mixes_rows, self.single_label = loss.mixes_rows, loss.single_label
        self.weight = check_number("weight", "LabelPairRegulariser", weight, "[0, inf)")

    def terms(self, batch: LossBatch) -> list[Term]:
        """The means of the given loss, and the mean of the pairs over rows."""
        # Some links compare the labels of a row, and unknown ones must not take part: hence the visible scores.
        pairs = label_pair_rows(self.pair_link.log_odds(batch.masked_scores), batch)
        return [*self.loss.terms(batch), Term(self.weight * pairs, batch.rows().sum())]
