"""A studio to be attacked, served for real by a thread of the tests, and every answer of it looked at."""

import contextlib
import http.client
import io
import json
import os
import re
import socket
import threading
from typing import NamedTuple

from PIL import Image

from manyhot.studio.server import make_server
from tests.waiting import HANG

# What lies outside of the collection: a colour that no picture of it has, and a text.
FORBIDDEN_COLOUR = (255, 0, 254)
FORBIDDEN_TEXT = b"canary-5e0f4c1d"
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
BOUNDARY = b"the-boundary"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def sentence(self):
        return json.loads(self.body)["sentence"]


class Target:
    """A server on this machine.

    Args:
        port: Where it listens.
    """

    def __init__(self, port):
        self.port, self.host = port, f"127.0.0.1:{port}"

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=HANG)

    def head(self, path, *, method="GET", **headers):
        """A request up to its body; headers are written with underscores, None leaves one out."""
        given = {"host": self.host, **{name.replace("_", "-"): value for name, value in headers.items()}}
        lines = [f"{name}: {value}" for name, value in given.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1")

    def ask(self, path, *, method="GET", body=None, **headers):
        """Sends a request as it is, however wrong, and gives the answer, which is checked."""
        if body is not None:
            headers.setdefault("content_length", len(body))
        with self.connect() as connection:
            return self.answer(connection, self.head(path, method=method, **headers) + (body or b""), method=method)

    def answer(self, connection, data, *, method="GET"):
        """What is answered to some bytes; what is left of them may not be wanted any more."""
        with contextlib.suppress(ConnectionError):
            connection.sendall(data)
        response = http.client.HTTPResponse(connection, method=method)
        with contextlib.closing(response):
            response.begin()
            headers = {name.lower(): value for name, value in response.getheaders()}
            return checked(Answer(response.status, headers, response.read()))

    def upload(self, data, *, name=b"a.png", path="/api/classify", **headers):
        return self.send_form(part(data, name=name) + END, path=path, **headers)

    def send_form(self, body, *, path="/api/classify", kind=None, **headers):
        kind = f"multipart/form-data; boundary={BOUNDARY.decode()}" if kind is None else kind
        return self.ask(path, method="POST", body=body, content_type=kind, **headers)

    def is_alive(self):
        return self.ask("/api/health").body == b'{"alive":true}'


def checked(answer):
    """The answer, after a look at what must hold of every one."""
    assert answer.status < 500, answer
    for name, value in HEADERS.items():
        assert answer.headers[name] == value, answer
    assert "cache-control" in answer.headers
    assert "server" not in answer.headers
    assert FORBIDDEN_TEXT not in answer.body
    if answer.status >= 400 and answer.body:
        assert answer.headers["content-type"] == "application/json"
        said = json.loads(answer.body)
        assert set(said) == {"sentence", "place"}
        assert re.fullmatch(r"\S.*[^.][.?]", said["sentence"]), said
    if answer.headers.get("content-type") == "image/jpeg":
        assert not is_forbidden(answer.body)
    return answer


def is_forbidden(data):
    """Whether a picture has the colour of those that lie outside."""
    with Image.open(io.BytesIO(data)) as picture:
        colour = picture.convert("RGB").resize((1, 1)).getpixel((0, 0))
    return all(abs(one - other) < 30 for one, other in zip(colour, FORBIDDEN_COLOUR, strict=True))


def part(data, *, field=b"image", name=b"a.png", more=b"", boundary=BOUNDARY):
    """One part of a form; without a name of a file if that is None."""
    named = b"" if name is None else b'; filename="' + name + b'"'
    head = b'Content-Disposition: form-data; name="' + field + b'"' + named + b"\r\n" + more
    return b"--" + boundary + b"\r\n" + head + b"\r\n" + data + b"\r\n"


END = b"--" + BOUNDARY + b"--\r\n"


@contextlib.contextmanager
def served(app, address):
    """An application served at an address by a thread, until the block ends."""
    started = threading.Event()
    server = make_server(app, started=started.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [address.listener]})
    thread.start()
    try:
        assert started.wait(HANG)
        yield Target(address.listener.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(HANG)
        address.listener.close()
    assert not thread.is_alive()


def resident(process, *, peak=False):
    """Megabytes of memory that a process has, or has had since `forget_peak`."""
    with open(f"/proc/{process}/status") as file:
        return int(re.search(rf"{'VmHWM' if peak else 'VmRSS'}:\s+(\d+) kB", file.read()).group(1)) / 1024


def forget_peak(process):
    with open(f"/proc/{process}/clear_refs", "w") as file:
        file.write("5")


def open_files(process):
    """How many files and connections a process has open."""
    return len(os.listdir(f"/proc/{process}/fd"))
