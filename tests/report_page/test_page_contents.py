"""What is on the page, for runs and for tables of all kinds."""

import re
from dataclasses import replace
from functools import cache
from html import unescape

import pytest
import torch

import manyhot as mh
from manyhot.report import Report, write_report
from manyhot.report import sections as contents
from manyhot.report.page import render
from manyhot.report.sections import co_occurrence_section, label_section, make_header, reliability_section
from tests.report_page.material import population, trained

pytestmark = pytest.mark.slow

ORDER = [
    "summary",
    "annotation-errors",
    "predictions",
    "reliability",
    "thresholds",
    "scores",
    "sizes",
    "training",
    "together",
    "labels",
    "no-labels",
    "search",
    "settings",
]


def keys(report):
    return [section.key for section in report.sections]


def undrawn(report):
    """The page without its figures, which take long to draw."""
    return render(make_header(report.models), [replace(section, plots=()) for section in report.sections])


def words(html):
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).replace("\u00a0", " ").split())


def test_a_run_has_every_section_in_order(run, page):
    assert re.findall(r'<section id="([\w-]+)"', page) == ORDER
    assert re.findall(r'<li><a href="#([\w-]+)"', page) == ORDER
    text = words(page)
    assert (
        "a trained classifier, evaluated on 120 images of the split 'test', none of them seen in training, with 10"
        in text
    )
    assert "value, 95 % interval before calibration" in text
    assert re.search(r"Of the \d+ answers above 90 %, [\d.]+ % were right \(95 %: [\d.]+ to [\d.]+ %\)", text)
    assert re.search(r"one label too many in every \d+ images", text)
    assert "StrictlyProperAsymmetricLoss" in text or "BinaryCrossEntropyLoss" in text
    assert f"config.yaml of {run.folder.name}" in text
    assert page.count("data:image/jpeg;base64,") >= 20
    assert len(page) < 2_000_000


def test_every_figure_is_there_light_and_dark_and_says_what_it_shows(run, page):
    figures = re.findall(r"<figure id=\"figure-([\w-]+)\">.*?</figure>", page, re.DOTALL)
    assert figures == [drawing.key for drawing in Report(run).plots if drawing.on_page]
    assert page.count('<source media="screen and (prefers-color-scheme: dark)" srcset="data:image/png') == len(figures)
    alts = re.findall(r'<img src="data:image/png[^>]*? alt="([^"]*)"', page)
    assert len(alts) == len(figures)
    assert all(re.search(r"\d", alt) for alt in alts)


def test_the_page_is_whole_and_well_formed(page):
    assert not re.search(r"""(src|srcset|href)=["'](?!data:|#)""", page)
    assert "http://" not in page
    assert "https://" not in page
    assert "<script" not in page
    assert "@import" not in page
    assert "url(" not in page
    assert "default-src 'none'" in page
    assert page.count("<h1>") == 1
    assert page.count("<caption>") == page.count("<table>")
    assert page.index('id="annotation-errors"') < page.index('id="predictions"') < page.index('id="reliability"')
    identities = re.findall(r' id="([^"]+)"', page)
    assert len(set(identities)) == len(identities)


