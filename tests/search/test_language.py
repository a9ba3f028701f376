"""What queries mean, how they are written again, and what is said of those that cannot be read."""

import itertools
import re
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from manyhot.search.formula import And, Count, Label, Not, Or, format_query, holds, normalize
from manyhot.search.lexer import KEYWORDS, QueryError
from manyhot.search.parser import parse_query
from tests.errors.expected import raises_input_error

LABELS = ["cat", "dog", "bird", "sofa", "traffic light", "black and white", "or", "rock & roll", "Polish", "polish"]
CAT, DOG, BIRD, SOFA, LIGHT = map(Label, range(5))


@pytest.mark.parametrize(
    ("text", "formula"),
    [
        ("cat", CAT),
        ("cat & dog & bird", And((CAT, DOG, BIRD))),
        ("cat && (dog AND bird)", And((CAT, DOG, BIRD))),
        ("cat || dog or (bird | sofa)", Or((CAT, DOG, BIRD, SOFA))),
        ("cat | dog & !bird", Or((CAT, And((DOG, Not(BIRD)))))),
        ("Not cat & ~dog", And((Not(CAT), Not(DOG)))),
        ("!(not (cat))", CAT),
        ("((((cat))))", CAT),
        ("traffic   light&cat", And((LIGHT, CAT))),
        ("'traffic light' | \"cat\"", Or((LIGHT, CAT))),
        ("'black and white' & 'or'", And((Label(5), Label(6)))),
        ("only(cat, sofa)", And((CAT, SOFA, Count(2, 2)))),
        ("only(cat, CAT, cat)", And((CAT, Count(1, 1)))),
        ("dog & only(cat)", And((DOG, CAT, Count(1, 1)))),
        ("none", Count(0, 0)),
        ("any", Count(1, None)),
        ("count >= 3", Count(3, None)),
        ("COUNT>3", Count(4, None)),
        ("count<3", Count(0, 2)),
        ("count <= 3", Count(0, 3)),
        ("count = 3", Count(3, 3)),
        ("count == 003", Count(3, 3)),
        ("count != 3", Not(Count(3, 3))),
        ("!count != 3", Count(3, 3)),
        ("3 <= count", Count(3, None)),
        ("3 > count", Count(0, 2)),
        ("3 = count", Count(3, 3)),
        ("2 < count <= 4", Count(3, 4)),
        ("4 >= count > 1", Count(2, 4)),
        ("count >= 100", Count(100, None)),
        ("count >= 0", And(())),
        ("count < 0", Or(())),
        ("5 <= count <= 2", Or(())),
        ("atleast(2, cat, dog, bird)", Count(2, None, (CAT, DOG, BIRD))),
        ("atmost(1, cat & dog, !bird)", Count(0, 1, (And((CAT, DOG)), Not(BIRD)))),
        ("Exactly(1, cat, atleast(1, dog, bird))", Count(1, 1, (CAT, Count(1, None, (DOG, BIRD))))),
        ("2 <= count(cat, dog, bird, sofa) <= 3", Count(2, 3, (CAT, DOG, BIRD, SOFA))),
        ("count(cat, dog) != 1", Not(Count(1, 1, (CAT, DOG)))),
        ("CAT & Traffic\tLIGHT", And((CAT, LIGHT))),
        (r"'\x63at' | '\u0064og' | '\U00000062ird'", Or((CAT, DOG, BIRD))),
        ("!" * 9_001 + "cat", Not(CAT)),
        ("(" * 100 + "cat" + ")" * 100, CAT),
        (" | ".join(["(cat)"] * 150), Or((CAT,) * 150)),
    ],
)
def test_what_a_query_means(text, formula):
    assert parse_query(text, LABELS) == formula


def test_a_name_that_is_there_exactly_comes_before_one_that_is_alike():
    assert parse_query("polish & Polish", LABELS) == And((Label(9), Label(8)))
    assert parse_query("cafe\u0301", ["caf\u00e9"]) == Label(0)
    assert parse_query("cafe\u0301", ["caf\u00e9", "cafe\u0301"]) == Label(1)
    assert parse_query("STRASSE", ["straße"]) == Label(0)
    assert parse_query("''", ["cat", ""]) == Label(1)


def test_digits_are_labels_where_no_number_is_due():
    names = [str(column) for column in range(5)]
    assert parse_query("3 & !1", names) == And((Label(3), Not(Label(1))))
    assert parse_query("atleast(2, 3, 4) & 2 <= count & 2", names) == And(
        (Count(2, None, (Label(3), Label(4))), Count(2, None), Label(2))
    )


