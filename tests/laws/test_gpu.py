"""Everything public has its properties on a GPU too, and calibrators and rules come to the same as on the CPU."""

import dataclasses
from functools import partial

import pytest
import torch

from manyhot.testing.losses import check_compiles
from tests.laws.table import CALIBRATORS, RULES, TABLE

pytestmark = [
    pytest.mark.gpu,
    # torch's own: of the mode that finds synchronisations, of what its compiler imports, and of what it gives up.
    pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype:UserWarning"),
    pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning"),
    pytest.mark.filterwarnings(r"ignore:\s*Online softmax is disabled:UserWarning"),
]

# Losses are tried in half precision too, and compiled by Inductor in full precision.
TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
ROWS = [
    pytest.param(
        dataclasses.replace(case, device="cuda", dtype=dtype),
        partial(law, backend="inductor") if law is check_compiles and name == "float32" else law,
        id=f"{loss}-{law.__name__}-{name}",
    )
    for loss, case in TABLE["loss"][2].items()
    for law in TABLE["loss"][3]
    for name, dtype in TYPES.items()
]
ROWS += [
    pytest.param(dataclasses.replace(case, device="cuda"), law, id=f"{kind}-{name}-{law.__name__}")
    for kind in ("calibrator", "rule", "metric")
    for name, case in TABLE[kind][2].items()
    for law in TABLE[kind][3]
]


@pytest.mark.parametrize(("case", "law"), ROWS)
def test_law(case, law):
    law(case)


@pytest.fixture
def table():
    """Scores and targets of 3,000 rows, with unknown cells."""
    draw = torch.Generator().manual_seed(0)
    targets = (torch.rand(3000, 20, generator=draw) < torch.rand(20, generator=draw) * 0.3).to(torch.int8)
    scores = torch.randn(3000, 20, generator=draw) + 2 * targets - 2
    targets[torch.rand(3000, 20, generator=draw) < 0.05] = -1
    return scores, targets


@pytest.mark.parametrize("name", [name for name, case in CALIBRATORS.items() if not case.single_label])
def test_a_calibrator_gives_the_probabilities_of_the_cpu(name, table):
    results = []
    for device in ("cpu", "cuda"):
        scores, targets = (values.to(device) for values in table)
        results.append(CALIBRATORS[name].make().to(device).fit(scores, targets)(scores).cpu())
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name, case in RULES.items() if not case.names_labels])
def test_a_rule_decides_as_on_the_cpu(name, table):
    results = []
    for device in ("cpu", "cuda"):
        probs, targets = table[0].sigmoid().to(device), table[1].to(device)
        results.append(RULES[name].make().fit(probs, targets)(probs))
    torch.testing.assert_close(results[1].labels.cpu(), results[0].labels)
    torch.testing.assert_close(results[1].abstain.cpu(), results[0].abstain)
