"""Populations whose probabilities are known, seen through scores that distort them: calibrators find them again."""

import pytest
import torch

import manyhot as mh
from manyhot.links import invert_increasing
from manyhot.numerics import softplus
from tests.errors.expected import raises_input_error

LABELS = 12
SHIFTS = torch.linspace(-1.0, 1.0, LABELS, dtype=torch.float64)
STRETCHES = torch.linspace(0.5, 2.0, LABELS, dtype=torch.float64)
DISTORTIONS = {
    "none": lambda log_odds: log_odds,
    "temperature": lambda log_odds: 3 * log_odds,
    "affine": lambda log_odds: 2 * log_odds + 1.5,
    "affine-by-label": lambda log_odds: STRETCHES * log_odds + SHIFTS,
    "bent": lambda log_odds: invert_increasing(lambda e: 0.5 - 0.4 * softplus(-e) + 1.6 * softplus(e), log_odds),
    "stairs": lambda log_odds: log_odds + torch.sin(2 * log_odds) / 2.2,
}
# Which calibrators can undo which distortion.
ABLE = [
    ("temperature", mh.TemperatureScaling, "all"),
    ("temperature", mh.TemperatureScaling, "partial"),
    ("affine", mh.PlattScaling, "all"),
    ("affine-by-label", mh.PlattScaling, "none"),
    ("affine-by-label", mh.PlattScaling, "partial"),
    ("affine-by-label", mh.BetaCalibration, "partial"),
    ("affine-by-label", mh.IsotonicCalibration, "partial"),
    ("bent", mh.BetaCalibration, "all"),
    ("bent", mh.BetaCalibration, "partial"),
    ("stairs", mh.IsotonicCalibration, "all"),
    ("stairs", mh.IsotonicCalibration, "partial"),
    *(
        ("none", kind, "partial")
        for kind in (mh.TemperatureScaling, mh.PlattScaling, mh.BetaCalibration, mh.IsotonicCalibration)
    ),
]


def population(rows, seed, labels=LABELS, mean=-1.5):
    draw = torch.Generator().manual_seed(seed)
    log_odds = 2 * torch.randn(rows, labels, generator=draw, dtype=torch.float64) + mean
    targets = (torch.rand(rows, labels, generator=draw, dtype=torch.float64) < torch.sigmoid(log_odds)).to(torch.int8)
    return log_odds, targets


def excess(log_odds, truth):
    """What is lost by saying these log-odds instead of the true ones, in nats a cell on average over outcomes."""
    p = torch.sigmoid(truth)
    said, best = (torch.nn.functional.binary_cross_entropy_with_logits(x, p) for x in (log_odds, truth))
    return float(said - best)


@pytest.mark.slow
@pytest.mark.parametrize(("distortion", "kind", "sharing"), ABLE)
def test_known_distortions_are_undone(distortion, kind, sharing):
    distort = DISTORTIONS[distortion]
    log_odds, targets = population(6000, seed=0)
    calibrator = kind(sharing=sharing).fit(distort(log_odds), targets)
    fresh, _ = population(20000, seed=1)
    loss = excess(calibrator.log_odds(distort(fresh)), fresh)
    assert loss < (1.2e-3 if kind is mh.IsotonicCalibration else 6e-4)  # a free curve knows less of each place
    if distortion != "none":
        assert loss < excess(distort(fresh), fresh) / 5


def test_parameters_are_those_of_the_distortion():
    log_odds, targets = population(60000, seed=0, labels=3)
    assert mh.TemperatureScaling(sharing="all").fit(3 * log_odds, targets).temperature.item() == pytest.approx(
        3, rel=0.02
    )
    affine = mh.PlattScaling(sharing="all").fit(2 * log_odds + 1.5, targets)
    assert affine.slopes.item() == pytest.approx(0.5, rel=0.02)
    assert affine.intercept.item() == pytest.approx(-0.75, rel=0.03)


