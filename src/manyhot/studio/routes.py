"""All routes of the studio in one table, and what answers them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

import torch
from fastapi import Depends, Path, Query, Request, Response, UploadFile

from manyhot import __version__
from manyhot.search.complaint import QueryError
from manyhot.search.found import Expectation
from manyhot.search.places import Unreadable
from manyhot.search.showing import expected_words, hits_words
from manyhot.studio import messages, queueing, static_files, trust
from manyhot.studio.deciding import Choice
from manyhot.studio.items import ALL_SHOWN
from manyhot.studio.messages import By, Order
from manyhot.studio.pictures import SIDES
from manyhot.studio.problems import NotHere
from manyhot.studio.session import Studio
from manyhot.terminal import printable

MOST_RESULTS = 10_000
# Characters of the name of a file that are repeated.
NAME_LENGTH = 255


# Both are coroutines, because what is none would be handed to a thread and back for every request.
async def opened(request: Request) -> Studio:
    """The studio of the application."""
    studio: Studio = request.app.state.studio
    return studio


async def chosen(
    by: Annotated[By | None, Query(description="How labels are decided; the collection's way by default.")] = None,
    value: Annotated[float | None, Query(ge=0, le=1e6, allow_inf_nan=False, description="Its number.")] = None,
) -> Choice:
    """How labels are to be decided."""
    return Choice(by, value)


Opened = Annotated[Studio, Depends(opened)]
Chosen = Annotated[Choice, Depends(chosen)]
Text = Annotated[str, Query(max_length=10_000, description="A query such as `dog & !(beach | park)`.")]
Split = Annotated[str | None, Query(max_length=1_000, description="The split to look at; all rows by default.")]
Row = Annotated[int, Path(ge=0, le=2**31, description="The number of the row, counted from 0.")]
Offset = Annotated[int, Query(ge=0, le=2**31)]
Limit = Annotated[int, Query(ge=1, le=200)]


def collection(studio: Opened) -> messages.CollectionFacts:
    """What was opened: labels, splits, ways to decide, where edits go."""
    table = studio.table
    known = None if table.targets is None else (table.targets == 1).sum(0).tolist()
    return messages.CollectionFacts(
        name=studio.name,
        rows=len(table),
        splits=table.split_sizes(),
        labels=table.labels.names,
        expected=studio.expected,
        present=known,
        has_targets=table.targets is not None,
        model=None if studio.classifying is None else studio.classifying.facts(),
        ways=studio.deciding.ways,
        review=review_state(studio),
        pictures_words=studio.pictures.words(),
        version=__version__,
    )


def review_state(studio: Studio) -> messages.ReviewState:
    """Where edits go, and how many there are."""
    review = studio.review
    return messages.ReviewState(
        file=str(studio.labels_file),
        done=0 if review is None else review.done,
        edited=0 if review is None else review.edited,
        reviewable=review is not None,
        why=studio.why_no_review,
        trouble=None if review is None else review.trouble,
    )


def expect(studio: Opened, q: Text, split: Split = None) -> messages.Count:
    """How many pictures match a query, with an interval; a query that is not finished is no error."""
    try:
        found = studio.collection(split).search(q, k=1)
    except QueryError as error:
        return messages.Count(problem=unread(error))
    assert found.expected is not None
    return messages.Count(expected=expected(found.query, found.expected))


def unread(error: QueryError) -> messages.Problem:
    """What is wrong with a query, and where."""
    return messages.Problem(sentence=str(error), place=error.place)


def expected(query: str, found: Expectation) -> messages.Expected:
    """An expectation as a message."""
    return messages.Expected(
        query=query,
        mean=found.mean,
        low=found.low,
        high=found.high,
        level=found.level,
        rows=found.rows,
        words=expected_words(found),
    )


def complete(
    studio: Opened, q: Text = "", cursor: Offset = 0, limit: Annotated[int, Query(ge=1, le=50)] = 10
) -> messages.Completions:
    """The labels that may be meant at the cursor."""
    return studio.completing.complete(q, cursor, most=limit)


def search(
    studio: Opened, choice: Chosen, q: Text = "", split: Split = None, offset: Offset = 0, limit: Limit = 40
) -> messages.SearchPage:
    """A page of the pictures that most probably match; of all pictures, in the order of the table, without a query."""
    if not q.strip():
        return browse(studio, choice, split, offset, limit)
    most = min(offset + limit, MOST_RESULTS)
    try:
        found = studio.collection(split).search(q, k=most)
    except QueryError as error:
        return messages.SearchPage(
            query=q, expected=None, hits_words="", offset=offset, total=0, items=[], problem=unread(error)
        )
    hits = found.hits[offset:]
    rows = [studio.row_of[hit.id] for hit in hits]
    items = studio.items.make(rows, studio.decision(rows, choice), log_probs=[hit.log_prob for hit in hits])
    assert found.expected is not None
    return messages.SearchPage(
        query=found.query,
        expected=expected(found.query, found.expected),
        hits_words=hits_words(found),
        offset=offset,
        total=min(found.expected.rows, MOST_RESULTS),
        items=items,
    )


def browse(studio: Studio, choice: Choice, split: str | None, offset: int, limit: int) -> messages.SearchPage:
    """Pictures in the order of the table."""
    chosen_rows = studio.rows_of_split(split)
    numbers = range(len(studio.table)) if chosen_rows is None else chosen_rows.tolist()
    rows = list(numbers[offset : offset + limit])
    items = studio.items.make(rows, studio.decision(rows, choice))
    words = f"{len(numbers):,} pictures, in the order of the table."
    return messages.SearchPage(
        query="", expected=None, hits_words=words, offset=offset, total=len(numbers), items=items
    )


def item(studio: Opened, choice: Chosen, row: Row) -> messages.Item:
    """One picture with all its labels."""
    return one_item(studio, choice, studio.check_row(row))


def one_item(studio: Studio, choice: Choice, row: int) -> messages.Item:
    """A row with all its labels."""
    return studio.items.make([row], studio.decision([row], choice), probable=ALL_SHOWN, most=ALL_SHOWN)[0]


def picture(studio: Opened, request: Request, row: Row, side: Annotated[int, Query()] = 256) -> Response:
    """The picture of a row as a JPEG whose longer side has 128, 256, 512 or 1,024 pixels."""
    if side not in SIDES:
        raise NotHere(f"Pictures come with {', '.join(map(str, SIDES))} pixels, not {side}.")
    row = studio.check_row(row)
    try:
        mark = f'"{studio.pictures.mark(row, side)}"'
        # Asked about each time, because a row of another collection may have the same number.
        headers = {"etag": mark, "cache-control": "private, no-cache"}
        if request.headers.get("if-none-match") == mark:
            return Response(status_code=304, headers=headers)
        return Response(studio.pictures.jpeg(row, side), media_type="image/jpeg", headers=headers)
    except Unreadable as why:
        raise NotHere(f"The picture {row} cannot be shown: {why}.") from None


def decide(studio: Opened, choice: Chosen, split: Split = None) -> messages.Decided:
    """What a way to decide does to the collection: sizes of sets, precision and recall, expected and observed."""
    return studio.deciding.summary(choice, studio.rows_of_split(split))


async def classify(studio: Opened, choice: Chosen, image: UploadFile) -> messages.Classified:
    """What the model says about a picture that is sent."""
    if studio.classifying is None:
        raise NotHere("There is no model here to classify pictures with. Open a run, or start with --model RUN.")
    data = await image.read()
    name = printable(image.filename or "the picture")[:NAME_LENGTH]
    return await studio.classifying.classify(data, name, choice)


def reliability(
    studio: Opened, label: Annotated[str | None, Query(max_length=10_000)] = None, split: Split = None
) -> messages.Reliability:
    """Promised against observed frequencies, of all labels or of one."""
    targets, probs = studio.table.targets, studio.deciding.probs
    if targets is None:
        raise NotHere("Whether probabilities come true can be told only where true labels are known.")
    rows = studio.rows_of_split(split)
    if rows is not None:
        probs, targets = probs[rows], targets[rows]
    if label is not None:
        column = studio.table.labels.column(label)
        probs, targets = probs[:, column : column + 1], targets[:, column : column + 1]
    return trust.reliability(probs, targets, label=label)


def review(
    studio: Opened,
    choice: Chosen,
    order: Order = "uncertain",
    split: Split = None,
    offset: Offset = 0,
    limit: Limit = 20,
) -> messages.ReviewPage:
    """The pictures that a person should look at next."""
    queueing.check_order(order, studio.table.targets)
    queue = queue_of(studio, choice, order, split)
    page = queue.page(offset, limit)
    items = studio.items.make([row for row, _ in page], studio.decision([row for row, _ in page], choice))
    asked = [
        messages.ReviewItem(**dict(found), doubt=doubt, suspects=suspects_of(studio, order, row))
        for found, (row, doubt) in zip(items, page, strict=True)
    ]
    done = 0 if studio.review is None else studio.review.done
    return messages.ReviewPage(order=order, left=len(queue.rows), done=done, items=asked)


def queue_of(studio: Studio, choice: Choice, order: Order, split: str | None) -> queueing.Queue:
    """The queue of an order, without what people have finished or said."""
    probs, left = studio.deciding.probs, torch.ones(len(studio.table), dtype=torch.bool)
    rows = studio.rows_of_split(split)
    if rows is not None:
        left = torch.zeros_like(left).index_fill_(0, rows, True)
    finished = [] if studio.review is None else studio.review.done_rows()
    left[finished] = False
    if order == "uncertain":
        return queueing.uncertain(probs, studio.deciding.decision(choice), left)
    assert studio.table.targets is not None
    targets = studio.table.targets.clone()
    if studio.review is not None:
        for row in studio.review.edited_rows():
            targets[row, list(studio.edits(row))] = -1
    return queueing.probable_errors(probs, targets, left)


def suspects_of(studio: Studio, order: Order, row: int) -> list[messages.Suspect]:
    """The labels of a row to ask about."""
    targets = None if studio.table.targets is None else studio.table.targets[row]
    names = studio.table.labels.names
    return queueing.suspects(order, names, studio.deciding.probs[row], targets, list(studio.edits(row)))


def edit(studio: Opened, choice: Chosen, row: Row, said: messages.Edit) -> messages.Item:
    """Keeps what a person says about a picture, for good before the answer comes."""
    row = studio.check_row(row)
    studio.reviewing().edit(row, dict(said.labels), done=said.done)
    return one_item(studio, choice, row)


def undo(studio: Opened, choice: Chosen) -> messages.Undone:
    """Takes the last edit back."""
    row = studio.reviewing().undo()
    if row is None:
        raise NotHere("There is no edit to take back.", status=409)
    return messages.Undone(row=row, item=one_item(studio, choice, row))


def labels_file(studio: Opened) -> Response:
    """The corrected labels as a table that training reads."""
    studio.reviewing().write()
    if not studio.labels_file.is_file():
        raise NotHere("Nothing has been edited yet.")
    # Read as a whole, because the next edit puts another file in its place.
    data = studio.labels_file.read_bytes()
    headers = {"content-disposition": f"attachment; filename*=utf-8''{quote(studio.labels_file.name)}"}
    return Response(data, media_type="text/csv", headers=headers)


async def health() -> messages.Alive:
    """That the server answers."""
    # Not in one of the threads, all of which may be busy.
    return messages.Alive()


class Route(NamedTuple):
    """A line of the table: how it is asked for, what answers, and whether it is part of the API."""

    method: str
    path: str
    answer: Callable[..., Any]
    api: bool = True


ROUTES = (
    Route("GET", "/", static_files.page, api=False),
    Route("GET", "/static/{name}", static_files.file, api=False),
    Route("GET", "/api/health", health),
    Route("GET", "/api/collection", collection),
    Route("GET", "/api/expect", expect),
    Route("GET", "/api/complete", complete),
    Route("GET", "/api/search", search),
    Route("GET", "/api/items/{row}", item),
    Route("GET", "/api/pictures/{row}", picture),
    Route("GET", "/api/decide", decide),
    Route("POST", "/api/classify", classify),
    Route("GET", "/api/reliability", reliability),
    Route("GET", "/api/review", review),
    Route("PUT", "/api/review/{row}", edit),
    Route("POST", "/api/review/undo", undo),
    Route("GET", "/api/review/file", labels_file),
)
