# SPDX-License-Identifier: Apache-2.0
"""One run of a scenario on `campus`, inside a lab: everything at once, and the changes of the networks.

Reads `spec.json` from the run's folder and leaves there `run.jsonl` (samples.py has its form), the programs' outputs,
and logs, all of it as it comes: `--watch` reads it. It computes no figure.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.context import ForkProcess
from pathlib import Path
from typing import Any, TextIO

from weirlab import paths
from weirlab.lab.arrivals import arrivals
from weirlab.lab.bridges import move_lines
from weirlab.lab.files import draw_file, sha256_of
from weirlab.lab.net import LabNet, NetError, device_counts
from weirlab.lab.p4switch import LabP4Switch, Queue, grpc_command, run_in_order, tell_cycle_counter_rate, weir_variables
from weirlab.lab.programs import Command, Programs, barrier, main, sleep_until_us
from weirlab.lab.rates import followed
from weirlab.lab.shaping import shaped_rate
from weirlab.topologies.campus import commands, counting
from weirlab.topologies.campus.commands import OBJECT, OFFERED, WEB_FLOW, there_is
from weirlab.topologies.campus.deploy import (
    LAW,
    deploy_config,
    fleet_config,
    law_ports,
    linux_queues,
    ports_of,
    switch_file,
)
from weirlab.topologies.campus.network import MANAGEMENT, CampusNet, move_phone_lines, wifi_down
from weirlab.topologies.campus.sites import (
    CELL_ROUTER,
    CONTROLLER,
    GRPC_PORT,
    ORIGIN,
    PHONE,
    PUBLISHER,
    SITES,
    WALK,
    management_address,
    switch_of,
    watched,
)

PROGRAM = "p4/programs/edge.p4"
LEAD_S = 2
"""Between the phone's first applications' start and the run's: they are connected by then."""
SETTLE_S = 3.0
"""Time for uploads and streams to end after the run."""
TICK_MS = 100
"""Interval of readings of the streams by name, and of writing the run's lines."""
DEEP_PACKETS = 10_000
"""Of a switch's queue without a rate: a burst of copies for many ports must fit."""
FULL_BYTES = 1514
"""Of a frame with 1500 bytes in it."""
Event = tuple[float, Callable[[], Any]]


