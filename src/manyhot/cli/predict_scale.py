"""`manyhot predict --engine ray`: the options, and what is said about a folder of parts."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyhot.cli import options
from manyhot.cli.predict_telling import OWNER, advancing, left_out_words, nothing_read, tell_rest, tell_unreadable
from manyhot.cli.predictions_file import WRITERS
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from rich.console import Console

    from manyhot.data import Dataset
    from manyhot.decide import Rule
    from manyhot.scale import PartsWritten


class Engine(StrEnum):
    """What does the work."""

    local = "local"
    ray = "ray"


EngineOption = Annotated[
    Engine,
    typer.Option(
        "--engine", help="ray scores on all cores or GPUs, here or on a cluster, into a folder; what is there stays."
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", help="A cluster of Ray, such as auto; all its machines must see the same files."),
]


def check_engine(engine: Engine, out: Path | None, address: str | None) -> None:
    """Refuses options that do not fit the engine, before anything is loaded."""
    if engine is Engine.local:
        if address is not None:
            raise refusal("--address", OWNER, "come with --engine ray", repr(address), "Add it, or leave this out.")
        return
    remedy = "Pass -o scores, for example."
    if out is None:
        raise refusal("--out", OWNER, "name a folder for --engine ray", "none", remedy)
    if out.suffix.lower() in WRITERS or out.is_file():
        raise refusal("--out", OWNER, "name a folder for --engine ray", f"{str(out)!r}, a file", remedy)


def predict_into_folder(
    run: Path,
    dataset: Dataset,
    out: Path,
    *,
    rule: Rule | None,
    batch_size: int,
    workers: int | None,
    device: str | None,
    address: str | None,
    on_bad_image: str,
    overwrite: bool,
    as_json: bool,
    tell: Console,
) -> None:
    """Scores what is not in the folder yet, and says what is there then."""
    from manyhot.scale import predict_with_ray

    # How many there are is told when it is known how many of them are new.
    options.tell_notes([note for note in dataset.notes if not note.endswith("to predict.")], tell)

    def watch(new: int) -> AbstractContextManager[Callable[[int], None]]:
        tell.print(f"{new:,} of {len(dataset):,} images are to be scored.", style="dim")
        return advancing(new, tell=tell)

    written = predict_with_ray(
        run,
        dataset,
        out,
        rule=rule,
        batch_size=batch_size,
        workers=workers,
        device=device,
        address=address,
        on_bad_image=on_bad_image,
        overwrite=overwrite,
        watch=watch,
    )
    left_out = tell_unreadable(written.left_out, 0, tell)
    tell_rest(left_out, tell)
    if written.rows == 0:
        raise nothing_read(left_out)
    typer.echo(summary(written, out, as_json=as_json))


def summary(written: PartsWritten, out: Path, *, as_json: bool) -> str:
    """What was written, and what the folder holds with it."""
    left_out = len(written.left_out)
    if as_json:
        return json.dumps({"written": str(out), "rows": written.rows, "new": written.scored, "left out": left_out})
    there = "" if written.scored == written.rows else f", which has {written.rows:,} now"
    return f"Wrote {written.scored:,} rows to {out}{there}{left_out_words(left_out)}."
