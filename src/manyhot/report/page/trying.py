"""The report that comes by itself at the end of a training: a gift, never a reason to fail."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from manyhot.training.run import Run


def try_report(run: Run, tell: Callable[[str], None]) -> Path | None:
    """Writes the report of a finished run into its folder; where it cannot be had, says why in one sentence.

    Args:
        run: The run.
        tell: Called with the sentence.

    Returns:
        Where the report is, None if there is none.
    """
    if run.figures["judged"] is None:
        tell("No report: there are no rows to judge by.")
        return None
    try:
        return run.report()
    except Exception as error:  # whatever it is, the run itself is whole and must not look as if it had failed
        tell(f"No report: {in_words(error)} Later: manyhot report {quote(str(run.folder))}")
    return None


def in_words(error: Exception) -> str:
    """What went wrong, in one sentence."""
    words = " ".join(str(error).split())
    if isinstance(error, ImportError) and "pip install" in words:
        return f"{words}."
    return f"{type(error).__name__}: {words.rstrip('.')}."
