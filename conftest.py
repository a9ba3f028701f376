"""What the examples in docstrings may use without importing it."""

import importlib.util

import pytest
import torch

import manyhot

# The GPU kernel can be imported only where Triton is, which torch brings on Linux.
collect_ignore = [] if importlib.util.find_spec("triton") else ["src/manyhot/losses/pairs_cuda.py"]


@pytest.fixture(autouse=True)
def names_for_examples(doctest_namespace):
    doctest_namespace.update(torch=torch, mh=manyhot)
