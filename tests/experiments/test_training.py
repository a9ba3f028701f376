"""One run: what is trained, and the scores that come of it."""

from dataclasses import replace

import pytest
import torch

from experiments.data import Generated
from experiments.training import Method, train
from manyhot.engine import FitSettings

OPEN = Generated()
FEATURES, IMAGES = OPEN("cifar10 features"), OPEN("cifar10")
FIT_SETTINGS = FitSettings(epochs=4, batch_size=40, lr=0.03)
BCE = Method("BCE", "BinaryCrossEntropyLoss()")


def equal(one, other):
    return all(torch.equal(one.scores[split], other.scores[split]) for split in ("val", "test"))


def test_the_scores_are_those_of_the_head_for_rows_that_were_not_trained_on():
    output = train(BCE, FEATURES, replace(FIT_SETTINGS, epochs=10))
    parts = FEATURES.parts(FIT_SETTINGS)
    for split in ("val", "test"):
        with torch.no_grad():
            expected = output.head(parts[split].features)
        torch.testing.assert_close(output.scores[split], expected)
        assert torch.equal(output.targets[split], parts[split].targets.dense())
    assert output.counts.tolist() == parts["train"].targets.counts().tolist()
    right = output.scores["test"].argmax(1) == output.targets["test"].argmax(1)
    assert right.float().mean() > 0.5
    assert output.speed > 0
    assert output.trace == []
    assert output.moving_link is None


@pytest.mark.parametrize("dataset", [FEATURES, IMAGES], ids=["features", "images"])
def test_the_seed_decides_the_outcome_to_the_last_bit(dataset):
    fit_settings = replace(FIT_SETTINGS, epochs=2, seed=3)
    first = train(BCE, dataset, fit_settings)
    other = train(BCE, dataset, replace(fit_settings, seed=4))
    again = train(BCE, dataset, fit_settings)
    assert equal(again, first)
    assert not equal(other, first)


def test_pictures_are_learnt_from():
    output = train(BCE, IMAGES, replace(FIT_SETTINGS, epochs=8))
    right = output.scores["test"].argmax(1) == output.targets["test"].argmax(1)
    assert right.float().mean() > 2 / 15


def test_of_two_heads_the_deciding_one_gives_the_scores():
    output = train(Method("AVG-K", "AverageKLoss(2)"), FEATURES, FIT_SETTINGS)
    with torch.no_grad():
        both = output.head(FEATURES.parts(FIT_SETTINGS)["test"].features)
    assert both.shape == (60, 2, 15)
    positions = [
        position for position in range(2) if torch.allclose(output.scores["test"], both[:, position], atol=1e-5)
    ]
    assert len(positions) == 1
    assert not torch.allclose(both[:, 0], both[:, 1], atol=1e-2)


def test_the_normaliser_is_traced_and_then_computed_from_all_rows():
    fit_settings = replace(FIT_SETTINGS, epochs=8)
    output = train(Method("quasibinary", "QuasibinaryLoss()"), FEATURES, fit_settings)
    steps = fit_settings.epochs * 3
    assert [point["step"] for point in output.trace] == list(range(1, steps + 1))
    assert output.trace[-1]["average"] == float(output.moving_link.log_normaliser)
    learned = FEATURES.parts(fit_settings)["train"]
    with torch.no_grad():
        scores = output.head(learned.features).double()
    exact = torch.logsumexp(scores, (0, 1)) - torch.log(learned.targets.dense().sum().double())
    torch.testing.assert_close(output.loss.link.log_normaliser, exact, rtol=0, atol=1e-4)
    assert bool(output.moving_link.fitted)
    assert float(output.moving_link.log_normaliser) != 0
    gap = abs(float(output.moving_link.log_normaliser - output.loss.link.log_normaliser))
    assert 1e-4 < gap < 1


def test_a_loss_that_learns_the_labels_of_its_rows_is_trained_too():
    role = Method("ROLE", "ROLELoss(2)")
    first, again = train(role, FEATURES, FIT_SETTINGS), train(role, FEATURES, FIT_SETTINGS)
    assert equal(first, again)
    right = first.scores["test"].argmax(1) == first.targets["test"].argmax(1)
    assert right.float().mean() > 0.5
