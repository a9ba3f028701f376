"""Backbones: what they take and give, freezing, networks of the user's own, and building them again."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from manyhot.backbones import Backbone, Preprocessing, create_backbone, freeze, rebuild, wrap
from manyhot.errors import InputError
from tests.errors.expected import raises_input_error


class Plain(nn.Module):
    """Means of the three channels, and a BatchNorm that learns in training."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm2d(3)

    def forward(self, pixels):
        return self.norm(pixels).mean((2, 3))


def pixels(n=2, size=(8, 8)):
    return torch.randint(0, 256, (n, 3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_normalises_pixels_of_any_kind_alike():
    preprocessing = Preprocessing(size=8, mean=(10.0, 20.0, 30.0), std=(2.0, 4.0, 5.0))
    backbone = wrap(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), 3, preprocessing)
    mean, std = torch.tensor([10.0, 20.0, 30.0]), torch.tensor([2.0, 4.0, 5.0])
    expected = (pixels().double().mean((2, 3)) - mean) / std
    torch.testing.assert_close(backbone(pixels()).double(), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(backbone(pixels()), backbone(pixels().float()))
    assert backbone(pixels(0)).shape == (0, 3)


def test_works_in_bfloat16_as_a_whole():
    backbone = wrap(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(3, 5)), 5).to(torch.bfloat16)
    assert backbone(pixels()).dtype == torch.bfloat16


def test_normalisation_is_no_part_of_the_state():
    assert set(wrap(Plain(), 3).state_dict()) == {f"module.{key}" for key in Plain().state_dict()}


def test_a_frozen_backbone_does_not_change_in_training():
    backbone = freeze(wrap(Plain(), 3, Preprocessing(size=8)))
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    holder = nn.Sequential(backbone, nn.Linear(3, 2)).train()
    assert holder.training
    assert not backbone.module.norm.training
    holder(pixels()).sum().backward()
    assert all(torch.equal(value, before[key]) for key, value in backbone.state_dict().items())
    assert all(parameter.grad is None for parameter in backbone.parameters())
    assert "frozen" in repr(backbone)


def test_one_that_is_not_frozen_does_change():
    backbone = wrap(Plain(), 3, Preprocessing(size=8))
    assert backbone.training
    before = backbone.module.norm.running_mean.clone()
    backbone.train()(pixels())
    assert not torch.equal(backbone.module.norm.running_mean, before)


def test_wrap_leaves_the_network_as_it_was():
    module = Plain()
    module.norm.eval()
    before = module.norm.running_mean.clone()
    wrap(module, 3)
    assert module.training
    assert not module.norm.training
    assert torch.equal(module.norm.running_mean, before)


@pytest.mark.parametrize(
    ("module", "width", "words"),
    [
        (nn.Flatten(), 3, "`module` of `wrap` must give features (N, D) with D = 3; got (1, 192). Pool and flatten"),
        (nn.AdaptiveAvgPool2d(1), 3, "`module` of `wrap` must give features (N, D) with D = 3; got (1, 3, 1, 1)."),
        (nn.Linear(5, 3), 3, "`module` of `wrap` must take pixels (1, 3, 8, 8); got RuntimeError"),
        (nn.MaxPool2d(1, return_indices=True), 3, "must give features (N, D) with D = 3; got tuple."),
        (len, 3, "`module` of `wrap` must be a torch.nn.Module; got builtin_function_or_method."),
        (nn.Flatten(), 0, "`width` of `wrap` must be a whole number, at least 1; got 0."),
    ],
)
def test_networks_that_do_not_fit_are_refused(module, width, words):
    with pytest.raises(InputError) as error:
        wrap(module, width, Preprocessing(size=8))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (torch.zeros(3, 8, 8), r"`pixels` of `Backbone` must be \(N, 3, H, W\); got \(3, 8, 8\)"),
        (torch.zeros(2, 1, 8, 8), r"got \(2, 1, 8, 8\). Put the channels second"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.int32), "got a tensor of torch.int32"),
        (np.zeros((2, 3, 8, 8)), "got ndarray"),
    ],
)
def test_pixels_of_another_form_are_refused(wrong, words):
    with raises_input_error(match=words):
        wrap(Plain(), 3)(wrong)


def test_a_wrapped_network_is_rebuilt_from_the_users_module_alone():
    torch.manual_seed(0)
    backbone = wrap(Plain(), 3, Preprocessing(size=(8, 12)), name="mine")
    backbone.train()(pixels(size=(8, 12)))
    spec = json.loads(json.dumps(backbone.spec))
    with raises_input_error(got="a network of your own, 'mine'", hint="Build that network and pass it as `module`"):
        rebuild(spec)
    again = rebuild(spec, module=Plain())
    again.load_state_dict(backbone.state_dict())
    assert (again.name, again.preprocessing) == ("mine", backbone.preprocessing)
    assert torch.equal(again.eval()(pixels()), backbone.eval()(pixels()))


def test_a_timm_model_is_rebuilt_without_its_weights():
    backbone = create_backbone("resnet18", pretrained=False, size=(32, 48), seed=3).eval()
    again = rebuild(json.loads(json.dumps(backbone.spec))).eval()
    assert isinstance(again, Backbone)
    assert (again.name, again.width, again.spec) == (backbone.name, 512, backbone.spec)
    sample = pixels(size=(32, 48))
    assert not torch.equal(again(sample), backbone(sample))
    again.load_state_dict(backbone.state_dict())
    assert torch.equal(again(sample), backbone(sample))


@pytest.mark.parametrize("spec", [{}, {"kind": "pickle"}, None, {"kind": "timm", "name": "resnet18"}])
def test_what_is_no_spec_is_refused(spec):
    with raises_input_error("spec", "rebuild", rule="be what `Backbone.spec` holds"):
        rebuild(spec)


def test_a_spec_of_another_width_is_refused():
    spec = {**create_backbone("resnet18", pretrained=False, size=32).spec, "width": 7}
    with raises_input_error("spec", "rebuild", rule="give 7 features", got="512"):
        rebuild(spec)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the exporter's own
def test_exports_with_any_number_of_pictures(tmp_path):
    import onnxruntime

    # Marked as a model of timm, and so computed in that order of memory.
    backbone = Backbone(
        Plain(), name="plain", width=3, preprocessing=Preprocessing(size=8), spec={"kind": "timm"}
    ).eval()
    path = str(tmp_path / "backbone.onnx")
    shapes = ({0: torch.export.Dim("n")},)
    torch.onnx.export(backbone, (pixels(),), path, dynamo=True, dynamic_shapes=shapes, verbose=False)
    session = onnxruntime.InferenceSession(path)
    (exported,) = session.run(None, {session.get_inputs()[0].name: pixels(5).numpy()})
    torch.testing.assert_close(torch.from_numpy(exported), backbone(pixels(5)).detach(), rtol=1e-4, atol=1e-5)
