# SPDX-License-Identifier: Apache-2.0
"""The programs of each way to carry a file: their command lines, and their reports. All that depends on the command
line of `weir-icn` stands here. Pure but for reading the programs' outputs.

A way has the programs that run beside the receivers all the time (`servers`), which one fetches the file at a receiver
(`fetch`), and what the reports of these say of a receiver (`report`): fields of a `receiver` line (samples.py).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from weirlab.lab.net import NetError
from weirlab.lab.programs import IN_THE_LAB, NO_ECN, QUIC_PORT, SAMPLE_MS, Command
from weirlab.topologies.edge.deploy import FILES, SERVER, host_name
from weirlab.topologies.edge.tree import (
    PUBLISHER,
    PUBLISHER_ADDRESS,
    Receiver,
    Tree,
    cache_of,
    server_address,
    visits_of,
)

OFFERED = Path("/run/files")
"""Folder of the published files, in the lab's own /run."""
OBJECT = "object.bin"
OBJECT_NAME = f"{FILES}/{OBJECT}"
HERE = "127.0.0.1"
ICN_PORT = 4434
"""The publisher's, for manifests and keys."""
WRONG_USAGE = 2
"""The exit code of all our programs for a command line that they don't take."""
SERVER_STATS = "stats-server.jsonl"
CACHE = "cache"
"""Name of a cache's `Command`."""
EDGE_SERVER = "edge-server"
TICKETS = "/run/tickets"
"""Key folder of publisher and edge servers for tickets."""
PUBLISH = "publish"
"""Name of the publisher's `Command` by name."""


class Way(Protocol):
    """One value of `carry`."""

    def servers(self, tree: Tree, spec: Mapping[str, Any], out: Path) -> Iterator[Command]: ...

    def fetch(self, receiver: Receiver, spec: Mapping[str, Any], out: Path) -> Command: ...

    def fetched(self, receiver: Receiver, out: Path) -> Path | None:
        """The file that the receiver wrote; None if the way keeps none."""
        ...

    def report(self, receiver: Receiver, out: Path) -> dict[str, Any]:
        """Receiver's report after its program has ended. Raises OSError, ValueError, KeyError."""
        ...


def asks_again(carrying: Mapping[str, Any]) -> list[str]:
    """Options of what asks again."""
    words = [] if carrying["beta"] is None else ["--beta", f"{carrying['beta']:g}"]
    return words if carrying["gaps"] else [*words, "--no-gaps"]


class Names:
    """An object fetched by name: weir-icn publish, weir-icn get."""

    def servers(self, tree: Tree, spec: Mapping[str, Any], out: Path) -> Iterator[Command]:
        argv = ["weir-icn", "publish", str(OFFERED), "--name", FILES, "--interface", "eth0"]
        argv += ["--listen", f"0.0.0.0:{ICN_PORT}", "--ephemeral", *([] if tree.switches else ["--broadcast"])]
        argv += ["--repair"] if spec["carrying"]["repair"] else []
        shared = ["--ticket-keys", TICKETS] if spec["carrying"]["edge_server"] else []
        yield Command(PUBLISHER, PUBLISH, [*argv, *shared], ready="listening")
        for switch in tree.switches:
            if switch.cache_port is not None:
                argv = ["weir-icn", "cache", "--interface", "eth0", "--memory", f"{spec['carrying']['cache_mb']}MB"]
                yield Command(cache_of(switch.edge), CACHE, argv, ready="ready")
            if switch.server_port is not None:
                argv = ["weir-icn", "edge", "--of", f"{PUBLISHER_ADDRESS}:{ICN_PORT}", "--insecure", *shared]
                argv += ["--listen", f"0.0.0.0:{ICN_PORT}", "--ephemeral"]
                yield Command(cache_of(switch.edge), EDGE_SERVER, argv, ready="listening")

    def fetch(self, receiver: Receiver, spec: Mapping[str, Any], out: Path) -> Command:
        argv = ["weir-icn", "get", OBJECT_NAME, "--output", str(self.fetched(receiver, out)), "--interface", "eth0"]
        at = visits_of(spec["moves"], spec["tree"]["edges"]).get(receiver.number, (receiver.edge,))
        near = [server_address(edge) for edge in at] if spec["carrying"]["edge_server"] else []
        for address in (*near, PUBLISHER_ADDRESS):
            argv += ["--from", f"{address}:{ICN_PORT}"]
        argv += ["--insecure", "--known-publishers", "none", "--quiet", "--json"]
        argv += asks_again(spec["carrying"])
        if len(at) > 1:
            argv += ["--events", str(out / events_output(receiver))]
        return Command(receiver.name, "get", argv, output=f"get-{receiver.number}.json")

    def fetched(self, receiver: Receiver, out: Path) -> Path:
        return out / f"fetched-{receiver.number}.bin"

    def report(self, receiver: Receiver, out: Path) -> dict[str, Any]:
        report = json.loads((out / f"get-{receiver.number}.json").read_text())
        counts = report["objects"][0]["counts"]
        kept = ("asked", "asked_again", "data", "overheard", "duplicates", "marked", "wrong", "nacks")
        group = {f"group_{key}": count for key, count in report["group"].items()}
        asking = {"beta": report["beta"], "response_time_us": report["objects"][0]["response_time_us"]}
        return {**asking, **{key: counts[key] for key in kept}, **group, **moved(out / events_output(receiver))}


