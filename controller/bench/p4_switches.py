# SPDX-License-Identifier: Apache-2.0
"""P4 switches with many ports that all report, for `ports.py`. Run inside a network namespace of one's own.

A port here has no interface: what is sent to it is routed, counted and reported by the program as ever, and ends there.
The switch, its P4Runtime server, the program and the gains are the real ones.
"""

import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

PORTS_A_SWITCH = 500
FIRST_GRPC_PORT = 9559
MARGIN = 0.8
"""A port reports after this part of the interval, so that each packet, one an interval, brings a report."""


def p4_switches(ports: int, every_ms: int, folder: Path) -> str:
    """Switches with so many ports together, and packets to each port every `every_ms`. They end with this process.
    Returns the fleet file's text; programs, routes and gains are for the controller to bring."""
    _sh("ip", "link", "set", "lo", "up")
    counts = [min(PORTS_A_SWITCH, ports - start) for start in range(0, ports, PORTS_A_SWITCH)]
    fleet, frames = [], []
    for number, count in enumerate(counts):
        _sh("ip", "link", "add", f"h{number}", "type", "veth", "peer", "name", f"s{number}")
        for end in (f"h{number}", f"s{number}"):
            _sh("ip", "link", "set", end, "up")
        address = f"127.0.0.1:{FIRST_GRPC_PORT + number}"
        command = ["weir-switch", "--no-p4", "-i", f"0@s{number}", "--grpc-server-addr", address]
        switch = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *command], stdout=subprocess.PIPE, text=True)
        if not switch.stdout.readline().startswith("ready"):
            sys.exit("weir-switch: does not start")
        config = folder / f"s{number}.toml"
        config.write_text(_config(count))
        fleet.append(
            f'[devices.s{number}]\nkind = "p4runtime"\naddress = "{address}"\nconfig = "{config}"\n'
            f"digest_interval_us = {round(every_ms * 1000 * MARGIN)}\n"
        )
        frames += [(f"h{number}", _frame(port)) for port in range(1, count + 1)]
    threading.Thread(target=_send, args=(frames, every_ms / 1000), daemon=True).start()
    return "\n".join(fleet)


def _sh(*words: str) -> None:
    subprocess.run(words, check=True)


def _config(count: int) -> str:
    """A file of `weir p4 deploy`: a station and the law on each port from 1."""
    numbers = range(1, count + 1)
    parts = [f'[ports.{n}]\nmac = "02:00:00:01:{n >> 8:02x}:{n & 255:02x}"' for n in numbers]
    parts += [f'[neighbours.h{n}]\nport = {n}\nmac = "02:00:00:00:{n >> 8:02x}:{n & 255:02x}"' for n in numbers]
    parts += ["[routes]", *(f'"10.{n >> 8}.{n & 255}.0/24" = "h{n}"' for n in numbers)]
    parts += [f"[aqm.port.{n}]" for n in numbers]
    return "\n".join(parts) + "\n"


def _frame(port: int) -> bytes:
    """A UDP packet to that port's station."""
    payload = struct.pack("!HHHH", 1, 2, 508, 0) + bytes(500)
    to = bytes([10, port >> 8, port & 255, 2])
    header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(payload), 0, 0, 64, 17, 0, bytes([10, 9, 9, 9]), to)
    total = sum(struct.unpack("!10H", header))
    total = (total & 0xFFFF) + (total >> 16)
    header = header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:]
    return bytes.fromhex("02000000ffff02000000fffe0800") + header + payload


def _send(frames: list[tuple[str, bytes]], every_s: float) -> None:
    """Each frame once every so often, in small groups over the interval."""
    taps = {}
    for name, _ in frames:
        if name not in taps:
            taps[name] = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
            taps[name].bind((name, 0))
    groups = [frames[start : start + 20] for start in range(0, len(frames), 20)]
    due_s = time.monotonic()
    while True:
        for group in groups:
            for name, frame in group:
                taps[name].send(frame)
            due_s += every_s / len(groups)
            time.sleep(max(0.0, due_s - time.monotonic()))
