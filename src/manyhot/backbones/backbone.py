"""A backbone: from pixels to features, with everything needed to feed it and to rebuild it."""

from __future__ import annotations

from typing import Any, Self

import torch
from torch import Tensor, nn

from manyhot.checks import check_int, describe_type
from manyhot.errors import InputError
from manyhot.network import evaluation_mode
from manyhot.preprocessing import Preprocessing, check_pixels

# Pixels of the images in one forward pass on a CPU. Larger batches allocate new memory between layers every time, and
# clearing it takes longer than the network itself: batches of 4 images are twice as fast as batches of 64.
PIXELS_PER_CHUNK = 4 * 224 * 224


class Backbone(nn.Module):
    """A network from pixels to features. `create_backbone` and `wrap` make them.

    Attributes:
        module: The network itself, from normalised pixels to features.
        name: The name passed to `create_backbone` or `wrap`.
        width: Number D of features.
        preprocessing: Resizing and normalisation of its images.
        fixed_size: Whether the network only takes images of `preprocessing.size`.
        frozen: Whether its weights and statistics stay fixed while a head is trained; see `freeze`.
        spec: Everything but the weights, for JSON; `rebuild` takes it.
    """

    mean: Tensor
    std: Tensor

    def __init__(
        self,
        module: nn.Module,
        *,
        name: str,
        width: int,
        preprocessing: Preprocessing,
        spec: dict[str, Any],
        fixed_size: bool = False,
    ) -> None:
        super().__init__()
        self.module, self.name, self.width = module, name, width
        self.preprocessing, self.fixed_size, self.frozen = preprocessing, fixed_size, False
        self.spec = {**spec, "name": name, "width": width, "preprocessing": preprocessing.describe()}
        # Not in the state: they are part of the spec, and weights from elsewhere do not have them.
        for key in ("mean", "std"):
            numbers = torch.tensor(getattr(preprocessing, key)).view(1, 3, 1, 1)
            self.register_buffer(key, numbers, persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """(N, D) features of pixels (N, 3, H, W) from 0 to 255, as uint8 or as floating-point numbers."""
        check_pixels("Backbone", pixels)
        if self.fixed_size and tuple(pixels.shape[2:]) != self.preprocessing.size:
            rule = f"be of the size {self.preprocessing.size} that {self.name!r} was built for"
            hint = "Create the backbone with the `size` you need."
            raise InputError("pixels", "Backbone", rule, str(tuple(pixels.shape[2:])), hint)
        whole = torch.compiler.is_compiling() or torch.is_grad_enabled() or self.training
        # A network of the user is not split, as it may compare the images of a batch.
        if whole or self.spec["kind"] != "timm" or pixels.device.type != "cpu":
            return self._features(pixels)
        chunk = max(1, PIXELS_PER_CHUNK // (pixels.shape[2] * pixels.shape[3]))
        return torch.cat([self._features(part) for part in pixels.split(chunk)])

    def _features(self, pixels: Tensor) -> Tensor:
        # Subtracting in float32, also for a network in half precision, keeps all levels of grey apart.
        normalised = ((pixels.float() - self.mean.float()) / self.std.float()).to(self.mean.dtype)
        if self.spec["kind"] == "timm":
            # About 1.5 times as fast on a CPU. A network of the user's may not expect memory in this order.
            normalised = normalised.contiguous(memory_format=torch.channels_last)
        features: Any = self.module(normalised)
        if isinstance(features, Tensor) and features.shape == (pixels.shape[0], self.width):
            return features
        got, hint = describe_type(features), "Wrap a network that returns one tensor."
        if isinstance(features, Tensor):
            got, hint = str(tuple(features.shape)), "Pool and flatten inside the network, or correct `width`."
        raise InputError("module", "Backbone", f"give features (N, D) with D = {self.width}", got, hint)

    def train(self, mode: bool = True) -> Self:
        """Sets training mode; a frozen backbone stays in evaluation mode."""
        return super().train(mode and not self.frozen)

    def extra_repr(self) -> str:
        """The name, the width and the size."""
        height, width = self.preprocessing.size
        return f"{self.name!r}, width={self.width}, size={height}x{width}{', frozen' if self.frozen else ''}"


def freeze(backbone: Backbone) -> Backbone:
    """Freezes a backbone: no gradients, and evaluation mode even after `.train()`; returns it.

    Example:
        >>> backbone = wrap(torch.nn.Sequential(torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()), 3)
        >>> freeze(backbone).train().training
        False
    """
    backbone.requires_grad_(False)
    backbone.frozen = True
    return backbone.eval()


def wrap(
    module: nn.Module, width: int, preprocessing: Preprocessing | None = None, *, name: str | None = None
) -> Backbone:
    """A network of your own as a backbone.

    Args:
        module: From normalised pixels (N, 3, H, W) to features (N, width). It is run on one grey image as a check.
        width: Number D of features.
        preprocessing: Resizing and normalisation of its images; by default 224 x 224 pixels and (pixel - 127) / 128.
        name: A name to show; that of its class by default.

    Example:
        >>> module = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten())
        >>> backbone = wrap(module, 8, Preprocessing(size=32))
        >>> backbone(torch.zeros(2, 3, 32, 32, dtype=torch.uint8)).shape
        torch.Size([2, 8])
    """
    if not isinstance(module, nn.Module):
        raise InputError(
            "module", "wrap", "be a torch.nn.Module", describe_type(module), "Pass an instance of your network."
        )
    check_int("width", "wrap", width, low=1)
    preprocessing = preprocessing or Preprocessing()
    name = name or type(module).__name__
    backbone = Backbone(module, name=name, width=width, preprocessing=preprocessing, spec={"kind": "wrapped"})
    parameter = next(module.parameters(), None)
    if parameter is not None:
        backbone.to(device=parameter.device, dtype=parameter.dtype)
    grey = torch.full((1, 3, *preprocessing.size), 127, dtype=torch.uint8, device=backbone.mean.device)
    try:
        with evaluation_mode(backbone), torch.no_grad():
            backbone(grey)
    except InputError as error:
        error.owner = "wrap"
        raise
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        rule = f"take pixels {tuple(grey.shape)}"
        got = f"{type(error).__name__}: {str(error).strip().rstrip('.')}"
        raise InputError("module", "wrap", rule, got, "Fix the network, or pass a fitting `preprocessing`.") from error
    return backbone
