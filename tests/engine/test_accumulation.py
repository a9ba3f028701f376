"""A step in parts is the same step, for every loss."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import manyhot as mh
from manyhot.engine import FitSettings, NoProgress, fit
from tests.engine.problems import assert_close, data_of, network_of, targets_of
from tests.losses import CASES


def trained(case, accumulate, **options):
    dense = targets_of(case)
    loss = case.build(dense).double()
    network = network_of(heads=case.num_heads(), **options)
    settings = FitSettings(epochs=2, batch_size=10, accumulate=accumulate, lr=0.01, optimizer="sgd", accelerator="cpu")
    return fit(network, loss, data_of(dense, bad=[4, 9]), settings=settings, progress=NoProgress())


@pytest.mark.parametrize("name", CASES)
def test_four_parts_are_one(name):
    whole = trained(CASES[name], 1)
    parts = trained(CASES[name], 4)
    assert_close(whole, parts)
    for one, other in zip(whole.history, parts.history, strict=True):
        assert one["train loss"] == pytest.approx(other["train loss"], rel=1e-6)


class NoisyLoss(mh.losses.MultiLabelSoftmaxLoss):
    """A loss of one's own that takes noise."""

    extra = "noise"

    def sample_noise(self, scores):
        return torch.randn_like(scores)

    def terms(self, batch):
        return super().terms(replace(batch, scores=batch.scores + batch.extra))


def test_the_noise_of_a_loss_of_your_own_does_not_depend_on_the_parts():
    whole, parts, more = (
        fit(
            network_of(),
            NoisyLoss().double(),
            data_of(targets_of()),
            settings=FitSettings(epochs=2, batch_size=10, accumulate=accumulate, seed=seed, accelerator="cpu"),
            progress=NoProgress(),
        )
        for accumulate, seed in ((1, 0), (4, 0), (1, 1))
    )
    assert_close(whole, parts)
    assert whole.history[0]["train loss"] != more.history[0]["train loss"]


def test_more_parts_than_rows():
    assert_close(trained(CASES["two-way"], 1), trained(CASES["two-way"], 100))


def test_averaging_parts_would_be_wrong():
    """Why the engine does more: the mean of the parts' losses is another loss."""
    dense = targets_of()
    scores = torch.randn(len(dense), dense.shape[1], generator=torch.Generator().manual_seed(0))
    loss = mh.TwoWayLoss()
    parts = [loss(s, t) for s, t in zip(scores.chunk(4), dense.chunk(4), strict=True)]
    assert abs(sum(parts).item() / 4 / loss(scores, dense).item() - 1) > 0.02


class Recorder(nn.Module):
    """Notes what dropout made of ones."""

    def __init__(self):
        super().__init__()
        self.dropout, self.seen = nn.Dropout(0.5), []

    def forward(self, inputs):
        self.seen.append(self.dropout(torch.ones(len(inputs), 4)))
        return inputs


def test_the_second_pass_draws_what_the_first_one_drew():
    network = network_of()
    network.backbone = nn.Sequential(recorder := Recorder(), network.backbone)
    settings = FitSettings(epochs=1, batch_size=40, accumulate=3, accelerator="cpu")
    fit(network, mh.TwoWayLoss(), data_of(targets_of()), settings=settings, progress=NoProgress())
    first, second = recorder.seen[:3], recorder.seen[3:]
    assert len(second) == 3
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert not torch.equal(first[0][:12], first[1][:12])


@pytest.mark.parametrize("loss", [mh.TwoWayLoss, mh.BinaryCrossEntropyLoss])
def test_running_statistics_move_once_a_part(loss):
    network = network_of(norm=True)
    settings = FitSettings(epochs=1, batch_size=40, accumulate=3, lr=1e-12, accelerator="cpu")
    data = data_of(targets_of())
    fit(network, loss(), data, settings=settings, progress=NoProgress())
    norm, linear = network.backbone[1], network.backbone[0]
    assert int(norm.num_batches_tracked) == 3
    from manyhot.engine.optim import order_of_epoch

    mean = torch.zeros(8, dtype=torch.float64)
    for rows in torch.tensor_split(torch.from_numpy(order_of_epoch(len(data), seed=0, epoch=0)), 3):
        mean = 0.9 * mean + 0.1 * linear(data.features[rows]).mean(0)
    torch.testing.assert_close(norm.running_mean, mean.detach())


def test_batch_norm_in_parts_is_said():
    notes = []

    class Notes(NoProgress):
        def note(self, text):
            notes.append(text)

    settings = FitSettings(epochs=1, batch_size=40, accumulate=2, accelerator="cpu")
    fit(network_of(norm=True), mh.TwoWayLoss(), data_of(targets_of()), settings=settings, progress=Notes())
    assert notes == ["BatchNorm takes its statistics from each of the accumulated parts, not from the whole batch."]
