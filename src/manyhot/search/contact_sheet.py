"""Contact sheets: the images of a search result on one page."""

from __future__ import annotations

import math
import os
import unicodedata
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhot.errors import InputError
from manyhot.formatting import format_log_prob
from manyhot.image_paths import locate_images, sort_image_roots
from manyhot.images import ImageLocation, UnreadableImage, import_pillow, thumbnail
from manyhot.search.collection import Hit, SearchResult

if TYPE_CHECKING:
    from PIL import Image


def import_drawing() -> Any:
    """Pillow with its modules for drawing; the error says how to install it."""
    return import_pillow("Contact sheets", "ImageDraw", "ImageFont")


class TextRenderer:
    """Pillow's built-in font in one size: available everywhere, with few characters.

    Args:
        size: The height of the letters in pixels.
    """

    def __init__(self, size: int) -> None:
        self.font = import_drawing().ImageFont.load_default(size)
        self.height = round(1.4 * size)
        self._unknown = bytes(self.font.getmask("\ufffd"))
        self._known = lru_cache(maxsize=None)(self._is_known)

    def _is_known(self, character: str) -> bool:
        """Whether the font has a character; missing ones are all drawn as the same box."""
        return character == " " or (character.isprintable() and bytes(self.font.getmask(character)) != self._unknown)

    def drawable(self, text: str) -> str:
        """The text without accents that the font lacks, and with `?` for characters that it cannot draw."""
        characters = []
        for character in text:
            parts = character if self._known(character) else unicodedata.normalize("NFKD", character)
            characters += [part if self._known(part) else "?" for part in parts if not unicodedata.combining(part)]
        return "".join(characters)

    def width(self, text: str) -> int:
        """How many pixels a text takes from left to right."""
        length: float = self.font.getlength(self.drawable(text))
        return math.ceil(length)

    def write(self, pen: Any, corner: tuple[int, int], text: str, colour: str) -> None:
        """Draws a text at its upper left corner."""
        pen.text(corner, self.drawable(text), fill=colour, font=self.font)

    def cut(self, text: str, max_width: int) -> str:
        """The text, cut in the middle if it is too long: start and end of a name matter most."""
        text = self.drawable(
            text[:MAX_END_CHARACTERS] + text[-MAX_END_CHARACTERS:] if len(text) > 2 * MAX_END_CHARACTERS else text
        )
        if self.width(text) <= max_width:
            return text
        for length in range(len(text) - 1, 1, -1):
            shorter = f"{text[: length // 2]}…{text[-(length - length // 2) :]}"
            if self.width(shorter) <= max_width:
                return shorter
        return ""

    def wrapped(self, text: str, max_width: int, *, lines: int) -> list[str]:
        """The text in as many lines as it takes, of which the last one is cut if there are too many."""
        words, result = text.split(), [""]
        while words:
            longer = f"{result[-1]} {words[0]}".strip()
            if result[-1] and self.width(longer) > max_width:
                if len(result) == lines:
                    break
                result.append("")
            else:
                result[-1] = longer
                words.pop(0)
        result[-1] = " ".join([result[-1], *words])
        return [self.cut(line, max_width) for line in result if line]


MAX_END_CHARACTERS = 200  # characters kept at each end of a name; no line shows more

MAX_TILES = 200  # on one sheet
MAX_SIDE = 65_000  # pixels of a side; JPEG has no longer ones
MAX_COLUMNS = 10  # unless more are requested
THREADS = 8

# One hue: bars differ in length, so that the sheet is readable without colours.
BACKGROUND, FRAME, TRACK, BLANK = "#ffffff", "#f1f3f5", "#e3e7eb", "#e9ecef"
INK, FAINT, FILL = "#1b1f24", "#69727d", "#2a6fb0"


