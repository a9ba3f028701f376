"""All routes of the studio in one table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from manyhot.studio import answers, review_answers, static_files

JSON, JPEG, CSV = "application/json", "image/jpeg", "text/csv"


class Route(NamedTuple):
    """A line of the table.

    Attributes:
        method: How it is asked for.
        path: What is asked for.
        answer: What answers.
        kind: What the answer is.
        problems: What can be wrong besides what can be with any request.
        api: Whether it is part of the API.
    """

    method: str
    path: str
    answer: Callable[..., Any]
    kind: str = JSON
    problems: tuple[int, ...] = ()
    api: bool = True


ROUTES = (
    Route("GET", "/", static_files.page, api=False),
    Route("GET", "/static/{name}", static_files.file, api=False),
    Route("GET", "/api/health", answers.health),
    Route("GET", "/api/collection", answers.collection),
    Route("GET", "/api/expect", answers.expect),
    Route("GET", "/api/complete", answers.complete),
    Route("GET", "/api/search", answers.search),
    Route("GET", "/api/items/{row}", answers.item),
    Route("GET", "/api/pictures/{row}", answers.picture, JPEG),
    Route("GET", "/api/decide", answers.decide),
    Route("POST", "/api/classify", answers.classify, JSON, (413, 429)),
    Route("GET", "/api/reliability", answers.reliability),
    Route("GET", "/api/review", review_answers.review),
    Route("PUT", "/api/review/{row}", review_answers.edit, JSON, (413, 507)),
    Route("POST", "/api/review/undo", review_answers.undo, JSON, (409, 507)),
    Route("GET", "/api/review/file", review_answers.labels_file, CSV, (507,)),
)
