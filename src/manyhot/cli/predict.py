"""`manyhot predict` and `export`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from manyhot.cli.console import error_console, print_json, print_notes, progress
from manyhot.cli.options import JsonOption, OverwriteOption, RunArgument, check_output_path, open_run
from manyhot.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from manyhot.classifier import Classifier
    from manyhot.decide import Rule
    from manyhot.predictions import Predictions

OWNER = "manyhot predict"
MAX_NAMED = 10  # images named that could not be read
MAX_PRINTED = 30  # rows of the table on the screen


def predict(
    run: RunArgument,
    images: Annotated[
        list[str],
        typer.Argument(metavar="IMAGES...", help="Images, folders, patterns, tars, or a table with a column of paths."),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="Write all of it: .parquet for manyhot, .csv for people, .json for programs; a folder with "
            "--engine ray.",
        ),
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option("--rule", "-r", help="Another rule than that of the run; learnt on its split val if need be."),
    ] = None,
    top: Annotated[int, typer.Option(min=0, help="How many labels to show besides those given.")] = 3,
    on_bad_image: Annotated[
        Literal["skip", "fail"], typer.Option(help="What to do about files that are no images.")
    ] = "skip",
    batch_size: Annotated[int, typer.Option(min=1, help="How many images the network sees at once.")] = 64,
    workers: Annotated[
        int | None, typer.Option(min=0, help="Processes that read images; with ray, that score.")
    ] = None,
    device: Annotated[str | None, typer.Option(help="Where to compute: cpu, cuda, mps.")] = None,
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="ray scores on all cores or GPUs, here or on a cluster, into a folder; what is there stays."),
    ] = "local",
    address: Annotated[
        str | None, typer.Option(help="A cluster of Ray, such as auto; all its machines must see the same files.")
    ] = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Predict the labels of images, with their probabilities.

    [b]Examples[/b]

    manyhot predict runs/photos cat.jpg dog.jpg

    manyhot predict runs/photos holiday/ -o holiday.parquet

    manyhot predict runs/photos "holiday/*.jpg" --rule "AverageK(3)" --json

    manyhot predict runs/photos new.csv -o tagged.csv --on-bad-image fail

    manyhot predict runs/photos millions/ -o scores --engine ray
    """
    check_out(out, engine, address, overwrite=overwrite)
    classifier = open_run(run, OWNER)
    console = error_console()
    if rule is not None:
        classifier.rule = load_rule(rule, classifier, run, console)
    if out is not None and engine == "ray":
        from manyhot.scale import predict_with_ray

        dataset = classifier.dataset(images)
        # The last note says how many images there are, which is printed once it is known how many of them are new.
        print_notes(dataset.notes[:-1], console)

        def watch(new: int) -> AbstractContextManager[Callable[[int], None]]:
            console.print(f"{new:,} of {len(dataset):,} images are to be scored.", style="dim")
            return progress("Predicting", new, console)

        parts_written = predict_with_ray(
            run,
            dataset,
            out,
            rule=classifier.rule,
            batch_size=batch_size,
            workers=workers,
            device=device,
            address=address,
            on_bad_image=on_bad_image,
            overwrite=overwrite,
            watch=watch,
        )
        left_out = print_unreadable(parts_written.left_out, 0, console)
        check_rows(parts_written.rows, left_out, console)
        print_written(out, parts_written.rows, left_out, new=parts_written.scored, as_json=as_json)
        return
    check_probs(classifier, out)
    dataset, device = classifier.dataset(images), check_device(device)
    with progress("Predicting", len(dataset), console) as advance:
        parts = classifier.predict_parts(
            dataset, batch_size=batch_size, workers=workers, on_bad_image=on_bad_image, device=device, advance=advance
        )
        parts_to_show, rows, left_out = write_parts(
            parts, out, classifier, top=top, show_all=out is None and as_json, console=console
        )
    if out is not None:
        print_written(out, rows, left_out, as_json=as_json)
    elif as_json:
        typer.echo("[\n" + ",\n".join(line for part in parts_to_show for line in answer_lines(part, top=top)) + "\n]")
    else:
        print_answers(parts_to_show[0].slice(0, MAX_PRINTED), rows, top=top)


def check_out(out: Path | None, engine: str, address: str | None, *, overwrite: bool) -> None:
    """Rejects options that do not fit the engine, and files that may not be written, before anything is loaded."""
    if engine == "ray":
        if out is None or out.suffix.lower() in WRITERS or out.is_file():
            got = "none" if out is None else f"{str(out)!r}, a file"
            raise InputError("--out", OWNER, "name a folder for --engine ray", got, "Pass -o scores, for example.")
        return
    if address is not None:
        raise InputError("--address", OWNER, "come with --engine ray", repr(address), "Add it, or leave this out.")
    if out is not None:
        check_output_path(out, "--out", OWNER, overwrite=overwrite, suffixes=WRITERS, example="predictions.parquet")


