"""Batches of images: the same whatever the workers, the order and the breaks; bad images never end a run."""

import os

import numpy as np
import pytest
import torch
from PIL import Image

from manyhot.data import Dataset, Files, Pixels, SparseTargets
from manyhot.data.loading import Augmentation, ImageBatches, augmentation, default_workers
from manyhot.images import UnreadableImage, decode
from manyhot.labels import Labels
from manyhot.preprocessing import Preprocessing
from tests.errors.expected import raises_input_error

SMALL = Preprocessing(size=(16, 16))
N = 24


def picture(seed, size=(40, 30)):
    draw = np.random.default_rng(seed)
    coarse = draw.integers(0, 256, (5, 4, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture
def folder(tmp_path):
    for row in range(N):
        picture(row).save(tmp_path / f"{row}.png")
    return tmp_path


def dataset_of(folder, names=None):
    names = [f"{row}.png" for row in range(N)] if names is None else names
    targets = SparseTargets.from_rows([[row % 3] if row % 4 else [] for row in range(len(names))], num_labels=3)
    return Dataset(Labels(["a", "b", "c"]), targets, ids=names, images=Files(names, root=folder))


def rows_of(data, groups, epoch):
    """The pixels of each row."""
    batches = list(data.load(groups, epoch=epoch))
    return {int(row): pixels for batch in batches for row, pixels in zip(batch.rows, batch.inputs, strict=True)}


def same(first, second):
    return first.keys() == second.keys() and all(torch.equal(first[row], second[row]) for row in first)


def test_batches_come_in_order_with_their_targets(folder):
    dataset = dataset_of(folder)
    for workers in (0, 2):
        data = ImageBatches(dataset, SMALL, workers=workers)
        groups = [[5, 3, 8], [], [0], [23, 1]]
        batches = list(data.load(iter(groups), epoch=None))
        assert [batch.rows.tolist() for batch in batches] == groups
        for group, batch in zip(groups, batches, strict=True):
            assert batch.inputs.shape == (len(group), 3, 16, 16)
            assert batch.inputs.dtype == torch.uint8
            assert batch.targets.dtype == torch.int8
            assert torch.equal(batch.targets, dataset.targets.dense(group))
        expected = SMALL.prepare(decode((folder / "8.png").read_bytes(), name="8"))
        assert torch.equal(batches[0].inputs[2], expected)
        assert len(data) == N


@pytest.mark.parametrize("strength", ["light", "strong"])
def test_a_sample_depends_on_seed_epoch_and_row_alone(folder, strength):
    dataset = dataset_of(folder)
    alone = rows_of(ImageBatches(dataset, SMALL, augmentation=strength, workers=0, seed=3), [range(N)], 7)
    other_order = [[row] for row in reversed(range(N))]
    for workers, groups in ((0, other_order), (1, other_order), (3, [range(N)])):
        data = ImageBatches(dataset, SMALL, augmentation=strength, workers=workers, seed=3)
        next(data.load([[0, 1]], epoch=2))  # something else before, broken off
        assert same(rows_of(data, groups, 7), alone)
    fresh = ImageBatches(dataset, SMALL, augmentation=strength, workers=0, seed=3)
    assert not same(rows_of(fresh, [range(N)], 8), alone)
    reseeded = ImageBatches(dataset, SMALL, augmentation=strength, workers=0, seed=4)
    assert not same(rows_of(reseeded, [range(N)], 7), alone)
    plain = ImageBatches(dataset, SMALL, workers=0)
    assert same(rows_of(fresh, [range(N)], None), rows_of(plain, [range(N)], None))


@pytest.mark.parametrize("workers", [0, 2])
def test_nobody_elses_random_numbers_are_touched(folder, workers):
    torch.manual_seed(5)
    np.random.seed(5)
    before = torch.get_rng_state(), np.random.get_state()[1].copy()
    list(ImageBatches(dataset_of(folder), SMALL, augmentation="strong", workers=workers).load([range(N)], epoch=0))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (np.random.get_state()[1] == before[1]).all()


def test_workers_stay_for_the_next_epoch_and_serve_two_readers(folder):
    data = ImageBatches(dataset_of(folder), SMALL, augmentation="light", workers=2)
    first = rows_of(data, [[row] for row in range(N)], 0)
    pool = data._pool._iterator
    assert same(rows_of(data, [[row] for row in range(N)], 0), first)
    assert data._pool._iterator is pool
    one, two = (data.load([[row] for row in range(N)], epoch=0) for _ in range(2))
    for _ in range(N):
        left, right = next(one), next(two)
        assert torch.equal(left.inputs, right.inputs)
    data.close()
    assert same(rows_of(data, [range(N)], 0), first)


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_images_are_left_out_and_named(folder, workers):
    (folder / "1.png").write_bytes(b"")
    (folder / "2.png").write_bytes((folder / "2.png").read_bytes()[:80])
    (folder / "3.png").unlink()
    data = ImageBatches(dataset_of(folder), SMALL, augmentation="light", workers=workers)
    batches = list(data.load([[0, 1, 4], [1, 2, 3], [3, 5]], epoch=0))
    assert [batch.rows.tolist() for batch in batches] == [[0, 4], [], [5]]
    assert batches[1].inputs.shape == (0, 3, 16, 16)
    assert batches[1].targets.shape == (0, 3)
    assert data.unreadable == {
        "1.png": "the file is empty",
        "2.png": "the file ends too early",
        "3.png": "there is no such file",
    }
    strict = ImageBatches(dataset_of(folder), SMALL, workers=workers, on_bad_image="fail")
    with raises_input_error(match=r"'2\.png' cannot be read: the file ends too early", kind=UnreadableImage):
        list(strict.load([[0, 4], [5, 2]], epoch=0))


def test_large_photos_give_nearly_the_same_pixels(tmp_path):
    picture(0, (1600, 1200)).save(tmp_path / "large.jpg", quality=95)
    dataset = dataset_of(tmp_path, ["large.jpg"])
    found = next(ImageBatches(dataset, Preprocessing(size=(64, 64))).load([[0]], epoch=None)).inputs[0]
    whole = Preprocessing(size=(64, 64)).prepare(decode((tmp_path / "large.jpg").read_bytes(), name="large"))
    assert (found.int() - whole.int()).abs().max() <= 4


def test_samples_without_targets(folder):
    dataset = Dataset(Labels([]), None, ids=["0.png"], images=Files(["0.png"], root=folder))
    batch = next(ImageBatches(dataset, SMALL).load([[0]], epoch=None))
    assert batch.targets.shape == (1, 0)


def test_arrays_are_images_too():
    array = np.random.default_rng(0).integers(0, 256, (4, 16, 16, 3), dtype=np.uint8)
    dataset = Dataset(Labels([]), None, ids=list("abcd"), images=Pixels(array))
    batch = next(ImageBatches(dataset, SMALL).load([[2, 0]], epoch=0))
    assert (batch.inputs.permute(0, 2, 3, 1).numpy() == array[[2, 0]]).all()


def test_refusals(folder):
    dataset = dataset_of(folder)
    with raises_input_error("dataset", "ImageBatches", rule="hold images", got="features"):
        ImageBatches(Dataset(Labels([]), None, ids=["a"], features=np.zeros((1, 2))), SMALL)
    with raises_input_error("on_bad_image", "ImageBatches", rule="be one of 'skip', 'fail'", got="'explode'"):
        ImageBatches(dataset, SMALL, on_bad_image="explode")
    with raises_input_error("workers", "ImageBatches", rule="be a whole number, at least 0", got="-1"):
        ImageBatches(dataset, SMALL, workers=-1)
    with raises_input_error(
        "augmentation",
        "augmentation",
        rule="be one of 'none', 'light', 'strong'",
        got="'strog'",
        hint="Did you mean 'strong'?",
    ):
        ImageBatches(dataset, SMALL, augmentation="strog")


def test_default_workers(monkeypatch):
    assert default_workers(10) == 0
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(64), raising=False)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert default_workers(100_000) == 8
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "16")
    assert default_workers(100_000) == 4


