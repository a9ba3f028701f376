"""What a recipe says in words, as objects: losses with what they need to be trained, calibrators and rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

import manyhot
from manyhot.calibrate import Calibrator
from manyhot.constructors import construct, public_classes
from manyhot.data.targets import SparseTargets
from manyhot.decide import Rule
from manyhot.heads import CosineHead, HiddenHead, LinearHead, TwoHeads
from manyhot.links import Link, NoLink
from manyhot.losses import CrossEntropyLoss, Loss, SoftmaxLoss
from manyhot.presets import ALL_LOSSES
from manyhot.refusal import refusal
from manyhot.state import ExactState
from manyhot.training.recipe import Recipe
from manyhot.training.side_by_side import EachHeadLoss, HiddenHeads

NONE = ("none", "None", "")


def build_loss(text: str, targets: SparseTargets | None = None, *, owner: str = "train", seed: int = 0) -> Loss:
    """The loss of a text such as `AsymmetricLoss(gamma_neg=3)`, `BCE` or `SPA + LPR`.

    Args:
        text: A short name of `ALL_LOSSES`, or a constructor with its arguments as in Python.
        targets: (N, K), those of the training data, for losses that are built from them.
        owner: Who asked, for the error.
        seed: For losses that draw.
    """
    short = {name.lower(): full for name, full in ALL_LOSSES.items()}
    text = short.get(text.strip().lower(), text)
    mean_labels = float(targets.sizes().mean()) if targets is not None and len(targets) else 1.0
    num_labels = 1 if targets is None else targets.num_labels
    text = text.replace("{mean_labels}", f"{max(mean_labels, 1e-3):.3g}").replace("{num_labels}", str(num_labels))
    if text.strip().lower().startswith("roleloss") and targets is not None:
        return _role(text, targets, max(mean_labels, 1e-3), seed)
    kinds = {name: kind for name, kind in public_classes(Loss).items() if name not in ("Loss", "AdditiveLoss")}
    advice = [*ALL_LOSSES, *kinds]
    loss = construct(text, kinds | public_classes(ExactState), argument="loss", owner=owner, advice=advice)
    if not isinstance(loss, Loss):
        remedy = f"Name a loss, such as {next(iter(kinds))}."
        raise refusal("loss", owner, "be a loss", type(loss).__name__, remedy)
    return loss


def _role(text: str, targets: SparseTargets, mean_labels: float, seed: int) -> Loss:
    """`ROLELoss()` for the mean number of labels in the data, `ROLELoss(5)` for another one."""
    written = text.partition("(")[2].rpartition(")")[0].removeprefix("expected_labels=").strip()
    try:
        expected = float(written) if written else mean_labels
    except ValueError:
        remedy = "Write ROLELoss(), or ROLELoss(5) for five labels a row."
        raise refusal("loss", "train", "give ROLELoss one number of labels at the most", repr(text), remedy) from None
    return manyhot.ROLELoss(targets.dense(), expected, generator=torch.Generator().manual_seed(seed))


def build_calibrator(text: str | None, link: Link, *, owner: str = "train") -> Calibrator | None:
    """The calibrator of a text, reading scores through the link of the loss; None for "none"."""
    calibrator: Calibrator | None = build_part(text, Calibrator, "calibrator", owner)
    if calibrator is not None and calibrator.link is None and not isinstance(link, NoLink):
        calibrator.link = link
    return calibrator


def build_rule(text: str | None, *, owner: str = "train") -> Rule | None:
    """The rule of a text; None for "none"."""
    rule: Rule | None = build_part(text, Rule, "rule", owner)
    return rule


def build_part(text: str | None, base: type, argument: str, owner: str) -> Any:
    """What a text describes, of one kind; None for "none"."""
    if text is None or text.strip() in NONE:
        return None
    wanted = {name: kind for name, kind in public_classes(base).items() if kind is not base}
    kinds = wanted | public_classes(ExactState)
    built: Any = construct(text, kinds, argument=argument, owner=owner, advice=list(wanted))
    if not isinstance(built, base):
        remedy = f"Name one, such as {next(iter(wanted))}."
        raise refusal(argument, owner, f"be a {base.__name__.lower()}", type(built).__name__, remedy)
    return built


def build_head(recipe: Recipe, width: int, num_labels: int, loss: Loss, rates: Tensor) -> nn.Module:
    """The head of a recipe for `width` features; its bias starts at the label rates, as far as the scores mean any."""
    if loss.heads == 2 and not isinstance(loss, EachHeadLoss):
        return TwoHeads(width, num_labels)
    head: LinearHead | CosineHead | HiddenHead | HiddenHeads
    if recipe.head == "cosine":
        head = CosineHead(width, num_labels, bias="label", scale=16.0)
    elif recipe.hidden and isinstance(loss, EachHeadLoss):
        dropout = recipe.dropout or 0.0
        head = HiddenHeads(width, num_labels, heads=loss.heads, hidden=recipe.hidden, dropout=dropout)
    elif recipe.hidden:
        head = HiddenHead(width, num_labels, hidden=recipe.hidden, dropout=recipe.dropout or 0.0)
    else:
        head = LinearHead(width, num_labels)
        nn.init.normal_(head.weight, std=1e-3)
    if not isinstance(loss.link, NoLink):
        head.init_bias(rates, link=loss.link)
    return head


def side_by_side(loss: Loss, recipe: Recipe) -> Loss:
    """The loss of as many heads as the recipe wants; that of one where a loss needs a head of its own or draws."""
    if recipe.heads == 1 or loss.heads > 1 or loss.most_aligned:
        return loss
    return EachHeadLoss(loss, heads=recipe.heads or 1)


def reading_of(loss: Loss) -> str:
    """How the outputs of a head that was trained with this loss are read as scores; see `Network`."""
    if isinstance(loss, EachHeadLoss):
        return reading_of(loss.loss)
    if loss.heads == 2:
        return "multi"
    # Softmax losses do not care about a constant added to a row, so only log-probabilities compare rows.
    return "log-softmax" if isinstance(loss, SoftmaxLoss | CrossEntropyLoss) else "plain"


def losses_for(names: Sequence[str], targets: SparseTargets) -> tuple[dict[str, str], list[str]]:
    """The losses to compare by name, "all" for one of each family, and notes on those that do not fit the data."""
    own = {name: name for name in names if name != "all"}
    if len(own) == len(names):
        return own, []
    single = bool((targets.sizes() <= 1).all())
    chosen = {name: text for name, text in ALL_LOSSES.items() if single or not _class_of(text).single_label}
    left_out = [name for name in ALL_LOSSES if name not in chosen]
    notes = [f"Left out {', '.join(left_out)}: for data with one label a row."] if left_out else []
    return chosen | {name: text for name, text in own.items() if name not in chosen}, notes


def _class_of(text: str) -> type[Loss]:
    return public_classes(Loss)[text.split("(")[0]]
