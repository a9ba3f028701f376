"""Errors on the command line: one line in which arguments are named as they are typed."""

from __future__ import annotations

import gc
import sys
from typing import Any

import typer
from typer.core import TyperCommand

from manyhot.errors import PLACEHOLDERS, InputError, owned

# Functions whose arguments are parameters of the command under the same names.
SAME_NAMES = ("read_data", "read_predictions", "corrected", "Report", "predict_with_ray", "TrainSettings", "compare")
# The parameter that holds an argument of a function under another name: the first one that the command has.
PARAMETERS = {
    ("read_data", "path"): ("data",),
    ("read_images", "path"): ("images",),
    ("read_corrections", "path"): ("corrections",),
    ("read_predictions", "source"): ("file", "predictions", "runs"),
    ("open_predictions", "path"): ("predictions", "runs"),
    ("Predictions", "split"): ("fit_on", "split"),
    ("StoredPredictions", "split"): ("fit_on", "split"),
    ("evaluate", "predictions"): ("predictions", "runs"),
    ("predict_with_ray", "folder"): ("out",),
    ("predict_with_ray", "samples"): ("images",),
    ("Collection.search", "precision"): ("until_precision",),
    ("Collection.search", "recall"): ("until_recall",),
    ("Collection.sql", "precision"): ("until_precision",),
    ("Collection.sql", "recall"): ("until_recall",),
}
# The commands that do what functions do which a hint may name.
COMMANDS = {"read_images": "manyhot predict", "read_predictions": "manyhot import"}
# Options of `manyhot import` for arguments of the functions that read predictions; other commands have few of them.
IMPORT_OPTIONS = {
    "id_column": "--id-column",
    "labels": "--label",
    "labels_column": "--labels-column",
    "separator": "--separator",
    "other_labels='leave out'": "--leave-out-others",
}
# What to type where a hint gives code in Python: by owner, argument and rule.
HINTS = {
    ("Predictions", "probs", "be there or follow from a link"): "Give it probabilities first: manyhot calibrate.",
    ("evaluate", "predictions", "hold targets"): "Pass the file of true labels as --targets.",
}


class OneLineErrors(TyperCommand):
    """A command that ends with a message on one line and exit code 2 where something is invalid or missing."""

    def invoke(self, ctx: Any) -> Any:
        """Runs the command."""
        gc.enable()  # `main` started without it
        try:
            with owned(f"manyhot {self.name}"):
                return super().invoke(ctx)
        except BrokenPipeError:  # the program that reads our output has ended
            raise
        except (InputError, OSError, ImportError) as error:
            if isinstance(error, ImportError) and "pip install" not in str(error):
                raise
            print(f"manyhot: {error_message(error, self)}", file=sys.stderr)
            raise typer.Exit(2) from None


def error_message(error: Exception, command: TyperCommand) -> str:
    """The message in one line; errors of the file system name the file that they are about."""
    if isinstance(error, InputError):
        return typed_message(error, command)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename or 'the file system'}: {error.strerror}."
    return " ".join(str(error).split())


def typed_message(error: InputError, command: TyperCommand) -> str:
    """The message of an error with the options and arguments of a command."""
    parameters = typed_parameters(command)
    names = placeholder_names(parameters)
    candidates = PARAMETERS.get((error.owner, error.argument), ())
    if error.owner in SAME_NAMES:
        candidates += (error.argument,)
    names.pop(error.argument, None)
    parameter = next((name for name in candidates if name in parameters), None)
    if parameter is not None:
        names[error.argument] = parameters[parameter]
    error.hint = HINTS.get((error.owner, error.argument, error.rule), error.hint)
    return " ".join(error.render(names).split())


def typed_parameters(command: TyperCommand) -> dict[str, str]:
    """How each parameter of a command is typed; of a switch also how `name=False` is, such as `--no-check`."""
    parameters: dict[str, str] = {}
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameters[str(parameter.name)] = str(parameter.metavar).removesuffix("...")
        else:
            parameters[str(parameter.name)] = max(parameter.opts, key=len)
            parameters |= {f"{parameter.name}=False": off for off in parameter.secondary_opts}
    return parameters


def placeholder_names(parameters: dict[str, str]) -> dict[str, str]:
    """What hints name, as it is typed: an option of the command or of `manyhot import`; empty where there is none."""
    names = dict.fromkeys(PLACEHOLDERS, "") | COMMANDS
    # A command that reads predictions leaves the details to `manyhot import`. Where there is no data set to read, an
    # option of the same name is about something else, such as --labels of the studio.
    if "kind" in parameters:
        prefix = "" if "leave_out_others" in parameters else "manyhot import "
        names |= {word: prefix + option for word, option in IMPORT_OPTIONS.items()}
    own = PLACEHOLDERS - {"labels"}
    return names | {name: typed for name, typed in parameters.items() if name.partition("=")[0] in own}
