"""Which rows, thresholds and lines a page speaks of."""

import re

import pytest
import torch
from fastapi.testclient import TestClient

import manyhot as mh
from manyhot.report import Report
from manyhot.report import sections as beyond
from manyhot.report.findings import format_share
from manyhot.report.sections import crossing, make_header, score_of_one_half
from manyhot.studio import open_studio
from manyhot.studio.app import build_api
from manyhot.studio.decisions import DecisionChoice
from tests.report_page.material import population


def section(report, key):
    (found,) = [section for section in report.sections if section.key == key]
    return found


def partly(times=20):
    """Rows that have two labels and are given two, as many of which nothing is known, and as many left to a person."""
    targets = torch.tensor([[1, 1, 0], [0, 1, 1], [-1, -1, -1], [-1, -1, -1], [1, 1, 1], [1, 1, 1]])
    given = torch.tensor([[1, 1, 0], [1, 0, 1], [1, 1, 1], [1, 1, 1], [0, 0, 0], [0, 0, 0]]).bool()
    abstain = torch.tensor([False, False, False, False, True, True])
    targets, given, abstain = targets.repeat(times, 1), given.repeat(times, 1), abstain.repeat(times)
    probs = torch.where(given, 0.8, 0.3)
    return mh.Predictions(probs=probs, targets=targets, decisions=given, abstain=abstain, labels=["a", "b", "c"])


def test_sizes_leave_out_unknown_rows_and_those_left_to_a_person():
    report = Report(partly())
    (drawing,) = section(report, "sizes").plots
    assert "as given predicts 2.00 labels on average, 2.00 are true" in drawing.alt
    assert "are not counted" in section(report, "sizes").paragraphs[1]
    assert ("Rows without known labels", "40") in make_header(report.models).facts


def test_labels_given_together_are_those_of_the_same_rows_in_the_same_order():
    true, given = (one.draw(False).axes[0] for one in section(Report(partly()), "together").plots)
    titles = [[text.get_text() for text in axis.get_yticklabels()] for axis in (true, given)]
    assert [sorted(one) for one in titles] == [["a (20)", "b (40)", "c (20)"], ["a (40)", "b (20)", "c (20)"]]
    names = [[title.split()[0] for title in one] for one in titles]
    assert names[0] == names[1]


def test_too_few_rows_are_told_of_instead_of_figures():
    report = Report(partly(times=1))
    assert [one.key for one in report.sections if one.key not in ("annotation-errors", "predictions")] == ["summary"]
    assert section(report, "summary").paragraphs == [
        "Too few rows to evaluate: 4 rows with known labels, and at least 30 are needed. So no figures are given."
    ]


def with_splits(table, *names):
    return table.replace(splits=[names[row % len(names)] for row in range(len(table))])


@pytest.mark.slow
def test_different_splits_are_named_for_each_model(run):
    (tuned,), (tested,) = Report({"tuned": run}, split="val").models, Report({"tested": run}).models
    head = make_header([tuned, tested])
    assert "different rows" in head.lead
    assert (
        "evaluated on 30 images of the split 'val', which it was tuned on (so that the figures are too rosy)"
        in (dict(head.facts)["tuned"])
    )
    assert "evaluated on 120 images of the split 'test'" in dict(head.facts)["tested"]


def test_training_rows_among_the_judged_ones_are_told_of(table):
    lead = make_header(Report(with_splits(table, "train", "val")).models).lead
    assert "120 rows of all splits together (train 60, val 60: training rows are among them" in lead
    assert "too rosy" in lead
    assert "all splits" not in make_header(Report(table).models).lead
    assert "60 rows of the split 'test'" in make_header(Report(with_splits(table, "train", "test")).models).lead
    assert "may be too rosy" in make_header(Report(with_splits(table, "val", "test"), split="val").models).lead


def alike(*tables):
    return Report(list(tables)).sections[1].paragraphs[0]


def test_the_same_rows_in_another_order_are_the_same_and_another_truth_is_not(table):
    turned = table.take(list(range(len(table)))[::-1])
    assert turned.ids != table.ids
    assert alike(table, turned).startswith("All were evaluated on the same rows")
    other = table.replace(targets=1 - table.targets)
    assert other.ids == table.ids
    assert "not evaluated with the same targets" in alike(table, other)


