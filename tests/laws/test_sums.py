"""Sums of losses: exact links where all parts add over labels, none to be pretended otherwise."""

import pytest
import torch

import manyhot as mh
from manyhot.calibrate import BetaCalibration
from manyhot.losses import AdditiveLoss, Branches, Curve, SumLink, SumLoss
from manyhot.testing import check_link, check_loss
from manyhot.testing.losses import check_link_is_slope_ratio
from manyhot.training.build import build_loss
from tests.errors.expected import raises_input_error

pytestmark = pytest.mark.slow

BCE, SPA, ASL, TWO_WAY = (
    mh.BinaryCrossEntropyLoss,
    mh.StrictlyProperAsymmetricLoss,
    mh.AsymmetricLoss,
    mh.TwoWayLoss,
)
SUMS = {
    "ranking part": lambda: SumLoss(BCE(), TWO_WAY(), weights=(1, 0.01)),
    "ranking part with a link": lambda: SumLoss(BCE(), TWO_WAY(), weights=(1, 0.01), link=mh.SigmoidLink()),
    "additive": lambda: SumLoss(BCE(pos_weight=2.0), ASL(), SPA(), weights=(1, 2.0, 0.5)),
    "batchmean": lambda: SumLoss(BCE(reduction="batchmean"), ASL(reduction="batchmean")),
    "limited": lambda: SumLoss(ASL(4, 0, 0.05), ASL(2, 0, 0.1)),
    "pairs": lambda: mh.LabelPairRegulariser(SumLoss(BCE(), ASL()), weight=0.3),
    "of sums": lambda: SumLoss(SumLoss(BCE(), SPA()), ASL(), weights=(2, 1)),
    "stateful": lambda: SumLoss(mh.QuasibinaryLoss(), TWO_WAY()),
}


@pytest.mark.parametrize("name", SUMS)
def test_sums_obey_the_laws_of_losses(name):
    check_loss(lambda targets: SUMS[name]())


def test_a_sum_is_the_weighted_sum():
    torch.manual_seed(0)
    scores, targets = torch.randn(6, 4), (torch.rand(6, 4) < 0.4).int() - (torch.rand(6, 4) < 0.2).int()
    targets = targets.clamp(min=-1)
    loss = SumLoss(BCE(), TWO_WAY(), SPA(), weights=(1, 0.25, 2))
    want = BCE()(scores, targets) + 0.25 * TWO_WAY()(scores, targets) + 2 * SPA()(scores, targets)
    torch.testing.assert_close(loss(scores, targets), want)


def test_a_sum_of_one_loss_with_itself_has_its_link():
    scores = torch.linspace(-8, 8, 33, dtype=torch.float64)
    for loss in (BCE(pos_weight=3.0), ASL(), SPA()):
        got = SumLoss(loss, type(loss)() if loss.link.pos_weight is None else BCE(pos_weight=3.0)).link
        torch.testing.assert_close(got.log_odds(scores), loss.link.log_odds(scores))


def test_the_link_of_labels_with_weights_of_their_own():
    loss = SumLoss(BCE(pos_weight=torch.tensor([1.0, 4.0])), SPA(), weights=(1, 3))
    scores = torch.linspace(-6, 6, 25, dtype=torch.float64).unsqueeze(1).repeat(1, 2)
    torch.testing.assert_close(loss.link.log_odds(scores), mh.ratio_link(loss).log_odds(scores))
    assert bool((loss.link.probs(scores)[:, 0] > loss.link.probs(scores)[:, 1]).all())


def test_a_curve_of_ones_own_gets_its_link_by_the_law():
    class Squares(Curve):
        def branches(self, scores):
            return Branches((scores - 1).square() / 2, (scores + 1).square() / 2, scores - 1, scores + 1)

    class Half(mh.Link):
        def unweighted_log_odds(self, scores):
            return torch.log1p(scores) - torch.log1p(-scores)

    loss = SumLoss(AdditiveLoss(Squares(), Half()), BCE())
    scores = torch.tensor([[0.0, 0.5]], dtype=torch.float64)
    slope = torch.sigmoid(scores)
    want = (scores + 1 + slope) / 3  # slopes of absent over those of both: 2 and 1
    torch.testing.assert_close(loss.link.probs(scores), want)


def test_a_ranking_part_leaves_no_link_unless_one_is_given():
    loss = SumLoss(BCE(), TWO_WAY())
    with raises_input_error(owner="SumLoss"):
        loss.link.probs(torch.zeros(1, 2))
    assert not loss.adds_over_labels
    assert loss.mixes_rows
    torch.testing.assert_close(
        SUMS["ranking part with a link"]().link.probs(torch.zeros(1, 2)), torch.full((1, 2), 0.5)
    )


def test_extreme_scores_keep_finite_and_ordered_log_odds():
    link = SumLoss(BCE(), ASL(), SPA()).link
    scores = torch.tensor([-1e4, -400.0, -50.0, 0.0, 50.0, 250.0, 1e4])
    odds = link.log_odds(scores)
    assert bool(odds.isfinite().all())
    assert bool((odds.diff() >= 0).all())


def test_the_link_is_saved_and_serves_a_calibrator(tmp_path):
    loss = SUMS["additive"]()
    path = tmp_path / "link.json"
    mh.save(loss.link, path)
    back = mh.load(path)
    scores = torch.linspace(-9, 9, 40, dtype=torch.float64)
    assert torch.equal(back.log_odds(scores), loss.link.log_odds(scores))
    check_link(back)
    targets = (torch.rand(40, 1, generator=torch.Generator().manual_seed(0)) < 0.3).int()
    calibrator = BetaCalibration(link=loss.link).fit(scores.unsqueeze(1), targets)
    assert bool(calibrator(scores.unsqueeze(1)).isfinite().all())


def test_recipes_write_sums_in_words():
    loss = build_loss("SumLoss(BinaryCrossEntropyLoss(), TwoWayLoss(), weights=(1, 0.01), link=SigmoidLink())")
    assert isinstance(loss, SumLoss)
    assert loss.weights == (1.0, 0.01)
    assert isinstance(loss.link, mh.SigmoidLink)
    check_link_is_slope_ratio(build_loss("SumLoss(BinaryCrossEntropyLoss(), AsymmetricLoss(), weights=[2, 1])"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: SumLoss(), "`losses` of `SumLoss` must be one or more; got none"),
        (lambda: SumLoss(BCE(), "BCE"), "be losses of one head that take scores and targets alone; got str"),
        (lambda: SumLoss(BCE(), mh.AverageKLoss(2)), "be losses of one head.*got AverageKLoss"),
        (lambda: SumLoss(BCE(reduction="sum")), "be means; got reduction='sum'"),
        (lambda: SumLoss(BCE(), SPA(reduction="batchmean")), "one reduction.*got batchmean and mean"),
        (lambda: SumLoss(BCE(), SPA(), weights=(1,)), "be one number for each part; got 1 for 2"),
        (lambda: SumLoss(BCE(), SPA(), weights=3), "be one number for each part; got int"),
        (lambda: SumLoss(BCE(), SPA(), weights=(1, 0)), "`weights` of `SumLoss` must be"),
        (lambda: SumLink([mh.links.SoftmaxLink()], [1.0]), "be those of losses of manyhot; got SoftmaxLink"),
    ],
)
def test_what_cannot_be_added_is_refused(make, words):
    with raises_input_error(match=words):
        make()
