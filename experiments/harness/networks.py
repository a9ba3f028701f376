"""The networks that learn from scratch or from published weights, made once and started anew for every run."""

from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from manyhot.backbones import Backbone, create_backbone
from manyhot.backbones.backbone import wrap
from manyhot.backbones.preprocessing import Preprocessing

# Of ImageNet, for pixels from 0 to 255.
MEAN, STD = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)


def small_resnet(name: str = "resnet18", *, stride: int = 1) -> nn.Module:
    """A ResNet of timm for small pictures: the first layer sees 3 x 3 pixels, and nothing is pooled after it.

    Args:
        name: Of the model.
        stride: Of the first layer: 1 for pictures of 32 pixels, 2 for 64, which then cost the same.
    """
    import timm

    model = timm.create_model(name, num_classes=0)
    model.conv1 = nn.Conv2d(3, model.conv1.out_channels, 3, stride=stride, padding=1, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.maxpool = nn.Identity()
    return model


def start_of(name: str, size: int, weights: Path | None = None) -> Callable[[int], Backbone]:
    """What builds a backbone with its first weights, given a seed.

    Args:
        name: "small-resnet18", "efficientnet_lite0", or a model of timm from scratch.
        size: Side of the pictures.
        weights: A safetensors file to start from, where published weights are not installed.
    """

    def build(seed: int) -> Backbone:
        if name.startswith("small-"):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                module = small_resnet(name.removeprefix("small-"), stride=1 if size < 48 else 2)
            return wrap(module, module.num_features, Preprocessing(size=size, mean=MEAN, std=STD), name=name)
        pretrained = name == "efficientnet_lite0"
        return create_backbone(name, pretrained=pretrained and weights is None, size=size, seed=seed, weights=weights)

    return build


class Restarted:
    """A backbone that every run starts anew in the same memory.

    It is not compiled: on a large GPU these networks wait for their launches, which several runs at once make up for,
    and compiling gained nothing over that.

    Args:
        build: From a seed to a backbone with its first weights.
        device: Where it learns.
    """

    def __init__(self, build: Callable[[int], Backbone], device: torch.device) -> None:
        self.build, self.device = build, device
        self._backbone: Backbone | None = None

    def __call__(self, seed: int) -> Backbone:
        """The backbone with the first weights of a seed."""
        fresh = self.build(seed)
        if self._backbone is None:
            self._backbone = fresh.to(self.device, memory_format=torch.channels_last)
        else:
            self._backbone.load_state_dict(fresh.state_dict())
        return self._backbone.train()
