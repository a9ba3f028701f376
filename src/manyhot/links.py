"""Links: what the scores of a loss mean as probabilities."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from manyhot.checks import as_floats, as_tensor, can_read_values, check_weights, describe_type, is_traced, prepare_batch
from manyhot.curves import Asymmetry, BinaryCrossEntropyCurve, Curve, FocalCurve, StrictlyProperAsymmetricCurve
from manyhot.errors import InputError, owned
from manyhot.serialization import ConstructorRepr, ExactState

PosWeight = Tensor | Sequence[float] | float | None


class Link(ConstructorRepr, ExactState, ABC):
    """Turns scores into probabilities and back.

    A subclass gives the log-odds of one score for a loss without `pos_weight`; everything else follows. Weighting
    present labels by `pos_weight` moves the log-odds down by its logarithm, whatever the loss, so it is handled here
    once.

    Args:
        pos_weight: (K,) or one number, the factor on the loss of present labels.

    Attributes:
        gives_probs: Whether scores mean probabilities at all.
        clips: Whether probabilities are cut off at 1, so that different scores mean the same.
        needs_fit: Whether it has a constant that `fit` computes from scores and targets, and training only estimates.
    """

    gives_probs: bool = True
    clips: bool = False
    needs_fit: bool = False
    pos_weight: Tensor | None

    def __init__(self, pos_weight: PosWeight = None) -> None:
        super().__init__()
        weight = None if pos_weight is None else torch.as_tensor(pos_weight, dtype=torch.float64).detach().clone()
        if weight is not None and (weight.ndim > 1 or not bool((weight.isfinite() & (weight > 0)).all())):
            hint = "Pass for example (n - n_present) / n_present of each label."
            rule = "be (K,) of positive numbers"
            raise InputError("pos_weight", type(self).__name__, rule, str(weight.tolist()), hint)
        self.register_buffer("pos_weight", weight)

    def fit(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Self:
        """Computes the constants of the link, where it has any, from batches of (scores, targets); returns itself."""
        return self

    @abstractmethod
    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """Log-odds of a label when `pos_weight` is 1; increasing in the score."""

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest probability that scores can reach or approach, to twelve digits."""
        log_odds = self.log_odds_of_powers(15, self._most_weights())
        probs = torch.sigmoid(log_odds[~log_odds.isnan()])
        return round(float(probs.min()), 12), round(float(probs.max()), 12)

    @property
    def finite(self) -> bool:
        """Whether scores from -64 to 64 have finite log-odds; further out, slopes may underflow even in float64."""
        return not bool(self.log_odds_of_powers(7, self._most_weights()).isinf().any())

    def log_odds_of_powers(self, count: int, labels: int) -> Tensor:
        """Log-odds (2 count, K) of the first powers of 2, negative and positive, in float64.

        NaN, where a link by automatic differentiation has lost both slopes, is no limit.
        """
        device = next((buffer.device for buffer in self.buffers()), None)
        powers = 2.0 ** torch.arange(count, dtype=torch.float64, device=device).unsqueeze(1)
        return self.log_odds(torch.cat([-powers, powers]).repeat(1, labels))

    def _most_weights(self) -> int:
        """The largest number of labels that a `pos_weight` has weights for."""
        return most_weights(self)

    @property
    def preserves_order(self) -> bool:
        """Whether probabilities have the order of the scores over all rows and labels, but for being cut off at 1."""
        return self.finite and self._most_weights() == 1

    def log_odds(self, scores: Tensor) -> Tensor:
        """log(p / (1 - p)) of the probabilities, exact where the probabilities are rounded to 0 or 1."""
        log_odds = self.unweighted_log_odds(self._check(scores))
        return log_odds if self.pos_weight is None else log_odds - self.log_pos_weight(log_odds)

    def probs(self, scores: Tensor) -> Tensor:
        """Probability of each label, shaped like `scores`."""
        return torch.sigmoid(self.log_odds(scores))

    def scores(self, probs: Tensor) -> Tensor:
        """The scores with these probabilities: minus infinity for 0, infinity for those above the range."""
        probs = self._check(probs, "probs")
        log_odds = torch.logit(probs.double())
        return self.scores_of_log_odds(log_odds + self.log_pos_weight(log_odds)).to(probs.dtype)

    def initial_scores(self, probs: Tensor) -> Tensor:
        """The scores to begin training with where samples have these probabilities."""
        return self.scores(probs)

    def scores_of_log_odds(self, log_odds: Tensor) -> Tensor:
        """Inverse of `unweighted_log_odds`; subclasses with a closed form override it."""
        return invert_increasing(self.unweighted_log_odds, log_odds)

    def pos_weight_like(self, like: Tensor) -> Tensor | None:
        """`pos_weight` in the type of `like`, checked against its number of labels."""
        weight = self.pos_weight
        if weight is not None and weight.ndim == 1 and like.shape[-1] != weight.shape[0]:
            got = f"{weight.shape[0]} weights for {like.shape[-1]} labels"
            rule, hint = "have one weight per label", "Compute it on these labels."
            raise InputError("pos_weight", type(self).__name__, rule, got, hint)
        return None if weight is None else weight.to(like.dtype)

    def log_pos_weight(self, like: Tensor) -> Tensor | float:
        """log(pos_weight) in the type of `like`; 0 without weights."""
        weight = self.pos_weight_like(like)
        return 0.0 if weight is None else weight.log()

    def _check(self, values: Any, name: str = "scores") -> Tensor:
        return as_floats(type(self).__name__, values, name)


