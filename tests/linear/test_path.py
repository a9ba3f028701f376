"""Paths of linear heads: the same optimum as peers find, for every loss and in every corner."""

import math
import re

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import manyhot as mh
from manyhot.data.targets import SparseTargets
from manyhot.linear import fit_path
from manyhot.linear import path as path_module
from tests.errors.expected import raises_input_error

STRENGTHS = [100.0, 1.0, 0.01]


def make_data(rows=300, width=8, labels=5, *, seed=0):
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(rows, width)) @ draw.normal(size=(width, width)) + 3
    weights = draw.normal(size=(labels, width)) / width
    rates = 1 / (1 + np.exp(1.5 - (features - 3) @ weights.T))
    return torch.tensor(features), torch.tensor(draw.random((rows, labels)) < rates).to(torch.int8)


def objective(loss, features, targets, weights, bias, strength):
    """The definition, by the loss itself."""
    total = loss(features @ weights.T + bias, targets)
    return float(total + strength / 2 * weights.square().sum())


def gradient(loss, features, targets, weights, bias, strength):
    weights, bias = weights.clone().requires_grad_(), bias.clone().requires_grad_()
    total = loss(features @ weights.T + bias, targets) + strength / 2 * weights.square().sum()
    return torch.cat([part.flatten() for part in torch.autograd.grad(total, [weights, bias])])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("standardise", [True, False])
def test_cross_entropy_of_labels_is_logistic_regression(standardise, bias):
    features, targets = make_data()
    path = fit_path(
        features,
        targets,
        mh.BinaryCrossEntropyLoss(),
        strengths=STRENGTHS,
        standardise=standardise,
        bias=bias,
        tolerance=1e-13,
    )
    scaler = StandardScaler(with_mean=bias) if standardise else StandardScaler(with_mean=False, with_std=False)
    scaled = scaler.fit_transform(features)
    if standardise and not bias:
        scaled = features.numpy() / features.square().mean(0).sqrt().numpy()
    for number, strength in enumerate(STRENGTHS):
        for label in range(targets.shape[1]):
            peer = LogisticRegression(
                C=1 / strength, fit_intercept=bias, solver="newton-cholesky", tol=1e-10, max_iter=1000
            ).fit(scaled, targets[:, label])
            expected = peer.decision_function(scaled)
            np.testing.assert_allclose(path.scores(features, number)[:, label], expected, atol=1e-4)
            losses = np.logaddexp(0, np.where(targets[:, label] > 0, -expected, expected)).sum()
            assert path.values[number, label] == pytest.approx(losses + strength / 2 * np.square(peer.coef_).sum())
    assert path.converged.all()


def test_softmax_cross_entropy_is_multinomial_logistic_regression():
    features, _ = make_data()
    classes = np.random.default_rng(1).integers(0, 4, len(features))
    targets = mh.one_hot(torch.tensor(classes), 4)
    path = fit_path(
        features, targets, mh.losses.SoftmaxCrossEntropyLoss(), strengths=STRENGTHS, standardise=False, tolerance=1e-13
    )
    for number, strength in enumerate(STRENGTHS):
        peer = LogisticRegression(C=1 / strength, solver="newton-cholesky", tol=1e-10, max_iter=1000)
        peer.fit(features, classes)
        np.testing.assert_allclose(path.weights[number], peer.coef_, atol=1e-4)
        np.testing.assert_allclose(path.scores(features, number).softmax(1), peer.predict_proba(features), atol=1e-4)


@pytest.mark.parametrize(
    "make",
    [
        mh.BinaryCrossEntropyLoss,
        lambda **words: mh.BinaryCrossEntropyLoss(pos_weight=[1.0, 2.0, 3.0, 0.5, 7.0], **words),
        lambda **words: mh.FocalLoss(2, 1, **words),
        mh.AsymmetricLoss,
        lambda **words: mh.AsymmetricLoss(4, 1, 0.05, pos_weight=2.0, **words),
        lambda **words: mh.StrictlyProperAsymmetricLoss(pos_weight=[1.0, 2.0, 3.0, 0.5, 7.0], **words),
    ],
)
@pytest.mark.parametrize("unknown", [0.0, 0.3])
def test_every_additive_loss_ends_where_its_gradient_vanishes(make, unknown):
    features, targets = make_data()
    hidden = torch.rand(targets.shape, generator=torch.Generator().manual_seed(0)) < unknown
    targets = targets.masked_fill(hidden, -1)
    path = fit_path(features, targets, make(), strengths=STRENGTHS, standardise=False, tolerance=1e-12)
    loss = make(reduction="sum")
    for number, strength in enumerate(STRENGTHS):
        head = path.weights[number], path.bias[number]
        assert float(path.values[number].sum()) == pytest.approx(objective(loss, features, targets, *head, strength))
        start = gradient(loss, features, targets, torch.zeros_like(head[0]), head[1], strength).norm()
        assert gradient(loss, features, targets, *head, strength).norm() < 1e-4 * start
    assert path.converged.all()


