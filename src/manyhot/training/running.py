"""From a data set to a run folder."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from manyhot.data.dataset import Dataset
from manyhot.distributed import rank
from manyhot.engine import Progress
from manyhot.evaluation import Evaluation, evaluate
from manyhot.evaluation.judging import judged_split
from manyhot.links import NoLink
from manyhot.predictions import Predictions
from manyhot.refusal import refusal
from manyhot.training.fitting import Trained, check_recipe, fit_recipe
from manyhot.training.preparing import Prepared, Watch, open_backbone, prepare
from manyhot.training.recipe import Recipe, write_settings
from manyhot.training.run import CHECKPOINT, CONFIG, FIGURES, LABELS, PREDICTIONS, Run, write_text
from manyhot.training.splitting import with_all_splits, with_learnable_labels


def train(
    data: Dataset,
    recipe: Recipe | None = None,
    *,
    folder: str | os.PathLike[str],
    source: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    watch: Watch | None = None,
    notes: Callable[[str], None] | None = None,
) -> Run:
    """Trains a classifier and writes the run folder.

    Args:
        data: Samples with labels; splits that are missing are drawn.
        recipe: What to train and how; the best known defaults if left out.
        folder: Where the run goes.
        source: How the data were read, to be kept with the settings.
        resume: Whether to go on with the run that is in the folder.
        progress: Where it is told how far the training is; a bar in a terminal and lines elsewhere by default.
        watch: Shows how many images a frozen backbone has looked at.
        notes: Called with what people should know about the data before training begins.
    """
    folder, recipe = Path(folder), recipe or Recipe()
    data = ready(data, recipe, "train", notes)
    if rank() == 0:
        check_folder(folder, resume=resume)
    prepared = prepare(data, recipe, open_backbone(data, recipe), watch=watch)
    begin = lambda: begin_run(folder, recipe, prepared, source)  # noqa: E731
    trained = fit_recipe(prepared, recipe, folder=folder, resume=resume, progress=progress, begin=begin)
    if rank() == 0:
        write_run(folder, trained, prepared)
    return Run(folder)


def ready(data: Dataset, recipe: Recipe, owner: str, notes: Callable[[str], None] | None) -> Dataset:
    """The data with all splits and with labels that can be learnt, after a look at what was asked for."""
    given: object = data
    if not isinstance(given, Dataset):
        remedy = "Pass what `read_data` or `from_arrays` gives."
        raise refusal("data", owner, "be a Dataset", type(given).__name__, remedy)
    wanted: object = recipe
    if not isinstance(wanted, Recipe):
        remedy = "Pass `Recipe.build({...})`."
        raise refusal("recipe", owner, "be a Recipe", type(wanted).__name__, remedy)
    told = len(data.notes)
    found = with_learnable_labels(with_all_splits(data, recipe), recipe.min_count)
    check_recipe(recipe, found)
    if notes is not None:
        for note in found.notes[told:]:
            notes(note)
    return found


def check_folder(folder: Path, *, resume: bool) -> None:
    """Refuses a folder with another run, before anything is computed; what the run is, `fit` compares."""
    checkpoint, finished = (folder / CHECKPOINT).exists(), (folder / FIGURES).exists()
    if not resume and (checkpoint or finished):
        remedy = "Pass resume=True to go on with that run, or another folder."
        raise refusal("folder", "train", "be free of other runs", repr(str(folder)), remedy)
    if resume and finished and not checkpoint:
        remedy = "Train in another folder."
        rule = "have a checkpoint to go on from, or no finished run"
        raise refusal("folder", "train", rule, repr(str(folder)), remedy)


def begin_run(folder: Path, recipe: Recipe, prepared: Prepared, source: Mapping[str, Any] | None) -> None:
    """What a run folder holds from the start: settings and names of labels."""
    folder.mkdir(parents=True, exist_ok=True)
    write_settings({"data": dict(source or {}), **recipe.settings()}, folder / CONFIG)
    write_text(folder / LABELS, "".join(f"{name}\n" for name in prepared.data.labels.names))


def write_run(folder: Path, trained: Trained, prepared: Prepared) -> None:
    """Classifier, predictions and figures; the figures come last, so that their file says that the run is whole."""
    trained.classifier.save(folder)
    trained.predictions.save(folder / PREDICTIONS)
    figures = figures_of(trained, prepared)
    write_text(folder / FIGURES, json.dumps(figures, indent=1) + "\n")


def figures_of(trained: Trained, prepared: Prepared) -> dict[str, Any]:
    """What is worth knowing about a trained network, as values that JSON can hold."""
    table = trained.predictions
    sizes = {name: len(part) for name, part in prepared.parts.items()}
    judged = judged_split(table)
    figures: dict[str, Any] = {
        "rows": sizes,
        "seconds": trained.seconds,
        "best epoch": trained.best_epoch,
        "bad images": trained.bad,
        "judged": judged,
        "calibrated": table.calibrator is not None,
    }
    if judged is None:
        return figures
    rows = table.of_split(judged)
    figures["after"] = evaluate(rows).to_dict()
    before = before_calibration(rows)
    figures["before"] = None if before is None else before.to_dict()
    return figures


def before_calibration(rows: Predictions) -> Evaluation | None:
    """How the probabilities of the loss's own link do; None where it has none, or where there was no calibrator."""
    if rows.calibrator is None or rows.scores is None or rows.link is None or isinstance(rows.link, NoLink):
        return None
    return evaluate(rows.replace(probs=rows.link.probs(rows.scores), decisions=None))
