"""`manyhot predict`: what is shown, written and refused."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

import manyhot as mh
from manyhot.backbones import create_backbone
from manyhot.classifier import Classifier
from manyhot.network import Network

LABELS = ["cat", "dog", "[red]"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run folder, as far as predicting goes, and a folder of images."""
    folder = tmp_path_factory.mktemp("trained")
    torch.manual_seed(0)
    network = Network(create_backbone("test_resnet", pretrained=False, size=32), mh.LinearHead(96, 3))
    run = folder / "runs" / "photos"
    Classifier(network, LABELS, link=mh.SigmoidLink(), rule=mh.Threshold(0.45)).save(run)
    draw = torch.Generator().manual_seed(0)
    scores = torch.randn(40, 3, generator=draw)
    targets = (torch.rand(40, 3, generator=draw) < 0.5).int()
    held_out = mh.Predictions(scores=scores, targets=targets, labels=LABELS, splits=["val", "test"] * 20)
    held_out.save(run / "predictions.parquet")
    images = folder / "images"
    images.mkdir()
    for row in range(4):
        pixels = np.random.default_rng(row).integers(0, 256, (20 + row, 30, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(images / f"{row}.png")
    return run, images


def test_a_few_images_are_shown(trained, run):
    folder, images = trained
    printed = run("predict", folder, images / "0.png", images / "1.png")
    (first, second) = Classifier.load(folder).answers([images / "0.png", images / "1.png"])
    plain = " ".join(printed.out.replace("│", " ").split())
    assert "labels" in plain
    for answer in (first, second):
        assert all(f"{name} {100 * answer.probs[name]:.0f} %" in plain for name in answer.labels)
    assert "Traceback" not in printed.out


def test_nothing_and_doubt_are_said_in_words(trained, run, tmp_path):
    folder, images = trained
    assert "none of these" in run("predict", folder, images / "0.png", "--rule", "Threshold(1.0)").out
    rule = mh.Abstain(mh.Threshold(0.9), at_most=1.0).fit(torch.rand(9, 3))
    mh.save(rule, tmp_path / "rule.json")
    assert "abstained" in run("predict", folder, images / "0.png", "--rule", tmp_path / "rule.json").out


def test_a_rule_is_learnt_from_the_run(trained, run):
    folder, images = trained
    printed = run("predict", folder, images, "--rule", "AverageK(1)", "--json")
    assert "Fitted AverageK(1) on the 20 rows of the split 'val'" in printed.err
    classifier = Classifier.load(folder)
    val = mh.Predictions.open(folder / "predictions.parquet").read(split="val")
    rule = mh.AverageK(1).fit(torch.sigmoid(val.scores))
    table = classifier.predict(images)
    wanted = [sorted(names) for names in table.labels.decode(rule(table.probs).labels)]
    assert [sorted(answer["labels"]) for answer in json.loads(printed.out)] == wanted


def test_a_table_for_the_other_verbs(trained, run, tmp_path):
    folder, images = trained
    out = tmp_path / "new" / "predictions.parquet"
    assert f"Wrote 4 rows to {out}." in run("predict", folder, images, "-o", out, "--batch-size", 2).out
    table, own = mh.Predictions.open(out).load(), Classifier.load(folder).predict(images, batch_size=2)
    assert table.ids == ["0.png", "1.png", "2.png", "3.png"]
    assert table.paths == [str(images / name) for name in table.ids]
    assert torch.equal(table.decisions, own.decisions)
    torch.testing.assert_close(table.probs, own.probs)
    run("decide", out, "--rule", "TopK(1)", "-o", tmp_path / "decided.parquet")
    refused = run("predict", folder, images, "-o", out, code=2).err
    assert "must name a file that is not there yet" in refused
    run("predict", folder, images / "0.png", "-o", out, "--overwrite")
    assert len(mh.Predictions.open(out)) == 1


def test_a_table_for_people_and_a_list_for_programs(trained, run, tmp_path):
    folder, images = trained
    run("predict", folder, images, "-o", tmp_path / "tags.csv")
    run("predict", folder, images, "-o", tmp_path / "tags.json", "--top", 0)
    own = Classifier.load(folder).answers(images)
    with (tmp_path / "tags.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["given"].split("|") if row["given"] else [] for row in rows] == [answer.labels for answer in own]
    assert list(rows[0]) == ["id", "given", "ask_person", *LABELS]
    assert float(rows[2]["dog"]) == pytest.approx(own[2].probs["dog"], rel=1e-4)
    answers = json.loads((tmp_path / "tags.json").read_text())
    assert [answer["labels"] for answer in answers] == [answer.labels for answer in own]
    assert all(set(answer["probs"]) == set(answer["labels"]) for answer in answers)
    assert len(run("evaluate", tmp_path / "tags.csv", "--kind", "probs", code=2).err) > 0


def test_bad_images_are_named(trained, run, tmp_path):
    folder, images = trained
    (tmp_path / "bad.png").write_bytes(b"no picture")
    good = images / "0.png"
    printed = run("predict", folder, good, tmp_path / "bad.png", "--json", "-o", tmp_path / "out.parquet")
    assert f"Left out {tmp_path / 'bad.png'}: " in printed.err
    assert json.loads(printed.out) == {"written": str(tmp_path / "out.parquet"), "rows": 1, "left out": 1}
    refused = run("predict", folder, good, tmp_path / "bad.png", "--on-bad-image", "fail", code=2).err
    assert "bad.png" in refused
    refused = run("predict", folder, tmp_path / "bad.png", "-o", tmp_path / "none.parquet", code=2).err
    assert "`IMAGES` of `manyhot predict` must lead to images; got 1 that cannot be read." in refused
    assert not (tmp_path / "none.parquet").exists()


def test_runs_that_are_none_are_named(trained, run, tmp_path, monkeypatch):
    folder, images = trained
    monkeypatch.chdir(folder.parents[1])
    assert "Did you mean runs/photos?" in run("predict", "runs/photo", images, code=2).err
    assert "There is runs/photos." in run("predict", "runs", images, code=2).err
    monkeypatch.chdir(tmp_path)
    refused = run("predict", "nowhere", images, code=2).err
    assert "must be a folder with a classifier.json; got 'nowhere', where there is nothing. Train one first" in refused
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "config.yaml").write_text("")
    assert "Let it finish: manyhot train --resume begun." in run("predict", "begun", images, code=2).err
    (tmp_path / "last").symlink_to(folder)
    run("predict", "last", images)


def test_bad_options_are_refused(trained, run, tmp_path):
    folder, images = trained
    assert "must end with .parquet, .csv, .json" in run("predict", folder, images, "-o", "tags.txt", code=2).err
    assert "`--device` of" in run("predict", folder, images, "--device", "abacus", code=2).err
    assert "Did you mean AverageK?" in run("predict", folder, images, "--rule", "AvergeK(2)", code=2).err


def test_scores_that_only_rank_are_not_shown_as_probabilities(trained, run, tmp_path):
    folder, images = trained
    network = Classifier.load(folder).network
    Classifier(network, LABELS, link=mh.TwoWayLoss().link).save(tmp_path / "ranking")
    refused = run("predict", tmp_path / "ranking", images, code=2).err
    assert "must have a calibrator to give probabilities" in refused
    run("predict", tmp_path / "ranking", images, "-o", tmp_path / "scores.parquet")
    assert mh.Predictions.open(tmp_path / "scores.parquet").kinds == ("scores",)


@pytest.mark.process
@pytest.mark.parametrize("verb", ["predict", "export"])
def test_help_needs_no_torch(verb):
    code = (
        f"import sys; sys.argv = ['manyhot', '{verb}', '--help']; from manyhot.cli import main\n"
        "try: main()\nfinally: print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip().endswith("False False"), shown
    assert f"manyhot {verb} runs/photos" in " ".join(shown.split())


def test_long_paths_are_shown_whole(trained, run, tmp_path):
    folder, images = trained
    path = tmp_path / f"{'long-name' * 20}.png"
    path.write_bytes((images / "0.png").read_bytes())
    printed = run("predict", folder, path)
    cells = [line.split("│")[1].strip() for line in printed.out.splitlines() if line.startswith("│")]
    assert path.name in "".join(cells)


def test_a_path_that_is_named_twice_is_said_to_be_read_once(trained, run):
    folder, images = trained
    told = run("predict", folder, images / "0.png", images / "1.png", images / "0.png").err
    assert "1 of the 3 paths were named before, and are read once." in told
    assert "2 images to predict." in told


def test_a_rule_cannot_learn_from_a_run_without_rows_of_val(trained, run, tmp_path):
    folder, images = trained
    Classifier.load(folder).save(tmp_path / "run")
    held_out = mh.Predictions(scores=torch.zeros(2, 3), targets=torch.zeros(2, 3), labels=LABELS)
    held_out.save(tmp_path / "run" / "predictions.parquet")
    told = run("predict", tmp_path / "run", images / "0.png", "--rule", "AverageK(2)", code=2).err
    assert "`--rule` of `manyhot predict` must be fitted for a run without predictions of 'val'" in told


@pytest.mark.process
def test_a_folder_of_parts_by_ray(trained, run, tmp_path, monkeypatch):
    folder, images = trained
    out = tmp_path / "scores"
    monkeypatch.setenv("RAY_ADDRESS", "")
    command = ("predict", folder, images, "-o", out, "--engine", "ray", "--workers", 1, "--batch-size", 2)
    printed = run(*command)
    assert printed.out == f"Wrote 4 rows to {out}.\n"
    first, *progress = printed.err.splitlines()
    assert first == "4 of 4 images are to be scored."
    # A slow machine tells how far it is; Ray is not to be heard.
    assert all(re.fullmatch(r"Predicting: \d of 4, about \d+ s left\.", line) for line in progress)
    table, own = mh.Predictions.open(out).load(), Classifier.load(folder).predict(images, batch_size=2)
    assert (table.ids, table.paths) == (own.ids, own.paths)
    assert torch.equal(table.probs, own.probs)
    assert torch.equal(table.decisions, own.decisions)
    # Nothing is left to do, so that Ray does not even start.
    assert run(*command).out == f"Wrote 0 rows to {out}, which has 4 now.\n"
    assert json.loads(run(*command, "--json").out) == {"written": str(out), "rows": 4, "new": 0, "left out": 0}
    assert "must have been begun with this classifier and rule" in run(*command, "--rule", "TopK(1)", code=2).err


def test_options_of_ray_are_checked_first(trained, run, tmp_path):
    folder, images = trained
    refused = run("predict", folder, images, "--engine", "ray", code=2).err
    assert refused == (
        "manyhot: `--out` of `manyhot predict` must name a folder for --engine ray; got none. "
        "Pass -o scores, for example.\n"
    )
    refused = run("predict", folder, images, "--engine", "ray", "-o", tmp_path / "scores.parquet", code=2).err
    assert "must name a folder for --engine ray; got" in refused
    refused = run("predict", folder, images, "--address", "auto", code=2).err
    assert "`--address` of `manyhot predict` must come with --engine ray; got 'auto'." in refused


def test_images_that_are_skipped_are_told_and_not_counted_as_broken(trained, run, tmp_path):
    folder, images = trained
    (tmp_path / "a.png").write_bytes((images / "0.png").read_bytes())
    (tmp_path / "b.heic").write_bytes(b"x")
    (tmp_path / "c.png").write_bytes(b"broken")
    printed = run("predict", folder, tmp_path, "-o", tmp_path / "out.parquet")
    assert "Skipped 1 image that Pillow cannot read here: 1 .heic." in " ".join(printed.err.split())
    assert printed.out == f"Wrote 1 rows to {tmp_path / 'out.parquet'}, and left out 1 image.\n"


def test_a_note_is_no_image_that_could_not_be_read(trained, run, tmp_path, monkeypatch):
    folder, images = trained
    part = mh.Predictions(probs=torch.rand(2, 3), labels=LABELS)
    part.notes, part.unreadable = ["Left out the true labels, because there are none for 'cat'."], {}
    monkeypatch.setattr(Classifier, "predict_parts", lambda *_, **__: iter([part]))
    printed = run("predict", folder, images, "-o", tmp_path / "out.parquet")
    assert printed.err == "Left out the true labels, because there are none for 'cat'.\n"
    assert printed.out == f"Wrote 2 rows to {tmp_path / 'out.parquet'}.\n"
