"""What reports are written of in these tests: populations with known probabilities, and quick runs."""

import torch

import manyhot as mh
from manyhot.data import read_data
from manyhot.demo import demo_settings
from manyhot.engine import NoProgress


def population(rows, labels, *, seed=0, rate=-1.0):
    """Honest probabilities and targets that were drawn by them."""
    draw = torch.Generator().manual_seed(seed)
    probs = torch.sigmoid(2 * torch.randn(rows, labels, generator=draw) + rate)
    return probs, (torch.rand(rows, labels, generator=draw) < probs).int()


def trained(scenes, folder, **settings):
    """A run of a few epochs on the scenes of a table."""
    wanted = demo_settings(epochs=4, seed=0)
    wanted = wanted.replace(**settings) if settings else wanted
    return mh.train(read_data(scenes), wanted, folder=folder, source={"paths": [str(scenes)]}, progress=NoProgress())
