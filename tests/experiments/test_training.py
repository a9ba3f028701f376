"""One run: what is trained, and the scores that come of it."""

from dataclasses import replace

import pytest
import torch

from experiments.data import Generated
from experiments.training import Method, train
from manyhot.engine import FitSettings

OPEN = Generated()
FEATURES, PICTURES = OPEN("cifar10 features"), OPEN("cifar10")
PLAN = FitSettings(epochs=4, batch_size=40, lr=0.03)
BCE = Method("BCE", "BinaryCrossEntropyLoss()")


def equal(one, other):
    return all(torch.equal(one.scores[split], other.scores[split]) for split in ("val", "test"))


def test_the_scores_are_those_of_the_head_for_rows_that_were_not_trained_on():
    outcome = train(BCE, FEATURES, replace(PLAN, epochs=10))
    parts = FEATURES.parts(PLAN)
    for split in ("val", "test"):
        with torch.no_grad():
            expected = outcome.head(parts[split].features)
        torch.testing.assert_close(outcome.scores[split], expected)
        assert torch.equal(outcome.targets[split], parts[split].targets.dense())
    assert outcome.counts.tolist() == parts["train"].targets.counts().tolist()
    right = outcome.scores["test"].argmax(1) == outcome.targets["test"].argmax(1)
    assert right.float().mean() > 0.5
    assert outcome.speed > 0
    assert outcome.trace == []
    assert outcome.moving_link is None


@pytest.mark.parametrize("material", [FEATURES, PICTURES], ids=["features", "pictures"])
def test_the_seed_decides_the_outcome_to_the_last_bit(material):
    plan = replace(PLAN, epochs=2, seed=3)
    first = train(BCE, material, plan)
    other = train(BCE, material, replace(plan, seed=4))
    again = train(BCE, material, plan)
    assert equal(again, first)
    assert not equal(other, first)


def test_pictures_are_learnt_from():
    outcome = train(BCE, PICTURES, replace(PLAN, epochs=8))
    right = outcome.scores["test"].argmax(1) == outcome.targets["test"].argmax(1)
    assert right.float().mean() > 2 / 15


def test_of_two_heads_the_deciding_one_gives_the_scores():
    outcome = train(Method("AVG-K", "AverageKLoss(2)"), FEATURES, PLAN)
    with torch.no_grad():
        both = outcome.head(FEATURES.parts(PLAN)["test"].features)
    assert both.shape == (60, 2, 15)
    places = [place for place in range(2) if torch.allclose(outcome.scores["test"], both[:, place], atol=1e-5)]
    assert len(places) == 1
    assert not torch.allclose(both[:, 0], both[:, 1], atol=1e-2)


def test_the_normaliser_is_traced_and_then_computed_from_all_rows():
    plan = replace(PLAN, epochs=8)
    outcome = train(Method("quasibinary", "QuasibinaryLoss()"), FEATURES, plan)
    steps = plan.epochs * 3
    assert [point.step for point in outcome.trace] == list(range(1, steps + 1))
    assert outcome.trace[-1].average == float(outcome.moving_link.log_normaliser)
    learnt = FEATURES.parts(plan)["train"]
    with torch.no_grad():
        scores = outcome.head(learnt.features).double()
    exact = torch.logsumexp(scores, (0, 1)) - torch.log(learnt.targets.dense().sum().double())
    torch.testing.assert_close(outcome.loss.link.log_normaliser, exact, rtol=0, atol=1e-4)
    assert bool(outcome.moving_link.fitted)
    assert float(outcome.moving_link.log_normaliser) != 0
    gap = abs(float(outcome.moving_link.log_normaliser - outcome.loss.link.log_normaliser))
    assert 1e-4 < gap < 1


def test_a_loss_that_learns_the_labels_of_its_rows_is_trained_too():
    role = Method("ROLE", "ROLELoss(2)")
    first, again = train(role, FEATURES, PLAN), train(role, FEATURES, PLAN)
    assert equal(first, again)
    right = first.scores["test"].argmax(1) == first.targets["test"].argmax(1)
    assert right.float().mean() > 0.5
