"""What `manyhot predict` writes: a table for manyhot, a table for people, or answers for programs."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from manyhot.cli.options import free_path
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from manyhot.classifier import Classifier
    from manyhot.predictions import Predictions

Write = Callable[["Predictions"], None]


def check_file(path: Path | None, *, overwrite: bool) -> None:
    """Refuses a file that is there already, or of which nobody could tell the form."""
    if path is None:
        return
    if path.suffix.lower() not in WRITERS:
        rule = f"end with {', '.join(WRITERS)}"
        raise refusal("--out", "manyhot predict", rule, repr(str(path)), "Rename it, for example predictions.parquet.")
    free_path(path, overwrite=overwrite, option="--out")


def writing(path: Path | None, classifier: Classifier, *, top: int) -> AbstractContextManager[Write]:
    """A function that appends tables to the file, which is there when the block ends well; one that does nothing."""
    if path is None:
        return nullcontext(lambda part: None)
    return WRITERS[path.suffix.lower()](path, classifier, top)


@contextmanager
def parquet(path: Path, classifier: Classifier, top: int) -> Iterator[Write]:
    """The whole table, which the other verbs read."""
    from manyhot.predictions import PredictionsWriter

    with PredictionsWriter(path, classifier.labels) as writer:
        yield writer.write


@contextmanager
def comma_separated(path: Path, classifier: Classifier, top: int) -> Iterator[Write]:
    """One row a sample: the labels given, whether to ask a person, and the probability of each label."""
    from manyhot.classifier.answers import answers_of
    from manyhot.files import whole_file

    with whole_file(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file)
        rows.writerow(["id", "given", "ask_person", *classifier.labels.names])

        def write(table: Predictions) -> None:
            probs = table.probabilities().tolist()
            for answer, numbers in zip(answers_of(table, top=0), probs, strict=True):
                asked = "yes" if answer.abstain else "no"
                rows.writerow([answer.path, "|".join(answer.labels), asked, *(f"{number:.6g}" for number in numbers)])

        yield write


@contextmanager
def answers(path: Path, classifier: Classifier, top: int) -> Iterator[Write]:
    """A list of answers, one a line."""
    from manyhot.files import whole_file

    with whole_file(path) as part, part.open("w", encoding="utf-8") as file:
        lines = 0

        def write(table: Predictions) -> None:
            nonlocal lines
            for text in answer_lines(table, top=top):
                file.write(f"{',' if lines else '['}\n{text}")
                lines += 1

        yield write
        file.write("\n]\n" if lines else "[]\n")


WRITERS = {".parquet": parquet, ".csv": comma_separated, ".json": answers}


def answer_lines(table: Predictions, *, top: int) -> list[str]:
    """Each answer as JSON in one line."""
    from manyhot.classifier.answers import answers_of

    return [json.dumps(asdict(answer), ensure_ascii=False) for answer in answers_of(table, top=top)]
