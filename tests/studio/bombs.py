"""Pictures that are small to send and large to decode, or that are none at all."""

import io
import struct
import zlib
from functools import cache

from PIL import Image


def saved(form, *, size=(64, 48), mode="RGB", **options):
    """A small picture with some structure, in a format."""
    written = io.BytesIO()
    picture = Image.radial_gradient("L").resize(size).convert(mode)
    picture.save(written, form, **options)
    return written.getvalue()


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def zeros(count):
    """So many bytes of nothing, packed."""
    packer = zlib.compressobj(9)
    sizes = [min(2**20, count - start) for start in range(0, count, 2**20)]
    return b"".join([packer.compress(bytes(size)) for size in sizes]) + packer.flush()


def png(width, height, *, colours=6, depth=8, pixels=None):
    """A PNG that claims a size; black by default, and with whatever bytes are given otherwise."""
    channels = {0: 1, 2: 3, 3: 1, 6: 4}[colours]
    data = zeros(height * (1 + width * channels * depth // 8)) if pixels is None else zlib.compress(pixels)
    header = struct.pack(">IIBBBBB", width, height, depth, colours, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def tiff(width, height, data, *, tile=None, again=()):
    """A grey TIFF packed by deflate; with a tile of a size of its own, and fields that come a second time."""
    fields = [(256, width), (257, height), (258, 8), (259, 8), (262, 1), (277, 1)]
    at = 10 + 12 * (len(fields) + (4 if tile else 3) + len(again)) + 4
    if tile:
        fields += [(322, tile[0]), (323, tile[1]), (324, at), (325, len(data))]
    else:
        fields += [(273, at), (278, height), (279, len(data))]
    fields = sorted([*fields, *again], key=lambda field: field[0])
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields)
    return b"II*\0" + struct.pack("<IH", 8, len(fields)) + entries + struct.pack("<I", 0) + data


def gif(screen, frame):
    """A GIF whose first frame has a size of its own, and no pixels."""
    screen_part = struct.pack("<HHBBB", *screen, 0, 0, 0)
    return b"GIF89a" + screen_part + b"," + struct.pack("<HHHHB", 0, 0, *frame, 0) + b"\x02\x00;"


def icon(inner):
    """An icon that says it has one pixel, with any picture inside."""
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 1, 1, 0, 0, 1, 32, len(inner), 22) + inner


def many_scans(count, *, side):
    """A progressive JPEG whose last scan is repeated."""
    written = io.BytesIO()
    Image.new("L", (side, side), "white").save(written, "JPEG", progressive=True)
    data = written.getvalue()
    last = data.rindex(b"\xff\xda")
    return data[:-2] + data[last:-2] * count + b"\xff\xd9"


@cache
def enormous():
    """Pictures that say they have more pixels than are taken, by name."""
    webp = b"WEBPVP8L" + struct.pack("<IBI", 10, 0x2F, 16382 | 16382 << 14) + bytes(5)
    return {
        "a PNG of one pixel that claims 100,000 x 100,000": png(100_000, 100_000, pixels=b"\0\0\0\0\0"),
        "a PNG of a little too many": png(7072, 7072, pixels=bytes(100)),
        "a TIFF": tiff(100_000, 100_000, zeros(1000)),
        "a TIFF of one pixel in a tile of two gigabytes": tiff(1, 1, zeros(1000), tile=(46_320, 46_320)),
        "the same with a small tile named after it": tiff(
            1, 1, zeros(1000), tile=(46_320, 46_320), again=[(322, 16), (323, 16)]
        ),
        "a GIF": gif((65_535, 65_535), (65_535, 65_535)),
        "a GIF of one pixel with a large frame": gif((1, 1), (65_535, 65_535)),
        "a WebP": b"RIFF" + struct.pack("<I", len(webp)) + webp,
        "a BMP": b"BM" + struct.pack("<IHHIIiiHHIIiiII", 0, 0, 0, 54, 40, 30_000, 30_000, 1, 24, 0, 0, 0, 0, 0, 0),
        "an icon of one pixel with a large PNG inside": icon(png(13_000, 13_000, pixels=bytes(1000))),
        "a JPEG of 5,000 scans": many_scans(5_000, side=7_000),
    }


@cache
def no_pictures():
    """What is sent as a picture and is none, by name."""
    return {
        "nothing": b"",
        "zeros": bytes(10_000),
        "a drawing": b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>',
        "a drawing that asks for a file": b'<?xml version="1.0"?><!DOCTYPE s [<!ENTITY x SYSTEM "file:///etc/passwd">]>',
        "a page": b"<!doctype html><script>alert(1)</script>",
        "a PDF": b"%PDF-1.7\n1 0 obj\n<<>>\nendobj\n",
        "PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) (r) file\n",
        "an archive": b"PK\x03\x04" + bytes(100),
        "a program": b"\x7fELF" + bytes(100),
        "a pickle": b"\x80\x04\x95\x0c\x00\x00\x00\x00\x00\x00\x00\x8c\x02os\x94.",
        "a format that is not taken": saved("JPEG2000"),
        "an icon": saved("ICO", size=(16, 16)),
        "the beginning of a PNG": b"\x89PNG\r\n\x1a\n",
    }
