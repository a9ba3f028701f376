"""A query on its own, for probabilities without a collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from manyhot.errors import InputError
from manyhot.search.diagram import compile_query
from manyhot.search.formula import format_query
from manyhot.search.parser import parse_query

if TYPE_CHECKING:
    from torch import Tensor

    from manyhot.labels import Labels

OWNER = "Query"


class Query:
    """A query whose probability is computed for each sample.

    Labels are assumed conditionally independent given the sample. Then the probability of a match is exact: a product
    where every label is named once, a sum over cases otherwise, and the Poisson-binomial distribution for counts.

    Args:
        text: Such as "dog & !(beach | park)", "only(cat, sofa)", "none", "count >= 3" or "atleast(2, cat, dog, bird)".
        labels: The names of the labels, in the order of the columns.

    Attributes:
        text: The query in its normal form.
        names: The labels that it depends on; all of them if it counts.

    Example:
        >>> query = mh.Query("dog and not (beach or park)", ["dog", "beach", "park"])
        >>> query
        Query('dog & !(beach | park)')
        >>> query.probs([[0.9, 0.1, 0.2], [0.5, 0.5, 0.5]])
        tensor([0.6480, 0.1250], dtype=torch.float64)
        >>> query.matches(torch.tensor([[1, 0, 0], [1, 0, -1], [0, -1, -1]]))
        tensor([ 1, -1,  0], dtype=torch.int8)
    """

    def __init__(self, text: str, labels: Sequence[str] | Labels) -> None:
        names = list(labels if isinstance(labels, Sequence) else labels.names)
        formula = parse_query(text, names)
        self.formula = formula
        self.text = format_query(formula, names)
        self._diagram = compile_query(formula, len(names))
        self._num_labels = len(names)
        self.names = [names[column] for column in self._diagram.columns]

    def log_probs(self, log_odds: Any) -> Tensor:
        """(N,) in float64, the logarithm of the probability; it still differs where probabilities round to 0 or 1.

        Args:
            log_odds: (N, K), as returned by `link.log_odds(scores)`; infinite for certain labels.
        """
        from manyhot.checks import as_scores
        from manyhot.search.tensors import log_probs

        cells = self._named(as_scores(OWNER, log_odds, name="log_odds"), "log_odds")
        return log_probs(self._diagram, cells)

    def probs(self, probs: Any) -> Tensor:
        """(N,) in float64, the probability that each sample matches.

        Args:
            probs: (N, K), as returned by a link or a calibrator.
        """
        import torch

        from manyhot.checks import as_probs
        from manyhot.search.tensors import log_probs

        cells = self._named(as_probs(OWNER, probs), "probs")
        return log_probs(self._diagram, torch.logit(cells.double())).exp()

    def matches(self, targets: Any) -> Tensor:
        """(N,) as int8: 1 where a sample matches, 0 where not, -1 where that depends on unknown labels.

        Args:
            targets: (N, K): 1 present, 0 absent, -1 unknown.
        """
        from manyhot.checks import as_targets, as_tensor
        from manyhot.search.tensors import match_targets

        cells = as_tensor(OWNER, targets, "targets")
        checked = as_targets(OWNER, cells, cells)
        return match_targets(self._diagram, self._named(checked, "targets"))

    def __repr__(self) -> str:
        return f"Query({self.text!r})"

    def _named(self, cells: Tensor, argument: str) -> Tensor:
        """The columns that the query depends on."""
        if cells.ndim != 2 or cells.shape[1] != self._num_labels:
            rule = f"be (N, {self._num_labels}) like the labels of the query"
            raise InputError(argument, OWNER, rule, str(tuple(cells.shape)), "Pass the columns of all labels.")
        return cells[:, list(self._diagram.columns)]
