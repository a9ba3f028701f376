"""The registry: which classes a string can name, and how names of earlier versions are read."""

import pytest

import manyhot as mh
from manyhot import registry
from manyhot.errors import InputError
from manyhot.registry import CLASSES, RENAMED, classes, construct, find_class, register, upgrade_text
from tests.errors.expected import raises_input_error


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """The classes registered in a test are forgotten after it."""
    monkeypatch.setattr(registry, "_registered", {})
    return registry._registered


class TestRegister:
    def test_a_class_of_your_own_can_be_named(self):
        @register
        class Strict(mh.Threshold):
            pass

        assert find_class("Strict") is Strict
        assert classes(mh.Rule)["Strict"] is Strict
        rule = construct("Abstain(strict(0.9))", mh.Rule)
        assert type(rule.rule) is Strict
        assert rule.rule.threshold == 0.9

    def test_a_class_is_not_known_before(self):
        class Strict(mh.Threshold):
            pass

        assert find_class("Strict") is None
        with raises_input_error(rule="name something known", got="'Strict'"):
            construct("Strict(0.9)", mh.Rule)

    def test_the_last_class_of_a_name_counts(self):
        first, second = (register(type("Strict", (mh.Threshold,), {})) for _ in range(2))
        assert find_class("Strict") is second is not first

    def test_the_names_of_manyhot_are_taken(self, registered):
        class TopK(mh.Threshold):
            pass

        with pytest.raises(InputError) as caught:
            register(TopK)
        error = caught.value
        assert (error.argument, error.owner, error.got) == ("kind", "register", "'TopK'")
        assert registered == {}

    def test_classes_of_manyhot_win_over_registered_ones(self, registered):
        registered["TopK"] = mh.Threshold
        assert find_class("TopK") is mh.TopK
        assert classes(mh.Rule)["TopK"] is mh.TopK


class TestClasses:
    def test_every_name_is_that_of_its_class(self):
        assert {name: find_class(name).__name__ for name in CLASSES} == {name: name for name in CLASSES}

    def test_those_below_a_base_only(self):
        links, rules = classes(mh.Link), classes(mh.Rule)
        assert all(issubclass(kind, mh.Link) for kind in links.values())
        assert {"SigmoidLink", "NoLink"} <= links.keys()
        assert not links.keys() & rules.keys()


class TestConstruct:
    def test_the_error_has_fields(self):
        with pytest.raises(InputError) as caught:
            construct("TopK(kk=3)", mh.Rule, argument="rule", owner="train")
        error = caught.value
        assert (error.argument, error.owner, error.rule) == ("rule", "train", "use arguments that TopK has")
        assert (error.got, error.hint) == ("'kk'", "Did you mean k?")

    def test_the_error_of_a_constructor_names_the_class(self):
        with pytest.raises(InputError) as caught:
            construct("TopK(-1)", mh.Rule, argument="rule", owner="train")
        assert (caught.value.argument, caught.value.owner) == ("k", "TopK")

    def test_an_object_of_another_kind(self):
        with raises_input_error("rule", "train", rule="be a rule", got="SigmoidLink", hint="Name one, such as"):
            construct("SigmoidLink", mh.Rule, argument="rule", owner="train")

    def test_names_that_the_caller_understands_are_suggested(self):
        with raises_input_error(hint="Did you mean default?"):
            construct("defualt", mh.Rule, names=["default"])

    @pytest.mark.parametrize(("old", "new"), RENAMED.items())
    def test_old_names_are_suggested_but_not_accepted(self, old, new):
        for text in (old, f"{old}()", old.lower()):
            with raises_input_error(match=rf"must name something known; .*Did you mean {new}\?"):
                construct(text, object)


class TestUpgradeText:
    @pytest.mark.parametrize(("old", "new"), RENAMED.items())
    def test_every_old_name(self, old, new):
        assert upgrade_text(old) == new
        assert upgrade_text(f"{old}(1, x=2)") == f"{new}(1, x=2)"
        assert new in CLASSES
        assert old not in CLASSES

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("ask-person(expected-f(2), at_most=0.1)", "Abstain(ExpectedFBeta(2), at_most=0.1)"),
            ("AskPerson(rule=ExpectedF)", "Abstain(rule=ExpectedFBeta)"),
            ("Isotonic(per='all')", "IsotonicCalibration(sharing='all')"),
            ("Isotonic(per='label')", "IsotonicCalibration(sharing='none')"),
            ('Affine(per="shrunk")', "PlattScaling(sharing='partial')"),
            ("average-k(3)", "average-k(3)"),
            ("AverageK(3)", "AverageK(3)"),
            ("IsotonicCalibration(sharing='none')", "IsotonicCalibration(sharing='none')"),
            ("NoneOfThese('Beta', keep=0.9)", "NoneOfThese('Beta', keep=0.9)"),
        ],
    )
    def test_names_arguments_and_values(self, old, new):
        assert upgrade_text(old) == new
        assert upgrade_text(new) == new

    def test_the_result_can_be_constructed(self):
        rule = construct(upgrade_text("AskPerson(ExpectedF(2), at_most=0.25)"), mh.Rule)
        assert isinstance(rule, mh.Abstain)
        assert rule.rule.beta == 2
        calibrator = construct(upgrade_text("Isotonic(per='label')"), mh.Calibrator)
        assert calibrator.sharing == "none"
