# SPDX-License-Identifier: Apache-2.0
"""weir-switch with `pid_delay.p4`: a stream from port 1 to port 2, and attacks on another port or on P4Runtime."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.bench.hostile import attacker, frames
from weirlab.bench.hostile.rounds import (
    ATTACK_NICE,
    LOAD_NICE,
    LOADS,
    PROGRAM_NICE,
    Command,
    Cores,
    core_s,
    cpu_s,
    forget_peak,
    frames_by,
    in_turn,
    peak_mb,
    progress,
    running,
)
from weirlab.bench.names import BenchError, ip, program

GRPC = "127.0.0.1:9559"
ATTACKS = [*frames.FLOODS, *attacker.ATTACKS]
WARM_UP_S = 0.3
FIRST_WORD = "attacking"
FLOOD_OF_FRAMES_S = 86_400.0


def make_links() -> None:
    """The stations' ends are h1, h2, ..., the switch's p1, p2, ..."""
    ip("link", "set", "lo", "up")
    for n in frames.PORTS:
        ip("link", "add", f"h{n}", "type", "veth", "peer", "name", f"p{n}")
        for name in (f"h{n}", f"p{n}"):
            Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
            ip("link", "set", name, "up")


@dataclass
class Rig:
    """A switch that runs, with its tables."""

    folder: Path
    cores: Cores
    pid: int
    seconds: float

    def sender(self, port: int, some: Path, seconds: float, per_second: float | None, nice: int) -> Command:
        words = [program("weir-frames"), "-i", f"h{port}", "--frames", str(some), "--seconds", str(seconds)]
        words += ["--per-second", str(round(per_second))] if per_second else []
        return Command(words, self.cores.others, nice)

    def attack(self, name: str) -> Command:
        if name in frames.FLOODS:
            some = frames.written(self.folder, name, frames.FLOODS[name]())
            return self.sender(frames.ATTACKER, some, FLOOD_OF_FRAMES_S, None, ATTACK_NICE)
        words = [sys.executable, "-m", attacker.__name__, name, GRPC]
        return Command(words, self.cores.others, ATTACK_NICE)

    def round(self, per_second: float | None, attack: str | None) -> dict[str, Any]:
        """Frames/s of the measured stream, offered and forwarded, and the use of time by the switch's threads. Compared
        is the part of the offered frames, and where these are without end, frames a second of the switch's processor
        time: so both rounds are at an equal share."""
        ready = FIRST_WORD if attack in attacker.ATTACKS else ""
        log = self.folder / "attack.log"
        under_way = running(self.attack(attack), ready, log) if attack else nullcontext()
        stream = frames.written(self.folder, "measured", frames.measured())
        measured = self.sender(frames.MEASURED_IN, stream, self.seconds + 2 * WARM_UP_S, per_second, LOAD_NICE)
        with under_way as attacks:
            with running(measured, log=log) as load:
                time.sleep(WARM_UP_S)
                before, began = self.counters(), time.monotonic()
                time.sleep(self.seconds)
                after, took_s = self.counters(), time.monotonic() - began
                status = load.wait()
            if attacks is not None and attacks.poll() is not None:
                raise BenchError(f"{attack}: the attacker ended: {log.read_text(errors='replace').strip()}")
        if status != 0:
            raise BenchError(f"weir-frames: {log.read_text(errors='replace').strip()}")
        found = {name: (after[name] - before[name]) / took_s for name in before}
        others_cores = found.pop("core") - found["all_threads_cores"]
        if per_second is None:
            found["value"] = found["forwarded"] / max(found["all_threads_cores"], 1e-3)
            found["disturbed"] = others_cores
        else:
            # Other programs may have the rest of the core.
            found["value"] = found["forwarded"] / max(found["offered"], 1)
            found["disturbed"] = 1 - found["offered"] / per_second
        return found

    def show_s(self, attack: str) -> float:
        """Seconds that `weir p4 show` takes beside an attack on P4Runtime, without a stream. Raises BenchError."""
        words = [sys.executable, "-m", "weir.cli", "p4", "show", "--address", GRPC]
        with running(self.attack(attack), FIRST_WORD, self.folder / "attack.log"):
            began = time.monotonic()
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            took_s = time.monotonic() - began
        if done.returncode != 0:
            raise BenchError(f"weir p4 show beside {attack}: {(done.stderr or done.stdout).strip()}")
        return took_s

    def counters(self) -> dict[str, float]:
        used = cpu_s(self.pid)
        return {
            "forwarded": frames_by(f"h{frames.MEASURED_OUT}")[0],
            "offered": frames_by(f"h{frames.MEASURED_IN}")[1],
            "attack": frames_by(f"h{frames.ATTACKER}")[1],
            "packet_thread_cores": used.get("weir-switch", 0.0),
            "all_threads_cores": sum(used.values()),
            "core": core_s(self.cores.attacked),
        }


@contextmanager
def switch(folder: Path, cores: Cores, seconds: float) -> Iterator[Rig]:
    config, log = folder / "switch.toml", folder / "switch.log"
    config.write_text(frames.tables())
    ports = [word for n in frames.PORTS for word in ("-i", f"{n}@p{n}")]
    words = [program("weir-switch"), "--no-p4", *ports, "--grpc-server-addr", GRPC]
    with running(Command(words, cores.attacked, PROGRAM_NICE), "ready", log) as process:
        deploy = [sys.executable, "-m", "weir.cli", "p4", "deploy", "--address", GRPC, "--config", str(config),
                  "--program", str(paths.clone() / "p4" / "pid_delay.p4"), "--switch", "embedded"]  # fmt: skip
        done = subprocess.run(deploy, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BenchError(f"weir p4 deploy: {(done.stderr or done.stdout).strip()}")
        yield Rig(folder, cores, process.pid, seconds)
        if process.poll() is not None:
            raise BenchError(f"weir-switch ended with status {process.returncode}: {log.read_text().strip()}")


def of_attack(
    folder: Path, cores: Cores, name: str, capacity: float, loads: list[str], repetitions: int, seconds: float
) -> dict[str, Any]:
    """Forwarded part of each load beside an attack, and the switch's peak memory."""
    with switch(folder, cores, seconds) as rig:
        forget_peak(rig.pid)
        row: dict[str, Any] = {"attack": name, "loads": {}}
        for load in loads:
            progress(f"switch: {name}, {load} load")
            part = LOADS[load]
            one = partial(rig.round, part * capacity if part else None)
            row["loads"][load] = in_turn(repetitions, one, name)
        if name in attacker.ATTACKS:
            progress(f"switch: {name}, weir p4 show")
            took_s = [rig.show_s(name) for _ in range(repetitions)]
            row["show_s"] = {"median": statistics.median(took_s), "least": min(took_s), "most": max(took_s)}
        row["peak_mb"] = peak_mb(rig.pid)
    return row


def measure(
    folder: Path, cores: Cores, names: list[str], loads: list[str], repetitions: int, seconds: float
) -> dict[str, Any]:
    make_links()
    with switch(folder, cores, seconds) as rig:
        progress("switch: what it forwards alone")
        alone = [rig.round(None, None)["forwarded"] for _ in range(max(3, repetitions))]
    capacity = statistics.median(alone)
    rows = [of_attack(folder, cores, name, capacity, loads, repetitions, seconds) for name in names]
    return {"alone_per_second": alone, "capacity_per_second": capacity, "attacks": rows}
