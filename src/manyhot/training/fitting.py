"""One network, trained and made honest: scores, link, calibrator, rule."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from manyhot.calibrate import Calibrator
from manyhot.classifier import Classifier
from manyhot.data.dataset import Dataset
from manyhot.data.loading import Batches
from manyhot.decide import Rule
from manyhot.distributed import world_size
from manyhot.engine import Progress, fit, score
from manyhot.links import Link, NoLink, QuasibinaryLink
from manyhot.losses import Loss, SumLoss
from manyhot.network import Network
from manyhot.predictions import Predictions
from manyhot.refusal import refusal
from manyhot.training.choices import (
    build_calibrator,
    build_head,
    build_loss,
    build_rule,
    keep_thresholds,
    reading_of,
    side_by_side,
)
from manyhot.training.preparing import Prepared, on_raw_features
from manyhot.training.recipe import Recipe
from manyhot.training.side_by_side import HiddenHeads


@dataclass(frozen=True)
class Trained:
    """A network that has been trained and made honest.

    Attributes:
        classifier: All that is needed for new samples.
        predictions: Of the splits "val" and "test".
        history: What was measured after each epoch.
        seconds: How long the epochs took, also those before a break.
        bad: Images that could not be read, and why.
        best_epoch: The epoch whose weights were kept, from 1; None where that was the last.
    """

    classifier: Classifier
    predictions: Predictions
    history: list[dict[str, Any]]
    seconds: float
    bad: dict[str, str]
    best_epoch: int | None


def fit_recipe(
    prepared: Prepared,
    recipe: Recipe,
    *,
    folder: Path | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    begin: Callable[[], None] | None = None,
) -> Trained:
    """Trains a network by a recipe, then fits link, calibrator and rule on the split "val".

    Args:
        prepared: The data.
        recipe: Loss, head, calibrator, rule and plan.
        folder: Where checkpoints and the log go; None to keep none.
        resume: Whether to go on from the checkpoint in `folder`.
        progress: Where the engine tells how far it is.
        begin: Called once nothing is left to be refused, before the first step.
    """
    train = prepared.parts["train"]
    loss = build_loss(recipe.loss, train.targets, seed=recipe.plan.seed)
    calibrator, rule = build_calibrator(recipe.calibrator, loss.link), build_rule(recipe.rule)
    learnt = side_by_side(loss, recipe)
    network = build_network(prepared, recipe, learnt)
    fitted = fit(
        network,
        learnt,
        train,
        plan=recipe.plan,
        val=prepared.parts.get("val"),
        folder=folder,
        resume=resume,
        progress=progress,
        begin=begin,
    )
    if isinstance(network.head, HiddenHeads):
        network.head = network.head.merged().eval()
    keep_thresholds(network.head, loss)
    loss.cpu()  # scores come back to the CPU, and so must what reads them
    if isinstance(loss.link, QuasibinaryLink):
        scores, rows = score(network, train, plan=recipe.plan)
        loss.link.fit([(scores, train.targets.dense(rows))])
    table = held_out(network, prepared, recipe, loss.link)
    table, calibrator, rule = settle(table, calibrator, rule)
    network.cpu()
    network.head = on_raw_features(network.head, prepared)
    if prepared.frozen:
        network = Network(prepared.backbone, network.head, reading=network.reading)
    classifier = Classifier(network, prepared.data.labels, link=loss.link, calibrator=calibrator, rule=rule)
    seconds = sum(float(epoch["seconds"]) for epoch in fitted.history)
    return Trained(classifier, table, fitted.history, seconds, bad_images(prepared), fitted.best_epoch)


def bad_images(prepared: Prepared) -> dict[str, str]:
    """The images that no process could read, and why."""
    bad = dict(prepared.bad)
    for part in prepared.parts.values():
        bad |= getattr(part, "bad", {})
    if world_size() > 1:
        of_all: list[dict[str, str]] = [{} for _ in range(world_size())]
        torch.distributed.all_gather_object(of_all, bad)
        bad = {name: reason for one in of_all for name, reason in one.items()}
    return bad


def check_recipe(recipe: Recipe, data: Dataset) -> None:
    """Refuses, before anything is written or trained, what cannot be built or made of the scores."""
    assert data.targets is not None
    loss = build_loss(recipe.loss, data.targets.take([]), seed=recipe.plan.seed)
    calibrator, rule = build_calibrator(recipe.calibrator, loss.link), build_rule(recipe.rule)
    learnt = data.of_split("train").targets
    if loss.single_label and learnt is not None and bool((learnt.sizes() > 1).any()):
        remedy = "Choose a loss for several labels a row, such as BCE."
        got = f"{type(loss).__name__} for rows with several labels"
        raise refusal("loss", "train", "fit the rows to train on", got, remedy)
    if calibrator is None and isinstance(loss, SumLoss) and not loss.adds_over_labels:
        remedy = "Leave the calibrator as it is, or choose a loss that adds over labels, such as BCE."
        rule_text = "be given for a loss that also compares labels or rows"
        raise refusal("calibrator", "train", rule_text, "'none'", remedy)
    if rule is not None and calibrator is None and isinstance(loss.link, NoLink):
        got = f"{type(loss).__name__} without a calibrator"
        remedy = "Choose a calibrator, such as Beta(), or no rule."
        raise refusal("rule", "train", "have probabilities to decide by", got, remedy)
    learns = [
        name for name, part in (("calibrator", calibrator), ("rule", rule)) if part is not None and not part.fitted
    ]
    if learns and "val" not in data.split_sizes():
        remedy = "Leave `val` above 0, or choose 'none'."
        raise refusal(learns[0], "train", "have rows of a split 'val' to learn from", "none", remedy)


def build_network(prepared: Prepared, recipe: Recipe, loss: Loss) -> Network:
    """The network to train: head and backbone, or the head alone where features are frozen."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(recipe.plan.seed)
        head = build_head(recipe, prepared.width, len(prepared.data.labels), loss, prepared.rates())
    # A copy, because several losses may start from the same backbone.
    backbone = None if prepared.frozen else copy.deepcopy(prepared.backbone)
    return Network(backbone, head, reading=reading_of(loss))


