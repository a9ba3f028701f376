"""A classifier on disk, and a cluster to score with."""

import pytest
import torch

import manyhot as mh
from manyhot.backbones import create_backbone
from manyhot.classifier import Classifier
from manyhot.network import Network
from manyhot.scale import connected

LABELS = ["cat", "dog", "bird"]


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory):
    """The folder of a classifier with a rule."""
    torch.manual_seed(0)
    network = Network(create_backbone("test_resnet", pretrained=False, size=32), mh.LinearHead(96, 3))
    folder = tmp_path_factory.mktemp("runs") / "photos"
    Classifier(network, LABELS, link=mh.SigmoidLink(), rule=mh.Threshold(0.45)).save(folder)
    return folder


@pytest.fixture(scope="session")
def cluster():
    """One cluster for all tests of a process, because starting it takes seconds."""
    with connected(None) as ray:
        yield ray
    assert not ray.is_initialized()
