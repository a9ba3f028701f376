"""Arms: what is compared. An arm is a loss with the head it is trained on; everything else is equal."""

from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from manyhot.heads import CosineHead, HiddenHead, LinearHead, TwoHeads
from manyhot.links import NoLink
from manyhot.losses import LabelPairRegulariser, Loss
from manyhot.refusal import refusal


@dataclass(frozen=True)
class Arm:
    """One row of a table.

    Attributes:
        name: As the table shows it.
        loss: As recipes write it, such as "AsymmetricLoss(gamma_neg=4)" or "BCE".
        head: "linear" or "cosine"; losses for two heads get theirs.
        bias: "label", "shared" or "none".
        scale: Of a cosine head.
        start: Of the bias: "rates" (what the link makes of the label rates), "sigmoid rates" (what a sigmoid makes of
            them, for losses without a link; of two heads, the deciding one), "zero", or "mode 0" to "mode 7".
        hidden: Units between features and scores.
        dropout: Of these.
        lr: Factor on the learning rate, for heads on features; a network learns at another pace.
    """

    name: str
    loss: str
    head: str = "linear"
    bias: str = "label"
    scale: float = 16.0
    start: str = "rates"
    hidden: int = 0
    dropout: float = 0.0
    lr: float = 1.0

    def settings(self) -> dict[str, object]:
        """All that decides what is trained; the learning rate is in the plan."""
        return {key: value for key, value in asdict(self).items() if key not in ("name", "lr")}


def build_head(arm: Arm, width: int, num_labels: int, loss: Loss, rates: Tensor, *, seed: int) -> nn.Module:
    """The head of an arm; the same seed gives the same weights whatever the loss."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = _weights(arm, width, num_labels, loss)
    if isinstance(head, TwoHeads):
        if arm.start == "sigmoid rates":
            head.multi.init_bias(rates)
        return head
    if arm.start == "sigmoid rates":
        head.init_bias(rates)
    elif arm.start == "rates":
        # Label pairs that are compared by another link leave none to read by; where to start, the loss within knows.
        link = loss.loss.link if isinstance(loss, LabelPairRegulariser) else loss.link
        if not isinstance(link, NoLink) and arm.bias != "none":
            head.init_bias(rates, link=link)
    elif arm.start.startswith("mode "):
        head.init_diverse_bias(int(arm.start[5:]), generator=torch.Generator().manual_seed(seed))
    elif arm.start != "zero":
        raise refusal(
            "start", "Arm", "be 'rates', 'sigmoid rates', 'zero' or 'mode 0' to 'mode 7'", repr(arm.start), "Pick one."
        )
    return head


def _weights(arm: Arm, width: int, num_labels: int, loss: Loss) -> nn.Module:
    if loss.heads == 2:
        return TwoHeads(width, num_labels)
    if arm.head == "cosine":
        return CosineHead(width, num_labels, bias=arm.bias, scale=arm.scale)
    if arm.hidden:
        return HiddenHead(width, num_labels, hidden=arm.hidden, dropout=arm.dropout)
    return LinearHead(width, num_labels, bias=arm.bias)
