"""Long tails and lost labels: counts in closed form, evenness over superclasses, and the words of errors."""

from collections import Counter

import numpy as np
import pytest

from experiments.datasets import CIFAR100, long_tailed, read_layout, superclasses_of, zero_label_columns
from manyhot.errors import InputError
from tests.errors.expected import raises_input_error
from tests.experiments import unpacked_sets


def test_cifar100_has_twenty_superclasses_of_five():
    assert len(CIFAR100) == 100
    assert set(Counter(CIFAR100.values()).values()) == {5}
    assert len(set(CIFAR100.values())) == 20


def test_superclasses_of_cifar100_are_those_of_its_file(tmp_path):
    unpacked_sets.cifar100(tmp_path)
    assert superclasses_of(read_layout(tmp_path)) == ["fruit_and_vegetables", "people", "aquatic_mammals"]


@pytest.mark.parametrize("seed", [0, 1])
def test_sixty_classes_of_cifar100_keep_their_label(seed):
    names = np.random.default_rng(seed).permutation(sorted(CIFAR100)).tolist()
    stored = zero_label_columns(names, superclasses_of(names))
    assert len(stored) == 60
    assert stored == sorted(stored)
    assert set(Counter(CIFAR100[names[column]] for column in stored).values()) == {3}
    # Whatever the order of columns, the same classes: of the people, man and woman come last.
    assert {names[column] for column in stored} & {"baby", "boy", "girl", "man", "woman"} == {"baby", "boy", "girl"}


def test_wordnet_ids_are_grouped_with_their_neighbours():
    names = [f"n{number:08d} thing {number}" for number in range(200, 0, -1)]
    groups = superclasses_of(names)
    assert set(Counter(groups).values()) == {5}
    assert groups[-5:] == ["n00000001 to n00000005"] * 5
    stored = zero_label_columns(names, groups)
    assert len(stored) == 120
    assert [names[column][:9] for column in stored[-3:]] == ["n00000003", "n00000002", "n00000001"]


def test_no_group_of_wordnet_ids_is_smaller_than_five_where_there_are_five():
    sizes = Counter(superclasses_of([f"n{number:08d}-dog" for number in range(13)])).values()
    assert sorted(sizes) == [6, 7]
    assert len(set(superclasses_of(["n00000001", "n00000002"]))) == 1


def test_rows_of_lost_labels_stay_without_one(tmp_path):
    unpacked_sets.cifar100(tmp_path)
    data = read_layout(tmp_path)
    stored = zero_label_columns(data.labels.names, ["one", "one", "one"], 2)
    lost = data.select_labels([data.labels.names[column] for column in stored])
    assert lost.labels.names == ["apple"]
    assert lost.targets.sizes().tolist() == [0, 0, 1]


def test_labels_without_superclasses_are_refused():
    with pytest.raises(InputError) as caught:
        superclasses_of(["n01443537 goldfish", "cat"])
    assert str(caught.value) == (
        "`data` of `superclasses_of` must have the labels of CIFAR-100, or labels that start with a WordNet id such as "
        "'n01443537'; got 'cat'. Write down the superclass of each label yourself."
    )
    with raises_input_error(got="none"):
        superclasses_of([])


def test_groups_must_fit_and_be_large_enough():
    with raises_input_error("groups", "zero_label_columns", rule="have one entry for each of the 2 labels"):
        zero_label_columns(["a", "b"], ["x"])
    with raises_input_error(rule="have more than 2 labels each", got="2 in 'x'", hint="Drop fewer, or join groups."):
        zero_label_columns(["a", "b"], ["x", "x"])
    with raises_input_error("drop_per_group", "zero_label_columns"):
        zero_label_columns(["a", "b"], ["x", "x"], 0)


def test_a_long_tail_falls_exponentially():
    labels = np.random.default_rng(5).permutation(np.repeat(np.arange(5), 1000))
    rows = long_tailed(labels, ratio=100, seed=3)
    assert sorted(np.bincount(labels[rows]).tolist()) == [10, 31, 100, 316, 1000]
    assert np.array_equal(rows, np.unique(rows))


def test_the_last_of_500_at_a_ratio_of_100_is_5_for_any_number_of_classes():
    for count in range(2, 40):
        labels = np.repeat(np.arange(count), 500)
        sizes = np.bincount(labels[long_tailed(labels)])
        assert (sizes.min(), sizes.max()) == (5, 500)


def test_a_long_tail_is_drawn_by_its_seed():
    labels = np.repeat(np.arange(10), 50)
    same, again, other = (long_tailed(labels, seed=seed) for seed in (0, 0, 1))
    assert np.array_equal(same, again)
    assert not np.array_equal(same, other)
    heads = {int(np.bincount(labels[long_tailed(labels, seed=seed)]).argmax()) for seed in range(20)}
    assert len(heads) > 3


def test_small_classes_keep_what_they_have_and_none_is_lost():
    labels = np.repeat([0, 1, 7], [1000, 2, 3])
    for seed in range(6):
        sizes = np.bincount(labels[long_tailed(labels, ratio=10_000, seed=seed)], minlength=8)
        assert sizes[[0, 1, 7]].min() >= 1
        assert (sizes <= np.bincount(labels, minlength=8)).all()
    assert len(long_tailed(labels, ratio=1)) == len(labels)
    assert long_tailed(np.zeros(4, dtype=int)).tolist() == [0, 1, 2, 3]
    assert long_tailed(np.zeros(0, dtype=int)).tolist() == []


@pytest.mark.parametrize("labels", [[0.0, 1.0], [[0, 1]], [0, -1]])
def test_rows_without_one_label_have_no_tail(labels):
    with raises_input_error("labels_of_rows", "long_tailed", rule="be (N,) of whole numbers from 0"):
        long_tailed(labels)
    with raises_input_error("ratio", "long_tailed", rule="be a number at least 1", got="0.5"):
        long_tailed([0, 1], ratio=0.5)
