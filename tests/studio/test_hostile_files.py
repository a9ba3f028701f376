"""Whatever is asked for, and whatever a table names: no byte of a file outside of the collection is ever sent."""

import io
import json
import os
import random
import tarfile
import threading
import time

import pytest
import torch
from PIL import Image

import manyhot as mh
from manyhot.images import thumbnail
from manyhot.studio import bind, open_studio
from manyhot.studio.app import build_app
from tests.studio.bombs import many_scans, tiff, zeros
from tests.studio.targets import FORBIDDEN_COLOUR, FORBIDDEN_TEXT, served

pytestmark = pytest.mark.process

GOOD = ("000.png", "inner.png", "good.tar/a.png", "folder/../000.png", "swapped.png", "moved/a.png")
HOSTILE = (
    "../outside/secret.png",
    "../../../../../../../../../../OUTSIDE/secret.png",
    "/OUTSIDE/secret.png",
    "//OUTSIDE/secret.png",
    "folder/../../outside/secret.png",
    "000.png/../../outside/secret.png",
    "file:///OUTSIDE/secret.png",
    "http://127.0.0.1:1/secret.png",
    "~/secret.png",
    "$HOME/secret.png",
    "..\\outside\\secret.png",
    "C:\\Windows\\win.ini",
    "%2e%2e/outside/secret.png",
    "．．/outside/secret.png",
    "‥/outside/secret.png",
    "../outside/secret.png\0.png",
    "000.png\0",
    "link.png",
    "chain.png",
    "linked/secret.png",
    "linked/../secret.png",
    "dangling.png",
    "circle.png",
    "pipe.png",
    "zero.png",
    "terminal.png",
    "folder",
    "folder/",
    ".",
    "..",
    "/",
    " ",
    "*",
    "?",
    "a" * 300 + ".png",
    "a/" * 3000 + "b.png",
    "../outside/secret.tar/secret.png",
    "/OUTSIDE/secret.tar/secret.png",
    "linked.tar/secret.png",
    "good.tar/../../outside/secret.png",
    "good.tar/link.png",
    "good.tar/hard.png",
    "good.tar/device.png",
    "good.tar/folder",
    "good.tar/../a.png",
    "vast.tar/a.png",
    "endless.tar/a.png",
    "../outside/secret.txt",
    "/etc/passwd",
    "/etc/hostname",
    "/proc/self/environ",
    "/proc/self/fd/0",
    "/dev/stdin",
    "/dev/zero",
    "words.png",
    "scans.jpg",
    "tiles.tif",
)


def member(name, size, *, kind=tarfile.REGTYPE, to=""):
    """The head of a file in an archive."""
    found = tarfile.TarInfo(name)
    found.size, found.type, found.linkname = max(size, 0), kind, to
    head = bytearray(found.tobuf(tarfile.GNU_FORMAT)[:512])
    if size < 0:
        head[124:136] = (2**96 + size).to_bytes(12, "big")
        head[148:156] = b" " * 8
        head[148:156] = b"%06o\0 " % sum(head)
    return bytes(head)


def png(colour):
    written = io.BytesIO()
    Image.new("RGB", (40, 30), colour).save(written, "PNG")
    return written.getvalue()


def write_outside(folder):
    (folder / "inner").mkdir(parents=True)
    secret = png(FORBIDDEN_COLOUR)
    for name in ("secret.png", "inner/secret.png", "a.png"):
        (folder / name).write_bytes(secret)
    (folder / "secret.txt").write_bytes(FORBIDDEN_TEXT)
    (folder / "secret.tar").write_bytes(member("secret.png", len(secret)) + secret.ljust(1024, b"\0") + bytes(1024))


