"""What to train and how: the options that `train` and `compare` share, and how they become a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli import options
from manyhot.presets import CALIBRATOR, RULE
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from manyhot.data.dataset import Dataset
    from manyhot.training import Recipe


class Tune(StrEnum):
    """What is trained."""

    head = "head"
    all = "all"


class BadImages(StrEnum):
    """What happens to images that cannot be read."""

    skip = "skip"
    fail = "fail"


RunOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FOLDER", help="The run folder (default: runs/ and the name of DATA)."),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", metavar="FILE", help="YAML file of settings, such as the config.yaml of a run."),
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any setting of the recipe or the plan, such as lr=0.01. Repeat it."
    ),
]
BackboneOption = Annotated[
    str | None,
    typer.Option("--backbone", help="Any model of timm, or efficientnet_lite0, which needs no download (default)."),
]
SizeOption = Annotated[int | None, typer.Option("--size", min=8, help="Side of the pictures that the backbone sees.")]
TuneOption = Annotated[
    Tune | None,
    typer.Option("--tune", help="Train the head on frozen features (default; a CPU is enough), or all of the network."),
]
EpochsOption = Annotated[int | None, typer.Option("--epochs", min=1, help="Passes over the data.")]
BatchOption = Annotated[int | None, typer.Option("--batch-size", min=1, help="Rows of one step.")]
RateOption = Annotated[float | None, typer.Option("--lr", help="The highest learning rate.")]
CalibratorOption = Annotated[
    str | None, typer.Option("--calibrator", help=f"As in Python: {CALIBRATOR} by default, or none.")
]
RuleOption = Annotated[str | None, typer.Option("--rule", help=f"As in Python: {RULE} by default, or none.")]
BadImageOption = Annotated[
    BadImages | None, typer.Option("--on-bad-image", help="Skip images that cannot be read, and name them, or stop.")
]
WorkersOption = Annotated[int | None, typer.Option("--workers", min=0, help="Processes that read images.")]
SeedOption = Annotated[int | None, typer.Option("--seed", help="Seed of everything that is drawn.")]
NoReportOption = Annotated[bool, typer.Option("--no-report", help="Write no report.html into the run folder.")]


# Options that are settings of the recipe or its plan, and options that tell how data are read.
TYPED = (
    "loss",
    "backbone",
    "size",
    "tune",
    "epochs",
    "batch_size",
    "lr",
    "calibrator",
    "rule",
    "seed",
    "workers",
    "on_bad_image",
)
READING = ("layout", "path_column", "labels_column", "split_column", "separator", "root", "unlisted")


def build_recipe(
    config: Path | None, overrides: list[str] | None, given: dict[str, Any]
) -> tuple[Recipe, dict[str, Any]]:
    """The recipe of a file, then of --set, then of the options; and how the file says that data were read."""
    from manyhot.training.recipe import Recipe, parse_overrides, read_settings

    settings = read_settings(config) if config is not None else {}
    source = settings.pop("data", {})
    settings |= parse_overrides(overrides or [])
    options = {name: given[name] for name in TYPED if given.get(name) is not None}
    settings |= {name: value.value if isinstance(value, StrEnum) else value for name, value in options.items()}
    return Recipe.build(settings), dict(source or {})


def describe_source(data: list[str], given: dict[str, Any]) -> dict[str, Any]:
    """How data are read, for the settings of a run: what was typed, and nothing that was left out.

    Paths and patterns are made absolute, because a run may be resumed from another folder.
    """
    paths = [str(Path(path).absolute()) if Path(path).exists() or set(path) & set("*?[{") else path for path in data]
    found: dict[str, Any] = {"paths": paths}
    found |= {name: str(given[name]) for name in READING if given[name] is not None}
    if given["root"] is not None:
        found["root"] = str(Path(given["root"]).absolute())
    return add_corrections(found, given)


def add_corrections(source: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
    """How data are read, with the corrections that were typed behind those that were there."""
    # Without the links of folders: `runs/last` leads elsewhere as soon as this run is done.
    from manyhot.data.pairing import place_of

    files = [*source.get("corrections", ()), *map(place_of, given.get("corrections") or ())]
    return source | {"corrections": list(dict.fromkeys(files))} if files else source


def read_source(source: dict[str, Any], verb: str, tell: Console, recipe: Recipe) -> Dataset:
    """The data set that was described.

    Splits that are missing are drawn before labels are corrected, because the draw depends on the labels: an image
    that was held out stays so when somebody corrects it.
    """
    from manyhot.cli.data_options import Unlisted, correct, read
    from manyhot.training.splitting import with_all_splits

    if not source.get("paths"):
        remedy = f"Name a table or a folder, such as: manyhot {verb} photos.csv."
        raise refusal("DATA", f"manyhot {verb}", "be given", "nothing", remedy)
    reading = {name: source.get(name) for name in READING}
    reading["root"] = Path(reading["root"]) if reading["root"] else None
    reading["unlisted"] = Unlisted(reading["unlisted"]) if reading["unlisted"] else None
    dataset = read(source["paths"], **reading, tell=tell)
    if not source.get("corrections"):
        return dataset
    told = len(dataset.notes)
    dataset = with_all_splits(dataset, recipe)
    options.tell_notes(dataset.notes[told:], tell)
    return correct(dataset, source["corrections"], tell)


@contextmanager
def extraction_bar(total: int, tell: Console) -> Iterator[Callable[[int], None]]:
    """Yields what is called with the number of images that are done: a bar in a terminal, few lines elsewhere."""
    import time

    from rich.progress import Progress

    begun = said = time.monotonic()
    done = 0
    with Progress(console=tell, transient=True, disable=not tell.is_terminal) as progress:
        task = progress.add_task("Looking at the images", total=total)

        def advance(count: int) -> None:
            nonlocal done, said
            done += count
            progress.advance(task, count)
            now = time.monotonic()
            if not tell.is_terminal and now - said > 30 and done < total:
                said, left = now, (now - begun) / done * (total - done)
                tell.print(f"looked at {done:,} of {total:,} images; {left:.0f} s left")

        yield advance
