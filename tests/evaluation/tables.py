"""Tables of predictions to evaluate."""

import torch

import manyhot as mh


def drawn(rows=400, labels=6, *, seed=0, unknown=0.1):
    """Scores of a known population, rows without labels, a label never present and one never known."""
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, labels, generator=draw) * 2 - 1
    targets = (torch.rand(rows, labels, generator=draw) < torch.sigmoid(0.8 * scores)).to(torch.int8)
    targets[::9] = 0
    targets[:, 3] = 0
    targets[torch.rand(rows, labels, generator=draw) < unknown] = -1
    targets[7:8] = -1
    targets[:, 4] = -1
    return scores, targets


def names(labels):
    return [f"label {k}" for k in range(labels)]


def with_link(**options):
    scores, targets = drawn(**options)
    return mh.Predictions(scores=scores, targets=targets, labels=names(scores.shape[1]), link=mh.SigmoidLink())


def with_decisions(**options):
    scores, targets = drawn(**options)
    probs = torch.sigmoid(scores)
    abstain = (probs - 0.5).abs().amin(1) < 0.01
    return mh.Predictions(
        probs=probs, targets=targets, decisions=probs >= 0.3, abstain=abstain, labels=names(scores.shape[1])
    )


def one_label(rows=300, labels=5, *, seed=0):
    """At most one label a row, as in the softmax world."""
    draw = torch.Generator().manual_seed(seed)
    classes = torch.randint(-1, labels, (rows,), generator=draw)
    targets = mh.one_hot(classes, labels)
    scores = torch.randn(rows, labels, generator=draw) + 2.0 * targets
    return mh.Predictions(scores=scores, targets=targets, link=mh.links.SoftmaxLink())
