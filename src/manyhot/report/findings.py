"""Statements about results in words, and shares of cells with intervals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from manyhot.report.curves import wilson_interval

if TYPE_CHECKING:
    from manyhot.report.results import ModelResults


class Share(NamedTuple):
    """A share of cells, with its 95 % confidence interval."""

    hits: int
    cells: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share."""
        return self.hits / self.cells

    @property
    def ends(self) -> str:
        """The interval, as text."""
        return f"95 %: {format_range(self.low, self.high)}"


def share_of(hits: Tensor, cells: Tensor) -> Share | None:
    """The share of hits among cells, both (N, K) of booleans; None without cells.

    This is the Wilson interval at the effective number of cells, which is smaller where the cells of a row are
    correlated. Where all or none are hits, the correlation cannot be estimated, and a row counts as one cell.

    Example:
        >>> cells = torch.ones(50, 4, dtype=torch.bool)
        >>> together = (torch.arange(50) % 2 == 0).unsqueeze(1).expand(50, 4)
        >>> share_of(together, cells).ends
        '95 %: 37 to 63 %'
    """
    by_row, right = cells.sum(1).double(), (hits & cells).sum(1).double()
    count, hit_count = int(by_row.sum()), int(right.sum())
    if not count:
        return None
    share = hit_count / count
    spread = float(((right - share * by_row) ** 2).sum())
    alone = count * share * (1 - share)
    worth = count / max(1.0, spread / alone) if alone else int((by_row > 0).sum())
    return Share(hit_count, count, *wilson_interval(share, max(1, round(worth))))


def format_share(share: float) -> str:
    """A share in percent, with more digits near 0 and 1.

    Example:
        >>> format_share(0.912), format_share(0.996), format_share(0.0004), format_share(1.0)
        ('91 %', '99.6 %', '0.04 %', '100 %')
    """
    return f"{format_percent_digits(share)} %"


def format_range(low: float, high: float) -> str:
    """Two ends in percent.

    Example:
        >>> format_range(0.88, 0.94)
        '88 to 94 %'
    """
    return f"{format_percent_digits(low)} to {format_percent_digits(high)} %"


def format_percent_digits(share: float) -> str:
    """A share in percent without the percent sign; a share below 1 is not rounded to 100."""
    share = round(share, 9)
    near = min(share, 1 - share)
    digits = next((digits for digits, least in enumerate((0.01, 0.001, 0.0001)) if near >= least), 3)
    return f"{100 * share:.0f}" if near <= 0 else f"{100 * share:.{digits}f}"


def format_rate(rate: float, what: str, noun: str) -> str:
    """How often something happens, in words.

    Args:
        rate: The mean number per row.
        what: What is counted, such as "label too many".
        noun: What a row is.

    Example:
        >>> format_rate(0.21, "label too many", "image"), format_rate(1.3, "label missed", "row")
        ('one label too many in every 5 images', '1.3 labels missed per row')
    """
    first, _, rest = what.partition(" ")
    if rate <= 0:
        return f"no {what}"
    if rate > 0.67:
        return f"{rate:.1f} {first}s {rest} per {noun}"
    return f"one {what} in every {round(1 / rate):,} {noun}s"


