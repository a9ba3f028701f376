"""The data behind the plots: checked, counted from tensors on request, and storable as JSON."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.errors import InputError, owned

if TYPE_CHECKING:
    from torch import Tensor


class Span(NamedTuple):
    """A value with its interval; both ends equal the value if there is no interval."""

    value: float
    low: float
    high: float


def check_mapping(argument: str, value: Any) -> Mapping[str, Any]:
    """Returns `value`; raises unless it is a mapping with at least one name."""
    if isinstance(value, Mapping) and value:
        return value
    got = "an empty one" if isinstance(value, Mapping) else type(value).__name__
    hint = 'Pass what is to be drawn by its name, such as {"BCE": ...}.'
    raise InputError(argument, rule="be a mapping with at least one name", got=got, hint=hint)


def check_int(argument: str, value: Any, *, low: int) -> int:
    """Returns `value` as an int; raises if it is below `low` or not whole."""
    number = low - 1 if isinstance(value, bool) or not isinstance(value, Integral) else int(value)
    if number >= low:
        return number
    raise InputError(argument, rule=f"be a whole number, at least {low}", got=repr(value), hint="Pass an int.")


def check_names(argument: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raises for names that are not among the known ones."""
    known = list(known)
    for name in names:
        if name not in known:
            rule = f"name what is drawn, {', '.join(map(repr, known))}"
            raise InputError(argument, rule=rule, got=repr(name), hint="Pass these names only.")


def check_keys(argument: str, stored: Mapping[str, Any], keys: Sequence[str], hint: str) -> None:
    """Raises if the mapping lacks one of the keys."""
    missing = [key for key in keys if key not in stored]
    if missing:
        raise InputError(argument, rule=f"have {list_names(keys)}", got=f"none called {missing[0]!r}", hint=hint)


def list_names(names: Sequence[str]) -> str:
    """Names as a list in words.

    Example:
        >>> from manyhot.report.curves import list_names
        >>> list_names(["a", "b", "c"])
        "'a', 'b' and 'c'"
    """
    *first, last = map(repr, names)
    return f"{', '.join(first)} and {last}" if first else last


def read_numbers(argument: str, values: Any, *, gaps: bool = False) -> list[float]:
    """A list of finite floats of a tensor, array or sequence; with `gaps`, None and NaN are taken as NaN."""
    rule = "be a row of finite numbers" + (", with None or NaN for gaps" if gaps else "")
    hint = "Pass a list, an array or a tensor of one axis."
    items = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(items, Iterable) or isinstance(items, str | Mapping):
        raise InputError(argument, rule=rule, got=type(values).__name__, hint=hint)
    numbers = []
    for number in items:
        gap = number is None or (isinstance(number, Real) and math.isnan(number))
        if gap and gaps:
            numbers.append(math.nan)
        elif is_finite(number):
            numbers.append(float(number))
        else:
            raise InputError(
                argument, rule=rule, got="lists in it" if isinstance(number, list) else repr(number), hint=hint
            )
    return numbers


def is_finite(number: Any) -> bool:
    """Whether it is a real number, and neither NaN nor infinite."""
    return isinstance(number, Real) and math.isfinite(number)


def read_counts(argument: str, values: Any) -> list[int]:
    """A list of whole numbers that are not negative."""
    numbers = read_numbers(argument, values)
    for number in numbers:
        if number < 0 or number != int(number):
            hint = "Pass how many there are, not shares."
            raise InputError(argument, rule="be whole numbers, none negative", got=f"{number:g}", hint=hint)
    return [int(number) for number in numbers]


def read_edges(argument: str, values: Any, bins: int) -> list[float]:
    """The edges of so many bins, in order."""
    edges = read_numbers(argument, values)
    hint = "Pass the lower edge of the first bin and the upper edges of all."
    if len(edges) != bins + 1:
        raise InputError(argument, rule=f"be {bins + 1} edges of {bins} bins", got=str(len(edges)), hint=hint)
    if any(low > high for low, high in pairwise(edges)):
        raise InputError(argument, rule="rise", got="edges out of order", hint=hint)
    return edges


