"""Links that divide by a sum: one learned for all samples and classes (quasibinary), one for each row (softmax)."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from manyhot.checks import check_batch
from manyhot.links.link import Link
from manyhot.refusal import refusal


class QuasibinaryLink(Link):
    """Scores of the quasibinary loss: q = min(e^score / C, 1), with one C for all classes and samples; onto (0, 1].

    The loss keeps a moving average of log C here while it trains. The average lags behind the weights, so after
    training `fit` computes the exact C over a data set.

    Attributes:
        log_normaliser: log C.
        fitted: Whether a label has been seen.

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

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("log_normaliser", torch.zeros((), dtype=torch.float64))
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))

    def log_probs(self, scores: Tensor) -> Tensor:
        """log q before clipping: above 0 where the scores promise more than certainty."""
        scores = self._check(scores)
        return scores - self._fitted_log_normaliser().to(scores.dtype)

    @property
    def finite(self) -> bool:
        """Not where q is clipped to 1."""
        return False

    @property
    def keeps_order(self) -> bool:
        """It does: one constant for all."""
        return True

    def initial_scores(self, probs: Tensor) -> Tensor:
        """log p: training finds C = 1 then, whatever the link has seen so far."""
        return torch.log(self._check(probs, "probs"))

    def _fitted_log_normaliser(self) -> Tensor:
        if torch.compiler.is_compiling() or bool(self.fitted):
            return self.log_normaliser
        rule = "have seen a label before it gives probabilities"
        remedy = "Train with `QuasibinaryLoss`, or call `fit` with batches of scores and targets."
        raise refusal("link", "QuasibinaryLoss", rule, "none yet", remedy)

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
    def fit(self, batches: Iterable[tuple[Tensor, Tensor]]) -> QuasibinaryLink:
        """Sets C to its exact value over all batches of (scores, targets); returns itself.

        log C = log of the sum of e^score over all known cells - log of the number of labels.
        """
        log_sum, labels = torch.tensor(-torch.inf, dtype=torch.float64), torch.zeros((), dtype=torch.float64)
        for scores, targets in batches:
            batch = check_batch("QuasibinaryLink.fit", scores.double(), targets)
            log_sum = torch.logaddexp(log_sum, torch.logsumexp(batch.visible_scores, dim=(0, 1)).cpu())
            labels += batch.targets.sum().cpu()
        if not labels > 0:
            remedy = "Pass batches in which a label is present."
            raise refusal("batches", "QuasibinaryLink.fit", "hold a label", "none", remedy)
        self.log_normaliser.copy_(log_sum - labels.log())
        self.fitted.fill_(True)
        return self


class SoftmaxLink(Link):
    """Scores of softmax cross-entropy: the probability of each class given that exactly one is present; rows sum to 1.

    Example:
        >>> SoftmaxLink().probs(torch.tensor([[0.0, 0.0, 1.0]]))
        tensor([[0.2119, 0.2119, 0.5761]])
    """

    @property
    def keeps_order(self) -> bool:
        """Only within rows."""
        return False

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
