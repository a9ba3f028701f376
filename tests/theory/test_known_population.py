"""On a population whose rates are known, training finds them: through the loss's own link, and through no other."""

import copy
import itertools

import pytest
import torch

import manyhot as mh
from tests.errors.expected import raises_input_error

RATES = torch.tensor([0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99], dtype=torch.float64)
LOSSES = {
    "bce": mh.BinaryCrossEntropyLoss,
    "bce-weighted": lambda: mh.BinaryCrossEntropyLoss(pos_weight=[999.0, 99, 19, 4, 1, 0.25, 0.05, 0.01]),
    "focal": lambda: mh.FocalLoss(4, 1),
    "focal-symmetric": lambda: mh.FocalLoss(2, 2),
    "asl-without-margin": lambda: mh.AsymmetricLoss(4, 0, 0),
    "asl-official": lambda: mh.AsymmetricLoss(4, 1, 0.05),
    "spa": mh.StrictlyProperAsymmetricLoss,
    "spa-weighted": lambda: mh.StrictlyProperAsymmetricLoss(pos_weight=2.0),
}


def train_on_rates(loss, rates, start=0.0):
    """Scores that minimise the expected loss, found by an optimiser that knows nothing of the link."""
    scores = torch.full((1, len(rates)), start, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [scores],
        lr=1,
        max_iter=2000,
        history_size=30,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-14,
        tolerance_change=0,
    )

    def step():
        optimiser.zero_grad()
        value = loss(scores, rates.unsqueeze(0))
        value.backward()
        return value

    for _ in range(3):
        optimiser.step(step)
    return scores.detach()


@pytest.mark.parametrize("make", LOSSES.values(), ids=LOSSES)
def test_training_recovers_the_rates(make):
    loss = make()
    probs = loss.link.probs(train_on_rates(loss, RATES)).squeeze(0)
    torch.testing.assert_close(probs, RATES, rtol=2e-3, atol=1e-6)


def test_asl_recovers_what_lies_in_its_range():
    loss = mh.AsymmetricLoss()
    inside = RATES[loss.link.range[1] > RATES]
    probs = loss.link.probs(train_on_rates(loss, inside)).squeeze(0)
    torch.testing.assert_close(probs, inside, rtol=2e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["focal", "asl-without-margin", "asl-official", "spa"])
def test_plain_sigmoid_does_not(name):
    """The reason for links: the same scores read as sigmoid are off by tens of percent."""
    loss = LOSSES[name]()
    errors = torch.sigmoid(train_on_rates(loss, RATES)).squeeze(0) - RATES
    assert errors.abs().max().item() > 0.1


@pytest.mark.parametrize("name", ["bce", "focal", "asl-official", "spa"])
def test_rates_of_drawn_labels(name):
    """The same from a sample of labels instead of rates, zero-label rows among them."""
    draw = torch.Generator().manual_seed(0)
    targets = (torch.rand(20000, len(RATES), generator=draw) < RATES).double()
    loss, observed = LOSSES[name](), targets.mean(0)
    scores = train_on_rates(loss, observed).expand_as(targets).clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(scores, targets), scores)
    assert gradient.sum(0).abs().max().item() < 1e-8, "the shared score of a column does not balance its labels"
    torch.testing.assert_close(loss.link.probs(scores[:1]).squeeze(0), RATES, rtol=0.2, atol=3e-3)


def test_quasibinary_recovers_rates_that_depend_on_the_input():
    """Two kinds of samples, one with labels and one mostly without: the shared normaliser finds both."""
    rates = torch.tensor([[0.6, 0.3, 0.05], [0.05, 0.02, 0.01]], dtype=torch.float64)
    draw = torch.Generator().manual_seed(0)
    kind = torch.arange(4000) % 2
    targets = (torch.rand(4000, 3, generator=draw) < rates[kind]).double()
    table = torch.zeros(2, 3, dtype=torch.float64, requires_grad=True)
    loss = mh.QuasibinaryLoss()
    optimiser = torch.optim.LBFGS([table], max_iter=500, line_search_fn="strong_wolfe", tolerance_grad=1e-12)

    def step():
        optimiser.zero_grad()
        value = loss(table[kind], targets)
        value.backward()
        return value

    optimiser.step(step)
    loss.link.fit([(table.detach()[kind], targets)])
    want = torch.stack([targets[kind == k].mean(0) for k in range(2)])
    torch.testing.assert_close(loss.link.probs(table.detach()), want, rtol=1e-3, atol=1e-4)


