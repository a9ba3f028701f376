"""The folder of a training run, and its summary in a notebook."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.util
import json
import math
import os
import re
import shutil
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhot.errors import InputError
from manyhot.evaluation.catalog import METRIC_INFO, format_value
from manyhot.evaluation.result import Evaluation
from manyhot.files import atomic_write
from manyhot.formatting import html_table
from manyhot.settings import read_settings

if TYPE_CHECKING:
    from manyhot.classifier import Classifier
    from manyhot.predictions import StoredPredictions

CONFIG, LABELS, METRICS, PREDICTIONS = "config.yaml", "labels.txt", "metrics.csv", "predictions.parquet"
FIGURES, EVALUATION = "figures.json", "evaluation.json"
NORMALISER, REPORT, CHECKPOINT = "normaliser.csv", "report.html", "checkpoint/last.safetensors"


class Run:
    """A run folder: settings, classifier, log, predictions and figures, each in a file of its own.

    Args:
        folder: The folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        if not (self.folder / CONFIG).is_file():
            hint = "Pass the folder that `manyhot train` wrote."
            raise InputError("run", "Run", f"be a folder with a {CONFIG}", repr(str(folder)), hint)

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}{'' if self.finished else ', not finished'})"

    @property
    def finished(self) -> bool:
        """Whether the training came to its end."""
        return (self.folder / FIGURES).is_file()

    @property
    def config(self) -> dict[str, Any]:
        """All settings, with the values that defaults were resolved to."""
        return read_settings(self.folder / CONFIG)

    @property
    def figures(self) -> dict[str, Any]:
        """Numbers of rows and seconds, and the evaluation "before" and "after" calibration as JSON."""
        if not self.finished:
            hint = f"Go on with it: manyhot train --resume {self.folder}."
            raise InputError("run", "Run", "be finished", repr(str(self.folder)), hint)
        # Those of older runs are in the first file.
        figures, saved = self._read_json(FIGURES), self._read_json(EVALUATION)
        return figures | {name: saved[name] for name in ("before", "after") if name in saved}

    @property
    def evaluation(self) -> Evaluation | None:
        """The evaluation of the split "test", or of "val" without it; None for a run without these."""
        return self._evaluation("after")

    @property
    def evaluation_before(self) -> Evaluation | None:
        """That of the probabilities before calibration; None where there was no calibration, or there were none."""
        return self._evaluation("before")

    def _evaluation(self, which: str) -> Evaluation | None:
        content = self.figures.get(which)
        return None if content is None else Evaluation.from_dict(content)

    @property
    def evaluation_is_current(self) -> bool:
        """Whether the saved evaluation is known to be that of the predictions in the folder."""
        digest = self._read_json(EVALUATION).get("predictions")
        return digest is not None and digest == file_digest(self.folder / PREDICTIONS)

    def _read_json(self, name: str) -> dict[str, Any]:
        """The content of a file; nothing if it is not there."""
        path = self.folder / name
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return content

    @property
    def history(self) -> list[dict[str, str]]:
        """The log, one row per epoch."""
        with (self.folder / METRICS).open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))

    @property
    def normaliser(self) -> dict[str, Any] | None:
        """How log C of the quasibinary loss moved in training, for `draw_normaliser`; None for other losses.

        With the value over all rows at the step whose weights were kept, once the run is finished.
        """
        if not (self.folder / NORMALISER).is_file():
            return None
        with (self.folder / NORMALISER).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        trace: dict[str, Any] = {
            "steps": [int(row["step"]) for row in rows],
            "batch": [float(row["batch"]) if row["batch"] else None for row in rows],  # none without labels
            "average": [float(row["average"]) for row in rows],
        }
        if self.finished:
            from manyhot.classifier.classifier import read_content
            from manyhot.serialization import from_dict

            link = from_dict(read_content(self.folder)["link"])
            best_epoch = self.figures.get("best epoch") or len(self.history)
            last = int(self.history[best_epoch - 1]["steps"])
            position = sum(step <= last for step in trace["steps"]) - 1
            trace["all_rows"] = [None] * len(rows)
            trace["all_rows"][position] = float(link.log_normaliser)
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
        images: bool = True,
    ) -> Path:
        """Writes one HTML page about the run that needs nothing else; returns where it is.

        Args:
            path: The file; `report.html` in the run folder by default, in the place of an older one.
            split: The split to evaluate; by default "test", or "val" without it.
            root: The folder that image paths are relative to; by default that of the data of the run.
            images: Whether to show images.
        """
        from manyhot.report.page import write_report

        path = self.folder / REPORT if path is None else path
        return write_report(self, path, split=split, root=root, images=images)

    def _repr_html_(self) -> str:

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
    for name in (FIGURES, EVALUATION, REPORT, *tables, "model.safetensors", "classifier.json", CONFIG):
        (folder / name).unlink(missing_ok=True)


