"""Links, calibrators and rules as JSON without code; modules whose fitted numbers stay exact; exact reprs."""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import os
import re
from abc import ABC
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.checks import describe_type
from manyhot.errors import InputError, as_input_error, owned, require
from manyhot.files import atomic_write
from manyhot.registry import RENAMED, RENAMED_SHARING, find_class


class ExactState(nn.Module):
    """A module whose buffers keep their precision, and take the shape of the state that is loaded into them."""

    def restore(self, version: int, buffers: dict[str, Tensor]) -> None:
        """Takes the buffers of a file of a format; subclasses add those that older formats lack.

        They must be exactly those that the constructor declares, by name, type and shape. The first axis of size 0
        there is that of the labels: 1 or the same for all buffers. Further ones may have any size.
        """
        kind, declared = type(self).__name__, dict(self.named_buffers(recurse=False))
        missing, unknown = declared.keys() - buffers.keys(), buffers.keys() - declared.keys()
        if missing or unknown:
            problem = "without its" if missing else "with an unknown"
            raise ValueError(f"{kind} {problem} buffer {min(missing or unknown)!r}")
        label_counts = {1}
        for name, own in declared.items():
            buffer = torch.as_tensor(buffers[name])
            fits = own.dtype == buffer.dtype and own.ndim == buffer.ndim
            fits = fits and all(size in (0, stored) for size, stored in zip(own.shape, buffer.shape, strict=True))
            if fits and 0 in own.shape:
                label_counts.add(buffer.shape[own.shape.index(0)])
            if not fits or len(label_counts) > 2:
                raise ValueError(f"{kind} whose buffer {name!r} is {buffer.dtype} of shape {tuple(buffer.shape)}")
            self.register_buffer(name, buffer)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves to another device as any module, but keeps the precision of fitted buffers."""
        exact = {name: buffer for name, buffer in self.named_buffers(recurse=False) if buffer.is_floating_point()}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in exact.items():
            device = getattr(self, name).device
            setattr(self, name, buffer.to(device, torch.float32 if device.type == "mps" else buffer.dtype))
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Gives buffers the shape of the loaded ones: before a fit the number of labels is unknown."""
        for name, buffer in self.named_buffers(recurse=False):
            loaded = state_dict.get(prefix + name)
            if isinstance(loaded, Tensor) and loaded.shape != buffer.shape:
                setattr(self, name, buffer.new_empty(loaded.shape))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class Fitted(ExactState, ABC):
    """The base class of calibrators and rules: fitted on held-out data, and unusable before.

    A subclass keeps every argument of its constructor as an attribute of the same name, and everything learnt in
    buffers that the constructor declares, with their type and axes, those of unknown size as size 0; `manyhot.save` and
    `manyhot.load` need no more.

    Attributes:
        fitted: Whether `fit` has been called; true from the start for what has nothing to learn.
    """

    fitted: Tensor

    def __init__(self, *, fitted: bool = False) -> None:
        super().__init__()
        self.register_buffer("fitted", torch.tensor(fitted))

    def learn(self, **buffers: Tensor) -> Self:
        """Replaces buffers of these names, marks the module as fitted, and returns it."""
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer.detach().clone())
        self.fitted = torch.ones_like(self.fitted)
        return self

    def require_fitted(self) -> None:
        """Raises an error before `fit`."""
        if not torch.compiler.is_exporting() and not bool(self.fitted):  # a graph reads no values
            hint = "Call `fit` on held-out data, or load a fitted one with `manyhot.load`."
            raise InputError("state", type(self).__name__, "be fitted before use", "an unfitted one", hint)


# Larger arrays are represented by their shape and a digest of their numbers.
MAX_LISTED = 100


