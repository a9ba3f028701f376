"""Edits: what somebody said is kept, shown, taken back, and written to a table that training reads."""

import errno
import hashlib
import json
import multiprocessing
import os
import random
import resource
import signal
import threading
import time

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from manyhot.data import from_arrays, read_corrections, read_data
from manyhot.errors import InputError
from manyhot.studio.review import Review
from manyhot.studio.review_journal import WriteError
from tests.errors.expected import raises_input_error
from tests.waiting import HANG, eventually

LABELS, IDS = ["dog", "cat", "park"], ["a", "b", "c", "d"]
NEVER = 1e6  # seconds, for tests that say when the file is written


@pytest.fixture
def file(tmp_path):
    """Where the labels file will lie, with pictures beside it."""
    for name in IDS:
        (tmp_path / f"{name}.jpg").write_bytes(b"")
    return tmp_path / "reviewed.csv"


def opened(file, *, labels=LABELS, ids=IDS, splits=None, delay=NEVER, paths=None):
    paths = [f"{name}.jpg" for name in ids] if paths is None else paths
    return Review(file, labels=labels, ids=ids, paths=paths, splits=splits, delay=delay)


def crash(review):
    """Ends a review as a killed process does: nothing more is written."""
    keeper = review._store
    keeper._closed = True
    if keeper._timer is not None:
        keeper._timer.cancel()
    keeper.journal.close()


def known(data):
    """What a table says of each image, by label."""
    rows = data.targets.dense().tolist()
    cells = [{name: value for name, value in zip(data.labels.names, row, strict=True) if value >= 0} for row in rows]
    return dict(zip(data.ids, cells, strict=True))


def test_edits_are_kept_and_there_again(file):
    review = opened(file)
    review.edit(1, {"dog": 1, "park": 0}, done=True)
    review.edit(0, {"cat": 1})
    review.edit(0, {"cat": None, "dog": 0})

    def check(review):
        assert [review.cells(row) for row in range(4)] == [{0: 0}, {0: 1, 2: 0}, {}, {}]
        assert [review.is_done(row) for row in range(4)] == [False, True, False, False]
        assert (review.done, review.edited) == (1, 2)
        assert (review.done_rows(), review.edited_rows()) == ([1], [0, 1])

    check(review)
    review.close()
    with opened(file) as again:
        check(again)
        assert again.notes == []


def test_the_labels_file_holds_what_was_said_and_nothing_else(file):
    with opened(file, splits=["train", "test", "val", "test"]) as review:
        review.edit(1, {"dog": 1, "cat": -1}, done=True)
        review.edit(3, {"park": 0})
        review.edit(2, {}, done=True)
    assert file.read_text() == "path,split,dog,cat,park\nb.jpg,test,1,-1,\nd.jpg,test,,,0\nc.jpg,val,,,\n"
    data = read_data(file)
    assert known(data) == {"b.jpg": {"dog": 1}, "d.jpg": {"park": 0}, "c.jpg": {}}
    assert data.splits.tolist() == ["test", "test", "val"]


def test_the_labels_file_follows_soon(file):
    review = opened(file, delay=0.01)
    review.edit(0, {"cat": 1})
    assert eventually(file.exists)
    assert known(read_data(file)) == {"a.jpg": {"cat": 1}}
    review.close()


def test_undo_goes_back_through_history_also_after_a_restart(file):
    review = opened(file)
    review.edit(0, {"cat": 1})
    review.edit(1, {"dog": 1}, done=True)
    review.edit(0, {"cat": 0, "park": 1})
    assert review.undo() == 0
    assert review.cells(0) == {1: 1}
    review.close()
    review = opened(file)
    assert review.undo() == 1
    assert (review.cells(1), review.is_done(1)) == ({}, False)
    review.edit(2, {}, done=True)
    assert [review.undo() for _ in range(4)] == [2, 0, None, None]
    assert (review.done, review.edited) == (0, 0)
    review.close()
    assert file.read_text() == "path,target:dog,target:cat,target:park\n"
    with opened(file) as review:
        assert review.undo() is None


