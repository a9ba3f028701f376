"""The law behind the links, by automatic differentiation: the oracle for those in closed form."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from manyhot.links.link import Link
from manyhot.refusal import refusal


class RatioLink(Link):
    """The link of any loss that adds over labels: p = l0' / (l0' - l1').

    l1 and l0 are the losses of a present and of an absent label. At the score that minimises p l1 + (1 - p) l0 the
    slopes balance, so their ratio is the probability which that score means.

    Args:
        loss: Takes scores (N, K) and targets (N, K); what it returns is summed.
    """

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        # In a tuple, so that a loss that is a module does not become part of this one's state.
        self._loss = (loss,)

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """log l0' - log(-l1')."""
        return torch.log(self.slopes(scores, 0.0)) - torch.log(-self.slopes(scores, 1.0))

    def slopes(self, scores: Tensor, target: float) -> Tensor:
        """Derivative of the loss of each score if every label had this target."""
        cells = scores.detach().reshape(-1, scores.shape[-1]).requires_grad_()
        with torch.enable_grad():
            value = self._loss[0](cells, torch.full_like(cells, target)).sum()
        (slopes,) = torch.autograd.grad(value, cells)
        return slopes.reshape(scores.shape)


def ratio_link(loss: Callable[[Tensor, Tensor], Tensor]) -> RatioLink:
    """Derives the link of a loss that adds over labels, also of one that this package does not know.

    Args:
        loss: Takes scores and targets, both (N, K), and returns any reduction. Losses that mix labels or rows have no
            link.

    Example:
        >>> squared = lambda scores, targets: (torch.sigmoid(scores) - targets) ** 2
        >>> ratio_link(squared).probs(torch.tensor([[0.0, 1.0]]))
        tensor([[0.5000, 0.7311]])
    """
    if not getattr(loss, "adds_over_labels", True):
        remedy = "Fit a calibrator on held-out scores and targets."
        raise refusal("loss", "ratio_link", "add over labels", type(loss).__name__, remedy)
    return RatioLink(loss)
