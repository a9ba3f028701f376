"""Images: which formats are read, decompression risks, decoding to RGB, and thumbnails; without torch."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

import numpy as np

from manyhot.errors import InputError, require

if TYPE_CHECKING:
    from PIL import Image

Array = np.ndarray[Any, Any]

# Pixels only. Formats that are programs (EPS) or drawings (WMF) stay closed, whatever Pillow could do with them.
# fmt: off
FORMATS = (
    "JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM", "TGA", "ICO", "DIB", "PCX", "QOI", "HEIF",
)
# fmt: on


# Programs write about ten scans. Each costs a walk through all pixels, and may take no more than 75 bytes.
MAX_SCANS = 100
# As much of a JPEG as is looked at: more than any camera writes.
MAX_JPEG_BYTES = 2**28
_END_MARKER, _SCAN_MARKER = b"\xd9", b"\xda"
# What stands for a byte of the pixels (00), fills (FF), or has no length (01, D0 to D7) is no marker to stop at.
_MARKER_PATTERN = re.compile(rb"\xff+([^\x00\x01\xd0-\xd7\xff])")
_FIELD_TYPE_BYTES = {1: 1, 3: 2, 4: 4, 6: 1, 8: 2, 9: 4}


def count_scans(data: bytes) -> int:
    r"""How many scans a JPEG has, as far as its end: a camera may have put a film behind it.

    Example:
        >>> count_scans(b"\xff\xd8\xff\xda\x00\x04..pixels\xff\x00pixels\xff\xda\x00\x04..pixels\xff\xd9\xff\xda")
        2
    """
    position, count = 2, 0
    while count <= MAX_SCANS and (match := _MARKER_PATTERN.search(data, position)) and match[1] != _END_MARKER:
        count += match[1] == _SCAN_MARKER
        position = match.end() + int.from_bytes(data[match.end() : match.end() + 2], "big")
    return count


def largest_tile(file: BinaryIO) -> int:
    """How many pixels a tile of a TIFF has, by its first directory; 0 where it has none.

    Decoders ask for the memory of a whole tile, also where the image is smaller. Where the directory names a side
    twice, they do not agree which one counts; here the larger does.
    """
    file.seek(0)
    head = file.read(16)
    big = 43 in head[2:4]  # the kind for files of more than four gigabytes, whose numbers are longer
    field = 8 if big else 4

    def number(data: bytes) -> int:
        return int.from_bytes(data, "little" if head[:2] == b"II" else "big")

    file.seek(number(head[field : 2 * field]))
    size = 4 + 2 * field
    entries = file.read(size * min(number(file.read(8 if big else 2)), 2**16))
    sides = {322: 0, 323: 0}  # by tag
    for start in range(0, len(entries), size):
        entry = entries[start : start + size]
        tag, kind = number(entry[:2]), number(entry[2:4])
        if tag in sides:
            sides[tag] = max(sides[tag], number(entry[-field:][: _FIELD_TYPE_BYTES.get(kind, field)]))
    return sides[322] * sides[323]


# Files that are mistaken for images, by patterns of their first bytes in small letters.
OTHER_FILES = {
    rb"version https://git-lfs": "it is a Git LFS pointer; the image itself was not downloaded",
    rb"<\?xml": "it is an XML file, perhaps an SVG drawing",
    rb"<svg": "it is an SVG drawing, which has no pixels",
    rb"<!doctype html|<html": "it is a web page",
    rb"%pdf": "it is a PDF",
    rb"%!ps": "it is a PostScript drawing, which has no pixels",
    rb"pk\x03\x04": "it is a ZIP archive",
    rb"(?s:....)ftyp(heic|heix|mif1|hevc)": "it is a HEIC photo; convert it to JPEG",
}
NO_SUCH_FILE = "there is no such file"


class UnreadableImage(InputError):
    """An image that cannot be read.

    Attributes:
        name: Which image.
        reason: Why, in plain words.
        missing: Whether there is no such image at all.

    Example:
        >>> print(UnreadableImage("cats/17.jpg", "the file is empty"))
        The image 'cats/17.jpg' cannot be read: the file is empty.
    """

    def __init__(self, name: str, reason: str, *, missing: bool = False) -> None:
        super().__init__(got=f"The image {name!r} cannot be read: {reason}.")
        self.name, self.reason, self.missing = name, reason, missing

    @classmethod
    def from_os_error(cls, name: str, error: OSError) -> UnreadableImage:
        """The reason why a file could not be opened or read."""
        if isinstance(error, FileNotFoundError):
            return cls(name, NO_SUCH_FILE, missing=True)
        reasons = {IsADirectoryError: "it is a folder", PermissionError: "you may not read it"}
        return cls(name, reasons.get(type(error)) or error.strerror or str(error))


@dataclass(frozen=True)
class ImageLimits:
    """Which images are decoded.

    Attributes:
        max_pixels: Larger ones are rejected by their header, before memory is allocated.
        formats: Some of `FORMATS`.
    """

    max_pixels: int = 2**27
    formats: tuple[str, ...] = FORMATS

    LOCAL: ClassVar[ImageLimits]
    UPLOAD: ClassVar[ImageLimits]


ImageLimits.LOCAL = ImageLimits()
# What browsers show, and TIFF. Decoders of rarer formats are slower, block all other threads, or ignore limits.
ImageLimits.UPLOAD = ImageLimits(50_000_000, ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"))


def decode(
    data: bytes | BinaryIO | Array, *, name: str, limits: ImageLimits = ImageLimits.LOCAL, min_side: int | None = None
) -> Image.Image:
    """An image as RGB, rotated according to its EXIF orientation; raises `UnreadableImage` if it cannot be read.

    What is transparent becomes white. Of several frames the first counts. Pixels of 16 bits are scaled to 8, those of
    floating point are taken to lie between 0 and 1.

    Args:
        data: A file or its bytes, or pixels (H, W) or (H, W, C) with C = 1 to 4: grey, grey and alpha, RGB, RGBA.
        name: Which image it is, for the error.
        limits: Which images are rejected.
        min_side: The longest side that is needed. A JPEG that is far larger is decoded at a half, a quarter or an
            eighth of its size, with at least twice that side, which is several times as fast.

    Example:
        >>> import numpy as np
        >>> decode(np.zeros((2, 3), dtype=np.uint8), name="black").size
        (3, 2)
    """
    if isinstance(data, np.ndarray):
        return _from_array(data, name, limits)
    image = open_header(data, name=name, limits=limits)
    with _reasons(name):
        if min_side is not None:
            image.draft(None, (2 * min_side, 2 * min_side))
        image.load()
        try:
            import_pillow().ImageOps.exif_transpose(image, in_place=True)
        except MemoryError:
            raise
        except Exception:
            pass  # notes of the camera that cannot be read say nothing; the pixels were
        return to_rgb(image, name)


def open_header(data: bytes | BinaryIO, *, name: str, limits: ImageLimits = ImageLimits.LOCAL) -> Any:
    """An image of which only the header is read; raises `UnreadableImage` for other files and too large images."""
    pillow = import_pillow()
    file = io.BytesIO(data) if isinstance(data, bytes) else data
    with _reasons(name):
        try:
            pillow.Image.init()
            image = pillow.Image.open(file, formats=[form for form in limits.formats if form in pillow.Image.OPEN])
        except pillow.UnidentifiedImageError:
            file.seek(0)
            raise UnreadableImage(name, _describe_other_file(file.read(4096))) from None
        _check_size(image.size, name, limits)
        _check_decompression(image, file, name, limits)
    return image


def import_pillow(purpose: str = "Images", *modules: str) -> Any:
    """Pillow with its basic and some other modules; the error says how to install it."""
    for module in ("Image", "ImageOps", *modules):
        require(f"PIL.{module}", purpose, extra="vision", package="Pillow")
    return import_module("PIL")


_PILLOW_FILTER = ("ignore", None, Warning, re.compile(r"PIL\."), 0)


@contextmanager
def _reasons(name: str) -> Iterator[None]:
    """Turns any error of Pillow into an `UnreadableImage`, and keeps Pillow's warnings from the user."""
    # Added for good: to take it back would race with other threads. It goes first, and only where it is not already,
    # because each change of the filters lets Python show warnings again that it has shown once.
    if warnings.filters[:1] != [_PILLOW_FILTER]:
        warnings.filterwarnings("ignore", module=r"PIL\.")
    try:
        yield
    except UnreadableImage:
        raise
    except Exception as error:
        # Damaged files make Pillow raise nearly anything: OSError, SyntaxError, struct.error, IndexError ...
        raise UnreadableImage(name, _describe_error(error)) from None


