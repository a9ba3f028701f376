"""A classifier as one module that can be traced, and its decision rules in operations that an ONNX graph has."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.calibrate import Calibrator
from manyhot.decide import Abstain, ExpectedFBeta, NoneOfThese, TopK
from manyhot.decide.rule import Decision, Rule, Unclipped, rule_values
from manyhot.decide.sets import TIE_TOLERANCE, k_largest
from manyhot.links import Link
from manyhot.network import Network

Array = np.ndarray[Any, Any]


def decide_in_graph(rule: Rule, cells: Tensor | Unclipped) -> Decision:
    """What a fitted rule decides about values (N, K), without reading any of them on the way."""
    compared, probs = (cells.values, cells.probs) if isinstance(cells, Unclipped) else (cells, cells)
    if isinstance(rule, NoneOfThese):
        inner = decide_in_graph(rule.rule, cells)
        above_limit = compared.amax(1, keepdim=True) > rule.limit.to(compared.dtype)
        return Decision(inner.labels & above_limit, inner.abstain)
    if isinstance(rule, Abstain):
        inner = decide_in_graph(rule.rule, cells)
        expected_errors = torch.where(inner.labels, 1 - probs, probs).double().sum(1)
        return Decision(inner.labels, inner.abstain | (expected_errors > rule.limit))
    values = probs if rule.needs_probs else compared
    # These two go through rows in blocks, whose number depends on the data.
    if isinstance(rule, TopK) and 0 < rule.k < values.shape[1]:
        decided: Tensor | Decision = k_largest(values, rule.k)
    elif isinstance(rule, ExpectedFBeta):
        decided = best_sets(values.double(), rule.beta)
    else:
        decided = rule.decide(values)
    return decided if isinstance(decided, Decision) else Decision(decided, torch.zeros_like(decided[:, 0]))


def best_sets(probs: Tensor, beta: float) -> Tensor:
    """(N, K) bool, the sets with the largest expected F-beta, as `ExpectedFBeta` gives them."""
    ordered, indices = probs.topk(probs.shape[1], dim=1)  # in ONNX, equal values go by their index
    expected = expected_f_by_quadrature(ordered, beta)
    good = expected >= expected.amax(1, keepdim=True) - TIE_TOLERANCE
    sizes = good.to(torch.int64).argmax(1, keepdim=True)
    cells = (torch.arange(probs.shape[1]) < sizes).to(torch.int64)
    return torch.zeros_like(cells).scatter(1, indices, cells) > 0


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
    nodes, node_weights = (torch.from_numpy(numbers) for numbers in quadrature(weight, labels))
    bases = nodes**weight
    absent_or_not = (1 - probs).unsqueeze(1) + probs.unsqueeze(1) * bases.unsqueeze(1)
    nothing_else = torch.exp(torch.log(absent_or_not).sum(2))
    hits = (probs.unsqueeze(1) / absent_or_not).cumsum(2)
    powers = nodes.unsqueeze(1) ** torch.arange(labels, dtype=torch.float64)
    sums = ((node_weights * bases * nothing_else).unsqueeze(2) * powers * hits).sum(1)
    return torch.cat([(1 - probs).prod(1, keepdim=True), (1 + weight) * sums], dim=1)


def quadrature(weight: float, labels: int) -> tuple[Array, Array]:
    """Nodes and weights on (0, 1) that integrate x to the power of w T + k - 1 up to T = k = K, to about 1e-12.

    Gauss's rule is exact for polynomials up to twice the number of nodes, and nearly so up to its square, since its
    nodes crowd at the ends. Roots of x are smoothed by a change of variable first.
    """
    bend = 1 if weight == math.floor(weight) else 4
    degree = bend * (weight + 1) * max(labels, 1)
    number = math.ceil(min(degree / 2 + 2, 2.5 * math.sqrt(degree) + 16))
    nodes, node_weights = np.polynomial.legendre.leggauss(number if bend == 1 else max(number, 64))
    nodes, node_weights = (nodes + 1) / 2, node_weights / 2
    return nodes**bend, node_weights * bend * nodes ** (bend - 1)


class AnswerGraph(nn.Module):
    """From the input of the network to scores, probabilities and decisions.

    Args:
        network: Gives scores.
        link: Gives probabilities where there is no calibrator; None for scores alone.
        calibrator: Gives probabilities.
        rule: Gives decisions, on probabilities if there are any.
    """

    def __init__(self, network: Network, link: Link | None, calibrator: Calibrator | None, rule: Rule | None) -> None:
        super().__init__()
        if calibrator is not None:
            calibrator.require_kind("scores")
        self.network, self.link, self.calibrator, self.rule = network, link, calibrator, rule

    @property
    def outputs(self) -> list[str]:
        """The names of what `forward` returns."""
        gives_probs = self.calibrator is not None or self.link is not None
        return ["scores"] + ["probs"] * gives_probs + ["decisions", "abstain"] * (self.rule is not None)

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Scores (N, K); probabilities (N, K); labels (N, K) and abstention (N,) as bool."""
        scores = self.network.scores(inputs).float()
        answers = [scores]
        if self.calibrator is not None:
            answers.append(self.calibrator(scores))
        elif self.link is not None:
            answers.append(self.link.probs(scores.double()).float())
        if self.rule is not None:
            values = scores if len(answers) == 1 else rule_values(answers[-1], scores, self.link)
            decision = decide_in_graph(self.rule, values)
            answers += [decision.labels, decision.abstain]
        return tuple(answers)
