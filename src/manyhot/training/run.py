"""The folder that a training leaves behind."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhot.files import whole_file
from manyhot.refusal import refusal
from manyhot.training.recipe import read_settings

if TYPE_CHECKING:
    from manyhot.classifier import Classifier
    from manyhot.predictions import StoredPredictions

CONFIG, LABELS, METRICS, PREDICTIONS, FIGURES = (
    "config.yaml",
    "labels.txt",
    "metrics.csv",
    "predictions.parquet",
    "figures.json",
)
NORMALISER, REPORT, CHECKPOINT = "normaliser.csv", "report.html", "checkpoint/last.safetensors"


class Run:
    """A run folder: settings, classifier, log, predictions and figures, each in a file that people can read.

    Args:
        folder: Where it lies.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if not (self.folder / CONFIG).is_file():
            remedy = "Pass the folder that `manyhot train` wrote."
            raise refusal("run", "Run", f"be a folder with a {CONFIG}", repr(str(folder)), remedy)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}{'' if self.finished else ', not finished'})"

    @property
    def finished(self) -> bool:
        """Whether the training came to its end."""
        return (self.folder / FIGURES).is_file()

    @property
    def config(self) -> dict[str, Any]:
        """All settings, with what was chosen for those that nobody set."""
        return read_settings(self.folder / CONFIG)

    @property
    def figures(self) -> dict[str, Any]:
        """What the evaluation found, before and after calibration."""
        if not self.finished:
            remedy = f"Go on with it: manyhot train --resume {self.folder}."
            raise refusal("run", "Run", "be finished", repr(str(self.folder)), remedy)
        content: dict[str, Any] = json.loads((self.folder / FIGURES).read_text(encoding="utf-8"))
        return content

    @property
    def history(self) -> list[dict[str, str]]:
        """The log, one row an epoch."""
        with (self.folder / METRICS).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    @property
    def normaliser(self) -> dict[str, Any] | None:
        """How log C of the quasibinary loss moved in training, for `draw_normaliser`; None for other losses.

        With the value over all rows at the step whose weights were kept, once the run is finished.
        """
        from manyhot.training.normaliser import of_all_rows, read_trace

        if not (self.folder / NORMALISER).is_file():
            return None
        trace = read_trace(self.folder / NORMALISER)
        if self.finished:
            kept = self.figures.get("best epoch") or len(self.history)
            trace["all_rows"] = of_all_rows(self.folder, trace["steps"], int(self.history[kept - 1]["steps"]))
        return trace

    def classifier(self) -> Classifier:
        """What was trained."""
        from manyhot.classifier import Classifier

        return Classifier.load(self.folder)

    def predictions(self) -> StoredPredictions:
        """The predictions of the splits "val" and "test"."""
        from manyhot.predictions import open_predictions

        return open_predictions(self.folder / PREDICTIONS)

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        split: str | None = None,
        root: str | os.PathLike[str] | None = None,
        pictures: bool = True,
    ) -> Path:
        """Writes one HTML page about the run that needs nothing else; returns where it is.

        Args:
            path: The file; `report.html` in the run folder by default, in the place of an older one.
            split: The split to judge; by default "test", or "val" without it.
            root: The folder that paths of pictures begin in; by default where the data of the run lie.
            pictures: Whether to show pictures.
        """
        from manyhot.report.page import write_report

        path = self.folder / REPORT if path is None else path
        return write_report(self, path, split=split, root=root, pictures=pictures)

    def _repr_html_(self) -> str:
        from manyhot.training.showing import run_as_html

        return run_as_html(self)


def new_folder(data: str, parent: Path = Path("runs")) -> Path:
    """A folder for a run on these data that is not there yet: `runs/photos`, then `runs/photos-2` and so on."""
    stem = stem_of(data)
    folder, number = parent / stem, 2
    while folder.exists():
        folder, number = parent / f"{stem}-{number}", number + 1
    return folder


def stem_of(data: str) -> str:
    """The name of data without its ending, as a folder may be called: `photos 2.csv` -> `photos-2`."""
    stem = re.sub(r"(\.(csv|tsv|json|jsonl|parquet|tar|npz|gz))+$", "", Path(data.rstrip("/")).name)
    return re.sub(r"[^\w.-]+", "-", stem).strip("-.") or "run"


def clear_run(folder: Path) -> None:
    """Removes what a run leaves behind, and nothing else; the settings go last, without which it is no run."""
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    tables = (PREDICTIONS, METRICS, NORMALISER, LABELS)
    for name in (FIGURES, REPORT, *tables, "model.safetensors", "classifier.json", CONFIG):
        (folder / name).unlink(missing_ok=True)


def point_to_last(folder: Path) -> None:
    """Makes `last`, beside the run folder, lead to it; nothing happens where something else has that name."""
    last = folder.parent / "last"
    if last.is_symlink() or not last.exists():
        new = folder.parent / f".last.{os.getpid()}"
        new.symlink_to(folder.name)
        os.replace(new, last)


def write_text(path: Path, text: str) -> None:
    """A text file that is there as a whole or not at all."""
    with whole_file(path) as part:
        part.write_text(text, encoding="utf-8")
