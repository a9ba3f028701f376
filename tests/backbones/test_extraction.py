"""Features of a data set: the same by every way, and each image computed once."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from manyhot.backbones import FeatureCache, Preprocessing, create_backbone, extract_features, wrap
from manyhot.backbones import features as extraction
from manyhot.data.dataset import Dataset
from manyhot.images import UnreadableImage
from manyhot.labels import Labels
from tests.backbones.pictures import dataset_of, save_photos
from tests.errors.expected import raises_input_error


class Counting(nn.Module):
    """Features of 12 values that say how many pictures they were asked for, and can break down."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv2d(3, 12, 3)
        self.norm = nn.BatchNorm2d(12)
        self.seen, self.breaks_at = 0, None

    def forward(self, pixels):
        if self.breaks_at is not None and self.seen >= self.breaks_at:
            raise KeyboardInterrupt
        self.seen += len(pixels)
        return self.norm(self.convolution(pixels)).relu().mean((2, 3))


def counting():
    backbone = wrap(Counting(), 12, Preprocessing(size=16))
    backbone.module.seen = 0
    return backbone


@pytest.fixture
def photos(tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    return dataset_of(folder, save_photos(folder, 11))


def test_equals_a_plain_loop(photos):
    backbone = counting()
    features, rows, bad = extract_features(backbone, photos, cache=False, batch_size=4)
    prepared = [backbone.preprocessing.prepare(Image.open(photos.images.path(row))) for row in range(11)]
    with torch.no_grad():
        expected = backbone.eval()(torch.stack(prepared))
    np.testing.assert_allclose(features, expected.numpy(), rtol=1e-5, atol=1e-6)
    assert features.dtype == np.float32
    assert rows.tolist() == list(range(11))
    assert bad == {}


def test_batch_size_and_workers_do_not_matter(photos):
    backbone = create_backbone(size=32)
    one = extract_features(backbone, photos, cache=False, batch_size=11, workers=0).features
    np.testing.assert_allclose(
        extract_features(backbone, photos, cache=False, batch_size=3, workers=0).features, one, rtol=1e-4, atol=1e-5
    )
    assert np.array_equal(extract_features(backbone, photos, cache=False, batch_size=11, workers=2).features, one)


def test_leaves_the_backbone_as_it_was(photos):
    backbone = counting()
    backbone.module.norm.eval()
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    extract_features(backbone, photos, cache=False)
    assert backbone.training
    assert not backbone.module.norm.training
    assert all(torch.equal(value, before[key]) for key, value in backbone.state_dict().items())
    backbone(torch.zeros(1, 3, 16, 16)).sum().backward()
    assert backbone.module.convolution.weight.grad is not None


def test_a_second_call_computes_nothing(photos, tmp_path):
    backbone, done = counting(), []
    first = extract_features(backbone, photos, cache=tmp_path / "cache", batch_size=4, advance=done.append)
    assert backbone.module.seen == 11
    assert done == [4, 4, 3]
    done.clear()
    second = extract_features(backbone, photos, cache=FeatureCache(tmp_path / "cache"), advance=done.append)
    assert backbone.module.seen == 11
    assert done == [11]
    assert np.array_equal(first.features, second.features)


def test_only_new_and_changed_images_are_computed(photos, tmp_path):
    backbone = counting()
    extract_features(backbone, photos.take(range(8)), cache=tmp_path / "cache")
    assert backbone.module.seen == 8
    Image.new("RGB", (9, 9), "red").save(photos.images.path(2))
    order = photos.take([10, 2, 0, 9, 8, 1])
    features, _, _ = extract_features(backbone, order, cache=tmp_path / "cache")
    assert backbone.module.seen == 8 + 4
    expected = extract_features(backbone, order, cache=False).features
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)


def test_other_weights_are_other_features(photos, tmp_path):
    backbone = counting()
    before = extract_features(backbone, photos, cache=tmp_path / "cache").features
    with torch.no_grad():
        backbone.module.convolution.weight.mul_(2)
    after = extract_features(backbone, photos, cache=tmp_path / "cache").features
    assert backbone.module.seen == 22
    assert not np.allclose(before, after)


def test_work_that_was_broken_off_is_gone_on_with(photos, tmp_path):
    backbone = counting()
    backbone.module.breaks_at = 6
    with pytest.raises(KeyboardInterrupt):
        extract_features(backbone, photos, cache=tmp_path / "cache", batch_size=2, workers=0)
    assert backbone.module.seen == 6
    assert backbone.training
    backbone.module.breaks_at = None
    features, _, _ = extract_features(backbone, photos, cache=tmp_path / "cache", batch_size=2)
    assert backbone.module.seen == 11
    expected = extract_features(backbone, photos, cache=False).features
    np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6)


