"""Single samples of the report: selection, cards and galleries."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from torch import Tensor

from manyhot.formatting import format_prob, printable
from manyhot.image_paths import find_image_file, sort_image_roots
from manyhot.images import UnreadableImage
from manyhot.report.blocks import Bar, Card, Figure, Gallery, Section
from manyhot.report.findings import count_noun
from manyhot.report.results import ModelResults
from manyhot.search.collection import Hit
from manyhot.search.contact_sheet import read_tiles

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure
    from PIL import Image

# From this probability on a model is confident of a label.
MIN_CONFIDENT = 0.9
# Up to this probability it all but rules out a label.
MAX_IMPOSSIBLE = 0.05


class Contradictions(NamedTuple):
    """Cells in which the targets contradict a confident model.

    Attributes:
        cells: (N, K), a boolean mask.
        expected: Their expected number if the probabilities were calibrated and the targets correct.
    """

    cells: Tensor
    expected: float


class Pick(NamedTuple):
    """A row to show, and the label that it is shown for; None if for the whole row."""

    row: int
    label: int | None = None


def confident_unlabelled(model: ModelResults, most: int, exclude: Collection[int] = ()) -> list[Pick]:
    """Rows with an absent label of which the model is confident, the most confident first."""
    return _pick_cells(model, confident_absent(model).cells, -1, most, exclude)


def labelled_impossible(model: ModelResults, most: int, exclude: Collection[int] = ()) -> list[Pick]:
    """Rows with a present label that the model all but rules out, the least probable first."""
    return _pick_cells(model, improbable_present(model).cells, 1, most, exclude)


def confident_absent(model: ModelResults) -> Contradictions:
    """Absent cells of which the model is confident."""
    assert model.probs is not None
    confident = (model.probs >= MIN_CONFIDENT) & (model.targets >= 0)
    return Contradictions(confident & (model.targets == 0), float((1 - model.probs[confident].double()).sum()))


def improbable_present(model: ModelResults) -> Contradictions:
    """Present cells that the model all but rules out."""
    assert model.probs is not None
    ruled_out = (model.probs <= MAX_IMPOSSIBLE) & (model.targets >= 0)
    return Contradictions(ruled_out & (model.targets == 1), float(model.probs[ruled_out].double().sum()))


def _pick_cells(model: ModelResults, cells: Tensor, direction: int, most: int, exclude: Collection[int]) -> list[Pick]:
    """Some of the cells, sorted by probability and then by score, at most one per row."""
    assert model.probs is not None
    indices = cells.nonzero().numpy()
    probs, values = (direction * table[cells].double().numpy() for table in (model.probs, model.values))
    label_by_row: dict[int, int] = {}
    for index in np.lexsort((values, probs)):
        row, label = indices[index].tolist()
        if row not in exclude:
            label_by_row.setdefault(row, label)
        if len(label_by_row) == most:
            break
    return [Pick(row, label) for row, label in label_by_row.items()]


def most_surprising(model: ModelResults, most: int, exclude: Collection[int] = ()) -> list[Pick]:
    """Rows whose log loss exceeds its expectation under the model the most."""
    loss, expected = model.log_losses
    surprise = loss - expected
    return _pick_rows([-surprise], surprise > 0, most, exclude)


def worst_rows(model: ModelResults, most: int, exclude: Collection[int] = ()) -> list[Pick]:
    """Rows with the most wrong labels, predicted or missed."""
    assert model.decision is not None
    errors = wrong_cells(model)
    loss, _ = model.log_losses
    return _pick_rows([-errors.double(), -loss], (errors > 0) & ~model.decision.abstain, most, exclude)


def best_rows(model: ModelResults, most: int, exclude: Collection[int] = ()) -> list[Pick]:
    """Exact matches with at least one label, those with the most labels first, then those with the lowest log loss."""
    assert model.decision is not None
    right = (wrong_cells(model) == 0) & ~model.decision.abstain
    labels = (model.targets > 0).sum(1)
    loss, _ = model.log_losses
    return _pick_rows([-labels.double(), loss], right & (labels > 0), most, exclude)


def wrong_cells(model: ModelResults) -> Tensor:
    """(N,), the number of wrong labels of each row: false positives and false negatives."""
    assert model.decision is not None
    wrong = (model.decision.labels != (model.targets > 0)) & (model.targets >= 0)
    return wrong.sum(1)


def _pick_rows(keys: list[Tensor], allowed: Tensor, most: int, exclude: Collection[int]) -> list[Pick]:
    """The allowed rows that come first by these keys, the first key before the second."""
    order = np.lexsort([key.numpy() for key in reversed(keys)])
    order = order[allowed.numpy()[order]]
    # No row is in `exclude` twice, so this is more than enough.
    first = order[: most + len(exclude)].tolist()
    return [Pick(row) for row in first if row not in exclude][:most]


# Pixels of the longer side: twice the displayed size, for high-density screens.
THUMBNAIL_SIZE = 224
JPEG_QUALITY = 78
# Bars on a card: up to so many, and the likeliest labels until there are so many.
MAX_BARS, DEFAULT_BARS = 8, 4


@dataclass(frozen=True)
class SampleImages:
    """Images by row, or the reason why one is unavailable; other rows have no image."""

    images: Mapping[int, Image.Image | UnreadableImage]

    @property
    def missing(self) -> int:
        """How many images could not be read."""
        return sum(isinstance(image, UnreadableImage) for image in self.images.values())


def load_sample_images(model: ModelResults, rows: Sequence[int]) -> SampleImages:
    """Reads the images of some rows; empty if the table has neither paths nor ids that are paths."""
    table = model.table.take(list(rows))
    paths: list[str] | list[None] = table.paths or [None] * len(table)
    hits = [Hit(id_, path, 0.0, 0.0) for id_, path in zip(table.ids, paths, strict=True)]
    if table.paths is None:
        roots = sort_image_roots(model.roots, table.ids)
        # Ids may be paths; if none of them is, no images are expected.
        if not any(find_image_file(id_, roots) for id_ in table.ids):
            return SampleImages({})
    return SampleImages(dict(zip(rows, read_tiles(hits, model.roots, THUMBNAIL_SIZE), strict=True)))


def make_card(model: ModelResults, pick: Pick, sample_images: SampleImages) -> Card:
    """The card of one row."""
    image = sample_images.images.get(pick.row)
    return Card(
        name=card_name(model, pick.row),
        note=card_note(model, pick),
        bars=card_bars(model, pick),
        image=None if image is None or isinstance(image, UnreadableImage) else jpeg_data_url(image),
        why=image.reason if isinstance(image, UnreadableImage) else None,
    )


def card_name(model: ModelResults, row: int) -> str:
    """The name of a row's file without its folders, or its id."""
    one = model.table.take([row])
    path = None if one.paths is None else one.paths[0]
    return (PurePosixPath(path).name or path) if path else one.ids[0]


