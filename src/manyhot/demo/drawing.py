"""The pictures of the demonstration."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from manyhot.demo.readings import BINS, CALIBRATED, MISREAD, OWN, PLAIN, Reading, calibration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DARK, LIGHT = "#1f5f8b", "#c9d8e3"
LOOKS = {OWN: ("#1f5f8b", "o", "-"), PLAIN: ("#c2571a", "s", "--"), CALIBRATED: ("#3d7a3d", "^", ":")}
FEWEST_CELLS = 20  # A point of fewer cells says more about chance than about the loss.


def draw_reliability(readings: dict[str, Reading]) -> Figure:
    """Promised against observed frequency, and how many cells each point stands for."""
    from matplotlib.figure import Figure

    names = ("BCE", *MISREAD)
    figure = Figure(figsize=(12, 4.7), layout="constrained")
    axes = figure.subplots(2, len(names), sharex=True, sharey="row", height_ratios=(3, 1))
    for name, (top, bottom) in zip(names, axes.T, strict=True):
        draw_curves(top, bottom, readings[name])
        top.set(title=name, xlim=(0, 1), ylim=(0, 1), aspect="equal")
        small = {"fontsize": 8, "title_fontsize": 8, "handlelength": 1.6}
        top.legend(loc="upper left", title="calibration error", alignment="left", frameon=False, **small)
        bottom.set(yscale="log", xlabel="promised probability")
    axes[0, 0].set_ylabel("share that came true")
    axes[1, 0].set(ylabel="cells", yticks=(10, 1_000, 100_000), yticklabels=("10", "1,000", "100,000"))
    return figure


def draw_curves(top: Any, bottom: Any, reading: Reading) -> None:
    """The curves of one loss, one for each way to read its scores."""
    top.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
    for way, probs in reading.probs.items():
        color, marker, line = LOOKS[way]
        outcome = calibration(probs, reading.targets)
        cells, promised, came_true = (outcome.details[key] for key in ("cells", "mean_prob", "share_present"))
        shown = cells >= FEWEST_CELLS
        label = f"{way}: {100 * outcome.value:.1f} %"
        top.plot(promised[shown], came_true[shown], color=color, marker=marker, ls=line, ms=5, label=label, zorder=3)
        bottom.stairs(cells, torch.linspace(0, 1, BINS + 1), color=color, ls=line, lw=1.5)


def draw_scenes(reading: Reading, folder: Path) -> Figure:
    """Test scenes with few and many labels, and the probability of each label as a bar."""
    from matplotlib.figure import Figure

    names, probs, paths = reading.test.labels.names, reading.test.probabilities(), reading.test.paths
    assert paths is not None
    counts: list[int] = reading.targets.sum(1).tolist()
    chosen: list[int] = []
    for wanted in (0, 0, 1, 1, 2, 2, 3, 4):
        chosen.append(min(set(range(len(counts))) - set(chosen), key=lambda row: (abs(counts[row] - wanted), row)))
    figure = Figure(figsize=(12, 4.7), layout="constrained")
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
    axis.barh(range(len(names)), probs, color=[DARK if is_there else LIGHT for is_there in present])
    axis.set(xlim=(0, 1), xticks=(0, 0.5, 1), xticklabels=("0", "0.5", "1"))
    axis.set_yticks(range(len(names)), names)
    axis.invert_yaxis()
    axis.tick_params(labelsize=8, length=0)
