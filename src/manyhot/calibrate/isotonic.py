"""Isotonic calibration: any increasing curve, with as much freedom for each label as its evidence can carry."""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from torch import Tensor

from manyhot.calibrate.calibrator import Calibrator
from manyhot.calibrate.maps import Cells, Maps
from manyhot.calibrate.parametric import Affine
from manyhot.calibrate.pooling import Curves, curves_through, pooled_blocks, smoothed
from manyhot.calibrate.shrinkage import PER, fit_maps
from manyhot.cells import check_columns
from manyhot.checks import check_choice
from manyhot.links import Link
from manyhot.numerics import softplus

# How much information a curve must carry to be half believed, tried by cross-validation; infinity is "never".
STRENGTHS = (10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, torch.inf)
ALWAYS, NEVER = 0.0, torch.inf


class Shape(NamedTuple):
    """What is learnt of some cells, before it is decided how far to believe the curves.

    Attributes:
        maps: Affine maps.
        shared: One curve through the cells of all labels.
        own: A curve through the cells of each label.
        information: (K,), about the number of undecided cells of each label.
    """

    maps: Maps
    shared: Curves
    own: Curves
    information: Tensor


class Isotonic(Calibrator):
    """Any increasing curve: for plenty of held-out data, where the errors of calibration themselves must be least.

    An affine map comes first, then a monotone curve that corrects it: the isotonic regression of the targets, with
    straight lines in log-odds between the centres of its blocks, so that no two scores become equal; they are steep
    between blocks of many cells, whose rates are sure, so that steps and tied scores keep theirs. With `per`
    "shrunk", all labels share a curve, and each has one of its own besides; how much information a curve needs to be
    believed is found by cross-validation inside of `fit`.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; probabilities (N, K).

    Args:
        per: "all" (one curve for all labels), "label" (one for each; overfits below some hundred present cells a
            label) or "shrunk".
        link: What the scores already mean; without one the scores themselves are the starting point.

    Attributes:
        slopes: (1, K), or (1, 1) with `per` "all": the affine map.
        intercept: (K,), or (1,).
        shared_curve: (2, 1, M), places and values of the knots of the curve that labels share.
        own_curves: (2, K, M), the same for each label.
        own_trust: (K,), how far each label goes from the shared curve to its own.

    Reference: Zadrozny and Elkan, Transforming Classifier Scores into Accurate Multiclass Probability Estimates, KDD
        2002; Oron and Flournoy, Centered Isotonic Regression, 2017. Blocks in which all cells agree get half a cell
        that disagrees.

    Example:
        >>> scores = torch.linspace(-3, 3, 400).unsqueeze(1)
        >>> targets = (torch.arange(400) % 4 < 2 + scores[:, 0].sign()).int().unsqueeze(1)   # 1 in 4, then 3 in 4
        >>> mh.Isotonic(per="all").fit(scores, targets)(torch.tensor([[-1.5], [0.0], [1.5]])).flatten()
        tensor([0.2500, 0.5000, 0.7500])
    """

    slopes: Tensor
    intercept: Tensor
    shared_curve: Tensor
    own_curves: Tensor
    own_trust: Tensor

    def __init__(self, link: Link | None = None, *, per: str = "shrunk") -> None:
        super().__init__(link)
        self.per = check_choice("per", type(self).__name__, per, PER)
        self.register_buffer("slopes", torch.ones(1, 1, dtype=torch.float64))
        self.register_buffer("intercept", torch.zeros(1, dtype=torch.float64))
        self.register_buffer("shared_curve", torch.zeros(2, 1, 2, dtype=torch.float64))
        self.register_buffer("own_curves", torch.zeros(2, 1, 2, dtype=torch.float64))
        self.register_buffer("own_trust", torch.zeros(1, dtype=torch.float64))

    def fit_cells(self, evidence: Tensor, targets: Tensor, weights: Tensor) -> Self:
        """Fits the affine maps and the curves."""
        cells = Cells(evidence, targets, weights)
        maps, shared, own, information = fit_shape(cells, self.per)
        strengths = {"all": (ALWAYS, NEVER), "label": (NEVER, ALWAYS)}.get(self.per) or choose_strengths(cells)
        # Between its knots the curve half way to a straight line is straight as well.
        values = torch.lerp(shared.places, shared.values, trust(information.sum(), strengths[0]))
        return self.learn(
            slopes=maps.slopes,
            intercept=maps.intercept,
            shared_curve=torch.stack([shared.places, values]),
            own_curves=torch.stack(own),
            own_trust=trust(information, strengths[1]),
        )

    def map(self, evidence: Tensor) -> Tensor:
        """Log-odds of evidence (N, K)."""
        straight = Maps(self.slopes, self.intercept).apply(Affine.family, evidence)
        bent = Curves(*self.shared_curve).apply(straight)
        if self.per == "all":
            return bent
        check_columns(type(self).__name__, evidence, len(self.intercept))
        return torch.lerp(bent, Curves(*self.own_curves).apply(straight), self.own_trust)

    def extra_repr(self) -> str:
        """How many curves there are."""
        return f"per={self.per!r}"


