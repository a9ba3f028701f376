"""What the tests of this room share."""

import pytest


@pytest.fixture
def write(tmp_path):
    def write(text, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8"))
        return path

    return write
