"""Everything public has every property of its kind."""

import pytest
import torch

import manyhot as mh
from manyhot.registry import classes
from manyhot.testing.losses import check_compiles
from tests.laws.table import TABLE

# Compiling takes a second, everything else takes little.
ROWS = [
    pytest.param(
        case, law, id=f"{kind}-{name}-{law.__name__}", marks=[pytest.mark.slow] if law is check_compiles else []
    )
    for kind, (_, _, cases, laws) in TABLE.items()
    for name, case in cases.items()
    for law in laws
]


@pytest.mark.parametrize(("case", "law"), ROWS)
def test_law(case, law):
    law(case)


@pytest.mark.parametrize("kind", TABLE)
def test_all_that_is_public_is_tried(kind):
    base, subpackage, cases, _ = TABLE[kind]
    arguments = (torch.zeros(1, 5, dtype=torch.int8),) if kind == "loss" else ()
    tried = {type(case.make(*arguments)) for case in cases.values()}
    public = {value for name in subpackage.__all__ if isinstance(value := getattr(subpackage, name), type)}
    assert {one for one in public if issubclass(one, base)} - {base, mh.losses.AdditiveLoss} == tried
    if kind != "metric":  # metrics are in no registry, because nothing is named by them
        assert set(classes(base).values()) == tried
