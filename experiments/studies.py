"""The studies, in the order of the page: which runs each one needs, and their tables."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from experiments.data import is_features
from experiments.runs import SEEDS, Job, RunStore, jobs_of
from experiments.tables import Column, Figures, Getter, MethodResults, Table, at, own
from experiments.training import Method
from experiments.tuning import LPR_ON, tuned
from manyhot.engine import FitSettings
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
class Study:
    """An experiment.

    Attributes:
        name: Of its command.
        title: Of its section.
        sets: Datasets it uses by default.
        jobs: The runs that it needs.
        page: Its section, as Markdown, from the runs that are done.
    """

    name: str
    title: str
    sets: tuple[str, ...]
    jobs: Callable[["Study", Scope], list[Job]]
    page: Callable[["Study", Scope, RunStore], str]

    def runs(self, scope: Scope) -> list[Job]:
        """The runs of this study, shortened if the scope says so."""
        return scope.of(self.jobs(self, scope))


CROSS_ENTROPY = "SoftmaxCrossEntropyLoss()"
SUMMED_BCE = "BinaryCrossEntropyLoss(reduction='batchmean')"

SOFTMAX = Method("softmax", CROSS_ENTROPY, start="zero")
BCE_RATES = Method("BCE, bias from the label rates", SUMMED_BCE)
BCE_ZERO = Method("BCE, bias from zero", SUMMED_BCE, start="zero")
QUASIBINARY = Method("quasibinary", "QuasibinaryLoss()")

ONE_LABEL_METRICS = ("one_label", "uniform", "average_k")
KS = (2, 3, 5, 10)
SET_METHODS = ("CE", "AVG-K", "ROLE", "AN", "EPR", "top-K")


def uniform_method(name: str, *, scale: float = 96.0, start: str | None = None) -> Method:
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


def tuned_method(family: str, name: str) -> Method:
    """A method with its tuned hyperparameters."""
    return tuned(family, name).method(name)


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


def printed_jobs(dataset: str, methods: Sequence[Method] = ONE_LABEL_AS_PRINTED) -> list[Job]:
    """Stochastic gradient descent with a learning rate of 0.1, divided by ten after 50 % and 75 % of the epochs."""
    jobs = jobs_of(methods, dataset, ("one_label",), (0,))

    def printed(settings: FitSettings) -> FitSettings:
        return replace(settings, optimizer="sgd", lr=0.1, weight_decay=1e-4, schedule="step", warmup=0.0)

    return [replace(job, fit_settings=printed(job.fit_settings)) for job in jobs]


def one_label_jobs(study: Study, scope: Scope) -> list[Job]:
    """Every method with every seed, and the paper's optimiser once on the dataset with the most classes."""
    sets = scope.sets or study.sets
    result = [job for name in sets for job in jobs_of(ONE_LABEL_METHODS, name, ONE_LABEL_METRICS, scope.seeds)]
    return result + [job for name in sets[-1:] if not name.endswith(" features") for job in printed_jobs(name)]


ONE_LABEL_COLUMNS = {
    Column("top-1 error %", best="low"): at("top1_error"),
    Column("top-5 error %", best="low"): at("top5_error"),
    Column("ECE of the first %", best="low"): at("ece"),
}


def one_label_page(study: Study, scope: Scope, store: RunStore) -> str:
    """Errors on each set, and with the optimiser of the paper."""
    parts = []
    for name in scope.sets or study.sets:
        result = MethodResults(
            store, scope.of(jobs_of(ONE_LABEL_METHODS, name, ONE_LABEL_METRICS, scope.seeds)), "one_label"
        )
        if result:
            parts.append(f"{name}:\n\n{result.table(ONE_LABEL_COLUMNS)}")
        if name.endswith(" features"):
            continue
        printed = MethodResults(store, scope.of(printed_jobs(name)), "one_label")
        if printed:
            title = f"{name}, trained by gradient descent as the paper does, one seed"
            parts.append(f"{title}:\n\n{printed.table(ONE_LABEL_COLUMNS)}")
    return "\n".join(parts)


ZERO_LABEL_METHODS = ("BCE", "softmax + uniform", "softmax + maxconf", "quasibinary", "SPA", "uniform BCE")
MANY_LABEL_SETS = ("coco", "voc", "nus-wide")
ZERO_OR_MANY_LABEL_METHODS = ("BCE", "ASL", "two-way", "softmax", "quasibinary", "SPA")


def zero_or_one_label_methods() -> list[Method]:
    """The methods for one label or none, as tuned on features of the same images."""
    return [tuned_method("zero", name) for name in ZERO_LABEL_METHODS]


def zero_or_many_label_methods() -> list[Method]:
    """The losses for many labels or none, likewise."""
    return [tuned_method("many", name) for name in ZERO_OR_MANY_LABEL_METHODS]


