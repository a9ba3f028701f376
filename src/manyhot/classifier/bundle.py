"""A classifier on disk: weights as safetensors, everything else as JSON. Neither can hold code."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from manyhot.backbones import Backbone, Preprocessing, rebuild
from manyhot.checks import describe_type
from manyhot.errors import InputError, first_line, require
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
# The heads that a file can name.
HEADS: dict[str, type[nn.Module]] = {kind.__name__: kind for kind in (LinearHead, CosineHead, MLPHead, TwoHeads)}
PARTS = ("link", "calibrator", "rule")


def save_bundle(classifier: Classifier, folder: Path) -> None:
    """Writes the two files; the JSON holds the digest of the weights, so that classifiers are not mixed."""
    # Copies: the format rejects tensors that share memory.
    state = {name: tensor.cpu().contiguous().clone() for name, tensor in classifier.network.state_dict().items()}
    data = import_safetensors().torch.save(state, metadata={"format": "pt"})
    weights = {"file": WEIGHTS_FILE, "sha256": hashlib.sha256(data).hexdigest()}
    content = describe_classifier(classifier) | {"weights": weights}
    with atomic_write(folder / WEIGHTS_FILE) as part:
        part.write_bytes(data)
    with atomic_write(folder / CLASSIFIER_FILE) as part:
        part.write_text(json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8")


def describe_classifier(classifier: Classifier) -> dict[str, Any]:
    """Everything but the weights, as values that JSON can hold."""
    from manyhot import __version__

    network = classifier.network
    parts: dict[str, Any] = {name: getattr(classifier, name) for name in PARTS}
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
    kind = type(head)
    if HEADS.get(kind.__name__) is not kind:
        hint = "Put layers of your own into the backbone with `manyhot.backbones.wrap`."
        raise InputError("head", "Classifier.save", f"be one of {', '.join(HEADS)}", describe_type(head), hint)
    attributes = {name: "bias_kind" if name == "bias" else name for name in inspect.signature(kind).parameters}
    return {"kind": kind.__name__, **{name: getattr(head, own) for name, own in attributes.items()}}


def load_bundle(
    cls: type[Classifier], folder: Path, *, backbone: nn.Module | None, device: str | torch.device
) -> Classifier:
    """The classifier of a folder; raises an error if the folder holds none or is damaged."""
    content = read_content(folder)
    try:
        head = dict(content["head"])
        kind = str(head.pop("kind"))
        built = HEADS[RENAMED.get(kind, kind) if content["format"] < 3 else kind](**head)
        network = Network(_build_backbone(content["backbone"], backbone), built, reading=content["reading"])
        parts: dict[str, Any] = {name: None if content[name] is None else from_dict(content[name]) for name in PARTS}
        prepared = content["preprocessing"]
        preprocessing = None if prepared is None else Preprocessing.restore(prepared)
        classifier = cls(network, Labels(content["labels"]), preprocessing=preprocessing, **parts)
        digest = str(content["weights"]["sha256"])
    except InputError as error:
        raise InputError(got=f"{folder / CLASSIFIER_FILE} cannot be taken: {error}") from None
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        got = f"{str(folder / CLASSIFIER_FILE)!r} ({type(error).__name__}: {first_line(error)})"
        raise _damaged(f"hold a {CLASSIFIER_FILE} as `save` wrote it", got) from error
    _load_weights(network, folder / WEIGHTS_FILE, digest)
    network.to(device).eval()
    return classifier


def _damaged(rule: str, got: str) -> InputError:
    return InputError("folder", OWNER, rule, got, "Save the classifier again, or take the folder from a backup.")


def read_content(folder: Path) -> dict[str, Any]:
    """The JSON of a folder as it was written, of a format that is known."""
    path = folder / CLASSIFIER_FILE
    if not path.is_file():
        problem = ", a file" if folder.is_file() else ", where there is nothing"
        problem = f" without a {CLASSIFIER_FILE}" if folder.is_dir() else problem
        hint = "Pass the folder of a run, or one that `Classifier.save` wrote."
        raise InputError("folder", OWNER, "be a folder with a classifier", f"{str(folder)!r}{problem}", hint)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise _damaged(f"hold a {CLASSIFIER_FILE} in JSON", f"{str(path)!r} ({error})") from None
    number = content.get("format") if isinstance(content, dict) else None
    if isinstance(number, int) and number > FORMAT:
        got = f"{str(path)!r} of format {number}, written by manyhot {content.get('manyhot')}"
        raise InputError("folder", OWNER, f"have format {FORMAT} or older", got, "Update manyhot.")
    if number not in range(1, FORMAT + 1):
        raise _damaged(f"hold a {CLASSIFIER_FILE} of manyhot", f"{str(path)!r}, which is none")
    return dict(content)


def import_safetensors() -> Any:
    """The package with its torch functions; raises an error that says how to install it."""
    require("safetensors.torch", "Saved classifiers", extra="vision")
    return require("safetensors", "Saved classifiers", extra="vision")


def _build_backbone(spec: Mapping[str, Any] | None, module: nn.Module | None) -> Backbone | None:
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


def _load_weights(network: Network, path: Path, digest: str) -> None:
    """Reads the weights of a file; raises an error if it is not the one of the digest, or of another network."""
    if not path.is_file():
        hint = "Copy it there, or save the classifier again."
        raise InputError("folder", OWNER, f"hold {WEIGHTS_FILE}", f"{str(path.parent)!r} without it", hint)
    safetensors, data = import_safetensors(), path.read_bytes()
    try:
        state: dict[str, Tensor] = safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        got = f"{str(path)!r} of {len(data):,} bytes ({first_line(error)})"
        raise _damaged("hold whole weights", got) from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise _damaged(f"hold the weights that its {CLASSIFIER_FILE} was written with", f"others in {str(path)!r}")
    declared = network.state_dict()
    for name in (*declared, *state):
        wanted, given = (str(tuple(side[name].shape)) if name in side else "nothing" for side in (declared, state))
        if wanted != given:
            hint = "Pass the network that was saved, or save the classifier again."
            rule, got = f"hold weights of the network's shapes, {wanted}", f"{given} for {name!r} in {str(path)!r}"
            raise InputError("folder", OWNER, rule, got, hint)
    # A network in half or double precision comes back as one.
    for name, part in network.named_children():
        own = {t.dtype for key, t in state.items() if key.startswith(f"{name}.") and t.is_floating_point()}
        if len(own) == 1:
            part.to(own.pop())
    network.load_state_dict(state)
