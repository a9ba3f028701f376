"""Paper 000: the quasibinary classifier."""

from experiments import one_label, zero_labels
from experiments.claims.parts import ABOVE, BELOW, TIED, Claim, Evidence, Part
from experiments.harness.found import Found, at, own
from experiments.methods import BCE_RATES, ONE_LABEL, QUASIBINARY, SOFTMAX


def quasibinary_claims(evidence: Evidence) -> list[Claim]:
    """Paper 000."""
    return [one_label_claim(evidence), zero_label_claim(evidence), many_label_claim(evidence)]


def one_label_claim(evidence: Evidence) -> Claim:
    """Table I."""
    errors = evidence.of(one_label.ARMS, "tiny-imagenet", ONE_LABEL, "one_label")
    heads = evidence.of(one_label.ARMS, "tiny-imagenet features", ONE_LABEL, "one_label")
    printed = Found(evidence.ledger, one_label.printed_jobs("tiny-imagenet"), "one_label")
    error, mean_bce = at("top1_error"), one_label.AS_PRINTED[3].name
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


def zero_label_claim(evidence: Evidence) -> Claim:
    """Table II."""
    empty = evidence.of(zero_labels.one_arms(), "tiny-imagenet features: zero labels", ("zero_label",), "zero_label")
    nets = evidence.of(zero_labels.one_arms(), "tiny-imagenet: zero labels", ("zero_label",), "zero_label")
    return Claim(
        "000",
        "For pictures without a label the quasibinary classifier is at once as accurate as softmax and the best"
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
        "A low confidence on strangers is cheap if all confidences are low. By AUROC, which does not care, the "
        "methods for one label hardly differ, and quasibinary is behind the others by a little.",
    )


def many_label_claim(evidence: Evidence) -> Claim:
    """Table III."""
    photos, features = evidence.photos, evidence.heads
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
