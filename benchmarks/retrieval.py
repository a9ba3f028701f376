"""Average precision of many tag queries: beside scikit-learn, one query after the other.

python benchmarks/retrieval.py [--rows 5000] [--labels 20] [--queries 0] [--peer-queries 200] [--device cpu] [--small]

Without --queries, all queries of up to five labels are judged: 561,869 for 20 labels. The peer judges some of them; its
time for all is in proportion. Both must agree.
"""

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.metrics import average_precision_score
from timing import meter, print_times, read_options, write_figures

from manyhot.metrics import MetricResult, RetrievalPrecision, TagQuery, all_queries, sample_queries

OURS = "RetrievalPrecision"


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
    options = read_options(
        __doc__,
        rows=(5000, 100, "samples"),
        labels=(20, 5, "labels"),
        queries=(0, 0, "how many to draw instead of taking all"),
        peer_queries=(200, 5, "how many the peer judges"),
        device=("cpu", "cpu", "where ours are judged"),
    )
    log_odds, targets = draw(options.rows, options.labels)
    queries = sample_queries(options.labels, options.queries) if options.queries else all_queries(options.labels)

    def by_manyhot() -> MetricResult:
        cells = log_odds.to(options.device), targets.to(options.device)
        return RetrievalPrecision(queries).update(*cells).compute()

    ours = meter(by_manyhot)
    indices = np.linspace(0, len(queries) - 1, options.peer_queries).astype(int)
    peer = meter(by_scikit_learn, log_odds, targets, [queries[index] for index in indices])
    found = ours["result"].details["by_query"].cpu().numpy()[indices]
    np.testing.assert_allclose(found, peer["result"], atol=1e-9)
    of_all = peer["seconds"] / len(indices) * len(queries)
    seconds = {OURS: [ours["seconds"]], f"scikit-learn, from {len(indices)} queries": [of_all]}
    size = f"{options.rows:,} samples x {options.labels} labels"
    print(f"{len(queries):,} queries over {size} on {options.device}, mAP {ours['result'].value:.4f}\n")
    print_times(seconds, {OURS: "ours"})
    write_figures(options, {"seconds": seconds, "queries": len(queries)})


if __name__ == "__main__":
    main()
