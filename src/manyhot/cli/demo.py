"""`manyhot demo`: everything at once, on scenes of handwritten digits that come with scikit-learn."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

OutOption = Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Where pictures and runs go.")]
SamplesOption = Annotated[
    int, typer.Option("--samples", min=100, help="Scenes to train on; a quarter more than that are held out.")
]
EpochsOption = Annotated[int, typer.Option("--epochs", min=1, help="Passes over the scenes for each loss.")]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Seed of scenes and networks.")]


def demo(
    out: OutOption = Path("demo-output"), samples: SamplesOption = 6000, epochs: EpochsOption = 20, seed: SeedOption = 0
) -> None:
    """Train, calibrate, compare and decide on scenes of handwritten digits; downloads nothing, takes a minute.

    [b]Examples[/b]

    manyhot demo

    manyhot demo --samples 2000 --seed 1 -o /tmp/demo
    """
    from rich.console import Console

    from manyhot.demo import run_demo

    console = Console()
    run_demo(out, console, samples=samples, epochs=epochs, seed=seed)
    console.print(what_next(out), highlight=False, markup=False, soft_wrap=True)


def what_next(out: Path) -> str:
    """What was written, and what to try with it."""
    page = out / "runs" / "last" / "report.html"
    report = "  runs/last/report.html  all about one of them, on one page\n" if page.is_file() else ""
    return (
        f"In {out}:\n"
        "  reliability.png      what was promised, and what came true\n"
        "  scenes.png           scenes, their labels and their probabilities\n"
        "  scenes/scenes.csv    the pictures and their labels, as your own data could come\n"
        "  runs/                a run folder for each loss, and comparison.json\n"
        f"{report}"
        "Try next:\n"
        f"  {command()} predict {out}/runs/last {out}/scenes/test/00000.png {out}/scenes/test/00001.png\n"
        f"  {command()} evaluate {out}/runs/last/predictions.parquet --split test --by-label\n"
        f'  {command()} decide {out}/runs/last/predictions.parquet --rule "AverageK(1.5)" --fit-on val\n'
        f"  {command()} inspect {out}/scenes/scenes.csv\n"
        f"  {command()} export {out}/runs/last\n"
        f"  {command()} train YOUR_PHOTOS.csv"
    )


def command() -> str:
    """How to call the command line from here."""
    beside = Path(sys.executable).with_name("manyhot")
    return os.path.relpath(beside) if beside.exists() else "manyhot"
