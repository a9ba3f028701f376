"""`manyhot import`, `evaluate`, `calibrate` and `decide`: commands on tables of predictions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli import options
from manyhot.cli.console import error_console, print_notes, progress
from manyhot.cli.options import (
    AtMostOption,
    FitOnOption,
    FitSeedOption,
    FitTableOption,
    JsonOption,
    Kind,
    KindOption,
    OutTableOption,
    OverwriteOption,
    PredictionsFile,
    SaveOption,
    TargetsOption,
    open_table,
)
from manyhot.errors import InputError
from manyhot.registry import construct

if TYPE_CHECKING:
    from rich.console import Console
    from torch import Tensor

    from manyhot.decide import Rule
    from manyhot.decide.rule import Unclipped
    from manyhot.labels import Labels
    from manyhot.predictions import Predictions
    from manyhot.predictions.predictions import PredictionTable

SourceFile = Annotated[str, typer.Argument(metavar="FILE", help="CSV, TSV, NPZ or Parquet, one row per sample.")]
IdOption = Annotated[str | None, typer.Option("--id-column", help="The column of ids, if it has another name.")]
TrueLabelsColumnOption = Annotated[
    str | None, typer.Option("--labels-column", help="The column of lists of true labels, if it has another name.")
]
LabelSeparatorOption = Annotated[
    str | None, typer.Option("--separator", help="What separates the names in such a list; detected by default.")
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", help="A column to take as a label; all numeric ones by default. Repeat it."),
]
LeaveOutOption = Annotated[
    bool,
    typer.Option("--leave-out-others", help="Leave out true labels that the model does not know, instead of stopping."),
]


def import_(
    file: SourceFile,
    kind: KindOption = None,
    targets: TargetsOption = None,
    out: OutTableOption = None,
    id_column: IdOption = None,
    labels_column: TrueLabelsColumnOption = None,
    separator: LabelSeparatorOption = None,
    label: LabelOption = None,
    leave_out_others: LeaveOutOption = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Write the predictions of any model as a Parquet table, also those that do not fit in memory.

    What was detected is printed; each option overrides it. The other commands import by themselves, with the defaults.

    [b]Examples[/b]

    manyhot import scores.csv --kind scores --targets truth.csv -o predictions.parquet

    manyhot import probs.npz --kind probs -o predictions.parquet

    manyhot import all.csv --kind probs --id-column image --labels-column tags --separator ";"
    """
    from manyhot.predictions import read_predictions

    console = error_console()
    path = options.table_path(out or options.path_beside(file, "imported"), overwrite=overwrite)
    with console.status(f"Importing {Path(file).name} ..."):
        table = read_predictions(
            file,
            kind=kind,
            targets=targets,
            id_column=id_column,
            labels_column=labels_column,
            separator=separator,
            labels=label,
            other_labels="leave out" if leave_out_others else "refuse",
            to=path,
        )
    print_notes(table.notes, console)
    typer.echo(f"Wrote {len(table):,} rows of {len(table.labels):,} labels to {path}.")


SplitOption = Annotated[
    str | None,
    typer.Option("--split", help="Evaluate this split, or `all` rows; by default `test` where there is one."),
]
ByLabelOption = Annotated[bool, typer.Option("--by-label", help="Also a table of all labels.")]
IntervalsOption = Annotated[
    float | None,
    typer.Option("--intervals", min=0.5, max=0.999, help="Bootstrap intervals of this level, such as 0.95."),
]
TrainCountsOption = Annotated[
    Path | None,
    typer.Option(
        "--train-counts", help="CSV with columns label and count: training images, for few, medium and many shot."
    ),
]


