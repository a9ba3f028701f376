"""Asymmetric losses, sums and their links on scores from -10,000 to 10,000, against arithmetic with 40 digits."""

import functools
from decimal import Decimal, getcontext

import pytest
import torch

import manyhot as mh

getcontext().prec = 40

SCORES = (-1e4, -300, -100, -35, -31, -18, -10, -3, -1, -0.125, 0, 1, 3, 10, 16, 17, 18, 20, 31, 35, 60, 100, 301, 1e4)
MARGINS = (0, 1e-12, 1e-9, 1e-8, 1e-6, 0.05, 0.2)
GAMMAS = (0, 0.5, 1, 2, 3, 4)
ONE = Decimal(1)


class Exact:
    """Loss and slope of an absent and of a present label at one score."""

    def __init__(self, score, gamma_neg, gamma_pos, margin):
        e, m, g, h = Decimal(score).exp(), Decimal(margin), Decimal(gamma_neg), Decimal(gamma_pos)
        p, q = e / (1 + e), 1 / (1 + e)
        r, rest, present = max(p - m, Decimal(0)), min(q + m, ONE), surprise_of(q, p)
        if r > 0:
            surprise = surprise_of(r, rest)
            self.absent = power(r, g) * surprise
            self.rising = p * q * power(r, g) * (g * surprise / r + 1 / rest)
        else:
            self.absent = self.rising = Decimal(0)
        self.present = power(q, h) * present
        self.falling = power(q, h) * (q + h * p * present)

    @property
    def log_odds(self):
        return float((self.rising / self.falling).ln()) if self.rising else float("-inf")


def power(x, exponent):
    return ONE if exponent == 0 else (exponent * x.ln()).exp()


def surprise_of(r, rest):
    """-log(1 - r), given both; by its series for small r, which the logarithm of 1 - r would round away."""
    if rest < Decimal("0.9"):
        return -rest.ln()
    total, term, k = Decimal(0), r, 1
    while term > total * Decimal("1e-40"):
        total, term, k = total + term / k, term * r, k + 1
    return total


@functools.cache
def all_scores(gamma_neg, gamma_pos, margin):
    return [Exact(score, gamma_neg, gamma_pos, margin) for score in SCORES]


def exact(kind, *numbers):
    """One attribute of all scores as float64."""
    return torch.tensor([float(getattr(one, kind)) for one in all_scores(*numbers)], dtype=torch.float64)


def close(got, want, *, digits, atol=0.0):
    torch.testing.assert_close(got.double(), want, rtol=10.0**-digits, atol=atol)


DTYPES = {torch.float32: 4.5, torch.float64: 11}  # and the digits that must be right


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_and_gradients_of_asl(dtype, margin):
    tiny = 1e-30  # where sigmoid itself has fewer digits left in float32
    for gamma in GAMMAS:
        loss = mh.AsymmetricLoss(gamma, 4 - gamma, margin, reduction="none")
        for target, value, slope, sign in ((0.0, "absent", "rising", 1), (1.0, "present", "falling", -1)):
            scores = torch.tensor([SCORES], dtype=dtype).requires_grad_()
            values = loss(scores, torch.full_like(scores, target))
            (gradient,) = torch.autograd.grad(values.sum(), scores)
            close(values[0], exact(value, gamma, 4 - gamma, margin), digits=DTYPES[dtype], atol=tiny)
            close(sign * gradient[0], exact(slope, gamma, 4 - gamma, margin), digits=DTYPES[dtype], atol=tiny)
        scores = torch.tensor([SCORES], dtype=dtype).requires_grad_()
        loss(scores, torch.full_like(scores, 0.3)).sum().backward()
        assert bool(scores.grad.isfinite().all())


def test_a_margin_that_float32_does_not_hold_keeps_everything_finite():
    loss = mh.AsymmetricLoss(4, 1, 1e-50)
    for target in (0.0, 1.0):
        scores = torch.tensor([SCORES]).requires_grad_()
        loss(scores, torch.full_like(scores, target)).backward()
        assert bool(scores.grad.isfinite().all())
    assert not bool(loss.link.log_odds(torch.tensor([SCORES])).isposinf().any())


