"""uvicorn's HTTP protocol with a timeout for headers and a limit of connections."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from manyhot.studio.middleware import SECURITY_HEADERS

# Open connections; a browser uses six.
MOST_OPEN = 500
# Seconds for the head of a request to arrive, from when the connection is free for it.
HEAD_SECONDS = 20.0
# Seconds for a client to read an error response before the connection is closed.
LAST_SECONDS = 2.0
# Bytes per read. Each piece is parsed before other connections are served.
READ_BYTES = 2**14
# Bytes of the head of a request. A query of 10,000 characters may take twelve for each of them in an address.
MAX_HEADER_BYTES = 2**17
INVALID_REQUEST = "This is no request that a browser sends, or its address and headers are too long."


class HeaderTimeoutProtocol(H11Protocol):
    """One connection.

    uvicorn uses whichever HTTP parser is installed, one of which reads endless headers into memory. This parser limits
    them. It also closes connections whose request does not arrive in time, which would otherwise stay open forever.
    """

    _head: asyncio.TimerHandle | None = None
    _rejected = False

    def connection_made(self, transport: Any) -> None:
        """Waits for a request, or closes if there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) > MOST_OPEN:
            transport.abort()
            return
        transport.max_size = READ_BYTES
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels the timeout."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parses received data, unless the request was invalid."""
        if not self._rejected:
            super().data_received(data)

    def on_response_complete(self) -> None:
        """Starts the timeout of the next request, which may have arrived in part."""
        self._await_head()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers an invalid request in the form of all errors; closes the connection if a response has begun."""
        self._rejected = True
        if self.cycle is not None:  # a response in progress is dropped
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.close()
            return
        body = json.dumps({"sentence": INVALID_REQUEST, "place": None}).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        headers += [(b"connection", b"close"), (b"cache-control", b"no-store"), *SECURITY_HEADERS]
        response = h11.Response(status_code=400, headers=headers, reason=b"Bad Request")
        for event in (response, h11.Data(data=body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        # Closing at once could discard the response before the client has read it.
        self.transport.write_eof()
        self.loop.call_later(LAST_SECONDS, self.transport.close)

    def _await_head(self) -> None:
        self._stop_waiting()
        self._head = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _give_up(self) -> None:
        """Closes a connection without a request; one with a response in progress stays open."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
