"""What the examples in docstrings may use without importing it, and how processes of tests are run."""

import importlib.util
import os
import signal

import pytest
import torch

import manyhot

# Ray starts its workers with a niceness of 15; beside busy programs they would starve.
os.environ.setdefault("RAY_worker_niceness", "0")

# The GPU kernel can be imported only where Triton is, which torch brings on Linux.
collect_ignore = [] if importlib.util.find_spec("triton") else ["src/manyhot/losses/kernels_triton.py"]


def pytest_configure():
    """Takes interrupts, which some tests send, also where a shell in the background has them ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config, items):
    """Leaves out what needs a GPU where there is none."""
    if not torch.cuda.is_available():
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("gpu")])
        items[:] = [item for item in items if not item.get_closest_marker("gpu")]


@pytest.fixture(autouse=True)
def names_for_examples(doctest_namespace):
    doctest_namespace.update(torch=torch, mh=manyhot)
