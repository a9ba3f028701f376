"""What scores mean before calibration: the link where it is believed, and an order that never gets lost."""

import pytest
import torch

import manyhot as mh
from manyhot.calibrate.calibrator import RELIABLE_LOG_ODDS, bounded_log_odds

LINKS = {
    "sigmoid": mh.SigmoidLink,
    "sigmoid-weighted": lambda: mh.SigmoidLink([7.0, 1e6]),
    "focal": lambda: mh.links.AsymmetricLink(4, 1),
    "margin": lambda: mh.links.AsymmetricLink(4, 0, 0.05),
    "margin-focused": lambda: mh.links.AsymmetricLink(4, 1, 0.05),
    "margin-weighted": lambda: mh.links.AsymmetricLink(4, 0, 0.2, pos_weight=[1e5, 1e-5]),
    "spa": mh.links.StrictlyProperAsymmetricLink,
    "quasibinary": lambda: mh.links.QuasibinaryLink().fit([(torch.tensor([[3.0, 0.0]]), torch.tensor([[1, 0]]))]),
    "quasibinary-high": lambda: mh.links.QuasibinaryLink().fit([(torch.tensor([[1e4, 0.0]]), torch.tensor([[1, 0]]))]),
    "ratio": lambda: mh.ratio_link(mh.AsymmetricLoss()),
}
LADDER = torch.cat([torch.linspace(-60, 60, 4001), torch.tensor([-1e4, -500.0, 500.0, 9990.0, 1e4, 2e4])])
SCORES = LADDER.double().sort().values.unsqueeze(1).repeat(1, 2)


@pytest.mark.parametrize("name", LINKS)
def test_finite_and_strictly_increasing(name):
    input_log_odds = bounded_log_odds(LINKS[name](), SCORES)
    assert bool(input_log_odds.isfinite().all())
    assert bool((input_log_odds.diff(dim=0) > 0).all())


@pytest.mark.parametrize("name", LINKS)
def test_continuous(name):
    """Where it rises most, it does so by many small steps."""
    link, steps = LINKS[name](), torch.linspace(0, 1, 1001, dtype=torch.float64)
    for label in (0, 1):
        scores = -60 + 120 * steps.unsqueeze(1).repeat(1, 2)
        for _ in range(2):
            rises = bounded_log_odds(link, scores)[:, label].diff()
            start, end = scores[rises.argmax(), 0], scores[rises.argmax() + 1, 0]
            scores = (start + (end - start) * steps).unsqueeze(1).repeat(1, 2)
            assert bounded_log_odds(link, scores)[:, label].diff().max() < rises.max() / 5


@pytest.mark.parametrize("name", ["sigmoid", "sigmoid-weighted", "focal", "spa", "margin-focused"])
def test_the_link_itself_up_to_where_it_is_believed(name):
    link = LINKS[name]()
    want, input_log_odds = link.log_odds(SCORES), bounded_log_odds(link, SCORES)
    inside = want.abs() <= RELIABLE_LOG_ODDS
    assert int(inside.sum()) > 100
    torch.testing.assert_close(input_log_odds[inside], want[inside])


@pytest.mark.parametrize("name", LINKS)
def test_beyond_it_follows_the_score(name):
    far = torch.tensor([[-3e4], [-2e4], [2e4], [3e4]], dtype=torch.float64).repeat(1, 2)
    input_log_odds = bounded_log_odds(LINKS[name](), far)
    steps = torch.stack([input_log_odds[1] - input_log_odds[0], input_log_odds[3] - input_log_odds[2]])
    torch.testing.assert_close(steps, torch.full_like(steps, 1e4))


def test_a_limit_below_one_is_left_before_it_is_reached():
    link = mh.links.AsymmetricLink(4, 0, 0.05)
    limit = torch.logit(torch.tensor(link.range[1], dtype=torch.float64))
    near, far = bounded_log_odds(link, torch.tensor([[2.0], [9.0]], dtype=torch.float64))
    assert near == link.log_odds(torch.tensor(2.0, dtype=torch.float64))
    assert far > limit + 3


def test_softmax_of_rows_and_of_a_single_class():
    link, scores = mh.links.SoftmaxLink(), torch.tensor([[2.0, -1.0, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(torch.sigmoid(bounded_log_odds(link, scores)), link.probs(scores))
    alone = bounded_log_odds(link, torch.tensor([[-1e4], [0.0], [1e4]], dtype=torch.float64))
    assert bool(alone.isfinite().all())
    assert bool((alone.diff(dim=0) > 0).all())


def test_a_fitted_calibrator_does_not_follow_a_loss_that_goes_on_learning():
    loss = mh.QuasibinaryLoss()
    scores, targets = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), torch.ones(50, 3)
    loss(scores, targets)
    calibrator = mh.PlattScaling(link=loss.link).fit(scores, targets)
    before = calibrator(scores)
    loss(scores + 5, targets)
    assert torch.equal(calibrator(scores), before)


def test_a_link_that_only_ranks_is_none():
    scores, targets = torch.randn(50, 3, generator=torch.Generator().manual_seed(0)), torch.eye(3).repeat(17, 1)[:50]
    without, ranking = (mh.PlattScaling(link=link).fit(scores, targets) for link in (None, mh.TwoWayLoss().link))
    assert ranking.link is None
    assert torch.equal(without(scores), ranking(scores))


@pytest.mark.parametrize("make", [mh.calibrate.QuasibinaryConstant, mh.calibrate.SoftmaxTemperature])
@pytest.mark.parametrize("link", [mh.links.SoftmaxLink(), mh.SigmoidLink()], ids=["softmax", "sigmoid"])
def test_a_calibrator_in_the_place_of_a_link_takes_scores_as_they_are(make, link, tmp_path):
    """What is not saved with it must not matter."""
    draw = torch.Generator().manual_seed(0)
    scores, targets = 3 * torch.randn(50, 3, generator=draw), torch.eye(3)[torch.randint(0, 3, (50,), generator=draw)]
    calibrator = make()
    calibrator.link = link
    calibrator.fit(scores, targets)
    assert torch.equal(calibrator(scores), make().fit(scores, targets)(scores))
    mh.save(calibrator, tmp_path / "calibrator.json")
    assert torch.equal(mh.load(tmp_path / "calibrator.json")(scores), calibrator(scores))
