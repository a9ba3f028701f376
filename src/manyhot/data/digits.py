"""Scenes of real handwritten digits with zero to five labels: multi-label data that needs no download.

The digits are the 1,797 images of 8 x 8 pixels that come inside scikit-learn. A scene scatters some of them over a
canvas, hides or fades a few, and adds clutter that carries no label, so that no honest answer is always 0 or 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from manyhot.checks import check_choice, check_int, check_number
from manyhot.errors import InputError, require

LABEL_NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")

# From frequent (zero, 45 %) to rare (nine, 3 %). Drawn independently, they leave 14 % of the scenes without a label.
LABEL_RATES = tuple(0.45 * (0.03 / 0.45) ** (k / 9) for k in range(10))

DIGIT = 8  # Side of a digit as it comes.
PATCH = 10  # Side of the square on which a turned and scaled digit is drawn.
FAINT_SHARE = 0.2
HIDDEN_SHARE = 0.1
NOISE = 0.05


@dataclass(frozen=True)
class Scenes:
    """Scenes and what is in them.

    Attributes:
        images: (N, H, W) float32 in [0, 1].
        targets: (N, 10) int8, 1 where the digit is in the scene and 0 where not; rows without a label are common.
        names: The label names, one per column of `targets`.
    """

    images: Tensor
    targets: Tensor
    names: tuple[str, ...] = LABEL_NAMES

    def __len__(self) -> int:
        return len(self.images)


def digit_scenes(
    n: int,
    *,
    seed: int,
    max_labels: int = 5,
    split: str = "train",
    size: tuple[int, int] = (32, 32),
    clutter: float = 0.25,
) -> Scenes:
    """Draws scenes of handwritten digits; the same arguments give the same scenes.

    Train and test scenes are made of different handwritten digits. Each digit appears at most once in a scene; one in
    five is faint and one in ten half-hidden. Clutter looks like what it is mistaken for: halves of digits, and strokes.

    Args:
        n: Number of scenes.
        seed: Seed of the draw. Train and test scenes of one seed are drawn independently.
        max_labels: Most labels in one scene, 0 to 10; labels above it are dropped at random.
        split: Which handwritten digits to use: two thirds are for "train", the others for "test".
        size: Height and width. Digits take cells of 10 x 10 pixels, so (32, 32) holds nine.
        clutter: Probability that a cell without a digit holds clutter.

    Returns:
        The scenes, with label rates near `LABEL_RATES`.

    Example:
        >>> scenes = digit_scenes(100, seed=0)
        >>> scenes.images.shape, scenes.targets.shape
        (torch.Size([100, 32, 32]), torch.Size([100, 10]))
    """
    owner = "digit_scenes"
    check_int("n", owner, n, low=1)
    check_number("max_labels", owner, max_labels, "[0, 10]")
    check_number("clutter", owner, clutter, "[0, 1]")
    pool = load_digits(check_choice("split", owner, split, ("train", "test")))
    cells = (size[0] // PATCH) * (size[1] // PATCH)
    if cells < max(max_labels, 1):
        rule = f"hold {max(max_labels, 1)} cells of {PATCH} x {PATCH} pixels"
        raise InputError("size", owner, rule, str(size), "Pass a larger size, or a smaller `max_labels`.")

    draw = _Draw(n, seed=2 * seed + (split == "test"))
    present, order = _draw_labels(max_labels, draw)
    images, positions = torch.zeros(n, *size), draw.shuffled(cells)
    for slot in range(cells):
        # The first slots of a scene show its labels, the others may show clutter.
        labelled = (slot < present.sum(1))[:, None, None]
        digit = _handwriting(pool, order[:, slot % 10], draw)
        digit = torch.where(draw.chance(HIDDEN_SHARE), digit * _halves(draw), digit) * _contrast(draw)
        _paste(images, torch.where(labelled, digit, _clutter(pool, clutter, draw)), positions[:, slot], draw)
    images += NOISE * torch.randn(images.shape, generator=draw.generator)
    return Scenes(images=images.clamp_(0, 1), targets=present.to(torch.int8))


def template_features(images: Tensor, *, per_label: int = 20, rivalry: float = 0.5, batch_size: int = 16) -> Tensor:
    """Describes scenes by their likeness to typical digits: frozen features for a linear head.

    Each feature is the highest normalised correlation of one template with any place of the scene, less `rivalry` times
    that of the most similar template of another digit at that place. Templates are k-means centres of the train digits.

    Args:
        images: (N, H, W) in [0, 1].
        per_label: Templates a digit; there are ten times as many features.
        rivalry: How much a better explanation by another digit counts against a template, 0 to 1.
        batch_size: Scenes at a time; small batches stay in the processor's cache.

    Returns:
        Features (N, 10 * per_label), not standardised.

    Example:
        >>> template_features(digit_scenes(3, seed=0).images).shape
        torch.Size([3, 200])
    """
    if images.ndim != 3 or min(images.shape[1:]) < DIGIT:
        rule = f"be (N, H, W) of at least {DIGIT} x {DIGIT} pixels"
        raise InputError("images", "template_features", rule, str(tuple(images.shape)), "Pass `scenes.images`.")
    check_number("per_label", "template_features", per_label, "[1, 100]")
    templates = digit_templates(per_label)
    return torch.cat([template_similarity(batch, templates, rivalry) for batch in images.split(batch_size)])


def digit_templates(per_label: int) -> Tensor:
    """Typical handwritten digits, (10, per_label, 64), of mean 0 and length 1."""
    pool = load_digits("train")
    from sklearn.cluster import KMeans  # after the error that says how to install it

    kmeans = KMeans(per_label, n_init=1, random_state=0)
    centres = [kmeans.fit(digits.flatten(1).numpy()).cluster_centers_ for digits in pool]
    templates = torch.stack([torch.from_numpy(some).float() for some in centres])
    return F.normalize(templates - templates.mean(2, keepdim=True), dim=2)


class _Draw:
    """Random numbers for `n` scenes, shaped (n, 1, 1) to meet patches of pixels."""

    def __init__(self, n: int, *, seed: int) -> None:
        self.n = n
        self.generator = torch.Generator().manual_seed(seed)

    def uniform(self, low: float, high: float) -> Tensor:
        return low + (high - low) * torch.rand(self.n, 1, 1, generator=self.generator)

    def normal(self, scale: float) -> Tensor:
        return scale * torch.randn(self.n, 1, 1, generator=self.generator)

    def chance(self, probability: float) -> Tensor:
        return torch.rand(self.n, 1, 1, generator=self.generator) < probability

    def integers(self, below: int) -> Tensor:
        return torch.randint(below, (self.n,), generator=self.generator)

    def shuffled(self, k: int) -> Tensor:
        return torch.rand(self.n, k, generator=self.generator).argsort(1)


def load_digits(split: str) -> list[Tensor]:
    """The handwritten digits of one split: the images (M, 8, 8) of each label."""
    data = require("sklearn.datasets", "Scenes of digits", extra="vision", package="scikit-learn").load_digits()
    images, labels = torch.from_numpy(data.images).float() / 16, torch.from_numpy(data.target)
    # Writers come in blocks: taking every third digit for testing gives both splits some of each.
    chosen = (torch.arange(len(labels)) % 3 == 2) == (split == "test")
    return [images[chosen & (labels == k)] for k in range(10)]


def _handwriting(pool: list[Tensor], labels: Tensor, draw: _Draw) -> Tensor:
    """A random digit of each label, slightly turned, slanted and scaled, (n, 10, 10)."""
    counts = torch.tensor([len(digits) for digits in pool])
    indices = (draw.uniform(0, 1).flatten() * counts[labels]).long()
    digits = torch.cat(pool)[(counts.cumsum(0) - counts)[labels] + indices]
    angle, slant, scale = draw.normal(0.05), draw.normal(0.05), draw.uniform(0.95, 1.1)
    x = torch.cat([angle.cos(), slant - angle.sin(), torch.zeros_like(angle)], dim=2)
    y = torch.cat([angle.sin(), angle.cos(), torch.zeros_like(angle)], dim=2)
    turn = torch.cat([x, y], dim=1) * (PATCH / DIGIT) / scale
    grid = F.affine_grid(turn, [len(digits), 1, PATCH, PATCH], align_corners=False)
    return F.grid_sample(digits[:, None], grid, align_corners=False)[:, 0]


def _draw_labels(max_labels: int, draw: _Draw) -> tuple[Tensor, Tensor]:
    """Which labels each scene has, (n, 10) bool, and all ten in a random order that begins with those, (n, 10)."""
    present = torch.rand(draw.n, 10, generator=draw.generator) < torch.tensor(LABEL_RATES)
    order = (torch.rand(draw.n, 10, generator=draw.generator) + ~present).argsort(1)
    selected = torch.arange(10) < present.sum(1, keepdim=True).clamp(max=max_labels)
    return torch.zeros_like(present).scatter(1, order, selected), order


def _clutter(pool: list[Tensor], probability: float, draw: _Draw) -> Tensor:
    """Half a digit or a stroke, or nothing, (n, 10, 10)."""
    halves = _handwriting(pool, draw.integers(10), draw) * _halves(draw)
    return torch.where(draw.chance(0.5), halves, _strokes(draw)) * _contrast(draw) * draw.chance(probability)


def _contrast(draw: _Draw) -> Tensor:
    return torch.where(draw.chance(FAINT_SHARE), draw.uniform(0.15, 0.4), draw.uniform(0.5, 1))


def _halves(draw: _Draw) -> Tensor:
    """Masks that keep the upper, lower, left or right half, (n, 10, 10)."""
    upper = (torch.arange(PATCH) < PATCH // 2).float()[:, None].expand(PATCH, PATCH)
    return torch.stack([upper, 1 - upper, upper.T, 1 - upper.T])[draw.integers(4)]


def _strokes(draw: _Draw) -> Tensor:
    """A straight stroke in a random direction, about as thick as handwriting, (n, 10, 10)."""
    angle, half_length = draw.uniform(0, math.pi), draw.uniform(2, 4.5)
    x = torch.arange(PATCH) - (PATCH - 1) / 2
    y = x[:, None]
    along, across = x * angle.cos() + y * angle.sin(), y * angle.cos() - x * angle.sin()
    return torch.exp(-across.square()) * (along.abs() < half_length)


def _paste(images: Tensor, patches: Tensor, positions: Tensor, draw: _Draw) -> None:
    """Draws each patch near the middle of its cell, in place; where ink meets ink, the stronger stays."""
    height, width = images.shape[1:]
    columns = width // PATCH
    ys = _patch_pixels(positions // columns, height, draw)[:, :, None]
    xs = _patch_pixels(positions % columns, width, draw)[:, None, :]
    pixels = torch.arange(draw.n)[:, None, None], ys, xs
    images[pixels] = torch.maximum(images[pixels], patches)


def _patch_pixels(cell: Tensor, length: int, draw: _Draw) -> Tensor:
    """Pixels along one axis of a patch in its cell, up to 1.5 pixels from the middle, (n, 10)."""
    middle = (cell + 0.5) * length / (length // PATCH) - PATCH / 2
    start = (middle + draw.uniform(-1.5, 1.5).flatten()).round().clamp(0, length - PATCH).long()
    return start[:, None] + torch.arange(PATCH)


def template_similarity(images: Tensor, templates: Tensor, rivalry: float) -> Tensor:
    """The features of one batch of images (N, H, W), (N, 10 * per_label); see `template_features`."""
    images = images[:, None]
    mean, mean_square = (F.avg_pool2d(power, DIGIT, stride=1).flatten(2) for power in (images, images.square()))
    length = DIGIT * (mean_square - mean.square()).clamp(min=0).sqrt()
    # Half of what noise alone amounts to is added to the length: without it, empty places would look like digits.
    positions = F.unfold(images, DIGIT).div_(length + NOISE * DIGIT / 2)
    # Templates have mean 0, so the mean of a place does not matter.
    matches = (templates.flatten(0, 1) @ positions).unflatten(1, templates.shape[:2])
    best, owner = matches.amax(2).topk(2, dim=1)
    is_best = torch.arange(len(templates), device=images.device)[:, None] == owner[:, :1]
    rival = torch.where(is_best, best[:, 1:], best[:, :1])
    features: Tensor = matches.sub_(rivalry * rival[:, :, None]).amax(3)
    return features.flatten(1)
