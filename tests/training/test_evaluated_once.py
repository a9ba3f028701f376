"""The rows of a run are evaluated once: the run keeps the values, and terminal, notebook and report show these."""

import json

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot.cli.app import app
from manyhot.evaluation import Evaluation, pipeline
from manyhot.predictions.parquet import Part
from manyhot.report import Report
from manyhot.training import Run

pytestmark = pytest.mark.slow
SETTINGS = ["--set", "epochs=2", "--set", "hidden=0"]


@pytest.fixture(scope="module")
def features(tmp_path_factory):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(400, 6)).astype(np.float32)
    y = (draw.random((400, 3)) < 1 / (1 + np.exp(-2 * x[:, :3]))).astype(np.int8)
    path = tmp_path_factory.mktemp("data") / "features.npz"
    np.savez(path, x=x, y=y)
    return path


@pytest.fixture
def calls(monkeypatch):
    """The probabilities that were evaluated, and the draws of intervals, one entry per call."""
    noted = {"evaluated": [], "drawn": []}
    run_passes, values = pipeline.run_passes, pipeline.bootstrap_values

    def noted_passes(table, *others):
        noted["evaluated"].append(table.probs)
        return run_passes(table, *others)

    def noted_values(table, *others):
        noted["drawn"].append(table.probs)
        return values(table, *others)

    monkeypatch.setattr(pipeline, "run_passes", noted_passes)
    monkeypatch.setattr(pipeline, "bootstrap_values", noted_values)
    monkeypatch.setattr(pipeline, "REPLICATES", {1 << 18: 5})
    return noted


def test_a_training_with_its_report_evaluates_each_table_once(features, tmp_path, calls, capsys):
    folder = tmp_path / "run"
    app(["train", str(features), "-o", str(folder), *SETTINGS], standalone_mode=False)
    assert (folder / "report.html").is_file()
    assert "mAP over labels" in capsys.readouterr().out
    rows = Run(folder).predictions().of_split("test").read()
    before = rows.link.probs(rows.scores)
    assert len(calls["evaluated"]) == 2
    assert sum(torch.equal(probs, rows.probs) for probs in calls["evaluated"]) == 1
    assert sum(torch.equal(probs, before) for probs in calls["evaluated"]) == 1
    assert len(calls["drawn"]) == 1  # by the training: the report shows the intervals of the run
    # What a notebook shows, and a report that is written again, read the same file.
    assert "calibrated" in Run(folder)._repr_html_()
    page = (folder / "report.html").read_text()
    app(["report", str(folder), "-o", str(tmp_path / "again.html")], standalone_mode=False)
    assert (tmp_path / "again.html").read_text() == page
    assert (len(calls["evaluated"]), len(calls["drawn"])) == (2, 1)


@pytest.fixture(scope="module")
def run(features, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    return mh.train(str(features), epochs=2, hidden=0, folder=folder)


@pytest.fixture
def pieces_read(monkeypatch):
    """The columns that were read from files of predictions, one entry per reading."""
    noted, pieces = [], Part.pieces

    def noted_pieces(part, columns, split):
        noted.append(columns)
        return pieces(part, columns, split)

    monkeypatch.setattr(Part, "pieces", noted_pieces)
    return noted


def test_training_does_not_read_the_predictions_that_it_wrote(features, tmp_path, pieces_read):
    run = mh.train(str(features), epochs=1, hidden=0, folder=tmp_path / "one")
    assert run.evaluation is not None
    mh.compare(str(features), ["BCE", "SPA"], epochs=1, hidden=0, folder=tmp_path / "several")
    assert pieces_read == []
    run.predictions().read()
    assert pieces_read != []


def test_the_saved_evaluation_is_that_of_the_file(run):
    rows = run.predictions().of_split("test").read()
    after = mh.evaluate(rows, intervals=0.95)
    before = mh.evaluate(rows.replace(probs=rows.link.probs(rows.scores), decisions=None))
    assert run.evaluation.to_dict() == run.figures["after"] == after.to_dict()
    assert run.evaluation_before.to_dict() == run.figures["before"] == before.to_dict()
    assert str(run.evaluation) == str(after)
    assert str(run.evaluation.by_label()) == str(after.by_label())
    saved = json.loads((run.folder / "evaluation.json").read_text())
    assert {"before": saved["before"], "after": saved["after"]} == {
        name: run.figures[name] for name in ("before", "after")
    }


def test_the_report_evaluates_another_split_and_another_table_itself(run, calls):
    assert Report(run).models[0].evaluation.counts["rows"] == run.evaluation.counts["rows"]
    assert Report(run).models[0].evaluation.intervals["map"] == run.evaluation.intervals["map"]
    assert calls["evaluated"] == calls["drawn"] == []
    assert Report(run, split="val").models[0].evaluation.split == "val"
    assert len(calls["evaluated"]) == 2
    path = run.folder / "predictions.parquet"
    table = run.predictions().load()
    (path.parent / "evaluated.parquet").write_bytes(path.read_bytes())
    table.replace(decisions=~table.decisions).save(path)
    changed = Report(run).models[0].evaluation
    assert changed["micro_f"] != run.evaluation["micro_f"]
    assert changed["micro_f"] == mh.evaluate(run.predictions().of_split("test").read())["micro_f"]
    (path.parent / "evaluated.parquet").replace(path)
    assert run.evaluation_is_current


def test_the_report_draws_the_intervals_of_a_run_that_an_earlier_version_saved_without(run, calls, monkeypatch):
    path = run.folder / "evaluation.json"
    saved = path.read_text()
    content = json.loads(saved)
    content["after"] = mh.evaluate(run.predictions().of_split("test").read()).to_dict()
    assert content["after"]["level"] is None
    path.write_text(json.dumps(content))
    calls["evaluated"].clear()
    evaluation = Report(run).models[0].evaluation
    assert (evaluation.level, len(calls["drawn"])) == (0.95, 1)
    monkeypatch.setattr(pipeline, "REPLICATES", {100: 5})  # for a table that is too large it is as good as any
    calls["evaluated"].clear()
    assert Report(run).models[0].evaluation.level is None
    assert calls["evaluated"] == []
    path.write_text(saved)


def test_an_evaluation_is_read_as_it_was_written():
    draw = torch.Generator().manual_seed(0)
    targets = torch.randint(-1, 2, (200, 4), generator=draw)
    targets[:, 3] = 0
    table = mh.Predictions(scores=torch.randn(200, 4, generator=draw), targets=targets, link=mh.SigmoidLink())
    evaluation = mh.evaluate(table, intervals=0.9, replicates=5, train_counts=[1, 50, 500, 3])
    read = Evaluation.from_dict(json.loads(evaluation.to_json()))
    assert read.to_dict() == evaluation.to_dict()
    assert str(read.intervals) == str(evaluation.intervals)
    assert (str(read), read._repr_html_()) == (str(evaluation), evaluation._repr_html_())
    for name, column in evaluation.by_label().columns.items():
        torch.testing.assert_close(read.by_label().columns[name], column, rtol=0, atol=0, equal_nan=True)
    for name, group in evaluation.groups.items():
        for key, detail in group.details.items():
            torch.testing.assert_close(
                read.groups[name].details[key], detail, rtol=0, atol=0, equal_nan=True, check_dtype=False
            )
