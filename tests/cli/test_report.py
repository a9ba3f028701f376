"""`manyhot report` as people type it, and the report at the end of a training."""

import csv
import json
import subprocess
import sys

import pytest
import torch

import manyhot as mh
from manyhot.demo import write_scenes
from manyhot.evaluation import pipeline
from manyhot.report import sections as contents
from manyhot.report.page import is_report
from manyhot.report.sections import score_section

QUICK = ("--backbone", "digit_templates", "--workers", "0", "--set", "cache=none", "--set", "accelerator=cpu")


@pytest.fixture(autouse=True)
def brief(monkeypatch):
    """One figure besides the pictures, and few draws: what is on the page is tested elsewhere."""
    monkeypatch.setattr(contents, "SECTIONS", (score_section,))
    monkeypatch.setattr(pipeline, "REPLICATES", {1 << 18: 5})


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def table(home):
    """A table of predictions with targets."""
    draw = torch.Generator().manual_seed(0)
    probs = torch.rand(60, 3, generator=draw)
    targets = (torch.rand(60, 3, generator=draw) < probs).int()
    mh.Predictions(probs=probs, targets=targets, labels=["a", "b", "c"]).save("photos.parquet")
    return home / "photos.parquet"


def write_csv(path, head, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])


def test_a_table_gets_its_report_beside_it(table, home, run):
    printed = run("report", "photos.parquet")
    assert printed.out == "Report: photos.report.html\n"
    page = (home / "photos.report.html").read_text()
    assert "<h1>photos</h1>" in page
    run("report", "photos.parquet")
    (home / "photos.report.html").write_text("mine")
    words = run("report", "photos.parquet", code=2).err
    assert "`--out` of `manyhot report` must name a file that is not there yet; got 'photos.report.html'" in words
    assert (home / "photos.report.html").read_text() == "mine"
    run("report", "photos.parquet", "--overwrite")
    assert is_report(home / "photos.report.html")


@pytest.mark.slow
def test_a_table_of_another_program_with_targets_from_elsewhere_and_figures_as_files(home, run):
    write_csv(home / "scores.csv", ["id", "cat", "dog"], [[f"{n}", n / 40, 1 - n / 50] for n in range(40)])
    write_csv(home / "truth.csv", ["id", "cat", "dog"], [[f"{n}", int(n > 15), int(n < 20)] for n in range(40)])
    given = (
        "report",
        "scores.csv",
        "--kind",
        "probs",
        "--targets",
        "truth.csv",
        "--name",
        "theirs",
        "-o",
        "out/a.html",
    )
    printed = run(*given, "--png", "pngs", "--pdf", "all.pdf", "--dark")
    assert printed.out == "Report: out/a.html\nFigures: pngs\nFigures: all.pdf\n"
    assert "<h1>theirs</h1>" in (home / "out" / "a.html").read_text()
    assert "scores.png" in {path.name for path in (home / "pngs").iterdir()}
    assert (home / "all.pdf").read_bytes().startswith(b"%PDF")
    for option, words in (
        (("--png", "pngs"), "`--png` of `manyhot report` must name a new or an empty folder; got 'pngs'"),
        (("--pdf", "all.pdf"), "`--pdf` of `manyhot report` must name a file that is not there yet; got 'all.pdf'"),
    ):
        assert words in run(*given, *option, code=2).err


@pytest.mark.slow
def test_several_go_to_one_page_here(table, home, run):
    (home / "other").mkdir()
    (home / "other" / "photos.parquet").write_bytes(table.read_bytes())
    assert run("report", "photos.parquet", "other/photos.parquet").out == "Report: report.html\n"
    page = (home / "report.html").read_text()
    assert "2 models compared" in page
    assert "photos (2)" in page
    run("report", "photos.parquet", "other/photos.parquet", "--name", "x", "--name", "y")
    assert "photos (2)" not in (home / "report.html").read_text()