def test_what_holds_already_is_no_edit(file):
    with opened(file) as review:
        review.edit(0, {"cat": None}, done=False)
        review.edit(0, {})
        assert review.undo() is None
        review.edit(0, {"cat": 1})
        review.edit(0, {"cat": 1}, done=False)
        assert review.undo() == 0
        assert review.undo() is None
    assert not file.exists()


def test_labels_files_laid_over_each_other_and_over_repaired_data_undo_nothing(file, tmp_path):
    with opened(file) as review:
        review.edit(0, {"cat": 1}, done=True)
    second = tmp_path / "second.csv"
    with opened(second) as review:
        review.edit(0, {"park": 1})
    for dog in (["dog"], []):  # the second time, somebody has repaired the data
        data = from_arrays([[0.0]] * 2, [dog, ["dog", "cat", "park"]], ids=["a.jpg", "b.jpg"])
        wanted = {"dog": len(dog), "cat": 1, "park": 1}
        for order in ((file, second), (second, file)):
            better = data
            for one in order:
                better = better.corrected(read_corrections(one))
            assert known(better)["a.jpg"] == wanted


def test_a_label_that_only_late_rows_speak_of_is_read(file):
    ids = [f"s{n:04}" for n in range(1002)]
    with opened(file, ids=ids) as review:
        review._store._append(
            [
                {"kind": "edit", "number": n, "id": name, "labels": {"dog": 1}, "done": None}
                for n, name in enumerate(ids)
            ]
        )
        review.edit(1001, {"cat": 0, "dog": None})
    assert known(read_corrections(file))["s1001"] == {"cat": 0}


def test_a_journal_that_holds_what_was_known_opens_and_that_is_not_said(file):
    lines = [
        {"journal": "manyhot review", "format": 1},
        {"kind": "labels", "names": LABELS},
        {"kind": "sample", "id": "a", "path": "a.jpg", "split": None, "rest": 0, "but": {"dog": 1, "bird": 1}},
        {"kind": "edit", "number": 1, "id": "a", "labels": {"cat": 1}, "done": True, "at": "", "by": "studio"},
    ]
    text = "path,dog,cat,park,bird\na.jpg,1,1,0,1\n"
    digest = hashlib.sha256(text.encode()).hexdigest()
    lines += [{"kind": "table", "sha256": digest, "entries": 3}, {"kind": "wrote", "sha256": digest}]
    file.with_name("reviewed.csv.journal").write_text("".join(json.dumps(line) + "\n" for line in lines))
    file.write_text(text)
    with opened(file) as review:
        assert (review.notes, review.cells(0), review.is_done(0)) == ([], {1: 1}, True)
    assert file.read_text() == "path,dog,cat,park\na.jpg,,1,\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((4, {}), "`row` of `Review` must lie between 0 and 3; got 4."),
        ((-1, {}), "`row` of `Review` must lie between 0 and 3; got -1."),
        ((0, {"dgo": 1}), "`label` of `Labels` must be one of the 3 names; got 'dgo'. Did you mean 'dog'?"),
        ((0, {"dog": 2}), "`labels` of `Review` must be 1, 0, -1 or None for each label; got 2 for 'dog'."),
        ((0, {"dog": True}), "`labels` of `Review` must be 1, 0, -1 or None for each label; got True for 'dog'."),
        ((0, {}, 1), "`done` of `Review` must be true, false or None; got 1."),
    ],
)
def test_what_is_no_edit_is_refused(file, arguments, words):
    with opened(file) as review:
        with pytest.raises(InputError) as error:
            review.edit(*arguments)
        assert str(error.value).startswith(words)
    assert list(file.parent.glob("reviewed*")) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"ids": ["a", "a", "c", "d"]}, "`ids` of `Review` must be distinct; got 'a' twice."),
        ({"splits": ["test"]}, "`splits` of `Review` must have one entry for each of the 4 samples; got 1."),
        ({"paths": ["a.jpg"]}, "`paths` of `Review` must have one entry for each of the 4 samples; got 1."),
    ],
)
def test_parts_that_do_not_fit_are_refused(file, change, words):
    with pytest.raises(InputError) as error:
        opened(file, **change)
    assert str(error.value).startswith(words)


