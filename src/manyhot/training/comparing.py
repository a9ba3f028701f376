"""The same data and the same effort with each of several losses: what is best for your own data."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from manyhot.data.dataset import Dataset
from manyhot.engine import Progress
from manyhot.engine.judging import lower_is_better
from manyhot.engine.machine import Machine, open_machine
from manyhot.evaluation.result import too_small
from manyhot.losses import Loss
from manyhot.refusal import refusal
from manyhot.training.fitting import fit_recipe
from manyhot.training.preparing import Prepared, Watch, prepare
from manyhot.training.recipe import Recipe, as_text
from manyhot.training.run import CONFIG, Run, clear_run, write_text
from manyhot.training.running import begin_run, ready, write_run

# What is compared, by the names of the evaluation.
FIGURES = ("map", "map_sample", "log_loss_per_row", "ece", "ace", "mce", "micro_f", "macro_f")


@dataclass(frozen=True)
class Comparison:
    """What each loss came to on the same data.

    Attributes:
        rows: For each loss by name: figures "before" calibration (None where the scores mean no probabilities), figures
            "after", and "seconds".
        judged: The split that the figures are of.
        folder: Where the runs lie.
        too_small: Why the judged rows are too few to compare by, in a sentence; None where they are enough.
    """

    rows: dict[str, dict[str, Any]]
    judged: str
    folder: Path
    too_small: str | None = None

    def best(self, figure: str) -> str:
        """The loss with the best value of a figure after calibration."""
        if figure not in FIGURES:
            raise refusal("figure", "Comparison", f"be one of {', '.join(FIGURES)}", repr(figure), "Pick one.")
        known = {name: row["after"][figure] for name, row in self.rows.items() if row["after"].get(figure) is not None}
        return (min if lower_is_better(figure) else max)(known, key=known.__getitem__)

    def to_dict(self) -> dict[str, Any]:
        """All of it as values that JSON can hold."""
        return {"judged": self.judged, "too_small": self.too_small, "losses": self.rows}

    def _repr_html_(self) -> str:
        from manyhot.training.showing import comparison_as_html

        return comparison_as_html(self)


def compare(
    data: Dataset,
    losses: Mapping[str, str | Loss],
    recipe: Recipe | None = None,
    *,
    folder: str | os.PathLike[str],
    source: Mapping[str, Any] | None = None,
    progress: Callable[[str], Progress] | None = None,
    watch: Watch | None = None,
    overwrite: bool = False,
    notes: Callable[[str], None] | None = None,
) -> Comparison:
    """Trains with each loss on the same rows, from the same start, for the same number of steps.

    A loss whose run is in the folder already, from the same settings, is not trained again, and one that was broken
    off goes on.

    Args:
        data: Samples with labels; splits that are missing are drawn.
        losses: What to train with, as texts or losses, by the name to show.
        recipe: Everything but the loss.
        folder: Where the runs go, one folder a loss.
        source: How the data were read, to be kept with the settings.
        progress: Gives, for the name of a loss, where it is told how far its training is.
        watch: Shows how many images a frozen backbone has looked at.
        overwrite: Whether runs in the folder that come from other settings are replaced, not refused.
        notes: Called with what people should know about the data before training begins.
    """
    folder, recipe = Path(folder), recipe or Recipe()
    given: object = losses
    if not isinstance(given, Mapping) or not given:
        remedy = "Pass for example {'BCE': 'BCE', 'mine': 'AsymmetricLoss(gamma_neg=2)'}."
        raise refusal("losses", "compare", "be losses by name", repr(given), remedy)
    losses = {name: as_text("loss", "compare", loss) for name, loss in losses.items()}
    for text in losses.values():  # a typing mistake is told before the first loss has trained for an hour
        data = ready(data, recipe.replace(loss=text), "compare", notes)
    if "test" not in data.split_sizes() and "val" not in data.split_sizes():
        raise refusal("data", "compare", "have rows to judge by", "none", "Leave `test` above 0.")
    prepared = prepare(data, recipe, watch=watch)
    machine = open_machine(recipe.plan)
    source = {**(source or {}), "digest": digest_of(data)}
    rows = {}
    for name, text in losses.items():
        shown = None if progress is None else progress(name)
        one = recipe.replace(loss=text)
        run = train_with(one, folder / slug(name), prepared, source, machine, shown, overwrite=overwrite)
        figures = run.figures
        rows[name] = {
            "loss": text,
            "before": None if figures["before"] is None else values_of(figures["before"]),
            "after": values_of(figures["after"]),
            "seconds": figures["seconds"],
        }
        judged, small = figures["judged"], too_small(figures["after"]["counts"])
    comparison = Comparison(rows, judged, folder, small)
    if machine.rank == 0:
        write_text(folder / "comparison.json", json.dumps(comparison.to_dict(), indent=1) + "\n")
    return comparison


def train_with(
    recipe: Recipe,
    folder: Path,
    prepared: Prepared,
    source: Mapping[str, Any],
    machine: Machine,
    progress: Progress | None,
    *,
    overwrite: bool,
) -> Run:
    """The run of one recipe: found, gone on with, or trained now; of several processes, the first looks and writes."""
    state = machine.from_first(state_of(folder, {"data": dict(source), **recipe.settings()}))
    if state == "finished":
        return Run(folder)
    if state == "other" and not overwrite:
        remedy = "Choose another folder, or overwrite."
        rule = "be free of runs with other settings or other data"
        raise refusal("folder", "compare", rule, repr(str(folder)), remedy)
    if machine.rank == 0:
        if state == "other":
            clear_run(folder)
        begin_run(folder, recipe, prepared, source)
    trained = fit_recipe(prepared, recipe, folder=folder, resume=state == "begun", progress=progress)
    if machine.rank == 0:
        write_run(folder, trained, prepared)
    machine.from_first(None)  # nobody reads the run before it is written
    return Run(folder)


def state_of(folder: Path, settings: Mapping[str, Any]) -> str:
    """What is in a folder: "nothing", a run with "other" settings, or one with these, "begun" or "finished"."""
    if not (folder / CONFIG).exists():
        return "nothing"
    run = Run(folder)
    if run.config != settings:
        return "other"
    return "finished" if run.finished else "begun"


def digest_of(data: Dataset) -> str:
    """A text that is another one when samples, labels or splits are others."""
    assert data.targets is not None
    parts = (json.dumps([data.labels.names, data.ids]).encode(), *(part.tobytes() for part in data.targets.cells()))
    splits = "|".join(map(str, () if data.splits is None else data.splits)).encode()
    return hashlib.sha256(b"".join((*parts, splits))).hexdigest()[:16]


def slug(name: str) -> str:
    """A name as a folder: `SPA + LPR` -> `spa-lpr`."""
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "loss"


def values_of(evaluation: Mapping[str, Any]) -> dict[str, float | None]:
    """The figures that are compared, by name."""
    found = {
        name.split("@")[0]: entry["value"]
        for group in evaluation["groups"].values()
        for name, entry in group["values"].items()
    }
    return {name: found.get(name) for name in FIGURES}