@pytest.mark.parametrize(
    "loss", [mh.TwoWayLoss(), mh.losses.MultiLabelSoftmaxLoss(), mh.losses.AssumeNegativeLoss(), mh.losses.EPRLoss(1.5)]
)
def test_other_losses_are_minimised_over_all_labels_at_once(loss):
    features, targets = make_data()
    path = fit_path(features, targets, loss, strengths=STRENGTHS, standardise=False, tolerance=1e-12)
    assert path.values.shape == (3, 1)
    factor = 1.0 if "sum" in loss.reductions else len(features)
    if factor == 1.0:
        loss.reduction = "sum"

    def total(scores, targets):
        return factor * loss(scores, targets)

    for number, strength in enumerate(STRENGTHS):
        head = path.weights[number], path.bias[number]
        assert float(path.values[number]) == pytest.approx(objective(total, features, targets, *head, strength))
        start = gradient(total, features, targets, torch.zeros_like(head[0]), head[1], strength).norm()
        assert gradient(total, features, targets, *head, strength).norm() < 1e-3 * start


def test_float32_finds_the_same_minimum():
    features, targets = make_data(rows=1000)
    exact, quick = (
        fit_path(values, targets, mh.BinaryCrossEntropyLoss(), strengths=STRENGTHS, tolerance=1e-8)
        for values in (features, features.float())
    )
    assert quick.weights.dtype == torch.float32
    torch.testing.assert_close(quick.values, exact.values, rtol=1e-6, atol=0)


def test_the_default_path_has_45_strengths_that_fall():
    features, targets = make_data()
    told = []
    path = fit_path(features, targets, mh.BinaryCrossEntropyLoss(), advance=told.append)
    assert len(path) == len(told) == 45
    assert path.strengths[0] == pytest.approx(1e5)
    assert path.strengths[-1] == pytest.approx(1e-6)
    torch.testing.assert_close(path.strengths.log().diff(), torch.full((44,), -math.log(10) / 4).double())
    assert (path.values.diff(dim=0) <= 1e-6 * path.values[1:]).all()
    assert (path.weights.square().sum((1, 2)).diff() > 0)[:20].all()
    assert "45 strengths from 100000 to 1e-06, 5 labels, 8 features, 100% converged" in repr(path)


def test_groups_and_order_of_labels_do_not_matter(monkeypatch):
    features, targets = make_data()
    whole = fit_path(features, targets, mh.BinaryCrossEntropyLoss(), strengths=STRENGTHS, tolerance=1e-12)
    monkeypatch.setattr(path_module, "CELLS_SIDE_BY_SIDE", 2 * len(features))
    order = torch.tensor([3, 0, 4, 1, 2])
    parts = fit_path(features, targets[:, order], mh.BinaryCrossEntropyLoss(), strengths=STRENGTHS, tolerance=1e-12)
    torch.testing.assert_close(parts.weights, whole.weights[:, order], atol=1e-5, rtol=1e-5)


def test_features_in_many_blocks_give_the_same_path(monkeypatch):
    features, targets = make_data()
    whole = fit_path(features, targets, mh.BinaryCrossEntropyLoss(), strengths=STRENGTHS, tolerance=1e-12)
    monkeypatch.setattr("manyhot.linear.path.NUMBERS_AT_ONCE", 8 * 37)
    monkeypatch.setattr("manyhot.linear.lbfgs.CELLS_AT_ONCE", 64)
    parts = fit_path(features, targets, mh.BinaryCrossEntropyLoss(), strengths=STRENGTHS, tolerance=1e-12)
    torch.testing.assert_close(parts.weights, whole.weights, atol=1e-6, rtol=1e-6)


def test_a_label_that_is_never_or_always_there_gets_its_rate():
    features, targets = make_data()
    targets[:, 0], targets[:, 1], targets[:, 2] = 0, 1, -1
    path = fit_path(features, targets, mh.BinaryCrossEntropyLoss(), strengths=STRENGTHS)
    assert path.converged.all()
    assert (path.weights[:, :3] == 0).all()
    rates = path.bias[0, :3].sigmoid()
    torch.testing.assert_close(rates, torch.tensor([0.5 / 301, 300.5 / 301, 0.5]).double())
    assert (path.weights[:, 3:] != 0).all()


def test_separable_labels_stay_finite():
    features = torch.linspace(-1, 1, 40).unsqueeze(1)
    path = fit_path(features, features > 0, mh.BinaryCrossEntropyLoss())
    assert path.weights.isfinite().all()
    assert path.converged.all()
    assert path.values[-1] < 0.1


