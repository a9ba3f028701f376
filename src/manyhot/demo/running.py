"""The demonstration from its first picture to its last word."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from manyhot.backbones.digits import DIGITS
from manyhot.data import read_data
from manyhot.data.scenes import LABEL_NAMES
from manyhot.demo.drawing import draw_readings, draw_scenes
from manyhot.demo.pictures_on_disk import write_scenes
from manyhot.demo.readings import read_all
from manyhot.demo.tables import EXPLANATION, decisions_table, point, readings_table
from manyhot.engine import Progress, Silent
from manyhot.labels import Labels
from manyhot.presets import ALL_LOSSES
from manyhot.report import save_png
from manyhot.report.page.trying import try_report
from manyhot.training import Comparison, Recipe, Run, compare
from manyhot.training.comparing import slug
from manyhot.training.run import point_to_last

if TYPE_CHECKING:
    from rich.console import Console

LOSSES = ("BCE", "focal", "ASL", "SPA", "SPA + LPR", "quasibinary", "two-way", "softmax")
CHOSEN = "SPA + LPR"


def run_demo(folder: Path, console: Console, *, samples: int = 6000, epochs: int = 20, seed: int = 0) -> Comparison:
    """Writes scenes, trains with several losses, calibrates, compares, decides, draws, and says what to do next.

    Args:
        folder: Where everything goes.
        console: Where it is told.
        samples: Scenes to train on; a quarter more than that are held out.
        epochs: Passes over the scenes for each loss.
        seed: Of scenes and networks.
    """
    start = time.perf_counter()
    torch.set_num_threads(1)  # The matrices are small: threads would mostly wait for each other.
    console.print(f"Drawing {samples:,} scenes to train on, {samples // 4:,} to calibrate on, {samples:,} to judge.")
    table = write_scenes(folder / "scenes", samples=samples, seed=seed)
    data = read_data(table, labels=Labels(LABEL_NAMES))
    for note in data.notes:
        console.print(f"  {note}", style="dim", markup=False, soft_wrap=True)
    console.print(f"Training a small network with each of {len(LOSSES)} losses.")
    comparison = compare(
        data,
        {name: ALL_LOSSES[name] for name in LOSSES},
        recipe(epochs=epochs, seed=seed),
        folder=folder / "runs",
        source={"paths": [str(table)]},
        progress=announcer(console),
        overwrite=True,
    )
    readings = read_all(comparison)
    console.print(readings_table(readings))
    console.print(EXPLANATION)
    console.print(point(readings))
    console.print(decisions_table(CHOSEN, readings[CHOSEN]))
    save_png(draw_readings(readings), folder / "reliability.png")
    save_png(draw_scenes(readings[CHOSEN], folder / "scenes"), folder / "scenes.png")
    point_to_last(folder / "runs" / slug(CHOSEN))
    try_report(Run(folder / "runs" / slug(CHOSEN)), lambda sentence: console.print(sentence, markup=False))
    console.print(f"\nDone in {time.perf_counter() - start:.0f} s.", highlight=False)
    return comparison


def recipe(*, epochs: int, seed: int) -> Recipe:
    """How the networks of the demonstration are trained: one hidden layer on frozen features of digits."""
    settings = {
        "backbone": DIGITS,
        "hidden": 128,
        "dropout": 0.5,
        "epochs": epochs,
        "batch_size": 256,
        "lr": 0.01,
        "weight_decay": 1.0,
        "schedule": "one-cycle",
        "seed": seed,
        "workers": 0,
        "cache": "none",
        "flip": False,
        "accelerator": "cpu",
        "devices": 1,
    }
    return Recipe.build(settings)


def announcer(console: Console) -> Callable[[str], Progress]:
    """Says which loss is trained, with a bar in a terminal."""
    from manyhot.engine import Bar

    begun = 0

    def announce(name: str) -> Progress:
        nonlocal begun
        begun += 1
        console.print(f"  {begun}/{len(LOSSES)} {name}", highlight=False)
        return Bar(console) if console.is_terminal else Silent()

    return announce
