"""How objects are spelt: as the call that makes them, with every argument and every digit."""

from __future__ import annotations

import hashlib
import inspect
import re
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

# Larger arrays are told by their shape and a digest of their numbers.
LISTED = 100


class Spelled:
    """Keeps how the arguments of its constructor are spelt, those of subclasses too, and prints as the call.

    Example:
        >>> mh.TwoWayLoss(margin=0.5)
        TwoWayLoss(axis='both', temperature_pos=4, temperature_neg=1, margin=0.5)
    """

    _call: tuple[tuple[str, ...], dict[str, str]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Spells the arguments before anything can change them; `__init__` judges them."""
        self = super().__new__(cls)
        self._call = tuple(spell(value) for value in args), {name: spell(value) for name, value in kwargs.items()}
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
                shown.append(f"{name}={call.arguments.get(name, spell(parameter.default))}")
        return f"{type(self).__name__}({', '.join(shown)})"


def spell(value: Any) -> str:
    """A value as text that differs for different values, and is the same in another process.

    Example:
        >>> spell([4.0, 0.1234567, "mean", torch.tensor([1.0, 2.5])])
        "[4, 0.1234567, 'mean', [1, 2.5]]"
    """
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        listed = value.numel() <= LISTED
        return spell(value.tolist()) if listed else _digest(value.shape, value.contiguous().view(torch.uint8).numpy())
    if isinstance(value, np.ndarray):
        return spell(value.tolist()) if value.size <= LISTED else _digest(value.shape, np.ascontiguousarray(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(spell, value))}]"
    if isinstance(value, torch.Generator):
        return f"Generator({value.initial_seed()})"
    if isinstance(value, float | np.floating):
        return repr(float(value)).removesuffix(".0")
    if isinstance(value, np.integer):
        return repr(int(value))
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))  # an address says nothing in another process


def _digest(shape: tuple[int, ...], numbers: np.ndarray[Any, Any]) -> str:
    return f"<{' x '.join(map(str, shape))}: {hashlib.sha256(numbers.tobytes()).hexdigest()[:16]}>"
