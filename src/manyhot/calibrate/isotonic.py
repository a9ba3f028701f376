"""Isotonic calibration: a strictly increasing curve per label, shrunk towards a curve shared by all labels."""

from __future__ import annotations

from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from manyhot.calibrate.partial_pooling import Cells, Maps, fit_maps, in_row_blocks
from manyhot.calibrate.scaling import LabelCalibrator, PlattScaling
from manyhot.links import Link
from manyhot.numerics import softplus
from manyhot.sorting import row_blocks

# Prior strengths tried by cross-validation: the information at which a curve gets a weight of 1/2. Infinity is never.
PRIOR_STRENGTHS = (10.0, 30.0, 100.0, 300.0, 1e3, 3e3, 1e4, torch.inf)
AFFINE = PlattScaling.family


class UnshrunkFit(NamedTuple):
    """The fit to some cells before shrinkage.

    Attributes:
        maps: Affine maps.
        shared: One curve through the cells of all labels.
        own: A curve through the cells of each label.
        information: (K,), about the number of undecided cells of each label.
    """

    maps: Maps
    shared: MonotoneCurves
    own: MonotoneCurves
    information: Tensor


class IsotonicCalibration(LabelCalibrator):
    """Any increasing curve: for plenty of held-out data, where the errors of calibration themselves must be least.

    An affine map comes first, then a monotone curve that corrects it: the isotonic regression of the targets, with
    straight lines in log-odds between the centres of its blocks, so that no two scores become equal; they are steep
    between blocks of many cells, whose rates are precise, so that steps and tied scores keep theirs. With `sharing`
    "partial", all labels share a curve, towards which the curve of each label is shrunk; the strength of this shrinkage
    is chosen by cross-validation inside `fit`.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; probabilities (N, K).

    Args:
        sharing: "all" (one curve for all labels), "none" (one for each; overfits below some hundred present cells per
            label) or "partial" (one for each, shrunk towards the shared one).
        link: What the scores already mean; without one the scores themselves are the starting point.

    Attributes:
        slopes: (1, K), or (1, 1) with `sharing` "all": the affine map.
        intercept: (K,), or (1,).
        shared_curve: (2, 1, M), positions and values of the knots of the curve that labels share.
        own_curves: (2, K, M), the same for each label.
        own_trust: (K,), the weight of each label's own curve; the shared one has the rest.

    Reference: Zadrozny and Elkan, Transforming Classifier Scores into Accurate Multiclass Probability Estimates, KDD
        2002; Oron and Flournoy, Centered Isotonic Regression, 2017. Blocks in which all cells agree get half a cell
        that disagrees.

    Example:
        >>> scores = torch.linspace(-3, 3, 400).unsqueeze(1)
        >>> targets = (torch.arange(400) % 4 < 2 + scores[:, 0].sign()).int().unsqueeze(1)   # 1 in 4, then 3 in 4
        >>> mh.IsotonicCalibration(sharing="all").fit(scores, targets)(torch.tensor([[-1.5], [0.0], [1.5]])).flatten()
        tensor([0.2500, 0.5000, 0.7500])
    """

    family = AFFINE

    def __init__(self, link: Link | None = None, *, sharing: str = "partial") -> None:
        super().__init__(link, sharing=sharing)
        self.shared_curve: Tensor = nn.Buffer(torch.zeros(2, 0, 0, dtype=torch.float64))
        self.own_curves: Tensor = nn.Buffer(torch.zeros(2, 0, 0, dtype=torch.float64))
        self.own_trust: Tensor = nn.Buffer(torch.zeros(0, dtype=torch.float64))

    def fit_cells(self, input_log_odds: Tensor, targets: Tensor, weights: Tensor) -> Self:
        """Fits the affine maps and the curves."""
        cells = Cells(input_log_odds, targets, weights)
        maps, shared, own, information = fit_unshrunk(cells, self.sharing)
        if self.sharing == "partial":
            strength, own_strength = choose_prior_strengths(cells)
        else:
            strength, own_strength = (0.0, torch.inf) if self.sharing == "all" else (torch.inf, 0.0)
        # Between its knots the curve half way to a straight line is straight as well.
        values = torch.lerp(shared.positions, shared.values, shrinkage_weight(information.sum(), strength))
        return self.learn(
            slopes=maps.slopes,
            intercept=maps.intercept,
            shared_curve=torch.stack([shared.positions, values]),
            own_curves=torch.stack(own),
            own_trust=shrinkage_weight(information, own_strength),
        )

    def map(self, input_log_odds: Tensor) -> Tensor:
        """Calibrated log-odds of input log-odds (N, K)."""
        straight = self.family.apply(self.slopes, self.intercept, input_log_odds)
        bent = MonotoneCurves(*self.shared_curve).apply(straight)
        if self.sharing == "all":
            return bent
        return torch.lerp(bent, MonotoneCurves(*self.own_curves).apply(straight), self.own_trust)


