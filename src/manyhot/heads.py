"""Heads: from features to scores, linear or cosine, with no bias, one for all labels, or one for each.

Heads compute in the precision of their weights, also under autocast: scores of 8 bits tie where those of 24 do not, and
next to a backbone a head costs little.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyhot.checks import check_choice, check_features, check_int, check_number
from manyhot.errors import InputError
from manyhot.links import Link, SigmoidLink

BIASES = ("none", "shared", "label", "outside")


def without_autocast(compute: Callable[[Tensor], Tensor], features: Tensor, weight: Tensor) -> Tensor:
    """What `compute` makes of features, in the precision of the weights where torch would choose a lower one."""
    kind = features.device.type
    if kind == "meta" or not torch.is_autocast_enabled(kind):
        return compute(features)
    with torch.autocast(kind, enabled=False):
        return compute(features.to(weight.dtype))


def hidden_units(layer: nn.Linear, features: Tensor, dropout: float, training: bool) -> Tensor:
    """The units (N, H) of a hidden layer, while training without those that are dropped."""
    return F.dropout(F.relu(without_autocast(layer, features, layer.weight)), dropout, training)


class Head(nn.Module, ABC):
    """Weights and bias of a head; subclasses define the product of features and weights, and the sign of the bias.

    Args:
        in_features: Width D of the features.
        num_labels: Number K of labels.
        bias: "none", "shared" (one number for all labels) or "label" (one for each); "outside" for thresholds that a
            loss such as `ClassWiseLoss` compares scores with, one for each label, which scores do not contain.
    """

    bias_sign: ClassVar[int] = 1
    bias: Tensor | None

    def __init__(self, in_features: int, num_labels: int, *, bias: str = "label") -> None:
        super().__init__()
        owner = type(self).__name__
        self.in_features = check_int("in_features", owner, in_features, low=1)
        self.num_labels = check_int("num_labels", owner, num_labels, low=1)
        self.bias_kind = check_choice("bias", owner, bias, BIASES)
        self.weight = nn.Parameter(torch.empty(self.num_labels, self.in_features))
        shape = {"shared": (), "label": (self.num_labels,), "outside": (self.num_labels,)}.get(bias)
        self.bias = None if shape is None else nn.Parameter(torch.zeros(shape))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))

    @abstractmethod
    def metrics(self, features: Tensor) -> Tensor:
        """Scores before the bias, (N, K)."""

    def forward(self, features: Tensor) -> Tensor:
        """Scores (N, K) of features (N, D)."""
        check_features(type(self).__name__, features, self.in_features)
        metrics = without_autocast(self.metrics, features, self.weight)
        return metrics if self.bias is None or self.bias_kind == "outside" else metrics + self.bias_sign * self.bias

    def threshold(self) -> Tensor:
        """The learned threshold on the metrics: () for a shared bias or none, (K,) for one per label.

        A label is predicted where its metric lies above, which is where its score lies above 0; with a bias "outside",
        scores are the metrics themselves.
        """
        if self.bias is None:
            return self.weight.new_zeros(())
        factor = 1 if self.bias_kind == "outside" else -self.bias_sign
        return factor * self.bias.detach()

    def set_thresholds(self, thresholds: Tensor) -> Head:
        """Stores thresholds of the scores that a loss has learnt; for a head without bias; returns itself."""
        if self.bias_kind != "none":
            hint = "Build the head with bias='none'."
            raise InputError("bias", f"{type(self).__name__}.set_thresholds", "be 'none'", self.bias_kind, hint)
        self.bias_kind, self.bias = "outside", nn.Parameter(thresholds.detach().clone().to(self.weight))
        return self

    @torch.no_grad()
    def init_bias(self, rates: Tensor, *, link: Link | None = None) -> Head:
        """Sets the bias so that scores of zero-mean metrics mean the label rates; returns itself.

        Training then does not begin by unlearning that half of all labels are present.

        Args:
            rates: (K,), share of samples that carry each label. Rates of 0 and 1 should be smoothed before; a shared
                bias takes their mean.
            link: Of the loss to be trained with; sigmoid by default.
        """
        owner = f"{type(self).__name__}.init_bias"
        if self.bias is None or self.bias_kind == "outside":
            hint = "Build the head with bias='label' or 'shared'."
            raise InputError("bias", owner, "exist", "a head without bias", hint)
        rates = torch.as_tensor(rates, dtype=torch.float64, device=self.weight.device)
        if rates.shape != (self.num_labels,) or not bool(((rates > 0) & (rates < 1)).all()):
            got = str(tuple(rates.shape)) if rates.shape != (self.num_labels,) else "a rate of 0, 1 or beyond"
            hint = "Pass (targets.sum(0) + 0.5) / (n + 1)."
            raise InputError("rates", owner, f"be ({self.num_labels},) between 0 and 1", got, hint)
        wanted = rates if self.bias.ndim else rates.mean().expand_as(rates)
        scores = (link or SigmoidLink()).initial_scores(wanted)
        if not bool(scores.isfinite().all()):
            hint = "Use rates inside of `link.range`."
            raise InputError("rates", owner, "be within the range of the link", f"{float(rates.max()):g}", hint)
        self.bias.copy_(self.bias_sign * (scores if self.bias.ndim else scores.mean()))
        return self

    @torch.no_grad()
    def init_diverse_bias(self, mode: int, *, generator: torch.Generator | None = None) -> Head:
        """Sets the bias to one of the eight starts of `diverse_bias`; returns itself."""
        owner = f"{type(self).__name__}.init_diverse_bias"
        if self.bias_kind != "label" or self.bias is None:
            hint = "Build the head with bias='label'."
            raise InputError("bias", owner, "have one number per label", self.bias_kind, hint)
        self.bias.copy_(diverse_bias(mode, self.num_labels, generator=generator))
        return self

    def extra_repr(self) -> str:
        """Sizes and bias."""
        return f"in_features={self.in_features}, num_labels={self.num_labels}, bias={self.bias_kind!r}"


class LinearHead(Head):
    """score_k = w_k . x + b_k: the usual last layer, with a choice of bias.

    The bias is added, so the learned threshold on w_k . x is -b.

    Args:
        in_features: Width D of the features.
        num_labels: Number K of labels.
        bias: "none", "shared", "label" or "outside".
        centred: Whether features are taken around their mean, `centre`, as they were in training: the threshold is then
            that of w_k . (x - centre).

    Example:
        >>> head = LinearHead(4, 3).init_bias(torch.tensor([0.5, 0.1, 0.01]))
        >>> head.bias
        Parameter containing:
        tensor([ 0.0000, -2.1972, -4.5951], requires_grad=True)
        >>> head(torch.zeros(2, 4)).shape
        torch.Size([2, 3])
    """

    centre: Tensor | None

    def __init__(self, in_features: int, num_labels: int, *, bias: str = "label", centred: bool = False) -> None:
        super().__init__(in_features, num_labels, bias=bias)
        self.register_buffer("centre", torch.zeros(self.in_features) if centred else None)

    @property
    def centred(self) -> bool:
        """Whether features are taken around their mean."""
        return self.centre is not None

    def metrics(self, features: Tensor) -> Tensor:
        """w_k . x."""
        return F.linear(features if self.centre is None else features - self.centre, self.weight)


class CosineHead(Head):
    """score_k = scale cos(w_k, x) - b_k: features and weights matter by direction only, which steadies training.

    The bias is subtracted, so the learned threshold on scale * cos is +b, and b / scale on the cosine.

    Args:
        in_features: Width D of the features.
        num_labels: Number K of labels.
        bias: "none", "shared" or "label".
        scale: The factor gamma on the cosine.

    Reference: Li et al., Rediscovering BCE Loss for Uniform Classification, table I.

    Example:
        >>> head = CosineHead(2, 1, bias="shared", scale=10)
        >>> head(torch.zeros(1, 2))
        tensor([[0.]], grad_fn=<AddBackward0>)
    """

    bias_sign: ClassVar[int] = -1

    def __init__(self, in_features: int, num_labels: int, *, bias: str = "shared", scale: float = 96.0) -> None:
        super().__init__(in_features, num_labels, bias=bias)
        self.scale = check_number("scale", "CosineHead", scale, "(0, inf)")

    def metrics(self, features: Tensor) -> Tensor:
        """scale cos(w_k, x); 0 for a zero vector."""
        cosines: Tensor = F.linear(unit(features), unit(self.weight).to(features.dtype))
        return self.scale * cosines

    def extra_repr(self) -> str:
        """Sizes, bias and scale."""
        return f"{super().extra_repr()}, scale={self.scale:g}"


def unit(vectors: Tensor) -> Tensor:
    """Vectors of length 1; a zero vector stays zero and has no gradient, where division by its length would explode."""
    wide = vectors if vectors.dtype == torch.float64 else vectors.float()
    lengths = torch.linalg.vector_norm(wide, dim=-1, keepdim=True)
    units: Tensor = wide * ((lengths > 0) / lengths.clamp(min=1e-12))
    return units.to(vectors.dtype)


class MLPHead(nn.Module):
    """A hidden layer, then a linear head: for features that do not lie on one side of a plane for each label.

    Args:
        in_features: Width D of the features.
        num_labels: Number K of labels.
        hidden: Units of the hidden layer.
        dropout: Share of its units that are left out at random while training.
        bias: Of the linear head.

    Example:
        >>> head = MLPHead(4, 3, hidden=8, dropout=0.5).init_bias(torch.tensor([0.5, 0.1, 0.01]))
        >>> head(torch.zeros(2, 4)).shape
        torch.Size([2, 3])
    """

    def __init__(
        self, in_features: int, num_labels: int, *, hidden: int = 128, dropout: float = 0.0, bias: str = "label"
    ) -> None:
        super().__init__()
        self.in_features = check_int("in_features", "MLPHead", in_features, low=1)
        self.num_labels = check_int("num_labels", "MLPHead", num_labels, low=1)
        self.hidden = check_int("hidden", "MLPHead", hidden, low=1)
        self.dropout = check_number("dropout", "MLPHead", dropout, "[0, 1)")
        self.layer = nn.Linear(self.in_features, self.hidden)
        self.last = LinearHead(self.hidden, self.num_labels, bias=bias)

    @property
    def bias_kind(self) -> str:
        """The bias of the linear head."""
        return self.last.bias_kind

    def threshold(self) -> Tensor:
        """The learned threshold of the linear head, as `LinearHead.threshold`."""
        return self.last.threshold()

    def forward(self, features: Tensor) -> Tensor:
        """Scores (N, K) of features (N, D)."""
        check_features("MLPHead", features, self.in_features)
        scores: Tensor = self.last(hidden_units(self.layer, features, self.dropout, self.training))
        return scores

    def init_bias(self, rates: Tensor, *, link: Link | None = None) -> MLPHead:
        """Sets the bias of the scores to the label rates, as `LinearHead.init_bias`; returns itself."""
        self.last.init_bias(rates, link=link)
        return self


class TwoHeads(nn.Module):
    """Two heads on the same features, for `AverageKLoss`: one proposes by softmax, one decides by sigmoids.

    Args:
        in_features: Width D of the features.
        num_labels: Number K of labels.
        hidden: Units of a hidden layer that both share, 0 for none.
        dropout: Share of its units that are left out at random while training.
        scale: Of cosine heads; None for linear ones.
        centred: Whether linear heads take features around their mean, see `LinearHead`.

    Example:
        >>> heads = TwoHeads(4, 3, hidden=8)
        >>> scores = heads(torch.zeros(2, 4))
        >>> scores.shape
        torch.Size([2, 2, 3])
        >>> TwoHeads.select(scores, "multi").shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        in_features: int,
        num_labels: int,
        *,
        hidden: int = 0,
        dropout: float = 0.0,
        scale: float | None = None,
        centred: bool = False,
    ) -> None:
        super().__init__()
        self.in_features = check_int("in_features", "TwoHeads", in_features, low=1)
        self.num_labels = check_int("num_labels", "TwoHeads", num_labels, low=1)
        self.hidden = check_int("hidden", "TwoHeads", hidden, low=0)
        self.dropout = check_number("dropout", "TwoHeads", dropout, "[0, 1)")
        self.scale = scale
        self.layer = nn.Linear(self.in_features, self.hidden) if self.hidden else None
        self.single, self.multi = (self._head(self.hidden or self.in_features, centred) for _ in range(2))

    def _head(self, width: int, centred: bool) -> Head:
        if self.scale is None:
            return LinearHead(width, self.num_labels, centred=centred)
        return CosineHead(width, self.num_labels, bias="label", scale=self.scale)

    @property
    def centred(self) -> bool:
        """Whether linear heads take features around their mean."""
        return isinstance(self.multi, LinearHead) and self.multi.centred

    def forward(self, features: Tensor) -> Tensor:
        """Scores (N, 2, K): first the single-label head, then the multi-label head."""
        if self.layer is not None:
            check_features("TwoHeads", features, self.in_features)
            features = hidden_units(self.layer, features, self.dropout, self.training)
        return torch.stack([self.single(features), self.multi(features)], dim=1)

    @staticmethod
    def select(scores: Tensor, head: str) -> Tensor:
        """Scores (N, K) of one head, "single" or "multi", for prediction."""
        names = ("single", "multi")
        return scores.select(1, names.index(check_choice("head", "TwoHeads.select", head, names)))