def count_noun(count: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> count_noun(1, "image"), count_noun(1200, "image")
        ('1 image', '1,200 images')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


# The names of probability ranges.
PROB_BANDS = {"above 90 %": (0.9, 1.0), "between 50 and 90 %": (0.5, 0.9), "between 10 and 50 %": (0.1, 0.5)}
# With fewer answers, chance dominates.
MIN_ANSWERS = 10
# The difference between predicted and observed shares that is ignored, in fractions.
TOLERANCE = 0.02


def describe_reliability(probs: Tensor, targets: Tensor) -> Iterator[str]:
    """The observed shares of answers by predicted probability; ranges with few answers are left out.

    Args:
        probs: (N, K).
        targets: (N, K); unknown cells are left out.

    Example:
        >>> probs = torch.full((100, 1), 0.95)
        >>> print(*describe_reliability(probs, (torch.arange(100) < 93).int().unsqueeze(1)))
        Of the 100 answers above 90 %, 93 % were right (95 %: 86 to 97 %); 95 % was predicted.
    """
    for name, (low, high) in PROB_BANDS.items():
        inside = (probs > low) & (probs <= high) & (targets >= 0)
        share = share_of(targets > 0, inside)
        if share is not None and share.cells >= MIN_ANSWERS:
            predicted = float(probs[inside].double().mean())
            were = f"{format_share(share.value)} were right ({share.ends}); {format_share(predicted)} was predicted"
            yield f"Of the {share.cells:,} answers {name}, {were}{describe_bias(share, predicted)}."


def describe_bias(share: Share, predicted: float) -> str:
    """Whether the prediction was too high or too low; empty if it agrees with the interval."""
    if share.low - TOLERANCE <= predicted <= share.high + TOLERANCE:
        return ""
    return ", which was too high" if predicted > share.value else ", which was too low"


# With fewer rows, chance dominates.
MIN_PRESENT_ROWS = 10


def describe_results(model: ModelResults) -> list[str]:
    """All statements about one model."""
    return [
        *describe_probs(model),
        *describe_calibration(model),
        *describe_sets(model),
        *describe_empty_rows(model),
        *describe_labels(model),
    ]


def describe_probs(model: ModelResults) -> Iterator[str]:
    """Predicted against observed shares, in words."""
    if model.probs is None:
        yield "These scores rank, but are no probabilities until they are calibrated: manyhot calibrate."
        return
    yield from describe_reliability(model.probs, model.targets)


def describe_calibration(model: ModelResults) -> Iterator[str]:
    """The calibration error, before and after calibration."""
    error = model.evaluation.values.get("ece")
    if error is None or error != error:
        return
    before = None if model.evaluation_before is None else model.evaluation_before["ece"]
    earlier = "" if before is None else f" (before calibration {100 * before:.1f})"
    single = model.evaluation.values.get("label_ece")
    alone = "" if single is None or single != single else f"; those of a single label by {100 * single:.1f} on average"
    yield (
        f"Taken together, the predicted probabilities of all labels are off by {100 * error:.1f} percentage points"
        f"{earlier}{alone}."
    )


def describe_sets(model: ModelResults) -> Iterator[str]:
    """The quality of the decisions."""
    decision, noun = model.decision, model.noun
    if decision is None:
        return
    answered = ~decision.abstain
    known = (model.targets >= 0) & answered.unsqueeze(1)
    predicted, true = decision.labels & known, (model.targets > 0) & known
    rows = int(known.any(1).sum())
    if not rows:
        return
    article = "An" if noun == "image" else "A"
    values = model.evaluation.values
    every = f"{article} {noun} is given {values['mean_size']:.2f} labels on average"
    if "known_size" in values:
        every += f". Of labels whose truth is known it is given {values['known_size']:.2f}"
    yield (
        f"{every} and has {float(true.sum()) / rows:.2f}; "
        f"that is {format_rate(float((predicted & ~true).sum()) / rows, 'label too many', noun)}, "
        f"and {format_rate(float((true & ~predicted).sum()) / rows, 'label missed', noun)}."
    )
    yield from describe_precision_recall(predicted, true)
    exact = values["exact_match"]
    yield f"Of {count_noun(rows, noun)}, {round(exact * rows):,} ({format_share(exact)}) get exactly the right labels."
    abstained = int(decision.abstain.sum())
    if abstained:
        yield f"Abstained: {count_noun(abstained, noun)} ({format_share(abstained / len(answered))})."


def describe_precision_recall(predicted: Tensor, true: Tensor) -> Iterator[str]:
    """Precision and recall, with intervals."""
    right, recall_share = share_of(true, predicted), share_of(predicted, true)
    if right is not None:
        yield f"Of the {right.cells:,} predicted labels, {format_share(right.value)} are right ({right.ends})."
    if recall_share is not None:
        recall = format_share(recall_share.value)
        yield f"Of the {recall_share.cells:,} true labels, {recall} are predicted ({recall_share.ends})."


def describe_empty_rows(model: ModelResults) -> Iterator[str]:
    """The decisions for rows without labels."""
    facts, noun = model.facts, model.noun
    if model.decision is None or not facts.empty_rows:
        return
    labelled = (model.targets > 0).any(1) & model.answered
    empty = model.answered & ~labelled
    nothing = ~(model.decision.labels & (model.targets >= 0)).any(1)
    if not bool(empty.any()):
        return
    rows, right, wrong = int(empty.sum()), int((nothing & empty).sum()), int((nothing & labelled).sum())
    others = f"; so are {wrong:,} of the {int(labelled.sum()):,} with labels" if bool(labelled.any()) else ""
    share = format_share(right / rows)
    yield f"Of {count_noun(rows, noun)} without labels, {right:,} ({share}) are given none{others}."


def describe_labels(model: ModelResults) -> Iterator[str]:
    """The labels with the highest and lowest average precision, of those with enough rows."""
    columns = model.evaluation.by_label().columns
    ap, present = columns["ap"], columns["present"]
    enough = [label for label in range(len(ap)) if present[label] >= MIN_PRESENT_ROWS and ap[label] == ap[label]]
    if len(enough) < 3:
        return
    order = sorted(enough, key=lambda label: (-float(ap[label]), label))
    few = min(3, len(order) // 2)
    easy, hard = (
        ", ".join(f"{model.labels[label]} ({format_share(float(ap[label]))})" for label in some)
        for some in (order[:few], order[: -few - 1 : -1])
    )
    yield f"Easiest to find (average precision): {easy}. Hardest: {hard}."


def mean_size(targets: Tensor) -> float:
    """The mean number of labels of rows with known cells."""
    rows = int((targets >= 0).any(1).sum())
    return float((targets > 0).sum(dtype=torch.int64)) / max(rows, 1)
