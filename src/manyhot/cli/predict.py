"""`manyhot predict`: labels of images that nobody has labelled."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyhot.cli import options
from manyhot.cli.options import JsonOption, OverwriteOption
from manyhot.cli.predict_scale import AddressOption, Engine, EngineOption, check_engine, predict_into_folder
from manyhot.cli.predict_telling import OWNER, advancing, nothing_read, report, tell_rest, tell_unreadable
from manyhot.cli.predictions_file import answer_lines, check_file, writing
from manyhot.cli.run_folder import RunArgument, check_run, open_run
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from rich.console import Console

    from manyhot.classifier import Classifier
    from manyhot.decide import Rule
    from manyhot.predictions import Predictions

SHOWN = 30  # rows of the table on the screen


class BadImages(StrEnum):
    """What to do about images that cannot be read."""

    skip = "skip"
    fail = "fail"


ImagesArgument = Annotated[
    list[str],
    typer.Argument(metavar="IMAGES...", help="Images, folders, patterns, tars, or a table with a column of paths."),
]
FileOption = Annotated[
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
BadOption = Annotated[BadImages, typer.Option("--on-bad-image", help="What to do about files that are no images.")]
BatchOption = Annotated[int, typer.Option("--batch-size", min=1, help="How many images the network sees at once.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=0, help="Processes that read images; with ray, that score.")
]
DeviceOption = Annotated[str | None, typer.Option("--device", help="Where to compute: cpu, cuda, mps.")]


def predict(
    run: RunArgument,
    images: ImagesArgument,
    out: FileOption = None,
    rule: RuleOption = None,
    top: TopOption = 3,
    on_bad_image: BadOption = BadImages.skip,
    batch_size: BatchOption = 64,
    workers: WorkersOption = None,
    device: DeviceOption = None,
    engine: EngineOption = Engine.local,
    address: AddressOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Tell which labels images carry, and how sure that is.

    [b]Examples[/b]

    manyhot predict runs/photos cat.jpg dog.jpg

    manyhot predict runs/photos holiday/ -o holiday.parquet

    manyhot predict runs/photos "holiday/*.jpg" --rule "AverageK(3)" --json

    manyhot predict runs/photos new.csv -o tagged.csv --on-bad-image fail

    manyhot predict runs/photos millions/ -o scores --engine ray
    """
    check_run(run, OWNER)
    check_engine(engine, out, address)
    if engine is Engine.local:
        check_file(out, overwrite=overwrite)
    classifier = open_run(run, OWNER)
    tell = options.console()
    if rule is not None:
        classifier.rule = another_rule(rule, classifier, run, tell)
    if out is not None and engine is Engine.ray:
        predict_into_folder(
            run,
            classifier.dataset(images),
            out,
            rule=classifier.rule,
            batch_size=batch_size,
            workers=workers,
            device=device,
            address=address,
            on_bad_image=on_bad_image.value,
            overwrite=overwrite,
            as_json=as_json,
            tell=tell,
        )
        return
    check_probs(classifier, out, run)
    dataset = classifier.dataset(images)
    chosen = check_device(device)
    with advancing(len(dataset), tell) as advance:
        parts = classifier.predict_parts(
            dataset,
            batch_size=batch_size,
            workers=workers,
            on_bad_image=on_bad_image.value,
            device=chosen,
            advance=advance,
        )
        kept, rows, left_out = take(parts, out, classifier, top=top, keep_all=out is None and as_json, tell=tell)
    tell_rest(left_out, tell)
    if out is not None:
        report(out, rows, left_out, as_json=as_json)
    elif as_json:
        typer.echo("[\n" + ",\n".join(line for part in kept for line in answer_lines(part, top=top)) + "\n]")
    else:
        show(kept[0].slice(0, SHOWN), rows, top=top)


def take(
    parts: Iterator[Predictions], out: Path | None, classifier: Classifier, *, top: int, keep_all: bool, tell: Console
) -> tuple[list[Predictions], int, int]:
    """Writes the parts to the file, if there is one: those to show, how many rows there are, and how many are not."""
    kept: list[Predictions] = []
    rows = left_out = 0
    with writing(out, classifier, top=top) as write:
        for part in parts:
            options.tell_notes(part.notes, tell)
            left_out = tell_unreadable(part.unreadable, left_out, tell)
            write(part)
            if keep_all or not kept:
                kept.append(part)
            rows += len(part)
        if rows == 0:
            raise nothing_read(left_out)
    return kept, rows, left_out


def another_rule(text: str, classifier: Classifier, run: Path, tell: Console) -> Rule:
    """The rule of --rule, fitted on what the run kept of its split val if it is not fitted."""
    from manyhot.cli.fitting import build_or_load
    from manyhot.decide import Rule
    from manyhot.predictions import open_predictions

    rule: Rule = build_or_load(text, Rule, argument="--rule", owner=OWNER)
    if bool(rule.fitted):
        return rule
    path = run / "predictions.parquet"
    table = open_predictions(path) if path.is_file() else None
    if table is None or "val" not in table.split_sizes():
        remedy = "Fit it on held-out predictions: manyhot decide ... --fit-on val --save rule.json."
        raise refusal("--rule", OWNER, "be fitted for a run without predictions of 'val'", repr(rule), remedy)
    held_out = table.read(split="val", kinds=("scores", "targets"))
    assert held_out.scores is not None
    values = classifier.decide(held_out.scores)
    rule.fit(values.scores if values.probs is None else values.rule_values(), held_out.targets)
    tell.print(f"Fitted {rule!r} on the {len(held_out):,} rows of the split 'val' of {run}.", style="dim")
    return rule


def check_probs(classifier: Classifier, out: Path | None, run: Path) -> None:
    """Refuses to show probabilities of scores that only rank, before the work begins."""
    if classifier.gives_probs or (out is not None and out.suffix.lower() == ".parquet"):
        return
    remedy = "Write the scores with -o predictions.parquet."
    got = f"one of scores that only rank, {type(classifier.link).__name__}"
    raise refusal("RUN", OWNER, "have a calibrator to give probabilities", got, remedy)


def check_device(device: str | None) -> str | None:
    """The device to compute on: an accelerator if there is one, unless another is named."""
    import torch

    if device is None:
        return "cuda" if torch.cuda.is_available() else None
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        got = f"{device!r} ({str(error).splitlines()[0].rstrip('.')})"
        raise refusal("--device", OWNER, "be one that this machine has", got, "Pass cpu, or leave it out.") from None
    return device


def show(table: Predictions, rows: int, *, top: int) -> None:
    """The answers as a table for people."""
    from rich.console import Console
    from rich.table import Table

    from manyhot.classifier.answers import answers_of
    from manyhot.terminal import percent, printable

    shown = Table()
    for heading in ("image", "labels", "not given"):
        shown.add_column(heading, overflow="fold")  # a path that is cut off finds no file
    for answer in answers_of(table, top=top):
        texts = {name: f"{printable(name)} {percent(prob)}" for name, prob in answer.probs.items()}
        given = ", ".join(texts[name] for name in answer.labels)
        if answer.abstain:
            given = f"ask a person ({given or 'none of these'}?)"
        others = ", ".join(text for name, text in texts.items() if name not in answer.labels)
        shown.add_row(printable(answer.path), given or "none of these", others)
    console = Console(markup=False, highlight=False)
    console.print(shown)
    if rows > len(table):
        console.print(f"and {rows - len(table):,} more; -o predictions.parquet writes all of them.")
