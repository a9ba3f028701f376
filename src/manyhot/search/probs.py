"""Probabilities of a formula for many samples at once, by torch."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from manyhot.checks import kind_of
from manyhot.refusal import refusal
from manyhot.search.evaluation import evaluate
from manyhot.search.program import Program
from manyhot.search.steps import Tally

_SAFE = 1e-280  # above this a probability has lost nothing to products that were too small for a float64
_CELLS = 1 << 22  # values that are held at a time, 32 MiB


@torch.no_grad()
def log_probs(program: Program, log_odds: Tensor) -> Tensor:
    """The logarithm of the probability that a formula holds, for labels that are independent given the sample.

    The logarithm is right to a relative error of about 1e-12, also for probabilities far too small for a float, and for
    those as near to 1 as 1 - 1e-300; so samples are ranked by it without false ties. No gradient goes through it.

    Args:
        program: The formula, compiled.
        log_odds: (N, L), one column for each of `program.columns`, in their order. Infinite ones are fine: they mean
            that a label is certainly there or certainly not.

    Returns:
        (N,) in float64.

    Example:
        >>> from manyhot.search.program import compile_formula
        >>> from manyhot.search.formula import Or, Present
        >>> either = compile_formula(Or((Present(0), Present(1))), 2)
        >>> log_probs(either, torch.tensor([[0.0, 0.0], [40.0, 40.0]]))
        tensor([-2.8768e-01, -1.8049e-35], dtype=torch.float64)
    """
    _check(program, log_odds)
    result = torch.empty(len(log_odds), dtype=torch.float64, device=log_odds.device)
    size = max(_CELLS // _width(program), 64)
    for start in range(0, len(log_odds), size):
        chunk = log_odds[start : start + size].double().T.contiguous()
        result[start : start + size] = _by_numbers(program, chunk)
    return result


def _check(program: Program, log_odds: Tensor) -> None:
    """Refuses what is no table of log-odds for the columns of the program."""
    if not isinstance(log_odds, Tensor) or not log_odds.is_floating_point():
        rule, remedy = "be a tensor of floating-point numbers", "Call `.float()` on it."
        raise refusal("log_odds", "log_probs", rule, kind_of(log_odds), remedy)
    columns = len(program.columns)
    if log_odds.ndim != 2 or log_odds.shape[1] != columns:
        rule, remedy = f"be (N, L) with L = {columns}", "Pass the columns `program.columns`."
        raise refusal("log_odds", "log_probs", rule, str(tuple(log_odds.shape)), remedy)
    if log_odds.isnan().any():
        raise refusal("log_odds", "log_probs", "be numbers", "NaN", "Leave these samples out.")


def _width(program: Program) -> int:
    """How many values a sample needs at a time."""
    live = widest = 0
    for step, done in zip(program.steps, program.last_uses, strict=True):
        live += step.most + len(step.parts) if isinstance(step, Tally) else 1
        widest = max(widest, live)
        live -= len(done)
    return 2 * (widest + len(program.columns)) + 1


def _by_numbers(program: Program, log_odds: Tensor) -> Tensor:
    """Plain numbers, which are fast; logarithms of every step only for samples where a number may have vanished."""
    rows = {column: row for row, column in enumerate(program.columns)}
    zero = log_odds.new_zeros(log_odds.shape[1])
    probs, opposite = torch.sigmoid(log_odds), torch.sigmoid(-log_odds)
    holds, fails = evaluate(program, _Plain(zero), lambda column: (probs[rows[column]], opposite[rows[column]]))
    result = torch.where(holds < fails, holds.log(), torch.log1p(-fails.clamp(max=1)))
    lost = (torch.minimum(holds, fails) < _SAFE).nonzero().squeeze(1)
    if len(lost):
        result[lost] = _by_logs(program, log_odds[:, lost], rows)
    return result


def _by_logs(program: Program, log_odds: Tensor, rows: dict[int, int]) -> Tensor:
    one = log_odds.new_zeros(log_odds.shape[1])
    probs, opposite = logsigmoid(log_odds), logsigmoid(-log_odds)
    if program.is_conjunction:
        wanted = [probs[rows[column]] if present else opposite[rows[column]] for column, present in program.literals]
        return torch.stack(wanted).sum(0) if wanted else one
    holds, fails = evaluate(program, _Logs(one), lambda column: (probs[rows[column]], opposite[rows[column]]))
    # Near 1 the logarithm follows from the opposite, which has all its digits.
    return torch.where(holds < fails, holds, torch.log1p(-fails.exp().clamp(max=0.5)))


class _Plain:
    """Probabilities."""

    def __init__(self, zero: Tensor) -> None:
        self.zero = zero
        self.one = zero + 1

    def plus(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        return left * right


class _Logs:
    """Logarithms of probabilities."""

    def __init__(self, one: Tensor) -> None:
        self.one = one
        self.zero = one - math.inf

    def plus(self, left: Tensor, right: Tensor) -> Tensor:
        return torch.logaddexp(left, right)

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        return left + right
