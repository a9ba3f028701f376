"""`manyhot search`: what is shown, written, opened and refused."""

import importlib.util
import json
import os
import subprocess
import sys

import duckdb
import pytest
import torch
from PIL import Image

import manyhot as mh

LABELS = ["dog", "beach", "[red] \x1b[31mcoat"]
PROBS = torch.tensor(
    [[0.99, 0.02, 0.5], [0.90, 0.60, 0.5], [0.75, 0.05, 0.5], [0.20, 0.90, 0.5], [0.01, 0.01, 0.5]], dtype=torch.float64
)
DOG_NO_BEACH = {"0": 0.9702, "2": 0.7125, "1": 0.36, "3": 0.02, "4": 0.0099}  # by id, the most probable first
NAME = "search-dog-not-beach.jpg"


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """A table of five photos in the current folder, and the photos."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "images").mkdir()
    for row in range(5):
        Image.new("RGB", (40, 30), (40 * row, 100, 200)).save(tmp_path / "images" / f"{row}.png")
    return save("tagged.parquet")


def save(path, **columns):
    given = {
        "probs": PROBS,
        "labels": LABELS,
        "ids": [str(row) for row in range(5)],
        "paths": [f"images/{row}.png" for row in range(5)],
    }
    mh.Predictions(**(given | columns)).save(path)
    return path


def size(path):
    with Image.open(path) as image:
        return image.size


@pytest.fixture
def run_json(run):
    return lambda *arguments: json.loads(run("search", *arguments, "--json").out)


def test_hits_and_what_to_expect(photos, run):
    lines = run("search", photos, "dog & !beach", "-k", 3).out.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["rank", "probability", "path"],
        ["1", "97.0", "%", "images/0.png"],
        ["2", "71", "%", "images/2.png"],
        ["3", "36", "%", "images/1.png"],
    ]
    assert lines[4:] == [
        "Expected matches: 2.1 (95 %: 1 to 3) among 5 images.",
        "Of these 3, 2 are expected to match (68 %); they hold 99 % of all expected matches.",
        f"Contact sheet: {NAME}",
    ]


def test_json(photos, run_json):
    answer = run_json(photos, "DOG and not beach")
    assert answer["query"] == "dog & !beach"
    assert [hit["id"] for hit in answer["hits"]] == list(DOG_NO_BEACH)
    assert [hit["prob"] for hit in answer["hits"]] == pytest.approx(list(DOG_NO_BEACH.values()))
    assert answer["hits"][0]["path"] == "images/0.png"
    assert answer["expected"]["mean"] == pytest.approx(sum(DOG_NO_BEACH.values()))
    assert answer["expected"]["rows"] == 5
    assert answer["precision"] == pytest.approx(sum(DOG_NO_BEACH.values()) / 5)
    assert answer["recall"] == pytest.approx(1)
    assert answer["sheet"] is None
    assert not os.path.exists(NAME)
    impossible = run_json(photos, "dog & !dog", "-k", 1)
    assert impossible["recall"] is None
    assert impossible["hits"][0]["log_prob"] is None


def test_goals_instead_of_a_number(photos, run_json):
    assert [hit["id"] for hit in run_json(photos, "dog & !beach", "--until-precision", 0.8)["hits"]] == ["0", "2"]
    assert [hit["id"] for hit in run_json(photos, "dog & !beach", "--until-recall", 0.9)["hits"]] == ["0", "2", "1"]
    assert len(run_json(photos, "dog & !beach", "--until-recall", 0.9, "-k", 2)["hits"]) == 2
    assert len(run_json(photos, "dog & !beach", "--until-recall", 1)["hits"]) == 5


def test_paths_for_other_programs(photos, run, tmp_path, monkeypatch):
    assert run("search", photos, "dog & !beach", "-k", 2, "--paths").out == "images/0.png\nimages/2.png\n"
    assert run("search", photos, "dog & !beach", "-k", 2, "-0").out == "images/0.png\0images/2.png\0"
    assert run("search", save("ids.parquet", paths=None), "dog", "-k", 1, "--paths").out == "0\n"
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    printed = run("search", f"../{photos}", "dog & !beach", "-k", 1, "--paths").out
    assert os.path.samefile(printed.strip(), tmp_path / "images" / "0.png")
    assert os.listdir() == []
    lost = run("search", f"../{photos}", "dog", "-k", 2, "--paths", "--root", ".")
    assert lost.out.count("images/") == 2
    assert "2 of 2 images are not where the table says. Name the folder that they begin in with --root." in lost.err


def test_the_statement_gives_the_same(photos, run):
    statement = run("search", photos, "dog & !beach", "-k", 2, "--sql").out
    rows = duckdb.sql(statement).fetchall()
    assert [row[0] for row in rows] == ["0", "2"]
    assert not os.path.exists(NAME)


def test_splits_and_folders_of_parts(photos, run_json, tmp_path):
    save("tagged.parquet", splits=["val", "test", "test", "test", "val"])
    assert [hit["id"] for hit in run_json(photos, "dog & !beach", "--split", "test")["hits"]] == ["2", "1", "3"]
    (tmp_path / "parts").mkdir()
    (tmp_path / photos).rename(tmp_path / "parts" / "part-0.parquet")
    for place in ("parts", "parts/*.parquet"):
        assert run_json(place, "dog", "--split", "val")["expected"]["rows"] == 2


def test_images_beside_a_folder_of_parts(photos, run, tmp_path, monkeypatch):
    (tmp_path / "parts").mkdir()
    (tmp_path / photos).rename(tmp_path / "parts" / "part-0.parquet")
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    assert "Contact sheet" in run("search", "../parts", "dog").out


def test_a_statement_needs_files(photos, run, tmp_path):
    (tmp_path / "probs.csv").write_text("id,dog\na,0.9\n")
    refused = run("search", "probs.csv", "dog", "--kind", "probs", "--sql", code=2).err
    assert "must lie on disk as Parquet with probabilities; got one in memory." in refused


def test_scores_are_sent_to_be_calibrated(run, tmp_path):
    (tmp_path / "scores.csv").write_text("id,dog\na,0.9\n")
    refused = run("search", tmp_path / "scores.csv", "dog", "--kind", "scores", code=2).err
    assert "Give it probabilities first: manyhot calibrate." in refused


def test_tables_of_other_programs(photos, run_json, run, tmp_path):
    (tmp_path / "probs.csv").write_text("id,split,dog,beach\na,val,0.9,0.5\nb,test,0.8,0.1\nc,test,0.1,0.1\n")
    answer = run_json("probs.csv", "dog & !beach", "--kind", "probs", "--split", "test")
    assert [hit["id"] for hit in answer["hits"]] == ["b", "c"]
    assert answer["hits"][0]["prob"] == pytest.approx(0.72)
    refused = run("search", "probs.csv", "dog", code=2).err
    assert "`--kind` must be 'scores' or 'probs'; got nothing." in refused


def test_a_sheet_is_written_and_only_sheets_are_replaced(photos, run, tmp_path):
    run("search", photos, "dog & !beach", "-k", 1)
    small = size(NAME)
    assert f"Contact sheet: {NAME}" in run("search", photos, "dog & !beach").out
    large = size(NAME)
    assert large > small
    Image.new("RGB", (9, 9)).save(NAME)  # one of the user's own
    assert "Contact sheet: search-dog-not-beach-2.jpg" in run("search", photos, "dog & !beach").out
    assert size(NAME) == (9, 9)
    assert size("search-dog-not-beach-2.jpg") == large
    (tmp_path / NAME).write_text("notes")
    assert "search-dog-not-beach-2.jpg" in run("search", photos, "dog & !beach").out
    assert (tmp_path / NAME).read_text() == "notes"


@pytest.mark.parametrize("name", ["found.png", "new/found.jpg", "FOUND.JPEG"])
def test_a_sheet_with_a_name(photos, run, name, tmp_path):
    for _ in range(2):
        assert f"Contact sheet: {name}" in run("search", photos, "dog", "--sheet", name).out
    with Image.open(name) as image:
        assert image.format == ("PNG" if name.endswith("png") else "JPEG")
    (tmp_path / name).write_text("notes")
    refused = run("search", photos, "dog", "--sheet", name, code=2).err
    assert f"`--sheet` of `manyhot search` must name a file that is not there yet; got '{name}'" in refused
    run("search", photos, "dog", "--sheet", name, "--overwrite")
    assert size(name)[0] > 300


def test_a_sheet_beside_json_and_paths(photos, run_json, run):
    assert run_json(photos, "dog", "--sheet", "a.png")["sheet"] == "a.png"
    printed = run("search", photos, "dog", "-k", 1, "--paths", "--sheet", "b.png")
    assert printed.out == "images/0.png\n"
    assert printed.err == "Contact sheet: b.png\n"


def test_no_sheet(photos, run, tmp_path):
    before = os.listdir()
    assert "Contact sheet" not in run("search", photos, "dog", "--no-sheet").out
    for row in range(5):
        (tmp_path / "images" / f"{row}.png").unlink()
    printed = run("search", photos, "dog")
    assert printed.err == "No contact sheet: the images are not where the table says. Name their folder with --root.\n"
    assert run("search", save("ids.parquet", paths=None), "dog").err == ""
    assert sorted(os.listdir()) == sorted([*before, "ids.parquet"])
    run("search", photos, "dog", "--sheet", "grey.png")  # asked for, so it says what is wrong
    assert size("grey.png")[0] > 300


def test_without_pillow_there_is_no_sheet(photos, run, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "PIL" else real(name, *rest))
    printed = run("search", photos, "dog")
    assert "1  " in printed.out
    assert printed.err == "No contact sheet: it needs Pillow. Install it with: pip install 'manyhot[search]'\n"
    monkeypatch.setitem(sys.modules, "PIL.ImageDraw", None)
    refused = run("search", photos, "dog", "--sheet", "a.png", code=2).err
    assert refused == "manyhot: Contact sheets need Pillow. Install it with: pip install 'manyhot[vision]'\n"


def test_where_nothing_may_be_written(photos, run, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)
    printed = run("search", photos, "dog")
    assert printed.err == "No contact sheet: you may not write here. Name a file with --sheet.\n"
    assert not os.path.exists("search-dog.jpg")


def test_images_beside_the_table_and_below_a_root(photos, run, tmp_path, monkeypatch):
    (tmp_path / "desk").mkdir()
    monkeypatch.chdir(tmp_path / "desk")
    assert "Contact sheet: search-dog.jpg" in run("search", f"../{photos}", "dog").out
    (tmp_path / "images").rename(tmp_path / "desk" / "moved")
    assert "No contact sheet" in run("search", f"../{photos}", "dog & beach").err
    (tmp_path / "mnt").mkdir()
    refused = run("search", f"../{photos}", "dog & beach", "--root", tmp_path / "mnt").err
    assert refused == "No contact sheet: the images are not below that root.\n"
    (tmp_path / "desk" / "moved").rename(tmp_path / "mnt" / "images")
    assert "Contact sheet" in run("search", f"../{photos}", "dog & beach", "--root", tmp_path / "mnt").out
    refused = run("search", f"../{photos}", "dog", "--root", "nowhere", code=2).err
    assert "Invalid value for '--root': " in refused
    assert "'nowhere' does not exist." in refused


@pytest.mark.parametrize("relative", [True, False])
def test_images_of_a_run_lie_with_its_data(photos, run, tmp_path, monkeypatch, relative):
    (tmp_path / "data").mkdir()
    (tmp_path / "images").rename(tmp_path / "data" / "images")
    (tmp_path / "data" / "photos.csv").write_text("path,labels\n")
    folder = tmp_path / "runs" / "photos"
    folder.mkdir(parents=True)
    (tmp_path / photos).rename(folder / "predictions.parquet")
    named = "data/photos.csv" if relative else tmp_path / "data" / "photos.csv"
    (folder / "config.yaml").write_text(f"data:\n  paths:\n  - {named}\n")
    monkeypatch.chdir(tmp_path / "runs")
    assert "Contact sheet: search-dog.jpg" in run("search", "photos", "dog").out
    (folder / "config.yaml").write_text("[")
    assert "No contact sheet" in run("search", "photos", "beach").err


def test_the_viewer_is_called_or_the_file_named(photos, run, monkeypatch, tmp_path):
    opened = []
    monkeypatch.setattr("typer.launch", lambda path: opened.append(path) or 0)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("DISPLAY", ":0")
    assert run("search", photos, "dog & !beach", "--open").err == ""
    assert opened == [str(tmp_path / NAME)]
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    told = run("search", photos, "dog & !beach", "--open").err
    assert told == f"No image viewer was found; the contact sheet is {tmp_path / NAME}.\n"
    monkeypatch.setattr(sys, "platform", "darwin")
    run("search", photos, "dog", "--open", "--sheet", "a.png")
    assert opened[1:] == [str(tmp_path / "a.png")]


def test_names_cannot_steer_the_terminal(photos, run, tmp_path):
    odd = "images/[red]\x1b[31m\ntwo.png"
    save(photos, paths=[odd, *["b"] * 4])
    (tmp_path / "images" / "0.png").rename(tmp_path / odd)
    shown = run("search", photos, '"[red] \\x1b[31mcoat" & dog', "-k", 1)
    assert "images/[red]\\x1b[31m\\ntwo.png" in shown.out
    assert "\x1b" not in shown.out
    assert run("search", photos, "dog", "-k", 1, "-0").out == f"{odd}\0"


def test_long_paths_are_not_folded_in_a_pipe(photos, run):
    long = "x" * 300 + ".png"
    save(photos, paths=[long] * 5)
    assert long in run("search", photos, "dog").out


def test_many_hits_are_counted_not_listed(tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mh.Predictions(probs=torch.full((1234, 1), 0.5), labels=["dog"]).save("many.parquet")
    printed = run("search", "many.parquet", "dog", "--until-recall", 1).out
    assert "\nand 1,034 more; --paths prints all of them.\n" in printed
    assert printed.startswith("rank  probability  id")
    assert "Expected matches: 617 (95 %: " in printed
    assert len(run("search", "many.parquet", "dog", "--until-recall", 1, "--paths").out.splitlines()) == 1234


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ["--until-precision", "0.5", "--until-recall", "0.5"],
            "`--until-recall` of `manyhot search` must come without",
        ),
        (
            ["--until-precision", "1.5"],
            "`--until-precision` must lie above 0 and not above 1; got 1.5.",
        ),
        (["--until-recall", "nan"], "`--until-recall` must lie above 0 and not above 1; got nan."),
        (["--until-recall", "0", "--sql"], "`--until-recall` must lie above 0 and not above 1; got 0.0."),
        (["--json", "--paths"], "`--paths` of `manyhot search` must come without --json"),
        (["--json", "-0"], "`--paths` of `manyhot search` must come without --json"),
        (["--sql", "--json"], "must come without --json"),
        (["--no-sheet", "--open"], "`--open` of `manyhot search` must come without --no-sheet"),
        (["--sql", "--sheet", "a.png"], "`--sheet` of `manyhot search` must come without --sql"),
        (["--sheet", "a.gif"], "`--sheet` of `manyhot search` must end with .jpg, .jpeg, .png; got 'a.gif'."),
        (["--split", "tset"], "split"),
    ],
)
def test_refused_options(photos, run, options, said):
    printed = run("search", photos, "dog", *options, code=2)
    assert said in printed.err
    assert printed.err.startswith("manyhot: ")
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""


@pytest.mark.parametrize("query", ["dgo", "dog &", "", "(dog", "dog'; DROP TABLE x; --", "\x1b[31m", "count >= dog"])
def test_bad_queries_are_one_line(photos, run, query):
    printed = run("search", photos, query, code=2)
    assert len(printed.err.splitlines()) == 1
    assert "`query` of `search` must" in printed.err
    assert "\x1b" not in printed.err
    assert printed.out == ""


def test_tables_that_cannot_be_searched(photos, run, tmp_path):
    save("scores.parquet", probs=None, scores=PROBS)
    assert len(run("search", "scores.parquet", "dog", code=2).err.splitlines()) == 1
    assert "nowhere.parquet" in run("search", "nowhere.parquet", "dog", code=2).err


@pytest.mark.process
def test_search_and_its_help_do_without_torch(photos, tmp_path):
    code = (
        "import sys; sys.argv = ['manyhot', 'search', *sys.argv[1:]]\n"
        "from manyhot.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(sorted(name for name in ('torch', 'duckdb', 'PIL') if name in sys.modules))"
    )
    for arguments, loaded in ((["--help"], []), ([photos, "dog & !beach"], ["PIL"])):
        command = [sys.executable, "-c", code, *arguments]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert ended.stdout.splitlines()[-1] == str(loaded)
    assert (tmp_path / NAME).is_file()
