"""What is done once for a data set, whatever is trained on it: frozen features, or pictures ready to be read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.backbones import Backbone, create_backbone, extract_features
from manyhot.data.dataset import Dataset
from manyhot.data.loading import Batches, FeatureBatches
from manyhot.data.targets import SparseTargets
from manyhot.engine.machine import device_of
from manyhot.heads import HiddenHead, LinearHead, TwoHeads
from manyhot.refusal import refusal
from manyhot.training.recipe import Recipe
from manyhot.training.splitting import ROLES, with_learnable_labels

# Given the number of images, opens what is called with how many more of them are done.
Watch = Callable[[int], AbstractContextManager[Callable[[int], None]]]


@dataclass(frozen=True)
class Prepared:
    """A data set as networks are trained on it.

    Attributes:
        data: The rows that can be read, in the order of `parts`.
        backbone: What gives the features; None for a matrix of features.
        width: Number D of features.
        parts: Batches of each split.
        mean: (D,) of frozen features in the rows to train on; None when the backbone is trained.
        scale: (D,) how much these features vary, one number for all of them; infinite for those that never do.
        bad: Images that could not be read, and why.
    """

    data: Dataset
    backbone: Backbone | None
    width: int
    parts: dict[str, Batches]
    mean: Tensor | None = None
    scale: Tensor | None = None
    bad: dict[str, str] = field(default_factory=dict)

    @property
    def frozen(self) -> bool:
        """Whether only the head is trained."""
        return self.mean is not None

    def rates(self) -> Tensor:
        """(K,) how often each label is present in the rows to train on."""
        return self.parts["train"].targets.rates()


def open_backbone(data: Dataset, recipe: Recipe) -> Backbone | None:
    """The backbone that a recipe names; None where the data are features already."""
    if data.features is not None:
        return None
    weights = None if recipe.weights is None else Path(recipe.weights)
    return create_backbone(recipe.backbone, pretrained=recipe.pretrained, size=recipe.size, weights=weights)


def prepare(data: Dataset, recipe: Recipe, backbone: Backbone | None = None, *, watch: Watch | None = None) -> Prepared:
    """Reads, and for a frozen backbone describes, every row of the data.

    Args:
        data: With the splits "train", "val" and "test".
        recipe: Backbone, size, augmentation, and what to do about bad images.
        backbone: That of the recipe, if it has been opened already.
        watch: Shows how many images are done.
    """
    if data.features is not None:
        return with_features(data, data.features, None, centre=recipe.head != "cosine")
    backbone = backbone or open_backbone(data, recipe)
    assert backbone is not None
    if recipe.tune == "head":
        cache = False if recipe.cache in ("none", "None") else recipe.cache
        with watch(len(data)) if watch is not None else nullcontext() as advance:
            features, rows, bad = extract_features(
                backbone,
                data,
                cache=cache,
                workers=recipe.workers,
                on_bad_image=recipe.on_bad_image,
                advance=advance,
                device=device_of(recipe.plan),
            )
        backbone.cpu()
        readable = data.take(rows)
        if "train" not in readable.split_sizes():
            remedy = "Run `manyhot inspect` on the data."
            raise refusal(
                "data", "train", "have images to train on that can be read", f"{len(bad)} that cannot", remedy
            )
        readable = with_learnable_labels(readable, recipe.min_count)
        return with_features(readable, features, backbone, centre=recipe.head != "cosine", bad=bad)
    return with_pictures(data, backbone, recipe)


def with_features(
    data: Dataset,
    features: np.ndarray[Any, Any] | Tensor,
    backbone: Backbone | None,
    *,
    centre: bool = True,
    bad: dict[str, str] | None = None,
) -> Prepared:
    """Features around their mean, in a unit in which they vary by 1; as they are for cosine heads.

    The unit is one for all features: those of networks vary most where they tell most, and a unit for each of them
    would raise the noise of the others to their height.
    """
    values = torch.as_tensor(features, dtype=torch.float32)
    mean, scale = torch.zeros(values.shape[1]), torch.ones(values.shape[1])
    if centre:
        train = values[torch.from_numpy(np.flatnonzero(_splits(data) == "train"))]
        mean, variance = train.mean(0), train.var(0, correction=0)
        # What is the same in all rows to train on tells nothing, now or later.
        scale = torch.where(variance > 1e-12 * mean.square(), variance.mean().sqrt(), torch.inf)
    parts: dict[str, Batches] = {}
    for name in roles_of(data):
        rows = np.flatnonzero(_splits(data) == name)
        parts[name] = FeatureBatches((values[rows] - mean) / scale, _targets(data).take(rows))
    return Prepared(data, backbone, values.shape[1], parts, mean, scale, bad or {})


def with_pictures(data: Dataset, backbone: Backbone, recipe: Recipe) -> Prepared:
    """Pictures that are read anew in each epoch, each time a little different."""
    from manyhot.data.augmentation import augmentation
    from manyhot.data.loading_images import ImageBatches

    parts: dict[str, Batches] = {}
    for name in roles_of(data):
        changes = augmentation(recipe.augmentation if name == "train" else "none", flip=None if recipe.flip else False)
        parts[name] = ImageBatches(
            data.of_split(name),
            backbone.preprocessing,
            augmentation=changes,
            seed=recipe.plan.seed,
            workers=recipe.workers,
            on_bad_image=recipe.on_bad_image,
        )
    return Prepared(data, backbone, backbone.width, parts)


def on_raw_features(head: nn.Module, prepared: Prepared) -> nn.Module:
    """The head, changed in place so that it takes features as the backbone gives them, not centred and scaled.

    A hidden layer takes the centre into its bias. A linear head keeps it, so that its bias stays the learnt one.
    """
    if prepared.mean is None or prepared.scale is None:
        return head
    if isinstance(head, TwoHeads) and head.layer is None:
        for part in (head.single, head.multi):
            on_raw_features(part, prepared)
    with torch.no_grad():
        if isinstance(head, LinearHead):  # a cosine head took the features as they are
            head.weight.div_(prepared.scale)
            head.centre = prepared.mean.to(head.weight)
        elif isinstance(head, HiddenHead | TwoHeads) and head.layer is not None:
            weight, bias = head.layer.weight, head.layer.bias
            shift = (weight.double() * (prepared.mean / prepared.scale).double()).sum(1)
            bias.sub_(shift.to(bias.dtype))
            weight.div_(prepared.scale)
    return head


def _targets(data: Dataset) -> SparseTargets:
    assert data.targets is not None
    return data.targets


def roles_of(data: Dataset) -> list[str]:
    """The splits that have rows, in the order in which they are used."""
    return [name for name in ROLES if name in data.split_sizes()]


def _splits(data: Dataset) -> np.ndarray[Any, Any]:
    assert data.splits is not None
    return data.splits
