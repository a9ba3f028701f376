"""Average precision of many tag queries: beside scikit-learn, one query after the other.

python benchmarks/retrieval.py [--rows 5000] [--labels 20] [--queries 0] [--peer-queries 200] [--device cpu]

Without --queries, all queries of up to five labels are judged: 561,869 for 20 labels. The peer judges some of them; its
time for all is in proportion. Both must agree.
"""

import argparse
import time
from collections.abc import Sequence

import numpy as np
import torch
from sklearn.metrics import average_precision_score

from manyhot.metrics import RetrievalPrecision, TagQuery, all_queries, sample_queries


def draw(rows: int, labels: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-odds, and targets that come true with their probabilities; about three labels a row."""
    generator = torch.Generator().manual_seed(0)
    rates = torch.empty(labels).uniform_(-5, -0.5, generator=generator)
    log_odds = 2 * torch.randn(rows, labels, generator=generator) + rates
    return log_odds, (torch.rand(rows, labels, generator=generator) < log_odds.sigmoid()).int()


def by_scikit_learn(log_odds: torch.Tensor, targets: torch.Tensor, queries: Sequence[TagQuery]) -> list[float]:
    """The definition, by way of a library."""
    present, absent = (torch.nn.functional.logsigmoid(factor * log_odds.double()).numpy() for factor in (1, -1))
    truth = targets.numpy()
    values = []
    for query in queries:
        some, none = list(query.present), list(query.absent)
        relevant = (truth[:, some] == 1).all(1) & (truth[:, none] == 0).all(1)
        scores = present[:, some].sum(1) + absent[:, none].sum(1)
        values.append(average_precision_score(relevant, scores) if relevant.any() else np.nan)
    return values


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5000, help="samples (default: 5000)")
    parser.add_argument("--labels", type=int, default=20, help="labels (default: 20)")
    parser.add_argument("--queries", type=int, default=0, help="how many to draw instead of taking all")
    parser.add_argument("--peer-queries", type=int, default=200, help="how many the peer judges (default: 200)")
    parser.add_argument("--device", default="cpu", help="where ours are judged (default: cpu)")
    options = parser.parse_args()
    log_odds, targets = draw(options.rows, options.labels)
    queries = sample_queries(options.labels, options.queries) if options.queries else all_queries(options.labels)
    start = time.perf_counter()
    metric = RetrievalPrecision(queries).update(log_odds.to(options.device), targets.to(options.device))
    result = metric.compute()
    ours = time.perf_counter() - start
    indices = np.linspace(0, len(queries) - 1, options.peer_queries).astype(int)
    start = time.perf_counter()
    expected = by_scikit_learn(log_odds, targets, [queries[index] for index in indices])
    peer = (time.perf_counter() - start) / len(indices) * len(queries)
    np.testing.assert_allclose(result.details["by_query"].cpu().numpy()[indices], expected, atol=1e-9)
    print(f"{len(queries):,} queries over {options.rows:,} samples x {options.labels} labels, mAP {result.value:.4f}")
    print(
        f"ours on {options.device} {ours:.1f} s; scikit-learn {peer:.0f} s (from {len(indices)}), {peer / ours:.0f} x"
    )


if __name__ == "__main__":
    main()
