# SPDX-License-Identifier: Apache-2.0
"""Forwarding speed and memory of `weir-switch` beside BMv2 (when it and p4c-bm2-ss are on PATH) and the
kernel's bridge: same program, same veths, same offered load, in one run. Prints, asserts nothing.

A namespace of its own holds two veth pairs. `weir-frames` offers more than any of them forwards; what came out is read
from the far interface's counters. Repetitions alternate between the targets, so that a busy machine slows all of them.

`--cores N` restricts the switches to N processors: of two, 1 leaves the other to the load and its softirqs, 2 is shared
by switch and load as on any machine. A load without end takes a whole processor; `--per-second` leaves the rest of it
to the switch. `--latency` measures packets that are alone in the target.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
THRIFT_PORT = 9091
GRPC = "127.0.0.1:9559"
BMV2 = "BMv2"
WARM_UP_S = 0.3
READY_LIMIT_S = 20.0
LENGTHS_BYTES = (64, 1400)
LATENCY_PACKETS = 20_000
QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
AIM_RATIO = 10
AIM_RESIDENT_KB = 64 * 1024


class BenchError(Exception):
    """Missing part or failure, in one line."""


def machine() -> ModuleType:
    """`weirlab.bench.machine`, from the clone of this script."""
    sys.path.insert(0, str(HERE.parents[2] / "mininet"))
    from weirlab.bench import machine as found

    return found


def of_others(name: str) -> str | None:
    """`weirlab.paths.of_others`: weir-switch by BMv2's name is no peer."""
    sys.path.insert(0, str(HERE.parents[2] / "mininet"))
    from weirlab.paths import of_others as found

    return found(name)


@dataclass
class Running:
    process: subprocess.Popen | None

    def cpu_s(self) -> float:
        """User and system time of the process so far."""
        if self.process is None:
            return 0.0
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_kb(self) -> int | None:
        """The most memory it ever had."""
        if self.process is None:
            return None
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1])
        raise BenchError("the kernel does not say VmHWM")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


def pinned(words: list, options: argparse.Namespace) -> list:
    """The command of a switch on the last `--cores` processors."""
    if not options.cores:
        return words
    cores = sorted(os.sched_getaffinity(0))[-options.cores :]
    return ["taskset", "-c", ",".join(map(str, cores)), *words]


def load_command(words: list, options: argparse.Namespace) -> list:
    """The command of a load: on the first processor, which `--cores 1` leaves to it and to its softirqs."""
    return ["taskset", "-c", str(min(os.sched_getaffinity(0))), *words] if options.cores else words


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def make_links() -> None:
    ip("link", "set", "lo", "up")
    Path("/proc/sys/net/ipv6/conf/all/disable_ipv6").write_text("1")
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
    for near, far in (("in0", "sw1"), ("out0", "sw2")):
        ip("link", "add", near, "type", "veth", "peer", "name", far)
        for name in (near, far):
            ip("link", "set", name, "up")


def frame(length: int) -> bytes:
    """An IPv4 frame that the routes of router.p4 send to port 2; `length` is with the frame's checksum of 4 bytes."""
    header = bytearray.fromhex("4500000000004000401100000a0000050a000109")
    payload = length - 4 - 14 - len(header)
    header[2:4] = (len(header) + payload).to_bytes(2)
    total = sum(int.from_bytes(header[i : i + 2]) for i in range(0, len(header), 2))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = (~total & 0xFFFF).to_bytes(2)
    return bytes.fromhex("020000000001 0200000000aa 0800") + bytes(header) + bytes(payload)


def weir_switch(program: str, options: argparse.Namespace, compiled: dict) -> Running:
    source = ["--no-p4"] if options.config else ["--no-grpc", "--p4", options.program]
    words = [program, *source, "-i", "1@sw1", "-i", "2@sw2"]
    process = subprocess.Popen(pinned(words, options), stdout=subprocess.PIPE, text=True)
    if not process.stdout.readline().startswith("ready"):
        process.wait()
        raise BenchError("weir-switch did not start; see above")
    return deployed(Running(process), options, ["--switch", "embedded", "--program", options.program])


