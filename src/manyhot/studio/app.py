"""The studio as a web application: routes, error handlers and middleware put together."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from manyhot import __version__
from manyhot.errors import InputError
from manyhot.studio.classify import UPLOAD_BYTES, TooManyUploads
from manyhot.studio.middleware import AccessGuard, AccessPolicy, BodyLimit
from manyhot.studio.review_journal import WriteError
from manyhot.studio.routes import JSON, ROUTES, Route
from manyhot.studio.schemas import Problem
from manyhot.studio.session import NoSuchRow, RequestError, Studio

LOG = logging.getLogger("manyhot.studio")
# Characters of an invalid value that a message may repeat.
MAX_VALUE_PREVIEW = 60
HTTP_MESSAGES = {404: "There is nothing at this address.", 405: "This address does not take such a request."}


def add_error_handlers(app: FastAPI) -> None:
    """Adds handlers that give all errors the same form."""
    app.add_exception_handler(RequestError, _request_error)
    app.add_exception_handler(NoSuchRow, _no_such_row)
    app.add_exception_handler(TooManyUploads, _too_busy)
    app.add_exception_handler(WriteError, _write_error)
    app.add_exception_handler(InputError, _input_error)
    app.add_exception_handler(RequestValidationError, _validation_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(OSError, _internal_error)
    app.add_exception_handler(Exception, _internal_error)


def error_response(status: int, message: str, *, headers: dict[str, str] | None = None) -> Any:
    """The response of an error."""
    # A message may repeat parts of the request with lone surrogates, which a response cannot encode.
    message = message.encode("utf-8", "backslashreplace").decode()
    return JSONResponse(Problem(sentence=message).model_dump(), status, headers)


def _request_error(_: Request, error: Any) -> Any:
    return error_response(error.status, str(error))


def _no_such_row(_: Request, error: Exception) -> Any:
    return error_response(404, str(error))


def _too_busy(_: Request, error: Exception) -> Any:
    return error_response(
        429, "Too many images are being classified. Try again in a second.", headers={"retry-after": "1"}
    )


def _write_error(_: Request, error: Exception) -> Any:
    return error_response(507, str(error))


def _input_error(_: Request, error: Exception) -> Any:
    return error_response(422, " ".join(str(error).split()))


def _validation_error(_: Request, error: Any) -> Any:
    first = error.errors()[0]
    where = _preview(".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0]))
    got = _preview(repr(first.get("input")))
    return error_response(422, f"`{where}` of the request is invalid: {first['msg']}; got {got}.")


def _preview(text: str) -> str:
    return text if len(text) <= MAX_VALUE_PREVIEW else text[: MAX_VALUE_PREVIEW - 1] + "…"


def _http_error(_: Request, error: Any) -> Any:
    message = HTTP_MESSAGES.get(error.status_code) or f"{str(error.detail).rstrip('.')}."
    return error_response(error.status_code, message, headers=getattr(error, "headers", None))


def _internal_error(request: Request, error: Exception) -> Any:
    # Not `request.url`, which fails for some host names.
    LOG.error("%s %r failed", request.method, request.scope["path"], exc_info=error)
    return error_response(500, f"The server failed at this: {type(error).__name__}. Its log says more.")


# Bytes of a multipart body besides the file itself.
ENVELOPE_BYTES = 64 * 2**10
# Descriptions of error responses of all routes, and of some; the message of the response has the details.
ERROR_RESPONSES = {404: "Not found.", 422: "Invalid request."}
MORE_ERROR_RESPONSES = {
    409: "Nothing to undo.",
    413: "Too large.",
    429: "Too many requests; try again.",
    507: "Writing to the disk failed.",
}
# Requests that are processed at once; each holds some tables of all cells.
MAX_CONCURRENT_REQUESTS = 8


def build_api(studio: Studio) -> FastAPI:
    """The application without its guard, for tests and for its OpenAPI description."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        current_default_thread_limiter().total_tokens = MAX_CONCURRENT_REQUESTS
        yield
        try:
            studio.close()
        except InputError as error:  # the edits are in the journal
            LOG.error("%s", error)

    app = FastAPI(
        title="manyhot studio",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,  # its page would load scripts from another site
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat the host name of the request
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
            responses=describe_responses(route),
            **form,
        )
    add_error_handlers(app)
    return app


def describe_responses(route: Route) -> dict[int | str, dict[str, Any]]:
    """The responses of a route besides the one described by its types."""
    problems = ERROR_RESPONSES | {status: MORE_ERROR_RESPONSES[status] for status in route.problems}
    responses: dict[int | str, dict[str, Any]] = {
        status: {"description": text, "content": {JSON: {"schema": {"$ref": "#/components/schemas/Problem"}}}}
        for status, text in problems.items()
    }
    if route.kind == JSON:
        return responses | {422: {"model": Problem, "description": ERROR_RESPONSES[422]}}
    return responses | {200: {"content": {route.kind: {}}}}


def build_app(studio: Studio, *, token: str | None = None, hosts: frozenset[str] | None = None) -> AccessGuard:
    """The application as it is served.

    Args:
        studio: The open studio.
        token: The access token; None if the server is reachable from this machine only.
        hosts: The accepted host names; None for any.
    """
    limited = BodyLimit(build_api(studio), {"/api/classify": UPLOAD_BYTES + ENVELOPE_BYTES})
    return AccessGuard(limited, AccessPolicy(token, hosts))
