"""Settings: from words to a recipe and back, and what is said about those that cannot be taken."""

import dataclasses
import re

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot.data import SparseTargets
from manyhot.engine import FitSettings
from manyhot.settings import PRESETS, parse_overrides, read_settings, write_settings
from manyhot.training import TrainSettings
from manyhot.training.build import build_loss, build_parts
from tests.errors.expected import raises_input_error


@pytest.mark.parametrize("tune", ["head", "all"])
@pytest.mark.parametrize("settings", [{}, {"hidden": 32}, {"head": "cosine"}, {"loss": "SPA", "size": 64}])
def test_a_recipe_is_the_same_however_it_is_made(tune, settings, tmp_path):
    made = TrainSettings(tune=tune, **settings)
    assert {name: getattr(made, name) for name in PRESETS[tune]} == PRESETS[tune]
    assert TrainSettings.build({"tune": tune, **settings}) == made
    other = {"head": "all", "all": "head"}[tune]
    assert TrainSettings(tune=other, **settings).replace(tune=tune) == made
    assert TrainSettings().replace(tune=other).replace(tune=tune, **settings) == made
    write_settings(made.to_dict(), tmp_path / "config.yaml")
    assert TrainSettings.build(read_settings(tmp_path / "config.yaml")) == made


def test_what_was_given_stays_when_a_recipe_is_copied():
    recipe = TrainSettings.build({"lr": 0.5, "hidden": 8}).replace(tune="all", epochs=3)
    assert (recipe.lr, recipe.epochs, recipe.weight_decay, recipe.hidden) == (0.5, 3, 0.05, 8)
    assert recipe.loss == "BinaryCrossEntropyLoss()"
    own = TrainSettings(lr=0.2).replace(tune="all")
    assert (own.lr, own.weight_decay) == (0.2, 0.05)


def test_copies_that_would_mix_two_presets_are_refused():
    with raises_input_error(hint="Copy settings with `settings.replace(...)`"):
        dataclasses.replace(TrainSettings(), tune="all")


def test_objects_become_the_texts_that_build_them():
    loss, calibrator = mh.AsymmetricLoss(gamma_neg=3, margin=0.125), mh.IsotonicCalibration(sharing="none")
    rule = mh.Abstain(mh.AverageK(3), at_most=0.123456789)
    recipe = TrainSettings(loss=loss, calibrator=calibrator, rule=rule)
    assert recipe == TrainSettings.build({"loss": loss, "calibrator": calibrator, "rule": rule})
    assert repr(build_loss(recipe.loss)) == repr(loss)
    _, calibrator, built = build_parts(recipe, SparseTargets.from_rows([[0]], num_labels=1))
    assert calibrator.sharing == "none"
    assert (built.rule.k, built.at_most) == (3, 0.123456789)
    assert (TrainSettings(calibrator=None).calibrator, TrainSettings(rule=None).rule) == ("none", "none")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"loss": torch.nn.BCELoss()}, "`loss` of `TrainSettings` must be a loss; got BCELoss."),
        ({"loss": mh.losses.ROLELoss(torch.ones(20, 20), 2.0)}, "so that `config.yaml` can hold it; got ROLELoss("),
        ({"rule": mh.BetaCalibration()}, "`rule` of `TrainSettings` must be a rule; got BetaCalibration."),
        ({"calibrator": mh.TemperatureScaling().fit(torch.randn(9, 2), torch.ones(9, 2))}, "that has learnt nothing"),
    ],
)
def test_objects_that_no_text_builds_are_refused_at_once(settings, words):
    for make in (lambda: TrainSettings(**settings), lambda: TrainSettings.build(settings)):
        with raises_input_error(rule="be a") as error:
            make()
        assert words in str(error.value)


WRONG = {
    "bool": [1, 0, None, "yes", float("nan")],
    "int": [True, -3, 2.5, float("nan"), float("inf"), "3"],
    "float": [True, float("nan"), float("inf"), -0.5, "0.1"],
    "str": [3, ["a"], True],
    "int | str": [True, -3, 2.5, "two", None],
}


def kind_of(item):
    """The key of `WRONG` for a field: a choice is a text, or a number or a text."""
    return re.sub(r"Literal\[.*?\]", "str", item.type).removesuffix(" | None")


EVERY = [
    pytest.param(cls, item.name, value, id=f"{cls.__name__}.{item.name}={value!r}")
    for cls in (TrainSettings, FitSettings)
    for item in dataclasses.fields(cls)
    if item.name != "milestones" and item.name in cls.__annotations__
    for value in WRONG[kind_of(item)]
]


@pytest.mark.parametrize(("cls", "name", "value"), EVERY)
def test_no_setting_takes_a_value_of_another_kind(cls, name, value):
    with raises_input_error(match=f"^`{name}` of `{cls.__name__}` must ") as error:
        cls(**{name: value})
    assert repr(value) in str(error.value) or type(value).__name__ in str(error.value)


@pytest.mark.parametrize("cls", [TrainSettings, FitSettings])
def test_every_setting_has_a_description_and_limits(cls):
    for item in dataclasses.fields(cls):
        assert item.metadata["description"].endswith((".", "..."))
        limited = {"low", "interval", "check"} & set(item.metadata)
        assert limited or item.type.startswith(("bool", "str", "Literal")), item.name


