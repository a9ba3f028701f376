"""Probabilities by SQL on DuckDB, against sums over all sets of labels and against torch."""

import duckdb
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhot.search import sql
from manyhot.search.diagram import compile_query
from manyhot.search.formula import And, Count, Label, Not, Or
from manyhot.search.tensors import log_probs
from tests.errors.expected import raises_input_error
from tests.search.formulas import Worlds, formulas, tangles

LABELS = 5
A, B, C, D, E = map(Label, range(LABELS))
NAMES = {column: sql.quote_name(f"prob:{column}") for column in range(LABELS)}


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


def ask(connection, text):
    return np.array(connection.execute(f"SELECT * FROM ({text}) AS asked ORDER BY id").fetchall(), dtype=float).T


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(formula=st.one_of(formulas(LABELS), tangles(LABELS)))
def test_any_formula_has_the_sum_over_all_sets_where_it_holds(database, formula):
    diagram = compile_query(formula, LABELS)
    want, logs = WORLDS.probs(formula)[0], WORLDS.log_probs(formula)
    _, got, got_logs = ask(database, sql.scored_query(diagram, "photos", NAMES, ["id"]))
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=0)
    np.testing.assert_allclose(got_logs, logs, rtol=1e-11, atol=0)
    _, alone = ask(database, sql.probability_query(diagram, "photos", NAMES, ["id"]))
    np.testing.assert_allclose(alone, want, rtol=1e-12, atol=0)
    assert max(got.max(), alone.max()) <= 1
    short = sql.scored_query(diagram, "photos", NAMES, ["id"], min_prob=1e-100)
    np.testing.assert_allclose(ask(database, short)[2], logs, rtol=1e-11, atol=0)


def test_nothing_underflows_and_nothing_is_rounded_to_one():
    random = np.random.default_rng(0)
    faint = 10.0 ** random.uniform(-300, -100, size=(6, LABELS))
    sure = 10.0 ** random.uniform(-12, -9, size=(6, LABELS))
    wide = np.where(random.random((6, LABELS)) < 0.5, faint, 0.5)
    probs = np.concatenate([faint, 1 - sure, sure, wide])
    odds = torch.special.logit(torch.tensor(probs))
    with duckdb.connect() as connection:
        table(connection, "photos", probs)
        for formula in (
            And((A, B, C)),
            And((Not(A), Not(B))),
            Count(0, 0),
            Or((And((A, B)), And((B, C)), And((C, A)))),
            Count(3, None),
            Not(Count(3, None)),
            And((Or((A, B)), Count(4, 4))),
            Count(2, 3, (And((A, B)), C, Or((A, D)), E)),
            Or((A, B, C)),
        ):
            diagram = compile_query(formula, LABELS)
            want = log_probs(diagram, odds[:, list(diagram.columns)]).numpy()
            got = ask(connection, sql.scored_query(diagram, "photos", NAMES, ["id"]))[2]
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=0, err_msg=str(formula))
            assert not len(want[want < -700]) or len(set(got[want < -700])) == len(set(want[want < -700]))


def test_columns_of_32_bits_are_computed_with_64():
    probs = np.float32([[0.1, 0.7, 0.25, 1e-30, 1e-3]])
    with duckdb.connect() as connection:
        table(connection, "photos", probs, "FLOAT")
        diagram = compile_query(And((A, Not(B), D)), LABELS)
        _, prob, _ = ask(connection, sql.scored_query(diagram, "photos", NAMES, ["id"]))
        wide = probs.astype(np.float64)[0]
        assert prob[0] == pytest.approx(wide[0] * (1 - wide[1]) * wide[3], rel=1e-15)


