"""How a table lies in a Parquet file: the names and types of its columns, and what its metadata says."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from manyhot.predictions.arrow import import_arrow
from manyhot.predictions.texts import encodable
from manyhot.refusal import refusal
from manyhot.saving import restore
from manyhot.state import ExactState

FORMAT = 1
KEY = b"manyhot"
PREFIXES = {"scores": "score:", "probs": "prob:", "targets": "target:", "decisions": "decision:"}
TEXT_COLUMNS = {"ids": "id", "paths": "path", "splits": "split"}
ABSTAIN = "abstain"
DTYPES = {"targets": torch.int8, "decisions": torch.bool}


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
        owner = "open_predictions"
        if not metadata or KEY not in metadata:
            remedy = "Import it with `from_parquet`, and say whether it holds scores or probs."
            raise refusal("path", owner, "hold the metadata of manyhot", f"{str(name)!r} without it", remedy)
        try:
            content = json.loads(metadata[KEY])
            version = content.pop("format")
            if version == FORMAT:
                return cls(**(content | {"kinds": tuple(content["kinds"])}))
        except (ValueError, TypeError, KeyError, AttributeError):
            remedy = "Write the file again with `save`."
            raise refusal("path", owner, "hold the metadata of manyhot", f"{str(name)!r} with others", remedy) from None
        rule = f"hold format {FORMAT} of manyhot's tables"
        raise refusal("path", owner, rule, f"{str(name)!r} with format {version}", "Update manyhot.")

    def modules(self, classes: Iterable[type[ExactState]]) -> dict[str, Any]:
        """Link, calibrator and rule by name, None where there is none."""
        own = tuple(classes)
        modules = {}
        for name, content in (("link", self.link), ("calibrator", self.calibrator), ("rule", self.rule)):
            try:
                modules[name] = None if content is None else restore(content, kinds=own)
            except (ValueError, TypeError, KeyError):
                got = repr(content.get("kind")) if isinstance(content, dict) else type(content).__name__
                remedy = "Update manyhot, or pass your own classes as `classes`."
                raise refusal("path", "open_predictions", f"name a {name} that is known", got, remedy) from None
        return modules


def column_names(kind: str, labels: Iterable[str]) -> list[str]:
    """The columns that hold a kind, one a label."""
    return [PREFIXES[kind] + label for label in labels]


def schema(header: Header, dtypes: dict[str, torch.dtype], texts: Iterable[str], *, abstain: bool) -> Any:
    """The columns of a file: first what each row has once, then kind by kind what it has of each label."""
    pa = import_arrow()
    types = {
        torch.float32: pa.float32(),
        torch.float64: pa.float64(),
        torch.int8: pa.int8(),
        torch.bool: pa.bool_(),
    }
    fields = [pa.field(TEXT_COLUMNS[name], pa.string(), nullable=False) for name in texts]
    fields += [pa.field(ABSTAIN, pa.bool_(), nullable=False)] if abstain else []
    for kind in header.kinds:
        named = column_names(kind, header.labels)
        fields += [pa.field(name, types[dtypes[kind]], nullable=kind == "targets") for name in named]
    return pa.schema(fields)


def check_names(labels: Iterable[str]) -> None:
    """Refuses names that cannot be those of columns."""
    for name in labels:
        if not encodable(name):
            remedy = "Replace the bad characters of the name."
            raise refusal("labels", "PredictionsWriter", "be valid Unicode", repr(name), remedy)
