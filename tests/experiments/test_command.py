"""The command that repeats the experiments, and every study once on generated data."""

from functools import partial

import pytest

from experiments import studies
from experiments.__main__ import main
from experiments.metrics import METRICS
from experiments.runs import jobs_of, shorten
from experiments.studies import STUDIES, Scope
from experiments.training import Method

pytestmark = pytest.mark.slow

BCE = Method("BCE", "BinaryCrossEntropyLoss()")
# Where a study treats several of its sets alike, one of them is enough.
ENOUGH = {
    "one-label": ["cifar10 features", "tiny-imagenet"],
    "many-labels": ["coco"],
    "uniform": ["flowers", "flowers features", "tiny-imagenet features"],
}


@pytest.fixture
def short_sweeps(monkeypatch):
    """The ends of every sweep and few queries: what lies between runs through the same lines."""
    monkeypatch.setattr(studies, "SCALES", (1, 96))
    monkeypatch.setattr(studies, "MODES", (0, 7))
    monkeypatch.setattr(studies, "KS", (5, 10))
    monkeypatch.setitem(METRICS, "retrieval", partial(METRICS["retrieval"], each=10, most=2))


def test_studies_are_listed(capsys):
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*STUDIES, "linear-evaluation", "default"]
    for line, study in zip(lines, STUDIES.values(), strict=False):
        assert study.title in line
        assert all(name in line for name in study.sets)


@pytest.mark.parametrize("name", STUDIES)
def test_every_study_runs_on_generated_data(name, short_sweeps, capsys):
    sets = ["--sets", *ENOUGH[name]] if name in ENOUGH else []
    assert main([name, "--smoke", "--seeds", "0", *sets]) == 0
    out = capsys.readouterr().out
    first, *rest = out.splitlines()
    count = int(first.split()[0])
    assert first == f"{count} runs to do, 0 done before."
    assert sum(line.endswith(" samples/s") for line in rest) == count > 0
    assert "FAILED" not in out
    assert f"## {STUDIES[name].title}" in rest


def test_sets_and_seeds_can_be_chosen(short_sweeps, capsys):
    assert main(["one-label", "--smoke", "--sets", "cifar100 features", "--seeds", "3"]) == 0
    out = capsys.readouterr().out
    messages = [line for line in out.splitlines() if line.endswith(" samples/s")]
    assert len(messages) == 4
    assert all(line.startswith("cifar100 features, ") and ", seed 3: " in line for line in messages)


@pytest.mark.parametrize("data", [[], ["--data", "missing"]])
def test_without_data_one_sentence_says_so(data, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["ranking", *data]) == 2
    captured = capsys.readouterr()
    got = data[-1] if data else None
    rule = "`--data` of `experiments` must be the folder of the data sets"
    assert captured.err == f"{rule}; got {got}. Make one folder a data set in it; see --help.\n"
    assert captured.out == ""


def test_an_unknown_set_is_a_mistake_of_the_command_line(capsys, tmp_path):
    assert main(["ranking", "--data", str(tmp_path), "--sets", "mnist features"]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("`set` of `experiments` must be one of cifar10, ")
    assert captured.err.endswith("; got 'mnist'. Name its folder so.\n")


@pytest.mark.parametrize("arguments", [["rankings"], [], ["ranking", "--seeds", "first"]])
def test_a_command_that_is_not_known_names_those_that_are(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "python -m experiments" in capsys.readouterr().err


def test_data_that_are_not_there_make_the_runs_fail(capsys, tmp_path):
    assert main(["ranking", "--data", str(tmp_path), "--results", str(tmp_path / "runs"), "--seeds", "0"]) == 1
    out = capsys.readouterr().out
    assert out.count("FAILED coco features") == 5
    assert not list((tmp_path / "runs").rglob("*.json"))


def test_what_is_there_is_shown_without_training(capsys, tmp_path):
    assert main(["ranking", "--render", "--results", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "runs to do" not in out
    assert "## Ranking losses" in out


@pytest.mark.parametrize("study", STUDIES.values(), ids=lambda study: study.name)
def test_every_run_of_a_study_has_a_metric_and_a_file_of_its_own(study):
    jobs = study.runs(Scope(seeds=(0, 1)))
    assert jobs
    assert all(name in METRICS for job in jobs for name in job.metrics)
    one_seed = study.runs(Scope(seeds=(0,)))
    assert {job.file() for job in one_seed} < {job.file() for job in jobs}
    short = study.runs(Scope(seeds=(0, 1), shorten=shorten))
    assert all(job.fit_settings.epochs == 2 for job in short)
    chosen = study.runs(Scope(sets=("cub features",), seeds=(0,)))
    assert {job.dataset.partition(":")[0] for job in chosen} == {"cub features"}


def test_every_method_is_run_with_every_seed():
    methods = [BCE, Method("ASL", "AsymmetricLoss()", lr=3.0)]
    jobs = jobs_of(methods, "coco features", ["many_label"], (4, 5))
    assert [(job.method.name, job.fit_settings.seed) for job in jobs] == [
        ("BCE", 4),
        ("BCE", 5),
        ("ASL", 4),
        ("ASL", 5),
    ]
    assert jobs[2].fit_settings.lr == pytest.approx(3 * jobs[0].fit_settings.lr)
    assert jobs[0].metrics == ("many_label",)
    network = jobs_of(methods, "coco", ["many_label"], (4,))
    assert network[0].fit_settings.lr == network[1].fit_settings.lr  # a network learns at another pace


def test_a_smoke_run_is_for_studies_alone(capsys):
    assert main(["page", "--smoke"]) == 2
    assert capsys.readouterr().err.startswith("`--smoke` of `experiments` must be given with studies alone; got page.")
