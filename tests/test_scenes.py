"""The demo scenes: reproducible, honest about what is in them, and made of different digits for train and test."""

import re
import sys
from dataclasses import FrozenInstanceError

import pytest
import torch

from manyhot.data import Scenes, digit_scenes, template_features
from manyhot.data.digits import DIGIT, LABEL_NAMES, LABEL_RATES, load_digits
from tests.errors.expected import raises_input_error


@pytest.fixture(scope="module")
def scenes() -> Scenes:
    return digit_scenes(4000, seed=0)


@pytest.mark.parametrize("split", ["train", "test"])
def test_same_seed_gives_same_scenes(split):
    first, second = digit_scenes(20, seed=3, split=split), digit_scenes(20, seed=3, split=split)
    assert torch.equal(first.images, second.images)
    assert torch.equal(first.targets, second.targets)


def test_other_seed_or_split_gives_other_scenes():
    base = digit_scenes(50, seed=3)
    for other in (digit_scenes(50, seed=4), digit_scenes(50, seed=3, split="test")):
        assert not torch.equal(base.images, other.images)
        assert not torch.equal(base.targets, other.targets)


def test_global_random_state_is_neither_read_nor_moved():
    torch.manual_seed(1)
    first, state = digit_scenes(5, seed=0), torch.get_rng_state()
    torch.manual_seed(1)
    assert torch.equal(state, torch.get_rng_state())
    torch.manual_seed(2)
    assert torch.equal(first.images, digit_scenes(5, seed=0).images)


def test_shapes_kinds_and_ranges(scenes):
    assert scenes.images.shape == (4000, 32, 32)
    assert scenes.images.dtype == torch.float32
    assert scenes.images.min() >= 0
    assert scenes.images.max() <= 1
    assert scenes.targets.shape == (4000, 10)
    assert scenes.targets.dtype == torch.int8
    assert set(scenes.targets.unique().tolist()) == {0, 1}
    assert scenes.names == LABEL_NAMES
    assert len(scenes) == 4000
    with pytest.raises(FrozenInstanceError):
        scenes.names = ()


def test_size_need_not_be_square():
    assert digit_scenes(3, seed=0, size=(20, 47)).images.shape == (3, 20, 47)


def test_label_rates_are_those_promised(scenes):
    rates = scenes.targets.double().mean(0)
    promised = torch.tensor(LABEL_RATES, dtype=torch.double)
    # Four standard errors, and the few labels that go beyond five in a scene.
    assert ((rates - promised).abs() < 4 * (promised * (1 - promised) / 4000).sqrt() + 0.002).all()
    assert rates[0] > 0.4
    assert rates[9] < 0.045


def test_zero_to_five_labels_and_many_scenes_without_any(scenes):
    counts = scenes.targets.sum(1)
    assert set(counts.tolist()) == {0, 1, 2, 3, 4, 5}
    assert 0.12 < (counts == 0).double().mean() < 0.17


@pytest.mark.parametrize("max_labels", [0, 1, 3])
def test_max_labels_is_kept(max_labels):
    assert digit_scenes(300, seed=0, max_labels=max_labels).targets.sum(1).max() == max_labels


def test_scene_without_label_or_clutter_is_empty_but_for_noise():
    empty = digit_scenes(50, seed=0, max_labels=0, clutter=0)
    cluttered = digit_scenes(50, seed=0, max_labels=0, clutter=1)
    assert empty.images.max() < 0.35
    assert cluttered.targets.sum() == 0
    assert (cluttered.images.flatten(1).amax(1) > 0.4).all()


def test_train_and_test_use_different_digits_of_every_label():
    train, test = load_digits("train"), load_digits("test")
    assert sum(map(len, train)) + sum(map(len, test)) == 1797
    for ours, theirs in zip(train, test, strict=True):
        assert len(ours) > len(theirs) > 40
        assert torch.cdist(ours.flatten(1), theirs.flatten(1)).min() > 0


def test_features_find_an_untouched_digit():
    digit = load_digits("test")[4][0]
    canvas = torch.zeros(1, 32, 32)
    canvas[0, 11 : 11 + DIGIT, 5 : 5 + DIGIT] = digit
    best = template_features(canvas).view(10, 20).amax(1).argmax()
    assert best == 4


def test_features_do_not_depend_on_batches_or_place():
    images = digit_scenes(7, seed=0, max_labels=2, clutter=0).images
    features = template_features(images, per_label=5)
    assert features.shape == (7, 50)
    torch.testing.assert_close(features, template_features(images, per_label=5, batch_size=3))
    canvas = torch.zeros(7, 56, 56)
    canvas[:, 12:44, 12:44] = images
    shifted = canvas.roll(shifts=(3, -2), dims=(1, 2))
    torch.testing.assert_close(template_features(canvas, per_label=5), template_features(shifted, per_label=5))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n": 0}, "`n` of `digit_scenes` must be a whole number, at least 1; got 0. Pass an int."),
        ({"split": "valid"}, "`split` of `digit_scenes` must be one of 'train', 'test'; got 'valid'."),
        ({"max_labels": 11}, "`max_labels` of `digit_scenes` must be a number at least 0 and at most 10; got 11."),
        ({"clutter": 1.5}, "`clutter` of `digit_scenes` must be a number at least 0 and at most 1; got 1.5."),
        (
            {"size": (16, 32)},
            "`size` of `digit_scenes` must hold 5 cells of 10 x 10 pixels; got (16, 32). "
            "Pass a larger size, or a smaller `max_labels`.",
        ),
    ],
)
def test_bad_arguments_are_refused_in_one_sentence(arguments, sentence):
    with raises_input_error(match=f"^{re.escape(sentence)}"):
        digit_scenes(**{"n": 2, "seed": 0} | arguments)


def test_features_refuse_images_of_the_wrong_shape():
    with raises_input_error("images", "template_features", rule="be (N, H, W) of at least 8 x 8 pixels", got="(3, 4)"):
        template_features(torch.zeros(3, 4))


def test_missing_scikit_learn_is_named_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ImportError, match=r"need scikit-learn\. Install it with: pip install 'manyhot\[vision\]'"):
        digit_scenes(1, seed=0)
