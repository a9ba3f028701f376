"""Hyperparameters, chosen fairly: every method has six trials of its own on frozen features, evaluated on "val" alone.

The choices are written to `results/tuned.json`, which the other experiments read.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from experiments.runs import Job, RunStore, jobs_of
from experiments.training import Method, new_spelling, old_spelling
from manyhot.errors import InputError
from manyhot.files import atomic_write

TUNED = Path(__file__).parent / "results" / "tuned.json"
RATES = (0.3, 1.0, 3.0)
SIGMOIDS = "sigmoid rates"


@dataclass(frozen=True)
class Trial:
    """One setting of a method.

    Attributes:
        loss: With its arguments.
        lr: Factor on the learning rate of the fit settings.
        start: Initial bias.
        scale: Of a cosine head with one bias for all labels; None for a linear head.
    """

    loss: str
    lr: float = 1.0
    start: str = "rates"
    scale: float | None = None

    def method(self, name: str) -> Method:
        """The method with these hyperparameters."""
        if self.scale is None:
            return Method(name, self.loss, start=self.start, lr=self.lr)
        return Method(name, self.loss, head="cosine", bias="shared", scale=self.scale, start=self.start, lr=self.lr)


def rates(loss: str, starts: Sequence[str] = ("rates", "zero")) -> list[Trial]:
    """Trials of losses without hyperparameters: learning rates, and initial biases."""
    factors = RATES if len(starts) == 2 else (0.1, *RATES, 0.6, 6.0)
    return [Trial(loss, lr, start) for start in starts for lr in factors]


def values(pattern: str, numbers: Sequence[object], start: str = "rates") -> list[Trial]:
    """Trials of a loss with each of several numbers, or tuples of numbers, in its text."""
    calls = [pattern.format(*number) if isinstance(number, tuple) else pattern.format(number) for number in numbers]
    return [Trial(text, start=start) for text in calls]


SPA = "StrictlyProperAsymmetricLoss(zeta_neg={}, k_neg={}, b_neg={})"
SHAPES = [(5, 3, 1), (2, 2, 0.5), (3, 2, 1), (5, 2, 0.5), (10, 3, 1), (2, 1.5, 0)]
WEIGHTS = (0.1, 0.3, 1, 3, 10, 30)
MANY = {
    "BCE": rates("BinaryCrossEntropyLoss()"),
    "focal": values("FocalLoss({}, {})", [(4, 1), (2, 0), (1, 0), (2, 1), (2, 2), (1, 1)]),
    "ASL": values(
        "AsymmetricLoss({}, {}, {})",
        [(4, 0, 0.05), (4, 1, 0.05), (2, 0, 0.05), (1, 0, 0.05), (2, 0, 0), (3, 1, 0)],
    ),
    "two-way": values(
        "TwoWayLoss(temperature_pos={}, temperature_neg={})", [(4, 1), (1, 1), (2, 1), (8, 1), (4, 2), (2, 0.5)]
    ),
    "softmax": rates("MultiLabelSoftmaxLoss()", ("zero",)),
    "quasibinary": [Trial(f"QuasibinaryLoss(penalty_weight={w})", lr) for w in (0.3, 1, 3) for lr in (1.0, 3.0)],
    "SPA": values(SPA, SHAPES),
    "WARP": rates("WARPLoss()", ("zero",)),
    "RML": values(
        "RMLLoss(floor={}, class_weight={})", [(-0.5, 1), (0, 1), (-0.9, 1), (-0.5, 0.3), (-0.5, 3), (-0.5, 10)]
    ),
    "sample-wise": values(
        "TwoWayLoss('sample', temperature_pos={}, temperature_neg={})",
        [(4, 1), (1, 1), (2, 1), (8, 1), (4, 2), (2, 0.5)],
    ),
}
ZERO = {
    "BCE": rates("BinaryCrossEntropyLoss()"),
    "softmax + uniform": values("SoftmaxCrossEntropyLoss(no_label='uniform', no_label_weight={})", WEIGHTS),
    "softmax + maxconf": values(
        "SoftmaxCrossEntropyLoss(no_label='maxconf', no_label_weight={})", (0.01, 0.03, *WEIGHTS[:4])
    ),
    "quasibinary": MANY["quasibinary"],
    "SPA": values(SPA, SHAPES),
    "uniform BCE": [Trial("BinaryCrossEntropyLoss()", scale=scale) for scale in (4, 8, 16, 32, 64, 96)],
}
SETS = {
    "CE": rates("SoftmaxCrossEntropyLoss()", ("zero",)),
    "AVG-K": values("AverageKLoss({{K}}, alpha={})", (0.1, 0.3, 1, 3, 10, 30), SIGMOIDS),
    "ROLE": [Trial("ROLELoss({K})", lr, SIGMOIDS) for lr in (0.3, 1.0, 3.0, 6.0, 12.0, 24.0)],
    "AN": values("AssumeNegativeLoss(negative_weight={})", (None, 0.02, 0.1, 0.3, 1, 3), SIGMOIDS),
    "EPR": values("EPRLoss({{K}}, beta={})", (1e-4, 1e-3, 1e-2, 0.1, 1, 10), SIGMOIDS),
    "top-K": values("NoisedTopKLoss({{K}}, epsilon={})", (0.01, 0.1, 0.3, 1, 3, 10)),
}
# Losses with probabilities in training; two-way and softmax have none to compare pairs by.
LPR_ON = ("BCE", "focal", "ASL", "SPA")
LPR_WEIGHTS = (0.003, 0.01, 0.03, 0.1, 0.3, 1)
FAMILIES = {
    "many": ("coco features: part", MANY),
    "zero": ("tiny-imagenet features: zero labels, part", ZERO),
    "sets": ("tiny-imagenet features: part", SETS),
}


def job_of(name: str, trial: Trial, dataset: str) -> Job:
    """The run of a trial."""
    method = replace(trial, loss=trial.loss.replace("{K}", "5")).method(name)
    return jobs_of([method], dataset, ("trial",), (0,))[0]


def jobs(families: Sequence[str] = tuple(FAMILIES)) -> list[Job]:
    """All trials but those of the label pair regulariser, whose losses must be chosen before."""
    result = []
    for family in families:
        dataset, methods = FAMILIES[family]
        for name, trials in methods.items():
            result += [job_of(name, trial, dataset) for trial in trials]
    return result


def with_pairs(base: Trial) -> list[Trial]:
    """Six weights of the label pair regulariser on a chosen loss."""
    # A margin makes probabilities of exactly 0, which pairs cannot be compared by; the paper takes the sigmoid there.
    link = ", link=SigmoidLink()" if base.loss.startswith("AsymmetricLoss") else ""
    losses = [f"LabelPairRegulariser({base.loss}, weight={weight}{link})" for weight in LPR_WEIGHTS]
    return [replace(base, loss=loss) for loss in losses]


def choose(store: RunStore, name: str, trials: Sequence[Trial], dataset: str) -> tuple[Trial, list[float | None]]:
    """The best trial, and the figure of each."""
    runs = [store.find(job_of(name, trial, dataset)) for trial in trials]
    scores: list[float | None] = [
        None if run is None or "diverged" in run else run["figures"]["trial"]["choice"] for run in runs
    ]
    best = max(range(len(trials)), key=[-math.inf if score is None else score for score in scores].__getitem__)
    return trials[best], scores


def pair_jobs(store: RunStore) -> list[Job]:
    """The trials of the label pair regulariser."""
    dataset = FAMILIES["many"][0]
    result = []
    for name in LPR_ON:
        chosen, _ = choose(store, name, MANY[name], dataset)
        result += [job_of(f"{name} + LPR", trial, dataset) for trial in with_pairs(chosen)]
    return result


def write(store: RunStore) -> None:
    """Writes the choices, once all trials are done."""
    missing = [job for job in [*jobs(), *pair_jobs(store)] if store.find(job) is None]
    if missing:
        rule, got = "be complete before anything is chosen", f"{len(missing)} that are not done"
        raise InputError("trials", "experiments", rule, got, "Run `tune` again; it goes on where it was.")
    content: dict[str, dict[str, object]] = {}
    for family, (dataset, methods) in FAMILIES.items():
        content[family] = {}
        for name, trials in methods.items():
            best, scores = choose(store, name, trials, dataset)
            content[family][name] = shown(best, trials, scores)
            if family == "many" and name in LPR_ON:
                pairs = with_pairs(best)
                chosen, result = choose(store, f"{name} + LPR", pairs, dataset)
                content[family][f"{name} + LPR"] = shown(chosen, pairs, result)
    with atomic_write(TUNED) as part:
        part.write_text(json.dumps(content, indent=1) + "\n")


def shown(best: Trial, trials: Sequence[Trial], scores: Sequence[float | None]) -> dict[str, object]:
    """A choice with all its trials, as stored results spell them."""
    tried = [
        {**spelled(trial), "choice": score if score is None else round(score, 5)}
        for trial, score in zip(trials, scores, strict=True)
    ]
    return {**spelled(best), "tried": tried}


def spelled(trial: Trial) -> dict[str, object]:
    """The values of a trial, as stored results spell them."""
    return asdict(trial) | {"loss": old_spelling(trial.loss)}


def tuned(family: str, name: str) -> Trial:
    """The chosen trial of a method; its first trial if none was chosen yet."""
    if TUNED.is_file():
        result = json.loads(TUNED.read_text())[family].get(name)
        if result is not None:
            return Trial(new_spelling(result["loss"]), result["lr"], result["start"], result["scale"])
    if name.endswith(" + LPR"):
        return with_pairs(tuned(family, name.removesuffix(" + LPR")))[3]
    return FAMILIES[family][1][name][0]