def read_same(argument: str, values: list[Any], length: int) -> None:
    """Raises if a row has another length than the others."""
    if len(values) != length:
        hint = "Pass one number for each."
        raise InputError(argument, rule=f"be as long as the others, {length}", got=str(len(values)), hint=hint)


def read_span(argument: str, value: Any) -> Span:
    """A number, (value, low, high), an `Interval` or a mapping with "value", "low" and "high"."""
    hint = "Pass a number, (value, low, high), or what `bootstrap` returned."
    rule = "be a number or a value with its ends, low <= value <= high"
    if isinstance(value, Mapping):
        check_keys(argument, value, ("value", "low", "high"), hint)
        value = (value["value"], value["low"], value["high"])
    elif hasattr(value, "low") and hasattr(value, "high"):
        value = (value.value, value.low, value.high)
    elif isinstance(value, Real):
        value = (value, value, value)
    if not isinstance(value, Sequence) or len(value) != 3 or not all(is_finite(number) for number in value):
        raise InputError(argument, rule=rule, got=repr(value), hint=hint)
    span = Span(*map(float, value))
    if not span.low <= span.value <= span.high:
        raise InputError(argument, rule=rule, got=f"{span.value:g} in [{span.low:g}, {span.high:g}]", hint=hint)
    return span


SpanTable = dict[str, dict[str, Span]]


def read_spans(rows: Mapping[str, Any], figures: Sequence[str] | None, percent: Collection[str]) -> SpanTable:
    """The spans of each row by figure, those of `percent` times 100; a figure that a row lacks is left out of it."""
    check_mapping("rows", rows)
    for name, row in rows.items():
        check_mapping(f"rows[{name!r}]", row)
    known = list(dict.fromkeys(figure for row in rows.values() for figure in row))
    wanted = known if figures is None else list(figures)
    if not wanted:
        raise InputError("figures", rule="name at least one figure", got="none", hint="Leave it out to draw all.")
    check_names("figures", wanted, known)
    check_names("percent", percent, known)
    return {
        name: {
            figure: scale_span(read_span(f"rows[{name!r}][{figure!r}]", row[figure]), figure in percent)
            for figure in wanted
            if row.get(figure) is not None
        }
        for name, row in rows.items()
    }


def scale_span(span: Span, percent: bool) -> Span:
    """The span as it is drawn."""
    return Span(*(100 * number for number in span)) if percent else span


def axis_title(figure: str, titles: Mapping[str, str] | None, percent: Collection[str]) -> str:
    """The title of an axis: the title passed or the name of the figure, with its unit."""
    title = (titles or {}).get(figure, figure)
    return f"{title} %" if figure in percent else title


CURVE_HINT = "Pass (values, targets), or what `count_curve` returned."
CURVE_KEYS = ("thresholds", "precision", "recall", "given")
# Candidate thresholds for each one that is kept.
OVERSAMPLING = 20


