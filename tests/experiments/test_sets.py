"""Data sets as materials: cut down, set aside, decoded once and reduced."""

import numpy as np
import pytest
import torch
from PIL import Image

from experiments.data import Augmentation, ReusableBackbone, Rows, decoded, feature_rows, made_once, reduced, rows_of
from manyhot.data import from_arrays
from manyhot.data.dataset import Dataset
from manyhot.data.sources import Files
from manyhot.data.targets import SparseTargets
from manyhot.engine import FitSettings
from manyhot.errors import InputError
from manyhot.labels import Labels
from tests.errors.expected import raises_input_error


def rows_with(labels, splits, *, num_labels=3, width=4):
    """Rows with these labels, whose samples are numbers that tell them apart."""
    n = len(labels)
    samples = torch.arange(n, dtype=torch.float32)[:, None].expand(n, width).clone()
    targets = SparseTargets.from_rows(labels, num_labels=num_labels)
    names = tuple("abcdefgh"[:num_labels])
    return Rows("set", names, targets, np.array(splits), samples, torch.arange(n))


def painted(folder, colours):
    """A data set of small pictures of one colour each."""
    for position, colour in enumerate(colours):
        Image.new("RGB", (10 + position, 6), colour).save(folder / f"{position}.png")
    names = [f"{position}.png" for position in range(len(colours))]
    targets = SparseTargets.from_rows([[0]] * len(colours), num_labels=1)
    return Dataset(
        Labels(["a"]), targets, names, images=Files(names, root=folder), splits=np.array(["train"] * len(names))
    )


def test_rows_that_are_set_aside_have_the_same_share_of_each_label():
    labels = [[0]] * 60 + [[1]] * 30 + [[2]] * 10 + [[0]] * 5
    rows = rows_with(labels, ["train"] * 100 + ["test"] * 5)
    held = rows.with_val(20)
    chosen = np.flatnonzero(held.splits == "val")
    assert len(chosen) == 20
    assert np.bincount(held.first_labels()[chosen]).tolist() == [12, 6, 2]
    assert (held.splits == "train").sum() == 80
    assert (held.splits[100:] == "test").all()
    assert (rows.splits != "val").all()
    assert np.array_equal(rows.with_val(20).splits, held.splits)
    assert not np.array_equal(rows.with_val(20, seed=1).splits, held.splits)


def test_rows_without_a_label_are_set_aside_in_their_share_too():
    held = rows_with([[]] * 50 + [[1, 2]] * 50, ["train"] * 100).with_val(10)
    assert (held.splits[:50] == "val").sum() == 5


def test_a_split_to_validate_by_is_left_alone():
    rows = rows_with([[0]] * 6, ["train"] * 4 + ["val", "test"])
    assert rows.with_val(3) is rows


def test_something_must_be_left_to_train_on():
    with pytest.raises(InputError) as caught:
        rows_with([[0]] * 6, ["train"] * 5 + ["test"]).with_val(5)
    rule = "`data` of `set` must have more than 5 rows to train on, since so many are set aside as 'val'"
    assert str(caught.value) == f"{rule}; got 5. Give the set a split 'val' of its own."


def test_rows_that_lose_all_their_labels_stay():
    cut = rows_with([[0], [1], [0, 2], []], ["train"] * 4).select([2, 1], "cut")
    assert cut.name == "cut"
    assert cut.labels == ("c", "b")
    assert cut.targets.dense().tolist() == [[0, 0], [0, 1], [1, 0], [0, 0]]
    assert cut.positions.tolist() == [0, 1, 2, 3]


def test_rows_are_taken_with_their_places():
    rows = rows_with([[0], [1], [2], [0, 1], []], ["train", "val", "test", "train", "other"])
    taken = rows.take([4, 3, 1], "taken").take([1, 2], "again")
    assert taken.name == "again"
    assert taken.samples is rows.samples
    assert taken.positions.tolist() == [3, 1]
    assert taken.splits.tolist() == ["train", "val"]
    places, targets = taken.of("train")
    assert places.tolist() == [3]
    assert targets.dense().tolist() == [[1, 1, 0]]


def test_the_lowest_label_of_each_row():
    assert rows_with([[2], [], [2, 1], [0, 2]], ["train"] * 4).first_labels().tolist() == [2, -1, 1, 0]


