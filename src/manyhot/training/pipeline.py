"""The whole training: prepare the data, train the network, fit calibrator and rule, evaluate, write the run."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from manyhot.calibrate import Calibrator
from manyhot.classifier import Classifier
from manyhot.data.dataset import Dataset
from manyhot.decide import Rule
from manyhot.distributed import rank, world_size
from manyhot.engine import Progress, fit, score
from manyhot.engine.validation import StandardMetrics, check_monitor
from manyhot.errors import InputError
from manyhot.evaluation.pipeline import evaluate_both, has_probs, split_to_evaluate
from manyhot.links import Link
from manyhot.losses import Loss, SumLoss
from manyhot.network import Network
from manyhot.predictions import Predictions
from manyhot.predictions.predictions import concatenate
from manyhot.settings import DataSource, TrainSettings, write_settings
from manyhot.training.build import (
    HeadEnsemble,
    build_head,
    build_parts,
    ensemble_loss,
    reading_of,
    transfer_thresholds,
)
from manyhot.training.prepare import (
    Notes,
    PreparedData,
    Watch,
    on_raw_features,
    prepare,
    read_source,
    with_all_splits,
    with_learnable_labels,
)
from manyhot.training.run import (
    CHECKPOINT,
    CONFIG,
    EVALUATION,
    FIGURES,
    LABELS,
    PREDICTIONS,
    Run,
    file_digest,
    new_folder,
    write_json,
    write_text,
)


def train(
    data: Dataset | DataSource | str | os.PathLike[str],
    settings: TrainSettings | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    source: Mapping[str, Any] | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    watch: Watch | None = None,
    notes: Notes | None = None,
    **changes: Any,
) -> Run:
    """Trains a classifier and writes the run folder.

    Args:
        data: Samples with labels, or where they are: a path, or a `DataSource`. Splits that are missing are drawn.
        settings: What to train and how; the best known defaults if left out.
        folder: Where the run goes; a new folder below `runs` by default.
        source: How a dataset was read, to be kept with the settings.
        resume: Whether to go on with the run that is in the folder.
        progress: Shows the progress; a bar in a terminal and lines elsewhere by default.
        watch: Shows how many images a frozen backbone has processed.
        notes: Called with each note on the data before training begins.
        **changes: Settings by name, such as `loss=mh.AsymmetricLoss(), lr=0.01`.
    """
    settings = changed_settings(settings, changes, "train")
    data, source = open_data(data, source, settings, "train", notes)
    folder = Path(folder) if folder is not None else new_folder(next(iter((source or {}).get("paths", ["run"]))))
    data = validated_data(data, settings, notes)
    if rank() == 0:
        check_folder(folder, resume=resume)
    prepared = prepare(data, settings, watch=watch)
    return train_prepared(prepared, settings, folder, source, resume=resume, progress=progress)


def changed_settings(settings: TrainSettings | None, changes: Mapping[str, Any], owner: str) -> TrainSettings:
    """The settings with changes by name."""
    value: object = settings or TrainSettings()
    if not isinstance(value, TrainSettings):
        hint = "Pass `TrainSettings(...)`, or single settings by name."
        raise InputError("settings", owner, "be a TrainSettings", type(value).__name__, hint)
    return value.replace(**changes) if changes else value


def open_data(
    data: Dataset | DataSource | str | os.PathLike[str],
    source: Mapping[str, Any] | None,
    settings: TrainSettings,
    owner: str,
    notes: Notes | None,
) -> tuple[Dataset, Mapping[str, Any] | None]:
    """The dataset, read if it is not yet, and how it was read."""
    if isinstance(data, str | os.PathLike):
        data = DataSource.build(os.fspath(data))
    if isinstance(data, DataSource):
        return read_source(data, settings, notes), data.to_dict()
    value: object = data
    if not isinstance(value, Dataset):
        hint = "Pass what `read_data` or `from_arrays` gives, or a path."
        raise InputError("data", owner, "be a Dataset", type(value).__name__, hint)
    return value, source


def validated_data(data: Dataset, settings: TrainSettings, notes: Notes | None) -> Dataset:
    """The data with all splits and with labels that can be learnt, after all settings are checked."""
    num_notes = len(data.notes)
    complete = with_learnable_labels(with_all_splits(data, settings), settings.min_count)
    check_settings(settings, complete)
    if notes is not None:
        for note in complete.notes[num_notes:]:
            notes(note)
    return complete


def check_folder(folder: Path, *, resume: bool) -> None:
    """Raises an error for a folder with another run, before anything is computed; `fit` compares the settings."""
    checkpoint, finished = (folder / CHECKPOINT).exists(), (folder / FIGURES).exists()
    if not resume and (checkpoint or finished):
        hint = "Pass resume=True to go on with that run, or another folder."
        raise InputError("folder", "train", "be free of other runs", repr(str(folder)), hint)
    if resume and finished and not checkpoint:
        hint = "Train in another folder."
        rule = "have a checkpoint to go on from, or no finished run"
        raise InputError("folder", "train", rule, repr(str(folder)), hint)


def train_prepared(
    prepared: PreparedData,
    settings: TrainSettings,
    folder: Path,
    source: Mapping[str, Any] | None,
    *,
    resume: bool,
    progress: Progress | None,
) -> Run:
    """Trains in a folder, which `fit` checks first; of several processes, the first writes it."""
    begin = partial(start_run, folder, settings, prepared, source)
    trained = fit_classifier(prepared, settings, folder=folder, resume=resume, progress=progress, begin=begin)
    if rank() == 0:
        write_run(folder, trained, prepared)
    return Run(folder)


def start_run(folder: Path, settings: TrainSettings, prepared: PreparedData, source: Mapping[str, Any] | None) -> None:
    """What a run folder holds from the start: settings and names of labels."""
    folder.mkdir(parents=True, exist_ok=True)
    write_settings({"data": dict(source or {}), **settings.to_dict()}, folder / CONFIG)
    write_text(folder / LABELS, "".join(f"{name}\n" for name in prepared.data.labels.names))


def write_run(folder: Path, trained: TrainingResult, prepared: PreparedData) -> None:
    """Writes classifier, predictions, evaluation and figures; the last of these files marks the run as finished."""
    table = trained.predictions
    trained.classifier.save(folder)
    table.save(folder / PREDICTIONS)
    split = split_to_evaluate(table)
    if split is not None:
        after, before = evaluate_both(table.of_split(split), split)
        evaluations = {"before": None if before is None else before.to_dict(), "after": after.to_dict()}
        digest = file_digest(folder / PREDICTIONS)
        write_json(folder / EVALUATION, {"format": 1, "predictions": digest, **evaluations})
    figures = {
        "rows": {name: len(part) for name, part in prepared.parts.items()},
        "seconds": trained.seconds,
        "best epoch": trained.best_epoch,
        "bad images": trained.bad,
        "judged": split,
        "calibrated": table.calibrator is not None,
    }
    write_json(folder / FIGURES, figures)


@dataclass(frozen=True)
class TrainingResult:
    """A trained and calibrated classifier, and its predictions.

    Attributes:
        classifier: All that is needed for new samples.
        predictions: Of the splits "val" and "test".
        seconds: How long the epochs took, also those before a break.
        bad: Images that could not be read, and why.
        best_epoch: The epoch whose weights were kept, from 1; None where that was the last.
    """

    classifier: Classifier
    predictions: Predictions
    seconds: float
    bad: dict[str, str]
    best_epoch: int | None


def fit_classifier(
    prepared: PreparedData,
    settings: TrainSettings,
    *,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    begin: Callable[[], None] | None = None,
) -> TrainingResult:
    """Trains a network by its settings, then fits link, calibrator and rule on the split "val".

    Args:
        prepared: The data.
        settings: Loss, head, calibrator, rule and fit settings.
        folder: Where checkpoints and the log go; None to keep none.
        resume: Whether to go on from the checkpoint in `folder`.
        progress: Shows the progress.
        begin: Called after all checks, before the first step.
    """
    train, val = prepared.parts["train"], prepared.parts.get("val")
    loss, calibrator, rule = build_parts(settings, train.targets)
    learnt = ensemble_loss(loss, settings)
    network = build_network(prepared, settings, learnt)
    fitted = fit(
        network, learnt, train, val=val, settings=settings, folder=folder, resume=resume, progress=progress, begin=begin
    )
    if isinstance(network.head, HeadEnsemble):
        network.head = network.head.merged().eval()
    transfer_thresholds(network.head, loss)
    loss.cpu()  # scores come back to the CPU, and so must what reads them
    if loss.link.needs_fit:
        scores, rows = score(network, train, settings=settings)
        loss.link.fit([(scores, train.targets.dense(rows))])
    table = held_out_predictions(network, prepared, settings, loss.link)
    table = fit_calibrator_and_rule(table, calibrator, rule)
    network.cpu()
    network.head = on_raw_features(network.head, prepared)
    if prepared.frozen:
        network = Network(prepared.backbone, network.head, reading=network.reading)
    labels, link = prepared.data.labels, loss.link
    classifier = Classifier(network, labels, link=link, calibrator=table.calibrator, rule=table.rule)
    seconds = sum(float(epoch["seconds"]) for epoch in fitted.history)
    return TrainingResult(classifier, table, seconds, unreadable_images(prepared), fitted.best_epoch)


def unreadable_images(prepared: PreparedData) -> dict[str, str]:
    """The images that no process could read, and why."""
    bad = dict(prepared.bad)
    for part in prepared.parts.values():
        bad |= getattr(part, "unreadable", {})
    if world_size() > 1:
        of_all: list[dict[str, str]] = [{} for _ in range(world_size())]
        torch.distributed.all_gather_object(of_all, bad)
        bad = {name: reason for one in of_all for name, reason in one.items()}
    return bad


def check_settings(settings: TrainSettings, data: Dataset) -> None:
    """Raises an error, before anything is written or trained, for parts that cannot be built or do not fit the data."""
    assert data.targets is not None
    loss, calibrator, rule = build_parts(settings, data.targets.take([]))
    learnt = data.of_split("train").targets
    if loss.single_label and learnt is not None and bool((learnt.sizes() > 1).any()):
        hint = "Choose a loss for several labels per row, such as BCE."
        got = f"{type(loss).__name__} for rows with several labels"
        raise InputError("loss", "train", "fit the rows to train on", got, hint)
    if calibrator is None and isinstance(loss, SumLoss) and not loss.adds_over_labels:
        hint = "Leave the calibrator as it is, or choose a loss that adds over labels, such as BCE."
        rule_text = "be given for a loss that also compares labels or rows"
        raise InputError("calibrator", "train", rule_text, "'none'", hint)
    if rule is not None and calibrator is None and not loss.link.gives_probs:
        got = f"{type(loss).__name__} without a calibrator"
        hint = "Choose a calibrator, such as BetaCalibration(), or no rule."
        raise InputError("rule", "train", "have probabilities to decide by", got, hint)
    unfitted = [
        name for name, part in (("calibrator", calibrator), ("rule", rule)) if part is not None and not part.fitted
    ]
    has_val = "val" in data.split_sizes()
    if unfitted and not has_val:
        hint = "Leave `val` above 0, or choose 'none'."
        raise InputError(unfitted[0], "train", "have rows of a split 'val' to learn from", "none", hint)
    if has_val and settings.monitor != "log loss":  # the name of a figure in older settings, which `fit` knows
        check_monitor(settings.monitor, StandardMetrics(loss.link).names(), "Pick one of these.")


def build_network(prepared: PreparedData, settings: TrainSettings, loss: Loss) -> Network:
    """The network to train: head and backbone, or the head alone where features are frozen."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        head = build_head(settings, prepared.width, len(prepared.data.labels), loss, prepared.rates())
    # A copy, because several losses may start from the same backbone.
    backbone = None if prepared.frozen else copy.deepcopy(prepared.backbone)
    return Network(backbone, head, reading=reading_of(loss))


