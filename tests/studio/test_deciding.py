"""Ways to decide: the sliders show what the rules of the package do."""

import pytest
import torch

import manyhot as mh
from manyhot.studio.decisions import DecisionChoice, DecisionExplorer
from tests.errors.expected import raises_input_error
from tests.studio.collections import LABELS, predictions

NAMES = [str(number) for number in range(90)]


@pytest.fixture(scope="module")
def table():
    return predictions(NAMES, rule=mh.LabelThresholds())


@pytest.mark.parametrize("value", [0.0, 0.5, 1.7, 3.0, 5.0])
def test_a_size_is_the_rule_average_k_on_what_is_shown(table, value):
    deciding = DecisionExplorer(table)
    expected = mh.AverageK(value).fit(table.probs)(table.probs).labels
    assert torch.equal(deciding.decision(DecisionChoice("size", value)).labels, expected)
    assert deciding.summary(DecisionChoice("size", value)).mean_size == pytest.approx(value, abs=1 / len(NAMES))


def test_a_risk_is_learnt_from_the_rows_called_val(table):
    val = table.of_split("val")
    rule = mh.ConformalRiskControl(0.2).fit(val.probs, val.targets)
    deciding = DecisionExplorer(table)
    assert torch.equal(deciding.decision(DecisionChoice("risk", 0.2)).labels, rule(table.probs).labels)
    summary = deciding.summary(DecisionChoice("risk", 0.2))
    assert summary.threshold == pytest.approx(float(rule.threshold))
    assert "at most 20 % of the labels of an image are missed" in summary.promise


def test_a_promise_that_cannot_be_kept_says_so():
    deciding = DecisionExplorer(predictions(NAMES[:6]))
    summary = deciding.summary(DecisionChoice("risk", 0.01))
    assert summary.threshold is None
    assert summary.words == "All labels are predicted."
    assert "too few images" in summary.promise


def test_expected_and_observed_quality_are_those_of_the_cells(table):
    summary = DecisionExplorer(table).summary(DecisionChoice("threshold", 0.4))
    given, present = table.probs >= 0.4, table.targets == 1
    assert summary.expected.precision == pytest.approx(float(table.probs[given].mean()))
    assert summary.expected.recall == pytest.approx(float(table.probs[given].sum() / table.probs.sum()))
    assert summary.observed.precision == pytest.approx(int((given & present).sum()) / int(given.sum()))
    assert summary.observed.recall == pytest.approx(int((given & present).sum()) / int(present.sum()))
    assert summary.observed.rows == len(NAMES)
    assert sum(summary.sizes) == len(NAMES)
    assert summary.none_share == pytest.approx(summary.sizes[0] / len(NAMES))


def test_what_is_expected_comes_true_where_probabilities_are_honest():
    summary = DecisionExplorer(predictions([str(number) for number in range(6000)])).summary(
        DecisionChoice("threshold", 0.5)
    )
    assert summary.expected.precision == pytest.approx(summary.observed.precision, abs=0.02)
    assert summary.expected.recall == pytest.approx(summary.observed.recall, abs=0.02)


def test_unknown_cells_are_not_judged(table):
    targets = table.targets.clone()
    targets[:, 1:] = -1
    summary = DecisionExplorer(table.replace(targets=targets)).summary(DecisionChoice("threshold", 0.4))
    given, present = table.probs[:, 0] >= 0.4, table.targets[:, 0] == 1
    assert summary.observed.precision == pytest.approx(int((given & present).sum()) / int(given.sum()))


def test_some_rows_are_judged_by_themselves(table):
    rows = torch.arange(30)
    some, alone = (
        DecisionExplorer(found).summary(DecisionChoice("threshold", 0.4), which)
        for found, which in ((table, rows), (table.take(rows), None))
    )
    assert some == alone


