"""Pictures of every kind become RGB; everything else gets a plain reason."""

import io
import pickle
import struct
import threading
import warnings
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from manyhot.data import Files
from manyhot.data.sources import read_image
from manyhot.images import ImageLimits, UnreadableImage, decode
from tests.errors.expected import raises_input_error

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def encoded(image, form, **options):
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def pixels(data, **options):
    image = decode(data, name="a picture", **options)
    assert image.mode == "RGB"
    return np.asarray(image)


def reason(data, **options):
    with pytest.raises(UnreadableImage) as caught:
        decode(data, name="folder/broken.jpg", **options)
    assert caught.value.name == "folder/broken.jpg"
    return caught.value.reason


def photo(width=64, height=48):
    """Smooth, with another colour in each corner, so that turns show."""
    x, y = np.linspace(0, 255, width), np.linspace(0, 255, height)
    return Image.fromarray(
        np.stack(np.broadcast_arrays(x[None], y[:, None], (x[None] + y[:, None]) / 2), 2).round().astype(np.uint8)
    )


def ramp(top):
    """(16, 16) whole numbers from 0 to `top`."""
    return np.linspace(0, top, 256).round().reshape(16, 16)


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "PPM", "TGA"])
def test_exact_formats_give_the_exact_pixels(form):
    np.testing.assert_array_equal(pixels(encoded(photo(), form)), np.asarray(photo()))


@pytest.mark.parametrize(("form", "options"), [("JPEG", {"quality": 95}), ("WEBP", {"quality": 95})])
def test_lossy_formats_give_nearly_the_pixels(form, options):
    found = pixels(encoded(photo(), form, **options)).astype(int)
    assert np.abs(found - np.asarray(photo())).max() < 16


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("form", ["JPEG", "PNG", "TIFF", "WEBP"])
def test_pictures_are_turned_as_the_camera_was_held(orientation, form):
    exif = Image.Exif()
    exif[0x0112] = orientation
    tilted = Image.open(io.BytesIO(encoded(photo(), form, exif=exif)))
    expected = np.asarray(ImageOps.exif_transpose(tilted).convert("RGB"))
    np.testing.assert_array_equal(pixels(encoded(photo(), form, exif=exif)), expected)
    assert expected.shape[:2] == ((48, 64) if orientation < 5 else (64, 48))


def test_a_turn_by_hand():
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held so that the right side of the picture is at its bottom
    np.testing.assert_array_equal(pixels(encoded(photo(), "PNG", exif=exif)), np.rot90(np.asarray(photo()), -1))


