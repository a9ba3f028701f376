"""Judges against scikit-learn and plain loops."""

import json
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score, log_loss, roc_auc_score

import manyhot as mh
from experiments.metrics import METRICS, retrieval
from manyhot.heads import CosineHead, LinearHead, TwoHeads
from tests.experiments.outcomes import many, outcome_of, single

MULTI = (mh.AsymmetricLoss, mh.QuasibinaryLoss, mh.losses.MultiLabelSoftmaxLoss, mh.TwoWayLoss)
SINGLE = (mh.losses.SoftmaxCrossEntropyLoss, mh.BinaryCrossEntropyLoss, mh.QuasibinaryLoss)


def judged(name, output):
    """By a judge, checked to survive JSON."""
    found = METRICS[name](output)
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def only(output, name):
    """The figures of one reading."""
    return output["readings"][name]


@pytest.mark.parametrize("loss", MULTI)
def test_many_label_figures_are_those_of_scikit_learn(loss):
    output = many(loss())
    found = judged("many_label", output)
    scores, targets = output.scores["test"], output.targets["test"].numpy()
    if loss is mh.losses.MultiLabelSoftmaxLoss:
        scores = scores.log_softmax(1)
    assert found["map_class"] == pytest.approx(average_precision_score(targets, scores, average="macro"))
    labelled = targets.any(1)
    by_row = [average_precision_score(y, s) for y, s in zip(targets[labelled], scores.numpy()[labelled], strict=True)]
    assert found["map_sample"] == pytest.approx(np.mean(by_row))
    top = np.zeros_like(targets)
    np.put_along_axis(top, np.argsort(-scores.numpy(), kind="stable")[:, :4], 1, 1)
    assert found["f1_top4"] == pytest.approx(f1_score(targets, top, average="macro"))
    precision = np.mean((top * targets).sum(0) / top.sum(0))
    recall = np.mean((top * targets).sum(0) / targets.sum(0))
    assert found["f1_of_means_top4"] == pytest.approx(2 * precision * recall / (precision + recall))


def test_many_label_errors_of_probabilities_by_plain_loops():
    output = many(mh.BinaryCrossEntropyLoss())
    found = only(judged("many_label", output), "sigmoid")
    probs, targets = output.scores["test"].double().sigmoid().numpy(), output.targets["test"].numpy()
    gaps, counts = [], []
    for bin in range(15):
        inside = (probs <= (bin + 1) / 15) & ((probs > bin / 15) | (bin == 0))
        counts.append(int(inside.sum()))
        gaps.append(abs(probs[inside].mean() - targets[inside].mean()))
    assert found["bins"]["count"] == counts
    assert found["ece"] == pytest.approx(np.dot(gaps, counts) / sum(counts), rel=1e-5)
    assert found["ace"] == pytest.approx(np.mean(gaps), rel=1e-5)
    assert found["mce"] == pytest.approx(max(gaps), rel=1e-5)
    by_row = [log_loss(y, p, labels=[0, 1]) * len(y) for y, p in zip(targets, probs, strict=True)]
    assert found["log_loss"] == pytest.approx(np.mean(by_row), rel=1e-5)
    assert found["brier"] == pytest.approx(((probs - targets) ** 2).sum(1).mean(), rel=1e-5)
    order = np.argsort(-probs, kind="stable")[:, :4]
    top, right = np.take_along_axis(probs, order, 1).ravel(), np.take_along_axis(targets, order, 1).ravel()
    bins = np.ceil(top * 10)
    gap = sum(abs(top[bins == b].sum() - right[bins == b].sum()) for b in range(1, 11))
    assert found["ece_top4"] == pytest.approx(gap / len(top), rel=1e-5)


def test_many_label_with_fewer_labels_than_are_picked_and_unknown_cells():
    output = many(mh.BinaryCrossEntropyLoss(), labels=3)
    all_given = f1_score(output.targets["test"].numpy(), np.ones((260, 3)), average="macro")
    assert judged("many_label", output)["f1_top4"] == pytest.approx(all_given)
    before = judged("many_label", output)["map_class"]
    output.targets["test"][:, 1] = -1
    found = judged("many_label", output)
    assert sum(only(found, "sigmoid")["bins"]["count"]) == 520
    assert found["map_class"] != before


