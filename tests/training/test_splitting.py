"""Rows to train on, to calibrate on and to judge by: kept where they are given, drawn where they are not."""

import numpy as np
import pytest
import torch

from manyhot.data import Dataset, Files, SparseTargets, from_arrays
from manyhot.labels import Labels
from manyhot.training import TrainSettings
from manyhot.training.prepare import with_all_splits, with_learnable_labels
from tests.errors.expected import raises_input_error


@pytest.fixture
def targets():
    generator = torch.Generator().manual_seed(0)
    return (torch.rand(200, 4, generator=generator) < torch.tensor([0.5, 0.2, 0.1, 0.0])).to(torch.int8)


def data(targets, splits=None):
    return from_arrays(np.zeros((len(targets), 2), dtype=np.float32), targets.numpy(), splits=splits)


def test_splits_are_drawn_with_the_rate_of_every_label(targets):
    found = with_all_splits(data(targets), TrainSettings())
    assert found.split_sizes() == {"train": 140, "val": 30, "test": 30}
    for name, size in found.split_sizes().items():
        counts = found.of_split(name).targets.counts()
        assert np.abs(counts - size * targets.float().mean(0).numpy()).max() <= 1.5
    assert any("15% for 'val' and 15% for 'test'" in note for note in found.notes)


def test_the_data_of_the_caller_stay_as_they_were(targets):
    own = data(targets)
    before = list(own.notes)
    with_learnable_labels(with_all_splits(own, TrainSettings()), min_count=1)
    assert own.notes == before
    assert own.splits is None


def test_splits_that_are_there_are_kept(targets):
    splits = np.array(["train"] * 150 + ["test"] * 50, dtype=object)
    found = with_all_splits(data(targets, splits), TrainSettings())
    assert (found.splits[150:] == "test").all()
    assert found.split_sizes()["val"] == round(0.15 * 150)
    both = np.array((["train"] * 2 + ["val", "test"]) * 50, dtype=object)
    assert (with_all_splits(data(targets, both), TrainSettings()).splits == both).all()


def test_other_splits_are_not_used(targets):
    splits = np.array((["train"] * 2 + ["val", "extra"]) * 50, dtype=object)
    found = with_all_splits(data(targets, splits), TrainSettings(test=0.0))
    assert found.split_sizes() == {"train": 100, "val": 50}
    assert found.notes[-1] == "Rows of the splits 'extra' are not used."


def test_the_same_seed_draws_the_same_rows(targets):
    first, second = (with_all_splits(data(targets), TrainSettings()).splits for _ in range(2))
    assert (first == second).all()


def test_copies_of_a_picture_stay_together(tmp_path):
    generator = np.random.default_rng(0)
    paths = []
    for number in range(60):
        content = generator.bytes(200)
        for name in (f"{number}.jpg", f"copy-of-{number}.jpg"):
            (tmp_path / name).write_bytes(content)
            paths.append(name)
    targets = SparseTargets.from_rows([[number % 3] for number in range(120)], num_labels=3)
    images = Files(paths, root=tmp_path)
    found = with_all_splits(Dataset(Labels(list("abc")), targets, paths, images=images), TrainSettings())
    assert (found.splits[::2] == found.splits[1::2]).all()
    assert set(found.split_sizes()) == {"train", "val", "test"}


def test_data_without_rows_to_train_on(targets):
    with raises_input_error(rule="have rows called 'train'", got="'test'"):
        with_all_splits(data(targets, np.array(["test"] * 200, dtype=object)), TrainSettings())


def test_rare_labels_are_left_out_and_named(targets):
    found = with_learnable_labels(with_all_splits(data(targets), TrainSettings()), min_count=1)
    assert found.labels.names == ["0", "1", "2"]
    assert len(found) == 200
    assert found.notes[-1] == "Left out 1 labels with fewer than 1 rows to train on: 3."
    nothing = torch.zeros(200, 2, dtype=torch.int8)
    with raises_input_error(rule="have a label with 1 rows to train on", got="at most 0"):
        with_learnable_labels(with_all_splits(data(nothing), TrainSettings()), min_count=1)
    with raises_input_error(rule="have a label with 1000 rows to train on"):
        with_learnable_labels(with_all_splits(data(targets), TrainSettings()), min_count=1000)


@pytest.mark.parametrize("given", [None, "train and test"])
def test_corrections_move_no_row_between_splits(targets, given):
    splits = None if given is None else np.array((["train"] * 4 + ["test"]) * 40, dtype=object)
    own = data(targets, splits)
    rows = list(range(0, 200, 3))
    other = from_arrays(
        np.zeros((len(rows), 2), dtype=np.float32),
        1 - own.targets.dense(rows).numpy(),
        ids=[own.ids[row] for row in rows],
        labels=own.labels,
    )
    wanted = with_all_splits(own, TrainSettings()).splits
    once = own.corrected(other)
    assert (with_all_splits(once, TrainSettings()).splits == wanted).all()
    assert (with_all_splits(once.corrected(other), TrainSettings()).splits == wanted).all()
    order = np.random.default_rng(0).permutation(200)[:150]
    some = with_all_splits(own.take(order), TrainSettings()).splits
    assert (with_all_splits(once.take(order), TrainSettings()).splits == some).all()
    few = list(own.labels.names[:2])
    assert (
        with_all_splits(once.select_labels(few), TrainSettings()).splits
        == with_all_splits(own.select_labels(few), TrainSettings()).splits
    ).all()


def test_images_that_come_with_corrections_are_trained_on(targets, tmp_path):
    paths = [f"{row}.png" for row in range(200)]
    rows = SparseTargets.from_rows([torch.nonzero(row).flatten().tolist() for row in targets], num_labels=4)
    own = Dataset(Labels(list("abcd")), rows, paths, images=Files(paths, root=tmp_path))
    names = [f"new-{row}.png" for row in range(5)] + ["7.png"]
    new = SparseTargets.from_rows([[0]] * 6, num_labels=4)
    other = Dataset(Labels(list("abcd")), new, names, images=Files(names, root=tmp_path))
    for name in {*paths, *names}:
        (tmp_path / name).write_text(name)
    found = with_all_splits(own.corrected(other), TrainSettings())
    assert (found.splits[:200] == with_all_splits(own, TrainSettings()).splits).all()
    assert found.splits[200:].tolist() == ["train"] * 5
