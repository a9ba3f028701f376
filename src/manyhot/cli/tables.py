"""`manyhot import`, `evaluate`, `calibrate` and `decide`: commands on tables of predictions."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import typer
from typer import Argument, Option

from manyhot.cli.console import error_console, print_json, print_notes, print_table, progress
from manyhot.cli.options import JSON, OVERWRITE, Kind, TableCommand, check_output_path, path_beside
from manyhot.errors import InputError
from manyhot.registry import construct

if TYPE_CHECKING:
    from torch import Tensor

    from manyhot.calibrate import Calibrator
    from manyhot.decide import Rule
    from manyhot.decide.rule import Unclipped
    from manyhot.evaluation.pipeline import MetricInputs
    from manyhot.labels import Labels
    from manyhot.predictions import Predictions
    from manyhot.predictions.predictions import PredictionTable


PREDICTIONS = Argument(
    metavar="PREDICTIONS", help="A table of predictions: Parquet, a folder of parts, CSV, TSV or NPZ."
)
OUT_TABLE = Option(None, "--out", "-o", help="The table to write (default: beside PREDICTIONS).")


def table_path(path: Path, *, overwrite: bool) -> Path:
    """The path of the table to write; rejects suffixes of other formats, with which it could not be opened again."""
    if path.name.lower().endswith((".csv", ".tsv", ".gz", ".npz", ".npy", ".json")):
        raise InputError("--out", "", "name a Parquet file", repr(str(path)), "Let the name end with .parquet.")
    return check_output_path(path, "--out", overwrite=overwrite)


class ImportCommand(TableCommand):
    """Write the predictions of any model as a Parquet table, also those that do not fit in memory.

    What was detected is printed; each option overrides it. The other commands import by themselves, with the defaults.

    [b]Examples[/b]

    manyhot import scores.csv --kind scores --targets truth.csv -o predictions.parquet

    manyhot import probs.npz --kind probs -o predictions.parquet

    manyhot import all.csv --kind probs --id-column image --labels-column tags --separator ";"
    """

    file: str = Argument(metavar="FILE", help="CSV, TSV, NPZ or Parquet, one row per sample.")
    out: Path | None = OUT_TABLE
    id_column: str | None = Option(None, help="The column of ids, if it has another name.")
    labels_column: str | None = Option(None, help="The column of lists of true labels, if it has another name.")
    separator: str | None = Option(None, help="What separates the names in such a list; detected by default.")
    label: list[str] | None = Option(None, help="A column to take as a label; all numeric ones by default. Repeat it.")
    leave_out_others: bool = Option(
        False, "--leave-out-others", help="Leave out true labels that the model does not know, instead of stopping."
    )
    overwrite: bool = OVERWRITE

    def execute(self) -> None:
        """Reads and writes the table."""
        from manyhot.predictions import read_predictions

        path = table_path(self.out or path_beside(self.file, "imported"), overwrite=self.overwrite)
        with error_console().status(f"Importing {Path(self.file).name} ..."):
            table = read_predictions(
                self.file,
                kind=self.kind,
                targets=self.targets,
                id_column=self.id_column,
                labels_column=self.labels_column,
                separator=self.separator,
                labels=self.label,
                other_labels="leave out" if self.leave_out_others else "refuse",
                to=path,
            )
        print_notes(*table.notes)
        typer.echo(f"Wrote {len(table):,} rows of {len(table.labels):,} labels to {path}.")


class EvaluateCommand(TableCommand):
    """Evaluate predictions: ranking, probabilities, decisions, rows without labels.

    [b]Examples[/b]

    manyhot evaluate predictions.parquet --split test

    manyhot evaluate probabilities.csv --kind probs --targets truth.csv --json

    manyhot evaluate decided.parquet --split test --by-label --intervals 0.95
    """

    predictions: str = PREDICTIONS
    split: str | None = Option(None, help="Evaluate this split, or `all` rows; by default `test` where there is one.")
    by_label: bool = Option(False, "--by-label", help="Also a table of all labels.")
    intervals: float | None = Option(None, min=0.5, max=0.999, help="Bootstrap intervals of this level, such as 0.95.")
    train_counts: Path | None = Option(
        None, help="CSV (label, count) of training images, for few, medium and many shot."
    )
    bins: int = Option(15, min=1, help="Bins of the calibration errors.")
    seed: int = Option(0, help="Seed of the bootstrap.")
    as_json: bool = JSON

    def execute(self) -> None:
        """Evaluates the table, and prints the values."""
        from manyhot.evaluation import evaluate

        table = self.open_table(self.predictions)
        counts = read_train_counts(self.train_counts, table.labels) if self.train_counts else None
        with error_console().status(f"Evaluating {len(table):,} rows of {len(table.labels):,} labels ..."):
            evaluation = evaluate(
                table, split=self.split, bins=self.bins, intervals=self.intervals, train_counts=counts, seed=self.seed
            )
        if self.as_json:
            typer.echo(evaluation.to_json())
            return
        from rich.console import Console

        console = Console()
        console.print(evaluation)
        if self.by_label:
            console.print(evaluation.by_label())


def read_train_counts(path: Path, labels: Labels) -> dict[str, int]:
    """Training images by label, from a CSV with the columns label and count."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"label", "count"} <= set(rows[0]):
        got = ", ".join(rows[0]) if rows else "an empty file"
        raise InputError("--train-counts", "", "have the columns label and count", got, "Rename them.")
    for row in rows:
        if not str(row["count"]).isdigit():
            hint = "Write how many training images carry the label."
            raise InputError("--train-counts", "", "hold whole numbers", repr(row["count"]), hint)
    return {labels.names[labels.column(row["label"])]: int(row["count"]) for row in rows}


