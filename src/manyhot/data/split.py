"""Stratified splits: every label keeps its rate, the rarest ones too."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import numpy as np

from manyhot.checks import Array, check_number
from manyhot.data.targets import SparseTargets
from manyhot.errors import InputError


def stratified_split(
    targets: SparseTargets,
    shares: Mapping[str, float],
    *,
    seed: int = 0,
    groups: Iterable[Hashable] | None = None,
) -> Array:
    """Deals rows out to splits so that each label, and having none, is as frequent in every split as in all rows.

    Rows are dealt in the order of their rarest label, those with the same labels one after the other, each to the split
    that is furthest behind with what the row has. No label ends up more than about one row off its share, and the
    splits have exactly the sizes that were asked for. It is iterative stratification that balances all labels of a row
    at once, common ones from the start, and stays fast for millions of rows.

    Args:
        targets: (N, K). Cells that are known to be absent among unknown ones are spread evenly, too.
        shares: The share of each split by its name, together 1.
        seed: Of the order among rows with the same labels.
        groups: (N,) what each row belongs to, such as a patient or a set of duplicates. Rows of one group stay
            together; sizes and rates are then met as far as the groups allow.

    Returns:
        (N,) the name of each row's split.

    Reference: the problem and the rarest-first order: Sechidis, Tsoumakas and Vlahavas, On the Stratification of
        Multi-Label Data, ECML PKDD 2011.

    Example:
        >>> targets = SparseTargets.from_rows([[0], [0], [1], [1], [], []], num_labels=2)
        >>> splits = stratified_split(targets, {"train": 0.5, "val": 0.5})
        >>> targets.take((splits == "val").nonzero()[0]).counts()
        array([1, 1])
    """
    owner, hint = "stratified_split", 'Pass {"train": 0.8, "val": 0.1, "test": 0.1}, for instance.'
    parts = [check_number("shares", owner, share, "(0, 1]") for share in shares.values()]
    if abs(sum(parts) - 1) > 1e-6:
        raise InputError("shares", owner, "add up to 1", f"{sum(parts):g}", hint)
    traits, totals = _traits(targets)
    units = [_Unit(has, 1, row) for row, has in enumerate(traits)] if groups is None else _group_rows(traits, groups)
    # Large groups first, because small ones can make up for them; then by traits, the rarest first.
    keys = [(-unit.size.bit_length(), unit.traits) for unit in units]
    shuffled = np.random.default_rng(seed).permutation(len(units)).tolist()
    assigner = _SplitAssigner(parts, _split_sizes(len(targets), parts).tolist(), totals)
    result = np.empty(len(targets), dtype=np.int64)
    for _, run in groupby(sorted(shuffled, key=keys.__getitem__), key=keys.__getitem__):
        equal = list(run)
        for index, split in zip(equal, assigner.assign(units[equal[0]], len(equal)), strict=True):
            result[units[index].rows] = split
    return np.array(list(shares), dtype=object)[result]


class _Unit(NamedTuple):
    """Rows that stay together.

    Attributes:
        traits: What the rows have, rarest first; what two of them have is there twice.
        size: Number of rows.
        rows: Which ones.
    """

    traits: tuple[int, ...]
    size: int
    rows: Any


class _SplitAssigner:
    """Hands units to splits, each to the one that lacks most of what the unit has.

    Args:
        shares: Of each split.
        sizes: Of each split, in rows.
        totals: How often each trait occurs; a row of it is worth the more the fewer there are.
    """

    def __init__(self, shares: Sequence[float], sizes: Sequence[int], totals: Sequence[int]) -> None:
        self.shares, self.capacity = shares, list(sizes)
        self.worth = [max(total, 1) ** -0.25 for total in totals]
        # By trait, in units of its worth: how much was handed out, and how much of that to each split.
        self.total_assigned = [0.0] * len(totals)
        self.assigned = [[0.0] * len(totals) for _ in shares]

    def assign(self, unit: _Unit, number: int) -> list[int]:
        """The splits of so many units that do not differ: most of them by share, what is left over one by one."""
        result: list[int] = []
        for split, share in enumerate(self.shares if number > 1 else ()):
            some = min(math.floor(number * share + 1e-9), self.capacity[split] // unit.size)
            result += self._assign(unit, split, some)
        while len(result) < number:
            result += self._assign(unit, self._choose(unit), 1)
        return result

    def _choose(self, unit: _Unit) -> int:
        """The split that would be furthest behind its share of what the unit has, were the unit handed to none."""
        before, worth = (sum(map(amounts.__getitem__, unit.traits)) for amounts in (self.total_assigned, self.worth))
        deficits = {
            split: share * (before + worth) - sum(map(self.assigned[split].__getitem__, unit.traits))
            for split, share in enumerate(self.shares)
            if self.capacity[split] >= unit.size
        }
        # A group that fits into no split goes into the one with the most space.
        return max(deficits, key=deficits.__getitem__) if deficits else int(np.argmax(self.capacity))

    def _assign(self, unit: _Unit, split: int, number: int) -> list[int]:
        """Hands so many units to a split; returns the split of each."""
        self.capacity[split] -= number * unit.size
        total_assigned, assigned, worth = self.total_assigned, self.assigned[split], self.worth
        for trait in unit.traits:
            amount = number * worth[trait]
            total_assigned[trait] += amount
            assigned[trait] += amount
        return [split] * number


def _split_sizes(n: int, shares: Sequence[float]) -> Array:
    """Whole numbers that add up to `n`, each within one of its share: the largest remainders are rounded up."""
    exact = np.array(shares) * n
    sizes = np.floor(exact + 1e-9).astype(np.int64)
    sizes[np.argsort(sizes - exact, kind="stable")[: n - sizes.sum()]] += 1
    return sizes


def _traits(targets: SparseTargets) -> tuple[list[tuple[int, ...]], list[int]]:
    """What each row has, rarest first, and how often each trait occurs.

    Traits are: a label is present; it is known to be absent where most are unknown, or the reverse; no label is
    present; and being a row at all, which keeps the sizes in step.
    """
    n, num_labels = targets.shape
    rows, columns, values = targets.cells()
    informative = values != targets.background[columns]
    rows, columns = rows[informative], columns[informative] + num_labels * (values[informative] != 1)
    empty = np.flatnonzero(targets.sizes() == 0)
    rows = np.concatenate([rows, empty, np.arange(n)])
    columns = np.concatenate([columns, np.full(len(empty), 2 * num_labels), np.full(n, 2 * num_labels + 1)])
    counts = np.bincount(columns, minlength=2 * num_labels + 2)
    order = np.argsort(counts, kind="stable")
    # As cells of a table whose columns are the ranks of the traits, which sorts them in each row.
    traits = SparseTargets.from_cells(rows, np.argsort(order)[columns], shape=(n, len(order)))
    ranks = traits.columns.tolist()
    return [tuple(ranks[start:end]) for start, end in pairwise(traits.starts.tolist())], counts[order].tolist()


def _group_rows(traits: list[tuple[int, ...]], groups: Iterable[Hashable]) -> list[_Unit]:
    members: dict[Hashable, list[int]] = {}
    for row, group in enumerate(groups.tolist() if isinstance(groups, np.ndarray) else groups):
        members.setdefault(group, []).append(row)
    count = sum(map(len, members.values()))
    if count != len(traits):
        rule = f"name a group for each of the {len(traits)} rows"
        raise InputError("groups", "stratified_split", rule, str(count), "Pass one value a row.")
    return [
        _Unit(tuple(sorted(trait for row in rows for trait in traits[row])), len(rows), rows)
        for rows in members.values()
    ]