def test_the_link_is_where_calibration_starts():
    """Scores of the loss whose link is given need no more than the identity."""
    log_odds, targets = population(20000, seed=0)
    loss = mh.StrictlyProperAsymmetricLoss()
    scores = loss.link.scores_of_log_odds(log_odds)
    calibrator = mh.PlattScaling(sharing="all", link=loss.link).fit(scores, targets)
    assert calibrator.slopes.item() == pytest.approx(1, rel=0.03)
    assert calibrator.intercept.item() == pytest.approx(0, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [mh.PlattScaling, mh.BetaCalibration, mh.IsotonicCalibration])
def test_shrinking_helps_where_labels_are_rare_and_does_no_harm_where_they_are_not(kind):
    """With few rows it beats a map for each label, with many a map for all, and it is never much worse than either."""

    def losses(rows, seed):
        distort = DISTORTIONS["affine-by-label"]
        log_odds, targets = population(rows, seed=seed, mean=-4.0)
        fresh, _ = population(4000, seed=seed + 100, mean=-4.0)
        maps = {
            sharing: kind(sharing=sharing).fit(distort(log_odds), targets) for sharing in ("all", "none", "partial")
        }
        return {sharing: excess(made.log_odds(distort(fresh)), fresh) for sharing, made in maps.items()}

    few = [losses(100, seed) for seed in range(6)]
    many = [losses(8000, seed) for seed in range(2)]
    mean = {
        name: {sharing: sum(found[sharing] for found in several) / len(several) for sharing in several[0]}
        for name, several in (("few", few), ("many", many))
    }
    assert mean["few"]["partial"] < mean["few"]["none"]
    assert mean["many"]["partial"] < mean["many"]["all"] / 5
    assert mean["many"]["partial"] < 1.5 * mean["many"]["none"] + 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("kind", [mh.PlattScaling, mh.BetaCalibration])
def test_few_rows_change_scores_that_are_right_less_than_one_temperature_does(kind):
    """Log loss of a row over that of the truth, on average over eight validation splits of each size."""
    fresh, _ = population(500, seed=100, labels=40, mean=-4.0)
    for rows in (1, 5, 20):
        splits = [population(rows, seed, labels=40, mean=-4.0) for seed in range(8)]
        lost, peer = (
            sum(40 * excess(make().fit(*split).log_odds(fresh), fresh) for split in splits) / len(splits)
            for make in (kind, lambda: mh.TemperatureScaling(sharing="all"))
        )
        assert lost < peer + 0.03
        assert lost < 0.12  # nats; 0.2 to 4 where the shared map has no prior


@pytest.mark.parametrize("kind", [mh.TemperatureScaling, mh.PlattScaling, mh.BetaCalibration, mh.IsotonicCalibration])
def test_weights_that_sum_to_one_fit_the_same_map(kind):
    log_odds, targets = population(200, seed=0, labels=4)
    targets[::7] = -1
    weights = torch.linspace(0.5, 2, 200).double()
    want, got = (kind().fit(log_odds, targets, weights=w)(log_odds) for w in (weights, weights / weights.sum()))
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(
        kind().fit(log_odds, targets, weights=torch.full((200,), 0.005))(log_odds),
        kind().fit(log_odds, targets)(log_odds),
    )


@pytest.mark.parametrize("size", [1e-310, 1e307])
def test_the_scale_of_weights_does_not_matter_even_where_their_sum_overflows(size):
    log_odds, targets = population(200, seed=0, labels=4)
    weights = torch.linspace(0.5, 2, 200).double()
    want, got = (mh.BetaCalibration().fit(log_odds, targets, weights=w)(log_odds) for w in (weights, weights * size))
    torch.testing.assert_close(got, want)


def test_one_row_cannot_hide_that_scores_only_rank():
    """A thousand cells say that log-odds are 4 lower; a prior that gave way to nothing would not believe it."""
    truth, targets = population(1, seed=0, labels=1000, mean=-4.0)
    fresh, _ = population(20, seed=1, labels=1000, mean=-4.0)
    assert (
        excess(mh.BetaCalibration().fit(truth + 4, targets).log_odds(fresh + 4), fresh) < excess(fresh + 4, fresh) / 20
    )