def test_many_label_shows_what_ties_of_a_link_cost():
    output = many(mh.AsymmetricLoss(gamma_neg=4, gamma_pos=0, margin=0.2))
    found = judged("many_label", output)
    targets = output.targets["test"].numpy()
    probs = output.loss.link.probs(output.scores["test"]).numpy()
    assert only(found, "sigmoid")["map_class"] == found["map_class"]
    assert only(found, "own link")["map_class"] < found["map_class"]
    assert only(found, "own link")["map_class"] == pytest.approx(
        average_precision_score(targets, probs, average="macro"), rel=1e-4
    )
    assert only(found, "own link")["certain_and_wrong"] == int(((probs == 0) & (targets == 1)).sum()) > 0


@pytest.mark.parametrize("loss", SINGLE)
def test_one_label_by_plain_loops(loss):
    output = single(loss())
    found = judged("one_label", output)
    scores, labels = output.scores["test"].double().numpy(), output.targets["test"].argmax(1).numpy()
    order = np.argsort(-scores, kind="stable")
    assert found["top1_error"] == pytest.approx(np.mean(order[:, 0] != labels))
    assert found["top5_error"] == pytest.approx(
        np.mean([y not in o for y, o in zip(labels, order[:, :5], strict=True)])
    )
    own = {"softmax": torch.softmax, "sigmoid": lambda s, _: s.sigmoid()}
    probs = own.get(found["own"], lambda s, _: output.loss.link.probs(s))(torch.from_numpy(scores), 1).numpy()
    probs /= probs.sum(1, keepdims=True)
    assert found["log_loss"] == pytest.approx(log_loss(labels, probs, labels=range(12)), rel=1e-5)
    top, right = probs.max(1), order[:, 0] == labels
    bins = np.ceil(top * 15)
    gap = sum(abs(top[bins == b].sum() - right[bins == b].sum()) for b in range(1, 16))
    assert found["ece"] == pytest.approx(gap / len(top), rel=1e-4)


def test_one_label_leaves_out_rows_without_a_label_and_refuses_several():
    output = single(mh.BinaryCrossEntropyLoss(), out=0.25)
    assert judged("one_label", output)["rows"] == 195
    with pytest.raises(ValueError, match="`output` of `one_label` must have one label a row at the most; got a row"):
        METRICS["one_label"](many(mh.BinaryCrossEntropyLoss()))


@pytest.mark.parametrize("loss", SINGLE)
def test_zero_label_figures(loss):
    output = single(loss(), out=0.4)
    found = judged("zero_label", output)
    targets = output.targets["test"].numpy()
    inside = targets.any(1)
    assert (found["rows_in"], found["rows_out"]) == (156, 104)
    values = output.scores["test"].double()
    probs = {"softmax": values.softmax(1), "sigmoid": values.sigmoid()}.get(
        found["own"], output.loss.link.probs(values)
    )
    figures, largest = only(found, found["own"]), probs.amax(1).numpy()
    assert figures["mmc"] == pytest.approx(largest[~inside].mean(), rel=1e-5)
    assert figures["auroc"] == pytest.approx(roc_auc_score(inside, largest), abs=1e-4)
    assert figures["accuracy"] == pytest.approx(np.mean(targets[inside, values.argmax(1).numpy()[inside]]))
    accepted = np.sort(largest[inside])[len(largest[inside]) - math.ceil(0.95 * inside.sum())]
    assert figures["fpr95"] == pytest.approx(np.mean(largest[~inside] >= accepted))


def test_zero_label_without_such_rows_has_no_comparison():
    found = only(judged("zero_label", single(mh.losses.SoftmaxCrossEntropyLoss())), "softmax")
    assert found["auroc"] is None
    assert found["mmc"] is None
    assert found["accuracy"] is not None


