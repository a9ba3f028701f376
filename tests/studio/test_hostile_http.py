"""The studio's server against clients that are impolite, impatient, or not who they say they are."""

import contextlib
import http.client
import json
import socket
import time

import pytest

from manyhot.studio import bind, open_studio
from manyhot.studio.app import build_api, build_app
from manyhot.studio.http_protocol import HEAD_SECONDS, HeaderTimeoutProtocol
from manyhot.studio.middleware import AccessGuard, AccessPolicy, BodyLimit, content_length
from tests.errors.expected import raises_input_error
from tests.studio.collections import write_collection
from tests.studio.targets import served
from tests.waiting import HANG, eventually

pytestmark = pytest.mark.process

TOKEN = "a-token_of.this~test"
REFUSED = "This is no request that a browser sends, or its address and headers are too long."


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    opened, _ = open_studio(write_collection(tmp_path_factory.mktemp("collection")), read_only=True)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def target(studio):
    address = bind("127.0.0.1", 0)
    with served(build_app(studio, token=address.token, hosts=address.hosts), address) as target:
        yield target


@pytest.fixture(scope="module")
def guarded(studio):
    """A server that asks for a token."""
    address = bind("127.0.0.1", 0, token=TOKEN)
    assert address.url.endswith(f"/?token={TOKEN}")
    with served(build_app(studio, token=address.token, hosts=address.hosts), address) as target:
        yield target


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:{port}", "127.0.0.1.evil.example", "localhost.", "[::2]", "", None, "@localhost"],
)
def test_a_name_that_was_made_to_lead_here_is_refused(target, host):
    answer = target.ask("/api/collection", host=host and host.format(port=target.port))
    assert answer.status == (421 if host is not None else 400)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:{port}", "127.0.0.1:{port}", "[::1]:{port}"])
def test_the_names_of_this_machine_are_taken(target, host):
    assert target.ask("/api/health", host=host.format(port=target.port)).status == 200


def test_two_names_at_once_are_refused(target):
    data = target.head("/api/health", accept="*/*").replace(b"accept: */*", b"host: evil.example")
    with target.connect() as connection:
        assert target.answer(connection, data).status == 400


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "http://127.0.0.1:1", "http://localhost:{port}", "null", "", "http://[", "file://"],
)
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/api/classify"), ("PUT", "/api/review/0"), ("POST", "/api/review/undo")]
)
def test_another_site_can_change_nothing(target, origin, method, path):
    answer = target.ask(path, method=method, body=b"{}", origin=origin.format(port=target.port))
    assert answer.status == 403
    assert "own page only" in answer.sentence


@pytest.mark.parametrize("origin", [None, "http://{host}"])
def test_the_page_itself_and_programs_can(target, origin):
    origin = origin and origin.format(host=target.host)
    answer = target.ask("/api/review/0", method="PUT", body=b"{}", origin=origin, content_type="application/json")
    assert answer.status == 422  # it was opened for reading only
    assert "--read-only" in answer.sentence


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_page_of_another_site_cannot_even_ask(target, site):
    answer = target.ask("/api/search?q=dog", sec_fetch_site=site, sec_fetch_mode="no-cors")
    assert answer.status == 403
    assert "not that of another site" in answer.sentence
    assert target.ask("/", sec_fetch_site=site, sec_fetch_mode="navigate").status == 200


@pytest.mark.parametrize("site", ["same-origin", "none", None])
def test_the_own_page_can(target, site):
    assert target.ask("/api/search?q=dog", sec_fetch_site=site).status == 200


def test_without_the_token_nothing_is_answered(guarded):
    for path in ("/", "/api/health", "/api/collection", "/static/app.js", "/api/openapi.json", "/nowhere"):
        for wrong in (None, "", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper()):
            said = {"authorization": wrong and f"Bearer {wrong}", "cookie": wrong and f"manyhot_studio={wrong}"}
            answer = guarded.ask(path, **said)
            assert answer.status == 401
            assert TOKEN.encode() not in answer.body
    assert guarded.ask("/", body=b"x" * 1000, method="POST").status == 401
    assert guarded.ask("/?token=wrong").status == 401
    assert guarded.ask(f"/api/health?token={TOKEN}").status == 401
    assert guarded.ask(f"/?token={TOKEN}", method="HEAD").status == 401


def test_the_token_is_taken_from_a_cookie_or_a_header(guarded):
    assert guarded.ask("/api/health", authorization=f"Bearer {TOKEN}").status == 200
    assert guarded.ask("/api/health", cookie=f"manyhot_studio={TOKEN}").status == 200
    # Cookies do not tell ports apart, and what other servers of this machine put there may be of any form.
    other = 'grid={"a": [1, 2]}; odd; =; manyhot_studio_other=1; x="\\\\\\"'
    assert guarded.ask("/api/health", cookie=f"{other}; manyhot_studio={TOKEN}; last=\x7f").status == 200