def test_a_second_studio_is_kept_out(file):
    with opened(file), raises_input_error(got="which another studio has open"):
        opened(file)
    opened(file).close()


def test_a_full_disk_changes_nothing(file):
    review = opened(file)
    review.edit(0, {"cat": 1})
    journal = file.with_name("reviewed.csv.journal")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (journal.stat().st_size, limits[1]))
    try:
        with pytest.raises(WriteError, match="nothing was changed"):
            review.edit(0, {"cat": 0, "dog": 0}, done=True)
        with pytest.raises(WriteError):
            review.undo()
        with pytest.raises(WriteError):
            review.write()
        assert (review.cells(0), review.is_done(0), review.edited) == ({1: 1}, False, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    review.edit(0, {"park": 1})
    review.close()
    with opened(file) as review:
        assert review.cells(0) == {1: 1, 2: 1}
        assert [review.undo(), review.undo(), review.undo()] == [0, 0, None]


def test_a_labels_file_that_cannot_be_written_is_told_and_written_later(file):
    review = opened(file, delay=0.01)
    file.mkdir()  # nothing can take its place
    review.edit(0, {"cat": 1})
    assert eventually(lambda: review.trouble is not None)
    assert "all edits are in the journal" in review.trouble or "Name another labels file" in review.trouble
    assert review.cells(0) == {1: 1}
    file.rmdir()
    review.close()
    assert review.trouble is None
    assert file.read_text() == "path,dog,cat,park\na.jpg,,1,\n"
    with raises_input_error(got="it has been closed", kind=WriteError):
        review.edit(0, {"cat": 0})


@pytest.mark.parametrize("spoil", ["folder", "something else", "no journal", "no way"])
def test_a_labels_file_that_cannot_be_written_at_the_end_is_told_and_the_journal_set_free(file, spoil, monkeypatch):
    monkeypatch.setattr("manyhot.studio.review.QUIET", 0.01)
    journal = file.with_name("reviewed.csv.journal")
    review = opened(file)
    review.edit(0, {"cat": 1})
    if spoil == "folder":
        file.mkdir()
    elif spoil == "something else":
        file.write_text("something else")
    elif spoil == "no journal":
        journal.rename(file.with_name("elsewhere"))
    else:

        def fail(path, **_):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))

        monkeypatch.setattr(type(file), "stat", fail)
    with pytest.raises(InputError) as error:
        review.close()
    assert str(error.value).startswith("`file` of `Review` must ")
    assert str(error.value) == review.trouble
    if spoil == "no way":
        monkeypatch.undo()
    review.close()  # nothing is left to do
    with raises_input_error(got="it has been closed", kind=WriteError):
        review.edit(0, {"cat": 0})
    if spoil == "folder":
        file.rmdir()
    elif spoil == "something else":
        assert file.read_text() == "something else"
        file.unlink()
    elif spoil == "no journal":
        file.with_name("elsewhere").rename(journal)
    with opened(file) as review:
        assert (review.cells(0), review.trouble) == ({1: 1}, None)
    assert file.read_text() == "path,dog,cat,park\na.jpg,,1,\n"


