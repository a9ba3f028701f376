"""How the families of test vectors of metrics are computed: case in, named results out."""

import torch

from manyhot import metrics
from manyhot.metrics.metric import mean_of_defined
from manyhot.metrics.retrieval import Samples


def average_precision_by_index(scores, targets):
    """Ties broken by the lower index, which the package does not offer because the order of samples would matter."""
    order = scores.sort(descending=True, stable=True).indices
    hits = targets[order].double()
    return float((hits * hits.cumsum(0) / torch.arange(1, len(hits) + 1)).sum() / hits.sum())


def mean_average_precision(case):
    scores, targets = case.tensor("scores"), case.targets
    by_index = {
        "map_class_by_index": [average_precision_by_index(s, t) for s, t in zip(scores.T, targets.T, strict=True)],
        "map_sample_by_index": [average_precision_by_index(s, t) for s, t in zip(scores, targets, strict=True)],
    }
    outcome = metrics.MeanAveragePrecision().update(scores, targets).compute()
    return {
        "ap_class": outcome.details["by_label"],
        "map_class": outcome["map"],
        "ap_sample": metrics.sample_average_precision(scores, targets),
        "map_sample": metrics.MeanAveragePrecision(average="samples").update(scores, targets).compute()["map"],
        **{name: mean_of_defined(torch.tensor(values, dtype=torch.float64)) for name, values in by_index.items()},
    }


def retrieval(case):
    log_odds, targets = case.tensor("logits"), case.targets
    queries = metrics.TagQueries.of([(query["P"], query["N"]) for query in case.inputs["queries"]])
    samples = Samples.of(log_odds, targets)
    clauses = samples.clauses(queries)
    outcome = metrics.RetrievalPrecision(queries).update(log_odds, targets).compute()
    rows = zip(
        samples.scores(clauses),
        samples.matches(clauses).int(),
        outcome.details["by_query"],
        strict=True,
    )
    return {
        "per_query": [
            {
                "log_scores": scores,
                "ranking": scores.sort(descending=True, stable=True).indices,
                "relevant": relevant,
                "ap": float(precision),
            }
            for scores, relevant, precision in rows
        ],
        "map": outcome["map"],
    }


def uniform_accuracy(case):
    values = case.tensor("metrics")
    targets = case.one_hot(values.shape[1])
    outcome = metrics.UniformAccuracy().update(values, targets).compute()
    rows = outcome.counts["rows"]
    low, high = outcome.details["region"].tolist()
    lows, highs = (outcome.details[name].tolist() for name in ("lows", "highs"))
    right = outcome.details["right"].tolist()
    present = outcome.details["rows"].nonzero().flatten().tolist()
    return {
        "n_sw": round(outcome["sample_wise_accuracy"] * rows),
        "n_cw": sum(right),
        "n_uni": round(outcome["uniform_accuracy"] * rows),
        "a_sw": outcome["sample_wise_accuracy"],
        "a_cw": outcome["class_wise_accuracy"],
        "a_uni": outcome["uniform_accuracy"],
        "t_lo": low,
        "t_hi": high,
        "per_class": {str(k): {"n": right[k], "t_lo": lows[k], "t_hi": highs[k]} for k in present},
    }


def zero_label(case):
    metric = metrics.OpenSetScores()
    for name, mark in (("probs_in", 1), ("probs_out", 0)):
        if case.inputs[name]:
            probs = case.tensor(name)
            metric.update(probs, torch.full(probs.shape, mark))
    outcome = metric.compute()
    return {"mmc": outcome["mmc"], "auroc": outcome["auroc"]}


COVERED = {
    "mean_average_precision": mean_average_precision,
    "retrieval": retrieval,
    "uniform_accuracy": uniform_accuracy,
    "zero_label": zero_label,
}
