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
from manyhot.heads import CosineHead, Head, HiddenHead, LinearHead, TwoHeads
from manyhot.links import Link, NoLink, SigmoidLink
from manyhot.losses import (
    AssumeNegativeLoss,
    ClassWiseLoss,
    CrossEntropyLoss,
    EPRLoss,
    LabelPairRegulariser,
    Loss,
    ROLELoss,
    SoftmaxLoss,
)
from manyhot.presets import ALL_LOSSES
from manyhot.refusal import refusal
from manyhot.state import ExactState
from manyhot.training.recipe import Recipe
from manyhot.training.side_by_side import EachHeadLoss, HiddenHeads

# Of cosine heads.
SCALE = 16.0
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
    """The head of a recipe for `width` features; its bias starts at `starting_probs`."""
    hidden, dropout = recipe.hidden or 0, recipe.dropout or 0.0
    of_head = loss.loss if isinstance(loss, EachHeadLoss) else loss
    if of_head.heads == 2:
        scale = SCALE if recipe.head == "cosine" else None
        return TwoHeads(width, num_labels, hidden=hidden, dropout=dropout, scale=scale)
    bias = "none" if isinstance(of_head, ClassWiseLoss) else "label"
    head: LinearHead | CosineHead | HiddenHead | HiddenHeads
    if recipe.head == "cosine":
        head = CosineHead(width, num_labels, bias=bias, scale=SCALE)
    elif hidden and isinstance(loss, EachHeadLoss):
        head = HiddenHeads(width, num_labels, heads=loss.heads, hidden=hidden, dropout=dropout, bias=bias)
    elif hidden:
        head = HiddenHead(width, num_labels, hidden=hidden, dropout=dropout, bias=bias)
    else:
        head = LinearHead(width, num_labels, bias=bias)
        nn.init.normal_(head.weight, std=1e-3)
    if isinstance(of_head, LabelPairRegulariser):  # which may have no link, though the loss within says where to start
        of_head = of_head.loss
    start = starting_probs(of_head, rates)
    if start is not None:
        head.init_bias(start, link=SigmoidLink() if isinstance(of_head.link, NoLink) else of_head.link)
    return head


def starting_probs(loss: Loss, rates: Tensor) -> Tensor | None:
    """(K,) what scores mean before anything is learnt; None for scores that only compare.

    Training begins where the loss of scores that are the same in all rows is least. For losses with a link that is at
    the label rates. Those for data with one observed label a row have none, and weigh present and absent otherwise.
    """
    if not isinstance(loss.link, NoLink):
        return rates
    if isinstance(loss, AssumeNegativeLoss):
        weight = loss.negative_weight if loss.negative_weight is not None else 1 / max(1, len(rates) - 1)
        return (rates / (rates + weight * (1 - rates))).clamp(max=0.99)
    if isinstance(loss, EPRLoss):
        # p = c rate, and the excess of labels that this needs: c^2 total - c expected - 1 / (2 beta) = 0.
        total, expected, beta = float(rates.sum()), float(loss.excess.expected), max(loss.beta, 1e-6)
        factor = (expected + (expected**2 + 2 * total / beta) ** 0.5) / (2 * total)
        return torch.clamp(factor * rates, max=0.99)
    if isinstance(loss, ROLELoss):
        guesses = 0.995 * rates + 0.5 * (1 - rates)  # as they start; observed labels count once more
        probs = (rates + guesses) / (rates + 1)
        for _ in range(50):  # less by what the excess of labels costs
            excess = (probs.sum() - float(loss.excess.expected)) / len(rates)
            probs = (rates + guesses - 2 * excess * probs * (1 - probs)) / (rates + 1)
        return torch.clamp(probs, 1e-6, 0.99)
    return None


def keep_thresholds(head: nn.Module, loss: Loss) -> None:
    """Gives a head what the class-wise loss has learnt, which is no part of its scores."""
    last = head.last if isinstance(head, HiddenHead) else head
    if isinstance(loss, ClassWiseLoss) and isinstance(last, Head):
        last.keep_thresholds(loss.bias)


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