def _describe_error(error: Exception) -> str:
    """What went wrong inside Pillow, in words for people."""
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, MemoryError):
        return "there is not enough memory for it"
    if type(error).__name__ == "DecompressionBombError":
        return "it has more pixels than Pillow opens"
    if "truncated" in text.lower() or isinstance(error, EOFError):
        return "the file ends too early"
    return f"the file is damaged ({text or type(error).__name__})"


def _describe_other_file(data: bytes) -> str:
    start = data[:256].lstrip().lower()
    zeros = "it holds nothing but zeros" if data else "the file is empty"
    otherwise = "it is no image of a known format" if any(data) else zeros
    return next((reason for pattern, reason in OTHER_FILES.items() if re.match(pattern, start)), otherwise)


def _check_size(size: tuple[int, int], name: str, limits: ImageLimits) -> None:
    width, height = size
    if width * height > limits.max_pixels:
        reason = f"it has {width:,} x {height:,} pixels, more than the {limits.max_pixels:,} allowed"
        raise UnreadableImage(name, reason)
    if not width * height:
        raise UnreadableImage(name, f"it has {width} x {height} pixels")


def _check_decompression(image: Any, file: BinaryIO, name: str, limits: ImageLimits) -> None:
    """Rejects an image that costs far more to decode than its size suggests; the file stays where it is."""
    position = file.tell()
    file.seek(0)
    if image.format in ("JPEG", "MPO") and image.info.get("progressive"):
        if count_scans(file.read(MAX_JPEG_BYTES)) > MAX_SCANS:
            raise UnreadableImage(name, f"it has more than {MAX_SCANS} scans, which no camera writes")
    elif image.format == "TIFF":
        pixels = largest_tile(file)
        if pixels > limits.max_pixels:
            reason = f"it has tiles of {pixels:,} pixels, more than the {limits.max_pixels:,} allowed"
            raise UnreadableImage(name, reason)
    file.seek(position)


