"""The command line."""

from __future__ import annotations

import sys


def main() -> None:
    """Runs the command that was typed."""
    try:
        from manyhot.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("The command line needs typer and rich. Install them with: pip install 'manyhot[tables]'")
    app()