@pytest.mark.parametrize("margin", MARGINS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_log_odds_of_asl(dtype, margin):
    for gamma in GAMMAS:
        for gamma_pos in (0, 1):
            link = mh.links.AsymmetricLink(gamma, gamma_pos, margin)
            odds = link.log_odds(torch.tensor(SCORES, dtype=dtype))
            close(odds, exact("log_odds", gamma, gamma_pos, margin), digits=DTYPES[dtype], atol=10 ** -DTYPES[dtype])


@pytest.mark.parametrize("margin", MARGINS)
def test_the_link_of_a_sum_goes_on_for_all_scores(margin):
    """At high scores the slopes of both parts underflow; their ratio does not."""
    for weights in ((1.0, 1.0), (1.0, 3.0)):
        link = mh.SumLoss(mh.BinaryCrossEntropyLoss(), mh.AsymmetricLoss(4, 0, margin), weights=weights).link
        parts = list(zip(all_scores(0, 0, 0), all_scores(4, 0, margin), strict=True))
        one, other = map(Decimal, weights)
        want = [((one * a.rising + other * b.rising) / (one * a.falling + other * b.falling)).ln() for a, b in parts]
        for dtype, digits in DTYPES.items():
            odds = link.log_odds(torch.tensor(SCORES, dtype=dtype))
            close(odds, torch.tensor([float(odd) for odd in want], dtype=torch.float64), digits=digits, atol=1e-6)


def test_a_sum_goes_by_what_its_parts_are_not_by_how_they_are_read():
    """A part with a curve of its own may have the sigmoid as its link; it is not cross-entropy because of that."""

    class Doubled(type(mh.BinaryCrossEntropyLoss().curve)):
        def branches(self, scores):
            return mh.losses.Branches(*(2 * part for part in super().branches(scores)))

        def cells(self, scores, targets, pos_weight=None, *, hard=False):
            return mh.losses.Curve.cells(self, scores, targets, pos_weight)

    doubled = mh.losses.AdditiveLoss(Doubled(), mh.SigmoidLink())
    want = mh.SumLoss(mh.BinaryCrossEntropyLoss(), mh.AsymmetricLoss(), weights=(2, 1)).link
    scores = torch.linspace(-6, 6, 13, dtype=torch.float64).unsqueeze(1)
    torch.testing.assert_close(mh.SumLoss(doubled, mh.AsymmetricLoss()).link.log_odds(scores), want.log_odds(scores))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_ratio_link_of_cross_entropy_goes_on_past_17(dtype):
    scores = torch.tensor([SCORES], dtype=dtype)
    link = mh.ratio_link(mh.BinaryCrossEntropyLoss())
    torch.testing.assert_close(link.log_odds(scores), scores.clamp(-600, 600))
    torch.testing.assert_close(link.probs(scores), torch.sigmoid(scores))
    assert link.finite
    assert link.range == (0.0, 1.0)


def test_the_ratio_link_of_asl_has_its_range():
    for margin, pos_weight in ((0.05, None), (0.2, None), (0.2, 3.0), (0.2, [3.0, 0.5])):
        loss = mh.AsymmetricLoss(4, 0, margin, pos_weight=pos_weight)
        link = mh.ratio_link(loss)
        assert link.range == pytest.approx(loss.link.range, abs=1e-12)
        assert not link.finite
        scores = torch.tensor(SCORES, dtype=torch.float64).unsqueeze(1).repeat(1, 2)
        torch.testing.assert_close(link.probs(scores), loss.link.probs(scores), rtol=1e-9, atol=1e-12)


def test_the_ratio_link_of_steep_losses_is_finite():
    """Their slopes underflow far out, which is no reason to refuse pairs of labels."""
    for loss in (mh.FocalLoss(), mh.StrictlyProperAsymmetricLoss()):
        assert mh.ratio_link(loss).finite
        assert mh.ratio_link(loss).range == (0.0, 1.0)
