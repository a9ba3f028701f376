"""Text in pictures: measured, cut and wrapped, in the letters that there are."""

from __future__ import annotations

import math
import unicodedata
from functools import lru_cache
from typing import Any

from manyhot.search.tiles import import_pillow


class Lettering:
    """Pillow's own letters in one size; they are on every machine, but are few.

    Args:
        size: The height of the letters in pixels.
    """

    def __init__(self, size: int) -> None:
        self.font = import_pillow().ImageFont.load_default(size)
        self.height = round(1.4 * size)
        self._unknown = bytes(self.font.getmask("\ufffd"))
        self._known = lru_cache(maxsize=None)(self._is_known)

    def _is_known(self, sign: str) -> bool:
        """Whether the font has a sign; for those that it does not have it draws a box, the same for all."""
        return sign == " " or (sign.isprintable() and bytes(self.font.getmask(sign)) != self._unknown)

    def drawable(self, text: str) -> str:
        """The text with accents left out where need be, and `?` for signs that cannot be drawn at all."""
        signs = []
        for sign in text:
            parts = sign if self._known(sign) else unicodedata.normalize("NFKD", sign)
            signs += [part if self._known(part) else "?" for part in parts if not unicodedata.combining(part)]
        return "".join(signs)

    def width(self, text: str) -> int:
        """How many pixels a text takes from left to right."""
        length: float = self.font.getlength(self.drawable(text))
        return math.ceil(length)

    def write(self, pen: Any, corner: tuple[int, int], text: str, colour: str) -> None:
        """Draws a text whose left upper corner is given."""
        pen.text(corner, self.drawable(text), fill=colour, font=self.font)

    def cut(self, text: str, room: int) -> str:
        """The text, or its two ends where it is too long: the start and the end of a name tell the most."""
        text = self.drawable(text[:MANY] + text[-MANY:] if len(text) > 2 * MANY else text)
        if self.width(text) <= room:
            return text
        for kept in range(len(text) - 1, 1, -1):
            shorter = f"{text[: kept // 2]}…{text[-(kept - kept // 2) :]}"
            if self.width(shorter) <= room:
                return shorter
        return ""

    def wrapped(self, text: str, room: int, *, lines: int) -> list[str]:
        """The text in as many lines as it takes, of which the last one is cut if there are too many."""
        words, found = text.split(), [""]
        while words:
            longer = f"{found[-1]} {words[0]}".strip()
            if found[-1] and self.width(longer) > room:
                if len(found) == lines:
                    break
                found.append("")
            else:
                found[-1] = longer
                words.pop(0)
        found[-1] = " ".join([found[-1], *words])
        return [self.cut(line, room) for line in found if line]


MANY = 200  # signs at each end of a name that can matter; nobody draws more of them on one line
