"""Pictures that are changed on the device, against sampling by hand."""

import numpy as np
import pytest
import torch

from experiments.data import Augmentation, PixelBatches, change
from manyhot.data.targets import SparseTargets

SIDE = 8


def images(count, *, side=SIDE, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(256, (count, 3, side, side), dtype=torch.uint8, generator=generator)


def batches(pixels, *, rows=None, **options):
    rows = torch.arange(len(pixels)) if rows is None else torch.tensor(rows)
    targets = SparseTargets.from_rows([[row % 2] if row % 3 else [] for row in range(len(rows))], num_labels=2)
    return PixelBatches(pixels, rows, targets, **options)


def loaded(data, groups, epoch):
    """What was loaded, by row."""
    return {
        int(row): inputs
        for batch in data.load(groups, epoch=epoch)
        for row, inputs in zip(batch.rows, batch.inputs, strict=True)
    }


def sampled_by_hand(image, scale, across, down, mirror):
    """Bilinear sampling, one pixel at a time; beyond the outermost centres the outermost pixel goes on."""
    side = image.shape[-1]
    centres = (2 * np.arange(side) + 1) / side - 1
    result = np.empty(image.shape)
    for i, j in np.ndindex(side, side):
        y = np.clip(((scale * centres[i] + down + 1) * side - 1) / 2, 0, side - 1)
        x = np.clip(((scale * mirror * centres[j] + across + 1) * side - 1) / 2, 0, side - 1)
        top, left = int(y), int(x)
        low, right = min(top + 1, side - 1), min(left + 1, side - 1)
        upper = image[:, top, left] * (1 - (x - left)) + image[:, top, right] * (x - left)
        lower = image[:, low, left] * (1 - (x - left)) + image[:, low, right] * (x - left)
        result[:, i, j] = upper * (1 - (y - top)) + lower * (y - top)
    return result


@pytest.mark.parametrize(("changes", "epoch"), [(None, 0), (Augmentation(), None)])
def test_pictures_that_are_only_scored_come_back_as_they_are(changes, epoch):
    pixels = images(6)
    data = batches(pixels, rows=[5, 1, 3, 0], augmentation=changes)
    assert len(data) == 4
    batch, last = data.load([[2, 0, 1], [3]], epoch=epoch)
    torch.testing.assert_close(batch.inputs, pixels[[3, 5, 1]], rtol=0, atol=0)
    assert batch.inputs.dtype == torch.uint8
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
    assert batch.rows.tolist() == [2, 0, 1]
    assert batch.targets.tolist() == [[1, 0], [0, 0], [0, 1]]
    torch.testing.assert_close(last.inputs, pixels[[0]], rtol=0, atol=0)


def test_what_is_drawn_depends_on_seed_epoch_and_row_alone():
    pixels = images(9)
    data = batches(pixels, augmentation=Augmentation(), seed=3)
    once = loaded(data, [list(range(9))], 2)
    again = loaded(batches(pixels, augmentation=Augmentation(), seed=3), [[4, 8], [0, 7, 1], [6], [2, 5, 3]], 2)
    for row in range(9):
        torch.testing.assert_close(again[row], once[row], rtol=0, atol=0)
    for other in (
        loaded(data, [list(range(9))], 1),
        loaded(batches(pixels, augmentation=Augmentation(), seed=4), [list(range(9))], 2),
    ):
        assert all(not torch.equal(other[row], once[row]) for row in range(9))


def test_pictures_are_cropped_scaled_and_mirrored_as_by_hand():
    pixels = images(5)
    draws = torch.tensor(
        [[1, 0, 0, 1], [0.5, -0.5, 0.5, 1], [0.75, 0.2, -0.25, -1], [0.9, -0.1, 0.03, 1], [0.6, 0.4, 0.4, -1]],
        dtype=torch.float32,
    )
    result = change(pixels, draws)
    for image, own, drawn in zip(pixels.numpy().astype(float), result, draws.tolist(), strict=True):
        np.testing.assert_allclose(own.numpy(), sampled_by_hand(image, *drawn), atol=2e-3)


def test_whole_pictures_are_mirrored_exactly_or_left_alone():
    pixels = images(40)
    result = loaded(batches(pixels, augmentation=Augmentation(area=1.0)), [list(range(40))], 0)
    as_is = [row for row in range(40) if torch.allclose(result[row], pixels[row].float(), atol=1e-3)]
    mirrored = [row for row in range(40) if torch.allclose(result[row], pixels[row].flip(-1).float(), atol=1e-3)]
    assert sorted(as_is + mirrored) == list(range(40))
    assert 10 <= len(mirrored) <= 30
    unflipped = loaded(batches(pixels, augmentation=Augmentation(area=1.0, flip=False)), [list(range(40))], 0)
    for row in range(40):
        torch.testing.assert_close(unflipped[row], pixels[row].float(), rtol=0, atol=1e-3)


def test_crops_keep_the_wanted_share_and_stay_within_the_picture():
    side, count, area = 16, 600, 0.4
    ramp = (10 * torch.arange(side)).to(torch.uint8)
    across, down = ramp.expand(side, side), ramp[:, None].expand(side, side)
    pixels = torch.stack([across, down, across]).expand(count, -1, -1, -1)
    (batch,) = batches(pixels, augmentation=Augmentation(area=area)).load([list(range(count))], epoch=0)
    half = side // 2
    x, y = batch.inputs[:, 0, half] / 10, batch.inputs[:, 1, :, half] / 10
    scale = y[:, half] - y[:, half - 1]
    slope = x[:, half] - x[:, half - 1]
    torch.testing.assert_close(slope.abs(), scale, rtol=0, atol=1e-3)
    assert 0.4 < (slope < 0).float().mean() < 0.6
    shares = scale.square()
    assert area - 1e-2 < shares.min() < area + 0.05
    assert 0.95 < shares.max() < 1.01
    assert abs(float(shares.mean()) - (1 + area) / 2) < 0.03
    for ends in (x, y):
        centre = (ends[:, half] + ends[:, half - 1]) / 2
        shift = (centre - (side - 1) / 2) / half
        assert (shift.abs() <= 1 - scale + 2e-3).all()
        assert shift.min() < -0.2
        assert shift.max() > 0.2


def test_changed_pictures_are_channels_last_floats_from_0_to_255():
    (batch,) = batches(images(30), augmentation=Augmentation(area=0.2)).load([list(range(30))], epoch=0)
    assert batch.inputs.dtype == torch.float32
    assert batch.inputs.is_contiguous(memory_format=torch.channels_last)
    assert 0 <= batch.inputs.min() < 20
    assert 235 < batch.inputs.max() <= 255


def test_sizes_are_shared_out_over_the_epochs():
    data = batches(images(4), augmentation=Augmentation(sizes=(2, 4, 8)), epochs=6)
    sides = [next(data.load([[0, 1]], epoch=epoch)).inputs.shape[-1] for epoch in range(7)]
    assert sides == [2, 2, 4, 4, 8, 8, 8]
    assert next(data.load([[0]], epoch=None)).inputs.shape[-1] == SIDE


def test_smaller_pictures_look_the_same():
    quarters = torch.tensor([[10, 200], [60, 130]], dtype=torch.uint8)
    pixels = quarters.repeat_interleave(8, 0).repeat_interleave(8, 1).expand(1, 3, 16, 16)
    changes = Augmentation(area=1.0, flip=False, sizes=(8,))
    (batch,) = batches(pixels, augmentation=changes).load([[0]], epoch=0)
    corners = batch.inputs[0, :, ::7, ::7]
    torch.testing.assert_close(corners, quarters.float().expand(3, 2, 2), rtol=0, atol=1.0)
