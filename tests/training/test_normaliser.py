"""What a run tells of the normaliser that its network was trained with."""

import pytest
import torch

from manyhot.data import from_arrays
from manyhot.engine import NoProgress
from manyhot.report import draw_normaliser
from manyhot.training import Run, TrainSettings, train
from manyhot.training.run import clear_run


@pytest.fixture(scope="module")
def data():
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(400, 6, generator=generator)
    targets = (features[:, :4] + torch.randn(400, 4, generator=generator) > 1).int()
    return from_arrays(features.numpy(), targets.numpy())


def trained(data, folder, **settings):
    quick = {"epochs": 6, "batch_size": 32, "hidden": 0, "lr": 0.05, "accelerator": "cpu", "loss": "quasibinary"}
    return train(data, TrainSettings.build(quick | settings), folder=folder, progress=NoProgress())


def test_the_trace_of_a_run_can_be_drawn(data, tmp_path):
    run = trained(data, tmp_path)
    trace = run.normaliser
    steps_of_epoch = -(-280 // 32)
    assert trace["steps"] == list(range(1, 6 * steps_of_epoch + 1))
    assert len(trace["batch"]) == len(trace["average"]) == len(trace["all_rows"]) == len(trace["steps"])
    found = {step: value for step, value in zip(trace["steps"], trace["all_rows"], strict=True) if value is not None}
    assert found == {run.figures["best epoch"] * steps_of_epoch: float(run.classifier().link.log_normaliser)}
    assert draw_normaliser({"run": trace}).axes[0].get_ylabel() == "log C"


def test_without_a_judge_the_last_weights_are_kept(data, tmp_path):
    settings = {"val": 0.0, "calibrator": "none", "rule": "none"}
    run = trained(data, tmp_path, **settings)
    assert run.figures["best epoch"] is None
    assert run.normaliser["all_rows"][-1] == float(run.classifier().link.log_normaliser)


def test_a_run_that_is_not_finished_has_no_value_of_all_rows(data, tmp_path):
    run = trained(data, tmp_path, epochs=1)
    (tmp_path / "figures.json").unlink()
    assert list(Run(run.folder).normaliser) == ["steps", "batch", "average"]


def test_other_losses_have_none(data, tmp_path):
    assert trained(data, tmp_path, epochs=1, loss="BCE").normaliser is None


def test_a_run_that_is_cleared_away_takes_its_trace_along(data, tmp_path):
    trained(data, tmp_path, epochs=1)
    clear_run(tmp_path)
    assert list(tmp_path.iterdir()) == []
