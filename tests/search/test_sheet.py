"""The contact sheet: which picture is where, and what becomes of those that cannot be read."""

import io
import math
import os
import subprocess
import sys
import tarfile
import warnings

import numpy as np
import pytest
from PIL import Image

from manyhot import images
from manyhot.image_paths import locate_images, sort_image_roots
from manyhot.images import NO_SUCH_FILE, ImageLocation, UnreadableImage
from manyhot.search.collection import Hit, SearchResult
from manyhot.search.contact_sheet import (
    BLANK,
    FILL,
    TRACK,
    SheetLayout,
    TextRenderer,
    balanced_columns,
    contact_sheet,
    read_tiles,
)
from tests.errors.expected import raises_input_error

RED, GREEN, BLUE = (230, 20, 20), (20, 200, 20), (20, 20, 230)


def hit(path, prob=0.5):
    return Hit(id="1", path=None if path is None else str(path), prob=prob, log_prob=math.log(prob))


def save(path, colour, size=(60, 40)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, colour).save(path)
    return path


def near(pixel, colour):
    return max(abs(a - b) for a, b in zip(pixel, colour, strict=True)) <= 12


def rgb(text):
    return tuple(int(text[place : place + 2], 16) for place in (1, 3, 5))


def middle(sheet, number, columns, tile=96):
    left, top = SheetLayout(columns, 1, tile, 0).corner(number)
    return sheet.getpixel((left + tile // 2, SheetLayout(columns, 1, tile, 0).gap + top + tile // 2))


def test_pictures_are_in_the_order_of_the_hits(tmp_path):
    colours = [RED, GREEN, BLUE]
    hits = [hit(save(tmp_path / f"{place}.png", colour)) for place, colour in enumerate(colours)]
    sheet = contact_sheet(hits, columns=2, tile=96)
    for place, colour in enumerate(colours):
        assert near(middle(sheet, place, 2), colour)
    turned = contact_sheet(hits[::-1], columns=2, tile=96)
    assert near(middle(turned, 0, 2), BLUE)


def test_a_picture_keeps_its_shape_and_small_ones_grow(tmp_path):
    (wide,) = read_tiles([hit(save(tmp_path / "wide.png", RED, (300, 100)))], ".", 96)
    (small,) = read_tiles([hit(save(tmp_path / "small.png", RED, (14, 28)))], ".", 96)
    (thread,) = read_tiles([hit(save(tmp_path / "thread.png", RED, (5000, 1)))], ".", 96)
    assert (wide.size, small.size, thread.size) == ((96, 32), (48, 96), (96, 1))


def test_the_bar_is_as_long_as_the_probability(tmp_path):
    path = save(tmp_path / "a.png", RED)
    for prob in (0.25, 0.5, 1.0):
        sheet = contact_sheet([hit(path, prob)], tile=100)
        grid = SheetLayout(1, 1, 100, 12)
        row = [sheet.getpixel((grid.gap + x, grid.top + 100 + 1)) for x in range(100)]
        assert row.count(rgb(FILL)) == round(100 * prob)
        assert row.count(rgb(FILL)) + row.count(rgb(TRACK)) == 100


def test_what_cannot_be_read_is_grey_and_says_why(tmp_path):
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "page.jpg").write_text("<!doctype html>")
    whole = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)).save(whole, "JPEG")
    (tmp_path / "half.jpg").write_bytes(whole.getvalue()[:1500])
    names = ["empty.jpg", "page.jpg", "half.jpg", "nowhere.jpg", "", ".", "x" * 5000, "zero\0byte", "a.tar/b.jpg"]
    hits = [hit(name) for name in names] + [hit(save(tmp_path / "good.png", GREEN).name)]
    pictures = read_tiles(hits, tmp_path, 64)
    assert [picture.reason for picture in pictures[:4]] == [
        "the file is empty",
        "it is a web page",
        "the file ends too early",
        NO_SUCH_FILE,
    ]
    assert [isinstance(picture, UnreadableImage) for picture in pictures] == [True] * 9 + [False]
    assert pictures[5].reason == "it is a folder"
    sheet = contact_sheet(hits, columns=10, tile=96, root=tmp_path)
    grid = SheetLayout(10, 1, 96, SheetLayout(10, 1, 96, 0).gap)
    for number in range(9):
        left, top = grid.corner(number)
        assert sheet.getpixel((left + 2, top + 2)) == rgb(BLANK)
    assert near(middle(sheet, 9, 10), GREEN)