@pytest.mark.parametrize("kind", [mh.PlattScaling, mh.BetaCalibration, mh.IsotonicCalibration])
@pytest.mark.parametrize("sharing", ["none", "partial"])
def test_a_label_that_is_never_present_is_said_to_be_rare(kind, sharing):
    log_odds, targets = population(1000, seed=0, labels=5)
    targets[:, 2] = 0
    probs = kind(sharing=sharing).fit(log_odds, targets)(log_odds)
    assert 0 < float(probs[:, 2].mean()) < 0.02
    assert float(probs[:, 0].mean()) == pytest.approx(float(targets[:, 0].double().mean()), abs=0.02)


@pytest.mark.parametrize("kind", [mh.TemperatureScaling, mh.PlattScaling, mh.BetaCalibration, mh.IsotonicCalibration])
@pytest.mark.parametrize("sharing", ["all", "none", "partial"])
def test_separable_data_stay_bounded(kind, sharing):
    scores = torch.linspace(-1, 1, 40, dtype=torch.float64).reshape(20, 2)
    calibrator = kind(sharing=sharing).fit(scores, (scores > 0).int())
    assert calibrator.log_odds(scores).abs().max().item() < 50
    assert all(bool(buffer.isfinite().all()) for buffer in calibrator.buffers())


def test_quasibinary_probabilities_add_up_to_the_number_of_labels():
    log_odds, targets = population(500, seed=0)
    scores = 0.5 * log_odds - 2
    link = mh.links.QuasibinaryLink().fit([(scores, targets)])
    calibrator = mh.calibrate.QuasibinaryConstant().fit(scores, targets)
    assert calibrator.log_normaliser.item() == pytest.approx(link.log_normaliser.item(), abs=1e-12)
    inside = link.probs(scores) < 0.99
    torch.testing.assert_close(calibrator(scores)[inside], link.probs(scores)[inside])


def test_softmax_rows_sum_to_one():
    draw = torch.Generator().manual_seed(0)
    scores = 5 * torch.randn(400, 4, generator=draw, dtype=torch.float64)
    chosen = torch.multinomial(torch.softmax(scores / 2.5, 1), 1, generator=draw).squeeze(1)
    calibrator = mh.calibrate.SoftmaxTemperature().fit(scores, mh.one_hot(chosen, 4))
    assert calibrator.temperature.item() == pytest.approx(2.5, rel=0.15)
    torch.testing.assert_close(calibrator(scores).sum(1), torch.ones(400, dtype=torch.float64), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (
            lambda: mh.PlattScaling(sharing="row"),
            r"`sharing` of `PlattScaling` must be one of 'all', 'none', 'partial'; got 'row'\.",
        ),
        (
            lambda: mh.BetaCalibration(link="sigmoid"),
            r"`link` of `BetaCalibration` must be a link or None; got str\. Pass `loss.link`",
        ),
        (lambda: mh.PlattScaling()(torch.zeros(1, 2)), r"must be fitted before use; got an unfitted one\. Call `fit`"),
        (
            lambda: mh.PlattScaling().fit(torch.zeros(3, 2), torch.zeros(3, 2))(torch.zeros(1, 3)),
            r"must have the 2 labels that were fitted; got 3\.",
        ),
        (
            lambda: mh.IsotonicCalibration().fit(torch.tensor([[torch.inf]]), torch.ones(1, 1)),
            r"`scores` of `IsotonicCalibration` must be finite; got inf at row 0, column 0\. Clip them",
        ),
        (
            lambda: mh.calibrate.SoftmaxTemperature().fit(torch.zeros(1, 2), torch.ones(1, 2)),
            r"must have at most one label per row; got a row with several\.",
        ),
    ],
)
def test_refusals(act, words):
    with raises_input_error(match=words):
        act()
