"""`manyhot studio`: look at predictions, search them, try decisions and correct labels, in a page of this machine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from manyhot.cli import options
from manyhot.cli.options import KindOption, TargetsOption
from manyhot.refusal import refusal

OWNER = "manyhot studio"
OpenedArgument = Annotated[
    str,
    typer.Argument(
        metavar="RUN_OR_PREDICTIONS", help="The folder of a run, or a table of predictions: Parquet, CSV, TSV or NPZ."
    ),
]
RootsOption = Annotated[
    list[Path] | None,
    typer.Option("--root", help="A folder that pictures may be read from; can be given several times."),
]
LabelsOption = Annotated[
    Path | None,
    typer.Option(
        "--labels", metavar="FILE", help="Where corrected labels go (default: reviewed.csv, in the run or beside it)."
    ),
]
ModelOption = Annotated[
    Path | None, typer.Option("--model", metavar="RUN", help="The run that classifies pictures dropped on the page.")
]
TokenOption = Annotated[
    str | None,
    typer.Option(
        "--token", envvar="MANYHOT_STUDIO_TOKEN", help="What others must show; drawn for addresses other than this one."
    ),
]


def studio(
    predictions: OpenedArgument,
    split: Annotated[str | None, typer.Option("--split", help="Only rows of this split.")] = None,
    root: RootsOption = None,
    labels: LabelsOption = None,
    model: ModelOption = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Nothing can be edited.")] = False,
    host: Annotated[str, typer.Option("--host", help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="The port; by default 8642 or the next free one.")
    ] = None,
    token: TokenOption = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    kind: KindOption = None,
    targets: TargetsOption = None,
) -> None:
    """Open a local page to search pictures, classify new ones, try decisions, and review labels.

    [b]Examples[/b]

    manyhot studio runs/last

    manyhot studio new.parquet --model runs/last --root /data/photos

    manyhot studio scores.csv --kind probs --targets truth.csv --read-only

    manyhot studio runs/last --host 0.0.0.0 --port 8080
    """
    check_place(predictions)
    check_installed()
    from manyhot.studio import listen, open_browser, open_studio, serve

    if token is not None and not token.strip():
        raise refusal("--token", OWNER, "have at least one character", repr(token), "Leave it out to have one drawn.")
    tell = options.console()
    with tell.status(f"Opening {predictions} ..."):
        opened, notes = open_studio(
            predictions,
            split=split,
            kind=None if kind is None else kind.value,
            targets=targets,
            roots=root or (),
            labels_file=labels,
            model=model,
            read_only=read_only,
        )
    options.tell_notes(notes, tell)
    try:
        address = listen(host, port, token=token)
    except BaseException:
        opened.close()
        raise

    def started() -> None:
        typer.echo(f"The studio is open at {address.url}")
        if opened.review is not None:
            tell.print(f"Corrected labels go to {opened.labels_name}. Stop with Ctrl+C; nothing is lost.")
        if not no_open:
            open_browser(address.url)

    serve(opened, address, started=started)
    if opened.review is not None and opened.review.trouble is not None:
        tell.print(f"All edits are in the journal, but not in the labels file: {opened.review.trouble}")
        raise typer.Exit(1)
    tell.print("The studio is closed.")


def check_place(predictions: str) -> None:
    """Refuses what is not there before anything heavy is imported; a pattern is left to those who read it."""
    import glob

    if not Path(predictions).exists() and not glob.has_magic(predictions):
        remedy = (
            "Train one first: manyhot train photos.csv; or score pictures: manyhot predict RUN IMAGES -o new.parquet."
        )
        raise refusal("RUN_OR_PREDICTIONS", OWNER, "be there", repr(predictions), remedy)


def check_installed() -> None:
    """Says at once what must be installed."""
    import importlib.util

    missing = [
        name
        for name in ("fastapi", "uvicorn", "python_multipart", "duckdb", "PIL")
        if not importlib.util.find_spec(name)
    ]
    if missing:
        raise ImportError(f"The studio needs {', '.join(missing)}. Install it with: pip install 'manyhot[studio]'")