def test_the_rule_of_the_run_comes_first_where_there_is_one(table):
    deciding = DecisionExplorer(table)
    assert [way.by for way in deciding.methods] == ["rule", "size", "threshold", "risk"]
    assert torch.equal(deciding.decision(DecisionChoice()).labels, table.decisions)
    assert deciding.summary(DecisionChoice()).threshold is None
    without = DecisionExplorer(predictions(NAMES))
    assert [way.by for way in without.methods] == ["size", "threshold", "risk"]
    with raises_input_error("by", "studio", rule="be one of size, threshold, risk", got="rule"):
        without.decision(DecisionChoice("rule"))


def test_without_true_labels_no_risk_can_be_promised():
    deciding = DecisionExplorer(predictions(NAMES, targets=False))
    assert deciding.methods[-1].why.startswith("It needs images with true labels")
    assert deciding.summary(DecisionChoice("threshold", 0.5)).observed is None
    with raises_input_error(hint="It needs images with true labels"):
        deciding.summary(DecisionChoice("risk", 0.1))


def test_a_collection_without_rows_or_without_decided_labels():
    empty = DecisionExplorer(mh.Predictions(probs=torch.zeros(0, len(LABELS)), labels=LABELS))
    summary = empty.summary(DecisionChoice("size", 2.0))
    assert (summary.mean_size, summary.expected.precision, summary.sizes) == (0.0, None, [0])
    nothing = DecisionExplorer(predictions(NAMES)).summary(DecisionChoice("size", 0.0))
    assert nothing.words == "No labels are predicted."
    assert (nothing.expected.precision, nothing.expected.recall, nothing.none_share) == (None, 0.0, 1.0)


def test_decisions_that_say_nothing_of_abstaining_are_taken_as_they_are():
    given = torch.tensor([[True, False], [False, False]])
    deciding = DecisionExplorer(mh.Predictions(probs=torch.full((2, 2), 0.5), decisions=given))
    assert torch.equal(deciding.decision(DecisionChoice()).labels, given)
    summary = deciding.summary(DecisionChoice())
    assert (summary.mean_size, summary.none_share, summary.ask_share) == (0.5, 0.5, 0.0)


def test_rows_that_the_model_was_trained_on_promise_nothing(table):
    splits = ["train" if split == "val" else split for split in table.splits]
    trained = DecisionExplorer(table.replace(splits=splits))
    assert "that the model was not trained on" in trained.methods[-1].why
    unnamed = DecisionExplorer(table.replace(splits=None))
    assert "fitted on" in unnamed.summary(DecisionChoice("risk", 0.3)).promise


def test_rows_that_are_left_to_a_person_are_not_judged(table):
    abstain = torch.arange(len(table)) % 3 == 0
    asking = table.replace(decisions=table.decisions, abstain=abstain)
    found = DecisionExplorer(asking).summary(DecisionChoice("rule"))
    answered = DecisionExplorer(table.take(~abstain)).summary(DecisionChoice("rule"))
    assert found.ask_share == pytest.approx(1 / 3, abs=0.02)
    assert (found.mean_size, found.sizes) == (answered.mean_size, answered.sizes)
    assert (found.expected, found.observed) == (answered.expected, answered.observed)


def test_what_is_expected_and_what_is_observed_are_of_the_same_cells(table):
    targets = torch.where(
        torch.rand(table.targets.shape, generator=torch.Generator().manual_seed(1)) < 0.5, -1, table.targets
    )
    known = targets >= 0
    summary = DecisionExplorer(table.replace(targets=targets)).summary(DecisionChoice("threshold", 0.4))
    given = (table.probs >= 0.4) & known
    assert summary.expected.precision == pytest.approx(float(table.probs[given].mean()))
    assert summary.expected.recall == pytest.approx(float(table.probs[given].sum() / table.probs[known].sum()))


def test_without_a_known_absence_there_is_no_precision(table):
    present_only = torch.where(table.targets == 1, 1, -1)
    observed = DecisionExplorer(table.replace(targets=present_only)).summary(DecisionChoice("threshold", 0.4)).observed
    assert observed.precision is None
    assert observed.recall is not None
