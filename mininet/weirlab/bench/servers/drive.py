# SPDX-License-Identifier: Apache-2.0
"""One server in a lab: weir-client over all paths and over each path alone, one client after the other.

Reads `spec.json` from the run's folder and leaves there for each client `report-NAME.json`, `events-NAME.jsonl` and its
log; `qlog` has the transport parameters. It computes no figure.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from weirlab.lab.net import LabNet, LabNode, NetError, in_namespace
from weirlab.lab.programs import IN_THE_LAB, NO_ECN, QUIC_PORT, Programs, barrier, main
from weirlab.topologies.access.network import Access
from weirlab.topologies.access.schedule import State

READY_LIMIT_S = 20
SETTLE_S = 60
"""Seconds that a client may take beyond its schedule."""
PARAMETERS = "parameters"
"""Name of the client whose qlog has the server's transport parameters."""
ALL = "all"
"""Name of the client on all paths; the others have their path's."""
TIMEOUT_STATUS = 124


def states(spec: dict) -> dict[str, State]:
    """Initial state of each path of a spec."""
    return {
        path["name"]: State(
            rate_mbit_s=path["rate_mbit_s"], rtt_ms=path["rtt_ms"], mean_ms=path["rtt_ms"], jitter_ms=0,
            loss_percent=0, loss_up_percent=0, link="up", queue_limit_packets=path["queue_limit_packets"],
        )
        for path in spec["paths"]
    }  # fmt: skip


def client_command(spec: dict, load: dict, used: list[str], name: str, out: Path) -> list[str]:
    """weir-client's command line for a load over some paths."""
    words = ["weir-client", f"https://localhost:{QUIC_PORT}{load['path']}", "--connect", f"{Access.SERVER}:{QUIC_PORT}"]
    words += ["--alpn", spec["alpn"]]  # a name in the URL: some servers choose their certificate by SNI
    words += ["--insecure", *IN_THE_LAB, *NO_ECN, "--quiet", "--json", "--seed", str(spec["seed"])]
    words += ["--requests", str(load["requests"]), "--interval-ms", str(load["interval_ms"])]
    for path in used:
        words += ["--path", path]
    return [*words, "--events", str(out / f"events-{name}.jsonl")]


def listening(node: LabNode) -> bool:
    """Whether a program of the node has the port. Servers of others have no common word for it."""
    with in_namespace(node.namespace):
        tables = [Path(f"/proc/thread-self/net/{table}").read_text() for table in ("udp", "udp6")]
    return any(f":{QUIC_PORT:04X} " in table for table in tables)


class ServerDrive(Programs):
    """A server of the table, and clients in turn."""

    def run(self) -> None:
        self.files()
        with LabNet(Access(states(self.spec))) as net:
            try:
                self.traffic(net)
            finally:
                self.stop()

    def files(self) -> None:
        """Files for servers that serve a folder, at the paths of the downloads."""
        (self.out / "qlog").mkdir()
        for load in self.spec["loads"]:
            file = self.out / "root" / load["path"].lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("wb") as data:
                data.truncate(load["bytes"])

    def traffic(self, net: LabNet) -> None:
        barrier()
        # With standard input open: msquic's server ends with it.
        server = self.start(net["server"], "server", self.spec["server"], stdin=subprocess.PIPE)
        log = self.out / self.processes[-1][0]
        deadline = time.monotonic() + READY_LIMIT_S
        while not listening(net["server"]):
            if server.poll() is not None or time.monotonic() > deadline:
                raise NetError(f"the server did not start: {log.read_text(errors='replace').strip()[-500:]}")
            time.sleep(0.05)
        names = [path["name"] for path in self.spec["paths"]]
        first = {**self.spec["loads"][0], "requests": 1}
        self.client(net, PARAMETERS, first, names[:1], ["--qlog-dir", str(self.out / "qlog")])
        for load in self.spec["loads"]:
            for name, used in [(ALL, names), *((name, [name]) for name in names)]:
                self.client(net, f"{load['bytes']}-{name}", load, used, [])
                if server.poll() is not None:
                    raise NetError(f"the server ended with {server.returncode} at {load['bytes']} bytes on {name}")

    def client(self, net: LabNet, name: str, load: dict, used: list[str], more: list[str]) -> None:
        """Run a client to its end; one that fails is a result."""
        barrier()
        words = [*client_command(self.spec, load, used, name, self.out), *more]
        client = self.start(net["client"], f"client-{name}", words, output=f"report-{name}.json")
        try:
            status = client.wait(timeout=load["requests"] * load["interval_ms"] / 1e3 + SETTLE_S)
        except subprocess.TimeoutExpired:
            client.kill()
            client.wait()
            status = TIMEOUT_STATUS
        (self.out / f"status-{name}").write_text(f"{status}\n")


if __name__ == "__main__":
    sys.exit(main(ServerDrive))
