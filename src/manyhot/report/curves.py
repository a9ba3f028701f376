"""The data behind the plots: checked, counted from tensors on request, and storable as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor


class Span(NamedTuple):
    """A value and between what it lies; both ends are the value itself where nothing is known of them."""

    value: float
    low: float
    high: float


def check_mapping(argument: str, owner: str, value: Any) -> Mapping[str, Any]:
    """Returns `value`, or refuses what is not a mapping with at least one name."""
    if isinstance(value, Mapping) and value:
        return value
    got = "an empty one" if isinstance(value, Mapping) else type(value).__name__
    hint = 'Pass what is to be drawn by its name, such as {"BCE": ...}.'
    raise InputError(argument, owner, "be a mapping with at least one name", got, hint)


def check_int(argument: str, owner: str, value: Any, *, low: int) -> int:
    """Returns `value` as an int, or refuses one that is below `low` or not whole."""
    number = low - 1 if isinstance(value, bool) or not isinstance(value, Integral) else int(value)
    if number >= low:
        return number
    raise InputError(argument, owner, f"be a whole number, at least {low}", repr(value), "Pass an int.")


def check_names(argument: str, owner: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Refuses names that are not among the known ones."""
    known = list(known)
    for name in names:
        if name not in known:
            rule = f"name what is drawn, {', '.join(map(repr, known))}"
            raise InputError(argument, owner, rule, repr(name), "Pass these names only.")


def check_keys(argument: str, owner: str, stored: Mapping[str, Any], keys: Sequence[str], hint: str) -> None:
    """Refuses a mapping that lacks one of the keys."""
    missing = [key for key in keys if key not in stored]
    if missing:
        raise InputError(argument, owner, f"have {list_names(keys)}", f"none called {missing[0]!r}", hint)


def list_names(names: Sequence[str]) -> str:
    """Names as people list them.

    Example:
        >>> from manyhot.report.curves import list_names
        >>> list_names(["a", "b", "c"])
        "'a', 'b' and 'c'"
    """
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last


def read_numbers(argument: str, owner: str, values: Any, *, gaps: bool = False) -> list[float]:
    """A list of finite floats of a tensor, array or sequence; with `gaps`, None and NaN are taken as NaN."""
    rule = "be a row of finite numbers" + (", with None or NaN for gaps" if gaps else "")
    hint = "Pass a list, an array or a tensor of one axis."
    items = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(items, Iterable) or isinstance(items, str | Mapping):
        raise InputError(argument, owner, rule, type(values).__name__, hint)
    numbers = []
    for number in items:
        gap = number is None or (isinstance(number, Real) and math.isnan(number))
        if gap and gaps:
            numbers.append(math.nan)
        elif is_finite(number):
            numbers.append(float(number))
        else:
            raise InputError(argument, owner, rule, "lists in it" if isinstance(number, list) else repr(number), hint)
    return numbers


def is_finite(number: Any) -> bool:
    """Whether it is a real number, and neither NaN nor infinite."""
    return isinstance(number, Real) and math.isfinite(number)


def read_counts(argument: str, owner: str, values: Any) -> list[int]:
    """A list of whole numbers that are not negative."""
    numbers = read_numbers(argument, owner, values)
    for number in numbers:
        if number < 0 or number != int(number):
            hint = "Pass how many there are, not shares."
            raise InputError(argument, owner, "be whole numbers, none negative", f"{number:g}", hint)
    return [int(number) for number in numbers]


def read_edges(argument: str, owner: str, values: Any, bins: int) -> list[float]:
    """The edges of so many bins, in order."""
    edges = read_numbers(argument, owner, values)
    hint = "Pass the lower edge of the first bin and the upper edges of all."
    if len(edges) != bins + 1:
        raise InputError(argument, owner, f"be {bins + 1} edges of {bins} bins", str(len(edges)), hint)
    if any(low > high for low, high in pairwise(edges)):
        raise InputError(argument, owner, "rise", "edges out of order", hint)
    return edges


def read_same(argument: str, owner: str, values: list[Any], length: int) -> None:
    """Refuses a row of another length than that of the others."""
    if len(values) != length:
        hint = "Pass one number for each."
        raise InputError(argument, owner, f"be as long as the others, {length}", str(len(values)), hint)


