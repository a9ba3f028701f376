"""A classifier on disk: weights as safetensors, everything else as JSON. Neither can hold code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from manyhot.backbones import Backbone, Preprocessing, rebuild
from manyhot.checks import describe_type
from manyhot.errors import InputError, require
from manyhot.files import atomic_write
from manyhot.heads import CosineHead, LinearHead, MLPHead, TwoHeads
from manyhot.labels import Labels
from manyhot.network import Network
from manyhot.registry import RENAMED
from manyhot.serialization import from_dict, to_dict

if TYPE_CHECKING:
    from manyhot.classifier.classifier import Classifier

# Format 1 had fewer options of heads, all at their defaults. 3: heads have other names. Links, calibrators and rules
# carry a format of their own, that of `manyhot.save`.
FORMAT = 3
CLASSIFIER_FILE, WEIGHTS_FILE = "classifier.json", "model.safetensors"
OWNER = "Classifier.load"
# The heads that can be saved: their options besides the two sizes, and the attributes that these are kept in.
HEADS: dict[type[nn.Module], dict[str, str]] = {
    LinearHead: {"bias": "bias_kind", "centred": "centred"},
    CosineHead: {"bias": "bias_kind", "scale": "scale"},
    MLPHead: {"hidden": "hidden", "dropout": "dropout", "bias": "bias_kind"},
    TwoHeads: {name: name for name in ("hidden", "dropout", "scale", "centred")},
}
SAVE_AGAIN = "Save the classifier again, or take the folder from a backup."


def save_bundle(classifier: Classifier, folder: Path) -> None:
    """Writes the two files; the JSON holds the digest of the weights, so that classifiers are not mixed."""
    content = describe_classifier(classifier)
    save_weights = import_safetensors().torch.save
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in classifier.network.state_dict().items()}
    # Copies: the format rejects tensors that share memory.
    data = save_weights({name: tensor.clone() for name, tensor in state.items()}, metadata={"format": "pt"})
    content["weights"] = {"file": WEIGHTS_FILE, "sha256": hashlib.sha256(data).hexdigest()}
    with atomic_write(folder / WEIGHTS_FILE) as part:
        part.write_bytes(data)
    with atomic_write(folder / CLASSIFIER_FILE) as part:
        part.write_text(json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8")


def describe_classifier(classifier: Classifier) -> dict[str, Any]:
    """Everything but the weights, as values that JSON can hold."""
    from manyhot import __version__

    network = classifier.network
    parts = {name: getattr(classifier, name) for name in ("link", "calibrator", "rule")}
    return {
        "format": FORMAT,
        "manyhot": __version__,
        "labels": classifier.labels.names,
        "backbone": network.backbone.spec if isinstance(network.backbone, Backbone) else None,
        "head": describe_head(network.head),
        "reading": network.reading,
        "preprocessing": None if classifier.preprocessing is None else classifier.preprocessing.describe(),
        **{name: None if part is None else to_dict(part) for name, part in parts.items()},
    }


def describe_head(head: nn.Module) -> dict[str, Any]:
    """Kind and constructor arguments of a head."""
    arguments = HEADS.get(type(head))
    if arguments is None:
        hint = "Put layers of your own into the backbone with `manyhot.backbones.wrap`."
        names = ", ".join(kind.__name__ for kind in HEADS)
        raise InputError("head", "Classifier.save", f"be one of {names}", describe_type(head), hint)
    sizes = {"in_features": head.in_features, "num_labels": head.num_labels}
    return {"kind": type(head).__name__, **sizes, **{name: getattr(head, own) for name, own in arguments.items()}}


def load_bundle(
    cls: type[Classifier],
    folder: Path,
    *,
    backbone: nn.Module | None,
    device: str | torch.device,
) -> Classifier:
    """The classifier of a folder; raises an error if the folder holds none or is damaged."""
    raw = read_content(folder)
    try:
        content = upgrade_content(raw)
        network = Network(_backbone(content["backbone"], backbone), _head(content["head"]), reading=content["reading"])
        parts = {name: content[name] for name in ("link", "calibrator", "rule")}
        modules: dict[str, Any] = {name: None if part is None else from_dict(part) for name, part in parts.items()}
        preprocessing = content["preprocessing"]
        classifier = cls(
            network,
            Labels(content["labels"]),
            link=modules["link"],
            calibrator=modules["calibrator"],
            rule=modules["rule"],
            preprocessing=None if preprocessing is None else Preprocessing.restore(preprocessing),
        )
        weights = dict(content["weights"])
        digest = str(weights["sha256"])
    except InputError as error:
        raise InputError(got=f"{folder / CLASSIFIER_FILE} cannot be taken: {error}") from None
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        message = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")
        got = f"{str(folder / CLASSIFIER_FILE)!r} ({message})"
        raise InputError("folder", OWNER, f"hold a {CLASSIFIER_FILE} as `save` wrote it", got, SAVE_AGAIN) from error
    _load_state(network, read_weights(folder / WEIGHTS_FILE, digest), folder / WEIGHTS_FILE)
    network.to(device).eval()
    return classifier


def read_content(folder: Path) -> dict[str, Any]:
    """The JSON of a folder as it was written, of a format that is known; `upgrade_content` makes it the current one."""
    path = folder / CLASSIFIER_FILE
    if not path.is_file():
        if not folder.is_dir():
            got = f"{str(folder)!r}, {'a file' if folder.exists() else 'where there is nothing'}"
        else:
            got = f"{str(folder)!r} without a {CLASSIFIER_FILE}"
        hint = "Pass the folder of a run, or one that `Classifier.save` wrote."
        raise InputError("folder", OWNER, "be a folder with a classifier", got, hint)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(
            "folder", OWNER, f"hold a {CLASSIFIER_FILE} in JSON", f"{str(path)!r} ({error})", SAVE_AGAIN
        ) from None
    number = content.get("format") if isinstance(content, dict) else None
    if isinstance(number, int) and number > FORMAT:
        got = f"{str(path)!r} of format {number}, written by manyhot {content.get('manyhot')}"
        raise InputError("folder", OWNER, f"have format {FORMAT} or older", got, "Update manyhot.")
    if number not in range(1, FORMAT + 1):
        raise InputError(
            "folder", OWNER, f"hold a {CLASSIFIER_FILE} of manyhot", f"{str(path)!r}, which is none", SAVE_AGAIN
        )
    return dict(content)


def upgrade_content(content: dict[str, Any]) -> dict[str, Any]:
    """The content of format 1 or 2 with the names that heads have in format 3."""
    if content["format"] >= 3:
        return content
    head = dict(content["head"])
    return content | {"format": FORMAT, "head": head | {"kind": RENAMED.get(head["kind"], head["kind"])}}


def read_weights(path: Path, digest: str) -> dict[str, Tensor]:
    """The weights of a file; raises an error if the file is not the one of the digest."""
    if not path.is_file():
        hint = "Copy it there, or save the classifier again."
        raise InputError("folder", OWNER, f"hold {WEIGHTS_FILE}", f"{str(path.parent)!r} without it", hint)
    safetensors, data = import_safetensors(), path.read_bytes()
    try:
        state: dict[str, Tensor] = safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        message = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        got = f"{str(path)!r} of {len(data):,} bytes ({message})"
        raise InputError("folder", OWNER, "hold whole weights", got, SAVE_AGAIN) from None
    if hashlib.sha256(data).hexdigest() != digest:
        rule = f"hold the weights that its {CLASSIFIER_FILE} was written with"
        raise InputError("folder", OWNER, rule, f"others in {str(path)!r}", SAVE_AGAIN)
    return state


def import_safetensors() -> Any:
    """The package with its torch functions; raises an error that says how to install it."""
    require("safetensors.torch", "Saved classifiers", extra="vision")
    return require("safetensors", "Saved classifiers", extra="vision")


def _backbone(spec: Mapping[str, Any] | None, module: nn.Module | None) -> Backbone | None:
    """The backbone of a spec; `module` is the network that was wrapped, or a whole backbone."""
    if spec is None:
        if module is not None:
            hint = "Leave it out, and pass features to `predict`."
            raise InputError("backbone", OWNER, "be left out for a classifier of features", describe_type(module), hint)
        return None
    if isinstance(module, Backbone):
        return module
    if spec.get("kind") == "wrapped" and module is None:
        hint = "Build that network and pass it as `backbone`; its weights are read from the folder."
        rule = f"be given for a network of your own, {spec.get('name')!r}"
        raise InputError("backbone", OWNER, rule, "none", hint)
    return rebuild(spec, module=module)


def _head(spec: Mapping[str, Any]) -> nn.Module:
    arguments = dict(spec)
    kind = {head_class.__name__: head_class for head_class in HEADS}[arguments.pop("kind")]
    return kind(**arguments)


def _load_state(network: Network, state: dict[str, Tensor], path: Path) -> None:
    wanted = network.state_dict()
    wrong = [name for name in wanted if name not in state or state[name].shape != wanted[name].shape]
    wrong += [name for name in state if name not in wanted]
    if wrong:
        name = wrong[0]
        sides = [str(tuple(side[name].shape)) if name in side else "nothing" for side in (wanted, state)]
        got = f"{sides[1]} for {name!r} in {str(path)!r}"
        hint = "Pass the network that was saved, or save the classifier again."
        raise InputError("folder", OWNER, f"hold weights of the network's shapes, {sides[0]}", got, hint)
    # A network in half or double precision comes back as one.
    for name, part in network.named_children():
        own = [tensor for key, tensor in state.items() if key.startswith(f"{name}.") and tensor.is_floating_point()]
        if len({tensor.dtype for tensor in own}) == 1:
            part.to(own[0].dtype)
    network.load_state_dict(state)
