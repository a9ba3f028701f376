"""Metrics against scikit-learn and plain loops."""

import json
import math

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score, log_loss, roc_auc_score

import manyhot as mh
from experiments.metrics import METRICS, retrieval
from manyhot.heads import CosineHead, LinearHead, TwoHeads
from tests.errors.expected import raises_input_error
from tests.experiments.outputs import many, output_of, single

MULTI = (mh.AsymmetricLoss, mh.QuasibinaryLoss, mh.losses.MultiLabelSoftmaxLoss, mh.TwoWayLoss)
SINGLE = (mh.losses.SoftmaxCrossEntropyLoss, mh.BinaryCrossEntropyLoss, mh.QuasibinaryLoss)


def figures_of(name, output):
    """By a metric, checked to survive JSON."""
    result = METRICS[name](output)
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    return result


def only(output, name):
    """The figures of one reading."""
    return output["readings"][name]


@pytest.mark.parametrize("loss", MULTI)
def test_many_label_figures_are_those_of_scikit_learn(loss):
    output = many(loss())
    result = figures_of("many_label", output)
    scores, targets = output.scores["test"], output.targets["test"].numpy()
    if loss is mh.losses.MultiLabelSoftmaxLoss:
        scores = scores.log_softmax(1)
    assert result["map_class"] == pytest.approx(average_precision_score(targets, scores, average="macro"))
    labelled = targets.any(1)
    by_row = [average_precision_score(y, s) for y, s in zip(targets[labelled], scores.numpy()[labelled], strict=True)]
    assert result["map_sample"] == pytest.approx(np.mean(by_row))
    top = np.zeros_like(targets)
    np.put_along_axis(top, np.argsort(-scores.numpy(), kind="stable")[:, :4], 1, 1)
    assert result["f1_top4"] == pytest.approx(f1_score(targets, top, average="macro"))
    precision = np.mean((top * targets).sum(0) / top.sum(0))
    recall = np.mean((top * targets).sum(0) / targets.sum(0))
    assert result["f1_of_means_top4"] == pytest.approx(2 * precision * recall / (precision + recall))


def test_many_label_errors_of_probabilities_by_plain_loops():
    output = many(mh.BinaryCrossEntropyLoss())
    result = only(figures_of("many_label", output), "sigmoid")
    probs, targets = output.scores["test"].double().sigmoid().numpy(), output.targets["test"].numpy()
    gaps, counts = [], []
    for bin in range(15):
        inside = (probs <= (bin + 1) / 15) & ((probs > bin / 15) | (bin == 0))
        counts.append(int(inside.sum()))
        gaps.append(abs(probs[inside].mean() - targets[inside].mean()))
    assert result["bins"]["count"] == counts
    assert result["ece"] == pytest.approx(np.dot(gaps, counts) / sum(counts), rel=1e-5)
    assert result["ace"] == pytest.approx(np.mean(gaps), rel=1e-5)
    assert result["mce"] == pytest.approx(max(gaps), rel=1e-5)
    by_row = [log_loss(y, p, labels=[0, 1]) * len(y) for y, p in zip(targets, probs, strict=True)]
    assert result["log_loss"] == pytest.approx(np.mean(by_row), rel=1e-5)
    assert result["brier"] == pytest.approx(((probs - targets) ** 2).sum(1).mean(), rel=1e-5)
    order = np.argsort(-probs, kind="stable")[:, :4]
    top, right = np.take_along_axis(probs, order, 1).ravel(), np.take_along_axis(targets, order, 1).ravel()
    bins = np.ceil(top * 10)
    gap = sum(abs(top[bins == b].sum() - right[bins == b].sum()) for b in range(1, 11))
    assert result["ece_top4"] == pytest.approx(gap / len(top), rel=1e-5)


def test_many_label_with_fewer_labels_than_are_picked_and_unknown_cells():
    output = many(mh.BinaryCrossEntropyLoss(), labels=3)
    all_selected = f1_score(output.targets["test"].numpy(), np.ones((260, 3)), average="macro")
    assert figures_of("many_label", output)["f1_top4"] == pytest.approx(all_selected)
    before = figures_of("many_label", output)["map_class"]
    output.targets["test"][:, 1] = -1
    result = figures_of("many_label", output)
    assert sum(only(result, "sigmoid")["bins"]["count"]) == 520
    assert result["map_class"] != before


