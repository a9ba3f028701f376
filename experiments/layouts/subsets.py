"""What the papers cut from whole data sets: long tails, and classes that lose their label evenly over superclasses."""

import math
import re
from collections.abc import Sequence

import numpy as np

from manyhot.checks import check_count, check_number
from manyhot.data.dataset import Dataset
from manyhot.refusal import refusal

GROUP = 5
WORDNET_ID = re.compile(r"n\d{8}\b")

_SUPERCLASSES = {
    "aquatic_mammals": "beaver dolphin otter seal whale",
    "fish": "aquarium_fish flatfish ray shark trout",
    "flowers": "orchid poppy rose sunflower tulip",
    "food_containers": "bottle bowl can cup plate",
    "fruit_and_vegetables": "apple mushroom orange pear sweet_pepper",
    "household_electrical_devices": "clock keyboard lamp telephone television",
    "household_furniture": "bed chair couch table wardrobe",
    "insects": "bee beetle butterfly caterpillar cockroach",
    "large_carnivores": "bear leopard lion tiger wolf",
    "large_man-made_outdoor_things": "bridge castle house road skyscraper",
    "large_natural_outdoor_scenes": "cloud forest mountain plain sea",
    "large_omnivores_and_herbivores": "camel cattle chimpanzee elephant kangaroo",
    "medium_mammals": "fox porcupine possum raccoon skunk",
    "non-insect_invertebrates": "crab lobster snail spider worm",
    "people": "baby boy girl man woman",
    "reptiles": "crocodile dinosaur lizard snake turtle",
    "small_mammals": "hamster mouse rabbit shrew squirrel",
    "trees": "maple_tree oak_tree palm_tree pine_tree willow_tree",
    "vehicles_1": "bicycle bus motorcycle pickup_truck train",
    "vehicles_2": "lawn_mower rocket streetcar tank tractor",
}
# The coarse label of each fine label of CIFAR-100.
CIFAR100 = {fine: coarse for coarse, fines in _SUPERCLASSES.items() for fine in fines.split()}


def superclasses_of(data: Dataset | Sequence[str]) -> list[str]:
    """The superclass of each label, in the order of the columns.

    CIFAR-100 has its own. Labels that start with a WordNet id (ImageNet, Tiny-ImageNet, Stanford Dogs) are sorted by
    it and cut into consecutive groups of five, or a few more where their number is no multiple of five. This stands in
    for WordNet's tree, which is not at hand, and does so in part only: ids are places in a file that follows the
    tree for animals and plants, so that their neighbours are kin; artefacts follow the alphabet there, and their
    groups are just groups.

    Args:
        data: A data set, or the names of its labels.
    """
    names = list(data.labels.names if isinstance(data, Dataset) else data)
    if names and all(name in CIFAR100 for name in names):
        return [CIFAR100[name] for name in names]
    stray = next((name for name in names if not WORDNET_ID.match(name)), None)
    if stray is not None or not names:
        rule = "have the labels of CIFAR-100, or labels that start with a WordNet id such as 'n01443537'"
        got = "none" if stray is None else repr(stray)
        raise refusal("data", "superclasses_of", rule, got, "Write down the superclass of each label yourself.")
    order = sorted(range(len(names)), key=names.__getitem__)
    groups = [""] * len(names)
    for part in np.array_split(order, max(1, len(names) // GROUP)):
        ids = [names[column][:9] for column in part]
        for column in part:
            groups[column] = f"{ids[0]} to {ids[-1]}"
    return groups


def zero_label_columns(labels: Sequence[str], groups: Sequence[str], drop_per_group: int = 2) -> list[int]:
    """The columns that keep their label where some of each superclass lose it: 60 + 40 of CIFAR-100, and the like.

    Of each group the last names in order lose theirs, so that nothing depends on the order of columns or on a seed.
    Samples of the lost labels become samples without a label: `dataset.select_labels` keeps them.

    Args:
        labels: (K,) the names of the labels.
        groups: (K,) the superclass of each.
        drop_per_group: How many labels each superclass loses.

    Returns:
        The kept columns, ascending.
    """
    owner = "zero_label_columns"
    if len(groups) != len(labels):
        rule = f"have one entry for each of the {len(labels)} labels"
        raise refusal("groups", owner, rule, str(len(groups)), "Pass what `superclasses_of` returns.")
    check_count("drop_per_group", owner, drop_per_group, low=1)
    members: dict[str, list[int]] = {}
    for column in sorted(range(len(labels)), key=labels.__getitem__):
        members.setdefault(groups[column], []).append(column)
    small = next((group for group, columns in members.items() if len(columns) <= drop_per_group), None)
    if small is not None:
        got, rule = f"{len(members[small])} in {small!r}", f"have more than {drop_per_group} labels each"
        raise refusal("groups", owner, rule, got, "Drop fewer, or join groups.")
    return sorted(column for columns in members.values() for column in columns[:-drop_per_group])


def long_tailed(labels_of_rows: Sequence[int] | np.ndarray, *, ratio: float = 100, seed: int = 0) -> np.ndarray:
    """The rows of an exponentially long-tailed subset, ascending.

    The class in place i of L keeps n_max * ratio^(-i / (L - 1)) rows, rounded down, where n_max is the size of the
    largest class: `ratio` times as many in the first as in the last. Which class gets which place, and which of its
    rows are kept, is drawn. A class that has fewer keeps all it has, and every class keeps one at the least.

    Args:
        labels_of_rows: (N,) the label of each row to train on, whole numbers from 0.
        ratio: Of the largest class to the smallest.
        seed: Of all that is drawn.
    """
    labels = np.asarray(labels_of_rows)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or (len(labels) and int(labels.min()) < 0):
        got = f"{labels.shape} of {labels.dtype}" if labels.ndim != 1 or labels.dtype.kind not in "iu" else "-1"
        rule, remedy = "be (N,) of whole numbers from 0", "Pass one label a row, and leave out rows without any."
        raise refusal("labels_of_rows", "long_tailed", rule, got, remedy)
    check_number("ratio", "long_tailed", ratio, low=1)
    draws = np.random.default_rng(seed)
    classes, sizes = np.unique(labels, return_counts=True)
    kept = [np.zeros(0, dtype=np.int64)]
    for place, which in enumerate(draws.permutation(len(classes)).tolist()):
        share = ratio ** (-place / max(len(classes) - 1, 1))
        # The last of 500 rows at a ratio of 100 shall be 5, whatever the power came to in its last digit.
        count = max(1, math.floor(int(sizes.max()) * share + 1e-9))
        kept.append(draws.permutation(np.flatnonzero(labels == classes[which]))[:count])
    return np.sort(np.concatenate(kept))
