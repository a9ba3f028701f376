"""Features in the directions in which they vary by themselves, where problems over them are nearly round."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

# As many numbers are in work at a time, so that nothing as large as the features is held beside them and their turn.
NUMBERS_AT_ONCE = 1 << 24


@dataclass(frozen=True)
class Basis:
    """How features are centred, scaled and turned; inside, the last column is 1 and stands for the bias.

    Attributes:
        mean: (D,) what is subtracted; zeros where nothing is.
        scale: (D,) what is divided by; ones where nothing is.
        rotation: (D, D) orthogonal, from scaled features to their principal directions.
        spread: (D + 1,) the sum of squares along each direction.
        bias: Whether there is a bias; without one, its column is 0.
    """

    mean: Tensor
    scale: Tensor
    rotation: Tensor
    spread: Tensor
    bias: bool

    def turn(self, features: Tensor, dtype: torch.dtype) -> Tensor:
        """(N, D + 1) of features (N, D) on any device, on that of the basis."""
        turned = torch.empty(len(features), len(self.spread), dtype=dtype, device=self.spread.device)
        rotation = self.rotation.to(dtype)
        turned[:, -1] = float(self.bias)
        start = 0
        for some in _blocks(features):
            turned[start : start + len(some), :-1] = self._scaled(some, dtype) @ rotation
            start += len(some)
        return turned

    def heads(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Weights (..., K, D) and bias (..., K) on the features as they came, of parameters (..., K, D + 1)."""
        weights = parameters[..., :-1] @ self.rotation.mT / self.scale
        bias = parameters[..., -1] * float(self.bias) - weights @ self.mean
        return weights, bias

    def _scaled(self, features: Tensor, dtype: torch.dtype) -> Tensor:
        # Centred in float64: the difference of two large numbers is what is left of a feature.
        exact = features.to(self.mean.device).to(self.mean.dtype)
        return ((exact - self.mean) / self.scale).to(dtype)


def find_basis(features: Tensor, *, bias: bool, standardise: bool, dtype: torch.dtype, device: torch.device) -> Basis:
    """The basis of features (N, D); without `standardise` it only turns, and centres where a bias makes up for it.

    Centring never changes a solution where there is a bias that is not penalised, but it makes the problem rounder.
    """
    exact = torch.float32 if device.type == "mps" else torch.float64
    width = features.shape[1]
    mean, scale = torch.zeros(width, dtype=exact, device=device), torch.ones(width, dtype=exact, device=device)
    if bias:
        mean = sum((some.to(device).to(exact).sum(0) for some in _blocks(features)), start=mean) / len(features)
    if standardise:
        # Without a bias there is no centring, and features are brought to a mean square of 1.
        squares = ((some.to(device).to(exact) - mean).square().sum(0) for some in _blocks(features))
        spread = (sum(squares, start=torch.zeros_like(mean)) / len(features)).sqrt()
        # A column that never changes has nothing to be divided by. Rounding is a share of its mean, in whatever unit.
        scale = torch.where(spread > 1e-12 * mean.abs(), spread, scale)
    unturned = Basis(mean, scale, torch.eye(width, dtype=exact, device=device), mean.new_zeros(width + 1), bias)
    gram = torch.zeros(width, width, dtype=exact, device=device)
    for some in _blocks(features):
        part = unturned._scaled(some, dtype)
        gram += part.mT @ part
    values, rotation = torch.linalg.eigh(gram)
    spread = torch.cat([values.clamp(min=0), values.new_full((1,), float(len(features) if bias else 0))])
    return Basis(mean, scale, rotation, spread, bias)


def _blocks(matrix: Tensor) -> tuple[Tensor, ...]:
    blocks: tuple[Tensor, ...] = matrix.split(max(1, NUMBERS_AT_ONCE // max(1, matrix.shape[1])))
    return blocks
