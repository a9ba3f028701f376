"""Calibrators with one, two or three parameters for a map."""

from __future__ import annotations

from typing import ClassVar, Self

import torch
from torch import Tensor

from manyhot.calibrate.calibrator import Calibrator
from manyhot.calibrate.maps import Cells, Family, Maps
from manyhot.calibrate.shrinkage import PER, fit_maps
from manyhot.cells import check_columns
from manyhot.checks import check_choice
from manyhot.links import Link
from manyhot.numerics import softplus


def evidence_itself(evidence: Tensor) -> tuple[Tensor]:
    """The log-odds that the link gives."""
    return (evidence,)


def both_log_probs(evidence: Tensor) -> tuple[Tensor, Tensor]:
    """log p and -log(1 - p) of the probability that the evidence stands for."""
    return -softplus(-evidence), softplus(evidence)


class Parametric(Calibrator):
    """A calibrator whose maps are increasing functions with few parameters.

    Args:
        per: "all" (one map for all labels), "label" (one for each) or "shrunk" (one for each, drawn towards the others
            by as much as its evidence leaves open).
        link: What the scores already mean; without one the scores themselves are the starting point.

    Attributes:
        slopes: (F, K), or (F, 1) with `per` "all".
        intercept: (K,), or (1,) with `per` "all".
    """

    family: ClassVar[Family]
    slopes: Tensor
    intercept: Tensor

    def __init__(self, link: Link | None = None, *, per: str = "shrunk") -> None:
        super().__init__(link)
        self.per = check_choice("per", type(self).__name__, per, PER)
        self.register_buffer("slopes", torch.ones(self.family.num_features, 1, dtype=torch.float64))
        self.register_buffer("intercept", torch.zeros(1, dtype=torch.float64))

    def fit_cells(self, evidence: Tensor, targets: Tensor, weights: Tensor) -> Self:
        """Fits the maps."""
        maps = fit_maps(self.family, Cells(evidence, targets, weights), self.per)
        return self.learn(slopes=maps.slopes, intercept=maps.intercept)

    def map(self, evidence: Tensor) -> Tensor:
        """Log-odds of evidence (N, K)."""
        if self.per != "all":
            check_columns(type(self).__name__, evidence, len(self.intercept))
        return Maps(self.slopes, self.intercept).apply(self.family, evidence)

    def extra_repr(self) -> str:
        """How many maps there are."""
        return f"per={self.per!r}"


class Temperature(Parametric):
    """Divides the evidence by a temperature: for scores that are right but for being too sure, or not sure enough.

    log-odds = evidence / temperature

    The temperature minimises the log loss. It is positive, and finite also where held-out data are separated without
    error, so that sharper would always look better. A temperature cannot move log-odds across 0.
    A label that is never present, but whose evidence is above 0, gets one half at the least; `Affine`, `Beta` and
    `Isotonic` call it rare.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; probabilities (N, K).

    Args:
        per: "all" (the usual temperature scaling), "label" or "shrunk".
        link: What the scores already mean; without one the scores themselves are the starting point.

    Reference: Guo, Pleiss, Sun and Weinberger, On Calibration of Modern Neural Networks, ICML 2017; here with one
        sigmoid a label, as Cheng and Vasconcelos, CVPR 2024, use it. For softmax scores see `SoftmaxTemperature`.

    Example:
        >>> scores = torch.tensor([[4.0], [3.0], [-3.0], [-4.0], [-4.0]])
        >>> targets = torch.tensor([[1], [1], [0], [0], [1]])
        >>> calibrator = mh.Temperature(per="all").fit(scores, targets)
        >>> calibrator.temperature
        tensor([2.9100], dtype=torch.float64)
    """

    family = Family(evidence_itself, num_features=1, intercept=False)

    @property
    def temperature(self) -> Tensor:
        """(K,), or (1,) with `per` "all"."""
        return 1 / self.slopes[0]


class Affine(Parametric):
    """Scales and shifts the evidence (Platt scaling): for scores that only rank, or that misjudge labels as a whole.

    log-odds = slope * evidence + intercept, slope > 0

    The shared map starts at the evidence itself, which counts as much as 20 rows that agree with it, so that few
    held-out rows change little; scores that clearly mean something else are given up.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; probabilities (N, K).

    Args:
        per: "all", "label" or "shrunk".
        link: What the scores already mean; without one the scores themselves are the starting point.

    Reference: Platt, Probabilistic Outputs for Support Vector Machines, 1999. Instead of his smoothed targets, a wide
        prior around the shared map keeps labels finite that are never or always present.

    Example:
        >>> scores, targets = torch.tensor([[2.0], [1.0], [0.0], [-1.0]]), torch.tensor([[1], [0], [1], [0]])
        >>> mh.Affine(per="all").fit(scores, targets)(scores).flatten()
        tensor([0.8645, 0.7074, 0.4783, 0.2579])
    """

    family = Family(evidence_itself, num_features=1, intercept=True)


class Beta(Parametric):
    """Bends the map at one half: for scores that are too sure on one side and not sure enough on the other.

    log-odds = a log p - b log(1 - p) + c, with p = sigmoid(evidence) and a, b > 0

    Equal a and b are the affine map. Needs evidence that is roughly on the scale of log-odds, so give it the link, or
    take `Affine` or `Isotonic` for scores that only rank. As with `Affine`, the evidence itself counts as 20 rows.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; probabilities (N, K).

    Args:
        per: "all", "label" or "shrunk".
        link: What the scores already mean; without one the scores themselves are the starting point.

    Reference: Kull, Silva Filho and Flach, Beta Calibration, AISTATS 2017. A slope that would be negative becomes
        nearly 0 while the others are fitted along with it.

    Example:
        >>> scores, targets = torch.tensor([[2.0], [1.0], [0.0], [-1.0]]), torch.tensor([[1], [0], [1], [0]])
        >>> mh.Beta(per="all").fit(scores, targets)(scores).flatten()
        tensor([0.8637, 0.7073, 0.4788, 0.2581])
    """

    family = Family(both_log_probs, num_features=2, intercept=True)