def test_many_label_shows_what_ties_of_a_link_cost():
    output = many(mh.AsymmetricLoss(gamma_neg=4, gamma_pos=0, margin=0.2))
    result = figures_of("many_label", output)
    targets = output.targets["test"].numpy()
    probs = output.loss.link.probs(output.scores["test"]).numpy()
    assert only(result, "sigmoid")["map_class"] == result["map_class"]
    assert only(result, "own link")["map_class"] < result["map_class"]
    assert only(result, "own link")["map_class"] == pytest.approx(
        average_precision_score(targets, probs, average="macro"), rel=1e-4
    )
    assert only(result, "own link")["certain_and_wrong"] == int(((probs == 0) & (targets == 1)).sum()) > 0


@pytest.mark.parametrize("loss", SINGLE)
def test_one_label_by_plain_loops(loss):
    output = single(loss())
    result = figures_of("one_label", output)
    scores, labels = output.scores["test"].double().numpy(), output.targets["test"].argmax(1).numpy()
    order = np.argsort(-scores, kind="stable")
    assert result["top1_error"] == pytest.approx(np.mean(order[:, 0] != labels))
    assert result["top5_error"] == pytest.approx(
        np.mean([y not in o for y, o in zip(labels, order[:, :5], strict=True)])
    )
    own = {"softmax": torch.softmax, "sigmoid": lambda s, _: s.sigmoid()}
    probs = own.get(result["own"], lambda s, _: output.loss.link.probs(s))(torch.from_numpy(scores), 1).numpy()
    probs /= probs.sum(1, keepdims=True)
    assert result["log_loss"] == pytest.approx(log_loss(labels, probs, labels=range(12)), rel=1e-5)
    top, right = probs.max(1), order[:, 0] == labels
    bins = np.ceil(top * 15)
    gap = sum(abs(top[bins == b].sum() - right[bins == b].sum()) for b in range(1, 16))
    assert result["ece"] == pytest.approx(gap / len(top), rel=1e-4)


def test_one_label_leaves_out_rows_without_a_label_and_refuses_several():
    output = single(mh.BinaryCrossEntropyLoss(), out=0.25)
    assert figures_of("one_label", output)["rows"] == 195
    with raises_input_error("output", "one_label", rule="have at most one label per row", got="a row"):
        METRICS["one_label"](many(mh.BinaryCrossEntropyLoss()))


@pytest.mark.parametrize("loss", SINGLE)
def test_zero_label_figures(loss):
    output = single(loss(), out=0.4)
    result = figures_of("zero_label", output)
    targets = output.targets["test"].numpy()
    inside = targets.any(1)
    assert (result["rows_in"], result["rows_out"]) == (156, 104)
    values = output.scores["test"].double()
    probs = {"softmax": values.softmax(1), "sigmoid": values.sigmoid()}.get(
        result["own"], output.loss.link.probs(values)
    )
    figures, largest = only(result, result["own"]), probs.amax(1).numpy()
    assert figures["mmc"] == pytest.approx(largest[~inside].mean(), rel=1e-5)
    assert figures["auroc"] == pytest.approx(roc_auc_score(inside, largest), abs=1e-4)
    assert figures["accuracy"] == pytest.approx(np.mean(targets[inside, values.argmax(1).numpy()[inside]]))
    accepted = np.sort(largest[inside])[len(largest[inside]) - math.ceil(0.95 * inside.sum())]
    assert figures["fpr95"] == pytest.approx(np.mean(largest[~inside] >= accepted))


def test_zero_label_without_such_rows_has_no_comparison():
    result = only(figures_of("zero_label", single(mh.losses.SoftmaxCrossEntropyLoss())), "softmax")
    assert result["auroc"] is None
    assert result["mmc"] is None
    assert result["accuracy"] is not None


