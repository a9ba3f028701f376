"""The normaliser of the quasibinary loss leaves a trace: complete, once, and the same after a break."""

import csv

import pytest
import torch

import manyhot as mh
from manyhot.engine import FitSettings, NoProgress, fit
from manyhot.engine.history import TRACE_POINTS, LossTrace
from manyhot.training.build import EachHeadLoss
from tests.engine.problems import BreaksOff, Broken, data_of, network_of, targets_of

EVERY_STEP = 1e-9


def start(*, loss=None, folder=None, after=None, resume=False, **options):
    dense = targets_of()
    data = data_of(dense, dtype=torch.float32)
    settings = FitSettings(**{"epochs": 3, "batch_size": 8, "lr": 0.02, "accelerator": "cpu", **options})
    loss = loss or mh.QuasibinaryLoss()
    train = data if after is None else BreaksOff(data, after)
    network = network_of(dtype=torch.float32)
    return fit(network, loss, train, val=data, settings=settings, folder=folder, resume=resume, progress=NoProgress())


def table(folder):
    with (folder / "normaliser.csv").open() as file:
        return [(int(row["step"]), float(row["batch"] or "nan"), float(row["average"])) for row in csv.DictReader(file)]


def test_every_step_of_a_short_run_is_noted(tmp_path):
    result = start(folder=tmp_path)
    assert [point["step"] for point in result.diagnostics] == list(range(1, 16))
    for point, row in zip(result.diagnostics, table(tmp_path), strict=True):
        assert row == pytest.approx(tuple(point.values()), rel=1e-5)


def test_the_average_follows_from_the_batches():
    """C moves by a tenth of the way to that of the batch, from the first batch on."""
    points = start().diagnostics
    average = torch.tensor([point["average"] for point in points]).exp()
    batch = torch.tensor([point["batch"] for point in points]).exp()
    assert points[0]["average"] == pytest.approx(points[0]["batch"], rel=1e-6)
    torch.testing.assert_close(average[1:], 0.9 * average[:-1] + 0.1 * batch[1:], rtol=1e-5, atol=0)


def test_a_run_that_was_broken_off_leaves_the_same_table(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    start(folder=whole)
    for after in (2, 5, 4):  # within an epoch, over its end, and again
        with pytest.raises(Broken):
            start(folder=broken, after=after, resume=True, checkpoint_minutes=EVERY_STEP)
    start(folder=broken, resume=True)
    assert (whole / "normaliser.csv").read_text() == (broken / "normaliser.csv").read_text()


def test_a_batch_without_labels_has_no_value_of_its_own(tmp_path):
    """Also if it is the first after a break, and nothing is known of the one before."""
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    points = start(folder=whole, batch_size=1, epochs=1).diagnostics
    empty = [point["step"] for point in points if point["batch"] is None]
    assert len(empty) == int((targets_of() != 1).all(1).sum()) > 0
    with pytest.raises(Broken):
        start(folder=broken, batch_size=1, epochs=1, after=empty[0] - 1, checkpoint_minutes=EVERY_STEP)
    start(folder=broken, batch_size=1, epochs=1, resume=True)
    assert (whole / "normaliser.csv").read_text() == (broken / "normaliser.csv").read_text()


def test_what_was_written_after_the_checkpoint_is_taken_back(tmp_path):
    with pytest.raises(Broken):
        start(folder=tmp_path, after=8)  # the checkpoint is that of the first epoch
    path = tmp_path / "normaliser.csv"
    assert [step for step, _, _ in table(tmp_path)] == [1, 2, 3, 4, 5]
    path.write_text(path.read_text() + "6,1.0,1.0\n7,1.0,1.0\n")
    start(folder=tmp_path, resume=True)
    assert [step for step, _, _ in table(tmp_path)] == list(range(1, 16))


def test_a_run_that_is_over_gives_its_trace_again(tmp_path):
    first = start(folder=tmp_path)
    (tmp_path / "normaliser.csv").unlink()
    assert start(folder=tmp_path, resume=True).diagnostics == first.diagnostics
    assert len(table(tmp_path)) == 15


@pytest.mark.parametrize("total", [1, 499, 500, 999, 1000, 12_345])
def test_a_long_run_is_noted_at_some_hundred_even_steps(total):
    trace = LossTrace(mh.QuasibinaryLoss(), total)
    for step in range(1, total + 1):
        trace.record(step)
    steps = [point["step"] for point in trace.table()[1]]
    assert steps == list(range(1, total + 1, max(1, total // TRACE_POINTS)))
    assert min(total, TRACE_POINTS) <= len(steps) < 2 * TRACE_POINTS


def test_losses_with_another_normaliser_leave_nothing(tmp_path):
    assert start(loss=mh.BinaryCrossEntropyLoss(), folder=tmp_path).diagnostics == []
    assert not (tmp_path / "normaliser.csv").exists()
    inside = mh.SumLoss(mh.QuasibinaryLoss(), mh.BinaryCrossEntropyLoss(), link=mh.SigmoidLink())
    assert start(loss=inside).diagnostics == []


def test_a_sum_and_several_heads_that_read_by_it_are_followed():
    part = mh.QuasibinaryLoss()
    added = mh.SumLoss(part, mh.TwoWayLoss(), weights=(1, 0.01), link=part.link)
    assert len(start(loss=added).diagnostics) == 15
    assert LossTrace(EachHeadLoss(mh.QuasibinaryLoss(), heads=2), 10).table()[0] == "normaliser"


def test_steps_in_parts_note_the_whole_batch():
    whole, parts = start().diagnostics, start(accumulate=2).diagnostics
    for one, other in zip(whole, parts, strict=True):
        assert tuple(other.values()) == pytest.approx(tuple(one.values()), rel=1e-4)


class CountingLoss(mh.BinaryCrossEntropyLoss):
    """Records how many batches it was trained on."""

    def __init__(self):
        super().__init__()
        self.register_buffer("batches", torch.zeros(()))

    def forward(self, scores, targets, extra=None):
        self.batches += 1
        return super().forward(scores, targets, extra)

    def diagnostics(self):
        return "batches", {"count": self.batches}


def test_a_loss_of_your_own_names_its_table(tmp_path):
    result = start(loss=CountingLoss(), folder=tmp_path)
    assert result.diagnostics == [{"step": step, "count": float(step)} for step in range(1, 16)]
    assert (tmp_path / "batches.csv").read_text().splitlines()[:2] == ["step,count", "1,1"]
    assert not (tmp_path / "normaliser.csv").exists()