def test_a_picture_that_is_too_large_is_refused_by_its_header(tmp_path):
    header = b"P5 20000 20000 255\n"
    (tmp_path / "huge.pgm").write_bytes(header)
    (tmp_path / "large.pgm").write_bytes(b"P5 12000 12000 255\n")
    huge, large = read_tiles([hit("huge.pgm"), hit("large.pgm")], tmp_path, 64)
    assert huge.reason == "it has more pixels than Pillow opens"
    assert large.reason == "it has 12,000 x 12,000 pixels, more than the 134,217,728 allowed"


@pytest.mark.parametrize("ending", [".ppm", ".tga", ".ico", ".jp2", ".qoi", ".png"])
def test_pictures_are_shown_where_pillow_lacks_a_format(ending, tmp_path, monkeypatch):
    Image.new("RGB", (32, 32), GREEN).save(tmp_path / f"picture{ending}")
    monkeypatch.delitem(Image.OPEN, "AVIF")
    (picture,) = read_tiles([hit(f"picture{ending}")], tmp_path, 32)
    assert near(picture.getpixel((16, 16)), GREEN)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "YCbCr", "I;16", "F"])
def test_pictures_look_as_they_do_in_training(mode, tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (8, 8, 4), dtype=np.uint8)
    if mode == "I;16":
        picture = Image.fromarray(pixels[..., 0].astype(np.uint16) * 257)
    elif mode == "F":
        picture = Image.fromarray(pixels[..., 0].astype(np.float32) / 255)
    else:
        picture = Image.fromarray(pixels, "RGBA") if mode == "RGBA" else Image.fromarray(pixels[..., :3]).convert(mode)
    path = tmp_path / f"a.{'tiff' if mode in ('F', 'CMYK', 'YCbCr') else 'png'}"
    picture.save(path)
    wanted = images.decode(path.read_bytes(), name="a")
    assert np.array_equal(np.asarray(images.thumbnail(ImageLocation(path), 8)), np.asarray(wanted))


@pytest.mark.parametrize("brightest", [65536, -1])
def test_deep_pictures_that_training_rejects_are_not_shown(brightest, tmp_path):
    path = tmp_path / "deep.tiff"
    Image.fromarray(np.array([[0, brightest]], dtype=np.int32)).save(path)
    (shown,) = read_tiles([hit(path)], ".", 2)
    with pytest.raises(UnreadableImage) as error:
        images.decode(path.read_bytes(), name="deep")
    assert shown.reason == error.value.reason


def test_a_filter_of_warnings_that_is_set_meanwhile_stays(tmp_path, monkeypatch):
    def thumbnail_after_a_filter(location, side):
        warnings.filterwarnings("error", message="of the user")
        return images.thumbnail(location, side)

    monkeypatch.setitem(read_tiles.__globals__, "thumbnail", thumbnail_after_a_filter)
    read_tiles([hit(save(tmp_path / "a.png", RED))], ".", 48)
    assert any(entry[0] == "error" and entry[1] and entry[1].pattern == "of the user" for entry in warnings.filters)


def test_pictures_are_upright(tmp_path):
    picture = Image.new("RGB", (40, 20), RED)
    picture.paste(BLUE, (0, 0, 20, 20))
    note = Image.Exif()
    note[0x0112] = 6  # to be turned to the right by a quarter
    picture.save(tmp_path / "turned.png", exif=note)
    (shown,) = read_tiles([hit(tmp_path / "turned.png")], ".", 40)
    assert shown.size == (20, 40)
    assert shown.getpixel((10, 5)) == BLUE