def diverse_bias(mode: int, num_labels: int, *, generator: torch.Generator | None = None) -> Tensor:
    """The eight initialisations of a bias of one number per label, (K,), that the paper compares.

    Mode 0 is random around zero (uniform within 1 / sqrt(K)); 1 counts up, 2 and 3 run from 0 to 64 and back, 4 and 5
    rise and fall like a logarithm, 6 and 7 alternate between log(96 K) and 0 by quarters of the labels.

    Args:
        mode: 0 to 7.
        num_labels: Number K of labels.
        generator: For mode 0.

    Reference: Li et al., Rediscovering BCE Loss for Uniform Classification, section V and table X.

    Example:
        >>> diverse_bias(2, 4)
        tensor([16., 32., 48., 64.])
    """
    if mode not in range(8):
        raise InputError("mode", "diverse_bias", "be 0 to 7", repr(mode), "See the eight modes in its documentation.")
    i, n = torch.arange(1, num_labels + 1, dtype=torch.float32), num_labels
    if mode == 0:
        return (2 * torch.rand(n, generator=generator) - 1) / math.sqrt(n)
    level, high = math.log(96 * n), (i <= n / 4) | ((i >= n / 2) & (i <= 3 * n / 4))
    starts = [i, 64 * i / n, 64 * (n - i) / n, (96 * i).log(), (96 * (n + 1 - i)).log(), level * high, level * ~high]
    return starts[mode - 1]
