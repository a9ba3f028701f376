"""Pictures of any kind as RGB, and a plain reason for those that are none."""

from __future__ import annotations

import io
import os
import re
import threading
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from manyhot.bombs import why_costly
from manyhot.image_formats import FORMATS, readable_formats
from manyhot.refusal import Refusal

if TYPE_CHECKING:
    from PIL import Image

    from manyhot.data.sources import ImageSource

Array = np.ndarray[Any, Any]

MAX_PIXELS = 2**27
# The comment tells this filter from one that a user sets.
PILLOW = re.compile(r"PIL\.(?#manyhot)")
MISSING = "there is no such file"

# What people mistake for pictures, by the first bytes.
LOOKALIKES = (
    (b"version https://git-lfs", "it is a Git LFS pointer; the picture itself was not downloaded"),
    (b"<?xml", "it is an XML file, perhaps an SVG drawing"),
    (b"<svg", "it is an SVG drawing, which has no pixels"),
    (b"<!doctype html", "it is a web page"),
    (b"<html", "it is a web page"),
    (b"%pdf", "it is a PDF"),
    (b"%!ps", "it is a PostScript drawing, which has no pixels"),
    (b"pk\x03\x04", "it is a ZIP archive"),
)


class BadImage(Refusal):
    """An image that cannot be read.

    Attributes:
        name: Which image.
        reason: Why, in plain words.

    Example:
        >>> print(BadImage("cats/17.jpg", "the file is empty"))
        The image 'cats/17.jpg' cannot be read: the file is empty.
    """

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"The image {name!r} cannot be read: {reason}.")
        self.name, self.reason = name, reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.reason)


def decode(
    data: bytes | Array,
    *,
    name: str,
    max_pixels: int = MAX_PIXELS,
    at_least: int | None = None,
    formats: tuple[str, ...] = FORMATS,
) -> Image.Image:
    """A picture as RGB, turned as its camera was held; raises `BadImage` where that is impossible.

    What is transparent becomes white. Of several frames the first counts. Pixels of 16 bits are scaled to 8, those of
    floating point are taken to lie between 0 and 1.

    Args:
        data: The bytes of a file, or pixels (H, W) or (H, W, C) with C = 1 to 4: grey, grey and alpha, RGB, RGBA.
        name: Which image it is, for the error.
        max_pixels: Larger pictures are refused by their header, before any memory is asked for.
        at_least: The longest side that is needed. A JPEG that is far larger is decoded at a half, a quarter or an
            eighth of its size, with twice that side at the least, which is several times as fast.
        formats: The formats to take, some of `FORMATS`.

    Example:
        >>> import numpy as np
        >>> decode(np.zeros((2, 3), dtype=np.uint8), name="black").size
        (3, 2)
    """
    with QUIET:
        if isinstance(data, np.ndarray):
            return _of_pixels(data, name, max_pixels)
        image = open_image(data, name=name, max_pixels=max_pixels, formats=formats)
        if at_least is not None:
            image.draft(None, (2 * at_least, 2 * at_least))
        try:
            image.load()
            return _as_rgb(_upright(image), name)
        except BadImage:
            raise
        except Exception as error:
            # Damaged files make Pillow raise nearly anything: OSError, SyntaxError, struct.error, IndexError ...
            raise BadImage(name, _reason(error)) from None


def read_image(
    images: ImageSource, row: int, *, max_pixels: int = MAX_PIXELS, at_least: int | None = None
) -> Image.Image:
    """One picture of a source as `decode` gives it; raises `BadImage` also where there is nothing to read."""
    data = read_data(images, row)
    return decode(data, name=images.name(row), max_pixels=max_pixels, at_least=at_least)


def read_data(images: ImageSource, row: int) -> bytes | Array:
    """What a source holds for a row; raises `BadImage` where it cannot be read."""
    try:
        return images.read(row)
    except FileNotFoundError:
        raise BadImage(images.name(row), MISSING) from None
    except IsADirectoryError:
        raise BadImage(images.name(row), "it is a folder") from None
    except PermissionError:
        raise BadImage(images.name(row), "you may not read it") from None
    except OSError as error:
        raise BadImage(images.name(row), str(error.strerror or error)) from None


def open_image(data: bytes, *, name: str, max_pixels: int = MAX_PIXELS, formats: tuple[str, ...] = FORMATS) -> Any:
    """The picture with its header read and its pixels not; raises `BadImage` for what is none, or too large."""
    pillow = import_pillow()
    if not data:
        raise BadImage(name, "the file is empty")
    with QUIET:
        file = io.BytesIO(data)
        try:
            image = pillow.Image.open(file, formats=[form for form in readable_formats() if form in formats])
            costly = why_costly(image, file, max_pixels=max_pixels)
        except pillow.UnidentifiedImageError:
            raise BadImage(name, _mistaken_for(data)) from None
        except Exception as error:
            raise BadImage(name, _reason(error)) from None
    _check_size(image.size, name, max_pixels)
    if costly is not None:
        raise BadImage(name, costly)
    return image


def import_pillow() -> ModuleType:
    """Pillow, or the sentence that says how to get it."""
    try:
        import PIL.Image
    except ImportError:
        raise ImportError("Images need Pillow. Install it with: pip install 'manyhot[vision]'") from None
    return PIL


