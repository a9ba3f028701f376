"""What a path of linear heads consists of, and the choice of one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from manyhot.cells import as_scores, as_targets
from manyhot.checks import check_choice, check_features
from manyhot.data.targets import SparseTargets
from manyhot.heads import LinearHead
from manyhot.links.link import Link
from manyhot.losses.loss import Loss
from manyhot.metrics.precision import average_precision
from manyhot.metrics.probability import LogLoss
from manyhot.refusal import refusal

# Of scores and targets, both (N, K): one number, or one a label (K,); higher is better.
Judge = Callable[[Tensor, Tensor], Any]


@dataclass(frozen=True)
class Choice:
    """The strength that did best on held-out samples.

    Attributes:
        index: () its number on the path; (K,) for a choice label by label.
        strength: The strength itself, shaped like `index`.
        figures: (S,) how each strength did; (S, K) for a choice label by label.
    """

    index: Tensor
    strength: Tensor
    figures: Tensor


@dataclass(frozen=True)
class LinearPath:
    """Linear heads for several strengths of the penalty, from strong to weak.

    Attributes:
        weights: (S, K, D), for features as they were given.
        bias: (S, K), zeros where there is none.
        strengths: (S,) float64, falling.
        values: (S, K) the objective of each label; (S, 1) for a loss that mixes labels.
        steps: Shaped like `values`, how many steps were taken.
        converged: Shaped like `values`, whether the minimum was reached.
        loss: What was minimised.
        links: What the scores of each strength mean: the link of the loss, but for the quasibinary loss a link for each
            head, since each has a normaliser of its own.
    """

    weights: Tensor
    bias: Tensor
    strengths: Tensor
    values: Tensor
    steps: Tensor
    converged: Tensor
    loss: Loss
    links: list[Link]

    def __len__(self) -> int:
        """The number S of strengths."""
        return len(self.strengths)

    def __repr__(self) -> str:
        return (
            f"LinearPath({len(self)} strengths from {self.strengths[0]:g} to {self.strengths[-1]:g}, "
            f"{self.weights.shape[1]} labels, {self.weights.shape[2]} features, {self.converged.float().mean():.0%} "
            f"converged)"
        )

    @property
    def adds_over_labels(self) -> bool:
        """Whether each label is a problem of its own, and may have a strength of its own."""
        return self.loss.adds_over_labels

    def head(self, index: int | Tensor) -> LinearHead:
        """The head of one strength, or of one strength a label for (K,) numbers."""
        weights, bias = self._of(index)
        head = LinearHead(weights.shape[1], len(weights)).to(weights.dtype)
        assert head.bias is not None
        with torch.no_grad():
            head.weight.copy_(weights)
            head.bias.copy_(bias)
        return head

    @torch.no_grad()
    def scores(self, features: Any, index: int | Tensor) -> Tensor:
        """(N, K) of features (N, D) by the head of one strength, or of one strength a label."""
        values = as_scores("LinearPath", features, name="features").to(self.weights.dtype)
        check_features("LinearPath", values, self.weights.shape[2])
        weights, bias = self._of(index)
        return torch.addmm(bias.to(values.device), values, weights.to(values.device).mT)

    def choose(self, features: Any, targets: Any, *, by: str | Judge = "mAP", per: str = "all") -> Choice:
        """The strength that does best on held-out samples; of equals, the strongest.

        Args:
            features: (N, D).
            targets: (N, K): 1 present, 0 absent, -1 unknown; also `SparseTargets`.
            by: "mAP" (mean average precision by label), "log loss" (by the link of the loss), or a function of scores
                and targets, both (N, K), that gives one number, or one a label; higher is better.
            per: "all" for one strength, "label" for one a label, which a loss that adds over labels allows. A label
                without a figure, such as the average precision of one that is never present, gets that of the rest.

        Example:
            >>> features, targets = torch.randn(90, 4), torch.randint(0, 2, (90, 3))
            >>> path = mh.linear.fit_path(features[:60], targets[:60], mh.BinaryCrossEntropyLoss(), strengths=[9, 1])
            >>> choice = path.choose(features[60:], targets[60:], by="log loss", per="label")
            >>> path.head(choice.index)
            LinearHead(in_features=4, num_labels=3, bias='label')
        """
        check_choice("per", "LinearPath.choose", per, ("all", "label"))
        if per == "label" and not self.adds_over_labels:
            remedy = "Pass per='all'."
            rule = "be 'all' for a loss that mixes labels"
            raise refusal("per", "LinearPath.choose", rule, f"'label' with {type(self.loss).__name__}", remedy)
        table = targets.dense() if isinstance(targets, SparseTargets) else targets
        figures = torch.stack([self._figure(by, features, table, index) for index in range(len(self))])
        means = figures if figures.ndim == 1 else mean_of_defined(figures)
        index = means.nan_to_num(-torch.inf).argmax()
        if per == "label":
            if figures.ndim == 1:
                rule = "give one number a label for a choice label by label"
                raise refusal("by", "LinearPath.choose", rule, "one number", "Return (K,), or pass per='all'.")
            index = torch.where(figures.isnan().all(0), index, figures.nan_to_num(-torch.inf).argmax(0))
        shown = figures if per == "label" else means
        return Choice(index, self.strengths[index], -shown if by == "log loss" else shown)

    def _of(self, index: int | Tensor) -> tuple[Tensor, Tensor]:
        if isinstance(index, Tensor) and index.ndim:
            labels = torch.arange(self.weights.shape[1])
            return self.weights[index.cpu(), labels], self.bias[index.cpu(), labels]
        return self.weights[int(index)], self.bias[int(index)]

    def _figure(self, by: str | Judge, features: Any, targets: Any, index: int) -> Tensor:
        scores, judge = self.scores(features, index), self._judge(by, index)
        return torch.as_tensor(judge(scores, as_targets("LinearPath.choose", targets, scores))).double().cpu()

    def _judge(self, by: str | Judge, index: int) -> Judge:
        if callable(by):
            return by
        check_choice("by", "LinearPath.choose", by, ("mAP", "log loss"))
        if by == "mAP":
            return average_precision

        def minus_log_loss(scores: Tensor, targets: Tensor) -> Tensor:
            return -LogLoss().update(self.links[index].probs(scores), targets).compute().details["by_label"]

        return minus_log_loss


def mean_of_defined(figures: Tensor) -> Tensor:
    """(S,) the mean over labels (S, K) of those that have a figure."""
    return figures.nanmean(1)
