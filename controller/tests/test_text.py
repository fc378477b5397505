# SPDX-License-Identifier: Apache-2.0
"""Text of other programs is escaped before it reaches a terminal."""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from places import CONTROLLER

from weir.text import printable

EVIL = "no \x1b]0;owned\x07\x1b[2J\u202e\x9b31m\r\nweir: all is well"
SHOWN = r"no \x1b]0;owned\x07\x1b[2J\u202e\x9b31m\r\nweir: all is well"


def test_what_a_terminal_obeys_is_written_out() -> None:
    assert printable(EVIL) == SHOWN
    assert printable("naïve 漢字 \\ ok") == "naïve 漢字 \\ ok"
    assert printable("two\nlines\r", lines=True) == "two\nlines\\r"
    assert printable(OSError("x\x1b")) == "x\\x1b"


@given(st.text(), st.booleans())
def test_nothing_is_obeyed_and_twice_is_once(text: str, lines: bool) -> None:
    once = printable(text, lines)
    assert once.replace("\n", "").isprintable()
    assert lines or "\n" not in once
    assert printable(once, lines) == once


class _Refusing(grpc.GenericRpcHandler):
    """A P4Runtime server that refuses every call, in words that are not for terminals."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        def refuse(_: object, context: grpc.ServicerContext) -> None:
            context.abort(grpc.StatusCode.UNKNOWN, EVIL)

        kind = {"StreamChannel": "stream_stream", "Read": "unary_stream"}
        method = handler_call_details.method.rpartition("/")[2]
        return getattr(grpc, f"{kind.get(method, 'unary_unary')}_rpc_method_handler")(refuse)


@pytest.fixture(scope="module")
def refusing() -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(8), handlers=[_Refusing()])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(0).wait()


@pytest.mark.parametrize(
    "words",
    [
        ["tune", "--p4"],
        ["watch", "--p4"],
        ["gains", "--p4"],
        ["status", "--p4"],
        ["p4", "show", "--p4"],
        ["p4", "digests", "--p4"],
        ["p4", "show", "--address"],
    ],
    ids=" ".join,
)
def test_a_devices_words_do_nothing_to_a_terminal(refusing: str, words: list[str]) -> None:
    env = os.environ | {"PYTHONPATH": str(CONTROLLER), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "weir.cli", *words, refusing]
    process = subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        said = b""
        # Some of them try again without end: what they say first is enough.
        for line in process.stdout:
            said += line
            if b"owned" in line:
                break
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    text = said.decode()
    assert SHOWN in text
    assert text.replace("\n", "").isprintable(), text
