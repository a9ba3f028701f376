"""`manyhot calibrate`: probabilities that held-out data bear out."""

from __future__ import annotations

import json
from functools import partial
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli import options
from manyhot.cli.options import (
    AtMostOption,
    FitOnOption,
    FitTableOption,
    JsonOption,
    KindOption,
    OutOption,
    OverwriteOption,
    PredictionsFile,
    SaveOption,
    SeedOption,
    TargetsOption,
)

if TYPE_CHECKING:
    from torch import Tensor

    from manyhot.predictions import Predictions

MethodOption = Annotated[
    str,
    typer.Option(
        "--method",
        "-m",
        help="Temperature, Affine, Beta or Isotonic, with options as in Python; or a JSON file of a fitted one.",
    ),
]


def calibrate(
    predictions: PredictionsFile,
    method: MethodOption = "Beta",
    fit_on: FitOnOption = None,
    fit_table: FitTableOption = None,
    kind: KindOption = None,
    targets: TargetsOption = None,
    out: OutOption = None,
    save: SaveOption = None,
    at_most: AtMostOption = 200_000,
    seed: SeedOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fit a calibrator on one split and write all rows with calibrated probabilities.

    The rows of `test`, or else those it was not fitted on, are judged before and after.

    [b]Examples[/b]

    manyhot calibrate predictions.parquet --fit-on val

    manyhot calibrate scores.csv --kind scores --targets truth.csv --fit-on val -o calibrated.parquet

    manyhot calibrate predictions.parquet -m "Affine(per='label')" --fit-on val --save calibrator.json

    manyhot calibrate tomorrow.parquet -m calibrator.json
    """
    import manyhot
    from manyhot.calibrate import Calibrator
    from manyhot.cli.fitting import Lesson, build_or_load, rewrite
    from manyhot.links import NoLink

    tell = options.console()
    calibrator = build_or_load(method, Calibrator, argument="--method", owner="manyhot calibrate")
    path = options.table_path(out or options.beside(predictions, "calibrated"), overwrite=overwrite, save=save)
    table = options.open_table(predictions, kind, targets, tell)
    lesson = Lesson("manyhot calibrate", table, predictions, fit_on, fit_table, kind, targets, tell)
    learns = not bool(calibrator.fitted)
    of = calibrator.kind or ("scores" if "scores" in table.kinds else "probs")
    if learns:
        values, truth = lesson.rows(partial(values_of, kind=of), at_most=at_most, seed=seed)
        if calibrator.link is None and of == "scores" and not isinstance(table.link, NoLink):
            calibrator.link = table.link
        calibrator.fit(values, require_targets(truth), kind=of)
    if save:
        manyhot.save(calibrator, save)
    judge = Judge(learns=learns)

    def calibrated(part: Predictions) -> Predictions:
        return part.replace(probs=calibrator(values_of(part, kind=of), kind=of), calibrator=calibrator)

    for before, after in rewrite(table, path, calibrated, "Calibrating", tell):
        judge.update(before, after, lesson.rows_to_judge(before))
    report(judge, calibrator, path, len(table), as_json=as_json)


def values_of(part: Predictions, *, kind: str) -> Tensor:
    """The scores or the probabilities of a table; refuses one that has only the others."""
    from manyhot.refusal import refusal

    values: Tensor | None = getattr(part, kind)
    if values is None:
        remedy = (
            "Calibrate scores by a calibrator that was fitted on scores, and probabilities by one of probabilities."
        )
        raise refusal("PREDICTIONS", "manyhot calibrate", f"hold {kind} for this calibrator", "none", remedy)
    return values


def require_targets(targets: Tensor | None) -> Tensor:
    """The targets, or the error that asks for them."""
    from manyhot.refusal import refusal

    if targets is None:
        remedy = "Pass the file of true labels as --targets."
        raise refusal("PREDICTIONS", "manyhot calibrate", "hold targets where it is learnt from", "none", remedy)
    return targets


class Judge:
    """Log loss and calibration error before and after, of the rows that were not learnt from.

    Args:
        learns: Whether the calibrator was fitted just now; where one comes from a file, nobody knows on which rows.
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
        from manyhot.links import NoLink

        rows = rows & (before.targets >= 0).any(1)
        self.rows += int(rows.sum())
        linked = before.link is not None and not isinstance(before.link, NoLink)
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


def report(judge: Judge, calibrator: Any, path: Any, rows: int, *, as_json: bool) -> None:
    """Says what was written, and what it was good for."""
    from manyhot.evaluation.result import too_small

    figures: dict[str, Any] = judge.figures() if judge.rows else {}
    small = too_small({"rows": judge.rows, "rows without known cells": 0}) if judge.rows else None
    if as_json:
        told = {"written": str(path), "rows": rows, "judged rows": judge.rows, "too_small": small, **figures}
        typer.echo(json.dumps(told))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False)
    if judge.rows:
        which = "rows that were not learnt from" if judge.learns else "rows judged"
        console.print(f"{judge.rows:,} {which}", style="bold", highlight=False)
    if small is not None:
        console.print(small, highlight=False)
    elif judge.rows:
        table = Table()
        table.add_column("")
        table.add_column("before", justify="right")
        table.add_column("after", justify="right")
        for name, after in figures["after"].items():
            before = figures["before"][name]
            table.add_row(name, "–" if before is None else show(name, before), show(name, after))
        console.print(table)
    console.print(f"{calibrator!r}", highlight=False)
    next_step = f"manyhot decide {quote(str(path))} --rule ..."
    console.print(f"Wrote {rows:,} rows to {path}. Next: {next_step}", soft_wrap=True, highlight=False)


def show(name: str, value: float | None) -> str:
    """A figure as people read it."""
    if value is None or value != value:
        return "–"
    return f"{100 * value:.2f} %" if name == "ECE" else f"{value:.4f}"