def trust(information: Tensor, strength: float) -> Tensor:
    """information / (information + strength), the share of a curve that is believed."""
    return 1 / (1 + strength / information.clamp(min=torch.finfo(information.dtype).tiny))


def fit_shape(cells: Cells, per: str) -> Shape:
    """Affine maps, and those curves through the cells that `per` asks for; the others are straight."""
    maps = fit_maps(Affine.family, cells, per)
    straight = cells._replace(evidence=maps.apply(Affine.family, cells.evidence))
    information = cells.evidence.new_zeros(cells.num_labels)
    for log_odds, _, weights in straight.blocks():
        probs = torch.sigmoid(log_odds)
        information += (weights * probs * (1 - probs)).sum(0)
    pooled = straight.pooled()
    shared = fit_curves(pooled if per != "label" else Cells(*(part[:0] for part in pooled)))
    own = fit_curves(straight if per != "all" else Cells(*(part[:0] for part in straight)))
    return Shape(maps, shared, own, information)


def fit_curves(cells: Cells) -> Curves:
    """The isotonic regression of each column as a strictly increasing curve, on the device of the cells."""
    curves = curves_through(smoothed(pooled_blocks(cells)), cells.num_labels)
    return Curves(*(knots.to(cells.evidence.device) for knots in curves))


def choose_strengths(cells: Cells) -> tuple[float, float]:
    """How much information the shared curve and then those of labels need, by the log loss of the other half."""
    half = halves(cells)
    parts = [Cells(*(part[rows] for part in cells)) for rows in (half, ~half)]
    folds = [(fit_shape(mine, "shrunk"), other) for mine, other in (parts, parts[::-1])]
    shared = best_strengths(folds, [(strength, NEVER) for strength in STRENGTHS])[0]
    return best_strengths(folds, [(shared, strength) for strength in STRENGTHS])


def best_strengths(folds: list[tuple[Shape, Cells]], pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """That pair of strengths, for the shared and for own curves, with which shapes explain other cells best."""
    losses = torch.zeros(len(pairs), dtype=torch.float64, device=folds[0][1].evidence.device)
    for (maps, shared, own, information), cells in folds:
        for evidence, targets, weights in cells.blocks():
            straight = maps.apply(Affine.family, evidence)
            bent, free = shared.apply(straight), own.apply(straight)
            for i, (shared_strength, own_strength) in enumerate(pairs):
                log_odds = torch.lerp(straight, bent, trust(information.sum(), shared_strength))
                log_odds = torch.lerp(log_odds, free, trust(information, own_strength))
                losses[i] += (weights * (softplus(log_odds) - targets * log_odds)).sum()
    # Of pairs that differ by rounding alone, the one that believes the curves least.
    good = losses <= losses.min() * (1 + 1e-9)
    return [pair for pair, kept in zip(pairs, good.tolist(), strict=True) if kept][-1]


def halves(cells: Cells) -> Tensor:
    """A half of the rows, (N,), that does not depend on the order of rows or labels, nor on cells without weight.

    Rows that are equal to the last target go to both sides in turn. Evidence is rounded first, so that its last
    digits do not matter.
    """
    names = [
        torch.where(weights > 0, scrambled(evidence.float().view(torch.int32).long() * 2 + targets.long()), 0).sum(1)
        for evidence, targets, weights in cells.blocks()
    ]
    name = scrambled(torch.cat(names))
    group, order = name.sort()
    turn = torch.arange(len(name), device=name.device) - torch.searchsorted(group, group)
    return torch.empty_like(name).scatter_(0, order, group + turn) % 2 == 0


def scrambled(numbers: Tensor) -> Tensor:
    """Whole numbers below 2^31 that look random, the same for the same number."""
    for _ in range(2):
        numbers = (numbers ^ (numbers >> 16)) * 0x45D9F3B & 0x7FFFFFFF
    return numbers ^ (numbers >> 16)
