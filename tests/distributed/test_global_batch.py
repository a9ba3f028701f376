"""Two processes are one: value and gradient of the global batch, through DistributedDataParallel, for every loss."""

import json
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch._dynamo  # before there is a process group, which it would keep alive
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

import manyhot as mh
from tests.losses import CASES
from tests.process_groups import leave_group
from tests.waiting import HANG

pytestmark = pytest.mark.process

ROWS, LABELS, FEATURES = 7, 5, 4
# How the seven rows are dealt out to two processes: unevenly, and all to one.
SPLITS = ([5, 2], [0, 7])


def batch(case):
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(ROWS, FEATURES, generator=draw, dtype=torch.float64)
    if case.one_label():
        targets = mh.one_hot(torch.tensor([0, 1, -1, 2, 4, 4, 3]), LABELS)
    else:
        targets = (torch.rand(ROWS, LABELS, generator=draw) < 0.4).to(torch.int16)  # which gloo itself does not send
        targets[2] = 0
    targets[1, 3] = targets[5, 0] = targets[6, 2] = -1
    return features, targets


def network(case):
    torch.manual_seed(1)
    head = mh.heads.TwoHeads(FEATURES, LABELS) if case.num_heads() == 2 else mh.LinearHead(FEATURES, LABELS)
    return head.double()


def measure(case, model, loss, features, targets, aligned):
    value = loss(model(features), targets, *aligned)
    value.backward()
    grads = [p.grad.clone() for p in model.parameters()] + [p.grad.clone() for p in loss.parameters()]
    return [t.tolist() for t in (value.detach(), *grads, *loss.buffers())]


def process(rank, address, folder, threads):
    torch.set_num_threads(threads)
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2, timeout=timedelta(seconds=HANG))
    results = {}
    for name, case in CASES.items():
        features, targets = batch(case)
        aligned = case.aligned(targets)
        for sizes in SPLITS:
            start = sum(sizes[:rank])
            own = slice(start, start + sizes[rank])
            results[f"{name} {sizes}"] = measure(
                case,
                nn.parallel.DistributedDataParallel(network(case)),
                mh.GlobalBatch(case.build(targets)),
                features[own],
                targets[own],
                [extra[own] for extra in aligned],
            )
    Path(folder, f"{rank}.json").write_text(json.dumps(results))
    leave_group()


@pytest.fixture(scope="module")
def two_processes():
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(process, args=(f"file://{folder}/meeting", folder, 1), nprocs=2)
        yield [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("sizes", SPLITS, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_two_processes_are_one(two_processes, name, sizes):
    case = CASES[name]
    features, targets = batch(case)
    loss = mh.GlobalBatch(case.build(targets))
    whole = measure(case, network(case), loss, features, targets, case.aligned(targets))
    for results in two_processes:
        for got, want in zip(results[f"{name} {sizes}"], whole, strict=True):
            torch.testing.assert_close(torch.tensor(got), torch.tensor(want), rtol=1e-6, atol=1e-6)


def test_plain_averaging_would_be_wrong():
    """Why the wrapper exists: the mean of two processes' losses is not the loss of their batch."""
    case = CASES["two-way"]
    features, targets = batch(case)
    scores = network(case)(features).detach()
    loss = mh.TwoWayLoss()
    halves = (loss(scores[:5], targets[:5]) + loss(scores[5:], targets[5:])) / 2
    assert abs(halves.item() / loss(scores, targets).item() - 1) > 0.1


def test_without_a_process_group_it_is_the_loss_itself():
    scores, targets = torch.randn(4, 3), torch.eye(4, 3)
    loss = mh.TwoWayLoss()
    assert mh.GlobalBatch(loss)(scores, targets).item() == loss(scores, targets).item()
    assert mh.GlobalBatch(mh.BinaryCrossEntropyLoss()).link is not None
