"""The law behind the links, by automatic differentiation: the oracle for those in closed form."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from manyhot.links.link import Link
from manyhot.refusal import refusal

# Slopes underflow further out, even in float64; what their ratio is by then, it stays.
FAR = 600.0


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

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest probability of scores from -512 to 512, to twelve digits."""
        probs = torch.sigmoid(self._log_odds_up_to(512))
        return round(float(probs.min()), 12), round(float(probs.max()), 12)

    @property
    def finite(self) -> bool:
        """Whether scores from -64 to 64 have finite log-odds; further out, steep slopes underflow even in float64."""
        return bool(self._log_odds_up_to(64).isfinite().all())

    def _log_odds_up_to(self, farthest: int) -> Tensor:
        loss = self._loss[0]
        weights = dict(loss.named_buffers()) if isinstance(loss, nn.Module) else {}
        labels = max((weight.numel() for name, weight in weights.items() if name.endswith("pos_weight")), default=1)
        powers = 2.0 ** torch.arange(farthest.bit_length(), dtype=torch.float64)
        log_odds = self.unweighted_log_odds(torch.cat([-powers, powers]).unsqueeze(1).repeat(1, labels))
        return log_odds[~log_odds.isnan()]

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """log l0' - log(-l1'), in float64; 0 over 0 where the loss is flat for both."""
        absent, present = self.slopes(scores.double().clamp(-FAR, FAR))
        return (torch.log(absent.clamp(min=0)) - torch.log(present.clamp(min=0))).to(scores.dtype)

    def slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """l0' and -l1': those that the loss itself knows, or else by automatic differentiation."""
        known = getattr(self._loss[0], "slopes", None)
        return (self._slopes(scores, 0.0), -self._slopes(scores, 1.0)) if known is None else known(scores)

    def _slopes(self, scores: Tensor, target: float) -> Tensor:
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