def test_other_collections_keep_edits_of_samples_and_labels_that_they_lack(file):
    with opened(file, splits=["train", "test", "val", "test"]) as review:
        review.edit(0, {"cat": 1})
        review.edit(1, {"dog": 1, "park": 0}, done=True)
    # Other rows in another order, one label less, one more.
    ids, labels = ["e", "d", "a"], ["bird", "dog", "cat"]
    with opened(file, ids=ids, labels=labels, splits=["train"] * 3) as review:
        assert review.notes == []
        assert [review.cells(row) for row in range(3)] == [{}, {}, {2: 1}]
        assert (review.done, review.edited) == (0, 1)
        review.edit(0, {"bird": 0})
    (file.parent / "e.jpg").write_bytes(b"")
    assert known(read_data(file)) == {
        "a.jpg": {"cat": 1},
        "b.jpg": {"dog": 1, "park": 0},
        "e.jpg": {"bird": 0},
    }
    assert file.read_text().splitlines()[:2] == ["path,split,bird,dog,cat,park", "a.jpg,train,,,1,"]
    with opened(file) as review:
        assert review.cells(1) == {0: 1, 2: 0}
        assert review.is_done(1)
        assert review.undo() == 1  # what was said last about a picture that is here
    assert "bird" in file.read_text().splitlines()[0]


def test_undo_leaves_edits_of_other_collections_alone(file):
    with opened(file) as review:
        review.edit(0, {"cat": 1})
    with opened(file, ids=["b"]) as review:
        assert review.undo() is None
    with opened(file) as review:
        assert review.cells(0) == {1: 1}


def test_a_labels_file_that_a_crash_left_behind_is_brought_up_to_date_and_is_no_change_by_hand(file):
    review = opened(file)
    review.edit(0, {"cat": 1})
    review.write()
    review.edit(0, {"cat": 0, "dog": 0})
    review.edit(1, {}, done=True)
    crash(review)
    assert file.read_text() == "path,dog,cat,park\na.jpg,,1,\n"
    (file.parent / ".reviewed.csv.0badcafe.part").write_text("half of")
    with opened(file) as review:
        assert review.notes == []
        assert review.cells(0) == {0: 0, 1: 0}
    assert file.read_text() == "path,dog,cat,park\na.jpg,0,0,\nb.jpg,,,\n"
    assert not list(file.parent.glob(".*.part"))


def test_a_crash_between_the_labels_file_and_the_word_that_it_was_written_does_no_harm(file):
    review = opened(file)
    review.edit(0, {"cat": 1})
    review.write()
    first = file.read_text()
    review.edit(0, {"cat": 0})
    review.close()
    journal = file.with_name("reviewed.csv.journal")
    *lines, last = journal.read_text().splitlines(keepends=True)
    assert json.loads(last)["kind"] == "wrote"
    journal.write_text("".join(lines))
    second = file.read_text()
    for text in (second, first):  # the file had taken its place, or had not
        file.write_text(text)
        with opened(file) as review:
            assert (review.notes, review.cells(0)) == ([], {1: 0})
        assert file.read_text() == second
        journal.write_text("".join(lines))


def test_the_labels_file_is_made_anew_from_the_journal(file):
    with opened(file) as review:
        review.edit(0, {"cat": 1})
        review.edit(2, {"cat": 1}, done=True)
    text = file.read_text()
    file.unlink()
    with opened(file) as review:
        assert review.cells(2) == {1: 1}
    assert file.read_text() == text


