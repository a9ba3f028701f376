"""The contact sheet: what a search found, as one picture."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhot.refusal import refusal
from manyhot.search.found import Found, Hit
from manyhot.search.lettering import Lettering
from manyhot.search.places import Place, Unreadable, likeliest_first, locate
from manyhot.search.tiles import import_pillow, small_picture
from manyhot.terminal import percent_of_log

if TYPE_CHECKING:
    from PIL import Image

TILES = 200  # on one sheet
LONGEST = 65_000  # pixels of a side; JPEG has no longer ones
WIDEST = 10  # columns, unless more are asked for
THREADS = 8

# One hue, told apart by length: nobody needs to see colours to read it.
PAPER, FRAME, TRACK, BLANK = "#ffffff", "#f1f3f5", "#e3e7eb", "#e9ecef"
INK, FAINT, FILL = "#1b1f24", "#69727d", "#2a6fb0"


@dataclass(frozen=True)
class Grid:
    """Where the tiles of a sheet are.

    Attributes:
        columns: How many tiles there are side by side.
        rows: How many are one below the other.
        tile: The side of the square that a picture is fitted into.
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
        """The height of bar and text below a picture."""
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
    hits: Sequence[Hit] | Found,
    *,
    title: str | None = None,
    subtitle: str | None = None,
    columns: int | None = None,
    tile: int = 192,
    root: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = ".",
) -> Image.Image:
    """A picture of the images that a search found, the most probable first, with their probabilities.

    An image that cannot be read becomes a grey tile that says why. Of many hits the first 200 are shown.

    Args:
        hits: What was found.
        title: A line above, such as the query.
        subtitle: A smaller line below it.
        columns: How many pictures there are side by side; a sheet a little wider than high by default.
        tile: The side of the square that each picture is fitted into, in pixels.
        root: The folder that relative paths are relative to; of several, the one that has them.

    Example:
        >>> from manyhot.search.found import Found, Hit
        >>> from manyhot.search.sheet import contact_sheet
        >>> contact_sheet([Hit("1", "dog.jpg", 0.93, -0.0726)], title="dog & !beach").size
        (441, 299)
    """
    if not isinstance(tile, int) or not 48 <= tile <= 1024:
        rule = "be a whole number between 48 and 1,024"
        raise refusal("tile", "contact_sheet", rule, repr(tile), "Leave it out for 192 pixels.")
    if columns is not None and (not isinstance(columns, int) or columns < 1):
        rule = "be a whole number, at least 1"
        raise refusal("columns", "contact_sheet", rule, repr(columns), "Leave it out for a balanced sheet.")
    hits = hits.hits if isinstance(hits, Found) else hits
    shown = list(hits[:TILES])
    pictures = read_pictures(shown, root, tile)
    columns = min(columns, max(1, len(shown))) if columns else balanced(len(shown))
    if max(columns, math.ceil(len(shown) / columns)) * (tile + 128) > LONGEST:
        got = f"{columns} for {len(shown)} tiles of {tile} pixels"
        rule = f"give a picture of not more than {LONGEST:,} pixels a side"
        raise refusal("columns", "contact_sheet", rule, got, "Leave it out, or pass a smaller `tile`.")
    return draw(
        shown, pictures, title=title, subtitle=subtitle, columns=columns, tile=tile, more=len(hits) - len(shown)
    )


def balanced(count: int) -> int:
    """How many columns make a sheet that is neither a ribbon nor a tower."""
    return max(1, count) if count <= 4 else min(WIDEST, round(math.sqrt(1.3 * count)))


def read_pictures(
    hits: Sequence[Hit], root: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], tile: int
) -> list[Image.Image | Unreadable]:
    """The picture of each hit, small, or why there is none; an id that is the path of a file serves as one."""
    import_pillow()
    roots = [Path(root)] if isinstance(root, str | os.PathLike) else [Path(folder) for folder in root]
    paths = [hit.path or hit.id for hit in hits]
    places = locate(paths, likeliest_first(roots, paths))
    # Odd pictures make Pillow warn. The filter holds for the threads as well.
    with warnings.catch_warnings(), ThreadPoolExecutor(THREADS) as threads:
        warnings.simplefilter("ignore")
        return list(threads.map(partial(_picture, side=tile), places))


