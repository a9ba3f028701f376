"""Errors on the command line: one line in which arguments are named as they are typed."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer
from typer.models import ArgumentInfo, OptionInfo

from manyhot.errors import PLACEHOLDERS, InputError

# Functions whose arguments are parameters of the command under the same names.
SAME_NAMES = ("read_data", "read_predictions", "predict_with_ray", "TrainSettings", "compare")
# The parameter that holds an argument of a function under another name: the first one that the command has.
PARAMETERS = {
    ("read_data", "path"): ("data",),
    ("read_images", "path"): ("images",),
    ("read_corrections", "path"): ("corrections",),
    ("corrected", "corrections"): ("corrections",),
    ("read_predictions", "source"): ("file", "predictions", "runs"),
    ("open_predictions", "path"): ("predictions", "runs"),
    ("Predictions", "split"): ("fit_on", "split"),
    ("StoredPredictions", "split"): ("fit_on", "split"),
    ("Report", "runs"): ("runs",),
    ("predict_with_ray", "folder"): ("out",),
    ("predict_with_ray", "samples"): ("images",),
}
# The commands that do what functions do which a hint may name.
COMMANDS = {"read_images": "manyhot predict", "read_predictions": "manyhot import"}
# Options of `manyhot import` for arguments of the functions that read predictions; other commands have few of them.
IMPORT_PARAMETERS = {
    "id_column": "id_column",
    "labels": "label",
    "labels_column": "labels_column",
    "separator": "separator",
    "other_labels='leave out'": "leave_out_others",
}
# What to type where a hint gives code in Python: by owner, argument and rule.
HINTS = {
    ("Predictions", "probs", "be there or follow from a link"): "Give it probabilities first: manyhot calibrate.",
}


def with_typed_names(command: Callable[..., None]) -> Callable[..., None]:
    """The command, which ends with a message on one line and exit code 2 where an argument is invalid."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except InputError as error:
            print(f"manyhot: {typed_message(error, command)}", file=sys.stderr)
            raise typer.Exit(2) from None

    # `**options` of a command stands for options that `with_options` has added.
    signature = inspect.signature(command, eval_str=True)
    named = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    run.__signature__ = signature.replace(parameters=named)  # type: ignore[attr-defined]
    return run


def typed_message(error: InputError, command: Callable[..., None]) -> str:
    """The message of an error with the options and arguments of a command."""
    parameters = typed_parameters(command)
    names = _placeholder_names(parameters)
    candidates = PARAMETERS.get((error.owner, error.argument), ())
    if error.owner in SAME_NAMES:
        candidates += (error.argument,)
    names.pop(error.argument, None)
    parameter = next((name for name in candidates if name in parameters), None)
    if parameter is not None:
        names[error.argument] = parameters[parameter]
    error.hint = HINTS.get((error.owner, error.argument, error.rule), error.hint)
    return " ".join(error.render(names).split())


def typed_parameters(command: Callable[..., None]) -> dict[str, str]:
    """How each parameter of a command is typed; of a switch also how `name=False` is, such as `--no-check`.

    Example:
        >>> from manyhot.cli.tables import evaluate
        >>> typed = typed_parameters(evaluate)
        >>> typed["predictions"], typed["train_counts"]
        ('PREDICTIONS', '--train-counts')
    """
    parameters: dict[str, str] = {}
    for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, OptionInfo):
                # Within `Annotated`, the first of them stands where a default would.
                spellings = [text for text in (info.default, *(info.param_decls or ())) if isinstance(text, str)]
                on, _, off = next((text for text in spellings if text.startswith("--")), spellings[0]).partition("/")
                parameters |= {name: on, f"{name}=False": off} if off else {name: on}
            elif isinstance(info, ArgumentInfo):
                parameters[name] = str(info.metavar).removesuffix("...")
    return parameters


def _placeholder_names(parameters: dict[str, str]) -> dict[str, str]:
    """What hints name, as it is typed: an option of the command or of `manyhot import`; empty where there is none."""
    from manyhot.cli.tables import import_

    names = dict.fromkeys(PLACEHOLDERS, "") | COMMANDS
    # A command that reads predictions leaves the details to `manyhot import`. Where there is no data set to read, an
    # option of the same name is about something else, such as --labels of the studio.
    if "kind" in parameters:
        of_import = typed_parameters(import_)
        prefix = "" if "leave_out_others" in parameters else "manyhot import "
        names |= {word: prefix + of_import[parameter] for word, parameter in IMPORT_PARAMETERS.items()}
    same = {name: typed for name, typed in parameters.items() if name.partition("=")[0] in PLACEHOLDERS}
    return names | {name: typed for name, typed in same.items() if name != "labels"}