def shrinkage_weight(information: Tensor, prior_strength: float) -> Tensor:
    """The weight of a curve, information / (information + strength)."""
    return 1 / (1 + prior_strength / information.clamp(min=torch.finfo(information.dtype).tiny))


def fit_unshrunk(cells: Cells, sharing: str) -> UnshrunkFit:
    """Affine maps, and those curves through the cells that `sharing` asks for; the others are straight."""
    maps = fit_maps(AFFINE, cells, sharing)
    straight = cells._replace(input_log_odds=AFFINE.apply(maps.slopes, maps.intercept, cells.input_log_odds))
    information = cells.input_log_odds.new_zeros(cells.num_labels)
    for log_odds, _, weights in straight.blocks():
        probs = torch.sigmoid(log_odds)
        information += (weights * probs * (1 - probs)).sum(0)
    nothing = Cells(*(part[:0] for part in straight))
    shared = fit_curves((nothing if sharing == "none" else straight).pooled())
    return UnshrunkFit(maps, shared, fit_curves(nothing if sharing == "all" else straight), information)


def fit_curves(cells: Cells) -> MonotoneCurves:
    """The isotonic regression of each column as a strictly increasing curve, on the device of the cells."""
    curves = curves_through(smoothed(pooled_blocks(cells)), cells.num_labels)
    return MonotoneCurves(*(knots.to(cells.input_log_odds.device) for knots in curves))


def choose_prior_strengths(cells: Cells) -> tuple[float, float]:
    """The prior strengths of the shared curve and of those of labels, by two-fold cross-validation of the log loss."""
    share = half_of_rows(cells)
    halves = [cells.weighted(half) for half in (share, 1 - share)]
    folds = [(fit_unshrunk(train_cells, "partial"), test_cells) for train_cells, test_cells in (halves, halves[::-1])]
    shared = best_prior_strengths(folds, [(strength, torch.inf) for strength in PRIOR_STRENGTHS])[0]
    return best_prior_strengths(folds, [(shared, strength) for strength in PRIOR_STRENGTHS])


def best_prior_strengths(
    folds: list[tuple[UnshrunkFit, Cells]], pairs: list[tuple[float, float]]
) -> tuple[float, float]:
    """The pair of strengths, for the shared and for own curves, with the least log loss on the other cells."""
    losses = torch.zeros(len(pairs), dtype=torch.float64, device=folds[0][1].input_log_odds.device)
    for (maps, shared, own, information), cells in folds:
        for input_log_odds, targets, weights in cells.blocks():
            straight = AFFINE.apply(maps.slopes, maps.intercept, input_log_odds)
            bent, free = shared.apply(straight), own.apply(straight)
            for i, (strength, own_strength) in enumerate(pairs):
                log_odds = torch.lerp(straight, bent, shrinkage_weight(information.sum(), strength))
                log_odds = torch.lerp(log_odds, free, shrinkage_weight(information, own_strength))
                losses[i] += (weights * (softplus(log_odds) - targets * log_odds)).sum()
    # Of pairs that differ by rounding alone, the one that shrinks the curves most.
    good = losses <= losses.min() * (1 + 1e-9)
    return [pair for pair, is_good in zip(pairs, good.tolist(), strict=True) if is_good][-1]


def half_of_rows(cells: Cells) -> Tensor:
    """The share of each row in a half that is drawn at random, (N,).

    It does not depend on the order of rows or labels, nor on cells without weight. A row is in the half or not. Equal
    rows have the same share: m of them differ from m / 2 by as much as m draws do. Input log-odds are rounded first, so
    that their last digits do not matter.
    """
    keys = [
        torch.where(weights > 0, hashed(input_log_odds.float().view(torch.int32).long() * 2 + targets.long()), 0).sum(1)
        for input_log_odds, targets, weights in cells.blocks()
    ]
    key, row, count = torch.unique(hashed(torch.cat(keys)), return_inverse=True, return_counts=True)
    side = torch.where(key % 2 == 0, 1.0, -1.0).double()
    share: Tensor = (1 + side / count.double().sqrt()) / 2
    return share[row]


def hashed(numbers: Tensor) -> Tensor:
    """Whole numbers below 2^31 that look random, the same for the same number."""
    for _ in range(2):
        numbers = (numbers ^ (numbers >> 16)) * 0x45D9F3B & 0x7FFFFFFF
    return numbers ^ (numbers >> 16)


