"""The journal: what was acknowledged is there, whatever happens."""

import errno
import json
import multiprocessing
import os
import random
import resource
import signal
import threading
import time

import pytest

from manyhot.errors import InputError
from manyhot.studio.review_journal import HEADER, Journal, WriteError
from tests.errors.expected import raises_input_error
from tests.waiting import HANG

HEAD = json.dumps(HEADER) + "\n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "reviewed.csv.journal"


def entries_of(path):
    journal = Journal(path)
    journal.close()
    return journal.entries


def test_entries_are_there_again_in_their_order(path):
    journal = Journal(path)
    journal.append([{"n": 1}, {"n": 2, "label": "Hündchen\u2028\udcff"}])
    journal.append([{"n": 3}])
    assert journal.count == 3
    journal.close()
    assert entries_of(path) == [{"n": 1}, {"n": 2, "label": "Hündchen\u2028\udcff"}, {"n": 3}]
    assert path.read_bytes().count(b"\n") == 4


def test_every_entry_is_on_the_disk_before_append_returns(path, monkeypatch):
    synced = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda opened: (synced.append(os.fstat(opened).st_ino), sync(opened)))
    journal = Journal(path)
    assert synced == [path.parent.stat().st_ino]  # the name of the new file
    journal.append([{"n": 1}])
    assert synced[1:] == [path.stat().st_ino]
    journal.close()


def test_a_journal_without_entries_leaves_nothing_behind(path):
    Journal(path).close()
    assert not path.exists()


def test_an_empty_journal_that_cannot_be_removed_is_set_free_nevertheless(path, monkeypatch):
    journal = Journal(path)

    def fail(self, missing_ok=False):
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as broken:
        broken.setattr(type(path), "unlink", fail)
        journal.close()
    assert path.exists()
    Journal(path).close()
    assert not path.exists()


@pytest.mark.parametrize("torn", [b'{"n": 2', b"\0" * 5000, b'{"journal": "man', b"x"])
def test_a_line_that_a_crash_cut_off_is_removed_and_told_about(path, torn):
    whole = b"" if torn.startswith(b'{"j') else HEAD.encode() + b'{"n": 1}\n'
    path.write_bytes(whole + torn)
    journal = Journal(path)
    assert journal.entries == ([{"n": 1}] if whole else [])
    assert (
        f"The last line of reviewed.csv.journal had been cut off in the middle of writing ({len(torn)}"
        in journal.notes[0]
    )
    journal.append([{"n": 3}])
    journal.close()
    assert entries_of(path) == [*([{"n": 1}] if whole else []), {"n": 3}]


def test_a_journal_cut_anywhere_keeps_all_whole_lines(path):
    journal = Journal(path)
    journal.append([{"n": n, "label": "ü"} for n in range(3)])
    journal.close()
    data = path.read_bytes()
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        # A line that lacks nothing but its end is whole.
        lines = data[: cut + 1].count(b"\n")
        assert [entry["n"] for entry in entries_of(path)] == list(range(max(lines - 1, 0)))


def test_a_last_line_without_its_end_is_kept_as_an_editor_left_it(path):
    path.write_text(HEAD + '{"n": 1}')
    journal = Journal(path)
    assert (journal.entries, journal.notes) == ([{"n": 1}], [])
    journal.append([{"n": 2}])
    journal.close()
    assert entries_of(path) == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(("line", "text"), [(3, '{"n": 2'), (2, "[1]"), (4, '{"bad": 1}'), (3, "\0\0")])
def test_garbage_in_the_middle_is_refused_and_nothing_is_lost(path, line, text):
    lines = [HEAD.strip(), '{"n": 1}', '{"n": 2}', '{"n": 3}']
    lines[line - 1] = text
    path.write_text("\n".join(lines) + "\n")
    before = path.read_bytes()
    with raises_input_error(match=f"must have an entry in every line; got .* in line {line} of .*{path.name}") as error:
        Journal(path, is_entry=lambda entry: "n" in entry)
    assert str(error.value).endswith("Repair or remove that line; the file was left as it is.")
    assert path.read_bytes() == before


@pytest.mark.parametrize("first", ['{"n": 1}', "path,labels", '{"journal": "manyhot review", "format": 2}'])
def test_a_file_that_is_no_journal_is_refused(path, first):
    path.write_text(first + "\n")
    with raises_input_error(rule="be a journal of format 1"):
        Journal(path)
    assert path.read_text() == first + "\n"


def test_a_second_studio_is_kept_out_until_the_first_one_ends(path):
    first = Journal(path)
    with raises_input_error(rule="be free", hint="Go on in that one, close it"):
        Journal(path)
    first.append([{"n": 1}])
    first.close()
    second = Journal(path)
    assert second.entries == [{"n": 1}]
    second.close()


