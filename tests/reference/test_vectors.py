"""Reference values computed with fifty digits, held against the package in float64 and float32.

The folder of vectors can be replaced by the environment variable MANYHOT_VECTORS.
"""

import json
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.reference import calibrating, deciding, judging, measuring
from tests.reference.families import COVERED as LOSSES
from tests.reference.families import LEFT_OUT, Vector, gain

COVERED = LOSSES | calibrating.COVERED | deciding.COVERED | judging.COVERED | measuring.COVERED

FOLDER = Path(os.environ.get("MANYHOT_VECTORS") or Path(__file__).parent / "vectors")
FAMILIES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
CASES = [
    pytest.param(family, case, id=case["name"])
    for family in COVERED
    for case in FAMILIES.get(family, {"cases": []})["cases"]
]


def tolerance(family, case, kind, name):
    if case.dtype == torch.float64:
        return 5e-11 if kind == "extreme" else 1e-12
    return max(1e-5, torch.finfo(torch.float32).eps * gain(family, case)) if name == "grad_features" else 1e-5


def compare(got, want, tol, where):
    if want is None:
        return
    if isinstance(got, Tensor):
        got = got.tolist()
    if isinstance(want, list):
        assert len(got) == len(want), f"{where}: {len(got)} values, {len(want)} expected"
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            compare(g, w, tol, f"{where}[{i}]")
    elif isinstance(want, dict):
        for key, value in want.items():
            compare(got[key], value, tol, f"{where}.{key}")
    elif isinstance(want, bool | int):
        assert got == want, f"{where}: got {got}, expected {want}"
    else:
        number = float(want)
        near = got == number or abs(got - number) <= tol * max(1.0, abs(number))
        assert near, f"{where}: got {got!r}, expected {number!r}"


def check(family, case, dtype):
    numbers = Vector(case, dtype)
    results = COVERED[family](numbers)
    wanted = set(case["expected"]) - LEFT_OUT.get(family, set())
    assert wanted <= set(results), f"not computed: {sorted(wanted - set(results))}"
    for name in sorted(wanted):
        tol = tolerance(family, numbers, case["kind"], name)
        compare(results[name], case["expected"][name], tol, f"{case['name']} {name}")


@pytest.mark.parametrize(("family", "case"), CASES)
def test_float64(family, case):
    check(family, case, torch.float64)


@pytest.mark.parametrize(("family", "case"), [c for c in CASES if c.values[1]["kind"] != "extreme"])
def test_float32(family, case):
    check(family, case, torch.float32)


def test_every_family_is_covered():
    assert set(FAMILIES) == set(COVERED)


def with_a_wrong_number(value, kind):
    """The same expected value with its first number of a kind changed, and whether it has one."""
    if isinstance(value, kind):
        return (str(float(value) + 1e-6) if kind is str else value + 1), True
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        changed, found = with_a_wrong_number(item, kind)
        if found:
            value[key] = changed
            return value, True
    return value, False


@pytest.mark.parametrize("family", COVERED)
def test_a_wrong_digit_fails(family):
    """The runner itself can fail: a real number that is off by 1e-6 does not pass, nor does another whole one."""
    case = json.loads(json.dumps(next(c for c in FAMILIES[family]["cases"] if c["kind"] == "ordinary")))
    compared = {name: value for name, value in case["expected"].items() if name not in LEFT_OUT.get(family, set())}
    case["expected"], found = with_a_wrong_number(compared, str)
    if not found:  # a family of decisions alone
        case["expected"], found = with_a_wrong_number(compared, int)
    assert found, "no number is compared"
    with pytest.raises(AssertionError, match="expected"):
        check(family, case, torch.float64)
