"""Files and notebooks, several runs, and input that cannot be taken."""

import importlib.resources
import subprocess
import sys

import pytest
import torch
from PIL import Image

import manyhot as mh
from manyhot.evaluation import pipeline
from manyhot.report import Report, write_report
from manyhot.report import results as gathering
from manyhot.report.page import is_report, name_sources, try_report
from tests.errors.expected import raises_input_error
from tests.report_page.material import population


@pytest.mark.slow
def test_a_run_writes_its_report_into_its_folder(run, page, monkeypatch):
    monkeypatch.setattr(Report, "html", lambda self, *, watch=None: page)
    path = run.report()
    assert path == run.folder / "report.html"
    assert path.read_text(encoding="utf-8") == page
    assert is_report(path)
    assert not is_report(run.folder / "config.yaml")
    assert not is_report(run.folder / "model.safetensors")
    assert run.report(run.folder / "other.html").name == "other.html"


def test_the_report_goes_with_the_run(tmp_path):
    (tmp_path / "config.yaml").write_text("epochs: 1\n")
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "mine.txt").write_text("kept")
    mh.training.run.clear_run(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_templates_come_with_the_package():
    folder = importlib.resources.files("manyhot.report") / "templates"
    assert {"page.html", "parts.html", "page.css"} <= {file.name for file in folder.iterdir()}


@pytest.mark.slow
def test_figures_as_files(table, tmp_path, monkeypatch):
    whole = {drawing.key: drawing for drawing in Report(table).plots}
    assert {"worst", "best", "reliability", "precision-recall"} <= set(whole)
    monkeypatch.setattr(Report, "plots", [whole["worst"], whole["scores"]])
    report = Report(table)
    paths = report.save_pngs(tmp_path / "light")
    assert [path.stem for path in paths] == list(report.figures())
    (dark,) = [path for path in report.save_pngs(tmp_path / "dark", dark=True) if path.stem == "scores"]
    with Image.open(dark) as picture:
        assert picture.convert("RGB").getpixel((0, 0)) == (0x1E, 0x21, 0x29)
    first, second = (report.save_pdf(tmp_path / name).read_bytes() for name in ("a.pdf", "b.pdf"))
    assert first == second
    assert first.startswith(b"%PDF")
    assert b"CreationDate" not in first
    assert first.count(b"/Type /Page ") == len(paths)


def test_a_notebook_shows_the_page_in_a_frame_of_its_own(table, monkeypatch):
    monkeypatch.setattr(Report, "html", lambda self, *, watch=None: '<p title="x">&amp;</p>')
    shown = Report({'"a"': table})._repr_html_()
    assert shown.startswith('<iframe title="Report(&#x27;&quot;a&quot;&#x27;)"')
    assert 'srcdoc="&lt;p title=&quot;x&quot;&gt;&amp;amp;&lt;/p&gt;"' in shown


@pytest.mark.slow
def test_several_are_compared_on_the_same_rows(table):
    other = table.replace(probs=table.probs.sqrt(), decisions=table.decisions)
    report = Report({"honest": table, "bold": other})
    summary, comparison, *rest = report.sections
    assert summary.tables[0].head == ["figure", "honest", "bold"]
    assert summary.findings[1].startswith("bold: Of the ")
    assert comparison.key == "comparison"
    assert comparison.paragraphs[0].startswith("All were evaluated on the same rows and labels.")
    assert [drawing.key for drawing in comparison.plots] == ["comparison", "frontier", "comparison-reliability"]
    assert "best ECE: honest" in comparison.plots[0].alt
    assert "Those of honest." in rest[0].paragraphs
    assert [grid.caption for section in rest if section.key == "labels" for grid in section.tables] == [
        "4 labels of honest",
        "4 labels of bold",
    ]
    assert all(figure.axes for figure in report.figures().values())


def test_other_rows_and_other_labels_are_said_to_be_others(table):
    less = Report([table, table.take(list(range(100)))])
    assert list(less.sources) == ["predictions", "predictions (2)"]
    assert "were not evaluated on the same rows" in less.sections[1].paragraphs[0]
    renamed = table.replace(labels=["a", "b", "c", "d"])
    assert "do not have the same labels" in Report([table, renamed]).sections[1].paragraphs[0]


def test_the_split_to_judge(run):
    assert [(one.split, len(one.table)) for one in Report(run).models] == [("test", 120)]
    val = Report(run, split="val")
    assert [(one.split, len(one.table)) for one in val.models] == [("val", 30)]
    assert "too rosy" in gathering_words(val)
    table = run.predictions().read()
    assert [(one.split, one.rows) for one in Report(table).models] == [("test", 120)]
    no_splits = table.replace(splits=None)
    assert [(one.split, one.rows) for one in Report(no_splits).models] == [(None, 150)]
    with raises_input_error(rule="be one of"):
        _ = Report(run, split="nothing").models


def gathering_words(report):
    from manyhot.report.sections import make_header

    return make_header(report.models).lead


def test_a_path_leads_to_a_run_or_to_a_table(run, monkeypatch):
    assert Report(run.folder).models[0].run is not None
    table = run.folder / "predictions.parquet"
    (subject,) = Report(str(table)).models
    assert subject.run is None
    assert subject.name == "predictions"
    last = run.folder.parent / "last"
    last.symlink_to(run.folder.name)
    assert list(name_sources(last)) == [run.folder.name]


def test_of_very_large_tables_rows_are_drawn(table, monkeypatch, tmp_path):
    monkeypatch.setattr(gathering, "MOST_CELLS", 200)
    report = Report(table)
    assert len(report.models[0].table) == 50
    assert report.models[0].table.ids == Report(table).models[0].table.ids
    assert "50 of 120 rows, drawn at random, with 4 labels" in gathering_words(report)
    table.save(tmp_path / "table.parquet")
    assert Report(tmp_path / "table.parquet").models[0].table.ids == report.models[0].table.ids


def test_intervals_are_left_out_where_they_take_long(table, monkeypatch):
    monkeypatch.setattr(pipeline, "REPLICATES", {100: 10})
    assert "Intervals are left out" in Report(table).sections[0].paragraphs[0]


def test_input_that_cannot_be_taken(table, tmp_path):
    probs, targets = population(5, 2)
    unknown = mh.Predictions(probs=probs, targets=torch.full_like(targets, -1))
    for given, words in (
        (mh.Predictions(probs=probs), "`runs` of `Report` must hold targets; got probs. Add the true labels"),
        (unknown, "must have the target of at least one cell; got unknown cells only"),
        (mh.Predictions(probs=probs[:0], targets=targets[:0]), "must have rows to evaluate; got 0 rows of 2 labels"),
        (3, "must be runs or tables of predictions; got int"),
    ):
        with raises_input_error(match=words):
            _ = Report({"a": given}).models
    with raises_input_error(rule="be runs or tables by name, at least one", got="none"):
        Report({})
    with raises_input_error(rule="be runs or tables by name, at least one", got="one without a name"):
        Report({"": table})
    (tmp_path / "config.yaml").write_text("epochs: 1\n")
    with raises_input_error(rule="be finished", hint="Let it finish: manyhot train --resume"):
        _ = Report(tmp_path).models


@pytest.mark.parametrize("missing", ["jinja2", "matplotlib"])
def test_what_is_missing_is_named_and_no_run_fails_for_it(run, missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    told = []
    assert try_report(run, told.append) is None
    assert len(told) == 1
    assert told[0].startswith("No report: ")
    assert f"{missing}. Install it with: pip install 'manyhot[report]'." in told[0]


def test_whatever_goes_wrong_is_told_in_one_sentence(run, monkeypatch):
    def broken(self, *arguments, **options):
        raise RuntimeError("no space\nleft.")

    monkeypatch.setattr(Report, "save", broken)
    told = []
    assert try_report(run, told.append) is None
    assert told == [f"No report: RuntimeError: no space left. Later: manyhot report {run.folder}"]


@pytest.mark.process
def test_figures_from_kept_numbers_still_do_not_load_torch():
    code = "import sys, manyhot.report; print('torch' in sys.modules, 'jinja2' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "False False"


def test_a_run_and_a_comparison_show_themselves_in_a_notebook(run, tmp_path):
    shown = run._repr_html_()
    assert "own link" in shown
    assert "calibrated" in shown
    assert "data:image/png;base64," in shown
    hostile = mh.training.Comparison(
        {"<b>": {"before": None, "after": {"map": 0.5, "ece": 0.1}}, "BCE": {"before": None, "after": {"map": 0.6}}},
        "test",
        tmp_path,
    )
    table = hostile._repr_html_()
    assert "<td>&lt;b&gt;</td><td>50.00 %</td>" in table
    assert "<td><b>60.00 %</b></td>" in table
    (tmp_path / "config.yaml").write_text("loss: <i>BCE\n")
    assert "Loss: &lt;i&gt;BCE" in mh.Run(tmp_path)._repr_html_()


def test_write_report_gives_the_path(tmp_path, monkeypatch, table):
    monkeypatch.setattr(Report, "html", lambda self, *, watch=None: "x")
    assert write_report(table, tmp_path / "deep" / "a.html") == tmp_path / "deep" / "a.html"


def test_figures_do_not_follow_the_settings_of_the_user(table, tmp_path, monkeypatch):
    import matplotlib

    (one,) = [drawing for drawing in Report(table).plots if drawing.key == "scores"]
    monkeypatch.setattr(Report, "plots", [one])
    (usual,) = Report(table).save_pngs(tmp_path / "usual")
    with matplotlib.rc_context(
        {"font.size": 20, "axes.facecolor": "red", "lines.linewidth": 9, "xtick.direction": "in"}
    ):
        (other,) = Report(table).save_pngs(tmp_path / "other")
        assert matplotlib.rcParams["font.size"] == 20
    assert usual.read_bytes() == other.read_bytes()