def zero_label_jobs(study: Study, scope: Scope) -> list[Job]:
    """Images with one label or none, and photos with many or none."""
    result = []
    for name in scope.sets or study.sets:
        methods = (
            zero_or_many_label_methods() if name.partition(" ")[0] in MANY_LABEL_SETS else zero_or_one_label_methods()
        )
        result += jobs_of(methods, f"{name}: zero labels", ("zero_label",), scope.seeds)
    return result


ZERO_LABEL_COLUMNS = {
    Column("accuracy IN %"): own("accuracy"),
    Column("MMC OUT %", best="low"): own("mmc"),
    Column("AUROC", "plain", 3): own("auroc"),
    Column("FPR95 %", best="low"): own("fpr95"),
    Column("calibrated: MMC OUT %", best="low"): at("readings", "calibrated", "mmc"),
    Column("calibrated: AUROC", "plain", 3): at("readings", "calibrated", "auroc"),
}


def zero_label_page(study: Study, scope: Scope, store: RunStore) -> str:
    """Figures of rows with a label (IN) and without (OUT) on each dataset."""
    parts = []
    for name in scope.sets or study.sets:
        result = MethodResults(store, scope.of(zero_label_jobs(study, replace(scope, sets=(name,)))), "zero_label")
        if result:
            parts.append(f"{name}:\n\n{result.table(ZERO_LABEL_COLUMNS)}")
    return "\n".join(parts)


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
    plain = [tuned_method("many", name) for name in MANY_LABEL_LOSSES]
    with_pairs = [with_label_pairs(method) for method in plain if method.name in LPR_ON]
    return [*plain, *MANY_LABEL_AS_PRINTED, *with_pairs, with_label_pairs(MANY_LABEL_AS_PRINTED[-1])]


def with_label_pairs(method: Method) -> Method:
    """The method with label pairs."""
    link = ", link=SigmoidLink()" if method.loss.startswith("AsymmetricLoss") else ""
    loss = f"LabelPairRegulariser({method.loss}, weight={LABEL_PAIR_WEIGHT}{link})"
    name, comma, rest = method.name.partition(", ")
    return replace(method, name=f"{name} + LPR{comma}{rest}", loss=loss)


def many_label_jobs(study: Study, scope: Scope) -> list[Job]:
    """Every loss with every seed; other losses as printed, and label pairs, with the first seed."""
    results = []
    for name in scope.sets or study.sets:
        features = name.endswith(" features")
        # On a CPU, search takes a minute where training takes seconds.
        metrics = ("many_label",) if features else MANY_LABEL_METRICS
        every = [method for method in many_label_methods() if features or method.name in HEADLINES]
        results += jobs_of(every, name, metrics, scope.seeds)
        results += jobs_of(
            [method for method in many_label_methods() if method not in every], name, metrics, scope.seeds[:1]
        )
    return results


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


def many_label_page(study: Study, scope: Scope, store: RunStore) -> str:
    """Ranking, calibration by reading, and search by the length of queries."""
    parts = []
    for name in scope.sets or study.sets:
        own_jobs = scope.of(many_label_jobs(study, replace(scope, sets=(name,))))
        results = MethodResults(store, own_jobs, "many_label")
        if results:
            parts.append(f"{name}, ranking:\n\n{results.table(RANKING_AND_LOSS_COLUMNS)}")
            parts.append(f"{name}, calibration by how the scores are read:\n\n{readings_table(results)}")
        searched = MethodResults(store, own_jobs, "retrieval")
        if searched:
            parts.append(f"{name}, mAP of search by the number of labels in a query:\n\n{search_table(searched)}")
    return "\n".join(parts)


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


def ranking_methods() -> list[Method]:
    """The losses as they were tuned."""
    return [tuned_method("many", name) for name in RANKING_LOSSES]


def ranking_jobs(study: Study, scope: Scope) -> list[Job]:
    """Every loss with every seed."""
    return [
        job
        for name in scope.sets or study.sets
        for job in jobs_of(ranking_methods(), name, ("many_label",), scope.seeds)
    ]


RANKING_COLUMNS = {
    Column("mAP by class %", digits=2): at("map_class"),
    Column("mAP by sample %", digits=2): at("map_sample"),
    Column("log loss, calibrated", "plain", 3, "low"): at("readings", "calibrated", "log_loss"),
}


def ranking_page(study: Study, scope: Scope, store: RunStore) -> str:
    """Ranking by each loss."""
    parts = []
    for name in scope.sets or study.sets:
        result = MethodResults(store, scope.of(ranking_jobs(study, replace(scope, sets=(name,)))), "many_label")
        if result:
            parts.append(f"{name}:\n\n{result.table(RANKING_COLUMNS)}")
    return "\n".join(parts)


TRAINED_K = 5
SLOW_METHOD = "ROLE"  # learns an estimate for every cell of the training data, so it is trained for one K only