def test_the_same_table_gives_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(
        contents, "SECTIONS", (reliability_section, co_occurrence_section, label_section)
    )  # figures of all kinds take long
    probs, targets = population(50, 2)
    table = mh.Predictions(probs=probs, targets=targets)
    first, second = (write_report(table, tmp_path / f"{name}.html") for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_a_foreign_table_has_no_training_and_needs_no_pictures(table):
    report = Report({"theirs": table})
    assert keys(report) == [key for key in ORDER if key not in ("training", "settings")]
    text = words(undrawn(report))
    assert text.startswith("theirs – report")
    assert "Report on a table of predictions, evaluated on 120 rows, with 4 labels." in text
    assert "data:image/jpeg" not in undrawn(report)
    assert "No image" not in text


def test_names_and_paths_are_shown_letter_by_letter():
    probs, targets = population(60, 3)
    names = ["<script>alert(1)</script>", 'a" onload="x', "5 $ & $x^{"]
    paths = [f"<img src=x onerror=alert({row})>.png" for row in range(60)]
    table = mh.Predictions(probs=probs, targets=targets, labels=names, paths=paths)
    html = Report({"<b>bold</b> & ${7}": table}).html()
    assert "<script" not in html
    assert "<img src=x" not in html
    assert "<b>bold" not in html
    assert 'onload="x' not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; ${7}" in html


def test_a_picture_that_is_lost_becomes_a_tile_that_says_why(pictures, tmp_path):
    report = Report(pictures, root=tmp_path)
    html = undrawn(report)
    assert "data:image/jpeg" in html
    assert "No image: there is no such file" in html
    assert "None of the images was found" not in html
    (tmp_path / "none").mkdir()
    lost = undrawn(Report(pictures, root=tmp_path / "none"))
    assert "None of the images was found. Name the folder that their paths begin in with --root." in lost
    assert "data:image" not in undrawn(Report(pictures, root=tmp_path, images=False))


def test_probable_annotation_errors_come_first_and_the_surest_first(table):
    targets = table.targets.clone()
    probs = table.probs.clone()
    targets[7, 2], probs[7, 2] = 0, 0.9999
    targets[9, 1], probs[9, 1] = 1, 0.0001
    report = Report(table.replace(targets=targets, probs=probs, decisions=table.decisions))
    forgotten, impossible = report.sections[1].galleries
    assert (forgotten.cards[0].name, forgotten.cards[0].note) == ("7", "sea: 99.990 %, but not labelled")
    assert (impossible.cards[0].name, impossible.cards[0].note) == ("9", "dog: labelled, but 0.010 %")
    shown = [card.name for section in report.sections for gallery in section.galleries for card in gallery.cards]
    assert len(set(shown)) == len(shown)
    marked = [bar for bar in forgotten.cards[0].bars if bar.marked]
    assert [(bar.name, bar.target) for bar in marked] == [("sea", 0)]


def test_the_best_are_right_and_the_worst_are_not(table):
    galleries = {gallery.key: gallery for gallery in Report(table).sections[2].galleries}
    assert len(galleries["best"].cards) == len(galleries["worst"].cards) == 8
    assert all(card.bars for gallery in galleries.values() for card in gallery.cards)
    assert all(bar.predicted == (bar.target > 0) for card in galleries["best"].cards for bar in card.bars)
    assert all(any(bar.predicted != (bar.target > 0) for bar in card.bars) for card in galleries["worst"].cards)


def one_label(rows):
    labels = torch.arange(rows) % 3
    return mh.one_hot(labels, 3)


def tables():
    """Tables that something is missing of, by what that is."""
    probs, targets = population(80, 3)
    scores = torch.logit(probs)
    unknown = torch.where(torch.arange(80).unsqueeze(1) % 4 == torch.arange(3), -1, targets)
    half = targets.clone()
    half[40:] = -1
    return {
        "no decisions": mh.Predictions(probs=probs, targets=targets),
        "no probabilities": mh.Predictions(scores=scores, targets=targets, link=mh.TwoWayLoss().link),
        "scores of unknown meaning": mh.Predictions(scores=scores, targets=targets),
        "scores with a link": mh.Predictions(scores=scores, targets=targets, link=mh.SigmoidLink()),
        "one label a row": mh.Predictions(
            scores=scores + 3 * one_label(80), targets=one_label(80), link=mh.SigmoidLink()
        ),
        "one label at all": mh.Predictions(probs=probs[:, :1], targets=targets[:, :1]),
        "all rows empty": mh.Predictions(probs=probs, targets=torch.zeros_like(targets)),
        "all rows full": mh.Predictions(probs=probs, targets=torch.ones_like(targets)),
        "unknown cells": mh.Predictions(probs=probs, targets=unknown),
        "unknown rows": mh.Predictions(probs=probs, targets=half),
        "one row": mh.Predictions(probs=probs[:1], targets=targets[:1]),
        "ties": mh.Predictions(probs=torch.full((30, 3), 0.5), targets=targets[:30]),
        "certainty": mh.Predictions(probs=(probs > 0.5).float(), targets=targets),
        "a person asked": mh.Predictions(
            probs=probs, targets=targets, decisions=probs > 0.5, abstain=torch.arange(80) % 2 == 0
        ),
        "nothing given": mh.Predictions(probs=probs, targets=targets, decisions=torch.zeros_like(probs).bool()),
    }


@cache
def report_of(name):
    """The report of one of these tables, which several tests look at."""
    return Report({name: tables()[name]})


@pytest.mark.parametrize("name", tables())
def test_every_table_gives_a_report_that_can_be_drawn(name):
    report = report_of(name)
    found = words(undrawn(report))
    assert name in found
    assert "nan" not in found.lower().split()
    for figure in report.figures(dark=True).values():
        assert figure.axes


def test_what_does_not_apply_is_left_out_or_says_why():
    text = {name: words(undrawn(report_of(name))) for name in tables()}
    assert any("at least 50 % predicts" in drawing.alt for drawing in report_of("no decisions").plots)
    for name in ("no probabilities", "scores of unknown meaning"):
        assert "Left out: these scores are no probabilities until they are calibrated." in text[name]
        assert "These scores rank, but are no probabilities" in text[name]
        assert not {"sizes", "search"} & set(keys(report_of(name)))
    assert "together" not in keys(report_of("one label a row"))
    assert "one threshold for all" in text["one label a row"]
    assert "search" not in keys(report_of("one label at all"))
    assert "no label is present in the evaluated rows" in text["all rows empty"]
    assert "no-labels" not in keys(report_of("all rows empty"))
    assert "Unknown cells 60" in text["unknown cells"]
    assert "Abstained: 40 rows (50 %)." in text["a person asked"]


def test_the_threshold_of_a_rule_is_drawn_where_it_is_the_only_one(table):
    for rule, threshold in (
        (mh.Threshold(0.3), 0.3),
        (mh.AverageK(1).fit(table.probs), float(mh.AverageK(1).fit(table.probs).threshold)),
        (mh.NoneOfThese(mh.TopK(1), threshold=0.4), None),
        (mh.ExpectedFBeta(), None),
        (mh.Threshold(float("inf")), None),
    ):
        (subject,) = Report(table.replace(decisions=rule(table.probs), rule=rule)).models
        assert subject.threshold == threshold
        assert subject.rule == repr(rule)


def test_rows_without_labels_are_told_of(table):
    text = words(undrawn(Report(table)))
    assert re.search(
        r"Of \d+ rows without labels, \d+ \([\d.]+ %\) are given none; so are \d+ of the \d+ with labels", text
    )


def test_the_normaliser_of_the_quasibinary_loss_is_drawn(scenes, tmp_path):
    report = Report(trained(scenes, tmp_path / "quasi", loss="quasibinary"))
    assert keys(report).index("normaliser") == keys(report).index("training") - 1
    (drawing,) = [drawing for drawing in report.plots if drawing.key == "normaliser"]
    assert re.search(r"quasi: log C ends at -?\d\.\d\d after 4 steps", drawing.alt)
    assert drawing.draw(False).axes[0].get_ylabel() == "log C"