def test_the_token_leaves_the_address_and_becomes_a_cookie(guarded):
    for cookie in (None, f"manyhot_studio={TOKEN}"):
        answer = guarded.ask(f"/?token={TOKEN}", cookie=cookie)
        assert (answer.status, answer.headers["location"]) == (303, "/")
        assert answer.headers["set-cookie"] == f"manyhot_studio={TOKEN}; HttpOnly; SameSite=Strict; Path=/"
        assert answer.headers["cache-control"] == "no-store"


def test_a_cookie_of_backslashes_takes_no_time(guarded):
    start = time.process_time()
    assert guarded.ask("/api/health", cookie='manyhot_studio="' + "\\" * 60_000).status == 401
    assert time.process_time() - start < 2


@pytest.mark.parametrize("token", ["", " ", "two words", "a;b", "a\r\nset-cookie: x=y", "tökén", "a&b", "a#b"])
def test_a_token_that_fits_into_no_address_or_cookie_is_refused(token):
    with raises_input_error(rule="letters, digits and"):
        bind("127.0.0.1", 0, token=token)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("HEAD", "/api/health", 405),
        ("OPTIONS", "/api/health", 405),
        ("TRACE", "/", 405),
        ("DELETE", "/api/review/0", 405),
        ("PATCH", "/api/review/0", 405),
        ("PROPFIND", "/", 405),
        ("CONNECT", "evil.example:443", 404),
        ("GARBAGE", "/api/health", 405),
        ("get", "/api/health", 405),
        ("OPTIONS", "*", 404),
        ("GET", "http://evil.example/api/health", 404),
        ("GET", "//evil.example/api/health/", 404),
        ("GET", "/api/health/", 404),
        ("GET", "/api/classify", 405),
        ("GET", "/docs", 404),
    ],
)
def test_odd_methods_and_addresses(target, method, path, status):
    assert target.ask(path, method=method, connection="close").status == status


@pytest.mark.parametrize(
    "data",
    [
        b"garbage\r\n\r\n",
        b"\0\0\0\0\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40),  # the beginning of TLS
        b"GET /\0 HTTP/1.1\r\nhost: HOST\r\n\r\n",
        b"GET /\xff\xfe HTTP/1.1\r\nhost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: HOST\r\nx: a\0b\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost : HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: HOST\r\ncontent-length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: HOST\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"POST /api/classify HTTP/1.1\r\nhost: HOST\r\ntransfer-encoding: gzip\r\n\r\n",
        b"POST /api/classify HTTP/1.1\r\nhost: HOST\r\ntransfer-encoding: chunked\r\n\r\nzzz\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nhost: HOST\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: HOST\r\nx: " + b"a" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: HOST\r\n" + b"x: y\r\n" * 50_000 + b"\r\n",
    ],
    ids=lambda data: repr(data[:30]),
)
def test_what_is_no_request_is_told_so(target, data):
    with target.connect() as connection:
        answer = target.answer(connection, data.replace(b"HOST", target.host.encode()))
        assert (answer.status, answer.sentence) == (400, REFUSED)
        assert answer.headers["connection"] == "close"
    assert target.is_alive()


def test_an_old_client_is_answered_and_let_go(target):
    with target.connect() as connection:
        data = target.head("/api/health").replace(b"HTTP/1.1", b"HTTP/1.0")
        assert target.answer(connection, data).status == 200
        assert connection.recv(1) == b""


def test_requests_in_a_row_are_answered_in_a_row(target):
    with target.connect() as connection, connection.makefile("rb") as file:
        connection.sendall(target.head("/api/items/1") * 50 + target.head("/api/health", connection="close"))
        answers = file.read()
    assert answers.count(b"HTTP/1.1 200 OK") == 51
    assert answers.count(b'"row":1,') == 50


def test_a_second_request_hidden_in_the_first_is_not_answered(target):
    hidden = target.head("/api/collection")
    with target.connect() as connection, connection.makefile("rb") as file:
        connection.sendall(target.head("/api/health", content_length=len(hidden), connection="close") + hidden)
        assert file.read().count(b"HTTP/1.1 ") == 1


def test_somebody_who_has_said_everything_may_be_answered_or_not(target):
    with target.connect() as connection, connection.makefile("rb") as file:
        connection.sendall(target.head("/api/health"))
        connection.shutdown(socket.SHUT_WR)
        assert file.read()[:12] in (b"", b"HTTP/1.1 200")
    assert target.is_alive()


def test_no_connection_becomes_a_web_socket(target):
    answer = target.ask(
        "/api/health",
        connection="Upgrade",
        upgrade="websocket",
        sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ==",
        sec_websocket_version="13",
    )
    assert answer.status == 200
    assert "upgrade" not in answer.headers


def test_a_proxy_is_not_believed(target):
    said = {"x_forwarded_for": "10.0.0.1", "x_forwarded_proto": "https", "x_forwarded_host": "evil.example"}
    answer = target.ask("/api/health/", forwarded="for=10.0.0.1;host=evil.example", **said)
    assert answer.status == 404
    assert "evil.example" not in json.dumps(answer.headers)


