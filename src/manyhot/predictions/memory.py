"""The table in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor

from manyhot.calibrate.calibrator import Calibrator
from manyhot.checks import check_count, check_split
from manyhot.decide.rule import Rule, Unclipped, rule_values
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.predictions import columns as checked
from manyhot.predictions.narrowing import columns_of, narrow_link, needs_all_labels
from manyhot.predictions.table import KINDS, Table, own_labels
from manyhot.predictions.texts import Texts
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from manyhot.predictions.stored import StoredPredictions

MADE_BY = ("link", "calibrator", "rule")


class Predictions(Table):
    """What a model said about a set of samples, with targets and decisions where there are any.

    Training ends in such a table; evaluation, calibration, rules, search and the report start from one. It takes
    tensors and arrays, and never guesses whether numbers are scores or probabilities: you say so by name.

    Args:
        scores: (N, K), any real numbers. Scores, probabilities or both must be given.
        probs: (N, K), in [0, 1]; or the list of K arrays (N, 2) that `predict_proba` of scikit-learn gives.
        targets: (N, K): 1 present, 0 absent, -1 unknown; kept as int8. Also a sparse matrix, of which cells that are
            not stored are absent, or a list of label names for each row, also as a series of pandas or polars.
        decisions: (N, K) bool, or the `Decision` of a rule.
        abstain: (N,) bool, true where the rule gave no answer.
        labels: K names, or `Labels`; "0", "1", "2" and so on by default.
        ids: N texts or whole numbers, all different; the row numbers by default.
        paths: N texts, where each sample lies.
        splits: N texts, such as "val" and "test"; or one text for all rows.
        link: What the scores mean.
        calibrator: What gave the probabilities; left out if a link did.
        rule: What gave the decisions.

    Example:
        >>> scores = torch.tensor([[2.0, -1.0], [0.0, 1.0]])
        >>> table = Predictions(scores=scores, targets=[["cat"], []], labels=["cat", "dog"], link=mh.SigmoidLink())
        >>> table
        Predictions(2 rows x 2 labels; scores, targets; link SigmoidLink)
        >>> table.probabilities()
        tensor([[0.8808, 0.2689],
                [0.5000, 0.7311]])
    """

    scores: Tensor | None
    probs: Tensor | None
    targets: Tensor | None
    decisions: Tensor | None
    abstain: Tensor | None
    # Why samples that were asked for are not among the rows, by name.
    unreadable: dict[str, str]

    def __init__(
        self,
        *,
        scores: Any = None,
        probs: Any = None,
        targets: Any = None,
        decisions: Any = None,
        abstain: Any = None,
        labels: Sequence[str] | Labels | None = None,
        ids: Any = None,
        paths: Any = None,
        splits: Any = None,
        link: Link | None = None,
        calibrator: Calibrator | None = None,
        rule: Rule | None = None,
    ) -> None:
        self.scores, self.probs = checked.values(scores, probs)
        cells = self.scores if self.scores is not None else self.probs
        assert cells is not None
        self.labels = checked.labels(labels, cells.shape[1])
        self.targets = checked.targets(targets, cells, self.labels, of="probs" if self.scores is None else "scores")
        self.decisions, self.abstain = checked.decisions(decisions, abstain, cells)
        self._ids = checked.ids(ids, len(cells))
        self._paths = checked.texts("paths", paths, len(cells))
        self._splits = checked.texts("splits", [splits] * len(cells) if isinstance(splits, str) else splits, len(cells))
        self.link, self.calibrator, self.rule = checked.made_by(link, calibrator, rule)
        self.kinds = tuple(kind for kind in KINDS if getattr(self, kind) is not None)
        self.notes, self.unreadable = [], {}

    @classmethod
    def trusted(cls, labels: Labels, rows: dict[str, Any], made_by: dict[str, Any]) -> Self:
        """A table of columns that have been checked already.

        Args:
            labels: The names of the labels.
            rows: Tensors by kind, `abstain`, and `Texts` of ids, paths and splits; what is left out is not there.
            made_by: Link, calibrator and rule.
        """
        table = cls.__new__(cls)
        table.labels, table.notes, table.unreadable = labels, [], {}
        for name in (*KINDS, "abstain"):
            setattr(table, name, rows.get(name))
        table._ids, table._paths, table._splits = rows["ids"], rows.get("paths"), rows.get("splits")
        table.link, table.calibrator, table.rule = (made_by.get(name) for name in MADE_BY)
        table.kinds = tuple(kind for kind in KINDS if rows.get(kind) is not None)
        return table

    @staticmethod
    def open(
        path: str | os.PathLike[str], *, classes: Iterable[type[Link] | type[Calibrator] | type[Rule]] = ()
    ) -> StoredPredictions:
        """Opens a table on disk without reading its rows; see `open_predictions`."""
        from manyhot.predictions.stored import open_predictions

        return open_predictions(path, classes=classes)

    def __len__(self) -> int:
        return len(self._ids)

    @property
    def ids(self) -> list[str]:
        """One text a row; the row numbers if none were given."""
        return self._ids.tolist()

    @property
    def paths(self) -> list[str] | None:
        """Where each sample lies, or None."""
        return None if self._paths is None else self._paths.tolist()

    @property
    def splits(self) -> list[str] | None:
        """The split of each row, or None."""
        return None if self._splits is None else self._splits.tolist()

    def probabilities(self) -> Tensor:
        """(N, K): `probs` where they are there, else what the calibrator or the link makes of the scores."""
        if self.probs is not None:
            return self.probs
        if self.scores is None or (self.link is None and self.calibrator is None):
            remedy = "Fit a calibrator on held-out scores and targets, and pass `replace(probs=calibrator(scores))`."
            got = "neither probabilities nor scores" if self.scores is None else "scores without a link"
            raise refusal("probs", "Predictions", "be there or follow from a link", got, remedy)
        with torch.no_grad():
            if self.calibrator is not None:
                return self.calibrator(self.scores, kind="scores")  # type: ignore[no-any-return]
            assert self.link is not None
            return self.link.probs(self.scores)

    def rule_values(self) -> Tensor | Unclipped:
        """What to give to rules: `probabilities()`, before they were cut off at 1 where the link does so."""
        return rule_values(self.probabilities(), self.scores, self.link)

    def replace(self, **columns: Any) -> Predictions:
        """A table with other columns, named like the arguments of the constructor; None removes one.

        New `probs` leave out the calibrator and new `decisions` the rule and `abstain`, unless these are given with
        them: they would speak of columns that are gone.

        Example:
            >>> table = Predictions(scores=torch.tensor([[0.0, 2.0]]), link=mh.SigmoidLink())
            >>> table.replace(probs=table.probabilities()).kinds
            ('scores', 'probs')
        """
        now: dict[str, Any] = {name: getattr(self, name) for name in ("labels", *MADE_BY)}
        now |= self.columns()
        for name in columns:
            if name not in now:
                rule = f"be among {', '.join(now)}"
                raise refusal("columns", "Predictions.replace", rule, repr(name), "Spell it as in the constructor.")
        if "probs" in columns:
            now["calibrator"] = None
        if "decisions" in columns:
            now["rule"] = now["abstain"] = None
        return Predictions(**(now | columns))

    def take(self, rows: Any) -> Predictions:
        """The rows of these numbers in their order, or those where a mask is true.

        Args:
            rows: (n,) whole numbers from 0 to N - 1, or (N,) bool.
        """
        index = checked.row_numbers(rows, len(self))
        places = torch.from_numpy(index)
        columns = {
            name: column.take(index) if isinstance(column, Texts) else column[places.to(column.device)]
            for name, column in self.columns().items()
            if column is not None
        }
        return self.trusted(self.labels, columns, self._made_by())

    def slice(self, start: int, stop: int) -> Predictions:
        """The rows from `start` to before `stop`, sharing the memory of the table."""
        stop = min(stop, len(self))
        pieces = {
            name: column.slice(start, stop) if isinstance(column, Texts) else column[start:stop]
            for name, column in self.columns().items()
            if column is not None
        }
        return self.trusted(self.labels, pieces, self._made_by())

    def batches(self, rows: int = 65536, *, kinds: Iterable[str] | None = None) -> Iterator[Predictions]:
        """The table in pieces that share its memory; see `Table.batches`."""
        check_count("rows", "Predictions.batches", rows, low=1)
        table = self if kinds is None else self.read(kinds=kinds)
        return (table.slice(start, start + rows) for start in range(0, max(len(self), 1), rows))

    def read(
        self,
        *,
        labels: Sequence[str] | Labels | None = None,
        kinds: Iterable[str] | None = None,
        split: str | None = None,
    ) -> Predictions:
        """Some of the table; see `Table.read`."""
        if split is not None:
            return self.of_split(split).read(labels=labels, kinds=kinds)
        wanted = own_labels(self, labels)
        if kinds is None and needs_all_labels(self, wanted):
            return self.replace(probs=self.probabilities(), calibrator=self.calibrator).read(labels=wanted)
        rows = self.columns(self._check_kinds(kinds))
        if wanted.names == self.labels.names:
            return self.trusted(self.labels, rows, self._made_by())
        columns = columns_of(self, wanted)
        for kind in KINDS:
            rows[kind] = None if rows[kind] is None else rows[kind][:, columns]
        return self.trusted(wanted, rows, {"link": narrow_link(self, columns)})

    def of_split(self, name: str) -> Predictions:
        """The rows of one split, in memory of their own."""
        check_split(
            type(self).__name__, name, list(self.split_sizes()), remedy="Pass `splits` when you make the table."
        )
        assert self._splits is not None
        return self.take(self._splits.equal(name))

    def split_sizes(self) -> dict[str, int]:
        """The number of rows of each split, in the order in which they first occur."""
        return {} if self._splits is None else self._splits.counts()

    def columns(self, kinds: Sequence[str] = KINDS) -> dict[str, Any]:
        """The columns that have one entry a row, by name; None for kinds that are not wanted or not there."""
        cells = {kind: getattr(self, kind) if kind in kinds else None for kind in KINDS}
        abstain = self.abstain if "decisions" in kinds else None
        return cells | {"abstain": abstain, "ids": self._ids, "paths": self._paths, "splits": self._splits}

    def _made_by(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in MADE_BY}


def concatenate(tables: Sequence[Predictions]) -> Predictions:
    """The rows of tables of the same labels and kinds, one after the other; link and so on are those of the first."""
    if len(tables) == 1:
        return tables[0]
    parts = [table.columns() for table in tables]
    rows = {}
    for name, first in parts[0].items():
        columns = [part[name] for part in parts]
        if first is not None:
            rows[name] = Texts.joined(columns) if isinstance(first, Texts) else torch.cat(columns)
    return Predictions.trusted(tables[0].labels, rows, tables[0]._made_by())