def test_a_page_that_nothing_shows_is_named(table, home, run, monkeypatch):
    asked = []
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("typer.launch", lambda path: asked.append(path) or 1)
    printed = run("report", "photos.parquet", "--open")
    assert asked == [str(home / "photos.report.html")]
    assert f"No browser was found; the report is {home / 'photos.report.html'}." in printed.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("photos.parquet", "--name", "a", "--name", "b"), "`--name` of `manyhot report` must be given 1 times"),
        (("photos.parquet", "photos.parquet", "--name", "a", "--name", "a"), "must differ"),
        (("photos.parquet", "--dark"), "`--dark` of `manyhot report` must come with --png or --pdf; got neither"),
        (("photos.parquet", "-o", "a.txt"), "`--out` of `manyhot report` must end with .html, .htm; got 'a.txt'"),
        (("photos.parquet", "--pdf", "a.txt"), "`--pdf` of `manyhot report` must end with .pdf; got 'a.txt'"),
        (("photos.parquet", "--split", "test"), "got 'test'"),
        (("nowhere",), "nowhere"),
        (("bare.parquet",), "`RUN` must hold targets; got probs. Add the true labels"),
        (("begun",), "`RUN` must be finished; got 'begun'. Let it finish: manyhot train --resume begun."),
        (("begun", "--targets", "photos.parquet"), "`--targets` of `manyhot report` must come with tables only"),
    ],
)
def test_mistakes_are_told_in_one_sentence_and_nothing_is_written(table, home, run, arguments, words):
    mh.Predictions(probs=torch.rand(3, 2)).save("bare.parquet")
    (home / "begun").mkdir()
    (home / "begun" / "config.yaml").write_text("epochs: 1\n")
    before = sorted(home.rglob("*"))
    printed = run("report", *arguments, code=2)
    assert words in printed.err.replace("\n", " ")
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--png", "photos.parquet"), "'photos.parquet' is a file."),
        (("--root", "photos.parquet"), "'photos.parquet' is a file."),
        (("--root", "nowhere"), "'nowhere' does not exist."),
    ],
)
def test_folders_are_checked_at_once(table, run, option, words):
    told = " ".join(run("report", table, *option, code=2).err.split())
    assert f"Invalid value for '{option[0]}': " in told
    assert words in told


@pytest.mark.process
def test_help_comes_without_torch():
    code = (
        "import sys; sys.argv = ['manyhot', 'report', '--help']; from manyhot.cli import main\n"
        "try: main()\nfinally: print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip().endswith("False False"), shown
    assert "manyhot report runs/last --open" in shown


@pytest.mark.slow
def test_a_training_ends_with_its_report_unless_it_is_not_wanted(home, run):
    scenes = write_scenes(home / "scenes", samples=100, seed=0)
    printed = run("train", scenes, *QUICK, "--epochs", "2", "-o", "with")
    assert "Report: with/report.html" in printed.out
    page = (home / "with" / "report.html").read_text()
    assert "<h1>with</h1>" in page
    assert "data:image/jpeg" in page
    found = json.loads(run("train", scenes, *QUICK, "--epochs", "2", "-o", "without", "--no-report", "--json").out)
    assert found["report"] is None
    assert not (home / "without" / "report.html").exists()
    assert run("report", "without", "--no-pictures").out == "Report: without/report.html\n"
    assert "data:image/jpeg" not in (home / "without" / "report.html").read_text()


def test_a_report_that_fails_does_not_fail_the_training(home, run, monkeypatch):
    def broken(*arguments, **options):
        raise RuntimeError("the pen is dry")

    monkeypatch.setattr(contents, "SECTIONS", (broken,))
    scenes = write_scenes(home / "scenes", samples=100, seed=0)
    printed = run("train", scenes, *QUICK, "--epochs", "1", "-o", "whole")
    assert "No report: RuntimeError: the pen is dry. Later: manyhot report whole" in printed.err
    assert "Wrote whole." in printed.out
    assert mh.Run("whole").finished
