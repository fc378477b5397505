# SPDX-License-Identifier: Apache-2.0
"""A server that breaks HTTP/3: the client neither hangs nor panics, and says in one line what it met."""

import pytest
from quic_rig import CODES, INCOMPLETE, NOT_SERVED, OK, TIMEOUT, client, until

pytest.importorskip("aioquic")

from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st
from scripted import (
    CANCEL_PUSH,
    CONTROL,
    DATA,
    GOAWAY,
    HEADERS,
    MAX_PUSH_ID,
    PUSH,
    PUSH_PROMISE,
    QPACK_DECODER,
    QPACK_ENCODER,
    REQUEST,
    UNI,
    Script,
    Scripted,
    answer,
    fields,
    frame,
    headers,
    ok,
    settings,
    varint,
)

BODY = bytes(5)
GOOD = answer(BODY)
STATUS = (b":status", b"200")
LENGTH = (b"content-length", b"5")

# Codes of RFC 9114 8.1 and RFC 9204 6 with which a client has to close
STREAM_CREATION, CLOSED_CRITICAL, UNEXPECTED, EXCESSIVE_LOAD, ID_ERROR, SETTINGS_ERROR, MISSING_SETTINGS = (
    0x103, 0x104, 0x105, 0x107, 0x108, 0x109, 0x10A,
)  # fmt: skip
DECOMPRESSION = 0x200


def control(*frames: bytes) -> bytes:
    return varint(CONTROL) + b"".join(frames)


def uni(index: int, kind: int, data: bytes = b"", end: bool = False) -> tuple[int, bytes, bool]:
    return UNI[index], varint(kind) + data, end


BROKEN = {
    "DATA before HEADERS": (Script(frame(DATA, BODY) + ok(5)), None),
    "SETTINGS on a request stream": (Script(settings() + GOOD), UNEXPECTED),
    "GOAWAY on a request stream": (Script(frame(GOAWAY, varint(0)) + GOOD), UNEXPECTED),
    "MAX_PUSH_ID on a request stream": (Script(frame(MAX_PUSH_ID, varint(0)) + GOOD), UNEXPECTED),
    "HEADERS on the control stream": (Script(GOOD, control=control(settings(), headers(STATUS))), UNEXPECTED),
    "DATA on the control stream": (Script(GOOD, control=control(settings(), frame(DATA, BODY))), UNEXPECTED),
    "no SETTINGS first": (Script(GOOD, control=control(frame(GOAWAY, varint(0)))), MISSING_SETTINGS),
    "SETTINGS twice": (Script(GOOD, control=control(settings(), settings())), UNEXPECTED),
    "a setting of HTTP/2": (Script(GOOD, control=control(settings((0x3, 1)))), SETTINGS_ERROR),
    "SETTINGS cut short": (Script(GOOD, control=control(frame(4, varint(6)))), None),
    "two control streams": (Script(GOOD, others=[uni(1, CONTROL, settings())]), STREAM_CREATION),
    "the control stream ended": (
        Script(GOOD, control=None, others=[uni(0, CONTROL, settings(), end=True)]),
        CLOSED_CRITICAL,
    ),
    "a push without leave": (Script(GOOD, others=[uni(1, PUSH, varint(0) + GOOD)]), None),
    "QPACK: an entry that the static table has not": (
        Script(frame(HEADERS, b"\0\0" + bytes([0xFF, 0xFF, 0x01])) + GOOD),
        DECOMPRESSION,
    ),
    "QPACK: an entry of the dynamic table": (Script(frame(HEADERS, b"\x02\0\x80") + GOOD), DECOMPRESSION),
    "QPACK: a string longer than its section": (Script(frame(HEADERS, b"\0\0\x27\xff\xff\x7f") + GOOD), DECOMPRESSION),
    "QPACK: Huffman's end within a string": (
        Script(frame(HEADERS, b"\0\0\x2c\xff\xff\xff\xff\x01x") + GOOD),
        EXCESSIVE_LOAD,
    ),
    "QPACK: an empty section": (Script(frame(HEADERS) + GOOD), DECOMPRESSION),
    "GOAWAY with an id no client has": (
        Script(GOOD, control=control(settings(), frame(GOAWAY, varint(1)))),
        UNEXPECTED,
    ),
    "GOAWAY that takes back": (
        Script(GOOD, control=control(settings(), frame(GOAWAY, varint(4)), frame(GOAWAY, varint(8)))),
        ID_ERROR,
    ),
    "a frame longer than any": (Script(varint(HEADERS) + varint((1 << 62) - 1) + b"x", fin=False), None),
    "HEADERS cut short": (Script(frame(HEADERS, fields(STATUS), length=50)), None),
    "DATA cut short": (Script(ok(5) + frame(DATA, b"xx", length=5)), None),
    "DATA after the trailers": (Script(GOOD + headers((b"x", b"y")) + frame(DATA, b"z")), None),
    "nothing but an end": (Script(b""), None),
    "no status": (Script(headers(LENGTH) + frame(DATA, BODY)), None),
    "two statuses": (Script(headers(STATUS, STATUS) + frame(DATA, BODY)), None),
    "a status that is no number": (Script(headers((b":status", b"2x0")) + frame(DATA, BODY)), None),
    "less than its length": (Script(ok(10) + frame(DATA, BODY)), None),
    "more than its length": (Script(ok(3) + frame(DATA, BODY)), None),
    "a length that is no number": (
        Script(headers(STATUS, (b"content-length", b"-5")) + frame(DATA, BODY)),
        None,
    ),
    "headers of a megabyte": (Script(headers(STATUS, (b"x", bytes(b"y" * (1 << 20)))) + GOOD), None),
    "the stream reset": (Script(ok(5), fin=False, then=lambda quic: quic.reset_stream(REQUEST, 0x10B)), None),
    "the connection closed": (Script(ok(5), fin=False, then=lambda quic: quic.close(0x102, reason_phrase="no")), None),
}
"""Server's answer; the code the client has to close with, where the specification names one that quiche uses."""

