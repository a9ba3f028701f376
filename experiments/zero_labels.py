"""Pictures without a label (paper 000, table II): telling what is there, and that nothing is."""

from dataclasses import replace

from experiments.harness.arms import Arm
from experiments.harness.found import Found, at, own
from experiments.harness.jobs import Job, Ledger
from experiments.harness.studies import Scope, Study, jobs_of
from experiments.harness.tables import Column
from experiments.methods import tuned_arm

METHODS = ("BCE", "softmax + uniform", "softmax + maxconf", "quasibinary", "SPA", "uniform BCE")
MANY_SETS = ("coco", "voc", "nus-wide")
MANY = ("BCE", "ASL", "two-way", "softmax", "quasibinary", "SPA")


def one_arms() -> list[Arm]:
    """The methods for one label or none, as they were tuned on features of the same pictures."""
    return [tuned_arm("zero", name) for name in METHODS]


def many_arms() -> list[Arm]:
    """The losses for many labels or none, likewise."""
    return [tuned_arm("many", name) for name in MANY]


def jobs(study: Study, scope: Scope) -> list[Job]:
    """Pictures with one label or none, and photos with many or none."""
    found = []
    for name in scope.sets or study.sets:
        arms = many_arms() if name.partition(" ")[0] in MANY_SETS else one_arms()
        found += jobs_of(arms, f"{name}: zero labels", ("zero_label",), scope.seeds)
    return found


COLUMNS = {
    Column("accuracy IN %"): own("accuracy"),
    Column("MMC OUT %", best="low"): own("mmc"),
    Column("AUROC", "plain", 3): own("auroc"),
    Column("FPR95 %", best="low"): own("fpr95"),
    Column("calibrated: MMC OUT %", best="low"): at("readings", "calibrated", "mmc"),
    Column("calibrated: AUROC", "plain", 3): at("readings", "calibrated", "auroc"),
}


def page(study: Study, scope: Scope, ledger: Ledger) -> str:
    """IN and OUT on each set."""
    parts = []
    for name in scope.sets or study.sets:
        found = Found(ledger, scope.of(jobs(study, replace(scope, sets=(name,)))), "zero_label")
        if found:
            parts.append(f"{name}:\n\n{found.table(COLUMNS)}")
    return "\n".join(parts)
