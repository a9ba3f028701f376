"""A classifier on disk: weights as safetensors, everything else as JSON. Neither can hold code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from manyhot.backbones import Backbone, Preprocessing, rebuild
from manyhot.checks import kind_of
from manyhot.files import whole_file
from manyhot.heads import CosineHead, HiddenHead, LinearHead, TwoHeads
from manyhot.labels import Labels
from manyhot.network import Network
from manyhot.refusal import Refusal, refusal
from manyhot.saving import describe, restore
from manyhot.state import ExactState

if TYPE_CHECKING:
    from manyhot.classifier.classifier import Classifier

# Format 1 knew fewer options of heads, all of which it had at their defaults.
FORMAT, KNOWN_FORMATS = 2, (1, 2)
CONTENT, WEIGHTS = "classifier.json", "model.safetensors"
OWNER = "Classifier.load"
# The heads that can be saved: their options besides the two sizes, and the attributes that these are kept in.
HEADS: dict[type[nn.Module], dict[str, str]] = {
    LinearHead: {"bias": "bias_kind", "centred": "centred"},
    CosineHead: {"bias": "bias_kind", "scale": "scale"},
    HiddenHead: {"hidden": "hidden", "dropout": "dropout", "bias": "bias_kind"},
    TwoHeads: {name: name for name in ("hidden", "dropout", "scale", "centred")},
}
AGAIN = "Save the classifier again, or take the folder from a backup."


def save_bundle(classifier: Classifier, folder: Path) -> None:
    """Writes the two files; the JSON names the weights that it belongs to, so that a mixture is not taken."""
    content = describe_classifier(classifier)
    save_weights = import_safetensors().torch.save
    state = {name: tensor.detach().cpu().contiguous() for name, tensor in classifier.network.state_dict().items()}
    # Tensors that share memory would be refused, and written once they could not be told apart again.
    data = save_weights({name: tensor.clone() for name, tensor in state.items()}, metadata={"format": "pt"})
    content["weights"] = {"file": WEIGHTS, "sha256": hashlib.sha256(data).hexdigest()}
    with whole_file(folder / WEIGHTS) as part:
        part.write_bytes(data)
    with whole_file(folder / CONTENT) as part:
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
        **{name: None if part is None else describe(part) for name, part in parts.items()},
    }


def describe_head(head: nn.Module) -> dict[str, Any]:
    """Kind and constructor arguments of a head."""
    arguments = HEADS.get(type(head))
    if arguments is None:
        remedy = "Put layers of your own into the backbone with `manyhot.backbones.wrap`."
        names = ", ".join(kind.__name__ for kind in HEADS)
        raise refusal("head", "Classifier.save", f"be one of {names}", kind_of(head), remedy)
    sizes = {"in_features": head.in_features, "num_labels": head.num_labels}
    return {"kind": type(head).__name__, **sizes, **{name: getattr(head, own) for name, own in arguments.items()}}


def load_bundle(
    cls: type[Classifier],
    folder: Path,
    *,
    backbone: nn.Module | None,
    device: str | torch.device,
    kinds: Iterable[type[ExactState]],
) -> Classifier:
    """The classifier of a folder, or one sentence about what is wrong with it."""
    content = read_content(folder)
    try:
        network = Network(_backbone(content["backbone"], backbone), _head(content["head"]), reading=content["reading"])
        parts = {name: content[name] for name in ("link", "calibrator", "rule")}
        modules: dict[str, Any] = {
            name: None if part is None else restore(part, kinds=kinds) for name, part in parts.items()
        }
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
    except Refusal as error:
        raise Refusal(f"{folder / CONTENT} cannot be taken: {error}") from None
    except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
        said = f"{type(error).__name__}: {error}".splitlines()[0].rstrip(".")
        got = f"{str(folder / CONTENT)!r} ({said})"
        raise refusal("folder", OWNER, f"hold a {CONTENT} as `save` wrote it", got, AGAIN) from error
    _load_state(network, read_weights(folder / WEIGHTS, digest), folder / WEIGHTS)
    network.to(device).eval()
    return classifier


def read_content(folder: Path) -> dict[str, Any]:
    """The JSON of a folder, of a format that is known."""
    path = folder / CONTENT
    if not path.is_file():
        if not folder.is_dir():
            got = f"{str(folder)!r}, {'a file' if folder.exists() else 'where there is nothing'}"
        else:
            got = f"{str(folder)!r} without a {CONTENT}"
        remedy = "Pass the folder of a run, or one that `Classifier.save` wrote."
        raise refusal("folder", OWNER, "be a folder with a classifier", got, remedy)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise refusal("folder", OWNER, f"hold a {CONTENT} in JSON", f"{str(path)!r} ({error})", AGAIN) from None
    number = content.get("format") if isinstance(content, dict) else None
    if isinstance(number, int) and number > FORMAT:
        got = f"{str(path)!r} of format {number}, written by manyhot {content.get('manyhot')}"
        raise refusal("folder", OWNER, f"have format {FORMAT} or older", got, "Update manyhot.")
    if number not in KNOWN_FORMATS:
        raise refusal("folder", OWNER, f"hold a {CONTENT} of manyhot", f"{str(path)!r}, which is none", AGAIN)
    return dict(content)


def read_weights(path: Path, digest: str) -> dict[str, Tensor]:
    """The weights of a file, if it is the one that the digest was taken of."""
    if not path.is_file():
        remedy = "Copy it there, or save the classifier again."
        raise refusal("folder", OWNER, f"hold {WEIGHTS}", f"{str(path.parent)!r} without it", remedy)
    safetensors, data = import_safetensors(), path.read_bytes()
    try:
        state: dict[str, Tensor] = safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        said = str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__
        got = f"{str(path)!r} of {len(data):,} bytes ({said})"
        raise refusal("folder", OWNER, "hold whole weights", got, AGAIN) from None
    if hashlib.sha256(data).hexdigest() != digest:
        rule = f"hold the weights that its {CONTENT} was written with"
        raise refusal("folder", OWNER, rule, f"others in {str(path)!r}", AGAIN)
    return state


def import_safetensors() -> Any:
    """safetensors, or the sentence that says how to get it."""
    try:
        import safetensors
        import safetensors.torch
    except ImportError:
        raise ImportError(
            "Saving and loading classifiers needs safetensors. Install it with: pip install 'manyhot[vision]'"
        ) from None
    return safetensors


def _backbone(spec: Mapping[str, Any] | None, given: nn.Module | None) -> Backbone | None:
    """The backbone of a spec; `given` is the network that was wrapped, or a whole backbone."""
    if spec is None:
        if given is not None:
            remedy = "Leave it out, and pass features to `predict`."
            raise refusal("backbone", OWNER, "be left out for a classifier of features", kind_of(given), remedy)
        return None
    if isinstance(given, Backbone):
        return given
    if spec.get("kind") == "wrapped" and given is None:
        remedy = "Build that network and pass it as `backbone`; its weights are read from the folder."
        rule = f"be given for a network of your own, {spec.get('name')!r}"
        raise refusal("backbone", OWNER, rule, "none", remedy)
    return rebuild(spec, module=given)


def _head(spec: Mapping[str, Any]) -> nn.Module:
    arguments = dict(spec)
    kind = {known.__name__: known for known in HEADS}[arguments.pop("kind")]
    return kind(**arguments)


def _load_state(network: Network, state: dict[str, Tensor], path: Path) -> None:
    wanted = network.state_dict()
    wrong = [name for name in wanted if name not in state or state[name].shape != wanted[name].shape]
    wrong += [name for name in state if name not in wanted]
    if wrong:
        name = wrong[0]
        sides = [str(tuple(side[name].shape)) if name in side else "nothing" for side in (wanted, state)]
        got = f"{sides[1]} for {name!r} in {str(path)!r}"
        remedy = "Pass the network that was saved, or save the classifier again."
        raise refusal("folder", OWNER, f"hold weights of the network's shapes, {sides[0]}", got, remedy)
    # A network in half or double precision comes back as one.
    for name, part in network.named_children():
        own = [tensor for key, tensor in state.items() if key.startswith(f"{name}.") and tensor.is_floating_point()]
        if len({tensor.dtype for tensor in own}) == 1:
            part.to(own[0].dtype)
    network.load_state_dict(state)
