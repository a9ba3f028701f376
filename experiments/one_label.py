"""One label a picture (paper 000, table I): do sigmoids fail with many classes?"""

from collections.abc import Sequence
from dataclasses import replace

from experiments.harness.arms import Arm
from experiments.harness.found import Found, at
from experiments.harness.jobs import Job, Ledger
from experiments.harness.studies import Scope, Study, jobs_of
from experiments.harness.tables import Column
from experiments.methods import BCE_RATES, BCE_ZERO, ONE_LABEL, QUASIBINARY, SOFTMAX

ARMS = (SOFTMAX, BCE_RATES, BCE_ZERO, QUASIBINARY)
# The paper's own way to train, one seed: is it the optimiser, the unit of the loss, or the start that makes BCE fail?
MEAN_BCE = "BinaryCrossEntropyLoss()"
AS_PRINTED = (
    SOFTMAX,
    BCE_RATES,
    BCE_ZERO,
    Arm("BCE, mean over classes, bias from zero", MEAN_BCE, start="zero"),
    Arm("BCE, mean over classes, bias from the label rates", MEAN_BCE),
    QUASIBINARY,
)


def printed_jobs(material: str, arms: Sequence[Arm] = AS_PRINTED) -> list[Job]:
    """Stochastic gradient descent from a rate of 0.1 that falls tenfold after 50 % and 75 % of the epochs."""
    jobs = jobs_of(arms, material, ("one_label",), (0,))
    changes = {"optimizer": "sgd", "lr": 0.1, "weight_decay": 1e-4, "schedule": "step", "warmup": 0.0}
    return [replace(job, plan=replace(job.plan, **changes)) for job in jobs]


def jobs(study: Study, scope: Scope) -> list[Job]:
    """Three seeds of each arm, and the paper's optimiser once on the set with the most classes."""
    sets = scope.sets or study.sets
    found = [job for name in sets for job in jobs_of(ARMS, name, ONE_LABEL, scope.seeds)]
    return found + [job for name in sets[-1:] if not name.endswith(" features") for job in printed_jobs(name)]


COLUMNS = {
    Column("top-1 error %", best="low"): at("top1_error"),
    Column("top-5 error %", best="low"): at("top5_error"),
    Column("ECE of the first %", best="low"): at("ece"),
}


def page(study: Study, scope: Scope, ledger: Ledger) -> str:
    """Errors on each set, and with the optimiser of the paper."""
    parts = []
    for name in scope.sets or study.sets:
        found = Found(ledger, scope.of(jobs_of(ARMS, name, ONE_LABEL, scope.seeds)), "one_label")
        if found:
            parts.append(f"{name}:\n\n{found.table(COLUMNS)}")
        if name.endswith(" features"):
            continue
        printed = Found(ledger, scope.of(printed_jobs(name)), "one_label")
        if printed:
            parts.append(
                f"{name}, trained by gradient descent as the paper does, one seed:\n\n{printed.table(COLUMNS)}"
            )
    return "\n".join(parts)
