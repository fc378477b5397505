# SPDX-License-Identifier: Apache-2.0
"""`./run bench names`: throughput of a pair of `weir-icn` converters, and how long they keep a datagram, beside UDP
over the same link; then a download by name through a switch with `icn.p4`: weir-switch, and BMv2 where
simple_switch_grpc and p4c are on PATH. Prints, asserts nothing.

Hosts are network namespaces. Repetitions alternate between what is compared, so that a busy machine slows both. The
download's programs, both converters and the switch share the machine's cores: what the switch could do alone is more.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from weirlab import paths

NEAR, FAR = "10.0.0.1", "10.0.0.2"
QUIC_PORT, ECHO_PORT = 4433, 4434
UP_LIMIT_S = 20.0
TRANSFER_LIMIT_S = 300.0
# Datagrams of the delay's measurement: RTP at 10 Mbit/s or so.
DATAGRAM_BYTES = 1200
PER_SECOND = 1000
ANSWER_LIMIT_S = 0.5
AIM_MBIT_S = 500
AIM_ADDED_MS = 1.0
AIM_RATIO = 10
GRPC_PORT = 9559
BMV2 = "BMv2"
SWITCH_TABLES = """
[names]
quota = 16384
[[names.route]]
prefix = "/bench/hosts"
port = 1
[[names.route]]
prefix = "/bench/web"
port = 2
[aqm.port.1]
profile = "tuned"
[aqm.port.2]
profile = "tuned"
"""
DEPTH_PACKETS = 1000
"""Of each queue of both switches."""
OFFLOADS_OFF = ("tx", "off", "tso", "off", "gso", "off", "gro", "off")
ECHO = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind(("0.0.0.0", {port}))
print("ready", flush=True)
while True:
    data, where = s.recvfrom(2048)
    s.sendto(data, where)
"""


class BenchError(Exception):
    """Missing part or failure, in one line."""


def program(name: str) -> str:
    path = paths.build() / "bin" / name
    if not path.exists():
        raise BenchError(f"build/bin/{name} is missing: `./run bench` builds it before it starts")
    return str(path)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def running(words: list[str], ready: str) -> Iterator[subprocess.Popen]:
    """A program, once it has printed a line that begins with `ready`."""
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        began = time.monotonic()
        while not (process.stdout.readline() if process.stdout else "").startswith(ready):
            if process.poll() is not None or time.monotonic() - began > UP_LIMIT_S:
                raise BenchError(f"{words[0]} did not start; see above")
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def host(link: str) -> Iterator[list[str]]:
    """A namespace with `eth0`, which is linked to `link` in this one; gives the words that run a program there."""
    holder = subprocess.Popen(["unshare", "-n", "sh", "-c", "echo ready; exec sleep infinity"],
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    try:
        if holder.stdout is None or not holder.stdout.readline():
            raise BenchError("no network namespace could be made: bench names needs root")
        there = ["nsenter", "-t", str(holder.pid), "-n"]
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(holder.pid))
        ip("link", "set", link, "up")
        for name in ("lo", "eth0"):
            subprocess.run([*there, "ip", "link", "set", name, "up"], check=True)
        yield there
    finally:
        holder.terminate()
        holder.wait()


def download(there: list[str], address: str, size_bytes: int) -> float:
    """Goodput in Mbit/s of one download by weir-client."""
    url = f"https://{address}:{QUIC_PORT}/bytes/{size_bytes}"
    words = [*there, program("weir-client"), url, "--insecure", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=TRANSFER_LIMIT_S, check=False)
    if done.returncode != 0:
        raise BenchError(f"weir-client: {done.stderr.strip()}")
    return json.loads(done.stdout)["flows"][0]["goodput_bit_s"] / 1e6


def cpu_s(processes: list[subprocess.Popen]) -> float:
    """Processor time that these programs have used so far, in seconds (proc(5), /proc/PID/stat)."""
    used = 0
    for process in processes:
        # Fields after the program's name, which is in parentheses: fields 14 and 15 of the line are utime and stime.
        words = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
        used += int(words[11]) + int(words[12])
    return used / os.sysconf("SC_CLK_TCK")


def delays(address: str, seconds: float) -> tuple[list[float], int]:
    """Milliseconds there and back of each datagram that came back, and how many did not."""
    took, lost = [], 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as near:
        near.settimeout(ANSWER_LIMIT_S)
        due = time.monotonic()
        for number in range(int(PER_SECOND * seconds)):
            due += 1 / PER_SECOND
            time.sleep(max(0.0, due - time.monotonic()))
            sent = time.monotonic()
            near.sendto(number.to_bytes(8) + bytes(DATAGRAM_BYTES - 8), (address, ECHO_PORT))
            try:
                while int.from_bytes(near.recv(2048)[:8]) != number:
                    pass
                took.append((time.monotonic() - sent) * 1e3)
            except TimeoutError:
                lost += 1
    return took, lost


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def converters(near: tuple[list[str], str], far: tuple[list[str], str], service: str, port: int) -> list:
    """The pair for one UDP service, to be started. `near`, `far`: words that run a program there, and the interface."""
    icn = program("weir-icn")
    return [
        running([*far[0], icn, "server", "--interface", far[1], "--name", f"/bench/{service}",
                 "--to", f"127.0.0.1:{port}"], "serving"),
        running([*near[0], icn, "client", "--interface", near[1], "--as", f"/bench/hosts/{service}",
                 "--server", f"/bench/{service}", "--listen", f"127.0.0.1:{port}"], "listening"),
    ]  # fmt: skip


