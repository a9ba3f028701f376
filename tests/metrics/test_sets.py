"""Metrics of decisions against scikit-learn, naive loops, and the edges they must state."""

import math
import re
import warnings

import numpy as np
import pytest
import sklearn.metrics
import torch

from manyhot.decide.rule import Decision
from manyhot.metrics import FScores, SetAccuracy
from tests.errors.expected import raises_input_error


def drawn(rows=200, labels=6, *, seed=0):
    """Decisions and targets with empty and full rows, a label that is never present and one that is never given."""
    draw = torch.Generator().manual_seed(seed)
    targets = (torch.rand(rows, labels, generator=draw) < 0.3).to(torch.int8)
    decisions = torch.rand(rows, labels, generator=draw) < 0.25 + 0.5 * targets
    targets[:5], decisions[3:8] = 0, False
    targets[10:12], decisions[11:13] = 1, True
    targets[:, 2], decisions[:, 4] = 0, False
    return decisions, targets


@pytest.mark.parametrize("beta", [1.0, 0.5, 2.0])
def test_scikit_learn_agrees(beta):
    decisions, targets = drawn()
    outcome = FScores(beta).update(decisions, targets).compute()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of nothing by nothing, which both call 0
        for over, average in (("micro", "micro"), ("macro", "macro"), ("sample", "samples")):
            three = sklearn.metrics.precision_recall_fscore_support(
                targets.numpy(), decisions.numpy(), beta=beta, average=average, zero_division=0
            )[:3]
            for name, want in zip(("precision", "recall", "f"), three, strict=True):
                assert outcome[f"{over}_{name}"] == pytest.approx(want, rel=1e-12)
        by_label = sklearn.metrics.precision_recall_fscore_support(
            targets.numpy(), decisions.numpy(), beta=beta, average=None, zero_division=0
        )
    for name, want in zip(("precision", "recall", "f", "present"), by_label, strict=True):
        assert outcome.details[name].tolist() == pytest.approx(want.tolist(), rel=1e-12)
    assert outcome["macro_f_supported"] == pytest.approx(np.delete(by_label[2], 2).mean(), rel=1e-12)
    precision, recall = by_label[0].mean(), by_label[1].mean()
    harmonic = (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
    assert outcome["f_of_means"] == pytest.approx(harmonic, rel=1e-12)
    assert outcome.counts["labels without positives"] == 1
    assert outcome.counts["rows without labels and decisions"] == int((~decisions & (targets == 0)).all(1).sum()) > 0


def test_scikit_learn_agrees_on_sets():
    decisions, targets = drawn()
    outcome = SetAccuracy().update(decisions, targets).compute()
    given, true = decisions.numpy(), targets.numpy()
    assert outcome["hamming_loss"] == pytest.approx(sklearn.metrics.hamming_loss(true, given), rel=1e-12)
    assert outcome["exact_match"] == pytest.approx(sklearn.metrics.accuracy_score(true, given), rel=1e-12)
    jaccard = sklearn.metrics.jaccard_score(true, given, average="samples", zero_division=1)
    assert outcome["jaccard"] == pytest.approx(jaccard, rel=1e-12)
    assert outcome["mean_size"] == pytest.approx(given.sum(1).mean(), rel=1e-12)
    assert outcome.details["sizes"].tolist() == np.bincount(given.sum(1), minlength=7).tolist()


def test_unknown_cells_are_left_out_of_everything():
    decisions, targets = drawn()
    hidden = torch.rand(targets.shape, generator=torch.Generator().manual_seed(5)) < 0.3
    hidden[20], hidden[:, 1] = True, True
    partly = torch.where(hidden, -1, targets)
    f, sets = FScores().update(decisions, partly).compute(), SetAccuracy().update(decisions, partly).compute()

    jaccard, exact, rows_f, sizes = [], [], [], []
    for row in range(len(targets)):
        known = ~hidden[row]
        if not known.any():
            continue
        given = {k for k in range(6) if known[k] and decisions[row, k]}
        true = {k for k in range(6) if known[k] and targets[row, k]}
        jaccard.append(len(given & true) / len(given | true) if given | true else 1.0)
        rows_f.append(2 * len(given & true) / (len(given) + len(true)) if given or true else 0.0)
        exact.append(given == true)
        sizes.append(len(given))
    assert sets["jaccard"] == pytest.approx(np.mean(jaccard), rel=1e-12)
    assert sets["exact_match"] == pytest.approx(np.mean(exact), rel=1e-12)
    assert sets["mean_size"] == pytest.approx(np.mean(sizes), rel=1e-12)
    assert sets["hamming_loss"] == pytest.approx(float((decisions != targets.bool())[~hidden].double().mean()))
    assert f["sample_f"] == pytest.approx(np.mean(rows_f), rel=1e-12)
    for k in (0, 3, 5):
        known = ~hidden[:, k]
        want = sklearn.metrics.f1_score(targets[known, k], decisions[known, k])
        assert f.details["f"][k].item() == pytest.approx(want, rel=1e-12)
    assert math.isnan(f.details["f"][1])
    assert f.counts["labels without cells"] == 1
    assert f.counts["rows"] == sets.counts["rows"] == len(sizes)


def test_rows_that_abstain_are_left_out_and_counted():
    decisions, targets = drawn()
    abstain = torch.arange(len(targets)) % 4 == 0
    targets[4] = -1  # a row that abstains where nothing is known counts nowhere
    decision = Decision(decisions, abstain)
    for metric in (FScores, SetAccuracy):
        outcome = metric().update(decision, targets).compute()
        others = metric().update(decisions[~abstain], targets[~abstain]).compute()
        same = {name: value for name, value in outcome.values.items() if name != "coverage"}
        assert same == pytest.approx({name: others[name] for name in same}, rel=1e-12)
        assert outcome.counts["rows that abstain"] == 49
        assert outcome.counts["rows"] == 150
    assert SetAccuracy().update(decision, targets).compute()["coverage"] == pytest.approx(150 / 199)


def test_a_row_without_labels_and_decisions():
    """Right and empty: 1 for the overlap of sets, 0 by the rule of nothing by nothing for F, and counted by both."""
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    f = FScores().update(nothing, torch.zeros(2, 3)).compute()
    sets = SetAccuracy().update(nothing, torch.zeros(2, 3)).compute()
    assert f["sample_f"] == f["micro_f"] == f["macro_f"] == 0
    assert math.isnan(f["macro_f_supported"])
    assert sets["jaccard"] == sets["exact_match"] == 1
    assert f.counts["rows without labels and decisions"] == 2
    assert sets.counts["rows without labels and decisions"] == 2


def test_without_rows_nothing_is_defined():
    for metric in (FScores, SetAccuracy):
        outcome = metric().update(torch.zeros(0, 3, dtype=torch.bool), torch.zeros(0, 3)).compute()
        assert all(math.isnan(value) for value in outcome.values.values())


def raises_message(message):
    return raises_input_error(match=f"^{re.escape(message)}$")


def test_what_is_not_decided_raises_an_error():
    hint = "Pass what a rule returns, or compare probabilities with a threshold."
    with raises_message(
        f"`decisions` of `FScores` must be a boolean tensor or array; got a tensor of torch.float32. {hint}"
    ):
        FScores().update(torch.rand(4, 3), torch.zeros(4, 3))
    with raises_message(
        f"`decisions` of `SetAccuracy` must be a boolean tensor or array; got an array of int64. {hint}"
    ):
        SetAccuracy().update(np.zeros((4, 3), dtype=int), torch.zeros(4, 3))
    with raises_message(f"`decisions` of `SetAccuracy` must be a boolean tensor or array; got str. {hint}"):
        SetAccuracy().update("all", torch.zeros(4, 3))


def test_shapes_are_checked():
    rows = "Pass one row per sample and one column per label."
    with raises_message(f"`decisions` of `FScores` must be (N, K); got (4,). {rows}"):
        FScores().update(torch.zeros(4, dtype=torch.bool), torch.zeros(4))
    with raises_input_error("targets", "FScores", rule="be (N, K) like `decisions` (4, 3)"):
        FScores().update(torch.zeros(4, 3, dtype=torch.bool), torch.zeros(4, 2))
    decision = Decision(torch.zeros(4, 3, dtype=torch.bool), torch.zeros(3, dtype=torch.bool))
    with raises_input_error("abstain", "FScores", rule="be (N,) of booleans with N = 4"):
        FScores().update(decision, torch.zeros(4, 3))


def test_beta_is_checked():
    with raises_input_error("beta", "FScores", rule="be a number above 0", got="-1"):
        FScores(-1)


def test_arrays_that_torch_does_not_take_as_they_are():
    decisions, targets = drawn()
    want = FScores().update(decisions.flip(0), targets.flip(0)).compute().values
    backwards = decisions.numpy()[::-1]
    fixed = backwards.copy()
    fixed.flags.writeable = False
    for array in (backwards, fixed):
        assert FScores().update(array, targets.numpy()[::-1]).compute().values == want
