"""Predictions in memory, and the interface that they share with predictions on disk."""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Self

import torch
from torch import Tensor, nn

from manyhot.calibrate.calibrator import Calibrator
from manyhot.checks import as_probs, as_scores, as_targets, as_tensor, check_int, describe_type
from manyhot.data.targets import as_row_numbers
from manyhot.decide.rule import Decision, Rule, Unclipped, rule_values
from manyhot.errors import InputError
from manyhot.formatting import html_table
from manyhot.labels import Labels
from manyhot.links import Link, SoftmaxLink
from manyhot.predictions.columns import StringColumn, as_dense_targets
from manyhot.tables.columns import COLUMN_PREFIXES, check_split
from manyhot.tables.metadata import COLUMNS, TEXT_COLUMNS

if TYPE_CHECKING:
    from manyhot.predictions.parquet import StoredPredictions

KINDS = tuple(COLUMN_PREFIXES)
# What made the columns: the type of each, and what to pass.
MODULES: dict[str, tuple[type[nn.Module], str]] = {
    "link": (Link, "Pass `loss.link`, or a link such as `SigmoidLink()`."),
    "calibrator": (Calibrator, "Pass the fitted calibrator itself."),
    "rule": (Rule, "Pass the rule itself."),
}


class PredictionTable(ABC):
    """What `Predictions` and `StoredPredictions` have in common: the same questions, the same answers.

    Attributes:
        labels: The names of the columns.
        kinds: What the table holds, among "scores", "probs", "targets" and "decisions".
        link: What the scores mean, where known.
        calibrator: What gave the probabilities, if a calibrator did.
        rule: What gave the decisions.
        notes: What was detected when the table was imported, one message per item.
    """

    labels: Labels
    kinds: tuple[str, ...]
    link: Link | None
    calibrator: Calibrator | None
    rule: Rule | None
    notes: list[str]

    @abstractmethod
    def __len__(self) -> int:
        """The number N of rows."""

    def batches(self, rows: int = 65536, *, kinds: Iterable[str] | None = None) -> Iterator[Predictions]:
        """The table in pieces of `rows` rows, the last of what is left; an empty table is one empty piece.

        Args:
            rows: How many rows to hold in memory at once.
            kinds: Which of `kinds` to read; all by default.
        """
        check_int("rows", f"{type(self).__name__}.batches", rows, low=1)
        pieces = self._pieces(self.labels, self._check_kinds(kinds), rows)
        return (Predictions.from_checked(self.labels, columns, self._modules()) for columns in pieces)

    def read(
        self,
        *,
        labels: Sequence[str] | Labels | None = None,
        kinds: Iterable[str] | None = None,
        split: str | None = None,
    ) -> Predictions:
        """Some or all of the table, in memory.

        A link that looks at each label alone stays with the labels that are read. One that mixes labels, and a
        calibrator, speak of all of them; where `probs` are not there yet, they are computed before the other labels
        go, and only for that are those read.

        Args:
            labels: Names of the labels to read, in the wanted order; all by default.
            kinds: Which of `kinds` to read; all by default.
            split: Name of the split to read; all rows by default.
        """
        if split is not None:
            return self.of_split(split).read(labels=labels, kinds=kinds)
        selected = select_labels(self, labels)
        if kinds is None and needs_all_labels(self, selected):
            whole = (table.replace(probs=table.probabilities(), calibrator=self.calibrator) for table in self.batches())
            return concatenate([table.read(labels=selected) for table in whole])
        modules = self._modules() if selected.names == self.labels.names else {"link": _select_link(self, selected)}
        columns = next(self._pieces(selected, self._check_kinds(kinds), max(len(self), 1)))
        return Predictions.from_checked(selected, columns, modules)

    @abstractmethod
    def _pieces(self, labels: Labels, kinds: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        """The columns of these labels and kinds, `rows` rows at a time; at least once."""

    @abstractmethod
    def of_split(self, name: str) -> Self:
        """The rows of one split."""

    @abstractmethod
    def split_sizes(self) -> dict[str, int]:
        """The number of rows of each split, by name; empty if the table has no splits."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the table to one Parquet file, which is there as a whole or not at all.

        Args:
            path: The file; one that is there is replaced.
        """
        from manyhot.predictions.parquet import PredictionsWriter

        with PredictionsWriter(path, self.labels, **self._modules()) as writer:
            for batch in self.batches():
                writer.write(batch)

    def __repr__(self) -> str:
        """Size, kinds and what made them, in one line."""
        facts = [f"{len(self):,} rows x {len(self.labels):,} labels", ", ".join(self.kinds)]
        facts += [f"{name} {type(module).__name__}" for name, module in self._modules().items() if module is not None]
        facts += [f"split {name!r} {size:,}" for name, size in list(self.split_sizes().items())[:4]]
        return f"{type(self).__name__}({'; '.join(facts)})"

    def _repr_html_(self) -> str:
        """The first rows: what is most probable, what is true, what was decided."""
        first = next(self.batches(HTML_ROWS))
        columns = {"id": first.ids, "path": first.paths, "split": first.splits}
        for kind in ("probs", "scores"):
            if kind in first.kinds:
                columns[f"highest {kind}"] = top_labels(getattr(first, kind), first.labels)
        for kind in ("targets", "decisions"):
            if kind in first.kinds:
                columns[kind] = [", ".join(names) or "none" for names in first.labels.decode(getattr(first, kind))]
        shown = [[name, *entries] for name, entries in columns.items() if entries is not None]
        rows = list(map(list, zip(*shown, strict=True)))
        rest = len(self) - len(first)
        more = f"<p>and {rest:,} more rows</p>" if rest else ""
        return f"<p>{escape(repr(self))}</p>{html_table(rows)}{more}"

    def _modules(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in MODULES}

    def _check_split(self, name: str) -> None:
        hint = "Give it splits: a column `split` in the file[, or {splits} of `Predictions`]."
        check_split(type(self).__name__, name, list(self.split_sizes()), hint=hint)

    def _check_kinds(self, kinds: Iterable[str] | None) -> list[str]:
        """The wanted kinds, or the error that says which there are."""
        kinds = self.kinds if kinds is None else kinds
        selected = list(kinds) if isinstance(kinds, Iterable) and not isinstance(kinds, str) else [kinds]
        for kind in selected:
            if kind not in self.kinds:
                hint = "Ask for these, or call `probabilities()` for what a link gives."
                rule = f"be among those of the table, {', '.join(self.kinds)}"
                raise InputError("kinds", type(self).__name__, rule, repr(kind), hint)
        return selected


def select_labels(table: PredictionTable, labels: Sequence[str] | Labels | None) -> Labels:
    """The labels to read: those of the table, or of the names that were asked for."""
    if labels is None:
        return table.labels
    selected = labels if isinstance(labels, Labels) else Labels([labels] if isinstance(labels, str) else labels)
    for name in selected.names:
        table.labels.column(name)
    return selected


OWNER = "Predictions"


def check_label_names(names: Sequence[str] | Labels | None, count: int) -> Labels:
    """The names of `count` columns; their numbers by default."""
    if names is None:
        return Labels([str(column) for column in range(count)])
    checked = names if isinstance(names, Labels) else Labels(names)
    if len(checked) != count:
        got = f"{len(checked)} names"
        raise InputError("labels", OWNER, f"name the {count} columns", got, "Pass one name per column.")
    return checked


def _as_bool(name: str, value: Any, shape: tuple[int, ...], axes: str) -> Tensor:
    """Decisions or abstentions as bool."""
    rule, hint = "be true or false", "Pass a tensor or an array of bool."
    try:
        cells = as_tensor(OWNER, value, name).detach()
    except InputError:
        raise InputError(name, OWNER, rule, describe_type(value), hint) from None
    if tuple(cells.shape) != shape:
        got, hint = str(tuple(cells.shape)), "Pass what a rule gives."
        raise InputError(name, OWNER, f"be {axes} with the shape {shape}", got, hint)
    if cells.dtype == torch.bool:
        return cells
    other = (cells != 0) & (cells != 1)
    if bool(other.any()):
        raise InputError(name, OWNER, rule, f"{cells[other][0].item():g}", "Apply a rule to the probabilities.")
    return cells == 1


def check_unique(value: StringColumn, hint: str) -> None:
    """Raises an error for duplicate ids."""
    duplicate = value.first_duplicate()
    if duplicate is not None:
        raise InputError("ids", OWNER, "be all different", f"{duplicate!r} twice", hint)


def check_modules(**modules: Any) -> dict[str, Any]:
    """Link, calibrator and rule by name, if they have these types."""
    for name, module in modules.items():
        kind, hint = MODULES[name]
        if module is not None and not isinstance(module, kind):
            raise InputError(name, OWNER, f"be a `{kind.__name__}` or None", type(module).__name__, hint)
    return modules


def _select_link(table: PredictionTable, labels: Labels) -> Link | None:
    """The link that some labels of a table keep: none if it mixes labels, or if a calibrator replaced it."""
    link = table.link
    if table.calibrator is not None or isinstance(link, SoftmaxLink):
        return None
    if link is None or not link.gives_probs or link.pos_weight is None or link.pos_weight.ndim == 0:
        return link
    selected = copy.deepcopy(link)
    columns = [table.labels.column(name) for name in labels.names]
    selected.register_buffer("pos_weight", link.pos_weight[columns])
    return selected


def needs_all_labels(table: PredictionTable, labels: Labels) -> bool:
    """Whether probabilities of these labels can be computed only while all the others are there."""
    if labels.names == table.labels.names or "probs" in table.kinds or "scores" not in table.kinds:
        return False
    source = table.calibrator or table.link
    return source is not None and _select_link(table, labels) is None


class Predictions(PredictionTable):
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
        if scores is None and probs is None:
            hint = "Pass what a head gives as `scores`, or what a link or a calibrator gives as `probs`."
            raise InputError("scores", OWNER, "be given, or `probs`", "neither", hint)
        scores = None if scores is None else as_scores(OWNER, scores)
        probs = None if probs is None else as_probs(OWNER, probs)
        cells, of = (probs, "probs") if scores is None else (scores, "scores")
        if probs is not None and probs.shape != cells.shape:
            got, hint = str(tuple(probs.shape)), "Compute both on the same samples."
            raise InputError("probs", OWNER, f"be (N, K) like `scores` {tuple(cells.shape)}", got, hint)
        probs = None if probs is None else probs.to(cells.device)
        names = check_label_names(labels, cells.shape[1])
        if targets is not None:
            targets = as_targets(OWNER, as_dense_targets(targets, names), cells, of=of)
        if isinstance(decisions, Decision):
            decisions, abstain = decisions.labels, decisions.abstain if abstain is None else abstain
        if decisions is not None:
            decisions = _as_bool("decisions", decisions, tuple(cells.shape), "(N, K)").to(cells.device)
        elif abstain is not None:
            raise InputError("abstain", OWNER, "come with `decisions`", "it alone", "Pass the decisions as well.")
        if abstain is not None:
            abstain = _as_bool("abstain", abstain, (len(cells),), "(N,)").to(cells.device)
        rows = {"scores": scores, "probs": probs, "targets": targets, "decisions": decisions, "abstain": abstain}
        ids = StringColumn(range(len(cells))) if ids is None else ids
        splits = [splits] * len(cells) if isinstance(splits, str) else splits
        for name, texts in (("ids", ids), ("paths", paths), ("splits", splits)):
            rows[name] = None if texts is None else StringColumn.check(name, texts, len(cells))
        if rows["ids"] is not ids:  # else a column of a table, which has been checked
            check_unique(rows["ids"], "Make them unique, or leave them out to number the rows.")
        self._assign(names, rows, check_modules(link=link, calibrator=calibrator, rule=rule))

    @classmethod
    def from_checked(cls, labels: Labels, rows: dict[str, Any], modules: dict[str, Any]) -> Self:
        """A table of columns that have been checked already.

        Args:
            labels: The names of the labels.
            rows: Tensors by kind, `abstain`, and a `StringColumn` each of ids, paths and splits, where there are any.
            modules: Link, calibrator and rule.
        """
        table = cls.__new__(cls)
        table._assign(labels, rows, modules)
        return table

    def _assign(self, labels: Labels, rows: dict[str, Any], modules: dict[str, Any]) -> None:
        self.labels, self.notes, self.unreadable = labels, [], {}
        self._columns = {name: rows[name] for name in COLUMNS if rows.get(name) is not None}
        for name in (*KINDS, "abstain"):
            setattr(self, name, rows.get(name))
        self.link, self.calibrator, self.rule = (modules.get(name) for name in MODULES)
        self.kinds = tuple(kind for kind in KINDS if kind in self._columns)

    @staticmethod
    def open(path: str | os.PathLike[str]) -> StoredPredictions:
        """Opens a table on disk without reading its rows; see `open_predictions`."""
        from manyhot.predictions.parquet import open_predictions

        return open_predictions(path)

    def __len__(self) -> int:
        return len(self._columns["ids"])

    @property
    def ids(self) -> list[str]:
        """One text a row; the row numbers if none were given."""
        return self._texts("ids") or []

    @property
    def paths(self) -> list[str] | None:
        """Where each sample lies, or None."""
        return self._texts("paths")

    @property
    def splits(self) -> list[str] | None:
        """The split of each row, or None."""
        return self._texts("splits")

    def _texts(self, name: str) -> list[str] | None:
        column: StringColumn | None = self._columns.get(name)
        return None if column is None else column.tolist()

    def probabilities(self) -> Tensor:
        """(N, K): `probs` where they are there, else what the calibrator or the link makes of the scores."""
        if self.probs is not None:
            return self.probs
        if self.scores is None or (self.link is None and self.calibrator is None):
            hint = "Fit a calibrator on held-out scores and targets, and pass `replace(probs=calibrator(scores))`."
            got = "neither probabilities nor scores" if self.scores is None else "scores without a link"
            raise InputError("probs", "Predictions", "be there or follow from a link", got, hint)
        with torch.no_grad():
            if self.calibrator is not None:
                return self.calibrator(self.scores, kind="scores")
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
        names = ("labels", *MODULES, *KINDS, "abstain", *TEXT_COLUMNS)
        for name in columns:
            if name not in names:
                rule, hint = f"be among {', '.join(names)}", "Use the names of the constructor."
                raise InputError("columns", "Predictions.replace", rule, repr(name), hint)
        current = {"labels": self.labels, **self._modules(), **self.columns()}
        if "probs" in columns:
            current["calibrator"] = None
        if "decisions" in columns:
            current["rule"] = current["abstain"] = None
        return Predictions(**(current | columns))

    def take(self, rows: Any) -> Predictions:
        """The rows of these numbers in their order, or those where a mask is true.

        Args:
            rows: (n,) whole numbers from 0 to N - 1, or (N,) bool.
        """
        return self._at(as_row_numbers("Predictions.take", rows, len(self)))

    def slice(self, start: int, stop: int) -> Predictions:
        """The rows from `start` to before `stop`, sharing the memory of the table."""
        return self._at(slice(start, stop))

    def _at(self, rows: Any) -> Predictions:
        """The rows of a slice, or of an array of row numbers."""
        columns = {name: column[rows] for name, column in self._columns.items()}
        return self.from_checked(self.labels, columns, self._modules())

    def _pieces(self, labels: Labels, kinds: Sequence[str], rows: int) -> Iterator[dict[str, Any]]:
        columns = self.columns(kinds)
        if labels.names != self.labels.names:
            selected = [self.labels.column(name) for name in labels.names]
            columns |= {kind: columns[kind][:, selected] for kind in KINDS if kind in columns}
        for start in range(0, max(len(self), 1), rows):
            yield {name: column[start : start + rows] for name, column in columns.items()}

    def of_split(self, name: str) -> Predictions:
        """The rows of one split, in memory of their own."""
        self._check_split(name)
        return self.take(self._columns["splits"].equal(name))

    def split_sizes(self) -> dict[str, int]:
        """The number of rows of each split, in the order in which they first occur."""
        return self._columns["splits"].counts() if "splits" in self._columns else {}

    def columns(self, kinds: Sequence[str] = KINDS) -> dict[str, Any]:
        """The columns that there are, by name, in the order of files: texts, and cells of these kinds."""
        wanted = {*TEXT_COLUMNS, *kinds, *(["abstain"] if "decisions" in kinds else [])}
        return {name: column for name, column in self._columns.items() if name in wanted}


def concatenate(tables: Sequence[Predictions]) -> Predictions:
    """The rows of tables of the same labels and kinds, one after the other; link and so on are those of the first."""
    first, *rest = tables
    if not rest:
        return first
    rows = {}
    for name, column in first.columns().items():
        columns = [column, *(table.columns()[name] for table in rest)]
        rows[name] = StringColumn.concatenated(columns) if isinstance(column, StringColumn) else torch.cat(columns)
    return Predictions.from_checked(first.labels, rows, first._modules())


def sample_batches(
    table: PredictionTable, most: int, *, seed: int = 0, kinds: Iterable[str] | None = None
) -> Iterator[Predictions]:
    """At most `most` rows of a table, drawn at random, in their order and batch by batch; all kinds or some."""
    chosen, start = sample_rows(len(table), most, seed=seed), 0
    for part in table.batches(kinds=kinds):
        inside = chosen[(chosen >= start) & (chosen < start + len(part))] - start
        start += len(part)
        yield part.take(inside)


def sample_rows(rows: int, most: int, *, seed: int = 0) -> Tensor:
    """The sorted numbers of at most `most` rows, drawn at random.

    Example:
        >>> sample_rows(2, 3)
        tensor([0, 1])
    """
    return torch.randperm(rows, generator=torch.Generator().manual_seed(seed))[:most].sort().values


HTML_ROWS, HTML_TOP_LABELS = 5, 3


def top_labels(cells: Tensor, labels: Labels) -> list[str]:
    """The highest cells of each row with the names of their labels."""
    top = cells.topk(min(HTML_TOP_LABELS, cells.shape[1]), dim=1)
    rows = [zip(*row, strict=True) for row in zip(top.values.tolist(), top.indices.tolist(), strict=True)]
    return [", ".join(f"{labels.names[column]} {value:.3g}" for value, column in row) for row in rows]
