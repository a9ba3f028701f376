"""Pictures to pixels: by Pillow and by torch the same, whatever the size, and exportable."""

import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from manyhot.backbones import Preprocessing
from manyhot.errors import InputError
from tests.backbones.pictures import photo
from tests.errors.expected import raises_input_error

SIZES = [(150, 201), (480, 333), (40, 30), (64, 96), (97, 64)]


def as_batch(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)[None]


@pytest.mark.parametrize("resize", ["squash", "crop"])
@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("source", SIZES)
def test_torch_and_pillow_agree_within_a_grey_level(resize, interpolation, source):
    preprocessing = Preprocessing(size=(64, 96), resize=resize, interpolation=interpolation)
    image = photo(*source)
    one = preprocessing.prepare(image)
    other = preprocessing.prepare_tensor(as_batch(image))[0]
    assert one.dtype == other.dtype == torch.uint8
    assert one.shape == other.shape == (3, 64, 96)
    difference = (one.int() - other.int()).abs()
    assert difference.max() <= 1
    assert difference.float().mean() < 0.1


def test_a_picture_of_the_right_size_is_left_alone():
    image = photo(64, 96)
    preprocessing = Preprocessing(size=(64, 96), interpolation="bicubic")
    assert torch.equal(preprocessing.prepare(image), as_batch(image)[0])
    assert torch.equal(preprocessing.prepare_tensor(as_batch(image)), as_batch(image))


def test_shrinking_is_antialiased():
    stripes = np.zeros((64, 64, 3), dtype=np.uint8)
    stripes[:, ::2] = 255
    image = Image.fromarray(stripes)
    preprocessing = Preprocessing(size=16)
    # Taking every fourth pixel would give 0 or 255 throughout.
    for shrunk in (preprocessing.prepare(image), preprocessing.prepare_tensor(as_batch(image))[0]):
        assert shrunk.float().sub(127.5).abs().max() < 32


def test_crop_keeps_the_middle_and_squash_keeps_all():
    pixels = np.zeros((20, 60, 3), dtype=np.uint8)
    pixels[:, :20, 0], pixels[:, 20:40, 1], pixels[:, 40:, 2] = 255, 255, 255
    image = Image.fromarray(pixels)
    cropped = Preprocessing(size=20, resize="crop").prepare(image)
    assert cropped.float().mean((1, 2)).tolist() == [0, 255, 0]
    squashed = Preprocessing(size=30, resize="squash").prepare(image)
    assert squashed.float().mean((1, 2)).tolist() == pytest.approx([85, 85, 85], abs=1)


def test_a_line_of_pixels_is_cropped_to_one_pixel_at_least():
    image = Image.fromarray(np.full((1, 500, 3), 9, dtype=np.uint8))
    preprocessing = Preprocessing(size=(300, 2), resize="crop")
    assert (preprocessing.prepare(image) == 9).all()
    assert (preprocessing.prepare_tensor(as_batch(image)) == 9).all()


def test_grey_pictures_get_three_channels():
    grey = Image.fromarray(np.arange(64, dtype=np.uint8).reshape(8, 8))
    pixels = Preprocessing(size=8).prepare(grey)
    assert torch.equal(pixels[0], pixels[2])
    assert pixels[0, 7, 7] == 63


@pytest.mark.slow
@pytest.mark.parametrize(("resize", "interpolation"), [("squash", "bilinear"), ("crop", "bicubic")])
@pytest.mark.filterwarnings("ignore")  # the exporter's own
def test_onnx_does_the_same_for_any_size(tmp_path, resize, interpolation):
    import onnxruntime

    preprocessing = Preprocessing(size=(24, 32), resize=resize, interpolation=interpolation)

    class Prepare(nn.Module):
        def forward(self, pixels):
            return preprocessing.prepare_tensor(pixels)

    path = str(tmp_path / "prepare.onnx")
    open_axes = {0: torch.export.Dim("n"), 2: torch.export.Dim("h"), 3: torch.export.Dim("w")}
    example = torch.zeros(2, 3, 50, 61, dtype=torch.uint8)
    torch.onnx.export(Prepare(), (example,), path, dynamo=True, dynamic_shapes=(open_axes,), verbose=False)
    session = onnxruntime.InferenceSession(path)
    for number, (height, width) in enumerate([(50, 61), (97, 33), (20, 90)]):
        batch = torch.cat([as_batch(photo(height, width, seed=seed)) for seed in range(number + 1)])
        (exported,) = session.run(None, {session.get_inputs()[0].name: batch.numpy()})
        ours = preprocessing.prepare_tensor(batch)
        assert exported.dtype == np.uint8
        assert np.abs(exported.astype(int) - ours.numpy().astype(int)).max() <= 1


def test_json_round_trip():
    preprocessing = Preprocessing(size=(96, 128), resize="crop", interpolation="bicubic", mean=(1.5, 2, 3), std=58)
    restored = Preprocessing.restore(json.loads(json.dumps(preprocessing.describe())))
    assert restored == preprocessing
    assert restored.size == (96, 128)
    assert restored.std == (58.0, 58.0, 58.0)
    assert hash(restored) == hash(preprocessing)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"size": 0}, "`size` of `Preprocessing` must be a whole number, at least 1; got 0."),
        (
            {"size": (1, 2, 3)},
            "`size` of `Preprocessing` must be one number of pixels, or height and width; got (1, 2, 3).",
        ),
        ({"resize": "pad"}, "`resize` of `Preprocessing` must be one of 'squash', 'crop'; got 'pad'."),
        ({"interpolation": "nearest"}, "`interpolation` of `Preprocessing` must be one of 'bilinear', 'bicubic'"),
        ({"std": (1.0, 0.0, 1.0)}, "`std` of `Preprocessing` must be a number above 0; got 0.0."),
        ({"mean": (1.0, 2.0)}, "`mean` of `Preprocessing` must be one number, or one for each of red, green and blue"),
        ({"mean": "grey"}, "`mean` of `Preprocessing` must be a number; got 'grey'."),
    ],
)
def test_bad_values_are_refused(options, words):
    with pytest.raises(InputError) as error:
        Preprocessing(**options)
    assert words in str(error.value)


def test_a_description_with_other_entries_is_refused():
    with raises_input_error(rule="have the entries interpolation, mean, resize, size, std", got="size"):
        Preprocessing.restore({"size": [2, 2]})


def test_tensors_of_another_shape_or_kind_are_refused():
    with raises_input_error(rule="be (N, 3, H, W)", got="(3, 8, 8)"):
        Preprocessing().prepare_tensor(torch.zeros(3, 8, 8, dtype=torch.uint8))
    with raises_input_error(rule="be a tensor of uint8"):
        Preprocessing().prepare_tensor(torch.zeros(1, 3, 8, 8, dtype=torch.int64))
