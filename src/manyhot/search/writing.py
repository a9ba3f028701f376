"""From a formula to the text of a query, as short as it can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from manyhot.refusal import Refusal, refusal
from manyhot.search.complaint import quoted
from manyhot.search.formula import And, Count, Formula, Not, Or, Present, parts_of
from manyhot.search.normal import ALWAYS, NEVER, normal_form
from manyhot.search.parsing import DEEPEST
from manyhot.search.words import is_bare

# How firmly a text holds together: one that is weaker than what surrounds it is put in parentheses.
_OR, _AND, _COMPARISON, _ATOM = range(4)


class _Piece(NamedTuple):
    """A text, how firmly it holds together, and how many levels of parentheses are nested in it."""

    text: str
    strength: int
    levels: int


def write(formula: Formula, labels: Sequence[str]) -> str:
    """The text of a formula, which `parse` reads as the formula's normal form.

    It is one line that a terminal can show, whatever is in the names; longer than a query may be, if the formula is.

    Args:
        formula: The formula.
        labels: The names of the labels, all different, in the order of the columns.

    Example:
        >>> from manyhot.search.parsing import parse
        >>> labels = ["dog", "beach", "park", "black and white"]
        >>> write(parse("DOG and (not (beach or park))", labels), labels)
        'dog & !(beach | park)'
        >>> write(parse("dog & 'black and white' & count = 2", labels), labels)
        'only(dog, "black and white")'
    """
    _check(formula, len(labels))
    piece = _Writer(labels).piece(normal_form(formula))
    if piece.levels > DEEPEST:
        raise _too_deep()
    return piece.text


class _Writer:
    """The texts of formulas in normal form."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = labels

    def piece(self, formula: Formula) -> _Piece:
        match formula:
            case Present(column):
                return _Piece(name_text(self.labels[column]), _ATOM, 0)
            case Not(part):
                return _negated(part, self.piece(part))
            case _ if formula in (ALWAYS, NEVER):
                return _Piece("count >= 0" if formula == ALWAYS else "count < 0", _COMPARISON, 0)
            case And(parts):
                return _conjunction(parts, list(map(self.piece, parts)))
            case Or(parts):
                return _joined(" | ", list(map(self.piece, parts)), _OR)
            case Count(low, high, None):
                return _compared("count", low, high)
            case Count(low, high, parts):
                return _counter(low, high, _joined(", ", list(map(self.piece, parts or ())), _ATOM))


def name_text(name: str) -> str:
    """A label's name as it stands in a query: between quotation marks if it needs them.

    Example:
        >>> print(name_text("traffic light"), name_text("rock & roll"))
        traffic light "rock & roll"
    """
    return name if is_bare(name) else quoted(name, '"')


def _negated(part: Formula, piece: _Piece) -> _Piece:
    if isinstance(part, Count) and part.parts is None and part.low == part.high != 0:
        return _Piece(f"count != {part.low}", _COMPARISON, 0)
    piece = _enclosed(piece, _AND)
    sign = "not " if piece.strength == _COMPARISON else "!"
    return piece._replace(text=sign + piece.text, strength=_ATOM)


def _conjunction(parts: tuple[Formula, ...], pieces: list[_Piece]) -> _Piece:
    """The parts with `&` between them; those that make an `only` are one."""
    joined: list[_Piece] = []
    for place, piece in enumerate(pieces):
        size = _only_size(parts, place)
        if size:
            names = ", ".join(name.text for name in pieces[place - size : place])
            joined[-size:] = [_Piece(f"only({names})", _ATOM, 0)]
        else:
            joined.append(_enclosed(piece, _OR))
    return _joined(" & ", joined, _AND) if len(joined) > 1 else joined[0]


def _only_size(parts: tuple[Formula, ...], place: int) -> int:
    """How many labels the part at a place says there are, if as many are named right before it; or else 0."""
    count = parts[place]
    if not isinstance(count, Count) or count.parts is not None or count.low != count.high:
        return 0
    before = parts[max(0, place - count.low) : place]
    named = {part.column for part in before if isinstance(part, Present)}
    return count.low if len(named) == count.low else 0


def _compared(what: str, low: int, high: int | None) -> _Piece:
    if what == "count" and (low, high) in ((0, 0), (1, None)):
        return _Piece("any" if low else "none", _ATOM, 0)
    if low == high:
        text = f"{what} = {low}"
    elif high is None:
        text = f"{what} >= {low}"
    else:
        text = f"{low} <= {what} <= {high}" if low else f"{what} <= {high}"
    return _Piece(text, _COMPARISON, 0)


def _counter(low: int, high: int | None, inner: _Piece) -> _Piece:
    levels = inner.levels + 1
    if high is None:
        return _Piece(f"atleast({low}, {inner.text})", _ATOM, levels)
    if low in (0, high):
        return _Piece(f"{'exactly' if low == high else 'atmost'}({high}, {inner.text})", _ATOM, levels)
    return _compared(f"count({inner.text})", low, high)._replace(levels=levels)


def _enclosed(piece: _Piece, weak: int) -> _Piece:
    """The piece in parentheses if it is as weak as this."""
    return piece if piece.strength > weak else _Piece(f"({piece.text})", _ATOM, piece.levels + 1)


def _joined(sign: str, pieces: list[_Piece], strength: int) -> _Piece:
    return _Piece(sign.join(piece.text for piece in pieces), strength, max(piece.levels for piece in pieces))


def _check(formula: Formula, num_labels: int) -> None:
    """Refuses columns without a name, and formulas too deep to go through."""
    waiting = [(formula, 1)]
    while waiting:
        part, depth = waiting.pop()
        if isinstance(part, Present) and not 0 <= part.column < num_labels:
            got = f"column {part.column}"
            raise refusal(
                "formula", "write", f"name columns of {num_labels} labels", got, "Pass the labels it was read with."
            )
        # A disjunction of conjunctions of negations of counts takes four nodes a level of parentheses.
        if depth > 4 * (DEEPEST + 1):
            raise _too_deep()
        waiting.extend((inner, depth + 1) for inner in parts_of(part))


def _too_deep() -> Refusal:
    rule = f"nest at most {DEEPEST} levels of parentheses"
    return refusal("formula", "write", rule, "more", "Leave out what is not needed.")