def events_output(receiver: Receiver) -> str:
    """The file with weir-icn get's report on a receiver that moves."""
    return f"events-{receiver.number}.jsonl"


def moved(events: Path) -> dict[str, Any]:
    """Of a receiver that moves: its waits for content, and when servers answered that it went on with; else nothing."""
    if not events.exists():
        return {}
    told = _lines(events)
    waits = [[line["t_us"], line["data"]["waited_us"]] for line in told if line["name"] == "icn:stall"]
    return {"stalls": waits, "back_us": [line["t_us"] for line in told if line["name"] == "icn:group"]}


class Unicast:
    """A QUIC download for each receiver over UDP and IP: weir-server, weir-client."""

    address = PUBLISHER_ADDRESS

    def servers(self, tree: Tree, spec: Mapping[str, Any], out: Path) -> Iterator[Command]:
        yield Command(PUBLISHER, "server", [
            "weir-server", "--listen", f"0.0.0.0:{QUIC_PORT}", "--cc", spec["carrying"]["cc"],
            *IN_THE_LAB, *NO_ECN,
            "--state-dir", "/run/weir-server", "--stats", str(out / SERVER_STATS), "--stats-every-ms", str(SAMPLE_MS),
        ], ready="listening")  # fmt: skip

    def fetch(self, receiver: Receiver, spec: Mapping[str, Any], out: Path) -> Command:
        url = f"https://{self.address}:{QUIC_PORT}/bytes/{spec['transfer']['bytes']}"
        argv = ["weir-client", url, "--flow-label", str(receiver.number), "--insecure", *IN_THE_LAB]
        argv += [*NO_ECN, "--quiet"]
        argv += ["--json", "--events", str(out / f"tasks-{receiver.number}.jsonl")]
        return Command(receiver.name, "client", argv, output=client_output(receiver))

    def fetched(self, receiver: Receiver, out: Path) -> None:
        return None

    def report(self, receiver: Receiver, out: Path) -> dict[str, Any]:
        task = next(line for line in _lines(out / f"tasks-{receiver.number}.jsonl") if line["k"] == "task")
        found = {"bytes": task["bytes"], "ended_us": task["start_us"] + task["tct_us"]}
        if task["outcome"] != "complete":
            found["outcome"] = "failed"
        (flow,) = json.loads((out / client_output(receiver)).read_text() or '{"flows": [{}]}')["flows"]
        found |= {key: flow[key] for key in ("handshake_us", "first_byte_us") if flow.get(key) is not None}
        # A server's last line of a flow has no such counts; those before it are 100 ms apart.
        mine = [line for line in _lines(out / SERVER_STATS) if line["flow"] == receiver.number and "sent" in line]
        return found | ({"sent": mine[-1]["sent"], "lost": mine[-1]["lost"]} if mine else {})


def client_output(receiver: Receiver) -> str:
    """The file with weir-client's document; empty while it runs."""
    return f"client-{receiver.number}.json"


class UnicastNames(Unicast):
    """The same programs, their datagrams carried by name: weir-icn server, weir-icn client."""

    address = HERE

    def servers(self, tree: Tree, spec: Mapping[str, Any], out: Path) -> Iterator[Command]:
        yield from super().servers(tree, spec, out)
        carrying = spec["carrying"]
        mode = [*(["--reliable"] if carrying["reliable"] else []), *asks_again(carrying)]
        to = f"{HERE}:{QUIC_PORT}"
        yield Command(PUBLISHER, "icn-server", [
            "weir-icn", "server", "--name", SERVER, "--interface", "eth0", "--to", to, *mode,
        ], ready="serving")  # fmt: skip
        for receiver in tree.receivers:
            name = host_name(receiver.edge, receiver.number)
            yield Command(receiver.name, "icn-client", [
                "weir-icn", "client", "--as", name, "--server", SERVER, "--interface", "eth0", "--listen", to, *mode,
            ], ready="listening")  # fmt: skip


WAYS: dict[str, Way] = {"names": Names(), "unicast": Unicast(), "unicast-names": UnicastNames()}


def cache_report(log: Path) -> dict[str, int]:
    """Report of a cache that has ended: fields of a `cache` line (samples.py). Raises NetError."""
    try:
        report = json.loads(log.read_text().splitlines()[-1])
        kept = ("asked", "hits", "passed_on", "kept", "evicted")
        return {key: report["cache"][key] for key in kept} | {"held_bytes": report["held_bytes"]}
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise NetError(f"{log.name}: the cache's report can't be read: {error!r}") from None


def publisher_report(log: Path) -> dict[str, int]:
    """Report of a publisher that has ended: fields of a `publisher` line (samples.py). Raises NetError."""
    try:
        return {"rekeys": json.loads(log.read_text().splitlines()[-1])["publisher"]["rekeys"]}
    except (IndexError, ValueError, KeyError, TypeError) as error:
        raise NetError(f"{log.name}: the publisher's report can't be read: {error!r}") from None


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
