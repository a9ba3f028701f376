"""The value of calibrated probabilities for search: tag queries over the test rows of runs, in several readings.

Runs with the losses below, on the same rows, are made by `manyhot compare` or by

    python experiments/photos.py features.npz --name features --runs RUNS_FOLDER
        --set val=0.0731 batch_size=256 epochs=10 lr=0.002

Each leaves a folder with `predictions.parquet`. Its scores are read by a plain sigmoid, by the link of the loss, and by
the calibrator that was fitted on `val`; then all readings get the same queries, drawn with seed 0:

    python experiments/retrieval.py RUNS_FOLDER --out experiments/results

More queries make the margins smaller; on a GPU (--device cuda) ten thousand of each kind take seconds a reading.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

import manyhot as mh
from manyhot.metrics import Interval, MatchCounts, MetricResult, RetrievalCurve, stratified_mean
from manyhot.report import draw_counts, draw_retrieval, save_png
from manyhot.training.comparison import slug

LOSSES = ("BCE", "ASL", "two-way", "SPA", "SPA + LPR", "quasibinary")
SIGMOID, LINK, CALIBRATED = "plain sigmoid", "own link", "calibrated"
# The readings in the plots; the tables have all.
SHOWN = (
    ("ASL", SIGMOID),
    ("ASL", LINK),
    ("BCE", LINK),
    ("SPA", LINK),
    ("SPA + LPR", LINK),
    ("two-way", SIGMOID),
    ("two-way", CALIBRATED),
)
MOST, SEED = 5, 0


class Reading(NamedTuple):
    """The scores of one run in one reading, and their figures for search."""

    loss: str
    way: str
    curve: MetricResult
    counts: MetricResult
    single_coverage: float

    @property
    def name(self) -> str:
        return f"{self.loss}, {self.way}"


def readings_of(table: mh.Predictions) -> Iterator[tuple[str, Tensor]]:
    """The log-odds of all readings of a table of scores."""
    scores = table.scores
    assert scores is not None
    if not isinstance(table.link, mh.SigmoidLink):
        yield SIGMOID, scores
    if table.link is not None and not isinstance(table.link, mh.links.NoLink):
        yield LINK, table.link.log_odds(scores)
    if table.calibrator is not None:
        yield CALIBRATED, table.calibrator.log_odds(scores)


def judge(runs: Path, each: int, device: str = "cpu") -> list[Reading]:
    """All readings of all runs in the folder, by the same queries."""
    readings: list[Reading] = []
    targets: Tensor | None = None
    for loss in LOSSES:
        path = runs / slug(loss) / "predictions.parquet"
        if not path.is_file():
            continue
        table = mh.Predictions.open(path).read(split="test", kinds=["scores", "targets"])
        assert table.targets is not None
        if targets is not None and not table.targets.equal(targets):
            raise SystemExit(f"{path} has other test rows than the runs before; train all on the same data.")
        targets = table.targets
        for way, log_odds in readings_of(table):
            start = time.perf_counter()
            cells = log_odds.to(device), targets.to(device)
            metric = RetrievalCurve(MOST, each=each, seed=SEED).update(*cells)
            queries = metric.queries(targets.shape[1])
            counts = on_cpu(MatchCounts(queries).update(*cells).compute())
            singles = float(counts.details["within"][queries.lengths() == 1].double().mean())
            readings.append(Reading(loss, way, on_cpu(metric.compute()), counts, singles))
            print(
                f"{readings[-1].name}: {100 * readings[-1].curve.value:.2f} %, {time.perf_counter() - start:.0f} s",
                flush=True,
            )
    if not readings:
        raise SystemExit(f"{runs} holds no runs such as {slug(LOSSES[0])}/predictions.parquet; see --help.")
    return readings


def on_cpu(result: MetricResult) -> MetricResult:
    """The same, with its tensors on the CPU."""
    return MetricResult(result.values, result.counts, {name: value.cpu() for name, value in result.details.items()})


def difference(one: Reading, other: Reading, each: int, num_labels: int) -> Interval:
    """The difference of the means over all queries, with an interval from the differences of each query."""
    queries = RetrievalCurve(MOST, each=each, seed=SEED).queries(num_labels)
    return stratified_mean(one.curve.details["by_query"] - other.curve.details["by_query"], queries, num_labels)


def with_margin(value: float, low: float, high: float) -> str:
    """A share in percent with half the width of its interval."""
    return f"{100 * value:.2f} ± {50 * (high - low):.2f}" if high > low else f"{100 * value:.2f}"


def precision_table(readings: list[Reading]) -> list[str]:
    """Mean average precision over all queries and by length, one row per reading."""
    lines = [
        "| loss | read by | all queries | " + " | ".join(f"{n} label{'s' * (n > 1)}" for n in range(1, MOST + 1)) + " |"
    ]
    lines.append("|---|---|" + "---|" * (MOST + 1))
    for reading in readings:
        details = reading.curve.details
        cells = [with_margin(reading.curve.value, *details["interval"].tolist())]
        ends = (details[key].tolist() for key in ("by_length", "low", "high"))
        cells += [with_margin(*numbers) for numbers in zip(*ends, strict=True)]
        lines.append(f"| {reading.loss} | {reading.way} | " + " | ".join(cells) + " |")
    return lines


def difference_table(readings: list[Reading], each: int, num_labels: int) -> list[str]:
    """The difference between each reading and a plain sigmoid, for the same scores."""
    lines = ["| loss | read by | more than by a plain sigmoid |", "|---|---|---|"]
    for loss in LOSSES:
        ways = {reading.way: reading for reading in readings if reading.loss == loss}
        # The link of BCE is the sigmoid.
        plain = ways.get(SIGMOID, ways.get(LINK))
        for reading in ways.values():
            if plain is not None and reading is not plain:
                more = difference(reading, plain, each, num_labels)
                lines.append(f"| {loss} | {reading.way} | {with_margin(more.value, more.low, more.high)} |")
    return lines


def count_table(readings: list[Reading]) -> list[str]:
    """Expected against true match counts, one row per reading."""
    lines = [
        "| loss | read by | expected / true | error, a factor | bias, a factor "
        "| in the 95 % interval | single labels in it |",
        "|---|---|---|---|---|---|---|",
    ]
    for reading in readings:
        values = reading.counts.values
        factors = " | ".join(f"{math.exp(values[name]):.2f}" for name in ("count_error", "count_bias"))
        lines.append(
            f"| {reading.loss} | {reading.way} | {values['count_ratio']:.2f} | {factors} | "
            f"{100 * values['count_coverage']:.1f} % | {100 * reading.single_coverage:.1f} % |"
        )
    return lines


def about(curve: MetricResult, each: int, rows: int, num_labels: int) -> list[str]:
    """A description of the queries."""
    total = sum(mh.metrics.count_queries(num_labels, MOST).values())
    judged, without = curve.counts.values()
    return [
        f"Queries name up to {MOST} of {num_labels} labels as present or absent, at least one as present: {total:,}.",
        "A kind are those of so many present and so many absent labels. Of each kind",
        f"up to {each:,} were drawn, {judged + without:,} together, of which",
        f"{without:,} match none of the {rows:,} test rows and have no average precision; the others",
        "stand for all of their kind. Margins are half the width of 95 % intervals: they speak of drawing queries, not",
        "of other rows or of training again. One seed. Calibrators were fitted on `val`. Made by",
    ]


def page(readings: list[Reading], each: int, rows: int, num_labels: int) -> str:
    """The tables as Markdown."""
    text = [
        "# Search by tags",
        "",
        *about(readings[0].curve, each, rows, num_labels),
        "",
        f"    python experiments/retrieval.py RUNS_FOLDER --each {each}",
        "",
        "## Mean average precision %",
        "",
        *precision_table(readings),
        "",
        "![Mean average precision by the number of labels in a query](retrieval.png)",
        "",
        "## The same scores, read otherwise",
        "",
        "Differences of mean average precision in percentage points, query by query.",
        "",
        *difference_table(readings, each, num_labels),
        "",
        "## Expected and true numbers of matches",
        "",
        "Over the same queries, each counting once, also those without a match. `expected / true` compares the sums",
        "over all queries. The error is the mean of |log((expected + 1/2) / (true + 1/2))|, the bias the same without",
        "the bars; both as factors. The interval, that of the Poisson-binomial distribution, takes the probabilities",
        "as exact and labels as independent given the photo. Where it misses single labels, the former is wrong: a",
        "calibrator fitted on fewer rows than are evaluated here is itself off by more than such counts scatter.",
        "",
        *count_table(readings),
        "",
        "![Expected against true numbers of matches](retrieval-counts.png)",
    ]
    missing = [loss for loss in LOSSES if loss not in {reading.loss for reading in readings}]
    if missing:
        text += ["", f"Not run: {', '.join(missing)}."]
    return "\n".join(text) + "\n"


def as_json(reading: Reading) -> dict[str, Any]:
    """All figures but those of single queries."""
    curve, counts = reading.curve, reading.counts
    details = {name: values.tolist() for name, values in curve.details.items() if name != "by_query"}
    return {
        "loss": reading.loss,
        "read by": reading.way,
        "precision": curve.values | details,
        "queries": curve.counts,
        "counts": counts.values | {"count_coverage_of_single_labels": reading.single_coverage},
    }


def write(readings: list[Reading], text: str, out: Path) -> None:
    """Page, JSON and plots."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "retrieval.md").write_text(text)
    (out / "retrieval.json").write_text(json.dumps([as_json(reading) for reading in readings], indent=1) + "\n")
    by_name = {(reading.loss, reading.way): reading for reading in readings}
    shown = [by_name[name] for name in SHOWN if name in by_name] or readings
    for name, figure in (
        ("retrieval.png", draw_retrieval({reading.name: reading.curve for reading in shown})),
        ("retrieval-counts.png", draw_counts({reading.name: reading.counts for reading in shown})),
    ):
        save_png(figure, out / name, dpi=130)


def run(runs: Path, out: Path, each: int, device: str = "cpu") -> None:
    """The whole experiment."""
    readings = judge(runs, each, device)
    table = mh.Predictions.open(runs / slug(readings[0].loss) / "predictions.parquet").of_split("test")
    write(readings, page(readings, each, len(table), len(table.labels.names)), out)
    print(f"Wrote {out / 'retrieval.md'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="folder of the runs, one a loss")
    parser.add_argument("--out", type=Path, default=Path("experiments/results"), help="folder of the results")
    parser.add_argument("--each", type=int, default=1000, help="queries drawn of each kind")
    parser.add_argument("--device", default="cpu", help="where queries are evaluated, such as cuda (default: cpu)")
    options = parser.parse_args()
    run(options.runs, options.out, options.each, options.device)


if __name__ == "__main__":
    main()
