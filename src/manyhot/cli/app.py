"""The verbs of the command line. Nothing here imports torch, so that `--help` answers at once."""

from __future__ import annotations

import typer

from manyhot.cli.calibrate import calibrate
from manyhot.cli.compare import compare
from manyhot.cli.decide import decide
from manyhot.cli.demo import demo
from manyhot.cli.evaluate import evaluate
from manyhot.cli.export import export
from manyhot.cli.importing import import_
from manyhot.cli.inspect import inspect
from manyhot.cli.predict import predict
from manyhot.cli.report import report
from manyhot.cli.search import search
from manyhot.cli.studio import studio
from manyhot.cli.train import train

app = typer.Typer(
    name="manyhot",
    help="Classification with zero, one or many labels, and confidences that can be trusted.",
    epilog="Predictions are Parquet tables of manyhot, or CSV, TSV, NPZ and Parquet files of any other model.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# In the order in which people need them.
for verb in (demo, inspect, train, compare, predict, search, studio, export, evaluate, report, calibrate, decide):
    app.command()(verb)
app.command("import")(import_)


def version(show: bool) -> None:
    """Prints the version and ends."""
    if show:
        from manyhot import __version__

        typer.echo(f"manyhot {__version__}")
        raise typer.Exit()


@app.callback()
def options(
    show_version: bool = typer.Option(False, "--version", callback=version, is_eager=True, help="Print the version."),
) -> None:
    """Options of the program itself."""
