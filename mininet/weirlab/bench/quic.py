# SPDX-License-Identifier: Apache-2.0
"""`./run bench quic`: one bulk download over loopback by weir-client from weir-server, beside quiche's own examples,
quinn, s2n-quic, tokio-quiche and TCP; the same with PBQ beside the BBR below it; then the memory of idle connections
and the time of PBQ's decisions. Prints, asserts nothing.

Each measurement starts a server anew and takes the client's whole process: start, handshake, transfer, closing. Only
this measure fits every peer, as quiche's examples report no times. Repetitions go round the peers in turn, so that a
busy machine slows all of them; ratios are taken within a repetition. A private network namespace keeps the ports free.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.bench import decisions, machine
from weirlab.bench.quic_stacks import DEFAULT, LARGE, LARGE_BYTES, OURS, STACKS, Peer, pairs
from weirlab.lab.quic_servers import certificate

# The peers, built when first asked for.
# quiche's example server listens there and nowhere else.
PORT = 4433
READY_LIMIT_S = 30.0
TRANSFER_LIMIT_S = 300.0
QUICHE = "quiche's examples"
# Two numbers of connections, so that what a process takes by itself falls out.
FEW = 10
UP_LIMIT_S = 120.0
AIM_QUICHE = "aim: 1 or more, wish: 2"
AIM_QUINN = "aim: 1.2 or more, CPU per byte 1 or less"
AIM_STACKS = "aim: 1 or more"
PARTS = ("throughput", "congestion", "memory")
AIM_PBQ = "aim: 0.98 or more"
BBR = "--cc bbr2_gcongestion"


class BenchError(Exception):
    """Missing part or failure, in one line."""


@dataclass
class Skips:
    """Measurements that were skipped, with the reasons."""

    reasons: list[str] = field(default_factory=list)

    def add(self, what: str) -> None:
        self.reasons.append(what)
        print(f"quic: SKIP {what}", file=sys.stderr)


def workspace() -> Path:
    """The Cargo workspace of the peers."""
    return paths.clone() / "quic-client" / "bench" / "Cargo.toml"


def target() -> Path:
    """Cargo's folder for the peers."""
    return paths.build() / "cargo"


def build() -> tuple[Path, Path]:
    """Builds the peers; gives the folder of their programs and that of quiche's release."""
    words = ["cargo", "build", "--release", "--locked", "-j2", "--manifest-path", str(workspace())]
    done = subprocess.run(words, env={**os.environ, "CARGO_TARGET_DIR": str(target())}, check=False)
    if done.returncode != 0:
        raise BenchError("the peers could not be built; see above")
    told = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    host = next(line.removeprefix("host: ") for line in told.splitlines() if line.startswith("host: "))
    # For this system alone: the packages of others were never downloaded.
    words = ["cargo", "metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", host,
             "--manifest-path", str(workspace())]  # fmt: skip
    packages = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["packages"]
    quiche = next(package for package in packages if package["name"] == "quiche")
    return target() / "release", Path(quiche["manifest_path"]).parent


def program(name: str) -> Path:
    path = paths.build() / "bin" / name
    if not path.exists():
        raise BenchError(f"build/bin/{name} is missing: `./run bench` builds it before it starts")
    return path


