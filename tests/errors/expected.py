"""How tests expect an `InputError`: by its fields. The whole message is pinned once, in `messages.txt`."""

import os
import re
from pathlib import Path

import pytest

from manyhot.errors import InputError

ROOT = Path(__file__).parents[2]
MESSAGES = Path(__file__).with_name("messages.txt")
# Names a folder in which new messages are collected instead of being compared; see `make messages`.
COLLECT = "MANYHOT_COLLECT_MESSAGES"
_known: set[str] = set()


def plain(message):
    """A message without what differs from run to run and from machine to machine: folders, and line breaks."""
    message = re.sub(r"/[^' ]*(?=/site-packages/)", "LIB", message).replace(str(ROOT), "ROOT")
    folder = r"(/[\w.+-]+)*/(pytest-of-|tmp)[\w.+-]*(/pytest-\d+)?(/popen-gw\d+)?(/test_\w*\d)?"
    message = re.sub(folder, "TMP", message)
    return " ".join(message.split())


def check_message(message):
    """Compares a whole message with those that are pinned."""
    if folder := os.environ.get(COLLECT):
        with (Path(folder) / f"{os.getpid()}.txt").open("a", encoding="utf-8") as file:
            file.write(plain(message) + "\n")
        return
    if not _known:
        _known.update(MESSAGES.read_text(encoding="utf-8").splitlines())
    assert plain(message) in _known, f"not in {MESSAGES.name}, which `make messages` writes: {plain(message)}"


class raises_input_error:  # noqa: N801
    """Expects an `InputError` with these fields; rule, got and hint need to contain what is given.

    Args:
        argument: The argument that it names.
        owner: The function or class that it names.
        rule: Part of the rule.
        got: Part of what came.
        hint: Part of the hint.
        match: A pattern for the whole message, where a field is not enough.
        kind: The class of the error.
    """

    def __init__(self, argument=None, owner=None, *, rule="", got="", hint="", match=None, kind=InputError):
        self.exact, self.parts = {"argument": argument, "owner": owner}, {"rule": rule, "got": got, "hint": hint}
        self.raises = pytest.raises(kind, match=match)

    def __enter__(self):
        self.caught = self.raises.__enter__()
        return self.caught

    def __exit__(self, *details):
        passed = self.raises.__exit__(*details)
        if passed:
            error = self.caught.value
            for name, wanted in self.exact.items():
                assert wanted is None or getattr(error, name) == wanted, f"{name} {getattr(error, name)!r}: {error}"
            for name, wanted in self.parts.items():
                assert wanted in getattr(error, name), f"{name} {getattr(error, name)!r}: {error}"
            check_message(str(error))
        return passed
