# SPDX-License-Identifier: Apache-2.0
"""The switch with `edge.p4`: what a packet costs in process with many ports, flows, entries and copies; and
`weir-switch` with 2 to 500 interfaces, a law on each."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.bench.names import GRPC_PORT, BenchError, program
from weirlab.bench.scale.common import cargo_example, cpu_us, inside, packets, progress, resident_kb, spread, told

INTERFACES = (2, 10, 100, 500)
PACKETS = 50_000
BURST = 32
"""Frames sent between two pauses, one to each interface in turn: less than a receive ring holds."""
PAUSE_S = 0.002
WARM_UP_PACKETS = 2_000
SETTLE_S = 0.3


def edge_p4() -> Path:
    return paths.clone() / "p4" / "programs" / "edge.p4"


def in_process() -> list[dict[str, Any]]:
    """Nanoseconds of a packet, without reading or sending frames."""
    found = []
    for name in ("speed", "names"):
        progress(f"switch: in process, {name}")
        found += [json.loads(line) for line in cargo_example(name, "--scale", str(edge_p4())).splitlines()]
    return found


@contextmanager
def weir_switch(links: list[str], tables: str, folder: Path) -> Iterator[subprocess.Popen]:
    """A switch with `edge.p4` and these tables; the first interface is port 1."""
    config = folder / f"switch-{len(links)}.toml"
    config.write_text(tables)
    ports = [word for number, link in enumerate(links, 1) for word in ("-i", f"{number}@{link}")]
    with inside([program("weir-switch"), "--no-p4", *ports], "ready") as switch:
        deploy = [sys.executable, "-m", "weir.cli", "p4", "deploy", "--address", f"127.0.0.1:{GRPC_PORT}",
                  "--program", str(edge_p4()), "--config", str(config)]  # fmt: skip
        told("weir p4 deploy", deploy)
        yield switch


def station(number: int) -> tuple[str, str]:
    """Address and MAC of the host behind a port."""
    return f"10.{number >> 8}.{number & 255}.2", f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}"


def tables(count: int) -> str:
    """A station behind each port, and the law on it."""
    numbers = range(1, count + 1)
    parts = [f'[ports.{n}]\nmac = "02:00:00:01:{n >> 8:02x}:{n & 255:02x}"' for n in numbers]
    parts += [f'[neighbours.h{n}]\nport = {n}\nmac = "{station(n)[1]}"' for n in numbers]
    parts += ["[routes]", *(f'"{station(n)[0]}/32" = "h{n}"' for n in numbers)]
    parts += [f'[aqm.port.{n}]\nprofile = "tuned"' for n in numbers]
    return "\n".join(parts) + "\n"


def frame(number: int) -> bytes:
    """UDP to the station behind that port, 1000 bytes in all."""
    payload_bytes = 1000 - 14 - 20
    header = bytearray.fromhex("4500000000004000401100000a0909090a000000")
    header[2:4] = (20 + payload_bytes).to_bytes(2)
    header[16:20] = socket.inet_aton(station(number)[0])
    total = sum(int.from_bytes(header[at : at + 2]) for at in range(0, 20, 2))
    total = (total & 0xFFFF) + (total >> 16)
    header[10:12] = (~total & 0xFFFF).to_bytes(2)
    udp = bytes.fromhex("00010002") + payload_bytes.to_bytes(2) + bytes(2)
    return bytes.fromhex("02000000ffff02000000fffe0800") + bytes(header) + udp + bytes(payload_bytes - 8)


def sockets(count: int) -> list[socket.socket]:
    """For each interface's far end."""
    found = []
    for number in range(1, count + 1):
        one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        one.bind((f"h{number}", 0))
        found.append(one)
    return found


def send(ends: list[socket.socket], frames: list[bytes], count: int) -> None:
    """So many frames: each host in turn sends one to the next host."""
    for number in range(count):
        ends[number % len(ends)].send(frames[(number + 1) % len(ends)])
        if number % BURST == BURST - 1:
            time.sleep(PAUSE_S)
    time.sleep(SETTLE_S)


def interfaces(repetitions: int, folder: Path) -> list[dict[str, Any]]:
    """CPU a packet and resident memory of a switch with so many interfaces."""
    found: list[dict[str, Any]] = []
    links: list[str] = []
    for count in INTERFACES:
        more = range(len(links) + 1, count + 1)
        # No addresses of their own: the kernel would send packets by itself.
        batch = "".join(
            f"link add h{n} type veth peer name s{n}\n"
            f"link set h{n} addrgenmode none up\nlink set s{n} addrgenmode none up\n"
            for n in more
        )
        subprocess.run(["ip", "-batch", "-"], input=batch, text=True, check=True)
        links += [f"s{n}" for n in more]
        ends, frames = sockets(count), [frame(n) for n in range(1, count + 1)]
        with weir_switch(links, tables(count), folder) as switch:
            send(ends, frames, WARM_UP_PACKETS)
            costs, lost = [], 0
            for repetition in range(repetitions):
                progress(f"switch: {count} interfaces, {repetition + 1} of {repetitions}")
                before_us, (_, before) = cpu_us(switch.pid), packets(*links)
                send(ends, frames, PACKETS)
                forwarded = packets(*links)[1] - before
                if forwarded == 0:
                    raise BenchError(f"weir-switch with {count} interfaces forwarded nothing")
                costs.append((cpu_us(switch.pid) - before_us) / forwarded)
                lost += PACKETS - forwarded
            idle_us, began = cpu_us(switch.pid), time.monotonic()
            time.sleep(2)
            idle = (cpu_us(switch.pid) - idle_us) / 1e4 / (time.monotonic() - began)
            found.append({
                "interfaces": count, "us_a_packet": spread(costs), "lost_percent": 100 * lost / PACKETS / repetitions,
                "idle_core_percent": idle, "resident_kb": resident_kb(switch.pid),
            })  # fmt: skip
        for end in ends:
            end.close()
    return found


def show_in_process(found: list[dict[str, Any]]) -> None:
    print("\nthe switch, edge.p4, in process: ns a packet, without reading and sending frames")
    for row in found:
        what = ", ".join(f"{value} {name}" if name != "what" else str(value) for name, value in row.items()
                         if name not in ("program", "median_ns", "least_ns", "most_ns"))  # fmt: skip
        print(f"  {what:50}  {row['median_ns']:7.0f} ({row['least_ns']:.0f} to {row['most_ns']:.0f})")


def show_interfaces(found: list[dict[str, Any]]) -> None:
    print("\nweir-switch, edge.p4, a law on each port; each host in turn sends a frame to the next")
    print(f"{'interfaces':>10}  {'CPU us a packet':>24}  {'lost':>6}  {'at rest':>8}  {'resident MB':>11}")
    for row in found:
        cost = row["us_a_packet"]
        text = f"{cost['median']:.2f} ({cost['least']:.2f} to {cost['most']:.2f})"
        print(f"{row['interfaces']:10}  {text:>24}  {row['lost_percent']:5.1f}%  {row['idle_core_percent']:7.2f}%  "
              f"{row['resident_kb'] / 1024:11.1f}")  # fmt: skip
