"""A table restricted to some of its labels, without changing what their probabilities are."""

from __future__ import annotations

import copy

import torch

from manyhot.labels import Labels
from manyhot.links import Link, NoLink, SoftmaxLink
from manyhot.predictions.table import Table


def columns_of(table: Table, labels: Labels) -> list[int]:
    """The columns of the labels in a table."""
    return [table.labels.column(name) for name in labels.names]


def link_of_columns(link: Link | None, columns: list[int]) -> Link | None:
    """The link of these columns alone; None for one that needs the other columns as well."""
    if isinstance(link, SoftmaxLink):
        return None
    if link is None or isinstance(link, NoLink) or link.pos_weight is None or link.pos_weight.ndim == 0:
        return link
    narrow = copy.deepcopy(link)
    narrow.register_buffer("pos_weight", link.pos_weight[torch.tensor(columns, dtype=torch.long)])
    return narrow


def narrow_link(table: Table, columns: list[int]) -> Link | None:
    """The link that some columns of a table keep: none if a calibrator, which does not go with them, replaced it."""
    return None if table.calibrator is not None else link_of_columns(table.link, columns)


def needs_all_labels(table: Table, labels: Labels) -> bool:
    """Whether probabilities of these labels can be computed only while all the others are there."""
    if labels.names == table.labels.names or "probs" in table.kinds or "scores" not in table.kinds:
        return False
    made_by = table.calibrator or table.link
    return made_by is not None and narrow_link(table, columns_of(table, labels)) is None