class _Quiet:
    """Keeps Pillow's warnings from the user; also when several threads decode at once, unlike `catch_warnings`."""

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._lock, self._inside = threading.Lock(), 0

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                warnings.filterwarnings("ignore", module=PILLOW.pattern)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                # This filter alone: others that were set meanwhile stay, unlike with `catch_warnings`.
                own = [one for one in warnings.filters if one[3] == PILLOW]
                for one in own:
                    warnings.filters.remove(one)  # type: ignore[attr-defined]


QUIET = _Quiet()
if hasattr(os, "register_at_fork"):
    # A worker that is forked while a thread of its parent decodes must not inherit a lock that nobody will open.
    os.register_at_fork(after_in_child=QUIET._forget)


def _check_size(size: tuple[int, int], name: str, max_pixels: int) -> None:
    width, height = size
    if width * height > max_pixels:
        raise BadImage(name, f"it has {width:,} x {height:,} pixels, more than the {max_pixels:,} allowed")
    if width * height == 0:
        raise BadImage(name, f"it has {width} x {height} pixels")


def _mistaken_for(data: bytes) -> str:
    start = data[:256].lstrip().lower()
    for mark, reason in LOOKALIKES:
        if start.startswith(mark):
            return reason
    if start[4:8] == b"ftyp" and start[8:12] in (b"heic", b"heix", b"mif1", b"hevc"):
        return "it is a HEIC photo; convert it to JPEG"
    if not any(data[:4096]):
        return "it holds nothing but zeros"
    return "it is no picture of a known format"


def _reason(error: Exception) -> str:
    """What went wrong inside Pillow, in words for people."""
    text = " ".join(str(error).split()).rstrip(".")
    if isinstance(error, MemoryError):
        return "there is not enough memory for it"
    if type(error).__name__ == "DecompressionBombError":
        return "it has more pixels than Pillow opens"
    if "truncated" in text.lower() or isinstance(error, EOFError):
        return "the file ends too early"
    return f"the file is damaged ({text or type(error).__name__})"


def _upright(image: Any) -> Any:
    """The picture as it is meant to be seen: cameras write down how they were held."""
    from PIL.Image import Transpose

    turns = {
        2: Transpose.FLIP_LEFT_RIGHT,
        3: Transpose.ROTATE_180,
        4: Transpose.FLIP_TOP_BOTTOM,
        5: Transpose.TRANSPOSE,
        6: Transpose.ROTATE_270,
        7: Transpose.TRANSVERSE,
        8: Transpose.ROTATE_90,
    }
    try:
        turn = turns.get(image.getexif().get(0x0112))
    except Exception:
        # Notes of the camera that cannot be read say nothing; the pixels were.
        turn = None
    return image if turn is None else image.transpose(turn)


def _as_rgb(image: Any, name: str) -> Image.Image:
    """RGB of any mode."""
    from PIL import Image

    rgb: Image.Image
    if image.mode.startswith(("I", "F")):
        rgb = Image.fromarray(_bytes_of_deep(image, name)).convert("RGB")
    elif image.has_transparency_data:
        over = image.convert("RGBA")
        rgb = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over).convert("RGB")
    else:
        rgb = image if image.mode == "RGB" else image.convert("RGB")
    return rgb


def _bytes_of_deep(image: Any, name: str) -> Array:
    """Pixels of 8 bits of a grey picture that has more of them."""
    tags = getattr(image, "tag_v2", {})
    white = 4095 if tags.get(258) == (12,) else 65535
    deep = np.asarray(image)
    pixels = _bytes_of(deep, name, white=white)
    clear = image.info.get("transparency")
    if isinstance(clear, int):
        pixels = np.where(deep == clear, np.uint8(255), pixels)
    # Tag 262 says whether 0 is white; Pillow heeds it for 8 bits and no more.
    return 255 - pixels if tags.get(262) == 0 else pixels


def _bytes_of(pixels: Array, name: str, *, white: int) -> Array:
    """Pixels of 8 bits of those in another kind of number."""
    if pixels.dtype == np.uint8:
        return pixels
    if pixels.dtype == np.bool_:
        return pixels.astype(np.uint8) * np.uint8(255)
    low, high = (0.0, 0.0) if pixels.size == 0 else (float(pixels.min()), float(pixels.max()))
    top = 1.0 if pixels.dtype.kind == "f" else float(white)
    # Written so that NaN, too, is refused.
    if not (low >= 0 and high <= top):
        kind = "floating-point" if pixels.dtype.kind == "f" else "integer"
        raise BadImage(name, f"its {kind} pixels lie between {low:g} and {high:g}, not between 0 and {top:g}")
    scaled: Array = np.rint(pixels.astype(np.float32) * (255 / top)).astype(np.uint8)
    return scaled


def _of_pixels(pixels: Array, name: str, max_pixels: int) -> Image.Image:
    Image = import_pillow().Image
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[:, :, 0]
    if pixels.ndim != 2 and not (pixels.ndim == 3 and pixels.shape[2] in (2, 3, 4)):
        raise BadImage(name, f"its pixels are {pixels.shape}, not (H, W) or (H, W, C) with C from 1 to 4")
    if pixels.dtype.kind not in "buif":
        raise BadImage(name, f"its pixels are {pixels.dtype}, not numbers")
    _check_size((pixels.shape[1], pixels.shape[0]), name, max_pixels)
    kind = np.iinfo(pixels.dtype) if pixels.dtype.kind in "ui" else None
    white = 255 if kind is not None and kind.bits != 16 else 65535
    return _as_rgb(Image.fromarray(np.ascontiguousarray(_bytes_of(pixels, name, white=white))), name)
