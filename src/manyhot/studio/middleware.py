"""ASGI middleware: access control, security headers, and limits of request bodies."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs, urlsplit

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

COOKIE = "manyhot_studio"
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# What browsers say of a request that a page of another site has caused, or one of another server of this machine.
FOREIGN_SITES = ("cross-site", "same-site")
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = (
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


@dataclass(frozen=True)
class AccessPolicy:
    """Which requests are accepted.

    Attributes:
        token: The access token; None on the loopback address.
        hosts: The accepted host names; None for any. They reject pages of other sites whose name resolves to this
            machine (DNS rebinding).
    """

    token: str | None
    hosts: frozenset[str] | None


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def loopback_names(host: str) -> frozenset[str]:
    """The host names of a server on the loopback address."""
    return frozenset({"localhost", "127.0.0.1", "::1", host.strip("[]").lower()})


class AccessGuard:
    """Middleware that checks access before the request is read.

    Args:
        app: The application.
        policy: Which requests are accepted.
    """

    def __init__(self, app: App, policy: AccessPolicy) -> None:
        self.app, self.policy = app, policy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, or rejects it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        problem = self._problem(scope, headers)
        if problem is not None:
            await send_error(send, *problem)
        elif self._is_token(_token_in_address(scope)):
            await self._set_cookie(send)
        elif self._is_authorized(headers):
            await self.app(scope, receive, send)
        else:
            await send_error(send, 401, "Open the address with the token that the studio printed when it was started.")

    def _problem(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Status and message for a request from a wrong origin; None if it is accepted."""
        host = headers.get("host", "")
        if self.policy.hosts is not None and _name_of(host) not in self.policy.hosts:
            return 421, f"This server answers to {', '.join(sorted(self.policy.hosts))}; open it by one of these names."
        if headers.get("sec-fetch-site") in FOREIGN_SITES and scope["path"].startswith("/api/"):
            return 403, "The studio answers its own page, not that of another site."
        origin = headers.get("origin")
        if scope["method"] not in SAFE_METHODS and origin is not None and _site(origin) != (host.lower() or None):
            return 403, "Requests that change something are accepted from the studio's own page only."
        return None

    def _is_authorized(self, headers: dict[str, str]) -> bool:
        """Whether a request has the token, in a cookie or in a header, or needs none."""
        shown = [headers.get("authorization", "").removeprefix("Bearer ").strip(), *_cookies(headers.get("cookie", ""))]
        return self.policy.token is None or any(self._is_token(one) for one in shown)

    def _is_token(self, shown: str) -> bool:
        token = self.policy.token
        return token is not None and secrets.compare_digest(shown.encode(), token.encode())

    async def _set_cookie(self, send: Send) -> None:
        """Stores the token in a cookie, and removes it from the URL, where others could read it."""
        cookie = f"{COOKIE}={self.policy.token}; HttpOnly; SameSite=Strict; Path=/"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request by their names."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def send_error(send: Send, status: int, message: str, *, close: bool = False) -> None:
    """Sends an error response in the form of all errors.

    Args:
        send: The ASGI channel.
        status: The HTTP status.
        message: The message.
        close: Whether to close without reading the rest of the request. A client that is still sending may then see a
            broken connection instead of the response.
    """
    body = json.dumps({"sentence": message, "place": None}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")] if close else []
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _name_of(host: str) -> str:
    """The name of a host without its port."""
    name = host.rsplit("]", 1)[0].lstrip("[") if host.startswith("[") else host.rsplit(":", 1)[0]
    return name.lower()


def _site(origin: str) -> str | None:
    """Name and port of an origin; None for one that is none."""
    try:
        return urlsplit(origin).netloc.lower() or None
    except ValueError:
        return None


def _token_in_address(scope: Scope) -> str:
    """The token of the address that was printed; nothing in any other address."""
    if scope["path"] != "/" or scope["method"] != "GET":
        return ""
    query_string: bytes = scope.get("query_string", b"")
    return parse_qs(query_string.decode("latin-1")).get("token", [""])[0]


def _cookies(text: str) -> list[str]:
    """The values of our cookie; what other servers of this machine have put beside it may be of any form."""
    pairs = (pair.partition("=") for pair in text.split(";"))
    return [value.strip() for name, _, value in pairs if name.strip() == COOKIE]


def _with_headers(send: Send) -> Send:
    """Adds to every answer what a browser may do with it."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            if all(name.lower() != b"cache-control" for name, _ in headers):
                headers.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*headers, *SECURITY_HEADERS]}
        await send(message)

    return send_with_headers


# A body without an image: edits of all labels of an image.
MAX_BODY_BYTES = 2**20
# All bodies in progress: they are in memory, or in temporary files.
MAX_TOTAL_BYTES = 256 * 2**20
# Seconds for a body to arrive.
BODY_TIMEOUT = 120.0
LENGTH_REQUIRED = "Send the number of bytes in the header Content-Length."
TOO_SLOW = "It took too long to send this. Try again with a smaller file."
TOO_MUCH = "Too much is being sent at once. Try again in a second."


class BodyRejected(Exception):
    """Raised while reading a body that is too long, too slow, or one of too many."""


class BodyLimit:
    """Middleware that limits the size and the duration of request bodies.

    Args:
        app: The application.
        large: Larger limits in bytes for paths with uploads, by path.
        together: The limit in bytes of all bodies in progress.
        seconds: The time limit of a body.
    """

    def __init__(
        self, app: App, large: dict[str, int], *, together: int = MAX_TOTAL_BYTES, seconds: float = BODY_TIMEOUT
    ) -> None:
        self.app, self.large, self.together, self.seconds = app, large, together, seconds
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, and stops it if its body exceeds the limit, whatever its header states."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit, headers = self.large.get(scope["path"], MAX_BODY_BYTES), headers_of(scope)
        if "transfer-encoding" in headers:
            # Parsing chunks of one byte costs a thousand times more than sending them.
            await send_error(send, 411, LENGTH_REQUIRED, close=True)
            return
        if content_length(headers.get("content-length", "0")) > limit:
            await send_error(send, 413, too_large(limit))
            return
        body = _LimitedBody(self, receive, send, limit)
        try:
            await self.app(scope, body.receive, body.send)
        except BodyRejected:
            pass
        finally:
            self.under_way -= body.received
        if body.rejection is not None and not body.started:
            await send_error(send, *body.rejection)


class _LimitedBody:
    """The body of one request, counted as it arrives."""

    def __init__(self, limited: BodyLimit, receive: Receive, send: Send, limit: int) -> None:
        self._limited, self._receive, self._send, self._limit = limited, receive, send, limit
        self._end = asyncio.get_running_loop().time() + limited.seconds
        self.received, self.complete, self.started = 0, False, False
        self.rejection: tuple[int, str] | None = None

    async def receive(self) -> Message:
        """The next part of the body."""
        if self.complete:  # after the body only a disconnect arrives
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._end):
                message = await self._receive()
        except TimeoutError:
            raise self._reject(408, TOO_SLOW) from None
        size = len(message.get("body", b""))
        self.received += size
        self._limited.under_way += size
        self.complete = not message.get("more_body", False)
        if self.received > self._limit:
            raise self._reject(413, too_large(self._limit))
        if self._limited.under_way > self._limited.together:
            raise self._reject(429, TOO_MUCH)
        return message

    async def send(self, message: Message) -> None:
        """Sends the response of the application, unless the body was rejected meanwhile."""
        if self.rejection is None:
            self.started = True
            await self._send(message)

    def _reject(self, status: int, text: str) -> BodyRejected:
        self.rejection = status, text
        return BodyRejected(text)


def content_length(text: str) -> int:
    """The length stated in the header; 0 if it is not a number.

    Example:
        >>> content_length("512"), content_length("1e9")
        (512, 0)
    """
    # More digits than these mean an absurd length, and parsing thousands of digits is slow.
    return int(text[:30]) if text.isascii() and text.isdigit() else 0


def too_large(limit: int) -> str:
    """The message for a body that is too large."""
    return f"A request may have at most {limit:,} bytes. Send a smaller file."
