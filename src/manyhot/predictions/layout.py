"""How a table lies in a Parquet file: the names and types of its columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from manyhot.predictions.arrow import import_arrow
from manyhot.predictions.header import ABSTAIN, TEXT_COLUMNS, Header, column_names
from manyhot.predictions.texts import encodable
from manyhot.refusal import refusal

DTYPES = {"targets": torch.int8, "decisions": torch.bool}


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