def read_span(argument: str, owner: str, value: Any) -> Span:
    """A number, (value, low, high), an `Interval` or a mapping with "value", "low" and "high"."""
    hint = "Pass a number, (value, low, high), or what `bootstrap` gives."
    rule = "be a number or a value with its ends, low <= value <= high"
    if isinstance(value, Mapping):
        check_keys(argument, owner, value, ("value", "low", "high"), hint)
        value = (value["value"], value["low"], value["high"])
    elif hasattr(value, "low") and hasattr(value, "high"):
        value = (value.value, value.low, value.high)
    elif isinstance(value, Real):
        value = (value, value, value)
    if not isinstance(value, Sequence) or len(value) != 3 or not all(is_finite(number) for number in value):
        raise InputError(argument, owner, rule, repr(value), hint)
    span = Span(*map(float, value))
    if not span.low <= span.value <= span.high:
        raise InputError(argument, owner, rule, f"{span.value:g} in [{span.low:g}, {span.high:g}]", hint)
    return span


SpanTable = dict[str, dict[str, Span]]


def read_spans(
    owner: str, rows: Mapping[str, Any], figures: Sequence[str] | None, percent: Collection[str]
) -> SpanTable:
    """The spans of each row by figure, those of `percent` times 100; a figure that a row lacks is left out of it."""
    check_mapping("rows", owner, rows)
    for name, row in rows.items():
        check_mapping(f"rows[{name!r}]", owner, row)
    known = list(dict.fromkeys(figure for row in rows.values() for figure in row))
    wanted = known if figures is None else list(figures)
    if not wanted:
        raise InputError("figures", owner, "name at least one figure", "none", "Leave it out to draw all.")
    check_names("figures", owner, wanted, known)
    check_names("percent", owner, percent, known)
    return {
        name: {
            figure: scale_span(read_span(f"rows[{name!r}][{figure!r}]", owner, row[figure]), figure in percent)
            for figure in wanted
            if row.get(figure) is not None
        }
        for name, row in rows.items()
    }


def scale_span(span: Span, percent: bool) -> Span:
    """The span as it is drawn."""
    return Span(*(100 * number for number in span)) if percent else span


def axis_title(figure: str, titles: Mapping[str, str] | None, percent: Collection[str]) -> str:
    """What stands at an axis: the given title or the figure's own name, with its unit."""
    title = (titles or {}).get(figure, figure)
    return f"{title} %" if figure in percent else title


CURVE_HINT = "Pass (values, targets), or what `count_curve` gives."
CURVE_KEYS = ("thresholds", "precision", "recall", "given")
# Thresholds that are looked at for each one that is kept.
OVERSAMPLING = 20


class ThresholdCurve(NamedTuple):
    """What one threshold for all cells does, by threshold; shares from 0 to 1.

    Attributes:
        thresholds: Rising.
        precision: The share of given cells that are present.
        recall: The share of present cells that are given.
        value: How many labels a row is given in the mean.
        rate: The share of cells that are present; NaN where it was not kept.
        ap: The average precision of all cells in one ranking; NaN where it was not kept.
    """

    thresholds: list[float]
    precision: list[float]
    recall: list[float]
    given: list[float]
    rate: float
    ap: float

    @property
    def f1(self) -> list[float]:
        """The harmonic mean of precision and recall."""
        return [f1_score(precision, recall) for precision, recall in zip(self.precision, self.recall, strict=True)]


def f1_score(precision: float, recall: float) -> float:
    """The harmonic mean of precision and recall; 0 where both are.

    Example:
        >>> from manyhot.report.curves import f1_score
        >>> f1_score(0.5, 1.0), f1_score(0.0, 0.0)
        (0.6666666666666666, 0.0)
    """
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def count_curve(values: Any, targets: Any, *, points: int = 200) -> dict[str, Any]:
    """Precision, recall and the number of labels given by threshold, as lists that can be kept as JSON.

    A label is given where its value is at least the threshold. Every number is exact at its threshold; where cells
    have more different values than `points`, thresholds are left out where the curves are nearly straight.

    Args:
        values: (N, K), probabilities or scores; they are compared across samples and labels.
        targets: (N, K): 1 present, 0 absent, -1 unknown, which are left out.
        points: The most thresholds to keep.

    Returns:
        "thresholds" in rising order, the "precision" and "recall" at each and the mean number of labels "given" to a
        row with known cells, the "rate" of present cells, and the average precision "ap" of all cells in one ranking.

    Example:
        >>> from manyhot.report import count_curve
        >>> count_curve(torch.tensor([[0.75, 0.25], [0.5, 0.5]]), torch.tensor([[1, 0], [1, 0]]))["precision"]
        [0.5, 0.6666666666666666, 1.0]
    """
    from manyhot.checks import as_scores, as_targets
    from manyhot.metrics.ranking import known_cells, precision_of_column
    from manyhot.metrics.sorting import Column, sort_in_place

    points = check_int("points", "count_curve", points, low=2)
    values = as_scores("count_curve", values)
    targets = as_targets("count_curve", targets, values, of="values")
    present, known = (sort_in_place(cells).cpu() for cells in known_cells(values, targets))
    finite = known[known.isfinite()]
    if not len(present) or not len(finite):
        got = "none that are present" if len(finite) else "none"
        hint = "Pass rows with labels, and leave out models without."
        raise InputError("values", "count_curve", "have finite values of known and of present cells", got, hint)
    rows = int((targets >= 0).any(1).sum())
    candidates = _candidate_thresholds(present[present.isfinite()], finite, OVERSAMPLING * points)
    counted = _curve_at(present, known, candidates, rows)
    selected = _thin_out([candidates.double(), *counted.values()], points)
    return {
        "thresholds": candidates[selected].tolist(),
        **{name: column[selected].tolist() for name, column in counted.items()},
        "rate": len(present) / len(known),
        "ap": precision_of_column(Column(present, known)),
    }


