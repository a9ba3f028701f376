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

from manyhot.cli import options
from manyhot.cli.console import error_console, print_notes, progress
from manyhot.cli.options import JsonOption, OverwriteOption, RunArgument, check_output_path, check_run_folder, open_run
from manyhot.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from manyhot.classifier import Classifier
    from manyhot.data import Dataset
    from manyhot.decide import Rule
    from manyhot.predictions import Predictions
    from manyhot.scale import PartsWritten

OWNER = "manyhot predict"
MAX_NAMED = 10  # images named that could not be read


def print_unreadable(unreadable: Mapping[str, str], printed: int, console: Console) -> int:
    """Prints the first images that could not be read; returns how many there were so far."""
    from manyhot.formatting import printable

    for name, reason in list(unreadable.items())[: max(MAX_NAMED - printed, 0)]:
        console.print(printable(f"Left out {name}: {reason}."), style="yellow")
    return printed + len(unreadable)


def print_unreadable_rest(left_out: int, console: Console) -> None:
    """Prints how many more images could not be read."""
    if left_out > MAX_NAMED:
        console.print(f"... and {left_out - MAX_NAMED:,} more.")


def no_images_error(left_out: int) -> InputError:
    """The error where no image could be read."""
    got = f"{left_out:,} that cannot be read" if left_out else "none"
    return InputError("IMAGES", OWNER, "lead to images", got, "Check the files.")


def print_written(out: Path, rows: int, left_out: int, *, as_json: bool) -> None:
    """Prints what was written."""
    if as_json:
        typer.echo(json.dumps({"written": str(out), "rows": rows, "left out": left_out}))
        return
    typer.echo(f"Wrote {rows:,} rows to {out}{skipped_text(left_out)}.")


def skipped_text(count: int) -> str:
    """How many images could not be read, as the end of a message."""
    return f", and left out {count:,} image{'s' if count > 1 else ''}" if count else ""


Write = Callable[["Predictions"], None]


def check_predictions_path(path: Path | None, *, overwrite: bool) -> None:
    """Rejects an existing file, and a suffix of no known format."""
    if path is None:
        return
    if path.suffix.lower() not in WRITERS:
        rule = f"end with {', '.join(WRITERS)}"
        raise InputError(
            "--out", "manyhot predict", rule, repr(str(path)), "Rename it, for example predictions.parquet."
        )
    check_output_path(path, overwrite=overwrite, option="--out")


def open_writer(path: Path | None, classifier: Classifier, *, top: int) -> AbstractContextManager[Write]:
    """A function that appends tables to the file, which is there when the block ends well; one that does nothing."""
    if path is None:
        return nullcontext(lambda part: None)
    return WRITERS[path.suffix.lower()](path, classifier, top)


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
            probs = table.probabilities().tolist()
            for answer, numbers in zip(build_answers(table, top=0), probs, strict=True):
                abstained = "yes" if answer.abstain else "no"
                rows.writerow(
                    [answer.path, "|".join(answer.labels), abstained, *(f"{number:.6g}" for number in numbers)]
                )

        yield write


@contextmanager
def json_writer(path: Path, classifier: Classifier, top: int) -> Iterator[Write]:
    """A list of answers, one per line."""
    from manyhot.files import atomic_write

    with atomic_write(path) as part, part.open("w", encoding="utf-8") as file:
        lines = 0

        def write(table: Predictions) -> None:
            nonlocal lines
            for text in answer_lines(table, top=top):
                file.write(f"{',' if lines else '['}\n{text}")
                lines += 1

        yield write
        file.write("\n]\n" if lines else "[]\n")


WRITERS = {".parquet": parquet_writer, ".csv": csv_writer, ".json": json_writer}


def answer_lines(table: Predictions, *, top: int) -> list[str]:
    """Each answer as JSON in one line."""
    from manyhot.classifier.classifier import build_answers

    return [json.dumps(asdict(answer), ensure_ascii=False) for answer in build_answers(table, top=top)]


EngineOption = Annotated[
    Literal["local", "ray"],
    typer.Option(
        "--engine", help="ray scores on all cores or GPUs, here or on a cluster, into a folder; what is there stays."
    ),
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", help="A cluster of Ray, such as auto; all its machines must see the same files."),
]


def check_engine(engine: str, out: Path | None, address: str | None) -> None:
    """Rejects options that do not fit the engine, before anything is loaded."""
    if engine == "local":
        if address is not None:
            raise InputError("--address", OWNER, "come with --engine ray", repr(address), "Add it, or leave this out.")
        return
    hint = "Pass -o scores, for example."
    if out is None:
        raise InputError("--out", OWNER, "name a folder for --engine ray", "none", hint)
    if out.suffix.lower() in WRITERS or out.is_file():
        raise InputError("--out", OWNER, "name a folder for --engine ray", f"{str(out)!r}, a file", hint)


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
    console: Console,
) -> None:
    """Scores the images that are not in the folder yet, and prints what it holds afterwards."""
    from manyhot.scale import predict_with_ray

    # The last note says how many images there are, which is printed once it is known how many of them are new.
    print_notes(dataset.notes[:-1], console)

    def watch(new: int) -> AbstractContextManager[Callable[[int], None]]:
        console.print(f"{new:,} of {len(dataset):,} images are to be scored.", style="dim")
        return progress("Predicting", new, console)

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
    left_out = print_unreadable(written.left_out, 0, console)
    print_unreadable_rest(left_out, console)
    if written.rows == 0:
        raise no_images_error(left_out)
    typer.echo(written_text(written, out, as_json=as_json))