def test_retrieval_asks_all_the_same_queries_and_knows_the_short_ones_by_heart():
    losses = (mh.AsymmetricLoss(margin=0.0), mh.losses.MultiLabelSoftmaxLoss())
    result = [retrieval(many(loss), each=12, most=3) for loss in losses]
    output = many(losses[0])
    precision = average_precision_score(output.targets["test"].numpy(), output.scores["test"], average="macro")
    assert only(result[0], "sigmoid")["by_length"][0] == pytest.approx(precision, abs=1e-3)
    assert set(result[0]["readings"]) == {"sigmoid", "own link", "calibrated"}
    assert set(result[1]["readings"]) == {"softmax", "calibrated"}
    assert [sum(only(f, f["plain"])["queries"]) for f in result] == [sum(only(result[0], "sigmoid")["queries"])] * 2
    gap = only(result[0], "own link")["map"] - only(result[0], "sigmoid")["map"]
    assert result[0]["more"]["own link"]["map"] == pytest.approx(gap, abs=1e-6)
    low, high = only(result[0], "sigmoid")["interval"]
    assert low < only(result[0], "sigmoid")["map"] < high
    assert json.loads(json.dumps(result, allow_nan=False)) == result
    assert retrieval(output, each=12, most=3) == result[0]


@pytest.mark.parametrize(
    ("loss", "trained"), [(mh.losses.SoftmaxCrossEntropyLoss(), "softmax"), (mh.AverageKLoss(3), "sigmoid")]
)
def test_average_k_by_plain_loops(loss, trained):
    output = single(loss, head=TwoHeads(3, 12) if loss.heads == 2 else None)
    result = figures_of("average_k", output)
    assert result["trained"] == trained
    assert list(result["top_k"]) == ["2", "3", "5", "10"]
    val, test = (output.scores[split].double().softmax(1).numpy() for split in ("val", "test"))
    labels = output.targets["test"].argmax(1).numpy()
    for k in (2, 5):
        ordered = np.sort(val.ravel())[::-1]
        threshold = (ordered[k * len(val) - 1] + ordered[k * len(val)]) / 2
        selected = test >= threshold
        hits = selected[np.arange(len(labels)), labels]
        figures = result["activations"]["softmax"][str(k)]
        assert figures["accuracy"] == pytest.approx(hits.mean())
        assert figures["mean_size"] == pytest.approx(selected.sum(1).mean())
        assert figures["threshold"] == pytest.approx(threshold)
        assert figures["sizes"] == np.bincount(selected.sum(1), minlength=13).tolist()
        by_label = np.array([hits[labels == label].mean() for label in range(12)])
        assert figures["few"] == pytest.approx(by_label[:2].mean())
        assert figures["medium"] == pytest.approx(by_label[2:7].mean())
        assert figures["many"] == pytest.approx(by_label[7:].mean())
        order = np.argsort(-test, kind="stable")[:, :k]
        assert result["top_k"][str(k)] == pytest.approx((order == labels[:, None]).any(1).mean())
    assert result["activations"]["sigmoid"]["2"]["accuracy"] != result["activations"]["softmax"]["2"]["accuracy"]


def test_average_k_leaves_out_what_there_is_not():
    result = figures_of("average_k", single(mh.losses.SoftmaxCrossEntropyLoss(), labels=3))
    assert list(result["activations"]["softmax"]) == ["2", "3"]
    assert result["activations"]["softmax"]["3"]["accuracy"] == pytest.approx(1, abs=0.01)
    assert result["activations"]["softmax"]["2"]["many"] is None
    wide = figures_of("average_k", single(mh.losses.SoftmaxCrossEntropyLoss(), labels=120))
    assert {len(figures["sizes"]) for figures in wide["activations"]["sigmoid"].values()} == {51}
    assert {sum(figures["sizes"]) for figures in wide["activations"]["sigmoid"].values()} == {260}


