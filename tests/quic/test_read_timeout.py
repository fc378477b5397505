# SPDX-License-Identifier: Apache-2.0
"""Servers that acknowledge each packet, and never answer: the limit is the client's own."""

import pytest

pytest.importorskip("aioquic")

import quic_rig
from quic_rig import OK, TIMEOUT, client, lines
from scripted import DATA, Script, Scripted, answer, frame, headers, ok

LIMIT_S = 1.5
LIMIT = ["--read-timeout", LIMIT_S, "--idle-timeout-ms", 1000]
INTERIM = headers((b":status", b"103"))


@pytest.fixture(scope="module")
def server(authority, request):
    """Its parameter, if any, is the window that it keeps."""
    made = authority.issue("127.0.0.1")
    server = Scripted(made.cert, made.key, window_bytes=getattr(request, "param", None))
    yield server
    server.close()


def outcomes(server: Scripted, tmp_path, authority, code: int, *args: object) -> list[str]:
    """Outcome of each task, in order."""
    events = tmp_path / "events"
    done = client(server.url("/bytes/5"), "--ca", authority.ca, "--events", events, *LIMIT, *args)
    assert done.code == code, done
    assert code == OK or "the read timeout" in done.err
    tasks = sorted((line for line in lines(events) if line["k"] == "task"), key=lambda line: line["task"])
    return [line["outcome"] for line in tasks]


@pytest.mark.parametrize(
    "said",
    [b"", INTERIM, ok(5), ok(5) + frame(DATA, b"abc"), ok(5)[:3]],
    ids=["nothing", "an interim response", "headers", "a part", "a part of the headers"],
)
def test_a_response_that_never_ends(server, authority, tmp_path, said):
    with server.saying(Script(said, fin=False)):
        assert outcomes(server, tmp_path, authority, TIMEOUT) == ["timeout"]


@pytest.mark.parametrize(
    ("server", "size"),
    [(None, 0), (None, 1000), (100_000, 1_000_000)],
    ids=["empty", "sent", "blocked"],
    indirect=["server"],
)
def test_an_upload_without_a_response(server, authority, tmp_path, size):
    """One that is larger than the server's window is blocked."""
    with server.saying(Script(b"", fin=False)):
        assert outcomes(server, tmp_path, authority, TIMEOUT, "--upload", "--bytes", size) == ["timeout"]


@pytest.mark.parametrize("parallel", [1, 3])
def test_others_on_the_connection_go_on(server, authority, tmp_path, parallel):
    """The server answers the first request alone."""
    with server.saying(Script(answer(bytes(5)))):
        args = ["--requests", 3, "--parallel", parallel]
        assert outcomes(server, tmp_path, authority, TIMEOUT, *args) == ["complete", "timeout", "timeout"]


def test_a_response_that_goes_on_slowly(servers, tmp_path):
    """It takes longer than the limit; none of its pauses does."""
    report = servers("weir").get("/bytes/10/every/300", "--duration-s", 3, *LIMIT).good()
    assert report["total"]["bytes"] >= 10


def test_no_limit(server, authority, tmp_path):
    with server.saying(Script(b"", fin=False)):
        args = ["--read-timeout", 0, "--idle-timeout-ms", 1000, "--max-time", 4]
        done = client(server.url("/"), "--ca", authority.ca, *args)
        done.bad(TIMEOUT, "--max-time")


@pytest.mark.parametrize("value", ["-1", "x", "100000"])
def test_values(value):
    assert client("https://127.0.0.1:1", f"--read-timeout={value}").code == quic_rig.USAGE
