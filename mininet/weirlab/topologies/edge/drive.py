# SPDX-License-Identifier: Apache-2.0
"""One run of a scenario on `edge`, inside a lab: a publisher, switches, and receivers that all want the file at once.

Reads `spec.json` from the run's folder and leaves there `run.jsonl` (samples.py says what is in it), what the programs
reported, and logs. It computes no figure.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.lab.bridges import move_lines
from weirlab.lab.files import draw_file, sha256_of
from weirlab.lab.net import LabNet, NetError, device_counts
from weirlab.lab.p4switch import LabP4Switch, Queue, tell_cycle_counter_rate
from weirlab.lab.programs import Command, Programs, barrier, main, sleep_until_us
from weirlab.topologies.edge.commands import (
    CACHE,
    OBJECT,
    OFFERED,
    PUBLISH,
    WAYS,
    WRONG_USAGE,
    cache_report,
    publisher_report,
)
from weirlab.topologies.edge.deploy import deploy_config, queues_of
from weirlab.topologies.edge.network import EdgeNet, address_lines, walk_of
from weirlab.topologies.edge.tree import PUBLISHER, Receiver, tree_of

PROGRAM = "p4/programs/edge.p4"
LEAD_S = 1
"""Between the last program's start and the receivers'."""
WATCH_MS = 1
"""Interval of readings of a moving receiver's data, ..."""
WATCH_S = 2.0
"""... so long before and after a move."""


