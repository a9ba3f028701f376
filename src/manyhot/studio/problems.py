"""Everything that can be wrong with a request, as one sentence and a status."""

from __future__ import annotations

import logging
from typing import Any

import duckdb
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from manyhot.refusal import Refusal
from manyhot.studio.classifying import TooBusy
from manyhot.studio.messages import Problem
from manyhot.studio.reviewing import NotSaved
from manyhot.studio.session import NoSuchRow

LOG = logging.getLogger("manyhot.studio")
# What a validator may repeat of a value that was refused.
SHOWN = 60
WORDS = {404: "There is nothing at this address.", 405: "This address does not take such a request."}


class NotHere(Exception):
    """Something that this collection does not have.

    Args:
        sentence: What is not there, and what to do about it.
        status: Of the answer.
    """

    def __init__(self, sentence: str, *, status: int = 404) -> None:
        super().__init__(sentence)
        self.status = status


def answer_problems(app: FastAPI) -> None:
    """Makes an application answer every problem in the same form."""
    app.add_exception_handler(NotHere, _not_here)
    app.add_exception_handler(NoSuchRow, _no_such_row)
    app.add_exception_handler(TooBusy, _too_busy)
    app.add_exception_handler(NotSaved, _not_saved)
    app.add_exception_handler(Refusal, _refused)
    app.add_exception_handler(duckdb.Error, _too_hard)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(OSError, _broken)
    app.add_exception_handler(Exception, _broken)


def problem(status: int, sentence: str, *, headers: dict[str, str] | None = None) -> Any:
    """The answer of a problem."""
    # A sentence may repeat what was sent, and that may hold halves of characters, which no answer can.
    sentence = sentence.encode("utf-8", "backslashreplace").decode()
    return JSONResponse(Problem(sentence=sentence).model_dump(), status, headers)


def _not_here(_: Request, error: Any) -> Any:
    return problem(error.status, str(error))


def _no_such_row(_: Request, error: Exception) -> Any:
    return problem(404, str(error))


def _too_busy(_: Request, error: Exception) -> Any:
    return problem(429, "Too many pictures are being classified. Try again in a second.", headers={"retry-after": "1"})


def _not_saved(_: Request, error: Exception) -> Any:
    return problem(507, str(error))


def _refused(_: Request, error: Exception) -> Any:
    return problem(422, " ".join(str(error).split()))


def _too_hard(_: Request, error: Exception) -> Any:
    said = str(error).splitlines()[0].rstrip(".")
    return problem(422, f"The query asks for too much at once; DuckDB says: {said}. Ask for less.")


def _not_valid(_: Request, error: Any) -> Any:
    first = error.errors()[0]
    where = _shown(".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0]))
    got = _shown(repr(first.get("input")))
    return problem(422, f"`{where}` of the request cannot be taken: {first['msg']}; got {got}.")


def _shown(text: str) -> str:
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


def _http(_: Request, error: Any) -> Any:
    sentence = WORDS.get(error.status_code) or f"{str(error.detail).rstrip('.')}."
    return problem(error.status_code, sentence, headers=getattr(error, "headers", None))


def _broken(request: Request, error: Exception) -> Any:
    # Not `request.url`, which cannot be made of every name that a request is sent to.
    LOG.error("%s %r failed", request.method, request.scope["path"], exc_info=error)
    return problem(500, f"The server failed at this: {type(error).__name__}. Its log says more.")