def test_a_full_disk_says_so_and_the_journal_stays_whole(path):
    journal = Journal(path)
    journal.append([{"n": 1}])
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 10, limits[1]))  # half of the next line has room
    try:
        with pytest.raises(WriteError, match=r"must be writable; got .*reviewed.csv.journal' \(File too large\)"):
            journal.append([{"label": "x" * 100}])
        assert (path.read_bytes(), journal.count) == (before, 1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    journal.append([{"n": 2}])
    journal.close()
    assert entries_of(path) == [{"n": 1}, {"n": 2}]


def test_what_cannot_be_brought_to_the_disk_is_not_kept(path, monkeypatch):
    journal = Journal(path)
    journal.append([{"n": 1}])

    def fail(opened):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", fail)
        for _ in range(2):
            with raises_input_error(
                got="Input/output error)",
                hint="Free disk space or make the folder writable, and try again: nothing",
                kind=WriteError,
            ):
                journal.append([{"n": 2}])
    journal.append([{"n": 3}])
    journal.close()
    assert entries_of(path) == [{"n": 1}, {"n": 3}]


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with raises_input_error(
        got="gone/x' (No such file or directory)", hint="Name a labels file in a folder", kind=WriteError
    ):
        Journal(tmp_path / "gone" / "x")


def test_nothing_is_written_to_a_journal_that_was_removed_or_closed(path):
    journal = Journal(path)
    journal.append([{"n": 1}])
    moved = path.rename(path.with_name("elsewhere"))
    with raises_input_error(got="it was moved or removed", kind=WriteError):
        journal.append([{"n": 2}])
    moved.rename(path)
    journal.append([{"n": 3}])
    journal.close()
    with raises_input_error(got="it has been closed", kind=WriteError):
        journal.append([{"n": 4}])
    assert entries_of(path) == [{"n": 1}, {"n": 3}]


def test_threads_do_not_write_into_each_other(path):
    journal = Journal(path)
    threads = [
        threading.Thread(target=lambda who=who: [journal.append([{"who": who, "n": n}]) for n in range(25)])
        for who in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    found = entries_of(path)
    assert len(found) == 200
    for who in range(8):
        assert [entry["n"] for entry in found if entry["who"] == who] == list(range(25))


def _append_for_ever(path, pipe):
    journal = Journal(path)
    n = journal.count
    while True:
        journal.append([{"n": n, "filling": "x" * (n % 7000)}])
        pipe.send(n)
        n += 1


@pytest.mark.process
def test_a_process_that_is_killed_at_any_moment_loses_nothing_that_it_acknowledged(path):
    context, chance = multiprocessing.get_context("fork"), random.Random(0)
    acknowledged = -1
    for _ in range(10):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_append_for_ever, args=(path, sender))
        process.start()
        sender.close()
        wanted = acknowledged + chance.randrange(6)
        while acknowledged < wanted:
            assert receiver.poll(HANG)
            acknowledged = receiver.recv()
        time.sleep(chance.uniform(0, 0.005))  # to be killed anywhere on the way to the next
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        try:
            while True:
                acknowledged = receiver.recv()
        except EOFError:
            receiver.close()
        there = [entry["n"] for entry in entries_of(path)]
        assert there == list(range(len(there)))
        assert len(there) > acknowledged


@pytest.mark.parametrize("there", [True, False])
def test_a_link_is_neither_read_nor_written(tmp_path, there):
    secret = tmp_path / "secret.txt"
    if there:
        secret.write_text("a line without an end")
    (tmp_path / "reviewed.csv.journal").symlink_to(secret)
    with raises_input_error(rule="be a file of its own"):
        Journal(tmp_path / "reviewed.csv.journal")
    assert secret.exists() == there
    assert not there or secret.read_text() == "a line without an end"


def test_the_lock_follows_no_link_and_is_gone_afterwards(path):
    lock, secret = path.with_name(f".{path.name}.lock"), path.with_name("secret.txt")
    secret.write_text("a secret")
    lock.symlink_to(secret)
    with pytest.raises(InputError, match="must be a file of its own"):
        Journal(path)
    lock.unlink()
    journal = Journal(path)
    journal.append([{"n": 1}])
    assert lock.exists()
    journal.close()
    assert sorted(file.name for file in path.parent.iterdir()) == [path.name, "secret.txt"]
    assert secret.read_text() == "a secret"


def test_a_file_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "notes").write_text("what I meant to say")
    with raises_input_error(got="what I meant to say"):
        Journal(tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "what I meant to say"
