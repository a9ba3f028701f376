"""Thousands of requests made up from the description of the API."""

import time

import pytest

from tests.studio.fuzzing import Fuzzer
from tests.studio.servers import Started
from tests.studio.targets import Target, resident, write_run

# About a quarter of a minute; benchmarks/studio_fuzz.py sends 10,000.
REQUESTS = 1_500


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A studio in a process of its own, in which everything can be asked and edited."""
    folder = tmp_path_factory.mktemp("place") / "run"
    write_run(folder)
    started = Started(folder, "--no-open", "--port", "0")
    yield started
    code, told = started.stop()
    assert code == 0
    assert "Traceback" not in told
    assert [path.name for path in folder.parent.iterdir()] == ["run"]


def test_made_up_requests_break_nothing(started):
    target = Target(int(started.url.rstrip("/").rpartition(":")[2]))
    assert target.is_alive()
    before = resident(started.process.pid)
    statuses, failures = Fuzzer(started.url).run(REQUESTS)
    assert failures == []
    assert REQUESTS <= statuses.total() <= 1.1 * REQUESTS
    assert {status for _, status in statuses} <= {200, 400, 404, 405, 409, 422}
    answered = {label for (label, status), count in statuses.items() if status == 200}
    assert {"POST /api/classify", "PUT /api/review/{row}", "POST /api/review/undo", "GET /api/review/file"} <= answered
    start = time.perf_counter()
    assert target.is_alive()
    assert time.perf_counter() - start < 3
    assert resident(started.process.pid) - before < 300
