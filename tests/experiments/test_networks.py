"""Networks that are started anew for every run."""

import pytest
import torch
from torch import nn

from experiments.data import ReusableBackbone, backbone_builder, small_resnet
from manyhot.backbones.backbone import wrap
from manyhot.preprocessing import Preprocessing


def tiny(seed):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return wrap(module, 4, Preprocessing(size=8), name="tiny")


def state(backbone):
    return {name: value.clone() for name, value in backbone.state_dict().items()}


def equal(one, other):
    return all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize(("stride", "side"), [(1, 32), (2, 64)])
def test_a_small_resnet_sees_small_pictures_at_full_detail(stride, side):
    module = small_resnet(stride=stride).eval()
    with torch.no_grad():
        assert module.forward_features(torch.zeros(1, 3, side, side)).shape == (1, 512, 4, 4)
        assert module(torch.zeros(2, 3, side, side)).shape == (2, 512)
    assert module.conv1.kernel_size == (3, 3)


def test_the_size_of_the_pictures_decides_the_first_layer_and_the_seed_the_weights():
    before = torch.random.get_rng_state()
    small, large = backbone_builder("small-resnet18", 32)(1), backbone_builder("small-resnet18", 64)(1)
    assert torch.equal(torch.random.get_rng_state(), before)
    strides = [
        module.stride for backbone in (small, large) for module in backbone.modules() if isinstance(module, nn.Conv2d)
    ]
    assert strides[0] == (1, 1)
    assert strides[len(strides) // 2] == (2, 2)
    assert equal(state(small), state(large))
    assert not equal(state(small), state(backbone_builder("small-resnet18", 32)(2)))


def test_a_network_is_started_anew_in_the_same_memory():
    restarted = ReusableBackbone(tiny, torch.device("cpu"))
    backbone = restarted(5)
    first = state(backbone)
    positions = [value.data_ptr() for value in backbone.state_dict().values()]
    backbone.train()(torch.randint(256, (6, 3, 8, 8), dtype=torch.uint8)).sum().backward()
    with torch.no_grad():
        for value in backbone.parameters():
            value.sub_(0.1)
    backbone.eval()
    assert not equal(state(backbone), first)

    other = state(restarted(6))
    assert not equal(other, first)
    again = restarted(5)
    assert equal(state(again), first)
    assert again.training
    assert [value.data_ptr() for value in again.state_dict().values()] == positions