def test_what_is_done_is_kept_on_the_way(photos, tmp_path, monkeypatch):
    monkeypatch.setattr(extraction, "FLUSH_ROWS", 4)
    extract_features(counting(), photos, cache=tmp_path / "cache", batch_size=2)
    assert len(list((tmp_path / "cache").rglob("*.keys.npy"))) == 3


def test_bad_images_are_left_out_and_named(photos, tmp_path):
    photos.images.path(3).write_bytes(b"no picture")
    photos.images.path(7).unlink()
    backbone, done = counting(), []
    for _ in range(2):
        features, rows, bad = extract_features(backbone, photos, cache=tmp_path / "cache", advance=done.append)
        assert rows.tolist() == [0, 1, 2, 4, 5, 6, 8, 9, 10]
        assert features.shape == (9, 12)
        assert sorted(bad) == ["3.png", "7.png"]
    assert backbone.module.seen == 9
    assert sum(done) == 22
    with raises_input_error(match=r"3\.png", kind=UnreadableImage):
        extract_features(backbone, photos, cache=tmp_path / "cache", on_bad_image="fail")


def test_a_cache_that_cannot_be_written_to_is_refused_before_the_work(photos, tmp_path):
    (tmp_path / "file").write_text("in the way")
    backbone = counting()
    with raises_input_error("cache", "extract_features", rule="be a folder that can be written to"):
        extract_features(backbone, photos, cache=tmp_path / "file" / "cache")
    assert backbone.module.seen == 0


def test_no_images_give_no_features(photos, tmp_path):
    features, rows, bad = extract_features(counting(), photos.take([]), cache=tmp_path)
    assert features.shape == (0, 12)
    assert (len(rows), bad) == (0, {})


def test_bfloat16_is_close_and_kept_apart(photos, tmp_path):
    backbone = counting()
    exact = extract_features(backbone, photos, cache=tmp_path).features
    rough = extract_features(backbone, photos, cache=tmp_path, precision="bf16").features
    assert backbone.module.seen == 22
    assert not np.array_equal(exact, rough)
    np.testing.assert_allclose(rough, exact, rtol=0.05, atol=0.02)


WRITER = """
import sys
import numpy as np, torch
from torch import nn
from pathlib import Path
from manyhot.backbones import Preprocessing, extract_features, wrap
from manyhot.backbones import features as extraction
from tests.backbones.pictures import dataset_of
extraction.FLUSH_ROWS = 2
torch.manual_seed(0)
backbone = wrap(nn.Sequential(nn.Conv2d(3, 12, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()), 12, Preprocessing(size=16))
photos = dataset_of(Path(sys.argv[1]), [f"{row}.png" for row in range(11)])
features = extract_features(backbone, photos, cache=sys.argv[2], batch_size=2, workers=0).features
print(features.shape, np.round(np.abs(features).sum(), 3))
"""


@pytest.mark.process
def test_processes_share_a_cache_without_harm(photos, tmp_path, monkeypatch, capsys):
    command = [sys.executable, "-c", WRITER, str(photos.images.root), str(tmp_path / "cache")]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = {process.communicate()[0] for process in running}
    assert [process.returncode for process in running] == [0, 0]
    monkeypatch.setattr(extraction, "FLUSH_ROWS", 2)
    monkeypatch.setattr(sys, "argv", command[2:])
    exec(WRITER, {})
    third = capsys.readouterr().out
    assert outputs == {third}
    assert third.startswith("(11, 12)")


def test_bad_arguments_are_refused(photos):
    table = Dataset(Labels([]), None, ["a"], features=np.zeros((1, 3), dtype=np.float32))
    with raises_input_error("dataset", "extract_features", rule="hold images", got="features"):
        extract_features(counting(), table)
    with raises_input_error("backbone", "extract_features", rule="be a Backbone", got="Flatten"):
        extract_features(nn.Flatten(), photos)
    with raises_input_error("batch_size", "extract_features", rule="be a whole number, at least 1"):
        extract_features(counting(), photos, batch_size=0)
    with raises_input_error("precision", "extract_features", rule="be one of '32', 'bf16'", got="'16'"):
        extract_features(counting(), photos, precision="16")
