"""Random formulas, and what they mean by going through all sets of labels."""

import itertools

import numpy as np
from hypothesis import strategies

from manyhot.search.formula import And, Count, Label, Not, Or, holds


def formulas(num_labels):
    """Formulas over few labels, so that labels are repeated."""
    labels = strategies.integers(0, num_labels - 1).map(Label)
    limits = strategies.tuples(strategies.integers(-1, 4), strategies.none() | strategies.integers(0, 5))
    all_labels = limits.map(lambda limit: Count(*limit))

    def larger(part):
        several = strategies.lists(part, max_size=5).map(tuple)
        counted = strategies.tuples(limits, several).map(lambda drawn: Count(*drawn[0], drawn[1]))
        return part.map(Not) | several.map(And) | several.map(Or) | counted

    return strategies.recursive(labels | labels.map(Not) | all_labels, larger, max_leaves=14)


def tangles(num_labels):
    """Formulas whose parts all share labels: conjunctions and counts of short alternatives."""
    labels = strategies.integers(0, num_labels - 1).map(Label)
    literals = labels | labels.map(Not)
    pairs = strategies.lists(literals, min_size=2, max_size=3, unique=True).map(tuple)
    count = strategies.tuples(strategies.integers(0, 3), strategies.none() | strategies.integers(1, 4))
    part = pairs.map(Or) | pairs.map(And) | count.map(lambda limit: Count(*limit))
    parts = strategies.lists(part, min_size=2, max_size=6).map(tuple)
    counted = strategies.tuples(count, parts).map(lambda drawn: Count(*drawn[0], drawn[1]))
    return parts.map(And) | parts.map(Or) | counted


class Worlds:
    """All sets of labels with their weights for some rows of probabilities."""

    def __init__(self, present, absent):
        self.num_labels = present.shape[1]
        self.sets = [
            {column for column in range(self.num_labels) if there[column]}
            for there in itertools.product((False, True), repeat=self.num_labels)
        ]
        self.weights = np.array(
            [
                np.prod(np.where([column in labels for column in range(self.num_labels)], present, absent), axis=1)
                for labels in self.sets
            ]
        )

    def true(self, formula):
        """For each set whether the formula holds."""
        return np.array([holds(formula, labels) for labels in self.sets])

    def probs(self, formula):
        """That the formula holds, and that it does not, both without taking differences."""
        true = self.true(formula)
        return self.weights[true].sum(0), self.weights[~true].sum(0)

    def log_probs(self, formula):
        held, failed = self.probs(formula)
        with np.errstate(divide="ignore"):
            return np.where(held < failed, np.log(held), np.log1p(-np.minimum(failed, 0.5)))
