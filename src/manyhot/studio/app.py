"""The studio as a web application."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Response

from manyhot import __version__
from manyhot.refusal import Refusal
from manyhot.studio.bodies import Limited
from manyhot.studio.classifying import UPLOAD_BYTES
from manyhot.studio.guarding import Guard, Guarded
from manyhot.studio.messages import Problem
from manyhot.studio.problems import answer_problems
from manyhot.studio.routes import JSON, ROUTES, Route
from manyhot.studio.session import Studio

# What a multipart body has besides the file itself.
ENVELOPE_BYTES = 64 * 2**10
# What any request may be told, and what some are; the sentence says why.
PROBLEMS = {404: "It is not here.", 422: "It cannot be taken."}
MORE_PROBLEMS = {
    409: "There is nothing to do.",
    413: "It is too large.",
    429: "Others are first; try again.",
    507: "It could not be written to the disk.",
}
# Requests that are computed at once; each holds some tables of all cells while it is.
AT_ONCE = 8
LOG = logging.getLogger("manyhot.studio")


def build_api(studio: Studio) -> FastAPI:
    """The application without its guard, for tests and for what describes it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = AT_ONCE
        yield
        try:
            studio.close()
        except Refusal as error:  # the edits are in the journal; who started the studio is told
            LOG.error("%s", error)

    app = FastAPI(
        title="manyhot studio",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,  # its page would be loaded from another site
        redoc_url=None,
        redirect_slashes=False,  # a redirect would lead to whatever name the request was sent to
        lifespan=lifespan,
    )
    app.state.studio = studio
    for route in ROUTES:
        form: dict[str, Any] = {} if route.kind == JSON else {"response_class": Response}
        app.add_api_route(
            route.path,
            route.answer,
            methods=[route.method],
            summary=(route.answer.__doc__ or "").split("\n")[0],
            include_in_schema=route.api,
            responses=described(route),
            **form,
        )
    answer_problems(app)
    return app


def described(route: Route) -> dict[int | str, dict[str, Any]]:
    """The answers of a route besides the one that its types describe."""
    problems = PROBLEMS | {status: MORE_PROBLEMS[status] for status in route.problems}
    found: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "content": {JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
        for status, text in problems.items()
    }
    if route.kind == JSON:
        return found | {422: {"model": Problem, "description": PROBLEMS[422]}}
    return found | {200: {"content": {route.kind: {}}}}


def build_app(studio: Studio, *, token: str | None = None, hosts: frozenset[str] | None = None) -> Guarded:
    """The application as it is served.

    Args:
        studio: What is open.
        token: What everybody must show; None where only this machine can ask.
        hosts: The names under which it may be spoken to; None for any.
    """
    limited = Limited(build_api(studio), {"/api/classify": UPLOAD_BYTES + ENVELOPE_BYTES})
    return Guarded(limited, Guard(token, hosts))
