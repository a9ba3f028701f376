"""Datasets by name: what each variant keeps, and sets that are read from disk."""

import numpy as np
import pytest
import torch
from PIL import Image

from experiments.data import (
    KINDS,
    MAKERS,
    Catalogue,
    Rows,
    fit_settings_for,
    generate,
    input_settings,
    is_features,
    kind_of,
    part_of,
    with_long_tail,
    with_unknown_classes,
    without_some_labels,
)
from experiments.datasets import LAYOUTS
from manyhot.data.targets import SparseTargets
from manyhot.engine import FitSettings
from manyhot.errors import InputError

LABELS = 10
EACH = {"train": 200, "val": 4, "test": 5}


def one_label_each():
    """`EACH` rows of every label and split; a sample is the number of its row."""
    splits = np.repeat(list(EACH), [LABELS * count for count in EACH.values()])
    n = len(splits)
    labels = [[row % LABELS] for row in range(n)]
    targets = SparseTargets.from_rows(labels, num_labels=LABELS)
    names = tuple(f"n{position:08d} label" for position in range(LABELS))
    return Rows("set", names, targets, splits, torch.arange(n, dtype=torch.float32)[:, None], torch.arange(n))


def counts(rows, split):
    return rows.of(split)[1].counts().tolist()


def places(rows, split):
    return set(rows.of(split)[0].tolist())


def assert_splits_stay_apart(whole, rows, *, same=("train", "val", "test")):
    """No row is in two splits, none came in twice, and rows keep the split they had."""
    assert len(set(rows.positions.tolist())) == len(rows.positions)
    for split in same:
        assert places(rows, split) <= places(whole, split)


def test_two_of_every_five_labels_are_dropped_and_their_rows_stay_without_one():
    whole = one_label_each()
    rows = without_some_labels(whole, "set: zero labels")
    assert rows.labels == tuple(whole.labels[column] for column in (0, 1, 2, 5, 6, 7))
    assert_splits_stay_apart(whole, rows)
    for split, each in EACH.items():
        sizes = rows.of(split)[1].sizes()
        assert len(sizes) == LABELS * each
        assert (sizes == 0).sum() == 4 * each
        assert counts(rows, split) == [each] * 6


def test_a_third_of_many_labels_is_dropped_over_all_frequencies():
    whole = generate("coco")
    rows = without_some_labels(whole, "coco: zero labels")
    order = np.argsort(-whole.targets.counts(), kind="stable")
    dropped = [position for position, column in enumerate(order) if whole.labels[column] not in rows.labels]
    assert dropped == [1, 4, 7, 10, 13]
    assert list(rows.labels) == sorted(rows.labels)
    assert len(rows.targets) == len(whole.targets)
    assert (rows.targets.sizes() == 0).any()
    stored = [whole.labels.index(label) for label in rows.labels]
    assert torch.equal(rows.targets.dense(), whole.targets.dense()[:, stored])


def test_strangers_are_met_in_the_test_alone():
    whole = one_label_each()
    rows = with_unknown_classes(whole, "set: open set")
    assert_splits_stay_apart(whole, rows)
    for split in ("train", "val"):
        sizes = rows.of(split)[1].sizes()
        assert (sizes == 1).all()
        assert len(sizes) == 6 * EACH[split]
    assert (rows.of("test")[1].sizes() == 0).sum() == 4 * EACH["test"]
    assert places(rows, "test") == places(whole, "test")


def test_a_long_tail_thins_out_the_rows_to_train_on_alone():
    whole = one_label_each()
    rows = with_long_tail(whole, "set: long-tailed")
    assert_splits_stay_apart(whole, rows)
    expected = [int(200 * 100 ** (-position / (LABELS - 1)) + 1e-9) for position in range(LABELS)]
    assert sorted(counts(rows, "train"), reverse=True) == expected
    assert (expected[0], expected[-1]) == (200, 2)
    for split in ("val", "test"):
        assert places(rows, split) == places(whole, split)


def test_a_part_never_sees_the_test():
    whole = one_label_each()
    rows = part_of(whole, "set: part")
    assert_splits_stay_apart(whole, rows, same=("train", "val"))
    assert places(rows, "train") == places(whole, "train")
    assert len(places(rows, "val")) == len(places(rows, "test")) == 20
    assert places(rows, "val") | places(rows, "test") == places(whole, "val")
    both = MAKERS["zero labels, part"](whole, "set: zero labels, part")
    assert len(both.labels) == 6
    assert places(both, "test") <= places(whole, "val")


