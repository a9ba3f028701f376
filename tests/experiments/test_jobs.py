"""Runs that are kept: found again, never done twice, and the same however many processes did them."""

import json
import os
from dataclasses import replace

import pytest
import torch

from experiments.data import Generated
from experiments.runs import Job, RunStore, carry_out, distinct, run_all, shorten
from experiments.training import Method
from manyhot.engine import FitSettings

SET = "cifar10 features"
BCE = Method("BCE", "BinaryCrossEntropyLoss()")
ASL = Method("ASL", "AsymmetricLoss()")
BROKEN = Method("broken", "NoSuchLoss()")
FIT_SETTINGS = FitSettings(epochs=2, batch_size=40)
OPEN = Generated()


def job(method=BCE, *, seed=0, judges=("trial",), dataset=SET, **changes):
    return Job(dataset, method, replace(FIT_SETTINGS, seed=seed, **changes), judges)


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / "runs")


@pytest.fixture
def messages():
    return []


def stored(store):
    return sorted(path.relative_to(store.folder).as_posix() for path in store.folder.rglob("*.json"))


def never(name):
    raise AssertionError(f"{name} was opened")


def test_what_a_run_gave_is_found_again(store):
    run = {"figures": {"trial": {"choice": 0.25}}, "seconds": 1.5}
    assert store.find(job()) is None
    store.save(job(), run)
    assert store.find(job()) == {"arm": "BCE", "settings": job().settings(), **run}
    assert store.find(job(seed=1)) is None
    assert len(stored(store)) == 1
    json.loads((store.folder / job().file()).read_text())


@pytest.mark.parametrize(
    "other",
    [
        job(ASL),
        job(replace(BCE, start="zero")),
        job(seed=1),
        job(lr=0.5),
        job(judges=("trial", "one_label")),
        job(dataset="cifar100 features"),
        job(dataset=f"{SET}: part"),
        job(dataset="cifar10"),
    ],
)
def test_another_setting_is_another_file(other):
    assert other.file() != job().file()


@pytest.mark.parametrize(
    "same", [job(replace(BCE, name="binary")), job(checkpoint_minutes=1.0), job(accelerator="cpu")]
)
def test_what_has_no_bearing_on_the_figures_names_the_same_file(same):
    assert same.file() == job().file()


def test_the_order_of_metrics_has_no_bearing():
    assert job(judges=("trial", "one_label")).file() == job(judges=("one_label", "trial")).file()


def test_every_run_comes_once_and_first_seeds_come_first():
    jobs = [job(seed=1), job(ASL, seed=2), job(), job(replace(BCE, name="again")), job(ASL), job(seed=1)]
    result = distinct(jobs)
    assert [one.fit_settings.seed for one in result] == [0, 0, 1, 2]
    assert len({one.file() for one in result}) == 4


def test_what_is_there_is_not_run_again(store, messages):
    jobs = [job(), job(ASL)]
    assert run_all(jobs[:1], OPEN, store, log=messages.append) == 0
    before = store.find(jobs[0])
    assert run_all(jobs, OPEN, store, log=messages.append) == 0
    assert store.find(jobs[0]) == before
    assert store.find(jobs[1])["figures"]["trial"].keys() == {"choice", "average-5 accuracy", "accuracy"}
    assert run_all(jobs, never, store, log=messages.append) == 0
    assert [line for line in messages if "runs to do" in line] == [
        "1 runs to do, 0 done before.",
        "1 runs to do, 1 done before.",
        "0 runs to do, 2 done before.",
    ]


def test_a_method_that_fails_is_told_and_counted_and_the_others_go_on(store, messages):
    assert run_all([job(BROKEN), job()], OPEN, store, log=messages.append) == 1
    failures = [line for line in messages if line.startswith(f"FAILED {SET}, broken, seed 0")]
    assert len(failures) == 1
    assert "NoSuchLoss" in failures[0]
    assert store.find(job()) is not None
    assert store.find(job(BROKEN)) is None


def test_that_a_method_diverges_is_a_result(store, messages):
    diverging = job(optimizer="sgd", lr=1e38)
    assert run_all([diverging], OPEN, store, log=messages.append) == 0
    run = store.find(diverging)
    assert "finite" in run["diverged"]
    assert run["figures"] == {}
    assert run_all([diverging], never, store, log=messages.append) == 0


def test_after_so_many_minutes_the_rest_is_left(store, messages):
    assert run_all([job(), job(ASL, seed=2)], never, store, minutes=-1, log=messages.append) == 0
    assert messages[1:] == [f"left for later: {SET}, BCE, seed 0", f"left for later: {SET}, ASL, seed 2"]
    assert stored(store) == []
    assert run_all([job()], OPEN, store, minutes=10, log=messages.append) == 0
    assert len(stored(store)) == 1


def test_a_run_says_what_it_was_made_by():
    run = carry_out(job(Method("quasibinary", "QuasibinaryLoss()"), judges=("trial", "one_label")), OPEN(SET))
    assert set(run["figures"]) == {"trial", "one_label"}
    assert run["torch"] == torch.__version__
    assert run["samples a second"] > 0
    assert len(run["normaliser"]["log C"]) == len(run["normaliser"]["steps"]) > 0
    assert isinstance(run["normaliser"]["of all rows"], float)
    json.dumps(run, allow_nan=False)


def test_a_shortened_run_is_another_run():
    short = shorten(job(epochs=50, precision="bf16"))
    assert (short.fit_settings.epochs, short.fit_settings.precision) == (2, "32")
    assert short.file() != job(epochs=50, precision="bf16").file()


@pytest.mark.process
def test_two_processes_give_the_figures_of_one(tmp_path, store, messages):
    jobs = [job(), job(ASL), job(BROKEN), job(seed=1)]
    alone = RunStore(tmp_path / "alone")
    assert run_all(jobs, Generated(), alone, log=messages.append) == 1
    assert run_all(jobs, Generated(), store, workers=2, log=messages.append) == 1
    assert stored(store) == stored(alone)
    assert len(stored(alone)) == 3
    for one in jobs[:2]:
        assert store.find(one)["figures"] == alone.find(one)["figures"]
    assert sum(line.startswith("FAILED") for line in messages) == 2


def end_process(name):
    os._exit(1)


@pytest.mark.process
def test_runs_of_a_process_that_is_killed_count_as_failures(store, messages):
    assert run_all([job(), job(ASL)], end_process, store, workers=2, log=messages.append) == 2
    assert stored(store) == []
    for method in (BCE, ASL):
        failure = f"FAILED {SET}, {method.name}, seed 0: A process in the process pool was terminated"
        assert sum(line.startswith(failure) for line in messages) == 1
