"""Reliability curves of single labels."""

import json

import pytest
import torch

import manyhot as mh
from manyhot.errors import InputError
from manyhot.report import draw_reliability, label_curves

NAMES = ["cat", "dog", "sky", "rare", "never"]


@pytest.fixture(scope="module")
def labels():
    """Probabilities that are right for "cat", a little wrong for "dog" and far off for "sky"."""
    draw = torch.Generator().manual_seed(0)
    probs = torch.rand(800, 5, generator=draw)
    targets = (torch.rand(800, 5, generator=draw) < probs).int()
    targets[:, 3] = 0
    targets[:19, 3] = 1
    targets[:, 4] = 0
    promised = probs.clone()
    promised[:, 1] = probs[:, 1] ** 1.5
    promised[:, 2] = probs[:, 2] ** 4
    return promised, targets


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def test_the_worst_come_first_and_rare_labels_do_not_count(labels):
    promised, targets = labels
    counts = (targets == 1).sum(0).tolist()
    assert list(label_curves({"link": promised}, targets, NAMES)) == [
        f"sky ({counts[2]})",
        f"dog ({counts[1]})",
        f"cat ({counts[0]})",
    ]
    assert len(label_curves({"link": promised}, targets, NAMES, most=2)) == 2


def test_the_last_reading_decides(labels):
    promised, targets = labels
    better = promised.clone()
    better[:, 2] = promised[:, 2] ** 0.25
    curves = label_curves({"own link": promised, "calibrated": better}, targets, NAMES, most=1)
    assert next(iter(curves)).startswith("dog")
    assert list(next(iter(curves.values()))) == ["own link", "calibrated"]


def test_the_bins_are_those_of_the_label_alone(labels):
    promised, targets = labels
    (curves,) = label_curves({"link": promised}, targets, NAMES, most=1, bins=7).values()
    wanted = mh.metrics.CalibrationError(7).update(promised[:, 2:3], targets[:, 2:3]).compute().details
    assert curves["link"]["cells"] == wanted["cells"].tolist()
    assert curves["link"]["share_present"] == pytest.approx(wanted["share_present"].tolist(), nan_ok=True)


def test_where_all_are_rare_the_most_frequent_are_taken(labels):
    promised, targets = labels
    assert list(label_curves({"link": promised[:, 3:]}, targets[:, 3:], NAMES[3:])) == ["rare (19)"]
    assert label_curves({"link": promised[:, 4:]}, targets[:, 4:], NAMES[4:]) == {}


def test_unknown_cells_do_not_count(labels):
    promised, targets = labels
    hidden = targets.clone()
    hidden[targets == 0] = -1
    (curves,) = label_curves({"link": promised}, hidden, NAMES, most=1).values()
    assert set(curves["link"]["share_present"]) <= {1.0, None}


def test_they_can_be_kept_and_drawn(labels):
    promised, targets = labels
    curves = label_curves({"own link": promised, "again": promised}, targets, NAMES)
    kept = json.loads(json.dumps(curves, allow_nan=False))
    assert kept == curves
    figure = draw_reliability(kept)
    assert [axis.get_title() for axis in figure.axes if axis.get_title()] == list(curves)


def test_what_is_refused(labels):
    promised, targets = labels
    assert words(lambda: label_curves({"link": promised}, targets, NAMES[:3])) == (
        "`names` of `label_curves` must be those of the 5 labels; got 3. Pass one name for each column, in their order."
    )
    assert words(lambda: label_curves({"link": promised * 2}, targets, NAMES)).startswith(
        "`readings['link']` of `label_curves` must lie between 0 and 1; got "
    )
    assert words(lambda: label_curves({"link": promised}, targets[:9], NAMES)).startswith(
        "`targets` of `label_curves` must be (N, K) like `readings['link']` (800, 5); got (9, 5)."
    )
