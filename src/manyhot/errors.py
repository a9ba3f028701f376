"""The error raised for an invalid argument, and helpers that word it: nearest names, missing packages."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

# Arguments that a hint may name as `{argument}`. The command line shows its own option instead.
PLACEHOLDERS = frozenset[str]()


class InputError(ValueError):
    """Raised for an invalid argument. The message names the argument, the constraint, the received value and a fix.

    The message is put together when it is asked for, so that a caller may still fill in a field.

    Attributes:
        argument: The argument, as the owner calls it.
        owner: The public function or class that was called; "" until one is known.
        rule: What the argument must do or be; "" for an error that is about no argument.
        got: What came instead; a whole sentence where there is no rule.
        hint: How to put it right, in whole sentences.

    Example:
        >>> raise mh.InputError("k", "AverageKLoss", "be at least 1", "0.5", "Pass the wanted mean set size.")
        Traceback (most recent call last):
        manyhot.errors.InputError: `k` of `AverageKLoss` must be at least 1; got 0.5. Pass the wanted mean set size.
    """

    def __init__(self, argument: str = "", owner: str = "", rule: str = "", got: str = "", hint: str = "") -> None:
        super().__init__()
        self.argument, self.owner, self.rule, self.got, self.hint = argument, owner, rule, got, hint

    def __str__(self) -> str:
        """The message with the names of Python."""
        return self.message()

    def message(self, names: Mapping[str, str] | None = None) -> str:
        """The message with other names for some arguments, such as the options of a command; they need no owner."""
        names = names or {}
        if not self.rule:
            return f"{self.got} {_fill_in(self.hint, names)}".rstrip()
        owner = f" of `{self.owner}`" if self.owner and self.argument not in names else ""
        rule, hint = (_fill_in(text, names) for text in (self.rule, self.hint))
        return f"`{names.get(self.argument, self.argument)}`{owner} must {rule}; got {self.got}. {hint}".rstrip()

    def __reduce__(self) -> tuple[Any, ...]:
        """Keeps the fields through pickle, on the way out of worker processes."""
        return _rebuild, (type(self), dict(vars(self)))


def _rebuild(kind: type[InputError], fields: dict[str, Any]) -> InputError:
    error = kind.__new__(kind)
    vars(error).update(fields)
    return error


def _fill_in(text: str, names: Mapping[str, str]) -> str:
    def name(match: re.Match[str]) -> str:
        word = match[1]
        return f"`{names.get(word, word)}`" if word in PLACEHOLDERS else match[0]

    return re.sub(r"\{(\w+)\}", name, text)


@contextmanager
def owned(owner: str) -> Iterator[None]:
    """Names the public function in errors from below that name none. Use it as a decorator or in a `with` statement."""
    try:
        yield
    except InputError as error:
        error.owner = error.owner or owner
        raise


def suggest(name: str, choices: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6) -> str:
    """The hint "Did you mean ...?" with the nearest of some names, or another one if none is near.

    Example:
        >>> from manyhot.errors import suggest
        >>> suggest("colour", ["color", "size"]), suggest("price", ["color", "size"], "Pick color or size.")
        ('Did you mean color?', 'Pick color or size.')
    """
    near = get_close_matches(name, list(choices), n=1, cutoff=cutoff)
    return f"Did you mean {near[0]}?" if near else otherwise


def require(module: str, purpose: str, *, extra: str) -> Any:
    """A module of an optional package, or the error that says how to install it.

    Args:
        module: As it is imported.
        purpose: What needs it, as the subject of a sentence in the plural, such as "Checkpoints".
        extra: The extra of manyhot that brings it.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        package = module.partition(".")[0]
        raise ImportError(f"{purpose} need {package}. Install it with: pip install 'manyhot[{extra}]'") from None
