"""Whether samples match, against all ways in which unknown targets could turn out."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhot as mh
from manyhot.search.diagram import compile_query
from manyhot.search.evaluate import match_targets
from manyhot.search.formula import And, Count, Label, Not, holds
from tests.errors.expected import raises_input_error
from tests.search.formulas import formulas, tangles

LABELS = 4
ROWS = np.array(list(itertools.product((1, 0, -1), repeat=LABELS)))
VECTORS = Path(__file__).parents[1] / "reference/vectors/retrieval.json"


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.one_of(formulas(LABELS), tangles(LABELS)))
def test_a_match_is_unknown_only_if_it_depends_on_what_is_unknown(formula):
    diagram = compile_query(formula, LABELS)
    got = match_targets(diagram, ROWS)
    there = {labels: holds(formula, {k for k in range(LABELS) if labels[k]}) for labels in _sets()}
    for row, answer in zip(ROWS.tolist(), got.tolist(), strict=True):
        ways = {there[labels] for labels in _sets() if all(t in (-1, int(x)) for t, x in zip(row, labels, strict=True))}
        assert answer == (-1 if len(ways) == 2 else int(ways.pop()))


def _sets():
    return itertools.product((False, True), repeat=LABELS)


@pytest.mark.slow
def test_hundreds_of_unknown_labels_stay_unknown():
    targets = np.full((1, 600), -1)
    assert match_targets(compile_query(Count(0, 0), 600), targets).tolist() == [-1]
    assert match_targets(compile_query(Count(300, None), 600), targets).tolist() == [-1]
    targets[0, :301] = 0
    assert match_targets(compile_query(Count(300, None), 600), targets).tolist() == [0]


def test_the_vectors_of_retrieval_come_out():
    for case in json.loads(VECTORS.read_text())["cases"]:
        targets = np.array(case["inputs"]["targets"])
        for query, want in zip(case["inputs"]["queries"], case["expected"]["per_query"], strict=True):
            parts = [*map(Label, query["P"]), *(Not(Label(column)) for column in query["N"])]
            diagram = compile_query(And(tuple(parts)), targets.shape[1])
            assert match_targets(diagram, targets).tolist() == want["relevant"]


def test_targets_of_any_kind_are_taken_and_others_refused():
    query = mh.Query("cat & !dog", ["cat", "dog"])
    assert query.matches(torch.tensor([[True, False]])).tolist() == [1]
    assert query.matches(torch.tensor([[1.0, -1.0]])).tolist() == [-1]
    assert query.matches([[1, 0]]).tolist() == [1]
    assert query.matches(torch.zeros(0, 2)).dtype == torch.int8
    with raises_input_error("targets", "Query", rule="be (N, 2) like the labels of the query", got="(1, 3)"):
        query.matches(torch.zeros(1, 3))
    with raises_input_error("targets", "Query", rule="be 1, 0 or -1", got="0.5"):
        query.matches(torch.full((1, 2), 0.5))
