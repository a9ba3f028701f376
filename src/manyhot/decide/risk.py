"""One threshold with a guaranteed bound on the risk of new data."""

from __future__ import annotations

import math
from typing import Self

import torch
from torch import Tensor, nn

from manyhot.checks import check_choice, check_number
from manyhot.decide.rule import Rule, reaches_threshold
from manyhot.sorting import row_blocks

RISKS = ("false_negatives", "false_discoveries")
# The rounding error allowed in a sum of many shares, in rows.
ROUNDING = 1e-9


class ConformalRiskControl(Rule):
    """Predicts as few labels as keep misses rare, or as many as keep errors rare, with a guarantee for new samples.

    The risk is the mean of a loss of each row. With `risk="false_negatives"` this is the share of the row's present
    labels that is not predicted, and the threshold is the highest that keeps the risk down. With
    `risk="false_discoveries"` it is the share of the predicted labels that is not present, 0 where none is predicted,
    and the threshold is the lowest. The guarantee holds for any values, calibrated or not: with a worse model, more
    labels are predicted for the former and fewer for the latter.

    Without `delta`, the expected loss of a new row is at most `alpha`, averaged over the held-out data as well. With
    `delta`, the risk of the threshold is at most `alpha` with a probability of 1 - delta over the held-out data, which
    is stronger and needs more rows. Both assume that held-out and new rows are exchangeable.

    No-label rows: for false negatives only rows with a present label count, both in fitting and in the guarantee,
    because counting the others as perfect would weaken it. For false discoveries all rows with a known cell count, and
    whatever is predicted for a row without labels is wrong. Unknown cells are left out of both.

    The loss must not fall when the threshold gets more dangerous. For false discoveries it can, so without `delta`
    each row's loss is replaced by the largest one at any higher threshold; the guarantee holds for the loss itself as
    well.

    With too few rows for the guarantee, the rule falls back to the safe extreme: it predicts every label for false
    negatives, and none for false discoveries. Without `delta`, 1 / alpha - 1 rows are enough.

    Args:
        alpha: The largest risk, above 0 and below 1.
        risk: "false_negatives" or "false_discoveries".
        delta: The largest probability with which the guarantee may fail; None guarantees it on average instead.

    Attributes:
        threshold: What a value must reach.
        reached: Whether there were enough rows for a guarantee; otherwise the threshold is the safe extreme.

    Reference: without `delta`, Angelopoulos, Bates, Fisch, Lei and Schuster, Conformal Risk Control, ICLR 2024; with it
        Bates, Angelopoulos, Lei, Malik and Jordan, Distribution-Free, Risk-Controlling Prediction Sets, JACM 2021, for
        false negatives, and Angelopoulos, Bates, Candes, Jordan and Lei, Learn then Test, 2021, for false discoveries,
        as a sequence of tests from the highest threshold downwards through all floating-point numbers; both with the
        p-values of Hoeffding and Bentkus.

    Example:
        >>> probs = torch.linspace(0, 1, 40).unsqueeze(1)
        >>> rule = ConformalRiskControl(0.1).fit(probs, torch.ones(40, 1))   # misses at most 10 %
        >>> f"{rule.threshold:.3f}", bool(rule.reached)
        ('0.077', True)
    """

    needs_targets = True

    def __init__(self, alpha: float, risk: str = "false_negatives", *, delta: float | None = None) -> None:
        super().__init__()
        self.alpha = check_number("alpha", "ConformalRiskControl", alpha, "(0, 1)")
        self.risk = check_choice("risk", "ConformalRiskControl", risk, RISKS)
        self.delta = None if delta is None else check_number("delta", "ConformalRiskControl", delta, "(0, 1)")
        self.threshold: Tensor = nn.Buffer(torch.tensor(torch.nan, dtype=torch.float64))
        self.reached: Tensor = nn.Buffer(torch.tensor(False))

    def fit_cells(self, values: Tensor, targets: Tensor) -> Self:
        """Finds the threshold."""
        misses = self.risk == "false_negatives"
        if misses:
            places, changes = missed_steps(values, targets)
        else:
            places, changes = wrong_steps(values, targets, monotone=self.delta is None)
        allowed = allowed_loss(int((targets > 0 if misses else targets >= 0).any(1).sum()), self.alpha, self.delta)
        enough, infinity = allowed >= -ROUNDING, values.new_tensor(torch.inf)
        exceeded = first_exceeded(places, changes, allowed, descending=not misses)
        if not enough:
            threshold = -infinity if misses else infinity
        elif exceeded is None:
            threshold = -infinity
        elif misses:
            # No value reaches an infinite threshold; the largest number is the threshold of infinite values.
            threshold = exceeded.clamp(max=torch.finfo(exceeded.dtype).max)
        else:
            threshold = torch.nextafter(exceeded, infinity)
        return self.learn(threshold=threshold.double(), reached=torch.tensor(enough, device=values.device))

    def decide(self, values: Tensor) -> Tensor:
        """Labels with a value of at least the threshold."""
        return reaches_threshold(values, self.threshold)

    def row_losses(self, labels: Tensor, targets: Tensor) -> Tensor:
        """The losses whose mean is the risk, of the rows that count: of predicted labels (N, K), by targets (N, K).

        Example:
            >>> labels, targets = torch.tensor([[True, False], [True, True]]), torch.tensor([[1, 1], [0, -1]])
            >>> ConformalRiskControl(0.1).row_losses(labels, targets)
            tensor([0.5000], dtype=torch.float64)
            >>> ConformalRiskControl(0.1, "false_discoveries").row_losses(labels, targets)
            tensor([0., 1.], dtype=torch.float64)
        """
        present, known = targets == 1, targets >= 0
        if self.risk == "false_negatives":
            counts, part, whole = present.any(1), present & ~labels, present
        else:
            counts, part, whole = known.any(1), labels & known & ~present, labels & known
        return (part.sum(1).double() / whole.sum(1).clamp(min=1))[counts]


