"""The claims of the papers and the runs: each claim in parts, each part compared with an interval."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from experiments.runs import RunStore
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
    ZERO_LABEL_METHODS,
    by_trained_activation,
    many_label_methods,
    printed_jobs,
    set_method,
    tuned_methods,
    uniform_method,
)
from experiments.tables import Getter, MeanInterval, MethodResults, at, own, results_of

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


class Measure(NamedTuple):
    """A figure that claims speak of.

    Attributes:
        name: On the page.
        get: The figure of a run.
        unit: That of `Part`.
    """

    name: str
    get: Getter
    unit: str = "points"


@dataclass(frozen=True)
class Comparison:
    """Methods that were run alike.

    Attributes:
        results: Their figures.
        where: What was trained, on the page; empty if all parts of a claim have it in common.
    """

    results: MethodResults
    where: str = ""

    def part(
        self,
        measure: Measure,
        one: str,
        other: str,
        claimed: str,
        *,
        than: Getter | None = None,
        text: str = "",
        least: float = LEAST_GAP,
    ) -> Part:
        """A figure of one method less that of another.

        Args:
            measure: The figure.
            one: Name of the first method.
            other: Name of the second.
            claimed: What the paper says of the difference.
            than: The figure of the second method, if it is another.
            text: What is compared, if not "one less other".
            least: Smallest difference that supports the claim.
        """
        words = [measure.name, text or f"{one} less {other}", self.where]
        gap = self.results.gap(one, other, measure.get, than)
        return Part(", ".join(filter(None, words)), gap, claimed, measure.unit, least)


TOP1_ERROR = Measure("top-1 error", at("top1_error"))
AUROC, ACCURACY_IN = Measure("AUROC", own("auroc"), ""), Measure("accuracy IN", own("accuracy"))
MMC_OUT = Measure("MMC OUT", own("mmc"))
ACE, LOG_LOSS = Measure("ACE", own("ace")), Measure("log loss a row", own("log_loss"), "")
ECE_TOP4, F1_TOP4 = Measure("ECE at top 4", own("ece_top4")), Measure("F1 at top 4", at("f1_top4"))
MAP_BY_CLASS, MAP_BY_SAMPLE = Measure("mAP by class", at("map_class")), Measure("mAP by sample", at("map_sample"))
A_UNI, A_SW = Measure("A_Uni", at("scores", "uniform")), Measure("A_SW", at("scores", "sample_wise"))
A_UNI_SOFTMAX = Measure("A_Uni after softmax", at("softmax", "uniform"))


def quasibinary_claims(store: RunStore, photos: Comparison, photo_heads: Comparison) -> list[Claim]:
    """Paper 000, tables I to III."""
    one_label = [
        Comparison(results_of(store, ONE_LABEL_METHODS, name, ONE_LABEL_METRICS, "one_label"), where)
        for name, where in (("tiny-imagenet", "networks"), ("tiny-imagenet features", "heads"))
    ]
    bce, mean_bce = BCE_RATES.name, ONE_LABEL_AS_PRINTED[3].name
    printed = Comparison(MethodResults(store, printed_jobs("tiny-imagenet"), "one_label"))
    zero_label_methods = tuned_methods("zero", ZERO_LABEL_METHODS)
    empty_networks, empty = (
        Comparison(results_of(store, zero_label_methods, name, ("zero_label",), "zero_label"), where)
        for name, where in (
            ("tiny-imagenet: zero labels", "networks"),
            ("tiny-imagenet features: zero labels", "heads"),
        )
    )
    return [
        Claim(
            "000",
            "With 200 classes binary cross-entropy does not converge, and the quasibinary classifier is as good as "
            "softmax.",
            [
                *(
                    runs.part(TOP1_ERROR, bce, SOFTMAX.name, ABOVE, text="BCE less softmax", least=0.05)
                    for runs in one_label
                ),
                printed.part(
                    TOP1_ERROR,
                    mean_bce,
                    SOFTMAX.name,
                    ABOVE,
                    text="BCE averaged over classes less softmax, the paper's optimiser",
                ),
                *(runs.part(TOP1_ERROR, QUASIBINARY.name, SOFTMAX.name, TIED) for runs in one_label),
            ],
            "After few epochs, BCE is far behind only where its mean over 200 classes divides the learning rate of "
            "gradient descent by 200. Summed over classes it learns like softmax; a bias that starts at the label "
            "rates is worth several points.",
        ),
        Claim(
            "000",
            "For images without a label the quasibinary classifier is at once as accurate as softmax and the best"
            " at saying that nothing is there.",
            [
                empty.part(AUROC, "quasibinary", "BCE", ABOVE),
                empty.part(ACCURACY_IN, "quasibinary", "BCE", ABOVE),
                empty.part(ACCURACY_IN, "quasibinary", "softmax + uniform", TIED),
                empty.part(MMC_OUT, "quasibinary", "BCE", BELOW),
                empty_networks.part(MMC_OUT, "quasibinary", "BCE", BELOW),
                empty_networks.part(AUROC, "quasibinary", "BCE", ABOVE),
                empty.part(AUROC, "quasibinary", "softmax + uniform", ABOVE),
            ],
            "A low confidence on unknown classes is cheap if all confidences are low. By AUROC, which does not care, "
            "the methods for one label hardly differ, and quasibinary is behind the others by a little.",
        ),
        Claim(
            "000",
            "With many labels quasibinary ranks like softmax and better than BCE, and its confidences are far "
            "better calibrated than those of both (ECE at top 4).",
            [
                photo_heads.part(ECE_TOP4, "quasibinary", "BCE", BELOW),
                photos.part(F1_TOP4, "quasibinary", "BCE", ABOVE),
                photos.part(F1_TOP4, "quasibinary", "softmax", TIED),
                photos.part(ECE_TOP4, "quasibinary", "softmax", BELOW),
                photos.part(ECE_TOP4, "quasibinary", "BCE", BELOW),
                photo_heads.part(MAP_BY_CLASS, "quasibinary", "BCE", ABOVE),
            ],
            "Read as probabilities, a softmax is far off with three labels a photo, as the paper says. BCE is not, "
            "once its bias starts at the label rates, and it ranks better by several points of mAP.",
        ),
    ]


SPA_AS_PRINTED, ASL_AS_PRINTED = "SPA, as printed", "ASL, as printed"


def asymmetric_claims(store: RunStore, photos: Comparison, heads: Comparison) -> list[Claim]:
    """Paper 001; "as printed" has the numbers of the paper, "SPA" and "ASL" are tuned like BCE."""
    results = results_of(store, many_label_methods(), "coco", MANY_LABEL_METRICS, "retrieval")
    by_link, by_sigmoid = (at("readings", reading, "map") for reading in ("own link", "sigmoid"))

    def search(one: str, get: Getter, other: str, get_other: Getter, claimed: str, text: str) -> Part:
        return Comparison(results).part(Measure("mAP of search", get), one, other, claimed, than=get_other, text=text)

    return [
        Claim(
            "001",
            "SPA ranks like the asymmetric loss and better than BCE, and is better calibrated than BCE, than the "
            "asymmetric loss, and than that loss repaired by phi.",
            [
                heads.part(ACE, "SPA", "BCE", BELOW),
                heads.part(LOG_LOSS, "SPA", "BCE", BELOW),
                heads.part(MAP_BY_CLASS, "SPA", "ASL", TIED),
                heads.part(MAP_BY_CLASS, "SPA", "BCE", ABOVE),
                photos.part(MAP_BY_CLASS, "SPA", "BCE", ABOVE),
                heads.part(ACE, "SPA", "ASL", BELOW, text="SPA less ASL + phi"),
                heads.part(ACE, SPA_AS_PRINTED, ASL_AS_PRINTED, BELOW, text="SPA less ASL + phi, both as printed"),
                heads.part(
                    ACE,
                    SPA_AS_PRINTED,
                    ASL_AS_PRINTED,
                    BELOW,
                    than=at("readings", "sigmoid", "ace"),
                    text="SPA less ASL by a sigmoid, both as printed",
                ),
                photos.part(ACE, "SPA", "BCE", BELOW),
            ],
            "Reading the asymmetric loss by a sigmoid is as bad as the paper shows. Read by phi in its stable form it "
            "is about as good as SPA. The asymmetry buys no ranking once the bias of BCE starts at the label rates; in "
            "calibration BCE has the lower ACE, SPA the lower log loss before a calibrator, and after one they are "
            "equal.",
        ),
        Claim(
            "001",
            "Label pairs (LPR) improve the calibration of any loss and cost no accuracy.",
            [
                *(heads.part(ACE, f"{name} + LPR", name, BELOW) for name in ("SPA", "BCE", "focal")),
                heads.part(
                    Measure("ACE", at("readings", "calibrated", "ace")),
                    "ASL + LPR",
                    "ASL",
                    BELOW,
                    text="ASL + LPR less ASL, both calibrated",
                ),
                heads.part(MAP_BY_CLASS, "SPA + LPR", "SPA", TIED),
                photos.part(ACE, "SPA + LPR, as printed", SPA_AS_PRINTED, BELOW, text="SPA + LPR less SPA, as printed"),
            ],
            "On linear heads it changes nothing. Pairs on the asymmetric loss are compared by the sigmoid, which "
            "leaves it no link of its own: the tables read it by that of the asymmetric loss alone, the verdict after "
            "a calibrator. Of the networks, only SPA as printed has a pair of runs with the same seed; the others "
            "cannot be compared yet.",
        ),
        Claim(
            "001",
            "Search for several labels at once needs calibration: the asymmetric loss falls behind, SPA is best.",
            [
                search("SPA", by_link, "BCE", by_sigmoid, ABOVE, "SPA less BCE"),
                search(ASL_AS_PRINTED, by_sigmoid, "BCE", by_sigmoid, BELOW, "ASL as printed, by a sigmoid, less BCE"),
                search("SPA", by_link, ASL_AS_PRINTED, by_sigmoid, ABOVE, "SPA less ASL as printed, by a sigmoid"),
                search("SPA", by_link, ASL_AS_PRINTED, by_link, ABOVE, "SPA less ASL as printed + phi"),
            ],
            "Five points of mAP are lost by a sigmoid and won back by the right link, without any training. Read "
            "honestly, the losses search alike.",
        ),
    ]


def ranking_claims(store: RunStore) -> list[Claim]:
    """Paper 002."""
    methods = tuned_methods("many", RANKING_LOSSES)
    heads = Comparison(results_of(store, methods, "coco features", ("many_label",), "many_label"))
    return [
        Claim(
            "002",
            "Among ranking losses the two-way loss is best by class and by sample; RML comes second by class, WARP is "
            "last.",
            [
                *(heads.part(MAP_BY_CLASS, "two-way", other, ABOVE) for other in ("sample-wise", "RML", "WARP")),
                heads.part(MAP_BY_SAMPLE, "two-way", "sample-wise", ABOVE),
                *(heads.part(MAP_BY_CLASS, "RML", other, ABOVE) for other in ("sample-wise", "WARP")),
            ],
            "The class-wise half of the loss is worth six points by class and nothing by sample. RML is built after"
            " the text of its paper alone. BCE, which is no ranking loss, ties with two-way by class and beats it "
            "by sample.",
        ),
    ]


def average_k_claims(store: RunStore) -> list[Claim]:
    """Paper 003."""

    def part(k: int, dataset: str, other: str, where: str, shots: str = "accuracy") -> Part:
        methods = {name: set_method(name, k, dataset) for name in SET_METHODS}
        results = results_of(store, methods.values(), dataset, ONE_LABEL_METRICS, "average_k")
        measure = Measure(f"average-{k} accuracy", by_trained_activation(k, shots))
        text, names = f"AVG-K less {other}", (methods["AVG-K"].name, methods[other].name)
        return Comparison(results, where).part(measure, *names, ABOVE, text=text)

    features, tail = "tiny-imagenet features", "tiny-imagenet features: long-tailed"
    return [
        Claim(
            "003",
            "The two-head loss beats cross-entropy and all other losses in average-K accuracy, the more so the "
            "larger K and the rarer the label.",
            [
                part(5, "tiny-imagenet", "CE", "networks"),
                part(5, "tiny-imagenet: long-tailed", "CE", "networks, long tail"),
                part(5, features, "CE", "heads"),
                part(10, features, "CE", "heads"),
                part(10, tail, "CE", "heads, long tail"),
                part(10, tail, "CE", "heads, long tail, few-shot labels", "few"),
                *(part(5, features, other, "heads") for other in ("top-K", "AN", "EPR", "ROLE")),
            ],
            "Cross-entropy with one threshold for all rows is best here, or BCE from the label rates read by a "
            "softmax. The paper trains for 30 to 300 epochs, until cross-entropy is overconfident; short runs and "
            "linear heads never get there. On networks the sigmoid heads began at one half, which costs them; EPR "
            "and ROLE did not get off the ground there.",
        ),
    ]


AT_32 = replace(uniform_method("bce-nu", scale=32), name="bce-nu at 32")


def uniform_claims(store: RunStore) -> list[Claim]:
    """Paper 004."""
    methods = [*UNIFORM_METHODS.values(), AT_32]
    nets, features, flowers = (
        Comparison(results_of(store, methods, dataset, ONE_LABEL_METRICS, "uniform"), where)
        for dataset, where in (
            ("tiny-imagenet", "Tiny-ImageNet networks"),
            ("tiny-imagenet features", "Tiny-ImageNet heads"),
            ("flowers features", "Flowers heads"),
        )
    )
    balanced = Measure("balanced accuracy", at("scores", "balanced_accuracy"))
    balanced_by_softmax = Measure("balanced accuracy after softmax", at("softmax", "balanced_accuracy"))
    unknown = Comparison(
        results_of(store, methods, "tiny-imagenet features: open set", ("open_set",), "open_set"), "heads"
    )
    return [
        Claim(
            "004",
            "BCE classifies with one threshold for all samples far better than softmax does, at the same accuracy.",
            [
                nets.part(A_UNI, "bce-u", "soft-u", ABOVE),
                nets.part(A_SW, "bce-u", "soft-u", TIED),
                features.part(A_UNI, "bce-u", "soft-u", ABOVE),
                flowers.part(A_UNI, "bce-u", "soft-u", ABOVE),
                *(runs.part(A_UNI_SOFTMAX, "bce-u", "soft-u", ABOVE) for runs in (nets, features, flowers)),
            ],
            "For raw scores it is the clearest claim of the five papers. Most of the gap closes when a softmax is "
            "applied to the scores of both, and on heads it turns around.",
        ),
        Claim(
            "004",
            "Normalised features and one bias for all labels (bce-nu) are best of all twelve losses.",
            [
                nets.part(A_UNI, "bce-nu", "bce-u", ABOVE),
                flowers.part(A_UNI, "bce-nu", "bce-u", ABOVE),
                flowers.part(A_UNI, AT_32.name, "bce-u", ABOVE),
                nets.part(A_UNI, "bce-u", "bce-d", ABOVE),
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
                unknown.part(balanced, "bce-u", "soft-u", ABOVE),
                unknown.part(Measure("AUROC", at("scores", "auroc"), ""), "bce-u", "soft-u", ABOVE),
                unknown.part(balanced_by_softmax, "bce-u", "soft-u", ABOVE),
            ],
            'With the threshold that is best for known classes on "val", BCE accepts more of everything: more '
            "known samples that are right, and more samples of unknown classes. By AUROC the two are nearly equal.",
        ),
    ]


def all_claims(store: RunStore) -> list[Claim]:
    """Every claim, paper by paper."""
    photos = Comparison(results_of(store, many_label_methods(), "coco", MANY_LABEL_METRICS, "many_label"), "networks")
    heads = Comparison(results_of(store, many_label_methods(), "coco features", ("many_label",), "many_label"), "heads")
    return [
        *quasibinary_claims(store, photos, heads),
        *asymmetric_claims(store, photos, heads),
        *ranking_claims(store),
        *average_k_claims(store),
        *uniform_claims(store),
    ]
