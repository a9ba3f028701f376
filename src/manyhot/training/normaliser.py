"""The trace of quasibinary's normaliser that a run leaves behind, as `draw_normaliser` takes it."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any


def read_trace(path: Path) -> dict[str, Any]:
    """The steps that were noted, with log C of their batches, None for one without labels, and its moving average."""
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    return {
        "steps": [int(row["step"]) for row in rows],
        "batch": [float(row["batch"]) if row["batch"] else None for row in rows],
        "average": [float(row["average"]) for row in rows],
    }


def of_all_rows(folder: Path, steps: list[int], last: int) -> list[float | None]:
    """log C over all training rows, which the classifier reads scores by: a value at the step its weights are of.

    Args:
        folder: Of the run.
        steps: Those that were noted.
        last: After how many steps the weights that were kept were reached.
    """
    from manyhot.classifier.bundle import read_content
    from manyhot.saving import restore

    link = restore(read_content(folder)["link"])
    place = sum(step <= last for step in steps) - 1
    return [float(link.log_normaliser) if index == place else None for index in range(len(steps))]
