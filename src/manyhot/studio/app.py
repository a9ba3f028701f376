"""The studio as a web application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from manyhot import __version__
from manyhot.studio.bodies import Limited
from manyhot.studio.classifying import UPLOAD_BYTES
from manyhot.studio.guarding import Guard, Guarded
from manyhot.studio.messages import Problem
from manyhot.studio.problems import answer_problems
from manyhot.studio.routes import ROUTES
from manyhot.studio.session import Studio

# What a multipart body has besides the file itself.
ENVELOPE_BYTES = 64 * 2**10
PROBLEMS = {404: "It is not here.", 422: "It cannot be taken; the sentence says why."}


def build_api(studio: Studio) -> FastAPI:
    """The application without its guard, for tests and for what describes it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        studio.close()

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
    responses = {status: {"model": Problem, "description": text} for status, text in PROBLEMS.items()}
    for route in ROUTES:
        app.add_api_route(
            route.path,
            route.answer,
            methods=[route.method],
            summary=(route.answer.__doc__ or "").split("\n")[0],
            include_in_schema=route.api,
            responses=responses,  # type: ignore[arg-type]
        )
    answer_problems(app)
    return app


def build_app(studio: Studio, *, token: str | None = None, hosts: frozenset[str] | None = None) -> Guarded:
    """The application as it is served.

    Args:
        studio: What is open.
        token: What everybody must show; None where only this machine can ask.
        hosts: The names under which it may be spoken to; None for any.
    """
    limited = Limited(build_api(studio), {"/api/classify": UPLOAD_BYTES + ENVELOPE_BYTES})
    return Guarded(limited, Guard(token, hosts))
