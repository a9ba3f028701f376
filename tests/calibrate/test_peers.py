"""Calibrators of other packages where they are right, and what they do where they are not."""

import netcal.scaling
import numpy as np
import pytest
import torch
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import manyhot as mh
from manyhot.calibrate.maps import Cells
from manyhot.calibrate.pooling import pooled_blocks

# What the peers' own dependencies warn of is not ours to mend.
netcal_warns = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::FutureWarning")


def data(rows=400, labels=3, seed=0):
    draw = torch.Generator().manual_seed(seed)
    log_odds = 1.5 * torch.randn(rows, labels, generator=draw, dtype=torch.float64)
    targets = (torch.rand(rows, labels, generator=draw, dtype=torch.float64) < torch.sigmoid(log_odds)).double()
    return 2 * log_odds + 0.7, targets


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_pooled_rates_are_those_of_scikit_learn(ties, weighted):
    scores, targets = data()
    scores = scores.round() if ties else scores
    weights = torch.rand(scores.shape, generator=torch.Generator().manual_seed(1)).double() if weighted else None
    blocks = pooled_blocks(Cells(scores, targets, torch.ones_like(scores) if weights is None else weights))
    for label in range(scores.shape[1]):
        given = None if weights is None else weights[:, label].numpy()
        peer = IsotonicRegression().fit(scores[:, label].numpy(), targets[:, label].numpy(), sample_weight=given)
        want = np.unique(peer.predict(scores[:, label].numpy()).round(9))
        np.testing.assert_allclose(blocks.rate[blocks.label == label], want, atol=1e-8)


def test_affine_for_all_is_logistic_regression():
    scores, targets = data(rows=4000)
    peer = LogisticRegression(C=1e9, tol=1e-10).fit(scores.reshape(-1, 1).numpy(), targets.flatten().numpy())
    ours = mh.Affine(per="all").fit(scores, targets)
    assert ours.slopes.item() == pytest.approx(peer.coef_.item(), rel=1e-3)
    assert ours.intercept.item() == pytest.approx(peer.intercept_.item(), rel=1e-2)


@netcal_warns
def test_temperature_of_one_label_is_that_of_netcal():
    scores, targets = data(rows=2000, labels=1)
    peer = netcal.scaling.TemperatureScaling()
    peer.fit(torch.sigmoid(scores).numpy(), targets.flatten().numpy().astype(int))
    said = peer.transform(torch.sigmoid(scores).numpy()).reshape(-1, 1)
    np.testing.assert_allclose(mh.Temperature(per="all").fit(scores, targets)(scores), said, atol=2e-3)


@netcal_warns
def test_netcal_takes_rows_of_many_labels_for_a_softmax():
    """The reason for calibrators of our own: probabilities of a row with several labels are made to sum to 1."""
    draw = torch.Generator().manual_seed(0)
    scores = torch.randn(500, 3, generator=draw) + 3
    targets = (torch.rand(500, 3, generator=draw) < torch.sigmoid(scores)).int()
    assert float(targets.sum(1).float().mean()) > 2
    peer = netcal.scaling.TemperatureScaling()
    peer.fit(torch.sigmoid(scores).numpy(), targets.numpy())
    said = np.asarray(peer.transform(torch.sigmoid(scores).numpy()))
    np.testing.assert_allclose(said.sum(1), 1, atol=1e-5)
    ours = mh.Temperature(per="all").fit(scores, targets)(scores)
    assert float(ours.sum(1).mean()) == pytest.approx(float(targets.sum(1).float().mean()), rel=0.05)
