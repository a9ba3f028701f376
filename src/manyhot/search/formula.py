"""Formulas over label columns: the tree, its normal form, and its text as a query."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from manyhot.errors import InputError, owned
from manyhot.search.lexer import can_be_unquoted, quote_label


@dataclass(frozen=True)
class Label:
    """The label of this column is present."""

    column: int


@dataclass(frozen=True)
class Not:
    """The part does not hold."""

    part: Formula


@dataclass(frozen=True)
class And:
    """All parts hold; true without parts."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Or:
    """At least one part holds; false without parts."""

    parts: tuple[Formula, ...]


@dataclass(frozen=True)
class Count:
    """The number of parts that hold lies between two numbers, both included.

    Attributes:
        low: The lowest allowed number.
        high: The highest allowed number; None for no limit.
        parts: What is counted; None for all labels, whether the query names them or not.
    """

    low: int
    high: int | None
    parts: tuple[Formula, ...] | None = None

    def allows(self, number: int) -> bool:
        """Whether a number lies between the two."""
        return self.low <= number and (self.high is None or number <= self.high)


Formula = Label | Not | And | Or | Count


def parts_of(formula: Formula) -> tuple[Formula, ...]:
    """The direct parts of a formula."""
    if isinstance(formula, Label):
        return ()
    if isinstance(formula, Not):
        return (formula.part,)
    return formula.parts or ()


def named_columns(formula: Formula) -> Iterator[int]:
    """The columns that a formula names, with repetitions."""
    waiting = [formula]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Label):
            yield part.column
        waiting.extend(reversed(parts_of(part)))


def counts_all_labels(formula: Formula) -> bool:
    """Whether a formula counts all labels, so that it depends on every column."""
    waiting = [formula]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Count) and part.parts is None:
            return True
        waiting.extend(parts_of(part))
    return False


def holds(formula: Formula, present: Collection[int]) -> bool:
    """Whether a formula is true of a sample with the labels of these columns and no others.

    Example:
        >>> from manyhot.search.formula import And, Not, Label, holds
        >>> fork_without_knife = And((Label(0), Not(Label(2))))
        >>> holds(fork_without_knife, {0, 1}), holds(fork_without_knife, {0, 2})
        (True, False)
    """
    match formula:
        case Label(column):
            return column in present
        case Not(part):
            return not holds(part, present)
        case And(parts):
            return all(holds(part, present) for part in parts)
        case Or(parts):
            return any(holds(part, present) for part in parts)
        case Count(_, _, None):
            return formula.allows(len(present))
        case Count(_, _, parts):
            return formula.allows(sum(holds(part, present) for part in parts or ()))


# More labels than any data has; larger numbers are clipped to it.
MAX_COUNT = 999_999_999

ALWAYS = And(())
NEVER = Or(())


def normalize(formula: Formula) -> Formula:
    """The same formula without nested conjunctions and disjunctions, double negation, and trivial counts.

    `And(())` is always true and `Or(())` never.

    Example:
        >>> from manyhot.search.formula import And, Not, Label
        >>> cat, dog, bird = Label(0), Label(1), Label(2)
        >>> normalize(And((cat, And((dog, Not(Not(bird)))))))
        And(parts=(Label(column=0), Label(column=1), Label(column=2)))
    """
    match formula:
        case Not(part):
            inner = normalize(part)
            return inner.part if isinstance(inner, Not) else Not(inner)
        case And(parts):
            return _flattened(And, tuple(map(normalize, parts)))
        case Or(parts):
            return _flattened(Or, tuple(map(normalize, parts)))
        case Count(low, high, parts):
            return _normalize_count(low, high, None if parts is None else tuple(map(normalize, parts)))
    return formula


def _flattened(kind: type[And] | type[Or], parts: tuple[Formula, ...]) -> Formula:
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else [part])
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _normalize_count(low: int, high: int | None, parts: tuple[Formula, ...] | None) -> Formula:
    low = min(max(low, 0), MAX_COUNT)
    high = None if high is None or high > MAX_COUNT else high
    if high is not None and high < low:
        return NEVER
    if low == 0 and high is None:
        return ALWAYS
    if parts == ():
        return ALWAYS if low == 0 else NEVER
    return Count(low, high, parts)


MAX_NESTING = 100

# Operator precedence: a text of lower precedence than what surrounds it is put in parentheses.
_OR, _AND, _COMPARISON, _ATOM = range(4)


class _Piece(NamedTuple):
    """A text, its operator precedence, and how many levels of parentheses are nested in it."""

    text: str
    precedence: int
    depth: int


@owned("format_query")
def format_query(formula: Formula, labels: Sequence[str]) -> str:
    """The text of a formula, which `parse_query` parses into the formula's normal form.

    It is one printable line; that of a long formula may exceed the maximum length of a query.

    Args:
        formula: The formula.
        labels: The names of the labels, all different, in the order of the columns.

    Example:
        >>> from manyhot.search.parser import parse_query
        >>> labels = ["dog", "beach", "park", "black and white"]
        >>> format_query(parse_query("DOG and (not (beach or park))", labels), labels)
        'dog & !(beach | park)'
        >>> format_query(parse_query("dog & 'black and white' & count = 2", labels), labels)
        'only(dog, "black and white")'
    """
    _check_formula(formula, len(labels))
    piece = _Writer(labels).piece(normalize(formula))
    if piece.depth > MAX_NESTING:
        raise _too_deep()
    return piece.text


