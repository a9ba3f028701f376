"""Why true match counts fall outside their intervals too often: the number of rows that the calibrator is fitted on.

The test rows of a run are cut in two at random. Calibrators are fitted on the rows of `val`, on one half of the test
rows, and on the very half that is evaluated, which no real calibrator has; then the match counts in that half are
compared with their intervals:

    python experiments/count_intervals.py RUNS_FOLDER/bce --out experiments/results
"""

import argparse
from pathlib import Path

import torch

import manyhot as mh
from manyhot.metrics import MatchCounts, TagQueries, stratified_queries

SEED = 0


def coverage(calibrator: mh.Calibrator, table: mh.Predictions, queries: TagQueries) -> tuple[float, float]:
    """The share of true match counts within their 95 % intervals: for all queries, and for single labels."""
    counts = MatchCounts(queries).update(calibrator.log_odds(table.scores), table.targets).compute()
    within = counts.details["within"].double()
    return float(counts["count_coverage"]), float(within[queries.lengths() == 1].mean())


def judge(run: Path, each: int) -> list[tuple[str, int, float, float]]:
    """For each calibrator, the rows it was fitted on, their number, and the coverage of its intervals."""
    stored = mh.Predictions.open(run / "predictions.parquet")
    val, test = (stored.read(split=name, kinds=["scores", "targets"]) for name in ("val", "test"))
    order = torch.randperm(len(test), generator=torch.Generator().manual_seed(SEED))
    other, judged = (test.take(rows) for rows in order.tensor_split(2))
    queries = stratified_queries(len(test.labels), each, seed=SEED)
    results = []
    for name, table in (("`val`", val), ("other test rows", other), ("the rows that are evaluated", judged)):
        calibrator = mh.BetaCalibration(link=table.link).fit(table.scores, table.targets)
        results.append((name, len(table), *coverage(calibrator, judged, queries)))
    return results


def page(results: list[tuple[str, int, float, float]], each: int) -> str:
    """The table as Markdown."""
    lines = [
        "# Intervals of match counts, and what the calibrator has seen",
        "",
        f"`BetaCalibration()`, fitted on different rows; up to {each:,} queries of each kind.",
        f"Evaluated on {results[-1][1]:,} rows. Made by",
        "",
        f"    python experiments/count_intervals.py RUN --each {each}",
        "",
        "| fitted on | rows | in the 95 % interval | single labels in it |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {rows:,} | {100 * all_:.1f} % | {100 * single:.1f} % |" for name, rows, all_, single in results
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="folder of a run whose predictions have the splits val and test")
    parser.add_argument("--out", type=Path, default=Path("experiments/results"), help="folder of the results")
    parser.add_argument("--each", type=int, default=1000, help="queries drawn of each kind")
    options = parser.parse_args()
    text = page(judge(options.run, options.each), options.each)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "count-intervals.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