def peers(folder: Path, size_bytes: int, skips: Skips) -> list[Peer]:
    """All that can be measured here."""
    built, quiche = build()
    # The example serves files under `examples/root` of where it stands, with the certificate beside that.
    (folder / "examples" / "root").mkdir(parents=True)
    for name in ("cert.crt", "cert.key"):
        shutil.copyfile(quiche / "examples" / name, folder / "examples" / name)
    with (folder / "examples" / "root" / "data").open("wb") as data:
        data.truncate(size_bytes)
    here = f"127.0.0.1:{PORT}"
    weir_server = [program("weir-server"), "--listen", here, "--state-dir", folder / "state"]
    weir_client = [program("weir-client"), f"https://{here}", "--insecure", "--bytes", str(size_bytes), "--quiet"]
    # Fixed settings of quiche's examples: CUBIC, and these windows at the start.
    windows = ["--cc", "cubic", "--stream-window", "1MB", "--conn-window", "10MB", "--max-payload", "1350"]
    large = ["--max-payload", str(LARGE_BYTES)]
    quinn = built / "quinn-bench"
    made = certificate(folder, "127.0.0.1", "localhost")
    others, reasons = pairs(built, (program("weir-client"), program("weir-server")), made, here, size_bytes)
    for reason in reasons:
        skips.add(reason)
    found = [
        Peer(OURS, DEFAULT, weir_server, weir_client),
        Peer(OURS, "equal", [*weir_server, *windows], [*weir_client, *windows]),
        Peer(OURS, LARGE, [*weir_server, *large], [*weir_client, *large]),
        Peer(QUICHE, "default", [built / "quiche-http3-server"],
             [built / "quiche-http3-client", f"https://{here}/data"], cwd=folder),
        Peer("quinn", "equal", [quinn, "server", "--equal"],
             [quinn, "client", here, "--bytes", str(size_bytes), "--equal"]),
        *others,
    ]  # fmt: skip
    iperf3 = shutil.which("iperf3")
    if iperf3 is None:
        skips.add("TCP: iperf3 is not on PATH (Debian: apt install iperf3)")
    else:
        server = [iperf3, "--server", "--port", str(PORT)]
        client = [iperf3, "--client", "127.0.0.1", "--port", str(PORT), "--reverse", "--bytes", str(size_bytes)]
        found.append(Peer("TCP, iperf3", "default", server, client, tcp=True))
        equal = [*client, "--congestion", "cubic", "--set-mss", "1350"]
        found.append(Peer("TCP, iperf3", "equal", server, equal, tcp=True))
    return found


def listening(tcp: bool) -> bool:
    """Whether somebody has the port in this namespace."""
    for name in ("tcp", "tcp6") if tcp else ("udp", "udp6"):
        for line in Path(f"/proc/self/net/{name}").read_text().splitlines()[1:]:
            words = line.split()
            # In TCP's table the state 0A is LISTEN.
            if words[1].endswith(f":{PORT:04X}") and (not tcp or words[3] == "0A"):
                return True
    return False


def cpu_s(pid: int) -> float:
    """User and system time of a process so far, with the 10 ms steps of the kernel's account."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def status_kb(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    raise BenchError(f"the kernel does not report {name}")


@contextmanager
def serving(words: list, cwd: Path | None, tcp: bool) -> Iterator[subprocess.Popen]:
    """A server, ready, for as long as this lasts."""
    quiet = subprocess.DEVNULL
    with tempfile.TemporaryFile("w+") as complaints:
        server = subprocess.Popen([str(w) for w in words], cwd=cwd, stdin=quiet, stdout=quiet, stderr=complaints)

        def failed(why: str) -> BenchError:
            complaints.seek(0)
            return BenchError(f"{words[0]} {why}: {complaints.read().strip()}")

        try:
            end = time.monotonic() + READY_LIMIT_S
            while not listening(tcp):
                if server.poll() is not None:
                    raise failed(f"ended with status {server.returncode}")
                if time.monotonic() > end:
                    raise failed(f"was not ready after {READY_LIMIT_S:.0f} s")
                time.sleep(0.01)
            yield server
            if server.poll() is not None:
                raise failed(f"ended with status {server.returncode} under way")
        finally:
            # Sent to all of them alike; their answers are ignored.
            server.terminate()
            server.wait()


def measure(peer: Peer, size_bytes: int) -> dict:
    with serving(peer.server, peer.cwd, peer.tcp) as server:
        server_cpu_s = cpu_s(server.pid)
        used_s = children_s()
        began = time.monotonic()
        client = subprocess.run(
            [str(w) for w in peer.client],
            cwd=peer.cwd,
            stdout=subprocess.DEVNULL,
            timeout=TRANSFER_LIMIT_S,
            check=False,
        )
        took_s = time.monotonic() - began
        if client.returncode != 0:
            raise BenchError(f"{peer.label}: the client ended with status {client.returncode}")
        client_cpu_s = children_s() - used_s
        server_cpu_s = cpu_s(server.pid) - server_cpu_s
    gb = size_bytes / 1e9
    return {
        "peer": peer.name,
        "mode": peer.mode,
        "wall_s": took_s,
        "goodput_mbit_s": size_bytes * 8 / took_s / 1e6,
        "client_cpu_s_per_gb": client_cpu_s / gb,
        "server_cpu_s_per_gb": server_cpu_s / gb,
    }


def children_s() -> float:
    """User and system time of all children that have ended and been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def throughput(folder: Path, options: argparse.Namespace, skips: Skips) -> dict:
    found = peers(folder, options.bytes, skips)
    rows = []
    for repetition in range(options.repetitions):
        for peer in found:
            print(f"quic: {repetition + 1} of {options.repetitions}: {peer.label}", file=sys.stderr)
            rows.append({"repetition": repetition, **measure(peer, options.bytes)})
    return {"bytes": options.bytes, "rows": rows, "ratios": ratios(rows)}


