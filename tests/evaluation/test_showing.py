"""An evaluation as text, on a terminal, in a notebook and as JSON."""

import json
import math

import pytest
import torch
from rich.console import Console

import manyhot as mh
from manyhot.evaluation import catalog as names
from tests.evaluation import tables


@pytest.fixture(scope="module")
def evaluation():
    return mh.evaluate(tables.with_link(), intervals=0.9, replicates=5, train_counts=[5, 50, 500, 50, 500, 19])


def on_terminal(shown, width=200):
    console = Console(width=width, force_terminal=False)
    with console.capture() as capture:
        console.print(shown)
    return capture.get()


def test_text_is_in_percent_with_counts_and_notes(evaluation):
    lines = str(evaluation).splitlines()
    assert lines[0] == "Evaluation of 400 rows x 6 labels (scores, targets)"
    (line,) = [line for line in lines if "mAP over labels" in line]
    interval = evaluation.intervals["map"]
    assert f"{100 * evaluation['map']:.2f} %" in line
    assert f"[{100 * interval.low:.2f} %, {100 * interval.high:.2f} %]" in line
    assert line.endswith("labels: 4, labels without positives: 2")
    assert "  Note: Probabilities are those of SigmoidLink." in lines
    assert f"{evaluation['log_loss']:.4g}" in next(line for line in lines if line.startswith("  log loss"))


def test_every_value_is_shown_everywhere(evaluation):
    text, html, terminal = str(evaluation), evaluation._repr_html_(), on_terminal(evaluation)
    for name in evaluation.values:
        for shown in (text, html, terminal):
            assert names.metric_title(name) in shown
    for name in evaluation.groups:
        for shown in (text, html, terminal):
            assert names.GROUP_TITLES[name] in shown


def test_a_group_that_is_left_out_shows_its_note():
    scores, targets = tables.drawn()
    evaluation = mh.evaluate(mh.Predictions(scores=scores, targets=targets))
    note = "these scores mean no probability until calibrated"
    for shown in (str(evaluation), evaluation._repr_html_(), on_terminal(evaluation)):
        assert note in shown
        assert "Probabilities" in shown


def test_json_holds_everything_and_no_nan(evaluation):
    found = json.loads(evaluation.to_json(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert found["counts"]["rows"] == 400
    assert found["level"] == 0.9
    assert found["kinds"] == ["scores", "targets"]
    ranking = found["groups"]["ranking"]["values"]["map"]
    assert ranking["value"] == evaluation["map"]
    assert ranking["low"] == evaluation.intervals["map"].low
    assert ranking["counts"] == {"labels": 4, "labels without positives": 2}
    assert found["by_label"]["label"] == evaluation.by_label().names
    assert found["by_label"]["ap"][3] is None
    assert len(found["groups"]["probabilities"]["details"]["edges"]) == 16
    assert math.isnan(mh.evaluate(tables.with_link(rows=0))["map"])
    assert mh.evaluate(tables.with_link(rows=0)).to_dict()["groups"]["ranking"]["values"]["map"]["value"] is None


def test_details_are_the_reliability_curve_and_the_sizes(evaluation):
    details = evaluation.groups["probabilities"].details
    cells = int((tables.with_link().targets >= 0).sum())
    assert int(details["cells"].sum()) == cells
    assert set(details) == {"cells", "mean_prob", "share_present", "edges"}
    assert int(evaluation.groups["sets"].details["sizes"].sum()) == 400


def test_the_table_of_labels(evaluation):
    table = evaluation.by_label()
    assert len(table) == 6
    lines = str(table).splitlines()
    titles = "label training known present AP % AUROC % ECE % Brier log loss given prec. % rec. % F1 %"
    assert " ".join(lines[0].split()) == titles
    assert lines[4].startswith("label 3")
    assert "–" in lines[4]
    ap = f"{100 * table.columns['ap'][0].item():.1f}"
    for shown in (lines[1], on_terminal(table), table._repr_html_()):
        assert ap in shown


def test_a_terminal_of_eighty_characters_shows_names_whole():
    labels = mh.evaluate(tables.with_link()).by_label()
    assert max(map(len, on_terminal(labels, 80).splitlines())) <= 80
    assert "label 3 " in on_terminal(labels, 80)


def test_names_of_labels_are_shown_as_they_are():
    targets = torch.tensor([[1, 0], [0, 1]])
    table = mh.Predictions(scores=torch.eye(2), targets=targets, labels=["[red]apple[/red]", "<b>pear</b>"])
    labels = mh.evaluate(table).by_label()
    assert "[red]apple[/red]" in on_terminal(labels)
    assert "&lt;b&gt;pear&lt;/b&gt;" in labels._repr_html_()


@pytest.mark.parametrize("name", names.METRIC_INFO)
def test_names_are_unique(name):
    assert sum(title == names.METRIC_INFO[name] for title in names.METRIC_INFO.values()) == 1
