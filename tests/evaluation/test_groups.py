"""What is left out, and what is said about it; bad input; edges."""

import json
import math
import re

import pytest
import torch

import manyhot as mh
from manyhot.evaluation import pipeline as findings
from tests.errors.expected import raises_input_error
from tests.evaluation import tables


def scores_only(link=None):
    scores, targets = tables.drawn()
    return mh.Predictions(scores=scores, targets=targets, link=link)


@pytest.mark.parametrize("link", [None, mh.TwoWayLoss().link])
def test_scores_that_mean_no_probability(link):
    evaluation = mh.evaluate(scores_only(link))
    assert evaluation.groups["probabilities"].values == {}
    assert evaluation.groups["probabilities"].notes == [
        "Left out: these scores mean no probability until calibrated. Run calibrate."
    ]
    assert evaluation.groups["sets"].values == {}
    assert evaluation.groups["sets"].notes == [
        "Left out: there are neither decisions nor probabilities to decide by. Run decide."
    ]
    outside = evaluation.groups["no_label"]
    assert "mmc" not in outside.values
    assert outside.values["no_label_auroc"].value > 0.5
    assert outside.notes == ["By scores, since there are no probabilities; so there is no mean maximum confidence."]
    assert "ece" not in evaluation.by_label().columns
    assert "f" not in evaluation.by_label().columns


def test_scores_with_decisions_are_judged_as_sets():
    scores, targets = tables.drawn()
    evaluation = mh.evaluate(mh.Predictions(scores=scores, targets=targets, decisions=scores > 0))
    assert evaluation["micro_f"] > 0
    assert evaluation.groups["probabilities"].values == {}


def test_decisions_that_nobody_made_are_said_to_be_so():
    notes = mh.evaluate(tables.with_link()).groups["sets"].notes
    assert notes[0] == "Without decisions, labels with a probability of at least 50 % count as predicted."
    assert notes[1] == "Rows without labels and decisions count as 0 in F1 over rows, and as 1 in Jaccard."


def test_groups_appear_only_where_they_apply():
    everything = set(mh.evaluate(tables.with_link()).groups)
    assert everything == {"ranking", "probabilities", "sets", "no_label"}
    assert "one_label" in mh.evaluate(tables.one_label()).groups
    scores, targets = tables.drawn()
    labelled = (targets > 0).any(1)
    table = mh.Predictions(scores=scores[labelled], targets=targets[labelled], link=mh.SigmoidLink())
    assert "no_label" not in mh.evaluate(table).groups
    assert "shots" in mh.evaluate(table, train_counts=torch.zeros(6, dtype=torch.int64)).groups


def test_counts_say_what_was_left_out():
    table = tables.with_link()
    evaluation = mh.evaluate(table)
    unknown_rows = int((table.targets < 0).all(1).sum())
    empty = int(((table.targets <= 0).all(1) & (table.targets >= 0).any(1)).sum())
    assert evaluation.counts == {
        "rows": 400,
        "labels": 6,
        "present cells": int((table.targets > 0).sum()),
        "unknown cells": int((table.targets < 0).sum()),
        "rows without labels": empty,
        "rows without known cells": unknown_rows,
        "labels without positives": 2,
    }
    ranking = evaluation.groups["ranking"].values
    assert ranking["map"].counts == {"labels": 4, "labels without positives": 2}
    assert ranking["map_sample"].counts == {"rows": 400 - empty - unknown_rows, "rows without positives": empty}


def test_too_many_cells_are_not_ranked_together(monkeypatch):
    monkeypatch.setattr(findings, "MOST_RANKED_CELLS", 1000)
    ranking = mh.evaluate(tables.with_link()).groups["ranking"]
    assert "map_cell" not in ranking.values
    assert ranking.notes[1:] == ["All cells are ranked together only up to 1,000 of them."]


