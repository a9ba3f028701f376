"""What the table of laws does not try: the links of losses that add over labels, and the compiler that users have."""

import shutil

import pytest
import torch

from manyhot.testing.losses import check_compiles, check_link_is_slope_ratio
from tests.losses import CASES

ADDITIVE = [name for name, case in CASES.items() if case.build(torch.zeros(1, 5)).adds_over_labels]


@pytest.mark.parametrize("name", ADDITIVE)
def test_link_is_slope_ratio(name):
    check_link_is_slope_ratio(CASES[name].build(torch.zeros(1, 5)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spa-pairs", "two-way", "quasibinary", "asl"])
def test_inductor_gives_the_same_numbers(name):
    """With the compiler that users have; it needs a C++ compiler, without which the graph is still run and compared."""
    check_compiles(CASES[name], backend="inductor" if shutil.which("g++") else "aot_eager")
