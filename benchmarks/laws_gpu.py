"""Calibrators, rules and metrics on a GPU: every law, and the same results as on the CPU.

python benchmarks/laws_gpu.py
"""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import manyhot as mh
from manyhot.testing import CALIBRATOR_LAWS, METRIC_LAWS, RULE_LAWS, RuleCase

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.calibrate.cases import CASES as CALIBRATORS
from tests.decide.rules import CASES as RULES
from tests.metrics.cases import CASES as METRICS

Trial = tuple[str, Callable[[], None]]


def laws() -> Iterator[Trial]:
    """Every law of every object, on the GPU."""
    cases = [("metric", METRICS, METRIC_LAWS), ("calibrator", CALIBRATORS, CALIBRATOR_LAWS)]
    there = [
        (f"{kind} {name}", dataclasses.replace(case, device="cuda"), own)
        for kind, named, own in cases
        for name, case in named.items()
    ]
    there += [
        (f"rule {name}", RuleCase(make, device="cuda", **options), RULE_LAWS) for name, (make, options) in RULES.items()
    ]
    for name, case, own in there:
        for law in own:
            yield f"{name} {law.__name__}", lambda law=law, case=case: law(case)


def agreements() -> Iterator[Trial]:
    """Fitted on both devices, calibrators give the same probabilities and rules the same decisions."""
    draw = torch.Generator().manual_seed(0)
    targets = (torch.rand(3000, 20, generator=draw) < torch.rand(20, generator=draw) * 0.3).to(torch.int8)
    scores = torch.randn(3000, 20, generator=draw) + 2 * targets - 2
    targets[torch.rand(3000, 20, generator=draw) < 0.05] = -1
    probs = torch.sigmoid(scores)

    def calibrated(make: Callable[[], mh.Calibrator]) -> None:
        here, there = (make().to(d).fit(scores.to(d), targets.to(d))(scores.to(d)) for d in ("cpu", "cuda"))
        torch.testing.assert_close(there.cpu(), here, rtol=1e-5, atol=1e-6)

    def decided(make: Callable[[], mh.Rule]) -> None:
        here, there = (make().fit(probs.to(d), targets.to(d))(probs.to(d)) for d in ("cpu", "cuda"))
        torch.testing.assert_close(there.labels.cpu(), here.labels)
        torch.testing.assert_close(there.abstain.cpu(), here.abstain)

    for name, case in CALIBRATORS.items():
        if not case.single_label:
            yield f"calibrator {name} on both devices", lambda make=case.make: calibrated(make)
    for name, (make, options) in RULES.items():
        if not options.get("names_labels"):
            yield f"rule {name} on both devices", lambda make=make: decided(make)


def main() -> None:
    tried = broken = 0
    for name, trial in (*laws(), *agreements()):
        tried += 1
        try:
            trial()
        except Exception as error:  # every trial is made, and every failure reported
            broken += 1
            print(f"BROKEN {name}: {type(error).__name__} {str(error)[:300]}", flush=True)
    print(f"{torch.cuda.get_device_name()}: {tried} trials, {broken} broken")
    sys.exit(broken > 0)


if __name__ == "__main__":
    main()