class ThresholdCurve(NamedTuple):
    """The effect of one threshold for all cells, by threshold; shares from 0 to 1.

    Attributes:
        thresholds: In rising order.
        precision: The share of predicted cells that are present.
        recall: The share of present cells that are predicted.
        given: The mean number of labels predicted per row.
        rate: The share of cells that are present; NaN if it was not stored.
        ap: The average precision of all cells in one ranking; NaN if it was not stored.
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


@owned("count_curve")
def count_curve(values: Any, targets: Any, *, points: int = 200) -> dict[str, Any]:
    """Precision, recall and the number of predicted labels by threshold, as lists that can be stored as JSON.

    A label is predicted where its value is at least the threshold. Every number is exact at its threshold; where cells
    have more different values than `points`, thresholds are left out where the curves are nearly straight.

    Args:
        values: (N, K), probabilities or scores; they are compared across samples and labels.
        targets: (N, K): 1 present, 0 absent, -1 unknown, which are left out.
        points: The maximum number of thresholds.

    Returns:
        "thresholds" in rising order, the "precision" and "recall" at each and the mean number of predicted labels
        per row, "given", over rows with known cells; the "rate" of present cells, and the average precision "ap" of all
        cells in one ranking.

    Example:
        >>> from manyhot.report import count_curve
        >>> count_curve(torch.tensor([[0.75, 0.25], [0.5, 0.5]]), torch.tensor([[1, 0], [1, 0]]))["precision"]
        [0.5, 0.6666666666666666, 1.0]
    """
    from manyhot.checks import as_scores, as_targets
    from manyhot.metrics.ranking import known_cells, precision_of_column
    from manyhot.sorting import Column, sort_in_place

    points = check_int("points", points, low=2)
    values = as_scores("count_curve", values)
    targets = as_targets("count_curve", targets, values, of="values")
    present, known = (sort_in_place(cells).cpu() for cells in known_cells(values, targets))
    finite = known[known.isfinite()]
    if not len(present) or not len(finite):
        got = "none that are present" if len(finite) else "none"
        hint = "Pass rows with labels, and leave out models without."
        raise InputError("values", rule="have finite values of known and of present cells", got=got, hint=hint)
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


def read_curve(argument: str, value: Any) -> ThresholdCurve:
    """The curve of values and targets, or one computed before."""
    if isinstance(value, tuple | list) and len(value) == 2:
        value = count_curve(*value)
    if not isinstance(value, Mapping):
        raise InputError(
            argument, rule="be values with their targets, or a curve", got=type(value).__name__, hint=CURVE_HINT
        )
    check_keys(argument, value, CURVE_KEYS, CURVE_HINT)
    rows: dict[str, Any] = {key: read_numbers(f"{argument}[{key!r}]", value[key]) for key in CURVE_KEYS}
    if not rows["thresholds"]:
        raise InputError(f"{argument}['thresholds']", rule="have at least one", got="none", hint=CURVE_HINT)
    for key, row in rows.items():
        read_same(f"{argument}[{key!r}]", row, len(rows["thresholds"]))
    for key in ("precision", "recall"):
        check_fractions(f"{argument}[{key!r}]", rows[key])
    for key in ("rate", "ap"):
        (rows[key],) = read_numbers(f"{argument}[{key!r}]", [value.get(key)], gaps=True)
    return ThresholdCurve(**rows)


def check_fractions(argument: str, numbers: list[float]) -> list[float]:
    """Returns the numbers; raises if one is no fraction."""
    for number in numbers:
        if not 0 <= number <= 1:
            raise InputError(
                argument, rule="lie between 0 and 1", got=f"{number:g}", hint="Pass fractions, not percent."
            )
    return numbers


def _candidate_thresholds(present: Tensor, known: Tensor, number: int) -> Tensor:
    """About this many of the values, rising: even in recall, rank and value, and dense where few are predicted."""
    import torch

    third = number // 3
    # In float64, because ranks among many cells are too large for float32.
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
    """What is predicted at each threshold; present and known cells are in rising order."""
    from manyhot.sorting import count_below

    hits = (len(present) - count_below(present, thresholds)).double()
    predicted = (len(known) - count_below(known, thresholds)).double()
    return {"precision": hits / predicted, "recall": hits / len(present), "given": predicted / rows}


def _thin_out(columns: list[Tensor], points: int) -> Tensor:
    """The indices of this many points, even along the length of the curve; all if there are not more.

    Each column is scaled by its own range, so that lines over any of them look equally exact.
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


RELIABILITY_HINT = "Pass (probs, targets), or what `CalibrationError` computed, or its details as lists."
RELIABILITY_KEYS = ("cells", "mean_prob", "share_present")
# The half width of a 95 % interval in standard errors.
Z_95 = 1.959963984540054


class ReliabilityCurve(NamedTuple):
    """Cells binned by predicted probability: count, mean prediction and observed share per bin, and the edges."""

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
        """The error in percent, as text."""
        error = self.error(kind)
        return "–" if math.isnan(error) else f"{100 * error:.1f} %"


def read_reliability(argument: str, value: Any, bins: int) -> ReliabilityCurve:
    """Bins of probabilities and targets, or bins computed before."""
    if isinstance(value, tuple | list) and len(value) == 2:
        value = bin_probs(argument, value[0], value[1], bins)
    stored = getattr(value, "details", value)
    if not isinstance(stored, Mapping):
        rule = "be probabilities with their targets, or bins"
        raise InputError(argument, rule=rule, got=type(value).__name__, hint=RELIABILITY_HINT)
    check_keys(argument, stored, RELIABILITY_KEYS, RELIABILITY_HINT)
    cells = read_counts(f"{argument}['cells']", stored["cells"])
    predicted, observed = (read_bin_shares(f"{argument}[{key!r}]", stored[key], cells) for key in RELIABILITY_KEYS[1:])
    count = len(cells)
    edges = stored.get("edges", [index / max(count, 1) for index in range(count + 1)])
    return ReliabilityCurve(cells, predicted, observed, read_edges(f"{argument}['edges']", edges, count))


