"""Strings to objects: `AverageK(3)`, `Isotonic(per="label")`, `AskPerson(LabelThresholds(), at_most=0.1)`.

The only place where a string becomes a constructor. Nothing is evaluated: names are those given, values are literals.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from manyhot.refusal import Refusal, refusal


def construct(
    text: str, kinds: Mapping[str, type], *, argument: str, owner: str, advice: Sequence[str] | None = None
) -> Any:
    """The object that a string describes.

    Args:
        text: A name, or a call with literals and further calls as arguments. `average-k` is `AverageK()`.
        kinds: The classes that may be named.
        argument: What the string was given for, for the error.
        owner: Who asked for it, for the error.
        advice: The names to choose from in an error; all of `kinds` by default, some of which may be for arguments.

    Example:
        >>> construct("average-k(3)", {"AverageK": mh.AverageK}, argument="rule", owner="decide")
        AverageK(3)
    """
    advice = list(kinds) if advice is None else advice
    example = f"Write it as for example {advice[0]}."
    # Dashes are for people; they are no part of a name in Python, in which the text is read.
    plain = re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", "_", text.strip())
    try:
        tree = ast.parse(plain, mode="eval").body
    except SyntaxError:
        raise refusal(argument, owner, "be a name with arguments in brackets", repr(text), example) from None
    return _Builder(text, kinds, argument, owner, advice).build(tree)


def public_classes(base: type) -> dict[str, type]:
    """The public classes of the core below `base`, by name; what needs more than torch and numpy is not looked at."""
    from manyhot import api

    named = {name: getattr(api, name) for name in api.__all__ if name not in api.LATER}
    return {name: kind for name, kind in named.items() if isinstance(kind, type) and issubclass(kind, base)}


class _Builder:
    """Builds the nodes of one string."""

    def __init__(self, text: str, kinds: Mapping[str, type], argument: str, owner: str, advice: Sequence[str]) -> None:
        self.text, self.kinds, self.argument, self.owner, self.advice = text, kinds, argument, owner, advice

    def build(self, node: ast.expr) -> Any:
        """The object of a name or a call."""
        if isinstance(node, ast.Name):
            return self.call(self.kind(node.id), [], {})
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise self.refuse("be a name with arguments in brackets", repr(self.text), f"Pick {self.some_kinds()}.")
        named = {word.arg: self.value(word.value) for word in node.keywords if word.arg}
        return self.call(self.kind(node.func.id), [self.value(item) for item in node.args], named)

    def kind(self, name: str) -> type:
        """The class of a name, whatever its case and dashes."""
        plain = {_plain(known): kind for known, kind in self.kinds.items()}
        if _plain(name) in plain:
            return plain[_plain(name)]
        known = {_plain(one): one for one in self.advice}
        near = difflib.get_close_matches(_plain(name), known, n=1, cutoff=0.5)
        remedy = f"Did you mean {known[near[0]]}?" if near else f"Pick {self.some_kinds()}."
        raise self.refuse("name something known", repr(name), remedy)

    def call(self, kind: type, values: list[Any], named: dict[str, Any]) -> Any:
        """An instance of a class, its arguments checked by name."""
        signature = inspect.signature(kind)
        for name in named:
            if name not in signature.parameters:
                near = difflib.get_close_matches(name, signature.parameters, n=1)
                known = ", ".join(signature.parameters) or "no arguments"
                remedy = f"Did you mean {near[0]}?" if near else f"It takes {known}."
                raise self.refuse(f"use arguments that {kind.__name__} has", repr(name), remedy)
        try:
            signature.bind(*values, **named)
        except TypeError as error:
            rule = f"fit {kind.__name__}({', '.join(signature.parameters)})"
            raise self.refuse(rule, str(error), "Add or drop arguments.") from None
        return kind(*values, **named)

    def value(self, node: ast.expr) -> Any:
        """A literal, or the object of a further name or call."""
        if isinstance(node, ast.Call | ast.Name):
            return self.build(node)
        try:
            return ast.literal_eval(node)
        except ValueError:
            got = ast.unparse(node)
            raise self.refuse("have numbers, strings and lists as arguments", got, "Write the value out.") from None

    def some_kinds(self) -> str:
        """The names to choose from."""
        return "one of " + ", ".join(self.advice)

    def refuse(self, rule: str, got: str, remedy: str) -> Refusal:
        """The sentence for a string that cannot be built."""
        return refusal(self.argument, self.owner, rule, got, remedy)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
