"""The studies, in the order of the page: which runs each one needs, and their tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.data import MANY_LABEL_SETS, is_features
from experiments.runs import SEEDS, Job, RunStore, distinct, jobs_of
from experiments.tables import Column, Figures, Getter, MethodResults, Table, at, own
from experiments.training import Method
from experiments.tuning import LPR_ON, tuned
from manyhot.losses import UNIFORM_LOSSES


@dataclass(frozen=True)
class Scope:
    """How much of a study is run.

    Attributes:
        sets: Datasets to use instead of those of the study; empty for its own.
        seeds: Of the runs.
        shorten: Shortens a run, for a smoke test; None to train in full.
    """

    sets: tuple[str, ...] = ()
    seeds: tuple[int, ...] = SEEDS
    shorten: Callable[[Job], Job] | None = None

    def of(self, jobs: list[Job]) -> list[Job]:
        """The runs, shortened if this scope says so."""
        return jobs if self.shorten is None else [self.shorten(job) for job in jobs]


@dataclass(frozen=True)
class Section:
    """A table of a study and the runs that it is made of.

    Attributes:
        title: Above the table.
        jobs: The runs.
        metric: Whose figures it shows.
        render: The figures as Markdown.
    """

    title: str
    jobs: list[Job]
    metric: str
    render: Callable[[MethodResults], str]


def by_method(columns: Mapping[Column, Getter]) -> Callable[[MethodResults], str]:
    """Renders a row for each method."""
    return lambda results: results.table(columns)


@dataclass(frozen=True)
class Study:
    """An experiment.

    Attributes:
        name: Of its command.
        title: Of its section on the page.
        sets: Datasets it uses by default.
        sections: Its tables, from the datasets and the seeds.
    """

    name: str
    title: str
    sets: tuple[str, ...]
    sections: Callable[[Sequence[str], Sequence[int]], Iterable[Section]]

    def runs(self, scope: Scope) -> list[Job]:
        """The runs that it needs, shortened if the scope says so."""
        return distinct([job for section in self._sections(scope) for job in scope.of(section.jobs)])

    def page(self, scope: Scope, store: RunStore) -> str:
        """Its tables as Markdown, from the runs that are done."""
        parts = []
        for section in self._sections(scope):
            results = MethodResults(store, scope.of(section.jobs), section.metric)
            if results:
                parts.append(f"{section.title}:\n\n{section.render(results)}")
        return "\n".join(parts)

    def _sections(self, scope: Scope) -> Iterable[Section]:
        return self.sections(scope.sets or self.sets, scope.seeds)


CROSS_ENTROPY = "SoftmaxCrossEntropyLoss()"
SUMMED_BCE = "BinaryCrossEntropyLoss(reduction='batchmean')"

SOFTMAX = Method("softmax", CROSS_ENTROPY, start="zero")
BCE_RATES = Method("BCE, bias from the label rates", SUMMED_BCE)
BCE_ZERO = Method("BCE, bias from zero", SUMMED_BCE, start="zero")
QUASIBINARY = Method("quasibinary", "QuasibinaryLoss()")

ONE_LABEL_METRICS = ("one_label", "uniform", "average_k")
KS = (2, 3, 5, 10)
SCALE = 96.0  # of a cosine head
SET_METHODS = ("CE", "AVG-K", "ROLE", "AN", "EPR", "top-K")


def uniform_method(name: str, *, scale: float = SCALE, start: str | None = None) -> Method:
    """One of the twelve losses of uniform classification; the bias of BCE starts at the label rates."""
    kind, head = name.split("-")
    loss = CROSS_ENTROPY if kind == "soft" else SUMMED_BCE
    bias = {"0": "none", "d": "label", "u": "shared"}[head[-1]]
    start = start or ("rates" if kind == "bce" and bias != "none" else "zero")
    if head.startswith("n"):
        return Method(name, loss, head="cosine", bias=bias, scale=float(scale), start=start)
    return Method(name, loss, bias=bias, start=start)


UNIFORM_METHODS = {name: uniform_method(name) for name in UNIFORM_LOSSES}


# Chosen by the trials for sigmoid heads that start at one half; the stored networks were trained so.
FROM_ZERO = {
    "AVG-K": "AverageKLoss({K}, alpha=3)",
    "ROLE": "ROLELoss({K})",
    "AN": "AssumeNegativeLoss(negative_weight=0.02)",
    "EPR": "EPRLoss({K}, beta=1e-06)",
    "top-K": "NoisedTopKLoss({K}, epsilon=3)",
}


def set_method(name: str, k: int, dataset: str) -> Method:
    """A method for sets of k labels on average: tuned on features, from zero on networks."""
    if name == "CE":
        return SOFTMAX
    features = is_features(dataset)
    loss = tuned("sets", name).loss if features else FROM_ZERO[name]
    shown = f"{name}, K = {k}" if "{K}" in loss else name
    text = loss.replace("{K}", str(k))
    return replace(tuned("sets", name).method(shown), loss=text) if features else Method(shown, text, start="zero")


def tuned_methods(family: str, names: Sequence[str]) -> list[Method]:
    """Methods with their tuned hyperparameters; see `FAMILIES`."""
    return [tuned(family, name).method(name) for name in names]


ONE_LABEL_METHODS = (SOFTMAX, BCE_RATES, BCE_ZERO, QUASIBINARY)
# Trained as in the paper, one seed: does BCE fail because of the optimiser, the unit of the loss, or the initial bias?
MEAN_BCE = "BinaryCrossEntropyLoss()"
ONE_LABEL_AS_PRINTED = (
    SOFTMAX,
    BCE_RATES,
    BCE_ZERO,
    Method("BCE, mean over classes, bias from zero", MEAN_BCE, start="zero"),
    Method("BCE, mean over classes, bias from the label rates", MEAN_BCE),
    QUASIBINARY,
)


def printed_jobs(dataset: str) -> list[Job]:
    """Stochastic gradient descent with a learning rate of 0.1, divided by ten after 50 % and 75 % of the epochs."""
    sgd: dict[str, Any] = {"optimizer": "sgd", "lr": 0.1, "weight_decay": 1e-4, "schedule": "step", "warmup": 0.0}
    jobs = jobs_of(ONE_LABEL_AS_PRINTED, dataset, ("one_label",), (0,))
    return [replace(job, fit_settings=replace(job.fit_settings, **sgd)) for job in jobs]


ONE_LABEL_COLUMNS = {
    Column("top-1 error %", best="low"): at("top1_error"),
    Column("top-5 error %", best="low"): at("top5_error"),
    Column("ECE of the first %", best="low"): at("ece"),
}


def one_label_sections(sets: Sequence[str], seeds: Sequence[int]) -> Iterator[Section]:
    """Errors on each dataset, and with the optimiser of the paper on the last, which has the most classes."""
    render = by_method(ONE_LABEL_COLUMNS)
    for name in sets:
        yield Section(name, jobs_of(ONE_LABEL_METHODS, name, ONE_LABEL_METRICS, seeds), "one_label", render)
    if not is_features(sets[-1]):
        title = f"{sets[-1]}, trained by gradient descent as the paper does, one seed"
        yield Section(title, printed_jobs(sets[-1]), "one_label", render)


# The methods for one label or none, and those for many or none, as tuned on features of the same images.
ZERO_LABEL_METHODS = ("BCE", "softmax + uniform", "softmax + maxconf", "quasibinary", "SPA", "uniform BCE")
ZERO_OR_MANY_LABEL_METHODS = ("BCE", "ASL", "two-way", "softmax", "quasibinary", "SPA")
ZERO_LABEL_COLUMNS = {
    Column("accuracy IN %"): own("accuracy"),
    Column("MMC OUT %", best="low"): own("mmc"),
    Column("AUROC", "plain", 3): own("auroc"),
    Column("FPR95 %", best="low"): own("fpr95"),
    Column("calibrated: MMC OUT %", best="low"): at("readings", "calibrated", "mmc"),
    Column("calibrated: AUROC", "plain", 3): at("readings", "calibrated", "auroc"),
}


def zero_label_sections(sets: Sequence[str], seeds: Sequence[int]) -> Iterator[Section]:
    """Figures of rows with a label (IN) and without (OUT) on each dataset."""
    for name in sets:
        many = name.partition(" ")[0] in MANY_LABEL_SETS
        family = ("many", ZERO_OR_MANY_LABEL_METHODS) if many else ("zero", ZERO_LABEL_METHODS)
        jobs = jobs_of(tuned_methods(*family), f"{name}: zero labels", ("zero_label",), seeds)
        yield Section(name, jobs, "zero_label", by_method(ZERO_LABEL_COLUMNS))


MANY_LABEL_LOSSES = ("BCE", "focal", "ASL", "two-way", "softmax", "quasibinary", "SPA")
MANY_LABEL_METRICS = ("many_label", "retrieval")
# With the hyperparameters of the papers; the others are tuned on features of the same photos.
MANY_LABEL_AS_PRINTED = (
    Method("focal, as printed", "FocalLoss(2, 2)"),
    Method("ASL, as printed", "AsymmetricLoss(4, 0, 0.05)"),
    Method("quasibinary, as printed", "QuasibinaryLoss()"),
    Method("SPA, as printed", "StrictlyProperAsymmetricLoss()"),
)


# On a linear head no weight of the label pairs helps, and the smallest is chosen, at which they have no effect. To see
# an effect at all, networks get the weight that helped heads with a hidden layer.
LABEL_PAIR_WEIGHT = 0.1


HEADLINES = (*MANY_LABEL_LOSSES, "ASL, as printed", "SPA, as printed")


def many_label_methods() -> list[Method]:
    """The losses as tuned, as printed, and with label pairs."""
    plain = tuned_methods("many", MANY_LABEL_LOSSES)
    with_pairs = [with_label_pairs(method) for method in plain if method.name in LPR_ON]
    return [*plain, *MANY_LABEL_AS_PRINTED, *with_pairs, with_label_pairs(MANY_LABEL_AS_PRINTED[-1])]


def with_label_pairs(method: Method) -> Method:
    """The method with label pairs."""
    link = ", link=SigmoidLink()" if method.loss.startswith("AsymmetricLoss") else ""
    loss = f"LabelPairRegulariser({method.loss}, weight={LABEL_PAIR_WEIGHT}{link})"
    name, comma, rest = method.name.partition(", ")
    return replace(method, name=f"{name} + LPR{comma}{rest}", loss=loss)


RANKING_AND_LOSS_COLUMNS = {
    Column("mAP by class %", digits=2): at("map_class"),
    Column("mAP by sample %", digits=2): at("map_sample"),
    Column("F1 at top 4 %", digits=2): at("f1_top4"),
    Column("log loss, own reading", "plain", 3, "low"): own("log_loss"),
    Column("log loss, calibrated", "plain", 3, "low"): at("readings", "calibrated", "log_loss"),
}
READINGS = ("sigmoid", "softmax", "own link", "moving average", "temperature", "calibrated")
CALIBRATION_ERRORS = {
    "ECE at top 4 %": "ece_top4",
    "ECE %": "ece",
    "ACE %": "ace",
    "MCE %": "mce",
    "log loss": "log_loss",
}


def many_label_sections(sets: Sequence[str], seeds: Sequence[int]) -> Iterator[Section]:
    """Ranking, calibration by reading, and search by the length of queries.

    Every loss with every seed; on networks other losses as printed, and label pairs, with the first seed.
    """
    for name in sets:
        # On a CPU, search takes a minute where training takes seconds.
        metrics = ("many_label",) if is_features(name) else MANY_LABEL_METRICS
        methods = many_label_methods()
        every = [method for method in methods if is_features(name) or method.name in HEADLINES]
        jobs = jobs_of(every, name, metrics, seeds)
        jobs += jobs_of([method for method in methods if method not in every], name, metrics, seeds[:1])
        yield Section(f"{name}, ranking", jobs, "many_label", by_method(RANKING_AND_LOSS_COLUMNS))
        yield Section(f"{name}, calibration by how the scores are read", jobs, "many_label", readings_table)
        yield Section(f"{name}, mAP of search by the number of labels in a query", jobs, "retrieval", search_table)


def readings_table(results: MethodResults) -> str:
    """A row for each loss and reading."""
    columns = [
        Column(title, "plain" if key == "log_loss" else "percent", 3 if key == "log_loss" else 2, "low")
        for title, key in CALIBRATION_ERRORS.items()
    ]
    rows = []
    for method in results.methods:
        for reading in READINGS:
            cells = [results.mean(method, at("readings", reading, key)) for key in CALIBRATION_ERRORS.values()]
            if any(cell is not None for cell in cells):
                rows.append([method, reading, *cells])
    return Table([Column("loss", best=None), Column("read by", best=None), *columns], rows).markdown()


def search_table(results: MethodResults) -> str:
    """A row for each loss and reading, a column for each query length."""
    columns = [Column("all queries"), *(Column(f"{length}") for length in range(1, 6))]
    rows = []
    for method in results.methods:
        for reading in READINGS:
            overall = results.mean(method, at("readings", reading, "map"))
            if overall is not None:
                cells = [results.mean(method, _map_of_length(reading, index)) for index in range(5)]
                rows.append([method, reading, overall, *cells])
    return Table([Column("loss", best=None), Column("read by", best=None), *columns], rows).markdown()


def _map_of_length(reading: str, index: int) -> Getter:
    def get(figures: Figures) -> float | None:
        by_length = figures["readings"].get(reading, {}).get("by_length", [])
        return by_length[index] if index < len(by_length) else None

    return get


RANKING_LOSSES = ("WARP", "sample-wise", "RML", "two-way", "BCE")


RANKING_COLUMNS = {
    Column("mAP by class %", digits=2): at("map_class"),
    Column("mAP by sample %", digits=2): at("map_sample"),
    Column("log loss, calibrated", "plain", 3, "low"): at("readings", "calibrated", "log_loss"),
}


def ranking_sections(sets: Sequence[str], seeds: Sequence[int]) -> Iterator[Section]:
    """Ranking by each loss."""
    for name in sets:
        jobs = jobs_of(tuned_methods("many", RANKING_LOSSES), name, ("many_label",), seeds)
        yield Section(name, jobs, "many_label", by_method(RANKING_COLUMNS))


TRAINED_K = 5
SLOW_METHOD = "ROLE"  # learns an estimate for every cell of the training data, so it is trained for one K only


SHOTS = ("few", "medium", "many")


def average_k_methods(k: int, dataset: str) -> list[Method]:
    """The methods for sets of k labels."""
    return [set_method(name, k, dataset) for name in SET_METHODS if name != SLOW_METHOD or k == TRAINED_K]


def average_k_sections(sets: Sequence[str], seeds: Sequence[int]) -> Iterator[Section]:
    """Networks for sets of 5; heads on features for sets of 2, 3, 5 and 10; each on all rows and on a long tail."""
    for name in sets:
        for dataset in (name, f"{name}: long-tailed"):
            for k in KS if is_features(name) else (TRAINED_K,):
                jobs = jobs_of(average_k_methods(k, dataset), dataset, ONE_LABEL_METRICS, seeds)
                yield Section(f"{dataset}, K = {k}", jobs, "average_k", by_method(average_k_columns(k, dataset)))


def average_k_columns(k: int, dataset: str) -> dict[Column, Getter]:
    """Accuracy and size by the activation of the loss, and accuracy by each activation."""
    result = {
        Column(f"average-{k} accuracy %"): by_trained_activation(k, "accuracy"),
        Column("mean size", "plain", 2, None): by_trained_activation(k, "mean_size"),
        Column("by softmax %"): by_activation("softmax", k, "accuracy"),
        Column("by sigmoid %"): by_activation("sigmoid", k, "accuracy"),
    }
    if dataset.endswith(": long-tailed"):
        result |= {Column(f"{shots} shot %"): by_trained_activation(k, shots) for shots in SHOTS}
    return result


def by_trained_activation(k: int, key: str) -> Getter:
    """A figure of sets by the activation that the loss was trained with."""
    return lambda figures: by_activation(figures["trained"], k, key)(figures)


def by_activation(activation: str, k: int, key: str) -> Getter:
    """A figure of sets by an activation."""

    def get(figures: Figures) -> float | None:
        figure: float | None = figures["activations"].get(activation, {}).get(str(k), {}).get(key)
        return figure

    return get


SCALES = (1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512)
DIVERSE_METHODS = ("soft-d", "soft-nd", "bce-d", "bce-nd")
MODES = tuple(range(8))
# Whose labels can be grouped, so that some of each group can be left out as unknown classes; swept with one seed.
LARGE_SETS = ("tiny-imagenet features", "cifar100 features", "imagenet features")


def scale_methods() -> list[Method]:
    """The scale of the cosine, for softmax and for BCE with one bias."""
    return [
        replace(uniform_method(name, scale=scale), name=f"{name}, {scale}")
        for name in ("soft-nu", "bce-nu")
        for scale in SCALES
    ]


def mode_methods() -> list[Method]:
    """The eight initialisations of a bias for each label."""
    return [
        replace(uniform_method(name, start=f"mode {mode}"), name=f"{name}, mode {mode}")
        for name in DIVERSE_METHODS
        for mode in MODES
    ]


UNIFORM_COLUMNS = {
    Column("A_SW %"): at("scores", "sample_wise"),
    Column("A_CW %"): at("scores", "class_wise"),
    Column("A_Uni %"): at("scores", "uniform"),
    Column("t from val: accuracy %"): at("scores", "honest_accuracy"),
    Column("t*", "plain", 2, None): at("scores", "t_star"),
    Column("learned threshold", "plain", 2, None): at("learned_threshold"),
    Column("softmax applied: A_CW %"): at("softmax", "class_wise"),
    Column("A_Uni % of softmax"): at("softmax", "uniform"),
}
OPEN_SET_COLUMNS = {
    Column("IN accepted and right %"): at("scores", "accepted_right_in"),
    Column("OUT rejected %"): at("scores", "rejected_out"),
    Column("balanced %"): at("scores", "balanced_accuracy"),
    Column("AUROC", "plain", 3): at("scores", "auroc"),
    Column("softmax applied: balanced %"): at("softmax", "balanced_accuracy"),
    Column("AUROC of softmax", "plain", 3): at("softmax", "auroc"),
}


def uniform_sections(sets: Sequence[str], seeds: Sequence[int]) -> Iterator[Section]:
    """The twelve losses on networks and on features; sweeps, and unknown classes in the test, on features."""
    twelve, render = list(UNIFORM_METHODS.values()), by_method(UNIFORM_COLUMNS)
    for name in sets:
        yield Section(f"{name}, the twelve losses", jobs_of(twelve, name, ONE_LABEL_METRICS, seeds), "uniform", render)
        if not is_features(name):
            continue
        large, jobs = name in LARGE_SETS, jobs_of(scale_methods(), name, ONE_LABEL_METRICS, seeds)
        if large:  # swept with one seed, but for the factor of the twelve losses, which have them all
            jobs = [job for job in jobs if job.fit_settings.seed == seeds[0] or job.method.scale == SCALE]
        yield Section(f"{name}, the factor on the cosine", jobs, "uniform", render)
        if large:
            jobs = jobs_of(twelve, f"{name}: open set", ("open_set",), seeds)
            yield Section(f"{name}, unknown classes in the test", jobs, "open_set", by_method(OPEN_SET_COLUMNS))
        else:
            jobs = jobs_of(mode_methods(), name, ONE_LABEL_METRICS, seeds)
            yield Section(f"{name}, starts of the bias", jobs, "uniform", render)


STUDIES = {
    study.name: study
    for study in (
        Study(
            "one-label",
            "One label per image",
            ("cifar10", "cifar10 features", "tiny-imagenet features", "tiny-imagenet"),
            one_label_sections,
        ),
        Study(
            "zero-labels",
            "Images without a label",
            ("tiny-imagenet", "tiny-imagenet features", "coco features"),
            zero_label_sections,
        ),
        Study(
            "many-labels",
            "Photos with many labels",
            ("coco", "coco features"),
            many_label_sections,
        ),
        Study(
            "ranking",
            "Ranking losses",
            ("coco features",),
            ranking_sections,
        ),
        Study(
            "average-k",
            "Sets of K labels on average",
            ("tiny-imagenet", "tiny-imagenet features"),
            average_k_sections,
        ),
        Study(
            "uniform",
            "One threshold for all samples",
            ("tiny-imagenet", "flowers", "flowers features", "tiny-imagenet features"),
            uniform_sections,
        ),
    )
}