def load_rule(text: str, classifier: Classifier, run: Path, console: Console) -> Rule:
    """The rule of --rule, fitted on what the run kept of its split val if it is not fitted."""
    from manyhot.cli.tables import build_or_load
    from manyhot.decide import Rule
    from manyhot.predictions import open_predictions

    rule: Rule = build_or_load(text, Rule, argument="--rule", owner=OWNER)
    if bool(rule.fitted):
        return rule
    path = run / "predictions.parquet"
    table = open_predictions(path) if path.is_file() else None
    if table is None or "val" not in table.split_sizes():
        hint = "Fit it on held-out predictions: manyhot decide ... --fit-on val --save rule.json."
        raise InputError("--rule", OWNER, "be fitted for a run without predictions of 'val'", repr(rule), hint)
    held_out = table.read(split="val", kinds=("scores", "targets"))
    assert held_out.scores is not None
    values = classifier.decide(held_out.scores)
    rule.fit(values.scores if values.probs is None else values.rule_values(), held_out.targets)
    console.print(f"Fitted {rule!r} on the {len(held_out):,} rows of the split 'val' of {run}.", style="dim")
    return rule


def check_probs(classifier: Classifier, out: Path | None) -> None:
    """Rejects a run whose scores only rank, if probabilities are to be shown, before the work begins."""
    if classifier.gives_probs or (out is not None and out.suffix.lower() == ".parquet"):
        return
    hint = "Write the scores with -o predictions.parquet."
    got = f"one of scores that only rank, {type(classifier.link).__name__}"
    raise InputError("RUN", OWNER, "have a calibrator to give probabilities", got, hint)


def check_device(device: str | None) -> str | None:
    """The device to compute on: an accelerator if there is one, unless another is named."""
    import torch

    if device is None:
        return "cuda" if torch.cuda.is_available() else None
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        got = f"{device!r} ({str(error).splitlines()[0].rstrip('.')})"
        raise InputError("--device", OWNER, "be one that this machine has", got, "Pass cpu, or leave it out.") from None
    return device


def write_parts(
    parts: Iterator[Predictions],
    out: Path | None,
    classifier: Classifier,
    *,
    top: int,
    show_all: bool,
    console: Console,
) -> tuple[list[Predictions], int, int]:
    """Writes the parts to the file, if there is one: those to show, how many rows there are, and how many are not."""
    parts_to_show: list[Predictions] = []
    rows = left_out = 0
    # The file is there when the block ends well.
    with nullcontext() if out is None else WRITERS[out.suffix.lower()](out, classifier, top) as write:
        for part in parts:
            print_notes(part.notes, console)
            left_out = print_unreadable(part.unreadable, left_out, console)
            if write is not None:
                write(part)
            if show_all or not parts_to_show:
                parts_to_show.append(part)
            rows += len(part)
        check_rows(rows, left_out, console)
    return parts_to_show, rows, left_out


def print_unreadable(unreadable: Mapping[str, str], printed: int, console: Console) -> int:
    """Prints the first images that could not be read; returns how many there were so far."""
    from manyhot.formatting import printable

    for name, reason in list(unreadable.items())[: max(MAX_NAMED - printed, 0)]:
        console.print(printable(f"Left out {name}: {reason}."), style="yellow")
    return printed + len(unreadable)


def check_rows(rows: int, left_out: int, console: Console) -> None:
    """Prints how many more images could not be read; raises an error where that were all of them."""
    if left_out > MAX_NAMED:
        console.print(f"... and {left_out - MAX_NAMED:,} more.")
    if rows == 0:
        got = f"{left_out:,} that cannot be read" if left_out else "none"
        raise InputError("IMAGES", OWNER, "lead to images", got, "Check the files.")


def print_written(out: Path, rows: int, left_out: int, *, new: int | None = None, as_json: bool) -> None:
    """Prints what was written, and how many rows a folder holds now."""
    from manyhot.formatting import count_noun

    if as_json:
        counts = {"rows": rows} if new is None else {"rows": rows, "new": new}
        print_json({"written": str(out), **counts, "left out": left_out})
        return
    total = "" if new in (None, rows) else f", which has {rows:,} now"
    skipped = f", and left out {count_noun(left_out, 'image')}" if left_out else ""
    typer.echo(f"Wrote {rows if new is None else new:,} rows to {out}{total}{skipped}.")


