"""Decisions of rules in operations that an ONNX graph has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.decide import AskPerson, ExpectedF, NoneOfThese, TopK
from manyhot.decide.expected_f import EQUAL
from manyhot.decide.fixed import _largest
from manyhot.decide.rule import Decision, Rule, Unclipped

Array = np.ndarray[Any, Any]


def decide_in_graph(rule: Rule, given: Tensor | Unclipped) -> Decision:
    """What a fitted rule decides about values (N, K), without reading any of them on the way."""
    compared, probs = (given.values, given.probs) if isinstance(given, Unclipped) else (given, given)
    if isinstance(rule, NoneOfThese):
        inner = decide_in_graph(rule.rule, given)
        kept = compared.amax(1, keepdim=True) > rule.limit.to(compared.dtype)
        return Decision(inner.labels & kept, inner.abstain)
    if isinstance(rule, AskPerson):
        inner = decide_in_graph(rule.rule, given)
        doubts = torch.where(inner.labels, 1 - probs, probs).double().sum(1)
        return Decision(inner.labels, inner.abstain | (doubts > rule.limit))
    values = probs if rule.needs_probs else compared
    if isinstance(rule, TopK) and 0 < rule.k < values.shape[1]:
        return answered(_largest(values, rule.k))
    if isinstance(rule, TopK):
        return answered(torch.full_like(values, rule.k > 0, dtype=torch.bool))
    if isinstance(rule, ExpectedF):
        return answered(best_sets(values.double(), rule.beta))
    decided = rule.decide(values)
    return decided if isinstance(decided, Decision) else answered(decided)


def answered(labels: Tensor) -> Decision:
    """A decision that leaves no row to a person."""
    return Decision(labels, torch.zeros_like(labels[:, 0]))


def best_sets(probs: Tensor, beta: float) -> Tensor:
    """(N, K) bool, the sets with the largest expected F-beta, as `ExpectedF` gives them."""
    ordered, places = probs.topk(probs.shape[1], dim=1)  # in ONNX, equal values go by their index
    expected = expected_f_by_quadrature(ordered, beta)
    good = expected >= expected.amax(1, keepdim=True) - EQUAL
    sizes = good.to(torch.int64).argmax(1, keepdim=True)
    given = (torch.arange(probs.shape[1]) < sizes).to(torch.int64)
    return torch.zeros_like(given).scatter(1, places, given) > 0


def expected_f_by_quadrature(probs: Tensor, beta: float) -> Tensor:
    """(N, K + 1), the expected F-beta of giving the first k labels, for each k from 0 to K.

    With T labels present, R of them among the first k, F-beta is (1 + w) R / (k + w T), w = beta^2. As 1 / a is the
    integral of x^(a - 1) from 0 to 1, the expectation over independent labels is that of

    (1 + w) x^(k - 1) sum over i up to k of p_i x^w product over j other than i of (1 - p_j + p_j x^w)

    of which no term is negative, so that nothing cancels. The rule itself counts labels one by one, which is faster
    but takes loops whose length depends on the data.

    Args:
        probs: (N, K) in float64, descending.
        beta: The weight of recall.
    """
    weight, labels = beta**2, probs.shape[1]
    nodes, shares = (torch.from_numpy(numbers) for numbers in quadrature(weight, labels))
    bases = nodes**weight
    absent_or_not = (1 - probs).unsqueeze(1) + probs.unsqueeze(1) * bases.unsqueeze(1)
    nothing_else = torch.exp(torch.log(absent_or_not).sum(2))
    right = (probs.unsqueeze(1) / absent_or_not).cumsum(2)
    powers = nodes.unsqueeze(1) ** torch.arange(labels, dtype=torch.float64)
    sums = ((shares * bases * nothing_else).unsqueeze(2) * powers * right).sum(1)
    return torch.cat([(1 - probs).prod(1, keepdim=True), (1 + weight) * sums], dim=1)


def quadrature(weight: float, labels: int) -> tuple[Array, Array]:
    """Nodes and weights on (0, 1) that integrate x to the power of w T + k - 1 up to T = k = K, to about 1e-12.

    Gauss's rule is exact for polynomials up to twice the number of nodes, and nearly so up to its square, since its
    nodes crowd at the ends. Roots of x are smoothed by a change of variable first.
    """
    bend = 1 if weight == math.floor(weight) else 4
    degree = bend * (weight + 1) * max(labels, 1)
    number = math.ceil(min(degree / 2 + 2, 2.5 * math.sqrt(degree) + 16))
    nodes, shares = np.polynomial.legendre.leggauss(number if bend == 1 else max(number, 64))
    nodes, shares = (nodes + 1) / 2, shares / 2
    return nodes**bend, shares * bend * nodes ** (bend - 1)
