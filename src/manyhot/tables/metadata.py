"""Metadata of a Parquet file of predictions: labels, kinds, link, calibrator and rule; without torch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from manyhot.errors import InputError
from manyhot.tables.columns import COLUMN_PREFIXES

# Still 1 after classes were renamed: link, calibrator and rule carry the format of `manyhot.save`, which upgrades them.
FORMAT = 1
METADATA_KEY = b"manyhot"
DEFAULT_OWNER = "open_predictions"
TEXT_COLUMNS = {"ids": "id", "paths": "path", "splits": "split"}
ROW_COLUMNS = {**TEXT_COLUMNS, "abstain": "abstain"}
# In the order of a file: what each row has once, then kind by kind what it has of each label.
COLUMNS = (*ROW_COLUMNS, *COLUMN_PREFIXES)
STATE_COLUMN = "state"  # of the files of a `PartsFolder`; predictions do not have it


@dataclass(frozen=True)
class Metadata:
    """The metadata of a file.

    Attributes:
        labels: The names of the labels, in the order of the columns.
        kinds: What there is of each label.
        link: The link as `serialization.to_dict` gives it, or None; likewise `calibrator` and `rule`.
    """

    labels: list[str]
    kinds: tuple[str, ...]
    link: dict[str, Any] | None = None
    calibrator: dict[str, Any] | None = None
    rule: dict[str, Any] | None = None

    def entries(self) -> dict[bytes, bytes]:
        """The header as the metadata of a file, which `parse` reads."""
        for name, content in (("link", self.link), ("calibrator", self.calibrator), ("rule", self.rule)):
            try:
                json.dumps(content, allow_nan=False)
            except (TypeError, ValueError):
                rule, hint = "hold nothing but numbers, texts and tensors", f"Leave it out with `replace({name}=None)`."
                raise InputError(name, "save", rule, str(content and content["kind"]), hint) from None
        return {METADATA_KEY: json.dumps({"format": FORMAT, **vars(self)}).encode()}

    @classmethod
    def parse(cls, metadata: dict[bytes, bytes] | None, name: object) -> Metadata:
        """The header of a file, or the error that says why it cannot be one of ours."""
        if not metadata or METADATA_KEY not in metadata:
            hint = "Import it with {read_predictions}, and say whether it holds scores or probs."
            raise InputError("path", DEFAULT_OWNER, "hold the metadata of manyhot", f"{str(name)!r} without it", hint)
        try:
            content = json.loads(metadata[METADATA_KEY])
            version = content.pop("format")
            if version == FORMAT:
                return cls(**(content | {"kinds": tuple(content["kinds"])}))
        except (ValueError, TypeError, KeyError, AttributeError):
            got, hint = f"{str(name)!r} with others", "Write the file again with `save`."
            raise InputError("path", DEFAULT_OWNER, "hold the metadata of manyhot", got, hint) from None
        rule = f"hold format {FORMAT} of manyhot's tables"
        raise InputError("path", DEFAULT_OWNER, rule, f"{str(name)!r} with format {version}", "Update manyhot.")


def column_names(kind: str, labels: Iterable[str]) -> list[str]:
    """The columns of a kind: one per label, or one of what each row has once."""
    return [ROW_COLUMNS[kind]] if kind in ROW_COLUMNS else [COLUMN_PREFIXES[kind] + label for label in labels]
