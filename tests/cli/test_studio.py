"""`manyhot studio` as people type it: a server that says where it is, and ends well."""

import contextlib
import os
import re
import signal
import subprocess
import sys

import pytest

from manyhot.studio import bind, open_studio
from manyhot.studio.app import build_app
from tests.studio.collections import write_collection
from tests.studio.servers import Started
from tests.studio.targets import served


@pytest.fixture
def table(tmp_path):
    return write_collection(tmp_path)


def ends_well(studio, how):
    """Stops a studio, which says where it is and what it found, and no more."""
    assert studio.said.startswith("The studio is open at http://127.0.0.1:")
    code, told = studio.stop(how)
    assert code == (0 if how == signal.SIGINT else -how)
    assert "All 30 images were found." in told
    assert "Traceback" not in told


@pytest.mark.process
def test_it_says_where_it_is_answers_and_ends_well(table):
    studio = Started(table, "--port", "0", "--no-open")
    assert studio.ask("/api/collection")["rows"] == 30
    studio.ask("/api/review/2", method="PUT", body={"labels": {"dog": 1}, "done": True})
    ends_well(studio, signal.SIGTERM)
    assert "002.png" in table.with_name("predictions.reviewed.csv").read_text()


@pytest.mark.process
def test_edits_survive_a_kill(table):
    studio = Started(table, "--port", "0", "--no-open")
    for row in range(10):
        studio.ask(f"/api/review/{row}", method="PUT", body={"labels": {"dog": row % 2}, "done": True})
    studio.stop(signal.SIGKILL)
    again = Started(table, "--port", "0", "--no-open")
    assert again.ask("/api/collection")["review"]["done"] == 10
    said = [label["edited"] for label in again.ask("/api/items/3")["labels"] if label["name"] == "dog"]
    assert said == [1]
    ends_well(again, signal.SIGINT)
    assert table.with_name("predictions.reviewed.csv").read_text().count("\n") == 11


@pytest.mark.process
def test_beyond_this_machine_a_token_is_asked_for(table, run, monkeypatch):
    def serve(studio, address, *, started):
        started()
        with served(build_app(studio, token=address.token, hosts=address.hosts), address) as target:
            assert target.ask("/api/collection").status == 401
            assert target.ask("/api/collection", authorization=f"Bearer {address.token}").status == 200

    monkeypatch.setattr("manyhot.studio.serve", serve)
    printed = run("studio", table, "--port", "0", "--no-open", "--host", "0.0.0.0", "--read-only")
    assert re.search(r"^The studio is open at http://\S+:\d+/\?token=[\w-]{20,}$", printed.out.strip())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "`RUN_OR_PREDICTIONS` of `manyhot studio` must be there; got 'nothing'."),
        (["TABLE", "--host", "192.0.2.1"], "`--host` of `manyhot studio` must be free to listen on; got 192.0.2.1"),
        (["TABLE", "--labels", "gone/labels.csv"], "`--labels` of `studio` must lie in an existing folder"),
        (["TABLE", "--token", " "], "`--token` of `manyhot studio` must have letters, digits and"),
        (["TABLE", "--split", "nope"], "must be one of the splits, 'val', 'test'; got 'nope'."),
    ],
)
def test_what_cannot_be_opened_is_said_in_one_sentence(table, run, arguments, words):
    arguments = [str(table) if one == "TABLE" else one for one in arguments]
    printed = run("studio", *arguments, "--no-open", code=2)
    assert words in " ".join(printed.err.split())


def test_a_port_that_is_taken_is_refused_and_the_usual_one_gives_way_to_the_next(table, run):
    with contextlib.closing(bind().listener) as first, contextlib.closing(bind().listener) as second:
        ports = [listener.getsockname()[1] for listener in (first, second)]
        assert ports[0] != ports[1]
        printed = run("studio", table, "--port", ports[0], "--no-open", "--read-only", code=2)
    assert f"`--port` of `manyhot studio` must be free to listen on; got 127.0.0.1:{ports[0]}" in printed.err


def test_a_folder_that_may_not_be_written_to_is_looked_at_all_the_same(table, monkeypatch):
    monkeypatch.setattr(os, "access", lambda *_: False)  # the administrator may write everywhere
    studio, notes = open_studio(table)
    assert studio.review is None
    assert f"Nothing can be edited: you may not write to {str(table.parent)!r}" in notes[-1]


@pytest.mark.process
def test_help_shows_examples_without_torch():
    code = (
        "import sys; sys.argv = ['manyhot', 'studio', '--help']; from manyhot.cli import main\n"
        "try: main()\nfinally: print('torch' in sys.modules, 'fastapi' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip().endswith("False False")
    assert "manyhot studio runs/last" in shown