def test_features_are_measured_by_the_rows_to_train_on():
    generator = np.random.default_rng(0)
    x = (generator.normal(size=(50, 3)) * [1, 5, 2] + 7).astype(np.float32)
    splits = np.repeat(["train", "val", "test"], [30, 10, 10])
    targets = SparseTargets.from_rows([[row % 2] for row in range(50)], num_labels=2)
    rows = Rows("set", ("a", "b"), targets, splits, torch.from_numpy(x), torch.arange(50))
    material = rows.features()
    parts = material.parts(FitSettings())
    assert (material.width, material.backbone, set(parts)) == (3, None, {"train", "val", "test"})
    centred = x - x[:30].mean(0)
    expected = centred / np.sqrt((centred[:30] ** 2).mean())
    np.testing.assert_allclose(parts["train"].features, expected[:30], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(parts["test"].features, expected[40:], rtol=1e-4, atol=1e-5)


def test_only_pictures_to_train_on_are_changed():
    pixels = torch.randint(256, (6, 3, 4, 4), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    targets = SparseTargets.from_rows([[0]] * 6, num_labels=1)
    splits = np.array(["train", "val", "test"] * 2)
    rows = Rows("set", ("a",), targets, splits, pixels, torch.arange(6))
    material = rows.images(ReusableBackbone(lambda seed: None, torch.device("cpu")), 8, Augmentation(sizes=(2, 4)))
    parts = material.parts(FitSettings(epochs=2, seed=1))
    shapes = [next(parts["train"].load([[0, 1]], epoch=epoch)).inputs.shape for epoch in (0, 1)]
    assert shapes == [(2, 3, 2, 2), (2, 3, 4, 4)]
    assert torch.equal(next(parts["val"].load([[0, 1]], epoch=0)).inputs, pixels[[1, 4]])
    assert torch.equal(next(parts["test"].load([[1]], epoch=0)).inputs, pixels[[5]])
    others = material.parts(FitSettings(epochs=2, seed=2))
    drawn = [next(part["train"].load([[0, 1]], epoch=1)).inputs for part in (parts, others)]
    assert not torch.equal(*drawn)


def test_pictures_are_decoded_once(tmp_path):
    colours = [(250, 0, 0), (0, 120, 0), (3, 4, 200)]
    data, stored = painted(tmp_path, colours), tmp_path / "cache" / "set-4.npy"
    pixels = decoded(data, 4, stored, workers=2)
    assert pixels.shape == (3, 3, 4, 4)
    assert pixels.dtype == torch.uint8
    for image, colour in zip(pixels, colours, strict=True):
        assert image.flatten(1).unique(dim=1).flatten().tolist() == list(colour)
    for file in tmp_path.glob("*.png"):
        file.unlink()
    again = decoded(data, 4, stored)
    assert torch.equal(again, pixels)
    again.zero_()
    assert torch.equal(decoded(data, 4, stored), pixels)
    assert [file.name for file in stored.parent.iterdir() if file.suffix != ".lock"] == ["set-4.npy"]


def test_pictures_that_cannot_be_read_leave_nothing_behind(tmp_path):
    data = painted(tmp_path, [(1, 2, 3)] * 2)
    (tmp_path / "1.png").write_bytes(b"no picture")
    with pytest.raises(Exception, match=r"1\.png"):
        decoded(data, 4, tmp_path / "cache" / "set.npy", workers=1)
    assert not list((tmp_path / "cache").glob("*.npy"))
    assert not list((tmp_path / "cache").glob(".*.part"))


def test_a_file_is_made_by_the_first_who_wants_it(tmp_path):
    file = tmp_path / "deep" / "made.txt"
    with made_once(file) as missing:
        assert missing
        file.write_text("here")
    with made_once(file) as missing:
        assert not missing


def test_features_are_reduced_to_principal_components(tmp_path):
    generator = np.random.default_rng(0)
    x = generator.normal(size=(60, 5)) @ np.diag([5.0, 0.1, 3.0, 0.2, 1.0]) + 4
    splits = np.repeat(["train", "test"], [40, 20])
    y = np.eye(3, dtype=np.int8)[np.arange(60) % 3]
    data = from_arrays(x, y, labels=["a", "b", "c"], splits=splits)
    reduced(tmp_path / "new" / "features.npz", x, data, 3)
    rows = feature_rows(tmp_path / "new" / "features.npz", "set features")
    assert rows.labels == ("a", "b", "c")
    assert rows.splits.tolist() == splits.tolist()
    assert rows.targets.dense().numpy().tolist() == y.tolist()

    centred = x - x[:40].mean(0)
    _, _, axes = np.linalg.svd(centred[:40], full_matrices=False)
    expected = centred @ axes[:3].T
    result = rows.samples.double().numpy()
    assert result.shape == (60, 3)
    # An axis may point either way.
    signs = np.sign((result * expected).sum(0))
    np.testing.assert_allclose(result, expected * signs, rtol=2e-3, atol=2e-3)


def test_names_may_be_missing_in_feature_files(tmp_path):
    x, y = np.zeros((3, 2), np.float32), np.eye(3, dtype=np.int8)
    np.savez(tmp_path / "bare.npz", x=x, y=y, splits=np.array(["train", "val", "val"]))
    rows = feature_rows(tmp_path / "bare.npz", "set")
    assert rows.labels == ("0", "1", "2")
    assert rows.splits.tolist() == ["train", "val", "val"]


def test_data_without_splits_are_refused(tmp_path):
    data = from_arrays(np.zeros((2, 2)), np.eye(2, dtype=np.int8))
    with raises_input_error(
        "data", "mine", rule="have labels and splits", got="none", hint="See experiments/README.md"
    ):
        rows_of(data, torch.zeros(2, 2), "mine")
