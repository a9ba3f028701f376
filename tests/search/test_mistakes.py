"""What is said of a query that cannot be read."""

import copy

import pytest

from manyhot.search.lexer import QueryError
from manyhot.search.parser import parse_query
from tests.errors.expected import raises_input_error

LABELS = ["cat", "dog", "bird", "sofa", "traffic light", "black and white", "or", "rock & roll", "Polish", "polish"]

# The query with a mark before the place, what is said of it, and the hint.
CASES = r"""
cat & !▸dgo
  name labels that exist; got 'dgo' at character 8
  Did you mean 'dog'?
▸light
  name labels that exist; got 'light' at character 1
  Did you mean 'traffic light'?
▸zzz
  name labels that exist; got 'zzz' at character 1
  There are 10 labels: 'cat', 'dog', 'bird', 'sofa', 'traffic light' ...
▸POLISH
  name a label exactly where several are alike; got 'POLISH' at character 1
  Did you mean 'Polish' or 'polish'?
cat | ▸black and white
  name labels that exist; got 'black' at character 7
  Put a name with operators or keywords in it between quotation marks: 'black and white'.
cat &▸
  have a condition after '&'; got nothing at the end
  Add one, or remove '&'.
▸& cat
  have a condition at the beginning; got '&' at character 1
  Add one before '&', or remove '&'.
cat & ▸| dog
  have a condition after '&'; got '|' at character 7
  Add one before '|', or remove '|'.
cat and not▸
  have a condition after 'not'; got nothing at the end
  Add one, or remove 'not'.
cat & ▸or
  have a condition after '&'; got 'or' at character 7
  If you mean the label, put it between quotation marks: 'or'.
(▸)
  have a condition after '('; got ')' at character 2
  Add one, or remove the parentheses.
(cat & ▸(dog
  close every parenthesis; got one that stays open at character 8
  Add ) where it ends.
cat▸)
  open a parenthesis before it is closed; got ')' at character 4
  Remove it, or add ( before it.
cat▸, dog
  have commas between the arguments of a function only; got ',' at character 4
  Write & or | instead.
cat ▸traffic light dog
  have & or | between two labels; got none at character 5
  Did you mean cat & traffic light & dog?
cat ▸'dog'
  have & or | between two conditions; got 'dog' right after 'cat' at character 5
  Put & (both) or | (one of them) before it.
cat ▸not dog
  have & or | between two conditions; got 'not' right after 'cat' at character 5
  Put & (both) or | (one of them) before it.
cat ▸(dog)
  have & or | between two conditions; got '(' right after 'cat' at character 5
  Put & (both) or | (one of them) before it.
▸ct (dog)
  name labels that exist; got 'ct' at character 1
  Did you mean 'cat'?
▸atlest(2, cat)
  call functions that exist; got 'atlest' at character 1
  Did you mean atleast?
▸zzz(cat)
  call functions that exist; got 'zzz' at character 1
  The functions are only, atleast, atmost, exactly, count.
▸atleast 2
  have parentheses after `atleast`; got 'atleast' at character 1
  Write for instance atleast(2, cat, dog, bird).
atmost(▸cat, dog)
  give `atmost` a whole number first, as in atmost(2, cat, dog, bird); got 'cat' at character 8
  Write a whole number of at most 9 digits, such as 3.
exactly(2▸)
  give `exactly` conditions after the number, with commas between them; got ')' at character 10
  Write for instance exactly(2, cat, dog, bird).
only(▸)
  give `only` names of labels with commas between them; got ')' at character 6
  For samples without labels, write none.
only(cat, ▸!dog)
  give `only` names of labels with commas between them; got '!' at character 11
  It excludes other labels by itself.
only(cat ▸& dog)
  give `only` names of labels with commas between them; got '&' at character 10
  Put a comma between two names, and ) after the last.
only(cat ▸"dog")
  give `only` names of labels with commas between them; got 'dog' at character 10
  Put a comma between two names, and ) after the last.
only(cat ▸dog)
  have a comma between two labels; got none at character 10
  Did you mean cat, dog?
only(▸
  give `only` names of labels with commas between them; got nothing at the end
  Write for instance only(cat, sofa).
only▸(cat, dog
  close every parenthesis; got one that stays open at character 5
  Add ) where it ends.
none▸(cat)
  have no parentheses after `none`, which is about all labels; got '(' at character 5
  Write exactly(0, ...) for some of them.
any▸(cat)
  have no parentheses after `any`, which is about all labels; got '(' at character 4
  Write atleast(1, ...) for some of them.
▸count & cat
  compare `count` with a number; got 'count' at character 1
  Write for instance count >= 3.
count >= ▸-3
  compare `count` with a whole number; got '-3' at character 10
  Write a whole number of at most 9 digits, such as 3.
count >= ▸1234567890
  compare `count` with a whole number; got '1234567890' at character 10
  Write a whole number of at most 9 digits, such as 3.
▸cat = 3
  compare `count` with a whole number and nothing else; got 'cat' at character 1
  Write for instance count >= 3.
3 < ▸4
  compare a number with `count`; got '4' at character 5
  Write for instance 3 <= count.
2 < count ▸> 1
  compare in one direction; got '>' at character 11
  Write for instance 2 <= count <= 4.
cat & ▸'dog
  close every quotation mark; got one that stays open at character 7
  Add ' after the name. For an apostrophe, put the whole name between double quotation marks.
cat & ▸""
  have a name between quotation marks; got none at character 7
  There are 10 labels: 'cat', 'dog', 'bird', 'sofa', 'traffic light' ...
'a▸\q'
  use \" \' \\ \n \r \t \xNN \uNNNN or \UNNNNNNNN after a backslash between quotation marks; got '\\q' at character 3
  Write \\ for a backslash itself.
"""
LINES = CASES.strip("\n").split("\n")


