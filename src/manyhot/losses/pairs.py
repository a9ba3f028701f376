"""The label-pair regulariser: present labels above absent ones in log-odds, around any loss with a link."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, library

from manyhot.checks import Batch, check_number
from manyhot.links.link import Link, NoLink
from manyhot.losses.loss import Loss, Term
from manyhot.numerics import OUT_OF_SIGHT, softplus
from manyhot.refusal import refusal
from manyhot.slopes import blocks, transformed


def sums_and_slopes(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over a row's pairs of softplus(u_absent - u_present), and its derivative by the log-odds.

    It costs what the present labels cost, not K x K.

    Args:
        log_odds: (N, K).
        targets: (N, K), 1 present, 0 absent, -1 unknown.

    Returns:
        The sums (N,) and the slopes (N, K).
    """
    if log_odds.is_cuda:
        from manyhot.losses.pairs_cuda import pair_rows_on_gpu  # needs Triton, which builds of torch for GPUs bring

        return pair_rows_on_gpu(log_odds, targets)
    log_odds = log_odds.contiguous()
    cells = (targets > 0).flatten().nonzero().squeeze(1)
    rows = cells // max(1, log_odds.shape[1])
    counts = torch.bincount(rows, minlength=log_odds.shape[0])
    rank = torch.arange(cells.numel(), device=cells.device) - (counts.cumsum(0) - counts)[rows]
    # The j-th present label of every row in column j; where a row has none, one so high that its pairs cost nothing.
    own = log_odds.new_full((log_odds.shape[0], int(counts.max()) if cells.numel() else 0), OUT_OF_SIGHT)
    own[rows, rank] = log_odds.flatten()[cells]
    sums, pulls, slopes = log_odds.new_zeros(log_odds.shape[0]), torch.zeros_like(own), torch.zeros_like(log_odds)
    for block in blocks(log_odds, targets, own, counts, sums, pulls, slopes):
        _add_up(*block)
    slopes.view(-1)[cells] = -pulls[rows, rank]
    return sums, slopes


def _add_up(
    log_odds: Tensor, targets: Tensor, own: Tensor, counts: Tensor, sums: Tensor, pulls: Tensor, slopes: Tensor
) -> None:
    """Adds the pairs of some rows to their sums and slopes, one present label of every row at a time."""
    others = torch.sub(log_odds, targets.abs(), alpha=OUT_OF_SIGHT)
    gaps, costs = torch.empty_like(others), torch.empty_like(others)
    for j in range(int(counts.max()) if counts.numel() else 0):
        with_another = (counts > j).nonzero().squeeze(1)
        if 4 * with_another.numel() > 3 * counts.numel():
            gap = torch.sub(others, own[:, j, None], out=gaps)
            sums += torch.ops.aten.softplus.out(gap, 1, 40, out=costs).sum(1)
            pulls[:, j] = gap.sigmoid_().sum(1)
            slopes += gap
        else:  # few rows have so many present labels: work on a copy of these alone
            gap = others[with_another].sub_(own[with_another, j, None])
            sums[with_another] += softplus(gap).sum(1)
            pulls[with_another, j] = gap.sigmoid_().sum(1)
            slopes[with_another] += gap


class _PairRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, log_odds: Tensor, targets: Tensor) -> Tensor:
        sums, slopes = sums_and_slopes(log_odds, targets)
        ctx.save_for_backward(slopes)
        return sums

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():
            raise RuntimeError("`LabelPairRegulariser` has no second derivatives; leave `create_graph` out.")
        return grad.unsqueeze(1) * ctx.saved_tensors[0], None


@library.custom_op("manyhot::pair_rows", mutates_args=())
def pair_rows(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """The same as one operation for the compiler, because the number of pairs depends on the targets."""
    with torch.no_grad():
        return sums_and_slopes(log_odds, targets)


@pair_rows.register_fake
def _(log_odds: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    return log_odds.new_empty(log_odds.shape[0]), torch.empty_like(log_odds, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
    ctx.save_for_backward(output[1])


def _backward(ctx: Any, grad: Tensor, _: Tensor) -> tuple[Tensor, None]:
    return grad.unsqueeze(1) * ctx.saved_tensors[0], None


pair_rows.register_autograd(_backward, setup_context=_save)


def label_pair_rows(log_odds: Tensor, batch: Batch) -> Tensor:
    """Mean over all unordered pairs of a row's known labels of softplus(u_absent - u_present), (N,)."""
    if log_odds.shape[1] < 2:  # no pairs, and a softmax of one label has infinite log-odds
        return 0 * batch.scores.sum(1)
    sizes, targets = batch.row_sizes(), batch.signed
    if torch.compiler.is_compiling() or transformed() or log_odds.is_meta or type(log_odds) is not Tensor:
        sums: Tensor = pair_rows(log_odds, targets)[0]
    else:
        sums = _PairRows.apply(log_odds, targets)  # type: ignore[no-untyped-call]
    return sums * 2 / (sizes * (sizes - 1)).clamp(min=1)


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
        if not isinstance(loss, Loss) or isinstance(loss.link, NoLink):
            remedy = "Wrap a loss that adds over labels, such as `StrictlyProperAsymmetricLoss`."
            raise refusal("loss", "LabelPairRegulariser", "have a link", type(loss).__name__, remedy)
        if loss.reduction not in ("mean", "batchmean"):
            remedy = "Build the inner loss with reduction='mean'."
            raise refusal("loss", "LabelPairRegulariser", "be a mean", f"reduction={loss.reduction!r}", remedy)
        pair_link = link or loss.link
        if not pair_link.finite:
            got = f"{type(pair_link).__name__}, which gives probabilities of exactly 0 or 1"
            remedy = "Take margin=0, or pass link=SigmoidLink()."
            raise refusal("link", "LabelPairRegulariser", "keep log-odds finite", got, remedy)
        own = link is None or repr(link) == repr(loss.link)
        super().__init__(loss.link if own else None)
        self.loss, self.pair_link, self.mixes_rows = loss, pair_link, loss.mixes_rows
        self.weight = check_number("weight", "LabelPairRegulariser", weight, low=0)

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The means of the given loss, and the mean of the pairs over rows."""
        # Some links compare the labels of a row, and unknown ones must not take part: hence the visible scores.
        pairs = label_pair_rows(self.pair_link.log_odds(batch.visible_scores), batch)
        return [*self.loss.terms(batch), Term(self.weight * pairs, batch.rows().sum())]

    def check(self, scores: Tensor, targets: Tensor, *aligned: Tensor) -> Batch:
        """What the pairs need, and what the given loss needs."""
        if self.loss.single_label:
            self.loss.check(scores, targets, *aligned)
        return super().check(scores, targets, *aligned)
