"""Which samples match a formula, by their targets."""

from __future__ import annotations

import torch
from torch import Tensor

from manyhot.checks import check_values, kind_of
from manyhot.refusal import refusal
from manyhot.search.evaluation import evaluate
from manyhot.search.program import Program


@torch.no_grad()
def matches(program: Program, targets: Tensor) -> Tensor:
    """Whether samples match a formula, as far as their targets tell.

    Args:
        program: The formula, compiled.
        targets: (N, L), one column for each of `program.columns`, in their order: 1 present, 0 absent, -1 unknown.

    Returns:
        (N,) in int8: 1 for a match, 0 for none, -1 where it depends on targets that are unknown.

    Example:
        >>> from manyhot.search.program import compile_formula
        >>> from manyhot.search.formula import Or, Present
        >>> either = compile_formula(Or((Present(0), Present(1))), 2)
        >>> matches(either, torch.tensor([[1, -1], [0, -1], [0, 0]]))
        tensor([ 1, -1,  0], dtype=torch.int8)
    """
    if not isinstance(targets, Tensor) or targets.is_complex():
        raise refusal("targets", "matches", "be a tensor of real numbers", kind_of(targets), "Pass a tensor.")
    columns = len(program.columns)
    if targets.ndim != 2 or targets.shape[1] != columns:
        rule, remedy = f"be (N, L) with L = {columns}", "Pass the columns `program.columns`."
        raise refusal("targets", "matches", rule, str(tuple(targets.shape)), remedy)
    check_values("matches", targets)
    rows = {column: row for row, column in enumerate(program.columns)}
    can, can_not = (targets != 0).T.contiguous(), (targets < 1).T.contiguous()
    nothing = targets.new_zeros(len(targets), dtype=torch.bool)
    holds, fails = evaluate(program, _Possible(nothing), lambda column: (can[rows[column]], can_not[rows[column]]))
    return holds.to(torch.int8) - (holds & fails).to(torch.int8) * 2


class _Possible:
    """What can be, given what is known: probabilities of which only matters whether they are zero."""

    def __init__(self, zero: Tensor) -> None:
        self.zero = zero
        self.one = ~zero

    def plus(self, left: Tensor, right: Tensor) -> Tensor:
        return left | right

    def times(self, left: Tensor, right: Tensor) -> Tensor:
        return left & right
