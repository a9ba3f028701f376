"""Heads that are trained side by side: each by itself, and their mean is one head."""

import pytest
import torch

import manyhot as mh
from manyhot.data import from_arrays
from manyhot.data.loading import FeatureBatches
from manyhot.data.targets import SparseTargets
from manyhot.engine import FitSettings, NoProgress, fit
from manyhot.heads import MLPHead
from manyhot.network import Network
from manyhot.settings import LOSSES
from manyhot.testing import check_loss
from manyhot.training import TrainSettings, train
from manyhot.training.build import EachHeadLoss, HeadEnsemble, build_head, build_loss, ensemble_loss, reading_of
from tests.errors.expected import raises_input_error

pytestmark = pytest.mark.slow


def samples(n=120):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(n, 6, generator=generator)
    y = (x[:, :3] + 0.5 * torch.randn(n, 3, generator=generator) > 0.6).to(torch.int8)
    return x, y


def batches():
    x, y = samples()
    return FeatureBatches(x, SparseTargets.from_dense(y.numpy()))


@pytest.mark.parametrize("loss", ["BCE", "two-way", "SPA + LPR", "quasibinary", "softmax"])
def test_the_loss_of_each_head_obeys_the_laws(loss):
    check_loss(lambda targets: EachHeadLoss(build_loss(loss), heads=2))


def test_heads_learn_as_if_the_others_were_not_there():
    torch.manual_seed(0)
    heads = HeadEnsemble(6, 3, heads=2, hidden=5)
    x, y = samples()
    EachHeadLoss(mh.BinaryCrossEntropyLoss(), heads=2)(heads(x), y).backward()
    for part in heads.heads():
        alone = MLPHead(6, 3, hidden=5)
        alone.load_state_dict(part.state_dict())
        mh.BinaryCrossEntropyLoss()(alone(x), y).backward()
        torch.testing.assert_close(part.layer.weight.grad, alone.layer.weight.grad / 2)


def test_the_merged_head_gives_the_mean_of_the_scores():
    torch.manual_seed(0)
    heads = HeadEnsemble(6, 3, heads=3, hidden=5, dropout=0.5).eval()
    heads.init_bias(torch.tensor([0.1, 0.3, 0.5]))
    x, _ = samples()
    one = heads.merged()
    assert one.hidden == 15
    assert one.dropout == 0.5
    assert not one.training
    torch.testing.assert_close(one(x), heads(x).mean(1))
    torch.testing.assert_close(one.last.bias.detach().sigmoid(), torch.tensor([0.1, 0.3, 0.5]))
    torch.testing.assert_close(Network(None, heads).scores(x), Network(None, one).scores(x))
    spread = Network(None, heads, reading="log-softmax").scores(x)
    torch.testing.assert_close(spread, heads(x).mean(1).log_softmax(1))


@pytest.mark.parametrize("loss", ["BCE", LOSSES["head"]])
def test_steps_in_parts_are_those_of_the_whole_batch(loss):
    weights = []
    for accumulate in (1, 3):
        torch.manual_seed(0)
        network = Network(None, HeadEnsemble(6, 3, heads=2, hidden=5))
        settings = FitSettings(epochs=2, batch_size=30, accumulate=accumulate, accelerator="cpu", devices=1)
        fit(network, EachHeadLoss(build_loss(loss), heads=2), batches(), settings=settings, progress=NoProgress())
        weights.append(network.head.merged().last.weight.detach())
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-4, atol=1e-5)


def test_recipes_have_two_heads_on_frozen_features_and_one_elsewhere():
    assert (TrainSettings().heads, TrainSettings().hidden, TrainSettings().loss) == (2, 1024, LOSSES["head"])
    assert TrainSettings(tune="all").heads == 1
    assert TrainSettings(tune="all").loss == "BinaryCrossEntropyLoss()"
    assert TrainSettings(head="cosine").heads == 1
    assert TrainSettings(hidden=64).heads == 1
    assert TrainSettings(hidden=0).heads == 1
    assert TrainSettings(hidden=64, heads=3).heads == 3
    assert TrainSettings.build({"heads": "3"}).heads == 3
    with raises_input_error("heads", "TrainSettings", rule="be 1 for a head without hidden units"):
        TrainSettings(hidden=0, heads=2)
    with raises_input_error("heads", "TrainSettings", rule="be 1 for a head without hidden units"):
        TrainSettings(head="cosine", hidden=8, heads=2)
    with raises_input_error("hidden", "TrainSettings", rule="be 0 for a cosine head"):
        TrainSettings(head="cosine", hidden=8)


def test_losses_with_heads_of_their_own_or_with_rows_of_their_own_keep_one():
    settings, rates = TrainSettings(), torch.full((3,), 0.3)
    for name in ("AverageKLoss(2)", "NoisedTopKLoss(2)"):
        loss = build_loss(name)
        assert ensemble_loss(loss, settings) is loss
        assert not isinstance(build_head(settings, 6, 3, loss, rates), HeadEnsemble)
    both = ensemble_loss(build_loss("softmax"), settings)
    assert reading_of(both) == "log-softmax"
    assert isinstance(build_head(settings, 6, 3, both, rates), HeadEnsemble)


def test_a_run_keeps_one_head_that_loads_again(tmp_path):
    x, y = samples(200)
    data = from_arrays(x, y)
    settings = TrainSettings.build({"hidden": 8, "heads": 2, "epochs": 2, "accelerator": "cpu", "devices": 1})
    run = train(data, settings, folder=tmp_path / "run", progress=NoProgress())
    classifier = run.classifier()
    assert isinstance(classifier.network.head, MLPHead)
    assert classifier.network.head.hidden == 16
    table = run.predictions().load()
    rows = torch.tensor([int(name) for name in table.ids])
    torch.testing.assert_close(classifier.network.scores(x[rows]), table.scores, rtol=1e-4, atol=1e-5)
    before = classifier.network.head.layer.weight.detach().clone()
    again = train(data, settings, folder=tmp_path / "run", resume=True, progress=NoProgress())
    assert torch.equal(again.classifier().network.head.layer.weight, before)


def test_a_loss_that_is_no_mean_is_refused():
    with raises_input_error("loss", "EachHeadLoss", rule="be a mean", got="reduction='sum'"):
        EachHeadLoss(mh.BinaryCrossEntropyLoss(reduction="sum"), heads=2)
