"""Learning from one split and applying to all: what `calibrate` and `decide` share."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhot.cli.options import Kind, bar, open_table
from manyhot.constructors import construct, public_classes
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from rich.console import Console
    from torch import Tensor

    from manyhot.predictions import Predictions
    from manyhot.predictions.table import Table


def build_or_load(text: str, base: type, *, argument: str, owner: str) -> Any:
    """A calibrator or a rule: read from a JSON file if the text names one, otherwise built from the text."""
    from manyhot.state import ExactState

    if text.endswith(".json"):
        module = read_module(text, argument, owner)
    else:
        wanted = {name: kind for name, kind in public_classes(base).items() if kind is not base}
        others = {name: kind for name, kind in public_classes(ExactState).items() if name not in wanted}
        module = construct(text, wanted | others, argument=argument, owner=owner, advice=list(wanted))
    if not isinstance(module, base):
        remedy = f"Pass for example a {base.__name__.lower()} that manyhot.save wrote."
        raise refusal(argument, owner, f"be a {base.__name__.lower()}", type(module).__name__, remedy)
    return module


def read_module(path: str, argument: str, owner: str) -> Any:
    """What `manyhot.save` wrote."""
    import manyhot

    remedy = "Pass a file that --save or manyhot.save wrote."
    if not Path(path).is_file():
        raise refusal(argument, owner, "be a file that is there", repr(path), remedy)
    return manyhot.load(path)


def open_fit_table(path: str, kind: Kind | None, targets: Path | None, tell: Console) -> Table:
    """The table of --fit-table; targets that go row by row cannot be those of two tables."""
    from manyhot.predictions.forms import is_archive

    if targets is not None and is_archive(targets):
        remedy = "Put them into each table with `manyhot import --targets` first."
        raise refusal("--targets", "manyhot", "have ids where there is a --fit-table", repr(str(targets)), remedy)
    return open_table(path, kind, targets, tell)


def table_to_fit(table: Table, fit_on: str | None, other: Table | None, *, owner: str) -> Table:
    """The rows to learn from: those of a split, or another table with the same labels."""
    if (fit_on is None) == (other is None):
        got = "neither" if fit_on is None else "both"
        remedy = f"Name a split that is not judged later; this table has {splits_in_words(table)}."
        if not table.split_sizes():
            remedy = "This table has no splits: add a column `split`, or pass --fit-table."
        raise refusal("--fit-on or --fit-table", owner, "name the rows to learn from", got, remedy)
    if other is not None:
        if other.labels.names != table.labels.names:
            remedy = "Pass a table of the same model."
            got = f"{len(other.labels)} labels, {len(table.labels)} in PREDICTIONS"
            raise refusal("--fit-table", owner, "have the labels of PREDICTIONS in the same order", got, remedy)
        return other
    assert fit_on is not None
    if not table.split_sizes():
        remedy = "Add a column `split`, or name the rows to learn from with --fit-table."
        raise refusal("--fit-on", owner, "name a split of the table, which has none", repr(fit_on), remedy)
    return table.of_split(fit_on)


def splits_in_words(table: Table) -> str:
    """The splits of a table with their sizes."""
    sizes = table.split_sizes()
    return ", ".join(f"{name!r} ({rows:,} rows)" for name, rows in sizes.items()) or "no splits"


def collect(table: Table, read: Callable[[Predictions], Any], *, at_most: int, seed: int) -> tuple[Any, Any]:
    """Values and targets of a table, of `at_most` rows drawn by `seed`; targets are None where there are none."""
    import torch

    from manyhot.decide.rule import Unclipped

    if not len(table):
        raise refusal("rows to learn from", "manyhot", "be there", "an empty table", "Name a split with rows.")
    drawn = torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))[:at_most].sort().values
    values, targets, start = [], [], 0
    for part in table.batches():
        inside = drawn[(drawn >= start) & (drawn < start + len(part))] - start
        start += len(part)
        values.append(read(part)[inside])
        if part.targets is not None:
            targets.append(part.targets[inside])
    joined = torch.cat([part.values if isinstance(part, Unclipped) else part for part in values])
    return Unclipped(joined) if isinstance(values[0], Unclipped) else joined, torch.cat(targets) if targets else None


def rewrite(
    table: Table, path: Path, change: Callable[[Predictions], Predictions], text: str, tell: Console
) -> Iterator[tuple[Predictions, Predictions]]:
    """Writes a table with changed columns, batch by batch; yields each batch before and after."""
    from manyhot.predictions import PredictionsWriter

    with PredictionsWriter(path, table.labels) as writer:
        for part in bar(table.batches(), len(table), text, tell):
            changed = change(part)
            writer.write(changed)
            yield part, changed


@dataclass(frozen=True)
class Lesson:
    """Which rows of a table are learnt from, and which are left to judge what was learnt.

    Attributes:
        owner: The command, for errors.
        table: The table that is written anew.
        path: Where it lies.
        fit_on: The split to learn from, or None.
        fit_table: Another table to learn from, or None.
        kind: What the numbers of tables from elsewhere are.
        targets: The file of true labels, or None.
        tell: Where people are told what happens.
    """

    owner: str
    table: Table
    path: str
    fit_on: str | None
    fit_table: str | None
    kind: Kind | None
    targets: Path | None
    tell: Console

    def rows(self, read: Callable[[Predictions], Any], *, at_most: int, seed: int) -> tuple[Any, Any]:
        """Values and targets to learn from, of `at_most` rows drawn by `seed`."""
        other = open_fit_table(self.fit_table, self.kind, self.targets, self.tell) if self.fit_table else None
        source = table_to_fit(self.table, self.fit_on, other, owner=self.owner)
        return collect(source, read, at_most=at_most, seed=seed)

    @cached_property
    def from_all(self) -> bool:
        """Whether every row is one that was learnt from, so that none can be judged; says so."""
        same = self.fit_table is not None and os.path.exists(self.path) and os.path.samefile(self.path, self.fit_table)
        every = same or (self.fit_on is not None and set(self.table.split_sizes()) == {self.fit_on})
        if every and "targets" in self.table.kinds:
            self.tell.print("No row is judged, because all of them are among those to learn from.")
        return every

    @cached_property
    def judged(self) -> str | None:
        """The split that `evaluate` judges by default."""
        from manyhot.evaluation.judging import judged_split

        return judged_split(self.table)

    def rows_to_judge(self, part: Predictions) -> Tensor:
        """(N,) bool, the rows that `evaluate` judges by default, or those that were not learnt from."""
        import torch

        if self.from_all or part.splits is None:
            return torch.full((len(part),), not self.from_all)
        if self.judged is None or self.judged == self.fit_on:
            return torch.tensor([split != self.fit_on for split in part.splits], dtype=torch.bool)
        return torch.tensor([split == self.judged for split in part.splits], dtype=torch.bool)