def read_curve(argument: str, owner: str, value: Any) -> ThresholdCurve:
    """The curve of values and targets, or one that comes ready."""
    if isinstance(value, tuple | list) and len(value) == 2:
        value = count_curve(*value)
    if not isinstance(value, Mapping):
        raise InputError(argument, owner, "be values with their targets, or a curve", type(value).__name__, CURVE_HINT)
    check_keys(argument, owner, value, CURVE_KEYS, CURVE_HINT)
    rows: dict[str, Any] = {key: read_numbers(f"{argument}[{key!r}]", owner, value[key]) for key in CURVE_KEYS}
    if not rows["thresholds"]:
        raise InputError(f"{argument}['thresholds']", owner, "have at least one", "none", CURVE_HINT)
    for key, row in rows.items():
        read_same(f"{argument}[{key!r}]", owner, row, len(rows["thresholds"]))
    for key in ("precision", "recall"):
        check_fractions(f"{argument}[{key!r}]", owner, rows[key])
    for key in ("rate", "ap"):
        (rows[key],) = read_numbers(f"{argument}[{key!r}]", owner, [value.get(key)], gaps=True)
    return ThresholdCurve(**rows)


def check_fractions(argument: str, owner: str, numbers: list[float]) -> list[float]:
    """Refuses numbers that are no fractions; returns them."""
    for number in numbers:
        if not 0 <= number <= 1:
            raise InputError(argument, owner, "lie between 0 and 1", f"{number:g}", "Pass fractions, not percent.")
    return numbers


def _candidate_thresholds(present: Tensor, known: Tensor, number: int) -> Tensor:
    """About so many of the values, rising: even in recall, in number and in value, and dense where few are given."""
    import torch

    third = number // 3
    # In float64, because places among many cells are too large for less.
    by_rank = [
        side[torch.linspace(0, len(side) - 1, third, dtype=torch.float64).round().long()]
        for side in (present, known)
        if len(side)
    ]
    even = torch.linspace(float(known[0]), float(known[-1]), third, dtype=known.dtype)
    by_value = known[torch.searchsorted(known, even).clamp(max=len(known) - 1)]
    first = torch.logspace(0, math.log10(len(known)), third, dtype=torch.float64).round().long().clamp(1, len(known))
    thresholds: Tensor = torch.cat([*by_rank, by_value, known[len(known) - first]]).unique()
    return thresholds


def _curve_at(present: Tensor, known: Tensor, thresholds: Tensor, rows: int) -> dict[str, Tensor]:
    """What is given at each threshold; present and known cells in rising order."""
    from manyhot.metrics.sorting import count_below

    hits = (len(present) - count_below(present, thresholds)).double()
    predicted = (len(known) - count_below(known, thresholds)).double()
    return {"precision": hits / predicted, "recall": hits / len(present), "given": predicted / rows}


def _thin_out(columns: list[Tensor], points: int) -> Tensor:
    """The places of so many points of a curve that are even along its length; all where there are not more.

    Each column counts by its own range, so that lines over any of them look as exact as over the others.
    """
    import torch

    length = len(columns[0])
    if length <= points:
        return torch.arange(length)
    steps = torch.stack([column.diff().abs() / (column.max() - column.min()).clamp(min=1e-12) for column in columns])
    along = torch.nn.functional.pad(steps.sum(0).cumsum(0), (1, 0))
    even = torch.linspace(0, float(along[-1]), points, dtype=along.dtype)
    indices: Tensor = torch.searchsorted(along, even).clamp(max=length - 1).unique()
    return indices


