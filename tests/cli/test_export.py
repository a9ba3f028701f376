"""`manyhot export`: one file, or one sentence."""

import json
import sys

import onnxruntime
import pytest
import torch

import manyhot as mh
from manyhot.classifier import Classifier
from manyhot.network import Network


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    network = Network(None, mh.LinearHead(8, 2))
    Classifier(network, ["cat", "dog"], link=mh.SigmoidLink(), rule=mh.TopK(1)).save(tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.slow
def test_a_run_becomes_one_file(folder, run, tmp_path):
    assert "MB, checked against the classifier)." in run("export", folder).out
    features = torch.randn(3, 8)
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    (decisions,) = session.run(["decisions"], {"features": features.numpy()})
    assert torch.equal(torch.from_numpy(decisions), Classifier.load(folder).predict(features).decisions)
    assert "must name a file that is not there yet" in run("export", folder, code=2).err
    printed = run("export", folder, "-o", tmp_path / "new" / "tagger.onnx", "--no-check", "--no-label-names", "--json")
    told = json.loads(printed.out)
    assert told == {
        "written": str(tmp_path / "new" / "tagger.onnx"),
        "bytes": (tmp_path / "new" / "tagger.onnx").stat().st_size,
        "checked": False,
    }


def test_bad_arguments_are_refused(folder, run):
    assert "`--out` of `manyhot export` must end with .onnx" in run("export", folder, "-o", "model.pt", code=2).err
    refused = run("export", folder / "none", code=2).err
    assert "`RUN` of `manyhot export` must be a folder with a classifier.json" in refused


@pytest.mark.slow
def test_without_onnxruntime_the_option_is_named(folder, run, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    told = run("export", folder, "-o", tmp_path / "tagger.onnx", code=2).err
    assert told.endswith("pip install 'manyhot[onnx]', or leave the check out.\n")
