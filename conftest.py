"""What the examples in docstrings may use without importing it."""

import pytest
import torch

import manyhot


@pytest.fixture(autouse=True)
def names_for_examples(doctest_namespace):
    doctest_namespace.update(torch=torch, mh=manyhot)
