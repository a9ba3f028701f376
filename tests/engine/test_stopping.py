"""However a run ends early, it goes on to the same weights; and it ends early when it should."""

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import manyhot as mh
from manyhot.data.loading import FeatureBatches
from manyhot.engine import FitSettings, NoProgress, NotFinite, Stopped, fit
from manyhot.engine.checkpoint import Checkpoint
from manyhot.engine.optim import order_of_epoch
from manyhot.engine.trainer import StopSignals
from tests.engine import killed
from tests.engine.killed import trained
from tests.engine.problems import DoubleFeatures, assert_same, data_of, network_of, targets_of, weights
from tests.errors.expected import raises_input_error
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
EPOCHS = 8


@pytest.fixture(autouse=True)
def usual_signals():
    """Signals as in a terminal: background jobs, and all that they start, begin with SIGINT ignored."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def start(folder, *kind):
    command = [sys.executable, "-m", "tests.engine.killed", str(folder), str(EPOCHS), *kind]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.process
def test_a_kill_leaves_no_trace(tmp_path):
    process = start(tmp_path, "endless")
    checkpoint = tmp_path / "checkpoint" / "last.safetensors"
    while not checkpoint.exists() and process.poll() is None:
        time.sleep(0.01)
    time.sleep(random.Random(0).uniform(0, 0.2))
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert checkpoint.exists()
    assert not (tmp_path / "end").exists()
    process = start(tmp_path)
    process.communicate()
    assert process.returncode == 0
    got = load_file(tmp_path / "end")
    wanted = weights(trained(epochs=EPOCHS))
    assert wanted.keys() == got.keys()
    assert all(torch.equal(got[name], value) for name, value in wanted.items())


@pytest.mark.process
@pytest.mark.slow
def test_fifty_kills_leave_no_trace(tmp_path):
    """Each one hits a run that has gone on from the last checkpoint and written others."""
    draw, epochs, checkpoint = random.Random(0), 100, tmp_path / "checkpoint" / "last.safetensors"
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload(["tests.engine.killed", "torch._dynamo"])  # so that torch is imported once

    def written():
        return checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0

    for _ in range(50):
        before = written()
        process = processes.Process(target=killed.main, args=(tmp_path, epochs))
        process.start()
        assert eventually(lambda before=before, process=process: written() != before or not process.is_alive())
        time.sleep(draw.uniform(0, 0.1))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
    killed.main(tmp_path, epochs, FeatureBatches)
    got, wanted = load_file(tmp_path / "end"), weights(killed.trained(epochs=epochs))
    assert wanted.keys() == got.keys()
    assert all(torch.equal(got[name], value) for name, value in wanted.items())
    assert not list(tmp_path.rglob("*.part"))


class Signals(DoubleFeatures):
    """Sends a signal to its own process while the third batch is read."""

    def load(self, groups, *, epoch):
        for place, batch in enumerate(super().load(groups, epoch=epoch)):
            if place == 2 and epoch == 1:
                os.kill(os.getpid(), self.number)
            yield batch


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_after_the_step(number, tmp_path):
    handler = signal.getsignal(number)
    dense = targets_of()
    settings = FitSettings(epochs=3, batch_size=8, accelerator="cpu")
    loss, data = mh.BinaryCrossEntropyLoss(), data_of(dense, kind=Signals)
    data.number = number
    with pytest.raises(Stopped, match=r"Stopped after step 8 of 15. Go on with `resume=True`."):
        fit(network_of(), loss, data, settings=settings, folder=tmp_path, progress=NoProgress())
    assert signal.getsignal(number) is handler
    got = fit(
        network_of(), loss, data_of(dense), settings=settings, folder=tmp_path, resume=True, progress=NoProgress()
    )
    assert_same(fit(network_of(), loss, data_of(dense), settings=settings, progress=NoProgress()), got)
    with pytest.raises(Stopped, match=r"Nothing was kept, as no folder was given."):
        fit(network_of(), loss, data, settings=settings, progress=NoProgress())


def test_a_second_signal_acts_at_once():
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.requested
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_a_signal_that_is_ignored_stays_so():
    """A shell starts background jobs so; Ctrl-C is for the one in front."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        assert not signals.requested
        os.kill(os.getpid(), signal.SIGTERM)
        assert signals.requested
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_other_threads_train_without_signals():
    results = []
    thread = threading.Thread(target=lambda: results.append(trained(epochs=1)))
    thread.start()
    thread.join()
    assert results[0].best_epoch == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_loss_that_is_no_number_ends_the_run(bad, tmp_path):
    dense = targets_of()
    data = data_of(dense)
    settings = FitSettings(epochs=2, batch_size=8, accelerator="cpu", checkpoint_minutes=1e-9)

    def fit_it(folder=None):
        fit(network_of(), mh.BinaryCrossEntropyLoss(), data, settings=settings, folder=folder, progress=NoProgress())

    data.features[order_of_epoch(len(data), seed=0, epoch=0)[17]] = bad
    with pytest.raises(NotFinite, match=r"epoch 1, step 3 of 5\. The last checkpoint is from before\. Lower `lr`"):
        fit_it(folder=tmp_path)
    checkpoint = Checkpoint.read(tmp_path / "checkpoint" / "last.safetensors")
    assert checkpoint.metadata["position"]["step"] == 2
    assert all(value.isfinite().all() for value in checkpoint.tensors.values())
    with pytest.raises(NotFinite, match=r"step 3 of 5\. Lower `lr`"):
        fit_it()


