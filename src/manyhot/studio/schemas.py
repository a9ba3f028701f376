"""Requests and responses of the studio's API as pydantic models."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

DecisionKind = Literal["rule", "size", "threshold", "risk"]
ReviewOrder = Literal["uncertain", "errors"]
Target = Literal[1, 0, -1]


class Schema(BaseModel):
    """What all messages have in common: numbers that JSON does not have become null, unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null")


class Problem(Schema):
    """Why a request was refused: one sentence for people, and the character of the query that is wrong."""

    sentence: str
    place: int | None = None


class DecisionMethod(Schema):
    """A way to decide which labels are given; `why` says why it cannot be chosen."""

    by: DecisionKind
    title: str
    words: str
    low: float | None = None
    high: float | None = None
    step: float | None = None
    value: float | None = None
    why: str | None = None


class ModelInfo(Schema):
    """What classifies pictures that are dropped on the page, and how large they may be."""

    words: str
    upload_bytes: int
    upload_pixels: int


class ReviewState(Schema):
    """Where edits are kept, and how many pictures have some.

    `why` says why nothing can be edited, `trouble` why the labels file is older than the edits in the journal.
    """

    file: str
    done: int
    edited: int
    reviewable: bool
    why: str | None = None
    trouble: str | None = None


class CollectionInfo(Schema):
    """What was opened; `judged` is the split that figures are of where no other is asked for, null for all rows."""

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
    """How many pictures match a query."""

    query: str
    mean: float
    low: int
    high: int
    level: float
    rows: int
    words: str


class MatchCount(Schema):
    """How many pictures match what is being typed, or what is wrong with it so far."""

    expected: ExpectedCount | None = None
    problem: Problem | None = None


class Completion(Schema):
    """A label that may be meant, and what to write for it."""

    label: str
    insert: str
    expected: float


class Completions(Schema):
    """The labels that may be meant by the text between `start` and `end`."""

    start: int
    end: int
    names: list[Completion]


class ShownLabel(Schema):
    """A label of a picture: its probability, whether it is given, whether it is true, and what a person said."""

    name: str
    prob: float
    prob_words: str
    given: bool
    target: Target | None = None
    edited: Target | None = None


class LabeledImage(Schema):
    """What is said about a picture."""

    name: str
    given: list[str]
    none: bool
    ask: bool
    labels: list[ShownLabel]


class Classification(LabeledImage):
    """What is said about a picture that was sent."""

    seconds: float


class Item(LabeledImage):
    """A picture of the collection; `why` says why it cannot be shown."""

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
    """A label of a picture that a person should look at."""

    name: str
    prob: float
    target: Target | None
    question_words: str


class ItemWithSuspects(Item):
    """A picture with the labels to ask about."""

    suspects: list[Suspect]


class ReviewItem(ItemWithSuspects):
    """A picture in the queue."""

    doubt: float


class EditedItem(Item):
    """A picture after an edit; `trouble` says why the labels file is older than the edits in the journal."""

    trouble: str | None


class SearchPage(Schema):
    """A page of what was found, or what is wrong with the query."""

    query: str
    expected: ExpectedCount | None
    hits_words: str
    offset: int
    total: int
    items: list[Item]
    problem: Problem | None = None


class Quality(Schema):
    """Precision, recall and their mean over all cells; null where nothing is given or nothing is there."""

    precision: float | None
    recall: float | None
    f: float | None


class ObservedQuality(Quality):
    """The same against the true labels of so many pictures."""

    rows: int


class DecisionSummary(Schema):
    """What a way to decide does to the whole collection; `too_small` says why nothing can be observed."""

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
    """Cells of about the same probability, and the share of them that came true, with a 95 % interval."""

    low: float
    high: float
    cells: int
    promised: float
    observed: float
    least: float
    most: float


class Reliability(Schema):
    """Promised against observed frequencies, of all labels or of one; the errors also as a report writes them."""

    label: str | None
    bins: list[ReliabilityBin]
    ece: float | None
    ace: float | None
    ece_words: str
    ace_words: str
    cells: int
    words: list[str]


class ReviewPage(Schema):
    """The next pictures to look at."""

    order: ReviewOrder
    left: int
    done: int
    items: list[ReviewItem]


class EditRequest(Schema):
    """What a person says about a picture, and whether they are done with it.

    Of labels by name: 1 there, 0 not there, -1 nobody can tell, null as before. `rest` is said of all other labels.
    """

    labels: dict[str, Target | None] = Field(default_factory=dict, max_length=100_000)
    rest: Literal[0] | None = None
    done: bool | None = None


class UndoResponse(Schema):
    """The picture whose last edit was taken back."""

    row: int
    item: EditedItem


class Health(Schema):
    """That the server answers."""

    alive: Literal[True] = True
