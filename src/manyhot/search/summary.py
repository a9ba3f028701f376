"""Search results in words."""

from __future__ import annotations

import math
import unicodedata

from manyhot.formatting import format_prob
from manyhot.search.collection import ExpectedMatches, SearchResult


def describe_expected(expected: ExpectedMatches) -> str:
    """The expected number of matches, in words.

    Example:
        >>> from manyhot.search.collection import ExpectedMatches
        >>> describe_expected(ExpectedMatches(mean=123.4, low=104, high=143, level=0.95, rows=35185))
        'Expected matches: 123 (95 %: 104 to 143) among 35,185 images.'
    """
    between = f"{expected.low:,}" if expected.low == expected.high else f"{expected.low:,} to {expected.high:,}"
    images = "1 image" if expected.rows == 1 else f"{expected.rows:,} images"
    return f"Expected matches: {_format_count(expected.mean)} ({100 * expected.level:g} %: {between}) among {images}."


def describe_hits(result: SearchResult) -> str:
    """The expected precision and recall of the hits, in words."""
    count = len(result.hits)
    if count == 0:
        return "Nothing was found."
    right = _format_count(result.precision * count)
    is_or_are, share = "is" if right == "1" else "are", _format_share(result.precision)
    text = f"Of these {count:,}, {right} {is_or_are} expected to match ({share})"
    if count == 1:
        text = f"This one matches with a probability of {_format_share(result.precision)}"
    if result.recall is None or math.isnan(result.recall):
        return f"{text}."
    return (
        f"{text}; {'it holds' if count == 1 else 'they hold'} {_format_share(result.recall)} of all expected matches."
    )


def _format_count(mean: float) -> str:
    """An expected number: whole if it is large, with one digit after the point or the first two if it is small."""
    if mean >= 99.95:
        return f"{mean:,.0f}"
    if mean >= 0.995 or mean == 0:
        return f"{mean:.1f}".removesuffix(".0")
    return f"{mean:.2g}"


def _format_share(share: float) -> str:
    """A share in percent, without insignificant digits."""
    if 0.01 <= share <= 0.99:
        return f"{100 * share:.0f} %"
    return format_prob(share)


def file_stem(query: str) -> str:
    """A file name for a query, without characters that are special to a shell or a file system.

    Example:
        >>> file_stem('fork & "Granny Smith" & !knife')
        'search-fork-granny-smith-not-knife'
    """
    for character, word in (("!", " not "), ("~", " not "), ("|", " or "), (">=", " from "), ("<=", " to ")):
        query = query.replace(character, word)
    plain = "".join(
        character if character.isalnum() else " " for character in unicodedata.normalize("NFKC", query).lower()
    )
    # Sixty characters of up to four bytes each fit into a file name on every file system.
    return "-".join(["search", *plain.split()])[:60].rstrip("-")