def apply(chosen, image, preprocessing=SMALL, seeds=range(40)):
    return torch.stack([chosen.apply(image, preprocessing, seed=seed) for seed in seeds])


def test_no_augmentation_changes_nothing():
    image = picture(0)
    assert (apply(augmentation("none"), image) == SMALL.prepare(image)).all()


def test_flips_happen_to_half_and_can_be_switched_off():
    image = picture(0)
    plain = SMALL.prepare(image)
    found = apply(Augmentation(flip=True), image)
    flipped = (found == plain.flip(2)).flatten(1).all(1)
    assert 8 < int(flipped.sum()) < 32
    assert ((found == plain).flatten(1).all(1) | flipped).all()
    upside = apply(Augmentation(flip_vertical=True), image)
    assert (upside == plain.flip(1)).flatten(1).all(1).any()
    assert augmentation("strong").flip
    assert not augmentation("strong", flip=False).flip
    assert augmentation("none", flip=True) == Augmentation(flip=True)


@pytest.mark.parametrize(("resize", "size"), [("squash", (90, 30)), ("crop", (90, 30)), ("squash", (1, 1))])
def test_crops_keep_at_least_their_share(resize, size):
    """A picture whose pixels say where they are: the corners of the crop can be read from it."""
    width, height = size
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    image = Image.fromarray(np.stack([x, y, 0 * x], 2).astype(np.uint8))
    preprocessing = Preprocessing(size=(30, 30), resize=resize)
    found = apply(Augmentation(crop=0.6, stretch=4 / 3), image, preprocessing, range(200)).int()
    columns = found[:, 0].amax((1, 2)) - found[:, 0].amin((1, 2)) + 1
    rows = found[:, 1].amax((1, 2)) - found[:, 1].amin((1, 2)) + 1
    seen = width * height if resize == "squash" else min(size) ** 2
    share = columns * rows / seen
    assert share.min() > 0.5
    assert share.max() <= 1.35
    assert len(set(columns.tolist())) > 3 or size == (1, 1)


def test_strong_changes_more_than_light():
    image = picture(0)
    plain = SMALL.prepare(image).float()
    light, strong = (apply(augmentation(name), image, seeds=range(100)).float() for name in ("light", "strong"))
    assert (strong - plain).abs().mean() > (light - plain).abs().mean()
    erased = apply(Augmentation(erase=1.0), image)
    assert ((erased == 0).all(1).flatten(1).sum(1) > 0).float().mean() > 0.9
    assert (apply(Augmentation(colour=0.5), image) != SMALL.prepare(image)).any()


def test_augmentations_are_checked():
    chosen = augmentation("strong")
    assert augmentation(chosen) is chosen
    with raises_input_error("crop", "Augmentation", rule="be a number above 0 and at most 1"):
        Augmentation(crop=0)