def test_retrieval_asks_all_the_same_queries_and_knows_the_short_ones_by_heart():
    losses = (mh.AsymmetricLoss(margin=0.0), mh.losses.MultiLabelSoftmaxLoss())
    found = [retrieval(many(loss), each=12, most=3) for loss in losses]
    output = many(losses[0])
    precision = average_precision_score(output.targets["test"].numpy(), output.scores["test"], average="macro")
    assert only(found[0], "sigmoid")["by_length"][0] == pytest.approx(precision, abs=1e-3)
    assert set(found[0]["readings"]) == {"sigmoid", "own link", "calibrated"}
    assert set(found[1]["readings"]) == {"softmax", "calibrated"}
    assert [sum(only(f, f["plain"])["queries"]) for f in found] == [sum(only(found[0], "sigmoid")["queries"])] * 2
    gap = only(found[0], "own link")["map"] - only(found[0], "sigmoid")["map"]
    assert found[0]["more"]["own link"]["map"] == pytest.approx(gap, abs=1e-6)
    low, high = only(found[0], "sigmoid")["interval"]
    assert low < only(found[0], "sigmoid")["map"] < high
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert retrieval(output, each=12, most=3) == found[0]


@pytest.mark.parametrize(
    ("loss", "trained"), [(mh.losses.SoftmaxCrossEntropyLoss(), "softmax"), (mh.AverageKLoss(3), "sigmoid")]
)
def test_average_k_by_plain_loops(loss, trained):
    output = single(loss, head=TwoHeads(3, 12) if loss.heads == 2 else None)
    found = judged("average_k", output)
    assert found["trained"] == trained
    assert list(found["top_k"]) == ["2", "3", "5", "10"]
    val, test = (output.scores[split].double().softmax(1).numpy() for split in ("val", "test"))
    labels = output.targets["test"].argmax(1).numpy()
    for k in (2, 5):
        ordered = np.sort(val.ravel())[::-1]
        threshold = (ordered[k * len(val) - 1] + ordered[k * len(val)]) / 2
        given = test >= threshold
        hits = given[np.arange(len(labels)), labels]
        figures = found["activations"]["softmax"][str(k)]
        assert figures["accuracy"] == pytest.approx(hits.mean())
        assert figures["mean_size"] == pytest.approx(given.sum(1).mean())
        assert figures["threshold"] == pytest.approx(threshold)
        assert figures["sizes"] == np.bincount(given.sum(1), minlength=13).tolist()
        by_label = np.array([hits[labels == label].mean() for label in range(12)])
        assert figures["few"] == pytest.approx(by_label[:2].mean())
        assert figures["medium"] == pytest.approx(by_label[2:7].mean())
        assert figures["many"] == pytest.approx(by_label[7:].mean())
        order = np.argsort(-test, kind="stable")[:, :k]
        assert found["top_k"][str(k)] == pytest.approx((order == labels[:, None]).any(1).mean())
    assert found["activations"]["sigmoid"]["2"]["accuracy"] != found["activations"]["softmax"]["2"]["accuracy"]


def test_average_k_leaves_out_what_there_is_not():
    found = judged("average_k", single(mh.losses.SoftmaxCrossEntropyLoss(), labels=3))
    assert list(found["activations"]["softmax"]) == ["2", "3"]
    assert found["activations"]["softmax"]["3"]["accuracy"] == pytest.approx(1, abs=0.01)
    assert found["activations"]["softmax"]["2"]["many"] is None
    wide = judged("average_k", single(mh.losses.SoftmaxCrossEntropyLoss(), labels=120))
    assert {len(figures["sizes"]) for figures in wide["activations"]["sigmoid"].values()} == {51}
    assert {sum(figures["sizes"]) for figures in wide["activations"]["sigmoid"].values()} == {260}


