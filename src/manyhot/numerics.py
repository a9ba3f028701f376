"""Functions that stay exact where the textbook form overflows, cancels or divides by zero."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

# Larger than any score, small enough that sums of a few of them stay finite: exp(score - OUT_OF_SIGHT) is exactly 0,
# and unlike minus infinity it never makes a NaN in a gradient.
MASK_OFFSET = 1e30


def softplus(x: Tensor) -> Tensor:
    """log(1 + e^x), to the last digit.

    PyTorch's default turns linear at 20, where it is off by 2e-9.
    """
    return _softplus_for_export(x) if torch.compiler.is_exporting() else F.softplus(x, threshold=40.0)


def _softplus_for_export(x: Tensor) -> Tensor:
    """The same of operations that every ONNX runtime has in float64, where neither softplus nor log1p is among them."""
    small = torch.exp(-x.abs())
    series = small * (1 - small * (0.5 - small / 3))
    return x.clamp(min=0) + torch.where(small < 1e-4, series, torch.log(1 + small))


def softplus_branch(x: Tensor, k: float, b: float, zeta: float = 1.0) -> tuple[Tensor, Tensor]:
    """softplus(k (x - b)) / zeta, and its slope."""
    bend = (x - b).mul_(k)
    return softplus(bend).div_(zeta), torch.sigmoid(bend) * (k / zeta)


def log_softplus(x: Tensor) -> Tensor:
    """log(log(1 + e^x)), finite for every finite x."""
    tail = x < -30
    near = torch.log(softplus(torch.where(tail, 0.0, x)))
    return torch.where(tail, x - torch.exp(x.clamp(max=-30)) / 2, near)


def surprisal_ratio(rest: Tensor) -> Tensor:
    """-log(1 - r) / r of `rest` = 1 - r, which lies between 0 and 1: exact for r near 0, and for r near 1."""
    return torch.log(rest).div_(rest - 1)


def times(x: Tensor, factor: Tensor) -> Tensor:
    """x * factor, written over x where no graph is recorded, which may need x."""
    return x * factor if torch.is_grad_enabled() else x.mul_(factor)


def power(x: Tensor, exponent: float) -> Tensor:
    """x ** exponent with 0 ** 0 = 1; small whole exponents by multiplication, which is several times faster."""
    if exponent == 1:
        return x
    if exponent in (0, 2, 3):  # which `pow` multiplies by itself
        return torch.pow(x, exponent)
    if exponent == 4:
        square = x.square()
        return times(square, square)
    # The slope of a root at 0 is infinite, which would turn products with 0 into NaN.
    return torch.where(x > 0, torch.pow(torch.where(x > 0, x, 1.0), exponent), 0.0)


def mask_scores(scores: Tensor, visible: Tensor) -> Tensor:
    """Scores with those outside of `visible` (1 or 0) pushed so far down that no sum of exponentials sees them."""
    return torch.add(scores, visible - 1, alpha=MASK_OFFSET)


def logit(probability: float) -> float:
    """log(p / (1 - p)) of a Python number."""
    return math.log(probability) - math.log1p(-probability)


def break_ties(probs: Tensor, scores: Tensor) -> Tensor:
    """Probabilities (N, K), with numbers above 1 in the order of the scores where they are 1 to the last digit.

    So large ones have been rounded, or were cut off at 1 as those of the quasibinary link are, and would tie.

    Example:
        >>> break_ties(torch.tensor([0.4, 1.0, 1.0]), torch.tensor([-0.4, 20.0, 30.0]))
        tensor([ 0.4000, 22.0000, 32.0000])
    """
    scores = scores.to(probs.dtype)
    # Increasing, and above 1 for every score.
    above = torch.where(scores >= 0, 2 + scores, 1 + 1 / (1 - scores.clamp(max=0)))
    return torch.where(probs >= 1 - torch.finfo(probs.dtype).eps / 2, above, probs)
