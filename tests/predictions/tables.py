"""Tables that the tests share."""

import re

import torch

import manyhot as mh
from manyhot.predictions import Predictions
from tests.errors.expected import raises_input_error

LABELS = ["cat", "traffic light", "dog"]
PLAIN = "id,cat,dog,bird\na,0.9,0.2,0.5\nb,0.1,0.3,1\n"
PROBS = [[0.9, 0.2, 0.5], [0.1, 0.3, 1.0]]


def table(rows=7, labels=LABELS, *, seed=0, dtype=torch.float32, unknown=0.2, **columns):
    """A table with everything: scores, probs, targets, decisions, abstentions, ids, paths and splits."""
    draw = torch.Generator().manual_seed(seed)
    scores = 3 * torch.randn(rows, len(labels), generator=draw, dtype=dtype)
    targets = (torch.rand(scores.shape, generator=draw) < 0.4).to(torch.int8)
    targets[torch.rand(scores.shape, generator=draw) < unknown] = -1
    targets[:1] = 0
    everything = {
        "scores": scores,
        "probs": scores.sigmoid(),
        "targets": targets,
        "decisions": scores > 0,
        "abstain": scores.abs().amin(1) < 0.3,
        "labels": labels,
        "ids": [f"sample {row}" for row in range(rows)],
        "paths": [f"photos/{row}.jpg" for row in range(rows)],
        "splits": ["val" if row % 3 else "test" for row in range(rows)],
        "link": mh.SigmoidLink(),
    }
    return Predictions(**(everything | columns))


def assert_same(one, other):
    """All columns are equal, with their types."""
    assert one.labels.names == other.labels.names
    assert one.kinds == other.kinds
    for name in ("scores", "probs", "targets", "decisions", "abstain"):
        mine, theirs = getattr(one, name), getattr(other, name)
        assert (mine is None) == (theirs is None), name
        if mine is not None:
            assert mine.dtype == theirs.dtype, name
            assert mine.shape == theirs.shape, name
            assert torch.equal(mine, theirs), name
    assert one.ids == other.ids
    assert one.paths == other.paths
    assert one.splits == other.splits


def refused(sentence):
    return raises_input_error(match=f"^{re.escape(sentence)}$")