class TestChangesByHand:
    """What somebody changed in the labels file."""

    @pytest.fixture
    def changed(self, file):
        """Changes the file that two edits left behind, and gives the review that is opened next."""
        reviews = []

        def change(*pairs):
            with opened(file) as review:
                review.edit(0, {"cat": 1})
                review.edit(1, {"dog": 1}, done=True)
            text = file.read_text()
            for old, new in pairs:
                assert old in text
                text = text.replace(old, new)
            file.write_text(text)
            reviews.append(opened(file))
            return reviews[0]

        yield change
        for review in reviews:
            review.close()

    def test_cells_become_edits_that_can_be_taken_back(self, changed, file):
        review = changed(("a.jpg,,1,", "a.jpg,0,-1,"), ("b.jpg,1,,", "b.jpg,,1,"))
        assert review.notes == ["reviewed.csv had been changed by hand: 4 cells of 2 rows became edits."]
        assert review.cells(0) == {0: 0, 1: -1}
        assert review.cells(1) == {1: 1}  # a cell that was blanked is withdrawn
        assert review.is_done(1)
        assert review.undo() == 1
        assert review.cells(1) == {0: 1}
        review.close()
        assert file.read_text() == "path,dog,cat,park\na.jpg,0,-1,\nb.jpg,1,,\n"
        with opened(file) as review:
            assert review.notes == []

    def test_a_row_whose_cells_were_all_blanked_stays_if_somebody_finished_it(self, changed, file):
        review = changed(("a.jpg,,1,", "a.jpg,,,"), ("b.jpg,1,,", "b.jpg,,,"))
        assert [review.cells(row) for row in range(4)] == [{}] * 4
        assert review.done_rows() == [1]
        review.close()
        assert file.read_text() == "path,target:dog,target:cat,target:park\nb.jpg,,,\n"

    def test_they_are_taken_over_once(self, changed, file):
        review = changed(("a.jpg,,1,", "a.jpg,0,1,"))
        assert review.cells(0) == {1: 1, 0: 0}
        review.edit(0, {"dog": 1})
        crash(review)
        with opened(file) as review:
            assert (review.notes, review.cells(0)) == ([], {1: 1, 0: 1})

    def test_what_was_said_after_the_file_was_written_stays(self, file):
        review = opened(file)
        review.edit(0, {"cat": 1})
        review.write()
        review.edit(0, {"park": 1})
        review.edit(2, {"park": 1})
        crash(review)
        file.write_text(file.read_text().replace("a.jpg,,1,", "a.jpg,0,1,"))
        with opened(file) as review:
            assert [review.cells(0), review.cells(2)] == [{1: 1, 2: 1, 0: 0}, {2: 1}]

    def test_a_row_that_was_removed_takes_back_what_was_said(self, changed):
        review = changed(("b.jpg,1,,\n", ""))
        assert (review.cells(1), review.is_done(1), review.cells(0)) == ({}, False, {1: 1})
        assert review.undo() == 1
        assert (review.cells(1), review.is_done(1)) == ({0: 1}, True)

    def test_rows_may_be_added_also_of_pictures_that_are_not_in_the_collection(self, changed, file):
        place = file.parent / "c.jpg"
        review = changed(("b.jpg,1,,\n", f"b.jpg,1,,\n{place},1,0,\nd.jpg,,,\nnew.jpg,1,,\n"))
        assert [review.cells(2), review.is_done(2)] == [{0: 1, 1: 0}, False]
        assert [review.cells(3), review.is_done(3)] == [{}, True]
        review.close()
        assert file.read_text().splitlines()[3:] == ["c.jpg,1,0,", "d.jpg,,,", "new.jpg,1,,"]

    def test_columns_may_be_added_and_those_that_are_gone_come_back(self, changed, file):
        review = changed(("dog,cat,park", "park,cat,bird"), ("a.jpg,,1,", "a.jpg,,1,1"), ("b.jpg,1,,", "b.jpg,,,"))
        assert review.notes[1] == "Columns that are gone from reviewed.csv are written again: 'dog'."
        assert [review.cells(0), review.cells(1)] == [{1: 1}, {0: 1}]
        review.close()
        assert file.read_text() == "path,dog,cat,park,bird\na.jpg,,1,,1\nb.jpg,1,,,\n"

    def test_splits_stay_what_the_data_say(self, file):
        splits = ["train", "test", "val", "test"]
        with opened(file, splits=splits) as review:
            review.edit(1, {"dog": 1})
        text = file.read_text()
        file.write_text(text.replace("b.jpg,test", "b.jpg,train"))
        with opened(file, splits=splits) as review:
            assert review.notes[-1].startswith("Splits that were changed in reviewed.csv (1) are written as they were")
        assert file.read_text() == text

    def test_a_spreadsheet_may_write_it_in_its_own_way(self, changed, file):
        text = '\ufeffpath;dog;"cat";park\r\na.jpg;;1;\r\n"b.jpg";TRUE;;\r\n'
        review = changed(("path,dog,cat,park\na.jpg,,1,\nb.jpg,1,,\n", text))
        assert review.notes == ["reviewed.csv had been changed by hand: 0 cells of 0 rows became edits."]
        assert [review.cells(0), review.cells(1)] == [{1: 1}, {0: 1}]
        review.close()
        with opened(file) as review:
            assert review.notes == []

    @pytest.mark.parametrize(
        ("old", "new", "words"),
        [
            (
                "a.jpg,,1,",
                "a.jpg,,perhaps,",
                "must hold 1, 0, -1 or blank for each label; got 'perhaps' in line 2, column 'cat'",
            ),
            ("a.jpg,,1,", "a.jpg,,1", "must have 4 columns in every line; got 3 in line 2"),
            ("a.jpg,,1,", ",,1,", "must have a path in every line; got none in line 2"),
            ("path,", "where,", "must have a column of paths; got the columns 'where', 'dog', 'cat', 'park'"),
            ("dog,cat", "cat,cat", "must have columns of different names; got 'cat' twice"),
            ("dog,cat", "target:dog,cat", "must begin all labels with 'target:', or none; got 'cat'"),
            ("a.jpg", '"a".jpg', "must be a table; got"),
        ],
    )
    def test_what_cannot_be_understood_is_refused_and_left_as_it_is(self, changed, file, old, new, words):
        with pytest.raises(InputError) as error:
            changed((old, new))
        assert words in str(error.value)
        assert str(file) in str(error.value)
        assert new in file.read_text()

    def test_they_are_taken_over_while_the_studio_is_open(self, file, monkeypatch):
        monkeypatch.setattr("manyhot.studio.review.QUIET", 0.05)
        with opened(file) as review:
            review.edit(0, {"cat": 1})
            review.write()
            review.edit(2, {"dog": 1})
            file.write_text("path,dog,cat,park\na.jpg,0,1,\n")
            review.write()
            assert [review.cells(0), review.cells(2), review.edited] == [{1: 1, 0: 0}, {0: 1}, 2]
            file.write_text("something else")
            for _ in range(2):
                with raises_input_error(rule="have a column of paths"):
                    review.write()
            assert file.read_text() == "something else"
            review.edit(3, {"dog": 1})
            file.unlink()
        assert file.read_text() == "path,dog,cat,park\na.jpg,0,1,\nc.jpg,1,,\nd.jpg,1,,\n"

    def test_a_table_of_another_kind_is_not_overwritten(self, file):
        text = "path,labels\na.jpg,dog|cat\n"
        file.write_text(text)
        with raises_input_error(rule="hold 1, 0, -1 or blank for each label", got="'dog|cat' in line 2"):
            opened(file)
        assert file.read_text() == text
        assert not file.with_name("reviewed.csv.journal").exists()

    def test_a_labels_file_whose_journal_was_lost_is_begun_with(self, file):
        with opened(file) as review:
            review.edit(0, {"cat": 1})
            review.edit(2, {}, done=True)
        text = file.read_text()
        file.with_name("reviewed.csv.journal").unlink()
        with opened(file) as review:
            assert [review.cells(0), review.cells(2), review.is_done(2)] == [{1: 1}, {}, True]
        assert file.read_text() == text


