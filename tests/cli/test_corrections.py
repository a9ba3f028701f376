"""`--corrections` as people type it: in training, its repetition, comparison and inspection."""

import csv
import json

import pytest
import yaml

import manyhot as mh
from manyhot.data import read_data
from manyhot.demo import write_scenes
from manyhot.studio.review import Review

pytestmark = pytest.mark.slow

QUICK = ("--backbone", "digit_templates", "--workers", "0", "--set", "cache=none", "--set", "accelerator=cpu")
SHORT = (*QUICK, "--epochs", "1", "--set", "hidden=8")


@pytest.fixture(autouse=True)
def no_page(monkeypatch):
    """Leaves out the report, which takes longer than all else and has tests of its own."""
    monkeypatch.setattr("manyhot.report.page.try_report", lambda run, tell: None)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """A table of scenes without splits."""
    folder = tmp_path_factory.mktemp("scenes")
    table = write_scenes(folder, samples=60, seed=0)
    with table.open(newline="") as file:
        rows = [row[:2] for row in csv.reader(file)]
    with (folder / "plain.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return folder / "plain.csv"


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def review_run(folder, scenes, count=5):
    """Corrects a label of some held-out pictures of a run, as the studio does; gives what was said by path."""
    table = mh.Predictions.open(folder / "predictions.parquet").load()
    said = {}
    paths = [str(scenes.parent / name) for name in table.ids]
    with Review(
        folder / "reviewed.csv",
        labels=table.labels,
        ids=table.ids,
        paths=paths,
        splits=table.splits,
    ) as review:
        for row in range(0, len(table), len(table) // count):
            value = 1 - int(table.targets[row, 2])
            review.edit(row, {table.labels.names[2]: value}, done=True)
            said[table.ids[row]] = value
    return said


def test_a_run_is_reviewed_and_trained_again_with_what_was_found(scenes, home, run):
    run("train", scenes, *SHORT, "-o", "first")
    said = review_run(home / "first", scenes)
    printed = run("train", scenes, *SHORT, "--corrections", "first/reviewed.csv", "-o", "second")
    count = len(said)
    assert f"reviewed.csv: Corrections of {count} images: {count} cells of {count} images changed." in printed.err
    assert printed.err.count("out of the rows to train on") == 1
    first, second = (mh.Predictions.open(home / name / "predictions.parquet").load() for name in ("first", "second"))
    # Pictures that were held out still are, although their labels are others now.
    assert dict(zip(first.ids, first.splits, strict=True)) == dict(zip(second.ids, second.splits, strict=True))
    assert {name: int(second.targets[second.ids.index(name), 2]) for name in said} == said
    config = yaml.safe_load((home / "second" / "config.yaml").read_text())
    assert config["data"]["corrections"] == [str(home / "first" / "reviewed.csv")]
    # And nothing that was learnt knows of them.
    assert (home / "first" / "model.safetensors").read_bytes() == (home / "second" / "model.safetensors").read_bytes()


def test_a_run_with_corrections_is_repeated_and_resumed_as_it_was(scenes, home, run, monkeypatch):
    run("train", scenes, *SHORT, "-o", "first")
    review_run(home / "first", scenes)
    held_out = set(mh.Predictions.open(home / "first" / "predictions.parquet").load().ids)
    data = read_data(scenes)
    learnt = next(row for row, name in enumerate(data.ids) if name not in held_out)
    value = 1 - int(data.targets.dense([learnt])[0, 0])
    (home / "learnt.csv").write_text(f"path,{data.labels.names[0]}\n{data.images.path(learnt)},{value}\n")
    both = ("--corrections", "first/reviewed.csv", "--corrections", "learnt.csv")
    run("train", "-c", "first/config.yaml", *both, "-o", "second")
    run("train", "-c", "second/config.yaml", "-o", "third")
    weights = (home / "second" / "model.safetensors").read_bytes()
    assert (home / "third" / "model.safetensors").read_bytes() == weights
    assert (home / "first" / "model.safetensors").read_bytes() != weights
    for name in ("figures.json", "predictions.parquet", "model.safetensors", "classifier.json"):
        (home / "second" / name).unlink()
    (home / "away").mkdir()
    monkeypatch.chdir(home / "away")
    run("train", "--resume", "../second")
    assert (home / "second" / "model.safetensors").read_bytes() == weights


def test_a_resumed_run_keeps_its_own_corrections(home, run):
    (home / "run").mkdir()
    printed = run("train", "--resume", "run", "--corrections", "x.csv", code=2)
    assert "`--corrections` of `manyhot train` must be left out with --resume; got ['x.csv']" in printed.err


def test_corrections_of_other_pictures_are_refused(scenes, home, run):
    (home / "a.png").write_bytes(b"")
    (home / "other.csv").write_text("path,dog\na.png,1\n")
    printed = run("train", scenes, *SHORT, "--corrections", "other.csv", code=2)
    words = " ".join(printed.err.split())
    assert "`--corrections` must be about images of the data; got none: the corrections have" in words
    assert str(home / "a.png") in words
    assert str(scenes.parent / "train" / "00000.png") in words
    printed = run("train", scenes, *SHORT, "--corrections", "gone.csv", code=2)
    assert f"`--corrections` must lead to data; got '{home}/gone.csv', where there is nothing." in printed.err


def test_inspect_shows_corrected_data(scenes, home, run):
    data = read_data(scenes)
    label = data.labels.names[0]
    before = int(data.targets.counts()[0])
    absent = next(row for row in range(len(data)) if not data.targets.dense([row])[0, 0])
    (home / "more.csv").write_text(f"path,{label},new\n{data.images.path(absent)},1,1\n")
    found = json.loads(run("inspect", scenes, "--no-images", "--json", "--corrections", "more.csv").out)
    assert {one["name"]: one["count"] for one in found["labels"]}[label] == before + 1
    assert {one["name"]: one["count"] for one in found["labels"]}["new"] == 1


def test_losses_are_compared_on_corrected_data(scenes, home, run):
    label = read_data(scenes).labels.names[0]
    (home / "more.csv").write_text(f"path,{label}\n{scenes.parent / 'train' / '00000.png'},1\n")
    printed = run("compare", scenes, *SHORT, "-l", "BCE", "-l", "focal", "--corrections", "more.csv", "-o", "both")
    assert "more.csv: Corrections of 1 image" in printed.err
    config = yaml.safe_load((home / "both" / "bce" / "config.yaml").read_text())
    assert config["data"]["corrections"] == [str(home / "more.csv")]
