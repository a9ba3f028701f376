"""Errors of Python functions name options and commands as they are typed."""

import pytest
from typer.main import get_command

from manyhot.cli.app import app
from manyhot.cli.messages import COMMANDS, HINTS, IMPORT_OPTIONS, PARAMETERS, typed_message, typed_parameters
from manyhot.errors import PLACEHOLDERS, InputError
from manyhot.predictions import Predictions

EVERY = get_command(app).commands


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        (
            "evaluate",
            InputError("source", "read_predictions", "be a file", "1"),
            "`PREDICTIONS` must be a file; got 1.",
        ),
        ("import", InputError("source", "read_predictions", "be a file", "1"), "`FILE` must be a file; got 1."),
        ("report", InputError("path", "open_predictions", "be a file", "1"), "`RUN` must be a file; got 1."),
        ("decide", InputError("split", "Predictions", "be there", "1"), "`--fit-on` must be there; got 1."),
        ("predict", InputError("samples", "predict_with_ray", "be", "1"), "`IMAGES` must be; got 1."),
        ("train", InputError("k", "TopK", "be", "1"), "`k` of `TopK` must be; got 1."),
        # --labels of the studio is about another thing.
        ("studio", InputError("labels", "Labels", "be", "1"), "`labels` of `Labels` must be; got 1."),
    ],
)
def test_arguments_are_named_as_they_are_typed(command, error, message):
    assert typed_message(error, EVERY[command]) == message


@pytest.mark.parametrize(
    ("command", "hint", "typed"),
    [
        ("import", "Name them with {labels}.", "Name them with `--label`."),
        ("decide", "Name them with {labels}.", "Name them with `manyhot import --label`."),
        ("studio", "Name them with {labels}.", "Name them with `manyhot import --label`."),
        ("train", "Pass {labels_column}[, or {labels}].", "Pass `--labels-column`."),
        ("train", "Pass `{split_column=''}`.", "Pass `--split-column ''`."),
        ("calibrate", "Say `{kind='scores'}`.", "Say `--kind scores`."),
        ("import", "Pass `{other_labels='leave out'}`.", "Pass `--leave-out-others`."),
        ("export", "Pass {check=False}.", "Pass --no-check."),
        ("inspect", "Use {read_images}.", "Use `manyhot predict`."),
        ("train", "Keep {this} and ['cat'] and [{that}].", "Keep {this} and ['cat'] and [{that}]."),
    ],
)
def test_hints_name_options_and_commands(command, hint, typed):
    assert typed_message(InputError("x", "y", "be", "1", hint), EVERY[command]) == f"`x` of `y` must be; got 1. {typed}"


def test_the_tables_name_what_there_is():
    parameters = {name for command in EVERY.values() for name in typed_parameters(command)}
    assert {name for names in PARAMETERS.values() for name in names} <= parameters
    assert set(IMPORT_OPTIONS.values()) <= set(typed_parameters(EVERY["import"]).values())
    assert {word.partition("=")[0] for word in (*IMPORT_OPTIONS, *COMMANDS)} <= PLACEHOLDERS


def test_a_hint_is_replaced_for_an_error_that_is_raised():
    with pytest.raises(InputError) as caught:
        Predictions(scores=[[1.0]]).probabilities()
    error = caught.value
    assert (error.owner, error.argument, error.rule) in HINTS
    assert typed_message(error, EVERY["evaluate"]).endswith("Give it probabilities first: manyhot calibrate.")
