"""The label-pair regulariser: present labels above absent ones in log-odds, around any loss with a link."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from manyhot.checks import Batch, check_number, refusal
from manyhot.links.link import Link
from manyhot.losses.loss import Loss, Term
from manyhot.numerics import hide


@torch.library.custom_op("manyhot::pair_rows", mutates_args=())
def pair_rows(log_odds: Tensor, present: Tensor, absent: Tensor) -> tuple[Tensor, Tensor]:
    """Sum over a row's pairs of softplus(u_absent - u_present), and its derivative by the log-odds.

    One operation for the compiler, because the number of pairs depends on the targets: it costs what the present labels
    cost, not K x K, and no shape that the graph sees depends on values.

    Args:
        log_odds: (N, K).
        present: (N, K), 1 or 0.
        absent: (N, K), 1 or 0.

    Returns:
        The sums (N,) and the slopes (N, K).
    """
    sums, slopes = log_odds.new_zeros(log_odds.shape[0]), torch.zeros_like(log_odds)
    rows, columns = present.nonzero(as_tuple=True)
    if rows.numel() == 0:
        return sums, slopes
    # Rows in falling order of their number of present labels: those that have a j-th one are then the first few, and one
    # step works off the j-th present label of all of them without copying anything.
    counts = torch.bincount(rows, minlength=log_odds.shape[0])
    order = counts.argsort(descending=True, stable=True)
    rank = torch.arange(rows.numel(), device=rows.device) - (counts.cumsum(0) - counts)[rows]
    own = log_odds.new_zeros(log_odds.shape[0], int(counts.max()))
    own[rows, rank] = log_odds[rows, columns]
    own, pulls = own[order], torch.zeros_like(own)
    others, sorted_sums, sorted_slopes = hide(log_odds[order], absent[order]), sums.clone(), slopes.clone()
    gaps, costs = torch.empty_like(others), torch.empty_like(others)
    for j, size in enumerate(
        (counts.unsqueeze(0) > torch.arange(own.shape[1], device=rows.device)[:, None]).sum(1).tolist()
    ):
        gap, cost = gaps[:size], costs[:size]
        torch.sub(others[:size], own[:size, j, None], out=gap)
        sorted_sums[:size] += torch.ops.aten.softplus.out(gap, 1, 40, out=cost).sum(1)
        pulls[:size, j] = gap.sigmoid_().sum(1)
        sorted_slopes[:size] += gap
    sums[order], slopes[order] = sorted_sums, sorted_slopes
    slopes[rows, columns] = -pulls[order.argsort()][rows, rank]
    return sums, slopes


@pair_rows.register_kernel("cuda")
def _(log_odds: Tensor, present: Tensor, absent: Tensor) -> tuple[Tensor, Tensor]:
    from manyhot.losses.pairs_cuda import pair_rows_on_gpu  # needs Triton, which only builds of torch for GPUs bring

    return pair_rows_on_gpu(log_odds, present, absent)


@pair_rows.register_fake
def _(log_odds: Tensor, present: Tensor, absent: Tensor) -> tuple[Tensor, Tensor]:
    return log_odds.new_empty(log_odds.shape[0]), torch.empty_like(log_odds)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: tuple[Tensor, Tensor]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(output[1])


def _backward(ctx: Any, grad: Tensor | None, grad_of_slopes: Tensor | None) -> tuple[Tensor | None, None, None]:
    if grad_of_slopes is not None:
        raise RuntimeError(
            "`LabelPairRegulariser` has no second derivatives; leave `create_graph` out of its backward."
        )
    return None if grad is None else grad.unsqueeze(1) * ctx.saved_tensors[0], None, None


pair_rows.register_autograd(_backward, setup_context=_save)


def label_pair_rows(log_odds: Tensor, present: Tensor, absent: Tensor) -> Tensor:
    """Mean over all unordered pairs of a row's known labels of softplus(u_absent - u_present), (N,)."""
    sizes = present.sum(1) + absent.sum(1)
    sums: Tensor = pair_rows(log_odds, present, absent)[0]
    return sums * 2 / (sizes * (sizes - 1)).clamp(min=1)


class LabelPairRegulariser(Loss):
    """A loss plus the pairs that it orders wrongly: for search and ranking by probabilities that stay calibrated.

    row = 2 / (K (K - 1)) sum over present t, absent t' of softplus(u_t' - u_t), u = log-odds of the link
    loss = given loss + weight * mean over rows

    Shape: as the given loss, with targets in {1, 0, -1}; returns ().
    Link: that of the given loss.
    No-label rows: they have no pairs, and stay in the mean over rows.

    Args:
        loss: Any loss with a link.
        weight: Of the pairs; the paper's value is not in its main text, so there is no default.
        link: Gives the log-odds that are compared; that of the loss by default.

    Reference: Cheng and Vasconcelos, Towards Calibrated Multi-label Deep Neural Networks, CVPR 2024. -log of the
        printed pair probability is softplus of the difference of log-odds; every pair is counted once.

    Example:
        >>> import manyhot
        >>> loss = LabelPairRegulariser(manyhot.StrictlyProperAsymmetricLoss(), weight=0.1)
        >>> loss(torch.tensor([[2.0, 0.0, 1.0]]), torch.tensor([[1, 0, 0]]))
        tensor(0.0991)
    """

    def __init__(self, loss: Loss, weight: float, *, link: Link | None = None) -> None:
        link = link or getattr(loss, "link", None)
        if not isinstance(loss, Loss) or link is None:
            remedy = "Wrap a loss that adds over labels, such as `StrictlyProperAsymmetricLoss`."
            raise refusal("loss", "LabelPairRegulariser", "have a link", type(loss).__name__, remedy)
        super().__init__(link)
        edge = link.log_odds(torch.tensor([[-1e4, 1e4]])) if not hasattr(link, "fitted") else torch.tensor(torch.inf)
        if not bool(edge.isfinite().all()):
            got = f"{type(link).__name__}, which gives probabilities of exactly 0 or 1"
            remedy = "Take margin=0, or pass link=SigmoidLink()."
            raise refusal("link", "LabelPairRegulariser", "keep log-odds finite", got, remedy)
        if loss.reduction not in ("mean", "batchmean"):
            remedy = "Build the inner loss with reduction='mean'."
            raise refusal("loss", "LabelPairRegulariser", "be a mean", f"reduction={loss.reduction!r}", remedy)
        self.loss, self.mixes_rows = loss, loss.mixes_rows
        self.weight = check_number("weight", "LabelPairRegulariser", weight, low=0)

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The means of the given loss, and the mean of the pairs over rows."""
        assert self.link is not None
        pairs = label_pair_rows(self.link.log_odds(batch.scores), batch.targets, batch.absent)
        return [*self.loss.terms(batch, *aligned), Term(self.weight * pairs, batch.rows().sum())]
