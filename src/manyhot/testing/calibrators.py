"""Properties of calibrators."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyhot.calibrate.calibrator import Calibrator
from manyhot.registry import registered
from manyhot.serialization import load, save
from manyhot.testing.batches import Example


@dataclass(frozen=True)
class CalibratorCase:
    """A calibrator under test.

    Args:
        make: Builds a fresh calibrator, for any number of labels.
        single_label: Whether rows carry at most one label.
        mixes_labels: Whether the probability of a label depends on the other scores of its row, as in a softmax.
        device: The device to test on.
    """

    make: Callable[[], Calibrator]
    single_label: bool = False
    mixes_labels: bool = False
    device: str = "cpu"

    def fit(self, batch: Example, *, weights: Tensor | None = None) -> Calibrator:
        """A fresh calibrator that was fitted on a batch."""
        calibrator = self.make().to(self.device)
        scores, targets = batch.scores.to(self.device), batch.targets.to(self.device)
        if calibrator.fit(scores, targets, weights=weights) is not calibrator:
            raise AssertionError("`fit` does not return the calibrator itself")
        return calibrator

    def probs(self, calibrator: Calibrator, scores: Tensor) -> Tensor:
        """The probabilities of scores, checked for shape, device and range."""
        scores = scores.to(self.device)
        probs: Tensor = calibrator(scores)
        if probs.shape != scores.shape or probs.device != scores.device:
            raise AssertionError(f"probabilities {tuple(probs.shape)} on {probs.device} of {tuple(scores.shape)}")
        if not bool(((probs > 0) & (probs < 1)).all()):
            raise AssertionError("a probability is not above 0 and below 1")
        if not bool(calibrator.log_odds(scores).isfinite().all()):
            raise AssertionError("log-odds are not finite")
        return probs


def check_calibrator(make: Callable[[], Calibrator], **options: Any) -> None:
    """Checks every property of calibrators.

    Args:
        make: Builds a fresh calibrator.
        **options: As in `CalibratorCase`.

    Example:
        >>> check_calibrator(lambda: mh.PlattScaling(sharing="all"))
    """
    case = CalibratorCase(make, **options)
    for check in CALIBRATOR_PROPERTIES:
        check(case)


def calibrator_example(
    case: CalibratorCase, rows: int = 60, labels: int = 5, *, unknown: float = 0.15, seed: int = 0
) -> Example:
    """A random batch whose scores know something of the targets, with an empty row and one that is not known."""
    draw = torch.Generator().manual_seed(seed)
    if case.single_label:
        chosen = torch.randint(labels, (rows, 1), generator=draw)
        targets = torch.zeros(rows, labels, dtype=torch.int8).scatter_(1, chosen, 1)
    else:
        targets = (torch.rand(rows, labels, generator=draw) < 0.3).to(torch.int8)
        targets[1:2] = 1
    targets[:1] = 0
    scores = torch.randn(rows, labels, generator=draw, dtype=torch.float64) * 1.5 + 2.0 * targets - 1.0
    hidden = torch.rand(rows, labels, generator=draw) < unknown
    hidden[:2], hidden[2:3] = False, unknown > 0
    return Example("a random batch", scores, torch.where(hidden, -1, targets).to(torch.int8))


def check_calibrator_unfitted(case: CalibratorCase) -> None:
    """Before `fit` a calibrator raises an error."""
    try:
        case.make().to(case.device)(calibrator_example(case).scores.to(case.device))
    except ValueError as error:
        if "must be fitted before use" not in str(error):
            raise AssertionError(f"an unfitted calibrator raises another error: {error}") from error
    else:
        raise AssertionError("an unfitted calibrator gives probabilities")


def check_calibrator_increases(case: CalibratorCase) -> None:
    """A higher score of a label has strictly higher log-odds, also far outside of what was seen."""
    calibrator = case.fit(calibrator_example(case))
    steps = torch.cat([torch.linspace(-30, 30, 601), torch.tensor([100.0, 1e3, 1e4]), -torch.tensor([100.0, 1e3, 1e4])])
    ladder = steps.double().sort().values.unsqueeze(1)
    for label in range(5):
        scores = torch.zeros(len(ladder), 5, dtype=torch.float64)
        scores[:, label : label + 1] = ladder
        case.probs(calibrator, scores)
        if not bool((calibrator.log_odds(scores.to(case.device))[:, label].diff() > 0).all()):
            raise AssertionError(f"the log-odds of label {label} do not increase with its score")


def check_calibrator_order(case: CalibratorCase) -> None:
    """The order of rows does not matter, and labels that change places take their map along."""
    batch, new = calibrator_example(case), calibrator_example(case, seed=1).scores
    want = case.probs(case.fit(batch), new)
    rows = torch.randperm(len(batch.scores), generator=torch.Generator().manual_seed(2))
    labels = torch.tensor([4, 2, 0, 1, 3])
    moved = Example("rows in another order", batch.scores[rows], batch.targets[rows])
    _same(case.probs(case.fit(moved), new), want, "the order of rows matters")
    moved = Example("labels in another order", batch.scores[:, labels], batch.targets[:, labels])
    _same(case.probs(case.fit(moved), new[:, labels]), want[:, labels.to(case.device)], "the order of labels matters")


def check_calibrator_unknown(case: CalibratorCase) -> None:
    """Unknown cells change nothing: not by their scores, not by being there."""
    batch, new = calibrator_example(case), calibrator_example(case, seed=1).scores
    want = case.probs(case.fit(batch), new)
    hidden = batch._replace(scores=torch.where(batch.targets < 0, 77.0, batch.scores))
    _same(case.probs(case.fit(hidden), new), want, "scores of unknown cells matter")
    for dim in (0, 1):
        lines = [torch.cat([part, torch.full_like(part.narrow(dim, 0, 1), -1)], dim) for part in batch[1:]]
        # Far below the others, so that it does not show in a softmax either.
        wider = new if dim == 0 else torch.cat([new, torch.full_like(new[:, :1], -1e4)], 1)
        got = case.probs(case.fit(Example("a line of unknown cells", *lines)), wider)[:, : new.shape[1]]
        _same(got, want, f"a line of unknown cells along axis {dim} matters")


def check_calibrator_weights(case: CalibratorCase) -> None:
    """Only the proportions of weights count, and a row of weight 0 is not there."""
    batch, new = calibrator_example(case), calibrator_example(case, seed=1).scores
    weights = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64, device=case.device).repeat(20)
    want, has_weight = case.probs(case.fit(batch, weights=weights), new), weights.cpu() > 0
    for factor in (1 / float(weights.sum()), 100.0):
        got = case.probs(case.fit(batch, weights=factor * weights), new)
        _same(got, want, f"the sum of weights matters, at a factor of {factor:g}")
    fewer = Example("rows left out", batch.scores[has_weight], batch.targets[has_weight])
    _same(case.probs(case.fit(fewer, weights=weights[has_weight]), new), want, "rows of weight 0 matter")
    equal_weights = case.fit(batch, weights=torch.full_like(weights, 0.01))
    _same(case.probs(equal_weights, new), case.probs(case.fit(batch), new), "equal weights are not the same as none")


def check_calibrator_state(case: CalibratorCase) -> None:
    """What was saved gives the same probabilities: by `manyhot.save`, by `state_dict`, and after `half()`."""
    calibrator = case.fit(calibrator_example(case))
    new = calibrator_example(case, seed=1).scores
    want = case.probs(calibrator, new)
    with tempfile.TemporaryDirectory() as folder:
        save(calibrator, Path(folder) / "calibrator.json")
        with registered(type(calibrator)):
            loaded = load(Path(folder) / "calibrator.json").to(case.device)
    fresh = case.make().to(case.device)
    fresh.load_state_dict(calibrator.state_dict())
    for name, again in (("save", loaded), ("state_dict", fresh), ("half", calibrator.half())):
        if not torch.equal(case.probs(again, new), want):
            raise AssertionError(f"probabilities differ after `{name}`")


def calibrator_edges(case: CalibratorCase) -> Iterator[Example]:
    """Batches at the edges."""
    base = calibrator_example(case, unknown=0.0)
    scores, targets = base.scores, base.targets
    yield Example("no rows", scores[:0], targets[:0])
    yield Example("one row", scores[3:4], targets[3:4])
    yield Example("rows without labels", scores, torch.zeros_like(targets))
    yield Example("unknown cells only", scores, torch.full_like(targets, -1))
    yield Example("a label never known", scores, targets.index_fill(1, torch.tensor([2]), -1))
    yield Example("a label never present", scores, targets.index_fill(1, torch.tensor([1]), 0))
    yield Example("all scores equal", torch.zeros_like(scores), targets)
    yield Example("scores of 1e4 for the targets", 1e4 * (2.0 * targets - 1), targets)
    yield Example("scores of 1e4 against the targets", -1e4 * (2.0 * targets - 1), targets)
    yield Example("separated by little", scores.sign() * 0 + targets - 0.5, targets)
    narrow = calibrator_example(case, labels=1, unknown=0.0, seed=3)
    yield Example("one label", narrow.scores, narrow.targets)
    if not case.single_label:
        yield Example("rows with all labels", scores, torch.ones_like(targets))


def check_calibrator_edges(case: CalibratorCase) -> None:
    """Every batch at the edge gives finite log-odds and probabilities between 0 and 1, without a warning."""
    for batch in calibrator_edges(case):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                calibrator = case.fit(batch)
                case.probs(calibrator, batch.scores)
                case.probs(calibrator, torch.zeros(0, batch.scores.shape[1], dtype=torch.float64))
            except Exception as error:
                raise AssertionError(f"{batch.name}: {type(error).__name__}: {error}") from error


def check_calibrator_types(case: CalibratorCase) -> None:
    """Half precision is computed in float32, float64 stays, arrays do, and gradients are not asked for."""
    batch = calibrator_example(case)
    calibrator = case.fit(batch._replace(scores=batch.scores.float().requires_grad_()))
    for dtype, expected_dtype in (
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ):
        probs = case.probs(calibrator, batch.scores.to(dtype))
        if probs.dtype != expected_dtype:
            raise AssertionError(f"scores of {dtype} give probabilities of {probs.dtype}")
    exact, rounded = (case.probs(calibrator, batch.scores.float().to(kind)) for kind in (torch.float64, torch.float32))
    torch.testing.assert_close(rounded, exact.float(), rtol=1e-4, atol=1e-6)
    arrays = case.make().fit(batch.scores.float().numpy(), batch.targets.numpy())(batch.scores.numpy())
    _same(arrays, case.probs(calibrator, batch.scores).cpu(), "arrays are not read as tensors are")


def _same(got: Tensor, want: Tensor, message: str) -> None:
    torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-9, msg=lambda text: f"{message}: {text}")


CALIBRATOR_PROPERTIES = (
    check_calibrator_unfitted,
    check_calibrator_increases,
    check_calibrator_order,
    check_calibrator_unknown,
    check_calibrator_weights,
    check_calibrator_state,
    check_calibrator_edges,
    check_calibrator_types,
)