def test_damaged_notes_of_the_camera_do_not_spoil_the_pixels():
    data = encoded(photo(), "JPEG", exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\xff\x01\x12")
    assert pixels(data).shape == (48, 64, 3)


def test_a_picture_that_there_is_no_memory_to_turn_is_not_taken_as_it_lies(monkeypatch):
    def fail(image, **options):
        raise MemoryError

    monkeypatch.setattr(ImageOps, "exif_transpose", fail)
    assert reason(encoded(photo(), "JPEG")) == "there is not enough memory for it"


def test_grey_one_bit_and_palette():
    grey = np.arange(256, dtype=np.uint8).reshape(16, 16)
    np.testing.assert_array_equal(pixels(encoded(Image.fromarray(grey), "PNG")), np.repeat(grey[..., None], 3, 2))
    bits = grey > 100
    expected = np.repeat(np.where(bits, 255, 0)[..., None], 3, 2)
    np.testing.assert_array_equal(pixels(encoded(Image.fromarray(bits), "PNG")), expected)
    np.testing.assert_array_equal(pixels(encoded(Image.fromarray(bits), "TIFF")), expected)
    few = Image.fromarray(np.array([[RED, GREEN], [BLUE, WHITE]], dtype=np.uint8))
    np.testing.assert_array_equal(pixels(encoded(few.quantize(4), "PNG")), np.asarray(few))


def test_what_is_transparent_becomes_white():
    colours = np.array([[[200, 0, 0, 255], [200, 0, 0, 0]], [[0, 100, 0, 128], [9, 9, 9, 255]]], dtype=np.uint8)
    share = colours[..., 3:] / 255
    expected = colours[..., :3] * share + 255 * (1 - share)
    assert np.abs(pixels(encoded(Image.fromarray(colours), "PNG")) - expected).max() <= 1
    assert np.abs(pixels(colours) - expected).max() <= 1
    grey = Image.fromarray(np.array([[[50, 255], [50, 0]]], dtype=np.uint8))
    assert grey.mode == "LA"
    assert pixels(encoded(grey, "PNG")).tolist() == [[[50] * 3, [255] * 3]]


def test_transparent_palettes_and_colours():
    few = Image.fromarray(np.array([[RED, GREEN]], dtype=np.uint8)).quantize(4)
    clear = few.getpixel((0, 0))
    for form in ("PNG", "GIF"):
        found = pixels(encoded(few, form, transparency=clear))
        assert found.tolist() == [[list(WHITE), list(GREEN)]]
    found = pixels(encoded(Image.fromarray(np.array([[RED, GREEN]], dtype=np.uint8)), "PNG", transparency=GREEN))
    assert found.tolist() == [[list(RED), list(WHITE)]]


def test_cmyk_as_adobe_writes_it():
    # Pillow, like Adobe, stores inverted inks in JPEG: no ink must come out as paper, not as black.
    for ink, colour in (((0, 0, 0, 0), (255, 255, 255)), ((0, 255, 255, 0), (255, 0, 0)), ((0, 0, 0, 255), (0, 0, 0))):
        plate = Image.new("CMYK", (16, 16), ink)
        data = encoded(plate, "JPEG", quality=95)
        assert b"Adobe" in data
        assert np.abs(pixels(data).astype(int) - colour).max() <= 3
        np.testing.assert_array_equal(pixels(encoded(plate, "TIFF"))[0, 0], colour)


@pytest.mark.parametrize("form", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_and_not_clipped(form):
    deep = ramp(65535).astype(np.uint16)
    expected = np.rint(deep / 257).astype(np.uint8)
    np.testing.assert_array_equal(pixels(encoded(Image.fromarray(deep), form))[..., 0], expected)
    np.testing.assert_array_equal(pixels(deep)[..., 0], expected)


def test_a_transparent_grey_of_sixteen_bits_becomes_white():
    deep = Image.fromarray(np.array([[700, 701, 60000]], dtype=np.uint16))
    data = encoded(deep, "PNG", transparency=700)
    assert pixels(data)[0, :, 0].tolist() == [255, 3, 233]


def test_sixteen_bits_in_other_byte_orders():
    deep = ramp(65535).astype(np.uint16)
    expected = np.rint(deep / 257).astype(np.uint8)
    whole = Image.fromarray(deep.astype(np.int32))
    assert whole.mode == "I"
    np.testing.assert_array_equal(pixels(encoded(whole, "TIFF"))[..., 0], expected)
    header = b"P5 16 16 65535\n"
    np.testing.assert_array_equal(pixels(header + deep.astype(">u2").tobytes())[..., 0], expected)
    for order in "<>":
        np.testing.assert_array_equal(pixels(tiff(deep, order, photometric=1))[..., 0], expected)
    # Where 0 stands for white, the file holds a negative.
    np.testing.assert_array_equal(pixels(tiff(deep, "<", photometric=0))[..., 0], 255 - expected)


def tiff(deep, order, *, photometric):
    """A TIFF file of 16 bits, written by hand."""
    entries = [(256, 16), (257, 16), (258, 16), (259, 1), (262, photometric), (273, 8), (277, 1), (278, 16), (279, 512)]
    table = struct.pack(order + "H", len(entries))
    for tag, value in entries:
        table += struct.pack(order + "HHIHH", tag, 3, 1, value, 0)
    head = struct.pack(order + "2sHI", b"II" if order == "<" else b"MM", 42, 8 + 512)
    return head + deep.astype(order + "u2").tobytes() + table + bytes(4)


def test_numbers_of_unknown_range_are_refused():
    assert pixels(encoded(Image.fromarray(ramp(1).astype(np.float32)), "TIFF"))[-1, -1].tolist() == [255] * 3
    assert pixels(np.array([[0.0, 0.5, 1.0]]))[..., 0].tolist() == [[0, 128, 255]]
    far = encoded(Image.fromarray(np.array([[0, 3.5]], dtype=np.float32)), "TIFF")
    assert reason(far) == "its floating-point pixels lie between 0 and 3.5, not between 0 and 1"
    assert "nan" in reason(np.array([[np.nan]]))
    deep = encoded(Image.fromarray(np.array([[0, 70000]], dtype=np.int32)), "TIFF")
    assert reason(deep) == "its integer pixels lie between 0 and 70000, not between 0 and 65535"


@pytest.mark.parametrize("form", ["GIF", "WEBP", "PNG", "TIFF"])
def test_of_several_frames_the_first_counts(form):
    first, second = (Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE))
    options = {"lossless": True} if form == "WEBP" else {}
    data = encoded(first, form, save_all=True, append_images=[second], **options)
    assert (pixels(data) == RED).all()


def test_arrays_of_all_shapes():
    grey = np.arange(12, dtype=np.uint8).reshape(3, 4)
    for array in (grey, grey[..., None], np.repeat(grey[..., None], 3, 2)):
        np.testing.assert_array_equal(pixels(array), np.repeat(grey[..., None], 3, 2))
    np.testing.assert_array_equal(pixels(np.asarray(photo())[::2, ::-1]), np.asarray(photo())[::2, ::-1])
    assert pixels(np.array([[True, False]]))[..., 0].tolist() == [[255, 0]]
    assert reason(np.zeros((3, 4, 5), dtype=np.uint8)).startswith("its pixels are (3, 4, 5), not (H, W) or (H, W, C)")
    assert reason(np.zeros((0, 4), dtype=np.uint8)) == "it has 4 x 0 pixels"
    assert reason(np.array([["a"]])) == "its pixels are <U1, not numbers"


def test_the_error_says_what_is_wrong():
    whole = encoded(photo(640, 480), "JPEG")
    assert reason(b"") == "the file is empty"
    assert reason(whole[: len(whole) // 2]) == "the file ends too early"
    assert reason(encoded(photo(), "PNG")[:200]) == "the file ends too early"
    assert reason(b"hello, I am a text") == "it is no image of a known format"
    assert reason(bytes(5000)) == "it holds nothing but zeros"
    assert reason(b"<!DOCTYPE html><title>404</title>") == "it is a web page"
    assert reason(b"<svg xmlns='http://www.w3.org/2000/svg'/>") == "it is an SVG drawing, which has no pixels"
    assert reason(b"version https://git-lfs.github.com/spec/v1\n").startswith("it is a Git LFS pointer")
    assert reason(b"\0\0\0\x18ftypheic\0\0\0\0") == "it is a HEIC photo; convert it to JPEG"
    assert reason(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n").startswith("it is a PostScript drawing")
    with raises_input_error(match=r"^The image 'a\.png' cannot be read: the file is empty\.$"):
        decode(b"", name="a.png")


@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "TGA", "ICO", "JPEG2000"])
def test_damage_of_any_kind_gives_a_picture_or_a_reason(form):
    whole = encoded(photo(40, 32), form)
    draw = np.random.default_rng(0)
    outcomes = set()
    for cut in draw.integers(0, len(whole), 40).tolist():
        outcomes.add(_outcome(whole[:cut]))
    for _ in range(60):
        torn = bytearray(whole)
        for place in draw.integers(0, len(whole), 5).tolist():
            torn[place] = int(draw.integers(0, 256))
        outcomes.add(_outcome(bytes(torn)))
    assert outcomes in ({"reason"}, {"reason", "picture"})


def _outcome(data):
    try:
        decode(data, name="x", limits=ImageLimits(max_pixels=2**20))
    except UnreadableImage as error:
        return "reason" if error.reason else "nothing said"
    return "picture"


def bomb(side):
    """A PNG of side x side pixels in a few bytes of header; its pixels are not there."""
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + header
    end = b"\0\0\0\0IEND" + struct.pack(">I", zlib.crc32(b"IEND"))
    empty = b"\0\0\0\0IDAT" + struct.pack(">I", zlib.crc32(b"IDAT"))
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + chunk + struct.pack(">I", zlib.crc32(chunk)) + empty + end


def test_too_large_a_picture_is_refused_by_its_header():
    # 100 million pixels make Pillow warn, 400 million make it refuse; both must end in our words and without warning.
    assert reason(bomb(12_000)) == "it has 12,000 x 12,000 pixels, more than the 134,217,728 allowed"
    assert reason(bomb(20_000)) == "it has more pixels than Pillow opens"
    assert reason(bomb(10_000)) == "the file ends too early"
    assert (
        reason(encoded(photo(), "PNG"), limits=ImageLimits(max_pixels=100))
        == "it has 64 x 48 pixels, more than the 100 allowed"
    )
    assert reason(np.zeros((20, 20), dtype=np.uint8), limits=ImageLimits(100)).startswith("it has 20 x 20 pixels")


def test_large_photos_are_decoded_smaller_only_where_that_does_no_harm():
    large = encoded(photo(2048, 1536), "JPEG", quality=95)
    small = decode(large, name="large", min_side=190)
    assert small.size == (2048 // 4, 1536 // 4)
    assert decode(large, name="large", min_side=193).size == (2048 // 2, 1536 // 2)
    sharp = decode(large, name="large").resize((200, 150), Image.Resampling.BICUBIC)
    assert np.abs(np.asarray(small.resize((200, 150), Image.Resampling.BICUBIC)).astype(int) - sharp).max() <= 3
    assert decode(encoded(photo(300, 300), "JPEG"), name="small", min_side=200).size == (300, 300)
    assert decode(encoded(photo(2048, 1536), "PNG"), name="no JPEG", min_side=200).size == (2048, 1536)


def test_several_threads_decode_without_a_warning():
    data = bomb(10_000)
    failed = []

    def work():
        try:
            for _ in range(100):
                reason(data, limits=ImageLimits(max_pixels=1000))
        except BaseException as error:
            failed.append(error)

    reason(data)
    before = list(warnings.filters)
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert warnings.filters == before


def test_a_filter_of_warnings_that_is_set_meanwhile_stays(monkeypatch):
    load = Image.Image.load

    def load_after_a_filter(image):
        warnings.filterwarnings("error", message="of the user")
        return load(image)

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", load_after_a_filter)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="of the user")
        before = list(warnings.filters)
        decode(encoded(photo(), "PNG"), name="a")
        assert [entry for entry in before if entry not in warnings.filters] == []
        assert warnings.filters[0][0] == "error"


def test_pillow_stays_quiet_whatever_filter_is_set():
    large = bomb(10_000)  # Pillow warns of so many pixels
    reason(large)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert reason(large) == "the file ends too early"
        warnings.warn("of somebody else", UserWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["of somebody else"]


def test_a_file_is_read_as_its_bytes_are(tmp_path):
    (tmp_path / "a.jpg").write_bytes(encoded(photo(640, 480), "JPEG"))
    with (tmp_path / "a.jpg").open("rb") as file:
        found = decode(file, name="a", min_side=100)
    assert found.tobytes() == decode((tmp_path / "a.jpg").read_bytes(), name="a", min_side=100).tobytes()


def test_sources_that_cannot_be_read(tmp_path):
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "good.png").write_bytes(encoded(photo(), "PNG"))
    files = Files(["gone.jpg", "folder.jpg", "good.png"], root=tmp_path)
    assert read_image(files, 2).size == (64, 48)
    with raises_input_error(match=r"'gone\.jpg' cannot be read: there is no such file", kind=UnreadableImage):
        read_image(files, 0)
    with raises_input_error(match=r"'folder\.jpg' cannot be read: it is a folder", kind=UnreadableImage):
        read_image(files, 1)


def test_the_error_travels_between_processes():
    error = pickle.loads(pickle.dumps(UnreadableImage("a.jpg", "the file is empty")))
    assert (error.name, error.reason, str(error)) == (
        "a.jpg",
        "the file is empty",
        "The image 'a.jpg' cannot be read: the file is empty.",
    )
