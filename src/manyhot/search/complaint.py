"""What is said of a query that cannot be read: one line that shows the place and never steers a terminal."""

from __future__ import annotations

from manyhot.refusal import Refusal
from manyhot.terminal import printable

# As much of a query as is shown of a long one, and of a long name.
SHOWN = 60
SHOWN_NAME = 40


class QueryError(Refusal):
    """A query that cannot be read.

    Args:
        text: The query.
        place: The character of it that is wrong, counted from 0; `len(text)` for its end.
        rule: What a query must do.
        got: What it did instead.
        hint: What to do about it.

    Example:
        >>> print(QueryError("cat & dgo", 6, "name labels that exist", "'dgo'", "Did you mean 'dog'?"))
        `query` of `search` must name labels that exist; got 'dgo' at character 7: cat & ▸dgo. Did you mean 'dog'?
    """

    def __init__(self, text: str, place: int, rule: str, got: str, hint: str) -> None:
        # All of them are `args`, so that a process can hand the error to another one.
        super().__init__(text, place, rule, got, hint)
        self.text, self.place, self.rule, self.got, self.hint = text, place, rule, got, hint

    def __str__(self) -> str:
        where = "the end" if self.place == len(self.text) else f"character {self.place + 1}"
        shown = f" at {where}: {marked(self.text, self.place)}" if self.text.strip() else ""
        return f"`query` of `search` must {self.rule}; got {self.got}{shown}. {self.hint}"


def marked(text: str, place: int) -> str:
    r"""The part of a text around a place, on one line, with a mark before the place.

    Example:
        >>> print(marked("cat &\n dgo", 7))
        cat &\n ▸dgo
    """
    start = max(0, min(place - SHOWN // 2, len(text) - SHOWN))
    end = min(len(text), start + SHOWN)
    before, after = printable(text[start:place]), printable(text[place:end])
    return f"{'…' if start else ''}{before}▸{after}{'…' if end < len(text) else ''}"


def quoted(name: str, mark: str = "'") -> str:
    r"""A name as it is written between quotation marks in a query, whatever is in it.

    Example:
        >>> print(quoted("driver's licence"), quoted('a "b"\n', '"'))
        'driver\'s licence' "a \"b\"\n"
    """
    return mark + printable(name.replace("\\", "\\\\").replace(mark, "\\" + mark)) + mark


def shown(name: str) -> str:
    """A name in a message: between quotation marks, its end left out if it is very long."""
    return quoted(name if len(name) <= SHOWN_NAME else name[: SHOWN_NAME - 1] + "…")


def listed(names: list[str], last: str) -> str:
    """Names in a message, with a word before the last.

    Example:
        >>> listed(["cat", "dog", "bird"], "or")
        "'cat', 'dog' or 'bird'"
    """
    texts = [shown(name) for name in names]
    return f" {last} ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)