def test_constant_and_repeated_features_share_what_is_known():
    features, targets = make_data()
    wide = torch.cat([features, features, torch.full((len(features), 1), 7.0)], 1)
    path = fit_path(wide, targets, mh.BinaryCrossEntropyLoss(), strengths=[1.0], tolerance=1e-13)
    torch.testing.assert_close(path.weights[0, :, :8], path.weights[0, :, 8:16], atol=1e-5, rtol=1e-4)
    assert (path.weights[0, :, 16].abs() < 1e-8).all()


@pytest.mark.parametrize("unit", [1e-100, 1e-15, 1e20])
def test_the_unit_of_standardised_features_does_not_matter(unit):
    features, targets = make_data()
    options = {"strengths": [1.0], "tolerance": 1e-12}
    usual = fit_path(features, targets, mh.BinaryCrossEntropyLoss(), **options)
    other = fit_path(features * unit, targets, mh.BinaryCrossEntropyLoss(), **options)
    torch.testing.assert_close(other.weights * unit, usual.weights, rtol=1e-6, atol=1e-9)


def test_large_means_do_not_spoil_float32():
    features, targets = make_data()
    near = fit_path(features.float(), targets, mh.BinaryCrossEntropyLoss(), strengths=[1.0], tolerance=1e-8)
    far = fit_path(features + 1e6, targets, mh.BinaryCrossEntropyLoss(), strengths=[1.0], dtype=torch.float32)
    torch.testing.assert_close(far.values, near.values, rtol=1e-5, atol=0)


def test_sparse_targets_are_taken():
    features, targets = make_data()
    dense, sparse = (
        fit_path(features, table, mh.BinaryCrossEntropyLoss(), strengths=[1.0])
        for table in (targets, SparseTargets.from_dense(targets))
    )
    assert torch.equal(dense.weights, sparse.weights)


def test_the_loss_of_the_caller_is_left_alone():
    features, targets = make_data()
    loss = mh.losses.MultiLabelSoftmaxLoss()
    fit_path(features, targets, loss, strengths=[1.0])
    assert loss.reduction == "mean"


def test_steps_that_run_out_are_told():
    features, targets = make_data()
    path = fit_path(features, targets, mh.BinaryCrossEntropyLoss(), strengths=[0.01], max_steps=1, tolerance=1e-12)
    assert not path.converged.any()
    assert (path.steps == 1).all()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"features": torch.zeros(4)},
            "`features` of `fit_path` must be (N, D); got (4,). Pass one row per sample and one column per feature, at "
            "least one of each.",
        ),
        (
            {"features": torch.tensor([[1.0], [math.nan]])},
            "`features` of `fit_path` must be finite; got nan at row 1, column 0. Drop or repair these rows.",
        ),
        (
            {"targets": torch.zeros(3, 1)},
            "`targets` of `fit_path` must be (N, K) with N = 2, as many rows as `features`; got (3, 1). Pass "
            "`manyhot.one_hot(targets, K)` for class indices, or encode names with `Labels`.",
        ),
        (
            {"targets": torch.tensor([[0.5], [1.0]])},
            "`targets` of `fit_path` must be 1, 0 or -1; got 0.5. Round them, or use a loss that adds over labels.",
        ),
        (
            {"loss": "bce"},
            "`loss` of `fit_path` must be a loss of manyhot; got str. Pass for example BinaryCrossEntropyLoss().",
        ),
        (
            {"loss": mh.AverageKLoss(2)},
            "`loss` of `fit_path` must take the scores of one head; got AverageKLoss, which takes two. Pass for "
            "example BinaryCrossEntropyLoss().",
        ),
        (
            {"loss": mh.losses.NoisedTopKLoss(1)},
            "`loss` of `fit_path` must depend on scores and targets alone; got NoisedTopKLoss, which draws or learns "
            "something of its own. Pass for example BinaryCrossEntropyLoss().",
        ),
        (
            {"strengths": [1.0, 0.0]},
            "`strengths` of `fit_path` must be a number above 0; got 0.0. Change it, or leave it out for the default.",
        ),
        (
            {"strengths": []},
            "`strengths` of `fit_path` must hold at least one number; got none. Leave it out for 45 of them.",
        ),
        (
            {"tolerance": 0},
            "`tolerance` of `fit_path` must be a number above 0; got 0. Change it, or leave it out for the default.",
        ),
        ({"max_steps": 0}, "`max_steps` of `fit_path` must be a whole number, at least 1; got 0. Pass an int."),
    ],
)
def test_what_cannot_be_fitted_is_refused(change, sentence):
    arguments = {
        "features": torch.tensor([[1.0], [2.0]]),
        "targets": torch.tensor([[0], [1]]),
        "loss": mh.BinaryCrossEntropyLoss(),
    } | change
    with raises_input_error(match=f"^{re.escape(sentence)}$"):
        fit_path(arguments.pop("features"), arguments.pop("targets"), arguments.pop("loss"), **arguments)
