"""Typed code of a user: mypy checks it in strict mode, and the types are those that are asserted here."""

from typing import assert_type

import pytest
import torch
from torch import Tensor, nn

import manyhot as mh


def train_step(head: mh.LinearHead, loss: mh.Loss, features: Tensor, targets: Tensor) -> float:
    """One step of gradient descent in a loop of one's own."""
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    value = assert_type(loss(head(features), targets), Tensor)
    value.backward()
    optimizer.step()
    return value.item()


def calibrated(loss: mh.Loss, scores: Tensor, targets: Tensor) -> tuple[mh.Calibrator, mh.Decision]:
    """Probabilities and decisions of held-out scores."""
    calibrator = mh.BetaCalibration(link=loss.link, sharing="none").fit(scores, targets)
    assert_type(calibrator, mh.BetaCalibration)
    probs = assert_type(calibrator(scores), Tensor)
    rule = assert_type(mh.AverageK(1.5).fit(probs), mh.AverageK)
    return calibrator, assert_type(rule(probs), mh.Decision)


def evaluated(scores: Tensor, targets: Tensor, labels: list[str]) -> float | None:
    """The mean average precision of a table."""
    table = mh.Predictions(scores=scores, targets=targets, labels=labels, link=mh.SigmoidLink())
    evaluation = assert_type(mh.evaluate(table), mh.Evaluation)
    metric = mh.metrics.MeanAveragePrecision(average="samples").update(scores, targets)
    assert_type(metric.compute(), mh.metrics.MetricResult)
    return evaluation["map"]


def fields(error: mh.InputError) -> tuple[str, str, str, str, str]:
    """Those of an error."""
    return error.argument, error.owner, error.rule, error.got, error.hint


def main() -> None:
    """Runs all of it on made data."""
    torch.manual_seed(0)
    features = torch.randn(200, 4)
    targets = (features[:, :3] > 0.5).int()
    targets[0, 0] = mh.UNKNOWN
    head, loss = mh.LinearHead(4, 3), mh.StrictlyProperAsymmetricLoss()
    assert isinstance(head, nn.Module)
    train_step(head, loss, features, targets)
    scores = head(features).detach()
    calibrator, decision = calibrated(loss, scores, targets)
    assert decision.labels.shape == (200, 3)
    assert bool(calibrator.fitted)
    assert evaluated(scores, targets, ["apple", "fork", "knife"]) is not None
    with pytest.raises(mh.InputError) as caught:
        mh.AverageK(-1)
    assert fields(caught.value)[:2] == ("k", "AverageK")


if __name__ == "__main__":
    main()