def simple_switch(program: str, options: argparse.Namespace, compiled: dict) -> Running:
    words = [program, "-i", "1@sw1", "-i", "2@sw2", "--thrift-port", str(THRIFT_PORT), "--log-level", "off"]
    words += ["--no-p4", "--", "--grpc-server-addr", GRPC] if options.config else [compiled["json"]]
    # It complains once for each thread when nobody listens to its events.
    process = subprocess.Popen(pinned(words, options), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    began = time.monotonic()
    port = int(GRPC.rpartition(":")[2]) if options.config else THRIFT_PORT
    while time.monotonic() - began < READY_LIMIT_S:
        if process.poll() is not None:
            raise BenchError(f"{program} ended with status {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            break
        except OSError:
            time.sleep(0.05)
    else:
        process.kill()
        raise BenchError(f"{program} was not ready after {READY_LIMIT_S:.0f} s")
    words = ["--switch", "bmv2", "--p4info", compiled["p4info"], "--device-config", compiled["json"]]
    return deployed(Running(process), options, words)


def deployed(target: Running, options: argparse.Namespace, words: list) -> Running:
    """Brings program and tables by `weir p4 deploy`, as on a real switch, when there is a configuration."""
    if options.config:
        command = [sys.executable, "-m", "weir.cli", "p4", "deploy", "--address", GRPC, "--config", options.config]
        environment = {**os.environ, "PYTHONPATH": str(HERE.parents[2] / "controller"), "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([*command, *words], env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            target.stop()
            raise BenchError(f"weir p4 deploy: {(done.stderr or done.stdout).strip()}")
    return target


class Bridge(Running):
    """The kernel forwarding by address, for scale: no program, no process."""

    def __init__(self) -> None:
        super().__init__(None)
        ip("link", "add", "br0", "type", "bridge")
        for name in ("sw1", "sw2"):
            ip("link", "set", name, "master", "br0")
        ip("link", "set", "br0", "up")

    def stop(self) -> None:
        ip("link", "del", "br0")


def came_out() -> int:
    # Not by /sys, which is of the namespace that mounted it.
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        name, _, counters = line.strip().partition(":")
        if name == "out0":
            return int(counters.split()[1])
    raise BenchError("interface out0 is gone")


def measure(target: Running, frames: str, length: int, options: argparse.Namespace) -> dict:
    seconds = options.seconds
    words = [frames, "-i", "in0", "--frame", frame(length).hex(), "--seconds", str(seconds + 2 * WARM_UP_S)]
    words += ["--per-second", str(options.per_second)] if options.per_second else []
    load = subprocess.Popen(load_command(words, options), stdout=subprocess.PIPE, text=True)
    time.sleep(WARM_UP_S)
    packets, cpu_s, began = came_out(), target.cpu_s(), time.monotonic()
    time.sleep(seconds)
    packets, cpu_s, took_s = came_out() - packets, target.cpu_s() - cpu_s, time.monotonic() - began
    offered = int(load.communicate()[0]) / (seconds + 2 * WARM_UP_S)
    if load.returncode != 0:
        raise BenchError("weir-frames failed; see above")
    return {
        "length_bytes": length,
        "offered_packets_s": offered,
        "forwarded_packets_s": packets / took_s,
        "cpu_us_per_packet": cpu_s * 1e6 / packets if target.process and packets else None,
        "resident_kb": target.resident_kb(),
    }


def latency(target: Running, frames: str, length: int, options: argparse.Namespace) -> dict:
    """Time from the send call to the read call, one packet at a time, of one process: us, and packets lost."""
    words = [frames, "-i", "in0", "--frame", frame(length).hex(), "--until-out-of", "out0"]
    for count in (LATENCY_PACKETS // 20, LATENCY_PACKETS):  # the first to warm up
        done = subprocess.run(
            load_command([*words, "--count", str(count)], options), stdout=subprocess.PIPE, text=True, check=True
        )
    times = done.stdout.split()
    took_us = sorted(int(line) / 1000 for line in times if line != "-")
    if not took_us:
        raise BenchError("no packet came out")
    at = {f"latency_{name}_us": took_us[int(share * (len(took_us) - 1))] for name, share in QUANTILES.items()}
    return {"length_bytes": length, **at, "latency_lost": len(times) - len(took_us)}


def find(name: str, given: str | None) -> str:
    path = given or shutil.which(name)
    if path is None or not os.access(path, os.X_OK):
        raise BenchError(f"{name} is not {'there: ' + given if given else 'on PATH'}; build p4/switch or name it")
    return path


def targets(options: argparse.Namespace, folder: Path) -> dict:
    """Benchmark targets: name to a function that starts it."""
    switch = find("weir-switch", options.switch)
    found = {"weir-switch": lambda: weir_switch(switch, options, compiled), "kernel bridge": Bridge}
    compiled = {"json": folder / "program.json", "p4info": folder / "program.p4info.txtpb"}
    name = "simple_switch_grpc" if options.config else "simple_switch"
    bmv2, compiler = of_others(name), of_others("p4c-bm2-ss")
    if bmv2 is None or compiler is None:
        print(f"{name} and p4c-bm2-ss are not both on PATH: no figures of BMv2", file=sys.stderr)
        return found
    words = [compiler, options.program, "-o", compiled["json"], "--p4runtime-files", compiled["p4info"]]
    subprocess.run(words, check=True)
    return {BMV2: lambda: simple_switch(bmv2, options, compiled), **found}


def run(options: argparse.Namespace) -> dict:
    frames = find("weir-frames", options.frames)
    facts = machine().idle_machine(options.busy)
    make_links()
    rows = []
    with tempfile.TemporaryDirectory(prefix="weir-switch-bench-") as folder:
        started = targets(options, Path(folder))
        for repetition in range(options.repetitions):
            for length in LENGTHS_BYTES:
                for name, start in started.items():
                    target = start()
                    try:
                        row = measure(target, frames, length, options)
                        row |= latency(target, frames, length, options) if options.latency else {}
                    finally:
                        target.stop()
                    rows.append({"target": name, "repetition": repetition, **row})
    found = {"bench": "switch", "program": options.program.name, "cores": options.cores, "machine": facts}
    return {**found, "rows": rows, "ratios": ratios(rows)}


def ratios(rows: list[dict]) -> dict:
    """weir-switch over each other target, repetition by repetition: median, least, most."""
    speed = {(r["target"], r["length_bytes"], r["repetition"]): r["forwarded_packets_s"] for r in rows}
    found: dict = {}
    for (name, length, repetition), value in speed.items():
        if name != "weir-switch" and value > 0:
            ours = speed["weir-switch", length, repetition]
            found.setdefault(name, {}).setdefault(length, []).append(ours / value)
    return {
        name: {length: [statistics.median(v), min(v), max(v)] for length, v in by_length.items()}
        for name, by_length in found.items()
    }


def show(found: dict) -> None:
    rows = found["rows"]
    print(f"{found['program']}: {machine().line(found['machine'])}")
    if found["cores"]:
        print(f"switches on {found['cores']} processors")
    columns = [f"{f'{name} us':>9}" for name in QUANTILES if f"latency_{name}_us" in rows[0]]
    head = f"{'target':14} {'bytes':>5} {'packets/s':>12} {'spread':>19} {'CPU us/packet':>13} {'resident MB':>11}"
    print(" ".join([head, *columns]))
    for length in LENGTHS_BYTES:
        for name in dict.fromkeys(r["target"] for r in rows):
            of = [r for r in rows if (r["target"], r["length_bytes"]) == (name, length)]
            speed = [r["forwarded_packets_s"] for r in of]
            cpu = [r["cpu_us_per_packet"] for r in of if r["cpu_us_per_packet"] is not None]
            resident = [r["resident_kb"] for r in of if r["resident_kb"] is not None]
            delays = [statistics.median(r[f"latency_{q}_us"] for r in of) for q in QUANTILES] if columns else []
            line = (
                f"{name:14} {length:5} {statistics.median(speed):12,.0f} {min(speed):9,.0f}-{max(speed):9,.0f} "
                f"{f'{statistics.median(cpu):.2f}' if cpu else '':>13} "
                f"{f'{max(resident) / 1024:.1f}' if resident else '':>11}"
            )
            print(" ".join([line, *(f"{us:9.1f}" for us in delays)]))
    for name, by_length in found["ratios"].items():
        for length, (median, least, most) in by_length.items():
            aim = f" (aim: {AIM_RATIO} or more)" if name == BMV2 else ""
            print(f"weir-switch / {name}, {length} bytes: {median:.1f} ({least:.1f} to {most:.1f}){aim}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", type=Path, default=HERE / "router.p4", help="P4 program without a controller")
    parser.add_argument("--config", type=Path, help="bring the program by P4Runtime, with the tables of this file")
    parser.add_argument("--switch", help="weir-switch (default: on PATH)")
    parser.add_argument("--frames", help="weir-frames (default: on PATH)")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
    parser.add_argument("--per-second", type=int, metavar="N", help="frames offered (default: as many as are taken)")
    parser.add_argument("--latency", action="store_true", help=f"also of {LATENCY_PACKETS} lone packets")
    parser.add_argument("--cores", type=int, choices=(1, 2), help="processors of the switches")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--busy", action="store_true", help="measure although other programs use the processors")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        # The links die with the namespace, whatever happens.
        return subprocess.call(["unshare", "-n", sys.executable, __file__, *sys.argv[1:], "--inside"])
    try:
        found = run(options)
    except (BenchError, machine().BusyError, subprocess.CalledProcessError) as e:
        print(f"bench switch: {e}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(found))
    else:
        show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