def bin_probs(argument: str, probs: Any, targets: Any, bins: int) -> Any:
    """Bins of equal width, by `CalibrationError`."""
    from manyhot.checks import as_probs, as_targets
    from manyhot.metrics import CalibrationError

    probs = as_probs("draw_reliability", probs, name=f"{argument}[0]")
    targets = as_targets("draw_reliability", targets, probs, name=f"{argument}[1]", of=f"{argument}[0]")
    return CalibrationError(check_int("bins", bins, low=1)).update(probs, targets).compute()


def read_bin_shares(argument: str, values: Any, cells: list[int]) -> list[float]:
    """One share for each bin; those of bins without cells may be anything."""
    shares = read_numbers(argument, values, gaps=True)
    read_same(argument, shares, len(cells))
    for share, count in zip(shares, cells, strict=True):
        if count and not 0 <= share <= 1:
            hint = "Pass fractions, not percent, for every bin with cells."
            raise InputError(argument, rule="lie between 0 and 1", got=f"{share:g}", hint=hint)
    return shares


def wilson_interval(share: float, cells: int) -> tuple[float, float]:
    """The 95 % Wilson interval of a share of this many cells.

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


# A label with fewer present cells shows chance rather than its calibration.
MIN_PRESENT = 20
STORED_KEYS = ("cells", "mean_prob", "share_present")


@owned("label_curves")
def label_curves(
    readings: Mapping[str, Any], targets: Any, names: Sequence[str], *, most: int = 12, bins: int = 10
) -> dict[str, dict[str, Any]]:
    """Reliability curves of the worst calibrated labels, for `draw_reliability` and to store as JSON.

    Of labels with at least 20 present cells, those with the largest calibration error (ECE) of the last reading are
    selected, the largest first; if no label has so many, the most frequent ones. Labels that are never present are
    left out.

    Args:
        readings: By their names, such as "own link" and "calibrated": probabilities (N, K). The last one decides.
        targets: (N, K): 1 present, 0 absent, -1 unknown, which are left out.
        names: Of the K labels.
        most: The maximum number of labels.
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

    check_mapping("readings", readings)
    most = check_int("most", most, low=1)
    bins = check_int("bins", bins, low=1)
    by_reading = {}
    for name, value in readings.items():
        argument = f"readings[{name!r}]"
        probs = as_probs("label_curves", value, name=argument)
        checked = as_targets("label_curves", targets, probs, of=argument)
        by_reading[name] = CalibrationError(bins, average="macro").update(probs, checked).compute().details
    present = (checked == 1).sum(0)
    if len(names) != len(present):
        hint = "Pass one name for each column, in their order."
        raise InputError("names", rule=f"be those of the {len(present)} labels", got=str(len(names)), hint=hint)
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
    """The values for JSON, which has no NaN."""
    return [None if value != value else value for value in values.tolist()]


SCORES_HINT = "Pass (scores, targets), or what `count_scores` returned."
SCORE_TITLES = {"row": ("label of the row", "largest other", "% of rows"), "cell": ("present", "absent", "% of cells")}
# Outliers would squeeze all other scores into one bar: beyond this share at either end they go to the outer bars.
OUTLIER_SHARE = 0.001


class ScoreHistogram(NamedTuple):
    """How many scores fall between edges, and the thresholds, or None."""

    edges: list[float]
    present: list[int]
    absent: list[int]
    per: str
    best: float | None
    learned: float | None


