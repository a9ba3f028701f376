"""The probability of formulas against sums over all sets of labels, and against mpmath where numbers are extreme."""

import itertools
import json
from pathlib import Path

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings

import manyhot as mh
from manyhot.search.diagram import Branch, Tally, Unnamed, compile_query
from manyhot.search.evaluate import LOG_ODDS, PROBS, log_probs
from manyhot.search.formula import And, Count, Label, Not, Or
from tests.errors.expected import raises_input_error
from tests.search.formulas import Worlds, formulas, tangles

LABELS = 5
VECTORS = Path(__file__).parents[1] / "reference/vectors/retrieval.json"


def logs_of(formula, cells, encoding=LOG_ODDS):
    """The logarithms of a formula for a table of all labels."""
    cells = np.asarray(cells)
    diagram = compile_query(formula, cells.shape[1])
    return log_probs(diagram, {column: cells[:, column] for column in diagram.columns}, len(cells), encoding)[1]


def odds_of_rows():
    random = np.random.default_rng(3)
    rows = random.normal(size=(12, LABELS)) * np.linspace(0.5, 14, 12)[:, None]
    rows[0] = [np.inf, -np.inf, 0, np.inf, 1]
    rows[1] = np.inf
    rows[2] = -np.inf
    return torch.tensor(rows)


ODDS = odds_of_rows()
PROBABILITIES = torch.sigmoid(ODDS)
WORLDS = Worlds(torch.sigmoid(ODDS).numpy(), torch.sigmoid(-ODDS).numpy())