def build_or_load(text: str, base: type, option: str) -> Any:
    """A calibrator or a rule: read from a JSON file if the text names one, otherwise built from the text."""
    import manyhot

    if not text.endswith(".json"):
        return construct(text, base, argument=option, owner="")
    module = manyhot.load(text)
    if not isinstance(module, base):
        kind = base.__name__.lower()
        hint = f"Pass for example a {kind} that manyhot.save wrote."
        raise InputError(option, "", f"be a {kind}", type(module).__name__, hint)
    return module


AT_MOST = "Fit on at most this many rows, sampled with --seed."


class FitCommand(TableCommand):
    """A command that fits something on some rows of a table, and writes all rows with what it gives."""

    predictions: str = PREDICTIONS
    fit_on: str | None = Option(None, metavar="SPLIT", help="The split to fit on; all rows are written.")
    fit_table: str | None = Option(None, metavar="FILE", help="Another table to fit on, instead of a split.")
    out: Path | None = OUT_TABLE
    save: Path | None = Option(None, help="Also write the fitted calibrator or rule to this JSON file.")
    at_most: int = Option(200_000, min=1, help=AT_MOST)
    seed: int = Option(0, help="Random seed.")
    overwrite: bool = OVERWRITE
    as_json: bool = JSON

    def output_path(self, what: str) -> Path:
        """The table to write; the file of --save is checked as well."""
        path = self.out or path_beside(self.predictions, what)
        if self.save is not None:
            if self.save.absolute() == path.absolute():
                hint = "Rename one of them."
                raise InputError("--save", "", "name another file than --out", repr(str(self.save)), hint)
            check_output_path(self.save, "--save", overwrite=self.overwrite)
        return table_path(path, overwrite=self.overwrite)

    def sample(self, table: PredictionTable, *kinds: str, needs_targets: bool = True) -> Predictions:
        """The rows to fit on, or a sample of --at-most of them, with values of some kinds."""
        from manyhot.predictions.predictions import concatenate, sample_batches

        rows = self.rows_to_fit(table)
        if not len(rows):
            raise InputError("rows to learn from", "", "be there", "an empty table", "Name a split with rows.")
        if needs_targets and "targets" not in rows.kinds:
            hint = "Pass the file of true labels as --targets."
            raise InputError("PREDICTIONS", "", "hold targets in the rows to fit on", "none", hint)
        read = [kind for kind in rows.kinds if kind in (*kinds, "targets")]
        return concatenate(list(sample_batches(rows, self.at_most, seed=self.seed, kinds=read)))

    def rows_to_fit(self, table: PredictionTable) -> PredictionTable:
        """The rows of --fit-on, or those of --fit-table, which must have the same labels."""
        splits = ", ".join(f"{name!r} ({rows:,} rows)" for name, rows in table.split_sizes().items())
        if (self.fit_on is None) == (self.fit_table is None):
            hint = f"Name a split that is not evaluated later; this table has {splits}."
            if not splits:
                hint = "This table has no splits: add a column `split`, or pass --fit-table."
            got = "neither" if self.fit_on is None else "both"
            raise InputError("--fit-on or --fit-table", "", "name the rows to learn from", got, hint)
        if self.fit_on is not None:
            return table.of_split(self.fit_on)
        from manyhot.tables.reader import is_archive

        if self.targets is not None and is_archive(self.targets):  # without ids, they cannot be those of two tables
            hint = "Put them into each table with `manyhot import --targets` first."
            raise InputError("--targets", "", "have ids where there is a --fit-table", repr(str(self.targets)), hint)
        try:
            other = self.open_table(str(self.fit_table))
        except InputError as error:
            if error.argument in ("path", "source"):
                error.argument, error.owner = "--fit-table", ""
            raise
        if other.labels.names != table.labels.names:
            got = f"{len(other.labels)} labels, {len(table.labels)} in PREDICTIONS"
            hint = "Pass a table of the same model."
            raise InputError("--fit-table", "", "have the labels of PREDICTIONS in the same order", got, hint)
        return other

    def rewrite(
        self, table: PredictionTable, path: Path, change: Callable[[Predictions], Predictions], text: str
    ) -> Iterator[tuple[MetricInputs, MetricInputs]]:
        """Writes a table with changed columns, batch by batch; yields the rows to evaluate, before and after."""
        from manyhot.evaluation.pipeline import MetricInputs
        from manyhot.predictions import PredictionsWriter

        held_out = self.held_out(table)
        with PredictionsWriter(path, table.labels) as writer, progress(text, len(table)) as advance:
            for part in table.batches():
                changed = change(part)
                writer.write(changed)
                if held_out is not None:
                    yield MetricInputs(held_out(part)), MetricInputs(held_out(changed))
                advance(len(part))

    def held_out(self, table: PredictionTable) -> Callable[[Predictions], Predictions] | None:
        """Takes of a batch the rows of the default split of `evaluate`, or else those that were not used for fitting.

        None where no row is evaluated; prints why if all are used for fitting.
        """
        from manyhot.evaluation.pipeline import split_to_evaluate

        if "targets" not in table.kinds:
            return None
        names, path = set(table.split_sizes()), self.predictions
        same = self.fit_table is not None and os.path.exists(path) and os.path.samefile(path, self.fit_table)
        if same or names == {self.fit_on}:
            error_console().print("No row is evaluated, because all of them are used for fitting.")
            return None
        evaluated = split_to_evaluate(table)
        chosen = names - {self.fit_on} if evaluated in (None, self.fit_on) else {evaluated}
        return lambda part: part if part.splits is None else part.take([name in chosen for name in part.splits])

    def print_results(
        self,
        fitted: Calibrator | Rule,
        figures: dict[str, Any],
        title: str,
        head: Sequence[str],
        rows: Sequence[Sequence[str]],
        next_step: str,
    ) -> None:
        """Prints the metrics of the evaluated rows, the calibrator or the rule, and what was written.

        Args:
            fitted: The calibrator or the rule.
            figures: What `--json` prints.
            title: What the table of metrics is about.
            head: The headings of its columns.
            rows: Its rows.
            next_step: The command to run next.
        """
        if self.as_json:
            print_json(figures)
            return
        if rows or figures["too_small"]:
            typer.secho(title, bold=True)
        if rows:
            print_table(head, rows)
        if figures["too_small"]:
            typer.echo(figures["too_small"])
        typer.echo(f"{fitted!r}\nWrote {figures['rows']:,} rows to {figures['written']}. Next: {next_step}")