DRAW_RELIABILITY = "draw_reliability"
RELIABILITY_HINT = "Pass (probs, targets), or what `CalibrationError` computed, or its details as lists."
RELIABILITY_KEYS = ("cells", "mean_prob", "share_present")
# The half width of a 95 % interval in standard errors.
Z_95 = 1.959963984540054


class ReliabilityCurve(NamedTuple):
    """Cells by what was promised: how many, the mean promise, the observed share, and the edges."""

    cells: list[int]
    predicted: list[float]
    observed: list[float]
    edges: list[float]

    def error(self, kind: str) -> float:
        """The expected ("ece") or average ("ace") calibration error; NaN without cells."""
        filled = [bin for bin in zip(self.cells, self.predicted, self.observed, strict=True) if bin[0]]
        gaps = [(cells, abs(predicted - observed)) for cells, predicted, observed in filled]
        if not gaps:
            return math.nan
        if kind == "ace":
            return sum(gap for _, gap in gaps) / len(gaps)
        return sum(cells * gap for cells, gap in gaps) / sum(self.cells)

    def format_error(self, kind: str) -> str:
        """The error as people read it."""
        error = self.error(kind)
        return "–" if math.isnan(error) else f"{100 * error:.1f} %"


def read_reliability(argument: str, value: Any, bins: int) -> ReliabilityCurve:
    """Bins of probabilities and targets, or those that come ready."""
    if isinstance(value, tuple | list) and len(value) == 2:
        value = bin_probs(argument, value[0], value[1], bins)
    stored = getattr(value, "details", value)
    if not isinstance(stored, Mapping):
        rule = "be probabilities with their targets, or bins"
        raise InputError(argument, DRAW_RELIABILITY, rule, type(value).__name__, RELIABILITY_HINT)
    check_keys(argument, DRAW_RELIABILITY, stored, RELIABILITY_KEYS, RELIABILITY_HINT)
    cells = read_counts(f"{argument}['cells']", DRAW_RELIABILITY, stored["cells"])
    predicted, observed = (read_bin_shares(f"{argument}[{key!r}]", stored[key], cells) for key in RELIABILITY_KEYS[1:])
    count = len(cells)
    edges = stored.get("edges", [index / max(count, 1) for index in range(count + 1)])
    return ReliabilityCurve(
        cells, predicted, observed, read_edges(f"{argument}['edges']", DRAW_RELIABILITY, edges, count)
    )


def bin_probs(argument: str, probs: Any, targets: Any, bins: int) -> Any:
    """Bins of the same width, by the package's own metric."""
    from manyhot.checks import as_probs, as_targets
    from manyhot.metrics import CalibrationError

    probs = as_probs(DRAW_RELIABILITY, probs, name=f"{argument}[0]")
    targets = as_targets(DRAW_RELIABILITY, targets, probs, name=f"{argument}[1]", of=f"{argument}[0]")
    return CalibrationError(check_int("bins", DRAW_RELIABILITY, bins, low=1)).update(probs, targets).compute()


def read_bin_shares(argument: str, values: Any, cells: list[int]) -> list[float]:
    """One share for each bin; those of bins without cells may be anything."""
    shares = read_numbers(argument, DRAW_RELIABILITY, values, gaps=True)
    read_same(argument, DRAW_RELIABILITY, shares, len(cells))
    for share, count in zip(shares, cells, strict=True):
        if count and not 0 <= share <= 1:
            hint = "Pass fractions, not percent, for every bin with cells."
            raise InputError(argument, DRAW_RELIABILITY, "lie between 0 and 1", f"{share:g}", hint)
    return shares


def wilson_interval(share: float, cells: int) -> tuple[float, float]:
    """The 95 % interval of Wilson for a share of so many cells.

    Example:
        >>> from manyhot.report.plots import wilson_interval
        >>> [round(end, 3) for end in wilson_interval(0.0, 20)]
        [0.0, 0.161]
    """
    spread = Z_95**2 / cells
    centre = (share + spread / 2) / (1 + spread)
    half = math.sqrt(spread * share * (1 - share) + spread**2 / 4) / (1 + spread)
    # At the ends the sums are exact but for their last digit.
    return 0.0 if share <= 0 else max(centre - half, 0.0), 1.0 if share >= 1 else min(centre + half, 1.0)


