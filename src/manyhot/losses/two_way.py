"""The two-way loss: present labels above absent ones along samples and along classes."""

from __future__ import annotations

import torch
from torch import Tensor

from manyhot.checks import Batch, check_choice, check_number
from manyhot.losses.loss import Loss, Term
from manyhot.numerics import hide, softplus


def two_way_units(
    batch: Batch, dim: int, *, temperature_pos: float, temperature_neg: float, margin: float
) -> tuple[Tensor, Tensor]:
    """Loss of every row (`dim` 1) or column (`dim` 0), and 1 for those that have a present label.

    A unit without an absent label costs nothing: its soft maximum lies out of sight, where softplus is exactly zero.
    """
    hardest_absent = torch.logsumexp(hide(batch.scores / temperature_neg, batch.absent), dim=dim)
    hardest_present = torch.logsumexp(hide(batch.scores / -temperature_pos, batch.targets), dim=dim)
    units = softplus(temperature_neg * hardest_absent + temperature_pos * hardest_present + margin)
    counted = (batch.targets.sum(dim) > 0).to(units.dtype)
    return units * counted, counted


class TwoWayLoss(Loss):
    """Softmax cross-entropy for several labels, taken along samples and along classes: for the best ranking.

    unit(P, N) = softplus(T_neg LSE_N(s / T_neg) + T_pos LSE_P(-s / T_pos) + margin)
    loss = mean over rows with a label + mean over columns with a label

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; returns ().
    Link: none, the scores only rank. Fit a calibrator to read them as probabilities.
    No-label rows: left out of the mean over rows; in the columns they are absent labels like any other.

    Args:
        axis: "both", "sample" (rows only) or "class" (columns only).
        temperature_pos: Spreads the gradient over all present labels of a unit when above 1.
        temperature_neg: The same for absent labels.
        margin: By how much present labels should lie above absent ones.

    Reference: Kobayashi, Two-way Multi-Label Loss, CVPR 2023, with its defaults. The official code masks cells by
        adding -100, which leaks for large scores; here masked cells count exactly nothing.

    Example:
        >>> loss = TwoWayLoss()
        >>> loss(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 1]]))
        tensor(0.4402)
    """

    def __init__(
        self,
        axis: str = "both",
        *,
        temperature_pos: float = 4.0,
        temperature_neg: float = 1.0,
        margin: float = 0.0,
    ) -> None:
        super().__init__()
        self.axis = check_choice("axis", "TwoWayLoss", axis, ("both", "sample", "class"))
        self.temperature_pos = check_number("temperature_pos", "TwoWayLoss", temperature_pos, low=0, low_open=True)
        self.temperature_neg = check_number("temperature_neg", "TwoWayLoss", temperature_neg, low=0, low_open=True)
        self.margin = check_number("margin", "TwoWayLoss", margin)
        self.mixes_rows = axis != "sample"

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """A mean over rows, a mean over columns, or both."""
        dims = {"both": (1, 0), "sample": (1,), "class": (0,)}[self.axis]
        units = [
            two_way_units(
                batch,
                dim,
                temperature_pos=self.temperature_pos,
                temperature_neg=self.temperature_neg,
                margin=self.margin,
            )
            for dim in dims
        ]
        return [Term(values, counted.sum()) for values, counted in units]

    def extra_repr(self) -> str:
        """The axis."""
        return f"axis={self.axis!r}"