# Information, about the number of undecided cells, up to which a block is no sign that the curve is flat in it.
MIN_INFORMATION = 8.0
# Knots of a curve in each block.
KNOTS_PER_BLOCK = 3
# Rates that differ by less are the same: what separates them is rounding.
RATE_TOLERANCE = 1e-12
# How many cells are sorted at a time.
CELLS_AT_ONCE = 1 << 21
# The grid on which a column of more cells than that is binned first: its range of log-odds, and its bins per unit.
GRID_RANGE, GRID_RESOLUTION = 64, 1024


class Blocks(NamedTuple):
    """Neighbouring cells of one label that share a rate; sorted by label, then by input log-odds. All (B,), on the CPU.

    Attributes:
        label: Column that the block belongs to.
        weight: Total weight of its cells.
        present: Weight of those in which the label is present.
        moment: Sum of weight times input log-odds.
        first: The lowest input log-odds of its cells.
        last: The highest.
    """

    label: Tensor
    weight: Tensor
    present: Tensor
    moment: Tensor
    first: Tensor
    last: Tensor

    @property
    def rate(self) -> Tensor:
        """Share of present cells."""
        return self.present / self.weight

    @property
    def centre(self) -> Tensor:
        """Mean input log-odds of the cells."""
        return self.moment / self.weight

    def follows(self) -> Tensor:
        """Whether a block of the same label lies before each, (B,)."""
        same = self.label == self.label.roll(1)
        same[:1] = False
        return same

    def merged(self, with_previous: Tensor) -> Blocks:
        """The blocks after joining those that are marked to the one before."""
        group = (~with_previous).cumsum(0) - 1
        label, ends = self.label[~with_previous], ~with_previous.roll(-1)
        ends[-1:] = True
        # On the CPU these sums are taken in order, so that the same cells always give the same blocks.
        weight, present, moment = (
            torch.zeros(len(label), dtype=part.dtype).index_add_(0, group, part) for part in self[1:4]
        )
        return Blocks(label, weight, present, moment, self.first[~with_previous], self.last[ends])


def pooled_blocks(cells: Cells) -> Blocks:
    """The blocks of the weighted isotonic regression of targets on input log-odds, label by label.

    Rates rise strictly from block to block of a label.
    """
    if cells.num_labels == 1 and len(cells.input_log_odds) > CELLS_AT_ONCE:
        cells = bin_cells(cells)
    columns = row_blocks((cells.num_labels, len(cells.input_log_odds)), CELLS_AT_ONCE)
    parts = [_blocks_of_columns(Cells(*(part[:, some] for part in cells)), some.start) for some in columns]
    return Blocks(*(torch.cat(quantity) for quantity in zip(*parts, strict=True)))


def _blocks_of_columns(cells: Cells, first: int) -> Blocks:
    position, order = cells.input_log_odds.T.sort(dim=1)
    weight = cells.weights.T.gather(1, order)
    present = cells.targets.T.gather(1, order).mul_(weight)
    del order
    label = torch.arange(first, first + cells.num_labels, dtype=torch.int32).unsqueeze(1).expand(position.shape)
    label, weight, present, position = (part.cpu().flatten() for part in (label, weight, present, position))
    counted = weight > 0
    if not bool(counted.all()):
        label, weight, present, position = (part[counted] for part in (label, weight, present, position))
    tied = position == position.roll(1)
    blocks = Blocks(label, weight, present, position * weight, first=position, last=position)
    return pool_violators(blocks.merged(tied & blocks.follows()))


def bin_cells(cells: Cells) -> Cells:
    """One long column binned on a fine grid: a cell per bin, with the total weight of the cells in it."""
    bins = 2 * GRID_RANGE * GRID_RESOLUTION
    sums = torch.zeros(3, bins, dtype=torch.float64)
    for input_log_odds, targets, weights in cells.blocks():
        position, present, weight = (part.flatten().cpu() for part in (input_log_odds, targets * weights, weights))
        index = ((position + GRID_RANGE) * GRID_RESOLUTION).long().clamp(0, bins - 1)
        sums.index_add_(1, index, torch.stack([weight, present, weight * position]))
    weight, present, moment = sums[:, sums[0] > 0]
    result = Cells(*(part.unsqueeze(1) for part in (moment / weight, present / weight, weight)))
    return Cells(*(part.to(cells.input_log_odds.device) for part in result))


def pool_violators(blocks: Blocks) -> Blocks:
    """Joins neighbours until the rates of each label rise: whole falling runs at a time, as any order will do."""
    while True:
        rate = blocks.rate
        violates = blocks.follows() & (rate <= rate.roll(1) + RATE_TOLERANCE)
        if not bool(violates.any()):
            return blocks
        blocks = blocks.merged(violates)


