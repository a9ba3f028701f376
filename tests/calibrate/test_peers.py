"""Calibrators of other packages where they are right, and what they do where they are not."""

import netcal.scaling
import numpy as np
import pytest
import torch
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import manyhot as mh
from manyhot.calibrate.isotonic import pooled_blocks
from manyhot.calibrate.partial_pooling import Cells

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


def divergence(probs, rates):
    """Nats a cell by which probabilities are worse than the true rates."""
    probs = probs.double().clamp(1e-4, 1 - 1e-4)
    return float((torch.xlogy(rates, rates / probs) + torch.xlogy(1 - rates, (1 - rates) / (1 - probs))).mean())


def isotonic_peer(scores, targets):
    return IsotonicRegression(out_of_bounds="clip").fit(scores[:, 0].numpy(), targets[:, 0].numpy())


@pytest.mark.parametrize("sharing", ["all", "none", "partial"])
def test_isotonic_gives_the_rates_of_four_distinct_scores(sharing):
    draw = torch.Generator().manual_seed(0)
    level = torch.randint(4, (40_000, 1), generator=draw)
    scores, rates = torch.tensor([-2.0, -1.0, 1.0, 2.0])[level], torch.tensor([0.05, 0.604, 0.62, 0.95])[level]
    targets = (torch.rand(rates.shape, generator=draw) < rates).double()
    probs = mh.IsotonicCalibration(sharing=sharing).fit(scores, targets)(scores)
    for k in range(4):
        assert float(probs[level == k].mean()) == pytest.approx(float(targets[level == k].mean()), abs=2e-3)


@pytest.mark.parametrize("levels", [11, None], ids=["tied", "continuous"])
def test_isotonic_finds_steps_as_well_as_scikit_learn(levels):
    """The true rate is one of four, and does not follow any smooth curve of the score."""
    ours = peers = 0.0
    for seed in range(3):
        draw = torch.Generator().manual_seed(seed)
        scores = 2 * torch.randn(10_000, 1, generator=draw, dtype=torch.float64)
        scores = scores if levels is None else scores.round().clamp(-(levels // 2), levels // 2)
        rates = torch.tensor([0.05, 0.2, 0.6, 0.9]).double()[(scores > torch.tensor([-1.5, 0.0, 1.5])).sum(1)]
        targets = (torch.rand(len(rates), generator=draw) < rates).double().unsqueeze(1)
        ours += divergence(mh.IsotonicCalibration().fit(scores, targets)(scores)[:, 0], rates)
        peers += divergence(torch.from_numpy(isotonic_peer(scores, targets).predict(scores[:, 0].numpy())), rates)
    assert ours < 1.2 * peers + 1e-5


def test_affine_for_all_is_logistic_regression():
    scores, targets = data(rows=4000)
    peer = LogisticRegression(C=1e9, tol=1e-10).fit(scores.reshape(-1, 1).numpy(), targets.flatten().numpy())
    ours = mh.PlattScaling(sharing="all").fit(scores, targets)
    assert ours.slopes.item() == pytest.approx(peer.coef_.item(), rel=1e-3)
    assert ours.intercept.item() == pytest.approx(peer.intercept_.item(), rel=1e-2)


@netcal_warns
def test_temperature_of_one_label_is_that_of_netcal():
    scores, targets = data(rows=2000, labels=1)
    peer = netcal.scaling.TemperatureScaling()
    peer.fit(torch.sigmoid(scores).numpy(), targets.flatten().numpy().astype(int))
    said = peer.transform(torch.sigmoid(scores).numpy()).reshape(-1, 1)
    np.testing.assert_allclose(mh.TemperatureScaling(sharing="all").fit(scores, targets)(scores), said, atol=2e-3)


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
    ours = mh.TemperatureScaling(sharing="all").fit(scores, targets)(scores)
    assert float(ours.sum(1).mean()) == pytest.approx(float(targets.sum(1).float().mean()), rel=0.05)
