"""Probabilities by SQL on DuckDB, against sums over all sets of labels and against torch."""

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhot.search import sql
from manyhot.search.diagram import compile_query
from manyhot.search.evaluate import log_probs
from manyhot.search.formula import And, Count, Label, Not, Or
from tests.errors.expected import raises_input_error
from tests.search.formulas import Worlds, formulas, tangles

LABELS = 5
A, B, C, D, E = map(Label, range(LABELS))
NAMES = {column: f"prob:{column}" for column in range(LABELS)}


def rows_of_probs():
    random = np.random.default_rng(5)
    rows = 1 / (1 + np.exp(-random.normal(size=(9, LABELS)) * np.linspace(0.5, 12, 9)[:, None]))
    rows[0] = [0, 1, 0.5, 1, 0]
    rows[1] = 0
    rows[2] = 1
    return rows


PROBS = rows_of_probs()
WORLDS = Worlds(PROBS, 1 - PROBS)


def table(connection, name, probs, kind="DOUBLE"):
    connection.execute("SET threads = 1")
    columns = ", ".join(f"{sql.quote_name(f'prob:{column}')} {kind}" for column in range(len(probs[0])))
    connection.execute(f"CREATE TABLE {name} (id INTEGER, {columns})")
    marks = ", ".join("?" for _ in range(len(probs[0]) + 1))
    connection.executemany(
        f"INSERT INTO {name} VALUES ({marks})", [[place, *map(float, row)] for place, row in enumerate(probs)]
    )


@pytest.fixture(scope="module")
def database():
    with duckdb.connect() as connection:
        table(connection, "photos", PROBS)
        yield connection


def ask(connection, formula, num_labels=LABELS):
    """The probabilities and their logarithms, in the order of the rows."""
    names = {column: f"prob:{column}" for column in range(num_labels)}
    statement = sql.select_statement(compile_query(formula, num_labels), "photos", names, ["id"])
    return np.array(sorted(connection.execute(statement).fetchall()), dtype=float).T[1:]


def exact(formula, probs):
    diagram = compile_query(formula, probs.shape[1])
    return log_probs(diagram, {column: probs[:, column] for column in diagram.columns}, len(probs))[1]


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(formula=st.one_of(formulas(LABELS), tangles(LABELS)))
def test_any_formula_has_the_sum_over_all_sets_where_it_holds(database, formula):
    got, logs = ask(database, formula)
    np.testing.assert_allclose(got, WORLDS.probs(formula)[0], rtol=1e-12, atol=0)
    np.testing.assert_allclose(logs, WORLDS.log_probs(formula), rtol=1e-11, atol=0)
    assert got.max() <= 1


def test_conjunctions_never_underflow_and_nothing_is_rounded_to_one():
    random = np.random.default_rng(0)
    faint = 10.0 ** random.uniform(-300, -100, size=(6, LABELS))
    sure = 10.0 ** random.uniform(-12, -9, size=(6, LABELS))
    wide = np.where(random.random((6, LABELS)) < 0.5, faint, 0.5)
    conjunctions = [And((A, B, C)), And((Not(A), Not(B))), Count(0, 0), Count(5, None)]
    others = [
        Or((And((A, B)), And((B, C)), And((C, A)))),
        Count(3, None),
        Not(Count(3, None)),
        And((Or((A, B)), Count(4, 4))),
        Count(2, 3, (And((A, B)), C, Or((A, D)), E)),
        Or((A, B, C)),
    ]
    for rows, asked in ((np.concatenate([faint, wide]), conjunctions), (np.concatenate([1 - sure, sure]), others)):
        with duckdb.connect() as connection:
            table(connection, "photos", rows)
            for formula in asked:
                got = ask(connection, formula)[1]
                np.testing.assert_allclose(got, exact(formula, rows), rtol=1e-11, atol=0, err_msg=str(formula))