def evaluate(
    predictions: PredictionsFile,
    split: SplitOption = None,
    kind: KindOption = None,
    targets: TargetsOption = None,
    by_label: ByLabelOption = False,
    intervals: IntervalsOption = None,
    train_counts: TrainCountsOption = None,
    bins: Annotated[int, typer.Option("--bins", min=1, help="Bins of the calibration errors.")] = 15,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Evaluate predictions: ranking, probabilities, decisions, rows without labels.

    [b]Examples[/b]

    manyhot evaluate predictions.parquet --split test

    manyhot evaluate probabilities.csv --kind probs --targets truth.csv --json

    manyhot evaluate decided.parquet --split test --by-label --intervals 0.95
    """
    import manyhot

    console = error_console()
    table = options.open_table(predictions, kind, targets, console)
    if "targets" not in table.kinds:
        hint = "Pass the file of true labels as --targets."
        raise InputError("PREDICTIONS", "manyhot evaluate", "hold targets", ", ".join(table.kinds), hint)
    counts = read_train_counts(train_counts, table.labels) if train_counts else None
    with console.status(f"Evaluating {len(table):,} rows of {len(table.labels):,} labels ..."):
        evaluation = manyhot.evaluate(
            table, split=split, bins=bins, intervals=intervals, train_counts=counts, seed=seed
        )
    if as_json:
        typer.echo(evaluation.to_json())
        return
    print_evaluation(evaluation, by_label=by_label)


def print_evaluation(evaluation: Any, *, by_label: bool) -> None:
    """Prints the tables."""
    from rich.console import Console

    console = Console()
    console.print(evaluation)
    if by_label:
        console.print(evaluation.by_label())


def read_train_counts(path: Path, labels: Labels) -> dict[str, int]:
    """Training images by label, from a CSV with the columns label and count."""
    import csv

    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"label", "count"} <= set(rows[0]):
        got = ", ".join(rows[0]) if rows else "an empty file"
        raise InputError("--train-counts", "manyhot evaluate", "have the columns label and count", got, "Rename them.")
    counts = {}
    for row in rows:
        if not str(row["count"]).isdigit():
            hint = "Write how many training images carry the label."
            raise InputError("--train-counts", "manyhot evaluate", "hold whole numbers", repr(row["count"]), hint)
        counts[labels.names[labels.column(row["label"])]] = int(row["count"])
    return counts


def build_or_load(text: str, base: type, *, argument: str, owner: str) -> Any:
    """A calibrator or a rule: read from a JSON file if the text names one, otherwise built from the text."""
    if text.endswith(".json"):
        module = load_module(text, argument, owner)
    else:
        module = construct(text, base, argument=argument, owner=owner)
    if not isinstance(module, base):
        hint = f"Pass for example a {base.__name__.lower()} that manyhot.save wrote."
        raise InputError(argument, owner, f"be a {base.__name__.lower()}", type(module).__name__, hint)
    return module


def load_module(path: str, argument: str, owner: str) -> Any:
    """What `manyhot.save` wrote."""
    import manyhot

    hint = "Pass a file that --save or manyhot.save wrote."
    if not Path(path).is_file():
        raise InputError(argument, owner, "be a file that is there", repr(path), hint)
    return manyhot.load(path)


def open_fit_table(path: str, kind: Kind | None, targets: Path | None, console: Console) -> PredictionTable:
    """The table of --fit-table; targets without ids cannot be those of two tables."""
    from manyhot.tables.arrow import is_archive

    if targets is not None and is_archive(targets):
        hint = "Put them into each table with `manyhot import --targets` first."
        raise InputError("--targets", "manyhot", "have ids where there is a --fit-table", repr(str(targets)), hint)
    try:
        return open_table(path, kind, targets, console)
    except InputError as error:
        if error.argument in ("path", "source"):
            error.argument, error.owner = "--fit-table", ""
        raise


def table_to_fit(
    table: PredictionTable, fit_on: str | None, other: PredictionTable | None, *, owner: str
) -> PredictionTable:
    """The rows to fit on: those of a split, or another table with the same labels."""
    if (fit_on is None) == (other is None):
        got = "neither" if fit_on is None else "both"
        hint = f"Name a split that is not evaluated later; this table has {describe_splits(table)}."
        if not table.split_sizes():
            hint = "This table has no splits: add a column `split`, or pass --fit-table."
        raise InputError("--fit-on or --fit-table", owner, "name the rows to learn from", got, hint)
    if other is not None:
        if other.labels.names != table.labels.names:
            hint = "Pass a table of the same model."
            got = f"{len(other.labels)} labels, {len(table.labels)} in PREDICTIONS"
            raise InputError("--fit-table", owner, "have the labels of PREDICTIONS in the same order", got, hint)
        return other
    assert fit_on is not None
    if not table.split_sizes():
        hint = "Add a column `split`, or name the rows to learn from with --fit-table."
        raise InputError("--fit-on", owner, "name a split of the table, which has none", repr(fit_on), hint)
    return table.of_split(fit_on)


def describe_splits(table: PredictionTable) -> str:
    """The splits of a table with their sizes."""
    sizes = table.split_sizes()
    return ", ".join(f"{name!r} ({rows:,} rows)" for name, rows in sizes.items()) or "no splits"


def collect_rows(
    table: PredictionTable, read: Callable[[Predictions], Any], *, at_most: int, seed: int
) -> tuple[Any, Any]:
    """Values and targets of a table, of `at_most` rows drawn by `seed`; targets are None where there are none."""
    import torch

    from manyhot.decide.rule import Unclipped

    if not len(table):
        raise InputError("rows to learn from", "manyhot", "be there", "an empty table", "Name a split with rows.")
    drawn = torch.randperm(len(table), generator=torch.Generator().manual_seed(seed))[:at_most].sort().values
    values, targets, start = [], [], 0
    for part in table.batches():
        inside = drawn[(drawn >= start) & (drawn < start + len(part))] - start
        start += len(part)
        values.append(read(part)[inside])
        if part.targets is not None:
            targets.append(part.targets[inside])
    concatenated = torch.cat([part.values if isinstance(part, Unclipped) else part for part in values])
    return Unclipped(concatenated) if isinstance(values[0], Unclipped) else concatenated, torch.cat(
        targets
    ) if targets else None


def rewrite_table(
    table: PredictionTable, path: Path, change: Callable[[Predictions], Predictions], text: str, console: Console
) -> Iterator[tuple[Predictions, Predictions]]:
    """Writes a table with changed columns, batch by batch; yields each batch before and after."""
    from manyhot.predictions import PredictionsWriter

    with PredictionsWriter(path, table.labels) as writer, progress(text, len(table), console) as advance:
        for part in table.batches():
            changed = change(part)
            writer.write(changed)
            yield part, changed
            advance(len(part))


@dataclass(frozen=True)
class FittingRows:
    """Which rows of a table a calibrator or rule is fitted on, and which are held out to evaluate it.

    Attributes:
        owner: The command, for errors.
        table: The table that is rewritten.
        path: Its path.
        fit_on: The split to fit on, or None.
        fit_table: Another table to fit on, or None.
        kind: What the numbers of tables of other programs are.
        targets: The file of true labels, or None.
        console: Where notes are printed.
    """

    owner: str
    table: PredictionTable
    path: str
    fit_on: str | None
    fit_table: str | None
    kind: Kind | None
    targets: Path | None
    console: Console

    def rows(self, read: Callable[[Predictions], Any], *, at_most: int, seed: int) -> tuple[Any, Any]:
        """Values and targets to fit on, of at most `at_most` rows sampled with `seed`."""
        other = open_fit_table(self.fit_table, self.kind, self.targets, self.console) if self.fit_table else None
        source = table_to_fit(self.table, self.fit_on, other, owner=self.owner)
        return collect_rows(source, read, at_most=at_most, seed=seed)

    @cached_property
    def from_all(self) -> bool:
        """Whether all rows were used for fitting, so that none is left for the evaluation; prints it."""
        same = self.fit_table is not None and os.path.exists(self.path) and os.path.samefile(self.path, self.fit_table)
        every = same or (self.fit_on is not None and set(self.table.split_sizes()) == {self.fit_on})
        if every and "targets" in self.table.kinds:
            self.console.print("No row is evaluated, because all of them are used for fitting.")
        return every

    @cached_property
    def evaluated_split(self) -> str | None:
        """The default split of `evaluate`."""
        from manyhot.evaluation.pipeline import split_to_evaluate

        return split_to_evaluate(self.table)

    def rows_to_evaluate(self, part: Predictions) -> Tensor:
        """(N,) bool, the rows of the default split of `evaluate`, or those that were not used for fitting."""
        import torch

        if self.from_all or part.splits is None:
            return torch.full((len(part),), not self.from_all)
        if self.evaluated_split is None or self.evaluated_split == self.fit_on:
            return torch.tensor([split != self.fit_on for split in part.splits], dtype=torch.bool)
        return torch.tensor([split == self.evaluated_split for split in part.splits], dtype=torch.bool)


MethodOption = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        help="TemperatureScaling, PlattScaling, BetaCalibration or IsotonicCalibration, with options as in Python; "
        "or a JSON file of a fitted one.",
    ),
]


def calibrate(
    predictions: PredictionsFile,
    method: MethodOption = "BetaCalibration",
    fit_on: FitOnOption = None,
    fit_table: FitTableOption = None,
    kind: KindOption = None,
    targets: TargetsOption = None,
    out: OutTableOption = None,
    save: SaveOption = None,
    at_most: AtMostOption = 200_000,
    seed: FitSeedOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fit a calibrator on one split and write all rows with calibrated probabilities.

    The rows of `test`, or else those it was not fitted on, are evaluated before and after.

    [b]Examples[/b]

    manyhot calibrate predictions.parquet --fit-on val

    manyhot calibrate scores.csv --kind scores --targets truth.csv --fit-on val -o calibrated.parquet

    manyhot calibrate predictions.parquet -m "PlattScaling(sharing='none')" --fit-on val --save calibrator.json

    manyhot calibrate tomorrow.parquet -m calibrator.json
    """
    import manyhot
    from manyhot.calibrate import Calibrator

    console = error_console()
    calibrator = build_or_load(method, Calibrator, argument="--method", owner="manyhot calibrate")
    path = options.table_path(out or options.path_beside(predictions, "calibrated"), overwrite=overwrite, save=save)
    table = options.open_table(predictions, kind, targets, console)
    fit_rows = FittingRows("manyhot calibrate", table, predictions, fit_on, fit_table, kind, targets, console)
    learns = not bool(calibrator.fitted)
    of = calibrator.kind or ("scores" if "scores" in table.kinds else "probs")
    if learns:
        values, truth = fit_rows.rows(partial(values_to_calibrate, kind=of), at_most=at_most, seed=seed)
        if calibrator.link is None and of == "scores" and (table.link is None or table.link.gives_probs):
            calibrator.link = table.link
        calibrator.fit(values, require_targets(truth), kind=of)
    if save:
        manyhot.save(calibrator, save)
    summary = CalibrationSummary(learns=learns)

    def calibrated(part: Predictions) -> Predictions:
        return part.replace(probs=calibrator(values_to_calibrate(part, kind=of), kind=of), calibrator=calibrator)

    for before, after in rewrite_table(table, path, calibrated, "Calibrating", console):
        summary.update(before, after, fit_rows.rows_to_evaluate(before))
    print_calibration(summary, calibrator, path, len(table), as_json=as_json)


def values_to_calibrate(part: Predictions, *, kind: str) -> Tensor:
    """The scores or the probabilities of a table; an error if it holds only the other kind."""
    values: Tensor | None = getattr(part, kind)
    if values is None:
        hint = "Calibrate scores by a calibrator that was fitted on scores, and probabilities by one of probabilities."
        raise InputError("PREDICTIONS", "manyhot calibrate", f"hold {kind} for this calibrator", "none", hint)
    return values


def require_targets(targets: Tensor | None) -> Tensor:
    """The targets; an error if there are none."""
    if targets is None:
        hint = "Pass the file of true labels as --targets."
        raise InputError("PREDICTIONS", "manyhot calibrate", "hold targets in the rows to fit on", "none", hint)
    return targets


class CalibrationSummary:
    """Log loss and calibration error before and after, of the held-out rows.

    Args:
        learns: Whether the calibrator was fitted in this call; the rows that one from a file was fitted on are unknown.
    """

    def __init__(self, *, learns: bool) -> None:
        from manyhot.metrics import CalibrationError, LogLoss

        self.learns = learns
        self.names = {"log loss": LogLoss, "ECE": CalibrationError}
        self.before = {name: make() for name, make in self.names.items()}
        self.after = {name: make() for name, make in self.names.items()}
        self.rows = 0
        self.had_probs = True

    def update(self, before: Predictions, after: Predictions, rows: Tensor) -> None:
        """Collects a batch."""
        if before.targets is None:
            return

        rows = rows & (before.targets >= 0).any(1)
        self.rows += int(rows.sum())
        linked = before.link is not None and before.link.gives_probs
        self.had_probs = before.probs is not None or before.calibrator is not None or linked
        for metric in self.after.values():
            metric.update(after.probs[rows], before.targets[rows])  # type: ignore[index]
        for metric in self.before.values() if self.had_probs else ():
            metric.update(before.probabilities()[rows], before.targets[rows])

    def figures(self) -> dict[str, dict[str, float | None]]:
        """Before and after by name; None where there were no probabilities before."""
        after = {name: metric.compute().value for name, metric in self.after.items()}
        before = {name: metric.compute().value if self.had_probs else None for name, metric in self.before.items()}
        return {"before": before, "after": after}


def print_calibration(summary: CalibrationSummary, calibrator: Any, path: Any, rows: int, *, as_json: bool) -> None:
    """Prints the metrics before and after, and what was written."""
    from manyhot.evaluation.result import too_small

    figures: dict[str, Any] = summary.figures() if summary.rows else {}
    small = too_small({"rows": summary.rows, "rows without known cells": 0}) if summary.rows else None
    if as_json:
        output = {"written": str(path), "rows": rows, EVALUATED_ROWS: summary.rows, "too_small": small, **figures}
        typer.echo(json.dumps(output))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False)
    if summary.rows:
        which = "held-out rows" if summary.learns else "rows evaluated"
        console.print(f"{summary.rows:,} {which}", style="bold", highlight=False)
    if small is not None:
        console.print(small, highlight=False)
    elif summary.rows:
        table = Table()
        table.add_column("")
        table.add_column("before", justify="right")
        table.add_column("after", justify="right")
        for name, after in figures["after"].items():
            before = figures["before"][name]
            table.add_row(name, "–" if before is None else format_metric(name, before), format_metric(name, after))
        console.print(table)
    console.print(f"{calibrator!r}", highlight=False)
    next_step = f"manyhot decide {quote(str(path))} --rule ..."
    console.print(f"Wrote {rows:,} rows to {path}. Next: {next_step}", soft_wrap=True, highlight=False)