def held_out_predictions(network: Network, prepared: PreparedData, settings: TrainSettings, link: Link) -> Predictions:
    """The scores of the splits "val" and "test", with their targets."""
    labels, tables = prepared.data.labels, []
    for name in ("val", "test"):
        if name in prepared.parts:
            part = prepared.parts[name]
            scores, rows = score(network, part, settings=settings)
            data = prepared.data.of_split(name).take(rows.numpy())
            table = Predictions(scores=scores, targets=part.targets.dense(rows), ids=data.ids, labels=labels, link=link)
            paths = None if data.images is None else [data.images.name(row) for row in range(len(data))]
            tables.append(table.replace(paths=paths, splits=name))
    nothing = torch.zeros(0, len(labels))
    return concatenate(tables or [Predictions(scores=nothing, targets=nothing, splits=[], labels=labels, link=link)])


def fit_calibrator_and_rule(table: Predictions, calibrator: Calibrator | None, rule: Rule | None) -> Predictions:
    """The table with probabilities and decisions of a calibrator and a rule that were fitted on its split "val".

    Without a readable image in that split nothing is fitted, and probabilities are those of the loss's own link.
    """
    val = table.of_split("val") if "val" in table.split_sizes() else None
    if calibrator is not None and val is not None:
        calibrator.fit(val.scores, val.targets)
        table = table.replace(probs=calibrator(table.scores), calibrator=calibrator)
    if rule is None or not has_probs(table) or (val is None and not bool(rule.fitted)):
        return table
    values = table.rule_values()
    if val is not None and not bool(rule.fitted):
        rule.fit(values[torch.tensor([split == "val" for split in table.splits or ()])], val.targets)
    probs = table.probabilities()
    return table.replace(probs=probs, calibrator=table.calibrator, decisions=rule(values), rule=rule)
