"""Modules whose learnt numbers stay exact: in half precision, on another device, and through `state_dict`."""

from __future__ import annotations

from abc import ABC
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor, nn

from manyhot.refusal import refusal


class ExactState(nn.Module):
    """A module whose buffers keep their precision, and take the shape of what is loaded into them."""

    def added_since(self, version: int, buffers: dict[str, Tensor]) -> dict[str, Tensor]:
        """What buffers of an older format of `manyhot.save` lack of those that the module declares."""
        return {}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves to another device as any module, but keeps the precision of what was learnt: half would ruin it."""
        exact = {name: buffer for name, buffer in self.named_buffers(recurse=False) if buffer.is_floating_point()}
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, buffer in exact.items():
            device = getattr(self, name).device
            setattr(self, name, buffer.to(device, torch.float32 if device.type == "mps" else buffer.dtype))
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any) -> None:
        """Gives buffers the shape of what is loaded: before a fit nobody knows how many labels there are."""
        for name, buffer in self.named_buffers(recurse=False):
            loaded = state_dict.get(prefix + name)
            if isinstance(loaded, Tensor) and loaded.shape != buffer.shape:
                setattr(self, name, buffer.new_empty(loaded.shape))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


class Fitted(ExactState, ABC):
    """What learns from held-out data by `fit`, and refuses to be used before: a calibrator or a rule.

    A subclass keeps every argument of its constructor as an attribute of the same name, and everything learnt in
    buffers that the constructor declares; `manyhot.save` and `manyhot.load` need no more.

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
        """Refuses to go on before `fit`."""
        if not bool(self.fitted):
            name = type(self).__name__
            remedy = "Call `fit` on held-out data, or load a fitted one with `manyhot.load`."
            raise refusal("state", name, "be fitted before use", "an unfitted one", remedy)
