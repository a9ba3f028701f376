"""Whatever people want to have classified, as a data set."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from torch import Tensor

from manyhot.checks import kind_of
from manyhot.data import Dataset, Pixels, read_images
from manyhot.labels import Labels
from manyhot.refusal import Refusal, refusal

Array = np.ndarray[Any, Any]
OWNER = "Classifier.predict"


def as_images(samples: Any) -> Dataset:
    """A data set of images.

    Args:
        samples: A data set, a path or several (images, folders, patterns, tars, tables), a picture or several, as
            Pillow has them, as arrays (H, W), (H, W, C) or (N, H, W, C) or as tensors (3, H, W) or (N, 3, H, W).
    """
    if isinstance(samples, Dataset):
        if samples.images is None:
            remedy = "Pass images, or use a classifier of features."
            raise refusal("samples", OWNER, "hold images", "a data set of features", remedy)
        return samples
    if is_path(samples) or (isinstance(samples, list | tuple) and samples and all(map(is_path, samples))):
        return read_images(samples)
    pictures = [pixels for sample in _listed(samples) for pixels in pixels_of(sample)]
    held = np.empty(len(pictures), dtype=object)
    held[:] = pictures
    return Dataset(Labels([]), None, [str(row) for row in range(len(held))], images=Pixels(held))


def as_features(samples: Any, width: int) -> Dataset:
    """A data set of features (N, D)."""
    if isinstance(samples, Dataset):
        if samples.features is None:
            remedy = "Extract features with the backbone that the head was trained on."
            raise refusal("samples", OWNER, "hold features", "a data set of images", remedy)
        dataset, features = samples, samples.features
    else:
        features = _as_matrix(samples)
        dataset = Dataset(Labels([]), None, [str(row) for row in range(len(features))], features=features)
    if features.ndim != 2 or features.shape[1] != width:
        rule = f"be features (N, D) with D = {width}"
        raise refusal("samples", OWNER, rule, str(features.shape), "Pass one row a sample.")
    return dataset


def is_path(sample: object) -> bool:
    """Whether a sample is the name of a file."""
    return isinstance(sample, str | os.PathLike)


def pixels_of(sample: Any) -> list[Array]:
    """The pictures of one sample as arrays (H, W) or (H, W, C) of uint8."""
    if hasattr(sample, "getexif"):
        return [_pixels_of_pillow(sample)]
    if isinstance(sample, Tensor):
        pixels = sample.detach().cpu().numpy()
        if pixels.dtype != np.uint8 or pixels.ndim not in (3, 4) or pixels.shape[-3] not in (1, 3):
            raise _not_pixels(sample, "be images (3, H, W) or (N, 3, H, W) of uint8 where they are tensors")
        return list(np.moveaxis(pixels if pixels.ndim == 4 else pixels[None], 1, -1))
    if isinstance(sample, np.ndarray):
        if sample.dtype != np.uint8 or sample.ndim not in (2, 3, 4):
            raise _not_pixels(sample, "be images (H, W), (H, W, C) or (N, H, W, C) of uint8 where they are arrays")
        many = sample.ndim == 4 or (sample.ndim == 3 and sample.shape[2] > 4)
        return list(sample) if many else [sample]
    raise _not_pixels(sample, "be paths, pictures, a data set, or arrays or tensors of pixels")


def _listed(samples: Any) -> Sequence[Any]:
    return samples if isinstance(samples, list | tuple) else [samples]


def _pixels_of_pillow(picture: Any) -> Array:
    from PIL import ImageOps

    upright = ImageOps.exif_transpose(picture)
    if upright.mode not in ("L", "LA", "RGB", "RGBA", "I;16"):
        upright = upright.convert("RGBA" if upright.has_transparency_data else "RGB")
    return np.asarray(upright)


def _as_matrix(samples: Any) -> Array:
    try:
        return np.asarray(samples.detach().cpu() if isinstance(samples, Tensor) else samples, dtype=np.float32)
    except (TypeError, ValueError):
        remedy = "Pass a matrix of numbers: this classifier has no backbone to read images with."
        raise refusal("samples", OWNER, "be features (N, D)", kind_of(samples), remedy) from None


def _not_pixels(sample: object, rule: str) -> Refusal:
    got = kind_of(sample)
    if isinstance(sample, np.ndarray | Tensor):
        got = f"{tuple(sample.shape)} of {str(sample.dtype).removeprefix('torch.')}"
    return refusal("samples", OWNER, rule, got, "Scale values to 0 to 255 and convert them to uint8, or pass paths.")