@pytest.mark.parametrize("name", [item.name for item in dataclasses.fields(TrainSettings)])
def test_every_setting_has_a_key_in_yaml_and_a_name_on_the_command_line(name, tmp_path):
    made = TrainSettings()
    write_settings(made.to_dict(), tmp_path / "config.yaml")
    text = (tmp_path / "config.yaml").read_text()
    assert f"\n{name}:" in text
    value = made.to_dict()[name]
    typed = ",".join(map(str, value)) if isinstance(value, list) else "null" if value is None else str(value)
    assert getattr(TrainSettings.build(parse_overrides([f"{name}={typed}"])), name) in (getattr(made, name), typed)


def test_settings_hold_plain_values():
    recipe = TrainSettings(size=np.int64(64), epochs=np.int64(3), lr=np.float64(0.1))
    assert {type(value) for value in (recipe.size, recipe.epochs)} == {int}
    assert type(recipe.lr) is float


def test_left_out_settings_are_those_of_what_is_trained():
    assert TrainSettings.build({}) == TrainSettings(**PRESETS["head"])
    assert TrainSettings.build({"tune": "all"}) == TrainSettings(tune="all", **PRESETS["all"])
    assert TrainSettings.build({}).hidden == 1024
    assert TrainSettings.build({"tune": "all"}).hidden == 0
    assert TrainSettings.build({"head": "cosine"}).hidden == 0


def test_texts_become_what_the_setting_is():
    texts = {
        "epochs": "3",
        "lr": "1e-2",
        "milestones": "0.5, 0.7",
        "ema": "none",
        "devices": "2",
        "pretrained": "no",
        "size": "96",
        "precision": 32,
    }
    recipe = TrainSettings.build(texts)
    assert recipe.epochs == 3
    assert recipe.lr == 0.01
    assert recipe.milestones == (0.5, 0.7)
    assert recipe.ema is None
    assert recipe.devices == 2
    assert recipe.precision == "32"
    assert recipe.pretrained is False
    assert recipe.size == 96
    assert TrainSettings.build({"devices": "auto"}).devices == "auto"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epoch": 3}, "`settings` of `TrainSettings` must be known; got 'epoch'. Did you mean 'epochs'?"),
        ({"epochs": "many"}, "`epochs` of `TrainSettings` must be a whole number, at least 1; got 'many'."),
        ({"epochs": 2.5}, "`epochs` of `TrainSettings` must be a whole number, at least 1; got 2.5."),
        ({"pretrained": "perhaps"}, "`pretrained` of `TrainSettings` must be True or False; got 'perhaps'."),
        ({"tune": "body"}, "`tune` of `TrainSettings` must be one of 'head', 'all'; got 'body'."),
        ({"val": 0.6, "test": 0.5}, "`val and test` of `TrainSettings` must leave rows to train on; got 0.6 + 0.5."),
        ({"dropout": 1}, "`dropout` of `TrainSettings` must be a number at least 0 and below 1; got 1"),
        (
            {"augmentation": "strng"},
            "`augmentation` of `TrainSettings` must be one of 'none', 'light', 'strong'; got 'strng'.",
        ),
        (
            {"schedule": "cosin"},
            "`schedule` of `TrainSettings` must be one of 'cosine', 'step', 'one-cycle', 'constant'; got",
        ),
        ({"size": -3}, "`size` of `TrainSettings` must be a whole number, at least 1; got -3."),
        ({"workers": -2}, "`workers` of `TrainSettings` must be a whole number, at least 0; got -2."),
        ({"on_bad_image": "ignore"}, "`on_bad_image` of `TrainSettings` must be one of 'skip', 'fail'; got 'ignore'."),
    ],
)
def test_bad_settings_get_one_sentence(settings, words):
    with raises_input_error(match="must") as error:
        TrainSettings.build(settings)
    assert str(error.value).startswith(words)


def test_a_choice_that_is_nearly_right_is_guessed():
    for settings, guess in (({"augmentation": "strng"}, "strong"), ({"optimizer": "adam"}, "adamw")):
        with raises_input_error(match=rf"Did you mean '{guess}'\?"):
            TrainSettings.build(settings)


def test_settings_survive_a_file(tmp_path):
    recipe = TrainSettings.build(
        {"loss": "SPA + LPR", "milestones": "0.3,0.6", "tune": "all", "cache": "none", "ema": 0.99}
    )
    write_settings({"data": {"paths": ["a.csv"]}, **recipe.to_dict()}, tmp_path / "config.yaml")
    settings = read_settings(tmp_path / "config.yaml")
    assert settings.pop("data") == {"paths": ["a.csv"]}
    assert TrainSettings.build(settings) == recipe
    assert isinstance(recipe, FitSettings)


def test_files_that_hold_no_settings(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("- a\n- b\n")
    with raises_input_error(rule="hold settings by name", got="list"):
        read_settings(path)
    path.write_text("a: [1\n")
    with raises_input_error(rule="be a YAML file"):
        read_settings(path)
    path.write_text("")
    assert read_settings(path) == {}


def test_overrides():
    assert parse_overrides(["lr=0.1", "loss = A(b=2)"]) == {"lr": "0.1", "loss": "A(b=2)"}
    with raises_input_error(rule="look like name=value", got="'lr'"):
        parse_overrides(["lr"])
