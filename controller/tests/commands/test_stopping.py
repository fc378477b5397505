# SPDX-License-Identifier: Apache-2.0
"""Every command ends after a signal, also while a switch does not answer."""

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import suppress

import grpc
import pytest
from places import ENVIRONMENT

from weir import stopping
from weir.p4runtime.messages import METHODS, v1

PATIENCE_S = 45
"""Less than a call's own limit (60 s), and many times that of `stopping` on a busy machine."""


class Silent(grpc.GenericRpcHandler):
    """A P4Runtime server that makes each client primary and answers nothing else. `reached`: a call came that waits;
    `over`: the test is."""

    def __init__(self) -> None:
        self.reached, self.over = threading.Event(), threading.Event()
        self.arbitrates = True

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        method = next((m for m in METHODS.values() if m.path == details.method), None)
        if method is None:
            return None
        coders = method.request.FromString, method.response.SerializeToString
        if method.client_streams:
            return grpc.stream_stream_rpc_method_handler(self.stream, *coders)
        if method.server_streams:
            return grpc.unary_stream_rpc_method_handler(self.wait, *coders)
        return grpc.unary_unary_rpc_method_handler(self.wait, *coders)

    def stream(self, requests: Iterator, _context: grpc.ServicerContext) -> Iterator:
        for request in requests:
            if not self.arbitrates:
                self.wait()
            yield v1.StreamMessageResponse(arbitration=request.arbitration)

    def wait(self, *_: object) -> None:
        self.reached.set()
        self.over.wait()


@pytest.fixture
def silent() -> Iterator[tuple[Silent, str]]:
    handler = Silent()
    server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield handler, f"127.0.0.1:{port}"
    handler.over.set()
    server.stop(None).wait()


def start(*words: str) -> subprocess.Popen:
    # `env` gives SIGHUP back its default: these tests may run under nohup.
    command = ["env", "--default-signal=HUP", sys.executable, "-m", "weir.cli", *words]
    return subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end_by(number: signal.Signals, process: subprocess.Popen) -> tuple[int, str]:
    try:
        process.send_signal(number)
        _, error = process.communicate(timeout=PATIENCE_S)
        return process.returncode, error
    finally:
        process.kill()
        with suppress(ValueError):  # its pipes are closed
            process.communicate()


@pytest.mark.parametrize(
    ("words", "number"),
    [
        (("p4", "show"), signal.SIGTERM),
        (("p4", "digests", "--jsonl"), signal.SIGTERM),
        (("p4", "digests", "--jsonl"), signal.SIGHUP),
        (("status",), signal.SIGINT),
        (("gains", "--port", "1", "--set", "target_us=5000"), signal.SIGHUP),
        (("watch",), signal.SIGTERM),
        (("tune", "--rtt-ms", "40"), signal.SIGINT),
    ],
    ids=lambda given: given.name if isinstance(given, signal.Signals) else "-".join(given[:2]),
)
def test_a_command_ends_while_a_switch_does_not_answer(
    words: tuple[str, ...], number: signal.Signals, silent: tuple[Silent, str]
) -> None:
    handler, address = silent
    process = start(*words, "--p4", address)
    assert handler.reached.wait(PATIENCE_S)
    status, error = end_by(number, process)
    assert status in (0, 128 + number)  # `watch` and `tune` go on until a signal
    assert "Traceback" not in error


@pytest.mark.parametrize(("status", "after", "before"), [(0, 0, 0), (1, 130, 1), (2, 2, 2)])
def test_an_error_after_a_signal_has_the_signal_s_status(status: int, after: int, before: int) -> None:
    interrupt = "\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept KeyboardInterrupt:\n    pass"
    for text, expected in ((interrupt, after), ("", before)):
        program = f"import signal\nfrom weir import stopping\nstopping.install(){text}\nstopping.finish({status})"
        done = subprocess.run([sys.executable, "-c", program], env=ENVIRONMENT, check=False, timeout=PATIENCE_S)
        assert done.returncode == expected


def test_a_command_ends_while_arbitration_waits(silent: tuple[Silent, str]) -> None:
    handler, address = silent
    handler.arbitrates = False
    process = start("p4", "digests", "--p4", address)
    assert handler.reached.wait(PATIENCE_S)
    assert end_by(signal.SIGTERM, process)[0] == 128 + signal.SIGTERM


def test_a_command_ends_while_it_connects() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        process = start("p4", "show", "--p4", f"127.0.0.1:{listening.getsockname()[1]}", "--connect-timeout-s", "600")
        listening.settimeout(PATIENCE_S)
        with listening.accept()[0]:
            assert end_by(signal.SIGTERM, process)[0] == 128 + signal.SIGTERM


NOTHING = "signal.signal(signal.SIGTERM, lambda *_: None); "
WAITS = {
    "a handler that does nothing": NOTHING + "work = threading.Event().wait",
    "clean-up that waits": "work = Waiting().work",
    "an exit function that waits": "atexit.register(threading.Event().wait); work = int",
    "a finalizer that waits": "waiting = Waiting(); work = int",
}
PROGRAM = """
import atexit, signal, threading, time
from weir import stopping
class Waiting:
    def __init__(self): self.sleep, self.forever_s = time.sleep, 1e6
    def __del__(self): self.sleep(self.forever_s)
    def work(self):
        try: threading.Event().wait()
        finally: threading.Event().wait()
stopping.install()
{wait}
print(flush=True)
work()
stopping.finish(0)
"""


@pytest.mark.parametrize("wait", WAITS)
def test_a_process_that_waits_on_is_ended(wait: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(wait=WAITS[wait])],
        env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    status, error = end_by(signal.SIGTERM, process)
    assert status in (0, 128 + signal.SIGTERM, -signal.SIGTERM, -signal.SIGALRM)  # 0: the work was done
    if status > 0:
        assert error.splitlines()[-1].endswith(f"still waiting {stopping.LIMIT_S:g} s after SIGTERM")


def test_an_ignored_signal_stays_ignored() -> None:
    text = "import signal; from weir import stopping; stopping.install(); print(signal.getsignal(signal.SIGHUP).name)"
    done = subprocess.run(
        ["nohup", sys.executable, "-c", text], env=ENVIRONMENT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "SIG_IGN"
