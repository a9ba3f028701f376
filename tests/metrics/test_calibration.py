"""Calibration errors against naive loops, known populations and peers."""

import math
import re

import netcal.metrics
import numpy as np
import pytest
import torch
import torchmetrics

from manyhot.metrics import CalibrationError
from manyhot.metrics.calibration import as_keys, bin_of, even_edges, most_confident


def calibrated(rows=500, labels=4, *, seed=0, dtype=torch.float64):
    """Probabilities that are true: each label is present as often as it is said."""
    draw = torch.Generator().manual_seed(seed)
    probs = torch.rand(rows, labels, generator=draw, dtype=dtype) ** 2
    targets = (torch.rand(rows, labels, generator=draw, dtype=dtype) < probs).to(torch.int8)
    return probs, targets


def with_unknown(targets, *, seed=1):
    hidden = torch.rand(targets.shape, generator=torch.Generator().manual_seed(seed)) < 0.2
    return torch.where(hidden, -1, targets).to(torch.int8)


def naive_bins(cells, edges):
    """Cells (probability, target) in bins: the first whose upper edge is not below the probability."""
    bins = [[] for _ in edges]
    for prob, target in cells:
        bins[next(b for b, edge in enumerate(edges) if prob <= edge)].append((prob, target))
    return bins


def naive_errors(bins):
    used = [bin_ for bin_ in bins if bin_]
    gaps = [abs(math.fsum(p - t for p, t in bin_) / len(bin_)) for bin_ in used]
    cells = sum(len(bin_) for bin_ in used)
    ece = sum(gap * len(bin_) for gap, bin_ in zip(gaps, used, strict=True)) / cells
    return {"ece": ece, "ace": sum(gaps) / len(gaps), "mce": max(gaps)}


def known_cells(probs, targets):
    pairs = zip(probs.flatten().tolist(), targets.flatten().tolist(), strict=True)
    return [(prob, target) for prob, target in pairs if target >= 0]


def measure(probs, targets, **options):
    return CalibrationError(**options).update(probs, targets).compute()


@pytest.mark.parametrize("bins", [1, 7, 10, 15])
def test_pooled_against_a_loop(bins):
    probs, targets = calibrated()
    targets = with_unknown(targets)
    want = naive_bins(known_cells(probs, targets), [(b + 1) / bins for b in range(bins)])
    outcome = measure(probs, targets, bins=bins)
    assert outcome.values == pytest.approx(naive_errors(want), abs=1e-14)
    assert outcome.details["cells"].tolist() == [len(bin_) for bin_ in want]
    assert outcome.counts == {"cells": int((targets >= 0).sum())}
    assert outcome.details["edges"].tolist() == [b / bins for b in range(bins + 1)]


def test_by_label_against_a_loop():
    probs, targets = calibrated()
    targets = with_unknown(targets)
    targets[:, 2] = -1
    edges = [(b + 1) / 15 for b in range(15)]
    each = [naive_errors(naive_bins(known_cells(probs[:, k], targets[:, k]), edges)) for k in (0, 1, 3)]
    outcome = measure(probs, targets, average="macro")
    for name in ("ece", "ace", "mce"):
        assert outcome[name] == pytest.approx(sum(errors[name] for errors in each) / 3, abs=1e-14)
        by_label = outcome.details[name]
        assert by_label[[0, 1, 3]].tolist() == pytest.approx([errors[name] for errors in each], abs=1e-14)
        assert math.isnan(by_label[2])
    assert outcome.counts["labels"] == 3
    assert outcome.counts["labels without cells"] == 1


def test_top_k_against_a_loop():
    probs, targets = calibrated(60, 6)
    probs = (probs * 5).round() / 5  # many ties
    targets = with_unknown(targets)
    cells = []
    for row, marks in zip(probs.tolist(), targets.tolist(), strict=True):
        known = [(-row[k], k) for k in range(6) if marks[k] >= 0]
        cells += [(row[k], marks[k]) for _, k in sorted(known)[:3]]
    want = naive_errors(naive_bins(cells, [(b + 1) / 10 for b in range(10)]))
    outcome = measure(probs, targets, bins=10, top_k=3)
    assert outcome.values == pytest.approx(want, abs=1e-14)
    assert outcome.counts["cells"] == len(cells)