def test_a_part_trains_on_so_many_rows_at_the_most():
    n = 20_010
    targets = SparseTargets.from_rows([[0]] * n, num_labels=1)
    splits = np.repeat(["train", "val"], [n - 6, 6])
    rows = part_of(Rows("set", ("a",), targets, splits, torch.zeros(n, 1), torch.arange(n)), "part")
    assert len(places(rows, "train")) == 20_000
    assert (len(places(rows, "val")), len(places(rows, "test"))) == (3, 3)


@pytest.mark.parametrize("name", ["mnist", "mnist features", "mnist: part"])
def test_an_unknown_set_is_refused(name, tmp_path):
    with pytest.raises(InputError) as caught:
        Catalogue(tmp_path)(name)
    known = ", ".join(KINDS)
    assert str(caught.value) == f"`set` of `experiments` must be one of {known}; got 'mnist'. Name its folder so."


def test_an_unknown_variant_is_refused():
    with pytest.raises(InputError) as caught:
        fit_settings_for("cifar10 features: half")
    rule = "be one of zero labels, long-tailed, open set, part, zero labels, part"
    assert str(caught.value) == f"`variant` of `cifar10` must {rule}; got 'half'. Pick one."


def test_what_decides_a_run_follows_from_the_name():
    assert is_features("coco features: part")
    assert not is_features("coco: part")
    assert kind_of("cub features: long-tailed") is KINDS["cub"]
    assert input_settings("cub features: part") == input_settings("cars features") != input_settings("cub")
    assert input_settings("cifar10")["size"] == 32
    assert fit_settings_for("cifar10: long-tailed").epochs == 2 * fit_settings_for("cifar10").epochs
    assert fit_settings_for("flowers features").epochs == 4 * fit_settings_for("coco features").epochs


def test_every_published_set_has_a_kind():
    ours = {"flowers": "flowers102", "plantnet300k": "plantnet"}
    assert {ours.get(name, name) for name in KINDS} == set(LAYOUTS) - {"plain", "arrays"}


@pytest.fixture
def tables(tmp_path):
    """A small plain set under a name that the catalogue knows: reddish and bluish pictures, and one of neither."""
    folder = tmp_path / "data" / "cifar10"
    (folder / "images").mkdir(parents=True)
    lines = ["path,labels,split"]
    generator = np.random.default_rng(0)
    for row, split in enumerate(["train"] * 6 + ["val"] * 2 + ["test"] * 3):
        colour = ([220, 30, 30], [30, 30, 220])[row % 2]
        noise = generator.integers(-25, 25, size=(12, 12, 3))
        Image.fromarray((noise + colour).astype(np.uint8)).save(folder / "images" / f"{row}.png")
        labels = ("red|warm", "blue")[row % 2] if row < 10 else ""
        lines.append(f"images/{row}.png,{labels},{split}")
    (folder / "labels.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "data"


def test_pictures_of_a_plain_table_become_a_dataset(tables):
    dataset = Catalogue(tables)("cifar10")
    assert (dataset.name, dataset.width) == ("cifar10", 512)
    assert sorted(dataset.labels) == ["blue", "red", "warm"]
    parts = dataset.parts(FitSettings())
    assert {split: len(part) for split, part in parts.items()} == {"train": 6, "val": 2, "test": 3}
    (batch,) = parts["test"].load([[0, 1, 2]], epoch=None)
    assert batch.inputs.shape == (3, 3, 32, 32)
    assert batch.targets.sum(1).tolist() == [2, 1, 0]
    red, _, blue = batch.inputs.float().mean((2, 3)).unbind(1)
    assert (red > blue).tolist() == [True, False, True]
    backbone = dataset.backbone(0).eval()
    with torch.no_grad():
        assert backbone(batch.inputs).shape == (3, 512)
    assert [file.name for file in (tables / "cache").glob("*.npy")] == ["cifar10-32.npy"]


def test_features_of_a_plain_table_become_a_dataset_and_are_kept(tables, tmp_path):
    catalogue = Catalogue(tables, cache=tmp_path / "kept")
    dataset = catalogue("cifar10 features")
    parts = dataset.parts(FitSettings())
    assert dataset.backbone is None
    assert {split: len(part) for split, part in parts.items()} == {"train": 6, "val": 2, "test": 3}
    train = parts["train"].features
    assert train.shape == (6, dataset.width)
    torch.testing.assert_close(train.mean(0), torch.zeros(dataset.width), rtol=0, atol=1e-2)
    distances = torch.cdist(parts["test"].features, train)
    assert (distances.argmin(1) % 2).tolist() == [0, 1, 0]
    # The same samples give the other variants, and what was kept needs no picture.
    (tables / "cifar10" / "labels.csv").unlink()
    assert len(Catalogue(tables, cache=tmp_path / "kept")("cifar10 features: part").parts(FitSettings())["test"]) == 1
