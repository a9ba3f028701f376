"""The comparison of the default with the papers' methods, on small generated data."""

import numpy as np
import pytest

from experiments import default
from experiments.default import PAPERS, PARTS, SHIPPED, DefaultComparison, FeatureFiles
from experiments.runs import RunStore
from manyhot.training import TrainSettings
from tests.errors.expected import raises_input_error


@pytest.fixture
def files(tmp_path):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(260, 5)).astype(np.float32)
    y = (x[:, :3] + generator.normal(size=(260, 3)) > 0.4).astype(np.int8)
    splits = np.repeat(["train", "test"], [200, 60])
    np.savez(tmp_path / "whole.npz", x=x, y=y, splits=splits)
    np.savez(tmp_path / "parts.npz", x_train=x[:200], y_train=y[:200], x_test=x[200:], y_test=y[200:])
    np.savez(tmp_path / "bare.npz", x=x, y=y)
    return FeatureFiles(tmp_path)


def test_all_layouts_of_files_are_read(files):
    assert files("whole").split_sizes() == files("parts").split_sizes() == {"train": 200, "test": 60}
    assert files("bare").split_sizes() == {"train": 234, "test": 26}
    assert files("whole, 80").split_sizes() == {"train": 80, "test": 60}
    with raises_input_error("set", "experiments", rule="have a file"):
        files("other")


def test_every_method_has_as_many_trials_and_is_built_as_written():
    for result in PAPERS.values():
        assert len(result) == default.TRIALS
        for changes in result:
            TrainSettings.build(changes)


def test_a_comparison_runs_once_and_chooses_on_val(files, tmp_path, monkeypatch):
    monkeypatch.setattr(default, "PAPERS", {"BCE": PAPERS["BCE"], "softmax": PAPERS["softmax"]})
    study = DefaultComparison(RunStore(tmp_path / "runs"), seeds=(0, 1), common={"epochs": 2, "hidden": 8})
    study.run(files, ["whole"])
    stored = sorted((tmp_path / "runs").rglob("*.json"))
    # Two methods with four trials and one more seed, and two seeds of everything else.
    assert len(stored) == 2 * (default.TRIALS + 1) + 2 * (len(PARTS) + 1)
    assert study.store.find(study.job("whole", SHIPPED, {}, 1))["settings"]["recipe"]["seed"] == 1
    worst = PAPERS["BCE"][2]
    run = study.store.find(study.job("whole", "BCE", worst, 0))
    run["figures"]["val"]["map"] = 2.0
    study.store.save(study.job("whole", "BCE", worst, 0), run)
    assert study.methods("whole")["BCE"] == worst
    monkeypatch.setattr(default, "carry_out", lambda job, data: pytest.fail("trained again"))
    monkeypatch.setattr(DefaultComparison, "methods", lambda self, dataset: {**PARTS, SHIPPED: {}})
    study.run(files, ["whole"])
    page = study.page(["whole"])
    assert page.count("\n| one head |") == 2
    assert page.count("\n| default |") == 1


def test_without_runs_there_is_no_table(tmp_path):
    assert "No runs yet." in DefaultComparison(RunStore(tmp_path)).table("scene")