def _picture(place: Place | Unreadable, *, side: int) -> Image.Image | Unreadable:
    try:
        return place if isinstance(place, Unreadable) else small_picture(place, side)
    except Unreadable as reason:
        return reason


def draw(
    hits: Sequence[Hit],
    pictures: Sequence[Image.Image | Unreadable],
    *,
    title: str | None,
    subtitle: str | None,
    columns: int,
    tile: int,
    more: int = 0,
) -> Image.Image:
    """The sheet of pictures that have been read."""
    pillow = import_pillow()
    small, large = Lettering(text_size(tile)), Lettering(round(1.6 * text_size(tile)))
    grid = Grid(columns, math.ceil(len(hits) / columns), tile, 0)
    # A sheet of one tile still has room for a few words above it.
    width = max(grid.width, 2 * (tile + grid.gap) + grid.gap)
    heads = [(line, large, INK) for line in large.wrapped(title or "", width - 2 * grid.gap, lines=3)]
    heads += [(line, small, FAINT) for line in small.wrapped(subtitle or "", width - 2 * grid.gap, lines=3)]
    top = grid.gap + sum(lettering.height for _, lettering, _ in heads) + (grid.gap // 2 if heads else 0)
    grid = Grid(columns, grid.rows, tile, top)
    footer = [f"and {more:,} more"] if more else []
    sheet = pillow.Image.new("RGB", (width, grid.bottom + len(footer) * (small.height + grid.gap)), PAPER)
    pen = pillow.ImageDraw.Draw(sheet)
    below = grid.gap
    for line, lettering, colour in heads:
        lettering.write(pen, (grid.gap, below), line, colour)
        below += lettering.height
    for number, (hit, picture) in enumerate(zip(hits, pictures, strict=True)):
        draw_picture(sheet, pen, picture, grid.corner(number), tile, small)
        draw_caption(pen, hit, number + 1, grid.corner(number), grid, small)
    for line in footer:
        small.write(pen, (grid.gap, grid.bottom), line, FAINT)
    image: Image.Image = sheet
    return image


def draw_picture(
    sheet: Any, pen: Any, picture: Image.Image | Unreadable, corner: tuple[int, int], tile: int, lettering: Lettering
) -> None:
    """A picture in the middle of its tile, or a grey tile with the reason why there is none."""
    left, top = corner
    pen.rectangle(
        (left, top, left + tile - 1, top + tile - 1), fill=BLANK if isinstance(picture, Unreadable) else FRAME
    )
    if isinstance(picture, Unreadable):
        lines = lettering.wrapped(str(picture), round(0.8 * tile), lines=4)
        below = top + (tile - len(lines) * lettering.height) // 2
        for line in lines:
            lettering.write(pen, (left + (tile - lettering.width(line)) // 2, below), line, FAINT)
            below += lettering.height
    else:
        sheet.paste(picture, (left + (tile - picture.width) // 2, top + (tile - picture.height) // 2))


def draw_caption(pen: Any, hit: Hit, rank: int, corner: tuple[int, int], grid: Grid, lettering: Lettering) -> None:
    """The bar of the probability, and below it rank, probability and name."""
    left, top = corner[0], corner[1] + grid.tile
    pen.rectangle((left, top, left + grid.tile - 1, top + grid.bar - 1), fill=TRACK)
    length = round(hit.prob * grid.tile)
    if length:
        pen.rectangle((left, top, left + length - 1, top + grid.bar - 1), fill=FILL)
    below, end, space = top + grid.bar + 4, left + grid.tile, lettering.width("  ")
    name = (hit.path or hit.id).rsplit("/", 1)[-1]
    for text, colour in ((str(rank), FAINT), (percent_of_log(hit.log_prob), INK), (name, FAINT)):
        shown = lettering.cut(text, end - left)
        lettering.write(pen, (left, below), shown, colour)
        left += lettering.width(shown) + space
