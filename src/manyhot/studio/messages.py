"""What the studio's server answers and takes, as types; the description of the API is made from them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

By = Literal["rule", "size", "threshold", "risk"]
Order = Literal["uncertain", "errors"]
Cell = Literal[1, 0, -1]


class Message(BaseModel):
    """What all messages have in common: numbers that JSON does not have become null, unknown fields are refused."""

    model_config = ConfigDict(extra="forbid", ser_json_inf_nan="null")


class Problem(Message):
    """Why a request was refused: one sentence for people, and the character of the query that is wrong."""

    sentence: str
    place: int | None = None


class Way(Message):
    """A way to decide which labels are given; `why` says why it cannot be chosen."""

    by: By
    title: str
    words: str
    low: float | None = None
    high: float | None = None
    step: float | None = None
    value: float | None = None
    why: str | None = None


class Model(Message):
    """What classifies pictures that are dropped on the page, and how large they may be."""

    words: str
    upload_bytes: int
    upload_pixels: int


class ReviewState(Message):
    """Where edits are kept, and how many pictures have some.

    `why` says why nothing can be edited, `trouble` why the labels file is older than the edits in the journal.
    """

    file: str
    done: int
    edited: int
    reviewable: bool
    why: str | None = None
    trouble: str | None = None


class CollectionFacts(Message):
    """What was opened; `judged` is the split that figures are of where no other is asked for, null for all rows."""

    name: str
    rows: int
    splits: dict[str, int]
    labels: list[str]
    expected: list[float]
    present: list[int] | None
    has_targets: bool
    judged: str | None
    model: Model | None
    ways: list[Way]
    review: ReviewState
    pictures_words: str
    version: str


class Expected(Message):
    """How many pictures match a query."""

    query: str
    mean: float
    low: int
    high: int
    level: float
    rows: int
    words: str


class Count(Message):
    """How many pictures match what is being typed, or what is wrong with it so far."""

    expected: Expected | None = None
    problem: Problem | None = None


class Completion(Message):
    """A label that may be meant, and what to write for it."""

    label: str
    insert: str
    expected: float


class Completions(Message):
    """The labels that may be meant by the text between `start` and `end`."""

    start: int
    end: int
    names: list[Completion]


class ShownLabel(Message):
    """A label of a picture: its probability, whether it is given, whether it is true, and what a person said."""

    name: str
    prob: float
    prob_words: str
    given: bool
    target: Cell | None = None
    edited: Cell | None = None


class Answer(Message):
    """What is said about a picture."""

    name: str
    given: list[str]
    none: bool
    ask: bool
    labels: list[ShownLabel]


class Classified(Answer):
    """What is said about a picture that was sent."""

    seconds: float


class Item(Answer):
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


class Suspect(Message):
    """A label of a picture that a person should look at."""

    name: str
    prob: float
    target: Cell | None
    question_words: str


class AskedItem(Item):
    """A picture with the labels to ask about."""

    suspects: list[Suspect]


class ReviewItem(AskedItem):
    """A picture in the queue."""

    doubt: float


class EditedItem(Item):
    """A picture after an edit; `trouble` says why the labels file is older than the edits in the journal."""

    trouble: str | None


class SearchPage(Message):
    """A page of what was found, or what is wrong with the query."""

    query: str
    expected: Expected | None
    hits_words: str
    offset: int
    total: int
    items: list[Item]
    problem: Problem | None = None


class Quality(Message):
    """Precision, recall and their mean over all cells; null where nothing is given or nothing is there."""

    precision: float | None
    recall: float | None
    f: float | None


class Observed(Quality):
    """The same against the true labels of so many pictures."""

    rows: int


class Decided(Message):
    """What a way to decide does to the whole collection; `too_small` says why nothing can be observed."""

    by: By
    value: float | None
    threshold: float | None
    words: str
    mean_size: float
    none_share: float
    ask_share: float
    expected: Quality
    observed: Observed | None
    too_small: str | None = None
    promise: str | None
    sizes: list[int]
    more: bool


class Bin(Message):
    """Cells of about the same probability, and the share of them that came true, with a 95 % interval."""

    low: float
    high: float
    cells: int
    promised: float
    observed: float
    least: float
    most: float


class Reliability(Message):
    """Promised against observed frequencies, of all labels or of one; the errors also as a report writes them."""

    label: str | None
    bins: list[Bin]
    ece: float | None
    ace: float | None
    ece_words: str
    ace_words: str
    cells: int
    words: list[str]


class ReviewPage(Message):
    """The next pictures to look at."""

    order: Order
    left: int
    done: int
    items: list[ReviewItem]


class Edit(Message):
    """What a person says about a picture, and whether they are done with it.

    Of labels by name: 1 there, 0 not there, -1 nobody can tell, null as before. `rest` is said of all other labels.
    """

    labels: dict[str, Cell | None] = Field(default_factory=dict, max_length=100_000)
    rest: Literal[0] | None = None
    done: bool | None = None


class Undone(Message):
    """The picture whose last edit was taken back."""

    row: int
    item: EditedItem


class Alive(Message):
    """That the server answers."""

    alive: Literal[True] = True
