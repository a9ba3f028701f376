"""Papers 001 and 002: many labels."""

from experiments.claims.parts import ABOVE, BELOW, TIED, Claim, Evidence, Part, read_by
from experiments.harness.found import at, own
from experiments.many_labels import JUDGES, arms
from experiments.methods import tuned_arm
from experiments.ranking import METHODS

SPA, ASL = "SPA, as printed", "ASL, as printed"
ACE, LOSS, BY_CLASS = own("ace"), own("log_loss"), at("map_class")
CALIBRATED = at("readings", "calibrated", "ace")


def asymmetric_claims(evidence: Evidence) -> list[Claim]:
    """Paper 001."""
    return [spa_claim(evidence), pairs_claim(evidence), search_claim(evidence)]


def spa_claim(evidence: Evidence) -> Claim:
    """Ranking and calibration of SPA; "as printed" has the numbers of the paper, "SPA" and "ASL" are tuned like BCE."""
    photos, heads = evidence.photos, evidence.heads
    plain = at("readings", "sigmoid", "ace")
    return Claim(
        "001",
        "SPA ranks like the asymmetric loss and better than BCE, and is better calibrated than BCE, than the "
        "asymmetric loss, and than that loss repaired by phi.",
        [
            Part("ACE, SPA less BCE, heads", heads.gap("SPA", "BCE", ACE), BELOW),
            Part("log loss a row, SPA less BCE, heads", heads.gap("SPA", "BCE", LOSS), BELOW, ""),
            Part("mAP by class, SPA less ASL, heads", heads.gap("SPA", "ASL", BY_CLASS), TIED),
            Part("mAP by class, SPA less BCE, heads", heads.gap("SPA", "BCE", BY_CLASS), ABOVE),
            Part("mAP by class, SPA less BCE, networks", photos.gap("SPA", "BCE", BY_CLASS), ABOVE),
            Part("ACE, SPA less ASL + phi, heads", heads.gap("SPA", "ASL", ACE), BELOW),
            Part("ACE, SPA less ASL + phi, both as printed, heads", heads.gap(SPA, ASL, ACE), BELOW),
            Part("ACE, SPA less ASL by a sigmoid, both as printed, heads", heads.gap(SPA, ASL, ACE, plain), BELOW),
            Part("ACE, SPA less BCE, networks", photos.gap("SPA", "BCE", ACE), BELOW),
        ],
        "Reading the asymmetric loss by a sigmoid is as bad as the paper shows. Read by phi in its stable form it "
        "is about as good as SPA. The asymmetry buys no ranking once the bias of BCE starts at the label rates; in "
        "calibration BCE has the lower ACE, SPA the lower log loss before a calibrator, and after one they are "
        "equal.",
    )


def pairs_claim(evidence: Evidence) -> Claim:
    """The label pair regulariser."""
    photos, heads = evidence.photos, evidence.heads
    return Claim(
        "001",
        "Label pairs (LPR) improve the calibration of any loss and cost no accuracy.",
        [
            *(
                Part(f"ACE, {name} + LPR less {name}, heads", heads.gap(f"{name} + LPR", name, ACE), BELOW)
                for name in ("SPA", "BCE", "focal")
            ),
            Part("ACE, ASL + LPR less ASL, both calibrated, heads", heads.gap("ASL + LPR", "ASL", CALIBRATED), BELOW),
            Part("mAP by class, SPA + LPR less SPA, heads", heads.gap("SPA + LPR", "SPA", BY_CLASS), TIED),
            Part(
                "ACE, SPA + LPR less SPA, as printed, networks",
                photos.gap("SPA + LPR, as printed", SPA, ACE),
                BELOW,
            ),
        ],
        "On linear heads it changes nothing. Pairs on the asymmetric loss are compared by the sigmoid, which leaves it "
        "no link of its own: the tables read it by that of the asymmetric loss alone, the verdict after a calibrator. "
        "Of the networks, only SPA as printed has a pair of runs with the same seed; the others cannot be compared "
        "yet.",
    )


def search_claim(evidence: Evidence) -> Claim:
    """Search by tags."""
    found = evidence.of(arms(), "coco", JUDGES, "retrieval")
    own_link, plain = "own link", "sigmoid"
    return Claim(
        "001",
        "Search for several labels at once needs calibration: the asymmetric loss falls behind, SPA is best.",
        [
            Part("mAP of search, SPA less BCE", read_by(found, "SPA", own_link, "BCE", plain), ABOVE),
            Part("ASL as printed, by a sigmoid, less BCE", read_by(found, ASL, plain, "BCE", plain), BELOW),
            Part("SPA less ASL as printed, by a sigmoid", read_by(found, "SPA", own_link, ASL, plain), ABOVE),
            Part("SPA less ASL as printed + phi", read_by(found, "SPA", own_link, ASL, own_link), ABOVE),
        ],
        "Five points of mAP are lost by a sigmoid and won back by the right link, without any training. Read "
        "honestly, the losses search alike.",
    )


def ranking_claims(evidence: Evidence) -> list[Claim]:
    """Paper 002."""
    found = evidence.of([tuned_arm("many", name) for name in METHODS], "coco features", ("many_label",), "many_label")
    by_sample = at("map_sample")
    return [
        Claim(
            "002",
            "Among ranking losses the two-way loss is best by class and by sample; RML comes second by class, WARP is "
            "last.",
            [
                Part("mAP by class, two-way less sample-wise", found.gap("two-way", "sample-wise", BY_CLASS), ABOVE),
                Part("mAP by class, two-way less RML", found.gap("two-way", "RML", BY_CLASS), ABOVE),
                Part("mAP by class, two-way less WARP", found.gap("two-way", "WARP", BY_CLASS), ABOVE),
                Part("mAP by sample, two-way less sample-wise", found.gap("two-way", "sample-wise", by_sample), ABOVE),
                Part("mAP by class, RML less sample-wise", found.gap("RML", "sample-wise", BY_CLASS), ABOVE),
                Part("mAP by class, RML less WARP", found.gap("RML", "WARP", BY_CLASS), ABOVE),
            ],
            "The class-wise half of the loss is worth six points by class and nothing by sample. RML is built after"
            " the text of its paper alone. BCE, which is no ranking loss, ties with two-way by class and beats it "
            "by sample.",
        ),
    ]
