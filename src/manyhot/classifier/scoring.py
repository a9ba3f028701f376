"""From a data set to tables of predictions, some thousand rows at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manyhot.backbones.backbone import evaluating
from manyhot.data import Dataset, Files
from manyhot.predictions import Predictions

if TYPE_CHECKING:
    from manyhot.classifier.classifier import Classifier

Scored = tuple[Tensor, Tensor, int, dict[str, str]]


def predict_parts(
    classifier: Classifier,
    dataset: Dataset,
    *,
    rows: int,
    batch_size: int,
    workers: int | None,
    on_bad_image: str,
    device: str | torch.device | None,
    advance: Callable[[int], None] | None,
) -> Iterator[Predictions]:
    """Tables of about `rows` rows, in the order of the data set; one empty table of a data set without any."""
    notes, targets = _targets(classifier, dataset)
    notes = [*dataset.notes, *notes]
    unreadable: dict[str, str] = {}
    scores: list[Tensor] = []
    places: list[Tensor] = []
    waiting, given = 0, False
    for some_scores, some_places, handled, bad in _score(
        classifier, dataset, batch_size=batch_size, workers=workers, on_bad_image=on_bad_image, device=device
    ):
        scores.append(some_scores)
        places.append(some_places)
        waiting += len(some_places)
        unreadable |= bad
        if advance is not None:
            advance(handled)
        if waiting >= rows:
            table = _table(classifier, dataset, torch.cat(scores), torch.cat(places), targets)
            table.notes, table.unreadable = notes, unreadable
            yield table
            scores, places, notes, unreadable, waiting, given = [], [], [], {}, 0, True
    if waiting or not given or unreadable:
        empty = torch.empty(0, len(classifier.labels)), torch.empty(0, dtype=torch.int64)
        table = _table(classifier, dataset, torch.cat([*scores, empty[0]]), torch.cat([*places, empty[1]]), targets)
        table.notes, table.unreadable = notes, unreadable
        yield table


def _score(
    classifier: Classifier,
    dataset: Dataset,
    *,
    batch_size: int,
    workers: int | None,
    on_bad_image: str,
    device: str | torch.device | None,
) -> Iterator[Scored]:
    """Scores and row numbers of each batch, how many samples it was asked for, and which could not be read."""
    network = classifier.network
    if device is not None:
        network.to(device)
    parameter = next(network.parameters())
    groups = [range(start, min(start + batch_size, len(dataset))) for start in range(0, len(dataset), batch_size)]
    batches, bad = _batches(classifier, dataset, groups, workers=workers, on_bad_image=on_bad_image)
    told: set[str] = set()
    for group, (inputs, places) in zip(groups, batches, strict=True):
        with evaluating(network), torch.no_grad():  # only while computing: who asks for a batch may train between
            if len(places):
                kind = parameter.dtype if inputs.is_floating_point() else inputs.dtype
                scores = network.scores(inputs.to(parameter.device, kind)).float().cpu()
            else:
                scores = torch.empty(0, len(classifier.labels))
        new = {name: reason for name, reason in bad.items() if name not in told}
        told |= set(new)
        yield scores, places, len(group), new


def _batches(
    classifier: Classifier, dataset: Dataset, groups: list[range], *, workers: int | None, on_bad_image: str
) -> tuple[Iterator[tuple[Tensor, Tensor]], dict[str, str]]:
    """What the network takes with the row numbers, batch by batch, and where bad images get named."""
    if classifier.preprocessing is None:
        features = torch.as_tensor(dataset.features)
        return ((features[group.start : group.stop], torch.arange(group.start, group.stop)) for group in groups), {}
    from manyhot.data.loading_images import ImageBatches

    data = ImageBatches(dataset, classifier.preprocessing, workers=workers, on_bad_image=on_bad_image)
    return ((batch.inputs, batch.rows) for batch in data.load(groups, epoch=None)), data.bad


def _table(classifier: Classifier, dataset: Dataset, scores: Tensor, places: Tensor, targets: Any) -> Predictions:
    numbers = places.tolist()
    images = dataset.images
    paths = None
    if isinstance(images, Files):
        paths = [str(images.path(row)) for row in numbers]
    elif images is not None:
        paths = [images.name(row) for row in numbers]
    return classifier.decide(scores).replace(
        ids=[dataset.ids[row] for row in numbers],
        paths=paths,
        splits=None if dataset.splits is None else dataset.splits[np.asarray(numbers, dtype=np.int64)].tolist(),
        targets=None if targets is None else targets.dense(numbers),
    )


def _targets(classifier: Classifier, dataset: Dataset) -> tuple[list[str], Any]:
    """The true labels of a data set that has them, in the order of the classifier; and a note if they do not fit."""
    if dataset.targets is None:
        return [], None
    names = dataset.labels.names
    missing = [name for name in classifier.labels.names if name not in set(names)]
    if missing:
        return [f"Left out the true labels, because there are none for {missing[0]!r}."], None
    return [], dataset.targets.select([dataset.labels.column(name) for name in classifier.labels.names])