class EdgeDrive(Programs):
    """A run on a tree of switches."""

    def __init__(self, spec: dict, out: Path) -> None:
        super().__init__(spec, out)
        self.tree = tree_of(spec)
        self.way = WAYS[spec["carrying"]["carry"]]
        self.lines: list[dict[str, Any]] = []
        self.digest = ""
        self.left: set[int] = set()
        self.publisher_log = ""

    def run(self) -> None:
        tell_cycle_counter_rate()
        self.make_file()
        switches = {switch.name: self.switch(switch) for switch in self.tree.switches}
        with LabNet(EdgeNet(tree=self.tree, spec=self.spec, switches=switches), switch=LabP4Switch) as net:
            try:
                self.traffic(net)
            finally:
                self.stop()
                self.write_lines("run.jsonl", self.lines)

    def make_file(self) -> None:
        """The file that the publisher offers, drawn from the seed."""
        OFFERED.mkdir()
        self.digest = draw_file(OFFERED / OBJECT, self.spec["transfer"]["bytes"], self.spec["seed"])

    def switch(self, switch: Any) -> dict[str, Any]:
        """The parameters of a switch's node. Its queues are deep unless they have a rate: a burst of copies for many
        ports must fit."""
        config = self.out / f"switch-{switch.name}.toml"
        config.write_text(deploy_config(self.tree, switch, self.spec))
        rated = queues_of(switch, self.spec)
        return {
            "switch": "embedded",
            "queues": {port: Queue(rate_bit_s=round(rate * 1e6), depth_packets=n) for port, (rate, n) in rated.items()},
            "depth_packets": 10_000,
            "config": config,
            "deploy": ("--program", str(paths.clone() / PROGRAM)),
            "seed": int(os.environ["WEIR_SEED"]) * 100 + switch.number,
            "log": self.out / f"log-switch-{switch.name}.txt",
        }

    def traffic(self, net: LabNet) -> None:
        barrier()
        caches: dict[str, str] = {}
        for command in self.way.servers(self.tree, self.spec, self.out):
            self.begin(net, command)
            if command.what == CACHE:
                caches[command.node] = self.processes[-1][0]
            if command.what == PUBLISH:
                self.publisher_log = self.processes[-1][0]
        self.wait_ready()
        barrier()
        start_us = (int(time.monotonic()) + LEAD_S) * 10**6
        self.lines.append({"k": "start", "t_us": start_us})
        for move in self.spec["moves"]:
            for node in (walk_of(move["receiver"]), f"r{move['receiver']}"):
                self.tell(net, node, "ip", [])  # it runs by then
        sleep_until_us(start_us)
        self.look_at_links(net)
        started = {
            receiver: self.begin(net, self.way.fetch(receiver, self.spec, self.out)) for receiver in self.tree.receivers
        }
        ended_us = self.watch(net, started, start_us)
        self.look_at_links(net)
        self.close_batches()
        for switch in self.tree.switches:
            node = net[switch.name]
            node.check()
            shown = json.loads(node.weir("p4", "show", *node.device_words(), "--counters", "--json"))
            packets = shown.get("names", {}).get("packets", {})
            self.lines.append({"k": "switch", "node": switch.name, "packets": packets})
        self.stop()  # a server's report is complete then
        for node, log in caches.items():
            self.lines.append({"k": "cache", "node": node, **cache_report(self.out / log)})
        if self.publisher_log:
            self.lines.append({"k": "publisher", **publisher_report(self.out / self.publisher_log)})
        for receiver, process in started.items():
            self.tell_receiver(receiver, process, start_us, ended_us.get(receiver))

    def begin(self, net: LabNet, command: Command) -> subprocess.Popen:
        return self.start(net[command.node], command.what, command.argv, ready=command.ready, output=command.output)

    def watch(self, net: LabNet, started: dict[Receiver, subprocess.Popen], start_us: int) -> dict[Receiver, int]:
        """Wait until all receivers' programs have ended, or the time is over; in between do the moves. The ends."""
        end_us = start_us + round(self.spec["duration_s"] * 1e6)
        due = [(start_us + round(at_s * 1e6), what) for at_s, what in self.happenings(net, started)]
        waiting = {os.pidfd_open(process.pid): receiver for receiver, process in started.items()}
        ended_us: dict[Receiver, int] = {}
        poll = select.poll()
        for fd in waiting:
            poll.register(fd, select.POLLIN)
        while waiting and (now_us := time.monotonic_ns() // 1000) < end_us:
            if due and now_us >= due[0][0]:
                due.pop(0)[1]()
                continue
            next_us = min([end_us, *(t_us for t_us, _ in due[:1])])
            if self.near_a_move(now_us, start_us):
                self.look_at_movers(net)
                next_us = min(next_us, now_us + WATCH_MS * 1000)
            elif self.spec["moves"]:
                next_us = min(next_us, now_us + 100 * WATCH_MS * 1000)
            for fd, _ in poll.poll(max(1, -(-(next_us - now_us) // 1000))):
                ended_us[waiting.pop(fd)] = time.monotonic_ns() // 1000
                poll.unregister(fd)
                os.close(fd)
        for fd in waiting:
            os.close(fd)
        return ended_us

    def happenings(
        self, net: LabNet, started: Mapping[Receiver, subprocess.Popen]
    ) -> list[tuple[float, Callable[[], None]]]:
        """Events of receivers with their times, in order."""
        found: list[tuple[float, Callable[[], None]]] = []
        at = {receiver.number: receiver.edge for receiver in self.tree.receivers}
        receivers = {receiver.number: receiver for receiver in self.tree.receivers}
        for move in self.spec["moves"]:
            receiver, from_edge, to_edge = receivers[move["receiver"]], at[move["receiver"]], move["to_edge"]
            at[receiver.number] = to_edge
            found.append((move["at_s"], partial(self.move, net, receiver.number, from_edge, to_edge)))
            lines = address_lines(self.tree, receiver, from_edge, to_edge)
            if from_edge != to_edge:
                found.append(
                    (move["at_s"] + move["address_after_s"], partial(self.tell, net, receiver.name, "ip", lines))
                )
        for leave in self.spec["leaves"]:
            found.append((leave["at_s"], partial(self.leave, leave["receiver"], started[receivers[leave["receiver"]]])))
        return sorted(found, key=lambda happening: happening[0])

    def leave(self, number: int, process: subprocess.Popen) -> None:
        """A receiver wants the file no longer, if it has not all of it yet."""
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            self.lines.append({"k": "leave", "t_us": time.monotonic_ns() // 1000, "receiver": number})
            self.left.add(number)

    def near_a_move(self, now_us: int, start_us: int) -> bool:
        return any(abs(now_us - start_us - move["at_s"] * 1e6) < WATCH_S * 1e6 for move in self.spec["moves"])

    def move(self, net: LabNet, number: int, from_edge: int, to_edge: int) -> None:
        self.tell(net, walk_of(number), "ip", move_lines(from_edge, to_edge))
        t_us = time.monotonic_ns() // 1000
        self.lines.append({"k": "move", "t_us": t_us, "receiver": number, "from_edge": from_edge, "to_edge": to_edge})

    def look_at_movers(self, net: LabNet) -> None:
        for number in self.tree.visits:
            counts = device_counts(net[f"r{number}"].namespace)["eth0"]
            t_us = time.monotonic_ns() // 1000
            self.lines.append({"k": "arrived", "t_us": t_us, "receiver": number, "bytes": counts["received_bytes"]})

    def look_at_links(self, net: LabNet) -> None:
        """Counters of each switch's ports, the publisher's, and the devices of broadcast segments."""
        for node in (PUBLISHER, *(switch.name for switch in self.tree.switches), *self.tree.segments):
            for device, counts in device_counts(net[node].namespace).items():
                t_us = time.monotonic_ns() // 1000
                self.lines.append({"k": "link", "t_us": t_us, "node": node, "device": device, **counts})

    def tell_receiver(self, receiver: Receiver, process: subprocess.Popen, start_us: int, ended_us: int | None) -> None:
        """Result of one receiver's file. Without an end, or if its program says that it failed, it has none."""
        if process.returncode == WRONG_USAGE:
            log = next(name for name, started in self.processes if started is process)
            raise NetError(f"{log}: {' '.join((self.out / log).read_text().split())[:500]}")
        line: dict[str, Any] = {"k": "receiver", "receiver": receiver.number, "edge": receiver.edge}
        line |= {"started_us": start_us, "ended_us": ended_us, "status": process.returncode, "bytes": 0}
        if receiver.number in self.left and process.returncode != 0:
            line["outcome"] = "left"
        elif ended_us is None:
            line["outcome"] = "unfinished"
        else:
            line["outcome"] = "complete" if process.returncode == 0 else "failed"
        fetched = self.way.fetched(receiver, self.out)
        if fetched is not None and fetched.is_file():
            line["bytes"] = fetched.stat().st_size
            if line["outcome"] == "complete" and sha256_of(fetched) != self.digest:
                line["outcome"] = "corrupt"
            fetched.unlink()
        try:
            line |= self.way.report(receiver, self.out)
        except (OSError, ValueError, KeyError, StopIteration) as error:
            if line["outcome"] == "complete":
                raise NetError(f"{receiver.name}: its program's report can't be read: {error!r}") from None
        self.lines.append(line)


if __name__ == "__main__":
    sys.exit(main(EdgeDrive))
