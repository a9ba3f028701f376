"""Requests and responses of the studio's API as pydantic models."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

DecisionKind = Literal["rule", "size", "threshold", "risk"]
ReviewOrder = Literal["uncertain", "errors"]
Target = Literal[1, 0, -1]


class Schema(BaseModel):
    """Base of all messages: numbers that JSON does not have become null, unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null")


class Problem(Schema):
    """The error of a request: a message, and the position of the wrong character of a query."""

    sentence: str
    place: int | None = None


class DecisionMethod(Schema):
    """A decision method; `why` is the reason why it is not available."""

    by: DecisionKind
    title: str
    words: str
    low: float | None = None
    high: float | None = None
    step: float | None = None
    value: float | None = None
    why: str | None = None


class ModelInfo(Schema):
    """The model that classifies uploaded images, and the limits of uploads."""

    words: str
    upload_bytes: int
    upload_pixels: int


class ReviewState(Schema):
    """The labels file, and how many images are finished and edited.

    `why` is the reason why nothing can be edited, `trouble` why the labels file is older than the edits in the journal.
    """

    file: str
    done: int
    edited: int
    reviewable: bool
    why: str | None = None
    trouble: str | None = None


class CollectionInfo(Schema):
    """The opened collection; a `null` default split of evaluations stands for all rows."""

    name: str
    rows: int
    splits: dict[str, int]
    labels: list[str]
    expected: list[float]
    present: list[int] | None
    has_targets: bool
    judged: str | None
    model: ModelInfo | None
    ways: list[DecisionMethod]
    review: ReviewState
    pictures_words: str
    version: str


class ExpectedCount(Schema):
    """The expected number of images that match a query."""

    query: str
    mean: float
    low: int
    high: int
    level: float
    rows: int
    words: str


class MatchCount(Schema):
    """The expected number of matches of the query being typed, or what is wrong with it."""

    expected: ExpectedCount | None = None
    problem: Problem | None = None


class Completion(Schema):
    """A completion, and the text to insert for it."""

    label: str
    insert: str
    expected: float


class Completions(Schema):
    """Completions of the text between `start` and `end`."""

    start: int
    end: int
    names: list[Completion]


class ShownLabel(Schema):
    """A label of an image: its probability, whether it is predicted (`given`), its target, and its edit."""

    name: str
    prob: float
    prob_words: str
    given: bool
    target: Target | None = None
    edited: Target | None = None


class LabeledImage(Schema):
    """The predictions for an image."""

    name: str
    given: list[str]
    none: bool
    ask: bool
    labels: list[ShownLabel]


class Classification(LabeledImage):
    """The predictions for an uploaded image."""

    seconds: float


class Item(LabeledImage):
    """An image of the collection; `why` is the reason why it cannot be shown."""

    row: int
    id: str
    path: str | None
    split: str | None
    prob: float | None = None
    prob_words: str | None = None
    picture: bool
    why: str | None
    edited: bool
    done: bool


class Suspect(Schema):
    """A label of an image to check."""

    name: str
    prob: float
    target: Target | None
    question_words: str


class ItemWithSuspects(Item):
    """An image with the labels to ask about."""

    suspects: list[Suspect]


class ReviewItem(ItemWithSuspects):
    """An image in the queue, with its uncertainty."""

    doubt: float


class EditedItem(Item):
    """An image after an edit; `trouble` is the reason why the labels file is older than the journal."""

    trouble: str | None


class SearchPage(Schema):
    """A page of search results, or what is wrong with the query."""

    query: str
    expected: ExpectedCount | None
    hits_words: str
    offset: int
    total: int
    items: list[Item]
    problem: Problem | None = None


class Quality(Schema):
    """Precision, recall and F1 over all cells; null where nothing is predicted or nothing is true."""

    precision: float | None
    recall: float | None
    f: float | None


class ObservedQuality(Quality):
    """The same, observed on the true labels of `rows` images."""

    rows: int


class DecisionSummary(Schema):
    """The summary of a decision method for the collection; `too_small` is the reason why nothing is observed."""

    by: DecisionKind
    value: float | None
    threshold: float | None
    words: str
    mean_size: float
    none_share: float
    ask_share: float
    expected: Quality
    observed: ObservedQuality | None
    too_small: str | None = None
    promise: str | None
    sizes: list[int]
    more: bool


class ReliabilityBin(Schema):
    """Cells of similar probability, and the share of them that is present, with a 95 % interval."""

    low: float
    high: float
    cells: int
    promised: float
    observed: float
    least: float
    most: float


class Reliability(Schema):
    """Predicted against observed frequencies, of all labels or of one; the errors also as formatted text."""

    label: str | None
    bins: list[ReliabilityBin]
    ece: float | None
    ace: float | None
    ece_words: str
    ace_words: str
    cells: int
    words: list[str]


class ReviewPage(Schema):
    """The next images to review."""

    order: ReviewOrder
    left: int
    done: int
    items: list[ReviewItem]


class EditRequest(Schema):
    """An edit of an image, and whether its review is finished.

    Labels by name: 1 present, 0 absent, -1 unknown, null withdraws the edit. `rest` applies to all other labels.
    """

    labels: dict[str, Target | None] = Field(default_factory=dict, max_length=100_000)
    rest: Literal[0] | None = None
    done: bool | None = None


class UndoResponse(Schema):
    """The image whose last edit was undone."""

    row: int
    item: EditedItem


class Health(Schema):
    """The server is alive."""

    alive: Literal[True] = True
