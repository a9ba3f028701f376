"""How much may be sent, by one request and by all of them together, and how long it may take to come."""

from __future__ import annotations

import asyncio

from manyhot.studio.guarding import App, Message, Receive, Scope, Send, answer, headers_of

# A body that is no picture: edits of all labels of a picture.
BODY_BYTES = 2**20
# All bodies that are under way: they are in memory, or in temporary files.
TOGETHER_BYTES = 256 * 2**20
# Seconds in which a body must have come.
BODY_SECONDS = 120.0
UNSAID = "Say in the header Content-Length how many bytes are sent."
TOO_SLOW = "It took too long to send this. Try again with a smaller file."
TOO_MANY = "Too much is being sent at once. Try again in a second."


class NotTaken(Exception):
    """A body that is too long, too slow, or one of too many; raised through whoever reads it."""


class Limited:
    """An application that bodies reach only as far as they may.

    Args:
        app: The application.
        large: How many bytes may be sent to paths that take pictures, by path.
        together: How many bytes all bodies may have that are under way.
        seconds: In how many seconds a body must have come.
    """

    def __init__(
        self, app: App, large: dict[str, int], *, together: int = TOGETHER_BYTES, seconds: float = BODY_SECONDS
    ) -> None:
        self.app, self.large, self.together, self.seconds = app, large, together, seconds
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on, and stops it where its body turns out longer than it may be, whatever it said before."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit, headers = self.large.get(scope["path"], BODY_BYTES), headers_of(scope)
        if "transfer-encoding" in headers:
            # In chunks of a byte each, to take a body apart costs a thousand times what it costs to send it.
            await answer(send, 411, UNSAID, close=True)
            return
        if said_length(headers.get("content-length", "0")) > limit:
            await answer(send, 413, too_large(limit))
            return
        body = _Body(self, receive, send, limit)
        try:
            await self.app(scope, body.receive, body.send)
        except NotTaken:
            pass
        finally:
            self.under_way -= body.taken
        if body.refused is not None and not body.begun:
            await answer(send, *body.refused)


class _Body:
    """The body of one request, counted as it comes."""

    def __init__(self, limited: Limited, receive: Receive, send: Send, limit: int) -> None:
        self._limited, self._receive, self._send, self._limit = limited, receive, send, limit
        self._end = asyncio.get_running_loop().time() + limited.seconds
        self.taken, self.complete, self.begun = 0, False, False
        self.refused: tuple[int, str] | None = None

    async def receive(self) -> Message:
        """The next piece of it."""
        if self.complete:  # what comes after a body is only that somebody has gone
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._end):
                message = await self._receive()
        except TimeoutError:
            raise self._not_taken(408, TOO_SLOW) from None
        size = len(message.get("body", b""))
        self.taken += size
        self._limited.under_way += size
        self.complete = not message.get("more_body", False)
        if self.taken > self._limit:
            raise self._not_taken(413, too_large(self._limit))
        if self._limited.under_way > self._limited.together:
            raise self._not_taken(429, TOO_MANY)
        return message

    async def send(self, message: Message) -> None:
        """Sends the answer of the application, unless the body was refused in the middle."""
        if self.refused is None:
            self.begun = True
            await self._send(message)

    def _not_taken(self, status: int, sentence: str) -> NotTaken:
        self.refused = status, sentence
        return NotTaken(sentence)


def said_length(text: str) -> int:
    """How long a body is said to be; 0 where that is not said in digits.

    Example:
        >>> said_length("512"), said_length("1e9")
        (512, 0)
    """
    # More digits than these are as good as endless, and Python would take its time to read thousands of them.
    return int(text[:30]) if text.isascii() and text.isdigit() else 0


def too_large(limit: int) -> str:
    """What is said to who sends too much."""
    return f"What is sent may have at most {limit:,} bytes. Send a smaller file."
