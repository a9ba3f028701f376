"""The command line."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Runs the command that was typed."""
    try:
        gc.disable()  # until a command runs: importing and help make many objects and little garbage
        from manyhot.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("The command line needs typer and rich. Install them with: pip install 'manyhot[tables]'")
    app()
