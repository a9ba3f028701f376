"""Strings become objects, and nothing but the objects that were allowed."""

import subprocess
import sys

import pytest

import manyhot as mh
from manyhot.registry import classes, construct
from tests.errors.expected import raises_input_error


def build(text):
    return construct(text, mh.Rule, argument="--rule", owner="manyhot decide")


@pytest.mark.parametrize("text", ["AverageK(3)", "average-k(3)", "averagek( 3 )", "average_k(k=3)", "AverageK(3.0)"])
def test_ways_to_write_a_rule(text):
    rule = build(text)
    assert isinstance(rule, mh.AverageK)
    assert rule.k == 3


def test_a_name_alone_and_negative_numbers():
    assert isinstance(build("label-thresholds"), mh.LabelThresholds)
    with raises_input_error("k", "TopK"):
        build("TopK(-1)")


def test_rules_inside_of_rules():
    rule = build("Abstain(LabelThresholds(recall=0.9), at_most=0.25)")
    assert isinstance(rule.rule, mh.LabelThresholds)
    assert rule.at_most == 0.25


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "AvergeK(3)",
            r"`--rule` of `manyhot decide` must name something known; got 'AvergeK'\. Did you mean AverageK\?",
        ),
        ("xyz", r"must name something known; got 'xyz'\. Pick one of Abstain, AverageK, ClassThresholds"),
        ("AverageK(", r"must be a name with arguments in brackets; got 'AverageK\('"),
        ("3", r"must be a name with arguments in brackets; got '3'"),
        ("__import__('os')", r"must name something known; got '__import__'"),
        ("TopK(k=open)", r"must name something known; got 'open'"),
        ("TopK(1 + 1)", r"must have numbers, strings and lists as arguments; got 1 \+ 1\."),
        ("TopK(kk=3)", r"must use arguments that TopK has; got 'kk'\. Did you mean k\?"),
        ("TopK()", r"must fit TopK.*missing a required argument: 'k'"),
        ("TopK(1, 2, 3, 4)", r"must fit TopK.*too many positional arguments"),
        ("mh.TopK(3)", r"must be a name with arguments in brackets"),
        ("", r"must be a name with arguments in brackets; got ''"),
    ],
)
def test_refused(text, words):
    with raises_input_error(match=words):
        build(text)


@pytest.mark.process
def test_the_classes_of_the_core_need_torch_and_numpy_only():
    """In a fresh interpreter: to choose a rule, nobody needs what trains or what scikit-learn brings."""
    code = (
        "import sys, torch, numpy; before = set(sys.modules); from manyhot.registry import classes; "
        "from manyhot.decide import Rule; assert 'AverageK' in classes(Rule); "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names) - {'torch', 'numpy'}))"
    )
    new = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert new == "['manyhot']", new
    assert set(classes(mh.Link)) >= {"SigmoidLink", "SoftmaxLink"}
