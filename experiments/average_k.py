"""Sets of labels whose mean size is K (paper 003, tables 1 and 2)."""

from experiments.harness.arms import Arm
from experiments.harness.found import Figures, Found, Getter
from experiments.harness.jobs import Job, Ledger
from experiments.harness.studies import Scope, Study, jobs_of
from experiments.harness.tables import Column
from experiments.methods import KS, ONE_LABEL, SET_METHODS, set_arm

TRAINED_K = 5
SLOW = "ROLE"  # learns a guess for every cell of the training data, so it is trained for one K only


def jobs(study: Study, scope: Scope) -> list[Job]:
    """Networks for sets of 5; heads on features for sets of 2, 3, 5 and 10; each on all rows and on a long tail."""
    found = []
    for name in scope.sets or study.sets:
        features = name.endswith(" features")
        ks = KS if features else (TRAINED_K,)
        arms = list(dict.fromkeys(arm for k in ks for arm in arms_for(k, name)))
        for material in (name, f"{name}: long-tailed"):
            found += jobs_of(arms, material, ONE_LABEL, scope.seeds)
    return found


SHOTS = ("few", "medium", "many")


def arms_for(k: int, material: str) -> list[Arm]:
    """The methods for sets of k labels."""
    return [set_arm(name, k, material) for name in SET_METHODS if name != SLOW or k == TRAINED_K]


def page(study: Study, scope: Scope, ledger: Ledger) -> str:
    """Accuracy of sets by their mean size, and for labels with few, some and many pictures."""
    parts = []
    for name in scope.sets or study.sets:
        features = name.endswith(" features")
        for material in (name, f"{name}: long-tailed"):
            for k in KS if features else (TRAINED_K,):
                arms = arms_for(k, material)
                found = Found(ledger, scope.of(jobs_of(arms, material, ONE_LABEL, scope.seeds)), "average_k")
                if found:
                    parts.append(f"{material}, K = {k}:\n\n{found.table(columns(k, material))}")
    return "\n".join(parts)


def columns(k: int, material: str) -> dict[Column, Getter]:
    """Accuracy and size by the activation that was trained, and accuracy by the better one of both."""
    found = {
        Column(f"average-{k} accuracy %"): trained(k, "accuracy"),
        Column("mean size", "plain", 2, None): trained(k, "mean_size"),
        Column("by softmax %"): by("softmax", k, "accuracy"),
        Column("by sigmoid %"): by("sigmoid", k, "accuracy"),
    }
    if material.endswith(": long-tailed"):
        found |= {Column(f"{shots} shot %"): trained(k, shots) for shots in SHOTS}
    return found


def trained(k: int, key: str) -> Getter:
    """A figure of sets by the activation that the loss was trained with."""
    return lambda figures: by(figures["trained"], k, key)(figures)


def by(activation: str, k: int, key: str) -> Getter:
    """A figure of sets by an activation."""

    def get(figures: Figures) -> float | None:
        return figures["activations"].get(activation, {}).get(str(k), {}).get(key)

    return get
