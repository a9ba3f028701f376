"""Properties of calibrators."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from manyhot.calibrate.calibrator import Calibrator
from manyhot.testing.batches import Example, assert_error, assert_same, edge_batches, random_batch, restored

TOLERANCE = 1e-6, 1e-9  # relative, absolute


@dataclass(frozen=True)
class CalibratorCase:
    """A calibrator under test.

    Args:
        make: Builds a fresh calibrator, for any number of labels.
        single_label: Whether rows carry at most one label.
        device: The device to test on.
    """

    make: Callable[[], Calibrator]
    single_label: bool = False
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
    return random_batch(rows, labels, single_label=case.single_label, unknown=unknown, seed=seed)


def check_calibrator_unfitted(case: CalibratorCase) -> None:
    """Before `fit` a calibrator raises an error."""
    calibrator, scores = case.make().to(case.device), calibrator_example(case).scores
    otherwise = "an unfitted calibrator gives probabilities"
    assert_error(lambda: case.probs(calibrator, scores), otherwise, "must be fitted before use")


def check_calibrator_increases(case: CalibratorCase) -> None:
    """A higher score of a label has strictly higher log-odds, also far outside of what was seen."""
    calibrator = case.fit(calibrator_example(case))
    steps = torch.cat([torch.linspace(-30, 30, 601), torch.tensor([100.0, 1e3, 1e4]), -torch.tensor([100.0, 1e3, 1e4])])
    ladder = steps.double().sort().values
    for label in range(5):
        scores = torch.zeros(len(ladder), 5, dtype=torch.float64)
        scores[:, label] = ladder
        case.probs(calibrator, scores)
        if not bool((calibrator.log_odds(scores.to(case.device))[:, label].diff() > 0).all()):
            raise AssertionError(f"the log-odds of label {label} do not increase with its score")


def check_calibrator_order(case: CalibratorCase) -> None:
    """The order of rows does not matter, and labels that change places take their map along."""
    batch, new = calibrator_example(case), calibrator_example(case, seed=1).scores
    want = case.probs(case.fit(batch), new)
    rows = torch.randperm(len(new), generator=torch.Generator().manual_seed(2))
    assert_same(case.probs(case.fit(batch.rows(rows)), new), want, "the order of rows matters", *TOLERANCE)
    labels = torch.tensor([4, 2, 0, 1, 3])
    moved = case.probs(case.fit(batch.labels(labels)), new[:, labels])
    assert_same(moved, want[:, labels.to(case.device)], "the order of labels matters", *TOLERANCE)


def check_calibrator_unknown(case: CalibratorCase) -> None:
    """Unknown cells change nothing: not by their scores, not by being there."""
    batch, new = calibrator_example(case), calibrator_example(case, seed=1).scores
    want = case.probs(case.fit(batch), new)
    got = case.probs(case.fit(batch.with_unknown_at(77.0)), new)
    assert_same(got, want, "scores of unknown cells matter", *TOLERANCE)
    # Far below the others, so that it does not show in a softmax either.
    for dim, scores in ((0, new), (-1, torch.cat([new, torch.full_like(new[:, :1], -1e4)], 1))):
        longer = batch.with_unknown_line(dim)
        got = case.probs(case.fit(longer), scores)[:, : new.shape[1]]
        assert_same(got, want, f"{longer.name} matters", *TOLERANCE)


def check_calibrator_weights(case: CalibratorCase) -> None:
    """Only the proportions of weights count, and a row of weight 0 is not there."""
    batch, new = calibrator_example(case), calibrator_example(case, seed=1).scores
    weights = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64, device=case.device).repeat(20)
    want, has_weight = case.probs(case.fit(batch, weights=weights), new), weights.cpu() > 0
    for factor in (1 / float(weights.sum()), 100.0):
        got = case.probs(case.fit(batch, weights=factor * weights), new)
        assert_same(got, want, f"the sum of weights matters, at a factor of {factor:g}", *TOLERANCE)
    got = case.probs(case.fit(batch.rows(has_weight), weights=weights[has_weight]), new)
    assert_same(got, want, "rows of weight 0 matter", *TOLERANCE)
    equal, none = case.fit(batch, weights=torch.full_like(weights, 0.01)), case.fit(batch)
    assert_same(case.probs(equal, new), case.probs(none, new), "equal weights are not the same as none", *TOLERANCE)


def check_calibrator_state(case: CalibratorCase) -> None:
    """What was saved gives the same probabilities: by `manyhot.save`, by `state_dict`, and after `half()`."""
    calibrator = case.fit(calibrator_example(case))
    new = calibrator_example(case, seed=1).scores
    want = case.probs(calibrator, new)
    for name, again in restored(calibrator, case.make()):
        assert_same(case.probs(again, new), want, f"a {name} calibrator gives other probabilities")


def calibrator_edges(case: CalibratorCase) -> Iterator[Example]:
    """Batches at the edges, and one whose scores of present and absent cells are separated by little."""
    yield from edge_batches(partial(calibrator_example, case), single_label=case.single_label)
    targets = calibrator_example(case, unknown=0.0).targets
    yield Example("separated by little", targets - 0.5, targets)


def check_calibrator_edges(case: CalibratorCase) -> None:
    """Every batch at the edge gives finite log-odds and probabilities between 0 and 1, without a warning."""
    for batch in calibrator_edges(case):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                calibrator = case.fit(batch)
                case.probs(calibrator, batch.scores)
                case.probs(calibrator, batch.scores[:0])
            except Exception as error:
                raise AssertionError(f"{batch.name}: {type(error).__name__}: {error}") from error


def check_calibrator_types(case: CalibratorCase) -> None:
    """Half precision is computed in float32, float64 stays, arrays do, and gradients are not asked for."""
    batch = calibrator_example(case)
    calibrator = case.fit(batch._replace(scores=batch.scores.float().requires_grad_()))
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        probs = case.probs(calibrator, batch.scores.to(dtype))
        if probs.dtype != torch.promote_types(dtype, torch.float32):
            raise AssertionError(f"scores of {dtype} give probabilities of {probs.dtype}")
    exact, rounded = (case.probs(calibrator, batch.scores.float().to(kind)) for kind in (torch.float64, torch.float32))
    assert_same(rounded, exact.float(), "float32 and float64 differ", 1e-4, 1e-6)
    arrays = case.make().fit(batch.scores.float().numpy(), batch.targets.numpy())(batch.scores.numpy())
    want = case.probs(calibrator, batch.scores).cpu()
    assert_same(arrays, want, "arrays are not read as tensors are", *TOLERANCE)


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
