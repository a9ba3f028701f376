"""`manyhot import`: the predictions of any model as a table of this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyhot.cli import options
from manyhot.cli.options import KindOption, OutOption, OverwriteOption, TargetsOption

SourceFile = Annotated[str, typer.Argument(metavar="FILE", help="CSV, TSV, NPZ or Parquet, one row a sample.")]
IdOption = Annotated[str | None, typer.Option("--id-column", help="The column of ids, if it has another name.")]
NamesOption = Annotated[
    str | None, typer.Option("--labels-column", help="The column of lists of true labels, if it has another name.")
]
SeparatorOption = Annotated[
    str | None, typer.Option("--separator", help="What separates the names in such a list; detected by default.")
]
LabelOption = Annotated[
    list[str] | None,
    typer.Option("--label", help="A column to take as a label; all numeric ones by default. Repeat it."),
]
LeaveOutOption = Annotated[
    bool,
    typer.Option("--leave-out-others", help="Leave out true labels that the model does not know, not refuse them."),
]


def import_(
    file: SourceFile,
    kind: KindOption = None,
    targets: TargetsOption = None,
    out: OutOption = None,
    id_column: IdOption = None,
    labels_column: NamesOption = None,
    separator: SeparatorOption = None,
    label: LabelOption = None,
    leave_out_others: LeaveOutOption = False,
    overwrite: OverwriteOption = False,
) -> None:
    """Write the predictions of any model as a Parquet table, also those that do not fit in memory.

    What was detected is told; each option overrides it. The other verbs import by themselves, with the defaults.

    [b]Examples[/b]

    manyhot import scores.csv --kind scores --targets truth.csv -o predictions.parquet

    manyhot import probs.npz --kind probs -o predictions.parquet

    manyhot import all.csv --kind probs --id-column image --labels-column tags --separator ";"
    """
    from manyhot.predictions import import_predictions

    tell = options.console()
    path = options.table_path(out or options.beside(file, "imported"), overwrite=overwrite)
    with tell.status(f"Importing {Path(file).name} ..."):
        table, notes = import_predictions(
            file,
            kind=None if kind is None else kind.value,
            targets=targets,
            id_column=id_column,
            labels_column=labels_column,
            separator=separator,
            labels=label,
            other_labels="leave out" if leave_out_others else "refuse",
            to=path,
        )
    options.tell_notes(notes, tell)
    typer.echo(f"Wrote {len(table):,} rows of {len(table.labels):,} labels to {path}.")
