"""Small files that cost too much to decode are told apart from large ones that do not."""

import io
import random
import struct
import time

import pytest

from manyhot.images import UnreadableImage, count_scans, decode, largest_tile
from tests.errors.expected import raises_input_error
from tests.studio.bombs import many_scans, saved, tiff, zeros


def test_scans_are_counted_to_the_end_of_the_picture():
    assert count_scans(saved("JPEG")) == 1
    assert count_scans(many_scans(7, side=64)) == count_scans(many_scans(0, side=64)) + 7
    assert (
        count_scans(b"")
        == count_scans(b"\xff\xd8")
        == count_scans(b"\xff\xd8\xff")
        == count_scans(b"\xff\xd8\xff\xda") - 1
        == 0
    )


@pytest.mark.parametrize("between", [b"\xff\x01", b"\xff\xd0", b"\xff\xff\xff", b"\xff\x00", b"noise"])
def test_scans_cannot_be_hidden(between):
    """What has no length must not be taken for a piece of a length, which would be skipped."""
    picture = many_scans(200, side=16)
    hidden = picture.replace(b"\xff\xda", between + b"\xff\xda")
    assert count_scans(hidden) == count_scans(picture) == 101  # where counting ends


def test_a_film_behind_a_photo_is_no_part_of_it():
    film = random.Random(0).randbytes(2**24)
    assert film.count(b"\xff\xda") > 200
    photo = saved("JPEG", progressive=True) + film
    assert decode(photo, name="photo").size == (64, 48)


def test_a_picture_of_thousands_of_scans_is_refused_at_once():
    start = time.process_time()
    with raises_input_error(match="more than 100 scans", kind=UnreadableImage):
        decode(many_scans(5_000, side=5_000), name="scans", min_side=64)
    assert time.process_time() - start < 3


def test_tiles_that_are_larger_than_the_picture_are_refused():
    data = zeros(1000)
    for again in ((), [(322, 16), (323, 16)]):
        vast = tiff(1, 1, data, tile=(46_320, 46_320), again=again)
        assert largest_tile(io.BytesIO(vast)) == 46_320**2
        with raises_input_error(
            match=r"tiles of 2,145,542,400 pixels, more than the 134,217,728 allowed", kind=UnreadableImage
        ):
            decode(vast, name="tiles")


def test_ordinary_tiles_are_read():
    assert decode(tiff(20, 10, zeros(32 * 16), tile=(32, 16)), name="tiles").size == (20, 10)
    assert largest_tile(io.BytesIO(tiff(20, 10, zeros(200)))) == 0


@pytest.mark.parametrize(("order", "mark"), [("<", b"II"), (">", b"MM")])
def test_numbers_of_all_kinds_and_orders_are_understood(order, mark):
    for kind, letter in ((1, "B"), (3, "H"), (4, "I")):
        entries = [struct.pack(f"{order}HHI{letter}", tag, kind, 1, side) for tag, side in ((322, 32), (323, 48))]
        plain = struct.pack(f"{order}HIH", 42, 8, 2) + b"".join(entry.ljust(12, b"\xff") for entry in entries)
        assert largest_tile(io.BytesIO(mark + plain)) == 32 * 48
        entries = [struct.pack(f"{order}HHQ{letter}", tag, kind, 1, side) for tag, side in ((322, 32), (323, 48))]
        long = struct.pack(f"{order}HHHQQ", 43, 8, 0, 16, 2) + b"".join(entry.ljust(20, b"\xff") for entry in entries)
        assert largest_tile(io.BytesIO(mark + long)) == 32 * 48
