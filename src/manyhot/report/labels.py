"""Reliability of single labels: those whose promises are kept worst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from manyhot.refusal import refusal
from manyhot.report.reading import check_named, check_whole

if TYPE_CHECKING:
    from torch import Tensor

OWNER = "label_curves"
# A label with fewer present cells shows chance rather than its calibration.
ENOUGH = 20
KEPT = ("cells", "mean_prob", "share_present")


def label_curves(
    readings: Mapping[str, Any], targets: Any, names: Sequence[str], *, most: int = 12, bins: int = 10
) -> dict[str, dict[str, Any]]:
    """Reliability curves of the labels whose promises are kept worst, for `draw_reliability` and to keep as JSON.

    Of labels with at least 20 present cells, those with the largest calibration error (ECE) of the last reading are
    taken, the largest first; where no label has so many, the most frequent ones. Labels that are never present are not.

    Args:
        readings: By their names, such as "own link" and "calibrated": probabilities (N, K). The last one decides.
        targets: (N, K): 1 present, 0 absent, -1 unknown, which are left out.
        names: Of the K labels.
        most: The most labels.
        bins: The number of bins of each label.

    Returns:
        By the name of the label with how often it is present, the bins of each reading.

    Example:
        >>> from manyhot.report import draw_reliability, label_curves
        >>> probs = torch.rand(500, 3)
        >>> targets = (torch.rand(500, 3) < probs).int()
        >>> curves = label_curves({"calibrated": probs}, targets, ["cat", "dog", "sky"], most=2)
        >>> len(draw_reliability(curves).axes)
        4
    """
    from manyhot.cells import as_probs, as_targets
    from manyhot.metrics import CalibrationError

    check_named("readings", OWNER, readings)
    most = check_whole("most", OWNER, most, low=1)
    bins = check_whole("bins", OWNER, bins, low=1)
    found = {}
    for name, given in readings.items():
        argument = f"readings[{name!r}]"
        probs = as_probs(OWNER, given, name=argument)
        checked = as_targets(OWNER, targets, probs, of=argument)
        found[name] = CalibrationError(bins, over="label").update(probs, checked).compute().details
    present = (checked == 1).sum(0)
    if len(names) != len(present):
        remedy = "Pass one name for each column, in their order."
        raise refusal("names", OWNER, f"be those of the {len(present)} labels", str(len(names)), remedy)
    chosen = worst(found[name]["ece"], present, most)
    return {
        f"{names[label]} ({int(present[label]):,})": {
            reading: {key: kept(details[key][label]) for key in KEPT} for reading, details in found.items()
        }
        for label in chosen
    }


def worst(errors: Tensor, present: Tensor, most: int) -> list[int]:
    """The labels with the largest errors among those with enough present cells, else the most frequent ones."""
    counts = present.tolist()
    enough = [label for label, count in enumerate(counts) if count >= ENOUGH]
    if enough:
        return sorted(enough, key=lambda label: -float(errors[label]))[:most]
    seen = [label for label, count in enumerate(counts) if count]
    return sorted(seen, key=lambda label: -counts[label])[:most]


def kept(values: Tensor) -> list[float | None]:
    """The values as JSON holds them, which has no NaN."""
    return [None if value != value else value for value in values.tolist()]
