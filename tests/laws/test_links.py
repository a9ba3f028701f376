"""Every link obeys every law."""

import pytest
import torch

import manyhot as mh
from manyhot.testing import LINK_PROPERTIES
from manyhot.testing.losses import check_link_is_increasing, check_link_is_slope_ratio
from tests.errors.expected import raises_input_error


def fitted_quasibinary():
    draw = torch.Generator().manual_seed(0)
    scores = torch.randn(8, 5, generator=draw, dtype=torch.float64)
    return mh.links.QuasibinaryLink().fit([(scores, (scores > 1).int())])


LINKS = {
    "sigmoid": mh.SigmoidLink,
    "sigmoid-weighted": lambda: mh.SigmoidLink(7.0),
    "focal": lambda: mh.links.AsymmetricLink(4, 1),
    "focal-below-one": lambda: mh.links.AsymmetricLink(0.5, 0.5),
    "asl": lambda: mh.links.AsymmetricLink(4, 0, 0.05),
    "asl-official": lambda: mh.links.AsymmetricLink(4, 1, 0.05),
    "asl-weighted": lambda: mh.links.AsymmetricLink(4, 0, 0.2, pos_weight=2.0),
    "spa": mh.links.StrictlyProperAsymmetricLink,
    "spa-weighted": lambda: mh.links.StrictlyProperAsymmetricLink(pos_weight=0.3),
    "quasibinary": fitted_quasibinary,
}


