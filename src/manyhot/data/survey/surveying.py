"""Looks through a data set once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.survey import image_facts, label_facts
from manyhot.data.survey.findings import findings
from manyhot.data.survey.result import Survey
from manyhot.data.targets import SparseTargets


def survey(
    dataset: Dataset,
    *,
    images: bool = True,
    decode: bool = True,
    near: bool = False,
    workers: int | None = None,
    advance: Callable[[int], None] | None = None,
) -> Survey:
    """Counts labels and looks at images, and says in plain words what is likely to go wrong.

    Args:
        dataset: Samples, with images or features.
        images: Whether to look at images at all: for duplicates, missing and broken files.
        decode: Whether to decode their pixels, which finds every broken file; otherwise headers are read.
        near: Whether to look for images that look the same and differ in their bytes; needs `decode`.
        workers: Threads that read images; one a core by default, 16 at the most.
        advance: Called with the number of images that were looked at since the last call.

    Example:
        >>> dataset = mh.data.from_arrays(torch.eye(3).numpy(), [["cat"], [], ["cat", "dog"]])
        >>> found = survey(dataset)
        >>> found.empty, [(label.name, label.count) for label in found.labels]
        (1, [('cat', 2), ('dog', 1)])
    """
    found = _of_targets(dataset)
    if images and dataset.images is not None:
        looks = image_facts.look_at_all(
            dataset.images, pixels=decode, near=near and decode, workers=workers, advance=advance
        )
        found = replace(
            found,
            images=image_facts.image_facts(dataset, looks, pixels=decode, near=near and decode),
            duplicate_of=image_facts.first_alike(looks),
        )
    return replace(found, warnings=findings(found))


def _of_targets(dataset: Dataset) -> Survey:
    targets = dataset.targets
    if targets is None:
        targets = SparseTargets(np.zeros(len(dataset) + 1), np.zeros(0), num_labels=len(dataset.labels))
    sizes = targets.sizes()
    company = label_facts.Company(dataset, targets)
    frequent, close = company.pairs()
    lengths, rows = np.unique(sizes, return_counts=True)
    return Survey(
        samples=len(dataset),
        splits=dataset.split_sizes(),
        labels=label_facts.label_facts(dataset, targets),
        empty=int((sizes == 0).sum()),
        empty_by_split=_empty_by_split(dataset, sizes),
        mean_labels=float(sizes.mean()) if len(sizes) else 0.0,
        max_labels=int(sizes.max(initial=0)),
        set_sizes=dict(zip(lengths.tolist(), rows.tolist(), strict=True)),
        frequent_pairs=frequent,
        close_pairs=close,
        inseparable=company.inseparable(),
        implied=company.implied(),
        notes=list(dataset.notes),
    )


def _empty_by_split(dataset: Dataset, sizes: Any) -> dict[str, int]:
    parts = label_facts.rows_of_splits(dataset)
    return {name: int((sizes[rows] == 0).sum()) for name, rows in parts.items()}
