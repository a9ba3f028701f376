"""Who may talk to the server, and what a browser may do with the page."""

from __future__ import annotations

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
FOREIGN = ("cross-site", "same-site")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


@dataclass(frozen=True)
class Guard:
    """What is let through.

    Attributes:
        token: What everybody must show who does not come from this machine alone; None on the loopback address.
        hosts: The names under which the server may be spoken to; None for any. A page of another site that has made
            its own name lead to this machine is refused by them.
    """

    token: str | None
    hosts: frozenset[str] | None


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone.

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
    """The names under which a server on the loopback address is spoken to."""
    return frozenset({"localhost", "127.0.0.1", "::1", host.strip("[]").lower()})


class Guarded:
    """An application behind a guard; refuses before anything is read or computed.

    Args:
        app: The application.
        guard: What is let through.
    """

    def __init__(self, app: App, guard: Guard) -> None:
        self.app, self.guard = app, guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or refuses it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, _with_headers(send))
        else:
            await send({"type": "websocket.close", "code": 1008})

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = headers_of(scope)
        refused = self._refused(scope, headers)
        if refused is not None:
            await answer(send, *refused)
        elif self._is_token(_token_in_address(scope)):
            await self._enter(send)
        elif self._knows(headers):
            await self.app(scope, receive, send)
        else:
            await answer(send, 401, "Open the address with the token that the studio printed when it was started.")

    def _refused(self, scope: Scope, headers: dict[str, str]) -> tuple[int, str] | None:
        """Why a request is refused for where it comes from; None if it is not."""
        host = headers.get("host", "")
        if self.guard.hosts is not None and _name_of(host) not in self.guard.hosts:
            return 421, f"This server answers to {', '.join(sorted(self.guard.hosts))}; open it by one of these names."
        if headers.get("sec-fetch-site") in FOREIGN and scope["path"].startswith("/api/"):
            return 403, "The studio answers its own page, not that of another site."
        origin = headers.get("origin")
        if scope["method"] not in SAFE_METHODS and origin is not None and _site(origin) != (host.lower() or None):
            return 403, "Requests that change something are taken from the studio's own page only."
        return None

    def _knows(self, headers: dict[str, str]) -> bool:
        """Whether a request shows the token, as a cookie or in a header; or needs none."""
        shown = [headers.get("authorization", "").removeprefix("Bearer ").strip(), *_cookies(headers.get("cookie", ""))]
        return self.guard.token is None or any(self._is_token(one) for one in shown)

    def _is_token(self, shown: str) -> bool:
        token = self.guard.token
        return token is not None and secrets.compare_digest(shown.encode(), token.encode())

    async def _enter(self, send: Send) -> None:
        """Keeps the token in a cookie, and takes it out of the address, where others could read it."""
        cookie = f"{COOKIE}={self.guard.token}; HttpOnly; SameSite=Strict; Path=/"
        headers = [(b"location", b"/"), (b"set-cookie", cookie.encode()), (b"content-length", b"0")]
        await send({"type": "http.response.start", "status": 303, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def headers_of(scope: Scope) -> dict[str, str]:
    """The headers of a request by their names."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


async def answer(send: Send, status: int, sentence: str, *, close: bool = False) -> None:
    """A refusal as all of them look.

    Args:
        send: Where it goes.
        status: Of the answer.
        sentence: For people.
        close: Whether what else is being sent is not even read. A client that is still sending may then see a broken
            connection, and not the answer.
    """
    body = json.dumps({"sentence": sentence, "place": None}).encode()
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
    asked: bytes = scope.get("query_string", b"")
    return parse_qs(asked.decode("latin-1")).get("token", [""])[0]


def _cookies(text: str) -> list[str]:
    """The values of our cookie; what other servers of this machine have put beside it may be of any form."""
    pairs = (pair.partition("=") for pair in text.split(";"))
    return [value.strip() for name, _, value in pairs if name.strip() == COOKIE]


def _with_headers(send: Send) -> Send:
    """Adds to every answer what a browser may do with it."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            said = list(message.get("headers", ()))
            if all(name.lower() != b"cache-control" for name, _ in said):
                said.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*said, *HEADERS]}
        await send(message)

    return send_with_headers
