"""Log-probabilities of a compiled query, and which targets match it, for tensors."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from manyhot.checks import check_target_values, describe_type
from manyhot.errors import InputError, owned
from manyhot.search.diagram import Diagram, Tally
from manyhot.search.evaluate import evaluate

_SAFE = 1e-280  # above this a probability has lost nothing to products that were too small for a float64
_CELLS = 1 << 22  # values in memory at once, 32 MiB


@owned("log_probs")
@torch.no_grad()
def log_probs(diagram: Diagram, log_odds: Tensor) -> Tensor:
    """The logarithm of the probability that a formula holds, for labels that are independent given the sample.

    The logarithm has a relative error of about 1e-12, also for probabilities too small for a float and for those as
    near to 1 as 1 - 1e-300, so that ranking by it has no false ties. It is not differentiable.

    Args:
        diagram: The formula, compiled.
        log_odds: (N, L), one column for each of `diagram.columns`, in their order. Infinite values mean that a
            label is certainly present or certainly absent.

    Returns:
        (N,) in float64.

    Example:
        >>> from manyhot.search.diagram import compile_query
        >>> from manyhot.search.formula import Or, Label
        >>> either = compile_query(Or((Label(0), Label(1))), 2)
        >>> log_probs(either, torch.tensor([[0.0, 0.0], [40.0, 40.0]]))
        tensor([-2.8768e-01, -1.8049e-35], dtype=torch.float64)
    """
    _check_log_odds(diagram, log_odds)
    result = torch.empty(len(log_odds), dtype=torch.float64, device=log_odds.device)
    size = max(_CELLS // _width(diagram), 64)
    for start in range(0, len(log_odds), size):
        chunk = log_odds[start : start + size].double().T.contiguous()
        result[start : start + size] = _log_probs_of_chunk(diagram, chunk)
    return result


def _check_log_odds(diagram: Diagram, log_odds: Tensor) -> None:
    """Raises if `log_odds` is no table of log-odds for the columns of the diagram."""
    if not isinstance(log_odds, Tensor) or not log_odds.is_floating_point():
        rule, hint = "be a tensor of floating-point numbers", "Call `.float()` on it."
        raise InputError("log_odds", rule=rule, got=describe_type(log_odds), hint=hint)
    columns = len(diagram.columns)
    if log_odds.ndim != 2 or log_odds.shape[1] != columns:
        rule, hint = f"be (N, L) with L = {columns}", "Pass the columns `diagram.columns`."
        raise InputError("log_odds", rule=rule, got=str(tuple(log_odds.shape)), hint=hint)
    if log_odds.isnan().any():
        raise InputError("log_odds", rule="be numbers", got="NaN", hint="Leave these samples out.")


def _width(diagram: Diagram) -> int:
    """The largest number of values held per sample."""
    live = widest = 0
    for step, done in zip(diagram.steps, diagram.last_uses, strict=True):
        live += step.most + len(step.parts) if isinstance(step, Tally) else 1
        widest = max(widest, live)
        live -= len(done)
    return 2 * (widest + len(diagram.columns)) + 1


def _log_probs_of_chunk(diagram: Diagram, log_odds: Tensor) -> Tensor:
    """Plain probabilities, which are fast; the slower log space only for samples that may have underflowed."""
    rows = {column: row for row, column in enumerate(diagram.columns)}
    zero = log_odds.new_zeros(log_odds.shape[1])
    probs, opposite = torch.sigmoid(log_odds), torch.sigmoid(-log_odds)
    holds, fails = evaluate(
        diagram, _ProbabilitySemiring(zero), lambda column: (probs[rows[column]], opposite[rows[column]])
    )
    result = torch.where(holds < fails, holds.log(), torch.log1p(-fails.clamp(max=1)))
    underflowed = (torch.minimum(holds, fails) < _SAFE).nonzero().squeeze(1)
    if len(underflowed):
        result[underflowed] = _log_probs_in_log_space(diagram, log_odds[:, underflowed], rows)
    return result


def _log_probs_in_log_space(diagram: Diagram, log_odds: Tensor, rows: dict[int, int]) -> Tensor:
    one = log_odds.new_zeros(log_odds.shape[1])
    probs, opposite = logsigmoid(log_odds), logsigmoid(-log_odds)
    if diagram.is_conjunction:
        wanted = [probs[rows[column]] if present else opposite[rows[column]] for column, present in diagram.literals]
        return torch.stack(wanted).sum(0) if wanted else one
    holds, fails = evaluate(diagram, _LogSemiring(one), lambda column: (probs[rows[column]], opposite[rows[column]]))
    # Near 1 the logarithm follows from the opposite, which has all its digits.
    return torch.where(holds < fails, holds, torch.log1p(-fails.exp().clamp(max=0.5)))


class _ProbabilitySemiring:
    """Probabilities."""

    def __init__(self, zero: Tensor) -> None:
        self.zero = zero
        self.one = zero + 1

    def plus(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        return left * right


class _LogSemiring:
    """Logarithms of probabilities."""

    def __init__(self, one: Tensor) -> None:
        self.one = one
        self.zero = one - math.inf

    def plus(self, left: Tensor, right: Tensor) -> Tensor:
        return torch.logaddexp(left, right)

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right


@owned("match_targets")
@torch.no_grad()
def match_targets(diagram: Diagram, targets: Tensor) -> Tensor:
    """Whether samples match a formula, by their targets.

    Args:
        diagram: The formula, compiled.
        targets: (N, L), one column for each of `diagram.columns`, in their order: 1 present, 0 absent, -1 unknown.

    Returns:
        (N,) in int8: 1 for a match, 0 for none, -1 where it depends on targets that are unknown.

    Example:
        >>> from manyhot.search.diagram import compile_query
        >>> from manyhot.search.formula import Or, Label
        >>> either = compile_query(Or((Label(0), Label(1))), 2)
        >>> match_targets(either, torch.tensor([[1, -1], [0, -1], [0, 0]]))
        tensor([ 1, -1,  0], dtype=torch.int8)
    """
    if not isinstance(targets, Tensor) or targets.is_complex():
        rule = "be a tensor of real numbers"
        raise InputError("targets", rule=rule, got=describe_type(targets), hint="Pass a tensor.")
    columns = len(diagram.columns)
    if targets.ndim != 2 or targets.shape[1] != columns:
        rule, hint = f"be (N, L) with L = {columns}", "Pass the columns `diagram.columns`."
        raise InputError("targets", rule=rule, got=str(tuple(targets.shape)), hint=hint)
    check_target_values("match_targets", targets)
    rows = {column: row for row, column in enumerate(diagram.columns)}
    can, can_not = (targets != 0).T.contiguous(), (targets < 1).T.contiguous()
    nothing = targets.new_zeros(len(targets), dtype=torch.bool)
    holds, fails = evaluate(
        diagram, _BooleanSemiring(nothing), lambda column: (can[rows[column]], can_not[rows[column]])
    )
    return holds.to(torch.int8) - (holds & fails).to(torch.int8) * 2


class _BooleanSemiring:
    """Possibility given the known targets: True where a probability would not be zero."""

    def __init__(self, zero: Tensor) -> None:
        self.zero = zero
        self.one = ~zero

    def plus(self, left: Tensor, right: Tensor) -> Tensor:
        return left | right

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        return left & right