def check(formula):
    np.testing.assert_allclose(logs_of(formula, ODDS), WORLDS.log_probs(formula), rtol=1e-12, atol=0)
    np.testing.assert_allclose(logs_of(formula, PROBABILITIES, PROBS), WORLDS.log_probs(formula), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(formulas(LABELS))
def test_any_formula_has_the_sum_over_all_sets_where_it_holds(formula):
    check(formula)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(tangles(LABELS))
def test_formulas_that_share_labels_have_the_sum_over_all_sets_where_they_hold(formula):
    check(formula)


def exact(formula, odds):
    """The logarithm at 60 digits, for log-odds of few labels."""
    with mpmath.workdps(60):
        here = [1 / (1 + mpmath.exp(-mpmath.mpf(value))) for value in odds]
        gone = [1 / (1 + mpmath.exp(mpmath.mpf(value))) for value in odds]
        there = Worlds(np.zeros((1, len(odds))), np.zeros((1, len(odds))))
        held = failed = mpmath.mpf(0)
        for labels, true in zip(there.sets, there.true(formula), strict=True):
            weight = mpmath.fprod(here[k] if k in labels else gone[k] for k in range(len(odds)))
            held, failed = (held + weight, failed) if true else (held, failed + weight)
        return float(mpmath.log(held) if held < failed else mpmath.log1p(-failed))


A, B, C, D = map(Label, range(4))
TANGLED = [
    Or((And((A, B)), And((B, C)), And((C, A)))),
    Not(Or((And((A, B)), And((Not(B), C)), And((C, D))))),
    Count(2, 3, (A, B, Or((A, C)), D)),
    And((Or((A, B)), Count(1, 2))),
    Count(3, None),
    Or((A, B, C, D)),
    And((A, Not(B), C)),
]


@pytest.mark.parametrize("formula", TANGLED)
@pytest.mark.parametrize("scale", [1.0, 30.0, 400.0, 1e4])
def test_logarithms_are_relatively_right_however_small_or_near_to_one_a_probability_is(formula, scale):
    rows = torch.tensor(list(itertools.product((-1.1, 0.9), (-1.3, 1.05), (-0.7, 0.8), (-1.2, 1.7)))).double() * scale
    want = np.array([exact(formula, row.tolist()) for row in rows])
    np.testing.assert_allclose(logs_of(formula, rows), want, rtol=1e-12, atol=1e-305)


def test_eighty_rare_labels_do_not_underflow():
    everything = And(tuple(map(Label, range(80))))
    odds = torch.full((1, 80), float(mpmath.log(mpmath.mpf("1e-9") / (1 - mpmath.mpf("1e-9")))), dtype=torch.float64)
    assert logs_of(everything, odds).item() == pytest.approx(-80 * 9 * np.log(10), rel=1e-12)
    with mpmath.workdps(50):
        chance = mpmath.mpf("1e-9")
        tail = mpmath.fsum(mpmath.binomial(80, k) * chance**k * (1 - chance) ** (80 - k) for k in range(40, 81))
        assert logs_of(Count(40, None), odds).item() == pytest.approx(float(mpmath.log(tail)), rel=1e-12)


def test_rows_that_all_but_surely_match_keep_their_order():
    rows = np.arange(55.0, 75.0)[:, None] + np.zeros(3)
    scores = logs_of(Or((And((A, B)), And((B, C)), And((C, A)))), rows)
    assert (np.exp(scores) == 1).all()
    assert (scores[1:] > scores[:-1]).all()
    assert (scores < 0).all()


def test_rows_are_scored_the_same_alone_and_among_many():
    formula = Or((And((A, B)), Count(3, None)))
    odds = torch.randn(70_000, 40, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 3
    some = torch.tensor([0, 1, 51_000, 52_429, 69_999])
    np.testing.assert_allclose(logs_of(formula, odds)[some], logs_of(formula, odds[some]), rtol=1e-13, atol=0)


def test_the_vectors_of_retrieval_come_out():
    for case in json.loads(VECTORS.read_text())["cases"]:
        logits = torch.tensor([[float(cell) for cell in row] for row in case["inputs"]["logits"]], dtype=torch.float64)
        for query, want in zip(case["inputs"]["queries"], case["expected"]["per_query"], strict=True):
            parts = [*map(Label, query["P"]), *(Not(Label(column)) for column in query["N"])]
            got = logs_of(And(tuple(parts)), logits)
            wanted = [float(score) for score in want["log_scores"]]
            np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(
    ("formula", "literals"),
    [
        (And((A, B, Count(2, 2))), [(0, True), (1, True), (2, False), (3, False), (4, False)]),
        (Count(0, 0), [(k, False) for k in range(5)]),
        (Count(5, None), [(k, True) for k in range(5)]),
        (Not(Or((A, Not(C)))), [(0, False), (2, True)]),
        (And((A, Or((A, B)), Or((Not(A), C)))), [(0, True), (2, True)]),
        (Count(2, None, (A, Not(B))), [(0, True), (1, False)]),
        (A, [(0, True)]),
        (And(()), []),
    ],
)
def test_what_says_of_each_label_what_it_is_becomes_a_plain_list(formula, literals):
    diagram = compile_query(formula, 5)
    assert list(diagram.literals) == literals
    assert diagram.columns == tuple(column for column, _ in literals)


@pytest.mark.parametrize("formula", [Or(()), And((A, Not(A))), Count(3, 2), Count(6, None), Count(1, 1, (A, A))])
def test_what_cannot_be_reads_no_column(formula):
    diagram = compile_query(formula, 5)
    assert diagram.columns == ()
    assert diagram.literals is None
    assert log_probs(diagram, {}, 2)[1].tolist() == [-np.inf, -np.inf]


def kinds(diagram, kind):
    return [node for _, node, _ in diagram.steps if isinstance(node, kind)]


def test_independent_parts_are_multiplied_and_counted_without_a_choice():
    diagram = compile_query(And((Or((A, B)), Count(1, 2, (C, D, And((Label(4), Label(5))))))), 6)
    assert not kinds(diagram, Branch)
    assert len(kinds(diagram, Tally)) == 1


def test_labels_without_a_name_are_counted_once_for_all_branches():
    diagram = compile_query(And((Or((A, B)), Or((B, C)), Count(2, 4))), 50)
    assert len(diagram.unnamed) == 47
    assert [unnamed.cap for unnamed in kinds(diagram, Unnamed)] == [4]


def test_counts_of_fewer_labels_are_parts_of_counts_of_more():
    names = tuple(Label(column) for column in (7, 3, 20, 11, 5, 2, 16, 0))
    diagram = compile_query(And((Or(names), Count(3, None))), 30)
    assert max(len(tally.parts) for tally in kinds(diagram, Tally)) == 1
    assert len(kinds(diagram, Tally)) == 7


@pytest.mark.slow
def test_chains_of_labels_stay_small_in_counts_and_in_conjunctions():
    pairs = tuple((Label(column), Label(column + 1)) for column in range(60))
    assert len(compile_query(And(tuple(map(Or, pairs))), 61).steps) < 400
    assert len(compile_query(Count(5, 9, tuple(map(And, pairs))), 61).steps) < 3000


def test_a_count_reaches_no_further_than_its_limit_from_either_end():
    assert [unnamed.cap for unnamed in kinds(compile_query(Count(3, None), 90), Unnamed)] == [3]
    assert [unnamed.cap for unnamed in kinds(compile_query(Count(88, None), 90), Unnamed)] == [3]
    assert [unnamed.cap for unnamed in kinds(compile_query(Count(2, 4), 90), Unnamed)] == [5]


def test_what_says_little_of_many_labels_has_few_nodes():
    assert len(compile_query(And((A, B, Count(2, 2))), 5000).steps) < 10
    assert len(compile_query(And((A, B, Count(2, 2))), 5000).columns) == 5000


@pytest.mark.slow
def test_deep_formulas_are_taken_or_refused_in_a_sentence():
    nots, deep = A, A
    for level in range(5000):
        nots = Not(nots)
        deep = And((Label(level % 7), Or((Not(Label(level % 5)), deep))))
    assert compile_query(nots, 3).literals == ((0, True),)
    fresh = Label(0)
    for level in range(1, 56):
        fresh = (And if level % 2 else Or)((Label(level % 11), Not(Label(level % 13)), fresh))
    compile_query(fresh, 60)
    for level in range(56, 5000):
        fresh = (And if level % 2 else Or)((Label(level), fresh))
    with raises_input_error(rule="have at most 60 levels of nested conditions", got="more"):
        compile_query(fresh, 6000)


@pytest.mark.slow
def test_formulas_that_tie_too_much_together_are_refused():
    random = np.random.default_rng(0)
    clauses = [
        Or(tuple(Label(int(k)) if random.random() < 0.5 else Not(Label(int(k))) for k in random.choice(120, 4)))
        for _ in range(300)
    ]
    words = "must have a decision diagram of at most 20,000 nodes; got one that ties too many labels together"
    with raises_input_error(match=words):
        compile_query(And(tuple(clauses)), 120)


def test_input_that_does_not_fit_is_refused():
    with raises_input_error(rule="name columns of its 3 labels", got="column 3"):
        compile_query(Label(3), 3)
    query = mh.Query("cat & dog", ["cat", "dog", "bird"])
    with raises_input_error("log_odds", "Query", rule="be (N, 3) like the labels of the query", got="(4, 2)"):
        query.log_probs(torch.zeros(4, 2))
    with raises_input_error("log_odds", "Query", rule="be numbers", got="NaN at row 0, column 1"):
        query.log_probs(torch.tensor([[0.0, torch.nan, 0.0]]))
