"""Methods, and one run: a method trained on a dataset, and its scores of the rows that it was not trained on."""

import re
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from experiments.data import ExperimentDataset
from manyhot.engine import FitSettings, NoProgress, fit, score
from manyhot.errors import InputError
from manyhot.heads import CosineHead, Head, LinearHead, MLPHead, TwoHeads
from manyhot.links import NoLink, QuasibinaryLink
from manyhot.losses import LabelPairRegulariser, Loss
from manyhot.network import Network
from manyhot.registry import RENAMED
from manyhot.training.build import build_loss

# Stored results are named by digests of their settings, in which classes have their first names. Only names that are
# called are replaced, in a single pass, so that no replacement is replaced again.
OLD_NAMES = {new: old for old, new in RENAMED.items()}


def old_spelling(text: str) -> str:
    """The text of a loss, calibrator or rule with the class names of stored results, to hash and to name them.

    Example:
        >>> old_spelling("LabelPairRegulariser(FocalLoss(2, 2), weight=0.1)")
        'LabelPairRegulariser(AsymmetricFocalLoss(2, 2), weight=0.1)'
    """
    return _spelled(text, OLD_NAMES)


def new_spelling(text: str) -> str:
    """The text of a loss from a stored result with the current class names; the inverse of `old_spelling`."""
    return _spelled(text, RENAMED)


def _spelled(text: str, names: Mapping[str, str]) -> str:
    return re.sub(rf"\b({'|'.join(names)})(?=\()", lambda match: names[match[1]], text)


@dataclass(frozen=True)
class Method:
    """One row of a table.

    Attributes:
        name: In tables.
        loss: As in train settings, such as "AsymmetricLoss(gamma_neg=4)" or "BCE".
        head: "linear" or "cosine"; losses for two heads get theirs.
        bias: "label", "shared" or "none".
        scale: Of a cosine head.
        start: Initial bias: "rates" (the label rates by the link), "sigmoid rates" (by a sigmoid, for losses without a
            link; of two heads, the deciding one), "zero", or "mode 0" to "mode 7".
        hidden: Hidden units between features and scores.
        dropout: Of the hidden units.
        lr: Factor on the learning rate, for heads on features only.
    """

    name: str
    loss: str
    head: str = "linear"
    bias: str = "label"
    scale: float = 16.0
    start: str = "rates"
    hidden: int = 0
    dropout: float = 0.0
    lr: float = 1.0

    def settings(self) -> dict[str, object]:
        """All that decides what is trained, as stored results spell it; the learning rate is in the fit settings."""
        values = {key: value for key, value in asdict(self).items() if key not in ("name", "lr")}
        return values | {"loss": old_spelling(self.loss)}


def build_head(
    method: Method, width: int, num_labels: int, loss: Loss, rates: Tensor, *, seed: int
) -> Head | MLPHead | TwoHeads:
    """The head of a method; the same seed gives the same weights for all losses."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = _weights(method, width, num_labels, loss)
    if isinstance(head, TwoHeads):
        if method.start == "sigmoid rates":
            head.multi.init_bias(rates)
        return head
    if method.start == "sigmoid rates":
        head.init_bias(rates)
    elif method.start == "rates":
        # A regulariser with a link of its own for pairs has none for scores; the inner loss has the one to start from.
        link = loss.loss.link if isinstance(loss, LabelPairRegulariser) else loss.link
        if not isinstance(link, NoLink) and method.bias != "none":
            head.init_bias(rates, link=link)
    elif method.start.startswith("mode "):
        last = head.last if isinstance(head, MLPHead) else head
        last.init_diverse_bias(int(method.start[5:]), generator=torch.Generator().manual_seed(seed))
    elif method.start != "zero":
        rule = "be 'rates', 'sigmoid rates', 'zero' or 'mode 0' to 'mode 7'"
        raise InputError("start", "Method", rule, repr(method.start), "Pick one.")
    return head


def _weights(method: Method, width: int, num_labels: int, loss: Loss) -> Head | MLPHead | TwoHeads:
    if loss.heads == 2:
        return TwoHeads(width, num_labels)
    if method.head == "cosine":
        return CosineHead(width, num_labels, bias=method.bias, scale=method.scale)
    if method.hidden:
        return MLPHead(width, num_labels, hidden=method.hidden, dropout=method.dropout)
    return LinearHead(width, num_labels, bias=method.bias)


@dataclass(frozen=True)
class RunOutput:
    """The output of a run.

    Attributes:
        scores: (N, K) raw scores of "val" and "test"; of the deciding head if there are two.
        targets: (N, K) of the same rows.
        counts: (K,) training rows of each label.
        loss: On the CPU, with its learned state.
        head: On the CPU.
        seconds: Of training.
        speed: Samples a second.
        trace: log C of the quasibinary normaliser through training.
        moving_link: The link with the moving average of its normaliser, before that was computed from all rows.
    """

    scores: dict[str, Tensor]
    targets: dict[str, Tensor]
    counts: Tensor
    loss: Loss
    head: nn.Module
    seconds: float
    speed: float
    trace: list[dict[str, Any]] = field(default_factory=list)
    moving_link: QuasibinaryLink | None = None


def train(method: Method, dataset: ExperimentDataset, fit_settings: FitSettings) -> RunOutput:
    """Trains for all epochs with the last weights, and scores the rows of "val" and "test"."""
    parts = dataset.parts(fit_settings)
    train_batches = parts["train"]
    loss = build_loss(method.loss, train_batches.targets, seed=fit_settings.seed)
    head = build_head(
        method, dataset.width, len(dataset.labels), loss, train_batches.targets.rates(), seed=fit_settings.seed
    )
    backbone = None if dataset.backbone is None else dataset.backbone(fit_settings.seed)
    network = Network(backbone, head, reading="multi" if loss.heads == 2 else "plain")
    start = time.monotonic()
    fitted = fit(network, loss, train_batches, settings=fit_settings, progress=NoProgress())
    seconds = time.monotonic() - start
    loss.cpu()
    moving_link = None
    if isinstance(loss.link, QuasibinaryLink):
        moving_link = QuasibinaryLink()
        moving_link.load_state_dict(loss.link.state_dict())
        scores, rows = score(network, train_batches, settings=fit_settings, batch_size=fit_settings.batch_size)
        loss.link.fit([(scores, train_batches.targets.dense(rows))])
    held = {
        name: score(network, parts[name], settings=fit_settings, batch_size=fit_settings.batch_size)
        for name in ("val", "test")
    }
    return RunOutput(
        scores={name: scores for name, (scores, _) in held.items()},
        targets={name: parts[name].targets.dense(rows) for name, (_, rows) in held.items()},
        counts=torch.as_tensor(train_batches.targets.counts()),
        loss=loss,
        head=head.cpu(),
        seconds=seconds,
        speed=sum(float(epoch["samples/s"]) for epoch in fitted.history) / len(fitted.history),
        trace=fitted.diagnostics,
        moving_link=moving_link,
    )
