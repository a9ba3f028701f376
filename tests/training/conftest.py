"""What all tests of training share."""

import pytest

from manyhot.evaluation import pipeline


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Intervals from fewer draws, which are as good for a test."""
    monkeypatch.setattr(pipeline, "REPLICATES", {1 << 18: 10})