def most_weights(module: nn.Module) -> int:
    """The largest number of labels that a `pos_weight` in a module has weights for."""
    return max((buffer.numel() for name, buffer in module.named_buffers() if name.endswith("pos_weight")), default=1)


class NoLink(Link):
    """The link of a loss that mixes labels or rows: its scores mean no probability, and asking for one is an error.

    Args:
        owner: Name of the loss, for the error.
    """

    gives_probs = False
    finite = False

    def __init__(self, owner: str) -> None:
        super().__init__()
        self.owner = owner

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """Raises an error."""
        hint = "Fit a calibrator on held-out scores and targets."
        rule = "be that of a loss which adds over labels to give probabilities"
        raise InputError("link", self.owner, rule, "a loss whose scores only rank", hint)


def invert_increasing(function: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
    """Solves function(x) = values by bisection in float64, for an increasing function of one variable.

    Values below the function's range give minus infinity, values above it infinity.
    """
    values = values.double()
    low, high = torch.full_like(values, -1.0), torch.full_like(values, 1.0)
    for _ in range(50):
        below, beyond = function(low) >= values, function(high) <= values
        if not bool((below | beyond).any()):
            break
        low, high = torch.where(below, 2 * low, low), torch.where(beyond, 2 * high, high)
    for _ in range(120):
        middle = (low + high) / 2
        if not bool(((middle > low) & (middle < high)).any()):
            break
        above = function(middle) > values
        low, high = torch.where(above, low, middle), torch.where(above, middle, high)
    return torch.where(beyond, torch.inf, torch.where(below, -torch.inf, (low + high) / 2))


class CurveLink(Link):
    """The link of a loss that adds over labels: the log-odds of its curve.

    Args:
        curve: That of the loss.
        pos_weight: Factor on the loss of present labels.
    """

    def __init__(self, curve: Curve, pos_weight: PosWeight = None) -> None:
        super().__init__(pos_weight)
        self.curve = curve

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """Logarithm of the ratio of the two slopes."""
        return self.curve.log_odds(scores)

    def log_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of l0' and -l1', with `pos_weight`."""
        absent, present = self.curve.log_slopes(scores)
        return absent, present + self.log_pos_weight(present)


class SigmoidLink(CurveLink):
    """The link of binary cross-entropy: scores are log-odds, onto (0, 1).

    Example:
        >>> SigmoidLink().probs(torch.tensor([-1.0, 0.0, 1.0]))
        tensor([0.2689, 0.5000, 0.7311])
        >>> SigmoidLink(pos_weight=3.0).probs(torch.tensor([0.0]))
        tensor([0.2500])
    """

    def __init__(self, pos_weight: PosWeight = None) -> None:
        super().__init__(BinaryCrossEntropyCurve(), pos_weight)

    def scores_of_log_odds(self, log_odds: Tensor) -> Tensor:
        """The log-odds."""
        return log_odds


class AsymmetricLink(CurveLink):
    r"""Scores of focal and asymmetric losses: the map phi, increasing.

    With `margin` 0 the link is onto (0, 1). With a margin, scores up to logit(margin) all mean 0, and with
    `gamma_pos` 0 no score means more than a limit below 1 (0.964 for `gamma_neg` 4 and `margin` 0.05): the loss does
    not care what is beyond.

    Args:
        gamma_neg: Focusing of absent labels.
        gamma_pos: Focusing of present labels.
        margin: Probability shift of absent labels.
        pos_weight: Factor on the loss of present labels.

    Reference: Cheng and Vasconcelos, Towards Calibrated Multi-label Deep Neural Networks, CVPR 2024, Theorem 2.

    Example:
        >>> AsymmetricLink(gamma_neg=4, gamma_pos=0, margin=0.05).probs(torch.tensor([-3.0, 0.0, 3.0]))
        tensor([0.0000, 0.1276, 0.9286])
    """

    @owned("AsymmetricLink")
    def __init__(
        self, gamma_neg: float, gamma_pos: float = 0.0, margin: float = 0.0, *, pos_weight: PosWeight = None
    ) -> None:
        curve = FocalCurve(gamma_neg, gamma_pos, margin)
        super().__init__(curve, pos_weight)
        self.gamma_neg, self.gamma_pos, self.margin = curve.gamma_neg, curve.gamma_pos, curve.margin


def phi(probs: Any, *, gamma_neg: float, gamma_pos: float = 0.0, margin: float = 0.0) -> Tensor:
    """Honest probabilities of a model trained with a focal or asymmetric loss, from its plain sigmoid outputs.

    Use it when only the outputs of the sigmoid are left; from scores, `AsymmetricLink` keeps more digits.

    Args:
        probs: sigmoid(score), a tensor, an array or a list of any shape.
        gamma_neg: Focusing of absent labels that the model was trained with.
        gamma_pos: Focusing of present labels.
        margin: Probability shift of absent labels.

    Reference: Cheng and Vasconcelos, CVPR 2024, equations 14 and 15, in a form without 0/0 at both ends.

    Example:
        >>> phi([0.0, 0.5, 1.0], gamma_neg=4)
        tensor([0.0000, 0.1908, 1.0000])
    """
    with owned("phi"):
        link = CurveLink(FocalCurve(gamma_neg, gamma_pos, margin))
    probs = as_tensor("phi", probs, "probs")
    probs = probs if probs.dtype == torch.float64 else probs.float()
    outside = ~((probs >= 0) & (probs <= 1))
    if can_read_values(probs) and bool(outside.any()):
        hint = "Pass sigmoid(scores), or give the scores to `AsymmetricLink`."
        raise InputError("probs", "phi", "lie between 0 and 1", f"{float(probs[outside][0]):g}", hint)
    return link.probs(torch.logit(probs).clamp(-1e4, 1e4))


class StrictlyProperAsymmetricLink(CurveLink):
    """Scores of the strictly proper asymmetric loss: increasing, onto (0, 1).

    Args:
        shape: The six numbers of the loss.
        pos_weight: Factor on the loss of present labels.

    Reference: Cheng and Vasconcelos, CVPR 2024. Equation 17 is printed with the sign of both sigmoid arguments flipped;
        this is the link that the loss really has.

    Example:
        >>> StrictlyProperAsymmetricLink().probs(torch.tensor([0.0, 1.0, 3.0]))
        tensor([0.0538, 0.5273, 0.9266])
    """

    def __init__(self, shape: Sequence[float] = Asymmetry(), *, pos_weight: PosWeight = None) -> None:
        self.shape = Asymmetry(*shape).check("StrictlyProperAsymmetricLink")
        super().__init__(StrictlyProperAsymmetricCurve(self.shape), pos_weight)


class SumLink(Link):
    """The link of a sum of losses that add over labels: slopes add, so each link counts by the slope of its loss.

    odds = sum of weight * l0' over sum of weight * -l1', with the slopes of the losses of the links

    Args:
        links: Those of the losses: `SigmoidLink`, `AsymmetricLink`, `StrictlyProperAsymmetricLink` or sums of these.
        weights: Of the losses.

    Example:
        >>> link = SumLink([mh.SigmoidLink(), mh.links.AsymmetricLink(gamma_neg=4)], weights=(1.0, 1.0))
        >>> link.probs(torch.tensor([-3.0, 0.0, 3.0]))
        tensor([0.0243, 0.3819, 0.9589])
    """

    def __init__(self, links: Sequence[Link], weights: Sequence[float]) -> None:
        super().__init__()
        self.weights = check_weights("SumLink", len(links), weights)
        for index, link in enumerate(links):
            if not isinstance(link, CurveLink | SumLink):
                hint = "Derive the link of the whole sum by `ratio_link`."
                raise InputError("links", "SumLink", "be those of losses of manyhot", describe_type(link), hint)
            self.add_module(f"link_{index}", link)

    @property
    def links(self) -> tuple[CurveLink | SumLink, ...]:
        """The links, in their order."""
        return tuple(self.get_submodule(f"link_{index}") for index in range(len(self.weights)))  # type: ignore[misc]

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """The ratio of the two sums."""
        absent, present = self.log_slopes(scores.double())
        return (absent - present).to(scores.dtype)

    def log_slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Each a sum over the losses, by logarithms."""
        parts = zip(self.links, self.weights, strict=True)
        slopes = torch.stack([torch.stack(link.log_slopes(scores)) + math.log(weight) for link, weight in parts])
        absent, present = torch.logsumexp(slopes, 0)
        return absent, present


class QuasibinaryLink(Link):
    """Scores of the quasibinary loss: q = min(e^score / C, 1), with one C for all classes and samples; onto (0, 1].

    The loss keeps a moving average of log C here while it trains. The average lags behind the weights, so after
    training `fit` computes the exact C over a data set.

    Attributes:
        log_normaliser: log C.
        fitted: Whether a batch with a label has been processed.

    Reference: Liao, Gavves, Oh and Snoek, Quasibinary Classifier for Images with Zero and Multiple Labels.

    Example:
        >>> scores, targets = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 0]])
        >>> QuasibinaryLink().fit([(scores, targets)]).probs(scores)
        tensor([[0.6103, 0.0826],
                [0.0826, 0.2245]])
    """

    log_normaliser: Tensor
    fitted: Tensor
    clips = True
    range = (0.0, 1.0)
    finite = False
    needs_fit = True
    preserves_order = True

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("log_normaliser", torch.zeros((), dtype=torch.float64))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    def log_probs(self, scores: Tensor) -> Tensor:
        """log q before clipping: above 0 where q would be above 1."""
        scores = self._check(scores)
        return scores - self._fitted_log_normaliser().to(scores.dtype)

    def initial_scores(self, probs: Tensor) -> Tensor:
        """log p: training finds C = 1 then, whatever batches the link was fitted on."""
        return torch.log(self._check(probs, "probs"))

    def _fitted_log_normaliser(self) -> Tensor:
        if is_traced() or bool(self.fitted):
            return self.log_normaliser
        hint = "Train with `QuasibinaryLoss`, or call `fit` with batches of scores and targets."
        raise InputError("link", "QuasibinaryLoss", "have seen a label before it gives probabilities", "none yet", hint)

    def probs(self, scores: Tensor) -> Tensor:
        """min(q, 1)."""
        return torch.exp(self.log_probs(scores).clamp(max=0))

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """log q - log(1 - q); infinite where q is clipped to 1."""
        log_q = self.log_probs(scores)
        inner = torch.where(log_q < 0, log_q, -1.0)
        return torch.where(log_q < 0, inner - torch.log(-torch.expm1(inner)), torch.inf)

    def scores_of_log_odds(self, log_odds: Tensor) -> Tensor:
        """The scores in closed form."""
        return self._fitted_log_normaliser().to(log_odds.dtype) + torch.nn.functional.logsigmoid(log_odds)

    @torch.no_grad()
    def fit(self, batches: Iterable[tuple[Tensor, Tensor]]) -> Self:
        """Sets C to its exact value over all batches of (scores, targets); returns itself.

        log C = log of the sum of e^score over all known cells - log of the number of labels.
        """
        log_sum, labels = torch.tensor(-torch.inf, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        for scores, targets in batches:
            batch = prepare_batch("QuasibinaryLink.fit", scores.double(), targets)
            log_sum = torch.logaddexp(log_sum, torch.logsumexp(batch.masked_scores, dim=(0, 1)).cpu())
            labels += batch.targets.sum().cpu()
        if not labels > 0:
            hint = "Pass batches in which a label is present."
            raise InputError("batches", "QuasibinaryLink.fit", "hold a label", "none", hint)
        self.log_normaliser.copy_(log_sum - labels.log())
        self.fitted.fill_(True)
        return self


class SoftmaxLink(Link):
    """Scores of softmax cross-entropy: the probability of each class given that exactly one is present; rows sum to 1.

    Example:
        >>> SoftmaxLink().probs(torch.tensor([[0.0, 0.0, 1.0]]))
        tensor([[0.2119, 0.2119, 0.5761]])
    """

    range = (0.0, 1.0)
    finite = True
    preserves_order = False  # only within rows

    def probs(self, scores: Tensor) -> Tensor:
        """Softmax over the last axis."""
        return torch.softmax(self._check(scores), dim=-1)

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """log p - log(1 - p); infinite for the only class of a problem with one."""
        if scores.shape[-1] == 0:
            return scores
        log_p = torch.log_softmax(scores, dim=-1)
        # Only the largest class can be so probable that 1 - p cancels: set it against the sum of the others instead.
        top = scores.argmax(-1, keepdim=True)
        rest = scores.scatter(-1, top, -torch.inf).logsumexp(-1, keepdim=True)
        log_odds = log_p - torch.log1p(-torch.exp(log_p.clamp(max=-0.5)))
        return log_odds.scatter(-1, top, scores.gather(-1, top) - rest)

    def scores(self, probs: Tensor) -> Tensor:
        """log p: softmax forgets a constant, so these scores are one choice of many."""
        return torch.log(self._check(probs, "probs"))


# Slopes underflow further out, even in float64; what their ratio is by then, it stays.
FAR = 600.0


class RatioLink(Link):
    """The link of any loss that adds over labels: p = l0' / (l0' - l1').

    l1 and l0 are the losses of a present and of an absent label. At the score that minimises p l1 + (1 - p) l0 the
    slopes balance, so their ratio is the probability which that score means.

    Args:
        loss: Takes scores (N, K) and targets (N, K); what it returns is summed.
    """

    def __init__(self, loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        # In a tuple, so that a loss that is a module does not become part of this one's state.
        self._loss = (loss,)

    def _most_weights(self) -> int:
        loss = self._loss[0]
        return most_weights(loss) if isinstance(loss, nn.Module) else 1

    def unweighted_log_odds(self, scores: Tensor) -> Tensor:
        """log l0' - log(-l1'), in float64; 0 over 0 where the loss is flat for both."""
        absent, present = self.slopes(scores.double().clamp(-FAR, FAR))
        return (torch.log(absent.clamp(min=0)) - torch.log(present.clamp(min=0))).to(scores.dtype)

    def slopes(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """l0' and -l1': those that the loss itself knows, or else by automatic differentiation."""
        known = getattr(self._loss[0], "slopes", None)
        return (self._slopes(scores, 0.0), -self._slopes(scores, 1.0)) if known is None else known(scores)

    def _slopes(self, scores: Tensor, target: float) -> Tensor:
        """Derivative of the loss of each score if every label had this target."""
        cells = scores.detach().reshape(-1, scores.shape[-1]).requires_grad_()
        with torch.enable_grad():
            value = self._loss[0](cells, torch.full_like(cells, target)).sum()
        (slopes,) = torch.autograd.grad(value, cells)
        return slopes.reshape(scores.shape)


def ratio_link(loss: Callable[[Tensor, Tensor], Tensor]) -> RatioLink:
    """Derives the link of a loss that adds over labels, also of one that this package does not know.

    Args:
        loss: Takes scores and targets, both (N, K), and returns any reduction. Losses that mix labels or rows have no
            link.

    Example:
        >>> squared = lambda scores, targets: (torch.sigmoid(scores) - targets) ** 2
        >>> ratio_link(squared).probs(torch.tensor([[0.0, 1.0]]))
        tensor([[0.5000, 0.7311]])
    """
    if not getattr(loss, "adds_over_labels", True):
        hint = "Fit a calibrator on held-out scores and targets."
        raise InputError("loss", "ratio_link", "add over labels", type(loss).__name__, hint)
    return RatioLink(loss)