def to_rgb(image: Any, name: str) -> Image.Image:
    """RGB of an image of any mode, as `decode` makes it; raises `UnreadableImage` for pixels of an unknown range."""
    from PIL import Image

    if image.mode.startswith(("I", "F")):
        image = Image.fromarray(_deep_to_uint8(image, name))
    elif image.has_transparency_data:
        rgba = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", rgba.size, "white"), rgba)
    rgb: Image.Image = image if image.mode == "RGB" else image.convert("RGB")
    return rgb


def _deep_to_uint8(image: Any, name: str) -> Array:
    """8-bit pixels of a grey image of more bits."""
    tags = getattr(image, "tag_v2", {})
    white = 4095 if tags.get(258) == (12,) else 65535
    deep = np.asarray(image)
    pixels = _to_uint8(deep, name, white=white)
    if isinstance(clear := image.info.get("transparency"), int):
        pixels = np.where(deep == clear, np.uint8(255), pixels)
    # Tag 262 says whether 0 is white; Pillow heeds it for 8 bits and no more.
    return 255 - pixels if tags.get(262) == 0 else pixels


def _to_uint8(pixels: Array, name: str, *, white: int) -> Array:
    """Pixels of 8 bits of those in another kind of number."""
    if pixels.dtype == np.uint8:
        return pixels
    low, high = float(pixels.min()), float(pixels.max())
    kind, top = ("integer", float(white)) if pixels.dtype.kind in "ui" else ("floating-point", 1.0)
    # Written so that NaN is rejected too.
    if not (low >= 0 and high <= top):
        raise UnreadableImage(name, f"its {kind} pixels lie between {low:g} and {high:g}, not between 0 and {top:g}")
    scaled: Array = np.rint(pixels.astype(np.float32) * (255 / top)).astype(np.uint8)
    return scaled


def _from_array(pixels: Array, name: str, limits: ImageLimits) -> Image.Image:
    if pixels.ndim < 2 or pixels.shape[2:] not in ((), (1,), (2,), (3,), (4,)):
        raise UnreadableImage(name, f"its pixels are {pixels.shape}, not (H, W) or (H, W, C) with C from 1 to 4")
    if pixels.dtype.kind not in "buif":
        raise UnreadableImage(name, f"its pixels are {pixels.dtype}, not numbers")
    _check_size((pixels.shape[1], pixels.shape[0]), name, limits)
    white = 65535 if pixels.dtype.itemsize == 2 else 255
    pixels = _to_uint8(pixels[:, :, 0] if pixels.shape[2:] == (1,) else pixels, name, white=white)
    return to_rgb(import_pillow().Image.fromarray(np.ascontiguousarray(pixels)), name)


@dataclass(frozen=True)
class ImageLocation:
    """Where the bytes of an image lie.

    Attributes:
        file: The file, or the archive.
        start: Where the image begins there.
        size: How many bytes it has; None if it is the whole file.
    """

    file: Path
    start: int = 0
    size: int | None = None

    def open_file(self) -> BinaryIO:
        """The file, or the archive, opened to be read."""
        return self.file.open("rb")

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The image as a file to read from."""
        with self.open_file() as file:
            if self.size is None:
                yield file
            else:
                file.seek(self.start)
                yield io.BytesIO(file.read(self.size))


def thumbnail(location: ImageLocation, side: int) -> Image.Image:
    """The image as RGB, upright, scaled up or down to a longer side of `side`; raises `UnreadableImage`."""
    name = str(location.file)
    try:
        with location.open() as file:
            image = decode(file, name=name, min_side=side)
    except OSError as error:
        raise UnreadableImage.from_os_error(name, error) from None
    scale = side / max(image.size)
    width, height = (max(1, round(scale * length)) for length in image.size)
    return image.resize((width, height), import_pillow().Image.Resampling.LANCZOS, reducing_gap=3.0)
