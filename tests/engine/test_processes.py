"""Two processes train what one trains: the same batches, and so the same weights."""

import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from manyhot.engine import score
from tests.engine import own_folders
from tests.engine.problems import data_of, network_of, targets_of, weights
from tests.engine.two_processes import WAYS, trained
from tests.waiting import HANG

pytestmark = pytest.mark.process

ROOT = Path(__file__).parents[2]


TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]


def start(command, **environment):
    """A process whose output can be read in the end."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )


def ended_well(*processes):
    for process in processes:
        error = process.communicate(timeout=HANG)[1]
        assert process.returncode == 0, error


def on_one_machine(script):
    ended_well(start([*TORCHRUN, "--standalone", "--nproc-per-node", "2", *script]))


def on_two_machines(script):
    """Two network namespaces, joined by a cable: each has an address and ports of its own."""
    names = [f"manyhot-{os.getpid()}-{node}" for node in range(2)]  # of this process: others make some of their own
    made = shutil.which("ip") and [subprocess.run(["ip", "netns", "add", name], capture_output=True) for name in names]
    if not made or any(done.returncode for done in made):
        pytest.skip("network namespaces need iproute2 and an administrator")
    try:
        run = partial(subprocess.run, check=True)
        cable = f"ip link add cable-0 netns {names[0]} type veth peer name cable-1 netns {names[1]}"
        run(cable.split())
        for node, name in enumerate(names):
            run(f"ip -n {name} address add 10.77.0.{node + 1}/24 dev cable-{node}".split())
            run(f"ip -n {name} link set cable-{node} up".split())
            run(f"ip -n {name} link set lo up".split())
        meet = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "10.77.0.1", "--master-port", "29500"]
        command = [*TORCHRUN, *meet]
        ended_well(
            *(
                start(
                    ["ip", "netns", "exec", name, *command, f"--node-rank={node}", *script],
                    GLOO_SOCKET_IFNAME=f"cable-{node}",
                )
                for node, name in enumerate(names)
            )
        )
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.fixture(scope="module", params=[on_one_machine, on_two_machines])
def two_processes(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    request.param(["-m", "tests.engine.two_processes", str(folder)])
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


def test_only_the_first_process_needs_the_folder(tmp_path):
    """The second one finds no checkpoint in its own, as on a machine that shares no disk; a script starts it."""
    ended_well(start([sys.executable, "-m", "tests.engine.own_folders", str(tmp_path)]))
    assert (tmp_path / "of process 0" / "checkpoint").exists()
    assert [path.name for path in (tmp_path / "of process 1").iterdir()] == ["end"]
    whole = weights(own_folders.trained())
    for rank in range(2):
        for key, value in load_file(tmp_path / f"of process {rank}" / "end").items():
            torch.testing.assert_close(value, whole[key], rtol=1e-6, atol=1e-9)


def test_an_error_of_the_first_process_is_one_of_all(tmp_path):
    (tmp_path / "script.py").write_text(
        "import manyhot as mh\n"
        "from manyhot.engine import FitSettings, NoProgress, fit\n"
        "from tests.engine.problems import data_of, network_of, targets_of\n"
        "data, settings = data_of(targets_of()), FitSettings(accelerator='cpu', devices=2)\n"
        "def metrics(scores, targets):\n"
        "    raise ZeroDivisionError('no figures')\n"
        "fit(network_of(), mh.TwoWayLoss(), data, val=data, metrics=metrics, settings=settings, progress=NoProgress())"
    )
    process = start([sys.executable, str(tmp_path / "script.py")], PYTHONPATH=os.pathsep.join(sys.path))
    error = process.communicate(timeout=HANG)[1]
    assert process.returncode == 1
    assert error.count("ZeroDivisionError: no figures") == 2


def test_without_a_script_there_is_one_process():
    code = (
        "from manyhot.engine import FitSettings\n"
        "from manyhot.engine.devices import open_device_context\n"
        "open_device_context(FitSettings(accelerator='cpu', devices=2))\n"
    )
    done = subprocess.run([sys.executable], input=code, capture_output=True, text=True, timeout=HANG, check=False)
    assert "`devices` of `FitSettings` must be 1 where there is no script to start again; got 2." in done.stderr
