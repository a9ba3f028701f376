"""Small problems that the engine is tried on."""

import numpy as np
import torch
from torch import nn

import manyhot as mh
from manyhot.data.loading import Batch, FeatureBatches
from manyhot.data.targets import SparseTargets
from manyhot.network import Network

ROWS, FEATURES, LABELS = 37, 6, 5


class DoubleFeatures(FeatureBatches):
    """Some rows cannot be read, as with images."""

    def __init__(self, features, targets, *, bad=()):
        super().__init__(features, targets)
        self.bad = torch.as_tensor(list(bad), dtype=torch.int64)

    def load(self, groups, *, epoch):
        for batch in super().load(groups, epoch=epoch):
            good = ~torch.isin(batch.rows, self.bad)
            yield Batch(batch.inputs[good], batch.targets[good], batch.rows[good])


class Broken(Exception):
    """Stands for whatever ends a process."""


class BreaksOff(FeatureBatches):
    """Raises when so many batches have been read."""

    def __init__(self, data, after):
        super().__init__(data.features, data.targets)
        self.left = after

    def load(self, groups, *, epoch):
        for batch in super().load(groups, epoch=epoch):
            if self.left == 0:
                raise Broken
            self.left -= 1
            yield batch


def targets_of(case=None, *, rows=ROWS):
    draw = torch.Generator().manual_seed(0)
    if case is not None and case.one_label():
        dense = mh.one_hot(torch.randint(-1, LABELS, (rows,), generator=draw), LABELS).to(torch.int8)
    else:
        dense = (torch.rand(rows, LABELS, generator=draw) < 0.4).to(torch.int8)
        dense[2] = 0
    dense[torch.arange(rows) % 7 == 3, 1] = -1
    return dense


def sparse(dense):
    rows, columns = np.nonzero(dense.numpy())
    return SparseTargets.from_cells(rows, columns, dense.numpy()[rows, columns], shape=tuple(dense.shape))


def data_of(dense, *, kind=DoubleFeatures, dtype=torch.float64, **options):
    draw = torch.Generator().manual_seed(1)
    features = torch.randn(len(dense), FEATURES, generator=draw, dtype=torch.float64)
    features[:, :LABELS] += dense
    return kind(features.to(dtype), sparse(dense), **options)


def network_of(*, heads=1, dropout=0.0, norm=False, dtype=torch.float64):
    torch.manual_seed(2)
    layers = [nn.Linear(FEATURES, 8), nn.BatchNorm1d(8) if norm else nn.Identity(), nn.Tanh(), nn.Dropout(dropout)]
    head = mh.heads.TwoHeads(8, LABELS) if heads == 2 else mh.LinearHead(8, LABELS)
    return Network(nn.Sequential(*layers), head, reading="multi" if heads == 2 else "plain").to(dtype)


def weights(result):
    """Everything that training changes, as one dict."""
    state = {f"network.{name}": value for name, value in result.network.state_dict().items()}
    return {**state, **{f"loss.{name}": value for name, value in result.loss.state_dict().items()}}


def assert_same(one, other):
    """To the last bit."""
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert torch.equal(value, second[name]), name


def assert_close(one, other, rtol=1e-6):
    first, second = weights(one), weights(other)
    assert first.keys() == second.keys()
    for name, value in first.items():
        torch.testing.assert_close(
            second[name], value, rtol=rtol, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}"
        )
