"""The page itself: files of this package, and no others."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from fastapi import Request, Response

from manyhot.studio.problems import NotHere

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@cache
def contents() -> dict[str, tuple[bytes, str]]:
    """The bytes and the mark of each file, by its name; read once, so that no name can lead anywhere else."""
    found = {}
    for entry in files("manyhot.studio").joinpath("static").iterdir():
        if entry.is_file() and entry.name.rsplit(".", 1)[-1] in KINDS:
            data = entry.read_bytes()
            found[entry.name] = (data, f'"{hashlib.sha256(data).hexdigest()[:32]}"')
    return found


def page(request: Request) -> Response:
    """The page."""
    return file(request, "index.html")


def file(request: Request, name: str) -> Response:
    """A file of the page."""
    if name not in contents():
        raise NotHere("The page has no such file.")
    data, mark = contents()[name]
    headers = {"etag": mark, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == mark:
        return Response(status_code=304, headers=headers)
    return Response(data, media_type=KINDS[name.rsplit(".", 1)[-1]], headers=headers)