ODD = ["path", "split", "Path", "labels", "tag", "set", "id", "image", "cat.jpg", "target:x", "a,b", 'say "x"', "a\nb"]
ODD += [
    "a\r\nb",
    "a\rb",
    " lead",
    "trail ",
    "",
    " ",
    "1",
    "0.5",
    "a;b;c;d;e;f;g",
    "a|b|c|d",
    "a\tb",
    "é",
    "NA",
    "'",
    "#",
]
names = st.one_of(st.sampled_from(ODD), st.text(st.characters(codec="utf-8"), max_size=5))


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(names, min_size=1, max_size=5, unique=True),
    st.lists(st.lists(st.sampled_from([1, 0, -1, None]), min_size=5, max_size=5), min_size=3, max_size=3),
    st.booleans(),
)
def test_labels_of_any_name_survive_the_way_through_the_file(tmp_path, labels, cells, with_splits):
    file = tmp_path / "reviewed.csv"
    for old in tmp_path.iterdir():
        old.unlink()
    paths = ["a.jpg", "b c,d.jpg", " e'\".png"]
    for path in paths:
        (tmp_path / path).write_bytes(b"")
    said = [dict(zip(labels, row, strict=False)) for row in cells]
    splits = ["test", "val", "test"] if with_splits else None
    with opened(file, labels=labels, ids=["x", "y", "z"], paths=paths, splits=splits) as review:
        for row in range(3):
            review.edit(row, said[row], done=True)
    data = read_data(file)
    found = dict(zip(data.ids, data.targets.dense().tolist(), strict=True))
    wanted = dict(zip(["a.jpg", "b c,d.jpg", "./ e'\".png"], said, strict=True))
    # A column of which nothing is said may be left out where something is said of all others in every row.
    kept = data.labels.names
    assert kept == [name for name in labels if name in kept]
    assert all(row[name] is None for row in said for name in labels if name not in kept)
    assert found == {path: [-1 if row[name] is None else row[name] for name in kept] for path, row in wanted.items()}
    assert (None if data.splits is None else data.splits.tolist()) == splits
    # A change by hand is understood as well.
    file.write_bytes(file.read_bytes().replace(b"\na.jpg,", b"\n./a.jpg,"))
    with opened(file, labels=labels, ids=["x", "y", "z"], paths=paths, splits=splits) as review:
        for row in range(3):
            there = {labels[column]: value for column, value in review.cells(row).items()}
            assert there == {name: value for name, value in said[row].items() if value is not None}
        assert review.done == 3


