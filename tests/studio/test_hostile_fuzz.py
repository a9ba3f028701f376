"""Thousands of requests made up from the description of the API."""

import os

import pytest

from tests.studio.collections import write_run
from tests.studio.fuzzing import Fuzzer
from tests.studio.servers import Started
from tests.studio.targets import Target, resident

pytestmark = pytest.mark.process

# Some for every operation, a few seconds; as many as MANYHOT_FUZZ_REQUESTS says where it is set.
REQUESTS = int(os.environ.get("MANYHOT_FUZZ_REQUESTS", "500"))


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
    # Whatever is taken back below, and however soon: once it was asked for, there is a labels file.
    started.ask("/api/review/0", method="PUT", body={"labels": {"dog": 1}})
    assert target.ask("/api/review/file").status == 200
    before = resident(started.process.pid)
    statuses, failures = Fuzzer(started.url).run(REQUESTS)
    assert failures == []
    assert REQUESTS <= statuses.total() <= 1.1 * REQUESTS
    assert {status for _, status in statuses} <= {200, 400, 404, 405, 409, 422}
    answered = {label for (label, status), count in statuses.items() if status == 200}
    assert {"POST /api/classify", "PUT /api/review/{row}", "POST /api/review/undo", "GET /api/review/file"} <= answered
    assert target.is_alive()
    assert resident(started.process.pid) - before < 300
