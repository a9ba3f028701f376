"""What may be shown on a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    r"""A text in which nothing moves the cursor or colours the terminal: what is not visible stands there as escapes.

    Example:
        >>> from manyhot.terminal import printable
        >>> print(printable("two\nlines"))
        two\nlines
    """
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
