"""Papers 001 and 002: many labels."""

from experiments.claims.parts import ABOVE, BELOW, TIED, Claim, Evidence, Part, between, read_by
from experiments.harness.found import at, own
from experiments.many_labels import JUDGES, arms
from experiments.methods import tuned_arm
from experiments.ranking import METHODS


def asymmetric_claims(evidence: Evidence) -> list[Claim]:
    """Paper 001."""
    photos, features = evidence.photos, evidence.heads
    search = evidence.of(arms(), "coco", JUDGES, "retrieval")
    spa, asl = "SPA, as printed", "ASL, as printed"
    ace = own("ace")
    plain = at("readings", "sigmoid", "ace")
    return [
        Claim(
            "001",
            "SPA ranks like the asymmetric loss and better than BCE, and is better calibrated than BCE, than the "
            "asymmetric loss, and than that loss repaired by phi.",
            [
                Part("ACE, SPA less BCE, heads", features.gap(spa, "BCE", ace), BELOW),
                Part("mAP by class, SPA less ASL, heads", features.gap(spa, asl, at("map_class")), TIED),
                Part("mAP by class, SPA less BCE, heads", features.gap(spa, "BCE", at("map_class")), ABOVE),
                Part("mAP by class, SPA less BCE, networks", photos.gap(spa, "BCE", at("map_class")), ABOVE),
                Part("ACE, SPA less ASL read by a sigmoid, heads", between(features, spa, ace, asl, plain), BELOW),
                Part("ACE, SPA less ASL + phi, heads", features.gap(spa, asl, ace), BELOW),
                Part("ACE, SPA less BCE, networks", photos.gap(spa, "BCE", ace), BELOW),
            ],
            "Reading the asymmetric loss by a sigmoid is as bad as the paper shows. Read by phi in its stable form "
            "it is as good as SPA, and BCE is better than both: the asymmetry buys no ranking once the bias starts "
            "at the label rates.",
        ),
        Claim(
            "001",
            "Label pairs (LPR) improve the calibration of any loss and cost no accuracy.",
            [
                *(
                    Part(f"ACE, {name} + LPR less {name}, heads", features.gap(f"{name} + LPR", name, ace), BELOW)
                    for name in ("SPA", "BCE", "focal", "ASL")
                ),
                Part(
                    "mAP by class, SPA + LPR less SPA, heads", features.gap("SPA + LPR", "SPA", at("map_class")), TIED
                ),
            ],
            "On linear heads it changes nothing. Of the networks, those with and without it have one seed each, and "
            "not the same, which cannot tell such differences.",
        ),
        Claim(
            "001",
            "Search for several labels at once needs calibration: the asymmetric loss falls behind, SPA is best.",
            [
                Part("mAP of search, SPA less BCE", read_by(search, spa, "own link", "BCE", "sigmoid"), ABOVE),
                Part(
                    "mAP of search, ASL read by a sigmoid less BCE",
                    read_by(search, asl, "sigmoid", "BCE", "sigmoid"),
                    BELOW,
                ),
                Part(
                    "mAP of search, SPA less ASL read by a sigmoid",
                    read_by(search, spa, "own link", asl, "sigmoid"),
                    ABOVE,
                ),
                Part("mAP of search, SPA less ASL + phi", read_by(search, spa, "own link", asl, "own link"), ABOVE),
            ],
            "Six points of mAP are lost by a sigmoid and won back by the right link, without any training. Read "
            "honestly, the losses search alike.",
        ),
    ]


def ranking_claims(evidence: Evidence) -> list[Claim]:
    """Paper 002."""
    found = evidence.of([tuned_arm("many", name) for name in METHODS], "coco features", ("many_label",), "many_label")
    by_class, by_sample = at("map_class"), at("map_sample")
    return [
        Claim(
            "002",
            "Among ranking losses the two-way loss is best by class and by sample; RML comes second by class, WARP "
            "is last.",
            [
                Part("mAP by class, two-way less sample-wise", found.gap("two-way", "sample-wise", by_class), ABOVE),
                Part("mAP by class, two-way less RML", found.gap("two-way", "RML", by_class), ABOVE),
                Part("mAP by class, two-way less WARP", found.gap("two-way", "WARP", by_class), ABOVE),
                Part("mAP by sample, two-way less sample-wise", found.gap("two-way", "sample-wise", by_sample), ABOVE),
                Part("mAP by class, RML less sample-wise", found.gap("RML", "sample-wise", by_class), ABOVE),
                Part("mAP by class, sample-wise less WARP", found.gap("sample-wise", "WARP", by_class), ABOVE),
            ],
            "The class-wise half of the loss is worth six points by class and nothing by sample. RML is built after "
            "the text of its paper alone. BCE, which is no ranking loss, ties with two-way by class and beats it by "
            "sample.",
        ),
    ]
