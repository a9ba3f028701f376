"""Photos with many labels (000 table III, 001 tables 3 and 4, 001 figure 3): ranking, calibration, search."""

from dataclasses import replace

from experiments.harness.arms import Arm
from experiments.harness.found import Figures, Found, Getter, at, own
from experiments.harness.jobs import Job, Ledger
from experiments.harness.studies import Scope, Study, jobs_of
from experiments.harness.tables import Column, Table
from experiments.methods import tuned_arm
from experiments.tuning import LPR_ON

LOSSES = ("BCE", "focal", "ASL", "two-way", "softmax", "quasibinary", "SPA")
JUDGES = ("many_label", "retrieval")
# With the numbers that the papers print; the others are as tuned on features of the same photos.
PRINTED = (
    Arm("focal, as printed", "AsymmetricFocalLoss(2, 2)"),
    Arm("ASL, as printed", "AsymmetricLoss(4, 0, 0.05)"),
    Arm("quasibinary, as printed", "QuasibinaryLoss()"),
    Arm("SPA, as printed", "StrictlyProperAsymmetricLoss()"),
)


# On a linear head no weight of the label pairs helps, and the least one is chosen, at which they do nothing; so that
# they can be seen at all, networks get the weight that helped heads with a hidden layer.
PAIRS = 0.1


HEADLINES = (*LOSSES, "ASL, as printed", "SPA, as printed")


def arms() -> list[Arm]:
    """The losses as tuned, as printed, and with label pairs."""
    plain = [tuned_arm("many", name) for name in LOSSES]
    with_pairs = [paired(arm) for arm in plain if arm.name in LPR_ON]
    return [*plain, *PRINTED, *with_pairs, paired(PRINTED[-1])]


def paired(arm: Arm) -> Arm:
    """An arm with label pairs."""
    link = ", link=SigmoidLink()" if arm.loss.startswith("AsymmetricLoss") else ""
    loss = f"LabelPairRegulariser({arm.loss}, weight={PAIRS}{link})"
    name, comma, rest = arm.name.partition(", ")
    return replace(arm, name=f"{name} + LPR{comma}{rest}", loss=loss)


def jobs(study: Study, scope: Scope) -> list[Job]:
    """Every loss with every seed; what is printed otherwise, and label pairs, with the first seed."""
    found = []
    for name in scope.sets or study.sets:
        features = name.endswith(" features")
        judges = ("many_label",) if features else JUDGES  # on a CPU, a minute of search for seconds of training
        every = [arm for arm in arms() if features or arm.name in HEADLINES]
        found += jobs_of(every, name, judges, scope.seeds)
        found += jobs_of([arm for arm in arms() if arm not in every], name, judges, scope.seeds[:1])
    return found


RANKS = {
    Column("mAP by class %", digits=2): at("map_class"),
    Column("mAP by sample %", digits=2): at("map_sample"),
    Column("F1 at top 4 %", digits=2): at("f1_top4"),
    Column("log loss, own reading", "plain", 3, "low"): own("log_loss"),
    Column("log loss, calibrated", "plain", 3, "low"): at("readings", "calibrated", "log_loss"),
}
READINGS = ("sigmoid", "softmax", "own link", "moving average", "temperature", "calibrated")
ERRORS = {
    "ECE at top 4 %": "ece_top4",
    "ECE %": "ece",
    "ACE %": "ace",
    "MCE %": "mce",
    "log loss": "log_loss",
}


def page(study: Study, scope: Scope, ledger: Ledger) -> str:
    """Ranking, calibration by reading, and search by the length of queries."""
    parts = []
    for name in scope.sets or study.sets:
        own_jobs = scope.of(jobs(study, replace(scope, sets=(name,))))
        found = Found(ledger, own_jobs, "many_label")
        if found:
            parts.append(f"{name}, ranking:\n\n{found.table(RANKS)}")
            parts.append(f"{name}, calibration by how the scores are read:\n\n{readings_table(found)}")
        searched = Found(ledger, own_jobs, "retrieval")
        if searched:
            parts.append(f"{name}, mAP of search by the number of labels in a query:\n\n{search_table(searched)}")
    return "\n".join(parts)


def readings_table(found: Found) -> str:
    """A row for each loss and way to read it."""
    columns = [
        Column(title, "plain" if key == "log_loss" else "percent", 3 if key == "log_loss" else 2, "low")
        for title, key in ERRORS.items()
    ]
    rows = []
    for arm in found.arms:
        for reading in READINGS:
            cells = [found.mean(arm, at("readings", reading, key)) for key in ERRORS.values()]
            if any(cell is not None for cell in cells):
                rows.append([arm, reading, *cells])
    return Table([Column("loss", best=None), Column("read by", best=None), *columns], rows).markdown()


def search_table(found: Found) -> str:
    """A row for each loss and way to read it, a column for each length."""
    columns = [Column("all queries"), *(Column(f"{length}") for length in range(1, 6))]
    rows = []
    for arm in found.arms:
        for reading in READINGS:
            overall = found.mean(arm, at("readings", reading, "map"))
            if overall is not None:
                cells = [found.mean(arm, _length(reading, place)) for place in range(5)]
                rows.append([arm, reading, overall, *cells])
    return Table([Column("loss", best=None), Column("read by", best=None), *columns], rows).markdown()


def _length(reading: str, place: int) -> Getter:
    def get(figures: Figures) -> float | None:
        by_length = figures["readings"].get(reading, {}).get("by_length", [])
        return by_length[place] if place < len(by_length) else None

    return get