def link_last_run(folder: Path) -> None:
    """Makes `last`, beside the run folder, lead to it; nothing happens where something else has that name."""
    last = folder.parent / "last"
    if last.is_symlink() or not last.exists():
        new = folder.parent / f".last.{os.getpid()}"
        new.symlink_to(folder.name)
        os.replace(new, last)


def write_text(path: Path, text: str) -> None:
    """Writes a text file atomically."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a JSON file atomically."""
    write_text(path, json.dumps(content, indent=1) + "\n")


def file_digest(path: Path) -> str:
    """A text that is another one when the content of a file is another."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


SUMMARY_SETTINGS = {
    "loss": "Loss",
    "backbone": "Backbone",
    "tune": "Trained",
    "calibrator": "Calibrator",
    "rule": "Rule",
}
PROBABILITY_SOURCES = {"before": "own link", "after": "calibrated"}


def summary(after: Evaluation, before: Evaluation | None, *, calibrated: bool) -> list[list[str]]:
    """The main metrics as a table, its head first, with those before calibration where there was one."""
    earlier = {} if before is None else compared_values(before)
    rows = [["", *(PROBABILITY_SOURCES.values() if calibrated else ["as trained"])]]
    for name, value in compared_values(after).items():
        if value is not None:
            first = [format_value(name, earlier.get(name))] if calibrated else []
            rows.append([METRIC_INFO[name].title, *first, format_value(name, value)])
    return rows


def run_as_html(run: Run) -> str:
    """Settings, metrics and reliability diagram of a run, for a notebook."""
    config = run.config
    listed = "; ".join(
        f"{title}: {config[name]}" for name, title in SUMMARY_SETTINGS.items() if config.get(name) is not None
    )
    parts = [f"<h3>{escape(repr(run))}</h3><p>{escape(listed)}</p>"]
    if not run.finished:
        return "".join(parts)
    figures, after, before = run.figures, run.evaluation, run.evaluation_before
    rows = ", ".join(f"{name} {count:,}" for name, count in figures["rows"].items())
    split = figures["judged"]
    evaluated = "" if split is None else f"; evaluated on {split!r}"
    parts.append(f"<p>{escape(f'Rows: {rows}{evaluated}')}</p>")
    if after is not None and after.too_small is not None:
        parts.append(f"<p>{escape(after.too_small)}</p>")
    elif after is not None:
        parts.append(html_table(summary(after, before, calibrated=figures["calibrated"])))
        parts.append(reliability_image({"before": before, "after": after}))
    return "".join(parts)


def reliability_image(evaluations: Mapping[str, Evaluation | None]) -> str:
    """The reliability diagram as an image in the text; "" without matplotlib or without probabilities."""
    curves = {
        PROBABILITY_SOURCES[key]: evaluation.groups["probabilities"].details
        for key, evaluation in evaluations.items()
        if evaluation is not None and evaluation.groups["probabilities"].details
    }
    if not curves or importlib.util.find_spec("matplotlib") is None:
        return ""
    from manyhot.report import as_png, draw_reliability

    name = "predicted against observed frequency"
    image = base64.b64encode(as_png(draw_reliability({name: curves}))).decode()
    return f'<img src="data:image/png;base64,{image}" alt="{name}">'


# What is compared, by the names of the evaluation.
COMPARED_METRICS = ("map", "map_sample", "log_loss_per_row", "ece", "ace", "mce", "micro_f", "macro_f")


def compared_values(evaluation: Evaluation) -> dict[str, float | None]:
    """The figures that are compared, by name; None for what is not defined."""
    values = {name: evaluation.values.get(name, math.nan) for name in COMPARED_METRICS}
    return {name: None if math.isnan(value) else value for name, value in values.items()}