LABEL_CURVES = "label_curves"
# A label with fewer present cells shows chance rather than its calibration.
MIN_PRESENT = 20
STORED_KEYS = ("cells", "mean_prob", "share_present")


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
    from manyhot.checks import as_probs, as_targets
    from manyhot.metrics import CalibrationError

    check_mapping("readings", LABEL_CURVES, readings)
    most = check_int("most", LABEL_CURVES, most, low=1)
    bins = check_int("bins", LABEL_CURVES, bins, low=1)
    by_reading = {}
    for name, value in readings.items():
        argument = f"readings[{name!r}]"
        probs = as_probs(LABEL_CURVES, value, name=argument)
        checked = as_targets(LABEL_CURVES, targets, probs, of=argument)
        by_reading[name] = CalibrationError(bins, average="macro").update(probs, checked).compute().details
    present = (checked == 1).sum(0)
    if len(names) != len(present):
        hint = "Pass one name for each column, in their order."
        raise InputError("names", LABEL_CURVES, f"be those of the {len(present)} labels", str(len(names)), hint)
    chosen = worst_calibrated(by_reading[name]["ece"], present, most)
    return {
        f"{names[label]} ({int(present[label]):,})": {
            reading: {key: nan_to_none(details[key][label]) for key in STORED_KEYS}
            for reading, details in by_reading.items()
        }
        for label in chosen
    }


def worst_calibrated(errors: Tensor, present: Tensor, most: int) -> list[int]:
    """The labels with the largest errors among those with enough present cells, else the most frequent ones."""
    counts = present.tolist()
    enough = [label for label, count in enumerate(counts) if count >= MIN_PRESENT]
    if enough:
        return sorted(enough, key=lambda label: -float(errors[label]))[:most]
    present_labels = [label for label, count in enumerate(counts) if count]
    return sorted(present_labels, key=lambda label: -counts[label])[:most]


def nan_to_none(values: Tensor) -> list[float | None]:
    """The values as JSON holds them, which has no NaN."""
    return [None if value != value else value for value in values.tolist()]


DRAW_SCORES = "draw_scores"
SCORES_HINT = "Pass (scores, targets), or what `count_scores` gives."
SCORE_TITLES = {"row": ("label of the row", "largest other", "% of rows"), "cell": ("present", "absent", "% of cells")}
# A few scores far out would press all others into one bar: beyond this share at either end they go to the outer bars.
OUTLIER_SHARE = 0.001


class ScoreHistogram(NamedTuple):
    """How many scores fall between edges, and the thresholds, None where there is none."""

    edges: list[float]
    present: list[int]
    absent: list[int]
    per: str
    best: float | None
    learned: float | None


def count_scores(
    scores: Any, targets: Any, *, per: str = "cell", bins: int = 60, learned: float | None = None
) -> dict[str, Any]:
    """A histogram of scores that can be kept as JSON and drawn later.

    Args:
        scores: (N, K), of any kind.
        targets: (N, K): 1 present, 0 absent, -1 unknown, which are left out.
        per: "row" takes the score of each row's one label and the largest of its others, and finds the threshold at
            which the most rows are wholly right; rows without a label are left out. "cell" takes all cells.
        bins: The number of bins. They reach over all but the outermost thousandth of the scores of present and
            of absent labels at either end, which are counted in the outer bins.
        learned: The threshold that the model itself has learned, to be drawn as well.

    Returns:
        "edges" (bins + 1), how many scores of labels that are "present" and "absent" lie between them, "per", the
        "best" threshold and the "learned" one, None where there is none.

    Example:
        >>> from manyhot.report import count_scores
        >>> scores = torch.tensor([[3.0, 1.0], [0.5, 2.0], [0.0, 0.25]])
        >>> counted = count_scores(scores, mh.one_hot(torch.tensor([0, 1, 0]), 2), per="row", bins=2)
        >>> counted["present"], counted["absent"], counted["best"]
        ([1, 2], [3, 0], 1.5)
    """
    import numpy as np

    from manyhot.checks import as_scores, as_targets

    check_per("count_scores", per)
    bins = check_int("bins", "count_scores", bins, low=1)
    scores = as_scores("count_scores", scores)
    targets = as_targets("count_scores", targets, scores)
    present, absent, best = _scores_by_row(scores, targets) if per == "row" else _scores_by_cell(scores, targets)
    if not len(present) + len(absent):
        hint = "Pass rows with labels, or `per='cell'`."
        raise InputError("scores", "count_scores", "have finite scores of known cells", "none", hint)
    # Of each side by itself, because absent cells are so many that they would push most present ones out.
    sides = [side for side in (present, absent) if len(side)]
    low = min(np.quantile(side, OUTLIER_SHARE, method="lower") for side in sides)
    high = max(np.quantile(side, 1 - OUTLIER_SHARE, method="higher") for side in sides)
    edges = np.linspace(low, high, bins + 1) if low < high else np.linspace(low - 0.5, low + 0.5, bins + 1)
    counts = [np.histogram(side.clip(edges[0], edges[-1]), edges)[0].tolist() for side in (present, absent)]
    named = dict(zip(("present", "absent"), counts, strict=True))
    return {"per": per, "edges": edges.tolist(), **named, "best": best, "learned": learned}