def write_archives(folder):
    good = png("green")
    linked = [("link.png", tarfile.SYMTYPE), ("hard.png", tarfile.LNKTYPE)]
    (folder / "good.tar").write_bytes(
        member("a.png", len(good))
        + good.ljust(512 * (1 + len(good) // 512), b"\0")
        + b"".join(member(name, 0, kind=kind, to="../outside/secret.png") for name, kind in linked)
        + member("device.png", 0, kind=tarfile.CHRTYPE)
        + member("folder", 0, kind=tarfile.DIRTYPE)
        + bytes(1024)
    )
    with open(folder / "vast.tar", "wb") as file:
        file.write(member("a.png", 2**29))
        file.truncate(2**29 + 2048)  # takes no room on the disk, and would take it in memory
    # The second file of this archive ends where it begins, so that to look for a third one takes for ever.
    (folder / "endless.tar").write_bytes(member("first.png", 0) + member("second.png", -512) + bytes(1024))


def write_odd(folder, outside):
    """Links, pipes, devices, and pictures that are none or cost too much."""
    (folder / "folder").mkdir()
    (folder / "link.png").symlink_to(outside / "secret.png")
    (folder / "chain.png").symlink_to("link.png")
    (folder / "inner.png").symlink_to("000.png")
    (folder / "linked").symlink_to(outside / "inner")
    (folder / "linked.tar").symlink_to(outside / "secret.tar")
    (folder / "dangling.png").symlink_to("nowhere.png")
    (folder / "circle.png").symlink_to("round.png")
    (folder / "round.png").symlink_to("circle.png")
    (folder / "zero.png").symlink_to("/dev/zero")
    (folder / "terminal.png").symlink_to("/dev/tty")
    os.mkfifo(folder / "pipe.png")
    (folder / "words.png").write_bytes(b"no picture " + FORBIDDEN_TEXT)
    (folder / "scans.jpg").write_bytes(many_scans(5_000, side=7_000))
    (folder / "tiles.tif").write_bytes(tiff(1, 1, zeros(1000), tile=(46_320, 46_320)))


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A collection, and beside it what must stay hidden."""
    base = tmp_path_factory.mktemp("place")
    folder, outside = base / "collection", base / "outside"
    (folder / "moved").mkdir(parents=True)
    write_outside(outside)
    for name in ("000.png", "swapped.png", "moved/a.png"):
        (folder / name).write_bytes(png("green"))
    write_archives(folder)
    write_odd(folder, outside)
    paths = [path.replace("OUTSIDE", str(outside).lstrip("/")) for path in (*GOOD, *HOSTILE)]
    probs = torch.rand(len(paths), 3, generator=torch.Generator().manual_seed(0))
    ids = [f"row {row}" for row in range(len(paths))]
    mh.Predictions(probs=probs, labels=["dog", "cat", "park"], ids=ids, paths=paths).save(folder / "table.parquet")
    return folder


@pytest.fixture(scope="module")
def target(place):
    studio, _ = open_studio(place / "table.parquet", roots=[place], read_only=True)
    address = bind("127.0.0.1", 0)
    with served(build_app(studio, hosts=address.hosts), address) as target:
        yield target


ADDRESSES = [
    "/static/../routes.py",
    "/static/%2e%2e/routes.py",
    "/static/..%2froutes.py",
    "/static/%2e%2e%2froutes.py",
    "/static/%252e%252e%252froutes.py",
    "/static/..%5croutes.py",
    "/static/..\\routes.py",
    "/static/....//routes.py",
    "/static/.%00./routes.py",
    "/static/app.js%00.png",
    "/static//etc/passwd",
    "/static/%2fetc%2fpasswd",
    "/static/%c0%ae%c0%ae/routes.py",
    "/static/%ef%bc%8e%ef%bc%8e%ef%bc%8froutes.py",
    "/static/%e2%80%a5/routes.py",
    "/static/" + "a" * 5_000,
    "/static/" + "../" * 5_000 + "etc/passwd",
    "/static/.",
    "/static/..",
    "/static/",
    "/static",
    "/static/__init__.py",
    "/static/APP.JS",
    "/static/app.js/",
    "/static/app.js/../index.html",
    "/../../../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "//etc/passwd",
    "/etc/passwd",
    "/api/../static/app.js",
    "/api/pictures/../../../etc/passwd",
    "/api/pictures/%2e%2e%2foutside%2fsecret.png",
    "/api/pictures/000.png",
    "/api/review/file/../../x",
    "/api/pictures/0/../1",
    "/.git/config",
    "/predictions.parquet",
]


@pytest.mark.parametrize("address", ADDRESSES, ids=lambda address: address[:40])
def test_no_address_leads_to_a_file(target, address):
    answer = target.ask(address)
    assert answer.status in (404, 422)
    assert b"import" not in answer.body
    assert b"root:" not in answer.body


ROWS = ["", "%20", "-1", "-0.5", "0.5", "1e3", "99999", "2147483648", "9" * 4_000, "0x0", "NaN", "inf", "null", "true"]
ODD_ROWS = ["%00", "0%00", "%EF%BC%91", "%D9%A1", "[0]", "{row}", "0;1", "0'", "0/1", "0%2f1", "1%2C2"]


@pytest.mark.parametrize("row", [*ROWS, *ODD_ROWS], ids=lambda row: row[:20] or "nothing")
@pytest.mark.parametrize("route", ["/api/pictures/{}", "/api/items/{}"])
def test_rows_that_are_none(target, route, row):
    assert target.ask(route.format(row)).status in (404, 422)


@pytest.mark.parametrize("side", ["0", "-1", "127", "1e9", "9" * 4_000, "128.5", "", "x", "128%00", "1024x1024"])
def test_sizes_that_are_none(target, side):
    assert target.ask(f"/api/pictures/0?side={side}").status in (404, 422)


def test_what_a_table_names_outside_of_the_collection_is_not_sent(target, place):
    start = time.process_time()
    for row, path in enumerate(HOSTILE, len(GOOD)):
        for side in (128, 1024):
            answer = target.ask(f"/api/pictures/{row}?side={side}")
            assert answer.status == 404, path
            assert "cannot be shown: " in answer.sentence
        item = json.loads(target.ask(f"/api/items/{row}").body)
        assert item["row"] == row
    assert time.process_time() - start < 20
    told = {
        path: json.loads(target.ask(f"/api/items/{row}").body)["why"] for row, path in enumerate(HOSTILE, len(GOOD))
    }
    assert told["link.png"] == told["/etc/passwd"] == "it lies outside of the folders of this collection"
    assert told["circle.png"] == told["pipe.png"] == "there is no such file"
    assert told["endless.tar/a.png"] == "the archive cannot be read"


@pytest.mark.parametrize("row", range(len(GOOD)), ids=GOOD)
def test_what_lies_in_the_collection_is_sent(target, row):
    answer = target.ask(f"/api/pictures/{row}?side=128")
    assert (answer.status, answer.headers["content-type"]) == (200, "image/jpeg")
    with Image.open(io.BytesIO(answer.body)) as picture:
        assert picture.size == (128, 96)
        assert picture.getpixel((5, 5)) == pytest.approx((0, 128, 0), abs=4)


def test_a_picture_that_costs_too_much_is_not_decoded(target):
    for path, why in (
        ("scans.jpg", "more than 100 scans"),
        ("tiles.tif", "tiles of"),
        ("vast.tar/a.png", "536,870,912 bytes"),
    ):
        start = time.process_time()
        assert why in target.ask(f"/api/pictures/{len(GOOD) + HOSTILE.index(path)}").sentence
        assert time.process_time() - start < 2


def put(path, make):
    """Puts something in the place of a file, all at once."""
    make(path.with_name("new"))
    os.replace(path.with_name("new"), path)


def test_what_is_put_in_the_place_of_a_picture_is_looked_at_anew(target, place):
    path, outside = place / "swapped.png", place.parent / "outside"
    row = GOOD.index("swapped.png")
    for make, status in (
        (lambda new: new.symlink_to(outside / "secret.png"), 404),
        (lambda new: new.symlink_to("link.png"), 404),
        (lambda new: new.symlink_to("000.png"), 200),
        (lambda new: new.symlink_to("pipe.png"), 404),
        (lambda new: os.mkfifo(new), 404),
        (lambda new: new.symlink_to("/dev/zero"), 404),
        (lambda new: new.symlink_to("folder"), 404),
        (lambda new: new.write_bytes(b""), 404),
        (lambda new: new.write_bytes(png("green")), 200),
    ):
        put(path, make)
        for side in (128, 256):
            assert target.ask(f"/api/pictures/{row}?side={side}").status == status
    path.unlink()
    assert target.ask(f"/api/pictures/{row}?side=128").status == 404
    path.write_bytes(png("green"))


@pytest.mark.parametrize("name", ["swapped.png", "moved/a.png"])
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_nothing_can_be_swapped_between_the_look_at_a_file_and_its_opening(target, place, monkeypatch, name, kind):
    outside, path = place.parent / "outside", place / name.partition("/")[0]
    kept, swapped = path.with_name("kept"), []

    def small_after_a_swap(found, side):
        os.replace(path, kept)
        if kind == "pipe":
            os.mkfifo(path)
        else:
            path.symlink_to(outside / ("secret.png" if path.suffix else ""))
        swapped.append(found.file)
        return thumbnail(found, side)

    monkeypatch.setattr("manyhot.studio.thumbnails.thumbnail", small_after_a_swap)
    os.utime(place / name)  # another picture, which is not taken from memory
    answer = target.ask(f"/api/pictures/{GOOD.index(name)}?side=512")
    path.unlink()
    os.replace(kept, path)
    assert answer.status == 404
    assert swapped == [place / name]


@pytest.mark.parametrize("name", ["swapped.png", "moved/a.png"])
def test_a_link_that_comes_and_goes_leads_nowhere(target, place, name):
    """A file, or the folder that it is in, is a link for a moment; the targets look at every picture that they get."""
    outside, stop, row = place.parent / "outside", threading.Event(), GOOD.index(name)
    path = place / name.partition("/")[0]
    kept = path.with_name("kept")

    def swap():
        while not stop.is_set():
            os.replace(path, kept)
            path.symlink_to(outside / ("secret.png" if path.suffix else ""))
            path.unlink()
            os.replace(kept, path)
            os.utime(place / name)  # another picture, which is not taken from memory

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        found = {target.ask(f"/api/pictures/{row}?side={random.choice((128, 256))}").status for _ in range(100)}
    finally:
        stop.set()
        thread.join()
    assert found <= {200, 404}
    assert target.ask(f"/api/pictures/{row}").status == 200


@pytest.mark.parametrize("form", ["JPEG", "GIF"])
def test_nothing_but_the_pixels_of_a_file_is_sent(target, place, form):
    """What a camera or a person wrote into a file besides: places, names, notes."""
    options = {"comment": FORBIDDEN_TEXT * (1 if form == "JPEG" else 5_000)}
    if form == "JPEG":
        exif = Image.Exif()
        exif[0x010E] = FORBIDDEN_TEXT.decode()
        options |= {"exif": exif, "icc_profile": FORBIDDEN_TEXT * 10}
    put(place / "swapped.png", lambda new: Image.new("RGB", (40, 30), "green").save(new, form, **options))
    assert FORBIDDEN_TEXT in (place / "swapped.png").read_bytes()
    assert target.ask(f"/api/pictures/{GOOD.index('swapped.png')}?side=512").status == 200
