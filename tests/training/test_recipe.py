"""Settings: from words to a recipe and back, and what is said about those that cannot be taken."""

import pytest

from manyhot.engine import Plan
from manyhot.training import Recipe
from manyhot.training.recipe import PLANS, parse_overrides, read_settings, write_settings


def test_left_out_settings_are_those_of_what_is_trained():
    assert Recipe.build({}).plan == PLANS["head"]
    assert Recipe.build({"tune": "all"}).plan == PLANS["all"]
    assert Recipe.build({}).hidden == 1024
    assert Recipe.build({"tune": "all"}).hidden == 0
    assert Recipe.build({"head": "cosine"}).hidden == 0


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
    recipe = Recipe.build(texts)
    assert recipe.plan.epochs == 3
    assert recipe.plan.lr == 0.01
    assert recipe.plan.milestones == (0.5, 0.7)
    assert recipe.plan.ema is None
    assert recipe.plan.devices == 2
    assert recipe.plan.precision == "32"
    assert recipe.pretrained is False
    assert recipe.size == 96
    assert Recipe.build({"devices": "auto"}).plan.devices == "auto"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"epoch": 3}, "`settings` of `Recipe` must be known; got 'epoch'. Did you mean 'epochs'?"),
        ({"epochs": "many"}, "`epochs` of `Recipe` must be a whole number; got 'many'."),
        ({"epochs": 2.5}, "`epochs` of `Recipe` must be a whole number; got 2.5."),
        ({"pretrained": "perhaps"}, "`pretrained` of `Recipe` must be true or false; got 'perhaps'."),
        ({"tune": "body"}, "`tune` of `Recipe` must be one of 'head', 'all'; got 'body'."),
        ({"val": 0.6, "test": 0.5}, "`val and test` of `Recipe` must leave rows to train on; got 0.6 + 0.5."),
        ({"dropout": 1}, "`dropout` of `Recipe` must be a number at least 0 and below 1; got 1"),
        ({"on_bad_image": "ignore"}, "`on_bad_image` of `Recipe` must be one of 'skip', 'fail'; got 'ignore'."),
    ],
)
def test_bad_settings_get_one_sentence(settings, words):
    with pytest.raises(ValueError, match="must") as error:
        Recipe.build(settings)
    assert str(error.value).startswith(words)


def test_settings_survive_a_file(tmp_path):
    recipe = Recipe.build({"loss": "SPA + LPR", "milestones": "0.3,0.6", "tune": "all", "cache": "none", "ema": 0.99})
    write_settings({"data": {"paths": ["a.csv"]}, **recipe.settings()}, tmp_path / "config.yaml")
    settings = read_settings(tmp_path / "config.yaml")
    assert settings.pop("data") == {"paths": ["a.csv"]}
    assert Recipe.build(settings) == recipe
    assert isinstance(recipe.plan, Plan)


def test_files_that_hold_no_settings(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("- a\n- b\n")
    with pytest.raises(ValueError, match="must hold settings by name; got list"):
        read_settings(path)
    path.write_text("a: [1\n")
    with pytest.raises(ValueError, match="must be a YAML file"):
        read_settings(path)
    path.write_text("")
    assert read_settings(path) == {}


def test_overrides():
    assert parse_overrides(["lr=0.1", "loss = A(b=2)"]) == {"lr": "0.1", "loss": "A(b=2)"}
    with pytest.raises(ValueError, match="must look like name=value; got 'lr'"):
        parse_overrides(["lr"])