@pytest.mark.parametrize("formula", [Count(3, None), Count(0, 0), Not(Count(0, 0)), And((A, Or((B, C)), Count(3, 4)))])
def test_hundreds_of_labels_are_counted_in_texts_of_moderate_size(formula):
    num_labels = 300
    random = np.random.default_rng(1)
    probs = random.random((3, num_labels)) * 0.02
    names = {column: sql.quote_name(f"prob:{column}") for column in range(num_labels)}
    diagram = compile_query(formula, num_labels)
    odds = torch.special.logit(torch.tensor(probs))
    want = log_probs(diagram, odds[:, list(diagram.columns)]).numpy()
    with duckdb.connect() as connection:
        table(connection, "photos", probs)
        text = sql.scored_query(diagram, "photos", names, ["id"], min_prob=1e-200)
        assert len(text) < 500 * num_labels
        best = f"SELECT id, log_probability FROM ({text}) AS scored ORDER BY log_probability DESC LIMIT 3"
        found = connection.execute(best).fetchall()
    np.testing.assert_allclose([log for _, log in sorted(found)], want, rtol=1e-11)
    assert [place for place, _ in found] == np.argsort(-want).tolist()


def test_a_probability_that_is_missing_makes_the_answer_missing():
    with duckdb.connect() as connection:
        table(connection, "photos", PROBS)
        connection.execute('UPDATE photos SET "prob:1" = NULL WHERE id = 4')
        for formula in (And((A, B)), Or((And((A, B)), And((B, C)))), Count(2, None)):
            text = sql.scored_query(compile_query(formula, LABELS), "photos", NAMES, ["id"])
            assert connection.execute(f"SELECT * FROM ({text}) AS s WHERE id = 4").fetchall() == [(4, None, None)]


def test_kept_columns_keep_their_names_and_clash_with_nothing():
    source = (
        '(SELECT id, "prob:0" AS a, "prob:1" AS b, id + 1 AS p0, id + 2 AS k0, id + 3 AS "AS ""x" FROM photos) AS t'
    )
    extra_columns = ["p0", "t.k0", '"AS ""x"', 'id * 2 AS "twice, AS said"', "id"]
    with duckdb.connect() as connection:
        table(connection, "photos", PROBS)
        for formula in (And((A, B)), Or((A, B)), Or((And((A, Not(B))), And((B, Not(A))))), And(()), Or(())):
            for write in (sql.probability_query, sql.scored_query):
                text = write(compile_query(formula, 2), source, {0: "a", 1: "b"}, extra_columns)
                answer = connection.execute(f"SELECT * FROM ({text}) AS s ORDER BY id")
                names = [column[0] for column in answer.description]
                assert names[:6] == ["p0", "k0", 'AS "x', "twice, AS said", "id", "probability"]
                assert answer.fetchall()[4][:5] == (5, 6, 7, 8, 4)
    with raises_input_error("extra_columns", "sql", rule="hold columns, or expressions with AS and a name"):
        sql.scored_query(compile_query(A, 1), "photos", {0: "a"}, ["id + 1"])


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


@pytest.mark.slow
def test_statements_that_would_be_endless_are_refused():
    diagram = compile_query(Count(450, 550), 1000)
    with raises_input_error("diagram", "sql", rule="need at most 150,000 sums and products as SQL", got="more"):
        sql.probability_query(diagram, "photos", {column: f"c{column}" for column in range(1000)}, [])


def test_statements_that_would_be_too_deep_are_refused():
    diagram = compile_query(And((Or(tuple(map(Label, range(250)))), Count(3, None))), 260)
    names = {column: f"c{column}" for column in range(260)}
    assert sql.scored_query(diagram, "photos", names, [], min_prob=1e-200).count("SELECT") < 800
    with raises_input_error("diagram", "sql", rule="need at most 800 nested queries as SQL"):
        sql.scored_query(diagram, "photos", names, [])


def test_a_conjunction_is_a_plain_product_over_its_columns():
    diagram = compile_query(And((A, Not(C))), LABELS)
    text = sql.probability_query(diagram, "photos", NAMES, [])
    assert text == 'SELECT CAST("prob:0" AS DOUBLE)*(1-CAST("prob:2" AS DOUBLE)) AS probability\nFROM photos'