def edge_tables():
    scores = tables.drawn(rows=8)[0][:6, :3]
    ones, none = torch.ones(6, 3, dtype=torch.int8), torch.full((6, 3), -1, dtype=torch.int8)
    yield "no rows", scores[:0], ones[:0]
    yield "one row", scores[:1], ones[:1]
    yield "one label", scores[:, :1], torch.tensor([[1], [0], [1], [0], [-1], [0]])
    yield "rows without labels", scores, ones * 0
    yield "rows with all labels", scores, ones
    yield "unknown cells only", scores, none
    yield "a column never known", scores, torch.cat([ones[:, :2], none[:, :1]], 1)
    yield "ties", scores * 0, torch.cat([ones[:3], ones[3:] * 0])
    yield "large scores", scores.sign() * 1e4, torch.cat([ones[:3], ones[3:] * 0])
    yield "half precision", scores.half(), torch.cat([ones[:3], ones[3:] * 0])
    yield "arrays", scores.double().numpy(), ones.numpy()


@pytest.mark.parametrize(("name", "scores", "targets"), [pytest.param(*edge, id=edge[0]) for edge in edge_tables()])
def test_edges(name, scores, targets):
    table = mh.Predictions(scores=scores, targets=targets, link=mh.SigmoidLink())
    evaluation = mh.evaluate(table, intervals=0.9, replicates=3)
    assert all(isinstance(value, float) for value in evaluation.values.values())
    assert len(str(evaluation)) > 100
    assert len(evaluation.by_label()) == targets.shape[1]
    json.loads(evaluation.to_json(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    if name == "no rows":
        assert all(math.isnan(value) for value in evaluation.values.values())


def test_the_input_is_left_as_it_was():
    table = tables.with_decisions()
    before = {kind: getattr(table, kind).clone() for kind in table.kinds}
    mh.evaluate(table, intervals=0.9, replicates=2)
    for kind, values in before.items():
        assert torch.equal(getattr(table, kind), values)


ONE_A_LABEL = "have one number for each of the 6 labels"


def refused(sentence):
    return raises_input_error(match=f"^{re.escape(sentence)}$")


def test_without_targets():
    with raises_input_error(
        "predictions",
        "evaluate",
        rule="hold targets",
        got="scores",
        hint="Add the true labels with `replace(targets=...)`.",
    ):
        mh.evaluate(mh.Predictions(scores=torch.zeros(2, 2)))


def test_what_is_not_a_table():
    with raises_input_error(
        "predictions",
        "evaluate",
        rule="be a table of predictions",
        got="a tensor of torch.float32",
        hint="Pass `Predictions(scores=..., targets=...)`, or open a file with",
    ):
        mh.evaluate(torch.zeros(2, 2))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"bins": 0}, "`bins` of `evaluate` must be a whole number, at least 1; got 0."),
        ({"ks": ()}, "`ks` of `evaluate` must be one or more whole numbers; got tuple."),
        ({"ks": 3}, "`ks` of `evaluate` must be one or more whole numbers; got int."),
        ({"ks": (0,)}, "`ks` of `evaluate` must be a whole number, at least 1; got 0."),
        ({"top_k": 0}, "`top_k` of `evaluate` must be a whole number, at least 1; got 0."),
        ({"intervals": 95}, "`intervals` of `evaluate` must be a number above 0 and below 1; got 95."),
        ({"replicates": 0}, "`replicates` of `evaluate` must be a whole number, at least 1; got 0."),
        ({"train_counts": [1]}, f"`train_counts` of `evaluate` must {ONE_A_LABEL}; got (1,)."),
        ({"train_counts": "many"}, "`train_counts` of `evaluate` must be (K,) of numbers; got str."),
        ({"train_counts": {"label 0": 3}}, "`train_counts` of `evaluate` must name every label; got none for"),
        ({"train_counts": [-1] * 6}, "`train_counts` of `evaluate` must not be negative; got -1."),
    ],
)
def test_refusals(options, sentence):
    with raises_input_error(match=f"^{re.escape(sentence)}"):
        mh.evaluate(tables.with_link(), **options)


def test_a_value_that_is_not_there():
    evaluation = mh.evaluate(tables.with_link())
    with raises_input_error(rule="be one of its values", got="'mAP'", hint="There are map, map_sample,"):
        evaluation["mAP"]