@pytest.mark.parametrize(("marked", "said", "hint"), list(zip(LINES[::3], LINES[1::3], LINES[2::3], strict=True)))
def test_an_error_points_at_the_place_and_helps(marked, said, hint):
    text, position = marked.replace("▸", ""), marked.index("▸")
    with pytest.raises(QueryError) as caught:
        parse_query(text, LABELS)
    assert str(caught.value) == f"`query` of `search` must {said.strip()}: {marked}. {hint.strip()}"
    assert (caught.value.text, caught.value.position, caught.value.hint) == (text, position, hint.strip())


@pytest.mark.parametrize("text", ["", "  ", "\n\t"])
def test_an_empty_query_gets_an_example(text):
    sentence = "`query` of `search` must say what to look for; got an empty text. Write for instance cat & !dog."
    assert message(text) == sentence


def message(text, labels=LABELS):
    with pytest.raises(QueryError) as caught:
        parse_query(text, labels)
    return str(caught.value)


def test_an_error_shows_part_of_a_long_query_and_no_control_characters():
    long = "cat & " * 20 + "dgo" + " & cat" * 20
    assert f"got 'dgo' at character 121: …{'cat & ' * 5}▸dgo & cat & cat & cat & cat & …. Did" in message(long)
    assert r"at character 7: cat\n&\x1c▸dgo. Did you mean 'dog'?" in message("cat\n&\x1cdgo")
    steering = message("cat & \x1b[2J")
    assert (
        r"control characters between quotation marks only; got \x1b at character 7: cat & ▸\x1b[2J. Remove" in steering
    )
    assert r"must be readable text; got half a character, \ud800, at character 4: cat▸\ud800. Type" in message(
        "cat\ud800"
    )
    assert r"There are 10 labels" in message("\u202e\u200b")
    assert "have at most 10,000 characters; got 10,001 characters" in message("c" * 10_001)
    assert "Did you mean '\\x1b[31mred'?" in message("31mred", ["\x1b[31mred"])


def test_an_error_without_labels_and_of_something_else_than_text():
    assert message("cat", []).endswith("got 'cat' at character 1: ▸cat. There are no labels.")
    assert "must have a name between quotation marks; got none at character 1: ▸''. The labels are ' '." in message(
        "''", [" "]
    )
    assert message("", []).endswith("got an empty text. Write for instance none.")
    with raises_input_error("query", "search", rule="be text", got="int", hint="Pass for instance 'cat & !dog'."):
        parse_query(3, LABELS)


def test_an_error_survives_being_handed_over():
    with pytest.raises(QueryError) as caught:
        parse_query("dgo", LABELS)
    other = copy.copy(caught.value)
    assert str(other) == str(caught.value)
    assert (other.text, other.position, other.hint) == ("dgo", 0, "Did you mean 'dog'?")
