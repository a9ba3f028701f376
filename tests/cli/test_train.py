"""`manyhot train`, `compare` and `demo` as people type them, on pictures that are small and quick."""

import csv
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import load_file

import manyhot as mh
from manyhot.cli.console import error_console
from manyhot.data.digits import LABEL_NAMES
from manyhot.demo import write_scenes
from manyhot.settings import ALL_LOSSES
from manyhot.training import Run, TrainSettings
from manyhot.training.run import stem_of

PLAIN = ("--backbone", "digit_templates", "--workers", "0", "--set", "cache=none", "--set", "accelerator=cpu")
# A calibrator that is fitted in no time.
QUICK = (*PLAIN, "--calibrator", "TemperatureScaling()")


@pytest.fixture(autouse=True)
def no_page(monkeypatch):
    """Leaves out the report, which takes longer than all else and has tests of its own."""
    monkeypatch.setattr("manyhot.report.page.try_report", lambda run, tell: None)


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """A table of 200 scenes to train on, 200 to judge by and 50 to calibrate on."""
    return write_scenes(tmp_path_factory.mktemp("scenes"), samples=200, seed=0)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", ["train", "compare"])
@pytest.mark.parametrize(("rank", "quiet"), [("0", False), ("1", True)])
def test_only_the_first_process_prints_notes(home, run, monkeypatch, command, rank, quiet):
    monkeypatch.setattr(error_console(), "quiet", not quiet)
    monkeypatch.setenv("RANK", rank)
    run(command, "missing.csv", code=2)
    assert error_console().quiet is quiet


@pytest.mark.slow
def test_one_command_from_a_table_to_a_prediction(scenes, home, run):
    printed = run("train", scenes, *PLAIN, "--epochs", "5")
    assert "splits train 200, val 50, test 200" in printed.err.replace("\n", " ")
    assert "On the rows of 'test', held out from training" in " ".join(printed.out.split())
    assert "manyhot predict runs/scenes" in printed.out
    folder = home / "runs" / "scenes"
    assert os.readlink(home / "runs" / "last") == "scenes"
    assert (folder / "metrics.csv").read_text().count("\n") == 6
    answer = json.loads(run("predict", "runs/last", scenes.parent / "test" / "00000.png", "--json").out)
    assert "00000.png" in json.dumps(answer)
    table = mh.Predictions.open(folder / "predictions.parquet")
    assert table.split_sizes() == {"val": 50, "test": 200}
    run("evaluate", folder / "predictions.parquet", "--split", "test")


@pytest.mark.slow
def test_settings_come_from_a_file_then_set_then_options(scenes, home, run):
    (home / "mine.yaml").write_text("epochs: 1\nlr: 0.02\nloss: ASL\nhidden: 8\n")
    run("train", scenes, *QUICK, "-c", "mine.yaml", "--set", "lr=0.03", "--loss", "focal", "-o", "a")
    config = yaml.safe_load((home / "a" / "config.yaml").read_text())
    assert (config["epochs"], config["lr"], config["loss"], config["hidden"]) == (1, 0.03, "focal", 8)
    assert config["data"]["paths"] == [str(scenes)]
    run("train", "-c", "a/config.yaml", "-o", "b")
    again = yaml.safe_load((home / "b" / "config.yaml").read_text())
    assert again == config


def test_json_is_all_that_is_printed(scenes, home, run):
    found = json.loads(run("train", scenes, *QUICK, "--epochs", "1", "--json").out)
    assert found["run"] == "runs/scenes"
    assert found["rows"] == {"train": 200, "val": 50, "test": 200}


