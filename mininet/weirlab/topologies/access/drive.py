# SPDX-License-Identifier: Apache-2.0
"""One run of a scenario on `access`, inside a lab: K paths, one server, one client, and the changes of the paths.

Reads `spec.json` from the run's folder and leaves there: `start.jsonl` (time 0 is the start of round 0), `truth.jsonl`
(true state of the paths), `events-*.jsonl` and `flows-*.jsonl` (outputs of client and server), logs. It computes no
figure.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from weirlab.lab.net import LabNet, NetError
from weirlab.lab.programs import (
    IN_THE_LAB,
    NO_ECN,
    QUIC_PORT,
    SAMPLE_MS,
    Programs,
    barrier,
    main,
    sleep_until_us,
)
from weirlab.scenario.policies import weights_words
from weirlab.topologies.access.network import Access, access_delays, access_rate
from weirlab.topologies.access.schedule import Schedule, State, sizes_of

LEAD_S = 2  # between the client's start and round 0: it is connected by then and has probed its paths
SETTLE_S = 5  # how long the client may take to close after its last task
# Interval of the client's byte counts where transfers are watched, not rounds; a handover's silence is read from them.
TRANSFER_SAMPLE_MS = 10
# weir-client's statuses for tasks that were not done: a result of the run, in its events.
TASKS_FAILED = (5, 6)
# weir-client's options, and under which key of a spec's `client` each is.
OPTIONS = {
    "--requests": "requests",
    "--interval-ms": "interval_ms",
    "--parallel": "parallel",
    "--strategy": "strategy",
    "--model": "model",
    "--memory": "memory_tasks",
    "--weight-a": "weight_a",
    "--epsilon": "epsilon",
    "--explore-c": "explore_c",
    "--standby": "standby",
    "--window": "window",
    "--stream-window": "stream_window_bytes",
    "--max-stream-window": "max_stream_window_bytes",
    "--conn-window": "conn_window_bytes",
    "--max-conn-window": "max_conn_window_bytes",
    "--memory-budget": "memory_budget_bytes",
}


def client_command(spec: dict, start_us: int, folder: Path) -> list[str]:
    """weir-client's command line for a spec, its tasks counting from `start_us` of the monotonic clock."""
    client = spec["client"]
    words = ["weir-client", f"https://{Access.SERVER}:{QUIC_PORT}", "--flow-label", "0"]
    words += ["--bytes", ",".join(map(str, sizes_of(client)))]
    words += ["--insecure", *IN_THE_LAB, *NO_ECN, "--quiet", "--json", "--seed", str(spec["seed"])]
    for path in spec["paths"]:
        words += ["--path", path["name"]]
    # The other rules do not heed it, and weir-client says so.
    unheeded = set() if client["window"] == "weir" else {"--memory-budget"}
    for option, key in OPTIONS.items():
        if option in unheeded:
            continue
        value = client[key]
        words += [option, f"{value:.15g}" if isinstance(value, float) else str(value)]
    if client.get("per_byte"):
        words.append("--per-byte")
    words += [f"--aggregate={client['aggregate']}"]
    if client["strategy"] == "oracle":
        words += ["--oracle-plan", str(folder / "oracle.jsonl")]
    words += ["--start-at-us", str(start_us), "--events", str(folder / "events-0.jsonl")]
    every_ms = SAMPLE_MS if client["interval_ms"] else TRANSFER_SAMPLE_MS
    return [*words, "--stats", str(folder / "flows-client.jsonl"), "--stats-every-ms", str(every_ms)]


def server_command(spec: dict, folder: Path) -> list[str]:
    """weir-server's command line for a spec; a policy of the spec's own is put into `folder`. Raises OSError."""
    server = spec["server"]
    words = ["weir-server", "--listen", f"0.0.0.0:{QUIC_PORT}", "--cc", server["cc"]]
    words += weights_words(server, folder / "policy.weights")
    words += [*IN_THE_LAB, *NO_ECN, "--initial-window-packets", str(server["initial_window_packets"])]
    words += ["--state-dir", "/run/weir-server", "--stats", str(folder / "flows-server.jsonl")]
    return [*words, "--stats-every-ms", str(SAMPLE_MS)]


class AccessDrive(Programs):
    """A run on K access networks."""

    def __init__(self, spec: dict, out: Path) -> None:
        super().__init__(spec, out)
        self.schedule = Schedule(spec)
        self.routers = {path["name"]: f"r{k}" for k, path in enumerate(spec["paths"], start=1)}
        self.now: dict[str, State] = dict(self.schedule.steps[0].paths)

    def run(self) -> None:
        with LabNet(Access(self.now)) as net:
            try:
                self.traffic(net)
            finally:
                self.stop()
            self.write_qdiscs([net["client"], net["core"], *(net[router] for router in self.routers.values())])

    def traffic(self, net: LabNet) -> None:
        spec, out = self.spec, self.out
        barrier()
        self.start(net["server"], "server", server_command(spec, out), ready="listening")
        self.wait_ready()
        barrier()
        start_us = (int(time.monotonic()) + LEAD_S) * 10**6
        self.write_lines("start.jsonl", [{"k": "start", "t_us": start_us}])
        self.write_lines("truth.jsonl", self.schedule.truth())
        if spec["client"]["strategy"] == "oracle":
            self.write_lines("oracle.jsonl", self.schedule.plan())
        client = self.start(net["client"], "client", client_command(spec, start_us, out))
        name = self.processes[-1][0]
        end_us = start_us + round(spec["duration_s"] * 1e6)
        self.play(net, start_us, lambda: client.poll() is not None or time.monotonic() * 1e6 >= end_us)
        try:
            status = client.wait(timeout=max(0.0, end_us / 1e6 - time.monotonic()) + SETTLE_S)
        except subprocess.TimeoutExpired:
            raise NetError(f"{name}: still busy after duration_s = {spec['duration_s']:g}; allow more") from None
        said = (out / name).read_text().strip()
        if status not in (0, *TASKS_FAILED):
            raise NetError(f"{name}: ended with {status}: {said[-500:]}")
        self.close_batches()

    def play(self, net: LabNet, start_us: int, over: Callable[[], bool]) -> None:
        """Apply the schedule to the paths in time until the last step is done or the run is `over`."""
        for name, state in self.now.items():
            if state.link == "down":
                self.link(net, name, up=False)
        for step in self.schedule.steps[1:]:
            sleep_until_us(start_us + step.at_us)
            if over():
                break
            self.take(net, step.paths)

    def take(self, net: LabNet, paths: dict[str, State]) -> None:
        """Bring the paths from their state to that of a step."""
        for name, state in paths.items():
            before, self.now[name] = self.now[name], state
            router = self.routers[name]
            if access_rate("change", state) != access_rate("change", before):
                self.tell(net, "client", "tc", [access_rate("change", state).format(dev=name)])
                self.tell(net, router, "tc", [access_rate("change", state).format(dev="in")])
            if (delays := access_delays("change", state)) != access_delays("change", before):
                self.tell(net, router, "tc", [delays[0].format(dev="out")])
                self.tell(net, "core", "tc", [delays[1].format(dev=f"isp{router[1:]}")])
            if (state.link == "down") != (before.link == "down"):
                self.link(net, name, up=state.link != "down")

    def link(self, net: LabNet, name: str, up: bool) -> None:
        k = int(self.routers[name][1:])
        routes = [f"route add {route}" for route in Access.routes(k, name)] if up else []
        self.tell(net, "client", "ip", [f"link set dev {name} {'up' if up else 'down'}", *routes])


if __name__ == "__main__":
    sys.exit(main(AccessDrive))
