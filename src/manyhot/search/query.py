"""A query on its own, for probabilities without a collection."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from manyhot.errors import InputError
from manyhot.search.diagram import compile_query
from manyhot.search.evaluate import LOG_ODDS, PROBS, Encoding, log_probs, match_targets
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

        The relative error is about 1e-12, also of probabilities too small for a float. It is not differentiable.

        Args:
            log_odds: (N, K), as returned by `link.log_odds(scores)`; infinite for certain labels.
        """
        from manyhot.checks import as_scores

        return self._log_probs(as_scores(OWNER, log_odds, name="log_odds"), "log_odds", LOG_ODDS)

    def probs(self, probs: Any) -> Tensor:
        """(N,) in float64, the probability that each sample matches.

        Args:
            probs: (N, K), as returned by a link or a calibrator.
        """
        from manyhot.checks import as_probs

        return self._log_probs(as_probs(OWNER, probs), "probs", PROBS).exp()

    def matches(self, targets: Any) -> Tensor:
        """(N,) as int8: 1 where a sample matches, 0 where not, -1 where that depends on unknown labels.

        Args:
            targets: (N, K): 1 present, 0 absent, -1 unknown.
        """
        import torch

        from manyhot.checks import as_targets, as_tensor

        cells = as_tensor(OWNER, targets, "targets")
        checked = self._checked(as_targets(OWNER, cells, cells), "targets")
        return torch.from_numpy(match_targets(self._diagram, checked.cpu().numpy())).to(checked.device)

    def __repr__(self) -> str:
        return f"Query({self.text!r})"

    def _log_probs(self, cells: Tensor, argument: str, encoding: Encoding) -> Tensor:
        import torch

        values = self._checked(cells, argument).detach().double().cpu().numpy()
        columns = {column: values[:, column] for column in self._diagram.columns}
        result = torch.from_numpy(log_probs(self._diagram, columns, len(values), encoding)[1])
        return result.to(cells.device) if cells.device.type != "mps" else result

    def _checked(self, cells: Tensor, argument: str) -> Tensor:
        """The cells, if they have the columns of all labels."""
        if cells.ndim != 2 or cells.shape[1] != self._num_labels:
            rule = f"be (N, {self._num_labels}) like the labels of the query"
            raise InputError(argument, OWNER, rule, str(tuple(cells.shape)), "Pass the columns of all labels.")
        return cells
