"""Datasets: reading samples and their targets."""

from manyhot.data.arrays import from_arrays
from manyhot.data.corrections import read_corrections
from manyhot.data.dataset import Dataset
from manyhot.data.digits import Scenes, digit_scenes, template_features
from manyhot.data.read import read_data, read_images
from manyhot.data.sources import Files, ImageSource, ParquetImages, Pixels, TarMembers
from manyhot.data.targets import SparseTargets

__all__ = [
    "Dataset",
    "Files",
    "ImageSource",
    "ParquetImages",
    "Pixels",
    "Scenes",
    "SparseTargets",
    "TarMembers",
    "digit_scenes",
    "from_arrays",
    "read_corrections",
    "read_data",
    "read_images",
    "template_features",
]
