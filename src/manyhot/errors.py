"""The error raised for an invalid argument, and helpers that word it: nearest names, missing packages."""

from __future__ import annotations

import copyreg
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from typing import Any

# Arguments and functions that a hint may name as `{argument}` or {argument='value'}. The command line shows its own
# options and commands instead. A part in square brackets is left out where there is none for what it names.
# fmt: off
PLACEHOLDERS = frozenset((
    "check", "id_column", "kind", "labels", "labels_column", "layout", "other_labels", "overwrite",
    "path_column", "read_images", "read_predictions", "root", "separator", "split_column", "splits", "targets",
    "unlisted",
))
# fmt: on
_PLACEHOLDER = re.compile(rf"\{{({'|'.join(sorted(PLACEHOLDERS))})(?:=('[^']*'|\w+))?\}}")
_OPTIONAL = re.compile(rf"\[([^\[\]{{}}]*{_PLACEHOLDER.pattern}[^\[\]{{}}]*)\]")


class InputError(ValueError):
    """Raised for an invalid argument. The message names the argument, the constraint, the received value and a fix.

    The message is rendered on demand, so that a caller can still set a field.

    Attributes:
        argument: The name of the argument.
        owner: The public function or class that was called; "" until one is known.
        rule: What the argument must be or do; "" for an error that is about no argument.
        got: The received value; the whole message where there is no rule.
        hint: How to fix it.

    Example:
        >>> raise mh.InputError("k", "AverageKLoss", "be at least 1", "0.5", "Pass the wanted mean set size.")
        Traceback (most recent call last):
        manyhot.errors.InputError: `k` of `AverageKLoss` must be at least 1; got 0.5. Pass the wanted mean set size.
    """

    def __init__(self, argument: str = "", owner: str = "", rule: str = "", got: str = "", hint: str = "") -> None:
        super().__init__()
        # A string alone is the whole message, as in other exceptions: torch rebuilds errors of DataLoader workers so.
        if not (owner or rule or got or hint):
            argument, got = "", argument
        self.argument, self.owner, self.rule, self.got, self.hint = argument, owner, rule, got, hint

    def __str__(self) -> str:
        """The message with the names of Python."""
        return self.render()

    def render(self, names: Mapping[str, str] | None = None) -> str:
        """The message with other names for some arguments, such as the options of a command; they need no owner."""
        names = names or {}
        if not self.rule:
            return f"{self.got} {_fill_in(self.hint, names)}".rstrip()
        owner = f" of `{self.owner}`" if self.owner and self.argument not in names else ""
        rule, hint = (_fill_in(text, names) for text in (self.rule, self.hint))
        return f"`{names.get(self.argument, self.argument)}`{owner} must {rule}; got {self.got}. {hint}".rstrip()

    def __reduce__(self) -> tuple[Any, ...]:
        """Keeps the fields through pickle, on the way out of worker processes, whatever a subclass is made of."""
        return copyreg.__newobj__, (type(self),), vars(self)  # type: ignore[attr-defined]


def _fill_in(text: str, names: Mapping[str, str]) -> str:
    def name(match: re.Match[str]) -> str:
        word, value = match.groups()
        if value is None:
            return f"`{names.get(word) or word}`"
        assigned = f"{word}={value}"
        text = value.strip("'")
        return names.get(assigned, f"{names[word]} {shlex.quote(text)}" if names.get(word) else assigned)

    wanted = _OPTIONAL.sub(lambda match: match[1] if names.get(match[2], match[2]) else "", text)
    return _PLACEHOLDER.sub(name, wanted)


@contextmanager
def owned(owner: str) -> Iterator[None]:
    """Names the public function in errors from below that name none. Use it as a decorator or in a `with` statement."""
    try:
        yield
    except InputError as error:
        error.owner = error.owner or owner
        raise


@contextmanager
def as_input_error(
    file: str, kinds: type[Exception] | tuple[type[Exception], ...], rule: str, hint: str
) -> Iterator[None]:
    """Turns errors of these kinds about the content of a file into one that names the file."""
    try:
        yield
    except kinds as error:
        raise InputError("path", rule=rule, got=f"{file} ({first_line(error)})", hint=hint) from None


def first_line(error: BaseException) -> str:
    """What an error says, reduced to its first line without the full stop."""
    return str(error).strip().partition("\n")[0].strip().rstrip(".") or type(error).__name__


def suggest(
    name: str, choices: Iterable[str], otherwise: str = "", *, cutoff: float = 0.6, show: Callable[[str], str] = str
) -> str:
    """The hint "Did you mean ...?" with the nearest of some names, or another one if none is near.

    The name is written by `show`; pass `repr` for quotation marks.

    Example:
        >>> from manyhot.errors import suggest
        >>> suggest("colour", ["color", "size"]), suggest("price", ["color", "size"], "Pick color or size.")
        ('Did you mean color?', 'Pick color or size.')
    """
    near = get_close_matches(name, list(choices), n=1, cutoff=cutoff)
    return f"Did you mean {show(near[0])}?" if near else otherwise


def require(module: str, purpose: str, *, extra: str, package: str = "") -> Any:
    """A module of an optional package, or the error that says how to install it.

    Args:
        module: As it is imported.
        purpose: What needs it, in the plural, such as "Checkpoints".
        extra: The extra of manyhot that brings it.
        package: The name to install it by, where that is not the first part of `module`.
    """
    top = module.partition(".")[0]
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != top:
            raise
        message = f"{purpose} need {package or top}. Install it with: pip install 'manyhot[{extra}]'"
        raise ModuleNotFoundError(message, name=error.name) from None
