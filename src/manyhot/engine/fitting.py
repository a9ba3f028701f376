"""`fit`: trains a network by a plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from manyhot.checks import kind_of
from manyhot.data.loading import Batches
from manyhot.engine.checkpoint import Checkpoint, import_safetensors, setting
from manyhot.engine.interrupting import StopSignals
from manyhot.engine.judging import LOG_LOSS, Judge, StandardJudge
from manyhot.engine.keeping import Keeper
from manyhot.engine.learner import Learner
from manyhot.engine.machine import Machine, open_machine
from manyhot.engine.normalising import BATCH_NORMS, global_statistics
from manyhot.engine.plan import Plan
from manyhot.engine.progress import Progress, Silent, default_progress
from manyhot.engine.records import Epoch
from manyhot.engine.running import Run
from manyhot.engine.sampling import steps_of_epoch
from manyhot.engine.tracing import TracePoint
from manyhot.losses.loss import Loss
from manyhot.network import Network
from manyhot.refusal import refusal


@dataclass(frozen=True)
class Fit:
    """What training gave.

    Attributes:
        network: With the weights to keep: those of the best epoch where there was a validation, otherwise the last; the
            running average where the plan asks for one. In evaluation mode, on the device where it was trained.
        loss: With its own state of the same moment.
        history: What was measured in each epoch, by name.
        best_epoch: The epoch that was judged best, from 1; None without a validation.
        best_value: The monitored figure of that epoch.
        normaliser: log C of the quasibinary loss at some hundred steps; nothing for other losses.
    """

    network: Network
    loss: Loss
    history: list[Epoch]
    best_epoch: int | None
    best_value: float | None
    normaliser: list[TracePoint]


def fit(
    network: Network,
    loss: Loss,
    train: Batches,
    *,
    plan: Plan,
    val: Batches | None = None,
    folder: str | os.PathLike[str] | None = None,
    judge: Judge | None = None,
    resume: bool = False,
    progress: Progress | None = None,
    begin: Callable[[], None] | None = None,
) -> Fit:
    """Trains a network, in place.

    Every step is that of the loss of its whole batch, however many processes and parts share the work. What a step
    draws depends on the seed and the number of the step alone, so that a run which is broken off and goes on gives the
    same weights as one that was not.

    Args:
        network: From samples to scores; parameters that need no gradient stay as they are.
        loss: Its own parameters are trained too.
        train: The data to learn from.
        plan: How to train.
        val: The data to judge each epoch by.
        folder: Where checkpoints and tables go; nothing is written without.
        judge: Gives figures by name from scores (N, K) and targets (N, K) of `val`; by default "mAP", and "log loss
            per row" where the loss has a link. Figures that are called a loss, an error, ECE, ACE or the like are
            better when lower, see `manyhot.engine.judging`.
        resume: Whether to go on from the checkpoint in the folder; without one, training starts from the beginning.
        progress: Whom to tell how far it is; a bar in a terminal and lines elsewhere by default.
        begin: Called by the process that writes, once nothing is left to be refused and before the first step.

    Example:
        >>> from manyhot.data.loading import FeatureBatches
        >>> from manyhot.data.targets import SparseTargets
        >>> data = FeatureBatches(torch.eye(4), SparseTargets.from_rows([[0], [1], [0, 1], []], num_labels=2))
        >>> from manyhot.network import Network
        >>> network = Network(None, mh.LinearHead(4, 2))
        >>> result = fit(network, mh.BinaryCrossEntropyLoss(), data, plan=Plan(epochs=2), val=data, progress=Silent())
        >>> list(result.history[0])
        ['epoch', 'steps', 'lr', 'train loss', 'mAP', 'log loss per row', 'seconds', 'samples/s']
    """
    judge = StandardJudge(loss.link) if judge is None and isinstance(loss, Loss) else judge
    if isinstance(judge, StandardJudge) and isinstance(plan, Plan) and plan.monitor == "log loss":  # older settings
        plan = replace(plan, monitor=LOG_LOSS)
    _check(network, loss, train, val, plan, judge)
    keeps = None if folder is None else Path(folder)
    if keeps is None and (resume or plan.tensorboard):
        argument = "resume" if resume else "tensorboard"
        raise refusal("folder", "fit", f"be given for {argument}=True", "None", "Pass the folder of the run.")
    if keeps is not None:
        import_safetensors()
    assert judge is not None
    machine = open_machine(plan)
    shown: Progress = Silent() if machine.rank else progress or default_progress()
    keeper = Keeper(keeps, setting(plan, network, loss, train, val) if keeps else {}, writes=machine.rank == 0)
    judged = val.targets if val is not None and isinstance(judge, StandardJudge) else None
    checkpoint = keeper.find(resume=resume, judged=judged)
    with _prepared(network, machine), StopSignals() as signals:
        total = plan.epochs * steps_of_epoch(len(train), plan.batch_size)
        learner = Learner(network, loss, machine, plan, total)
        run = Run(learner, train, val, judge=judge, plan=plan, keeper=keeper, progress=shown, signals=signals)
        if begin is not None and machine.rank == 0:
            begin()
        if checkpoint is not None:
            _take_up(run, keeper, checkpoint)
        _carry_out(run, keeper, shown)
    network.eval()
    loss.eval()
    place = run.position
    return Fit(network, loss, place.history, place.best_epoch, place.best_value, run.trace.points())


def _take_up(run: Run, keeper: Keeper, checkpoint: Checkpoint) -> None:
    run.learner.restore(checkpoint)
    run.trace.restore(checkpoint.of("trace"))
    facts = checkpoint.facts["position"]
    best = facts["best_epoch"]
    run.take_up(facts, {} if best is None else dict(Checkpoint.read(keeper.best(best)).tensors))
    keeper.record(run.position.history, only_table=True)
    keeper.record_trace(run.trace.points())


def _carry_out(run: Run, keeper: Keeper, shown: Progress) -> None:
    if run.position.over:
        run.end()
        return
    if run.plan.tensorboard:
        keeper.open_board(steps=run.done)
    shown.start(done=run.done, total=run.plan.epochs * run.steps, epochs=run.plan.epochs)
    try:
        if run.plan.accumulate > 1 and any(isinstance(module, BATCH_NORMS) for module in run.learner.network.modules()):
            shown.note("BatchNorm takes its statistics from each of the accumulated parts, not from the whole batch.")
        run.go()
    finally:
        shown.end()
        keeper.close()


@contextmanager
def _prepared(network: Network, machine: Machine) -> Iterator[None]:
    """Batch statistics of all processes, and generators that are afterwards as they were."""
    network.to(machine.device)
    gpus = [machine.device] if machine.device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus), global_statistics(network, processes=machine.world):
        yield


def _check(network: Network, loss: Loss, train: Batches, val: Batches | None, plan: Plan, judge: Judge | None) -> None:
    """Refuses what cannot be trained, before anything has been started."""
    for name, value, kind in (
        ("network", network, Network),
        ("loss", loss, Loss),
        ("train", train, Batches),
        ("plan", plan, Plan),
    ):
        if not isinstance(value, kind):
            raise refusal(name, "fit", f"be a `{kind.__name__}`", kind_of(value), f"Build a `manyhot` {kind.__name__}.")
    for name, data in (("train", train), ("val", val)):
        if data is not None and not len(data):
            raise refusal(
                name,
                "fit",
                "have rows",
                "none",
                "Pass other data, or leave it out." if data is val else "Pass other data.",
            )
    if loss.reduction == "none":
        raise refusal("loss", "fit", "return one number", "reduction='none'", "Build it with reduction='mean'.")
    if val is None and plan.patience is not None:
        raise refusal("val", "fit", "be given where the plan has `patience`", "None", "Pass data to judge epochs by.")
    if val is not None and isinstance(judge, StandardJudge) and plan.monitor not in judge.names():
        names = ", ".join(repr(name) for name in judge.names())
        raise refusal("monitor", "Plan", f"be one of the figures {names}", repr(plan.monitor), "Or pass a `judge`.")
