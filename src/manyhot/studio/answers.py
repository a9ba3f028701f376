"""What answers the requests of the page: search, pictures, decisions, new pictures, trust."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response, UploadFile

from manyhot import __version__
from manyhot.search.complaint import QueryError
from manyhot.search.found import Expectation
from manyhot.search.places import Unreadable
from manyhot.search.showing import expected_words, hits_words
from manyhot.studio import messages, trust
from manyhot.studio.asked import Chosen, Limit, Offset, Opened, Row, Split, Text
from manyhot.studio.deciding import Choice, too_few
from manyhot.studio.messages import Order
from manyhot.studio.pictures import SIDES
from manyhot.studio.problems import NotHere
from manyhot.studio.review_answers import review_state, suspects_of
from manyhot.studio.session import Studio
from manyhot.terminal import printable

MOST_RESULTS = 10_000
# Characters of the name of a file that are repeated.
NAME_LENGTH = 255


def collection(studio: Opened, split: Split = None) -> messages.CollectionFacts:
    """What was opened: labels, splits, ways to decide, where edits go; the numbers are those of the split."""
    table, rows = studio.table, studio.rows_of_split(split)
    targets = table.targets if table.targets is None or rows is None else table.targets[rows]
    return messages.CollectionFacts(
        name=studio.name,
        rows=len(table) if rows is None else len(rows),
        splits=table.split_sizes(),
        labels=table.labels.names,
        expected=studio.expected(split),
        present=None if targets is None else (targets == 1).sum(0).tolist(),
        has_targets=targets is not None,
        judged=None if targets is None else studio.judged,
        model=None if studio.classifying is None else studio.classifying.facts(),
        ways=studio.deciding.ways,
        review=review_state(studio, rows),
        pictures_words=studio.pictures.words(),
        version=__version__,
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
    studio: Opened,
    q: Text = "",
    cursor: Offset = 0,
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    split: Split = None,
) -> messages.Completions:
    """The labels that may be meant at the cursor."""
    return studio.completing(split).complete(q, cursor, most=limit)


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


def item(studio: Opened, choice: Chosen, row: Row, order: Order | None = None) -> messages.AskedItem:
    """One picture with all its labels, and with the questions of a queue where one is named."""
    row = studio.check_row(row)
    suspects = [] if order is None else suspects_of(studio, order, row)
    return messages.AskedItem(**dict(studio.whole_item(row, choice)), suspects=suspects)


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
    return studio.deciding.summary(choice, studio.rows_of_split(split), judged=studio.judged_rows(split))


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
    """Promised against observed frequencies, of all labels or of one, on the rows that a report judges by default."""
    targets, probs = studio.table.targets, studio.deciding.probs
    if targets is None:
        raise NotHere("Whether probabilities come true can be told only where true labels are known.")
    rows = studio.judged_rows(split)
    if rows is not None:
        probs, targets = probs[rows], targets[rows]
    small = too_few(targets)
    if label is not None:
        column = studio.table.labels.column(label)
        probs, targets = probs[:, column : column + 1], targets[:, column : column + 1]
    return trust.reliability(probs, targets, label=label) if small is None else trust.untold(label, small)


async def health() -> messages.Alive:
    """That the server answers."""
    # Not in one of the threads, all of which may be busy.
    return messages.Alive()