@pytest.mark.parametrize("law", LINK_PROPERTIES, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", LINKS)
def test_law(name, law):
    law(LINKS[name]())


def test_the_law_of_the_ratio_notices_a_wrong_link():
    loss = mh.StrictlyProperAsymmetricLoss()
    loss.link = mh.SigmoidLink()
    with pytest.raises(AssertionError, match="not the loss's own"):
        check_link_is_slope_ratio(loss)


def test_the_law_of_growth_notices_the_printed_link():
    """Equation 17 as printed, with both signs flipped, falls."""

    class Printed(mh.links.StrictlyProperAsymmetricLink):
        def log_odds(self, scores):
            return super().log_odds(-scores)

    with pytest.raises(AssertionError, match="falls"):
        check_link_is_increasing(Printed())


@pytest.mark.parametrize("name", LINKS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_extreme_scores_give_probabilities(name, dtype):
    link = LINKS[name]()
    probs = link.probs(torch.tensor([-1e4, -100.0, 0.0, 100.0, 1e4], dtype=dtype))
    assert probs.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert bool(((probs >= 0) & (probs <= 1)).all())


@pytest.mark.parametrize("name", [name for name in LINKS if name != "quasibinary"])
def test_log_odds_have_finite_gradients(name):
    link = LINKS[name]()
    scores = torch.tensor([-1e4, -3.0, 0.0, 3.0, 1e4]).requires_grad_()
    odds = link.log_odds(scores)
    (gradient,) = torch.autograd.grad(odds[odds.isfinite()].sum(), scores)
    assert bool(gradient.isfinite().all())


def test_weights_of_every_label():
    link = mh.SigmoidLink(pos_weight=[1.0, 4.0])
    torch.testing.assert_close(link.probs(torch.zeros(3, 2)), torch.tensor([[0.5, 0.2]]).expand(3, 2))
    torch.testing.assert_close(link.scores(torch.tensor([[0.5, 0.2]])), torch.zeros(1, 2))


def test_asymmetric_range_is_the_limit_of_its_probabilities():
    assert mh.links.AsymmetricLink(4, 0, 0.05).range[1] == pytest.approx(0.96372, abs=1e-5)
    assert mh.links.AsymmetricLink(4, 0, 0.2).range[1] == pytest.approx(0.84237, abs=1e-5)
    assert mh.links.AsymmetricLink(4, 1, 0.05).range == (0.0, 1.0)
    assert mh.links.AsymmetricLink(4, 0, 0.05).scores(torch.tensor([0.97])).item() == float("inf")


def test_margin_makes_low_scores_mean_exactly_zero():
    link = mh.links.AsymmetricLink(4, 0, 0.05)
    assert link.probs(torch.tensor([-3.0])).item() == 0.0
    assert link.log_odds(torch.tensor([-3.0])).item() == float("-inf")


def test_phi_agrees_with_the_link():
    scores = torch.linspace(-6, 6, 25, dtype=torch.float64)
    for options in ({"gamma_neg": 4.0}, {"gamma_neg": 4.0, "gamma_pos": 1.0, "margin": 0.05}):
        probs = mh.links.phi(torch.sigmoid(scores), **options)
        torch.testing.assert_close(probs, mh.links.AsymmetricLink(**options).probs(scores), rtol=1e-9, atol=1e-12)


def test_softmax_link():
    draw = torch.Generator().manual_seed(0)
    scores = torch.randn(7, 4, generator=draw, dtype=torch.float64) * 3
    link = mh.links.SoftmaxLink()
    torch.testing.assert_close(torch.sigmoid(link.log_odds(scores)), link.probs(scores))
    torch.testing.assert_close(link.probs(link.scores(link.probs(scores))), link.probs(scores))
    certain = link.log_odds(torch.tensor([[0.0, 500.0, 1.0]], dtype=torch.float64))
    assert certain[0, 1].item() == pytest.approx(
        500 - torch.logaddexp(torch.tensor(0.0), torch.tensor(1.0)).item(), abs=1e-6
    )


def test_ratio_link_finds_the_link_of_a_foreign_loss():
    def exponential(scores, targets):
        return torch.exp(torch.where(targets > 0, -scores, scores))

    scores = torch.linspace(-3, 3, 13, dtype=torch.float64)
    torch.testing.assert_close(mh.ratio_link(exponential).probs(scores), torch.sigmoid(2 * scores))


def test_a_link_tells_by_its_log_odds_what_it_reaches():
    class Halved(mh.Link):
        def unweighted_log_odds(self, scores):
            return scores.clamp(max=0)

    class Clipped(mh.Link):
        def unweighted_log_odds(self, scores):
            return torch.where(scores < 3, scores, torch.inf)

    assert Halved().range == (0.0, 0.5)
    assert Halved(pos_weight=[1.0, 1 / 3]).range == (0.0, 0.75)
    assert Halved().finite
    assert not Clipped().finite
    assert not mh.links.SumLink([mh.links.AsymmetricLink(4, 0, 0.05)], (1.0,)).finite
    assert mh.links.SumLink([mh.links.AsymmetricLink(4, 0, 0.05), mh.SigmoidLink()], (1.0, 1.0)).finite


def test_weights_of_single_labels_change_the_order():
    for weight, order in ((2.0, True), ([1.0, 4.0], False)):
        loss = mh.BinaryCrossEntropyLoss(pos_weight=weight)
        assert loss.link.preserves_order is mh.ratio_link(loss).preserves_order is order


def test_ratio_link_refuses_a_loss_that_mixes_labels():
    with raises_input_error("loss", "ratio_link", rule="add over labels", got="TwoWayLoss", hint="Fit a calibrator"):
        mh.ratio_link(mh.TwoWayLoss())


class TestQuasibinaryLink:
    def test_exact_normaliser_of_batches_is_that_of_the_whole(self):
        draw = torch.Generator().manual_seed(1)
        scores = torch.randn(50, 6, generator=draw, dtype=torch.float64) * 5
        targets = (torch.rand(50, 6, generator=draw) < 0.2).int()
        whole = torch.logsumexp(scores.flatten(), 0) - targets.sum().double().log()
        link = mh.links.QuasibinaryLink().fit(zip(scores.split(7), targets.split(7), strict=True))
        assert link.log_normaliser.item() == pytest.approx(whole.item(), abs=1e-12)

    def test_probabilities_sum_to_the_number_of_labels(self):
        draw = torch.Generator().manual_seed(2)
        scores = torch.randn(40, 6, generator=draw)
        targets = (torch.rand(40, 6, generator=draw) < 0.2).int()
        link = mh.links.QuasibinaryLink().fit([(scores, targets)])
        assert link.log_probs(scores).exp().sum().item() == pytest.approx(targets.sum().item(), rel=1e-4)

    def test_refuses_before_a_label_was_seen(self):
        with raises_input_error(rule="have seen a label before it gives probabilities", got="none yet", hint="Train"):
            mh.QuasibinaryLoss().link.probs(torch.zeros(1, 2))
        with raises_input_error("batches", "QuasibinaryLink.fit", rule="hold a label", got="none"):
            mh.links.QuasibinaryLink().fit([(torch.zeros(2, 2), torch.zeros(2, 2))])


def test_phi_takes_arrays_and_lists():
    probs = torch.tensor([[0.0, 0.3], [0.7, 1.0]], dtype=torch.float64)
    want = mh.links.phi(probs, gamma_neg=4, margin=0.05)
    assert torch.equal(mh.links.phi(probs.numpy(), gamma_neg=4, margin=0.05), want)
    torch.testing.assert_close(mh.links.phi(probs.tolist(), gamma_neg=4, margin=0.05), want.float())


@pytest.mark.parametrize("name", LINKS)
def test_links_take_arrays_and_lists(name):
    link, scores = LINKS[name](), torch.tensor([[-0.5], [0.25]], dtype=torch.float64)
    assert torch.equal(link.probs(scores.numpy()), link.probs(scores))
    assert torch.equal(link.log_odds(scores.tolist()), link.log_odds(scores.float()))
    assert torch.equal(link.scores([[0.25]]), link.scores(torch.tensor([[0.25]])))
