"""Cells between tensors, row by row, and Arrow, column by column."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from manyhot.labels import Labels
from manyhot.predictions.arrow import as_numpy, as_strings, import_arrow
from manyhot.refusal import refusal
from manyhot.vocabulary import CELLS, MISSING


def to_columns(cells: Tensor) -> list[Any]:
    """One column of Arrow for each column of (N, K), in memory of their own; targets that are -1 become nulls."""
    pa = import_arrow()
    turned = torch.empty(cells.shape[::-1], dtype=cells.dtype)
    across = turned.copy_(cells.cpu().T).numpy()
    if cells.dtype != torch.int8:
        return [pa.array(column) for column in across]
    hidden = across < 0
    some: list[bool] = [bool(mask.any()) for mask in hidden]
    return [
        pa.array(column, mask=mask if masked else None)
        for column, mask, masked in zip(across, hidden, some, strict=True)
    ]


def fill(cells: Tensor, columns: Sequence[Any]) -> None:
    """Writes columns of Arrow into (n, K); nulls become -1 in targets and NaN in scores and probabilities."""
    # The columns are laid side by side first, because torch turns such a block around tile by tile, much faster than
    # columns could be spread over rows one at a time.
    across = torch.empty(len(columns), len(cells), dtype=cells.dtype)
    blank = -1 if cells.dtype == torch.int8 else math.nan
    for row, column in zip(across.numpy(), columns, strict=True):
        row[:] = as_numpy(_filled(column, blank) if column.null_count else column)
    cells.copy_(across.T)


def _filled(column: Any, blank: float) -> Any:
    """A column without nulls; as floating-point numbers if its own cannot hold what stands for a null."""
    pa = import_arrow()
    holds = pa.types.is_floating(column.type) or (blank == -1 and pa.types.is_signed_integer(column.type))
    return (column if holds else column.cast(pa.float64())).fill_null(blank)


def read_words(column: Any, name: str, owner: str, argument: str) -> Any:
    """A column of targets as numbers, where it holds texts such as "yes", "no", "1" and "-1"; nulls for blanks."""
    pa = import_arrow()
    types = pa.types
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    if not any(is_text(kind) for is_text in (types.is_string, types.is_large_string, types.is_string_view)):
        return column
    coded = as_strings(column).dictionary_encode()
    values = []
    for text in coded.dictionary.to_pylist():
        plain = text.strip()
        if plain not in MISSING and plain.lower() not in CELLS:
            rule, got = "hold 1, 0, -1, yes, no or blank for each label", f"{plain!r} in column {name!r}"
            raise refusal(argument, owner, rule, got, "Write 1 for present, 0 for absent and nothing for unknown.")
        values.append(None if plain in MISSING else float(CELLS[plain.lower()]))
    return pa.array(values, pa.float32()).take(coded.indices)


def read_cells(piece: Any, columns: Iterable[str], dtype: torch.dtype) -> Tensor:
    """(n, K) of columns of a foreign record batch, whatever type of number they hold; NaN where there is none."""
    pa = import_arrow()
    places = {name: place for place, name in enumerate(piece.schema.names)}
    found = [piece.column(places[name]) for name in columns]
    numbers = [
        column
        if pa.types.is_primitive(column.type) and not pa.types.is_null(column.type)
        else column.cast(pa.float64())
        for column in found
    ]
    cells = torch.empty(len(piece), len(numbers), dtype=dtype)
    fill(cells, numbers)
    return cells


def read_target_cells(piece: Any, columns: Mapping[str, str], labels: Labels, owner: str) -> Tensor:
    """Targets (n, K) of a foreign record batch; -1 where a cell is blank or a label has no column."""
    present = [place for place, name in enumerate(labels.names) if name in columns]
    named = [columns[labels.names[place]] for place in present]
    numbers = import_arrow().table({name: read_words(piece.column(name), name, owner, "targets") for name in named})
    cells = read_cells(numbers, named, torch.float32)
    targets = torch.full((len(piece), len(labels)), -1.0)
    targets[:, present] = torch.where(cells.isnan(), -1.0, cells)
    return targets
