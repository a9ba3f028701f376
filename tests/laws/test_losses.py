"""Every loss obeys every law."""

import shutil

import pytest
import torch

import manyhot as mh
from manyhot.registry import classes
from manyhot.testing import LOSS_PROPERTIES, check_compiles, check_link_is_slope_ratio
from tests.losses import CASES

ADDITIVE = [name for name, case in CASES.items() if case.build(torch.zeros(1, 5)).adds_over_labels]


# Compiling takes a second, the other laws take none.
LAWS = [pytest.param(law, marks=pytest.mark.slow) if law is check_compiles else law for law in LOSS_PROPERTIES]


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("name", CASES)
def test_law(name, law):
    law(CASES[name])


@pytest.mark.parametrize("name", ADDITIVE)
def test_link_is_slope_ratio(name):
    check_link_is_slope_ratio(CASES[name].build(torch.zeros(1, 5)))


def test_every_public_loss_is_tried():
    tried = {type(case.build(torch.zeros(1, 5, dtype=torch.int8))) for case in CASES.values()}
    public = {value for name in mh.losses.__all__ if isinstance(value := getattr(mh.losses, name), type)}
    losses = {kind for kind in public if issubclass(kind, mh.Loss)} - {mh.Loss, mh.losses.AdditiveLoss}
    assert losses == tried == set(classes(mh.Loss).values())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["spa-pairs", "two-way", "quasibinary", "asl"])
def test_inductor_gives_the_same_numbers(name):
    """With the compiler that users have; it needs a C++ compiler, without which the graph is still run and compared."""
    check_compiles(CASES[name], backend="inductor" if shutil.which("g++") else "aot_eager")
