"""One threshold for all samples (paper 004, tables II, III, VII, X and S.II; rejection of strangers)."""

from dataclasses import replace

from experiments.harness.arms import Arm
from experiments.harness.found import Found, at
from experiments.harness.jobs import Job, Ledger
from experiments.harness.studies import Scope, Study, jobs_of
from experiments.harness.tables import Column
from experiments.methods import ONE_LABEL, UNIFORM, uniform_arm

SCALES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512)
DIVERSE = ("soft-d", "soft-nd", "bce-d", "bce-nd")
MODES = tuple(range(8))
# Whose labels can be grouped, so that some of each group become strangers; swept with one seed.
LARGE = ("tiny-imagenet features", "cifar100 features", "imagenet features")


def scale_arms() -> list[Arm]:
    """The factor on the cosine, for softmax and for BCE with one bias."""
    return [uniform_arm(name, scale=scale) for name in ("soft-nu", "bce-nu") for scale in SCALES]


def mode_arms() -> list[Arm]:
    """The eight starts of a bias for each label."""
    return [uniform_arm(name, start=f"mode {mode}") for name in DIVERSE for mode in MODES]


def jobs(study: Study, scope: Scope) -> list[Job]:
    """The twelve losses on networks and on features; sweeps, and strangers in the test, on features."""
    found = []
    for name in scope.sets or study.sets:
        found += jobs_of(list(UNIFORM.values()), name, ONE_LABEL, scope.seeds)
        if not name.endswith(" features"):
            continue
        found += jobs_of(scale_arms(), name, ONE_LABEL, scope.seeds[: 1 if name in LARGE else None])
        if name in LARGE:
            found += jobs_of(list(UNIFORM.values()), f"{name}: open set", ("open_set",), scope.seeds)
        else:
            found += jobs_of(mode_arms(), name, ONE_LABEL, scope.seeds)
    return found


COLUMNS = {
    Column("A_SW %"): at("scores", "sample_wise"),
    Column("A_CW %"): at("scores", "class_wise"),
    Column("A_Uni %"): at("scores", "uniform"),
    Column("t from val: accuracy %"): at("scores", "honest_accuracy"),
    Column("t*", "plain", 2, None): at("scores", "t_star"),
    Column("learned threshold", "plain", 2, None): at("learned_threshold"),
    Column("softmax applied: A_CW %"): at("softmax", "class_wise"),
    Column("A_Uni % of softmax"): at("softmax", "uniform"),
}
OPEN = {
    Column("IN accepted and right %"): at("scores", "accepted_right_in"),
    Column("OUT rejected %"): at("scores", "rejected_out"),
    Column("balanced %"): at("scores", "balanced_accuracy"),
    Column("AUROC", "plain", 3): at("scores", "auroc"),
    Column("softmax applied: balanced %"): at("softmax", "balanced_accuracy"),
    Column("AUROC of softmax", "plain", 3): at("softmax", "auroc"),
}


def page(study: Study, scope: Scope, ledger: Ledger) -> str:
    """The twelve losses, the sweeps, and strangers."""
    parts = []

    def add(title: str, arms: list[Arm], material: str, judge: str = "uniform") -> None:
        judges = ("open_set",) if judge == "open_set" else ONE_LABEL
        found = Found(ledger, scope.of(jobs_of(arms, material, judges, scope.seeds)), judge)
        if found:
            parts.append(f"{title}:\n\n{found.table(OPEN if judge == 'open_set' else COLUMNS)}")

    for name in scope.sets or study.sets:
        add(f"{name}, the twelve losses", list(UNIFORM.values()), name)
        if name.endswith(" features"):
            add(f"{name}, the factor on the cosine", [named(arm, f"{arm.scale:g}") for arm in scale_arms()], name)
            add(f"{name}, starts of the bias", [named(arm, arm.start) for arm in mode_arms()], name)
            add(f"{name}, strangers in the test", list(UNIFORM.values()), f"{name}: open set", "open_set")
    return "\n".join(parts)


def named(arm: Arm, what: str) -> Arm:
    """An arm of a sweep by the name that its table shows."""
    return replace(arm, name=f"{arm.name}, {what}")