def test_a_threshold_on_scores_is_not_drawn_among_probabilities():
    probs, targets = population(100, 3)
    scores, rule = torch.logit(probs), mh.Threshold(0.4)
    table = mh.Predictions(scores=scores, targets=targets, link=mh.SigmoidLink())
    on_scores = table.replace(decisions=rule(scores), rule=rule)
    assert Report(on_scores).models[0].threshold is None
    on_probs = table.replace(decisions=rule(probs), rule=rule)
    assert Report(on_probs).models[0].threshold == 0.4


def test_the_line_of_one_half_is_that_of_the_calibrated_probabilities():
    probs, targets = population(400, 3)
    scores = torch.logit(probs) + 2
    shifted = mh.Predictions(scores=scores, probs=probs, targets=targets, link=mh.SigmoidLink())
    assert abs(score_of_one_half(Report(shifted).models[0]) - 2) < 0.05
    apart = shifted.replace(scores=scores + torch.tensor([0.0, 3.0, -3.0]))
    assert score_of_one_half(Report(apart).models[0]) is None
    said = [section(Report(one), "scores").plots[0] for one in (shifted, apart)]
    assert ["dotted line" in drawing.caption for drawing in said] == [True, False]
    legends = [[text.get_text() for text in one.draw(False).axes[0].get_legend().get_texts()] for one in said]
    assert re.fullmatch(r"one half at (1\.9|2\.0)\d", legends[0][-1])
    assert len(legends[1]) == 2
    assert crossing(scores, torch.full_like(scores, 0.2)) is None


def test_how_many_disagreements_chance_lets_expect(table):
    (found,) = Report(table).models
    forgotten, _ = section(Report(table), "annotation-errors").galleries
    sure = (found.probs >= 0.9) & (found.targets == 0)
    assert f"There {'is' if sure.sum() == 1 else 'are'} {int(sure.sum())} such cell" in forgotten.paragraphs[1]
    expected = float((1 - found.probs[found.probs >= 0.9]).sum())
    assert f"{expected:.1f} would be expected" in forgotten.paragraphs[1]
    assert all(bar.prob >= 0.9 for card in forgotten.cards for bar in card.bars if bar.marked)
    timid = Report(table.replace(probs=table.probs.clamp(0.1, 0.8), decisions=table.decisions))
    assert section(timid, "annotation-errors").galleries[0].paragraphs == [
        "There is none.",
        "If the model were calibrated and the targets correct, 0.0 would be expected.",
    ]


@pytest.mark.slow
def test_the_studio_shows_the_figures_of_the_report(run):
    report, (studio, _) = Report(run), open_studio(run.folder, read_only=True)
    values, labels = report.models[0].evaluation.values, report.models[0].evaluation.by_label()
    with TestClient(build_api(studio)) as client:

        def ask(path, **params):
            return client.get(f"/api/{path}", params=params).json()

        trust, decided, facts = ask("reliability"), ask("decide"), ask("collection")
        single = [ask("reliability", label=name) for name in labels.names]
        counted, sized = ask("collection", split="test"), ask("decide", split="test")
    assert (trust["ece"], trust["ace"]) == (values["ece"], values["ace"])
    assert facts["judged"] == "test"
    summary = section(report, "summary")
    assert trust["words"] == summary.findings[: len(trust["words"])]
    table = {row[0]: row[1].splitlines()[0] for group in summary.tables[0].groups for row in group.rows}
    assert (trust["ece_words"], trust["ace_words"]) == (table["ECE"], table["ACE"])
    assert [one["ece"] for one in single] == labels.columns["ece"].tolist()
    assert counted["present"] == labels.columns["present"].tolist()
    observed = decided["observed"]
    sets = [values[f"micro_{name}"] for name in ("precision", "recall", "f")]
    assert [observed[name] for name in ("precision", "recall", "f")] == sets
    assert (observed, sized["mean_size"]) == (sized["observed"], values["mean_size"])
    drawings = {drawing.key: drawing for drawing in report.plots}
    top, _ = drawings["reliability"].draw(False).axes
    assert points(top)["calibrated"] == [[b["promised"], b["observed"]] for b in trust["bins"] if b["cells"] >= 20]
    panels = drawings["reliability-of-labels"].draw(False).axes
    errors = {one["label"]: f"{100 * one['ece']:.1f} %" for one in single}
    told = {axis.get_title().rpartition(" (")[0]: legend(axis)["calibrated"] for axis in panels if axis.get_title()}
    assert told
    assert told == {name: errors[name] for name in told}


