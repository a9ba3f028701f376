"""The claims of the papers and the runs: each claim in parts, each part compared with an interval."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from experiments.runs import SEEDS, RunStore, jobs_of
from experiments.studies import (
    BCE_RATES,
    MANY_LABEL_METRICS,
    ONE_LABEL_AS_PRINTED,
    ONE_LABEL_METHODS,
    ONE_LABEL_METRICS,
    QUASIBINARY,
    RANKING_LOSSES,
    SET_METHODS,
    SOFTMAX,
    UNIFORM_METHODS,
    by_trained_activation,
    many_label_methods,
    printed_jobs,
    set_method,
    tuned_method,
    uniform_method,
    zero_or_one_label_methods,
)
from experiments.tables import Figures, MeanInterval, MethodResults, at, own
from experiments.training import Method

ABOVE, BELOW, TIED = "above", "below", "tied"
# Differences below the first are negligible, those above the second are large; as fractions.
LEAST_GAP, CLEAR_GAP = 0.002, 0.01
PARTLY_SHARE = 0.25
HOLDS, PARTLY, FAILS, UNKNOWN = "holds", "holds in part", "does not hold here", "not run"


@dataclass(frozen=True)
class Part:
    """One comparison.

    Attributes:
        text: Description on the page.
        gap: The first figure less the second; None if runs are missing, or have one seed each and not the same.
        claimed: Whether the paper claims the first "above" or "below" the second, or "tied" with it.
        unit: "points" of percent, or "" for plain numbers.
        least: Smallest difference that supports the claim.
    """

    text: str
    gap: MeanInterval | None
    claimed: str
    unit: str = "points"
    least: float = LEAST_GAP

    @property
    def holds(self) -> bool | None:
        """Whether the interval agrees with the paper; None if undecided, and for small gaps of one seed."""
        if self.gap is None:
            return None
        mean, half = self.gap.mean, self.gap.half
        if half is None:
            if abs(mean) < CLEAR_GAP:
                return None
            half = 0.0
        if self.claimed == TIED:
            return True if abs(mean) + half < CLEAR_GAP else False if abs(mean) - half >= LEAST_GAP else None
        ahead = mean if self.claimed == ABOVE else -mean
        if ahead - half > 0 and ahead >= self.least:
            return True
        return False if ahead + half < max(self.least, CLEAR_GAP) else None

    def shown(self) -> str:
        """The comparison with its figure."""
        if self.gap is None:
            return f"{self.text}: not run"
        factor, digits = (100, 2) if self.unit == "points" else (1, 3)
        half = "(one seed)" if self.gap.half is None else f"± {factor * self.gap.half:.{digits}f}"
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.text}: {factor * self.gap.mean:+z.{digits}f} {half}{unit}"


@dataclass(frozen=True)
class Claim:
    """A main claim of a paper.

    Attributes:
        paper: Its number.
        text: The claim.
        parts: Its comparisons, the most important first.
        reason: Interpretation.
    """

    paper: str
    text: str
    parts: Sequence[Part]
    reason: str

    @property
    def verdict(self) -> str:
        """Whether all parts hold, at least a quarter of those that are decided, or fewer."""
        answers = [part.holds for part in self.parts]
        known = [answer for answer in answers if answer is not None]
        if not known:
            return UNKNOWN
        if all(answers):
            return HOLDS
        return PARTLY if sum(known) >= PARTLY_SHARE * len(known) else FAILS


class ClaimRuns:
    """The results that several claims use.

    Args:
        store: Of the runs.
    """

    def __init__(self, store: RunStore) -> None:
        self.store = store

    def of(self, methods: Sequence[Method], dataset: str, metrics: Sequence[str], metric: str) -> MethodResults:
        """The figures of methods on a dataset."""
        return MethodResults(self.store, jobs_of(methods, dataset, metrics, SEEDS), metric)

    @cached_property
    def photos(self) -> MethodResults:
        """Networks on photos."""
        return self.of(many_label_methods(), "coco", MANY_LABEL_METRICS, "many_label")

    @cached_property
    def heads(self) -> MethodResults:
        """Linear heads on features of photos."""
        return self.of(many_label_methods(), "coco features", ("many_label",), "many_label")


def search_gap(results: MethodResults, one: str, reading: str, other: str, other_reading: str) -> MeanInterval | None:
    """The precision of search by one loss and reading, less that by another."""
    return results.gap(one, other, at("readings", reading, "map"), at("readings", other_reading, "map"))


def quasibinary_claims(runs: ClaimRuns) -> list[Claim]:
    """Paper 000."""
    return [one_label_claim(runs), zero_label_claim(runs), many_label_claim(runs)]


def one_label_claim(runs: ClaimRuns) -> Claim:
    """Table I."""
    errors = runs.of(ONE_LABEL_METHODS, "tiny-imagenet", ONE_LABEL_METRICS, "one_label")
    heads = runs.of(ONE_LABEL_METHODS, "tiny-imagenet features", ONE_LABEL_METRICS, "one_label")
    printed = MethodResults(runs.store, printed_jobs("tiny-imagenet"), "one_label")
    error, mean_bce = at("top1_error"), ONE_LABEL_AS_PRINTED[3].name
    return Claim(
        "000",
        "With 200 classes binary cross-entropy does not converge, and the quasibinary classifier is as good as "
        "softmax.",
        [
            Part(
                "top-1 error, BCE less softmax, networks",
                errors.gap(BCE_RATES.name, SOFTMAX.name, error),
                ABOVE,
                least=0.05,
            ),
            Part("same, heads on features", heads.gap(BCE_RATES.name, SOFTMAX.name, error), ABOVE, least=0.05),
            Part(
                "same, the paper's optimiser, BCE averaged over classes",
                printed.gap(mean_bce, SOFTMAX.name, error),
                ABOVE,
            ),
            Part("quasibinary less softmax, networks", errors.gap(QUASIBINARY.name, SOFTMAX.name, error), TIED),
            Part("same, heads on features", heads.gap(QUASIBINARY.name, SOFTMAX.name, error), TIED),
        ],
        "After few epochs, BCE is far behind only where its mean over 200 classes divides the learning rate of "
        "gradient descent by 200. Summed over classes it learns like softmax; a bias that starts at the label "
        "rates is worth several points.",
    )


def zero_label_claim(runs: ClaimRuns) -> Claim:
    """Table II."""
    empty = runs.of(zero_or_one_label_methods(), "tiny-imagenet features: zero labels", ("zero_label",), "zero_label")
    nets = runs.of(zero_or_one_label_methods(), "tiny-imagenet: zero labels", ("zero_label",), "zero_label")
    return Claim(
        "000",
        "For images without a label the quasibinary classifier is at once as accurate as softmax and the best"
        " at saying that nothing is there.",
        [
            Part("AUROC, quasibinary less BCE, heads", empty.gap("quasibinary", "BCE", own("auroc")), ABOVE, ""),
            Part("accuracy IN, quasibinary less BCE, heads", empty.gap("quasibinary", "BCE", own("accuracy")), ABOVE),
            Part(
                "accuracy IN, quasibinary less softmax + uniform, heads",
                empty.gap("quasibinary", "softmax + uniform", own("accuracy")),
                TIED,
            ),
            Part("MMC OUT, quasibinary less BCE, heads", empty.gap("quasibinary", "BCE", own("mmc")), BELOW),
            Part("MMC OUT, quasibinary less BCE, networks", nets.gap("quasibinary", "BCE", own("mmc")), BELOW),
            Part("AUROC, quasibinary less BCE, networks", nets.gap("quasibinary", "BCE", own("auroc")), ABOVE, ""),
            Part(
                "AUROC, quasibinary less softmax + uniform, heads",
                empty.gap("quasibinary", "softmax + uniform", own("auroc")),
                ABOVE,
                "",
            ),
        ],
        "A low confidence on unknown classes is cheap if all confidences are low. By AUROC, which does not care, the "
        "methods for one label hardly differ, and quasibinary is behind the others by a little.",
    )


def many_label_claim(runs: ClaimRuns) -> Claim:
    """Table III."""
    photos, features = runs.photos, runs.heads
    return Claim(
        "000",
        "With many labels quasibinary ranks like softmax and better than BCE, and its confidences are far "
        "better calibrated than those of both (ECE at top 4).",
        [
            Part(
                "ECE at top 4, quasibinary less BCE, heads",
                features.gap("quasibinary", "BCE", own("ece_top4")),
                BELOW,
            ),
            Part(
                "F1 at top 4, quasibinary less BCE, networks",
                photos.gap("quasibinary", "BCE", at("f1_top4")),
                ABOVE,
            ),
            Part(
                "F1 at top 4, quasibinary less softmax, networks",
                photos.gap("quasibinary", "softmax", at("f1_top4")),
                TIED,
            ),
            Part(
                "ECE at top 4, quasibinary less softmax, networks",
                photos.gap("quasibinary", "softmax", own("ece_top4")),
                BELOW,
            ),
            Part(
                "ECE at top 4, quasibinary less BCE, networks",
                photos.gap("quasibinary", "BCE", own("ece_top4")),
                BELOW,
            ),
            Part(
                "mAP by class, quasibinary less BCE, heads",
                features.gap("quasibinary", "BCE", at("map_class")),
                ABOVE,
            ),
        ],
        "Read as probabilities, a softmax is far off with three labels a photo, as the paper says. BCE is not, "
        "once its bias starts at the label rates, and it ranks better by several points of mAP.",
    )


SPA_AS_PRINTED, ASL_AS_PRINTED = "SPA, as printed", "ASL, as printed"
ACE, LOG_LOSS, MAP_BY_CLASS = own("ace"), own("log_loss"), at("map_class")
CALIBRATED_ACE = at("readings", "calibrated", "ace")


def asymmetric_claims(runs: ClaimRuns) -> list[Claim]:
    """Paper 001."""
    return [spa_claim(runs), pairs_claim(runs), search_claim(runs)]


def spa_claim(runs: ClaimRuns) -> Claim:
    """Ranking and calibration of SPA; "as printed" has the numbers of the paper, "SPA" and "ASL" are tuned like BCE."""
    photos, heads = runs.photos, runs.heads
    plain = at("readings", "sigmoid", "ace")
    return Claim(
        "001",
        "SPA ranks like the asymmetric loss and better than BCE, and is better calibrated than BCE, than the "
        "asymmetric loss, and than that loss repaired by phi.",
        [
            Part("ACE, SPA less BCE, heads", heads.gap("SPA", "BCE", ACE), BELOW),
            Part("log loss a row, SPA less BCE, heads", heads.gap("SPA", "BCE", LOG_LOSS), BELOW, ""),
            Part("mAP by class, SPA less ASL, heads", heads.gap("SPA", "ASL", MAP_BY_CLASS), TIED),
            Part("mAP by class, SPA less BCE, heads", heads.gap("SPA", "BCE", MAP_BY_CLASS), ABOVE),
            Part("mAP by class, SPA less BCE, networks", photos.gap("SPA", "BCE", MAP_BY_CLASS), ABOVE),
            Part("ACE, SPA less ASL + phi, heads", heads.gap("SPA", "ASL", ACE), BELOW),
            Part(
                "ACE, SPA less ASL + phi, both as printed, heads", heads.gap(SPA_AS_PRINTED, ASL_AS_PRINTED, ACE), BELOW
            ),
            Part(
                "ACE, SPA less ASL by a sigmoid, both as printed, heads",
                heads.gap(SPA_AS_PRINTED, ASL_AS_PRINTED, ACE, plain),
                BELOW,
            ),
            Part("ACE, SPA less BCE, networks", photos.gap("SPA", "BCE", ACE), BELOW),
        ],
        "Reading the asymmetric loss by a sigmoid is as bad as the paper shows. Read by phi in its stable form it "
        "is about as good as SPA. The asymmetry buys no ranking once the bias of BCE starts at the label rates; in "
        "calibration BCE has the lower ACE, SPA the lower log loss before a calibrator, and after one they are "
        "equal.",
    )


def pairs_claim(runs: ClaimRuns) -> Claim:
    """The label pair regulariser."""
    photos, heads = runs.photos, runs.heads
    return Claim(
        "001",
        "Label pairs (LPR) improve the calibration of any loss and cost no accuracy.",
        [
            *(
                Part(f"ACE, {name} + LPR less {name}, heads", heads.gap(f"{name} + LPR", name, ACE), BELOW)
                for name in ("SPA", "BCE", "focal")
            ),
            Part(
                "ACE, ASL + LPR less ASL, both calibrated, heads", heads.gap("ASL + LPR", "ASL", CALIBRATED_ACE), BELOW
            ),
            Part("mAP by class, SPA + LPR less SPA, heads", heads.gap("SPA + LPR", "SPA", MAP_BY_CLASS), TIED),
            Part(
                "ACE, SPA + LPR less SPA, as printed, networks",
                photos.gap("SPA + LPR, as printed", SPA_AS_PRINTED, ACE),
                BELOW,
            ),
        ],
        "On linear heads it changes nothing. Pairs on the asymmetric loss are compared by the sigmoid, which leaves it "
        "no link of its own: the tables read it by that of the asymmetric loss alone, the verdict after a calibrator. "
        "Of the networks, only SPA as printed has a pair of runs with the same seed; the others cannot be compared "
        "yet.",
    )


def search_claim(runs: ClaimRuns) -> Claim:
    """Search by tags."""
    results = runs.of(many_label_methods(), "coco", MANY_LABEL_METRICS, "retrieval")
    own_link, plain = "own link", "sigmoid"
    return Claim(
        "001",
        "Search for several labels at once needs calibration: the asymmetric loss falls behind, SPA is best.",
        [
            Part("mAP of search, SPA less BCE", search_gap(results, "SPA", own_link, "BCE", plain), ABOVE),
            Part(
                "ASL as printed, by a sigmoid, less BCE",
                search_gap(results, ASL_AS_PRINTED, plain, "BCE", plain),
                BELOW,
            ),
            Part(
                "SPA less ASL as printed, by a sigmoid",
                search_gap(results, "SPA", own_link, ASL_AS_PRINTED, plain),
                ABOVE,
            ),
            Part(
                "SPA less ASL as printed + phi", search_gap(results, "SPA", own_link, ASL_AS_PRINTED, own_link), ABOVE
            ),
        ],
        "Five points of mAP are lost by a sigmoid and won back by the right link, without any training. Read "
        "honestly, the losses search alike.",
    )


def ranking_claims(runs: ClaimRuns) -> list[Claim]:
    """Paper 002."""
    results = runs.of(
        [tuned_method("many", name) for name in RANKING_LOSSES], "coco features", ("many_label",), "many_label"
    )
    by_sample = at("map_sample")
    return [
        Claim(
            "002",
            "Among ranking losses the two-way loss is best by class and by sample; RML comes second by class, WARP is "
            "last.",
            [
                Part(
                    "mAP by class, two-way less sample-wise", results.gap("two-way", "sample-wise", MAP_BY_CLASS), ABOVE
                ),
                Part("mAP by class, two-way less RML", results.gap("two-way", "RML", MAP_BY_CLASS), ABOVE),
                Part("mAP by class, two-way less WARP", results.gap("two-way", "WARP", MAP_BY_CLASS), ABOVE),
                Part(
                    "mAP by sample, two-way less sample-wise", results.gap("two-way", "sample-wise", by_sample), ABOVE
                ),
                Part("mAP by class, RML less sample-wise", results.gap("RML", "sample-wise", MAP_BY_CLASS), ABOVE),
                Part("mAP by class, RML less WARP", results.gap("RML", "WARP", MAP_BY_CLASS), ABOVE),
            ],
            "The class-wise half of the loss is worth six points by class and nothing by sample. RML is built after"
            " the text of its paper alone. BCE, which is no ranking loss, ties with two-way by class and beats it "
            "by sample.",
        ),
    ]


AT_32 = replace(uniform_method("bce-nu", scale=32), name="bce-nu at 32")


def average_k_claims(runs: ClaimRuns) -> list[Claim]:
    """Paper 003."""

    def gap(k: int, dataset: str, other: str, shots: str | None = None) -> MeanInterval | None:
        methods = [set_method(name, k, dataset) for name in SET_METHODS]
        results = runs.of(methods, dataset, ONE_LABEL_METRICS, "average_k")

        def get(figures: Figures) -> float | None:
            return by_trained_activation(k, shots or "accuracy")(figures)

        return results.gap(set_method("AVG-K", k, dataset).name, set_method(other, k, dataset).name, get)

    features, tail = "tiny-imagenet features", "tiny-imagenet features: long-tailed"
    return [
        Claim(
            "003",
            "The two-head loss beats cross-entropy and all other losses in average-K accuracy, the more so the "
            "larger K and the rarer the label.",
            [
                Part("average-5 accuracy, AVG-K less CE, networks", gap(5, "tiny-imagenet", "CE"), ABOVE),
                Part(
                    "average-5 accuracy, AVG-K less CE, networks, long tail",
                    gap(5, "tiny-imagenet: long-tailed", "CE"),
                    ABOVE,
                ),
                Part("average-5 accuracy, AVG-K less CE, heads", gap(5, features, "CE"), ABOVE),
                Part("average-10 accuracy, AVG-K less CE, heads", gap(10, features, "CE"), ABOVE),
                Part("average-10 accuracy, AVG-K less CE, heads, long tail", gap(10, tail, "CE"), ABOVE),
                Part("same, few-shot labels", gap(10, tail, "CE", "few"), ABOVE),
                Part("average-5 accuracy, AVG-K less top-K, heads", gap(5, features, "top-K"), ABOVE),
                Part("average-5 accuracy, AVG-K less AN, heads", gap(5, features, "AN"), ABOVE),
                Part("average-5 accuracy, AVG-K less EPR, heads", gap(5, features, "EPR"), ABOVE),
                Part("average-5 accuracy, AVG-K less ROLE, heads", gap(5, features, "ROLE"), ABOVE),
            ],
            "Cross-entropy with one threshold for all rows is best here, or BCE from the label rates read by a "
            "softmax. The paper trains for 30 to 300 epochs, until cross-entropy is overconfident; short runs and "
            "linear heads never get there. On networks the sigmoid heads began at one half, which costs them; EPR "
            "and ROLE did not get off the ground there.",
        ),
    ]


def uniform_claims(runs: ClaimRuns) -> list[Claim]:
    """Paper 004."""
    methods = list(UNIFORM_METHODS.values())
    nets = runs.of(methods, "tiny-imagenet", ONE_LABEL_METRICS, "uniform")
    flowers = runs.of([*methods, AT_32], "flowers features", ONE_LABEL_METRICS, "uniform")
    features = runs.of(methods, "tiny-imagenet features", ONE_LABEL_METRICS, "uniform")
    open_set = runs.of(methods, "tiny-imagenet features: open set", ("open_set",), "open_set")
    uniform, plain, softmax = at("scores", "uniform"), at("scores", "sample_wise"), at("softmax", "uniform")
    return [
        Claim(
            "004",
            "BCE classifies with one threshold for all samples far better than softmax does, at the same accuracy.",
            [
                Part("A_Uni, bce-u less soft-u, Tiny-ImageNet networks", nets.gap("bce-u", "soft-u", uniform), ABOVE),
                Part("A_SW, bce-u less soft-u, Tiny-ImageNet networks", nets.gap("bce-u", "soft-u", plain), TIED),
                Part("A_Uni, bce-u less soft-u, Tiny-ImageNet heads", features.gap("bce-u", "soft-u", uniform), ABOVE),
                Part("A_Uni, bce-u less soft-u, Flowers heads", flowers.gap("bce-u", "soft-u", uniform), ABOVE),
                Part("A_Uni after softmax, bce-u less soft-u, networks", nets.gap("bce-u", "soft-u", softmax), ABOVE),
                Part("same, Tiny-ImageNet heads", features.gap("bce-u", "soft-u", softmax), ABOVE),
                Part("same, Flowers heads", flowers.gap("bce-u", "soft-u", softmax), ABOVE),
            ],
            "For raw scores it is the clearest claim of the five papers. Most of the gap closes when a softmax is "
            "applied to the scores of both, and on heads it turns around.",
        ),
        Claim(
            "004",
            "Normalised features and one bias for all labels (bce-nu) are best of all twelve losses.",
            [
                Part("A_Uni, bce-nu less bce-u, Tiny-ImageNet networks", nets.gap("bce-nu", "bce-u", uniform), ABOVE),
                Part("A_Uni, bce-nu less bce-u, Flowers heads", flowers.gap("bce-nu", "bce-u", uniform), ABOVE),
                Part("A_Uni, bce-nu at 32 less bce-u, Flowers heads", flowers.gap(AT_32.name, "bce-u", uniform), ABOVE),
                Part("A_Uni, bce-u less bce-d, Tiny-ImageNet networks", nets.gap("bce-u", "bce-d", uniform), ABOVE),
            ],
            "It is not at the factor of 96 that the paper chooses, which is far too large for short training. At "
            "32, the best of the sweep (looked up on test rows), it is. One bias or one for each label makes no "
            "difference where labels are equally frequent.",
        ),
        Claim(
            "004",
            "One threshold for all samples suits open sets, so BCE should reject unknown classes better (argued "
            "there, not measured).",
            [
                Part(
                    "balanced accuracy, bce-u less soft-u, heads",
                    open_set.gap("bce-u", "soft-u", at("scores", "balanced_accuracy")),
                    ABOVE,
                ),
                Part(
                    "AUROC, bce-u less soft-u, heads",
                    open_set.gap("bce-u", "soft-u", at("scores", "auroc")),
                    ABOVE,
                    "",
                ),
                Part(
                    "balanced accuracy after softmax, bce-u less soft-u, heads",
                    open_set.gap("bce-u", "soft-u", at("softmax", "balanced_accuracy")),
                    ABOVE,
                ),
            ],
            'With the threshold that is best for known classes on "val", BCE accepts more of everything: more '
            "known samples that are right, and more samples of unknown classes. By AUROC the two are nearly equal.",
        ),
    ]


def all_claims(store: RunStore) -> list[Claim]:
    """Every claim, paper by paper."""
    runs = ClaimRuns(store)
    families = (quasibinary_claims, asymmetric_claims, ranking_claims, average_k_claims, uniform_claims)
    return [claim for family in families for claim in family(runs)]
