"""On a population whose rates are known, training finds them: through the loss's own link, and through no other."""

import pytest
import torch

import manyhot as mh

RATES = torch.tensor([0.001, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99], dtype=torch.float64)
LOSSES = {
    "bce": mh.BinaryCrossEntropyLoss,
    "bce-weighted": lambda: mh.BinaryCrossEntropyLoss(pos_weight=[999.0, 99, 19, 4, 1, 0.25, 0.05, 0.01]),
    "focal": lambda: mh.AsymmetricFocalLoss(4, 1),
    "focal-symmetric": lambda: mh.AsymmetricFocalLoss(2, 2),
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