class CampusDrive(Programs):
    """A run with everything in it."""

    def __init__(self, spec: dict, out: Path) -> None:
        super().__init__(spec, out)
        self.has = spec["has"]
        self.told: TextIO  # run.jsonl
        self.counting: ForkProcess | None = None
        self.parts: dict[str, tuple[Command, subprocess.Popen]] = {}
        """Parts that may be killed, by the words of `[[kills]]`; switches are nodes."""
        self.running: dict[int, tuple[Command, subprocess.Popen]] = {}  # by a descriptor that tells of the end
        self.source = threading.Event()
        self.digest = ""
        self.poll = select.poll()
        self.site = SITES[0]

    def run(self) -> None:
        tell_cycle_counter_rate()
        if self.has["names"] or (self.has["aqm"] == LAW and self.has["tune"]):
            run_in_order()  # and so are all programs of the run
        OFFERED.mkdir()
        self.digest = draw_file(OFFERED / OBJECT, self.spec["file"]["bytes"], self.spec["seed"])
        switches = {switch_of(site): self.switch(site) for site in SITES}
        with (
            open(self.out / "run.jsonl", "w") as self.told,
            LabNet(CampusNet(spec=self.spec, switches=switches), switch=LabP4Switch) as net,
        ):
            try:
                self.traffic(net)
            finally:
                self.source.set()
                self.stop()
            self.write_qdiscs([net[node] for node in dict.fromkeys(queue.node for queue in linux_queues(self.spec))])

    def stop(self) -> None:
        if self.counting is not None:
            self.counting.terminate()
            self.counting.join()
        super().stop()

    def line(self, kind: str, **fields: Any) -> None:
        """Add a line to the run's, with the time now."""
        line = {"k": kind, "t_us": time.monotonic_ns() // 1000, **fields}
        self.told.write(json.dumps(line, separators=(",", ":")) + "\n")

    def switch(self, site: int) -> dict[str, Any]:
        """The parameters of a site's switch."""
        target, config = self.spec["switches"]["target"], self.out / switch_file(site)
        config.write_text(deploy_config(site, self.spec))
        queues = {port: Queue(depth_packets=DEEP_PACKETS) for port in ports_of(site, self.spec)}
        for queue in law_ports(site, self.spec):
            assert queue.port is not None  # it is a switch's
            rate: dict[str, Any] = {"rate_bit_s": round(queue.rate_mbit_s * 1e6)}
            if target == "bmv2":  # the only unit there
                rate = {"rate_packets_s": round(queue.rate_mbit_s * 1e6 / 8 / FULL_BYTES)}
            queues[queue.port] = Queue(depth_packets=queue.limit_packets, **rate)
        return {
            "switch": target,
            "queues": queues,
            "config": config,
            "deploy": ("--program", str(paths.clone() / PROGRAM)),
            "grpc": f"{management_address(site)}:{GRPC_PORT}",
            "management": MANAGEMENT,
            "seed": int(os.environ["WEIR_SEED"]) * 100 + site,
            "log": self.out / f"log-switch-{switch_of(site)}.txt",
        }

    def traffic(self, net: LabNet) -> None:
        spec, out = self.spec, self.out
        barrier()
        if self.has["names"]:
            there = {switch_of(site): f"{management_address(site)}:{GRPC_PORT}" for site in SITES}
            self.counting = counting.begin(net[CONTROLLER].namespace, there, out / "names.jsonl")
        if self.has["aqm"] == LAW:
            self.attach_law(net)
        cc = spec["server"]["cc"]
        started = [commands.server(spec, ORIGIN, cc, out)]
        started += list(commands.publishers(spec)) if self.has["names"] else [commands.server(spec, PUBLISHER, cc, out)]
        started += commands.sinks(out, spec["duration_s"] + 60)
        for command in started:
            self.parts[command.what] = command, self.begin(net, command)
        if self.has["names"]:
            self.begin_live(net)
        self.wait_ready()
        if self.has["aqm"] == LAW and self.has["tune"]:
            self.start_tuner(net)
            self.wait_ready()
        plan = web_plan(spec)
        (out / "plan-web.txt").write_text("".join(f"{at} {WEB_FLOW} {n} {size}\n" for n, (at, size) in enumerate(plan)))
        for node, tool in ((CELL_ROUTER, "tc"), (WALK, "tc"), (WALK, "ip"), (PHONE, "ip")):
            self.tell(net, node, tool, [])  # it runs by then
        barrier()
        start_us = (int(time.monotonic()) + LEAD_S) * 10**6
        day_us = start_us + (time.time_ns() - time.monotonic_ns()) // 1000
        self.line("start", t_us=start_us, time_of_day_us=day_us)
        for site in SITES:
            self.tell_clock(net, switch_of(site))
        for number, _ in enumerate(spec["requests"] if there_is(spec, "requests") else ()):
            self.follow(net, commands.requests(spec, number, start_us, out))
        sleep_until_us(start_us)
        self.look_at_links(net)
        self.play(net, start_us, sorted(self.events(net), key=lambda event: event[0]))
        self.look_at_links(net)
        self.close_batches()
        self.end(net)

    def begin(self, net: LabNet, command: Command, stdin: int = subprocess.DEVNULL) -> subprocess.Popen:
        env = weir_variables() if command.what == commands.TUNE else None
        return self.start(net[command.node], command.what, command.argv, command.ready, command.output, stdin, env)

    def follow(self, net: LabNet, command: Command) -> None:
        """Start a program whose end is to be reported."""
        process = self.begin(net, command)
        ended = os.pidfd_open(process.pid)
        self.running[ended] = command, process
        self.poll.register(ended, select.POLLIN)
        self.line("began", what=command.what)

    def begin_live(self, net: LabNet) -> None:
        """The publisher of the stream, and the camera: a thread that has something new for it every 100 ms."""
        command = commands.live_publisher()
        publisher = self.begin(net, command, subprocess.PIPE)
        self.parts[command.what] = command, publisher
        pipe, piece = publisher.stdin, bytes(commands.stream_piece_bytes(self.spec))
        assert pipe is not None  # it was asked for

        def film() -> None:
            at_us = time.monotonic_ns() // 1000
            try:
                while not self.source.is_set():
                    pipe.write(piece)
                    pipe.flush()
                    at_us += commands.STREAM_EVERY_MS * 1000
                    sleep_until_us(at_us)
            except BrokenPipeError:
                pass  # the publisher was killed, which the run's lines tell
            finally:
                with suppress(BrokenPipeError):
                    pipe.close()

        threading.Thread(target=film, daemon=True).start()

    def attach_law(self, net: LabNet) -> None:
        """The law as eBPF at the kernel's queues."""
        gains = [f"{key}={value}" for key, value in self.spec["law"].items() if key != "profile"]
        profile = paths.clone() / "controller" / "profiles" / f"{self.spec['law']['profile']}.toml"
        # Behind the filters that let through packets marked EF; that class's queue is none of the law's.
        behind = ["--hook", "clsact", "--whole-tree"] if self.spec["priority"]["ef_mbit_s"] else []
        for queue in linux_queues(self.spec):
            said = net[queue.node].cmd(
                "weir-xdp", "attach", queue.device, "--signal", "veth", "--gains", profile,
                "--peer", f"{queue.peer_device}@{net[queue.peer].namespace}",
                "--limit-packets", queue.limit_packets, *behind, *gains, "--expert", "--json",
            )  # fmt: skip
            (self.out / f"attached-{queue.device}.json").write_text(said)

    def start_tuner(self, net: LabNet) -> None:
        """One controller for all queues, on Linux and on the switches."""
        fleet = self.out / "fleet.toml"
        fleet.write_text(fleet_config(self.spec))
        words = ["tune", "--fleet", str(fleet), "--decisions", str(self.out / "decisions.jsonl")]
        words += ["--samples", str(self.out / "queues.jsonl")]
        command = Command(CONTROLLER, commands.TUNE, grpc_command(*words), ready="tuning")
        self.parts[command.what] = command, self.begin(net, command)

    def events(self, net: LabNet) -> list[Event]:
        """Events with their times, in seconds of the run."""
        spec, out = self.spec, self.out
        found: list[Event] = []
        if there_is(spec, "neighbours"):
            found += [(0.0, partial(self.follow, net, command)) for command in commands.neighbours(spec, out)]
        for at_s, rate in followed(spec["cell"]["rates"], spec["duration_s"]):
            if at_s > 0:
                line = shaped_rate("change", rate).format(dev="celldown")
                found.append((at_s, partial(self.tell, net, CELL_ROUTER, "tc", [line])))
        fetch = commands.by_name if self.has["names"] else commands.by_unicast
        for what in ("stream", "file"):
            for number in commands.hosts_of_stream(spec) if there_is(spec, what) else ():
                found.append((spec[what]["start_s"], partial(self.follow, net, fetch(spec, what, number, out))))
        for number, at_s in enumerate(spec["downloads"]["at_s"] if there_is(spec, "downloads") else ()):
            found.append((at_s, partial(self.follow, net, commands.download(spec, number, out))))
        if there_is(spec, "upload"):
            found.append((spec["upload"]["start_s"], partial(self.follow, net, commands.upload(spec, out))))
        for fade in spec["fades"]:
            for at_s, loss in ((fade["at_s"], fade["loss_percent"]), (fade["at_s"] + fade["for_s"], None)):
                found.append((at_s, partial(self.fade, net, loss)))
        for kill in spec["kills"]:
            found.append((kill["at_s"], partial(self.kill, net, kill["part"])))
            back_s = kill["at_s"] + kill["back_after_s"]
            found.append((back_s, partial(self.bring_back, net, kill["part"], back_s)))
        for move in spec["moves"]:
            found.append((move["at_s"], partial(self.move, net, move["to_site"])))
            found.append((move["at_s"] + move["address_after_s"], partial(self.give_address, net, move["to_site"])))
        return found

    def kill(self, net: LabNet, part: str) -> None:
        """End a part without a word of warning."""
        if part in map(switch_of, SITES):
            net[part].kill()
        elif part == commands.REQUESTS and there_is(self.spec, "requests"):
            self.process_of(part).kill()
        elif part in self.parts:
            self.parts[part][1].kill()
            self.parts[part][1].wait()
        self.line("killed", part=part)

    def bring_back(self, net: LabNet, part: str, now_s: float) -> None:
        """Start a part again, as it was started at first; a switch is given its program and tables."""
        if part in map(switch_of, SITES):
            net[part].start()
            self.tell_clock(net, part)
        elif part == commands.REQUESTS and there_is(self.spec, "requests"):
            self.follow(net, commands.requests(self.spec, 0, time.monotonic_ns() // 1000, self.out, now_s))
        elif part == commands.LIVE_PUBLISHER and part in self.parts:
            self.begin_live(net)
        elif part in self.parts:
            command = self.parts[part][0]
            self.parts[part] = command, self.begin(net, command)
        self.line("back", part=part)

    def process_of(self, what: str) -> subprocess.Popen:
        return next(process for command, process in self.running.values() if command.what == what)

    def tell_clock(self, net: LabNet, switch: str) -> None:
        """When a switch's clock was 0, by which its samples have their times."""
        self.line("clock", node=switch, started_us=net[switch].clock.started_us)

    def fade(self, net: LabNet, loss_percent: float | None) -> None:
        """Wi-Fi loses more, or (None) as always."""
        lines = wifi_down(self.spec["wifi"], "change", loss_percent)
        self.tell(net, WALK, "tc", [line.format(dev="down") for line in lines])
        loss = self.spec["wifi"]["loss_percent"] if loss_percent is None else loss_percent
        self.line("fade", loss_percent=loss)

    def move(self, net: LabNet, to_site: int) -> None:
        """The phone leaves one site's Wi-Fi for the other's."""
        self.tell(net, WALK, "ip", move_lines(self.site, to_site))
        self.line("move", from_site=self.site, to_site=to_site)

    def give_address(self, net: LabNet, to_site: int) -> None:
        """The phone has an address of the network where it is."""
        self.tell(net, PHONE, "ip", move_phone_lines(self.site, to_site))
        self.site = to_site

    def play(self, net: LabNet, start_us: int, due: list[Event]) -> None:
        """Do the due events and look at arrivals, until the time is over."""
        end_us = start_us + round(self.spec["duration_s"] * 1e6)
        tick_us = start_us
        while (now_us := time.monotonic_ns() // 1000) < end_us:
            if due and now_us >= start_us + round(due[0][0] * 1e6):
                due.pop(0)[1]()
                continue
            if now_us >= tick_us:
                self.look_at_streams()
                self.told.flush()
                tick_us += TICK_MS * 1000
            next_us = min([end_us, tick_us, *(start_us + round(at_s * 1e6) for at_s, _ in due[:1])])
            self.wait(next_us)

    def wait(self, until_us: int) -> None:
        """Wait until a time or until a program ends."""
        left_us = until_us - time.monotonic_ns() // 1000
        for ended, _ in self.poll.poll(max(0, -(-left_us // 1000))):
            command, process = self.running.pop(ended)
            self.poll.unregister(ended)
            os.close(ended)
            status = process.wait()
            self.line("ended", what=command.what, status=status)

    def look_at_streams(self) -> None:
        """Bytes of the stream that have come by name to each of its receivers."""
        if not self.has["names"]:
            return
        t_us = time.monotonic_ns() // 1000
        for number in commands.hosts_of_stream(self.spec):
            came = self.out / commands.came_file("stream", number)
            if came.is_file():
                self.line("came", t_us=t_us, receiver=number, bytes=came.stat().st_size)

    def look_at_links(self, net: LabNet) -> None:
        for node, devices in watched(self.spec).items():
            counts = device_counts(net[node].namespace)
            t_us = time.monotonic_ns() // 1000
            for device in devices:
                self.line("link", t_us=t_us, node=node, device=device, **counts[device])

    def end(self, net: LabNet) -> None:
        """End what still runs, and gather the final reports."""
        deadline_us = time.monotonic_ns() // 1000 + round(SETTLE_S * 1e6)
        self.source.set()
        for _, process in self.running.values():
            process.send_signal(signal.SIGINT)
        while self.running and time.monotonic_ns() // 1000 < deadline_us:
            self.wait(deadline_us)
        for command, _ in self.running.values():
            self.line("unfinished", what=command.what)
        if self.counting is not None and self.counting.exitcode is not None:
            raise NetError(f"what reads the switches' counters ended with {self.counting.exitcode}")
        for site in SITES:
            switch = net[switch_of(site)]
            switch.check()
            shown = json.loads(switch.weir("p4", "show", *switch.device_words(), "--counters", "--json"))
            packets = shown.get("names", {}).get("packets", {})
            self.line("switch", node=switch.name, packets=packets)
        for number in commands.hosts_of_stream(self.spec) if self.has["names"] else ():
            came = self.out / commands.came_file("file", number)
            whole = came.is_file() and sha256_of(came) == self.digest
            self.line("file", receiver=number, whole=whole)
            for what in ("file", "stream"):
                (self.out / commands.came_file(what, number)).unlink(missing_ok=True)


def web_plan(spec: dict[str, Any]) -> list[tuple[int, int]]:
    """When the web-like transfers start (us of the run), and their bytes."""
    flows = spec["neighbours"]
    if not flows["web_per_s"]:
        return []
    flow = {
        "count": 1,
        "start_s": 0.0,
        "stop_s": spec["duration_s"],
        "arrivals_per_s": flows["web_per_s"],
        "bytes_median": flows["web_bytes_median"],
        "bytes_sigma": flows["web_bytes_sigma"],
    }
    return arrivals(flow, 0, spec["seed"])[0]


if __name__ == "__main__":
    sys.exit(main(CampusDrive))
