"""Small networks and pictures for the tests of classifiers."""

import numpy as np
import torch
from PIL import Image
from torch import nn

import manyhot as mh
from manyhot.backbones import Preprocessing, wrap
from manyhot.classifier import Classifier
from manyhot.network import Network

LABELS = ["cat", "dog", "bird", "fish"]


def body():
    """A network whose features depend on every pixel."""
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
    )


def small(*, resize="squash", interpolation="bilinear", size=(24, 32), head=None, reading="plain", **parts):
    """A classifier of pictures with four labels."""
    backbone = wrap(body(), 32, Preprocessing(size=size, resize=resize, interpolation=interpolation))
    torch.manual_seed(2)
    network = Network(backbone, head or mh.LinearHead(32, 4), reading=reading)
    network.head.requires_grad_(False)
    for parameter in network.head.parameters():
        parameter.mul_(8)
    return Classifier(network, LABELS, **({"link": mh.SigmoidLink()} | parts))


def of_features(**parts):
    """A classifier of eight features with four labels."""
    torch.manual_seed(3)
    return Classifier(Network(None, mh.LinearHead(8, 4)), LABELS, **({"link": mh.SigmoidLink()} | parts))


def held_out(labels=4, rows=300):
    """Scores and targets to fit calibrators on, with a row that carries nothing."""
    draw = torch.Generator().manual_seed(0)
    scores = 2 * torch.randn(rows, labels, generator=draw) - 0.5
    targets = (torch.rand(scores.shape, generator=draw) < torch.sigmoid(1.5 * scores - 0.5)).int()
    targets[0] = 0
    return scores, targets


def pictures(count=5, seed=0):
    """Smooth pictures of different sizes as arrays."""
    draw = np.random.default_rng(seed)
    sizes = [(20 + 13 * row, 70 - 9 * row) for row in range(count)]
    noise = [Image.fromarray(draw.integers(0, 256, (6, 5, 3), dtype=np.uint8)) for _ in sizes]
    return [
        np.asarray(image.resize(size[::-1], Image.Resampling.BICUBIC)) for image, size in zip(noise, sizes, strict=True)
    ]


def files(folder, count=5):
    """The same pictures as files."""
    paths = []
    for row, pixels in enumerate(pictures(count)):
        paths.append(folder / f"{row}.png")
        Image.fromarray(pixels).save(paths[-1])
    return paths
