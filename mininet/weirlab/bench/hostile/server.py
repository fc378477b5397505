# SPDX-License-Identifier: Apache-2.0
"""weir-server: a download over a veth, and floods of datagrams from other ports of the client's host."""

from __future__ import annotations

import json
import random
import socket
import statistics
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from weirlab.bench.hostile import datagrams
from weirlab.bench.hostile.frames import MANY, SEED, udp4, written
from weirlab.bench.hostile.rounds import (
    ATTACK_NICE,
    LOAD_NICE,
    LOADS,
    PROGRAM_NICE,
    Command,
    Cores,
    core_s,
    cpu_s,
    ended,
    forget_peak,
    frames_by,
    in_turn,
    peak_mb,
    progress,
    running,
)
from weirlab.bench.names import OFFLOADS_OFF, QUIC_PORT, BenchError, host, ip, program

HERE, THERE = "10.9.0.1", "10.9.0.2"
LINK = "near"
HALF_OPEN = "half-open handshakes"
ATTACKS = ["garbage", HALF_OPEN, "noise in initials", "versions", "short headers"]
HANDSHAKES = 500
"""Clients whose first datagrams are sent again and again."""
CAPTURE_S = 3.0
EVERY_MS = 10
FLOOD_S = 86_400.0
GIVE_UP_S = 30.0


def noise(name: str, link_mac: bytes, their_mac: bytes) -> list[bytes]:
    """Frames from many ports, each a stranger of its own."""
    kind = next(each for each in datagrams.KINDS if each.__name__ == name.replace(" ", "_"))
    rest = random.Random(SEED)
    ether = link_mac + their_mac + b"\x08\x00"
    return [ether + udp4(THERE, HERE, kind(rest), (20_000 + n, QUIC_PORT)) for n in range(MANY)]


def first_datagrams(there: list[str], core: int) -> list[bytes]:
    """Frames with what clients send first, each with keys of its own. Nobody answers them."""
    found = []
    words = [*there, program("weir-client"), f"https://{HERE}:{QUIC_PORT}/bytes/1", "--insecure", "--quiet",
             "--flows", str(HANDSHAKES), "--start-spread-ms", "500", "--max-time", str(CAPTURE_S)]  # fmt: skip
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as tap:
        tap.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        tap.bind((LINK, 3))
        tap.settimeout(0.5)
        with running(Command(words, core, LOAD_NICE)):
            time.sleep(CAPTURE_S)
        while True:
            try:
                frame, where = tap.recvfrom(2048)
            except TimeoutError:
                break
            ours = where[2] != socket.PACKET_OUTGOING and frame[12:14] == b"\x08\x00" and frame[23] == 17
            if ours and len(frame) >= 14 + 28 + datagrams.LEAST_INITIAL_BYTES:
                found.append(frame)
    if len(found) < HANDSHAKES // 2:
        raise BenchError(f"of {HANDSHAKES} clients' first datagrams {len(found)} were seen")
    return found


@dataclass
class Rig:
    """A server that runs, and where clients are."""

    folder: Path
    cores: Cores
    pid: int
    there: list[str]
    seconds: float
    floods: dict[str, list[bytes]]

    def attack(self, name: str) -> Command:
        some = written(self.folder, name, self.floods[name])
        words = [*self.there, program("weir-frames"), "-i", "eth0", "--frames", str(some), "--seconds", str(FLOOD_S)]
        return Command(words, self.cores.others, ATTACK_NICE)

    def round(self, per_second: float | None, attack: str | None) -> dict[str, float]:
        """Bytes/s of a download, and the server's use of time. Compared is the part of the requested bytes, and where
        these are without end, bytes a second of the server's processor time: so both rounds are at an equal share."""
        part = f"{round(per_second * EVERY_MS / 1000)}/every/{EVERY_MS}" if per_second else "unlimited"
        words = [*self.there, program("weir-client"), f"https://{HERE}:{QUIC_PORT}/bytes/{part}", "--insecure",
                 "--quiet", "--json", "--duration-s", str(self.seconds), "--max-time", str(GIVE_UP_S)]  # fmt: skip
        with running(self.attack(attack)) if attack else nullcontext():
            before = self.counters()
            status, out = ended(Command(words, self.cores.others, LOAD_NICE))
            after = self.counters()
        took_s = after.pop("time") - before.pop("time")
        found = {name: (after[name] - before[name]) / took_s for name in after}
        report = json.loads(out) if status == 0 else None
        found["forwarded"] = report["total"]["bytes"] / self.seconds if report else 0.0
        found["value"] = found["forwarded"] / (per_second or max(found["all_threads_cores"] * took_s, 1e-3))
        others_cores = found.pop("core") - found["all_threads_cores"]
        # Other programs may have the rest of the core.
        found["disturbed"] = 0.0 if per_second else others_cores
        return found

    def counters(self) -> dict[str, float]:
        return {
            "time": time.monotonic(),
            "attack": frames_by(LINK)[0],
            "all_threads_cores": sum(cpu_s(self.pid).values()),
            "core": core_s(self.cores.attacked),
        }


@contextmanager
def server(folder: Path, cores: Cores) -> Iterator[int]:
    words = [program("weir-server"), "--ephemeral", "--listen", f"{HERE}:{QUIC_PORT}"]
    with running(Command(words, cores.attacked, PROGRAM_NICE), "listening", folder / "server.log") as process:
        yield process.pid
        if process.poll() is not None:
            raise BenchError(f"weir-server ended with status {process.returncode}")


def mac(there: list[str], link: str) -> bytes:
    words = [*there, "ip", "-json", "link", "show", "dev", link]
    shown = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return bytes.fromhex(json.loads(shown)[0]["address"].replace(":", ""))


def measure(
    folder: Path, cores: Cores, names: list[str], loads: list[str], repetitions: int, seconds: float
) -> dict[str, Any]:
    with host(LINK) as there:
        for where, link, address in (([], LINK, HERE), (there, "eth0", THERE)):
            subprocess.run([*where, "ethtool", "-K", link, *OFFLOADS_OFF], check=True, stdout=subprocess.DEVNULL)
            subprocess.run([*where, "ip", "addr", "add", f"{address}/24", "dev", link], check=True)
        ip("link", "set", "lo", "up")
        macs = mac([], LINK), mac(there, "eth0")
        floods = {name: noise(name, *macs) for name in names if name != HALF_OPEN}
        if HALF_OPEN in names:
            floods[HALF_OPEN] = first_datagrams(there, cores.others)
        with server(folder, cores) as pid:
            progress("server: what it serves alone")
            rig = Rig(folder, cores, pid, there, seconds, floods)
            alone = [rig.round(None, None)["forwarded"] for _ in range(max(3, repetitions))]
        capacity = statistics.median(alone)
        rows = []
        for name in names:
            with server(folder, cores) as pid:
                rig = Rig(folder, cores, pid, there, seconds, floods)
                forget_peak(pid)
                row: dict[str, Any] = {"attack": name, "loads": {}}
                for load in loads:
                    progress(f"server: {name}, {load} load")
                    part = LOADS[load]
                    one = partial(rig.round, part * capacity if part else None)
                    row["loads"][load] = in_turn(repetitions, one, name)
                row["peak_mb"] = peak_mb(pid)
                rows.append(row)
    return {"alone_per_second": alone, "capacity_per_second": capacity, "attacks": rows}