def test_a_run_that_was_broken_off_goes_on_to_the_same_weights(scenes, home, run):
    whole = ("train", scenes, *QUICK, "--epochs", "4", "--set", "hidden=8")
    run(*whole, "-o", "whole")
    run("train", scenes, *QUICK, "--epochs", "4", "--set", "hidden=8", "-o", "broken")
    for name in ("figures.json", "predictions.parquet", "model.safetensors", "classifier.json"):
        (home / "broken" / name).unlink()
    run("train", "--resume", "broken")
    first, second = ((home / name / "model.safetensors").read_bytes() for name in ("whole", "broken"))
    assert first == second


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "`DATA` of `manyhot train` must be given; got nothing."),
        (("nowhere.csv",), "nowhere.csv"),
        (("SCENES", "--loss", "BCEE"), "`loss` of `train` must name something known; got 'BCEE'."),
        (
            ("SCENES", "--set", "epoch=3"),
            "`settings` of `TrainSettings` must be known; got 'epoch'. Did you mean 'epochs'?",
        ),
        (("SCENES", "--set", "lr"), "`--set` of `manyhot` must look like name=value; got 'lr'."),
        (("SCENES", "--backbone", "efficientnet_lite"), "Did you mean 'efficientnet_lite0'"),
        (("SCENES", "--rule", "AvrageK(3)"), "Did you mean AverageK?"),
        (("SCENES", "--calibrator", "AverageK(3)"), "`calibrator` of `train` must be a calibrator; got AverageK."),
        (("SCENES", "--config", "nowhere.yaml"), "nowhere.yaml: No such file or directory."),
        (("SCENES", "--resume", "runs/x"), "must be a folder with a config.yaml; got 'runs/x'."),
    ],
)
def test_mistakes_get_one_sentence_and_cost_no_training(scenes, home, run, arguments, words):
    typed = [scenes if argument == "SCENES" else argument for argument in arguments]
    if "--resume" in typed:
        typed.remove(scenes)
    printed = run("train", *QUICK if "--backbone" not in typed and "--resume" not in typed else (), *typed, code=2)
    assert words in printed.err
    assert not list(home.rglob("model.safetensors"))


def test_a_run_is_not_overwritten(scenes, home, run):
    run("train", scenes, *QUICK, "--epochs", "1", "-o", "a")
    printed = run("train", scenes, *QUICK, "--epochs", "1", "-o", "a", code=2)
    assert "must be a folder without a run in it; got 'a'" in printed.err
    assert "manyhot train --resume a" in printed.err
    run("train", scenes, *QUICK, "--epochs", "1")
    run("train", scenes, *QUICK, "--epochs", "1")
    assert {path.name for path in (home / "runs").iterdir()} == {"scenes", "scenes-2", "last"}
    printed = run("train", scenes, "--resume", "a", code=2)
    assert "`DATA` of `manyhot train` must be left out with --resume" in printed.err


