"""Scoring with Ray: the same predictions as without, each image once, through crashes and growth."""

import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
import ray

import manyhot as mh
from manyhot import scale as pool
from manyhot.classifier import Classifier
from manyhot.data import Files, read_images
from manyhot.errors import InputError
from manyhot.scale import predict_with_ray
from tests.scale import slow_scoring
from tests.scale.folders import check_same, draw_images, stamps, watching
from tests.waiting import HANG, eventually

pytestmark = pytest.mark.process


def test_parts_are_those_of_one_process(cluster, run_folder, tmp_path):
    images, out, told = draw_images(tmp_path / "images", range(10)), tmp_path / "scores", []
    (images / "04.png").write_bytes(b"no picture")
    written = predict_with_ray(run_folder, images, out, rows=4, batch_size=2, workers=2, watch=watching(told))
    assert (written.rows, written.scored, list(written.left_out)) == (9, 9, ["04.png"])
    assert "no image of a known format" in written.left_out["04.png"]
    assert (told[0], sum(told[1:])) == (10, 10)
    assert len(told) > 4, "progress came by parts, not by batches"
    check_same(out, Classifier.load(run_folder).predict(images, batch_size=2))
    assert sorted(stamps(out)) == ["part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]


def test_a_killed_run_goes_on_where_it_was(cluster, run_folder, tmp_path):
    images, out, log = draw_images(tmp_path / "images", range(30)), tmp_path / "scores", tmp_path / "log"
    command = [sys.executable, slow_scoring.__file__, run_folder, images, out, log]
    environment = os.environ | {"RAY_ADDRESS": ""}
    with subprocess.Popen(command, start_new_session=True, env=environment) as process:
        try:
            assert eventually(lambda: len(stamps(out)) >= 2 or process.poll() is not None)
            assert process.poll() is None
        finally:
            for one in session_of(process.pid):
                os.kill(one, signal.SIGKILL)
        process.wait(HANG)
    before, reads = stamps(out), Counter(log.read_text().split())
    done = set(mh.Predictions.open(out).load().ids)
    assert len(before) >= 2
    assert 4 <= len(done) < 30

    written = slow_scoring.score(run_folder, images, out, log)
    assert (written.rows, written.scored) == (30, 30 - len(done))
    assert {name: stamp for name, stamp in stamps(out).items() if name in before} == before
    assert not list(out.rglob("*.part"))
    again = Counter(log.read_text().split()) - reads
    assert again == Counter({f"{number:02d}.png" for number in range(30)} - done), "read once more, or not at all"
    check_same(out, Classifier.load(run_folder).predict(images, batch_size=2))


def session_of(leader):
    """The numbers of the processes of a session, its leader first: all that a crash of the machine would end."""
    lines = subprocess.run(["ps", "-eo", "sid=,pid=,stat="], capture_output=True, text=True, check=True)
    rows = [line.split() for line in lines.stdout.splitlines()]
    found = [int(number) for session, number, state in rows if int(session) == leader and state[0] != "Z"]
    return sorted(found, key=lambda number: number != leader)


def test_errors_of_processes_are_one_sentence(cluster, run_folder, tmp_path, monkeypatch):
    images = draw_images(tmp_path / "images", range(2))

    class Fatal(Files):
        def read(self, row):
            os._exit(1)

        def take(self, rows):
            taken = super().take(rows)
            return Fatal(taken.paths, root=taken.root)

    class Missing(Fatal):
        def read(self, row):
            raise FileNotFoundError

        def take(self, rows):
            taken = super().take(rows)
            return Missing(taken.paths, root=taken.root)

    monkeypatch.setattr(pool, "RETRIES", 0)
    dataset = read_images(images)
    for kind, said in (
        (Fatal, r"Part 0, '00.png' to '01.png', was given up, because its process ended 1 times\. Perhaps"),
        (Missing, r"^The image '00.png' cannot be read: there is no such file\.$"),
    ):
        odd = replace(dataset, images=kind(dataset.images.paths, root=dataset.images.root))
        with pytest.raises(InputError, match=said):
            predict_with_ray(run_folder, odd, tmp_path / "scores", on_bad_image="fail", workers=1)
    assert not stamps(tmp_path / "scores")


def test_an_input_error_of_a_worker_keeps_its_fields(cluster, run_folder, tmp_path, monkeypatch):
    fields = {
        "argument": "size",
        "owner": "create_backbone",
        "rule": "suit 'resnet'",
        "got": "3",
        "hint": "Pass a larger `size`.",
    }

    class Failing:  # made here by position, and in its process by name
        def __init__(self, *settings, workers=None):
            self.workers = settings[-1] if settings else workers

        def prepare(self, probe, state):
            raise InputError(**fields)

    monkeypatch.setattr(pool, "RayScorer", Failing)
    with pytest.raises(InputError) as caught:
        predict_with_ray(run_folder, draw_images(tmp_path / "images", range(2)), tmp_path / "scores", workers=1)
    assert type(caught.value) is InputError
    assert vars(caught.value) == fields
    assert str(caught.value) == "`size` of `create_backbone` must suit 'resnet'; got 3. Pass a larger `size`."


def test_an_error_that_nobody_foresaw_names_the_part():
    class Broken(SimpleNamespace):
        def get(self, item):
            raise self.exceptions.RayTaskError("score", "traceback", self.cause)

    for cause, said in (
        (ZeroDivisionError("odd   number."), "ZeroDivisionError: odd number."),
        (KeyError(), "KeyError."),
        (RuntimeError("CUDA out of memory"), "RuntimeError: CUDA out of memory. Try a smaller batch size."),
    ):
        broken = Broken(exceptions=ray.exceptions, ObjectRefGenerator=ray.ObjectRefGenerator, cause=cause)
        with pytest.raises(InputError) as refused:
            pool._is_finished(broken, None, "Part 3, 'a' to 'b',", print)
        assert str(refused.value) == f"Part 3, 'a' to 'b', failed in a process of Ray: {said}"