def test_uniform_by_trying_all_thresholds():
    output = single(mh.BinaryCrossEntropyLoss(), head=CosineHead(3, 12, bias="shared"))
    with torch.no_grad():
        output.head.bias.fill_(2.5)
    found = judged("uniform", output)
    targets = {split: values.bool().numpy() for split, values in output.targets.items()}
    for kind in ("scores", "softmax"):
        values = {split: scores.double().numpy() for split, scores in output.scores.items()}
        if kind == "softmax":
            values = {split: torch.from_numpy(scores).softmax(1).numpy() for split, scores in values.items()}
        own = values["test"][targets["test"]]
        other = np.where(targets["test"], -np.inf, values["test"]).max(1)
        right = [((other <= t) & (t < own)) for t in other]
        figures, labels = found[kind], targets["test"].argmax(1)
        assert figures["uniform"] == pytest.approx(max(r.mean() for r in right))
        assert figures["class_wise"] == pytest.approx(
            sum(max(r[labels == label].sum() for r in right) for label in range(12)) / len(labels)
        )
        assert figures["sample_wise"] == pytest.approx((other < own).mean())
        given = values["test"] > figures["val_threshold"]
        assert figures["honest_accuracy"] == pytest.approx((given == targets["test"]).all(1).mean(), abs=0.005)
        histogram = figures["histogram"]
        assert len(histogram["edges"]) == 61
        assert (
            histogram["own"]
            == np.histogram(own, np.linspace(min(own.min(), other.min()), max(own.max(), other.max()), 61))[0].tolist()
        )
        assert sum(histogram["largest_other"]) == len(other)
    assert found["gap"] == found["scores"]["t_star"]
    assert found["learned_threshold"] == 2.5


def test_uniform_finds_the_threshold_that_was_learnt_wherever_it_is():
    assert (
        judged("uniform", single(mh.losses.SoftmaxCrossEntropyLoss(), head=LinearHead(3, 12, bias="none")))[
            "learned_threshold"
        ]
        is None
    )
    loss = mh.losses.ClassWiseLoss(12)
    with torch.no_grad():
        loss.bias.fill_(1.5)
    found = judged("uniform", single(loss, head=LinearHead(3, 12, bias="none")))
    assert found["learned_threshold"] == 1.5
    assert found["gap"] == pytest.approx(found["scores"]["t_star"] - 1.5)


def test_uniform_counts_ties_as_errors():
    scores = torch.tensor([[1.0, 1.0], [2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
    targets = torch.tensor([[1, 0], [1, 0], [0, 1], [1, 0]])
    tied = outcome_of(
        mh.losses.SoftmaxCrossEntropyLoss(), {"val": scores, "test": scores}, {"val": targets, "test": targets}
    )
    found = judged("uniform", tied)["scores"]
    assert (found["sample_wise"], found["uniform"], found["t_star"]) == (0.75, 0.75, 0.5)


def test_open_set_by_plain_loops():
    output = single(mh.BinaryCrossEntropyLoss(), out=0.4)
    found = judged("open_set", output)
    targets = output.targets["test"].numpy()
    inside = targets.any(1)
    values = output.scores["test"].double().numpy()
    accepted = values.max(1) > found["scores"]["threshold"]
    right = targets[np.arange(len(values)), values.argmax(1)] > 0
    figures = found["scores"]
    assert figures["accepted_right_in"] == pytest.approx((accepted & right)[inside].mean())
    assert figures["rejected_out"] == pytest.approx((~accepted)[~inside].mean())
    balanced = (accepted[inside].mean() + (~accepted)[~inside].mean()) / 2
    assert figures["balanced_accuracy"] == pytest.approx(balanced)
    assert figures["auroc"] == pytest.approx(roc_auc_score(inside, values.max(1)))
    assert figures["threshold"] == judged("uniform", output)["scores"]["val_threshold"]


@pytest.mark.parametrize("name", ["one_label", "zero_label", "average_k", "uniform", "open_set"])
def test_two_heads_are_judged_by_the_one_that_decides(name):
    judged(name, single(mh.AverageKLoss(2), head=TwoHeads(3, 12), out=0.2))