def written_text(written: PartsWritten, out: Path, *, as_json: bool) -> str:
    """What was written, and how many rows the folder holds now."""
    left_out = len(written.left_out)
    if as_json:
        return json.dumps({"written": str(out), "rows": written.rows, "new": written.scored, "left out": left_out})
    total_text = "" if written.scored == written.rows else f", which has {written.rows:,} now"
    return f"Wrote {written.scored:,} rows to {out}{total_text}{skipped_text(left_out)}."


MAX_PRINTED = 30  # rows of the table on the screen


ImagesArgument = Annotated[
    list[str],
    typer.Argument(metavar="IMAGES...", help="Images, folders, patterns, tars, or a table with a column of paths."),
]
PredictionsOutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="Write all of it: .parquet for manyhot, .csv for people, .json for programs; a folder with --engine ray.",
    ),
]
RuleOption = Annotated[
    str | None,
    typer.Option("--rule", "-r", help="Another rule than that of the run; learnt on its split val if need be."),
]
TopOption = Annotated[int, typer.Option("--top", min=0, help="How many labels to show besides those given.")]
OnUnreadableImageOption = Annotated[
    Literal["skip", "fail"], typer.Option("--on-bad-image", help="What to do about files that are no images.")
]
BatchOption = Annotated[int, typer.Option("--batch-size", min=1, help="How many images the network sees at once.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=0, help="Processes that read images; with ray, that score.")
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="Where to compute: cpu, cuda, mps.")]


def predict(
    run: RunArgument,
    images: ImagesArgument,
    out: PredictionsOutOption = None,
    rule: RuleOption = None,
    top: TopOption = 3,
    on_bad_image: OnUnreadableImageOption = "skip",
    batch_size: BatchOption = 64,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    engine: EngineOption = "local",
    address: AddressOption = None,
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
    check_run_folder(run, OWNER)
    check_engine(engine, out, address)
    if engine == "local":
        check_predictions_path(out, overwrite=overwrite)
    classifier = open_run(run, OWNER)
    console = error_console()
    if rule is not None:
        classifier.rule = load_rule(rule, classifier, run, console)
    if out is not None and engine == "ray":
        predict_into_folder(
            run,
            classifier.dataset(images),
            out,
            rule=classifier.rule,
            batch_size=batch_size,
            workers=workers,
            device=device,
            address=address,
            on_bad_image=on_bad_image,
            overwrite=overwrite,
            as_json=as_json,
            console=console,
        )
        return
    check_probs(classifier, out, run)
    dataset = classifier.dataset(images)
    chosen = check_device(device)
    with progress("Predicting", len(dataset), console) as advance:
        parts = classifier.predict_parts(
            dataset,
            batch_size=batch_size,
            workers=workers,
            on_bad_image=on_bad_image,
            device=chosen,
            advance=advance,
        )
        parts_to_show, rows, left_out = write_parts(
            parts, out, classifier, top=top, show_all=out is None and as_json, console=console
        )
    print_unreadable_rest(left_out, console)
    if out is not None:
        print_written(out, rows, left_out, as_json=as_json)
    elif as_json:
        typer.echo("[\n" + ",\n".join(line for part in parts_to_show for line in answer_lines(part, top=top)) + "\n]")
    else:
        print_answers(parts_to_show[0].slice(0, MAX_PRINTED), rows, top=top)


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
    with open_writer(out, classifier, top=top) as write:
        for part in parts:
            print_notes(part.notes, console)
            left_out = print_unreadable(part.unreadable, left_out, console)
            write(part)
            if show_all or not parts_to_show:
                parts_to_show.append(part)
            rows += len(part)
        if rows == 0:
            raise no_images_error(left_out)
    return parts_to_show, rows, left_out


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


def check_probs(classifier: Classifier, out: Path | None, run: Path) -> None:
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
    console = Console(markup=False, highlight=False)
    console.print(rich_table)
    if rows > len(table):
        console.print(f"and {rows - len(table):,} more; -o predictions.parquet writes all of them.")


OnnxFileOption = Annotated[
    Path | None, typer.Option("--out", "-o", help="The file to write (default: RUN/model.onnx).")
]
CheckOption = Annotated[
    bool, typer.Option("--check/--no-check", help="Run the file on random samples, and write it only if it agrees.")
]
OpsetOption = Annotated[int, typer.Option("--opset", min=18, help="Version of the ONNX operators.")]
LabelNamesOption = Annotated[
    bool,
    typer.Option(
        "--label-names/--no-label-names",
        help="Give the names of the labels as an output; some runtimes take no texts. The metadata has them too.",
    ),
]


def export(
    run: RunArgument,
    out: OnnxFileOption = None,
    check: CheckOption = True,
    opset: OpsetOption = 18,
    label_names: LabelNamesOption = True,
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
    path = out or run / "model.onnx"
    if path.suffix.lower() != ".onnx":
        raise InputError("--out", "manyhot export", "end with .onnx", repr(str(path)), "Rename it.")
    options.check_output_path(path, overwrite=overwrite, option="--out")
    console = error_console()
    classifier = open_run(run, "manyhot export")
    with console.status("Exporting and checking ..." if check else "Exporting ..."):
        classifier.export(path, opset=opset, check=check, label_names=label_names)
    size = path.stat().st_size
    if as_json:
        typer.echo(json.dumps({"written": str(path), "bytes": size, "checked": check}))
        return
    done = "checked against the classifier" if check else "not checked"
    typer.echo(f"Wrote {path} ({size / 1e6:.1f} MB, {done}).")