def test_the_studio_counts_labels_as_the_report_does_where_some_are_unknown(tmp_path):
    probs, targets = population(60, 4)
    targets = torch.where(torch.rand(60, 4, generator=torch.Generator().manual_seed(1)) < 0.4, -1, targets)
    ids = [f"{row}" for row in range(60)]
    table = mh.Predictions(probs=probs, targets=targets, decisions=probs >= 0.4, abstain=probs[:, 0] > 0.9, ids=ids)
    table.save(tmp_path / "table.parquet")
    values = Report(table).models[0].evaluation.values
    studio, _ = open_studio(tmp_path / "table.parquet", read_only=True)
    decided = studio.explorer.summary(DecisionChoice("rule"))
    observed = decided.observed
    assert decided.mean_size == values["mean_size"]
    assert [observed.precision, observed.recall] == [values["micro_precision"], values["micro_recall"]]


def test_the_studio_gives_no_figures_of_rows_that_are_too_few_to_judge_by(tmp_path):
    probs, targets = population(60, 4)
    ids, splits = [f"{row}" for row in range(60)], ["val"] * 31 + ["test"] * 29
    table = mh.Predictions(probs=probs, targets=targets, decisions=probs >= 0.4, ids=ids, splits=splits)
    table.save(tmp_path / "table.parquet")
    studio, _ = open_studio(tmp_path / "table.parquet", read_only=True)
    with TestClient(build_api(studio)) as client:
        trust, enough = (client.get("/api/reliability", params=one).json() for one in ({}, {"split": "val"}))
        decided = client.get("/api/decide").json()
    assert trust["words"] == [
        "Too few rows to evaluate: 29 rows with known labels, and at least 30 are needed. So no figures are given."
    ]
    assert [decided["too_small"]] == trust["words"] == section(Report(table), "summary").paragraphs
    assert (trust["bins"], trust["ece"], trust["ace_words"], decided["observed"]) == ([], None, "–", None)
    assert enough["ece"] == mh.evaluate(table, split="val")["ece"]


def points(axis):
    """What is drawn with bars, by the name of the curve."""
    return {bars.get_label().partition(":")[0]: bars.lines[0].get_xydata().tolist() for bars in axis.containers}


def legend(axis):
    """The numbers that a legend tells, by the name of the curve."""
    return dict(text.get_text().split(": ") for text in axis.get_legend().get_texts())


def test_search_is_judged_on_rows_drawn_from_all_of_them(monkeypatch):
    probs, targets = population(400, 3)
    ordered = targets.sum(1).argsort(stable=True)  # rows with few labels first
    seen = []

    class Noted(beyond.RetrievalCurve):
        def update(self, values, targets):
            seen.append(targets)
            return super().update(values, targets)

    monkeypatch.setattr(beyond, "RetrievalCurve", Noted)
    monkeypatch.setattr(beyond, "MAX_SEARCH_ROWS", 200)
    table = mh.Predictions(probs=probs[ordered], targets=targets[ordered])
    for _ in range(2):
        section(Report(table), "search")
    (first, second), share = seen, targets.float().mean()
    assert len(first) == 200
    assert torch.equal(first, second)
    assert abs(first.float().mean() - share) < 0.05


def test_rows_without_labels_are_told_apart_as_in_the_evaluation():
    """Of scores whose probabilities are rounded to 1, which scores still rank."""
    probs, targets = population(200, 3)
    scores = torch.logit(probs) + 18
    saturated = mh.Predictions(scores=scores, probs=torch.sigmoid(scores), targets=targets)
    assert float((saturated.probs == 1).float().mean()) > 0.3
    report = Report(saturated)
    (table,) = section(report, "no-labels").tables
    area = mh.evaluate(saturated)["no_label_auroc"]
    assert report.models[0].evaluation["no_label_auroc"] == area
    assert table.groups[0].rows[0][-1] == format_share(area)
    by_probs = mh.metrics.OpenSetScores().update(saturated.probs, targets).compute()["auroc"]
    assert format_share(by_probs) != format_share(area)
