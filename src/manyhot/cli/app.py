"""All commands. Nothing here imports torch, so that `--help` is fast."""

from __future__ import annotations

import typer

from manyhot.cli.messages import OneLineErrors
from manyhot.cli.pages import ReportCommand, StudioCommand
from manyhot.cli.predict import ExportCommand, PredictCommand
from manyhot.cli.search import SearchCommand
from manyhot.cli.tables import CalibrateCommand, DecideCommand, EvaluateCommand, ImportCommand
from manyhot.cli.train import CompareCommand, DemoCommand, InspectCommand, TrainCommand

# In the order in which they are usually needed.
COMMANDS = {
    "demo": DemoCommand,
    "inspect": InspectCommand,
    "train": TrainCommand,
    "compare": CompareCommand,
    "predict": PredictCommand,
    "search": SearchCommand,
    "studio": StudioCommand,
    "export": ExportCommand,
    "evaluate": EvaluateCommand,
    "report": ReportCommand,
    "calibrate": CalibrateCommand,
    "decide": DecideCommand,
    "import": ImportCommand,
}
app = typer.Typer(
    name="manyhot",
    help="Classification with zero, one or many labels, and confidences that can be trusted.",
    epilog="Predictions are Parquet tables of manyhot, or CSV, TSV, NPZ and Parquet files of any other model.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for name, command in COMMANDS.items():
    app.command(name, cls=OneLineErrors)(command.as_function())


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