@owned("count_scores")
def count_scores(
    scores: Any, targets: Any, *, per: str = "cell", bins: int = 60, learned: float | None = None
) -> dict[str, Any]:
    """A histogram of scores that can be stored as JSON and drawn later.

    Args:
        scores: (N, K), of any kind.
        targets: (N, K): 1 present, 0 absent, -1 unknown, which are left out.
        per: "row" takes the score of each row's one label and the largest of its others, and finds the threshold at
            which the most rows are exact matches; rows without a label are left out. "cell" takes all cells.
        bins: The number of bins. They reach over all but the outermost thousandth of the scores of present and
            of absent labels at either end, which are counted in the outer bins.
        learned: The threshold that the model has learned, to be drawn as well.

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

    check_per(per)
    bins = check_int("bins", bins, low=1)
    scores = as_scores("count_scores", scores)
    targets = as_targets("count_scores", targets, scores)
    present, absent, best = _scores_by_row(scores, targets) if per == "row" else _scores_by_cell(scores, targets)
    if not len(present) + len(absent):
        hint = "Pass rows with labels, or `per='cell'`."
        raise InputError("scores", rule="have finite scores of known cells", got="none", hint=hint)
    # For each side by itself, because the many absent cells would push most present ones out.
    sides = [side for side in (present, absent) if len(side)]
    low = min(np.quantile(side, OUTLIER_SHARE, method="lower") for side in sides)
    high = max(np.quantile(side, 1 - OUTLIER_SHARE, method="higher") for side in sides)
    edges = np.linspace(low, high, bins + 1) if low < high else np.linspace(low - 0.5, low + 0.5, bins + 1)
    counts = [np.histogram(side.clip(edges[0], edges[-1]), edges)[0].tolist() for side in (present, absent)]
    named = dict(zip(("present", "absent"), counts, strict=True))
    return {"per": per, "edges": edges.tolist(), **named, "best": best, "learned": learned}


def check_per(per: str) -> None:
    """Raises unless `per` is "row" or "cell"."""
    if per not in SCORE_TITLES:
        raise InputError(
            "per", rule=f"be one of {', '.join(map(repr, SCORE_TITLES))}", got=repr(per), hint="Pick one of these."
        )


def read_histogram(argument: str, value: Any, per: str, bins: int) -> ScoreHistogram:
    """The histogram of scores and targets, or one computed before."""
    check_per(per)
    if isinstance(value, tuple | list) and len(value) == 2:
        value = count_scores(*value, per=per, bins=bins)
    if not isinstance(value, Mapping):
        rule = "be scores with their targets, or a histogram"
        raise InputError(argument, rule=rule, got=type(value).__name__, hint=SCORES_HINT)
    check_keys(argument, value, ("edges", "present", "absent"), SCORES_HINT)
    present, absent = (read_counts(f"{argument}[{key!r}]", value[key]) for key in ("present", "absent"))
    read_same(f"{argument}['absent']", absent, len(present))
    check_per(value.get("per", per))
    edges = read_edges(f"{argument}['edges']", value["edges"], len(present))
    lines = [_read_threshold(f"{argument}[{key!r}]", value.get(key)) for key in ("best", "learned")]
    return ScoreHistogram(edges, present, absent, value.get("per", per), *lines)


def _scores_by_row(scores: Any, targets: Any) -> tuple[Any, Any, float | None]:
    """The score of each row's label, the largest other one, and the best threshold for all rows."""
    from manyhot.decide.thresholds import row_intervals
    from manyhot.metrics import UniformAccuracy

    if bool(((targets == 1).sum(1) > 1).any()):
        rule = "have at most one label per row for per='row'"
        raise InputError("targets", rule=rule, got="a row with several", hint="Pass per='cell' to count all cells.")
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
    return None if value is None else read_numbers(argument, [value])[0]


class SetSizes(NamedTuple):
    """How many rows have 0, 1, 2, ... labels, and the mean number of labels."""

    counts: list[int]
    mean: float


@owned("count_sizes")
def count_sizes(decisions: Any) -> list[int]:
    """How many rows have 0, 1, 2, ... labels, as a list that can be stored as JSON.

    Args:
        decisions: The decisions of a rule, (N, K) of booleans, or the sizes themselves, (N,) of whole numbers.

    Example:
        >>> from manyhot.report import count_sizes
        >>> count_sizes(torch.tensor([[True, False, True], [False, False, False], [True, True, False]]))
        [1, 0, 2]
    """
    return _count_sizes("decisions", decisions)


