"""`manyhot export`: a trained classifier as one file for other programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from manyhot.cli import options
from manyhot.cli.options import JsonOption, OverwriteOption
from manyhot.cli.run_folder import RunArgument, open_run
from manyhot.refusal import refusal

FileOption = Annotated[Path | None, typer.Option("--out", "-o", help="The file to write (default: RUN/model.onnx).")]
CheckOption = Annotated[
    bool, typer.Option("--check/--no-check", help="Run the file on random samples, and write it only if it agrees.")
]
OpsetOption = Annotated[int, typer.Option("--opset", min=18, help="Version of the ONNX operators.")]
NamesOption = Annotated[
    bool,
    typer.Option(
        "--label-names/--no-label-names",
        help="Give the names of the labels as an output; some runtimes take no texts. The metadata has them too.",
    ),
]


def export(
    run: RunArgument,
    out: FileOption = None,
    check: CheckOption = True,
    opset: OpsetOption = 18,
    label_names: NamesOption = True,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a run as one ONNX file: pictures of any size in, probabilities and decisions out.

    Resizing, network, calibration, rule and label names are all inside.

    [b]Examples[/b]

    manyhot export runs/photos

    manyhot export runs/photos -o tagger.onnx --overwrite

    manyhot export runs/photos -o tagger.onnx --no-label-names --opset 20
    """
    path = out or run / "model.onnx"
    if path.suffix.lower() != ".onnx":
        raise refusal("--out", "manyhot export", "end with .onnx", repr(str(path)), "Rename it.")
    options.free_path(path, overwrite=overwrite, option="--out")
    tell = options.console()
    classifier = open_run(run, "manyhot export")
    with tell.status("Exporting and checking ..." if check else "Exporting ..."):
        classifier.export(path, opset=opset, check=check, label_names=label_names)
    size = path.stat().st_size
    if as_json:
        typer.echo(json.dumps({"written": str(path), "bytes": size, "checked": check}))
        return
    done = "checked against the classifier" if check else "not checked"
    typer.echo(f"Wrote {path} ({size / 1e6:.1f} MB, {done}).")
