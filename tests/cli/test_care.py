"""What a user gets told, and what is kept from harm."""

import json
import os
import sys

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot.tables.arrow import import_arrow

ODD = ["[red]", "[/dim]", "\x1b[31mred", "two\nlines", 'say "hi"']


def save(path, *, labels=("cat", "dog"), splits=None, **columns):
    draw = torch.Generator().manual_seed(0)
    probs = torch.rand(40, len(labels), generator=draw)
    targets = (torch.rand(probs.shape, generator=draw) < probs).to(torch.int8)
    table = mh.Predictions(**({"probs": probs, "targets": targets} | columns), labels=list(labels), splits=splits)
    table.save(path)
    return path


def test_odd_names_of_labels_and_files_are_shown_as_they_are(tmp_path, run):
    header = ",".join(f'"{name}"'.replace('"say "hi""', '"say ""hi"""') for name in ODD)
    (tmp_path / "odd.csv").write_text(f"id,{header}\na,0.1,0.2,0.3,0.4,0.5\n", newline="")
    told = run("import", tmp_path / "odd.csv", "--kind", "probs", "-o", tmp_path / "odd.parquet").err
    assert "'[red]', '[/dim]', '\\x1b[31mred', 'two\\nlines', 'say \"hi\"'" in told
    out = tmp_path / "[red]x[/red].parquet"
    shown = run("decide", save(tmp_path / "table.parquet"), "--rule", "TopK(1)", "-o", out).out
    assert f"Wrote 40 rows to {out}. Next: manyhot evaluate '{out}'" in shown


def test_names_cannot_steer_the_terminal(tmp_path, run):
    shown = run("evaluate", save(tmp_path / "table.parquet", labels=ODD), "--by-label").out
    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown
    assert "two\\nlines" in shown


def test_advice_is_in_words_of_the_command_line(tmp_path, run):
    plain = tmp_path / "plain.csv"
    plain.write_text("id,cat,dog\na,0.5,0.5\na,0.1,0.2\n")
    assert "`--kind` must be 'scores' or 'probs'; got nothing." in run("evaluate", plain, code=2).err
    assert (
        "Name the column of ids with `manyhot import --id-column`."
        in run("evaluate", plain, "--kind", "probs", code=2).err
    )
    bare = save(tmp_path / "bare.parquet", targets=None, splits="val")
    assert (
        "must hold targets; got probs. Pass the file of true labels as --targets." in run("evaluate", bare, code=2).err
    )
    refused = run("decide", bare, "-r", "LabelThresholds", "--fit-on", "val", code=2).err
    assert "got none. Pass the file of true labels as --targets." in refused
    scores = save(tmp_path / "scores.parquet", probs=None, scores=torch.randn(40, 2))
    refused = run("decide", scores, "-r", "Threshold(0.5)", code=2).err
    assert "Run `manyhot calibrate` first, or pass --on scores to a rule that only compares." in refused


def test_without_splits_the_other_way_is_named(tmp_path, run):
    table = save(tmp_path / "table.parquet")
    refused = run("decide", table, "-r", "LabelThresholds", code=2).err
    assert "This table has no splits: add a column `split`, or pass --fit-table." in refused
    refused = run("decide", table, "-r", "LabelThresholds", "--fit-on", "val", code=2).err
    assert "`--fit-on` must be a split of the table, which has none; got 'val'. Give it splits: a column" in refused


def test_what_was_detected_is_told_beside_json(tmp_path, run):
    (tmp_path / "all.csv").write_text("id,cat,dog,labels,place\na,0.9,0.5,cat,here\nb,0.2,0.3,,there\n")
    printed = run("evaluate", tmp_path / "all.csv", "--kind", "scores", "--json")
    assert json.loads(printed.out)["counts"]["rows"] == 2
    assert "Left out columns: 'place'." in printed.err
    assert "All scores lie between 0 and 1. If they are probabilities, choose the kind 'probs'." in printed.err


def test_rows_that_were_learnt_from_are_not_judged(tmp_path, run):
    table = save(tmp_path / "table.parquet", splits="val")
    for place, rows in enumerate((("--fit-on", "val"), ("--fit-table", table))):
        out = tmp_path / f"{place}.parquet"
        printed = run("decide", table, "-r", "LabelThresholds", *rows, "-o", out, "--json")
        assert json.loads(printed.out)["judged rows"] == 0
        assert "No row is evaluated, because all of them are used for fitting." in printed.err