def missed_steps(values: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Values (M,) above which the threshold misses a present label, and by how much the summed loss rises there."""
    present = targets == 1
    parts = (1.0 / present.sum(1).double()).unsqueeze(1).expand(present.shape)
    return values[present], parts[present]


def wrong_steps(values: Tensor, targets: Tensor, *, monotone: bool) -> tuple[Tensor, Tensor]:
    """Values (M,) from which on the threshold predicts other labels, and the change of the summed share of wrong ones.

    Args:
        values: (N, K).
        targets: (N, K) of 1, 0 and -1.
        monotone: Whether to replace each share by the largest one so far.
    """
    steps = []
    for rows in row_blocks(values.shape):
        known = targets[rows] >= 0
        # Unknown cells go last, where they count neither as predicted nor as wrong.
        ordered, order = torch.where(known, values[rows], -torch.inf).sort(dim=1, descending=True)
        predicted = known.gather(1, order).cumsum(1)
        share = (targets[rows] == 0).gather(1, order).cumsum(1) / predicted.clamp(min=1).double()
        # Equal values come together, with the share after the last of them.
        last = torch.searchsorted(-ordered, -ordered, right=True) - 1
        share = torch.nn.functional.pad(share.gather(1, last), (1, 0))
        change = (share.cummax(1).values if monotone else share).diff(dim=1)
        steps.append((ordered[change != 0], change[change != 0]))
    places, changes = (torch.cat(part) for part in zip(*steps, strict=True))
    return places, changes


def first_exceeded(places: Tensor, changes: Tensor, allowed: float, *, descending: bool) -> Tensor | None:
    """The first value, from the safe end, with which the summed loss is more than allowed; None if it never is."""
    places, order = places.sort(descending=descending)
    # Equal values come together, so the sum counts only at the last of them.
    last = torch.ones_like(places, dtype=torch.bool)
    last[:-1] = places[:-1] != places[1:]
    exceeded = places[last & (changes[order].cumsum(0) > allowed + ROUNDING)]
    return exceeded[0] if len(exceeded) else None


def allowed_loss(rows: int, alpha: float, delta: float | None) -> float:
    """The largest summed loss of held-out rows that keeps the guarantee; negative if none does.

    Example:
        >>> round(allowed_loss(100, 0.1, None), 3), round(allowed_loss(100, 0.1, 0.05), 3)
        (9.1, 3.553)
    """
    if delta is None:
        return alpha * (rows + 1) - 1  # one more row of the largest possible loss stands for the new one
    return max(_by_hoeffding(rows, alpha, delta), _by_bentkus(rows, alpha, delta))


def _by_hoeffding(rows: int, alpha: float, delta: float) -> float:
    """The largest sum for which exp(-rows * divergence of its mean from alpha) <= delta."""

    def fits(mean: float) -> bool:
        divergence = mean * math.log(mean / alpha) if mean > 0 else 0.0
        divergence += (1 - mean) * math.log((1 - mean) / (1 - alpha))
        return -rows * divergence <= math.log(delta)

    if not fits(0.0):
        return -1.0
    low, high = 0.0, alpha
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low * rows


def _by_bentkus(rows: int, alpha: float, delta: float) -> float:
    """The largest whole sum m for which e * P(Binomial(rows, alpha) <= m) <= delta; -1 if there is none."""
    counts = torch.arange(math.floor(rows * alpha) + 1, dtype=torch.float64)
    chances = torch.distributions.Binomial(rows, probs=torch.tensor(alpha, dtype=torch.float64))
    tails = torch.logcumsumexp(chances.log_prob(counts), dim=0)
    return float((1 + tails <= math.log(delta)).sum()) - 1