steps = st.one_of(
    st.tuples(
        st.just("edit"),
        st.integers(0, 3),
        st.dictionaries(st.sampled_from(LABELS), st.sampled_from([1, 0, -1, None]), max_size=3),
        st.sampled_from([True, False, None]),
    ),
    st.tuples(st.sampled_from(["undo", "reopen", "crash", "write"])),
)


class Model:
    """The same in the plainest way: a list of states."""

    def __init__(self):
        self.states = [(({},) * 4, (False,) * 4)]
        self.rows = []

    def edit(self, row, labels, done):
        cells, finished = (list(part) for part in self.states[-1])
        cells[row] = {name: value for name, value in {**cells[row], **labels}.items() if value is not None}
        finished[row] = finished[row] if done is None else done
        state = (tuple(cells), tuple(finished))
        if state != self.states[-1]:
            self.states.append(state)
            self.rows.append(row)

    def undo(self):
        if not self.rows:
            return None
        self.states.pop()
        return self.rows.pop()


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(steps, max_size=25), st.permutations(range(4)))
def test_any_order_of_steps_comes_to_what_a_plain_list_says(file, steps, order):
    for old in file.parent.glob("reviewed*"):
        old.unlink()
    model, review = Model(), opened(file)
    for kind, *arguments in steps:
        if kind == "edit":
            model.edit(*arguments)
            review.edit(*arguments)
        elif kind == "undo":
            assert review.undo() == model.undo()
        elif kind == "write":
            review.write()
        else:
            (review.close if kind == "reopen" else lambda: crash(review))()  # noqa: B023
            review = opened(file)
            assert review.notes == []
        for row in range(4):
            assert review.cells(row) == {LABELS.index(name): value for name, value in model.states[-1][0][row].items()}
            assert review.is_done(row) == model.states[-1][1][row]
    expected = [review.cells(row) for row in range(4)]
    review.close()
    cells, done = model.states[-1]
    with opened(file, ids=[IDS[row] for row in order]) as review:
        assert [review.cells(order.index(row)) for row in range(4)] == expected
        assert (review.done, review.edited) == (sum(done), sum(map(bool, cells)))
    touched = [row for row in range(4) if cells[row] or done[row]]
    if touched:
        text = [f"{IDS[row]}.jpg," + ",".join(str(expected[row].get(k, "")) for k in range(3)) for row in touched]
        assert sorted(file.read_text().splitlines()[1:]) == sorted(text)


