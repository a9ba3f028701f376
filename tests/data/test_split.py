"""Splits keep the rate of every label, of rows without labels and, as far as it goes, of pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhot.data import SparseTargets
from manyhot.data.split import stratified_split
from tests.errors.expected import raises_input_error

THREE = {"train": 0.8, "val": 0.1, "test": 0.1}


def skewed(n=4000, labels=30, seed=0):
    """(N, K) from a label in 40 % of the rows to one in five rows; labels come in clusters, many rows have none."""
    draw = np.random.default_rng(seed)
    rates = 0.4 * (5 / n / 0.4) ** (np.arange(labels) / (labels - 1))
    mood = draw.random((n, 1)) < 0.5
    return (draw.random((n, labels)) < np.where(mood, 1.8, 0.2) * rates).astype(np.int8)


def off(dense, splits, shares):
    """(splits, K + 1) by how many rows each label, and having none, misses its share."""
    marks = np.concatenate([dense, dense.sum(1, keepdims=True) == 0], axis=1)
    return np.array([np.abs(marks[splits == name].sum(0) - share * marks.sum(0)) for name, share in shares.items()])


def pairs_off(dense, splits, shares):
    marks = dense.astype(np.int64)
    return np.mean(
        [
            np.abs(marks[splits == name].T @ marks[splits == name] - share * (marks.T @ marks)).mean()
            for name, share in shares.items()
        ]
    )


def random_split(n, shares, seed=1):
    sizes = [round(n * share) for share in shares.values()]
    return np.random.default_rng(seed).permutation(np.repeat(np.array(list(shares), dtype=object), sizes))


def iterative(dense, shares, seed=0):
    """Iterative stratification as its paper has it: the rarest label first, to the split that wants it most."""
    draw = np.random.default_rng(seed)
    names, parts = list(shares), np.array(list(shares.values()))
    wanted, wants = parts * len(dense), parts[:, None] * dense.sum(0)
    splits, left = np.full(len(dense), None, dtype=object), np.ones(len(dense), dtype=bool)
    while left.any():
        remaining = dense[left].sum(0)
        present = np.flatnonzero(remaining)
        label = present[remaining[present].argmin()] if len(present) else None
        rows = np.flatnonzero(left if label is None else left & (dense[:, label] == 1))
        for row in rows:
            order = (draw.random(len(parts)), wanted) + (() if label is None else (wants[:, label],))
            best = np.lexsort(order)[-1]
            splits[row], left[row] = names[best], False
            wanted[best] -= 1
            wants[best] -= dense[row]
    return splits


@pytest.mark.parametrize("shares", [THREE, {"a": 0.5, "b": 0.5}, {"a": 0.7, "b": 0.2, "c": 0.06, "d": 0.04}])
def test_every_label_keeps_its_share_to_about_a_row(shares):
    dense = skewed()
    splits = stratified_split(SparseTargets.from_dense(dense), shares)
    assert off(dense, splits, shares).max() <= 2
    assert off(dense, splits, shares).mean() < 0.5
    assert off(dense, splits, shares)[:, -1].max() <= 1  # rows without labels


def test_it_beats_a_random_split_and_iterative_stratification():
    dense = skewed()
    ours, peer = stratified_split(SparseTargets.from_dense(dense), THREE), iterative(dense, THREE)
    luck = [random_split(len(dense), THREE, seed) for seed in range(1, 6)]
    by_luck = np.mean([off(dense, splits, THREE).mean() for splits in luck])
    assert off(dense, peer, THREE).mean() < 0.3 * by_luck  # the oracle does its work
    assert off(dense, ours, THREE).mean() < 0.15 * by_luck
    assert off(dense, ours, THREE).mean() < off(dense, peer, THREE).mean()
    assert off(dense, ours, THREE).max() < off(dense, peer, THREE).max()
    assert pairs_off(dense, ours, THREE) < pairs_off(dense, peer, THREE)
    assert pairs_off(dense, ours, THREE) < 0.7 * np.mean([pairs_off(dense, splits, THREE) for splits in luck])


def test_very_rare_labels_are_spread():
    rows = [[0]] * 2 + [[1]] * 3 + [[2]] * 10 + [[3]] * 500 + [[]] * 485
    splits = stratified_split(SparseTargets.from_rows(rows, num_labels=4), {"a": 0.5, "b": 0.5})
    counts = [(splits[start:end] == "a").sum() for start, end in ((0, 2), (2, 5), (5, 15), (15, 515), (515, 1000))]
    assert counts[0] == 1
    assert counts[1] in (1, 2)
    assert counts[2:4] == [5, 250]
    assert counts[4] in (242, 243)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_sizes_are_exact_and_no_label_is_far_off(data):
    n, labels = data.draw(st.integers(0, 80)), data.draw(st.integers(0, 6))
    rate = data.draw(st.floats(0, 1))
    seed = data.draw(st.integers(0, 2**32 - 1))
    weights = data.draw(st.lists(st.integers(1, 20), min_size=1, max_size=4))
    shares = {f"s{place}": weight / sum(weights) for place, weight in enumerate(weights)}
    dense = (np.random.default_rng(seed).random((n, labels)) < rate).astype(np.int8)
    targets = SparseTargets.from_dense(dense)
    splits = stratified_split(targets, shares, seed=seed)
    assert len(splits) == n
    for name, share in shares.items():
        assert abs((splits == name).sum() - share * n) < 1
    assert off(dense, splits, shares).max(initial=0) <= 4
    np.testing.assert_array_equal(splits, stratified_split(targets, shares, seed=seed))


def test_the_seed_decides():
    targets = SparseTargets.from_dense(skewed(500))
    first, second = (stratified_split(targets, THREE, seed=seed) for seed in (0, 1))
    assert (first == stratified_split(targets, THREE, seed=0)).all()
    assert (first != second).any()
    assert first.dtype == object


def test_the_order_of_the_labels_does_not_matter_to_the_quality():
    dense = skewed(2000)[:, ::-1]
    assert off(dense, stratified_split(SparseTargets.from_dense(dense), THREE), THREE).max() <= 2


def test_groups_stay_together():
    dense = skewed(3000)
    groups = np.random.default_rng(0).integers(0, 900, len(dense))
    splits = stratified_split(SparseTargets.from_dense(dense), THREE, groups=groups)
    for group in np.unique(groups):
        assert len(set(splits[groups == group])) == 1
    assert off(dense, splits, THREE).mean() < 0.25 * off(dense, random_split(len(dense), THREE), THREE).mean()
    for name, share in THREE.items():
        assert abs((splits == name).sum() - share * len(dense)) <= 1
    names = [f"patient {group}" for group in groups.tolist()]
    assert (stratified_split(SparseTargets.from_dense(dense), THREE, groups=names) == splits).all()


def test_a_group_larger_than_any_split_goes_somewhere():
    targets = SparseTargets.from_rows([[0]] * 10, num_labels=1)
    splits = stratified_split(targets, {"a": 0.5, "b": 0.5}, groups=[1] * 9 + [2])
    assert len(set(splits[:9])) == 1
    assert splits[9] != splits[0]


def test_known_absences_among_unknown_cells_are_spread():
    rows, columns = np.arange(1000), np.zeros(1000, dtype=np.int64)
    values = np.where(np.arange(1000) % 10 == 0, 1, 0)
    values[500:] = -1
    targets = SparseTargets.from_cells(rows, columns, values, shape=(1000, 1), unlisted="unknown")
    splits = stratified_split(targets, {"a": 0.9, "b": 0.1})
    rest = targets.take(np.flatnonzero(splits == "b"))
    assert rest.counts().tolist() == [5]
    assert rest.known().tolist() == [50]


def test_refusals():
    targets = SparseTargets.from_rows([[0], []], num_labels=1)
    with raises_input_error("shares", "stratified_split", rule="add up to 1", got="0.9", hint="Pass"):
        stratified_split(targets, {"train": 0.8, "val": 0.1})
    with raises_input_error("shares", "stratified_split", rule="be a number above 0 and at most 1"):
        stratified_split(targets, {"train": 1.0, "val": 0})
    with raises_input_error("groups", "stratified_split", rule="name a group for each of the 2 rows"):
        stratified_split(targets, {"train": 1.0}, groups=[1, 2, 3])
    with raises_input_error(rule="add up to 1"):
        stratified_split(targets, {})