def test_top_k_above_the_number_of_labels_takes_all():
    probs, targets = calibrated()
    assert measure(probs, targets, top_k=9).values == measure(probs, targets).values


@pytest.mark.parametrize("rounding", [1e6, 20, 2])
@pytest.mark.parametrize("bins", [1, 4, 15])
def test_equal_mass_against_a_loop(bins, rounding):
    probs, targets = calibrated(dtype=torch.float32)
    probs = (probs * rounding).round() / rounding
    targets = with_unknown(targets)
    cells = known_cells(probs, targets)
    ordered = sorted(prob for prob, _ in cells)
    edges = [ordered[math.ceil((b + 1) * len(cells) / bins) - 1] for b in range(bins)]
    outcome = measure(probs, targets, bins=bins, mass="equal")
    assert outcome.values == pytest.approx(naive_errors(naive_bins(cells, edges)), abs=1e-14)
    assert outcome.details["edges"].tolist() == [0.0, *edges]
    assert int(outcome.details["cells"].sum()) == len(cells)


def test_equal_mass_without_ties_has_the_same_number_of_cells_in_each_bin():
    probs, targets = calibrated(300, 4, dtype=torch.float32)
    assert len(probs.unique()) == probs.numel()
    assert measure(probs, targets, bins=15, mass="equal").details["cells"].tolist() == [80] * 15


def test_equal_mass_never_tears_equal_probabilities_apart():
    probs = torch.tensor([0.0] * 90 + [0.5, 0.6, 0.7, 0.8, 0.9] * 2).unsqueeze(1)
    outcome = measure(probs, torch.zeros_like(probs), bins=10, mass="equal")
    assert outcome.details["cells"].tolist() == [90, *[0] * 8, 10]
    assert outcome.details["mean_prob"][0] == 0


def test_equal_mass_by_label_is_that_of_each_label():
    probs, targets = calibrated(dtype=torch.float32)
    each = [measure(probs[:, k : k + 1], targets[:, k : k + 1], mass="equal") for k in range(4)]
    outcome = measure(probs, targets, mass="equal", average="macro")
    for name in ("ece", "ace", "mce"):
        assert outcome[name] == pytest.approx(sum(one[name] for one in each) / 4, abs=1e-14)
        assert outcome.details[name].tolist() == [one[name] for one in each]


def test_keys_keep_order_and_target():
    probs = torch.tensor([[0.0, -0.0, 1e-45, 1e-30, 0.5, 1.0]])
    keys = as_keys(probs, torch.tensor([[1, 0, 1, 0, 1, 1]]))
    assert (keys[0, 2:] > keys[0, 1:-1]).all()
    assert keys[0, 0] == 1 == keys[0, 1] + 1
    assert (keys & 1).tolist() == [[1, 0, 1, 0, 1, 1]]
    assert as_keys(probs, torch.full((1, 6), -1)).tolist() == [[-1] * 6]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bins", [3, 7, 10, 15, 49])
def test_a_probability_on_an_edge_is_in_the_lower_bin(bins, dtype):
    """In every type: 0.3 is on the edge 3/10, although it is not the same number in float32."""
    on_edges = torch.tensor([b / bins for b in range(bins + 1)], dtype=dtype)
    assert bin_of(on_edges, even_edges(bins, on_edges)).tolist() == [0, *range(bins)]
    above = torch.nextafter(on_edges[:-1], torch.ones((), dtype=dtype))
    assert bin_of(above, even_edges(bins, above)).tolist() == list(range(bins))


def test_multiplying_would_put_an_edge_into_the_wrong_bin():
    """Why edges are compared: 7/25 * 25 is above 7 in floating point."""
    prob = torch.tensor([7 / 25], dtype=torch.float64)
    assert int(torch.ceil(prob * 25) - 1) == 7
    assert bin_of(prob, even_edges(25, prob)).tolist() == [6]


def test_sums_do_not_drift_over_a_million_rows():
    tenth = torch.full((1000, 1), 0.1)
    metric = CalibrationError(1)
    for _ in range(1000):
        metric.update(tenth, torch.zeros_like(tenth))
    outcome = metric.compute()
    assert outcome.counts == {"cells": 1_000_000}
    assert outcome["ece"] == pytest.approx(float(np.float32(0.1)), rel=1e-15)