def check_per(owner: str, per: str) -> None:
    """Refuses what scores cannot be counted by."""
    if per not in SCORE_TITLES:
        raise InputError(
            "per", owner, f"be one of {', '.join(map(repr, SCORE_TITLES))}", repr(per), "Pick one of these."
        )


def read_histogram(argument: str, value: Any, per: str, bins: int) -> ScoreHistogram:
    """The histogram of scores and targets, or one that comes ready."""
    check_per(DRAW_SCORES, per)
    if isinstance(value, tuple | list) and len(value) == 2:
        value = count_scores(*value, per=per, bins=bins)
    if not isinstance(value, Mapping):
        rule = "be scores with their targets, or a histogram"
        raise InputError(argument, DRAW_SCORES, rule, type(value).__name__, SCORES_HINT)
    check_keys(argument, DRAW_SCORES, value, ("edges", "present", "absent"), SCORES_HINT)
    present, absent = (read_counts(f"{argument}[{key!r}]", DRAW_SCORES, value[key]) for key in ("present", "absent"))
    read_same(f"{argument}['absent']", DRAW_SCORES, absent, len(present))
    check_per(DRAW_SCORES, value.get("per", per))
    edges = read_edges(f"{argument}['edges']", DRAW_SCORES, value["edges"], len(present))
    lines = [_read_threshold(f"{argument}[{key!r}]", value.get(key)) for key in ("best", "learned")]
    return ScoreHistogram(edges, present, absent, value.get("per", per), *lines)


def _scores_by_row(scores: Any, targets: Any) -> tuple[Any, Any, float | None]:
    """The score of each row's label, the largest other one, and the best threshold for all rows."""
    from manyhot.decide.thresholds import row_intervals
    from manyhot.metrics import UniformAccuracy

    if bool(((targets == 1).sum(1) > 1).any()):
        rule = "have one label a row at the most for per='row'"
        raise InputError("targets", "count_scores", rule, "a row with several", "Pass per='cell' to count all cells.")
    best = UniformAccuracy().update(scores, targets).compute()["threshold"]
    labelled = (targets == 1).any(1)
    largest_other, own = row_intervals(scores[labelled], targets[labelled])
    present, absent = (side[side.isfinite()].double().cpu().numpy() for side in (own, largest_other))
    return present, absent, best if math.isfinite(best) else None


def _scores_by_cell(scores: Any, targets: Any) -> tuple[Any, Any, None]:
    """The scores of all present and of all absent cells."""
    finite = scores.isfinite()
    present, absent = (scores[finite & (targets == value)].double().cpu().numpy() for value in (1, 0))
    return present, absent, None


def _read_threshold(argument: str, value: Any) -> float | None:
    return None if value is None else read_numbers(argument, DRAW_SCORES, [value])[0]


DRAW_SET_SIZES = "draw_set_sizes"


class SetSizes(NamedTuple):
    """How many rows have 0, 1, 2, ... labels, and how many labels they have in the mean."""

    counts: list[int]
    mean: float


def count_sizes(decisions: Any) -> list[int]:
    """How many rows have 0, 1, 2, ... labels, as a list that can be kept as JSON.

    Args:
        decisions: What a rule gave, (N, K) of booleans, or the sizes themselves, (N,) of whole numbers.

    Example:
        >>> from manyhot.report import count_sizes
        >>> count_sizes(torch.tensor([[True, False, True], [False, False, False], [True, True, False]]))
        [1, 0, 2]
    """
    return _count_sizes("decisions", "count_sizes", decisions)


def _read_sizes(argument: str, value: Any) -> dict[str, SetSizes]:
    """The sizes of each group of a model; a model without groups has one of no name."""
    if not isinstance(value, Mapping) or "counts" in value:
        return {"": _read_size_counts(argument, value)}
    return {
        name: _read_size_counts(f"{argument}[{name!r}]", one)
        for name, one in check_mapping(argument, DRAW_SET_SIZES, value).items()
    }


def _read_size_counts(argument: str, value: Any) -> SetSizes:
    if not isinstance(value, Mapping):
        counts = _count_sizes(argument, DRAW_SET_SIZES, value)
        return SetSizes(counts, _mean_size(counts))
    check_keys(
        argument, DRAW_SET_SIZES, value, ("counts",), 'Pass decisions, sizes, or what `count_sizes` gives as "counts".'
    )
    counts = read_counts(f"{argument}['counts']", DRAW_SET_SIZES, value["counts"])
    if not sum(counts):
        hint = "Leave out models and groups without rows."
        raise InputError(f"{argument}['counts']", DRAW_SET_SIZES, "count at least one row", "none", hint)
    if value.get("mean") is None:
        return SetSizes(counts, _mean_size(counts))
    return SetSizes(counts, *read_numbers(f"{argument}['mean']", DRAW_SET_SIZES, [value["mean"]]))


