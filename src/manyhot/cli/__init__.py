"""The command line: entry point and error messages."""

from __future__ import annotations

import os
import sys

from manyhot.errors import InputError


def main() -> None:
    """Runs the command that was typed; invalid arguments end with one line on the error stream and exit code 2."""
    try:
        from manyhot.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("The command line needs typer and rich. Install them with: pip install 'manyhot[tables]'")
    try:
        app()
    except BrokenPipeError:  # the program that reads our output has ended
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (InputError, OSError, ImportError) as error:
        if isinstance(error, ImportError) and "pip install" not in str(error):
            raise
        print(f"manyhot: {error_message(error)}", file=sys.stderr)
        sys.exit(2)


def error_message(error: Exception) -> str:
    """The message in one line; errors of the file system name the file that they are about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the file system'}: {error.strerror}."
    return " ".join(str(error).split())