def row_figures(path: Path, rows: int, evaluated: int) -> dict[str, Any]:
    """What was written and how many rows were evaluated, for `--json`, whose keys stay as they are."""
    from manyhot.evaluation.result import too_small

    small = too_small({"rows": evaluated, "rows without known cells": 0}) if evaluated else None
    return {"written": str(path), "rows": rows, "judged rows": evaluated, "too_small": small}


class CalibrateCommand(FitCommand):
    """Fit a calibrator on one split and write all rows with calibrated probabilities.

    The rows of `test`, or else those it was not fitted on, are evaluated before and after.

    [b]Examples[/b]

    manyhot calibrate predictions.parquet --fit-on val

    manyhot calibrate scores.csv --kind scores --targets truth.csv --fit-on val -o calibrated.parquet

    manyhot calibrate predictions.parquet -m "PlattScaling(sharing='none')" --fit-on val --save calibrator.json

    manyhot calibrate tomorrow.parquet -m calibrator.json
    """

    method: str = Option(
        "BetaCalibration",
        "--method",
        "-m",
        help="TemperatureScaling, PlattScaling, BetaCalibration or IsotonicCalibration, with options as in Python; "
        "or a JSON file of a fitted one.",
    )

    def execute(self) -> None:
        """Fits, writes, and prints the errors before and after."""
        import manyhot
        from manyhot.calibrate import Calibrator
        from manyhot.evaluation.catalog import format_value
        from manyhot.evaluation.pipeline import MetricSpec, MetricSums, has_probs
        from manyhot.metrics import CalibrationError, LogLoss

        calibrator = build_or_load(self.method, Calibrator, "--method")
        path, table = self.output_path("calibrated"), self.open_table(self.predictions)
        kind = calibrator.kind or ("scores" if "scores" in table.kinds else "probs")
        learns = not bool(calibrator.fitted)
        if learns:
            sample = self.sample(table, kind)
            if calibrator.link is None and kind == "scores" and (table.link is None or table.link.gives_probs):
                calibrator.link = table.link
            calibrator.fit(values_to_calibrate(sample, kind), sample.targets, kind=kind)
        if self.save:
            manyhot.save(calibrator, self.save)
        measures = [
            MetricSpec(LogLoss, "probs", {"log_loss": "log loss"}),
            MetricSpec(CalibrationError, "probs", {"ece": "ECE"}),
        ]
        before, after = MetricSums(measures), MetricSums(measures)

        def calibrated(part: Predictions) -> Predictions:
            return part.replace(probs=calibrator(values_to_calibrate(part, kind), kind=kind), calibrator=calibrator)

        for old, new in self.rewrite(table, path, calibrated, "Calibrating"):
            after.update(new)
            if has_probs(table):
                before.update(old)
        evaluated = after.results()["log loss"].counts["rows"]
        figures, rows = row_figures(path, len(table), evaluated), []
        if evaluated:
            figures["before"] = before.values() if has_probs(table) else {"log loss": None, "ECE": None}
            figures["after"] = after.values()
        if evaluated and not figures["too_small"]:
            for key, name in (("log loss", "log_loss"), ("ECE", "ece")):
                rows.append([key, *(format_value(name, figures[way][key]) for way in ("before", "after"))])
        title = f"{evaluated:,} {'held-out rows' if learns else 'rows evaluated'}"
        next_step = f"manyhot decide {quote(str(path))} --rule ..."
        self.print_results(calibrator, figures, title, ["", "before", "after"], rows, next_step)


