"""What the metadata of a table on disk says about its columns; read without torch, which search does not need."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhot.predictions.arrow import import_arrow, in_our_words
from manyhot.predictions.forms import is_parquet
from manyhot.refusal import Refusal, refusal

if TYPE_CHECKING:
    from manyhot.state import ExactState

FORMAT = 1
KEY = b"manyhot"
OWNER = "open_predictions"
PREFIXES = {"scores": "score:", "probs": "prob:", "targets": "target:", "decisions": "decision:"}
TEXT_COLUMNS = {"ids": "id", "paths": "path", "splits": "split"}
ABSTAIN = "abstain"


@dataclass(frozen=True)
class Header:
    """What the metadata of a file says about its columns.

    Attributes:
        labels: The names of the labels, in the order of the columns.
        kinds: What there is of each label.
        link: The link as `saving.describe` gives it, or None; likewise `calibrator` and `rule`.
    """

    labels: list[str]
    kinds: tuple[str, ...]
    link: dict[str, Any] | None = None
    calibrator: dict[str, Any] | None = None
    rule: dict[str, Any] | None = None

    def dump(self) -> bytes:
        """The header as JSON."""
        for name in ("link", "calibrator", "rule"):
            self._check_plain(name)
        return json.dumps({"format": FORMAT, **vars(self)}).encode()

    def _check_plain(self, name: str) -> None:
        content = getattr(self, name)
        try:
            json.dumps(content, allow_nan=False)
        except (TypeError, ValueError):
            remedy = f"Leave it out with `replace({name}=None)`."
            rule = "hold nothing but numbers, texts and tensors"
            raise refusal(name, "save", rule, content["kind"], remedy) from None

    @classmethod
    def parse(cls, metadata: dict[bytes, bytes] | None, name: object) -> Header:
        """The header of a file, or the error that says why it cannot be one of ours."""
        if not metadata or KEY not in metadata:
            remedy = "Import it with `from_parquet`, and say whether it holds scores or probs."
            raise refusal("path", OWNER, "hold the metadata of manyhot", f"{str(name)!r} without it", remedy)
        try:
            content = json.loads(metadata[KEY])
            version = content.pop("format")
            if version == FORMAT:
                return cls(**(content | {"kinds": tuple(content["kinds"])}))
        except (ValueError, TypeError, KeyError, AttributeError):
            remedy = "Write the file again with `save`."
            raise refusal("path", OWNER, "hold the metadata of manyhot", f"{str(name)!r} with others", remedy) from None
        rule = f"hold format {FORMAT} of manyhot's tables"
        raise refusal("path", OWNER, rule, f"{str(name)!r} with format {version}", "Update manyhot.")

    def modules(self, classes: Iterable[type[ExactState]]) -> dict[str, Any]:
        """Link, calibrator and rule by name, None where there is none."""
        from manyhot.saving import restore

        own = tuple(classes)
        modules = {}
        for name, content in (("link", self.link), ("calibrator", self.calibrator), ("rule", self.rule)):
            try:
                modules[name] = None if content is None else restore(content, kinds=own)
            except Refusal:
                got = repr(content.get("kind")) if isinstance(content, dict) else type(content).__name__
                remedy = "Update manyhot, or pass your own classes as `classes`."
                raise refusal("path", OWNER, f"name a {name} that is known", got, remedy) from None
            except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
                got = f"{type(error).__name__}: {error}"
                remedy = "Write the file again with `save`."
                raise refusal("path", OWNER, f"hold a {name} as `save` wrote it", got, remedy) from None
        return modules


def column_names(kind: str, labels: Iterable[str]) -> list[str]:
    """The columns that hold a kind, one a label."""
    return [PREFIXES[kind] + label for label in labels]


def read_footer(path: Path, owner: str = OWNER) -> Any:
    """The Parquet metadata of a file, or the error that says what the file is instead."""
    pa = import_arrow()
    if not is_parquet(path):
        empty = path.stat().st_size == 0
        got = f"{str(path)!r}, which {'is empty' if empty else 'is not one'}"
        remedy = "Write it again." if empty else "Import other files with `import_predictions`."
        raise refusal("path", owner, "be a Parquet file", got, remedy)
    with in_our_words("path", owner, "be a whole Parquet file", path, "It was cut short; write or copy it again."):
        return pa.parquet.read_metadata(path)