@pytest.mark.process
def test_an_interruption_says_how_to_go_on(scenes, home):
    # Background jobs, and all that they start, begin with SIGINT ignored.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{code}; from manyhot.cli import main; main()"
    words = [sys.executable, "-c", code, "train", str(scenes), *QUICK]
    command = [*words, "--epochs", "100000", "-o", "long"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
    for line in process.stderr:
        if line.startswith("epoch 1/"):
            process.send_signal(signal.SIGINT)
            break
    said = process.communicate()[1]
    assert process.returncode == 130
    assert said.splitlines()[-1] == "Stopped. Go on with: manyhot train --resume long"


def test_bad_images_are_named_or_refused(scenes, home, run):
    with scenes.open() as file:
        rows = list(csv.DictReader(file))
    (home / "broken.png").write_bytes(b"no picture")
    with (home / "some.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "labels", "split"])
        writer.writerow([str(home / "broken.png"), "one", "train"])
        writer.writerows([str(scenes.parent / row["path"]), row["labels"], row["split"]] for row in rows)
    printed = run("train", "some.csv", *QUICK, "--epochs", "1")
    assert "1 images could not be read" in printed.out
    assert "broken.png" in printed.out
    printed = run("train", "some.csv", *QUICK, "--epochs", "1", "--on-bad-image", "fail", code=2)
    assert "broken.png" in printed.err


@pytest.mark.parametrize("tune", ["head", "all"])
@pytest.mark.parametrize("split", ["train", "val", "test"])
def test_splits_that_cannot_be_read(scenes, home, run, split, tune):
    with scenes.open() as file:
        rows = list(csv.DictReader(file))[::5]
    (home / "broken.png").write_bytes(b"no picture")
    with (home / "some.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "labels", "split"])
        for row in rows:
            path = home / "broken.png" if row["split"] == split else scenes.parent / row["path"]
            if path.name != "broken.png" or row is next(one for one in rows if one["split"] == split):
                writer.writerow([str(path), row["labels"], row["split"]])
    if split == "train":
        printed = run("train", "some.csv", *QUICK, "--epochs", "1", "--tune", tune, code=2)
        assert "train on" in printed.err
        return
    printed = run("train", "some.csv", *QUICK, "--epochs", "1", "--tune", tune)
    assert "1 images could not be read" in printed.out
    shown = " ".join(printed.out.split())
    assert ("too optimistic" in shown) == (split == "test")
    assert ("as trained" in shown) == (split == "val")


@pytest.mark.process
def test_two_processes_give_what_one_gives(scenes, home, run):
    typed = [str(scenes), *QUICK, "--epochs", "2", "--set", "hidden=8", "--set", "dropout=0", "--set", "heads=2"]
    code = "import sys; from manyhot.cli import main; main()"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    (home / "script.py").write_text(code)
    plain, several = ["--loss", "BCE", "--no-report"], ["-l", "BCE", "-l", "two-way"]
    run("train", *typed, *plain, "--set", "devices=1", "-o", "train1")
    for verb, more in (("train", plain), ("compare", several)):
        command = [sys.executable, "script.py", verb, *typed, *more, "--set", "devices=2", "-o", f"{verb}2"]
        ended = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.count("Wrote") == 1
    one, two, bce = (load_file(home / name / "model.safetensors") for name in ("train1", "train2", "compare2/bce"))
    for name, weight in one.items():
        torch.testing.assert_close(two[name], weight, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(bce[name], two[name], rtol=1e-4, atol=1e-5)
    assert Run(home / "compare2" / "two-way").finished


def test_the_help_names_the_losses_that_are_trained_by_default(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = " ".join(run("train", "--help").out.replace("│", " ").split())
    for tune, words in (("head", "default: {}"), ("all", "with tune=all {}")):
        names = [name for name, text in ALL_LOSSES.items() if text == TrainSettings(tune=tune).loss]
        assert words.format(names[0]) in shown
    assert "BCE (default)" not in shown
    assert f"default: {TrainSettings().calibrator}" in shown
    assert f"default: {TrainSettings().rule}" in shown
    assert "default: 20; with tune=all 8" in shown


def test_data_whose_names_end_in_numbers_are_compared_in_folders_of_their_own(home, run, monkeypatch):
    folders = []

    def validated(data, settings, notes):
        raise KeyboardInterrupt

    def folder_of(data):
        folders.append(f"runs/{stem_of(data)}-losses")
        return stem_of(data)

    monkeypatch.setattr("manyhot.training.comparison.validated_data", validated)
    monkeypatch.setattr("manyhot.training.comparison.stem_of", folder_of)
    for name in ("coco-2014.npz", "coco-2017.npz", "coco-2014.npz"):
        np.savez(home / name, features=np.random.rand(40, 3).astype("float32"), targets=np.eye(2)[np.arange(40) % 2])
        (home / "runs" / "coco-2014").mkdir(parents=True, exist_ok=True)
        run("compare", name, "-l", "BCE", code=130)
    assert folders == ["runs/coco-2014-losses", "runs/coco-2017-losses", "runs/coco-2014-losses"]


@pytest.mark.slow
def test_losses_are_compared(scenes, home, run):
    shown = run("compare", scenes, *QUICK, "--epochs", "2", "-l", "BCE", "-l", "two-way", "-l", "SPA")
    assert "3/3 SPA" in shown.err
    for word in ("BCE", "two-way", "SPA", "Best probabilities", "comparison.png"):
        assert word in shown.out
    folder = home / "runs" / "scenes-losses"
    assert (folder / "comparison.png").stat().st_size > 5_000
    assert set(json.loads((folder / "comparison.json").read_text())["losses"]) == {"BCE", "two-way", "SPA"}
    again = json.loads(run("compare", scenes, *QUICK, "--epochs", "2", "-l", "BCE", "--json").out)
    assert set(again["losses"]) == {"BCE"}
    printed = run("compare", scenes, *QUICK, "-l", "BCE", "-l", "Spaa", code=2)
    assert "must name something known; got 'Spaa'" in printed.err


@pytest.mark.slow
def test_the_demonstration(home, run, monkeypatch):
    shown = run("demo", "--samples", "120", "--epochs", "2").out
    for word in ("The point", "What to do with the probabilities", "manyhot predict", "manyhot train YOUR_PHOTOS.csv"):
        assert word in shown or word in " ".join(shown.split())
    for name in ("reliability.png", "scenes.png"):
        assert (home / "demo-output" / name).read_bytes().startswith(b"\x89PNG")
    classifier = mh.load(home / "demo-output" / "runs" / "last")
    assert classifier.labels.names == list(LABEL_NAMES)
    monkeypatch.setattr("manyhot.demo.LOSSES", ("BCE", "focal", "ASL", "SPA", "SPA + LPR", "two-way"))
    shown = run("demo", "--samples", "120", "--epochs", "1").out
    assert "Done in" in shown