SETS = torch.tensor(list(itertools.product((0, 1), repeat=3)))
INDEPENDENT = torch.tensor([0.3, 0.8, 0.1], dtype=torch.float64)
# The first label comes with the second and never with the third; marginals 0.30, 0.50, 0.28.
DEPENDENT = {(1, 1, 0): 0.3, (0, 1, 1): 0.1, (0, 0, 1): 0.18, (0, 1, 0): 0.1, (0, 0, 0): 0.32}


def train_on_sets(loss, shares):
    """Scores (K,) that minimise the expected loss of a sample whose label sets come with these shares."""
    scores = torch.zeros(1, 3, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS([scores], max_iter=300, line_search_fn="strong_wolfe", tolerance_grad=1e-12)

    def step():
        optimiser.zero_grad()
        value = sum(share * loss(scores, row.unsqueeze(0)) for share, row in zip(shares, SETS, strict=True))
        value.backward()
        return value

    optimiser.step(step)
    return scores.detach()[0]


def independent_shares():
    return torch.where(SETS > 0, INDEPENDENT, 1 - INDEPENDENT).prod(1)


@pytest.mark.parametrize("inner", [mh.StrictlyProperAsymmetricLoss, mh.BinaryCrossEntropyLoss])
@pytest.mark.parametrize("weight", [0.1, 1, 10])
def test_label_pairs_keep_the_probabilities_of_independent_labels(inner, weight):
    loss = mh.LabelPairRegulariser(inner(), weight)
    found = loss.link.probs(train_on_sets(loss, independent_shares()))
    torch.testing.assert_close(found, INDEPENDENT, rtol=0, atol=1e-4)


def test_label_pairs_move_the_probabilities_of_dependent_labels_as_the_docstring_says():
    shares = [DEPENDENT.get(tuple(row.tolist()), 0.0) for row in SETS]
    alone, paired = mh.StrictlyProperAsymmetricLoss(), mh.LabelPairRegulariser(mh.StrictlyProperAsymmetricLoss(), 1.0)
    true = torch.tensor([0.3, 0.5, 0.28], dtype=torch.float64)
    torch.testing.assert_close(alone.link.probs(train_on_sets(alone, shares)), true, rtol=0, atol=1e-4)
    moved = torch.tensor([0.24, 0.54, 0.28], dtype=torch.float64)
    torch.testing.assert_close(paired.link.probs(train_on_sets(paired, shares)), moved, rtol=0, atol=5e-3)
    said = " ".join(mh.LabelPairRegulariser.__doc__.split())
    assert "independent given the sample" in said
    assert "(0.30, 0.50, 0.28) can be read as (0.24, 0.54, 0.28)" in said


def test_label_pairs_compared_by_another_link_leave_none():
    """The two parts want different scores, so neither link reads those that minimise the sum."""
    loss = mh.LabelPairRegulariser(mh.AsymmetricLoss(), 1.0, link=mh.SigmoidLink())
    scores = train_on_sets(loss, independent_shares())
    for link in (mh.AsymmetricLoss().link, mh.SigmoidLink()):
        assert float((link.probs(scores) - INDEPENDENT).abs().max()) > 0.05
    assert isinstance(loss.link, mh.links.NoLink)
    with raises_input_error(
        "link",
        "LabelPairRegulariser",
        rule="be that of a loss which adds over labels to give probabilities",
        got="a loss whose scores only rank",
        hint="Fit a calibrator on held-out scores",
    ):
        loss.link.probs(scores)


def test_label_pairs_know_the_losss_own_link_when_it_is_passed():
    for inner in (
        mh.BinaryCrossEntropyLoss(),
        mh.BinaryCrossEntropyLoss(pos_weight=[1.0, 2.0]),
        mh.FocalLoss(),
    ):
        assert mh.LabelPairRegulariser(inner, 1.0, link=copy.deepcopy(inner.link)).link is inner.link
    weighted = mh.LabelPairRegulariser(mh.BinaryCrossEntropyLoss(pos_weight=2.0), 1.0, link=mh.SigmoidLink())
    assert isinstance(weighted.link, mh.links.NoLink)
