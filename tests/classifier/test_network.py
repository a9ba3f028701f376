"""The pass through a network that engine, classifier, features and studio share."""

import pytest
import torch
from torch import nn

import manyhot as mh
from manyhot.network import Network, evaluation_mode, score_batch


def test_every_module_gets_its_own_mode_back():
    network = nn.Sequential(nn.Dropout(), nn.Sequential(nn.Dropout()), nn.Dropout())
    network[1].eval()
    before = [module.training for module in network.modules()]
    with evaluation_mode(network):
        assert not any(module.training for module in network.modules())
    assert [module.training for module in network.modules()] == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_scores_come_in_float32_without_gradients_and_can_be_learnt_from(dtype):
    network = Network(nn.Dropout(), mh.LinearHead(3, 2)).to(dtype).train()
    features = torch.randn(5, 3)
    scores = score_batch(network, features)
    assert (scores.dtype, scores.requires_grad, network.training) == (torch.float32, False, True)
    torch.testing.assert_close(scores, network.eval().scores(features.to(dtype)).float())
    weight = torch.ones((), requires_grad=True)
    (scores * weight).sum().backward()  # what `inference_mode` gives could not be used so
    assert weight.grad == scores.sum()


def test_a_backbone_gives_features_in_the_precision_that_is_wanted():
    module, precisions = nn.Linear(3, 2), []
    module.register_forward_hook(lambda module, inputs, outputs: precisions.append(outputs.dtype))
    features = score_batch(module, torch.randn(4, 3), autocast=lambda: torch.autocast("cpu", dtype=torch.bfloat16))
    assert (features.dtype, precisions) == (torch.float32, [torch.bfloat16])
