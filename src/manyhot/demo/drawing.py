"""The pictures of the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhot.demo.readings import BINS, MISREAD, Reading
from manyhot.report import draw_reliability
from manyhot.report.looks import LIGHT, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

THERE, NOT_THERE = LIGHT.colours[0], "#c9d8e3"


def draw_readings(readings: dict[str, Reading]) -> Figure:
    """Promised against observed frequency of each loss, by the way its scores are read."""
    shown = {name: readings[name] for name in ("BCE", *MISREAD)}
    curves = {
        name: {way: (probs, reading.targets) for way, probs in reading.probs.items()} for name, reading in shown.items()
    }
    return draw_reliability(curves, bins=BINS)


def draw_scenes(reading: Reading, folder: Path) -> Figure:
    """Test scenes with few and many labels, and the probability of each label as a bar."""
    names, probs, paths = reading.test.labels.names, reading.test.probabilities(), reading.test.paths
    assert paths is not None
    counts: list[int] = reading.targets.sum(1).tolist()
    chosen: list[int] = []
    for wanted in (0, 0, 1, 1, 2, 2, 3, 4):
        chosen.append(min(set(range(len(counts))) - set(chosen), key=lambda row: (abs(counts[row] - wanted), row)))
    figure = new_figure(12, 4.7)
    figure.suptitle("Probability of each label (dark: in the scene, light: not in it)")
    axes = figure.subplots(2, 8, width_ratios=[1.6, 1] * 4)
    for row, (picture, bars) in zip(chosen, axes.reshape(-1, 2), strict=True):
        present = reading.targets[row].bool().tolist()
        draw_scene(picture, folder / paths[row], [n for n, is_there in zip(names, present, strict=True) if is_there])
        draw_bars(bars, names, probs[row].tolist(), present)
    return figure


def draw_scene(axis: Any, path: Path, labels: list[str]) -> None:
    """One scene, with its labels above it."""
    from PIL import Image

    axis.imshow(Image.open(path), cmap="gray_r", vmin=0, vmax=255)
    axis.set(xticks=[], yticks=[])
    axis.set_title(", ".join(labels) or "no label", fontsize=10)


def draw_bars(axis: Any, names: list[str], probs: list[float], present: list[bool]) -> None:
    """The probability of each label."""
    axis.barh(range(len(names)), probs, color=[THERE if is_there else NOT_THERE for is_there in present])
    axis.set(xlim=(0, 1), xticks=(0, 0.5, 1), xticklabels=("0", "0.5", "1"))
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.tick_params(labelsize=8, length=0)
