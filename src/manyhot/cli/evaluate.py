"""`manyhot evaluate`: everything that is worth knowing about a table of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli import options
from manyhot.cli.options import JsonOption, KindOption, PredictionsFile, TargetsOption
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from manyhot.labels import Labels

SplitOption = Annotated[
    str | None,
    typer.Option("--split", help="Judge this split, or `all` rows; by default `test` where there is one."),
]
ByLabelOption = Annotated[bool, typer.Option("--by-label", help="Also a table of every label.")]
IntervalsOption = Annotated[
    float | None,
    typer.Option("--intervals", min=0.5, max=0.999, help="Bootstrap intervals of this level, such as 0.95."),
]
CountsOption = Annotated[
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
    train_counts: CountsOption = None,
    bins: Annotated[int, typer.Option("--bins", min=1, help="Bins of the calibration errors.")] = 15,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the bootstrap.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Judge predictions: ranking, probabilities, decisions, rows without labels.

    [b]Examples[/b]

    manyhot evaluate predictions.parquet --split test

    manyhot evaluate probabilities.csv --kind probs --targets truth.csv --json

    manyhot evaluate decided.parquet --split test --by-label --intervals 0.95
    """
    import manyhot

    tell = options.console()
    table = options.open_table(predictions, kind, targets, tell)
    if "targets" not in table.kinds:
        remedy = "Pass the file of true labels as --targets."
        raise refusal("PREDICTIONS", "manyhot evaluate", "hold targets", ", ".join(table.kinds), remedy)
    counts = read_counts(train_counts, table.labels) if train_counts else None
    with tell.status(f"Evaluating {len(table):,} rows of {len(table.labels):,} labels ..."):
        evaluation = manyhot.evaluate(
            table, split=split, bins=bins, intervals=intervals, train_counts=counts, seed=seed
        )
    if as_json:
        typer.echo(evaluation.to_json())
        return
    show(evaluation, by_label=by_label)


def show(evaluation: Any, *, by_label: bool) -> None:
    """The tables for people."""
    from rich.console import Console

    console = Console()
    console.print(evaluation)
    if by_label:
        console.print(evaluation.by_label())


def read_counts(path: Path, labels: Labels) -> dict[str, int]:
    """Training images by label, from a CSV with the columns label and count."""
    import csv

    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    if not rows or not {"label", "count"} <= set(rows[0]):
        got = ", ".join(rows[0]) if rows else "an empty file"
        raise refusal("--train-counts", "manyhot evaluate", "have the columns label and count", got, "Rename them.")
    counts = {}
    for row in rows:
        if not str(row["count"]).isdigit():
            remedy = "Write how many training images carry the label."
            raise refusal("--train-counts", "manyhot evaluate", "hold whole numbers", repr(row["count"]), remedy)
        counts[labels.names[labels.column(row["label"])]] = int(row["count"])
    return counts
