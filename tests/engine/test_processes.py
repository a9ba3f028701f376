"""Two processes train what one trains: the same batches, and so the same weights."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from manyhot.engine import score
from tests.engine.problems import data_of, network_of, targets_of, weights
from tests.engine.two_processes import WAYS, trained
from tests.waiting import HANG

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, "-m", "tests.engine.two_processes", str(folder)],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=HANG,
    )
    assert done.returncode == 0, done.stderr
    return [load_file(folder / f"{rank}.safetensors") for rank in range(2)]


@pytest.mark.parametrize("name", WAYS)
def test_two_processes_are_one(two_processes, name):
    whole = trained(name)
    for results in two_processes:
        for key, value in weights(whole).items():
            got = results[f"{name}|{key}"]
            torch.testing.assert_close(got, value, rtol=1e-6, atol=1e-9, msg=lambda text, key=key: f"{key}: {text}")
        figures = torch.tensor([[epoch["train loss"], epoch["mAP"]] for epoch in whole.history])
        torch.testing.assert_close(results[f"{name}|figures"], figures, rtol=1e-6, atol=1e-9)


def test_scores_come_once_and_in_order(two_processes):
    wanted, rows = score(network_of(), data_of(targets_of(), bad=[5]), batch_size=4)
    for results in two_processes:
        assert torch.equal(results["score|rows"], rows)
        torch.testing.assert_close(results["score|scores"], wanted)
