"""Labels for what somebody types."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyhot.search.query import Query
from manyhot.studio.items import LabelCompleter, format_label, start_of_name
from tests.studio.collections import LABELS

COMPLETING = LabelCompleter(LABELS, [5.0, 3.0, 9.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("text", "start", "found"),
    [
        ("", 0, ["hot dog", "dog", "cat", "park", "black and white"]),
        ("do", 0, ["dog", "hot dog"]),
        ("dog & !par", 7, ["park"]),
        ("dog and not ca", 12, ["cat"]),
        ("(dog or hot d", 8, ["hot dog"]),
        ("only(dog, bl", 10, ["black and white"]),
        ("dog & 'black an", 6, ["black and white"]),
        ("WHITE", 0, ["black and white"]),
        ("og", 0, ["hot dog", "dog"]),
        ("zebra", 0, []),
    ],
)
def test_the_name_under_the_cursor_is_completed(text, start, found):
    completions = COMPLETING.complete(text, len(text))
    assert (completions.start, completions.end) == (start, len(text))
    assert [name.label for name in completions.names] == found


def test_only_what_stands_before_the_cursor_counts():
    completions = COMPLETING.complete("do & cat", 2)
    assert (completions.start, completions.end) == (0, 2)
    assert completions.names[0].label == "dog"


def test_a_word_that_may_become_a_name_is_not_taken_for_an_operator():
    assert start_of_name("dog or", 6) == 0
    assert start_of_name("dog or ", 7) == 7


@given(st.lists(st.text(min_size=1, max_size=12).filter(lambda name: name.strip() == name and name), unique=True))
def test_what_is_inserted_is_understood_as_that_label(labels):
    # Names that differ in case or form alone are told apart by their exact text, which quoting keeps.
    for label in labels:
        if not any("\ud800" <= sign <= "\udfff" for sign in label):
            assert Query(format_label(label), labels).names == [label]


@given(st.text(max_size=40), st.integers(-5, 60))
def test_no_text_and_no_cursor_is_too_odd(text, cursor):
    completions = COMPLETING.complete(text, cursor)
    assert 0 <= completions.start <= completions.end <= len(text)