class ConstructorRepr:
    """Stores the `repr` of its constructor's arguments, those of subclasses too, and prints as the call.

    Example:
        >>> mh.TwoWayLoss(margin=0.5)
        TwoWayLoss(axis='both', temperature_pos=4, temperature_neg=1, margin=0.5)
    """

    _call: tuple[tuple[str, ...], dict[str, str]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Stores the `repr` of the arguments before anything can change them; `__init__` checks them."""
        self = super().__new__(cls)
        named = {name: stable_repr(value) for name, value in kwargs.items()}
        object.__setattr__(self, "_call", (tuple(map(stable_repr, args)), named))  # a dataclass may be frozen
        return self

    def __repr__(self) -> str:
        """The call that makes such an object, with all arguments, those left at their defaults too."""
        args, kwargs = self._call
        call = inspect.signature(type(self)).bind(*args, **kwargs)
        shown = []
        for name, parameter in call.signature.parameters.items():
            if parameter.kind is parameter.VAR_POSITIONAL:
                shown += call.arguments.get(name, ())
            elif parameter.kind is parameter.VAR_KEYWORD:
                shown += [f"{key}={text}" for key, text in call.arguments.get(name, {}).items()]
            else:
                shown.append(f"{name}={call.arguments.get(name, stable_repr(parameter.default))}")
        return f"{type(self).__name__}({', '.join(shown)})"


def stable_repr(value: Any) -> str:
    """A value as text that differs for different values, and is the same in another process.

    Example:
        >>> stable_repr([4.0, 0.1234567, "mean", torch.tensor([1.0, 2.5])])
        "[4, 0.1234567, 'mean', [1, 2.5]]"
    """
    if isinstance(value, Tensor | np.ndarray):
        if math.prod(value.shape) <= MAX_LISTED:
            return stable_repr(value.tolist())
        raw = value.detach().cpu().contiguous().view(torch.uint8).numpy() if isinstance(value, Tensor) else value
        digest = hashlib.sha256(raw.tobytes()).hexdigest()[:16]
        return f"<{' x '.join(map(str, value.shape))}: {digest}>"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(stable_repr, value))}]"
    if isinstance(value, torch.Generator):
        return f"Generator({value.initial_seed()})"
    if isinstance(value, float | np.floating):
        return repr(float(value)).removesuffix(".0")
    if isinstance(value, np.integer):
        return repr(int(value))
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # an address has no meaning in another process


def import_safetensors(purpose: str) -> Any:
    """The safetensors package with its functions for torch; raises an error that says what needs it, in the plural."""
    require("safetensors.torch", purpose, extra="vision")
    return require("safetensors", purpose, extra="vision")


# Files of all formats up to this one are read. 2: calibrators say what they were fitted on, and keep their bounds.
# 3: classes and arguments have other names. 4: parametric calibrators keep the covariance of their parameters.
FORMAT = 4


def save(module: ExactState, path: str | os.PathLike[str]) -> None:
    """Writes a link, a calibrator or a rule to a JSON file.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/rule.json"
        >>> save(mh.Threshold(0.3), path)
        >>> load(path)
        Threshold(0.3)
    """
    text = json.dumps(to_dict(module), indent=1, allow_nan=False)
    with atomic_write(path) as part:
        part.write_text(text + "\n", encoding="utf-8")


@owned("load")
def load(path: str | os.PathLike[str]) -> Any:
    """Reads what `save` wrote; of a folder, such as that of a run, the `Classifier`.

    A file can name the classes of this package and those that were given to `manyhot.registry.register`.

    Args:
        path: The JSON file, or the folder.
    """
    if os.path.isdir(path):
        from manyhot.classifier import Classifier  # here, because it needs more than torch and numpy

        return Classifier.load(path)
    file = repr(os.fspath(path))
    with as_input_error(file, ValueError, "be a JSON file", "Pass a file that `manyhot.save` wrote."):
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(content, dict) or content.get("format") not in range(1, FORMAT + 1):
        hint = "Pass a file that `manyhot.save` wrote, or update manyhot."
        raise InputError("path", rule=f"hold format 1 to {FORMAT} of manyhot", got=file, hint=hint)
    try:
        return from_dict(content)
    except InputError:
        raise
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError) as error:
        got = f"{file} ({type(error).__name__}: {error})"
        raise InputError("path", rule="hold all that `save` wrote", got=got, hint="Save it again.") from error


@owned("save")
def to_dict(module: object) -> dict[str, Any]:
    """Kind, constructor arguments and buffers of a module, as values that JSON can hold."""
    if not isinstance(module, ExactState):
        hint = "Save what a metric computes, and the link, calibrator or rule that belongs to a model."
        if isinstance(getattr(module, "link", None), ExactState):
            hint = "Save its `link`; a loss itself goes into a checkpoint by its `state_dict`."
        raise InputError("module", rule="be a link, a calibrator or a rule", got=describe_type(module), hint=hint)
    kind = type(module)
    names = list(inspect.signature(kind).parameters)
    missing = [name for name in names if not hasattr(module, name)]
    if missing:
        rule = "keep its constructor's arguments as attributes to be saved"
        hint = "Fit a calibrator and save that instead."
        raise InputError("module", rule=rule, got=f"{kind.__name__} without {missing[0]!r}", hint=hint)
    arguments = {name: _encode(getattr(module, name)) for name in names}
    buffers = {name: _encode(buffer) for name, buffer in module.named_buffers(recurse=False)}
    return {"format": FORMAT, "kind": kind.__name__, "arguments": arguments, "buffers": buffers}


@owned("load")
def from_dict(content: dict[str, Any]) -> Any:
    """The module that `to_dict` described, in this format or an older one.

    It raises an error if the buffers are not exactly those that its class declares.
    """
    version, name = content.get("format", 1), str(content.get("kind"))
    if version not in range(1, FORMAT + 1):
        raise ValueError(f"{name} of format {version}, which is not known")
    arguments = {key: _decode(value) for key, value in content["arguments"].items()}
    if version < 3:
        name = RENAMED.get(name, name)
        if "per" in arguments:
            arguments["sharing"] = RENAMED_SHARING[arguments.pop("per")]
    kind = find_class(name)  # a registered one; a file cannot name anything else
    if kind is None or not issubclass(kind, ExactState):
        hint = "Update manyhot, or register your own class with `manyhot.registry.register`."
        raise InputError("kind", rule="be a link, a calibrator or a rule of manyhot", got=repr(name), hint=hint)
    module = kind(**arguments)
    module.restore(version, {key: _decode(value) for key, value in content["buffers"].items()})
    return module


def earlier_spellings(content: dict[str, Any]) -> list[dict[str, Any]]:
    """What formats 3, 2 and 1 wrote for a rule of a content of today's format, for digests that were taken of it."""
    text, old_names = json.dumps(content), {new: old for old, new in RENAMED.items()}

    def spelled(version: int, part: dict[str, Any]) -> dict[str, Any]:
        if "kind" not in part:
            return part
        part.pop("format", None)
        kind = part["kind"] if version > 2 else old_names.get(part["kind"], part["kind"])
        return part | {"kind": kind} | ({"format": version} if version > 1 else {})

    return [json.loads(text, object_hook=partial(spelled, version)) for version in (3, 2, 1)]


def _encode(value: Any) -> Any:
    if isinstance(value, ExactState):
        return {"module": to_dict(value)}
    if isinstance(value, Tensor):
        flat = value.detach().cpu().flatten().tolist()
        numbers = [number if math.isfinite(number) else str(number) for number in flat]
        return {"tensor": str(value.dtype).removeprefix("torch."), "shape": list(value.shape), "values": numbers}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "module" in value:
        return from_dict(value["module"])
    if "number" in value:
        return float(value["number"])
    numbers = [float(item) if isinstance(item, str) else item for item in value["values"]]
    return torch.tensor(numbers, dtype=getattr(torch, value["tensor"])).reshape(value["shape"])
