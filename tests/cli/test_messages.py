"""Errors of Python functions name options and commands as they are typed."""

import pytest

from manyhot.cli import pages, predict, search, tables, train
from manyhot.cli.messages import COMMANDS, HINTS, IMPORT_PARAMETERS, PARAMETERS, typed_message, typed_parameters
from manyhot.errors import PLACEHOLDERS, InputError
from manyhot.predictions import Predictions

EVERY = (
    *(train.demo, train.inspect, train.train, train.compare, predict.predict, predict.export),
    *(search.search, pages.studio, pages.report, tables.import_, tables.evaluate, tables.calibrate, tables.decide),
)


@pytest.mark.parametrize(
    ("command", "error", "message"),
    [
        (
            tables.evaluate,
            InputError("source", "read_predictions", "be a file", "1"),
            "`PREDICTIONS` must be a file; got 1.",
        ),
        (tables.import_, InputError("source", "read_predictions", "be a file", "1"), "`FILE` must be a file; got 1."),
        (pages.report, InputError("path", "open_predictions", "be a file", "1"), "`RUN` must be a file; got 1."),
        (tables.decide, InputError("split", "Predictions", "be there", "1"), "`--fit-on` must be there; got 1."),
        (predict.predict, InputError("samples", "predict_with_ray", "be", "1"), "`IMAGES` must be; got 1."),
        (train.train, InputError("k", "TopK", "be", "1"), "`k` of `TopK` must be; got 1."),
        # --labels of the studio is about another thing.
        (pages.studio, InputError("labels", "Labels", "be", "1"), "`labels` of `Labels` must be; got 1."),
    ],
)
def test_arguments_are_named_as_they_are_typed(command, error, message):
    assert typed_message(error, command) == message


@pytest.mark.parametrize(
    ("command", "hint", "typed"),
    [
        (tables.import_, "Name them with {labels}.", "Name them with `--label`."),
        (tables.decide, "Name them with {labels}.", "Name them with `manyhot import --label`."),
        (pages.studio, "Name them with {labels}.", "Name them with `manyhot import --label`."),
        (train.train, "Pass {labels_column}[, or {labels}].", "Pass `--labels-column`."),
        (train.train, "Pass `{split_column=''}`.", "Pass `--split-column ''`."),
        (tables.calibrate, "Say `{kind='scores'}`.", "Say `--kind scores`."),
        (tables.import_, "Pass `{other_labels='leave out'}`.", "Pass `--leave-out-others`."),
        (predict.export, "Pass {check=False}.", "Pass --no-check."),
        (train.inspect, "Use {read_images}.", "Use `manyhot predict`."),
        (train.train, "Keep {this} and ['cat'] and [{that}].", "Keep {this} and ['cat'] and [{that}]."),
    ],
)
def test_hints_name_options_and_commands(command, hint, typed):
    assert typed_message(InputError("x", "y", "be", "1", hint), command) == f"`x` of `y` must be; got 1. {typed}"


def test_the_tables_name_what_there_is():
    parameters = {name for command in EVERY for name in typed_parameters(command)}
    assert {name for names in PARAMETERS.values() for name in names} <= parameters
    assert set(IMPORT_PARAMETERS.values()) <= typed_parameters(tables.import_).keys()
    assert {word.partition("=")[0] for word in (*IMPORT_PARAMETERS, *COMMANDS)} <= PLACEHOLDERS


def test_a_hint_is_replaced_for_an_error_that_is_raised():
    with pytest.raises(InputError) as caught:
        Predictions(scores=[[1.0]]).probabilities()
    error = caught.value
    assert (error.owner, error.argument, error.rule) in HINTS
    assert typed_message(error, tables.evaluate).endswith("Give it probabilities first: manyhot calibrate.")
