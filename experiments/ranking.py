"""Ranking losses (paper 002, table B and supplement B)."""

from dataclasses import replace

from experiments.harness.arms import Arm
from experiments.harness.found import Found, at
from experiments.harness.jobs import Job, Ledger
from experiments.harness.studies import Scope, Study, jobs_of
from experiments.harness.tables import Column
from experiments.methods import tuned_arm

METHODS = ("WARP", "sample-wise", "RML", "two-way", "BCE")


def arms() -> list[Arm]:
    """The losses as they were tuned."""
    return [tuned_arm("many", name) for name in METHODS]


def jobs(study: Study, scope: Scope) -> list[Job]:
    """Every loss with every seed."""
    return [job for name in scope.sets or study.sets for job in jobs_of(arms(), name, ("many_label",), scope.seeds)]


COLUMNS = {
    Column("mAP by class %", digits=2): at("map_class"),
    Column("mAP by sample %", digits=2): at("map_sample"),
    Column("log loss, calibrated", "plain", 3, "low"): at("readings", "calibrated", "log_loss"),
}


def page(study: Study, scope: Scope, ledger: Ledger) -> str:
    """Ranking by each loss."""
    parts = []
    for name in scope.sets or study.sets:
        found = Found(ledger, scope.of(jobs(study, replace(scope, sets=(name,)))), "many_label")
        if found:
            parts.append(f"{name}:\n\n{found.table(COLUMNS)}")
    return "\n".join(parts)