def congestion(folder: Path, options: argparse.Namespace) -> dict:
    """Downloads under PBQ beside plain BBR, in turn. Over loopback the built-in policy's guard may leave the window to
    BBR; the tireless policy decides in any case."""
    tireless = folder / "tireless.weights"
    tireless.write_bytes(decisions.tireless(decisions.built_in()))
    here = f"127.0.0.1:{PORT}"
    client = [program("weir-client"), f"https://{here}", "--insecure", "--bytes", str(options.bytes), "--quiet"]
    server = [program("weir-server"), "--listen", here, "--state-dir", folder / "state"]
    controls = {BBR: BBR.split(), "--cc pbq": ["--cc", "pbq"]}
    controls["--cc pbq, a tireless policy"] = ["--cc", "pbq", "--cc-weights", str(tireless)]
    rows = []
    for repetition in range(options.repetitions):
        for mode, words in controls.items():
            print(f"quic: {repetition + 1} of {options.repetitions}: {mode}", file=sys.stderr)
            row = measure(Peer(OURS, mode, [*server, *words], client), options.bytes)
            rows.append({"repetition": repetition, **row})
    speed = {(row["mode"], row["repetition"]): row["goodput_mbit_s"] for row in rows}
    over_bbr = {
        mode: spread([speed[mode, n] / speed[BBR, n] for n in range(options.repetitions)])
        for mode in controls
        if mode != BBR
    }
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target())}
    return {"rows": rows, "over_bbr": over_bbr, "decisions": decisions.cost(environment, options.connections)}


def show_congestion(found: dict) -> None:
    for mode, ratio in found["over_bbr"].items():
        goodput = f"{ratio['median']:.2f} ({ratio['least']:.2f} to {ratio['most']:.2f}; {AIM_PBQ})"
        print(f"weir ({mode}) / weir ({BBR}): goodput {goodput}")
    decisions.show(found["decisions"])


class Held:
    """A client with connections that carry nothing. `up` waits until all of them are there."""

    def __init__(self, words: list, up: Callable[[subprocess.Popen], bool]) -> None:
        self.words, self.up = words, up

    def __enter__(self) -> subprocess.Popen:
        pipe = subprocess.PIPE
        words = [str(w) for w in self.words]
        self.client = subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        end = time.monotonic() + UP_LIMIT_S
        while not self.up(self.client):
            if self.client.poll() is not None or time.monotonic() > end:
                self.__exit__()
                raise BenchError(f"{words[0]} did not bring its connections up in {UP_LIMIT_S:.0f} s")
            time.sleep(0.2)
        return self.client

    def __exit__(self, *_exception: object) -> None:
        self.client.terminate()
        self.client.communicate()


