"""What is sent to be classified: too much of it, in pieces, under odd names, and pictures that bite."""

import json
import random
import threading

import pytest

from manyhot.images import ImageLimits
from manyhot.studio.classify import UPLOAD_BYTES
from tests.studio.bombs import enormous, no_pictures, png, saved
from tests.studio.collections import write_run
from tests.studio.servers import Started
from tests.studio.targets import (
    BOUNDARY,
    END,
    FORBIDDEN_TEXT,
    Target,
    forget_peak,
    open_files,
    part,
    resident,
)
from tests.waiting import cpu_seconds, eventually

pytestmark = pytest.mark.process

FORM = "multipart/form-data; boundary="
SOUND = saved("PNG")
# Megabytes that a request may take which is refused: what it has sent, once or twice.
REFUSED_MEGABYTES = 150
# Megabytes that one picture of 25 million transparent pixels may take; two at once take 800.
LARGE_MEGABYTES = 600
# Seconds that a server computes for a request that is refused.
REFUSED_SECONDS = 5


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """A studio in a process of its own, whose memory can be watched; what it has open in the end is what it had."""
    started = Started(write_run(tmp_path_factory.mktemp("run")), "--read-only", "--no-open", "--port", "0")
    target = Target(int(started.url.rstrip("/").rpartition(":")[2]))
    target.process = started.process.pid
    assert target.upload(SOUND).status == 200
    before = open_files(target.process)
    yield target
    assert eventually(lambda: open_files(target.process) <= before + 1)
    code, told = started.stop()
    assert code == 0
    assert "Traceback" not in told


@pytest.fixture
def target(server):
    """The same, with its memory taken down before and looked at after each test."""
    forget_peak(server.process)
    before = resident(server.process)
    yield server
    grown = resident(server.process, peak=True) - before
    assert grown < REFUSED_MEGABYTES
    assert server.is_alive()


def test_a_body_that_is_said_to_be_too_long_is_not_read(target):
    for length in (UPLOAD_BYTES + 2**20, 10**15, int("9" * 20)):
        answer = target.ask("/api/classify", method="POST", content_length=length, content_type=FORM + "b")
        assert answer.status == 413
        assert answer.sentence == "A request may have at most 33,619,968 bytes. Send a smaller file."
    assert target.ask("/api/review/0", method="PUT", content_length=2**20 + 1).status == 413


def test_who_sends_too_much_all_the_same_is_told_so(target):
    answer = target.upload(bytes(UPLOAD_BYTES + 2**20))
    assert (answer.status, answer.sentence[:12]) == (413, "A request ma")


def test_the_longest_body_is_taken(target):
    assert target.upload(random.Random(0).randbytes(UPLOAD_BYTES)).status == 422


def test_a_body_of_unknown_length_is_refused(target):
    for chunks in (b"", b"5\r\nhello\r\n0\r\n\r\n", b"1\r\na\r\n" * 10_000, b"ffffffff\r\n", b"5;" + b"x" * 1_000):
        head = target.head("/api/classify", method="POST", transfer_encoding="chunked", content_type=FORM + "b")
        with target.connect() as connection:
            assert target.answer(connection, head + chunks).status in (400, 411)


def test_a_body_that_is_longer_than_it_says_is_cut(target):
    answer = target.upload(SOUND, content_length=20, connection="close")
    assert answer.status in (400, 422)


@pytest.mark.parametrize("name", enormous())
def test_a_picture_of_too_many_pixels_is_refused_by_its_header(target, name):
    start = cpu_seconds(target.process)
    answer = target.upload(enormous()[name])
    assert answer.status == 422
    assert "cannot be read: it " in answer.sentence
    assert cpu_seconds(target.process) - start < REFUSED_SECONDS