def _mean_size(counts: list[int]) -> float:
    return sum(size * count for size, count in enumerate(counts)) / sum(counts)


def _count_sizes(argument: str, owner: str, value: Any) -> list[int]:
    labels = getattr(value, "labels", value)
    if getattr(labels, "ndim", 1) == 2:
        if not str(labels.dtype).endswith("bool"):
            hint = "Pass what a rule gave, such as `Threshold(0.5)(probs)`."
            raise InputError(argument, owner, "be decisions, (N, K) of booleans", f"{labels.dtype}", hint)
        labels = labels.sum(1)
    sizes = Counter(read_counts(argument, owner, labels))
    if not sizes:
        raise InputError(argument, owner, "have at least one row", "none", "Leave out models and groups without rows.")
    return [sizes[size] for size in range(max(sizes) + 1)]


DRAW_ZERO_LABELS = "draw_zero_labels"
ZERO_LABELS_HINT = "Pass (probs, targets), or what `count_zero_labels` gives."
SIDE_TITLES = {"in": "with labels (IN)", "out": "without labels (OUT)"}


class ConfidenceCounts(NamedTuple):
    """Rows of one kind by their largest probability, and its mean; NaN without rows."""

    counts: list[int]
    mean: float


class ZeroLabelHistogram(NamedTuple):
    """Rows with and without labels by their largest probability, and how well it tells them apart."""

    edges: list[float]
    sides: dict[str, ConfidenceCounts]
    auroc: float


def count_zero_labels(values: Any, targets: Any, *, bins: int = 40) -> dict[str, Any]:
    """Histograms of the largest probability of rows with and of rows without labels, to be kept as JSON.

    Args:
        values: (N, K), probabilities.
        targets: (N, K): 1 present, 0 absent, -1 unknown, which are left out; so are rows without a known cell.
        bins: The number of bins from 0 to 1.

    Returns:
        "edges" (bins + 1); how many rows with labels, "in", and without, "out", lie between them; their mean largest
        probability, "mmc_in" and "mmc_out"; and "auroc", the chance that a row with labels has the larger one. None
        where there are no rows to tell it.

    Example:
        >>> from manyhot.report import count_zero_labels
        >>> probs = torch.tensor([[0.9, 0.2], [0.1, 0.6], [0.3, 0.1]])
        >>> counted = count_zero_labels(probs, torch.tensor([[1, 0], [0, 1], [0, 0]]), bins=2)
        >>> counted["in"], counted["out"], counted["auroc"]
        ([0, 2], [1, 0], 1.0)
    """
    import numpy as np

    from manyhot.checks import as_probs, as_targets
    from manyhot.metrics import OpenSetScores

    owner = "count_zero_labels"
    bins = check_int("bins", owner, bins, low=1)
    probs = as_probs(owner, values, name="values")
    metric = OpenSetScores().update(probs, as_targets(owner, targets, probs, of="values"))
    rows = {"in": metric.concatenated("inside").double(), "out": metric.concatenated("outside").double()}
    if not any(map(len, rows.values())):
        hint = "Pass rows with known cells."
        raise InputError("values", owner, "have rows with known cells", "none", hint)
    edges = np.linspace(0, 1, bins + 1)
    auroc = metric.compute()["auroc"]
    return {
        "edges": edges.tolist(),
        **{side: np.histogram(result.cpu().numpy(), edges)[0].tolist() for side, result in rows.items()},
        **{f"mmc_{side}": float(result.mean()) if len(result) else None for side, result in rows.items()},
        "auroc": None if math.isnan(auroc) else auroc,
    }


