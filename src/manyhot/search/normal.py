"""The plain form of a formula, in which two ways to write the same nesting are one."""

from __future__ import annotations

from manyhot.search.formula import And, Count, Formula, Not, Or

# Nobody has as many labels, so that larger numbers say nothing more.
LARGEST = 999_999_999

ALWAYS = And(())
NEVER = Or(())


def normal_form(formula: Formula) -> Formula:
    """The same formula without nested conjunctions and disjunctions, double negation, and counts that say nothing.

    `And(())` and `Or(())` are what always and what never holds.

    Example:
        >>> from manyhot.search.formula import And, Not, Present
        >>> cat, dog, bird = Present(0), Present(1), Present(2)
        >>> normal_form(And((cat, And((dog, Not(Not(bird)))))))
        And(parts=(Present(column=0), Present(column=1), Present(column=2)))
    """
    match formula:
        case Not(part):
            inner = normal_form(part)
            return inner.part if isinstance(inner, Not) else Not(inner)
        case And(parts):
            return _joined(And, tuple(map(normal_form, parts)))
        case Or(parts):
            return _joined(Or, tuple(map(normal_form, parts)))
        case Count(low, high, parts):
            return _count(low, high, None if parts is None else tuple(map(normal_form, parts)))
    return formula


def _joined(kind: type[And] | type[Or], parts: tuple[Formula, ...]) -> Formula:
    flat: list[Formula] = []
    for part in parts:
        flat.extend(part.parts if isinstance(part, kind) else [part])
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _count(low: int, high: int | None, parts: tuple[Formula, ...] | None) -> Formula:
    low = min(max(low, 0), LARGEST)
    high = None if high is None or high > LARGEST else high
    if high is not None and high < low:
        return NEVER
    if low == 0 and high is None:
        return ALWAYS
    if parts == ():
        return ALWAYS if low == 0 else NEVER
    return Count(low, high, parts)
