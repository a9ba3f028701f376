"""`fit` is a loop that anyone could write: its weights are those of plain PyTorch, to the last bit."""

import copy
import math

import pytest
import torch
from torch import nn

import manyhot as mh
from manyhot.engine import FitSettings, NoProgress, fit
from manyhot.engine.optim import STEP, mix_seeds, order_of_epoch
from tests.engine.problems import data_of, network_of, targets_of


def plain_loop(network, loss, data, *, epochs, batch_size, lr, seed, optimizer, clip=None, decay=None):
    """Twenty lines that owe nothing to the engine but the seeds."""
    matrices = [p for p in network.parameters() if p.ndim > 1]
    vectors = [p for p in network.parameters() if p.ndim == 1]
    groups = [{"params": matrices, "weight_decay": 0.01}, {"params": vectors, "weight_decay": 0.0}]
    kind = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}[optimizer]
    options = {"momentum": 0.9, "nesterov": True} if optimizer == "sgd" else {}
    stepper, average = kind(groups, lr=lr, fused=True, **options), copy.deepcopy(network)
    steps = math.ceil(len(data) / batch_size)
    for step in range(epochs * steps):
        epoch, place = divmod(step, steps)
        rows = order_of_epoch(len(data), seed=seed, epoch=epoch)[place * batch_size : (place + 1) * batch_size]
        for group in stepper.param_groups:
            group["lr"] = lr * (1 + math.cos(math.pi * step / (epochs * steps))) / 2
        torch.manual_seed(mix_seeds(seed, STEP, step, 0, 0))
        stepper.zero_grad()
        loss(network(data.features[rows]), data.targets.dense(rows)).backward()
        if clip:
            nn.utils.clip_grad_norm_(network.parameters(), clip)
        stepper.step()
        with torch.no_grad():
            share = 1 - min(decay or 0, (1 + step) / (10 + step))
            for mean, value in zip(average.parameters(), network.parameters(), strict=True):
                mean.lerp_(value, share)
    return average if decay else network


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
@pytest.mark.parametrize(
    ("loss", "dropout", "clip", "decay"),
    [
        (mh.BinaryCrossEntropyLoss, 0.0, None, None),
        (mh.TwoWayLoss, 0.3, None, None),
        (mh.StrictlyProperAsymmetricLoss, 0.3, 0.1, None),
        (mh.BinaryCrossEntropyLoss, 0.3, None, 0.9),
    ],
    ids=["bce", "two-way with dropout", "spa clipped", "averaged"],
)
def test_weights_of_a_plain_loop(optimizer, loss, dropout, clip, decay):
    data, lr = data_of(targets_of(), dtype=torch.float32), 0.02
    network = network_of(dropout=dropout, dtype=torch.float32)
    before = copy.deepcopy(network.state_dict())
    wanted = plain_loop(
        copy.deepcopy(network),
        loss(),
        data,
        epochs=3,
        batch_size=8,
        lr=lr,
        seed=5,
        optimizer=optimizer,
        clip=clip,
        decay=decay,
    )
    settings = FitSettings(
        epochs=3, batch_size=8, lr=lr, warmup=0, seed=5, optimizer=optimizer, clip=clip, ema=decay, accelerator="cpu"
    )
    got = fit(network, loss(), data, settings=settings, progress=NoProgress()).network
    for name, value in wanted.state_dict().items():
        assert torch.equal(got.state_dict()[name], value), name
        assert not torch.equal(before[name], value), name


def test_the_generator_is_left_as_it_was():
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    network = network_of(dropout=0.5)
    torch.manual_seed(3)
    fit(
        network,
        mh.BinaryCrossEntropyLoss(),
        data_of(targets_of()),
        settings=FitSettings(epochs=1, accelerator="cpu"),
        progress=NoProgress(),
    )
    assert torch.equal(torch.rand(4), wanted)