def pack(path, members):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w") as archive:
        for name, colour in members.items():
            content = io.BytesIO()
            Image.new("RGB", (30, 30), colour).save(content, "PNG")
            info = tarfile.TarInfo(name)
            info.size = len(content.getvalue())
            archive.addfile(info, io.BytesIO(content.getvalue()))
    return path


def test_pictures_in_tar_archives(tmp_path):
    pack(tmp_path / "a.tar", {"1.png": RED, "./deep/2.png": GREEN})
    pack(tmp_path / "x.tar" / "b.tar", {"1.png": BLUE})
    (tmp_path / "bad.tar").write_text("no archive")
    save(tmp_path / "c.tar" / "1.png", GREEN)  # a folder may be called so
    paths = ["a.tar/1.png", "a.tar/./deep/2.png", "x.tar/b.tar/1.png", "c.tar/1.png", "a.tar/9.png", "bad.tar/1.png"]
    pictures = read_tiles([hit(path) for path in paths], tmp_path, 30)
    assert [picture.getpixel((15, 15)) for picture in pictures[:4]] == [RED, GREEN, BLUE, GREEN]
    assert [picture.reason for picture in pictures[4:]] == [
        "the archive has no such file",
        "the archive cannot be read",
    ]


def test_an_archive_is_gone_through_once(tmp_path, monkeypatch):
    pack(tmp_path / "a.tar", {f"{row}.png": RED for row in range(20)})
    opened = []
    real = tarfile.open
    monkeypatch.setattr(tarfile, "open", lambda *args, **options: opened.append(args) or real(*args, **options))
    places = locate_images([f"a.tar/{row}.png" for row in range(20)], [tmp_path])
    assert len(opened) == 1
    assert len({place.start for place in places}) == 20


def test_the_folder_that_has_the_most_counts_first(tmp_path):
    for name in ("1.png", "2.png", "3.png"):
        save(tmp_path / "data" / name, GREEN)
    save(tmp_path / "here" / "2.png", RED)
    save(tmp_path / "here" / "4.png", RED)
    roots = [tmp_path / "here", tmp_path / "data"]
    paths = ["1.png", "2.png", "3.png", "4.png"]
    assert sort_image_roots(roots, paths) == roots[::-1]
    assert sort_image_roots([*roots, tmp_path / "here"], []) == roots
    pictures = read_tiles([hit(path) for path in paths], roots, 40)
    assert [picture.getpixel((5, 5)) for picture in pictures] == [GREEN, GREEN, GREEN, RED]


def test_an_id_serves_as_a_path(tmp_path):
    save(tmp_path / "cat.png", RED)
    (picture,) = read_tiles([Hit("cat.png", None, 0.5, math.log(0.5))], tmp_path, 40)
    assert picture.getpixel((5, 5)) == RED


def test_of_many_hits_the_first_two_hundred_are_shown(tmp_path):
    hits = [hit("nowhere.jpg")] * 450
    sheet = contact_sheet(hits, tile=48)
    full = contact_sheet(hits[:200], tile=48)
    assert sheet.width == full.width == SheetLayout(10, 20, 48, 0).width
    assert sheet.height > full.height  # "and 250 more"
    below = np.asarray(sheet)[full.height :]
    assert (below < 200).any()


@pytest.mark.parametrize(("count", "columns"), [(0, 1), (1, 1), (4, 4), (5, 3), (12, 4), (20, 5), (50, 8), (200, 10)])
def test_sheets_are_balanced(count, columns):
    assert balanced_columns(count) == columns


def test_a_sheet_of_nothing_has_its_title():
    sheet = contact_sheet([], title="dog & !dog", subtitle="Nothing was found.")
    assert (np.asarray(sheet) < 128).any()


def test_titles_move_the_tiles_and_change_nothing_else(tmp_path):
    hits = [hit(save(tmp_path / "a.png", RED))] * 3
    plain, titled = contact_sheet(hits), contact_sheet(hits, title="dog", subtitle="3 expected")
    move = titled.height - plain.height
    assert move > 20
    assert np.array_equal(np.asarray(titled)[move + 12 :], np.asarray(plain)[12:])