@dataclass(frozen=True)
class SheetLayout:
    """Where the tiles of a sheet are.

    Attributes:
        columns: How many tiles there are side by side.
        rows: How many are one below the other.
        tile: The side of the square that an image is fitted into.
        top: Where the first row begins.
    """

    columns: int
    rows: int
    tile: int
    top: int

    @property
    def gap(self) -> int:
        """Between two tiles, and around all of them."""
        return max(12, self.tile // 10)

    @property
    def caption(self) -> int:
        """The height of bar and text below an image."""
        return self.bar + 4 + round(1.5 * text_size(self.tile))

    @property
    def bar(self) -> int:
        """The height of the bar that shows the probability."""
        return max(4, self.tile // 40)

    @property
    def width(self) -> int:
        """Of the tiles and what is around them."""
        return self.gap + self.columns * (self.tile + self.gap)

    @property
    def bottom(self) -> int:
        """Where the last row ends."""
        return self.top + self.rows * (self.tile + self.caption + self.gap)

    def corner(self, number: int) -> tuple[int, int]:
        """The left upper corner of a tile."""
        row, column = divmod(number, self.columns)
        return (
            self.gap + column * (self.tile + self.gap),
            self.top + row * (self.tile + self.caption + self.gap),
        )


def text_size(tile: int) -> int:
    """The size of the letters below a tile."""
    return max(11, round(tile / 14))


def contact_sheet(
    hits: Sequence[Hit] | SearchResult,
    *,
    title: str | None = None,
    subtitle: str | None = None,
    columns: int | None = None,
    tile: int = 192,
    root: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = ".",
) -> Image.Image:
    """One image with the results of a search, the most probable first, with their probabilities.

    An image that cannot be read becomes a grey tile that says why. Of many hits the first 200 are shown.

    Args:
        hits: The search result.
        title: A line above, such as the query.
        subtitle: A smaller line below it.
        columns: How many images there are side by side; a sheet a little wider than high by default.
        tile: The side of the square that each image is fitted into, in pixels.
        root: The folder that relative paths are relative to; of several, the one that has them.

    Example:
        >>> from manyhot.search.collection import SearchResult, Hit
        >>> from manyhot.search.contact_sheet import contact_sheet
        >>> contact_sheet([Hit("1", "dog.jpg", 0.93, -0.0726)], title="dog & !beach").size
        (441, 299)
    """
    if not isinstance(tile, int) or not 48 <= tile <= 1024:
        rule = "be a whole number between 48 and 1,024"
        raise InputError("tile", "contact_sheet", rule, repr(tile), "Leave it out for 192 pixels.")
    if columns is not None and (not isinstance(columns, int) or columns < 1):
        rule = "be a whole number, at least 1"
        raise InputError("columns", "contact_sheet", rule, repr(columns), "Leave it out for a balanced sheet.")
    hits = hits.hits if isinstance(hits, SearchResult) else hits
    shown = list(hits[:MAX_TILES])
    tile_images = read_tiles(shown, root, tile)
    columns = min(columns, max(1, len(shown))) if columns else balanced_columns(len(shown))
    if max(columns, math.ceil(len(shown) / columns)) * (tile + 128) > MAX_SIDE:
        got = f"{columns} for {len(shown)} tiles of {tile} pixels"
        rule = f"give an image of at most {MAX_SIDE:,} pixels per side"
        raise InputError("columns", "contact_sheet", rule, got, "Leave it out, or pass a smaller `tile`.")
    return draw_contact_sheet(
        shown, tile_images, title=title, subtitle=subtitle, columns=columns, tile=tile, more=len(hits) - len(shown)
    )


def balanced_columns(count: int) -> int:
    """The number of columns of a balanced sheet."""
    return max(1, count) if count <= 4 else min(MAX_COLUMNS, round(math.sqrt(1.3 * count)))


def read_tiles(
    hits: Sequence[Hit], root: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], tile: int
) -> list[Image.Image | UnreadableImage]:
    """A thumbnail of each hit, or why there is none; an id may serve as the path."""
    import_drawing()
    roots = [Path(root)] if isinstance(root, str | os.PathLike) else [Path(folder) for folder in root]
    paths = [hit.path or hit.id for hit in hits]
    locations = locate_images(paths, sort_image_roots(roots, paths))
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(partial(_read_tile, side=tile), locations))