def card_note(model: ModelResults, pick: Pick) -> str:
    """Why a row is shown, in a few words."""
    if pick.label is None:
        abstained = model.decision is not None and bool(model.decision.abstain[pick.row])
        return "abstained" if abstained else ""
    assert model.probs is not None
    prob, name = float(model.probs[pick.row, pick.label]), model.labels[pick.label]
    if model.targets[pick.row, pick.label] > 0:
        return f"{name}: labelled, but {format_prob(prob)}"
    return f"{name}: {format_prob(prob)}, but not labelled"


def card_bars(model: ModelResults, pick: Pick) -> list[Bar]:
    """The labels of a row to show, the likeliest first: the marked one, errors, predicted, true, likely."""
    assert model.probs is not None
    probs, targets = model.probs[pick.row].tolist(), model.targets[pick.row].tolist()
    predicted = [False] * len(probs) if model.decision is None else model.decision.labels[pick.row].tolist()

    def worth(label: int) -> tuple[bool, bool, bool, float]:
        wrong = targets[label] >= 0 and predicted[label] != (targets[label] > 0)
        return label == pick.label, wrong, predicted[label] or targets[label] > 0, probs[label]

    order = sorted(range(len(probs)), key=worth, reverse=True)
    chosen = [label for index, label in enumerate(order) if index < DEFAULT_BARS or any(worth(label)[:3])][:MAX_BARS]
    return [
        Bar(model.labels[label], probs[label], predicted[label], int(targets[label]), label == pick.label)
        for label in sorted(chosen, key=lambda label: (-probs[label], label))
    ]


def jpeg_data_url(image: Image.Image) -> str:
    """An image as a data URL, which needs no request."""
    bytes_ = io.BytesIO()
    image.save(bytes_, format="JPEG", quality=JPEG_QUALITY, optimize=True)
    return f"data:image/jpeg;base64,{base64.b64encode(bytes_.getvalue()).decode()}"


def cards_figure(
    key: str, title: str, model: ModelResults, picks: Sequence[Pick], sample_images: SampleImages
) -> Figure:
    """The same cards as a figure, for files; the page shows them as text that can be copied."""
    examples = []
    for pick in picks:
        image = sample_images.images.get(pick.row)
        bars = [(printable(bar.name), bar.prob, bar.predicted, bar.target) for bar in card_bars(model, pick)]
        examples.append(
            {
                "image": None if isinstance(image, UnreadableImage) else image,
                "title": printable(card_name(model, pick.row)),
                "note": printable(card_note(model, pick)),
                "labels": bars,
            }
        )
    return Figure(key, title, title, partial(_draw_cards, examples), on_page=False)