def test_control_characters_can_be_typed():
    names = ["\x00", "a\nb", "tab\t", "quo\"te'", "back\\slash", "\ud800", "\U000e0001"]
    typed = [r"'\x00'", r'"a\nb"', r"'tab\t'", r'"quo\"te\'"', r"'back\\slash'", r"'\ud800'", r"'\U000e0001'"]
    assert [parse_query(text, names).column for text in typed] == list(range(7))
    assert parse_query('"a\nb"', names) == Label(1)


# Python reads a large part of the language too, and is the oracle here.


class Flag:
    def __init__(self, name, present):
        self.name, self.present = name, present

    def __bool__(self):
        return self.name in self.present


class Number(int):
    def __call__(self, *parts):
        return sum(map(bool, parts))


def python_says(text, present):
    words = {name: Flag(name, present) for name in "abcd"}
    words |= {
        "count": Number(len(present)),
        "none": not present,
        "any": bool(present),
        "only": lambda *flags: {flag.name for flag in flags} == set(present),
        "atleast": lambda number, *parts: sum(map(bool, parts)) >= number,
        "atmost": lambda number, *parts: sum(map(bool, parts)) <= number,
        "exactly": lambda number, *parts: sum(map(bool, parts)) == number,
    }
    return bool(eval(text, {"__builtins__": {}}, words))


letters = st.sampled_from("abcd")
numbers = st.integers(0, 5).map(str)
signs = st.sampled_from(["<", "<=", "==", "!=", ">=", ">"])
leaves = st.one_of(
    letters,
    st.sampled_from(["none", "any"]),
    st.lists(letters, min_size=1, max_size=4).map(lambda names: f"only({', '.join(names)})"),
    st.builds("count {} {}".format, signs, numbers),
    st.builds("{} {} count".format, numbers, signs),
    st.builds("{} {} count <= {}".format, numbers, st.sampled_from(["<", "<="]), numbers),
    st.builds("{} > count {} {}".format, numbers, st.sampled_from([">", ">="]), numbers),
)


def larger(parts):
    several = st.lists(parts, min_size=1, max_size=3).map(", ".join)
    return st.one_of(
        st.builds("{} and {}".format, parts, parts),
        st.builds("{} or {}".format, parts, parts),
        st.builds("not {}".format, parts),
        st.builds("({})".format, parts),
        st.builds("{}({}, {})".format, st.sampled_from(["atleast", "atmost", "exactly"]), numbers, several),
        st.builds("(count({}) {} {})".format, several, signs, numbers),
    )


queries = st.recursive(leaves, larger, max_leaves=8)


@settings(max_examples=150, deadline=None)
@given(queries, st.randoms(use_true_random=False))
def test_a_query_holds_where_python_says_so(text, random):
    formula = parse_query(text, "abcd")
    for size in range(5):
        for present in itertools.combinations(range(4), size):
            assert holds(formula, present) == python_says(text, {"abcd"[column] for column in present})
    assert parse_query(format_query(formula, "abcd"), "abcd") == formula

    ways = {"and": ["&", "&&", " And "], "or": ["|", "||", " OR "], "not": ["!", "~", " noT "], "==": ["=", "=="]}
    other = re.sub(r" ?\b(and|or|not)\b ?|==", lambda sign: random.choice(ways[sign.group().strip()]), text)
    assert parse_query(other, "abcd") == formula


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("fork and apple and not knife", "fork & apple & !knife"),
        ("dog and not (beach or park)", "dog & !(beach | park)"),
        ("(dog & fork) | (park & (beach | apple))", "dog & fork | park & (beach | apple)"),
        ("only(fork, 'red wine')", "only(fork, red wine)"),
        ("fork & dog & count = 2", "only(fork, dog)"),
        ("dog & only(fork) & only(dog, park)", "dog & only(fork) & only(dog, park)"),
        ("dog & count = 2", "dog & count = 2"),
        ("dog & dog & count = 2", "dog & dog & count = 2"),
        ("!only(dog)", "!only(dog)"),
        ("!(dog & only(fork))", "!(dog & only(fork))"),
        ("count = 0", "none"),
        ("!none & count > 0", "!none & any"),
        ("3 <= count", "count >= 3"),
        ("2 <= count < 5", "2 <= count <= 4"),
        ("count < 3 | count != 4", "count <= 2 | count != 4"),
        ("!count >= 3", "not count >= 3"),
        ("!!!(count(dog, fork) = 1)", "!exactly(1, dog, fork)"),
        ("atleast(2, dog, fork | park, park)", "atleast(2, dog, fork | park, park)"),
        ("count(dog, fork) <= 1", "atmost(1, dog, fork)"),
        ("not 1 <= count(dog, fork, park) <= 2", "not 1 <= count(dog, fork, park) <= 2"),
        ("'count' & \"it's\" & '\\x1b[31m'", '"count" & "it\'s" & "\\x1b[31m"'),
    ],
)
def test_a_formula_is_written_plainly(text, plain):
    labels = ["fork", "apple", "knife", "dog", "beach", "park", "red wine", "count", "it's", "\x1b[31m"]
    assert format_query(parse_query(text, labels), labels) == plain


