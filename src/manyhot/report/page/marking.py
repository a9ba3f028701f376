"""The line by which a report is known for one. Imports nothing, so that it can be asked for before the work begins."""

from __future__ import annotations

from pathlib import Path

MARK = '<meta name="generator" content="manyhot report">'


def is_report(path: Path) -> bool:
    """Whether a file is a report that was written here, so that a newer one may take its place."""
    try:
        with path.open(encoding="utf-8") as file:
            return MARK in file.read(1000)
    except (OSError, UnicodeDecodeError):
        return False
