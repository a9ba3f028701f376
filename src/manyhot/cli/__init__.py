"""The command line: entry point and error messages."""

from __future__ import annotations

import os
import sys

from manyhot.errors import InputError


def main() -> None:
    """Runs the command that was typed; input that cannot be taken ends with one sentence and exit code 2."""
    try:
        from manyhot.cli.app import app
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        sys.exit("The command line needs typer and rich. Install them with: pip install 'manyhot[tables]'")
    try:
        app()
    except BrokenPipeError:  # the reader of our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (InputError, OSError, ImportError) as error:
        if isinstance(error, ImportError) and "pip install" not in str(error):
            raise
        print(f"manyhot: {error_message(error)}", file=sys.stderr)
        sys.exit(2)


def error_message(error: Exception) -> str:
    """What to tell a user; errors of the file system name the file that they are about."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the file system'}: {error.strerror}."
    text = " ".join(str(error).split())
    readers = any(f"of `{name}`" in text for name in ("read_data", "read_images", "read_corrections"))
    for python, typed in (READER_MESSAGES if readers else MESSAGES).items():
        text = text.replace(python, typed)
    return text


# What errors of the readers advise in Python, as it is typed here; they have no option for single labels.
READER_MESSAGES = {
    "`path` of `read_data`": "`DATA`",
    "`path` of `read_images`": "`IMAGES`",
    "`path` of `read_corrections`": "`--corrections`",
    ", or the columns of labels with `labels`": "",
    ", or the columns of labels as `labels`": "",
    "Name the columns of labels with `labels`.": "Repair or remove that column.",
    "`split_column=''`": "`--split-column ''`",
    "`path_column`": "`--path-column`",
    "`labels_column`": "`--labels-column`",
    "`split_column`": "`--split-column`",
    "`separator`": "`--separator`",
    "`layout`": "`--layout`",
    "`root`": "`--root`",
    "`unlisted`": "`--unlisted`",
    "Use `read_images` for images without labels": "Use `manyhot predict` for images without labels",
    " of `read_data`": "",
    " of `read_images`": "",
    " of `read_corrections`": "",
}
# The same for all others.
MESSAGES = {
    "Import other files with `read_predictions`.": "Import tables of other programs with `manyhot import`.",
    "Fit a calibrator on held-out scores and targets, and pass `replace(probs=calibrator(scores))`.": (
        "Give it probabilities first: manyhot calibrate."
    ),
    "`folder` of `predict_with_ray`": "`--out`",
    "`samples` of `predict_with_ray`": "`IMAGES`",
    "`address` of `predict_with_ray`": "`--address`",
    "`device` of `predict_with_ray`": "`--device`",
    "`workers` of `predict_with_ray`": "`--workers`",
    "pass `overwrite`": "pass --overwrite",
    "`runs` of `Report`": "`RUN`",
    "`corrections` of `corrected`": "`--corrections`",
    "`read_predictions`": "`manyhot`",
    "`kind` of": "`--kind` of",
    "`targets` of": "`--targets` of",
    "got None. Say 'scores'": "got nothing. Say 'scores'",
    "or pass check=False": "or pass --no-check",
    "kind='scores'": "--kind scores",
    "kind='probs'": "--kind probs",
    "other_labels='leave out'": "--leave-out-others to `manyhot import`",
    "the columns of labels with `labels`": "the columns of labels with `manyhot import --label`",
    "columns to read with `labels`": "columns to read with `manyhot import --label`",
    "the columns with `labels`": "the columns with `manyhot import --label`",
    "the labels to read with `labels`": "the labels to read with `manyhot import --label`",
    "with `id_column`": "with `manyhot import --id-column`",
    "pass `labels_column`": "pass --labels-column to `manyhot import`",
    "Call `fit(values, targets)` with held-out data.": "Pass the file of true labels as --targets.",
    "Pass `splits` when you make the table.": "Add a column `split` to the file.",
}
