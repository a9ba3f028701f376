"""Two processes are one: every metric has the outcome of all batches, however they are dealt out."""

import json
import tempfile
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from manyhot.testing.batches import Example
from tests.laws.table import METRICS
from tests.process_groups import leave_group
from tests.waiting import HANG

pytestmark = pytest.mark.process

ROWS = 24
# How the rows are dealt out to two processes: unevenly, all to one, no row to anybody, and batches without rows.
SPLITS = {"uneven": [17, 7], "all to one": [0, ROWS], "no rows": [0, 0], "empty batches": [0, 0]}


def share(name, split, rank):
    batch = METRICS[name].example(ROWS)
    start = sum(SPLITS[split][:rank])
    own = slice(start, start + SPLITS[split][rank])
    return Example("a share", batch.scores[own], batch.targets[own])


def has_batch(own, split):
    return len(own.scores) > 0 or split == "empty batches"


def as_json(outcome):
    details = {key: value.tolist() for key, value in outcome.details.items()}
    return {"values": outcome.values, "counts": outcome.counts, "details": details}


def process(rank, address, folder, threads):
    torch.set_num_threads(threads)
    dist.init_process_group("gloo", init_method=address, rank=rank, world_size=2, timeout=timedelta(seconds=HANG))
    results = {}
    for name, case in METRICS.items():
        for split in SPLITS:
            own = share(name, split, rank)
            # A process without rows has never called `update`: it knows neither types nor the number of labels.
            metric = case.collect(own) if has_batch(own, split) else case.make()
            results[f"{name} {split}"] = as_json(metric.sync().compute())
    Path(folder, f"{rank}.json").write_text(json.dumps(results))
    leave_group()


@pytest.fixture(scope="module")
def two_processes():
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(process, args=(f"file://{folder}/meeting", folder, 1), nprocs=2)
        yield [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("name", METRICS)
def test_two_processes_are_one(two_processes, name, split):
    case = METRICS[name]
    shares = [share(name, split, rank) for rank in range(2)]
    shares = [own for own in shares if has_batch(own, split)]
    want = as_json(case.collect(*shares).compute())
    for results in two_processes:
        got = results[f"{name} {split}"]
        assert got["counts"] == want["counts"]
        assert got["values"] == pytest.approx(want["values"], rel=1e-12, nan_ok=True)
        assert got["details"].keys() == want["details"].keys()
        for key, value in want["details"].items():
            torch.testing.assert_close(torch.tensor(got["details"][key]), torch.tensor(value), equal_nan=True)


def test_without_a_process_group_it_is_the_metric_itself():
    metric = next(iter(METRICS.values())).make()
    assert metric.sync() is metric
