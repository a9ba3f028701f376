"""Scores, and what people see of a run."""

import builtins
import io
import sys

import pytest
import torch
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import manyhot as mh
from manyhot.engine import FitSettings, NoProgress, ProgressBar, ProgressLines, fit, score
from manyhot.engine.progress import default_progress
from tests.engine.problems import data_of, network_of, targets_of


def test_scores_in_the_order_of_rows():
    network, data = network_of(norm=True, dropout=0.5), data_of(targets_of(), bad=[5, 6])
    network.train()
    network.backbone[1].eval()
    scores, rows = score(network, data, batch_size=4)
    assert rows.tolist() == [row for row in range(37) if row not in (5, 6)]
    assert [module.training for module in network.backbone] == [True, False, True, True]
    network.eval()
    torch.testing.assert_close(scores, network.scores(data.features[rows]).float())
    assert not scores.is_inference()
    assert scores.dtype == torch.float32


def test_scores_on_the_machine_of_a_plan():
    network, data = network_of(), data_of(targets_of())
    plain = score(network, data)[0]
    assert torch.equal(score(network, data, settings=FitSettings(accelerator="cpu"))[0], plain)
    rough = score(
        network.float(),
        data_of(targets_of(), dtype=torch.float32),
        settings=FitSettings(accelerator="cpu", precision="bf16"),
    )[0]
    assert 0 < float((rough - plain).abs().max()) < 0.05


def test_scores_of_nothing():
    scores, rows = score(network_of(), data_of(targets_of(), bad=range(37)))
    assert scores.shape == (0, 5)
    assert rows.shape == (0,)


def test_scores_of_two_heads():
    network, data = network_of(heads=2), data_of(targets_of())
    assert torch.equal(score(network, data)[0], network(data.features)[:, 1].float())


def run(progress, **options):
    data = data_of(targets_of())
    settings = FitSettings(**{"epochs": 2, "batch_size": 8, "accelerator": "cpu", **options})
    return fit(network_of(), mh.BinaryCrossEntropyLoss(), data, val=data, settings=settings, progress=progress)


def test_lines():
    file = io.StringIO()
    history = run(ProgressLines(file)).history
    first, second = file.getvalue().splitlines()
    figures = [
        f"train loss {e['train loss']:.4f}, mAP {e['mAP']:.4f}, log loss per row {e['log loss per row']:.4f}"
        for e in history
    ]
    assert first.startswith(f"epoch 1/2: {figures[0]}; ")
    assert first.endswith(" s left")
    assert second == f"epoch 2/2: {figures[1]}"


def test_lines_within_long_epochs(monkeypatch):
    monkeypatch.setattr("manyhot.engine.trainer.SHOW_EVERY_SECONDS", 0.0)
    file = io.StringIO()
    run(ProgressLines(file, every=0.0))
    lines = file.getvalue().splitlines()
    assert len(lines) == 12
    assert lines[0].startswith("epoch 1/2: step 1 of 10, train loss 0.")
    assert " left" in lines[0]


def test_bar(monkeypatch):
    monkeypatch.setattr("manyhot.engine.trainer.SHOW_EVERY_SECONDS", 0.0)
    file = io.StringIO()
    run(ProgressBar(Console(file=file, force_terminal=True, width=120)))
    assert "epoch 1/2: train loss 0." in file.getvalue()
    assert "10/10" in file.getvalue()
    assert "left" in file.getvalue()


def test_lines_where_nobody_watches(monkeypatch):
    assert isinstance(default_progress(), ProgressLines)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert isinstance(default_progress(), ProgressBar)
    really = builtins.__import__
    monkeypatch.setattr(builtins, "__import__", lambda name, *rest: _no_rich(name, really, rest))
    assert isinstance(default_progress(), ProgressLines)


def _no_rich(name, really, rest):
    if name == "rich":
        raise ImportError
    return really(name, *rest)


def test_progress_ends_whatever_happens():
    calls = []

    class Notes(NoProgress):
        def start(self, *, done, total, epochs):
            calls.append((done, total, epochs))

        def epoch(self, figures):
            raise ZeroDivisionError

        def end(self):
            calls.append("end")

    with pytest.raises(ZeroDivisionError):
        run(Notes())
    assert calls == [(0, 10, 2), "end"]


def test_missing_packages(monkeypatch, tmp_path):
    data, network, loss = data_of(targets_of()), network_of(), mh.TwoWayLoss()
    for missing, words in (
        ("safetensors", "Checkpoints need safetensors. Install it with: pip install 'manyhot[vision]'"),
        (
            "tensorboard",
            "Runs with `tensorboard=True` need tensorboard. Install it with: pip install 'manyhot[vision]'",
        ),
    ):
        settings = FitSettings(tensorboard=True, accelerator="cpu")
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, missing, None)
            with pytest.raises(ImportError) as caught:
                fit(network, loss, data, settings=settings, folder=tmp_path, progress=NoProgress())
        assert str(caught.value) == words


def test_tensorboard(tmp_path):
    data = data_of(targets_of())
    settings = FitSettings(epochs=2, tensorboard=True, accelerator="cpu")
    fit(network_of(), mh.TwoWayLoss(), data, val=data, settings=settings, folder=tmp_path, progress=NoProgress())
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("mAP")] == [1, 2]
    assert "train loss" in events.Tags()["scalars"]
