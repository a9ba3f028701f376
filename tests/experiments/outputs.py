"""Small outputs of runs made by hand: scores that know something of the targets, and a loss to read them by."""

import torch
from torch import Tensor

import manyhot as mh
from experiments.training import RunOutput
from manyhot.heads import Head, LinearHead, TwoHeads

ROWS = {"val": 300, "test": 260}
LABELS = 12


def drawn(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def output_of(
    loss: mh.Loss, scores: dict[str, Tensor], targets: dict[str, Tensor], *, head: Head | TwoHeads | None = None
) -> RunOutput:
    """An output with training counts of 0, 15, 30 and so on."""
    labels = scores["test"].shape[1]
    counts = 15 * torch.arange(labels)
    moving = None
    if isinstance(loss.link, mh.links.QuasibinaryLink):
        loss.link.fit([(scores["val"], targets["val"])])
        moving = mh.links.QuasibinaryLink()
        moving.load_state_dict(loss.link.state_dict())
        moving.log_normaliser += 0.3
    return RunOutput(scores, targets, counts, loss, head or LinearHead(3, labels), 1.0, 1.0, moving_link=moving)


def many(loss: mh.Loss, *, seed: int = 0, labels: int = LABELS) -> RunOutput:
    """Rows with zero, one or many labels; scores are log-odds of the truth, made too sure."""
    draw = drawn(seed)
    log_odds = {split: torch.randn(rows, labels, generator=draw) * 2 - 2 for split, rows in ROWS.items()}
    targets = {
        split: (torch.rand(u.shape, generator=draw) < torch.sigmoid(u)).to(torch.int8) for split, u in log_odds.items()
    }
    return output_of(loss, {split: 1.5 * u for split, u in log_odds.items()}, targets)


def single(
    loss: mh.Loss, *, seed: int = 0, labels: int = LABELS, out: float = 0.0, head: Head | TwoHeads | None = None
) -> RunOutput:
    """Rows with one label each, drawn by the softmax of the scores; a share of the test rows with none, scored low."""
    draw = drawn(seed)
    scores = {split: 3 * torch.randn(rows, labels, generator=draw) for split, rows in ROWS.items()}
    targets = {
        split: mh.one_hot(torch.multinomial(values.softmax(1), 1, generator=draw).squeeze(1), labels).to(torch.int8)
        for split, values in scores.items()
    }
    empty = torch.arange(ROWS["test"]) < out * ROWS["test"]
    targets["test"][empty] = 0
    scores["test"][empty] *= 0.3
    return output_of(loss, scores, targets, head=head)
