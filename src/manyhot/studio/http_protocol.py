"""uvicorn's HTTP protocol with a timeout for headers and a limit of connections."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from manyhot.studio.middleware import SECURITY_HEADERS

# Connections that are open at once; a browser has six.
MOST_OPEN = 500
# Seconds that the head of a request may take to arrive, from when the connection is free for it.
HEAD_SECONDS = 20.0
# Seconds in which somebody may read why they were refused, before what they are still sending is cut off.
LAST_SECONDS = 2.0
# Bytes that are read at once. All that comes in one piece is taken apart before anybody else is heard.
READ_BYTES = 2**14
# Bytes of the head of a request. A query of 10,000 characters may take twelve for each of them in an address.
MAX_HEADER_BYTES = 2**17
INVALID_REQUEST = "This is no request that a browser sends, or its address and headers are too long."


class HeaderTimeoutProtocol(H11Protocol):
    """One connection.

    uvicorn reads HTTP by whatever parser happens to be installed; one of them takes headers without an end into memory.
    This is the parser that bounds them, whatever else is there. Besides, somebody who connects and says nothing, or
    a byte a minute, would have a connection for ever.
    """

    _head: asyncio.TimerHandle | None = None
    _refused = False

    def connection_made(self, transport: Any) -> None:
        """Begins to wait for a request, or closes where too many do."""
        super().connection_made(transport)
        if len(self.connections) > MOST_OPEN:
            transport.abort()
            return
        transport.max_size = READ_BYTES
        self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Waits no more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Takes what comes, unless nothing of it is understood."""
        if not self._refused:
            super().data_received(data)

    def on_response_complete(self) -> None:
        """Waits for the next request, also if some bytes of it come and no more."""
        self._await_head()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answers what is no HTTP in the form of all problems; closes where an answer has begun already."""
        self._refused = True
        if self.cycle is not None:  # whoever still works at an answer need not send it
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
        # To close at once would take the answer back from who has not read it yet.
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
        """Closes a connection that no request has come by; one that is being answered goes on."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
