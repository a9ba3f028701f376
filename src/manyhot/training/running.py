"""From a data set to a run folder."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from manyhot.data.dataset import Dataset
from manyhot.distributed import rank
from manyhot.engine import Progress
from manyhot.evaluation import Evaluation, evaluate
from manyhot.links import NoLink
from manyhot.predictions import Predictions
from manyhot.training.fitting import Trained, fit_recipe
from manyhot.training.preparing import Prepared, Watch, prepare
from manyhot.training.recipe import Recipe, write_settings
from manyhot.training.run import CONFIG, FIGURES, LABELS, PREDICTIONS, Run, write_text
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
    """
    folder, recipe = Path(folder), recipe or Recipe()
    data = with_learnable_labels(with_all_splits(data, recipe), recipe.min_count)
    if rank() == 0:
        folder.mkdir(parents=True, exist_ok=True)
        write_settings({"data": dict(source or {}), **recipe.settings()}, folder / CONFIG)
        write_text(folder / LABELS, "".join(f"{name}\n" for name in data.labels.names))
    prepared = prepare(data, recipe, watch=watch)
    trained = fit_recipe(prepared, recipe, folder=folder, resume=resume, progress=progress)
    if rank() == 0:
        write_run(folder, trained, prepared)
    return Run(folder)


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
    judged = "test" if "test" in sizes else "val" if "val" in sizes else None
    figures: dict[str, Any] = {"rows": sizes, "seconds": trained.seconds, "bad images": trained.bad, "judged": judged}
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
