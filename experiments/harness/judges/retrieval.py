"""Search by tags: how precision falls with the length of the query, by how scores are read."""

from typing import Any

import torch

from experiments.harness.judges.figures import number, numbers
from experiments.harness.judges.readings import CALIBRATED, LINK, SIGMOID, SOFTMAX, own_reading, readings
from experiments.harness.training import Outcome
from manyhot.metrics import RetrievalCurve, stratified_mean

READ_BY = (SIGMOID, SOFTMAX, LINK, CALIBRATED)
EACH, MOST, SEED = 600, 5, 0


def retrieval(
    outcome: Outcome, *, each: int = EACH, most: int = MOST, seed: int = SEED, device: str | None = None
) -> dict[str, Any]:
    """Mean average precision of queries by how many labels they name, with 95 % intervals, by reading.

    The same queries are asked of all outcomes with as many labels. "more" says by how much each reading is above the
    plain one, query by query.

    Args:
        outcome: Of a run.
        each: How many queries of each kind are drawn: of so many present and so many absent labels.
        most: How many labels a query may name.
        seed: Of the draw.
        device: Where queries are judged; a GPU if there is one, which is many times faster.
    """
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    targets = outcome.targets["test"].to(device)
    queries = RetrievalCurve(most, each=each, seed=seed).queries(targets.shape[1])
    by_reading, by_query = {}, {}
    for name, reading in readings(outcome, among=READ_BY).items():
        curve = RetrievalCurve(most, each=each, seed=seed).update(reading.log_odds().to(device), targets).compute()
        by_query[name] = curve.details["by_query"].cpu()
        by_reading[name] = {"map": number(curve["map"])} | {
            key: numbers(curve.details[key]) for key in ("interval", "by_length", "low", "high")
        }
        by_reading[name] |= {key: curve.details[key].tolist() for key in ("queries", "without_matches")}
    plain = next(iter(by_query))
    more = {
        name: stratified_mean(values - by_query[plain], queries, targets.shape[1])
        for name, values in by_query.items()
        if name != plain
    }
    return {
        "each": each,
        "seed": seed,
        "plain": plain,
        "own": own_reading(outcome.loss),
        "readings": by_reading,
        "more": {
            name: {"map": number(gap.value), "interval": [number(gap.low), number(gap.high)]}
            for name, gap in more.items()
        },
    }
