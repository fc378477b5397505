# SPDX-License-Identifier: Apache-2.0
"""Any bytes at the metrics' port: the connection ends, the log stays empty, the next scrape is answered."""

import contextlib
import io
import socket
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weir.telemetry.prometheus import MetricsServer
from weir.telemetry.view import View

WAIT_S = 60
METHODS = st.sampled_from(["GET", "HEAD", "POST", "PRI", "get", ""])
TARGETS = st.sampled_from(["/metrics", "/metrics?name[]=up", "*", "http://a/metrics", "//", ""])
NAMES = st.sampled_from(["Accept", "Accept-Encoding", "Content-Length", "Content-Type", "Expect", "Host", "Range"])
VALUES = st.sampled_from(
    ["gzip", "-1", "application/openmetrics-text; version=1.0.0", "text/plain;version=a", "100-continue"]
)
TEXT = st.text(st.characters(max_codepoint=255), max_size=20)
LINES = st.tuples(METHODS | TEXT, TARGETS | TEXT, st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/9", "HTTP/1.1.1", ""]))
FIELDS = st.lists(st.tuples(NAMES | TEXT, VALUES | TEXT), max_size=6)


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    fields = [": ".join(field) for field in draw(FIELDS)]
    lines = [" ".join(draw(LINES)), *fields, "", ""]
    return "\r\n".join(lines).encode("latin-1") + draw(st.binary(max_size=20))


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = MetricsServer(View(), ("127.0.0.1", 0), lambda: 1.0)
    yield server.port
    server.close()


def ask(port: int, request: bytes) -> bytes:
    """All that the server answers to a client that sends no more than this."""
    answer = b""
    with (
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection,
        contextlib.suppress(ConnectionError),
    ):
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        while part := connection.recv(65536):
            answer += part
    return answer


@example(request=b"GET /metrics HTTP/1.0\r\nAccept: text/plain;version=a\r\n\r\n")
@example(request=b"GET /metrics HTTP/1.0\r\nAccept: application/openmetrics-text;version=9\r\n\r\n")
@given(request=st.binary(max_size=200) | requests())
def test_any_request(port: int, request: bytes) -> None:
    with contextlib.redirect_stderr(io.StringIO()) as log:
        ask(port, request)
        assert ask(port, b"GET /metrics HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 200")
    assert log.getvalue() == ""
