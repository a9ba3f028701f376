"""Sparse targets say the same as the dense table they stand for."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from manyhot.data import SparseTargets, from_arrays
from tests.errors.expected import raises_input_error

TABLES = hnp.arrays(
    np.int8,
    st.tuples(st.integers(0, 12), st.integers(1, 6)),
    elements=st.sampled_from([-1, 0, 1]),
)
# With an empty row, a full one, one of which nothing is known, and a label that is known nowhere.
TABLE = np.array([[0, 0, 0, -1], [1, 1, 1, -1], [-1, -1, -1, -1], [1, 0, -1, -1], [0, 1, 1, -1]], dtype=np.int8)


@settings(deadline=None, max_examples=60)
@given(TABLES, st.sampled_from(["absent", "unknown"]))
def test_every_answer_equals_that_of_the_dense_table(table, unlisted):
    rows, columns = np.nonzero(table != (0 if unlisted == "absent" else -1))
    shuffled = np.random.default_rng(0).permutation(len(rows))
    rows, columns = rows[shuffled], columns[shuffled]
    targets = SparseTargets.from_cells(rows, columns, table[rows, columns], shape=table.shape, unlisted=unlisted)
    present = (table == 1).astype(int)
    assert targets.shape == table.shape
    assert (targets.dense().numpy() == table).all()
    assert (targets.counts() == present.sum(0)).all()
    assert (targets.known() == (table >= 0).sum(0)).all()
    assert (targets.sizes() == present.sum(1)).all()
    assert (targets.cooccurrence() == present.T @ present).all()
    assert np.allclose(targets.rates(), (present.sum(0) + 0.5) / ((table >= 0).sum(0) + 1))
    assert (np.stack(targets.present()) == np.stack(np.nonzero(present))).all()
    order = np.arange(table.shape[1])[::-1][: max(1, table.shape[1] - 1)]
    assert (targets.select(order.tolist()).dense().numpy() == table[:, order]).all()
    again = SparseTargets.from_dense(table)
    assert (again.dense().numpy() == table).all()


@pytest.mark.parametrize("rows", [[3, 0, 3], [], [True, False, False, True, True], torch.tensor([4, 1])])
def test_take(rows):
    targets = SparseTargets.from_dense(torch.from_numpy(TABLE))
    index = np.asarray(rows) if len(rows) else np.empty(0, int)
    assert (targets.take(rows).dense().numpy() == TABLE[index]).all()
    assert targets.dense([1, 3]).dtype == torch.int8


@pytest.mark.parametrize(("unlisted", "value"), [("absent", 0), ("unknown", -1)])
def test_a_new_label_is_what_cells_are_that_are_not_stored(unlisted, value):
    targets = SparseTargets.from_rows([[1], [], [0, 1]], num_labels=2, unlisted=unlisted)
    found = targets.extended(labels=1).select([-1, 1, 2, -1]).dense()
    assert found.tolist() == [[value, 1, -1, value], [value, value, -1, value], [value, 1, -1, value]]


def test_the_rarer_value_is_stored():
    mostly_unknown = np.where(np.eye(6) == 1, 1, -1)
    assert SparseTargets.from_dense(mostly_unknown).unlisted == "unknown"
    assert len(SparseTargets.from_dense(mostly_unknown).columns) == 6
    assert SparseTargets.from_dense(np.eye(6)).values is None


def test_of_a_cell_that_comes_twice_the_higher_value_holds():
    cells = ([0, 0, 0, 1, 1], [0, 0, 0, 1, 1], [-1, 1, 0, -1, 0])
    targets = SparseTargets.from_cells(*map(np.array, cells), shape=(2, 2), unlisted="unknown")
    assert targets.dense().tolist() == [[1, -1], [-1, 0]]
    assert SparseTargets.from_rows([[1, 1, 0]], num_labels=2).dense().tolist() == [[1, 1]]


def test_sparse_matrices():
    for kind in (sparse.csr_matrix, sparse.coo_array, sparse.csc_matrix):
        assert (SparseTargets.from_sparse(kind(TABLE)).dense().numpy() == TABLE).all()


def test_counting_pairs_in_pieces(monkeypatch):
    monkeypatch.setattr("manyhot.data.targets.PAIRS", 3)
    present = (np.random.default_rng(0).random((40, 5)) < 0.4).astype(int)
    assert (SparseTargets.from_dense(present).cooccurrence() == present.T @ present).all()


def test_a_million_rows_take_the_memory_of_their_labels():
    starts = np.arange(0, 3_000_001, 3)
    targets = SparseTargets(starts, np.tile([3, 200, 499], 1_000_000), num_labels=500)
    stored = targets.starts.nbytes + targets.columns.nbytes
    assert targets.shape == (1_000_000, 500)
    assert stored < 25_000_000
    assert targets.counts()[[3, 4]].tolist() == [1_000_000, 0]
    assert repr(targets) == "SparseTargets(1,000,000 rows x 500 labels; 3,000,000 cells stored)"


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: SparseTargets.from_rows([[2]], num_labels=2),
            "`columns` of `SparseTargets` must name columns from 0 to 1; got 2",
        ),
        (lambda: SparseTargets.from_rows([[-1]], num_labels=2), "must name columns from 0 to 1; got -1"),
        (lambda: SparseTargets.from_dense(np.array([[2]])), "`targets` of `SparseTargets` must be 1, 0 or -1; got 2"),
        (lambda: SparseTargets.from_dense(np.zeros(3)), r"must be \(N, K\); got \(3,\)"),
        (
            lambda: SparseTargets.from_sparse(sparse.csr_matrix([[0.5]])),
            "must be 1, 0 or -1 where they are stored; got 0.5",
        ),
        (
            lambda: SparseTargets.from_rows([[0]], num_labels=1).take([-1]),
            "`rows` of `SparseTargets` must lie between 0 and 0; got -1",
        ),
        (
            lambda: SparseTargets.from_rows([[0], [0]], num_labels=1).take(np.array([True])),
            r"`rows` of `SparseTargets` must be \(n,\) whole numbers or \(2,\) bool; got \(1,\) of bool",
        ),
        (
            lambda: from_arrays(np.eye(2), [["a"], []]).take([0.5]),
            r"`rows` of `Dataset.take` must be \(n,\) whole numbers or \(2,\) bool; got \(1,\) of float64",
        ),
        (
            lambda: SparseTargets.from_rows([[0]], num_labels=1, unlisted="zero"),
            "`unlisted` of `SparseTargets` must be one of",
        ),
    ],
)
def test_refusals(make, sentence):
    with raises_input_error(match=sentence):
        make()