def values_to_calibrate(part: Predictions, kind: str) -> Tensor:
    """The scores or the probabilities of a table; an error if it holds only the other kind."""
    values: Tensor | None = getattr(part, kind)
    if values is None:
        hint = "Calibrate scores by a calibrator that was fitted on scores, and probabilities by one of probabilities."
        raise InputError("PREDICTIONS", "", f"hold {kind} for this calibrator", "none", hint)
    return values


RISK_TITLES = {
    "false_negatives": "labels of a row that are missed",
    "false_discoveries": "labels predicted for a row that are wrong",
}
# The figures that are printed; --json has all of them.
PRINTED_METRICS = ("micro_f", "macro_f", "micro_precision", "micro_recall", "exact_match")


class DecideCommand(FitCommand):
    """Fit a rule on one split and write all rows with their decisions.

    The rows of `test`, or else those it was not fitted on, are evaluated where their true labels are known.

    [b]Examples[/b]

    manyhot decide calibrated.parquet --rule "AverageK(3)" --fit-on val

    manyhot decide calibrated.parquet --rule "LabelThresholds(precision=0.9)" --fit-on val --save rule.json

    manyhot decide calibrated.parquet --rule "ConformalRiskControl(0.1)" --fit-on val

    manyhot decide calibrated.parquet --rule "Abstain(ExpectedFBeta(), at_most=0.1)" --fit-on val

    manyhot decide tomorrow.parquet --rule rule.json
    """

    rule: str = Option(
        ...,
        "--rule",
        "-r",
        help="Threshold, LabelThresholds, CostThresholds, TopK, AverageK, ExpectedFBeta, UniformThreshold, "
        "ClassThresholds, ConformalRiskControl, NoneOfThese or Abstain, with options as in Python; or a fitted one "
        "in JSON.",
    )
    on: Kind = Option("probs", help="What the rule is applied to. Scores only rank: most rules need probabilities.")
    at_most = Option(1_000_000, min=1, help=AT_MOST)

    def execute(self) -> None:
        """Fits, writes, and prints what the decisions are like."""
        import torch

        import manyhot
        from manyhot.decide import ConformalRiskControl, Rule
        from manyhot.evaluation.catalog import format_value, metric_title
        from manyhot.evaluation.pipeline import MetricSums, set_measures
        from manyhot.metrics.sets import PredictedSetSize

        rule = build_or_load(self.rule, Rule, "--rule")
        path, table = self.output_path("decided"), self.open_table(self.predictions)
        if self.on == "scores" and rule.needs_probs:
            raise InputError("--on", "", f"be probs for {type(rule).__name__}", "scores", "Leave --on out.")
        if not bool(rule.fitted):
            sample = self.sample(table, "scores", "probs", needs_targets=rule.needs_targets)
            rule.fit(self.rule_input(sample), sample.targets)
        elif self.fit_on is not None:
            table.of_split(self.fit_on)  # nothing is fitted on it, but rows of a mistyped split would be evaluated
        if self.save:
            manyhot.save(rule, self.save)
        control = next((part for part in rule.modules() if isinstance(part, ConformalRiskControl)), None)
        sizes, sets, losses = PredictedSetSize(), MetricSums(set_measures(known_size=True)), []

        def decided(part: Predictions) -> Predictions:
            decision = rule(self.rule_input(part))
            sizes.update(decision, None)
            return part.replace(decisions=decision.labels, abstain=decision.abstain, rule=rule)

        for _, new in self.rewrite(table, path, decided, "Deciding"):
            sets.update(new)
            if control is not None:
                answered = ~new.decisions.abstain
                losses.append(control.row_losses(new.decisions.labels[answered], new.targets[answered]))
        evaluated, of_all = sets.results()["micro_f"].counts["rows"], sizes.compute()
        # Nothing was predicted where the rule abstained on all rows.
        mean_size, no_label = (0.0 if value != value else value for value in of_all.values.values())
        abstained = (len(table) - of_all.counts["rows"]) / max(len(table), 1)
        figures = row_figures(path, len(table), evaluated)
        figures |= {"labels a row": mean_size, "rows without labels": no_label, "rows for a person": abstained}
        figures |= sets.values() if evaluated else {}
        rows = [
            [metric_title("mean_size"), format_value("mean_size", mean_size)],
            ["rows without predicted labels", f"{100 * no_label:.1f} %"],
            ["rows where the rule abstained", f"{100 * abstained:.1f} %"],
        ]
        if evaluated and not figures["too_small"]:
            rows += [[metric_title(name), format_value(name, figures[name])] for name in PRINTED_METRICS]
        if control is not None and any(map(len, losses)):
            figures |= {"risk": float(torch.cat(losses).mean()), "promised risk": control.alpha}
            if not figures["too_small"]:
                guarantee = f"{RISK_TITLES[control.risk]}, at most {100 * control.alpha:g} % guaranteed"
                rows.append([guarantee, f"{100 * figures['risk']:.1f} %"])
        title = f"{len(table):,} rows, {evaluated:,} of them evaluated"
        self.print_results(rule, figures, title, ["", ""], rows, f"manyhot evaluate {quote(str(path))}")

    def rule_input(self, part: Predictions) -> Tensor | Unclipped:
        """What the rule is applied to: scores or probabilities of a batch."""
        from manyhot.evaluation.pipeline import has_probs

        if self.on == "scores":
            if part.scores is None:
                raise InputError("--on", "", "be a kind that the table holds", "scores", "Leave --on out.")
            return part.scores
        if not has_probs(part):
            hint = "Run `manyhot calibrate` first, or pass --on scores to a rule that only compares."
            raise InputError("PREDICTIONS", "", "hold probabilities", "scores alone", hint)
        return part.rule_values()
