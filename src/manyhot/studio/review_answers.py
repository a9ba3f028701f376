"""What answers the requests of a review: the queue, edits, and the labels file."""

from __future__ import annotations

from urllib.parse import quote

import torch
from fastapi import Response
from torch import Tensor

from manyhot.studio import messages, queueing
from manyhot.studio.asked import Chosen, Limit, Offset, Opened, Row, Split
from manyhot.studio.deciding import Choice
from manyhot.studio.messages import Order
from manyhot.studio.problems import NotHere
from manyhot.studio.session import Studio


def review_state(studio: Studio, rows: Tensor | None) -> messages.ReviewState:
    """Where edits go, and how many there are of some rows, or of all."""
    review = studio.review
    return messages.ReviewState(
        file=studio.labels_name,
        done=0 if review is None else count_within(review.done_rows(), rows),
        edited=0 if review is None else count_within(review.edited_rows(), rows),
        reviewable=review is not None,
        why=studio.why_no_review,
        trouble=None if review is None else review.trouble,
    )


def count_within(found: list[int], rows: Tensor | None) -> int:
    """How many row numbers are among some, or among all."""
    return len(found) if rows is None else len(set(found) & set(rows.tolist()))


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
    done = review_state(studio, studio.rows_of_split(split)).done
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


def edit(studio: Opened, choice: Chosen, row: Row, said: messages.Edit) -> messages.EditedItem:
    """Keeps what a person says about a picture, for good before the answer comes."""
    row = studio.check_row(row)
    rest = {} if said.rest is None else dict.fromkeys(studio.table.labels.names, said.rest)
    studio.reviewing().edit(row, rest | dict(said.labels), done=said.done)
    return edited_item(studio, row, choice)


def undo(studio: Opened, choice: Chosen) -> messages.Undone:
    """Takes the last edit back."""
    row = studio.reviewing().undo()
    if row is None:
        raise NotHere("There is no edit to take back.", status=409)
    return messages.Undone(row=row, item=edited_item(studio, row, choice))


def edited_item(studio: Studio, row: int, choice: Choice) -> messages.EditedItem:
    """A row after an edit; with the reason where the labels file could not be written."""
    trouble = studio.reviewing().trouble
    return messages.EditedItem(**dict(studio.whole_item(row, choice)), trouble=trouble)


def labels_file(studio: Opened) -> Response:
    """The corrected labels as a table that training reads."""
    studio.reviewing().write()
    if not studio.labels_file.is_file():
        raise NotHere("Nothing has been edited yet.")
    # Read as a whole, because the next edit puts another file in its place.
    data = studio.labels_file.read_bytes()
    headers = {"content-disposition": f"attachment; filename*=utf-8''{quote(studio.labels_file.name)}"}
    return Response(data, media_type="text/csv", headers=headers)
