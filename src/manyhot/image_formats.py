"""Which formats of images are read, and how files of images are called; known without torch."""

from __future__ import annotations

import os
from collections import Counter
from functools import cache

# Pixels only. Formats that are programs (EPS) or drawings (WMF) stay closed, whatever Pillow could do with them.
# fmt: off
FORMATS = (
    "JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "JPEG2000", "PPM", "TGA", "ICO", "DIB", "PCX", "QOI", "HEIF",
)
# The usual endings, which come first where a name without one is looked for; all there are where Pillow is missing.
USUAL = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
# Endings of pictures that Pillow cannot read, or only with a plug-in: phones, cameras, drawings, layers, film.
OTHER_PICTURES = (
    ".avif", ".avifs", ".heic", ".heif", ".hif", ".jxl", ".jp2", ".j2k", ".jpx", ".jpf", ".qoi", ".webp", ".tga",
    ".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dcr", ".dng", ".erf", ".iiq", ".kdc", ".mef", ".mos", ".mrw", ".nef",
    ".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f",
    ".psd", ".psb", ".xcf", ".svg", ".svgz", ".eps", ".ai", ".wmf", ".emf", ".exr", ".hdr", ".dds", ".dcm", ".icns",
)
# fmt: on


def readable_formats() -> tuple[str, ...]:
    """Those of `FORMATS` that this build of Pillow opens."""
    from PIL import Image

    Image.init()
    return tuple(name for name in FORMATS if name in Image.OPEN)


def image_suffixes() -> tuple[str, ...]:
    """The endings of files that this build of Pillow opens, in small letters; the usual ones first."""
    try:
        from PIL import Image
    except ImportError:
        return USUAL
    Image.init()
    return _suffixes(len(Image.EXTENSION))


@cache
def _suffixes(registered: int) -> tuple[str, ...]:
    """The endings, found out again when a plug-in has registered more of them."""
    from PIL import Image

    # Files with several pictures (MPO) are opened as JPEG.
    formats = (*readable_formats(), "MPO")
    found = [suffix for suffix, name in Image.EXTENSION.items() if name in formats]
    return tuple(sorted(found, key=lambda suffix: USUAL.index(suffix) if suffix in USUAL else len(USUAL)))


def is_image(name: str) -> bool:
    """Whether a file is an image that can be read, by its ending."""
    return name.lower().endswith(image_suffixes())


class SkippedFiles:
    r"""Files beside images that are perhaps images too, counted by ending.

    Example:
        >>> skipped = SkippedFiles()
        >>> for name in ("a.HEIC", "b.heic", "c.cr2", "notes.txt", "IMG0001"):
        ...     skipped.add(name)
        >>> print(*skipped.notes(), sep="\n")
        Skipped 3 images that Pillow cannot read here: 2 .heic, 1 .cr2. Convert them to JPEG to have them read.
        Skipped 1 file without an ending in its name, such as 'IMG0001'.
    """

    def __init__(self) -> None:
        self.endings: Counter[str] = Counter()
        self.bare: list[str] = []

    def add(self, name: str) -> None:
        """Takes the name of a file that is no image that can be read."""
        ending = os.path.splitext(name)[1].lower()
        if ending in OTHER_PICTURES:
            self.endings[ending] += 1
        elif not ending:
            self.bare.append(name)

    def __str__(self) -> str:
        """How many pictures were skipped, by ending; empty where there were none."""
        often = sorted(self.endings.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{count:,} {ending}" for ending, count in often)

    def instead(self, place: object, missing: str) -> tuple[str, str]:
        """What a place without any image has instead, and the remedy; `missing` where these files are none either."""
        if self.endings:
            return f"{str(place)!r} with {self}, which Pillow cannot read here", "Convert them to JPEG."
        return f"{str(place)!r}{missing}", "Check the path."

    def notes(self) -> list[str]:
        """What was skipped, in plain sentences."""
        notes = []
        if self.endings:
            count = self.endings.total()
            some, them = ("1 image", "it") if count == 1 else (f"{count:,} images", "them")
            notes.append(
                f"Skipped {some} that Pillow cannot read here: {self}. Convert {them} to JPEG to have {them} read."
            )
        if self.bare:
            one = len(self.bare) == 1
            files = "1 file" if one else f"{len(self.bare):,} files"
            names = "its name" if one else "their names"
            notes.append(f"Skipped {files} without an ending in {names}, such as {min(self.bare)!r}.")
        return notes