def read_zero_labels(argument: str, value: Any, bins: int) -> ZeroLabelHistogram:
    """The histograms of probabilities and targets, or those that come ready."""
    if isinstance(value, tuple | list) and len(value) == 2:
        value = count_zero_labels(*value, bins=bins)
    if not isinstance(value, Mapping):
        rule = "be probabilities with their targets, or histograms"
        raise InputError(argument, DRAW_ZERO_LABELS, rule, type(value).__name__, ZERO_LABELS_HINT)
    check_keys(argument, DRAW_ZERO_LABELS, value, ("edges", *SIDE_TITLES), ZERO_LABELS_HINT)
    counts = {side: read_counts(f"{argument}[{side!r}]", DRAW_ZERO_LABELS, value[side]) for side in SIDE_TITLES}
    read_same(f"{argument}['out']", DRAW_ZERO_LABELS, counts["out"], len(counts["in"]))
    edges = read_edges(f"{argument}['edges']", DRAW_ZERO_LABELS, value["edges"], len(counts["in"]))
    keys = ("mmc_in", "mmc_out", "auroc")
    means = {
        key: read_numbers(f"{argument}[{key!r}]", DRAW_ZERO_LABELS, [value.get(key)], gaps=True)[0] for key in keys
    }
    sides = {side: ConfidenceCounts(counts[side], means[f"mmc_{side}"]) for side in SIDE_TITLES}
    return ZeroLabelHistogram(edges, sides, means["auroc"])


DRAW_CO_OCCURRENCE = "draw_co_occurrence"
PAIRS_HINT = "Pass what `count_pairs` gives, or a table (K, K) of how many rows have both labels."


def count_pairs(targets: Any, *, most: int = 100) -> dict[str, Any]:
    """How many rows have both of two labels, for the most frequent labels; as lists that can be kept as JSON.

    Args:
        targets: (N, K): 1 present, 0 absent, -1 unknown, which is not counted.
        most: The most labels; all pairs of very many labels would fill the memory.

    Returns:
        The columns of the "labels", the most frequent first, and a table "together" of the numbers of rows in which
        two are both present, with those of each label by itself in the diagonal.

    Example:
        >>> from manyhot.report import count_pairs
        >>> count_pairs(torch.tensor([[1, 1, 0], [0, 1, 0], [0, 1, 1]]))
        {'labels': [1, 0, 2], 'together': [[3, 1, 1], [1, 1, 0], [1, 0, 1]]}
    """
    import torch

    from manyhot.checks import as_targets, as_tensor

    owner = "count_pairs"
    most = check_int("most", owner, most, low=1)
    table = as_tensor(owner, targets, "targets")
    if table.ndim != 2:
        hint = "Pass one row a sample, one column a label."
        raise InputError("targets", owner, "be (N, K)", str(tuple(table.shape)), hint)
    present = as_targets(owner, table, table) == 1
    chosen = present.sum(0).argsort(descending=True, stable=True)[:most]
    # In pieces: as float64, in which sums of ones are exact, a whole table would be eight times as large.
    together = sum(
        (part.double().T @ part.double() for part in present[:, chosen].split(1 << 14)),
        start=torch.zeros(len(chosen), len(chosen), dtype=torch.float64, device=present.device),
    )
    return {"labels": chosen.tolist(), "together": together.long().tolist()}


def read_pairs(counts: Any, names: Sequence[str]) -> tuple[list[list[int]], list[str], list[int]]:
    """The table of pairs, and the names and columns of its labels."""
    stored = isinstance(counts, Mapping)
    if stored:
        check_keys("counts", DRAW_CO_OCCURRENCE, counts, ("labels", "together"), PAIRS_HINT)
    rows = counts["together"] if stored else counts
    rows = rows.tolist() if hasattr(rows, "tolist") else rows
    if not isinstance(rows, list | tuple):
        raise InputError("counts", DRAW_CO_OCCURRENCE, "be a table of pairs", type(rows).__name__, PAIRS_HINT)
    table = [read_counts(f"counts[{index}]", DRAW_CO_OCCURRENCE, row) for index, row in enumerate(rows)]
    indices = (
        read_counts("counts['labels']", DRAW_CO_OCCURRENCE, counts["labels"]) if stored else list(range(len(table)))
    )
    for row in table:
        if len(row) != len(table) or len(indices) != len(table):
            raise InputError(
                "counts", DRAW_CO_OCCURRENCE, "be as wide as high", f"{len(table)} by {len(row)}", PAIRS_HINT
            )
    check_pairs(table)
    needed = max(indices, default=-1) + 1 if stored else len(table)
    if len(names) < needed or (not stored and len(names) != needed):
        hint = "Pass one name for each label, in their order."
        raise InputError("names", DRAW_CO_OCCURRENCE, f"be those of the {needed} labels", str(len(names)), hint)
    return table, [str(names[index]) for index in indices], indices


def check_pairs(table: list[list[int]]) -> None:
    """Refuses what cannot be counts of pairs: more of a pair than of one of its labels."""
    for index, row in enumerate(table):
        if max(row, default=0) > row[index]:
            got = f"{max(row)} against {row[index]} in row {index}"
            raise InputError(
                "counts", DRAW_CO_OCCURRENCE, "have the largest number of a row in the diagonal", got, PAIRS_HINT
            )
