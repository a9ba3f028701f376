"""Pictures small enough for a contact sheet, read without anything that trains or predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from manyhot.bombs import why_costly
from manyhot.image_formats import readable_formats
from manyhot.search.places import Place, Unreadable

if TYPE_CHECKING:
    from PIL import Image

# As in `manyhot.data.images`, whose package loads torch; a test holds the two against each other.
MAX_PIXELS = 2**27


def import_pillow() -> Any:
    """Pillow, or the sentence that says how to get it."""
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
        import PIL.ImageOps
    except ImportError:
        raise ImportError("A contact sheet needs Pillow. Install it with: pip install 'manyhot[vision]'") from None
    return PIL


def small_picture(place: Place, side: int) -> Image.Image:
    """The picture as RGB, upright, its longer side made `side`; what is transparent becomes white.

    Raises:
        Unreadable: The file cannot be read, is no picture, or is too large a one.
    """
    pillow = import_pillow()
    try:
        with place.opened() as file, pillow.Image.open(file, formats=readable_formats()) as image:
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise Unreadable(f"it has {width:,} x {height:,} pixels")
            costly = why_costly(image, file, max_pixels=MAX_PIXELS)
            if costly is not None:
                raise Unreadable(costly)
            # A JPEG can be decoded at a half, a quarter or an eighth of its size, which is several times as fast.
            image.draft(None, (2 * side, 2 * side))
            image.load()
            upright = _as_rgb(pillow.ImageOps.exif_transpose(image))
    except Unreadable:
        raise
    except Exception as error:
        # Damaged files make Pillow raise nearly anything: OSError, SyntaxError, struct.error, IndexError ...
        raise Unreadable(_reason(error)) from None
    return _fitted(upright, side)


def _fitted(image: Image.Image, side: int) -> Image.Image:
    """The picture as large as fits, also if that is larger than it was; the thinnest one keeps a pixel."""
    from PIL.Image import Resampling

    scale = side / max(image.size)
    width, height = (max(1, round(scale * length)) for length in image.size)
    return image.resize((width, height), Resampling.LANCZOS, reducing_gap=3.0)


def _as_rgb(image: Any) -> Image.Image:
    """RGB of any mode, in memory of its own."""
    from PIL import Image

    rgb: Image.Image
    if image.mode.startswith(("I", "F")):
        deep = np.nan_to_num(np.asarray(image, dtype=np.float32), posinf=0, neginf=0)
        white = 1.0 if image.mode.startswith("F") else 65535.0
        bright = max(white, float(deep.max(initial=0.0)))
        rgb = Image.fromarray(np.rint(255 * np.clip(deep / bright, 0, 1)).astype(np.uint8)).convert("RGB")
    elif image.has_transparency_data:
        over = image.convert("RGBA")
        rgb = Image.alpha_composite(Image.new("RGBA", over.size, "white"), over).convert("RGB")
    else:
        rgb = image.convert("RGB")
    return rgb


def _reason(error: Exception) -> str:
    """What went wrong, in words that fit on a tile."""
    kind = type(error).__name__
    if kind == "UnidentifiedImageError":
        return "it is no picture of a known format"
    if kind == "DecompressionBombError":
        return "it has too many pixels"
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, PermissionError):
        return "you may not read it"
    if isinstance(error, MemoryError):
        return "there is not enough memory for it"
    if "truncated" in str(error).lower() or isinstance(error, EOFError):
        return "the file ends too early"
    return "the file is damaged"
