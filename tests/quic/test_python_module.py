# SPDX-License-Identifier: Apache-2.0
"""The Python module weir_quic: requests, bodies, events, strategies, errors, signals, and its types."""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import quic_rig

weir_quic = quic_rig.python_module()

REPO = Path(__file__).resolve().parents[2]
EXAMPLE = REPO / "quic-client" / "python" / "examples" / "compare_strategies.py"
PATHS = ["127.0.0.2", "127.0.0.3"]


@pytest.fixture(scope="module")
def server(authority, tmp_path_factory):
    running = quic_rig.weir(tmp_path_factory.mktemp("server"), authority, "127.0.0.1:0", None)
    yield running
    running.close()


@pytest.fixture
def connection(server):
    with weir_quic.Client(PATHS, ca=server.ca).connect(f"https://{server.address}/") as connection:
        yield connection


def script(text: str, *args: object) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONPATH": str(quic_rig.PYTHON_MODULE)}
    return subprocess.Popen(
        [sys.executable, "-c", text, *map(str, args)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def test_parts_of_a_body(connection):
    with connection.get("/bytes/1000000") as response:
        assert (response.status, response.headers["content-length"]) == (200, "1000000")
        assert ("server", "weir") in response.header_list
        assert len(response.read(7)) == 7
        assert len(next(response)) > 0
        rest = sum(map(len, response))
        assert rest < 999_993
        assert response.read() == b""
    assert 0 < connection.status().bytes <= 1_000_000
    assert connection.status().path in PATHS


@pytest.mark.parametrize(
    "body",
    [b"x" * 300_000, bytearray(300_000), io.BytesIO(bytes(300_000)), [bytes(100_000), b"", bytes(200_000)]],
    ids=["bytes", "bytearray", "file", "iterable"],
)
def test_bodies(connection, body):
    assert connection.request("POST", "/upload", body=body, headers={"x-field": "1"}).read() == b"300000\n"


def test_a_url_of_the_same_origin(connection, server):
    assert len(connection.get(f"https://{server.address}/bytes/5").read()) == 5
    with pytest.raises(weir_quic.UsageError, match="another origin"):
        connection.get("https://example.org/")


def test_a_strategy_in_python(server):
    class Turns:
        def __init__(self):
            self.samples = []
            made.append(self)

        def choose(self, task):
            return task.usable[task.number % len(task.usable)], f"turn {task.number % 2}"

        def finished(self, sample):
            self.samples.append(sample)

    made = []
    client = weir_quic.Client(PATHS, ca=server.ca, strategy=Turns, events=True)
    with client.connect(f"https://{server.address}/") as connection:
        while connection.status().switches < 2:  # the second path is validated first
            connection.get("/bytes/100").read()
    events = client.events()
    choices = [event for event in events.take() if event["k"] == "choice"]
    assert {choice["path"] for choice in choices} == set(PATHS)
    assert {choice["reason"] for choice in choices} == {"turn 0", "turn 1"}
    (strategy,) = made
    assert {sample.bytes for sample in strategy.samples} == {100}
    del client, connection
    assert list(events) == [], "the iterator ends with the client"


def test_a_strategy_that_raises_is_reported_and_requests_go_on(server, monkeypatch):
    class Broken:
        def choose(self, task):
            return "elsewhere"

    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reported.append(str(report.exc_value)))
    with weir_quic.connect(f"https://{server.address}/", paths=PATHS, ca=server.ca, strategy=Broken) as connection:
        assert len(connection.get("/bytes/100").read()) == 100
    assert "choose() gave 'elsewhere': expected one of task.usable" in reported


def test_a_strategy_must_not_wait_for_its_own_client(server, monkeypatch):
    class Waiting:
        def choose(self, task):
            connection.get("/")

    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda report: reported.append(str(report.exc_value)))
    with weir_quic.connect(f"https://{server.address}/", paths=PATHS, ca=server.ca, strategy=Waiting) as connection:
        assert len(connection.get("/bytes/100").read()) == 100
    assert "a call that waits, in a strategy: expected none on a client's own thread" in reported


