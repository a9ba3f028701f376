"""The choice among the heads of a path."""

import pytest
import torch

import manyhot as mh
from manyhot.linear import fit_path
from manyhot.metrics import LogLoss, average_precision
from tests.errors.expected import raises_input_error


@pytest.fixture
def data():
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(400, 30, generator=draw)
    weights = torch.randn(30, 4, generator=draw) * torch.tensor([0.02, 0.2, 0.5, 1.0])
    targets = (torch.rand(400, 4, generator=draw) < (features @ weights - 1).sigmoid()).int()
    return features[:200], targets[:200], features[200:], targets[200:]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["mAP", "log loss"])
def test_the_best_strength_is_chosen(data, by):
    features, targets, others, truth = data
    path = fit_path(features, targets, mh.BinaryCrossEntropyLoss())
    choice = path.choose(others, truth, by=by)
    figures = []
    for number in range(len(path)):
        scores = path.head(number)(others).detach()
        if by == "mAP":
            figures.append(float(average_precision(scores, truth).mean()))
        else:
            figures.append(LogLoss().update(scores.sigmoid(), truth).compute().value)
    torch.testing.assert_close(choice.figures, torch.tensor(figures).double(), atol=1e-6, rtol=1e-5)
    best = max(figures) if by == "mAP" else min(figures)
    assert figures[int(choice.index)] == best
    assert 0 < int(choice.index) < len(path) - 1
    assert choice.strength == path.strengths[choice.index]


def test_the_quasibinary_loss_has_a_normaliser_for_each_strength(data):
    features, targets, others, truth = data
    strengths = [1e4, 30.0, 1.0, 0.01]
    path = fit_path(features, targets, mh.QuasibinaryLoss(), strengths=strengths)
    choice = path.choose(others, truth, by="log loss")
    figures = []
    for number in range(4):
        head = path.head(number)
        link = mh.links.QuasibinaryLink().fit([(head(features).detach(), targets)])
        figures.append(LogLoss().update(link.probs(head(others).detach()), truth).compute().value)
    torch.testing.assert_close(choice.figures, torch.tensor(figures).double(), atol=1e-6, rtol=1e-5)
    assert figures[int(choice.index)] == min(figures)
    # The probabilities of the training rows add up to their labels.
    total = path.links[choice.index].log_probs(path.scores(features, int(choice.index))).exp().sum()
    torch.testing.assert_close(float(total), float(targets.sum()), rtol=1e-5, atol=0)


def test_each_label_may_have_a_strength_of_its_own(data):
    features, targets, others, truth = data
    path = fit_path(features, targets, mh.BinaryCrossEntropyLoss())
    choice = path.choose(others, truth, by="log loss", sharing="none")
    assert choice.index.shape == choice.strength.shape == (4,)
    assert len(choice.index.unique()) > 1
    assert choice.strength[0] > choice.strength[3]
    scores = path.scores(others, choice.index)
    torch.testing.assert_close(path.head(choice.index)(others).detach(), scores)
    one = path.choose(others, truth, by="log loss")
    loss = LogLoss().update(scores.sigmoid(), truth).compute().value
    assert loss < float(one.figures.min())
    for none, index in enumerate(choice.index.tolist()):
        torch.testing.assert_close(scores[:, none], path.scores(others, index)[:, none])


def test_a_label_without_a_figure_follows_the_rest(data):
    features, targets, others, truth = data
    truth[:, 2] = 0
    path = fit_path(features, targets, mh.BinaryCrossEntropyLoss())
    choice = path.choose(others, truth, sharing="none")
    assert choice.figures[:, 2].isnan().all()
    assert choice.index[2] == path.choose(others, truth).index


def test_a_function_may_judge(data):
    features, targets, others, truth = data
    path = fit_path(features, targets, mh.BinaryCrossEntropyLoss(), strengths=[1e4, 1.0])
    right = path.choose(others, truth, by=lambda scores, targets: ((scores > 0) == (targets > 0)).double().mean())
    assert right.index == 1


def test_what_cannot_be_chosen_is_refused(data):
    features, targets, others, truth = data
    path = fit_path(features, targets, mh.losses.MultiLabelSoftmaxLoss(), strengths=[1.0])
    with raises_input_error("sharing", "LinearPath.choose", rule="be 'all' for a loss that mixes labels"):
        path.choose(others, truth, sharing="none")
    with raises_input_error("by", "LinearPath.choose", rule="be one of 'mAP', 'log loss'", got="'f1'"):
        path.choose(others, truth, by="f1")
    with raises_input_error(got="a loss whose scores only rank"):
        path.choose(others, truth, by="log loss")
    plain = fit_path(features, targets, mh.BinaryCrossEntropyLoss(), strengths=[1.0])
    with raises_input_error("by", "LinearPath.choose", rule="give one number per label for sharing="):
        plain.choose(others, truth, by=lambda scores, targets: 1.0, sharing="none")
    with raises_input_error(rule="be (N, D) with D = 30", got="(200, 4)"):
        path.choose(others[:, :4], truth)