def _read_sizes(argument: str, value: Any) -> dict[str, SetSizes]:
    """The sizes of each group of a model; a model without groups has one with an empty name."""
    if not isinstance(value, Mapping) or "counts" in value:
        return {"": _read_size_counts(argument, value)}
    return {
        name: _read_size_counts(f"{argument}[{name!r}]", one) for name, one in check_mapping(argument, value).items()
    }


def _read_size_counts(argument: str, value: Any) -> SetSizes:
    if not isinstance(value, Mapping):
        counts = _count_sizes(argument, value)
        return SetSizes(counts, _mean_size(counts))
    check_keys(argument, value, ("counts",), 'Pass decisions, sizes, or what `count_sizes` returned as "counts".')
    counts = read_counts(f"{argument}['counts']", value["counts"])
    if not sum(counts):
        hint = "Leave out models and groups without rows."
        raise InputError(f"{argument}['counts']", rule="count at least one row", got="none", hint=hint)
    if value.get("mean") is None:
        return SetSizes(counts, _mean_size(counts))
    return SetSizes(counts, *read_numbers(f"{argument}['mean']", [value["mean"]]))


def _mean_size(counts: list[int]) -> float:
    return sum(size * count for size, count in enumerate(counts)) / sum(counts)


def _count_sizes(argument: str, value: Any) -> list[int]:
    labels = getattr(value, "labels", value)
    if getattr(labels, "ndim", 1) == 2:
        if not str(labels.dtype).endswith("bool"):
            hint = "Pass the result of a rule, such as `Threshold(0.5)(probs)`."
            raise InputError(argument, rule="be decisions, (N, K) of booleans", got=f"{labels.dtype}", hint=hint)
        labels = labels.sum(1)
    sizes = Counter(read_counts(argument, labels))
    if not sizes:
        raise InputError(
            argument, rule="have at least one row", got="none", hint="Leave out models and groups without rows."
        )
    return [sizes[size] for size in range(max(sizes) + 1)]


ZERO_LABELS_HINT = "Pass (probs, targets), or what `count_zero_labels` returned."
SIDE_TITLES = {"in": "with labels (IN)", "out": "without labels (OUT)"}


class ConfidenceCounts(NamedTuple):
    """Rows of one kind by their largest probability, and its mean; NaN without rows."""

    counts: list[int]
    mean: float


class ZeroLabelHistogram(NamedTuple):
    """Rows with and without labels by their largest probability, and how well it separates them."""

    edges: list[float]
    sides: dict[str, ConfidenceCounts]
    auroc: float


