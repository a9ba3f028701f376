"""All commands. Nothing here imports torch, so that `--help` is fast."""

from __future__ import annotations

import typer

from manyhot.cli.messages import Command
from manyhot.cli.pages import report, studio
from manyhot.cli.predict import export, predict
from manyhot.cli.search import search
from manyhot.cli.tables import calibrate, decide, evaluate, import_
from manyhot.cli.train import compare, demo, inspect, train

app = typer.Typer(
    name="manyhot",
    help="Classification with zero, one or many labels, and confidences that can be trusted.",
    epilog="Predictions are Parquet tables of manyhot, or CSV, TSV, NPZ and Parquet files of any other model.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order in which they are usually needed.
for command in (demo, inspect, train, compare, predict, search, studio, export, evaluate, report, calibrate, decide):
    app.command(cls=Command)(command)
app.command("import", cls=Command)(import_)


def print_version(show: bool) -> None:
    """Prints the version and ends."""
    if show:
        from manyhot import __version__

        typer.echo(f"manyhot {__version__}")
        raise typer.Exit()


@app.callback()
def global_options(
    show_version: bool = typer.Option(
        False, "--version", callback=print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Options of the program itself."""
