"""Every law of calibrators can be broken; tests/laws/table.py says which calibrators it is tried on."""

import pytest
import torch

import manyhot as mh
from manyhot.testing import batches
from manyhot.testing import calibrators as laws


class Shift(mh.Calibrator):
    """A calibrator that is right in all but what a subclass breaks."""

    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.zeros((), dtype=torch.float64))

    def fit_cells(self, input_log_odds, targets, weights):
        rate = ((weights * targets).sum() + 1) / (weights.sum() + 2)
        return self.learn(shift=torch.logit(rate))

    def map(self, input_log_odds):
        return input_log_odds + self.shift


class Falls(Shift):
    def map(self, input_log_odds):
        return self.shift - input_log_odds


class CountsRows(Shift):
    def fit_cells(self, input_log_odds, targets, weights):
        return self.learn(shift=input_log_odds.new_tensor(len(targets) / 100))


class LooksAtTheFirstRow(Shift):
    def fit_cells(self, input_log_odds, targets, weights):
        return self.learn(shift=input_log_odds[:1].sum())


class LooksAtUnknownCells(Shift):
    def fit_cells(self, input_log_odds, targets, weights):
        return self.learn(shift=input_log_odds.sum() / 1e3)


class Forgets(Shift):
    def fit_cells(self, input_log_odds, targets, weights):
        self.kept = ((weights * targets).sum() + 1) / (weights.sum() + 2)
        return self.learn()

    def map(self, input_log_odds):
        return input_log_odds + getattr(self, "kept", 0.0)


class Certain(Shift):
    def fit_cells(self, input_log_odds, targets, weights):
        return self.learn(shift=torch.logit((weights * targets).sum() / weights.sum()))


class NeverRefuses(Shift):
    def require_fitted(self):
        pass


class StaysHalf(Shift):
    def log_odds(self, scores, *, kind=None):
        return super().log_odds(scores, kind=kind).to(scores.dtype)


def test_a_right_one_passes():
    laws.check_calibrator(Shift)


@pytest.mark.parametrize(
    ("broken", "law"),
    [
        (NeverRefuses, batches.check_unfitted),
        (Falls, laws.check_calibrator_increases),
        (LooksAtTheFirstRow, batches.check_order),
        (LooksAtUnknownCells, batches.check_unknown),
        (CountsRows, laws.check_calibrator_weights),
        (Forgets, batches.check_saved),
        (Certain, batches.check_edge_batches),
        (StaysHalf, laws.check_calibrator_types),
    ],
    ids=lambda value: value.__name__,
)
def test_a_broken_one_is_found(broken, law):
    with pytest.raises((AssertionError, RuntimeError)):
        law(laws.CalibratorCase(broken))
