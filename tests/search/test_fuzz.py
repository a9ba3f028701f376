"""Whatever is typed, a query is read or refused in one line."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhot.search.formula import format_query
from manyhot.search.lexer import KEYWORDS, MAX_QUERY_LENGTH, QueryError
from manyhot.search.parser import parse_query

LABELS = [
    "cat",
    "dog",
    "Dog",
    "traffic light",
    "a&b",
    "it's",
    "\x1b[31mred",
    "",
    "x'; DROP TABLE t; --",
    "👩\u200d👧",
    "3",
]
VALID = [
    "cat & dog & !traffic light",
    "cat and not (dog or 'a&b')",
    'only(cat, "it\'s") | none',
    "atleast(2, cat, dog | 3, !cat) && count >= 3",
    "2 <= count <= 4 || exactly(1, cat, '\\x1b[31mred')",
    "~(atmost(1, cat, Dog) & count(cat, dog) != 1)",
]
SIGNS = [*"&|!~(),<>='\"\\07", "&&", "||", "<=", "==", "!=", ">=", "10", "1234567890"]
NAMES = ["cat", "dog", "DOG", "traffic", "light", "'a&b'", '"it\'s"', "3", "dgo", "\n", "\x00", "\ud800"]
TOKENS = [*SIGNS, *sorted(KEYWORDS), *NAMES, "cat", "dog", "&", "|"]
STRANGE = "\u0301\u200b\u202e\u2028\u3000\ud800\udfff😀\U000e0001\ufeffſİK"
CHARACTERS = [*map(chr, range(256)), *STRANGE, *"&|!~()<>=,'\"\\ abcdogt" * 8]
PIECES = [
    "(",
    "!",
    "!(",
    "cat ",
    "cat&",
    "cat|(",
    "atleast(1,",
    "only(",
    "count(",
    "'",
    '"\\',
    "9",
    "w ",
    ",",
    "<",
    "cat,",
]


def characters(draw):
    return "".join(draw.choices(CHARACTERS, k=draw.randrange(40)))


def soup(draw):
    return draw.choice(["", " "]).join(draw.choices(TOKENS, k=draw.randrange(12)))


def mutated(draw):
    text = draw.choice(VALID)
    for _ in range(draw.randrange(4)):
        place, size = draw.randrange(len(text) + 1), draw.randrange(4)
        new = draw.choice(["", draw.choice(CHARACTERS), draw.choice(TOKENS), draw.choice(VALID)])
        text = text[:place] + new + text[place + size :]
    return text


def check(error, text):
    sentence = str(error)
    assert sentence.startswith("`query` of `search` must ")
    assert sentence.isprintable(), text
    assert len(sentence) < 1_000, text
    assert error.text == text
    assert 0 <= error.position <= len(text)
    assert error.hint


def read(text):
    """The formula, or None for a query that is refused as it should be."""
    try:
        formula = parse_query(text, LABELS)
    except QueryError as error:
        check(error, text)
        return None
    plain = format_query(formula, LABELS)
    assert plain.isprintable(), text
    assert parse_query(plain, LABELS) == formula, text
    return formula


@pytest.mark.parametrize(("kind", "readable"), [(characters, 0), (soup, 40), (mutated, 500)])
def test_every_string_is_read_or_refused_in_one_line(kind, readable):
    draw = random.Random(11)
    found = [read(kind(draw)) for _ in range(3_400)]
    assert readable <= sum(formula is not None for formula in found) < 3_400


@settings(max_examples=300, deadline=None)
@given(st.text(st.characters() | st.sampled_from(CHARACTERS)) | st.lists(st.sampled_from(TOKENS)).map(" ".join))
def test_any_text_is_read_or_refused_in_one_line(text):
    read(text)


@pytest.mark.parametrize("piece", PIECES)
def test_long_repetition_is_read_or_refused_in_one_line(piece):
    for size in (MAX_QUERY_LENGTH, MAX_QUERY_LENGTH + 1):
        read((piece * size)[:size])