class _Writer:
    """Writes formulas in normal form."""

    def __init__(self, labels: Sequence[str]) -> None:
        self.labels = labels

    def piece(self, formula: Formula) -> _Piece:
        match formula:
            case Label(column):
                return _Piece(format_name(self.labels[column]), _ATOM, 0)
            case Not(part):
                return _negated(part, self.piece(part))
            case _ if formula in (ALWAYS, NEVER):
                return _Piece("count >= 0" if formula == ALWAYS else "count < 0", _COMPARISON, 0)
            case And(parts):
                return _conjunction(parts, list(map(self.piece, parts)))
            case Or(parts):
                return _join_pieces(" | ", list(map(self.piece, parts)), _OR)
            case Count(low, high, None):
                return _format_comparison("count", low, high)
            case Count(low, high, parts):
                return _format_counter(low, high, _join_pieces(", ", list(map(self.piece, parts or ())), _ATOM))


def format_name(name: str) -> str:
    """The name of a label as written in a query: in quotation marks if it needs them.

    Example:
        >>> print(format_name("traffic light"), format_name("rock & roll"))
        traffic light "rock & roll"
    """
    return name if can_be_unquoted(name) else quote_label(name, '"')


def _negated(part: Formula, piece: _Piece) -> _Piece:
    if isinstance(part, Count) and part.parts is None and part.low == part.high != 0:
        return _Piece(f"count != {part.low}", _COMPARISON, 0)
    piece = _enclosed(piece, _AND)
    operator = "not " if piece.precedence == _COMPARISON else "!"
    return piece._replace(text=operator + piece.text, precedence=_ATOM)


def _conjunction(parts: tuple[Formula, ...], pieces: list[_Piece]) -> _Piece:
    """The parts with `&` between them; those that form an `only` are merged."""
    merged: list[_Piece] = []
    for index, piece in enumerate(pieces):
        size = _only_size(parts, index)
        if size:
            names = ", ".join(name.text for name in pieces[index - size : index])
            merged[-size:] = [_Piece(f"only({names})", _ATOM, 0)]
        else:
            merged.append(_enclosed(piece, _OR))
    return _join_pieces(" & ", merged, _AND) if len(merged) > 1 else merged[0]


def _only_size(parts: tuple[Formula, ...], index: int) -> int:
    """The number of labels in a count at this index if as many labels are named right before it, else 0."""
    count = parts[index]
    if not isinstance(count, Count) or count.parts is not None or count.low != count.high:
        return 0
    before = parts[max(0, index - count.low) : index]
    named = {part.column for part in before if isinstance(part, Label)}
    return count.low if len(named) == count.low else 0


def _format_comparison(what: str, low: int, high: int | None) -> _Piece:
    if what == "count" and (low, high) in ((0, 0), (1, None)):
        return _Piece("any" if low else "none", _ATOM, 0)
    if low == high:
        text = f"{what} = {low}"
    elif high is None:
        text = f"{what} >= {low}"
    else:
        text = f"{low} <= {what} <= {high}" if low else f"{what} <= {high}"
    return _Piece(text, _COMPARISON, 0)


def _format_counter(low: int, high: int | None, inner: _Piece) -> _Piece:
    depth = inner.depth + 1
    if high is None:
        return _Piece(f"atleast({low}, {inner.text})", _ATOM, depth)
    if low in (0, high):
        return _Piece(f"{'exactly' if low == high else 'atmost'}({high}, {inner.text})", _ATOM, depth)
    return _format_comparison(f"count({inner.text})", low, high)._replace(depth=depth)


def _enclosed(piece: _Piece, precedence: int) -> _Piece:
    """The piece, in parentheses unless its precedence is higher."""
    return piece if piece.precedence > precedence else _Piece(f"({piece.text})", _ATOM, piece.depth + 1)


def _join_pieces(operator: str, pieces: list[_Piece], precedence: int) -> _Piece:
    return _Piece(operator.join(piece.text for piece in pieces), precedence, max(piece.depth for piece in pieces))


def _check_formula(formula: Formula, num_labels: int) -> None:
    """Raises for columns without a name, and for formulas that are nested too deeply."""
    waiting = [(formula, 1)]
    while waiting:
        part, depth = waiting.pop()
        if isinstance(part, Label) and not 0 <= part.column < num_labels:
            rule, hint = f"name columns of {num_labels} labels", "Pass the labels it was read with."
            raise InputError("formula", rule=rule, got=f"column {part.column}", hint=hint)
        # A disjunction of conjunctions of negations of counts takes four nodes per level of parentheses.
        if depth > 4 * (MAX_NESTING + 1):
            raise _too_deep()
        waiting.extend((inner, depth + 1) for inner in parts_of(part))


def _too_deep() -> InputError:
    rule = f"nest at most {MAX_NESTING} levels of parentheses"
    return InputError("formula", rule=rule, got="more", hint="Leave out what is not needed.")