def format_metric(name: str, value: float | None) -> str:
    """A metric as text."""
    if value is None or value != value:
        return "–"
    return f"{100 * value:.2f} %" if name == "ECE" else f"{value:.4f}"


RuleOption = Annotated[
    str,
    typer.Option(
        "--rule",
        "-r",
        help="Threshold, LabelThresholds, CostThresholds, TopK, AverageK, ExpectedFBeta, UniformThreshold, "
        "ClassThresholds, ConformalRiskControl, NoneOfThese or Abstain, with options as in Python; or a fitted one "
        "in JSON.",
    ),
]
OnOption = Annotated[
    Kind, typer.Option("--on", help="What the rule is applied to. Scores only rank: most rules need probabilities.")
]


def decide(
    predictions: PredictionsFile,
    rule: RuleOption,
    fit_on: FitOnOption = None,
    fit_table: FitTableOption = None,
    on: OnOption = "probs",
    kind: KindOption = None,
    targets: TargetsOption = None,
    out: OutTableOption = None,
    save: SaveOption = None,
    at_most: AtMostOption = 1_000_000,
    seed: FitSeedOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fit a rule on one split and write all rows with their decisions.

    The rows of `test`, or else those it was not fitted on, are evaluated where their true labels are known.

    [b]Examples[/b]

    manyhot decide calibrated.parquet --rule "AverageK(3)" --fit-on val

    manyhot decide calibrated.parquet --rule "LabelThresholds(precision=0.9)" --fit-on val --save rule.json

    manyhot decide calibrated.parquet --rule "ConformalRiskControl(0.1)" --fit-on val

    manyhot decide calibrated.parquet --rule "Abstain(ExpectedFBeta(), at_most=0.1)" --fit-on val

    manyhot decide tomorrow.parquet --rule rule.json
    """
    import manyhot
    from manyhot.decide import Rule

    console = error_console()
    chosen = build_or_load(rule, Rule, argument="--rule", owner="manyhot decide")
    path = options.table_path(out or options.path_beside(predictions, "decided"), overwrite=overwrite, save=save)
    table = options.open_table(predictions, kind, targets, console)
    read_values = rule_input(chosen, on)
    if bool(chosen.fitted) and fit_on is not None:
        table.of_split(fit_on)  # nothing is fitted on it, but rows of a mistyped split would be evaluated
    fit_rows = FittingRows("manyhot decide", table, predictions, fit_on, fit_table, kind, targets, console)
    if not bool(chosen.fitted):
        fit_rule(chosen, *fit_rows.rows(read_values, at_most=at_most, seed=seed))
    if save:
        manyhot.save(chosen, save)
    summary = DecisionSummary(chosen)
    for before, after in rewrite_table(
        table, path, lambda part: apply_rule(part, chosen, read_values), "Deciding", console
    ):
        summary.update(after, fit_rows.rows_to_evaluate(before))
    print_decisions(summary, chosen, path, len(table), as_json=as_json)


def rule_input(rule: Rule, on: Kind) -> Callable[[Predictions], Tensor | Unclipped]:
    """A function that gives the input of the rule for a batch."""
    if on == "scores" and rule.needs_probs:
        hint = "Leave --on out."
        raise InputError("--on", "manyhot decide", f"be probs for {type(rule).__name__}", "scores", hint)

    def read_values(part: Predictions) -> Tensor | Unclipped:
        if on == "probs":
            if part.probs is None and part.calibrator is None and (part.link is None or not part.link.gives_probs):
                hint = "Run `manyhot calibrate` first, or pass --on scores to a rule that only compares."
                raise InputError("PREDICTIONS", "manyhot decide", "hold probabilities", "scores alone", hint)
            return part.rule_values()
        if part.scores is None:
            raise InputError("--on", "manyhot decide", "be a kind that the table holds", "scores", "Leave --on out.")
        return part.scores

    return read_values


def fit_rule(rule: Rule, values: Any, targets: Tensor | None) -> None:
    """Fits a rule; some rules need no targets."""
    try:
        rule.fit(values, targets)
    except InputError as error:
        if targets is None and error.argument == "targets":
            error.argument, error.hint = "--targets", "Pass the file of true labels as --targets."
        raise


def apply_rule(part: Predictions, rule: Rule, read_values: Callable[[Predictions], Tensor | Unclipped]) -> Predictions:
    """A batch with its decisions."""
    decision = rule(read_values(part))
    return part.replace(decisions=decision.labels, abstain=decision.abstain, rule=rule)


# Keys of the JSON, which stay as they are.
EVALUATED_ROWS, MEAN_SIZE, ABSTAINED, RISK_BOUND = "judged rows", "labels a row", "rows for a person", "promised risk"


class DecisionSummary:
    """How many labels were predicted, and the metrics of the decisions on the held-out rows.

    Args:
        rule: The rule; for one that controls a risk, the observed risk is reported as well.
    """

    def __init__(self, rule: Rule) -> None:
        from manyhot.decide import ConformalRiskControl
        from manyhot.metrics import FScores, SetAccuracy
        from manyhot.metrics.sets import PredictedSetSize

        self.sizes, self.scores, self.sets = PredictedSetSize(), FScores(), SetAccuracy()
        self.risk_control = next((part for part in rule.modules() if isinstance(part, ConformalRiskControl)), None)
        self.rows = self.evaluated = self.abstained = self.risk_rows = 0
        self.risk_sum = 0.0

    def update(self, part: Predictions, rows: Tensor) -> None:
        """Collects a batch."""
        from manyhot.decide import Decision

        assert part.decisions is not None
        assert part.abstain is not None
        self.sizes.update(Decision(part.decisions, part.abstain), None)
        self.rows += len(part)
        self.abstained += int(part.abstain.sum())
        if part.targets is not None:
            rows = rows & ~part.abstain & (part.targets >= 0).any(1)
            self.evaluated += int(rows.sum())
            self.scores.update(part.decisions[rows], part.targets[rows])
            self.sets.update(part.decisions[rows], part.targets[rows])
            if self.risk_control is not None:
                losses = self.risk_control.row_losses(part.decisions[rows], part.targets[rows])
                self.risk_sum, self.risk_rows = self.risk_sum + float(losses.sum()), self.risk_rows + len(losses)

    def figures(self) -> dict[str, float]:
        """The main figures, as fractions."""
        # NaN where the rule abstained on all rows.
        sizes = {name: 0.0 if value != value else value for name, value in self.sizes.compute().values.items()}
        figures = {
            MEAN_SIZE: sizes["mean_size"],
            "rows without labels": sizes["empty_share"],
            ABSTAINED: self.abstained / max(self.rows, 1),
        }
        if self.evaluated:
            sets = self.sets.compute().values
            figures |= self.scores.compute().values | sets | {"known_size": sets["mean_size"]}
            del figures["mean_size"]
        if self.risk_control is not None and self.risk_rows:
            figures |= {"risk": self.risk_sum / self.risk_rows, RISK_BOUND: self.risk_control.alpha}
        return figures


def print_decisions(summary: DecisionSummary, rule: Any, path: Any, rows: int, *, as_json: bool) -> None:
    """Prints the metrics of the decisions, and what was written."""
    from manyhot.evaluation.result import too_small

    figures = summary.figures()
    small = too_small({"rows": summary.evaluated, "rows without known cells": 0}) if summary.evaluated else None
    if as_json:
        output = {"written": str(path), "rows": rows, EVALUATED_ROWS: summary.evaluated, "too_small": small, **figures}
        typer.echo(json.dumps(output))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False)
    table = Table(
        title=f"{rows:,} rows, {summary.evaluated:,} of them evaluated", title_style="bold", title_justify="left"
    )
    table.add_column("")
    table.add_column("", justify="right")
    for name, text in METRIC_TITLES.items():
        if name in figures and (small is None or name in COUNT_METRICS):
            table.add_row(text, f"{figures[name]:.2f}" if name == MEAN_SIZE else f"{100 * figures[name]:.1f} %")
    if summary.risk_control is not None and "risk" in figures and small is None:
        risk_title = (
            f"{RISK_TITLES[summary.risk_control.risk]}, at most {100 * summary.risk_control.alpha:g} % guaranteed"
        )
        table.add_row(risk_title, f"{100 * figures['risk']:.1f} %")
    console.print(table)
    if small is not None:
        console.print(small, highlight=False)
    console.print(f"{rule!r}", highlight=False)
    next_step = f"manyhot evaluate {quote(str(path))}"
    console.print(f"Wrote {rows:,} rows to {path}. Next: {next_step}", soft_wrap=True, highlight=False)


RISK_TITLES = {
    "false_negatives": "labels of a row that are missed",
    "false_discoveries": "labels predicted for a row that are wrong",
}
# The figures that are printed; --json has all of them.
METRIC_TITLES = {
    MEAN_SIZE: "labels predicted per row",
    "rows without labels": "rows without predicted labels",
    ABSTAINED: "rows where the rule abstained",
    "micro_f": "F1 of all cells",
    "macro_f": "F1 over labels",
    "micro_precision": "precision of all cells",
    "micro_recall": "recall of all cells",
    "exact_match": "exact match",
}
# Those of them that need no true labels.
COUNT_METRICS = (MEAN_SIZE, "rows without labels", ABSTAINED)