PASSED = {
    "a promise without leave": Script(frame(PUSH_PROMISE, varint(0) + fields(STATUS)) + GOOD),
    "a push cancelled that never was": Script(GOOD, control=control(settings(), frame(CANCEL_PUSH, varint(7)))),
    "a stream opened by the server": Script(GOOD, others=[(1, GOOD, True)]),
}
"""Errors by RFC 9114 that quiche lets pass: the requested data arrive, or the report says why not."""

FINE = {
    "a good answer": Script(GOOD),
    "no control stream": Script(GOOD, control=None),
    "types nobody knows": Script(
        frame(0x21, b"grease") + ok(5) + frame(0x40, b"?") + frame(DATA, BODY) + frame(0x5F * 31 + 0x21),
        control=control(settings((0x21, 5), (0x4040, 1)), frame(0x21, b"grease")),
        others=[uni(1, 0x21, b"grease"), uni(2, 0x21 + 0x1F, b"", end=True)],
    ),
    "trailers": Script(GOOD + headers((b"x-sum", b"1"))),
    "empty frames": Script(ok(5) + frame(DATA) * 1000 + frame(DATA, BODY)),
    "a byte a frame": Script(ok(5) + b"".join(frame(DATA, b"x") for _ in range(5))),
    "no length": Script(headers(STATUS) + frame(DATA, BODY)),
    "QPACK streams": Script(GOOD, others=[uni(1, QPACK_ENCODER), uni(2, QPACK_DECODER)]),
    "news before the answer": Script(headers((b":status", b"103"), (b"link", b"</>")) + GOOD),
    "going away after this": Script(GOOD, control=control(settings(), frame(GOAWAY, varint(4)))),
}


@pytest.fixture(scope="module")
def server(authority):
    made = authority.issue("127.0.0.1")
    server = Scripted(made.cert, made.key)
    yield server
    server.close()


def met(server: Scripted, script: Script, *args: object):
    with server.saying(script):
        limits = ["--idle-timeout-ms", 1500, "--read-timeout", 1.5]
        return client(server.url("/bytes/5"), "--insecure", *limits, "--json", *args)


@pytest.mark.parametrize("name", BROKEN)
def test_broken(server, name):
    script, code = BROKEN[name]
    ended = met(server, script)
    assert ended.code in (INCOMPLETE, NOT_SERVED), ended
    ended.bad(ended.code)
    if code is not None:
        until(lambda: server.closed, "the connection's end")
        assert server.closed == [code], ended


@pytest.mark.parametrize("name", PASSED)
def test_passed(server, name):
    ended = met(server, PASSED[name])
    assert ended.code in (OK, INCOMPLETE), ended
    assert len(ended.err.splitlines()) == (ended.code != OK), ended


@pytest.mark.parametrize("name", FINE)
def test_unusual_but_right(server, name):
    assert met(server, FINE[name]).good()["total"]["bytes"] == len(BODY)


SILENT = {
    "no answer": Script(fin=False),
    "an answer without an end": Script(GOOD, fin=False),
    "half of the headers": Script(ok(5)[:4], fin=False),
    "it goes away and never answers": Script(fin=False, control=control(settings(), frame(GOAWAY, varint(0)))),
}


@pytest.mark.parametrize("name", SILENT)
def test_silence_ends(server, name):
    ended = met(server, SILENT[name])
    assert ended.code in (INCOMPLETE, TIMEOUT), ended
    ended.bad(ended.code)


CHUNKS = st.one_of(
    st.binary(max_size=200),
    st.sampled_from([GOOD, ok(5), frame(DATA, BODY), settings(), headers(STATUS)]),
    st.builds(frame, st.integers(0, 70), st.binary(max_size=40)),
    st.builds(frame, st.integers(0, 14), st.binary(max_size=40), st.integers(0, 100)),
    st.binary(max_size=40).map(lambda block: frame(HEADERS, b"\0\0" + block)),
)
STREAMS = st.tuples(st.sampled_from([*UNI[1:], 1, 5]), st.lists(CHUNKS, max_size=3).map(b"".join), st.booleans())


@effort(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)
@given(
    request=st.lists(CHUNKS, max_size=5).map(b"".join),
    first=st.one_of(st.none(), st.binary(max_size=60), st.lists(CHUNKS, max_size=3).map(lambda c: control(*c))),
    others=st.lists(STREAMS, max_size=3, unique_by=lambda stream: stream[0]),
    closes=st.booleans(),
)
def test_anything(server, request, first, others, closes):
    """For any bytes of a server: an exit code of the table, and one line if it is not 0."""
    then = (lambda quic: quic.close(0x100)) if closes else None
    ended = met(server, Script(request, control=first, others=others, then=then))
    assert ended.code in CODES, ended
    assert len(ended.err.splitlines()) == (ended.code != OK), ended