def _read_tile(location: ImageLocation | UnreadableImage, *, side: int) -> Image.Image | UnreadableImage:
    try:
        return location if isinstance(location, UnreadableImage) else thumbnail(location, side)
    except UnreadableImage as error:
        return error


def draw_contact_sheet(
    hits: Sequence[Hit],
    tile_images: Sequence[Image.Image | UnreadableImage],
    *,
    title: str | None,
    subtitle: str | None,
    columns: int,
    tile: int,
    more: int = 0,
) -> Image.Image:
    """The contact sheet of loaded images."""
    pillow = import_drawing()
    small, large = TextRenderer(text_size(tile)), TextRenderer(round(1.6 * text_size(tile)))
    layout = SheetLayout(columns, math.ceil(len(hits) / columns), tile, 0)
    # A sheet of one tile is still wide enough for a few words above it.
    width = max(layout.width, 2 * (tile + layout.gap) + layout.gap)
    heads = [(line, large, INK) for line in large.wrapped(title or "", width - 2 * layout.gap, lines=3)]
    heads += [(line, small, FAINT) for line in small.wrapped(subtitle or "", width - 2 * layout.gap, lines=3)]
    top = layout.gap + sum(renderer.height for _, renderer, _ in heads) + (layout.gap // 2 if heads else 0)
    layout = SheetLayout(columns, layout.rows, tile, top)
    footer = [f"and {more:,} more"] if more else []
    canvas = pillow.Image.new("RGB", (width, layout.bottom + len(footer) * (small.height + layout.gap)), BACKGROUND)
    pen = pillow.ImageDraw.Draw(canvas)
    below = layout.gap
    for line, renderer, colour in heads:
        renderer.write(pen, (layout.gap, below), line, colour)
        below += renderer.height
    for number, (hit, tile_image) in enumerate(zip(hits, tile_images, strict=True)):
        draw_tile(canvas, pen, tile_image, layout.corner(number), tile, small)
        draw_caption(pen, hit, number + 1, layout.corner(number), layout, small)
    for line in footer:
        small.write(pen, (layout.gap, layout.bottom), line, FAINT)
    image: Image.Image = canvas
    return image


def draw_tile(
    canvas: Any,
    pen: Any,
    tile_image: Image.Image | UnreadableImage,
    corner: tuple[int, int],
    tile: int,
    renderer: TextRenderer,
) -> None:
    """An image in the middle of its tile, or a grey tile with the reason why there is none."""
    left, top = corner
    pen.rectangle(
        (left, top, left + tile - 1, top + tile - 1), fill=BLANK if isinstance(tile_image, UnreadableImage) else FRAME
    )
    if isinstance(tile_image, UnreadableImage):
        lines = renderer.wrapped(tile_image.reason, round(0.8 * tile), lines=4)
        below = top + (tile - len(lines) * renderer.height) // 2
        for line in lines:
            renderer.write(pen, (left + (tile - renderer.width(line)) // 2, below), line, FAINT)
            below += renderer.height
    else:
        canvas.paste(tile_image, (left + (tile - tile_image.width) // 2, top + (tile - tile_image.height) // 2))


def draw_caption(
    pen: Any, hit: Hit, rank: int, corner: tuple[int, int], layout: SheetLayout, renderer: TextRenderer
) -> None:
    """The bar of the probability, and below it rank, probability and name."""
    left, top = corner[0], corner[1] + layout.tile
    pen.rectangle((left, top, left + layout.tile - 1, top + layout.bar - 1), fill=TRACK)
    length = round(hit.prob * layout.tile)
    if length:
        pen.rectangle((left, top, left + length - 1, top + layout.bar - 1), fill=FILL)
    below, end, space = top + layout.bar + 4, left + layout.tile, renderer.width("  ")
    name = (hit.path or hit.id).rsplit("/", 1)[-1]
    for text, colour in ((str(rank), FAINT), (format_log_prob(hit.log_prob), INK), (name, FAINT)):
        shown = renderer.cut(text, end - left)
        renderer.write(pen, (left, below), shown, colour)
        left += renderer.width(shown) + space
