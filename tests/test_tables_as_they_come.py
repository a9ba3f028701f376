"""Tables as people bring them are read right, or refused in one sentence, as data and as predictions."""

import pytest

from manyhot.data import read_data
from manyhot.predictions import read_predictions
from tests.errors.expected import raises_input_error


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("a.jpg", "b.jpg", "sub/c.jpg"):
        (tmp_path / name).write_bytes(b"")
    return tmp_path


def write(folder, text, name="table.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


LISTS = ["a.jpg", "b.jpg"], [["cat", "dog"], ["dog"]]
LIST_TABLES = {
    "byte order mark": b"\xef\xbb\xbfpath,labels\na.jpg,cat|dog\nb.jpg,dog\n",
    "utf-16": "path,labels\na.jpg,cat|dog\nb.jpg,dog\n".encode("utf-16"),
    "sep=,": "sep=,\r\npath,labels\r\na.jpg,cat|dog\r\nb.jpg,dog\r\n",
    "sep=;": 'sep=;\npath;labels\na.jpg;cat,dog\nb.jpg;"dog"\n',
    '"sep=,"': '"sep=,"\npath,labels\na.jpg,cat|dog\nb.jpg,dog\n',
    "SEP=;": "SEP=;\npath;labels\na.jpg;cat|dog\nb.jpg;dog\n",
    "quoted line break": 'path,labels,note\na.jpg,cat|dog,"one\ntwo"\nb.jpg,dog,\n',
    "line break in the header": 'path,"the\nnote",labels\na.jpg,x,cat|dog\nb.jpg,y,dog\n',
    "column without a name": "path,labels,\na.jpg,cat|dog,\nb.jpg,dog,\n",
    "blank lines": "path,labels\n\na.jpg,cat|dog\n\n\nb.jpg,dog\n\n",
    "other case": "Path,LABELS\na.jpg,cat|dog\nb.jpg,dog\n",
    "tabs in .csv": "path\tlabels\na.jpg\tcat|dog\nb.jpg\tdog\n",
    "spaces": "path , labels\n a.jpg, cat | dog \nb.jpg ,dog\n",
    "carriage returns": "path,labels\ra.jpg,cat|dog\rb.jpg,dog\r",
    "lists of Python": "path,labels\na.jpg,\"['cat', 'dog']\"\nb.jpg,\"['dog']\"\n",
}


@pytest.mark.parametrize("text", LIST_TABLES.values(), ids=LIST_TABLES)
def test_lists_of_names_are_read_alike(folder, text):
    data = read_data(write(folder, text))
    assert (data.ids, data.labels.decode(data.targets.dense())) == LISTS
    scores = write(folder, "path,cat,dog\na.jpg,0.9,0.8\nb.jpg,0.1,0.7\n", "scores.csv")
    table = read_predictions(scores, kind="probs", targets=write(folder, text))
    assert (table.ids, table.labels.decode(table.targets)) == LISTS


CELLS = [[1, 0], [0, 1], [-1, -1]]
CELL_TABLES = {
    "numbers": "path,cat,dog\na.jpg,1,0\nb.jpg,0,1\nsub/c.jpg,-1,\n",
    "fractions": "path,cat,dog\na.jpg,1.0,0.0\nb.jpg,0.0,1.0\nsub/c.jpg,NaN,-1.0\n",
    "decimal commas": "path;cat;dog\na.jpg;1,0;0,0\nb.jpg;0,0;1,0\nsub/c.jpg;;-1,0\n",
    "yes": "path,cat,dog\na.jpg,yes,no\nb.jpg,No,YES\nsub/c.jpg,,-1\n",
    "true": "path,cat,dog\na.jpg,TRUE,FALSE\nb.jpg,False,true\nsub/c.jpg,NA,\n",
    "present": "path,cat,dog\na.jpg,present,absent\nb.jpg,absent,present\nsub/c.jpg,,\n",
    "spaces": "path, cat, dog\na.jpg, 1, 0\nb.jpg, 0, yes\nsub/c.jpg, -1, -1\n",
    "backslash": "path,cat,dog\na.jpg,1,0\nb.jpg,0,1\nsub\\c.jpg,-1,\n",
}


@pytest.mark.parametrize("text", CELL_TABLES.values(), ids=CELL_TABLES)
def test_one_column_a_label_is_read_alike(folder, text):
    data = read_data(write(folder, text))
    assert data.labels.names == ["cat", "dog"]
    assert data.targets.dense().tolist() == CELLS
    assert [data.images.path(row) for row in range(3)] == [folder / name for name in ("a.jpg", "b.jpg", "sub/c.jpg")]
    scores = write(folder, "path,cat,dog\na.jpg,0.9,0.8\nb.jpg,0.1,0.7\nsub/c.jpg,0.2,0.3\n", "scores.csv")
    table = read_predictions(scores, kind="probs", targets=write(folder, text))
    assert table.targets.tolist() == CELLS


SCORES = [[0.5, 0.25], [0.125, 1.0]]
SCORE_TABLES = {
    "decimal commas": "path;cat;dog\na.jpg;0,5;0,25\nb.jpg;0,125;1\n",
    "utf-16": "path\tcat\tdog\na.jpg\t0.5\t0.25\nb.jpg\t0.125\t1\n".encode("utf-16"),
    "sep=;": "sep=;\npath;cat;dog\na.jpg;0,5;0,25\nb.jpg;0,125;1\n",
    "spaces": "path, cat, dog\na.jpg, 0.5, 0.25\n b.jpg , 0.125, 1\n",
    "column without a name": "path,cat,dog,\na.jpg,0.5,0.25,\nb.jpg,0.125,1,\n",
    "line break in the header": 'path,"the\nnote",cat,dog\na.jpg,x,0.5,0.25\nb.jpg,y,0.125,1\n',
    "index of pandas": ",path,cat,dog\n0,a.jpg,0.5,0.25\n1,b.jpg,0.125,1\n",
}


@pytest.mark.parametrize("text", SCORE_TABLES.values(), ids=SCORE_TABLES)
def test_numbers_of_labels_are_read(folder, text):
    table = read_predictions(write(folder, text), kind="probs")
    assert table.labels.names == ["cat", "dog"]
    assert table.probs.tolist() == SCORES
    assert table.paths == ["a.jpg", "b.jpg"]


REFUSED = {
    "cp1252": (
        "path,{}\na.jpg,{}\nb.jpg,Käse\n".encode("cp1252"),
        "text in UTF-8; got .* with the byte 0xE4 in line 3. Save it as UTF-8 .*iconv",
    ),
    "utf-16 without a mark": (
        "path,{}\na.jpg,{}\n".encode("utf-16-le"),
        "text in UTF-8; got .* with zero bytes. Convert it: iconv -f UTF-16LE",
    ),
    "empty": (b"", "have a header; got .* without one"),
    "blank": (b"\n\n", "have a header; got .* without one"),
    "a name twice": (b"path,{0},{0}\na.jpg,{1},{1}\n", "have columns of different names; got '.*' twice"),
    "too many cells": (b"path,{}\na.jpg,{},\n", "be a whole table of text in UTF-8; got .*Expected 2 columns, got 3"),
    "an open quote": (
        b'path,{}\na.jpg,{}\nb.jpg,"{}\na.jpg,1\n',
        "be a table of text.*a quote is perhaps not closed",
    ),
    "no header": (b"a.jpg,{1}\nb.jpg,{1}\n", "have a header; got .* which begins with"),
}


@pytest.mark.parametrize(("text", "sentence"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_refused_by_both(folder, text, sentence):
    for read, words in (
        (read_data, (b"labels", b"cat", b"dog")),
        (lambda path: read_predictions(path, kind="probs"), (b"cat", b"0.5", b"0.25")),
    ):
        filled = text
        for place, word in enumerate(words):
            filled = filled.replace(b"{}", word, 1).replace(b"{%d}" % place, word)
        with raises_input_error(match=sentence):
            read(write(folder, filled))


def test_a_byte_that_is_no_utf8_is_named_also_beyond_the_first_rows(folder):
    rows = "a.jpg,cat\n" * 1500
    with raises_input_error(rule="be text in UTF-8", hint="Save it"):
        read_data(write(folder, b"path,labels\n" + rows.encode() + "b.jpg,caf\u00e9\n".encode("latin-1")))


def test_a_quote_that_is_never_closed_swallows_no_rows(folder):
    rows = "a.jpg,cat,x\n" * 1100 + 'b.jpg,cat,"x\n' + "a.jpg,cat,x\n" * 50
    with raises_input_error(rule="close every quote"):
        read_data(write(folder, f"path,labels,note\n{rows}"))
    with raises_input_error(rule="close every quote"):
        read_predictions(write(folder, f"file,path,note\n{rows.replace('cat', '0.5')}"), kind="probs", labels=["path"])


def test_a_sign_for_inches_is_no_open_quote(folder):
    for rest in ("", "\n\n"):
        assert len(read_data(write(folder, f'path,labels,note\na.jpg,cat,5" wide\nb.jpg,dog,\n{rest}'))) == 2


def test_odd_signs_in_a_header_cost_no_row(folder):
    for name in ("\0", "two\nlines", "a\r\nb"):
        assert len(read_data(write(folder, f'path,"{name}",labels\na.jpg,1,cat\nb.jpg,0,dog\n'))) == 2
        assert len(read_predictions(write(folder, f'path,"{name}"\na.jpg,1\nb.jpg,0\n'), kind="probs")) == 2


def test_a_table_without_rows(folder):
    assert len(read_predictions(write(folder, "path,cat,dog\n"), kind="probs")) == 0
    with raises_input_error(rule="have rows"):
        read_data(write(folder, "path,labels\n"))


def test_labels_that_differ_by_capitals_are_told_or_refused(folder):
    data = read_data(write(folder, "path,labels\na.jpg,Dog\nb.jpg,dog\n"))
    assert "Labels 'Dog' and 'dog' are two labels: they differ by capitals." in data.notes
    with raises_input_error(got="'Dog'", hint="Did you mean 'dog'?"):
        read_predictions(write(folder, "path,dog,labels\na.jpg,0.5,Dog\n"), kind="probs")


def test_backslashes_become_slashes_and_are_told(folder):
    truth = write(folder, "path,labels\nb.jpg,dog\nsub\\c.jpg,cat\n", "truth.csv")
    data = read_data(truth)
    assert "Backslashes in paths are read as slashes." in data.notes
    table = read_predictions(write(folder, "path,cat,dog\nsub\\c.jpg,0.5,0.25\n"), kind="probs", targets=truth)
    assert table.paths == table.ids == ["sub/c.jpg"]
    assert table.targets.tolist() == [[1, 0]]
    assert "Backslashes in paths are read as slashes." in table.notes
    table = read_predictions(write(folder, "path,cat,dog\nsub/c.jpg,0.5,0.25\n"), kind="probs", targets=truth)
    assert table.targets.tolist() == [[1, 0]]


def test_backslashes_are_read_wherever_the_first_one_is(folder):
    (folder / "many").mkdir()
    names = [f"{number}.jpg" for number in range(60)]
    for name in (*names, "many/x.jpg"):
        (folder / name).write_bytes(b"")
    rows = "".join(f"{name},cat\n" for name in (*names, "many\\x.jpg"))
    data = read_data(write(folder, f"path,labels\n{rows}"))
    assert data.images.path(60) == folder / "many/x.jpg"


def test_a_word_that_says_neither_yes_nor_no_is_refused_by_both(folder):
    text = "path,target:cat,target:dog\na.jpg,yes,1\nb.jpg,perhaps,0\n"
    for read in (
        lambda: read_data(write(folder, text)),
        lambda: read_predictions(
            write(folder, "path,cat,dog\na.jpg,0.5,0.5\n", "scores.csv"), kind="probs", targets=write(folder, text)
        ),
    ):
        with raises_input_error(rule="hold 1, 0, -1, yes, no or blank for each label", got="'perhaps' in column"):
            read()


def test_blank_words_in_lists_are_no_labels(folder):
    text = "path,cat,dog,labels\na.jpg,0.5,0.25,nan\nb.jpg,0.5,0.25,cat\n"
    assert read_predictions(write(folder, text), kind="probs").targets.tolist() == [[0, 0], [1, 0]]