def test_uniform_by_trying_all_thresholds():
    output = single(mh.BinaryCrossEntropyLoss(), head=CosineHead(3, 12, bias="shared"))
    with torch.no_grad():
        output.head.bias.fill_(2.5)
    result = figures_of("uniform", output)
    targets = {split: values.bool().numpy() for split, values in output.targets.items()}
    for kind in ("scores", "softmax"):
        values = {split: scores.double().numpy() for split, scores in output.scores.items()}
        if kind == "softmax":
            values = {split: torch.from_numpy(scores).softmax(1).numpy() for split, scores in values.items()}
        own = values["test"][targets["test"]]
        other = np.where(targets["test"], -np.inf, values["test"]).max(1)
        right = [((other <= t) & (t < own)) for t in other]
        figures, labels = result[kind], targets["test"].argmax(1)
        assert figures["uniform"] == pytest.approx(max(r.mean() for r in right))
        assert figures["class_wise"] == pytest.approx(
            sum(max(r[labels == label].sum() for r in right) for label in range(12)) / len(labels)
        )
        assert figures["sample_wise"] == pytest.approx((other < own).mean())
        selected = values["test"] > figures["val_threshold"]
        assert figures["honest_accuracy"] == pytest.approx((selected == targets["test"]).all(1).mean(), abs=0.005)
        histogram = figures["histogram"]
        assert len(histogram["edges"]) == 61
        assert (
            histogram["own"]
            == np.histogram(own, np.linspace(min(own.min(), other.min()), max(own.max(), other.max()), 61))[0].tolist()
        )
        assert sum(histogram["largest_other"]) == len(other)
    assert result["gap"] == result["scores"]["t_star"]
    assert result["learned_threshold"] == 2.5


def test_uniform_finds_the_threshold_that_was_learnt_wherever_it_is():
    assert (
        figures_of("uniform", single(mh.losses.SoftmaxCrossEntropyLoss(), head=LinearHead(3, 12, bias="none")))[
            "learned_threshold"
        ]
        is None
    )
    loss = mh.losses.ClassWiseLoss(12)
    with torch.no_grad():
        loss.bias.fill_(1.5)
    result = figures_of("uniform", single(loss, head=LinearHead(3, 12, bias="none")))
    assert result["learned_threshold"] == 1.5
    assert result["gap"] == pytest.approx(result["scores"]["t_star"] - 1.5)


def test_uniform_counts_ties_as_errors():
    scores = torch.tensor([[1.0, 1.0], [2.0, 0.0], [0.0, 3.0], [1.0, 0.0]])
    targets = torch.tensor([[1, 0], [1, 0], [0, 1], [1, 0]])
    tied = output_of(
        mh.losses.SoftmaxCrossEntropyLoss(), {"val": scores, "test": scores}, {"val": targets, "test": targets}
    )
    result = figures_of("uniform", tied)["scores"]
    assert (result["sample_wise"], result["uniform"], result["t_star"]) == (0.75, 0.75, 0.5)


def test_open_set_by_plain_loops():
    output = single(mh.BinaryCrossEntropyLoss(), out=0.4)
    result = figures_of("open_set", output)
    targets = output.targets["test"].numpy()
    inside = targets.any(1)
    values = output.scores["test"].double().numpy()
    accepted = values.max(1) > result["scores"]["threshold"]
    right = targets[np.arange(len(values)), values.argmax(1)] > 0
    figures = result["scores"]
    assert figures["accepted_right_in"] == pytest.approx((accepted & right)[inside].mean())
    assert figures["rejected_out"] == pytest.approx((~accepted)[~inside].mean())
    balanced = (accepted[inside].mean() + (~accepted)[~inside].mean()) / 2
    assert figures["balanced_accuracy"] == pytest.approx(balanced)
    assert figures["auroc"] == pytest.approx(roc_auc_score(inside, values.max(1)))
    assert figures["threshold"] == figures_of("uniform", output)["scores"]["val_threshold"]


@pytest.mark.parametrize("name", ["one_label", "zero_label", "average_k", "uniform", "open_set"])
def test_two_heads_are_evaluated_by_the_one_that_decides(name):
    figures_of(name, single(mh.AverageKLoss(2), head=TwoHeads(3, 12), out=0.2))
