"""The metrics that compare as one writes them down: loops over cells, for comparison."""

import itertools
import math

import numpy as np

from manyhot.metrics import TagQuery


def mean(values):
    defined = [value for value in values if not math.isnan(value)]
    return sum(defined) / len(defined) if defined else math.nan


def average_precision(scores, targets):
    """Sum over distinct scores of the share of positives at the score times the precision down to it."""
    pairs = [(s, t) for s, t in zip(scores, targets, strict=True) if t >= 0]
    positives = sum(t for _, t in pairs)
    if not positives:
        return math.nan
    total = 0.0
    for level in {s for s, _ in pairs}:
        above = [t for s, t in pairs if s >= level]
        total += sum(t for s, t in pairs if s == level) / positives * sum(above) / len(above)
    return total


def auroc(scores, targets):
    """The share of pairs in the right order, ties one half."""
    present = [s for s, t in zip(scores, targets, strict=True) if t == 1]
    absent = [s for s, t in zip(scores, targets, strict=True) if t == 0]
    if not present or not absent:
        return math.nan
    return sum((p > n) + 0.5 * (p == n) for p in present for n in absent) / (len(present) * len(absent))


def coverage(scores, targets):
    present = [s for s, t in zip(scores, targets, strict=True) if t == 1]
    if not present:
        return math.nan
    return float(sum(t >= 0 and s >= min(present) for s, t in zip(scores, targets, strict=True)))


def ranking_loss(scores, targets):
    present = [s for s, t in zip(scores, targets, strict=True) if t == 1]
    absent = [s for s, t in zip(scores, targets, strict=True) if t == 0]
    if not present or not absent:
        return math.nan
    return sum(n >= p for p in present for n in absent) / (len(present) * len(absent))


def ranking_at(scores, targets, k):
    """Precision, recall and discounted gain of one row."""
    known = [i for i, t in enumerate(targets) if t >= 0]
    present = sum(targets[i] == 1 for i in known)
    if not present:
        return math.nan, math.nan, math.nan
    order = sorted(known, key=lambda i: (-scores[i], i))[:k]
    hits = [targets[i] == 1 for i in order]
    gain = sum(1 / math.log2(place + 2) for place, hit in enumerate(hits) if hit)
    best = sum(1 / math.log2(place + 2) for place in range(min(k, present)))
    return sum(hits) / k, sum(hits) / present, gain / best


def log_sigmoid(x):
    return -math.log1p(math.exp(-x)) if x >= 0 else x - math.log1p(math.exp(x))


def retrieval(log_odds, targets, query):
    """Average precision of one query, over the samples whose labels it names are known."""
    present, absent = query
    scores, relevant = [], []
    for row, marks in zip(log_odds, targets, strict=True):
        if all(marks[j] >= 0 for j in (*present, *absent)):
            scores.append(sum(log_sigmoid(row[j]) for j in present) + sum(log_sigmoid(-row[j]) for j in absent))
            relevant.append(int(all(marks[j] == 1 for j in present) and all(marks[j] == 0 for j in absent)))
    return average_precision(scores, relevant)


def ranked_precision(scores, relevant):
    """Average precision of scores without ties."""
    hits = relevant[np.argsort(-scores, kind="stable")]
    return (hits * np.cumsum(hits) / np.arange(1, len(hits) + 1)).sum() / hits.sum() if hits.any() else math.nan


def all_queries(num_labels, most):
    """All tag queries that name a present label and `most` labels at the most."""
    queries = []
    for size in range(1, most + 1):
        for labels in itertools.combinations(range(num_labels), size):
            for signs in itertools.product((1, 0), repeat=size):
                sides = [tuple(label for label, sign in zip(labels, signs, strict=True) if sign == s) for s in (1, 0)]
                if sides[0]:
                    queries.append(TagQuery(*sides))
    return queries


def uniform(scores, labels):
    """Counts of rows that are right with a threshold of their own, of their class, and of all; over all candidates."""
    intervals = []
    for row, label in zip(scores, labels, strict=True):
        others = [s for k, s in enumerate(row) if k != label]
        intervals.append((max(others, default=-math.inf), row[label]))
    sample_wise = sum(low < high for low, high in intervals)

    def best(chosen):
        return max((sum(low <= t < high for low, high in chosen) for t, _ in chosen), default=0)

    groups = [[pair for pair, own in zip(intervals, labels, strict=True) if own == label] for label in set(labels)]
    return sample_wise, sum(best(group) for group in groups), best(intervals)


def table(rows, labels, *, seed, levels=None, unknown=0.0, rate=0.3):
    """Scores and targets at random; with `levels`, scores of few values, so that many are equal."""
    draw = np.random.default_rng(seed)
    scores = draw.normal(size=(rows, labels)) if levels is None else draw.integers(levels, size=(rows, labels)) / levels
    targets = (draw.random((rows, labels)) < rate).astype(np.int8)
    targets[draw.random((rows, labels)) < unknown] = -1
    return scores, targets