def test_the_order_of_cells_and_batches_changes_no_bit():
    probs, targets = calibrated(1000, 3)
    whole = measure(probs, targets)
    order = torch.randperm(1000, generator=torch.Generator().manual_seed(3))
    parts = CalibrationError()
    for rows in order.split(77):
        parts.update(probs[rows], targets[rows])
    assert parts.compute().values == whole.values


def test_true_probabilities_have_a_small_error_and_lies_the_known_one():
    probs, targets = calibrated(200_000, 1)
    assert measure(probs, targets)["ece"] < 0.004
    halves = torch.arange(200_000).unsqueeze(1) % 2
    lies = measure(torch.full((200_000, 1), 0.8), halves)
    assert lies["ece"] == pytest.approx(0.3, abs=1e-7)
    assert lies.details["cells"].tolist() == [0] * 11 + [200_000] + [0] * 3


def test_rows_without_labels_are_absent_labels():
    probs = torch.tensor([[0.25, 0.25]])
    assert measure(probs, torch.zeros(1, 2)).values == {"ece": 0.25, "ace": 0.25, "mce": 0.25}


def test_peers_agree_on_a_single_label():
    probs, targets = calibrated(2000, 1)
    outcome = measure(probs, targets, bins=10)
    flat, marks = probs.flatten().numpy(), targets.flatten().numpy()
    for name, peer in (("ece", netcal.metrics.ECE), ("ace", netcal.metrics.ACE), ("mce", netcal.metrics.MCE)):
        assert outcome[name] == pytest.approx(peer(10).measure(flat, marks), abs=1e-9)
    peer = torchmetrics.functional.calibration_error(
        probs.flatten(), targets.flatten().long(), task="binary", n_bins=10, norm="l1"
    )
    assert outcome["ece"] == pytest.approx(float(peer), abs=1e-9)


def test_netcal_reads_a_multi_label_table_as_one_label_a_row():
    """True probabilities get an error of nearly a fifth from it."""
    probs, targets = calibrated(20_000, 4)
    assert measure(probs, targets, bins=10)["ece"] < 0.01
    assert netcal.metrics.ECE(10).measure(probs.numpy(), targets.numpy()) > 0.18


def test_torchmetrics_refuses_several_labels_and_guesses_what_numbers_mean():
    with pytest.raises(ValueError, match="multilabel"):
        torchmetrics.CalibrationError(task="multilabel", num_labels=3)
    probs, targets = calibrated(2000, 1)
    scores, marks = probs.flatten().clone(), targets.flatten().long()
    peer = torchmetrics.functional.classification.binary_calibration_error
    before = float(peer(scores, marks, norm="l1"))
    scores[0] = 1.0001
    assert abs(float(peer(scores, marks, norm="l1")) - before) > 0.1
    with pytest.raises(ValueError, match="must lie between 0 and 1; got 1"):
        measure(scores.unsqueeze(1), targets)


def test_most_confident_marks_the_first_of_equal_ones():
    targets = torch.tensor([[1, 0, 1, 0], [1, -1, 1, 0], [-1, -1, -1, 1]])
    probs = torch.tensor([[0.5, 0.5, 0.5, 0.5], [0.1, 0.9, 0.3, 0.1], [0.2, 0.3, 0.4, 0.0]])
    assert most_confident(probs, targets, 2).tolist() == [[1, 0, -1, -1], [1, -1, 1, -1], [-1, -1, -1, 1]]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"bins": 0}, "`bins` of `CalibrationError` must be a whole number, at least 1; got 0. Pass an int."),
        ({"bins": 2.5}, "`bins` of `CalibrationError` must be a whole number, at least 1; got 2.5. Pass an int."),
        (
            {"average": "class"},
            "`average` of `CalibrationError` must be one of 'micro', 'macro'; got 'class'. Pick one of these.",
        ),
        (
            {"mass": "same"},
            "`mass` of `CalibrationError` must be one of 'width', 'equal'; got 'same'. Pick one of these.",
        ),
        ({"top_k": 0}, "`top_k` of `CalibrationError` must be a whole number, at least 1; got 0. Pass an int."),
    ],
)
def test_refusals(options, sentence):
    with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
        CalibrationError(**options)


def test_metrics_of_other_settings_are_not_merged():
    with pytest.raises(ValueError, match="must be a `CalibrationError` of the same settings"):
        CalibrationError(10).merge(CalibrationError(15))
