"""How uncertain the maps of a calibrator are, against draws of a known population and numerical Hessians."""

import json

import pytest
import torch

import manyhot as mh
from manyhot.calibrate import partial_pooling
from manyhot.numerics import softplus
from manyhot.serialization import from_dict, to_dict
from tests.errors.expected import raises_input_error

KINDS = [mh.TemperatureScaling, mh.PlattScaling, mh.BetaCalibration]
SHARING = ["all", "none", "partial"]


def population(rows, labels=4, *, seed=0, slopes=0.6, intercepts=-0.5):
    """Scores and targets whose log-odds are an affine map of the scores."""
    draw = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(rows, labels, generator=draw, dtype=torch.float64) + 1
    chances = torch.sigmoid(slopes * scores + intercepts)
    return scores, (torch.rand(scores.shape, generator=draw, dtype=torch.float64) < chances).int()


def log_likelihood(family, parameters, scores, targets):
    """Of maps (K, D), all labels together."""
    features = torch.stack([*family.features(scores), torch.ones_like(scores)][: parameters.shape[1]], 2)
    log_odds = (features * parameters).sum(2)
    return (targets * log_odds - softplus(log_odds)).sum()


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("kind", KINDS)
def test_the_covariance_is_the_inverse_of_the_numerical_hessian(kind, sharing, monkeypatch):
    """Of the penalised log-likelihood of all labels and, where it is learnt, of the mean of their prior."""
    used, maps_of = [], partial_pooling.maps_of

    def recording(family, frame, point, prior, **options):
        used.append((frame, prior))
        return maps_of(family, frame, point, prior, **options)

    monkeypatch.setattr(partial_pooling, "maps_of", recording)
    scores, targets = population(300)
    calibrator = kind(sharing=sharing).fit(scores, targets)
    frame, prior = used[-1]
    shape, family = calibrator.posterior.mean.shape, calibrator.family

    def penalised(numbers):
        parameters, mean = numbers[:-1], numbers[-1] if sharing == "partial" else prior.mean
        in_frame = parameters * frame.units
        if family.intercept:
            shifts = parameters[:, -1] - frame.offset + (parameters.T * frame.centre).sum(0)
            in_frame = torch.cat([in_frame[:, :-1], shifts.unsqueeze(1)], 1)
        distances = in_frame - mean
        if sharing == "partial":
            distances = torch.cat([distances, (mean - prior.mean.detach()).unsqueeze(0)])
        penalty = ((distances @ prior.precision) * distances).sum() / 2
        return penalty - log_likelihood(family, parameters, scores, targets)

    at = torch.cat([calibrator.posterior.mean, prior.mean.unsqueeze(0)])
    hessian = torch.autograd.functional.hessian(penalised, at).reshape(at.numel(), at.numel())
    if sharing != "partial":
        hessian = hessian[: shape.numel(), : shape.numel()]
    blocks = torch.linalg.inv(hessian)[: shape.numel(), : shape.numel()].reshape(*shape, *shape)
    want = torch.stack([blocks[label, :, label] for label in range(shape[0])])
    torch.testing.assert_close(calibrator.posterior.covariance, want, rtol=1e-6, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("sharing", ["all", "none"])
@pytest.mark.parametrize("kind", [mh.PlattScaling, mh.BetaCalibration])
def test_log_odds_vary_over_repeated_draws_by_their_standard_deviation(kind, sharing):
    grid = torch.linspace(-2, 4, 7, dtype=torch.float64).unsqueeze(1).repeat(1, 2)
    fitted = [kind(sharing=sharing).fit(*population(500, 2, seed=seed)) for seed in range(120)]
    spread = torch.stack([each.log_odds(grid) for each in fitted]).std(0)
    stated = torch.stack([each.posterior.log_odds_std(grid) for each in fitted]).mean(0)
    torch.testing.assert_close(stated, spread, rtol=0.25, atol=0)
    assert float((stated / spread).mean()) == pytest.approx(1, abs=0.1)


@pytest.mark.slow
def test_errors_of_labels_of_one_population_have_their_standard_deviation():
    """The maps are shrunk, and so is what they are off by."""
    grid, squares = torch.linspace(-3, 3, 7, dtype=torch.float64).unsqueeze(1).repeat(1, 40), []
    for seed in range(8):
        draw = torch.Generator().manual_seed(1000 + seed)
        slopes = 0.8 + 0.2 * torch.randn(40, generator=draw, dtype=torch.float64)
        intercepts = -2.5 + 0.5 * torch.randn(40, generator=draw, dtype=torch.float64)
        calibrator = mh.PlattScaling().fit(*population(2000, 40, seed=seed, slopes=slopes, intercepts=intercepts))
        errors = calibrator.log_odds(grid) - (slopes * grid + intercepts)
        squares.append((errors / calibrator.posterior.log_odds_std(grid)).square().mean())
    assert float(torch.stack(squares).mean().sqrt()) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("kind", KINDS)
def test_samples_have_the_mean_and_the_covariance(kind, sharing):
    calibrator = kind(sharing=sharing).fit(*population(200))
    posterior = calibrator.posterior
    samples = posterior.sample(20_000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(samples, posterior.sample(20_000, generator=torch.Generator().manual_seed(0)))
    for label in range(len(posterior.mean)):
        std = posterior.covariance[label].diagonal().sqrt()
        assert float(((samples[:, label].mean(0) - posterior.mean[label]) / std).abs().max()) < 0.04
        found = torch.cov(samples[:, label].T).reshape(len(std), len(std))
        assert float(((found - posterior.covariance[label]) / std / std[:, None]).abs().max()) < 0.06
    scores = torch.linspace(-3, 5, 9, dtype=torch.float64).unsqueeze(1).repeat(1, 4)
    features = torch.stack([*calibrator.family.features(scores), torch.ones_like(scores)][: samples.shape[2]], 2)
    std = torch.einsum("nkd,skd->snk", features, samples.expand(-1, 4, -1)).std(0)
    torch.testing.assert_close(posterior.log_odds_std(scores), std, rtol=0.03, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_label_without_data_is_as_uncertain_as_its_prior(kind):
    scores, targets = population(300)
    targets[:, 2] = -1
    grid = torch.linspace(-3, 3, 6, dtype=torch.float64).unsqueeze(1).repeat(1, 4)
    std = kind().fit(scores, targets).posterior.log_odds_std(grid)
    assert bool((std[:, 2] > std[:, [0, 1, 3]].amax(1)).all())


def test_more_data_leave_less_uncertainty():
    grid = torch.zeros(1, 4)
    few, many = (mh.PlattScaling().fit(*population(rows)).posterior.log_odds_std(grid) for rows in (100, 10_000))
    assert float((many / few).max()) < 0.3


@pytest.mark.parametrize("sharing", SHARING)
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_saved_with_the_calibrator(kind, sharing, tmp_path):
    scores, targets = population(200)
    calibrator = kind(sharing=sharing).fit(scores, targets)
    mh.save(calibrator, tmp_path / "calibrator.json")
    fresh = kind(sharing=sharing)
    fresh.load_state_dict(calibrator.state_dict())
    for again in (mh.load(tmp_path / "calibrator.json"), fresh):
        assert torch.equal(again.posterior.covariance, calibrator.posterior.covariance)
        assert torch.equal(again.posterior.log_odds_std(scores), calibrator.posterior.log_odds_std(scores))


def test_an_older_file_opens_and_says_that_it_has_none(tmp_path):
    scores, targets = population(200)
    calibrator = mh.BetaCalibration().fit(scores, targets)
    content = json.loads(json.dumps(to_dict(calibrator))) | {"format": 3}
    del content["buffers"]["covariance"]
    old = from_dict(content)
    assert torch.equal(old(scores), calibrator(scores))
    mh.save(old, tmp_path / "calibrator.json")
    for each in (old, mh.load(tmp_path / "calibrator.json")):
        with raises_input_error(
            "posterior", "BetaCalibration", rule="be stored by `fit`", hint="Fit the calibrator again"
        ):
            _ = each.posterior


def test_what_it_does_not_take():
    with raises_input_error(rule="be fitted before use"):
        _ = mh.PlattScaling().posterior
    scores, targets = population(50)
    posterior = mh.PlattScaling().fit(scores, targets).posterior
    with raises_input_error(rule="have the 4 labels that were fitted", got="3"):
        posterior.log_odds_std(scores[:, :3])
    with raises_input_error("draws", "Posterior.sample", rule="be a whole number, at least 1"):
        posterior.sample(0)
    with raises_input_error("kind", rule="be 'scores', on which it was fitted"):
        posterior.log_odds_std(torch.sigmoid(scores), kind="probs")
