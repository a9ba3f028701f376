"""What a reader found, and the data set that becomes of it."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.readers.said import Said
from manyhot.data.sources import ImageSource
from manyhot.data.targets import SparseTargets
from manyhot.labels import Labels
from manyhot.predictions.roles import listed
from manyhot.refusal import refusal


@dataclass
class Found:
    """Samples as a reader found them.

    Attributes:
        ids: N distinct texts.
        images: N images.
        names: K labels.
        targets: (N, K).
        splits: (N,) names of splits, or None.
        notes: What was detected.
    """

    ids: list[str]
    images: ImageSource
    names: list[str]
    targets: SparseTargets
    splits: np.ndarray[Any, Any] | None = None
    notes: list[str] = field(default_factory=list)

    def dataset(self, said: Said) -> Dataset:
        """The data set, with the labels that the user wants."""
        if not self.ids:
            raise refusal("path", said.owner, "lead to images", "none at all", "Check the path.")
        labels, targets = Labels(self.names), self.targets
        if said.label_names is not None:
            labels, targets = self._keep(said, said.label_names)
        self.notes += _alike(labels.names)
        data = Dataset(labels, targets, self.ids, images=self.images, splits=self.splits, notes=self.notes)
        data.notes.append(_summary(data))
        return data

    def _keep(self, said: Said, wanted: list[str]) -> tuple[Labels, SparseTargets]:
        here = {name: column for column, name in enumerate(self.names)}
        missing = [name for name in wanted if name not in here]
        if missing and (not isinstance(said.labels, Labels) or len(missing) == len(wanted)):
            near = difflib.get_close_matches(missing[0], self.names, n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else f"The labels are {listed(self.names)}."
            raise refusal("labels", said.owner, "name labels that occur", repr(missing[0]), remedy)
        if missing:
            self.notes.append(f"Never present: {listed(missing)}.")
        dropped = [name for name in self.names if name not in set(wanted)]
        if dropped:
            self.notes.append(f"Left out {_count(len(dropped), 'label')}: {listed(dropped)}.")
        # A column that is not in the data is known nowhere, or absent everywhere, as unlisted cells are.
        wide = SparseTargets(
            self.targets.starts,
            self.targets.columns,
            self.targets.values,
            num_labels=len(self.names) + len(missing),
            unlisted=self.targets.unlisted,
        )
        places = here | {name: len(self.names) + place for place, name in enumerate(missing)}
        return Labels(wanted), wide.select([places[name] for name in wanted])


def _alike(names: list[str]) -> list[str]:
    """Says which labels differ by capitals alone, the first two of them."""
    spelt: dict[str, str] = {}
    for name in names:
        first = spelt.setdefault(name.casefold(), name)
        if first != name:
            return [f"Labels {first!r} and {name!r} are two labels: they differ by capitals."]
    return []


def _summary(data: Dataset) -> str:
    """Sizes, rows without a label, splits."""
    assert data.targets is not None
    empty = int((data.targets.sizes() == 0).sum())
    text = f"{_count(len(data), 'image')}, {_count(len(data.labels), 'label')}"
    text += f"; {empty:,} {'image has' if empty == 1 else 'images have'} none of them" if empty else ""
    sizes = ", ".join(f"{name} {size:,}" for name, size in data.split_sizes().items())
    return f"{text}; splits {sizes}." if sizes else f"{text}; no splits."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
