"""All routes of the studio and their handlers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Annotated, Any, NamedTuple
from urllib.parse import quote

import torch
from fastapi import Depends, Path, Query, Request, Response, UploadFile
from torch import Tensor

from manyhot import __version__
from manyhot.evaluation.catalog import format_value
from manyhot.formatting import printable
from manyhot.images import UnreadableImage
from manyhot.metrics import CalibrationError
from manyhot.report.curves import wilson_interval
from manyhot.report.findings import describe_reliability
from manyhot.search.collection import ExpectedMatches
from manyhot.search.lexer import QueryError
from manyhot.search.summary import describe_expected, describe_hits
from manyhot.studio.decisions import DecisionChoice, too_few_rows
from manyhot.studio.review_queue import ReviewQueue, by_label_error, by_uncertainty, check_order, find_suspects
from manyhot.studio.schemas import (
    Classification,
    CollectionInfo,
    Completions,
    DecisionKind,
    DecisionSummary,
    EditedItem,
    EditRequest,
    ExpectedCount,
    Health,
    ItemWithSuspects,
    MatchCount,
    Problem,
    Reliability,
    ReliabilityBin,
    ReviewItem,
    ReviewOrder,
    ReviewPage,
    ReviewState,
    SearchPage,
    Suspect,
    UndoResponse,
)
from manyhot.studio.session import RequestError, Studio
from manyhot.studio.thumbnails import THUMBNAIL_SIDES


# Both are coroutines: functions would run in a thread for every request.
async def current_studio(request: Request) -> Studio:
    """The studio of the application."""
    studio: Studio = request.app.state.studio
    return studio


async def decision_choice(
    by: Annotated[
        DecisionKind | None, Query(description="The decision method; that of the collection by default.")
    ] = None,
    value: Annotated[float | None, Query(ge=0, le=1e6, allow_inf_nan=False, description="Its number.")] = None,
) -> DecisionChoice:
    """The decision method of a request."""
    return DecisionChoice(by, value)


CurrentStudio = Annotated[Studio, Depends(current_studio)]
ChoiceParameters = Annotated[DecisionChoice, Depends(decision_choice)]
QueryParameter = Annotated[str, Query(max_length=10_000, description="A query such as `dog & !(beach | park)`.")]
SplitParameter = Annotated[
    str | None, Query(max_length=1_000, description="The split to look at; all rows by default.")
]
RowParameter = Annotated[int, Path(ge=0, le=2**31, description="The number of the row, counted from 0.")]
OffsetParameter = Annotated[int, Query(ge=0, le=2**31)]
LimitParameter = Annotated[int, Query(ge=1, le=200)]

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@cache
def load_static_files() -> dict[str, tuple[bytes, str]]:
    """The bytes and the ETag of each file, by its name; read once, so that no name can lead anywhere else."""
    assets = {}
    for entry in files("manyhot.studio").joinpath("static").iterdir():
        if entry.is_file() and entry.name.rsplit(".", 1)[-1] in MEDIA_TYPES:
            data = entry.read_bytes()
            assets[entry.name] = (data, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
    return assets


def index_page(request: Request) -> Response:
    """The page."""
    return static_file(request, "index.html")


def static_file(request: Request, name: str) -> Response:
    """A file of the page."""
    if name not in load_static_files():
        raise RequestError("The page has no such file.")
    data, etag = load_static_files()[name]
    headers = {"etag": etag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == etag:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=MEDIA_TYPES[name.rsplit(".", 1)[-1]], headers=headers)


RELIABILITY_BINS = 15


def compute_reliability(probs: Tensor, targets: Tensor, *, label: str | None = None) -> Reliability:
    """Predicted against observed frequencies.

    Args:
        probs: (N, K) of all labels or of one.
        targets: (N, K); unknown cells are left out.
        label: The name of the label, where it is one.

    Example:
        >>> probs = torch.full((100, 1), 0.95)
        >>> result = compute_reliability(probs, (torch.arange(100) < 93).int().unsqueeze(1))
        >>> result.words
        ['Of the 100 answers above 90 %, 93 % were right (95 %: 86 to 97 %); 95 % was predicted.']
    """
    metrics = CalibrationError(RELIABILITY_BINS).update(probs.contiguous(), targets).compute()
    details = metrics.details
    bins = []
    rows = zip(*(details[name].tolist() for name in ("cells", "mean_prob", "share_present")), strict=True)
    for index, (cells, predicted, observed) in enumerate(rows):
        if cells:
            least, most = wilson_interval(observed, int(cells))
            bins.append(
                ReliabilityBin(
                    low=index / RELIABILITY_BINS,
                    high=(index + 1) / RELIABILITY_BINS,
                    cells=int(cells),
                    promised=predicted,
                    observed=observed,
                    least=least,
                    most=most,
                )
            )
    return Reliability(
        label=label,
        bins=bins,
        ece=_finite(metrics["ece"]),
        ace=_finite(metrics["ace"]),
        ece_words=format_value("ece", metrics["ece"]),
        ace_words=format_value("ace", metrics["ace"]),
        cells=sum(result.cells for result in bins),
        words=list(describe_reliability(probs, targets)),
    )


def empty_reliability(label: str | None, why: str) -> Reliability:
    """The response for rows that are too few to evaluate."""
    words, none = [why], format_value("ece", None)
    return Reliability(label=label, bins=[], ece=None, ace=None, ece_words=none, ace_words=none, cells=0, words=words)


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def review_state(studio: Studio, rows: Tensor | None) -> ReviewState:
    """The state of the review for some rows, or for all."""
    review = studio.review
    return ReviewState(
        file=studio.labels_name,
        done=0 if review is None else count_in_rows(review.done_rows(), rows),
        edited=0 if review is None else count_in_rows(review.edited_rows(), rows),
        reviewable=review is not None,
        why=studio.why_no_review,
        trouble=None if review is None else review.trouble,
    )


def count_in_rows(selected: list[int], rows: Tensor | None) -> int:
    """How many row numbers are among some, or among all."""
    return len(selected) if rows is None else len(set(selected) & set(rows.tolist()))


def review_page(
    studio: CurrentStudio,
    choice: ChoiceParameters,
    order: ReviewOrder = "uncertain",
    split: SplitParameter = None,
    offset: OffsetParameter = 0,
    limit: LimitParameter = 20,
) -> ReviewPage:
    """The images to review next."""
    check_order(order, studio.table.targets)
    queue = build_queue(studio, choice, order, split)
    page = queue.page(offset, limit)
    items = studio.items.make([row for row, _ in page], studio.decision([row for row, _ in page], choice))
    review_items = [
        ReviewItem(**dict(selected), doubt=score, suspects=suspects_of(studio, order, row))
        for selected, (row, score) in zip(items, page, strict=True)
    ]
    done = review_state(studio, studio.rows_of_split(split)).done
    return ReviewPage(order=order, left=len(queue.rows), done=done, items=review_items)


def build_queue(studio: Studio, choice: DecisionChoice, order: ReviewOrder, split: str | None) -> ReviewQueue:
    """The queue of an order, without finished rows and edited cells."""
    probs, left = studio.explorer.probs, torch.ones(len(studio.table), dtype=torch.bool)
    rows = studio.rows_of_split(split)
    if rows is not None:
        left = torch.zeros_like(left).index_fill_(0, rows, True)
    finished = [] if studio.review is None else studio.review.done_rows()
    left[finished] = False
    if order == "uncertain":
        return by_uncertainty(probs, studio.explorer.decision(choice), left)
    assert studio.table.targets is not None
    targets = studio.table.targets.clone()
    if studio.review is not None:
        for row in studio.review.edited_rows():
            targets[row, list(studio.edits(row))] = -1
    return by_label_error(probs, targets, left)


def suspects_of(studio: Studio, order: ReviewOrder, row: int) -> list[Suspect]:
    """The labels of a row to ask about."""
    targets = None if studio.table.targets is None else studio.table.targets[row]
    names = studio.table.labels.names
    return find_suspects(order, names, studio.explorer.probs[row], targets, list(studio.edits(row)))


def edit_labels(studio: CurrentStudio, choice: ChoiceParameters, row: RowParameter, request: EditRequest) -> EditedItem:
    """Records an edit of an image; it is on the disk before the response is sent."""
    row = studio.check_row(row)
    rest = {} if request.rest is None else dict.fromkeys(studio.table.labels.names, request.rest)
    studio.require_review().edit(row, rest | dict(request.labels), done=request.done)
    return edited_item(studio, row, choice)


def undo(studio: CurrentStudio, choice: ChoiceParameters) -> UndoResponse:
    """Undoes the last edit."""
    row = studio.require_review().undo()
    if row is None:
        raise RequestError("There is no edit to undo.", status=409)
    return UndoResponse(row=row, item=edited_item(studio, row, choice))


def edited_item(studio: Studio, row: int, choice: DecisionChoice) -> EditedItem:
    """A row after an edit, with the reason if the labels file could not be written."""
    trouble = studio.require_review().trouble
    return EditedItem(**dict(studio.whole_item(row, choice)), trouble=trouble)


def labels_file(studio: CurrentStudio) -> Response:
    """The corrected labels as a table that training reads."""
    studio.require_review().write()
    if not studio.labels_file.is_file():
        raise RequestError("Nothing has been edited yet.")
    # Read as a whole, because the next edit replaces the file.
    data = studio.labels_file.read_bytes()
    headers = {"content-disposition": f"attachment; filename*=utf-8''{quote(studio.labels_file.name)}"}
    return Response(data, media_type="text/csv", headers=headers)


MAX_RESULTS = 10_000
# Characters of a file name that a response may repeat.
MAX_FILE_NAME_LENGTH = 255


def collection(studio: CurrentStudio, split: SplitParameter = None) -> CollectionInfo:
    """The opened collection: labels, splits, decision methods, review; numbers are those of the split."""
    table, rows = studio.table, studio.rows_of_split(split)
    targets = table.targets if table.targets is None or rows is None else table.targets[rows]
    return CollectionInfo(
        name=studio.name,
        rows=len(table) if rows is None else len(rows),
        splits=table.split_sizes(),
        labels=table.labels.names,
        expected=studio.expected(split),
        present=None if targets is None else (targets == 1).sum(0).tolist(),
        has_targets=targets is not None,
        judged=None if targets is None else studio.evaluated_split,
        model=None if studio.upload_classifier is None else studio.upload_classifier.facts(),
        ways=studio.explorer.methods,
        review=review_state(studio, rows),
        pictures_words=studio.thumbnails.summary(),
        version=__version__,
    )


def expect(studio: CurrentStudio, q: QueryParameter, split: SplitParameter = None) -> MatchCount:
    """The expected number of images that match a query; an unfinished query is no error."""
    try:
        result = studio.collection(split).search(q, k=1)
    except QueryError as error:
        return MatchCount(problem=query_problem(error))
    assert result.expected is not None
    return MatchCount(expected=expected_count(result.query, result.expected))


def query_problem(error: QueryError) -> Problem:
    """The error of a query, and its position."""
    return Problem(sentence=str(error), place=error.position)


def expected_count(query: str, result: ExpectedMatches) -> ExpectedCount:
    """Expected matches as a message."""
    return ExpectedCount(
        query=query,
        mean=result.mean,
        low=result.low,
        high=result.high,
        level=result.level,
        rows=result.rows,
        words=describe_expected(result),
    )


def complete(
    studio: CurrentStudio,
    q: QueryParameter = "",
    cursor: OffsetParameter = 0,
    limit: Annotated[int, Query(ge=1, le=50)] = 10,
    split: SplitParameter = None,
) -> Completions:
    """Completions of the label at the cursor."""
    return studio.completer(split).complete(q, cursor, most=limit)


def search(
    studio: CurrentStudio,
    choice: ChoiceParameters,
    q: QueryParameter = "",
    split: SplitParameter = None,
    offset: OffsetParameter = 0,
    limit: LimitParameter = 40,
) -> SearchPage:
    """A page of the most probable matches; without a query, of all images in the order of the table."""
    if not q.strip():
        return browse(studio, choice, split, offset, limit)
    most = min(offset + limit, MAX_RESULTS)
    try:
        result = studio.collection(split).search(q, k=most)
    except QueryError as error:
        return SearchPage(
            query=q, expected=None, hits_words="", offset=offset, total=0, items=[], problem=query_problem(error)
        )
    hits = result.hits[offset:]
    rows = [studio.row_of[hit.id] for hit in hits]
    items = studio.items.make(rows, studio.decision(rows, choice), log_probs=[hit.log_prob for hit in hits])
    assert result.expected is not None
    return SearchPage(
        query=result.query,
        expected=expected_count(result.query, result.expected),
        hits_words=describe_hits(result),
        offset=offset,
        total=min(result.expected.rows, MAX_RESULTS),
        items=items,
    )


def browse(studio: Studio, choice: DecisionChoice, split: str | None, offset: int, limit: int) -> SearchPage:
    """Images in the order of the table."""
    chosen_rows = studio.rows_of_split(split)
    numbers = range(len(studio.table)) if chosen_rows is None else chosen_rows.tolist()
    rows = list(numbers[offset : offset + limit])
    items = studio.items.make(rows, studio.decision(rows, choice))
    words = f"{len(numbers):,} images, in the order of the table."
    return SearchPage(query="", expected=None, hits_words=words, offset=offset, total=len(numbers), items=items)


def item(
    studio: CurrentStudio, choice: ChoiceParameters, row: RowParameter, order: ReviewOrder | None = None
) -> ItemWithSuspects:
    """One image with all its labels, and with the questions of a queue if one is named."""
    row = studio.check_row(row)
    suspects = [] if order is None else suspects_of(studio, order, row)
    return ItemWithSuspects(**dict(studio.whole_item(row, choice)), suspects=suspects)


def thumbnail(
    studio: CurrentStudio, request: Request, row: RowParameter, side: Annotated[int, Query()] = 256
) -> Response:
    """The image of a row as a JPEG whose longer side has 128, 256, 512 or 1,024 pixels."""
    if side not in THUMBNAIL_SIDES:
        raise RequestError(f"Images are available with {', '.join(map(str, THUMBNAIL_SIDES))} pixels, not {side}.")
    row = studio.check_row(row)
    try:
        etag = f'"{studio.thumbnails.etag(row, side)}"'
        # Revalidated each time, because a row of another collection may have the same number.
        headers = {"etag": etag, "cache-control": "private, no-cache"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(studio.thumbnails.jpeg(row, side), media_type="image/jpeg", headers=headers)
    except UnreadableImage as error:
        raise RequestError(f"Image {row} cannot be shown: {error.reason}.") from None


def decide(studio: CurrentStudio, choice: ChoiceParameters, split: SplitParameter = None) -> DecisionSummary:
    """The summary of a decision method: sizes of sets, precision and recall, expected and observed."""
    return studio.explorer.summary(choice, studio.rows_of_split(split), evaluated=studio.evaluated_rows(split))


async def classify(studio: CurrentStudio, choice: ChoiceParameters, image: UploadFile) -> Classification:
    """The predictions of the model for an uploaded image."""
    if studio.upload_classifier is None:
        raise RequestError("There is no model to classify images with. Open a run, or start with --model RUN.")
    data = await image.read()
    name = printable(image.filename or "the image")[:MAX_FILE_NAME_LENGTH]
    return await studio.upload_classifier.classify(data, name, choice)


def reliability(
    studio: CurrentStudio, label: Annotated[str | None, Query(max_length=10_000)] = None, split: SplitParameter = None
) -> Reliability:
    """Predicted against observed frequencies of all labels or of one, on the rows that a report evaluates."""
    targets, probs = studio.table.targets, studio.explorer.probs
    if targets is None:
        raise RequestError("Calibration can be measured only where true labels are known.")
    rows = studio.evaluated_rows(split)
    if rows is not None:
        probs, targets = probs[rows], targets[rows]
    small = too_few_rows(targets)
    if label is not None:
        column = studio.table.labels.column(label)
        probs, targets = probs[:, column : column + 1], targets[:, column : column + 1]
    return compute_reliability(probs, targets, label=label) if small is None else empty_reliability(label, small)


async def health() -> Health:
    """Whether the server is alive."""
    # A coroutine, because all threads may be busy.
    return Health()


JSON, JPEG, CSV = "application/json", "image/jpeg", "text/csv"


class Route(NamedTuple):
    """A route of the application.

    Attributes:
        method: The HTTP method.
        path: The path.
        answer: The handler.
        kind: The media type of the response.
        problems: Error statuses besides those of all routes.
        api: Whether it is part of the API.
    """

    method: str
    path: str
    answer: Callable[..., Any]
    kind: str = JSON
    problems: tuple[int, ...] = ()
    api: bool = True


ROUTES = (
    Route("GET", "/", index_page, api=False),
    Route("GET", "/static/{name}", static_file, api=False),
    Route("GET", "/api/health", health),
    Route("GET", "/api/collection", collection),
    Route("GET", "/api/expect", expect),
    Route("GET", "/api/complete", complete),
    Route("GET", "/api/search", search),
    Route("GET", "/api/items/{row}", item),
    Route("GET", "/api/pictures/{row}", thumbnail, JPEG),
    Route("GET", "/api/decide", decide),
    Route("POST", "/api/classify", classify, JSON, (413, 429)),
    Route("GET", "/api/reliability", reliability),
    Route("GET", "/api/review", review_page),
    Route("PUT", "/api/review/{row}", edit_labels, JSON, (413, 507)),
    Route("POST", "/api/review/undo", undo, JSON, (409, 507)),
    Route("GET", "/api/review/file", labels_file, CSV, (507,)),
)
