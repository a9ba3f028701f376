"""Names and texts as SQL writes them."""

from __future__ import annotations

import re

from manyhot.refusal import refusal

_NAME = r'"(?:[^"]|"")+"|[A-Za-z_][A-Za-z_0-9]*'
_RENAMED = re.compile(rf"(?P<expression>.+?)\s+AS\s+(?P<name>{_NAME})", re.IGNORECASE | re.DOTALL)
_QUALIFIED = re.compile(rf"(?:(?:{_NAME})\.)*(?P<name>{_NAME})")


def quote_name(name: str) -> str:
    """A name of a column or a table, whatever letters it has.

    Example:
        >>> print(quote_name('12" pizza'))
        "12"" pizza"
    """
    if not name:
        raise refusal("name", "quote_name", "have letters", "an empty one", "Rename the column.")
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """A piece of text, whatever letters it has.

    Example:
        >>> print(quote_text("cook's knife"))
        'cook''s knife'
    """
    if "\0" in text:
        raise refusal("text", "quote_text", "have no zero byte", repr(text), "Leave it out.")
    return "'" + text.replace("'", "''") + "'"


def split_name(kept: str) -> tuple[str, str]:
    """The expression and the name of a column that is kept: a column, or an expression with `AS` and a name."""
    kept = kept.strip()
    qualified = _QUALIFIED.fullmatch(kept)
    if qualified:
        return kept, qualified["name"]
    renamed = _RENAMED.fullmatch(kept)
    if renamed:
        return renamed["expression"], renamed["name"]
    raise refusal("keep", "sql", "hold columns, or expressions with AS and a name", repr(kept), "Add a name.")