def test_columns_of_32_bits_are_computed_with_64():
    probs = np.float32([[0.1, 0.7, 0.25, 1e-30, 1e-3]])
    with duckdb.connect() as connection:
        table(connection, "photos", probs, "FLOAT")
        prob, _ = ask(connection, And((A, Not(B), D)))
        wide = probs.astype(np.float64)[0]
        assert prob[0] == pytest.approx(wide[0] * (1 - wide[1]) * wide[3], rel=1e-15)


@pytest.mark.parametrize(
    "formula",
    [
        Count(3, None),
        Count(150, None),
        Count(0, 0),
        Not(Count(0, 0)),
        And((A, Or((B, C)), Count(3, 4))),
        Or(tuple(map(Label, range(300)))),
        And((A, B, Count(2, 2))),
    ],
)
def test_hundreds_of_labels_are_counted_in_texts_of_moderate_size(formula):
    num_labels = 300
    probs = np.random.default_rng(1).random((3, num_labels)) * 0.02
    with duckdb.connect() as connection:
        table(connection, "photos", probs)
        text = sql.select_statement(
            compile_query(formula, num_labels), "photos", {k: f"prob:{k}" for k in range(num_labels)}, ["id"], k=3
        )
        assert len(text) < 500 * num_labels
        found = connection.execute(text).fetchall()
    want = exact(formula, probs)
    np.testing.assert_allclose([log for _, _, log in sorted(found)], want, rtol=1e-11)
    assert [place for place, _, _ in found] == np.argsort(-want).tolist()


def test_a_probability_that_is_missing_makes_the_answer_missing():
    with duckdb.connect() as connection:
        table(connection, "photos", PROBS)
        connection.execute('UPDATE photos SET "prob:1" = NULL WHERE id = 4')
        for formula in (And((A, B)), Or((And((A, B)), And((B, C)))), Count(2, None)):
            assert np.isnan(ask(connection, formula)[1][4])


def test_kept_columns_keep_their_names_and_clash_with_nothing():
    source = '(SELECT id, "prob:0" AS a, "prob:1" AS b, id + 1 AS p0, id + 2 AS k0, id + 3 AS "h""0" FROM photos)'
    texts = ["p0", "k0", 'h"0', "id"]
    with duckdb.connect() as connection:
        table(connection, "photos", PROBS)
        for formula in (And((A, B)), Or((A, B)), Or((And((A, Not(B))), And((B, Not(A))))), And(()), Or(())):
            text = sql.select_statement(compile_query(formula, 2), source, {0: "a", 1: "b"}, texts)
            answer = connection.execute(f"SELECT * FROM ({text}) AS s ORDER BY id")
            assert [column[0] for column in answer.description] == [*texts, "probability", "log_probability"]
            assert answer.fetchall()[4][:4] == (5, 6, 7, 4)


@settings(max_examples=150, deadline=None)
@given(name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1), value=st.text())
def test_names_and_texts_of_any_letters_come_back(database, name, value):
    value = "".join(letter for letter in value if letter != "\0" and not 0xD800 <= ord(letter) < 0xE000)
    answer = database.execute(f"SELECT {sql.quote_text(value)} AS {sql.quote_name(name)}")
    assert answer.description[0][0] == name
    assert answer.fetchall() == [(value,)]


def test_names_that_no_engine_takes_are_refused():
    with raises_input_error(rule="have letters", got="an empty one"):
        sql.quote_name("")
    with raises_input_error("text", "quote_text", rule="have no zero byte"):
        sql.quote_text("a\0b")


def test_statements_that_would_be_too_deep_are_refused(monkeypatch):
    monkeypatch.setattr(sql, "MAX_LEVELS", 20)
    clauses = [Or((Label(column), Label(column + 1), Label(column + 2))) for column in range(250)]
    diagram = compile_query(And(tuple(clauses)), 260)
    with raises_input_error("query", rule="need at most 20 nested queries as SQL"):
        sql.select_statement(diagram, "photos", {column: f"c{column}" for column in range(260)}, ["id"])


def test_a_conjunction_is_a_plain_product_over_its_columns():
    text = sql.select_statement(compile_query(And((A, Not(C))), LABELS), "photos", NAMES, ["id"])
    assert "p0*(1-p2) AS probability" in text
    assert text.count("SELECT") == 3