def held_out(network: Network, prepared: Prepared, recipe: Recipe, link: Link) -> Predictions:
    """The scores of the splits "val" and "test", with their targets."""
    names = [name for name in ("val", "test") if name in prepared.parts]
    scores, targets, ids, paths, splits = [], [], [], [], []
    for name in names:
        part: Batches = prepared.parts[name]
        found, rows = score(network, part, plan=recipe.plan)
        data = prepared.data.of_split(name).take(rows.numpy())
        scores.append(found)
        targets.append(part.targets.dense(rows))
        ids += data.ids
        if data.images is not None:
            paths += [data.images.name(row) for row in range(len(data))]
        splits += [name] * len(data)
    if not names:
        scores, targets = [torch.zeros(0, len(prepared.data.labels))], [torch.zeros(0, len(prepared.data.labels))]
    return Predictions(
        scores=torch.cat(scores),
        targets=torch.cat(targets),
        ids=ids,
        paths=paths or None,
        splits=splits,
        labels=prepared.data.labels,
        link=link,
    )


def settle(
    table: Predictions, calibrator: Calibrator | None, rule: Rule | None
) -> tuple[Predictions, Calibrator | None, Rule | None]:
    """The table with probabilities and decisions by what its split "val" teaches, and what taught them.

    Where no image of that split could be read, there is nothing to learn from, and the loss's own link has to do.
    """
    assert table.scores is not None
    val = table.of_split("val") if "val" in table.split_sizes() else None
    if calibrator is not None and val is not None:
        calibrator.fit(val.scores, val.targets)
        table = table.replace(probs=calibrator(table.scores), calibrator=calibrator)
    else:
        calibrator = None
    honest = calibrator is not None or not isinstance(table.link, NoLink)
    if rule is None or not honest or (val is None and not bool(rule.fitted)):
        return table, calibrator, None
    probs = table.probabilities()
    values = table.rule_values()
    if val is not None and not bool(rule.fitted):
        rows = torch.tensor([split == "val" for split in table.splits or ()])
        rule.fit(values[rows], val.targets)
    return table.replace(probs=probs, decisions=rule(values), calibrator=calibrator, rule=rule), calibrator, rule
