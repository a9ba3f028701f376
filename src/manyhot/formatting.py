"""Text for display: printable on a terminal, probabilities as percentages, and tables in HTML."""

from __future__ import annotations

import math
from html import escape


def printable(text: str) -> str:
    r"""A text in which nothing moves the cursor or colours the terminal: what is not visible stands there as escapes.

    Example:
        >>> from manyhot.formatting import printable
        >>> print(printable("two\nlines"))
        two\nlines
    """
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def format_prob(prob: float) -> str:
    """A probability for people: the nearer it is to 0 or 1, the more digits, and never certain where it is not.

    Example:
        >>> [format_prob(prob) for prob in (0.5, 0.934, 0.98, 0.9995, 0.000031, 1.0)]
        ['50 %', '93.4 %', '98.0 %', '99.950 %', '0.0031 %', '100 %']
    """
    return format_log_prob(math.log(prob) if prob > 0 else -math.inf)


def format_log_prob(log_prob: float) -> str:
    """`percent` of the probability with this logarithm, which may be too small to be a number itself.

    Example:
        >>> format_log_prob(-2000.0), format_log_prob(-1e-30)
        ('2.6e-867 %', '> 99.9999 %')
    """
    if log_prob == -math.inf:
        return "0 %"
    share, rest = 100 * math.exp(log_prob), -100 * math.expm1(log_prob)
    if rest <= 0:
        return "100 %"
    if rest < 1e-4:
        return "> 99.9999 %"
    if share < 1e-4:
        power = log_prob / math.log(10) + 2
        digits, exponent = f"{10 ** (power - math.floor(power)):.1f}", math.floor(power)
        return f"1.0e{exponent + 1} %" if digits == "10.0" else f"{digits}e{exponent} %"
    # Single precision knows 0.99 as 0.9900000095, which is no reason for a digit more.
    least = float(f"{min(share, rest):.4g}")
    return f"{share:.{max(0, 1 - math.floor(math.log10(least)))}f} %"


def count_noun(count: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> from manyhot.formatting import count_noun
        >>> count_noun(1, "image"), count_noun(1200, "image")
        ('1 image', '1,200 images')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def html_table(rows: list[list[str]]) -> str:
    """Rows of texts as an HTML table, the first of them its head."""
    head = "".join(f"<th>{escape(text)}</th>" for text in rows[0])
    body = "".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows[1:])
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
