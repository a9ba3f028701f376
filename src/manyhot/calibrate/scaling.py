"""Calibrators with few parameters: temperature, Platt and beta, and those of softmax and quasibinary scores."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from manyhot.calibrate.calibrator import PROB_EPSILON, RELIABLE_LOG_ODDS, Calibrator, bounded_log_odds
from manyhot.calibrate.partial_pooling import (
    MIN_SLOPE,
    SHARING,
    Cells,
    Family,
    Point,
    fit_maps,
    in_row_blocks,
    minimise_bounded,
)
from manyhot.checks import check_choice, check_int, check_num_labels
from manyhot.errors import InputError
from manyhot.links import Link, SoftmaxLink
from manyhot.numerics import mask_scores, softplus


def identity_feature(input_log_odds: Tensor) -> tuple[Tensor]:
    """The log-odds that the link gives."""
    return (input_log_odds,)


def beta_features(input_log_odds: Tensor) -> tuple[Tensor, Tensor]:
    """log p and -log(1 - p) of p = sigmoid(input log-odds)."""
    return -softplus(-input_log_odds), softplus(input_log_odds)


class LabelCalibrator(Calibrator):
    """A calibrator with a map for each label, or one for all; or with curves that correct such maps.

    Args:
        sharing: "all" (one map for all labels), "none" (one for each) or "partial" (one for each, shrunk towards the
            others by as much as its data leave open).
        link: What the scores already mean; without one the scores themselves are the starting point.

    Attributes:
        slopes: (F, K), or (F, 1) with `sharing` "all".
        intercept: (K,), or (1,) with `sharing` "all".
    """

    family: ClassVar[Family]

    def __init__(self, link: Link | None = None, *, sharing: str = "partial") -> None:
        super().__init__(link)
        self.sharing = check_choice("sharing", type(self).__name__, sharing, SHARING)
        self.slopes: Tensor = nn.Buffer(torch.zeros(self.family.num_features, 0, dtype=torch.float64))
        self.intercept: Tensor = nn.Buffer(torch.zeros(0, dtype=torch.float64))

    def read(self, scores: Any, kind: str | None = None) -> tuple[Tensor, torch.dtype]:
        """As that of any calibrator, for the labels that were fitted."""
        input_log_odds, dtype = super().read(scores, kind)
        if self.sharing != "all":
            check_num_labels(type(self).__name__, input_log_odds, len(self.intercept))
        return input_log_odds, dtype

    def extra_repr(self) -> str:
        """How many maps there are."""
        return f"sharing={self.sharing!r}"


class ParametricCalibrator(LabelCalibrator):
    """A calibrator whose maps are increasing functions with few parameters; the arguments are those of its base.

    Attributes:
        covariance: (K, D, D), or (1, D, D), that of the `posterior`.
    """

    def __init__(self, link: Link | None = None, *, sharing: str = "partial") -> None:
        super().__init__(link, sharing=sharing)
        size = self.family.num_features + self.family.intercept
        self.covariance: Tensor = nn.Buffer(torch.zeros(0, size, size, dtype=torch.float64))

    def fit_cells(self, input_log_odds: Tensor, targets: Tensor, weights: Tensor) -> Self:
        """Fits the maps."""
        return self.learn(**fit_maps(self.family, Cells(input_log_odds, targets, weights), self.sharing)._asdict())

    def map(self, input_log_odds: Tensor) -> Tensor:
        """Calibrated log-odds of input log-odds (N, K)."""
        return self.family.apply(self.slopes, self.intercept, input_log_odds)

    @property
    def posterior(self) -> Posterior:
        """How uncertain the fitted maps are; a file of an older format does not hold it."""
        self.require_fitted()
        if bool(self.covariance.isnan().any()):
            rule, got = "be stored by `fit`", "a file of an older format, which has none"
            raise InputError("posterior", type(self).__name__, rule, got, "Fit the calibrator again.")
        return Posterior(self)

    def restore(self, version: int, buffers: dict[str, Tensor]) -> None:
        """Takes the buffers of a file; formats 1 to 3 had no covariance."""
        unknown = self.covariance.new_full((1, *self.covariance.shape[1:]), torch.nan)
        super().restore(version, {"covariance": unknown, **buffers} if version < 4 else buffers)


class Posterior:
    """How uncertain the maps of a calibrator are: a normal distribution of the parameters of each label.

    It is Laplace's approximation: centred at the fitted parameters, with the inverse of the second derivative of the
    penalised log-likelihood as covariance. It is conditional on the input log-odds and on the prior. With `sharing`
    "partial" the prior is estimated from all labels: the uncertainty of its mean, the map that labels share, is part of
    the covariance, that of its covariance is not. With "none" and "all" the prior is fixed. That slopes are positive is
    not taken into account.

    Args:
        calibrator: A fitted one.

    Attributes:
        mean: (K, D), the parameters of each label, those of `slopes` and then `intercept`, which a temperature lacks;
            (1, D) with `sharing` "all".
        covariance: (K, D, D), or (1, D, D).

    Example:
        >>> scores, targets = torch.tensor([[2.0], [1.0], [0.0], [-1.0]]), torch.tensor([[1], [0], [1], [0]])
        >>> posterior = mh.PlattScaling(sharing="all").fit(scores, targets).posterior
        >>> posterior.log_odds_std(scores).flatten()
        tensor([0.8911, 0.5539, 0.4759, 0.7436])
        >>> posterior.sample(1000).shape
        torch.Size([1000, 1, 2])
    """

    def __init__(self, calibrator: ParametricCalibrator) -> None:
        self.calibrator, self.covariance = calibrator, calibrator.covariance
        size = self.covariance.shape[1]
        self.mean = torch.stack([*calibrator.slopes, calibrator.intercept][:size], dim=1)
        # A square root of the covariance, also of one that has no inverse.
        variances, axes = torch.linalg.eigh(self.covariance)
        self._root = axes * variances.clamp(min=0).sqrt().unsqueeze(1)

    def sample(self, draws: int, *, generator: torch.Generator | None = None) -> Tensor:
        """Parameters (draws, K, D) drawn at random.

        Args:
            draws: How many.
            generator: Of random numbers; that of torch by default.
        """
        shape = (check_int("draws", "Posterior.sample", draws, low=1), *self.mean.shape)
        device = "cpu" if generator is None else generator.device
        noise = torch.randn(shape, dtype=self.mean.dtype, device=device, generator=generator)
        return self.mean + torch.einsum("kde,nke->nkd", self._root, noise.to(self.mean.device))

    def log_odds_std(self, scores: Any, *, kind: str | None = None) -> Tensor:
        """Standard deviation of the calibrated log-odds of scores (N, K), shaped like them.

        Args:
            scores: (N, K), as the calibrator takes them.
            kind: As in `Calibrator.log_odds`.
        """
        input_log_odds, dtype = self.calibrator.read(scores, kind)
        features = [*self.calibrator.family.features(input_log_odds), torch.ones_like(input_log_odds)]
        parts = torch.stack(features[: self.mean.shape[1]], dim=2).unsqueeze(2)
        std: Tensor = (parts @ self._root).squeeze(2).norm(dim=2)
        return std.to(dtype)


class TemperatureScaling(ParametricCalibrator):
    """Divides the input log-odds by a temperature: for scores that are only over- or underconfident.

    log-odds = input log-odds / temperature

    The temperature minimises the log loss. It is positive, and finite also where held-out data are separated without
    error, where a smaller one would always have less log loss. A temperature cannot move log-odds across 0.
    A label that is never present, but whose input log-odds are above 0, gets at least one half; `PlattScaling`,
    `BetaCalibration` and `IsotonicCalibration` give it a small probability.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; probabilities (N, K).

    Args:
        sharing: "all" (the usual temperature scaling), "none" or "partial".
        link: What the scores already mean; without one the scores themselves are the starting point.

    Reference: Guo, Pleiss, Sun and Weinberger, On Calibration of Modern Neural Networks, ICML 2017; here with one
        sigmoid per label, as Cheng and Vasconcelos, CVPR 2024, use it. For softmax scores see `SoftmaxTemperature`.

    Example:
        >>> scores = torch.tensor([[4.0], [3.0], [-3.0], [-4.0], [-4.0]])
        >>> targets = torch.tensor([[1], [1], [0], [0], [1]])
        >>> calibrator = mh.TemperatureScaling(sharing="all").fit(scores, targets)
        >>> calibrator.temperature
        tensor([2.9100], dtype=torch.float64)
    """

    family = Family(identity_feature, num_features=1, intercept=False)

    @property
    def temperature(self) -> Tensor:
        """(K,), or (1,) with `sharing` "all"."""
        return 1 / self.slopes[0]


class PlattScaling(ParametricCalibrator):
    """Scales and shifts the input log-odds: for scores that only rank, or whose probabilities are too high or too low.

    log-odds = slope * input log-odds + intercept, slope > 0

    The prior of the shared map is the identity. It counts for 20 rows that agree with it, so that few held-out rows
    change little, and its influence is bounded where the data clearly contradict it.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; probabilities (N, K).

    Args:
        sharing: "all", "none" or "partial".
        link: What the scores already mean; without one the scores themselves are the starting point.

    Reference: Platt, Probabilistic Outputs for Support Vector Machines, 1999. Instead of his smoothed targets, a wide
        prior around the shared map keeps labels finite that are never or always present.

    Example:
        >>> scores, targets = torch.tensor([[2.0], [1.0], [0.0], [-1.0]]), torch.tensor([[1], [0], [1], [0]])
        >>> mh.PlattScaling(sharing="all").fit(scores, targets)(scores).flatten()
        tensor([0.8645, 0.7074, 0.4783, 0.2579])
    """

    family = Family(identity_feature, num_features=1, intercept=True)


class BetaCalibration(ParametricCalibrator):
    """Bends the map at one half: for scores that are overconfident on one side and underconfident on the other.

    log-odds = a log p - b log(1 - p) + c, with p = sigmoid(input log-odds) and a, b > 0

    Equal a and b are the affine map. The input must be roughly on the scale of log-odds, so give it the link, or take
    `PlattScaling` or `IsotonicCalibration` for scores that only rank. As with `PlattScaling`, the prior is
    the identity and counts for 20 rows.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; probabilities (N, K).

    Args:
        sharing: "all", "none" or "partial".
        link: What the scores already mean; without one the scores themselves are the starting point.

    Reference: Kull, Silva Filho and Flach, Beta Calibration, AISTATS 2017. A slope that would be negative becomes
        nearly 0 while the others are fitted along with it.

    Example:
        >>> scores, targets = torch.tensor([[2.0], [1.0], [0.0], [-1.0]]), torch.tensor([[1], [0], [1], [0]])
        >>> mh.BetaCalibration(sharing="all").fit(scores, targets)(scores).flatten()
        tensor([0.8637, 0.7073, 0.4788, 0.2581])
    """

    family = Family(beta_features, num_features=2, intercept=True)


# Logarithms of the probabilities at which log-odds are no longer reliable.
RELIABLE_LOG_PROBS = tuple(-math.log1p(math.exp(-limit)) for limit in (-RELIABLE_LOG_ODDS, RELIABLE_LOG_ODDS))


class NormalisedCalibrator(Calibrator):
    """A calibrator with one number, which takes the part of a link."""

    def input_log_odds(self, scores: Tensor) -> Tensor:
        """The scores themselves: a link that was given is not used."""
        return scores

    def as_scores(self, values: Tensor, kind: str) -> Tensor:
        """Scores of values of a kind: of probabilities, their logarithms."""
        if kind == "scores" or self.kind is None:  # old files, which do not record the kind, used log-odds
            return super().as_scores(values, kind)
        return values.clamp(min=PROB_EPSILON).log()


class QuasibinaryConstant(NormalisedCalibrator):
    """The constant C of the quasibinary classifier, exact over held-out data.

    p = e^score / C, with log C = log(sum of e^score over known cells) - log(number of labels present)

    The moving average that training leaves in `QuasibinaryLink` lags behind the weights; this does not. Where p would
    come to 1 and beyond, log-odds follow the score instead, so that order survives. Data without any label count as
    half a label.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1}; probabilities (N, K).

    Attributes:
        log_normaliser: log C.

    Reference: Liao, Gavves, Oh and Snoek, Quasibinary Classifier for Images with Zero and Multiple Labels.

    Example:
        >>> scores, targets = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 0]])
        >>> mh.calibrate.QuasibinaryConstant().fit(scores, targets)(scores)
        tensor([[0.6103, 0.0826],
                [0.0826, 0.2245]])
    """

    def __init__(self) -> None:
        super().__init__()
        self.log_normaliser: Tensor = nn.Buffer(torch.zeros((), dtype=torch.float64))

    def fit_cells(self, input_log_odds: Tensor, targets: Tensor, weights: Tensor) -> Self:
        """Sums over all cells."""
        log_sum = torch.logsumexp((input_log_odds + weights.log()).flatten(), dim=0)
        labels = (weights * targets).sum().clamp(min=0.5)
        return self.learn(log_normaliser=torch.where(log_sum > -torch.inf, log_sum - labels.log(), 0.0))

    def map(self, input_log_odds: Tensor) -> Tensor:
        """Log-odds of scores (N, K), which follow the score beyond those that are reliable."""
        log_probs = input_log_odds - self.log_normaliser
        inside = log_probs.clamp(*RELIABLE_LOG_PROBS)
        return torch.logit(inside.exp()) + (log_probs - inside)


class SoftmaxTemperature(NormalisedCalibrator):
    """One temperature for softmax scores, where every row carries exactly one label.

    p = softmax(scores / temperature)

    The temperature minimises the mean negative log-likelihood of the labels of the rows. It is positive, and finite
    also where every label has the highest score of its row.

    Shape: scores (N, K), targets (N, K) in {1, 0, -1} with at most one label per row; probabilities (N, K), which
        sum to 1 in each row.
    No-label rows: left out, since softmax has no probability for "none". A row counts with the weight of its label's
        cell. Unknown cells, and those of weight 0, are left out of the sum of their row.

    Attributes:
        temperature: ().

    Reference: Guo, Pleiss, Sun and Weinberger, On Calibration of Modern Neural Networks, ICML 2017.

    Example:
        >>> scores = torch.tensor([[4.0, 0.0], [4.0, 1.0], [1.0, 4.0], [3.0, 1.0]])
        >>> targets = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]])
        >>> mh.calibrate.SoftmaxTemperature().fit(scores, targets)(scores)
        tensor([[0.8896, 0.1104],
                [0.8271, 0.1729],
                [0.1729, 0.8271],
                [0.7395, 0.2605]])
    """

    def __init__(self) -> None:
        super().__init__()
        self.temperature: Tensor = nn.Buffer(torch.ones((), dtype=torch.float64))

    def fit_cells(self, input_log_odds: Tensor, targets: Tensor, weights: Tensor) -> Self:
        """Finds the temperature by Newton's method."""
        known = (weights > 0).to(weights.dtype)
        labels = known * targets
        if input_log_odds.numel() and bool(labels.sum(1).amax() > 1):
            hint = "Calibrate rows with several labels by `PlattScaling` or `IsotonicCalibration`."
            rule = "have at most one label per row"
            raise InputError("targets", type(self).__name__, rule, "a row with several", hint)
        gaps = input_log_odds - (labels * input_log_odds).sum(1, keepdim=True)
        row_weights = (labels * weights).sum(1)
        spread = (row_weights.unsqueeze(1) * known * gaps.square()).sum() / row_weights.sum()
        unit = torch.where(spread > 0, spread, 1.0).sqrt()
        start = unit.new_ones(1)
        likelihood_at = partial(softmax_likelihood, mask_scores(gaps, known) / unit, row_weights)
        point, _ = minimise_bounded(likelihood_at, start, MIN_SLOPE * start)
        return self.learn(temperature=unit / point.parameters.squeeze())

    def map(self, input_log_odds: Tensor) -> Tensor:
        """Log-odds of scores (N, K)."""
        return bounded_log_odds(SoftmaxLink(), input_log_odds / self.temperature)


def softmax_likelihood(gaps: Tensor, weights: Tensor, slope: Tensor) -> Point:
    """How well softmax with a slope (1, 1) explains the labels of rows.

    Args:
        gaps: (N, K), scores less the score of the label.
        weights: (N,), 0 for rows without a label.
        slope: The inverse temperature.
    """
    value, gradient, information = (slope.new_zeros(()) for _ in range(3))
    for part, weight in in_row_blocks(gaps, weights):
        probs = torch.softmax(slope * part, dim=1)
        mean = (probs * part).sum(1)
        value += (weight * torch.logsumexp(slope * part, dim=1)).sum()
        gradient += (weight * mean).sum()
        information += (weight * (probs * (part - mean.unsqueeze(1)).square()).sum(1)).sum()
    return Point(slope, value.view(1), gradient.view(1, 1), information.view(1, 1, 1))
