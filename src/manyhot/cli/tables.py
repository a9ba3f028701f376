"""`manyhot import`, `evaluate`, `calibrate` and `decide`: commands on tables of predictions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli import options
from manyhot.cli.console import error_console, print_json, print_notes, progress
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

    from manyhot.calibrate import Calibrator
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
    table = open_table(predictions, kind, targets, console)
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
    from rich.console import Console

    output = Console()
    output.print(evaluation)
    if by_label:
        output.print(evaluation.by_label())


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
    import manyhot

    if not text.endswith(".json"):
        return construct(text, base, argument=argument, owner=owner)
    if not Path(text).is_file():
        hint = "Pass a file that --save or manyhot.save wrote."
        raise InputError(argument, owner, "be a file that is there", repr(text), hint)
    module = manyhot.load(text)
    if not isinstance(module, base):
        hint = f"Pass for example a {base.__name__.lower()} that manyhot.save wrote."
        raise InputError(argument, owner, f"be a {base.__name__.lower()}", type(module).__name__, hint)
    return module


def rows_to_fit(
    owner: str,
    table: PredictionTable,
    fit_on: str | None,
    fit_table: str | None,
    targets: Path | None,
    opened: Callable[[str], PredictionTable],
) -> PredictionTable:
    """The rows to fit on: those of a split, or another table with the same labels, which `opened` opens."""
    splits = ", ".join(f"{name!r} ({rows:,} rows)" for name, rows in table.split_sizes().items())
    if (fit_on is None) == (fit_table is None):
        hint = f"Name a split that is not evaluated later; this table has {splits}."
        if not splits:
            hint = "This table has no splits: add a column `split`, or pass --fit-table."
        got = "neither" if fit_on is None else "both"
        raise InputError("--fit-on or --fit-table", owner, "name the rows to learn from", got, hint)
    if fit_table is None:
        assert fit_on is not None
        if not splits:
            hint = "Add a column `split`, or name the rows to learn from with --fit-table."
            raise InputError("--fit-on", owner, "name a split of the table, which has none", repr(fit_on), hint)
        return table.of_split(fit_on)
    from manyhot.tables.reader import is_archive

    if targets is not None and is_archive(targets):  # without ids, they cannot be those of two tables
        hint = "Put them into each table with `manyhot import --targets` first."
        raise InputError("--targets", "manyhot", "have ids where there is a --fit-table", repr(str(targets)), hint)
    try:
        other = opened(fit_table)
    except InputError as error:
        if error.argument in ("path", "source"):
            error.argument, error.owner = "--fit-table", ""
        raise
    if other.labels.names != table.labels.names:
        hint, got = "Pass a table of the same model.", f"{len(other.labels)} labels, {len(table.labels)} in PREDICTIONS"
        raise InputError("--fit-table", owner, "have the labels of PREDICTIONS in the same order", got, hint)
    return other


def collect_rows(
    table: PredictionTable, read: Callable[[Predictions], Any], *, at_most: int, seed: int
) -> tuple[Any, Any]:
    """Values and targets of a table, of `at_most` rows drawn by `seed`; targets are None where there are none."""
    import torch

    from manyhot.decide.rule import Unclipped
    from manyhot.predictions.predictions import sample_batches

    if not len(table):
        raise InputError("rows to learn from", "manyhot", "be there", "an empty table", "Name a split with rows.")
    values, targets = [], []
    for part in sample_batches(table, at_most, seed=seed):
        values.append(read(part))
        targets += [] if part.targets is None else [part.targets]
    stacked = torch.cat([part.values if isinstance(part, Unclipped) else part for part in values])
    return Unclipped(stacked) if isinstance(values[0], Unclipped) else stacked, torch.cat(targets) if targets else None


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


def held_out_rows(
    table: PredictionTable, path: str, fit_on: str | None, fit_table: str | None, console: Console
) -> Callable[[Predictions], Predictions] | None:
    """Takes of a batch the rows of the default split of `evaluate`, or else those that were not used for fitting.

    None where no row is evaluated; prints why if all are used for fitting.
    """
    from manyhot.evaluation.pipeline import split_to_evaluate

    if "targets" not in table.kinds:
        return None
    names = set(table.split_sizes())
    if names == {fit_on} or (fit_table is not None and os.path.exists(path) and os.path.samefile(path, fit_table)):
        console.print("No row is evaluated, because all of them are used for fitting.")
        return None
    evaluated = split_to_evaluate(table)
    chosen = names - {fit_on} if evaluated in (None, fit_on) else {evaluated}
    return lambda part: part if part.splits is None else part.take([name in chosen for name in part.splits])


def print_results(
    module: Calibrator | Rule, path: Path, figures: dict[str, Any], title: str, lines: list[list[str]], next_step: str
) -> None:
    """Prints the metrics of the evaluated rows, the calibrator or the rule, and what was written.

    Args:
        module: The calibrator or the rule.
        path: The table that was written.
        figures: What `--json` prints.
        title: What the table of metrics is about.
        lines: The table of metrics, its head first.
        next_step: The command to run next.
    """
    from rich.console import Console
    from rich.table import Column, Table

    console = Console(markup=False, highlight=False)
    if len(lines) > 1 or figures["too_small"]:
        console.print(title, style="bold")
    if len(lines) > 1:
        table = Table("", *(Column(name, justify="right") for name in lines[0]))
        for line in lines[1:]:
            table.add_row(*line)
        console.print(table)
    if figures["too_small"]:
        console.print(figures["too_small"])
    console.print(repr(module))
    console.print(f"Wrote {figures['rows']:,} rows to {path}. Next: {next_step}", soft_wrap=True)


def row_figures(path: Path, rows: int, evaluated: int) -> dict[str, Any]:
    """What was written and how many rows were evaluated, for `--json`."""
    from manyhot.evaluation.result import too_small

    small = too_small({"rows": evaluated, "rows without known cells": 0}) if evaluated else None
    return {"written": str(path), "rows": rows, EVALUATED_ROWS: evaluated, "too_small": small}


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
    from manyhot.evaluation.catalog import format_value
    from manyhot.evaluation.pipeline import MetricInputs, MetricSpec, MetricSums, has_probs
    from manyhot.metrics import CalibrationError, LogLoss

    console = error_console()
    calibrator = build_or_load(method, Calibrator, argument="--method", owner="manyhot calibrate")
    path = options.table_path(out or options.path_beside(predictions, "calibrated"), overwrite=overwrite, save=save)
    opened = partial(open_table, kind=kind, targets=targets, console=console)
    table = opened(predictions)
    learns = not bool(calibrator.fitted)
    of = calibrator.kind or ("scores" if "scores" in table.kinds else "probs")
    if learns:
        source = rows_to_fit("manyhot calibrate", table, fit_on, fit_table, targets, opened)
        values, truth = collect_rows(source, partial(values_to_calibrate, kind=of), at_most=at_most, seed=seed)
        if truth is None:
            hint = "Pass the file of true labels as --targets."
            raise InputError("PREDICTIONS", "manyhot calibrate", "hold targets in the rows to fit on", "none", hint)
        if calibrator.link is None and of == "scores" and (table.link is None or table.link.gives_probs):
            calibrator.link = table.link
        calibrator.fit(values, truth, kind=of)
    if save:
        manyhot.save(calibrator, save)
    measures = [
        MetricSpec(LogLoss, "probs", {"log_loss": "log loss"}),
        MetricSpec(CalibrationError, "probs", {"ece": "ECE"}),
    ]
    before, after = MetricSums(measures), MetricSums(measures)
    held_out = held_out_rows(table, predictions, fit_on, fit_table, console)

    def calibrated(part: Predictions) -> Predictions:
        return part.replace(probs=calibrator(values_to_calibrate(part, kind=of), kind=of), calibrator=calibrator)

    for old, new in rewrite_table(table, path, calibrated, "Calibrating", console):
        if held_out is not None:
            after.update(MetricInputs(held_out(new)))
            if has_probs(table):
                before.update(MetricInputs(held_out(old)))
    rows = after.results()["log loss"].counts["rows"]
    figures, lines = row_figures(path, len(table), rows), [["before", "after"]]
    if rows:
        figures["before"] = before.values() if has_probs(table) else {"log loss": None, "ECE": None}
        figures["after"] = after.values()
    if as_json:
        print_json(figures)
        return
    if rows and not figures["too_small"]:
        for key, name in (("log loss", "log_loss"), ("ECE", "ece")):
            lines.append([key, *(format_value(name, figures[way][key]) for way in lines[0])])
    title = f"{rows:,} {'held-out rows' if learns else 'rows evaluated'}"
    print_results(calibrator, path, figures, title, lines, f"manyhot decide {quote(str(path))} --rule ...")


def values_to_calibrate(part: Predictions, *, kind: str) -> Tensor:
    """The scores or the probabilities of a table; an error if it holds only the other kind."""
    values: Tensor | None = getattr(part, kind)
    if values is None:
        hint = "Calibrate scores by a calibrator that was fitted on scores, and probabilities by one of probabilities."
        raise InputError("PREDICTIONS", "manyhot calibrate", f"hold {kind} for this calibrator", "none", hint)
    return values


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
    import torch

    import manyhot
    from manyhot.decide import ConformalRiskControl, Rule
    from manyhot.evaluation.catalog import format_value, metric_title
    from manyhot.evaluation.pipeline import MetricInputs, MetricSums, set_measures
    from manyhot.metrics.sets import PredictedSetSize

    console = error_console()
    chosen = build_or_load(rule, Rule, argument="--rule", owner="manyhot decide")
    path = options.table_path(out or options.path_beside(predictions, "decided"), overwrite=overwrite, save=save)
    opened = partial(open_table, kind=kind, targets=targets, console=console)
    table = opened(predictions)
    read_values = rule_input(chosen, on)
    if bool(chosen.fitted) and fit_on is not None:
        table.of_split(fit_on)  # nothing is fitted on it, but rows of a mistyped split would be evaluated
    if not bool(chosen.fitted):
        source = rows_to_fit("manyhot decide", table, fit_on, fit_table, targets, opened)
        fit_rule(chosen, *collect_rows(source, read_values, at_most=at_most, seed=seed))
    if save:
        manyhot.save(chosen, save)
    held_out = held_out_rows(table, predictions, fit_on, fit_table, console)
    control = next((part for part in chosen.modules() if isinstance(part, ConformalRiskControl)), None)
    sizes, sets, losses = PredictedSetSize(), MetricSums(set_measures(known_size=True)), []

    def decided(part: Predictions) -> Predictions:
        decision = chosen(read_values(part))
        return part.replace(decisions=decision.labels, abstain=decision.abstain, rule=chosen)

    for _, new in rewrite_table(table, path, decided, "Deciding", console):
        sizes.update(MetricInputs(new).decisions, None)
        if held_out is not None:
            rows = MetricInputs(held_out(new))
            sets.update(rows)
            if control is not None:
                answered = ~rows.decisions.abstain
                losses.append(control.row_losses(rows.decisions.labels[answered], rows.targets[answered]))
    evaluated, of_all = sets.results()["micro_f"].counts["rows"], sizes.compute()
    # Nothing was predicted where the rule abstained on all rows.
    mean_size, no_label = (0.0 if value != value else value for value in of_all.values.values())
    abstained = (len(table) - of_all.counts["rows"]) / max(len(table), 1)
    figures = row_figures(path, len(table), evaluated)
    figures |= {MEAN_SIZE: mean_size, "rows without labels": no_label, ABSTAINED: abstained}
    figures |= sets.values() if evaluated else {}
    if control is not None and any(map(len, losses)):
        figures |= {"risk": float(torch.cat(losses).mean()), RISK_BOUND: control.alpha}
    if as_json:
        print_json(figures)
        return
    lines = [
        [""],
        [metric_title("mean_size"), format_value("mean_size", mean_size)],
        ["rows without predicted labels", f"{100 * no_label:.1f} %"],
        ["rows where the rule abstained", f"{100 * abstained:.1f} %"],
    ]
    if evaluated and not figures["too_small"]:
        lines += [[metric_title(name), format_value(name, figures[name])] for name in PRINTED_METRICS]
    if control is not None and "risk" in figures and not figures["too_small"]:
        guarantee = f"{RISK_TITLES[control.risk]}, at most {100 * control.alpha:g} % guaranteed"
        lines.append([guarantee, f"{100 * figures['risk']:.1f} %"])
    title = f"{len(table):,} rows, {evaluated:,} of them evaluated"
    print_results(chosen, path, figures, title, lines, f"manyhot evaluate {quote(str(path))}")


def rule_input(rule: Rule, on: Kind) -> Callable[[Predictions], Tensor | Unclipped]:
    """A function that gives the input of the rule for a batch."""
    from manyhot.evaluation.pipeline import has_probs

    if on == "scores" and rule.needs_probs:
        hint = "Leave --on out."
        raise InputError("--on", "manyhot decide", f"be probs for {type(rule).__name__}", "scores", hint)

    def read_values(part: Predictions) -> Tensor | Unclipped:
        if on == "probs":
            if not has_probs(part):
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


# Keys of the JSON, which stay as they are.
EVALUATED_ROWS, MEAN_SIZE, ABSTAINED, RISK_BOUND = "judged rows", "labels a row", "rows for a person", "promised risk"
RISK_TITLES = {
    "false_negatives": "labels of a row that are missed",
    "false_discoveries": "labels predicted for a row that are wrong",
}
# The figures that are printed; --json has all of them.
PRINTED_METRICS = ("micro_f", "macro_f", "micro_precision", "micro_recall", "exact_match")
