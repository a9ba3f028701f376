"""Binds a port and serves the studio until it is stopped."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import socket
import sys
import webbrowser
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from manyhot.errors import InputError, owned
from manyhot.studio.middleware import is_loopback, loopback_names
from manyhot.studio.session import Studio

if TYPE_CHECKING:
    import uvicorn

    from manyhot.studio.middleware import AccessGuard

DEFAULT_PORT = 8642
# Ports that are tried after the default one, which another studio may use.
MAX_PORTS_TRIED = 20
SHUTDOWN_TIMEOUT = 5


class Address(NamedTuple):
    """Where the server listens, and how it is accessed.

    Attributes:
        listener: The open socket.
        url: The URL for a browser, with the token if one is needed.
        token: The access token; None on the loopback address.
        hosts: The accepted host names; None for any.
    """

    listener: socket.socket
    url: str
    token: str | None
    hosts: frozenset[str] | None


@owned("manyhot studio")
def bind(host: str = "127.0.0.1", port: int | None = None, *, token: str | None = None) -> Address:
    """Opens a port; by default the usual one, or the next free one.

    Args:
        host: The address to listen on.
        port: The port; 0 for any free one.
        token: The access token; generated if one is needed and none is passed.
    """
    if token is not None and not re.fullmatch(r"[A-Za-z0-9._~-]+", token):
        rule = "have letters, digits and `-._~` only, which fit into an address and into a cookie"
        raise InputError("--token", rule=rule, got=repr(token), hint="Leave it out to have one generated.")
    listener = _bound_socket(host, port)
    local = is_loopback(host)
    if token is None and not local:
        token = secrets.token_urlsafe(24)
    number = listener.getsockname()[1]
    name = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):
        name = socket.gethostname()
    url = f"http://{name}:{number}/" + (f"?token={token}" if token else "")
    return Address(listener, url, token, loopback_names(host) if local else None)


def serve(studio: Studio, address: Address, *, started: Callable[[], None] | None = None) -> None:
    """Serves requests until the process is interrupted, then finishes those in progress and closes the studio.

    Args:
        studio: The open studio.
        address: Where to listen.
        started: Called when the first request can be answered.
    """
    from manyhot.studio.app import build_app

    server = make_server(build_app(studio, token=address.token, hosts=address.hosts), started=started)
    # Ctrl+C is the normal way to stop; the server has shut down when the interrupt arrives here.
    with contextlib.closing(address.listener), contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[address.listener])


def make_server(app: AccessGuard, *, started: Callable[[], None] | None = None) -> uvicorn.Server:
    """The server of an application, configured independently of other installed packages.

    Args:
        app: The application behind its guard.
        started: Called when the first request can be answered.
    """
    import uvicorn

    from manyhot.studio.http_protocol import MAX_HEADER_BYTES, HeaderTimeoutProtocol

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if started is not None and self.started:
                started()

    config = uvicorn.Config(
        app,
        http=HeaderTimeoutProtocol,
        h11_max_incomplete_event_size=MAX_HEADER_BYTES,
        loop="asyncio",
        ws="none",
        proxy_headers=False,  # clients could forge these headers
        log_level="error",
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=SHUTDOWN_TIMEOUT,
    )
    # It would print a line for every malformed body.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
    return Server(config)


def open_browser(url: str) -> bool:
    """Opens the page in a browser of this machine; returns whether there is one."""
    windows = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not windows:
        return False
    return webbrowser.open(url)


def _bound_socket(host: str, port: int | None) -> socket.socket:
    """A socket that is bound to the address; raises if that fails."""
    wanted = [port] if port is not None else [*range(DEFAULT_PORT, DEFAULT_PORT + MAX_PORTS_TRIED), 0]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem: OSError | None = None
    for number in wanted:
        # With an explicit protocol: otherwise asyncio does not disable Nagle's algorithm, and responses wait 40 ms.
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        if os.name == "posix":  # elsewhere it would let two servers share a port
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen(socket.SOMAXCONN)
        except OSError as error:
            listener.close()
            problem = error
            continue
        return listener
    assert problem is not None
    hint = "Choose another port, or leave --port out." if port else "Choose an address of this machine."
    got = f"{host}:{port if port is not None else DEFAULT_PORT} ({problem.strerror or problem})"
    raise InputError("--port" if port else "--host", rule="be free to listen on", got=got, hint=hint)
