"""What may be drawn: tensors, arrays and lists, checked and made into plain numbers without asking for torch."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, NamedTuple

from manyhot.refusal import refusal


class Span(NamedTuple):
    """A value and between what it lies; both ends are the value itself where nothing is known of them."""

    value: float
    low: float
    high: float


def check_named(argument: str, owner: str, value: Any) -> Mapping[str, Any]:
    """Returns `value`, or refuses what is not a mapping with at least one name."""
    if isinstance(value, Mapping) and value:
        return value
    got = "an empty one" if isinstance(value, Mapping) else type(value).__name__
    remedy = 'Pass what is to be drawn by its name, such as {"BCE": ...}.'
    raise refusal(argument, owner, "be a mapping with at least one name", got, remedy)


def check_whole(argument: str, owner: str, value: Any, *, low: int) -> int:
    """Returns `value` as an int, or refuses one that is below `low` or not whole."""
    number = low - 1 if isinstance(value, bool) or not isinstance(value, Integral) else int(value)
    if number >= low:
        return number
    raise refusal(argument, owner, f"be a whole number, at least {low}", repr(value), "Pass an int.")


def check_known(argument: str, owner: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuses names that are not among the known ones."""
    known = list(known)
    for name in names:
        if name not in known:
            rule = f"name what is drawn, {', '.join(map(repr, known))}"
            raise refusal(argument, owner, rule, repr(name), "Pass these names only.")


def check_keys(argument: str, owner: str, stored: Mapping[str, Any], keys: Sequence[str], remedy: str) -> None:
    """Refuses a mapping that lacks one of the keys."""
    missing = [key for key in keys if key not in stored]
    if missing:
        raise refusal(argument, owner, f"have {listed(keys)}", f"none called {missing[0]!r}", remedy)


def listed(words: Sequence[str]) -> str:
    """Names as people list them.

    Example:
        >>> from manyhot.report.reading import listed
        >>> listed(["a", "b", "c"])
        "'a', 'b' and 'c'"
    """
    *first, last = map(repr, words)
    return f"{', '.join(first)} and {last}" if first else last


def read_numbers(argument: str, owner: str, values: Any, *, gaps: bool = False) -> list[float]:
    """A list of finite floats of a tensor, array or sequence; with `gaps`, None and NaN are taken as NaN."""
    rule = "be a row of finite numbers" + (", with None or NaN for gaps" if gaps else "")
    remedy = "Pass a list, an array or a tensor of one axis."
    found = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(found, Iterable) or isinstance(found, str | Mapping):
        raise refusal(argument, owner, rule, type(values).__name__, remedy)
    numbers = []
    for number in found:
        gap = number is None or (isinstance(number, Real) and math.isnan(number))
        if gap and gaps:
            numbers.append(math.nan)
        elif is_finite(number):
            numbers.append(float(number))
        else:
            raise refusal(argument, owner, rule, "lists in it" if isinstance(number, list) else repr(number), remedy)
    return numbers


def is_finite(number: Any) -> bool:
    """Whether it is a real number, and neither NaN nor infinite."""
    return isinstance(number, Real) and math.isfinite(number)


def read_counts(argument: str, owner: str, values: Any) -> list[int]:
    """A list of whole numbers that are not negative."""
    numbers = read_numbers(argument, owner, values)
    for number in numbers:
        if number < 0 or number != int(number):
            remedy = "Pass how many there are, not shares."
            raise refusal(argument, owner, "be whole numbers, none negative", f"{number:g}", remedy)
    return [int(number) for number in numbers]


def read_edges(argument: str, owner: str, values: Any, bins: int) -> list[float]:
    """The edges of so many bins, in order."""
    edges = read_numbers(argument, owner, values)
    remedy = "Pass the lower edge of the first bin and the upper edges of all."
    if len(edges) != bins + 1:
        raise refusal(argument, owner, f"be {bins + 1} edges of {bins} bins", str(len(edges)), remedy)
    if any(low > high for low, high in pairwise(edges)):
        raise refusal(argument, owner, "rise", "edges out of order", remedy)
    return edges


def read_same(argument: str, owner: str, values: list[Any], length: int) -> None:
    """Refuses a row of another length than that of the others."""
    if len(values) != length:
        remedy = "Pass one number for each."
        raise refusal(argument, owner, f"be as long as the others, {length}", str(len(values)), remedy)


def read_span(argument: str, owner: str, given: Any) -> Span:
    """A number, (value, low, high), an `Interval` or a mapping with "value", "low" and "high"."""
    remedy = "Pass a number, (value, low, high), or what `bootstrap` gives."
    rule = "be a number or a value with its ends, low <= value <= high"
    if isinstance(given, Mapping):
        check_keys(argument, owner, given, ("value", "low", "high"), remedy)
        given = (given["value"], given["low"], given["high"])
    elif hasattr(given, "low") and hasattr(given, "high"):
        given = (given.value, given.low, given.high)
    elif isinstance(given, Real):
        given = (given, given, given)
    if not isinstance(given, Sequence) or len(given) != 3 or not all(is_finite(number) for number in given):
        raise refusal(argument, owner, rule, repr(given), remedy)
    span = Span(*map(float, given))
    if not span.low <= span.value <= span.high:
        raise refusal(argument, owner, rule, f"{span.value:g} in [{span.low:g}, {span.high:g}]", remedy)
    return span
