"""Losses, heads, calibrators and rules built from the settings, and ensembles of heads.

Heads that start differently and drop different units make different errors, so the mean of their scores has
fewer. On frozen features an ensemble costs no further pass over the images.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor, nn

import manyhot
from manyhot.calibrate import Calibrator
from manyhot.checks import LossBatch, check_int
from manyhot.data.targets import SparseTargets
from manyhot.decide import Rule
from manyhot.errors import InputError
from manyhot.heads import CosineHead, Head, LinearHead, MLPHead, TwoHeads
from manyhot.links import Link, SigmoidLink
from manyhot.losses import (
    AssumeNegativeLoss,
    ClassWiseLoss,
    EPRLoss,
    LabelPairRegulariser,
    Loss,
    MultiLabelSoftmaxLoss,
    ROLELoss,
    SoftmaxCrossEntropyLoss,
    Term,
)
from manyhot.registry import construct
from manyhot.settings import ALL_LOSSES, TrainSettings

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
        return _build_role_loss(text, targets, max(mean_labels, 1e-3), seed)
    loss: Loss = construct(text, Loss, argument="loss", owner=owner, names=list(ALL_LOSSES))
    return loss


def _build_role_loss(text: str, targets: SparseTargets, mean_labels: float, seed: int) -> Loss:
    """`ROLELoss()` for the mean number of labels in the data, `ROLELoss(5)` for another one."""
    written = text.partition("(")[2].rpartition(")")[0].removeprefix("expected_labels=").strip()
    try:
        expected = float(written) if written else mean_labels
    except ValueError:
        hint = "Write ROLELoss(), or ROLELoss(5) for five labels per row."
        raise InputError("loss", "train", "give ROLELoss at most one number of labels", repr(text), hint) from None
    return manyhot.losses.ROLELoss(targets.dense(), expected, generator=torch.Generator().manual_seed(seed))


def build_parts(settings: TrainSettings, targets: SparseTargets) -> tuple[Loss, Calibrator | None, Rule | None]:
    """Loss, calibrator and rule of the settings; the calibrator reads scores through the link of the loss."""
    loss = build_loss(settings.loss, targets, seed=settings.seed)
    calibrator: Calibrator | None = build_part(settings.calibrator, Calibrator, "calibrator")
    rule: Rule | None = build_part(settings.rule, Rule, "rule")
    if calibrator is not None and calibrator.link is None and loss.link.gives_probs:
        calibrator.link = loss.link
    return loss, calibrator, rule


def build_part(text: str | None, base: type, argument: str, owner: str = "train") -> Any:
    """What a text describes, of one kind; None for "none"."""
    if text is None or text.strip() in NONE:
        return None
    return construct(text, base, argument=argument, owner=owner)


def build_head(settings: TrainSettings, width: int, num_labels: int, loss: Loss, rates: Tensor) -> nn.Module:
    """The head that the settings describe, for `width` features; its bias starts at `starting_probs`."""
    hidden, dropout = settings.hidden or 0, settings.dropout or 0.0
    head_loss = loss.loss if isinstance(loss, EachHeadLoss) else loss
    if head_loss.heads == 2:
        scale = settings.scale if settings.head == "cosine" else None
        return TwoHeads(width, num_labels, hidden=hidden, dropout=dropout, scale=scale)
    bias = "none" if isinstance(head_loss, ClassWiseLoss) else settings.bias or "label"
    head: LinearHead | CosineHead | MLPHead | HeadEnsemble
    if settings.head == "cosine":
        head = CosineHead(width, num_labels, bias=bias, scale=settings.scale)
    elif hidden and isinstance(loss, EachHeadLoss):
        head = HeadEnsemble(width, num_labels, heads=loss.heads, hidden=hidden, dropout=dropout, bias=bias)
    elif hidden:
        head = MLPHead(width, num_labels, hidden=hidden, dropout=dropout, bias=bias)
    else:
        head = LinearHead(width, num_labels, bias=bias)
        nn.init.normal_(head.weight, std=1e-3)
    if isinstance(head_loss, LabelPairRegulariser):
        head_loss = head_loss.loss  # it may have no link itself, though the loss within says where to start
    start = starting_probs(head_loss, rates)
    if start is not None and bias != "none":
        head.init_bias(start, link=head_loss.link if head_loss.link.gives_probs else SigmoidLink())
    return head


def starting_probs(loss: Loss, rates: Tensor) -> Tensor | None:
    """(K,) what scores mean before anything is learnt; None for scores that only compare.

    Training begins where the loss of scores that are the same in all rows is least. For losses with a link that is at
    the label rates. Those for data with one observed label per row have none, and weigh present and absent otherwise.
    """
    if loss.link.gives_probs:
        return rates
    if isinstance(loss, AssumeNegativeLoss):
        weight = loss.negative_weight if loss.negative_weight is not None else 1 / max(1, len(rates) - 1)
        return (rates / (rates + weight * (1 - rates))).clamp(max=0.99)
    if isinstance(loss, EPRLoss):
        # p = c rate, and the excess of labels that this needs: c^2 total - c expected - 1 / (2 beta) = 0.
        total, expected, beta = float(rates.sum()), loss.expected_labels, max(loss.beta, 1e-6)
        factor = (expected + (expected**2 + 2 * total / beta) ** 0.5) / (2 * total)
        return torch.clamp(factor * rates, max=0.99)
    if isinstance(loss, ROLELoss):
        guesses = 0.995 * rates + 0.5 * (1 - rates)  # as they start; observed labels count once more
        probs = (rates + guesses) / (rates + 1)
        for _ in range(50):  # less by what the excess of labels costs
            excess = (probs.sum() - loss.expected_labels) / len(rates)
            probs = (rates + guesses - 2 * excess * probs * (1 - probs)) / (rates + 1)
        return torch.clamp(probs, 1e-6, 0.99)
    return None


def transfer_thresholds(head: nn.Module, loss: Loss) -> None:
    """Gives a head what the class-wise loss has learnt, which is no part of its scores."""
    last = head.last if isinstance(head, MLPHead) else head
    if isinstance(loss, ClassWiseLoss) and isinstance(last, Head):
        last.set_thresholds(loss.bias)


def ensemble_loss(loss: Loss, settings: TrainSettings) -> Loss:
    """The loss of as many heads as the settings ask for; of one head where a loss needs a head of its own or draws."""
    if settings.heads == 1 or loss.heads > 1 or loss.extra:
        return loss
    return EachHeadLoss(loss, heads=settings.heads or 1)


def reading_of(loss: Loss) -> str:
    """How the outputs of a head that was trained with this loss are read as scores; see `Network`."""
    if isinstance(loss, EachHeadLoss):
        return reading_of(loss.loss)
    if loss.heads == 2:
        return "multi"
    # Softmax losses do not care about a constant added to a row, so only log-probabilities compare rows.
    return "log-softmax" if isinstance(loss, MultiLabelSoftmaxLoss | SoftmaxCrossEntropyLoss) else "plain"


class HeadEnsemble(nn.Module):
    """Hidden heads side by side, for `EachHeadLoss`.

    Args:
        in_features: Width D of the features.
        num_labels: Number K of labels.
        heads: Their number M.
        hidden: Units of the hidden layer of each.
        dropout: Share of these that are left out at random while training, others in each head.
        bias: Of the scores, "label" or "none".

    Example:
        >>> heads = HeadEnsemble(4, 3, heads=2, hidden=8).eval()
        >>> features = torch.randn(5, 4)
        >>> heads(features).shape
        torch.Size([5, 2, 3])
        >>> torch.allclose(heads.merged()(features), heads(features).mean(1), atol=1e-6)
        True
    """

    def __init__(
        self,
        in_features: int,
        num_labels: int,
        *,
        heads: int = 2,
        hidden: int = 128,
        dropout: float = 0.0,
        bias: str = "label",
    ) -> None:
        super().__init__()
        number = check_int("heads", "HeadEnsemble", heads, low=1)
        self.parts = nn.ModuleList(
            MLPHead(in_features, num_labels, hidden=hidden, dropout=dropout, bias=bias) for _ in range(number)
        )

    def forward(self, features: Tensor) -> Tensor:
        """Scores (N, M, K) of features (N, D)."""
        return torch.stack([part(features) for part in self.parts], dim=1)

    def init_bias(self, rates: Tensor, *, link: Link | None = None) -> HeadEnsemble:
        """Sets the bias of all heads to the label rates, as `LinearHead.init_bias`; returns itself."""
        for part in self.heads():
            part.init_bias(rates, link=link)
        return self

    def heads(self) -> list[MLPHead]:
        """The heads."""
        return [part for part in self.parts if isinstance(part, MLPHead)]

    @torch.no_grad()
    def merged(self) -> MLPHead:
        """One head that gives the mean of their scores: it has the units of all, each counting an M-th."""
        parts = self.heads()
        first, number = parts[0], len(parts)
        one = MLPHead(
            first.in_features,
            first.num_labels,
            hidden=number * first.hidden,
            dropout=first.dropout,
            bias=first.bias_kind,
        )
        one.layer.weight.copy_(torch.cat([part.layer.weight for part in parts]))
        one.layer.bias.copy_(torch.cat([part.layer.bias for part in parts]))
        one.last.weight.copy_(torch.cat([part.last.weight for part in parts], dim=1) / number)
        if one.last.bias is not None:
            one.last.bias.copy_(torch.stack([part.last.get_parameter("bias") for part in parts]).mean(0))
        return one.to(first.last.weight.device).train(self.training)


class EachHeadLoss(Loss):
    """The mean over heads of a loss: each head learns independently of the others.

    Shape: scores (N, M, K), targets as in the given loss; returns ().
    Link: that of the given loss, for the mean of the scores.
    No-label rows: as in the given loss.

    Args:
        loss: That of one head; a mean, of scores and targets alone.
        heads: Their number M, at least 2.

    Example:
        >>> one = mh.BinaryCrossEntropyLoss()
        >>> scores, targets = torch.randn(4, 2, 3), torch.tensor([[1, 0, 0]]).repeat(4, 1)
        >>> both = (one(scores[:, 0], targets) + one(scores[:, 1], targets)) / 2
        >>> torch.allclose(EachHeadLoss(one, heads=2)(scores, targets), both)
        True
    """

    def __init__(self, loss: Loss, *, heads: int) -> None:
        if loss.reduction not in ("mean", "batchmean"):
            hint = "Build it with reduction='mean', or train one head (heads=1)."
            raise InputError("loss", "EachHeadLoss", "be a mean", f"reduction={loss.reduction!r}", hint)
        super().__init__(loss.link)
        self.loss, self.mixes_rows = loss, loss.mixes_rows
        # What other losses know by their class, this one knows by the loss that it was given.
        self.heads = check_int("heads", "EachHeadLoss", heads, low=2)
        self.soft_targets = loss.soft_targets
        self.single_label = loss.single_label

    def terms(self, batch: LossBatch) -> list[Term]:
        """The means of every head, each counting an M-th."""
        return [
            Term(term.values / self.heads, term.count)
            for scores in batch.scores.unbind(1)
            for term in self.loss.terms(dataclasses.replace(batch, scores=scores))
        ]
