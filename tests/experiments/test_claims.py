"""Verdicts: what counts as a difference, and what a claim comes to."""

import json
from dataclasses import replace

import pytest

from experiments.claims import ABOVE, BELOW, TIED, Claim, Part, all_claims
from experiments.runs import Job, RunStore
from experiments.tables import MeanInterval, MethodResults, Spread, at, over_seeds, own, paired
from experiments.training import Method
from manyhot.engine import FitSettings


@pytest.mark.parametrize(
    ("mean", "half", "claimed", "holds"),
    [
        (0.05, 0.01, ABOVE, True),
        (0.05, 0.01, BELOW, False),
        (-0.05, 0.01, BELOW, True),
        (0.001, 0.0005, ABOVE, False),  # significant, and too small to matter
        (0.004, 0.003, ABOVE, True),
        (0.0, 0.002, ABOVE, False),
        (0.0, 0.05, ABOVE, None),  # may be or not
        (0.001, 0.002, TIED, True),
        (0.02, 0.003, TIED, False),
        (0.0, 0.05, TIED, None),
        (0.03, None, ABOVE, True),  # one seed
        (0.003, None, TIED, None),
        (0.003, None, BELOW, None),
        (-0.03, None, ABOVE, False),
    ],
)
def test_what_an_interval_says_of_a_claim(mean, half, claimed, holds):
    assert Part("gap", MeanInterval(mean, half, 3), claimed).holds is holds


def test_a_claim_of_a_large_difference_needs_one():
    gap = MeanInterval(0.003, 0.001, 3)
    assert Part("gap", gap, ABOVE).holds is True
    assert Part("gap", gap, ABOVE, least=0.05).holds is False


def test_verdicts_are_made_of_parts():
    yes, no = Part("a", MeanInterval(0.1, 0.01, 3), ABOVE), Part("b", MeanInterval(0.1, 0.01, 3), BELOW)
    missing = Part("c", None, ABOVE)
    cases = ([yes, yes], [yes, missing], [yes, no, no, no], [yes, no, no, no, no], [no, missing], [missing])
    holds, partly, fails = "holds", "holds in part", "does not hold here"
    assert [Claim("0", "claim", parts, "").verdict for parts in cases] == [
        holds,
        partly,
        partly,
        fails,
        fails,
        "not run",
    ]
    assert yes.shown() == "a: +10.00 ± 1.00 points"
    assert missing.shown() == "c: not run"
    assert Part("d", MeanInterval(-0.5, None, 1), ABOVE, "").shown() == "d: -0.500 (one seed)"


def test_claims_without_runs_are_open(tmp_path):
    claims = all_claims(RunStore(tmp_path))
    assert {claim.paper for claim in claims} == {"000", "001", "002", "003", "004"}
    assert {claim.verdict for claim in claims} == {"not run"}


def keep(store, method, seed, figures):
    job = Job("tiny-imagenet features", method, replace(FitSettings(), seed=seed), ("one_label",))
    store.save(job, {"figures": {"one_label": figures}} if figures else {"diverged": "at once", "figures": {}})
    return job


def test_what_is_found_of_a_method(tmp_path):
    store, one, other = RunStore(tmp_path), Method("one", "BCE"), Method("other", "SPA")
    ours, theirs = [0.1, 0.11, 0.12], [0.2, 0.22, 0.24]
    jobs = [keep(store, one, seed, {"error": ours[seed]}) for seed in range(3)]
    jobs += [keep(store, other, seed, {"error": theirs[seed]}) for seed in range(3)]
    result, error = MethodResults(store, jobs, "one_label"), at("error")
    assert result.mean("one", error) == over_seeds(ours)
    assert result.gap("other", "one", error) == paired(theirs, ours)
    assert result.gap("other", "nobody", error) is None
    assert at("no", "such", "path")({"no": {"such": 3}}) is None
    assert own("x")({"own": "softmax", "readings": {"softmax": {"x": 5}}}) == 5


def test_fewer_seeds_borrow_their_spread_from_all_methods(tmp_path):
    store = RunStore(tmp_path)
    values = {"a": [1.0, 3.0], "b": [2.0, 2.0], "c": [5.0]}
    jobs = [
        keep(store, Method(name, f"{name}()"), s, {"x": v}) for name, own in values.items() for s, v in enumerate(own)
    ]
    result, x = MethodResults(store, jobs, "one_label"), at("x")
    spread = Spread.of(values.values())
    assert spread.degrees == 2
    assert spread.deviation == pytest.approx(1.0)  # of 2 and 0 squares over two degrees of freedom
    assert result.mean("c", x).half == pytest.approx(4.302653)
    assert result.gap("a", "b", x).half == pytest.approx(4.302653)
    assert Spread.of([[1.0], [2.0]]).mean([1.0]) == MeanInterval(1.0, None, 1)


def test_single_runs_with_other_seeds_are_not_compared(tmp_path):
    store = RunStore(tmp_path)
    jobs = [keep(store, Method("a", "a()"), 0, {"x": 1.0}), keep(store, Method("b", "b()"), 1, {"x": 2.0})]
    assert MethodResults(store, jobs, "one_label").gap("a", "b", at("x")) is None


def test_diverged_runs_are_counted(tmp_path):
    store = RunStore(tmp_path)
    jobs = [keep(store, Method("a", "a()"), 0, {"x": 1.0}), keep(store, Method("a", "a()"), 1, None)]
    jobs.append(keep(store, Method("b", "b()"), 0, None))
    result = MethodResults(store, jobs, "one_label")
    assert json.dumps(result.methods) == '{"a": [{"x": 1.0}]}'
    table = result.table({})
    assert "1 (1 diverged)" in table
    assert "| b | 0 (1 diverged) |" in table
