# SPDX-License-Identifier: Apache-2.0
"""The parts of a proxy's test: an HTTPS server, a relay, `weir-client proxy`, and curl."""

import contextlib
import os
import signal
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


@dataclass
class Process:
    """A program of the test, with the address where it listens."""

    address: str
    process: subprocess.Popen
    errors: Path | None = None
    name: str = ""
    """Of a relay: a name by which it reaches the HTTPS server."""

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
    made = authority.issue(NAME, "localhost", listen.rpartition(":")[0])
    return _started([sys.executable, HERE / "https_origin.py", listen, made.cert, made.key], where)


def secret(file: Path, line: str) -> Path:
    """A file that only its owner may read."""
    file.write_text(f"{line}\n")
    file.chmod(0o600)
    return file


def aioquic_relay(
    authority: Authority, listen: str = "127.0.0.1:0", where: Holder | None = None, folder: Path | None = None
) -> Process:
    """A relay on aioquic, which has a name of its own for the HTTPS server."""
    made = authority.issue(listen.rpartition(":")[0])
    command = [sys.executable, HERE / "aioquic_relay.py", "--listen", listen, "--cert", made.cert, "--key", made.key]
    relay = _started([*command, "--token", TOKEN, "--name", f"{NAME}=127.0.0.1"], where)
    relay.name = NAME
    return relay


def weir_relay(
    authority: Authority, listen: str = "127.0.0.1:0", where: Holder | None = None, folder: Path | None = None
) -> Process:
    """`weir-server --relay` for destinations on this machine, which resolves names by the system's resolver."""
    made = authority.issue(listen.rpartition(":")[0])
    folder = folder or authority.folder
    file = secret(folder / "relay-token", TOKEN)
    command = [quic_rig.WEIR_SERVER, "--listen", listen, "--cert", made.cert, "--key", made.key, "--grace-s", 0]
    command += ["--relay", "--relay-token", file, "--relay-allow", "127.0.0.0/8"]
    relay = _started([*command, "--max-tunnels-per-source", 1000], where)
    relay.name = "localhost"
    return relay


RELAYS = {"weir": weir_relay, "aioquic": aioquic_relay}


def proxy(
    folder: Path, authority: Authority, relay: Process, *options: object, where: Holder | None = None,
    token: str = TOKEN, listen: str = "127.0.0.1:0",
) -> Process:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    secret(folder / "token", token)
    command = [CLIENT, "proxy", "--listen", listen, "--relay", f"https://{relay.address}", "--ca", authority.ca]
    return _started([*command, "--token", folder / "token", *options], where, folder / "errors")


def curl(proxy_url: str, url: str, *options: object, where: Holder | None = None) -> subprocess.CompletedProcess:
    """Runs curl through a proxy; its output is bytes."""
    command = [
        "curl",
        "--silent",
        "--show-error",
        "--max-time",
        str(PATIENCE_S),
        "-x",
        proxy_url,
        *map(str, options),
        url,
    ]
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
