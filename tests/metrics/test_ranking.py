"""Average precision, AUROC, coverage, ranking loss: against loops, scikit-learn and torchmetrics."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import (
    average_precision_score,
    coverage_error,
    label_ranking_average_precision_score,
    label_ranking_loss,
    ndcg_score,
    roc_auc_score,
)
from torchmetrics.classification import MultilabelAveragePrecision
from torchmetrics.functional.classification import (
    multilabel_average_precision,
    multilabel_ranking_average_precision,
)

from manyhot import metrics, sorting
from tests.metrics import naive

TABLES = [
    {"seed": 0},
    {"seed": 1, "levels": 4},
    {"seed": 2, "unknown": 0.3},
    {"seed": 3, "levels": 3, "unknown": 0.3},
    {"seed": 4, "levels": 1},
    {"seed": 5, "rate": 0.9},
    {"seed": 6, "rate": 0.02},
    {"seed": 7, "levels": 5, "unknown": 0.9},
]
COLUMN_FUNCTIONS = [(metrics.average_precision, naive.average_precision), (metrics.auroc, naive.auroc)]
ROW_FUNCTIONS = [
    (metrics.sample_average_precision, naive.average_precision),
    (metrics.sample_coverage, naive.coverage),
    (metrics.sample_ranking_loss, naive.ranking_loss),
]


def same(got, want):
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("options", TABLES, ids=str)
@pytest.mark.parametrize(("function", "oracle"), COLUMN_FUNCTIONS, ids=["ap", "auroc"])
def test_labels_against_loops(function, oracle, options):
    scores, targets = naive.table(40, 7, **options)
    same(function(scores, targets), [oracle(s, t) for s, t in zip(scores.T, targets.T, strict=True)])


@pytest.mark.parametrize("options", TABLES, ids=str)
@pytest.mark.parametrize(("function", "oracle"), ROW_FUNCTIONS, ids=["ap", "coverage", "ranking loss"])
def test_rows_against_loops(function, oracle, options):
    scores, targets = naive.table(30, 9, **options)
    same(function(scores, targets), [oracle(s, t) for s, t in zip(scores, targets, strict=True)])


@pytest.mark.parametrize("options", TABLES, ids=str)
def test_cells_against_loops(options):
    scores, targets = naive.table(12, 5, **options)
    cells = scores.ravel(), targets.ravel()
    same(metrics.cell_average_precision(scores, targets), naive.average_precision(*cells))
    same(
        metrics.MeanAveragePrecision(average="micro").update(scores, targets).compute().value,
        naive.average_precision(*cells),
    )
    same(metrics.AUROC(average="micro").update(scores, targets).compute().value, naive.auroc(*cells))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-2, 2), st.integers(-1, 1)), max_size=12), st.integers(1, 3))
def test_any_column_and_row(cells, labels):
    rows = len(cells) // labels
    cells = np.array(cells[: rows * labels], dtype=np.float64).reshape(rows, labels, 2)
    scores, targets = cells[..., 0], cells[..., 1].astype(np.int8)
    for function, oracle in COLUMN_FUNCTIONS:
        same(function(scores, targets), [oracle(s, t) for s, t in zip(scores.T, targets.T, strict=True)])
    for function, oracle in ROW_FUNCTIONS:
        same(function(scores, targets), [oracle(s, t) for s, t in zip(scores, targets, strict=True)])


def test_infinite_scores_rank_like_others():
    """Log-odds of the probabilities 0 and 1; unknown cells must not be taken for such low ones."""
    scores = np.array([[-math.inf, -math.inf, 1.0], [math.inf, 0.0, -math.inf], [-math.inf, -math.inf, -math.inf]])
    targets = np.array([[1, -1, 0], [1, 0, 1], [0, 1, -1]], dtype=np.int8)
    for function, oracle in COLUMN_FUNCTIONS:
        same(function(scores, targets), [oracle(s, t) for s, t in zip(scores.T, targets.T, strict=True)])
    for function, oracle in ROW_FUNCTIONS:
        same(function(scores, targets), [oracle(s, t) for s, t in zip(scores, targets, strict=True)])


@pytest.mark.parametrize("cells", [1, 7, 64])
def test_the_size_of_blocks_does_not_matter(monkeypatch, cells):
    scores, targets = naive.table(23, 6, seed=8, levels=4, unknown=0.2)
    whole = [function(scores, targets) for function, _ in (*COLUMN_FUNCTIONS, *ROW_FUNCTIONS)]
    monkeypatch.setattr(sorting, "CELLS_AT_ONCE", cells)
    monkeypatch.setattr(sorting, "LABELS_AT_ONCE", 4)
    monkeypatch.setattr(sorting, "ROWS_IN_CACHE", cells)
    for (function, _), want in zip((*COLUMN_FUNCTIONS, *ROW_FUNCTIONS), whole, strict=True):
        assert torch.equal(function(scores, targets).nan_to_num(-1), want.nan_to_num(-1))


@pytest.mark.parametrize("make", [metrics.MeanAveragePrecision, metrics.AUROC])
def test_values_of_labels_are_those_of_the_function(make):
    scores, targets = naive.table(50, 6, seed=9, levels=9, unknown=0.1, rate=0.1)
    targets[:, 2], targets[:, 4] = 0, 1
    outcome = make().update(scores[:20], targets[:20]).update(scores[20:], targets[20:]).compute()
    function = metrics.average_precision if make is metrics.MeanAveragePrecision else metrics.auroc
    same(outcome.details["by_label"], function(scores, targets))
    assert outcome.value == pytest.approx(naive.mean(function(scores, targets).tolist()), abs=1e-12)
    assert outcome.counts["labels without positives"] == 1
    assert outcome.counts["labels"] == (5 if make is metrics.MeanAveragePrecision else 4)


def test_batches_of_different_precision_stay_exact():
    scores = np.array([[0.1], [0.1 + 1e-12], [0.3]])
    targets = np.array([[0], [1], [0]])
    metric = metrics.MeanAveragePrecision().update(scores[:0].astype(np.float32), targets[:0]).update(scores, targets)
    assert metric.compute().value == 0.5


def test_counts_of_rows():
    targets = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1], [-1, -1, -1], [-1, 1, 1], [0, -1, -1]], dtype=np.int8)
    scores = np.random.default_rng(0).normal(size=targets.shape)
    assert metrics.MeanAveragePrecision(average="samples").update(scores, targets).compute().counts == {
        "rows": 3,
        "rows without positives": 2,
    }
    assert metrics.CoverageError().update(scores, targets).compute().counts == {"rows": 3, "rows without positives": 2}
    assert metrics.RankingLoss().update(scores, targets).compute().counts == {
        "rows": 1,
        "rows without positives": 2,
        "rows without negatives": 2,
    }


class TestPeers:
    """Where scikit-learn and torchmetrics are right they agree; where not, this says how they differ."""

    @pytest.mark.parametrize("levels", [None, 5])
    def test_average_precision(self, levels):
        scores, targets = naive.table(200, 6, seed=0, levels=levels)
        want = [average_precision_score(targets[:, k], scores[:, k]) for k in range(6)]
        same(metrics.average_precision(scores, targets), want)
        same(metrics.cell_average_precision(scores, targets), average_precision_score(targets, scores, average="micro"))
        probs = torch.tensor(scores).sigmoid()
        theirs = multilabel_average_precision(probs, torch.tensor(targets).long(), 6, average="none")
        np.testing.assert_allclose(metrics.average_precision(probs, targets), theirs, atol=1e-6)

    @pytest.mark.parametrize("levels", [None, 5])
    def test_auroc(self, levels):
        scores, targets = naive.table(200, 6, seed=1, levels=levels)
        same(metrics.auroc(scores, targets), roc_auc_score(targets, scores, average=None))
        micro = metrics.AUROC(average="micro").update(scores, targets).compute().value
        same(micro, roc_auc_score(targets, scores, average="micro"))

    @pytest.mark.parametrize("levels", [None, 5])
    def test_rows(self, levels):
        scores, targets = naive.table(200, 6, seed=2, levels=levels)
        some = (targets.sum(1) > 0) & (targets.sum(1) < 6)
        scores, targets = scores[some], targets[some]
        ranking = metrics.MeanAveragePrecision(average="samples").update(scores, targets).compute().value
        same(ranking, label_ranking_average_precision_score(targets, scores))
        same(metrics.CoverageError().update(scores, targets).compute().value, coverage_error(targets, scores))
        same(metrics.RankingLoss().update(scores, targets).compute().value, label_ranking_loss(targets, scores))

    def test_rows_without_labels_are_not_perfect(self):
        scores, targets = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[0, 1], [0, 0]])
        ours = metrics.MeanAveragePrecision(average="samples").update(scores, targets).compute()
        assert ours.value == 0.5
        assert label_ranking_average_precision_score(targets, scores) == 0.75
        assert float(multilabel_ranking_average_precision(torch.tensor(scores), torch.tensor(targets), 2)) == 0.75
        assert metrics.RankingLoss().update(scores, targets).compute().value == 1.0
        assert label_ranking_loss(targets, scores) == 0.5
        assert metrics.CoverageError().update(scores, targets).compute().value == 2.0
        assert coverage_error(targets, scores) == 1.0

    def test_labels_without_samples_are_not_zero(self):
        scores, targets = np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([[1, 0], [0, 0]])
        assert metrics.MeanAveragePrecision().update(scores, targets).compute().value == 1.0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert average_precision_score(targets, scores) == 0.5

    def test_scores_are_never_guessed_to_be_logits(self):
        """torchmetrics squashes a batch of which one number lies outside of [0, 1], and only that batch."""
        scores = torch.tensor([[0.4, 0.4], [0.05, 0.05], [1.2, 0.9], [0.1, 0.1]])
        targets = torch.tensor([[1, 1], [0, 0], [1, 1], [0, 0]])
        theirs, ours = MultilabelAveragePrecision(2), metrics.MeanAveragePrecision()
        for batch in (slice(0, 2), slice(2, 4)):
            theirs.update(scores[batch], targets[batch])
            ours.update(scores[batch], targets[batch])
        assert ours.compute().value == 1.0
        assert float(theirs.compute()) == pytest.approx(5 / 6)

    def test_ndcg_without_ties(self):
        scores, targets = naive.table(100, 8, seed=3)
        some = targets.sum(1) > 0
        scores, targets = scores[some], targets[some]
        outcome = metrics.RankingAtK(ks=(1, 3, 8)).update(scores, targets).compute()
        for k in (1, 3, 8):
            same(outcome[f"ndcg@{k}"], ndcg_score(targets, scores, k=k))


@pytest.mark.parametrize(
    "measure", [metrics.sample_average_precision, metrics.sample_coverage, metrics.sample_ranking_loss]
)
def test_tables_that_lie_in_memory_by_label(measure):
    """Torch warns, once in a program, of a search in what does not lie in order."""
    draw = torch.Generator().manual_seed(0)
    scores, targets = torch.randn(9, 4, generator=draw), torch.randint(-1, 2, (9, 4), generator=draw)
    torch.set_warn_always(True)
    got = measure(scores.T.contiguous().T, targets.T.contiguous().T)
    torch.set_warn_always(False)
    torch.testing.assert_close(got, measure(scores, targets), equal_nan=True)