def link_rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Names beside UDP over one link."""
    rows = []
    with host("near") as there, ExitStack() as started:
        ip("addr", "add", f"{NEAR}/24", "dev", "near")
        subprocess.run([*there, "ip", "addr", "add", f"{FAR}/24", "dev", "eth0"], check=True)
        server = [*there, program("weir-server"), "--ephemeral", "--listen", f"0.0.0.0:{QUIC_PORT}"]
        echo = [*there, sys.executable, "-c", ECHO.format(port=ECHO_PORT)]
        started.enter_context(running(server, "listening"))
        started.enter_context(running(echo, "ready"))
        pairs = {
            service: [started.enter_context(one) for one in converters(([], "near"), (there, "eth0"), service, port)]
            for service, port in (("web", QUIC_PORT), ("echo", ECHO_PORT))
        }
        for repetition in range(options.repetitions):
            for way, address in (("UDP", FAR), ("names", "127.0.0.1")):
                before_s = cpu_s(pairs["web"])
                goodput = download([], address, options.bytes)
                used_s = cpu_s(pairs["web"]) - before_s
                took, lost = delays(address, options.seconds)
                if not took:
                    raise BenchError(f"no datagram of the echo came back over {way}")
                rows.append({
                    "way": way, "repetition": repetition, "goodput_mbit_s": goodput,
                    "converters_cpu_s_per_gbit": used_s / (8 * options.bytes / 1e9),
                    "rtt_p50_ms": percentile(took, 0.5), "rtt_p99_ms": percentile(took, 0.99), "lost": lost,
                })  # fmt: skip
                print(f"names: {repetition + 1} of {options.repetitions}, {way}", file=sys.stderr)
    return rows


@contextmanager
def switch(kind: str, tables: Path) -> Iterator[None]:
    """A switch with `icn.p4` between `s1` and `s2`, with the law on both ports."""
    ports = ["--no-p4", "-i", "1@s1", "-i", "2@s2"]
    words = [program("weir-switch"), *ports]
    words += [word for port in (1, 2) for word in ("--queue", f"{port}:depth={DEPTH_PACKETS}p")]
    if kind == BMV2:
        words = [
            paths.of_others("simple_switch_grpc") or "simple_switch_grpc",
            "--log-level",
            "off",
            *ports,
            "--",
            "--grpc-server-addr",
            f"127.0.0.1:{GRPC_PORT}",
        ]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        began = time.monotonic()
        while True:
            try:
                socket.create_connection(("127.0.0.1", GRPC_PORT), timeout=1).close()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() - began > UP_LIMIT_S:
                    raise BenchError(f"{words[0]} did not start") from None
                time.sleep(0.05)
        source = paths.clone() / "p4" / "programs" / "icn.p4"
        deploy = [sys.executable, "-m", "weir.cli", "p4", "deploy", "--address", f"127.0.0.1:{GRPC_PORT}",
                  "--program", str(source), "--config", str(tables)]  # fmt: skip
        done = subprocess.run(deploy, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"weir p4 deploy: {(done.stderr or done.stdout).strip()}")
        if kind == BMV2:
            subprocess.run(
                [paths.of_others("simple_switch_CLI") or "simple_switch_CLI"],
                input=f"set_queue_depth {DEPTH_PACKETS}\n",
                text=True,
                check=True,
                stdout=subprocess.DEVNULL,
            )
        yield
    finally:
        process.terminate()
        process.wait()


def left_by(*links: str) -> int:
    """Packets that left by these interfaces."""
    lines = (line.strip().partition(":") for line in Path("/proc/self/net/dev").read_text().splitlines())
    return sum(int(counters.split()[9]) for name, _, counters in lines if name in links)


def switch_rows(options: argparse.Namespace) -> list[dict[str, Any]]:
    """A download by name through each switch."""
    kinds = ["weir-switch"]
    wanted = ("simple_switch_grpc", "simple_switch_CLI")
    if all(map(paths.of_others, wanted)) and (paths.of_others("p4c") or paths.of_others("p4c-bm2-ss")):
        kinds.append(BMV2)
    else:
        print(f"names: {', '.join(wanted)} and p4c are not all on PATH: no figures of BMv2", file=sys.stderr)
    rows = []
    with host("s1") as near, host("s2") as far, tempfile.NamedTemporaryFile("w", suffix=".toml") as tables:
        tables.write(SWITCH_TABLES)
        tables.flush()
        # At the hosts, else packets with unfinished checksums are forwarded; at the switch, else libpcap keeps 64 kB
        # for each frame, and BMv2's receive ring of 2 MB holds 32.
        for there, name in ((near, "eth0"), (far, "eth0"), ([], "s1"), ([], "s2")):
            subprocess.run([*there, "ethtool", "-K", name, *OFFLOADS_OFF], check=True, stdout=subprocess.DEVNULL)
        for repetition in range(options.repetitions):
            for kind in kinds:
                with switch(kind, Path(tables.name)), ExitStack() as started:
                    server = [*far, program("weir-server"), "--ephemeral", "--listen", f"127.0.0.1:{QUIC_PORT}"]
                    started.enter_context(running(server, "listening"))
                    for converter in converters((near, "eth0"), (far, "eth0"), "web", QUIC_PORT):
                        started.enter_context(converter)
                    packets, began = left_by("s1", "s2"), time.monotonic()
                    goodput = download(near, "127.0.0.1", options.switch_bytes)
                    packets, took_s = left_by("s1", "s2") - packets, time.monotonic() - began
                rows.append({
                    "switch": kind, "repetition": repetition, "goodput_mbit_s": goodput,
                    "forwarded_packets_s": packets / took_s,
                })  # fmt: skip
                print(f"names: {repetition + 1} of {options.repetitions}, {kind}", file=sys.stderr)
    return rows


def run(options: argparse.Namespace) -> dict[str, Any]:
    ip("link", "set", "lo", "up")
    return {"bench": "names", "rows": link_rows(options), "switches": switch_rows(options)}


def show(found: dict[str, Any]) -> None:
    def of(way: str, metric: str) -> list[float]:
        return [row[metric] for row in found["rows"] if row["way"] == way]

    print(f"{'':6} {'goodput Mbit/s':>26} {'RTT p50 ms':>20} {'RTT p99 ms':>20} {'lost':>5}")
    for way in ("UDP", "names"):
        cells = []
        for metric in ("goodput_mbit_s", "rtt_p50_ms", "rtt_p99_ms"):
            values = of(way, metric)
            cells.append(f"{statistics.median(values):.3g} ({min(values):.3g} to {max(values):.3g})")
        print(f"{way:6} {cells[0]:>26} {cells[1]:>20} {cells[2]:>20} {sum(of(way, 'lost')):5}")
    print(f"names: {statistics.median(of('names', 'goodput_mbit_s')):.0f} Mbit/s (aim: {AIM_MBIT_S} or more)")
    spent = of("names", "converters_cpu_s_per_gbit")
    print(
        f"names: both converters together use {statistics.median(spent):.2f} s of processor time for each Gbit "
        f"({min(spent):.2f} to {max(spent):.2f})"
    )
    added = [a - b for a, b in zip(of("names", "rtt_p99_ms"), of("UDP", "rtt_p99_ms"), strict=True)]
    print(
        f"names: both converters, there and back, add to the p99 of {PER_SECOND} datagrams a second: "
        f"{statistics.median(added):.2f} ms ({min(added):.2f} to {max(added):.2f}; aim: below {AIM_ADDED_MS:g})"
    )

    kinds = list(dict.fromkeys(row["switch"] for row in found["switches"]))
    for kind in kinds:
        of_kind = [row for row in found["switches"] if row["switch"] == kind]
        rate, speed = ([row[metric] for row in of_kind] for metric in ("goodput_mbit_s", "forwarded_packets_s"))
        print(f"icn.p4 on {kind}: {statistics.median(rate):.0f} Mbit/s ({min(rate):.0f} to {max(rate):.0f}), "
              f"{statistics.median(speed):,.0f} packets/s ({min(speed):,.0f} to {max(speed):,.0f})")  # fmt: skip
    if BMV2 in kinds:
        by = {(row["switch"], row["repetition"]): row["forwarded_packets_s"] for row in found["switches"]}
        ratios = [speed / by[BMV2, place] for (kind, place), speed in by.items() if kind != BMV2]
        print(f"icn.p4, packets/s of weir-switch / {BMV2}: {statistics.median(ratios):.1f} "
              f"({min(ratios):.1f} to {max(ratios):.1f}; aim: {AIM_RATIO} or more)")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--bytes", type=int, default=200_000_000, help="of each download (%(default)s)")
    parser.add_argument(
        "--switch-bytes", type=int, default=50_000_000, help="of each download through a switch (%(default)s)"
    )
    parser.add_argument("--seconds", type=float, default=5.0, help="of each measurement of the delay (%(default)s)")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        # The links die with the namespace, whatever happens.
        words = ["unshare", "-n", sys.executable, "-m", "weirlab.bench.names", *sys.argv[1:], "--inside"]
        return subprocess.call(words)
    try:
        found = run(options)
    except (BenchError, subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
        print(f"bench names: {e}", file=sys.stderr)
        return 1
    print(json.dumps(found)) if options.json else show(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
