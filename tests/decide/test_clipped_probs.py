"""Probabilities that are cut off at 1 do not tie where decisions are made."""

import onnxruntime
import pytest
import torch

import manyhot as mh
from manyhot.classifier import Classifier
from manyhot.network import Network
from manyhot.studio.decisions import DecisionChoice, DecisionExplorer
from manyhot.training.pipeline import fit_calibrator_and_rule
from tests.errors.expected import raises_input_error


def drawn(rows=200, labels=5):
    """Scores of which many are cut off, and the link that does so."""
    draw = torch.Generator().manual_seed(0)
    scores = 2 * torch.randn(rows, labels, generator=draw)
    targets = (torch.rand(rows, labels, generator=draw) < torch.sigmoid(scores)).to(torch.int8)
    link = mh.links.QuasibinaryLink().fit([(scores - 2, targets)])  # too small a constant
    assert float((link.probs(scores) == 1).float().mean()) > 0.2
    return scores, targets, link


def argmax(scores):
    return torch.nn.functional.one_hot(scores.argmax(1), scores.shape[1]).bool()


@pytest.mark.parametrize("rule", [mh.TopK(1), mh.NoneOfThese(mh.TopK(1), threshold=0.01)], ids=repr)
def test_a_classifier_gives_the_label_with_the_highest_score(rule):
    scores, _, link = drawn()
    classifier = Classifier(Network(None, mh.LinearHead(2, 5)), list("abcde"), link=link, rule=rule)
    table = classifier.decide(scores)
    assert torch.equal(table.decisions, argmax(scores))
    assert float(table.probs.max()) == 1


def test_the_decisions_of_a_training_are_those_of_the_scores():
    scores, targets, link = drawn()
    splits = ["val", "test"] * 100
    table = mh.Predictions(scores=scores, targets=targets, splits=splits, link=link)
    assert torch.equal(fit_calibrator_and_rule(table, None, mh.TopK(1)).decisions, argmax(scores))
    given = fit_calibrator_and_rule(table, None, mh.AverageK(0.5)).of_split("val").decisions
    assert int(given.sum()) == 50  # more are cut off


def test_a_person_is_asked_about_decisions_of_the_scores():
    scores, targets, link = drawn()
    rule = mh.Abstain(mh.TopK(1), at_most=0.2)
    table = fit_calibrator_and_rule(mh.Predictions(scores=scores, targets=targets, splits="val", link=link), None, rule)
    assert torch.equal(table.decisions, argmax(scores))
    probs = link.probs(scores)
    doubts = torch.where(table.decisions, 1 - probs, probs).sum(1)
    assert float(doubts[table.abstain].min()) > float(doubts[~table.abstain].max())


def test_rows_are_turned_away_by_what_was_cut_off():
    scores, targets, link = drawn()
    rule = mh.NoneOfThese(mh.ExpectedFBeta(), keep=0.3)
    table = fit_calibrator_and_rule(mh.Predictions(scores=scores, targets=targets, splits="val", link=link), None, rule)
    kept, labelled = table.decisions.any(1), (targets == 1).any(1)
    assert float(kept[labelled].float().mean()) == pytest.approx(0.3, abs=0.01)
    assert float(scores[kept].amax(1).min()) > float(scores[~kept].amax(1).max())


def test_the_commands_and_the_studio_decide_by_scores(tmp_path):
    from manyhot.cli.tables import DecideCommand

    scores, targets, link = drawn()
    probs, path = link.probs(scores), tmp_path / "table.parquet"
    table = mh.Predictions(scores=scores, probs=probs, targets=targets, splits=["val", "test"] * 100, link=link)
    table.save(path)
    DecideCommand(predictions=str(path), rule="TopK(1)", out=tmp_path / "top.parquet").execute()
    assert torch.equal(mh.Predictions.open(tmp_path / "top.parquet").load().decisions, argmax(scores))
    half = tmp_path / "half.parquet"
    DecideCommand(predictions=str(path), rule="AverageK(0.5)", fit_on="val", out=half).execute()
    assert int(mh.Predictions.open(half).load().of_split("val").decisions.sum()) == 50
    deciding = DecisionExplorer(table)
    assert int(deciding.decision(DecisionChoice("size", 0.5)).sizes.sum()) == 100
    assert "exceed 100 %" in deciding.summary(DecisionChoice("size", 0.5)).words


@pytest.mark.slow
def test_an_exported_file_decides_by_scores(tmp_path):
    scores, _, link = drawn()
    head = mh.LinearHead(5, 5)
    with torch.no_grad():
        head.weight.copy_(torch.eye(5))
        head.bias.zero_()
    rule = mh.Abstain(mh.TopK(1), at_most=0.2)
    rule.fit(link.probs(scores))
    Classifier(Network(None, head), list("abcde"), link=link, rule=rule).export(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    _, _, decisions, *_ = session.run(None, {"features": scores.numpy()})
    assert torch.equal(torch.from_numpy(decisions), argmax(scores))


def test_the_estimator_decides_by_scores():
    scores, targets, _ = drawn()
    model = mh.ManyHotClassifier("QuasibinaryLoss()", calibrator=None, rule=mh.TopK(1), strength=1.0)
    given = model.fit(scores.numpy(), targets.numpy()).predict(3 * scores.numpy())
    found = torch.from_numpy(3 * scores.numpy() @ model.coef_.T + model.intercept_)
    assert float((model.predict_proba(3 * scores.numpy()) == 1).mean()) > 0.1
    assert torch.equal(torch.from_numpy(given).bool(), argmax(found))


def test_calibrated_probabilities_that_are_rounded_to_nearly_one_do_not_tie_either():
    scores, targets, link = drawn()
    calibrator = mh.TemperatureScaling(link=link, sharing="all").fit(scores, targets)
    head = mh.LinearHead(2, 5)
    classifier = Classifier(Network(None, head), list("abcde"), link=link, calibrator=calibrator, rule=mh.TopK(1))
    table = classifier.decide(20 * scores)
    assert float(((table.probs == table.probs.max()).sum(1) > 1).float().mean()) > 0.1
    assert torch.equal(table.decisions, argmax(scores))


def test_whole_probabilities_are_still_wanted_by_rules_that_compute_with_them():
    with raises_input_error(owner="ExpectedFBeta"):
        mh.ExpectedFBeta()(torch.tensor([[1.2, 0.3]]))
