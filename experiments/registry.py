"""All studies, in the order of the page."""

from experiments import average_k, many_labels, one_label, ranking, uniform, zero_labels
from experiments.harness.studies import Study

STUDIES = {
    study.name: study
    for study in (
        Study(
            "one-label",
            "One label a picture",
            ("cifar10", "cifar10 features", "tiny-imagenet features", "tiny-imagenet"),
            one_label.jobs,
            one_label.page,
        ),
        Study(
            "zero-labels",
            "Pictures without a label",
            ("tiny-imagenet", "tiny-imagenet features", "coco features"),
            zero_labels.jobs,
            zero_labels.page,
        ),
        Study("many-labels", "Photos with many labels", ("coco", "coco features"), many_labels.jobs, many_labels.page),
        Study("ranking", "Ranking losses", ("coco features",), ranking.jobs, ranking.page),
        Study(
            "average-k",
            "Sets of K labels on average",
            ("tiny-imagenet", "tiny-imagenet features"),
            average_k.jobs,
            average_k.page,
        ),
        Study(
            "uniform",
            "One threshold for all samples",
            ("tiny-imagenet", "flowers", "flowers features", "tiny-imagenet features"),
            uniform.jobs,
            uniform.page,
        ),
    )
}