NASTY = [
    *[
        "",
        " ",
        "a ",
        " a",
        "a  b",
        "cat",
        "Cat",
        "red wine",
        "'",
        '"',
        "\\",
        "\\n",
        "a'b\"c\\",
        "a&b",
        "3",
        "!",
        "(",
        "<=",
    ],
    *[
        "\x00",
        "\n",
        "\x1b[2J",
        "\u202e",
        "\u00a0",
        "\ud800",
        "\udc00",
        "👩\u200d👧",
        "e\u0301",
        "é",
        "straße",
        "STRASSE",
    ],
    *[*sorted(KEYWORDS), "Not here", "black AND white", "x'; DROP TABLE t; --"],
]
any_text = st.one_of(st.sampled_from(NASTY), st.text(st.characters(), max_size=6))
any_labels = st.lists(any_text, min_size=1, max_size=5, unique=True)


def formulas(num_labels):
    columns = st.integers(0, num_labels - 1).map(Label)
    limits = st.tuples(st.integers(-1, 4), st.none() | st.integers(-1, 10**10))
    leaf = st.one_of(
        columns, limits.map(lambda pair: Count(*pair)), st.integers(0, 3).map(lambda size: Count(size, size))
    )

    def larger(parts):
        several = st.lists(parts, max_size=4).map(tuple)
        counts = st.builds(lambda pair, inner: Count(*pair, inner), limits, several)
        return st.one_of(parts.map(Not), several.map(And), several.map(Or), counts)

    return st.recursive(leaf, larger, max_leaves=12)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(any_labels.flatmap(lambda labels: st.tuples(st.just(labels), formulas(len(labels)))))
def test_what_is_written_reads_as_the_same_formula(pair):
    labels, formula = pair
    text = format_query(formula, labels)
    assert text.isprintable()
    plain = parse_query(text, labels)
    assert plain == normalize(formula)
    assert format_query(plain, labels) == text
    for size in range(len(labels) + 1):
        for present in itertools.combinations(range(len(labels)), size):
            assert holds(plain, present) == holds(formula, present)


def test_write_refuses_what_has_no_name_or_no_end():
    with raises_input_error(
        "formula", "format_query", rule="name columns of 2 labels", got="column 2", hint="Pass the"
    ):
        format_query(And((CAT, BIRD)), ["cat", "dog"])
    deep = CAT
    for _ in range(101):
        deep = Count(1, None, (deep, DOG))
    rule = "`formula` of `format_query` must nest at most 100 levels of parentheses"
    sentence = f"{rule}; got more. Leave out what is not needed."
    with raises_input_error(match=f"^{re.escape(sentence)}$"):
        format_query(deep, LABELS)
    for _ in range(100_000):
        deep = Not(deep)
    with raises_input_error(match=f"^{re.escape(sentence)}$"):
        format_query(deep, LABELS)
    while isinstance(deep, Not):  # one by one, as freeing such a chain at once would go as deep
        deep = deep.part


def test_the_deepest_query_is_read_and_written():
    text = "cat"
    for _ in range(100):
        text = f"dog | bird & !atleast(1, sofa, {text})"
    text = text.replace("sofa, cat", "sofa, cat | dog & not count >= 3 & only(cat, dog)")
    formula = parse_query(text, LABELS)
    assert format_query(formula, LABELS) == text
    with raises_input_error(rule="nest parentheses at most 100 levels deep", got="one more", kind=QueryError):
        parse_query(f"({text})", LABELS)


@pytest.mark.process
def test_the_language_does_without_torch():
    code = "import manyhot.search.parser, manyhot.search.formula, sys; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
