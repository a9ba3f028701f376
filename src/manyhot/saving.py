"""Links, calibrators and rules as JSON: readable, exact to the last digit, and without any code in it."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyhot.checks import kind_of
from manyhot.files import whole_file
from manyhot.refusal import Refusal, refusal
from manyhot.state import ExactState

# Files of all formats up to this one are read. 2: calibrators say what they were fitted on, and keep their bounds.
FORMAT = 2
_SPECIAL = {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}


def save(module: ExactState, path: str | os.PathLike[str]) -> None:
    """Writes a link, a calibrator or a rule to a JSON file.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/rule.json"
        >>> save(mh.Threshold(0.3), path)
        >>> load(path)
        Threshold(0.3)
    """
    text = json.dumps(describe(module), indent=1, allow_nan=False)
    with whole_file(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


def load(path: str | os.PathLike[str], *, kinds: Iterable[type[ExactState]] = ()) -> Any:
    """Reads what `save` wrote; of a folder, such as that of a run, the `Classifier`.

    Args:
        path: The JSON file, or the folder.
        kinds: Classes of your own that the file may name besides those of this package.
    """
    if os.path.isdir(path):
        from manyhot.classifier import Classifier  # here, because it needs more than torch and numpy

        return Classifier.load(path, kinds=kinds)
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        remedy = "Pass a file that `manyhot.save` wrote."
        raise refusal("path", "load", "be a JSON file", f"{os.fspath(path)!r} ({error})", remedy) from None
    if not isinstance(content, dict) or content.get("format") not in range(1, FORMAT + 1):
        remedy = "Pass a file that `manyhot.save` wrote, or update manyhot."
        raise refusal("path", "load", f"hold format 1 to {FORMAT} of manyhot", repr(os.fspath(path)), remedy)
    try:
        return restore(content, kinds=kinds)
    except Refusal:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        got = f"{os.fspath(path)!r} ({type(error).__name__}: {error})"
        raise refusal("path", "load", "hold all that `save` wrote", got, "Save it again.") from error


def describe(module: object) -> dict[str, Any]:
    """Kind, constructor arguments and buffers of a module, as values that JSON can hold."""
    if not isinstance(module, ExactState):
        remedy = "Save what a metric computes, and the link, calibrator or rule that belongs to a model."
        if isinstance(getattr(module, "link", None), ExactState):
            remedy = "Save its `link`; a loss itself goes into a checkpoint by its `state_dict`."
        raise refusal("module", "save", "be a link, a calibrator or a rule", kind_of(module), remedy)
    kind = type(module)
    names = list(inspect.signature(kind).parameters)
    missing = [name for name in names if not hasattr(module, name)]
    if missing:
        rule = "keep its constructor's arguments as attributes to be saved"
        remedy = "Fit a calibrator and save that instead."
        raise refusal("module", "save", rule, f"{kind.__name__} without {missing[0]!r}", remedy)
    arguments = {name: _encode(getattr(module, name)) for name in names}
    buffers = {name: _encode(buffer) for name, buffer in module.named_buffers(recurse=False)}
    return {"format": FORMAT, "kind": kind.__name__, "arguments": arguments, "buffers": buffers}


def restore(content: dict[str, Any], *, kinds: Iterable[type[ExactState]] = ()) -> Any:
    """The module that `describe` described, in this format or an older one.

    Refuses one whose buffers are not exactly those that its class declares.
    """
    kinds = tuple(kinds)
    arguments = {key: _decode(value, kinds) for key, value in content["arguments"].items()}
    module = _kind(str(content.get("kind")), kinds)(**arguments)
    buffers = {key: _decode(value, kinds) for key, value in content["buffers"].items()}
    version = content.get("format", 1)
    if version not in range(1, FORMAT + 1):
        raise ValueError(f"{content['kind']} of format {version}, which is not known")
    added = module.added_since(version, buffers)
    declared = {name for name, _ in module.named_buffers(recurse=False)} - set(added)
    for words, names in (("without its", declared - set(buffers)), ("with an unknown", set(buffers) - declared)):
        if names:
            raise ValueError(f"{content['kind']} {words} buffer {min(names)!r}")
    for key, buffer in (buffers | added).items():
        module.register_buffer(key, buffer)
    return module


def _kind(name: str, kinds: tuple[type[ExactState], ...]) -> type[ExactState]:
    """The class of a name: one of those given, or a public one of this package; a file cannot name anything else."""
    import manyhot  # here, because the public API itself offers `save`

    own = {kind.__name__: kind for kind in kinds}
    found = own.get(name) or (getattr(manyhot, name) if name in manyhot.__all__ else None)
    if isinstance(found, type) and issubclass(found, ExactState):
        return found
    remedy = "Update manyhot, or pass your own classes as `kinds`."
    raise refusal("kind", "load", "be a link, a calibrator or a rule of manyhot", repr(name), remedy)


def _encode(value: Any) -> Any:
    if isinstance(value, ExactState):
        return {"module": describe(value)}
    if isinstance(value, Tensor):
        flat = value.detach().cpu().flatten().tolist()
        numbers = [number if abs(number) < float("inf") else str(number) for number in flat]
        return {"tensor": str(value.dtype).removeprefix("torch."), "shape": list(value.shape), "values": numbers}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    if isinstance(value, float) and not abs(value) < float("inf"):
        return {"number": str(value)}
    return value


def _decode(value: Any, kinds: tuple[type[ExactState], ...]) -> Any:
    if isinstance(value, list):
        return [_decode(item, kinds) for item in value]
    if not isinstance(value, dict):
        return value
    if "module" in value:
        return restore(value["module"], kinds=kinds)
    if "number" in value:
        return _SPECIAL[value["number"]]
    numbers = [_SPECIAL[item] if isinstance(item, str) else item for item in value["values"]]
    return torch.tensor(numbers, dtype=getattr(torch, value["tensor"])).reshape(value["shape"])