def _draw_cards(examples: list[dict[str, Any]], dark: bool) -> MatplotlibFigure:
    from manyhot.report.plots_compare import draw_examples

    return draw_examples(examples, dark=dark)


# Cards of one kind.
MAX_CARDS = 8


class GalleryKind(NamedTuple):
    """A reason to show samples."""

    key: str
    title: str
    intro: str
    pick: Callable[..., list[Pick]]
    against: Callable[[ModelResults], Contradictions] | None = None


ERROR_GALLERIES = (
    GalleryKind(
        "confident-but-unlabelled",
        "Confident, but not labelled",
        "The model gives a label that is absent from the targets at least 90 %, the most confident first. Either the "
        "label was forgotten, or the model is badly wrong.",
        confident_unlabelled,
        confident_absent,
    ),
    GalleryKind(
        "labelled-but-impossible",
        "Labelled, but held impossible",
        "The targets have a label that the model gives at most 5 %, the least probable first. Either the label is "
        "wrong, or what it names is hard to see.",
        labelled_impossible,
        improbable_present,
    ),
)
OTHER_GALLERIES = (
    GalleryKind(
        "most-surprising",
        "Most surprising",
        "All labels of the row together are far less likely than the uncertainty of the model explains.",
        most_surprising,
    ),
    GalleryKind("worst", "Worst", "The most wrong labels, predicted or missed.", worst_rows),
    GalleryKind("best", "Best", "Exact matches, those with the most labels first.", best_rows),
)


def image_sections(models: Sequence[ModelResults], *, images: bool, cards: int = MAX_CARDS) -> list[Section]:
    """Probable annotation errors, then other samples; of the first model if there are several."""
    model = models[0]
    if model.probs is None:
        intro = "Left out: which predictions are surprising can be computed from probabilities only. Run calibrate."
        return [Section("pictures", "Single predictions", [intro])]
    chosen, shown_rows = {}, set[int]()
    for kind in (*ERROR_GALLERIES, *OTHER_GALLERIES):
        # No row is shown twice.
        chosen[kind] = kind.pick(model, cards, shown_rows)
        shown_rows |= {pick.row for pick in chosen[kind]}
    sample_images = load_sample_images(model, sorted(shown_rows)) if images and shown_rows else SampleImages({})
    make = partial(make_gallery_section, model, chosen, sample_images)
    notes = [f"Those of {model.name}."] if len(models) > 1 else []
    return [
        make(
            "annotation-errors",
            "Probable annotation errors",
            ERROR_GALLERIES,
            [
                f"Where model and targets disagree most. Check these {model.noun}s first.",
                *notes,
                *describe_missing(sample_images),
            ],
        ),
        make(
            "predictions",
            "Surprising, worst and best predictions",
            OTHER_GALLERIES,
            [f"Only {model.noun}s that are not shown above.", *notes],
        ),
    ]


def make_gallery_section(
    model: ModelResults,
    chosen: dict[GalleryKind, list[Pick]],
    sample_images: SampleImages,
    key: str,
    title: str,
    kinds: Sequence[GalleryKind],
    intro: list[str],
) -> Section:
    """The galleries of some kinds; one without samples has a note."""
    galleries, figures = list[Gallery](), list[Figure]()
    for kind in kinds:
        picks = chosen[kind]
        paragraphs = [kind.intro if picks else "There is none.", *describe_expected(model, kind)]
        galleries.append(
            Gallery(kind.key, kind.title, paragraphs, [make_card(model, pick, sample_images) for pick in picks])
        )
        if picks:
            figures.append(cards_figure(kind.key, kind.title, model, picks, sample_images))
    return Section(key, title, intro, plots=figures, galleries=galleries)


def describe_expected(model: ModelResults, kind: GalleryKind) -> list[str]:
    """The number of such cells, and their expected number under the model."""
    if kind.against is None:
        return []
    contradictions = kind.against(model)
    count = int(contradictions.cells.sum())
    expected_text = (
        f"{contradictions.expected:,.0f}" if contradictions.expected >= 10 else f"{contradictions.expected:.1f}"
    )
    many = f"There {'is' if count == 1 else 'are'} {count_noun(count, 'such cell')}; " if count else ""
    if_ = "if" if many else "If"
    return [f"{many}{if_} the model were calibrated and the targets correct, {expected_text} would be expected."]


def describe_missing(sample_images: SampleImages) -> list[str]:
    """The hint if no image could be read."""
    if not sample_images.images or sample_images.missing < len(sample_images.images):
        return []
    return ["None of the images was found. Name the folder that their paths begin in with --root."]