def average_k_jobs(study: Study, scope: Scope) -> list[Job]:
    """Networks for sets of 5; heads on features for sets of 2, 3, 5 and 10; each on all rows and on a long tail."""
    result = []
    for name in scope.sets or study.sets:
        features = name.endswith(" features")
        ks = KS if features else (TRAINED_K,)
        methods = list(dict.fromkeys(method for k in ks for method in average_k_methods(k, name)))
        for dataset in (name, f"{name}: long-tailed"):
            result += jobs_of(methods, dataset, ONE_LABEL_METRICS, scope.seeds)
    return result


SHOTS = ("few", "medium", "many")


def average_k_methods(k: int, dataset: str) -> list[Method]:
    """The methods for sets of k labels."""
    return [set_method(name, k, dataset) for name in SET_METHODS if name != SLOW_METHOD or k == TRAINED_K]


def average_k_page(study: Study, scope: Scope, store: RunStore) -> str:
    """Accuracy of sets by their mean size, and for labels with few, some and many training images."""
    parts = []
    for name in scope.sets or study.sets:
        features = name.endswith(" features")
        for dataset in (name, f"{name}: long-tailed"):
            for k in KS if features else (TRAINED_K,):
                methods = average_k_methods(k, dataset)
                result = MethodResults(
                    store, scope.of(jobs_of(methods, dataset, ONE_LABEL_METRICS, scope.seeds)), "average_k"
                )
                if result:
                    parts.append(f"{dataset}, K = {k}:\n\n{result.table(average_k_columns(k, dataset))}")
    return "\n".join(parts)


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
    return [uniform_method(name, scale=scale) for name in ("soft-nu", "bce-nu") for scale in SCALES]


def mode_methods() -> list[Method]:
    """The eight initialisations of a bias for each label."""
    return [uniform_method(name, start=f"mode {mode}") for name in DIVERSE_METHODS for mode in MODES]


def uniform_jobs(study: Study, scope: Scope) -> list[Job]:
    """The twelve losses on networks and on features; sweeps, and unknown classes in the test, on features."""
    result = []
    for name in scope.sets or study.sets:
        result += jobs_of(list(UNIFORM_METHODS.values()), name, ONE_LABEL_METRICS, scope.seeds)
        if not name.endswith(" features"):
            continue
        result += jobs_of(scale_methods(), name, ONE_LABEL_METRICS, scope.seeds[: 1 if name in LARGE_SETS else None])
        if name in LARGE_SETS:
            result += jobs_of(list(UNIFORM_METHODS.values()), f"{name}: open set", ("open_set",), scope.seeds)
        else:
            result += jobs_of(mode_methods(), name, ONE_LABEL_METRICS, scope.seeds)
    return result


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


def uniform_page(study: Study, scope: Scope, store: RunStore) -> str:
    """The twelve losses, the sweeps, and unknown classes."""
    parts = []

    def add(title: str, methods: list[Method], dataset: str, metric: str = "uniform") -> None:
        metrics = ("open_set",) if metric == "open_set" else ONE_LABEL_METRICS
        result = MethodResults(store, scope.of(jobs_of(methods, dataset, metrics, scope.seeds)), metric)
        if result:
            parts.append(f"{title}:\n\n{result.table(OPEN_SET_COLUMNS if metric == 'open_set' else UNIFORM_COLUMNS)}")

    for name in scope.sets or study.sets:
        add(f"{name}, the twelve losses", list(UNIFORM_METHODS.values()), name)
        if name.endswith(" features"):
            add(
                f"{name}, the factor on the cosine",
                [with_suffix(method, f"{method.scale:g}") for method in scale_methods()],
                name,
            )
            add(f"{name}, starts of the bias", [with_suffix(method, method.start) for method in mode_methods()], name)
            add(f"{name}, unknown classes in the test", list(UNIFORM_METHODS.values()), f"{name}: open set", "open_set")
    return "\n".join(parts)


def with_suffix(method: Method, what: str) -> Method:
    """A method of a sweep under the name for its table."""
    return replace(method, name=f"{method.name}, {what}")


STUDIES = {
    study.name: study
    for study in (
        Study(
            "one-label",
            "One label per image",
            ("cifar10", "cifar10 features", "tiny-imagenet features", "tiny-imagenet"),
            one_label_jobs,
            one_label_page,
        ),
        Study(
            "zero-labels",
            "Images without a label",
            ("tiny-imagenet", "tiny-imagenet features", "coco features"),
            zero_label_jobs,
            zero_label_page,
        ),
        Study("many-labels", "Photos with many labels", ("coco", "coco features"), many_label_jobs, many_label_page),
        Study("ranking", "Ranking losses", ("coco features",), ranking_jobs, ranking_page),
        Study(
            "average-k",
            "Sets of K labels on average",
            ("tiny-imagenet", "tiny-imagenet features"),
            average_k_jobs,
            average_k_page,
        ),
        Study(
            "uniform",
            "One threshold for all samples",
            ("tiny-imagenet", "flowers", "flowers features", "tiny-imagenet features"),
            uniform_jobs,
            uniform_page,
        ),
    )
}
