"""`manyhot predict` and `export`."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from itertools import chain, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer
from typer import Argument, Option

from manyhot.cli.console import error_console, print_json, print_notes, print_table, progress
from manyhot.cli.options import JSON, OVERWRITE, Command, check_output_path
from manyhot.errors import InputError, suggest

if TYPE_CHECKING:
    from manyhot.classifier import Classifier
    from manyhot.decide import Rule
    from manyhot.labels import Labels
    from manyhot.predictions import Predictions

SUFFIXES = (".parquet", ".csv", ".json")
MAX_NAMED = 10  # images named that could not be read
MAX_PRINTED = 30  # rows of the table on the screen

RUN = Argument(metavar="RUN", help="The folder of a run, or one that Classifier.save wrote.")


def open_run(run: Path) -> Classifier:
    """The classifier of a folder; the error for a folder without one, before anything is imported, suggests others."""
    if not (run / "classifier.json").is_file():
        if (run / "config.yaml").is_file():
            hint = f"Let it finish: manyhot train --resume {run}."
            raise InputError("RUN", "", "be a finished run", f"{str(run)!r} without a classifier.json", hint)
        got = f"{str(run)!r}, {'which is none' if run.exists() else 'where there is nothing'}"
        raise InputError("RUN", "", "be a folder with a classifier.json", got, _suggest_run(run))
    from manyhot.classifier import Classifier

    return Classifier.load(run)


def _suggest_run(run: Path) -> str:
    """A hint with the run that was probably meant, or with some of the existing runs."""
    files = [file for parent in (run, run.parent, Path("runs")) for file in sorted(parent.glob("*/classifier.json"))]
    runs = list(dict.fromkeys(str(file.parent) for file in files))
    listed = f"There {'are' if len(runs) > 1 else 'is'} {', '.join(runs[:5])}{' ...' if len(runs) > 5 else '.'}"
    return suggest(str(run), runs, listed if runs else "Train one first: manyhot train photos.csv.", cutoff=0.8)


class PredictCommand(Command):
    """Predict the labels of images, with their probabilities.

    [b]Examples[/b]

    manyhot predict runs/photos cat.jpg dog.jpg

    manyhot predict runs/photos holiday/ -o holiday.parquet

    manyhot predict runs/photos "holiday/*.jpg" --rule "AverageK(3)" --json

    manyhot predict runs/photos new.csv -o tagged.csv --on-bad-image fail

    manyhot predict runs/photos millions/ -o scores --engine ray
    """

    run: Path = RUN
    images: list[str] = Argument(metavar="IMAGES...", help="Images, folders, patterns, tars, or a table with paths.")
    out: Path | None = Option(
        None,
        "--out",
        "-o",
        help="Write all of it: .parquet for manyhot, .csv for people, .json for programs; a folder with --engine ray.",
    )
    rule: str | None = Option(None, "--rule", "-r", help="Another rule; learnt on the run's split val if need be.")
    top: int = Option(3, min=0, help="How many labels to show besides those given.")
    on_bad_image: Literal["skip", "fail"] = Option("skip", help="What to do about files that are no images.")
    batch_size: int = Option(64, min=1, help="How many images the network sees at once.")
    workers: int | None = Option(None, min=0, help="Processes that read images; with ray, that score.")
    device: str | None = Option(None, help="Where to compute: cpu, cuda, mps.")
    engine: Literal["local", "ray"] = Option(
        "local", help="ray scores on all cores or GPUs, here or on a cluster, into a folder; what is there stays."
    )
    address: str | None = Option(None, help="A cluster of Ray, such as auto; all its machines must see the same files.")
    overwrite: bool = OVERWRITE
    as_json: bool = JSON

    def execute(self) -> None:
        """Predicts, and writes or prints what was predicted."""
        self.check_out()
        classifier = open_run(self.run)
        if self.rule is not None:
            classifier.rule = self.load_rule(self.rule, classifier)
        if self.engine == "ray" and self.out is not None:
            self.predict_with_ray(classifier, self.out)
            return
        check_probs(classifier, self.out)
        dataset, device = classifier.dataset(self.images), check_device(self.device)
        first, rows, answers, left_out = None, 0, list[str](), dict[str, str]()
        # The file is there when the block ends well.
        with (
            progress("Predicting", len(dataset)) as advance,
            nullcontext() if self.out is None else open_writer(self.out, classifier.labels, self.top) as write,
        ):
            for part in classifier.predict_parts(
                dataset,
                batch_size=self.batch_size,
                workers=self.workers,
                on_bad_image=self.on_bad_image,
                device=device,
                advance=advance,
            ):
                print_notes(*part.notes)
                left_out |= part.unreadable
                rows += len(part)
                first = first or part  # that has rows
                if write is not None:
                    write(part)
                elif self.as_json:
                    answers += answer_lines(part, top=self.top)
            print_left_out(left_out, rows)
        if self.out is not None:
            self.print_written(self.out, rows, len(left_out))
        elif self.as_json:
            typer.echo("[\n" + ",\n".join(answers) + "\n]")
        elif first is not None:
            print_answers(first.slice(0, MAX_PRINTED), rows, top=self.top)

    def check_out(self) -> None:
        """Rejects options that do not fit the engine, and files that may not be written, before anything is loaded."""
        out = self.out
        if self.engine == "ray":
            if out is None or out.suffix.lower() in SUFFIXES or out.is_file():
                got = "none" if out is None else f"{str(out)!r}, a file"
                raise InputError("--out", "", "name a folder for --engine ray", got, "Pass -o scores, for example.")
        elif self.address is not None:
            hint = "Add it, or leave this out."
            raise InputError("--address", "", "come with --engine ray", repr(self.address), hint)
        elif out is not None:
            check_output_path(out, "--out", overwrite=self.overwrite, suffixes=SUFFIXES)

    def load_rule(self, text: str, classifier: Classifier) -> Rule:
        """The rule of --rule, fitted on what the run kept of its split val if it is not fitted."""
        from manyhot.cli.tables import build_or_load
        from manyhot.decide import Rule
        from manyhot.predictions import open_predictions

        rule: Rule = build_or_load(text, Rule, "--rule")
        if bool(rule.fitted):
            return rule
        path = self.run / "predictions.parquet"
        table = open_predictions(path) if path.is_file() else None
        if table is None or "val" not in table.split_sizes():
            hint = "Fit it on held-out predictions: manyhot decide ... --fit-on val --save rule.json."
            raise InputError("--rule", "", "be fitted for a run without predictions of 'val'", repr(rule), hint)
        held_out = table.read(split="val", kinds=("scores", "targets"))
        assert held_out.scores is not None
        values = classifier.decide(held_out.scores)
        rule.fit(values.scores if values.probs is None else values.rule_values(), held_out.targets)
        print_notes(f"Fitted {rule!r} on the {len(held_out):,} rows of the split 'val' of {self.run}.")
        return rule

    def predict_with_ray(self, classifier: Classifier, out: Path) -> None:
        """Predicts on all cores or GPUs, or on a cluster, into a folder of parts."""
        from manyhot.scale import predict_with_ray

        dataset = classifier.dataset(self.images)
        # The last note says how many images there are, which is printed once it is known how many of them are new.
        print_notes(*dataset.notes[:-1])

        def watch(new: int) -> AbstractContextManager[Callable[[int], None]]:
            print_notes(f"{new:,} of {len(dataset):,} images are to be scored.")
            return progress("Predicting", new)

        written = predict_with_ray(
            self.run,
            dataset,
            out,
            rule=classifier.rule,
            batch_size=self.batch_size,
            workers=self.workers,
            device=self.device,
            address=self.address,
            on_bad_image=self.on_bad_image,
            overwrite=self.overwrite,
            watch=watch,
        )
        print_left_out(written.left_out, written.rows)
        self.print_written(out, written.rows, len(written.left_out), new=written.scored)

    def print_written(self, out: Path, rows: int, left_out: int, *, new: int | None = None) -> None:
        """Prints what was written, and how many rows a folder holds now."""
        from manyhot.formatting import count_noun

        if self.as_json:
            counts = {"rows": rows} if new is None else {"rows": rows, "new": new}
            print_json({"written": str(out), **counts, "left out": left_out})
            return
        total = "" if new in (None, rows) else f", which has {rows:,} now"
        skipped = f", and left out {count_noun(left_out, 'image')}" if left_out else ""
        typer.echo(f"Wrote {rows if new is None else new:,} rows to {out}{total}{skipped}.")


def check_probs(classifier: Classifier, out: Path | None) -> None:
    """Rejects a run whose scores only rank, if probabilities are to be shown, before the work begins."""
    if classifier.gives_probs or (out is not None and out.suffix.lower() == ".parquet"):
        return
    hint = "Write the scores with -o predictions.parquet."
    got = f"one of scores that only rank, {type(classifier.link).__name__}"
    raise InputError("RUN", "", "have a calibrator to give probabilities", got, hint)


def check_device(device: str | None) -> str | None:
    """The device to compute on: an accelerator if there is one, unless another is named."""
    import torch

    if device is None:
        return "cuda" if torch.cuda.is_available() else None
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        got = f"{device!r} ({str(error).splitlines()[0].rstrip('.')})"
        raise InputError("--device", "", "be one that this machine has", got, "Pass cpu, or leave it out.") from None
    return device


def print_left_out(left_out: Mapping[str, str], rows: int) -> None:
    """Prints the first images that could not be read; raises an error where that were all of them."""
    from manyhot.formatting import printable

    for name, reason in islice(left_out.items(), MAX_NAMED):
        error_console().print(printable(f"Left out {name}: {reason}."), style="yellow")
    if len(left_out) > MAX_NAMED:
        error_console().print(f"... and {len(left_out) - MAX_NAMED:,} more.")
    if rows == 0:
        got = f"{len(left_out):,} that cannot be read" if left_out else "none"
        raise InputError("IMAGES", "", "lead to images", got, "Check the files.")


def print_answers(table: Predictions, rows: int, *, top: int) -> None:
    """Prints the answers as a table."""
    from manyhot.classifier.classifier import build_answers
    from manyhot.formatting import format_prob, printable

    lines = []
    for answer in build_answers(table, top=top):
        label_texts = {name: f"{printable(name)} {format_prob(prob)}" for name, prob in answer.probs.items()}
        decided = ", ".join(label_texts[name] for name in answer.labels) or "none of these"
        others = ", ".join(text for name, text in label_texts.items() if name not in answer.labels)
        lines.append([printable(answer.path), f"abstained ({decided}?)" if answer.abstain else decided, others])
    print_table(["image", "labels", "not given"], lines, numbers=False)
    if rows > len(table):
        typer.echo(f"and {rows - len(table):,} more; -o predictions.parquet writes all of them.")


@contextmanager
def open_writer(path: Path, labels: Labels, top: int) -> Iterator[Callable[[Predictions], None]]:
    """A function that writes a batch to a file: Parquet for the other commands, CSV for people, JSON for programs."""
    from manyhot.files import atomic_write
    from manyhot.predictions import PredictionsWriter

    suffix = path.suffix.lower()
    if suffix == ".parquet":
        with PredictionsWriter(path, labels) as writer:
            yield writer.write
        return
    with atomic_write(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        if suffix == ".csv":
            rows = csv.writer(file)
            rows.writerow(["id", "given", "ask_person", *labels.names])
            yield lambda table: rows.writerows(csv_rows(table))
        else:
            separators = chain(["[\n"], repeat(",\n"))
            yield lambda table: file.writelines(next(separators) + line for line in answer_lines(table, top=top))
            file.write("\n]\n")


def csv_rows(table: Predictions) -> Iterator[list[str]]:
    """Of each sample its predicted labels, whether the rule abstained, and the probability of each label."""
    from manyhot.classifier.classifier import build_answers

    for answer, probs in zip(build_answers(table, top=0), table.probabilities().tolist(), strict=True):
        abstained = "yes" if answer.abstain else "no"
        yield [answer.path, "|".join(answer.labels), abstained, *(f"{prob:.6g}" for prob in probs)]


def answer_lines(table: Predictions, *, top: int) -> list[str]:
    """Each answer as JSON in one line."""
    from manyhot.classifier.classifier import build_answers

    return [json.dumps(asdict(answer), ensure_ascii=False) for answer in build_answers(table, top=top)]


class ExportCommand(Command):
    """Write a run as one ONNX file: images of any size in, probabilities and decisions out.

    Resizing, network, calibration, rule and label names are all inside.

    [b]Examples[/b]

    manyhot export runs/photos

    manyhot export runs/photos -o tagger.onnx --overwrite

    manyhot export runs/photos -o tagger.onnx --no-label-names --opset 20
    """

    run: Path = RUN
    out: Path | None = Option(None, "--out", "-o", help="The file to write (default: RUN/model.onnx).")
    check: bool = Option(True, help="Run the file on random samples, and write it only if it agrees.")
    opset: int = Option(18, min=18, help="Version of the ONNX operators.")
    label_names: bool = Option(
        True, help="Give the names of the labels as an output; some runtimes take no texts. The metadata has them too."
    )
    overwrite: bool = OVERWRITE
    as_json: bool = JSON

    def execute(self) -> None:
        """Exports the classifier."""
        path = self.out or self.run / "model.onnx"
        check_output_path(path, "--out", overwrite=self.overwrite, suffixes=[".onnx"])
        classifier = open_run(self.run)
        with error_console().status("Exporting and checking ..." if self.check else "Exporting ..."):
            classifier.export(path, opset=self.opset, check=self.check, label_names=self.label_names)
        size = path.stat().st_size
        if self.as_json:
            print_json({"written": str(path), "bytes": size, "checked": self.check})
            return
        done = "checked against the classifier" if self.check else "not checked"
        typer.echo(f"Wrote {path} ({size / 1e6:.1f} MB, {done}).")
