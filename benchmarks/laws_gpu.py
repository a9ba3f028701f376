"""Calibrators, rules and metrics on a GPU: every property, and the same results as on the CPU.

python benchmarks/laws_gpu.py
"""

import argparse
import dataclasses
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import torch

import manyhot as mh

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.laws.table import CALIBRATORS, RULES, TABLE

Trial = tuple[str, Callable[[], object]]


def properties() -> Iterator[Trial]:
    """Every property of every object, on the GPU."""
    for kind in ("calibrator", "rule", "metric"):
        _, _, cases, own = TABLE[kind]
        for name, case in cases.items():
            for check in own:
                yield f"{kind} {name} {check.__name__}", partial(check, dataclasses.replace(case, device="cuda"))


def agreements() -> Iterator[Trial]:
    """Fitted on both devices, calibrators give the same probabilities and rules the same decisions."""
    draw = torch.Generator().manual_seed(0)
    targets = (torch.rand(3000, 20, generator=draw) < torch.rand(20, generator=draw) * 0.3).to(torch.int8)
    scores = torch.randn(3000, 20, generator=draw) + 2 * targets - 2
    targets[torch.rand(3000, 20, generator=draw) < 0.05] = -1
    probs = torch.sigmoid(scores)

    def calibrated(make: Callable[[], mh.Calibrator]) -> None:
        on_cpu, on_gpu = (make().to(d).fit(scores.to(d), targets.to(d))(scores.to(d)) for d in ("cpu", "cuda"))
        torch.testing.assert_close(on_gpu.cpu(), on_cpu, rtol=1e-5, atol=1e-6)

    def decided(make: Callable[[], mh.Rule]) -> None:
        on_cpu, on_gpu = (make().fit(probs.to(d), targets.to(d))(probs.to(d)) for d in ("cpu", "cuda"))
        torch.testing.assert_close(on_gpu.labels.cpu(), on_cpu.labels)
        torch.testing.assert_close(on_gpu.abstain.cpu(), on_cpu.abstain)

    for name, case in CALIBRATORS.items():
        if not case.single_label:
            yield f"calibrator {name} on both devices", partial(calibrated, case.make)
    for name, case in RULES.items():
        if not case.names_labels:
            yield f"rule {name} on both devices", partial(decided, case.make)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    tried = broken = 0
    for name, trial in (*properties(), *agreements()):
        tried += 1
        try:
            trial()
        except Exception as error:  # every trial is run, and every failure reported
            broken += 1
            print(f"BROKEN {name}: {type(error).__name__} {str(error)[:300]}", flush=True)
    print(f"{torch.cuda.get_device_name()}: {tried} trials, {broken} broken")
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
