# SPDX-License-Identifier: Apache-2.0
"""The parts of a proxy's test: an HTTPS server, a relay, `weir-client proxy`, and curl."""

import argparse
import contextlib
import functools
import hashlib
import http.server
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import quic_rig
from packet_rig import Holder
from quic_rig import CLIENT, HERE, PATIENCE_S, Authority

NAME = "origin.test"
"""Name of the HTTPS server. Only the relay can resolve it."""
TOKEN = "a-token-of-the-tests"


@functools.cache
def content(size: int) -> bytes:
    """Content of /N: bytes that no other offset has."""
    return b"".join(hashlib.sha256(n.to_bytes(8)).digest() for n in range(size // 32 + 1))[:size]


PAGE = """<!doctype html><title>page</title><body><script>
const request = new XMLHttpRequest();
request.open("GET", "/SIZE", false);
request.overrideMimeType("text/plain; charset=x-user-defined");
request.send();
document.body.textContent = `status ${request.status} bytes ${request.responseText.length}`;
</script>"""
"""A page that is loaded when /SIZE is, and shows its status and its length."""


class Origin(http.server.BaseHTTPRequestHandler):
    """GET /N, GET /page/N, and POST, which answers with the SHA-256 of its body."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        folder, _, size = self.path.strip("/").rpartition("/")
        if not size.isdigit():
            self.send_error(404)
        elif folder == "page":
            self._answer(PAGE.replace("SIZE", size).encode(), "text/html")
        else:
            self._answer(content(int(size)))

    def do_POST(self) -> None:
        self._answer(hashlib.sha256(self.rfile.read(int(self.headers["content-length"]))).hexdigest().encode())

    def _answer(self, body: bytes, kind: str = "application/octet-stream") -> None:
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class OriginServer(http.server.ThreadingHTTPServer):
    """The HTTPS server."""

    daemon_threads = True
    request_queue_size = 200

    def handle_error(self, *_: object) -> None:
        """Clients that go away are part of the tests."""


def _origin_main() -> None:
    """The HTTPS server as a program, for namespaces: ADDRESS:PORT CERT KEY."""
    parser = argparse.ArgumentParser()
    parser.add_argument("listen")
    parser.add_argument("cert")
    parser.add_argument("key")
    args = parser.parse_args()
    host, _, port = args.listen.rpartition(":")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(args.cert, args.key)
    server = OriginServer((host, int(port)), Origin)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(f"listening {host}:{server.server_address[1]}", flush=True)
    server.serve_forever()


@dataclass
class Process:
    """A program of the test, with the address where it listens."""

    address: str
    process: subprocess.Popen
    errors: Path | None = None

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def close(self, number: int = signal.SIGTERM) -> int:
        """Ends it, and gives its status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            status = self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.process.args} did not end on a signal") from None
        self.process.stdout.close()
        return status

    def said(self) -> str:
        """Its standard error so far."""
        return self.errors.read_text() if self.errors else ""


def _started(command: list[object], where: Holder | None, errors: Path | None = None) -> Process:
    kwargs: dict = {"stdout": subprocess.PIPE, "text": True}
    if errors:
        kwargs["stderr"] = errors.open("w")
    command = [str(word) for word in command]
    if where is None:
        process = subprocess.Popen(command, **kwargs)
    else:
        kwargs.pop("text")
        process = where.start(*command, **kwargs)
    line = process.stdout.readline().strip()
    if not line.startswith("listening "):
        process.kill()
        process.wait()
        raise AssertionError(f"{command} printed '{line}', not its address: {errors.read_text() if errors else ''}")
    return Process(line.removeprefix("listening "), process, errors)


def origin(authority: Authority, listen: str = "127.0.0.1:0", where: Holder | None = None) -> Process:
    made = authority.issue(NAME, listen.rpartition(":")[0])
    return _started([sys.executable, HERE / "proxy_rig.py", listen, made.cert, made.key], where)


def aioquic_relay(
    authority: Authority, listen: str = "127.0.0.1:0", where: Holder | None = None, address: str = "127.0.0.1"
) -> Process:
    """A relay on aioquic, which knows the origin's name."""
    made = authority.issue(listen.rpartition(":")[0])
    command = [sys.executable, HERE / "aioquic_relay.py", "--listen", listen, "--cert", made.cert, "--key", made.key]
    return _started([*command, "--token", TOKEN, "--name", f"{NAME}={address}"], where)


def proxy(
    folder: Path, authority: Authority, relay: Process, *options: object, where: Holder | None = None,
    token: str = TOKEN, listen: str = "127.0.0.1:0",
) -> Process:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "token").write_text(token + "\n")
    command = [CLIENT, "proxy", "--listen", listen, "--relay", f"https://{relay.address}", "--ca", authority.ca]
    return _started([*command, "--token", folder / "token", *options], where, folder / "errors")


def curl(proxy_url: str, url: str, *options: object, where: Holder | None = None) -> subprocess.CompletedProcess:
    """Runs curl through a proxy; its output is bytes."""
    command = ["curl", "--silent", "--show-error", "--max-time", str(PATIENCE_S), "-x", proxy_url, *map(str, options), url]
    if where is not None:
        command = where.command(*command)
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    return subprocess.run(command, capture_output=True, env=env)


@contextlib.contextmanager
def running(*processes: Process) -> Iterator[None]:
    """Ends the processes at the end of a with, in the opposite order."""
    try:
        yield
    finally:
        for process in reversed(processes):
            process.close()


def events(path: Path, kind: str) -> list[dict]:
    """The lines of this kind in a file of --events so far."""
    return [line for line in quic_rig.lines(path) if line["k"] == kind] if path.exists() else []


if __name__ == "__main__":
    _origin_main()
