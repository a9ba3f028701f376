"""Properties of calibrators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from manyhot.calibrate.calibrator import Calibrator
from manyhot.testing.batches import FITTED_PROPERTIES, Case, Example, assert_same, check_unknown, require


@dataclass(frozen=True)
class CalibratorCase(Case):
    """A calibrator under test.

    Args:
        make: Builds a fresh calibrator, for any number of labels.
        single_label: Whether rows carry at most one label.
        device: The device to test on.
    """

    make: Callable[[], Calibrator]

    shape = 60, 5
    tolerance = 1e-6, 1e-9

    def learn(self, values: Any, targets: Any, *, weights: Tensor | None = None) -> Calibrator:
        """A fresh calibrator that was fitted on scores and targets."""
        calibrator = self.make().to(self.device)
        fitted = calibrator.fit(values, targets, weights=weights)
        require(fitted is calibrator, "`fit` does not return the calibrator itself")
        return calibrator

    def results(self, learnt: Calibrator, values: Any) -> dict[str, Any]:
        """The probabilities of scores, checked for shape, device and range."""
        probs: Tensor = learnt(values)
        alike = probs.shape == values.shape and probs.device.type == torch.device(self.device).type
        require(alike, f"probabilities {tuple(probs.shape)} on {probs.device} of {tuple(values.shape)}")
        require(((probs > 0) & (probs < 1)).all(), "a probability is not above 0 and below 1")
        require(learnt.log_odds(values).isfinite().all(), "log-odds are not finite")
        return {"probs": probs}

    def edges(self) -> Iterator[Example]:
        """Batches at the edges, and one whose scores of present and absent cells are separated by little."""
        yield from super().edges()
        targets = self.example(unknown=0.0).targets
        yield Example("separated by little", targets - 0.5, targets)


def check_calibrator(make: Callable[[], Calibrator], **options: Any) -> None:
    """Checks every property of calibrators.

    Args:
        make: Builds a fresh calibrator.
        **options: As in `CalibratorCase`.

    Example:
        >>> check_calibrator(lambda: mh.PlattScaling(sharing="all"))
    """
    CalibratorCase(make, **options).check(CALIBRATOR_PROPERTIES)


def check_calibrator_increases(case: CalibratorCase) -> None:
    """A higher score of a label has strictly higher log-odds, also far outside of what was seen."""
    calibrator = case.fit(case.example())
    far = torch.tensor([100.0, 1e3, 1e4])
    ladder = torch.cat([-far.flip(0), torch.linspace(-30, 30, 601), far]).double()
    for label in range(5):
        scores = torch.zeros(len(ladder), 5, dtype=torch.float64)
        scores[:, label] = ladder
        scores = scores.to(case.device)
        case.results(calibrator, scores)
        steps = calibrator.log_odds(scores)[:, label].diff()
        require((steps > 0).all(), f"the log-odds of label {label} do not increase with its score")


def check_calibrator_weights(case: CalibratorCase) -> None:
    """Only the proportions of weights count, and a row of weight 0 is not there."""
    batch, new = case.example(), case.as_values(case.example(seed=1).scores)
    weights = torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64, device=case.device).repeat(20)

    def evaluate(batch: Example, weights: Tensor | None) -> dict[str, Any]:
        calibrator = case.learn(case.as_values(batch.scores), batch.targets.to(case.device), weights=weights)
        return case.results(calibrator, new)

    want, has_weight = evaluate(batch, weights), weights.cpu() > 0
    for factor in (1 / float(weights.sum()), 100.0):
        got = evaluate(batch, factor * weights)
        case.same(got, want, f"the sum of weights matters, at a factor of {factor:g}")
    case.same(evaluate(batch.rows(has_weight), weights[has_weight]), want, "rows of weight 0 matter")
    equal = torch.full_like(weights, 0.01)
    case.same(evaluate(batch, equal), evaluate(batch, None), "equal weights are not the same as none")


def check_calibrator_types(case: CalibratorCase) -> None:
    """Half precision gives float32, float64 stays, and gradients are not asked for."""
    batch = case.example()
    calibrator = case.fit(batch._replace(scores=batch.scores.float().requires_grad_()))
    for dtype in (torch.bfloat16, torch.float32, torch.float64):
        probs = case.results(calibrator, case.as_values(batch.scores.to(dtype)))["probs"]
        want = torch.promote_types(dtype, torch.float32)
        require(probs.dtype == want, f"scores of {dtype} give probabilities of {probs.dtype}")
    rounded = case.as_values(batch.scores.float())
    exact, got = (case.results(calibrator, scores)["probs"] for scores in (rounded.double(), rounded))
    assert_same(got, exact.float(), "float32 and float64 differ", 1e-4, 1e-6)


CALIBRATOR_PROPERTIES = (
    *FITTED_PROPERTIES,
    check_unknown,
    check_calibrator_increases,
    check_calibrator_weights,
    check_calibrator_types,
)
