"""Link, calibrator and rule in operations that an ONNX graph has; computed in float64, as calibrators do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.calibrate.calibrator import RELIABLE_LOG_ODDS, Calibrator
from manyhot.calibrate.isotonic import IsotonicCalibration, MonotoneCurves
from manyhot.calibrate.partial_pooling import Maps
from manyhot.calibrate.scaling import PlattScaling, QuasibinaryConstant, SoftmaxTemperature, quasibinary_link
from manyhot.decide import Abstain, ExpectedFBeta, NoneOfThese, TopK
from manyhot.decide.rule import Decision, Rule, Unclipped, rule_values
from manyhot.decide.sets import TIE_TOLERANCE, k_largest
from manyhot.links import Link, SoftmaxLink
from manyhot.network import Network


class LinkGraph(nn.Module):
    """Probabilities that a link gives."""

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link

    def forward(self, scores: Tensor) -> Tensor:
        """(N, K) in float32."""
        return self.link.probs(scores.double()).float()


class CalibratorGraph(nn.Module):
    """Probabilities that a calibrator gives; what follows from the learnt numbers alone is computed here, once.

    Args:
        calibrator: A fitted one, on scores.
    """

    def __init__(self, calibrator: Calibrator) -> None:
        super().__init__()
        calibrator.require_kind("scores")
        self.calibrator = calibrator
        self.input_log_odds = make_input_log_odds(calibrator)

    def forward(self, scores: Tensor) -> Tensor:
        """(N, K) in float32, never exactly 0 or 1."""
        log_odds = self._map(self.input_log_odds(scores.double()))
        numbers = torch.finfo(torch.float32)
        return torch.sigmoid(log_odds).float().clamp(numbers.tiny, 1 - numbers.eps / 2)

    def _map(self, input_log_odds: Tensor) -> Tensor:
        calibrator = self.calibrator
        if isinstance(calibrator, QuasibinaryConstant | SoftmaxTemperature):
            return input_log_odds
        if not isinstance(calibrator, IsotonicCalibration):
            return calibrator.map(input_log_odds)
        linear = Maps(calibrator.slopes, calibrator.intercept).apply(PlattScaling.family, input_log_odds)
        curved = interpolate(MonotoneCurves(*calibrator.shared_curve), linear)
        if calibrator.sharing == "all":
            return curved
        return curved + calibrator.own_trust * (interpolate(MonotoneCurves(*calibrator.own_curves), linear) - curved)


class BoundedLogOdds(nn.Module):
    """`believed_log_odds` of a link whose bounds are known."""

    lowest: Tensor
    highest: Tensor

    def __init__(self, link: Link, bounds: Tensor) -> None:
        super().__init__()
        self.link = link
        self.register_buffer("lowest", bounds[0])
        self.register_buffer("highest", bounds[1])

    def forward(self, scores: Tensor) -> Tensor:
        """Finite log-odds (N, K)."""
        inside = torch.minimum(torch.maximum(scores, self.lowest), self.highest)
        return self.link.log_odds(inside) + (scores - inside)


class BoundedSoftmaxLogOdds(nn.Module):
    """`believed_log_odds` of softmax scores at a temperature."""

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, scores: Tensor) -> Tensor:
        """Each score against the sum of the others of its row."""
        scores = scores / self.temperature
        if scores.shape[1] == 1:
            return RELIABLE_LOG_ODDS + scores
        # Against the largest score the sum of the others is taken without it, because subtracting it would cancel.
        top = scores.argmax(1, keepdim=True)
        is_top = torch.arange(scores.shape[1]) == top
        rest = torch.where(is_top, -torch.inf, scores).logsumexp(1, keepdim=True)
        log_p = torch.log_softmax(scores, dim=1)
        return torch.where(is_top, scores - rest, log_p - torch.log1p(-torch.exp(log_p.clamp(max=-0.5))))


def make_input_log_odds(calibrator: Calibrator) -> nn.Module:
    """From scores to the input log-odds of a calibrator, or to its log-odds if it has one number."""
    if isinstance(calibrator, SoftmaxTemperature):
        return BoundedSoftmaxLogOdds(float(calibrator.temperature))
    link = (
        quasibinary_link(calibrator.log_normaliser) if isinstance(calibrator, QuasibinaryConstant) else calibrator.link
    )
    if link is None:
        return nn.Identity()
    return BoundedSoftmaxLogOdds(1.0) if isinstance(link, SoftmaxLink) else BoundedLogOdds(link, calibrator.bounds)


def interpolate(curves: MonotoneCurves, input_log_odds: Tensor) -> Tensor:
    """`MonotoneCurves.apply` with a binary search of its own, since a graph has no operation that searches."""
    labels, knots = curves.positions.shape
    starts = (torch.arange(input_log_odds.shape[1]) * knots) if labels > 1 else torch.zeros(1, dtype=torch.int64)
    positions, values = curves.positions.flatten(), curves.values.flatten()
    # The last knot below the input log-odds; the first one if there is none, and the last but one if all are below.
    before = torch.zeros_like(input_log_odds, dtype=torch.int64)
    step = 1 << max(knots - 2, 1).bit_length() - 1
    while step:
        trial = (before + step).clamp(max=knots - 2)
        before = torch.where(positions[starts + trial] < input_log_odds, trial, before)
        step //= 2
    left, low = positions[starts + before], values[starts + before]
    width, rise = positions[starts + before + 1] - left, values[starts + before + 1] - low
    slope = torch.where(width > 0, rise / torch.where(width > 0, width, 1.0), 0.0)
    return low + (input_log_odds - left) * slope


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
    if isinstance(rule, TopK) and 0 < rule.k < values.shape[1]:
        return without_abstention(k_largest(values, rule.k))
    if isinstance(rule, TopK):
        return without_abstention(torch.full_like(values, rule.k > 0, dtype=torch.bool))
    if isinstance(rule, ExpectedFBeta):
        return without_abstention(best_sets(values.double(), rule.beta))
    decided = rule.decide(values)
    return decided if isinstance(decided, Decision) else without_abstention(decided)


def without_abstention(labels: Tensor) -> Decision:
    """A decision that abstains on no row."""
    return Decision(labels, torch.zeros_like(labels[:, 0]))


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
    """From what the network takes to scores, probabilities and decisions.

    Args:
        network: Gives scores.
        link: Gives probabilities where there is no calibrator; None for scores alone.
        calibrator: Gives probabilities.
        rule: Gives decisions, on probabilities if there are any.
    """

    def __init__(self, network: Network, link: Link | None, calibrator: Calibrator | None, rule: Rule | None) -> None:
        super().__init__()
        self.network, self.rule, self.link = network, rule, link
        self.probs: nn.Module | None = None
        if calibrator is not None:
            self.probs = CalibratorGraph(calibrator)
        elif link is not None:
            self.probs = LinkGraph(link)

    @property
    def outputs(self) -> list[str]:
        """The names of what `forward` returns."""
        return ["scores"] + ["probs"] * (self.probs is not None) + ["decisions", "abstain"] * (self.rule is not None)

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Scores (N, K); probabilities (N, K); labels (N, K) and abstention (N,) as bool."""
        scores = self.network.scores(inputs).float()
        answers = [scores]
        if self.probs is not None:
            answers.append(self.probs(scores))
        if self.rule is not None:
            values = answers[-1] if self.probs is None else rule_values(answers[-1], scores, self.link)
            decision = decide_in_graph(self.rule, values)
            answers += [decision.labels, decision.abstain]
        return tuple(answers)