def test_threads_may_edit_at_once(file):
    labels, ids = [f"l{k}" for k in range(8)], [f"s{n}" for n in range(20)]
    review = opened(file, labels=labels, ids=ids, delay=0.001)

    def work(column):
        for row in range(20):
            review.edit(row, {labels[column]: row % 2})
            review.cells(row), review.done, review.edited

    threads = [threading.Thread(target=work, args=(column,)) for column in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    review.close()
    assert review.trouble is None
    with opened(file, labels=labels, ids=ids) as review:
        assert review.notes == []
        assert [review.cells(row) for row in range(20)] == [dict.fromkeys(range(8), row % 2) for row in range(20)]


def _edit_for_ever(file, seed, pipe):
    chance, review = random.Random(seed), opened(file, delay=0.002)
    while True:
        if chance.random() < 0.2:
            pipe.send(("undo", review.undo()))
        else:
            edit = (
                chance.randrange(4),
                {chance.choice(LABELS): chance.choice([1, 0, None])},
                chance.choice([True, False]),
            )
            pipe.send(("begin", edit))
            review.edit(*edit)
            pipe.send(("edit", edit))


@pytest.mark.process
def test_a_studio_that_is_killed_at_any_moment_loses_nothing_that_it_acknowledged(file):
    context, chance, model = multiprocessing.get_context("fork"), random.Random(1), Model()
    for seed in range(10):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_edit_for_ever, args=(file, seed, sender))
        process.start()
        sender.close()
        said, wanted = [], chance.randrange(25)
        while sum(kind != "begin" for kind, _ in said) < wanted:
            assert receiver.poll(HANG)
            said.append(receiver.recv())
        time.sleep(chance.uniform(0, 0.01))  # to be killed anywhere on the way to the next
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        try:
            while True:
                said.append(receiver.recv())
        except EOFError:
            receiver.close()
        for kind, what in said:
            if kind == "edit":
                model.edit(*what)
            elif kind == "undo":
                assert model.undo() == what
        under_way = said[-1] if said else ("nothing", None)
        if file.exists():  # whole at any time: a header, and rows of its columns
            assert {line.count(",") for line in file.read_text().splitlines()} == {3}
            assert file.read_text().endswith("\n")
        with opened(file) as review:
            assert not any("by hand" in note for note in review.notes)
            cells = [{LABELS[column]: value for column, value in review.cells(row).items()} for row in range(4)]
            state = tuple(cells), tuple(review.is_done(row) for row in range(4))
            possible = [model.states[-1]]
            if under_way[0] == "begin":  # on the disk, and killed before it could say so
                model.edit(*under_way[1])
                possible.append(model.states[-1])
            elif len(model.states) > 1:  # the same for an undo
                possible.append(model.states[-2])
            assert state in possible
            while model.states[-1] != state:
                model.undo()
        touched = [row for row in range(4) if state[0][row] or state[1][row]]
        if touched:
            assert sorted(read_data(file).ids) == [f"{IDS[row]}.jpg" for row in touched]
