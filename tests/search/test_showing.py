"""What a search found, in words and numbers for people."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhot.formatting import format_log_prob as percent
from manyhot.search.collection import ExpectedMatches, Hit, SearchResult
from manyhot.search.summary import describe_expected, describe_hits, file_stem


def number(text):
    return float(text.removesuffix(" %").removeprefix("> "))


@given(st.floats(1e-250, 1 - 1e-7))
def test_percent_is_right_to_two_digits_of_what_is_left(prob):
    shown = number(percent(math.log(prob)))
    least = min(prob, 1 - prob)
    assert shown == pytest.approx(100 * prob, abs=100 * max(0.051 * least, 1.1e-6))
    assert (0 < shown < 100) or least > 1e-3


@given(st.floats(-1e6, -1e-12))
def test_what_is_not_certain_is_never_shown_as_if_it_were(log_prob):
    assert percent(log_prob) not in ("0 %", "100 %")


@pytest.mark.parametrize(
    ("log_prob", "shown"),
    [
        (0.0, "100 %"),
        (-math.inf, "0 %"),
        (1e-17, "100 %"),  # sums of probabilities may be above 1 by rounding
        (math.log(0.9999999), "> 99.9999 %"),
        (-1e-300, "> 99.9999 %"),
        (math.log(9.99e-9), "1.0e-6 %"),
        (-1e6, "3.3e-434293 %"),
    ],
)
def test_percent_at_the_ends(log_prob, shown):
    assert percent(log_prob) == shown


def test_probabilities_that_differ_look_different():
    probs = [0.9999, 0.9997, 0.999, 0.99, 0.93, 0.5, 0.07, 0.0031, 0.000031, 3.1e-9, 3.2e-9]
    assert len({percent(math.log(prob)) for prob in probs}) == len(probs)


def found(probs, mean):
    hits = [Hit(str(row), None, prob, math.log(prob)) for row, prob in enumerate(probs)]
    expected = None if mean is None else ExpectedMatches(mean, 0, 2, 0.95, 1000)
    total = math.fsum(probs)
    recall = None if mean is None else total / mean if mean else math.nan
    return SearchResult("dog", hits, expected, total / len(probs) if probs else math.nan, recall)


def test_hits_in_words():
    twenty = found([0.93] * 20, 123.4)
    assert describe_hits(twenty) == (
        "Of these 20, 18.6 are expected to match (93 %); they hold 15 % of all expected matches."
    )
    assert describe_hits(found([0.5], 2)) == (
        "This one matches with a probability of 50 %; it holds 25 % of all expected matches."
    )
    assert describe_hits(found([0.5, 0.5], None)) == "Of these 2, 1 is expected to match (50 %)."
    assert describe_hits(found([], 0)) == "Nothing was found."


@pytest.mark.parametrize(
    ("mean", "shown"),
    [(0.0, "0"), (0.0371, "0.037"), (1.0, "1"), (12.34, "12.3"), (99.97, "100"), (1234567.8, "1,234,568")],
)
def test_expected_numbers(mean, shown):
    words = describe_expected(ExpectedMatches(mean, 0, 3, 0.9, 1))
    assert words == f"Expected matches: {shown} (90 %: 0 to 3) among 1 image."


@pytest.mark.parametrize(
    ("query", "stem"),
    [
        ("fork & apple & !knife", "search-fork-apple-not-knife"),
        ("dog | cat", "search-dog-or-cat"),
        ("count >= 3", "search-count-from-3"),
        ('"../../etc/passwd"', "search-etc-passwd"),
        ("犬 & !Ärger", "search-犬-not-ärger"),
        ('"\\x00"', "search-x00"),
        ("***", "search"),
    ],
)
def test_names_of_files(query, stem):
    assert file_stem(query) == stem


@given(st.text())
def test_names_of_files_are_harmless(query):
    stem = file_stem(query)
    assert stem.startswith("search")
    assert len(stem.encode("utf-8", "surrogatepass")) <= 240
    assert all(sign.isalnum() or sign == "-" for sign in stem)