@pytest.mark.parametrize(("fit_on", "judged"), [(None, 10), ("val", 10), ("test", 30)])
def test_commands_that_decide_judge_the_rows_that_evaluate_judges(tmp_path, run, fit_on, judged):
    table = save(tmp_path / "table.parquet", splits=["train", "val", "val", "test"] * 10)
    out = tmp_path / "decided.parquet"
    learn = ("-r", "TopK(1)") if fit_on is None else ("-r", "LabelThresholds", "--fit-on", fit_on)
    found = json.loads(run("decide", table, *learn, "-o", out, "--json").out)
    assert found["judged rows"] == judged
    if fit_on != "test":
        sets = json.loads(run("evaluate", out, "--json").out)["groups"]["sets"]["values"]
        assert found["micro_f"] == sets["micro_f"]["value"]


def test_too_few_rows_are_told_of_instead_of_figures(tmp_path, run):
    table = save(tmp_path / "table.parquet", splits=["val", "val", "val", "test"] * 10)
    calibrated, decided = tmp_path / "calibrated.parquet", tmp_path / "decided.parquet"
    for words in (
        run("calibrate", table, "-m", "PlattScaling(sharing='all')", "--fit-on", "val", "-o", calibrated).out,
        run("decide", calibrated, "-r", "TopK(1)", "-o", decided).out,
    ):
        assert "Too few rows to evaluate: 10 rows with known labels" in " ".join(words.split())
        assert not {"ECE", "F1"} & set(words.split())
    assert "labels predicted per row" in words


def test_a_loaded_calibrator_does_not_claim_new_rows(tmp_path, run):
    table = save(tmp_path / "table.parquet", splits=["val", "test"] * 20)
    saved, copied = tmp_path / "first.json", tmp_path / "second.json"
    shown = run("calibrate", table, "-m", "PlattScaling(sharing='all')", "--fit-on", "val", "--save", saved).out
    assert "20 held-out rows" in shown
    shown = run("calibrate", table, "-m", saved, "-o", tmp_path / "again.parquet", "--save", copied).out
    assert "20 rows evaluated" in shown
    assert copied.read_text() == saved.read_text()


@pytest.mark.parametrize(
    "content",
    ["{", '{"format": 1, "kind": "TopK"}', '{"format": 1, "kind": "TopK", "arguments": {"kk": 1}, "buffers": {}}'],
)
def test_a_broken_rule_is_one_sentence(tmp_path, run, content):
    rule = tmp_path / "rule.json"
    rule.write_text(content)
    assert "rule.json" in run("decide", save(tmp_path / "table.parquet"), "-r", rule, code=2).err
    refused = run("decide", tmp_path / "table.parquet", "-r", tmp_path / "none.json", code=2).err
    assert "none.json: No such file or directory." in refused


def test_places_to_write_to_are_tried_first(tmp_path, run, monkeypatch):
    table = save(tmp_path / "table.parquet")
    (tmp_path / "file").write_text("mine")

    def refused(*options):
        return run("decide", table, "-r", "TopK(1)", *options, code=2).err

    assert "must name a file; got" in refused("-o", tmp_path, "--overwrite")
    assert "must name a file; got '/dev/null'" in refused("-o", "/dev/null", "--overwrite")
    assert "must name a file; got '/', a folder" in refused("-o", "/", "--overwrite")
    assert "must name a Parquet file" in refused("-o", tmp_path / "out.csv")
    assert "which is no folder. Choose another place." in refused("-o", tmp_path / "file" / "out.parquet")
    same = tmp_path / "same"
    assert "must name another file than --out" in refused("-o", same, "--save", same)
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "where you may not write. Choose another place." in refused("-o", tmp_path / "out.parquet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "table.parquet"]


def test_targets_row_by_row_are_those_of_one_table(tmp_path, run):
    table, other = save(tmp_path / "table.parquet"), save(tmp_path / "other.parquet")
    np.save(tmp_path / "truth.npy", np.zeros((40, 2), np.int8))
    options = ("--fit-table", other, "--targets", tmp_path / "truth.npy")
    assert (
        "must have ids where there is a --fit-table"
        in run("decide", table, "-r", "LabelThresholds", *options, code=2).err
    )


def test_the_parts_of_a_pattern_get_a_plain_name(tmp_path, run):
    save(tmp_path / "part-0.parquet", ids=[f"a{row}" for row in range(40)])
    save(tmp_path / "part-1.parquet", ids=[f"b{row}" for row in range(40)])
    run("decide", tmp_path / "part-*.parquet", "-r", "TopK(1)")
    assert len(mh.Predictions.open(tmp_path / "part.decided.parquet")) == 80


def test_without_pyarrow_one_line_says_how_to_get_it(tmp_path, run, monkeypatch):
    table = save(tmp_path / "table.parquet")
    import_arrow.cache_clear()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert "Install it with: pip install 'manyhot[tables]'" in run("evaluate", table, code=2).err