def test_large_pictures_take_turns(server):
    large, found = png(5_000, 5_000), []
    forget_peak(server.process)
    before = resident(server.process)
    threads = [threading.Thread(target=lambda: found.append(server.upload(large).status)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [200] * 3
    assert resident(server.process, peak=True) - before < LARGE_MEGABYTES


@pytest.mark.parametrize("name", no_pictures())
def test_what_is_no_picture_is_told_so(target, name):
    answer = target.upload(no_pictures()[name])
    assert answer.status == 422
    assert "cannot be read: " in answer.sentence


@pytest.mark.parametrize("form", ImageLimits.UPLOAD.formats)
def test_broken_pictures_of_all_formats(target, form):
    sound, draw = saved(form), random.Random(form)
    assert target.upload(sound).status == 200
    for _ in range(25):
        broken = bytearray(sound)
        for _ in range(draw.choice((1, 3, 20))):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        for data in (bytes(broken), sound[: draw.randrange(1, len(sound))]):
            assert target.upload(data).status in (200, 422)


def test_what_is_a_picture_and_something_else_is_a_picture(target):
    page = b"<script>alert(1)</script>" + FORBIDDEN_TEXT
    both = [saved("GIF", comment=page), saved("JPEG", comment=page), SOUND + page, SOUND + b"PK\x03\x04" + page]
    for data in both:
        answer = target.upload(data)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
        assert b"script" not in answer.body


BROKEN_FORMS = {
    "no boundary is named": ("multipart/form-data", part(SOUND) + END),
    "another boundary is named": (FORM + "other", part(SOUND) + END),
    "an empty boundary": (FORM, part(SOUND) + END),
    "a boundary that is too long": (FORM + "b" * 1_000, part(SOUND) + END),
    "no last boundary": (None, part(SOUND)),
    "cut off in the middle": (None, part(SOUND)[:-60]),
    "nothing": (None, b""),
    "only the end": (None, END),
    "no such field": (None, part(SOUND, field=b"picture") + END),
    "a text and no file": (None, part(SOUND, name=None) + END),
    "no name of a field": (None, part(SOUND).replace(b'; name="image"', b"") + END),
    "no head": (None, b"--" + BOUNDARY + b"\r\n\r\n" + SOUND + b"\r\n" + END),
    "a line that is none": (None, part(SOUND, more=b"no colon here\r\n") + END),
    "a long line": (None, part(SOUND, more=b"x: " + b"y" * 2**24 + b"\r\n") + END),
    "many lines": (None, part(SOUND, more=b"x: y\r\n" * 100_000) + END),
    "a long name": (None, part(SOUND, name=b"a" * 2**20) + END),
    "half a million parts": (None, part(b"", field=b"x", name=None) * 300_000 + END),
    "thousands of files": (None, part(b"", field=b"x") * 2_000 + part(SOUND) + END),
    "a long text beside the file": (None, part(bytes(2**24), field=b"x", name=None) + part(SOUND) + END),
    "a form within the form": (
        None,
        part(part(SOUND, boundary=b"in") + b"--in--", more=b"content-type: multipart/mixed; boundary=in\r\n") + END,
    ),
    "nothing but beginnings of boundaries": (None, part(b"\r\n--the-bound" * 500_000) + END),
    "a charset that is none": (FORM + BOUNDARY.decode() + "; charset=undefined", part(SOUND) + END),
    "another kind of form": ("application/x-www-form-urlencoded", b"image=a&" * 100_000),
    "no form": ("application/json", b'{"image": "a.png"}'),
    "the picture alone": ("image/png", SOUND),
    "no kind at all": ("", SOUND),
}


@pytest.mark.parametrize("name", BROKEN_FORMS)
def test_forms_that_are_broken(target, name):
    kind, body = BROKEN_FORMS[name]
    start = cpu_seconds(target.process)
    assert target.send_form(body, kind=kind).status in (400, 422)
    assert cpu_seconds(target.process) - start < REFUSED_SECONDS


def test_forms_that_are_odd_and_can_be_read(target):
    after, before = b"\r\n" * 2**20, b"\r\n" * 2**20
    for body in (
        part(SOUND) + part(SOUND, name=b"b.png") + END,
        part(b"x", field=b"x", name=None) * 900 + part(SOUND) + END,
        before + part(SOUND) + END + after,
        part(SOUND, more=b"content-type: text/html\r\n") + END,
    ):
        answer = target.send_form(body)
        assert answer.status == 200
        assert json.loads(answer.body)["name"] in ("a.png", "b.png")


@pytest.mark.parametrize(
    ("name", "charset", "shown"),
    [
        (b"../../etc/passwd", "", "../../etc/passwd"),
        (b"<img src=x onerror=alert(1)>", "", "<img src=x onerror=alert(1)>"),
        (b"", "", "the image"),
        (b"a\0\x1b[31m\nb\x7f.png", "", "a\\x00\\x1b[31m\\nb\\x7f.png"),
        (b"\xff\xfe.png", "", "ÿþ.png"),
        ("a\u202egnp.exe".encode(), "", "a\\u202egnp.exe"),
        (b"a" * 3_000, "", "a" * 255),
        (rb"\ud800.png", "unicode_escape", "\\ud800.png"),
        (rb"+2AA-.png", "utf-7", "\\ud800.png"),
    ],
)
def test_names_are_shown_and_do_nothing(target, name, charset, shown):
    kind = FORM + BOUNDARY.decode() + (f"; charset={charset}" if charset else "")
    answer = target.send_form(part(SOUND, name=name) + END, kind=kind)
    assert json.loads(answer.body)["name"] == shown
    assert target.send_form(part(b"no picture", name=name) + END, kind=kind).status == 422
