"""The scores of each loss, read in every way that makes sense, or that people use."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from manyhot.links import NoLink, SigmoidLink
from manyhot.metrics import CalibrationError, Outcome
from manyhot.predictions import Predictions
from manyhot.training import Comparison, Run
from manyhot.training.comparing import slug

OWN, PLAIN, CALIBRATED = "its own link", "a plain sigmoid", "a calibrator"
# Losses whose scores are often, and wrongly, read through a plain sigmoid.
MISREAD = ("focal", "ASL", "SPA")
BINS = 15


@dataclass(frozen=True)
class Reading:
    """What a loss says about the test scenes.

    Attributes:
        test: Scores, targets, and calibrated probabilities of the test scenes.
        val: The same of the scenes that were calibrated on.
        probs: (N, K) of the test scenes by the way the scores are read.
    """

    test: Predictions
    val: Predictions
    probs: dict[str, Tensor]

    def error(self, way: str) -> float:
        """Expected calibration error of one way to read the scores."""
        return calibration(self.probs[way], self.targets).value

    @property
    def targets(self) -> Tensor:
        """(N, K) of the test scenes."""
        assert self.test.targets is not None
        return self.test.targets


def read_all(comparison: Comparison) -> dict[str, Reading]:
    """The readings of every loss that was compared, by name."""
    return {name: read_one(name, Run(comparison.folder / slug(name))) for name in comparison.rows}


def read_one(name: str, run: Run) -> Reading:
    """The readings of one run."""
    table = run.predictions()
    test, val = table.of_split("test").read(), table.of_split("val").read()
    assert test.scores is not None
    probs = {}
    if test.link is not None and not isinstance(test.link, NoLink):
        probs[OWN] = test.link.probs(test.scores)
    if name in MISREAD:
        probs[PLAIN] = SigmoidLink().probs(test.scores)
    probs[CALIBRATED] = test.probabilities()
    return Reading(test, val, probs)


def calibration(probs: Tensor, targets: Tensor) -> Outcome:
    """Errors of calibration, and the curve behind them."""
    return CalibrationError(BINS).update(probs, targets).compute()
