"""Values of labels apart for those with few, some and many training images."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.checks import check_count, kind_of
from manyhot.metrics.metric import Outcome, mean_of_defined
from manyhot.refusal import refusal


def by_shots(values_by_label: Any, train_counts: Any, few: int = 20, many: int = 100) -> Outcome:
    """The mean of a value over labels with few, with some and with many training images.

    A label whose value is NaN, such as the average precision of a label without positives, is left out and counted.

    Args:
        values_by_label: (K,), such as the average precision of each label.
        train_counts: (K,), how many training images carry each label.
        few: Labels with fewer images than this are `few`.
        many: Labels with more images than this are `many`; the others are `medium`.

    Example:
        >>> outcome = by_shots([0.2, 0.5, 0.7, 0.9], [3, 20, 100, 4000])
        >>> outcome.values
        {'few': 0.2, 'medium': 0.6, 'many': 0.9}
        >>> outcome.counts
        {'few': 1, 'medium': 2, 'many': 1, 'labels without a value': 0}
    """
    few = check_count("few", "by_shots", few, low=0)
    many = check_count("many", "by_shots", many, low=0)
    if few > many + 1:
        raise refusal("few", "by_shots", f"be at most `many` + 1 = {many + 1}", str(few), "Swap them, or raise `many`.")
    values = _one_a_label("values_by_label", values_by_label).double()
    images = _one_a_label("train_counts", train_counts).to(values.device)
    if images.shape != values.shape:
        rule = f"have one number for each of the {len(values)} labels"
        raise refusal("train_counts", "by_shots", rule, str(len(images)), "Count the images of these labels.")
    groups = {"few": images < few, "medium": (images >= few) & (images <= many), "many": images > many}
    defined = ~values.isnan()
    counts = {name: int((group & defined).sum()) for name, group in groups.items()}
    counts["labels without a value"] = int((~defined).sum())
    return Outcome({name: mean_of_defined(values[group]) for name, group in groups.items()}, counts)


def _one_a_label(argument: str, numbers: Any) -> Tensor:
    try:
        if not isinstance(numbers, Tensor):
            # By way of an array, because torch takes none that run backwards.
            numbers = torch.from_numpy(np.array(numbers, dtype=np.float64))
        found: Tensor = numbers
    except (TypeError, ValueError):
        raise refusal(
            argument, "by_shots", "be (K,) of numbers", kind_of(numbers), "Pass one number a label."
        ) from None
    if found.ndim != 1 or found.is_complex():
        got = str(tuple(found.shape)) if found.ndim != 1 else kind_of(found)
        raise refusal(argument, "by_shots", "be (K,) of numbers", got, "Pass one number a label.")
    if argument == "train_counts" and found.numel() and not bool((found >= 0).all()):
        raise refusal(argument, "by_shots", "not be negative", f"{float(found.min()):g}", "Count the training images.")
    return found
