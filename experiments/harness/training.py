"""One run: an arm trained on a material by a plan, and the scores it gives."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from experiments.harness.arms import Arm, build_head
from manyhot.backbones import Backbone
from manyhot.data.loading import Batches
from manyhot.engine import Plan, Silent, fit, score
from manyhot.engine.tracing import TracePoint
from manyhot.links import QuasibinaryLink
from manyhot.losses import Loss
from manyhot.network import Network
from manyhot.training.choices import build_loss


@dataclass(frozen=True)
class Material:
    """What arms are trained on.

    Attributes:
        name: Of the data and what was made of them, such as "tiny-imagenet 120+80".
        labels: Their names.
        width: Number of features.
        parts: Gives the batches of "train", "val" and "test" for a plan, whose seed decides what is drawn.
        backbone: Gives, for a seed, what turns pictures into features; None where the samples are features.
    """

    name: str
    labels: tuple[str, ...]
    width: int
    parts: Callable[[Plan], dict[str, Batches]]
    backbone: Callable[[int], Backbone] | None = None


@dataclass(frozen=True)
class Outcome:
    """What a run gave.

    Attributes:
        scores: (N, K) as the head gives them, of "val" and "test"; of the deciding head where there are two.
        targets: (N, K) of the same rows.
        counts: (K,) rows of each label to train on.
        loss: On the CPU, with what it learnt.
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
    trace: list[TracePoint] = field(default_factory=list)
    moving_link: QuasibinaryLink | None = None


def train(arm: Arm, material: Material, plan: Plan) -> Outcome:
    """Trains for all epochs of the plan, keeps the last weights, and scores the rows that were not trained on."""
    parts = material.parts(plan)
    learnt = parts["train"]
    loss = build_loss(arm.loss, learnt.targets, seed=plan.seed)
    head = build_head(arm, material.width, len(material.labels), loss, learnt.targets.rates(), seed=plan.seed)
    backbone = None if material.backbone is None else material.backbone(plan.seed)
    network = Network(backbone, head, reading="multi" if loss.heads == 2 else "plain")
    start = time.monotonic()
    fitted = fit(network, loss, learnt, plan=plan, progress=Silent())
    seconds = time.monotonic() - start
    loss.cpu()
    moving = None
    if isinstance(loss.link, QuasibinaryLink):
        moving = QuasibinaryLink()
        moving.load_state_dict(loss.link.state_dict())
        scores, rows = score(network, learnt, plan=plan, batch_size=plan.batch_size)
        loss.link.fit([(scores, learnt.targets.dense(rows))])
    held = {name: score(network, parts[name], plan=plan, batch_size=plan.batch_size) for name in ("val", "test")}
    return Outcome(
        scores={name: scores for name, (scores, _) in held.items()},
        targets={name: parts[name].targets.dense(rows) for name, (_, rows) in held.items()},
        counts=torch.as_tensor(learnt.targets.counts()),
        loss=loss,
        head=head.cpu(),
        seconds=seconds,
        speed=sum(float(epoch["samples/s"]) for epoch in fitted.history) / len(fitted.history),
        trace=fitted.normaliser,
        moving_link=moving,
    )