@owned("count_zero_labels")
def count_zero_labels(values: Any, targets: Any, *, bins: int = 40) -> dict[str, Any]:
    """Histograms of the largest probability of rows with and of rows without labels, to store as JSON.

    Args:
        values: (N, K), probabilities.
        targets: (N, K): 1 present, 0 absent, -1 unknown, which are left out; so are rows without a known cell.
        bins: The number of bins from 0 to 1.

    Returns:
        "edges" (bins + 1); how many rows with labels, "in", and without, "out", lie between them; their mean largest
        probability, "mmc_in" and "mmc_out"; and "auroc", the chance that a row with labels has the larger one. Values
        without rows are None.

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

    bins = check_int("bins", bins, low=1)
    probs = as_probs("count_zero_labels", values, name="values")
    metric = OpenSetScores().update(probs, as_targets("count_zero_labels", targets, probs, of="values"))
    rows = {"in": metric.concatenated("inside").double(), "out": metric.concatenated("outside").double()}
    if not any(map(len, rows.values())):
        hint = "Pass rows with known cells."
        raise InputError("values", rule="have rows with known cells", got="none", hint=hint)
    edges = np.linspace(0, 1, bins + 1)
    auroc = metric.compute()["auroc"]
    return {
        "edges": edges.tolist(),
        **{side: np.histogram(result.cpu().numpy(), edges)[0].tolist() for side, result in rows.items()},
        **{f"mmc_{side}": float(result.mean()) if len(result) else None for side, result in rows.items()},
        "auroc": None if math.isnan(auroc) else auroc,
    }


def read_zero_labels(argument: str, value: Any, bins: int) -> ZeroLabelHistogram:
    """The histograms of probabilities and targets, or those computed before."""
    if isinstance(value, tuple | list) and len(value) == 2:
        value = count_zero_labels(*value, bins=bins)
    if not isinstance(value, Mapping):
        rule = "be probabilities with their targets, or histograms"
        raise InputError(argument, rule=rule, got=type(value).__name__, hint=ZERO_LABELS_HINT)
    check_keys(argument, value, ("edges", *SIDE_TITLES), ZERO_LABELS_HINT)
    counts = {side: read_counts(f"{argument}[{side!r}]", value[side]) for side in SIDE_TITLES}
    read_same(f"{argument}['out']", counts["out"], len(counts["in"]))
    edges = read_edges(f"{argument}['edges']", value["edges"], len(counts["in"]))
    keys = ("mmc_in", "mmc_out", "auroc")
    means = {key: read_numbers(f"{argument}[{key!r}]", [value.get(key)], gaps=True)[0] for key in keys}
    sides = {side: ConfidenceCounts(counts[side], means[f"mmc_{side}"]) for side in SIDE_TITLES}
    return ZeroLabelHistogram(edges, sides, means["auroc"])


PAIRS_HINT = "Pass what `count_pairs` returned, or a table (K, K) of how many rows have both labels."


@owned("count_pairs")
def count_pairs(targets: Any, *, most: int = 100) -> dict[str, Any]:
    """How many rows have both of two labels, for the most frequent labels; as lists that can be stored as JSON.

    Args:
        targets: (N, K): 1 present, 0 absent, -1 unknown, which is not counted.
        most: The maximum number of labels; all pairs of very many labels would fill the memory.

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

    most = check_int("most", most, low=1)
    table = as_tensor("count_pairs", targets, "targets")
    if table.ndim != 2:
        hint = "Pass one row per sample and one column per label."
        raise InputError("targets", rule="be (N, K)", got=str(tuple(table.shape)), hint=hint)
    present = as_targets("count_pairs", table, table) == 1
    chosen = present.sum(0).argsort(descending=True, stable=True)[:most]
    # In chunks: as float64, in which sums of ones are exact, the whole table would be eight times as large.
    together = sum(
        (part.double().T @ part.double() for part in present[:, chosen].split(1 << 14)),
        start=torch.zeros(len(chosen), len(chosen), dtype=torch.float64, device=present.device),
    )
    return {"labels": chosen.tolist(), "together": together.long().tolist()}


def read_pairs(counts: Any, names: Sequence[str]) -> tuple[list[list[int]], list[str], list[int]]:
    """The table of pairs, and the names and columns of its labels."""
    stored = isinstance(counts, Mapping)
    if stored:
        check_keys("counts", counts, ("labels", "together"), PAIRS_HINT)
    rows = counts["together"] if stored else counts
    rows = rows.tolist() if hasattr(rows, "tolist") else rows
    if not isinstance(rows, list | tuple):
        raise InputError("counts", rule="be a table of pairs", got=type(rows).__name__, hint=PAIRS_HINT)
    table = [read_counts(f"counts[{index}]", row) for index, row in enumerate(rows)]
    indices = read_counts("counts['labels']", counts["labels"]) if stored else list(range(len(table)))
    for row in table:
        if len(row) != len(table) or len(indices) != len(table):
            raise InputError("counts", rule="be as wide as high", got=f"{len(table)} by {len(row)}", hint=PAIRS_HINT)
    check_pairs(table)
    needed = max(indices, default=-1) + 1 if stored else len(table)
    if len(names) < needed or (not stored and len(names) != needed):
        hint = "Pass one name for each label, in their order."
        raise InputError("names", rule=f"be those of the {needed} labels", got=str(len(names)), hint=hint)
    return table, [str(names[index]) for index in indices], indices


def check_pairs(table: list[list[int]]) -> None:
    """Raises if a pair has a larger count than one of its labels."""
    for index, row in enumerate(table):
        if max(row, default=0) > row[index]:
            got = f"{max(row)} against {row[index]} in row {index}"
            raise InputError(
                "counts", rule="have the largest number of a row in the diagonal", got=got, hint=PAIRS_HINT
            )