def test_weights_that_are_no_numbers_end_the_run_and_are_not_kept(tmp_path):
    """The loss of a step may be finite and its slope not; the loss after the last step is never seen."""
    data, network, left = data_of(targets_of()), network_of(), [10]

    def spoil(slope):
        left[0] -= 1
        return slope if left[0] else slope * float("inf")

    network.head.weight.register_hook(spoil)
    settings = FitSettings(epochs=2, batch_size=8, accelerator="cpu", checkpoint_minutes=1e-9)
    words = r"The weights were not finite after epoch 2, step 5 of 5\. The last checkpoint is from before\."
    with pytest.raises(NotFinite, match=words):
        fit(network, mh.BinaryCrossEntropyLoss(), data, settings=settings, folder=tmp_path, progress=NoProgress())
    checkpoint = Checkpoint.read(tmp_path / "checkpoint" / "last.safetensors")
    assert (checkpoint.metadata["position"]["epoch"], checkpoint.metadata["position"]["step"]) == (1, 4)
    assert all(value.isfinite().all() for value in checkpoint.tensors.values())


def test_patience_and_best_weights():
    dense, values = targets_of(), iter([0.1, 0.5, 0.4, 0.3, 0.9])
    data, states = data_of(dense), []
    network = network_of()

    def judge(scores, targets):
        states.append({name: value.clone() for name, value in network.state_dict().items()})
        return {"mAP": next(values)}

    settings = FitSettings(epochs=5, batch_size=8, patience=2, accelerator="cpu")
    result = fit(
        network, mh.BinaryCrossEntropyLoss(), data, val=data, metrics=judge, settings=settings, progress=NoProgress()
    )
    assert len(result.history) == 4
    assert (result.best_epoch, result.best_value) == (2, 0.5)
    assert all(torch.equal(value, states[1][name]) for name, value in result.network.state_dict().items())
    assert not torch.equal(states[3]["head.weight"], states[1]["head.weight"])


def test_less_of_an_error_is_better():
    values = iter([0.5, 0.3, 0.4])
    data = data_of(targets_of())
    settings = FitSettings(epochs=3, monitor="coverage error", accelerator="cpu")
    judge = lambda scores, targets: {"coverage error": next(values)}  # noqa: E731
    result = fit(network_of(), mh.TwoWayLoss(), data, val=data, metrics=judge, settings=settings, progress=NoProgress())
    assert (result.best_epoch, result.best_value) == (2, 0.3)


def test_a_figure_that_is_no_number_is_never_the_best():
    values = iter([float("nan"), 0.3, float("nan")])
    data = data_of(targets_of())
    judge = lambda scores, targets: {"mAP": next(values)}  # noqa: E731
    settings = FitSettings(epochs=3, accelerator="cpu")
    result = fit(network_of(), mh.TwoWayLoss(), data, val=data, metrics=judge, settings=settings, progress=NoProgress())
    assert (result.best_epoch, result.best_value) == (2, 0.3)


def test_rows_that_cannot_be_read():
    dense = targets_of()
    settings = FitSettings(epochs=2, batch_size=1, accelerator="cpu")
    some = fit(network_of(), mh.TwoWayLoss(), data_of(dense, bad=[0, 1, 2]), settings=settings, progress=NoProgress())
    assert some.history[-1]["steps"] == 2 * len(dense)
    with raises_input_error("train", "fit", rule="have rows that can be read", got="none"):
        fit(
            network_of(),
            mh.TwoWayLoss(),
            data_of(dense, bad=range(len(dense))),
            settings=settings,
            progress=NoProgress(),
        )