def test_letters_that_the_font_does_not_have():
    letters = TextRenderer(14)
    assert letters.drawable("Müller-Ångström") == "Muller-Angstrom"
    assert letters.drawable("犬\x1b[31m\n.jpg") == "??[31m?.jpg"
    assert letters.drawable("plain…") == "plain…"


def test_names_are_cut_in_the_middle():
    letters = TextRenderer(14)
    cut = letters.cut("holiday-in-the-mountains-0042.jpg", 120)
    assert letters.width(cut) <= 120
    start, end = cut.split("…")
    assert "holiday-in-the-mountains-0042.jpg".startswith(start)
    assert "holiday-in-the-mountains-0042.jpg".endswith(end)
    assert start
    assert end.endswith(".jpg")
    assert letters.cut("a.jpg", 120) == "a.jpg"
    assert letters.cut("abc", 1) == ""
    assert letters.width(letters.cut("x" * 100_000, 120)) <= 120


def test_long_titles_are_wrapped_and_then_cut():
    letters = TextRenderer(14)
    lines = letters.wrapped(" & ".join(f"label{number}" for number in range(40)), 200, lines=3)
    assert len(lines) == 3
    assert all(letters.width(line) <= 200 for line in lines)
    assert lines[0].startswith("label0 & label1")
    assert "…" in lines[2]
    assert lines[2].endswith("label39")
    assert letters.wrapped("", 200, lines=3) == []
    assert letters.wrapped("two words", 500, lines=3) == ["two words"]


def test_odd_texts_are_drawn(tmp_path):
    save(tmp_path / "犬\n🐶.png", RED)
    contact_sheet([hit("犬\n🐶.png", 1e-300)], title="犬 & \x1b[31m " * 50, subtitle="é" * 5000, root=tmp_path)


def test_pillow_does_not_warn(tmp_path):
    damaged = b"Exif\0\0MM\0*\0\0\0\x08\0\x05\x01"  # five notes of the camera are promised, none is there
    Image.new("RGB", (20, 20)).save(tmp_path / "a.jpg", exif=damaged)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="Corrupt EXIF data"):
            Image.open(tmp_path / "a.jpg").getexif()
        (shown,) = read_tiles([hit(tmp_path / "a.jpg")], ".", 20)
    assert shown.size == (20, 20)


def test_refusals():
    with raises_input_error("tile", "contact_sheet", rule="be a whole number between 48 and 1,024"):
        contact_sheet([], tile=5)
    with raises_input_error("columns", "contact_sheet", rule="be a whole number, at least 1"):
        contact_sheet([], columns=0)


@pytest.mark.process
def test_torch_is_not_loaded(tmp_path):
    code = (
        "import sys; from manyhot.search.collection import Hit; from manyhot.search.contact_sheet import contact_sheet;"
        "contact_sheet([Hit('1', 'a.png', 0.5, -0.7)]); sys.exit('torch' in sys.modules)"
    )
    save(tmp_path / "a.png", RED)
    assert subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=os.environ, check=False).returncode == 0


def test_letters_stay_within_their_tile(tmp_path):
    hits = [hit(save(tmp_path / ("w" * 80 + ".png"), RED), 0.123)] * 2
    sheet = np.asarray(contact_sheet(hits, tile=96))
    gap = SheetLayout(2, 1, 96, 0).gap
    assert (sheet[:, gap + 96 : 2 * gap + 96] == 255).all()
    assert (sheet[:, -gap:] == 255).all()


def test_what_was_found_can_be_drawn_as_a_whole():
    hits = [Hit("1", "dog.jpg", 0.9, -0.1), Hit("2", "cat.jpg", 0.8, -0.2)]
    found = SearchResult("dog", hits, None, 0.85, None)
    assert contact_sheet(found).tobytes() == contact_sheet(hits).tobytes()


def test_a_picture_too_long_for_any_file_is_refused():
    hits = [Hit(str(number), f"{number}.jpg", 0.5, -0.7) for number in range(200)]
    with raises_input_error(rule="at most 65,000 pixels per side", got="200 for 200 tiles of 1024 pixels"):
        contact_sheet(hits, columns=200, tile=1024)
