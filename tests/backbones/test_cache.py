"""The cache of features: what is found, what is not, and what happens when files are missing or damaged."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from manyhot.backbones import FeatureCache, Preprocessing, wrap
from manyhot.backbones import features as cache
from tests.errors.expected import raises_input_error


def small(seed=0, **options):
    torch.manual_seed(seed)
    module = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 4))
    return wrap(module, 4, options.get("preprocessing", Preprocessing(size=8)), name=options.get("name"))


def rows(*numbers):
    return np.array(numbers, dtype=np.float32)[:, None] * np.ones(4, dtype=np.float32)


def test_what_was_added_is_found_in_any_order(tmp_path):
    store = FeatureCache(tmp_path).of(small())
    store.add(cache.image_keys(["a", "b"]), rows(1, 2))
    store.add(cache.image_keys(["c"]), rows(3))
    features, found = store.read(cache.image_keys(["c", "x", "a", "c", "b"]))
    assert found.tolist() == [True, False, True, True, True]
    assert features[found][:, 0].tolist() == [3, 1, 3, 2]


def test_many_keys_against_a_dictionary(tmp_path):
    store = FeatureCache(tmp_path).of(small())
    draw = np.random.default_rng(0)
    known = {}
    for _ in range(5):
        names = [f"image {number}" for number in draw.choice(500, 60, replace=False)]
        values = draw.normal(size=(60, 4)).astype(np.float32)
        fresh = [place for place, name in enumerate(names) if name not in known]
        store.add(cache.image_keys([names[place] for place in fresh]), values[fresh])
        known.update({names[place]: values[place] for place in fresh})
    wanted = [f"image {number}" for number in range(500)]
    features, found = store.read(cache.image_keys(wanted))
    assert found.tolist() == [name in known for name in wanted]
    assert all(np.array_equal(features[row], known[name]) for row, name in enumerate(wanted) if name in known)


def test_keys_that_begin_alike_are_told_apart(tmp_path):
    store = FeatureCache(tmp_path).of(small())
    one, other = np.zeros((1, 16), dtype=np.uint8), np.zeros((1, 16), dtype=np.uint8)
    other[0, 15] = 1
    store.add(one, rows(1))
    assert store.read(np.concatenate([one, other]))[1].tolist() == [True, False]


def test_each_change_of_the_backbone_changes_the_fingerprint():
    prints = {
        cache.fingerprint(backbone, precision=precision)
        for backbone, precision in [
            (small(), "32"),
            (small(), "bf16"),
            (small(seed=1), "32"),
            (small(preprocessing=Preprocessing(size=9)), "32"),
            (small(preprocessing=Preprocessing(size=8, resize="crop")), "32"),
            (small(name="other"), "32"),
            (wrap(nn.Sequential(*small().module, nn.ReLU()), 4, Preprocessing(size=8)), "32"),
        ]
    }
    assert len(prints) == 7
    assert cache.fingerprint(small()) == cache.fingerprint(small())
    assert cache.fingerprint(small()) in prints


def test_the_last_bit_of_a_weight_counts_and_half_precision_works():
    backbone = small()
    before = cache.fingerprint(backbone)
    with torch.no_grad():
        weight = backbone.module[2].weight
        weight[0, 0] = torch.nextafter(weight[0, 0], torch.tensor(9.0))
    assert cache.fingerprint(backbone) != before
    assert cache.fingerprint(small().to(torch.bfloat16)) != before


@pytest.mark.parametrize("what", [cache.FEATURES_SUFFIX, cache.KEYS_SUFFIX])
@pytest.mark.parametrize("damage", ["gone", "cut", "empty", "other"])
def test_a_damaged_pair_counts_as_not_there(tmp_path, what, damage):
    store = FeatureCache(tmp_path).of(small())
    store.add(cache.image_keys(["a"]), rows(1))
    path = next(store.folder.glob(f"*{what}"))
    store.add(cache.image_keys(["b"]), rows(2))
    whole = path.read_bytes()
    {
        "gone": path.unlink,
        "cut": lambda: path.write_bytes(whole[:-3]),
        "empty": lambda: path.write_bytes(b""),
        "other": lambda: np.save(path, np.zeros((3, 5))),
    }[damage]()
    assert store.read(cache.image_keys(["a", "b"]))[1].tolist() == [False, True]


def test_an_array_of_objects_is_never_unpickled(tmp_path):
    store = FeatureCache(tmp_path).of(small())
    store.add(cache.image_keys(["a"]), rows(1))
    path = next(store.folder.glob(f"*{cache.KEYS_SUFFIX}"))
    with path.open("wb") as file:
        np.save(file, np.array([{"some": "object"}], dtype=object), allow_pickle=True)
    assert store.read(cache.image_keys(["a"]))[1].tolist() == [False]


def test_contents_size_and_clearing_touch_only_its_own_files(tmp_path):
    features = FeatureCache(tmp_path)
    features.of(small()).add(cache.image_keys(["a", "b"]), rows(1, 2))
    features.of(small(name="other")).add(cache.image_keys(["a"]), rows(1))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    beside = next(tmp_path.glob(f"*/{cache.METADATA_FILE}")).parent / "note.txt"
    beside.write_text("a note")
    assert sorted((entry.name, entry.images) for entry in features.contents()) == [("Sequential", 2), ("other", 1)]
    assert features.size() == sum(entry.bytes for entry in features.contents()) > 0
    assert features.clear() > 0
    assert features.contents() == []
    left = sorted(path.name for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["diary.txt", "note.txt"]


def test_where_it_lies_by_default(monkeypatch):
    monkeypatch.setenv("MANYHOT_CACHE", "/a")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert FeatureCache().folder == Path("/a/features")
    monkeypatch.delenv("MANYHOT_CACHE")
    assert FeatureCache().folder == Path("/b/manyhot/features")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert FeatureCache().folder == Path.home() / ".cache/manyhot/features"


def test_a_file_in_its_place_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with raises_input_error("cache", "FeatureCache", rule="be a folder"):
        FeatureCache(tmp_path / "file")
