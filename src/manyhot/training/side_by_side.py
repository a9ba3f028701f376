"""Several heads on the same features, each trained by itself; their mean, which is what gets used, is again one head.

Heads that start differently and drop different units err differently, so their mean errs less, in rank and in
probability. On frozen features that costs no further look at a picture.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from manyhot.checks import Batch, check_count
from manyhot.heads import HiddenHead
from manyhot.links import Link
from manyhot.losses import Loss, Term
from manyhot.refusal import refusal


class HiddenHeads(nn.Module):
    """Hidden heads side by side, for `EachHeadLoss`.

    Args:
        in_features: Width D of the features.
        num_labels: Number K of labels.
        heads: Their number M.
        hidden: Units of the hidden layer of each.
        dropout: Share of these that are left out at random while training, others in each head.
        bias: Of the scores, "label" or "none".

    Example:
        >>> heads = HiddenHeads(4, 3, heads=2, hidden=8).eval()
        >>> features = torch.randn(5, 4)
        >>> heads(features).shape
        torch.Size([5, 2, 3])
        >>> torch.allclose(heads.merged()(features), heads(features).mean(1), atol=1e-6)
        True
    """

    def __init__(
        self,
        in_features: int,
        num_labels: int,
        *,
        heads: int = 2,
        hidden: int = 128,
        dropout: float = 0.0,
        bias: str = "label",
    ) -> None:
        super().__init__()
        number = check_count("heads", "HiddenHeads", heads, low=1)
        self.parts = nn.ModuleList(
            HiddenHead(in_features, num_labels, hidden=hidden, dropout=dropout, bias=bias) for _ in range(number)
        )

    def forward(self, features: Tensor) -> Tensor:
        """Scores (N, M, K) of features (N, D)."""
        return torch.stack([part(features) for part in self.parts], dim=1)

    def init_bias(self, rates: Tensor, *, link: Link | None = None) -> HiddenHeads:
        """Sets the bias of all heads to the label rates, as `LinearHead.init_bias`; returns itself."""
        for part in self.heads():
            part.init_bias(rates, link=link)
        return self

    def heads(self) -> list[HiddenHead]:
        """The heads."""
        return [part for part in self.parts if isinstance(part, HiddenHead)]

    @torch.no_grad()
    def merged(self) -> HiddenHead:
        """One head that gives the mean of their scores: it has the units of all, each counting an M-th."""
        parts = self.heads()
        first, number = parts[0], len(parts)
        one = HiddenHead(
            first.in_features,
            first.num_labels,
            hidden=number * first.hidden,
            dropout=first.dropout,
            bias=first.bias_kind,
        )
        one.layer.weight.copy_(torch.cat([part.layer.weight for part in parts]))
        one.layer.bias.copy_(torch.cat([part.layer.bias for part in parts]))
        one.last.weight.copy_(torch.cat([part.last.weight for part in parts], dim=1) / number)
        if one.last.bias is not None:
            one.last.bias.copy_(torch.stack([part.last.get_parameter("bias") for part in parts]).mean(0))
        return one.to(first.last.weight.device).train(self.training)


class EachHeadLoss(Loss):
    """The mean over heads of a loss: each learns by itself, as if the others were not there.

    Shape: scores (N, M, K), targets as in the given loss; returns ().
    Link: that of the given loss, for the mean of the scores.
    No-label rows: as in the given loss.

    Args:
        loss: That of one head; a mean, of scores and targets alone.
        heads: Their number M, at least 2.

    Example:
        >>> one = mh.BinaryCrossEntropyLoss()
        >>> scores, targets = torch.randn(4, 2, 3), torch.tensor([[1, 0, 0]]).repeat(4, 1)
        >>> both = (one(scores[:, 0], targets) + one(scores[:, 1], targets)) / 2
        >>> torch.allclose(EachHeadLoss(one, heads=2)(scores, targets), both)
        True
    """

    def __init__(self, loss: Loss, *, heads: int) -> None:
        if loss.reduction not in ("mean", "batchmean"):
            remedy = "Build it with reduction='mean', or train one head (heads=1)."
            raise refusal("loss", "EachHeadLoss", "be a mean", f"reduction={loss.reduction!r}", remedy)
        super().__init__(loss.link)
        self.loss, self.mixes_rows = loss, loss.mixes_rows
        # What other losses know by their class, this one knows by the loss that it was given.
        self.heads = check_count("heads", "EachHeadLoss", heads, low=2)  # type: ignore[misc]
        self.soft_targets = loss.soft_targets  # type: ignore[misc]
        self.single_label = loss.single_label  # type: ignore[misc]

    def terms(self, batch: Batch, *aligned: Tensor) -> list[Term]:
        """The means of every head, each counting an M-th."""
        return [
            Term(term.values / self.heads, term.count)
            for scores in batch.scores.unbind(1)
            for term in self.loss.terms(batch._replace(scores=scores))
        ]
