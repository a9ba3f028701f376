"""Several losses trained on the same data with the same settings, and their comparison."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from manyhot.data.dataset import Dataset
from manyhot.engine import NoProgress, Progress, ProgressBar
from manyhot.engine.devices import DeviceContext, open_device_context
from manyhot.errors import InputError
from manyhot.evaluation.catalog import METRIC_INFO, format_value
from manyhot.losses import Loss
from manyhot.settings import ALL_LOSSES, DataSource, TrainSettings, as_text
from manyhot.training.build import build_loss
from manyhot.training.pipeline import changed_settings, open_data, train_prepared, validated_data
from manyhot.training.prepare import Notes, PreparedData, Watch, prepare
from manyhot.training.run import COMPARED_METRICS, CONFIG, Run, clear_run, compared_values, stem_of, write_json


@dataclass(frozen=True)
class Comparison:
    """The results of several losses on the same data.

    Attributes:
        rows: For each loss by name: figures "before" calibration (None where the scores mean no probabilities), figures
            "after", and "seconds".
        split: The split that the metrics are of.
        folder: Where the runs are.
        too_small: A message if that split has too few rows to compare by; None where it has enough.
    """

    rows: dict[str, dict[str, Any]]
    split: str
    folder: Path
    too_small: str | None = None

    def best(self, figure: str) -> str:
        """The loss with the best value of a figure after calibration."""
        if figure not in COMPARED_METRICS:
            raise InputError(
                "figure", "Comparison", f"be one of {', '.join(COMPARED_METRICS)}", repr(figure), "Pick one."
            )
        known = {name: row["after"][figure] for name, row in self.rows.items() if row["after"].get(figure) is not None}
        return (max if METRIC_INFO[figure].higher_is_better else min)(known, key=known.__getitem__)

    def to_dict(self) -> dict[str, Any]:
        """All of it as values that JSON can hold."""
        return {"judged": self.split, "too_small": self.too_small, "losses": self.rows}

    def _repr_html_(self) -> str:

        return comparison_as_html(self)


def compare(
    data: Dataset | DataSource | str | os.PathLike[str],
    losses: Mapping[str, str | Loss] | Sequence[str] = ("all",),
    settings: TrainSettings | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    source: Mapping[str, Any] | None = None,
    progress: Callable[[str], Progress] | None = None,
    watch: Watch | None = None,
    overwrite: bool = False,
    notes: Notes | None = None,
    **changes: Any,
) -> Comparison:
    """Trains with each loss on the same rows, from the same start, for the same number of steps.

    A finished run with the same settings in the folder is not trained again, and an interrupted one is resumed.

    Args:
        data: Samples with labels, or where they are, as in `train`.
        losses: Texts or losses by the name to show, or texts alone; "all" is one of each family that fits the data.
        settings: Everything but the loss.
        folder: Where the runs go, one folder per loss; by default below `runs`, the same for the same data.
        source: How a dataset was read, to be kept with the settings.
        progress: Called with the number and name of a loss; returns what shows the progress of its training.
        watch: Shows how many images a frozen backbone has processed.
        overwrite: Whether to replace runs in the folder that have other settings; without, they raise an error.
        notes: Called with each note on the data before training begins.
        **changes: Settings by name.
    """
    settings = changed_settings(settings, changes, "compare")
    data, source = open_data(data, source, settings, "compare", notes)
    texts = texts_of(losses, data, notes)
    folder = Path(folder or f"runs/{stem_of(next(iter((source or {}).get('paths', ['run']))))}-losses")
    for text in texts.values():  # an invalid loss raises an error before the first one is trained
        data = validated_data(data, settings.replace(loss=text), notes)
    if "test" not in data.split_sizes() and "val" not in data.split_sizes():
        raise InputError("data", "compare", "have rows to evaluate on", "none", "Leave `test` above 0.")
    prepared = prepare(data, settings, watch=watch)
    context = open_device_context(settings)
    source = {**(source or {}), "digest": dataset_digest(data)}
    rows: dict[str, dict[str, Any]] = {}
    for name, text in texts.items():
        loss_progress = None if progress is None else progress(f"{len(rows) + 1}/{len(texts)} {name}")
        loss_settings = settings.replace(loss=text)
        run = train_one(
            loss_settings, folder / slug(name), prepared, source, context, loss_progress, overwrite=overwrite
        )
        figures, after, before = run.figures, run.evaluation, run.evaluation_before
        assert after is not None
        rows[name] = {
            "loss": text,
            "before": None if before is None else compared_values(before),
            "after": compared_values(after),
            "seconds": figures["seconds"],
        }
        judged, small = figures["judged"], after.too_small
    comparison = Comparison(rows, judged, folder, small)
    if context.rank == 0:
        write_json(folder / "comparison.json", comparison.to_dict())
    return comparison


def announced(console: Any) -> Callable[[str], Progress]:
    """A `progress` that prints which loss is trained on a console of `rich`, with a bar in a terminal."""

    def begin(name: str) -> Progress:
        console.print(name, highlight=False, markup=False)
        return ProgressBar(console) if console.is_terminal else NoProgress()

    return begin


def texts_of(losses: Mapping[str, str | Loss] | Sequence[str], data: Dataset, notes: Notes | None) -> dict[str, str]:
    """The losses to compare as texts, by the name to show."""
    value: object = losses
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence) or not value:
        hint = "Pass for example {'BCE': 'BCE', 'mine': 'AsymmetricLoss(gamma_neg=2)'}."
        raise InputError("losses", "compare", "be losses by name", repr(value), hint)
    if data.targets is None:
        raise InputError("data", "compare", "have labels", "none", "Pass a table with labels.")
    named = dict(losses) if isinstance(losses, Mapping) else {text: text for text in losses}
    if named.get("all") == "all":
        single = bool((data.targets.sizes() <= 1).all())
        fitting = {name: text for name, text in ALL_LOSSES.items() if single or not build_loss(text).single_label}
        left_out = [name for name in ALL_LOSSES if name not in fitting]
        if left_out and notes is not None:
            notes(f"Left out {', '.join(left_out)}: for data with one label per row.")
        named = fitting | {name: loss for name, loss in named.items() if name not in ("all", *fitting)}
    if len(set(map(slug, named))) < len(named):
        raise InputError("losses", "compare", "be different", ", ".join(named), "Name each loss once.")
    return {name: as_text("loss", "compare", loss) for name, loss in named.items()}


def train_one(
    settings: TrainSettings,
    folder: Path,
    prepared: PreparedData,
    source: Mapping[str, Any],
    context: DeviceContext,
    progress: Progress | None,
    *,
    overwrite: bool,
) -> Run:
    """The run of one loss: read, resumed or trained; of several processes, the first reads and writes the folder."""
    state = context.on_first(lambda: run_state(folder, {"data": dict(source), **settings.to_dict()}))
    if state == "finished":
        return Run(folder)
    if state == "other" and not overwrite:
        hint = "Choose another folder, or overwrite."
        rule = "be free of runs with other settings or other data"
        raise InputError("folder", "compare", rule, repr(str(folder)), hint)
    if state == "other" and context.rank == 0:
        clear_run(folder)
    run = train_prepared(prepared, settings, folder, source, resume=state == "begun", progress=progress)
    context.on_first(lambda: None)  # no process reads the run before it is written
    return run


def run_state(folder: Path, settings: Mapping[str, Any]) -> str:
    """What is in a folder: "nothing", a run with "other" settings, or one with these, "begun" or "finished"."""
    if not (folder / CONFIG).exists():
        return "nothing"
    run = Run(folder)
    if run.config != settings:
        return "other"
    return "finished" if run.finished else "begun"


def dataset_digest(data: Dataset) -> str:
    """A text that is another one when samples, labels or splits are others."""
    assert data.targets is not None
    parts = (json.dumps([data.labels.names, data.ids]).encode(), *(part.tobytes() for part in data.targets.cells()))
    splits = "|".join(map(str, () if data.splits is None else data.splits)).encode()
    return hashlib.sha256(b"".join((*parts, splits))).hexdigest()[:16]


def slug(name: str) -> str:
    """A name as a folder: `SPA + LPR` -> `spa-lpr`."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "loss"


def comparison_as_html(comparison: Comparison) -> str:
    """One row per loss, the best value of each column in bold."""
    if comparison.too_small is not None:
        return f"<p>{escape(comparison.too_small)}</p>"
    names = {name for row in comparison.rows.values() for name, value in row["after"].items() if value is not None}
    columns = [name for name in METRIC_INFO if name in names]
    best = {name: comparison.best(name) for name in columns}
    head = "".join(f"<th>{escape(title)}</th>" for title in ("loss", *(METRIC_INFO[name].title for name in columns)))
    body = []
    for loss, row in comparison.rows.items():
        texts = [(format_value(name, row["after"].get(name)), best[name] == loss) for name in columns]
        cells = "".join(f"<td>{f'<b>{escape(text)}</b>' if first else escape(text)}</td>" for text, first in texts)
        body.append(f"<tr><td>{escape(loss)}</td>{cells}</tr>")
    title = escape(f"Losses on the rows of {comparison.split!r}, after calibration")
    return f"<h3>{title}</h3><table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"