def smoothed(blocks: Blocks) -> Blocks:
    """The same without rates of 0 and 1, which only ends of a label have: one more cell, half of it against them."""
    certain = ((blocks.present <= 0) | (blocks.present >= blocks.weight)).to(blocks.weight.dtype)
    weight, present = blocks.weight + certain, blocks.present + certain / 2
    moment = blocks.moment + certain * blocks.centre
    return pool_violators(blocks._replace(weight=weight, present=present, moment=moment))


class MonotoneCurves(NamedTuple):
    """Increasing curves through knots (positions and values, both (K, M)): linear between them, of slope 1 outside."""

    positions: Tensor
    values: Tensor

    def apply(self, input_log_odds: Tensor) -> Tensor:
        """Values (N, K) at input log-odds (N, K); a single curve serves all columns."""
        positions, values = (knots.expand(input_log_odds.shape[1], -1).contiguous() for knots in self)
        parts = []
        for (part,) in in_row_blocks(input_log_odds):
            columns = part.T.contiguous()
            after = search_sorted(positions, columns).clamp(1, positions.shape[1] - 1)
            left, low = positions.gather(1, after - 1), values.gather(1, after - 1)
            width, rise = positions.gather(1, after) - left, values.gather(1, after) - low
            # Two knots can be so close that they are equal after rounding.
            parts.append((low + (columns - left) * torch.where(width > 0, rise / width, 0.0)).T)
        return torch.cat(parts)


def search_sorted(positions: Tensor, values: Tensor) -> Tensor:
    """`torch.searchsorted`: in each row of positions (K, M), the number of those below each of the values (K, N)."""
    if not torch.compiler.is_exporting():
        return torch.searchsorted(positions, values)
    # A graph has no operation that searches: halve the step to the last position below.
    below, last = torch.zeros_like(values, dtype=torch.int64), positions.shape[1]
    for step in (1 << power for power in reversed(range(last.bit_length()))):
        trial = (below + step).clamp(max=last)
        below = torch.where(positions.gather(1, trial - 1) < values, trial, below)
    return below


def curves_through(blocks: Blocks, labels: int) -> MonotoneCurves:
    """Curves through the centres of the blocks, at the log-odds of their rates; straight for a label without blocks.

    Towards the centres of its neighbours a curve rises along a straight line, so that it rises strictly, but inside
    of a block of many cells by no more than half the standard error of its log-odds on each side: had they risen by
    much more, the cells would not have been pooled. What is left is a step to the next block, as wide as the gap
    between their cells.

    Reference: Oron and Flournoy, Centered Isotonic Regression, Statistics in Biopharmaceutical Research 2017; here
        along log-odds, with slope 1 instead of 0 outside, and with steps between blocks with precise rates.
    """
    counts = torch.bincount(blocks.label, minlength=labels)
    max_knots = KNOTS_PER_BLOCK * int(counts.max()) if labels else 0
    # One knot before the first and at least one behind the last lie at a slope of 1, with which the curve goes on.
    steps = torch.arange(-1, max_knots + 1).expand(labels, -1)
    nearest = steps.minimum(KNOTS_PER_BLOCK * counts.unsqueeze(1) - 1).clamp(min=0)
    beyond = (steps - nearest).double()
    if max_knots == 0:
        return MonotoneCurves(beyond, beyond)
    positions, values = knots_of(blocks)
    source = (KNOTS_PER_BLOCK * (counts.cumsum(0) - counts).unsqueeze(1) + nearest).clamp(max=len(positions) - 1)
    known = (counts > 0).unsqueeze(1)
    return MonotoneCurves(*(torch.where(known, knots[source], 0.0) + beyond for knots in (positions, values)))


def knots_of(blocks: Blocks) -> tuple[Tensor, Tensor]:
    """Places and values of the knots at the start, the centre and the end of each block, both (3 B,)."""
    centre, log_odds = blocks.centre.clamp(blocks.first, blocks.last), torch.logit(blocks.rate)
    error = 0.5 * (blocks.present * (1 - blocks.rate) - MIN_INFORMATION).clamp(min=0).rsqrt()
    follows = blocks.follows()
    distance = torch.where(follows, centre - centre.roll(1), 1.0)
    slope = torch.where(follows, (log_odds - log_odds.roll(1)) / distance, 1.0)
    next_slope = slope.roll(-1)
    next_slope[~follows.roll(-1)] = 1.0
    low = log_odds - error.minimum(slope * (centre - blocks.first))
    high = log_odds + error.minimum(next_slope * (blocks.last - centre))
    positions, values = ((blocks.first, centre, blocks.last), (low, log_odds, high))
    return torch.stack(positions, 1).flatten(), torch.stack(values, 1).flatten()