def test_answers_go_out_at_once(target, monkeypatch):
    """An answer in two pieces that waits for the other side to confirm the first takes 40 milliseconds."""
    made, begin = [], HeaderTimeoutProtocol.connection_made

    def noted(connection, transport):
        made.append(transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        begin(connection, transport)

    monkeypatch.setattr(HeaderTimeoutProtocol, "connection_made", noted)
    assert target.is_alive()
    assert made == [1]


def test_who_says_nothing_or_too_little_is_let_go(studio, monkeypatch):
    assert HEAD_SECONDS <= 60
    address = bind("127.0.0.1", 0)
    with served(build_app(studio, hosts=address.hosts), address) as target, target.connect() as second:
        assert target.answer(second, target.head("/api/health")).status == 200
        monkeypatch.setattr("manyhot.studio.http_protocol.HEAD_SECONDS", 0.2)
        assert target.answer(second, target.head("/api/health")).status == 200
        with target.connect() as silent, target.connect() as slow:
            slow.sendall(b"GET / HTTP/1.1\r\nhost: ")
            assert let_go(slow, b"1")
            assert let_go(second, b"G")
            assert let_go(silent)


def let_go(connection, drop=b""):
    """Whether the other side closes a connection, although a little more is sent again and again."""
    connection.settimeout(0.05)
    end = time.monotonic() + HANG
    while time.monotonic() < end:
        try:
            return connection.recv(1) == b""
        except TimeoutError:
            with contextlib.suppress(ConnectionError):
                connection.sendall(drop)
        except ConnectionError:
            return True
    return False


def test_only_so_many_connections_are_open(studio, monkeypatch):
    monkeypatch.setattr("manyhot.studio.http_protocol.MOST_OPEN", 20)
    address = bind("127.0.0.1", 0)
    with served(build_app(studio, hosts=address.hosts), address) as target, contextlib.ExitStack() as stack:
        for _ in range(20):
            stack.enter_context(target.connect())
        assert eventually(lambda: not answers(target))
        stack.close()
        assert eventually(lambda: answers(target))


def answers(target):
    """Whether a new connection is taken."""
    try:
        return target.is_alive()
    except (ConnectionError, http.client.HTTPException):
        return False


@pytest.fixture(scope="module")
def narrow(studio):
    """A server that takes little at once."""
    limited = BodyLimit(build_api(studio), {"/api/classify": 200_000}, together=300_000)
    address = bind("127.0.0.1", 0)
    with served(AccessGuard(limited, AccessPolicy(None, None)), address) as target:
        yield target, limited


@pytest.mark.parametrize("sent", [b"", b"{", b"-" * 100_000])
def test_a_body_that_does_not_come_is_not_waited_for(narrow, sent, monkeypatch):
    target, limited = narrow
    monkeypatch.setattr(limited, "seconds", 0.1)
    with target.connect() as connection:
        head = target.head(
            "/api/classify", method="POST", content_length=150_000, content_type="multipart/form-data; boundary=b"
        )
        answer = target.answer(connection, head + sent, method="POST")
        assert answer.status in (400, 408)  # some bodies are seen to be none before they are complete
    assert eventually(lambda: limited.under_way == 0)


def test_all_bodies_together_are_bounded(narrow):
    target, limited = narrow
    form = "multipart/form-data; boundary=b"
    start = b'--b\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\n'
    with target.connect() as first, target.connect() as second:
        for connection in (first, second):
            head = target.head("/api/classify", method="POST", content_length=190_000, content_type=form)
            connection.sendall(head + start + b"a" * 100_000)
        assert eventually(lambda: limited.under_way > 200_000)
        answer = target.ask("/api/classify", method="POST", body=start + b"a" * 150_000, content_type=form)
        assert answer.status == 429
        assert "at once" in answer.sentence
    assert eventually(lambda: limited.under_way == 0)


def test_who_vanishes_leaves_nothing_behind(narrow):
    target, limited = narrow
    head = target.head(
        "/api/classify", method="POST", content_length=150_000, content_type="multipart/form-data; boundary=b"
    )
    start = b'--b\r\ncontent-disposition: form-data; name="image"; filename="a"\r\n\r\n'
    for sent in (b"", start, start + b"a" * 100_000):
        for _ in range(10):
            with target.connect() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closes by a reset
                connection.sendall(head + sent)
    assert eventually(lambda: limited.under_way == 0)
    assert target.is_alive()


def test_a_length_of_any_kind_is_understood():
    assert [content_length(text) for text in ("0", "17", "-1", "+1", "1_0", "x", "", "١")] == [0, 17, 0, 0, 0, 0, 0, 0]
    assert content_length("9" * 5000) > 2**64


def test_a_query_of_ten_thousand_signs_fits_into_an_address(target):
    answer = target.ask("/api/search?q=" + "%F0%9F%90%95" * 10_000)
    assert answer.status == 200
    assert "labels that exist" in json.loads(answer.body)["problem"]["sentence"]