@pytest.mark.parametrize(
    ("settings", "error", "text"),
    [
        ({"strategy": "fastest"}, weir_quic.UsageError, "strategy: 'fastest' is not a strategy"),
        ({"cc": "vegas"}, weir_quic.UsageError, "cc: 'vegas' is not a congestion control"),
        ({"window": "wide"}, weir_quic.UsageError, "window: 'wide' is not a window rule"),
        ({"idle_timeout_s": -1}, weir_quic.UsageError, "idle_timeout_s -1: expected"),
        ({"paths": ["nowhere0"]}, weir_quic.PathError, "path nowhere0: no such interface"),
        ({"ca": "/nonexistent"}, weir_quic.IoError, "ca /nonexistent: No such file"),
    ],
    ids=["strategy", "congestion control", "window", "timeout", "path", "file"],
)
def test_wrong_settings(settings, error, text):
    with pytest.raises(error, match="^" + text.replace("(", r"\(")):
        weir_quic.Client(**settings)


def test_failed_connections(server):
    with pytest.raises(weir_quic.TlsError, match="; ca FILE trusts a certificate, insecure accepts any"):
        weir_quic.connect(f"https://{server.address}/")
    with pytest.raises(ConnectionError):
        weir_quic.connect("https://localhost/", connect_to="127.0.0.1:1")
    with pytest.raises(weir_quic.UsageError, match="scheme 'http' not supported"):
        weir_quic.connect("http://localhost/")


def test_after_close(server):
    connection = weir_quic.connect(f"https://{server.address}/", ca=server.ca)
    response = connection.get("/bytes/unlimited")
    connection.close()
    connection.close()
    with pytest.raises(weir_quic.ClosedError):
        for _ in response:
            pass
    with pytest.raises(weir_quic.ClosedError, match="the connection is closed"):
        connection.get("/")


WAITS = """
import sys, weir_quic
url, ca, what = sys.argv[1:]
class Slow:
    def choose(self, task):
        return task.usable[0]
client = weir_quic.Client(["127.0.0.2"], ca=ca, strategy=Slow, events=True)
connection = client.connect(url)
response = connection.get("/bytes/unlimited")
try:
    print("ready", flush=True)
    if what == "read":
        for part in response:
            pass
    elif what == "events":
        for event in client.events():
            pass
    elif what == "connect":
        weir_quic.connect("https://192.0.2.1/", idle_timeout_s=600)
    elif what == "upload":
        connection.request("POST", "/upload", body=iter(lambda: bytes(65536), None))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("what", ["read", "events", "connect", "upload"])
def test_an_interrupt_ends_a_wait(server, what):
    """The exit of the interpreter, with a client that still runs, does not hang either."""
    process = script(WAITS, f"https://{server.address}/", server.ca, what)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=quic_rig.PATIENCE_S)
    assert (process.returncode, out) == (0, "interrupted\n"), err


def test_resumption(server, tmp_path):
    def status(**settings):
        client = weir_quic.Client(ca=server.ca, tickets=tmp_path / "tickets", **settings)
        with client.connect(f"https://{server.address}/") as connection:
            connection.get("/bytes/1").read()
            return connection.status()

    assert [status().is_resumed for _ in range(2)] == [False, True]


def test_the_example(server):
    done = subprocess.run(
        [sys.executable, EXAMPLE, f"https://{server.address}/bytes/5000", server.ca, *PATHS],
        env={**os.environ, "PYTHONPATH": str(quic_rig.PYTHON_MODULE)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    names = [line.partition(":")[0] for line in done.stdout.splitlines()]
    assert names == ["weir", "polling", "Fastest"]
    assert "'few samples'" in done.stdout
    polling = done.stdout.splitlines()[1]
    assert all(path in polling for path in PATHS)


def test_stubs_are_those_of_the_module():
    environment = {**os.environ, "MYPYPATH": str(quic_rig.PYTHON_MODULE), "PYTHONPATH": str(quic_rig.PYTHON_MODULE)}
    command = [sys.executable, "-m", "mypy.stubtest", "weir_quic"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