def print_answers(table: Predictions, rows: int, *, top: int) -> None:
    """Prints the answers as a table."""
    from rich.console import Console
    from rich.table import Table

    from manyhot.classifier.classifier import build_answers
    from manyhot.formatting import format_prob, printable

    rich_table = Table()
    for heading in ("image", "labels", "not given"):
        rich_table.add_column(heading, overflow="fold")  # a path that is cut off finds no file
    for answer in build_answers(table, top=top):
        label_texts = {name: f"{printable(name)} {format_prob(prob)}" for name, prob in answer.probs.items()}
        decided = ", ".join(label_texts[name] for name in answer.labels)
        if answer.abstain:
            decided = f"abstained ({decided or 'none of these'}?)"
        others = ", ".join(text for name, text in label_texts.items() if name not in answer.labels)
        rich_table.add_row(printable(answer.path), decided or "none of these", others)
    Console(markup=False, highlight=False).print(rich_table)
    if rows > len(table):
        typer.echo(f"and {rows - len(table):,} more; -o predictions.parquet writes all of them.")


Write = Callable[["Predictions"], None]


@contextmanager
def parquet_writer(path: Path, classifier: Classifier, top: int) -> Iterator[Write]:
    """The whole table, for the other commands."""
    from manyhot.predictions import PredictionsWriter

    with PredictionsWriter(path, classifier.labels) as writer:
        yield writer.write


@contextmanager
def csv_writer(path: Path, classifier: Classifier, top: int) -> Iterator[Write]:
    """One row per sample: the predicted labels, whether the rule abstained, and the probability of each label."""
    from manyhot.classifier.classifier import build_answers
    from manyhot.files import atomic_write

    with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "given", "ask_person", *classifier.labels.names])

        def write(table: Predictions) -> None:
            for answer, probs in zip(build_answers(table, top=0), table.probabilities().tolist(), strict=True):
                abstained = "yes" if answer.abstain else "no"
                rows.writerow([answer.path, "|".join(answer.labels), abstained, *(f"{prob:.6g}" for prob in probs)])

        yield write


@contextmanager
def json_writer(path: Path, classifier: Classifier, top: int) -> Iterator[Write]:
    """A list of answers, one per line."""
    from manyhot.files import atomic_write

    with atomic_write(path) as part, part.open("w", encoding="utf-8") as file:
        separator = "[\n"

        def write(table: Predictions) -> None:
            nonlocal separator
            for text in answer_lines(table, top=top):
                file.write(separator + text)
                separator = ",\n"

        yield write
        file.write("\n]\n")


WRITERS = {".parquet": parquet_writer, ".csv": csv_writer, ".json": json_writer}


def answer_lines(table: Predictions, *, top: int) -> list[str]:
    """Each answer as JSON in one line."""
    from manyhot.classifier.classifier import build_answers

    return [json.dumps(asdict(answer), ensure_ascii=False) for answer in build_answers(table, top=top)]


def export(
    run: RunArgument,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The file to write (default: RUN/model.onnx).")
    ] = None,
    check: Annotated[bool, typer.Option(help="Run the file on random samples, and write it only if it agrees.")] = True,
    opset: Annotated[int, typer.Option(min=18, help="Version of the ONNX operators.")] = 18,
    label_names: Annotated[
        bool,
        typer.Option(
            help="Give the names of the labels as an output; some runtimes take no texts. The metadata has them too."
        ),
    ] = True,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Write a run as one ONNX file: images of any size in, probabilities and decisions out.

    Resizing, network, calibration, rule and label names are all inside.

    [b]Examples[/b]

    manyhot export runs/photos

    manyhot export runs/photos -o tagger.onnx --overwrite

    manyhot export runs/photos -o tagger.onnx --no-label-names --opset 20
    """
    owner = "manyhot export"
    path = check_output_path(
        out or run / "model.onnx", "--out", owner, overwrite=overwrite, suffixes=[".onnx"], example="model.onnx"
    )
    classifier = open_run(run, owner)
    with error_console().status("Exporting and checking ..." if check else "Exporting ..."):
        classifier.export(path, opset=opset, check=check, label_names=label_names)
    size = path.stat().st_size
    if as_json:
        print_json({"written": str(path), "bytes": size, "checked": check})
        return
    done = "checked against the classifier" if check else "not checked"
    typer.echo(f"Wrote {path} ({size / 1e6:.1f} MB, {done}).")