def weir_idle(folder: Path, connections: int) -> tuple[list, Held]:
    """Server and client: connections whose first task is due in a day."""
    here, day_s = f"127.0.0.1:{PORT}", 86_400
    lines = folder / f"server-{connections}.jsonl"
    patience = ["--idle-timeout-ms", str(day_s * 1000)]
    server = [program("weir-server"), "--listen", here, "--state-dir", folder / "state", *patience]
    client = [program("weir-client"), f"https://{here}", "--insecure", "--bytes", "1", "--quiet", *patience]
    client += ["--flows", str(connections), "--start-at-us", str(time.monotonic_ns() // 1000 + day_s * 1_000_000)]
    # As hard on the server as it is on the peer, which brings them up one by one, would measure lost handshakes.
    client += ["--start-spread-ms", str(3 * connections)]

    def up(_client: subprocess.Popen) -> bool:
        # Lines are flushed whole ticks at a time; a connection has one once its handshake is done.
        return len({json.loads(line)["conn"] for line in lines.read_text().splitlines()}) == connections

    return [*server, "--stats", lines, "--stats-every-ms", "500"], Held(client, up)


def quinn_idle(_folder: Path, connections: int) -> tuple[list, Held]:
    quinn = target() / "release" / "quinn-bench"
    client = [quinn, "client", f"127.0.0.1:{PORT}", "--idle", str(connections)]

    def up(client: subprocess.Popen) -> bool:
        return client.stdout is not None and client.stdout.readline() == b"up\n"

    return [quinn, "server"], Held(client, up)


def memory(folder: Path, options: argparse.Namespace) -> dict:
    """Resident memory per idle connection of both sides: the slope between few and many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = options.connections + 100
    if soft < needed:
        if hard < needed:
            raise BenchError(f"{needed} open files are needed and {hard} allowed (ulimit -n); try --connections")
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    rows: list[dict[str, Any]] = []
    for name, start in ((OURS, weir_idle), ("quinn", quinn_idle)):
        for connections in (FEW, options.connections):
            print(f"quic: memory: {name}, {connections} connections", file=sys.stderr)
            server_words, held = start(folder, connections)
            with serving(server_words, None, False) as server, held as client:
                sizes = {"server_kb": status_kb(server.pid, "VmRSS"), "client_kb": status_kb(client.pid, "VmRSS")}
            rows.append({"peer": name, "connections": connections, **sizes})
    slopes = {}
    for few, many in zip(rows[::2], rows[1::2], strict=True):
        more = many["connections"] - few["connections"]
        slopes[few["peer"]] = {
            f"{side}_kb_per_connection": (many[f"{side}_kb"] - few[f"{side}_kb"]) / more
            for side in ("client", "server")
        }
    return {"rows": rows, "per_connection": slopes}


def show_memory(found: dict) -> None:
    print("idle connections: resident memory, MB")
    print(f"{'':28} {'connections':>11} {'client':>8} {'server':>8}")
    for row in found["rows"]:
        client, server = row["client_kb"] / 1024, row["server_kb"] / 1024
        print(f"{row['peer']:28} {row['connections']:11} {client:8.1f} {server:8.1f}")
    for name, each in found["per_connection"].items():
        client, server = each["client_kb_per_connection"], each["server_kb_per_connection"]
        print(f"{name}: {client:.0f} KiB a connection at the client, {server:.0f} KiB at the server")


def spread(values: list[float]) -> dict:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def ratios(rows: list[dict]) -> list[dict]:
    """Ours over each peer's, repetition by repetition, in the same mode (quiche's examples have one mode): goodput, and
    processor time of both sides together."""
    of = {(r["peer"], r["mode"], r["repetition"]): r for r in rows}
    speeds: dict = {}
    costs: dict = {}
    for (name, mode, repetition), theirs in of.items():
        if name == OURS:
            continue
        modes = (DEFAULT, "equal") if name == QUICHE else (mode,)
        for mode in modes:
            ours = of[OURS, mode, repetition]
            speeds.setdefault((name, mode), []).append(ours["goodput_mbit_s"] / theirs["goodput_mbit_s"])
            costs.setdefault((name, mode), []).append(cpu_s_per_gb(ours) / cpu_s_per_gb(theirs))
    return [
        {"peer": name, "mode": mode, "goodput": spread(speeds[name, mode]), "cpu_per_byte": spread(costs[name, mode])}
        for name, mode in speeds
    ]


def cpu_s_per_gb(row: dict) -> float:
    return row["client_cpu_s_per_gb"] + row["server_cpu_s_per_gb"]


def show_throughput(found: dict) -> None:
    print(f"{found['bytes'] / 1e6:g} MB over loopback, one connection, one process and thread a side")
    print(f"{'':28} {'Mbit/s':>8} {'least':>7} {'most':>7} {'client CPU s/GB':>16} {'server CPU s/GB':>16}")
    for label in dict.fromkeys((r["peer"], r["mode"]) for r in found["rows"]):
        of = [r for r in found["rows"] if (r["peer"], r["mode"]) == label]
        speed = spread([r["goodput_mbit_s"] for r in of])
        client, server = (statistics.median(r[f"{side}_cpu_s_per_gb"] for r in of) for side in ("client", "server"))
        name = f"{label[0]} ({label[1]})"
        print(
            f"{name:28} {speed['median']:8.0f} {speed['least']:7.0f} {speed['most']:7.0f} {client:16.2f} {server:16.2f}"
        )
    for ratio in found["ratios"]:
        aims = {QUICHE: AIM_QUICHE, **dict.fromkeys(STACKS, AIM_STACKS), "quinn": AIM_QUINN}
        aim = f"; {aims[ratio['peer']]}" if ratio["peer"] in aims else ""
        speed, cost = ratio["goodput"], ratio["cpu_per_byte"]
        print(
            f"weir ({ratio['mode']}) / {ratio['peer']}: goodput {speed['median']:.2f} ({speed['least']:.2f} to "
            f"{speed['most']:.2f}{aim}), CPU per byte {cost['median']:.2f} ({cost['least']:.2f} to {cost['most']:.2f})"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench_quic", description=__doc__.split("\n\n")[0])
    parser.add_argument("--bytes", type=int, default=256_000_000, help="size of a download (default 256 MB)")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--connections", type=int, default=1000, help="connections to measure (default 1000)")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.repetitions < 1 or options.bytes < 1 or options.connections <= FEW:
        parser.error(f"--repetitions and --bytes must be 1 or more, --connections more than {FEW}")
    if not options.inside:
        words = [sys.executable, "-m", "weirlab.bench.quic", *sys.argv[1:], "--inside"]
        return subprocess.call(["unshare", "-n", *words])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    skips = Skips()
    try:
        with tempfile.TemporaryDirectory(prefix="weir-bench-") as folder:
            measures = {
                "throughput": lambda: throughput(Path(folder), options, skips),
                "congestion": lambda: congestion(Path(folder), options),
                "memory": lambda: memory(Path(folder), options),
            }
            found: dict[str, Any] = {
                "bench": "quic",
                "machine": machine.facts(machine.busy_share()),
                **{part: measures[part]() for part in options.only},
                "skipped": skips.reasons,
            }
    except (BenchError, subprocess.SubprocessError) as e:
        print(f"bench quic: {e}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(found))
    else:
        print(machine.line(found["machine"]))
        shows = {"throughput": show_throughput, "congestion": show_congestion, "memory": show_memory}
        for part in options.only:
            shows[part](found[part])
    return 0


if __name__ == "__main__":
    sys.exit(main())
