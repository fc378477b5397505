#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cost of many ports to a controller: the share of a core and the memory of it and of its child processes.

    controller/bench/ports.py                    1000 eBPF queues, samples read and dropped
    controller/bench/ports.py --command tune     under `weir tune`; `dry-run`: one that writes nothing
    controller/bench/ports.py --busy ...         queues of 100 kbit/s (virtual, or classes), each sent a tenth
                                                 more than it carries
    controller/bench/ports.py --kind classes     1000 classes of one interface, a law each; the process that takes
                                                 their steps is measured too
    controller/bench/ports.py --kind p4runtime   weir-switches of 500 ports, which the controller sets up first
    controller/bench/ports.py --ports 100 --repetitions 5 --json

Queues, namespaces and BPF file system are the script's own and end with it. Needs root, and weir-xdp or weir-switch on
PATH or in build/bin. Figures are shares of a core over the time measured, so that a busy machine changes them little.
The kernel counts that time in steps of 10 ms. Repetitions are of the measurement alone: the ports are set up once.
"""

import argparse
import contextlib
import itertools
import json
import os
import resource
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from p4_switches import p4_switches

REPOSITORY = Path(__file__).resolve().parents[2]
INSIDE = "WEIR_BENCH_PORTS_INSIDE"
BUSY_RATE, BUSY_BIT_S, BUSY_BYTES = "100kbit", 100_000, 1414
TICK_S = 1 / os.sysconf("SC_CLK_TCK")

LISTEN = """
import sys
from weir.dataplane.base import Sample, Up
from weir.dataplane.fleet import load_fleet
ports, seen = set(), 0
with load_fleet(sys.argv[1]) as fleet:
    fleet.start()
    while True:
        event = fleet.events.get()
        if isinstance(event, Up):
            ports |= {(event.device, port) for port in event.gains}
            print("up", len(ports), flush=True)
"""


def sh(*words: object, text: str | None = None) -> None:
    try:
        done = subprocess.run([str(word) for word in words], input=text, text=True, capture_output=True)
    except OSError as error:
        sys.exit(f"{words[0]}: {error.strerror}")
    if done.returncode:
        sys.exit(f"{words[0]}: {done.stderr.strip() or done.returncode}")


def bpf_queues(ports: int, every_ms: int, signal_name: str, folder: Path) -> str:
    """So many interfaces with a queue and the law on it. Returns the fleet file's text."""
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")  # our own namespace's
    sh("mount", "-t", "bpf", "bpf", "/sys/fs/bpf")
    names = [f"q{i}" for i in range(ports)]
    links = "".join(
        f"link add {name} type veth peer name {name}p\nlink set {name} up\nlink set {name}p up\n" for name in names
    )
    sh("ip", "-batch", "-", text=links)
    sh("tc", "-batch", "-", text="".join(f"qdisc add dev {name} root pfifo limit 1000\n" for name in names))
    options = ["--signal", signal_name]
    if signal_name == "virtual":
        options += ["--rate", BUSY_RATE, "--hook", "tc"]
    profile = REPOSITORY / "controller" / "profiles" / "tuned.toml"
    with ThreadPoolExecutor(2) as pool:  # an attach waits for the kernel more than it computes
        list(pool.map(lambda name: sh("weir-xdp", "attach", name, "--gains", profile, *options), names))
    return f'[devices.bench]\nkind = "bpf"\nevery_ms = {every_ms}\n'


def bpf_classes(ports: int, every_ms: int, signal_name: str, folder: Path) -> str:
    """So many classes of an htb at one interface, each with a law. Returns the fleet file's text."""
    Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")  # our own namespace's
    sh("mount", "-t", "bpf", "bpf", "/sys/fs/bpf")
    sh("ip", "-batch", "-", text="link add q0 type veth peer name q0p\nlink set q0 up\nlink set q0p up\n")
    tree = "qdisc add dev q0 root handle 1: htb\nclass add dev q0 parent 1: classid 1:1 htb rate 10gbit quantum 10000\n"
    for i in range(ports):
        tree += f"class add dev q0 parent 1:1 classid {class_handle(i) & 0xFFFF:x} htb rate {BUSY_RATE} quantum 1514\n"
    sh("tc", "-batch", "-", text=tree)
    profile = REPOSITORY / "controller" / "profiles" / "tuned.toml"
    sh("weir-xdp", "attach", "q0", "--class", "1:", "--gains", profile)
    return f'[devices.bench]\nkind = "bpf"\nevery_ms = {every_ms}\n'


def class_handle(i: int) -> int:
    return 0x10000 + 0x10 + i


def p4_ports(ports: int, every_ms: int, signal_name: str, folder: Path) -> str:
    """So many ports on switches of 500. Returns the fleet file's text."""
    return p4_switches(ports, every_ms, folder)


KINDS: dict[str, Callable[[int, int, str, Path], str]] = {
    "bpf": bpf_queues,
    "classes": bpf_classes,
    "p4runtime": p4_ports,
}


def queue_senders(ports: int) -> list[Callable[[bytes], object]]:
    """Sender of a frame, for each interface."""
    sockets = []
    for i in range(ports):
        sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
        sock.bind((f"q{i}", 0))
        sockets.append(sock)
    return [sock.send for sock in sockets]


def class_senders(ports: int) -> list[Callable[[bytes], object]]:
    """The same for each class: a packet's priority is the class's number."""
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    sock.bind(("q0", 0))
    # SO_SNDBUFFORCE: or it would wait for the queues
    sock.setsockopt(socket.SOL_SOCKET, 32, 1 << 30)

    def send(handle: int, frame: bytes) -> None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_PRIORITY, handle)
        sock.send(frame)

    return [partial(send, class_handle(i)) for i in range(ports)]


SENDERS = {"bpf": queue_senders, "classes": class_senders}


def load(senders: list[Callable[[bytes], object]]) -> None:
    """Sends each queue a tenth more than it carries, in turn and for ever."""
    frame = bytes.fromhex("02000000000202000000000108004500") + (BUSY_BYTES - 14).to_bytes(2, "big")
    frame += bytes.fromhex("00000000401100000a0900010a090002").ljust(BUSY_BYTES - len(frame), b"\0")
    pause_s = BUSY_BYTES * 8 / (1.1 * BUSY_BIT_S)
    due_s = time.monotonic()
    while True:
        for send in senders:
            with contextlib.suppress(OSError):  # dropped by the law, which is what it is there for
                send(frame)
        due_s = max(due_s + pause_s, time.monotonic() - pause_s)
        time.sleep(max(0.0, due_s - time.monotonic()))


def family(pid: int) -> dict[int, str]:
    """A process and all that it started: name by id."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, tail = path.read_text().rpartition(")")
        except OSError:
            continue
        stats[int(path.parent.name)] = (head.partition("(")[2], int(tail.split()[1]))
    found, grown = {pid}, True
    while grown:
        more = {child for child, (_, parent) in stats.items() if parent in found} - found
        found, grown = found | more, bool(more)
    return {one: stats[one][0] for one in found if one in stats}


def cpu_s(pid: int) -> float:
    """Of a process and of those of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(field) for field in fields[11:15]) * TICK_S


def rss_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def poll_processes() -> dict[int, str]:
    """Processes that take laws' steps here: a command started them, but they are nobody's children."""
    status = subprocess.run(["weir-xdp", "status", "--json"], capture_output=True, text=True, check=True).stdout
    return {one["poll"]["pid"]: "poll process" for one in json.loads(status) if "poll" in one}


def window(pids: dict[int, str], seconds: float) -> dict[str, dict[str, float]]:
    """CPU, as shares of a core, and memory of these processes over so long a time, by name. One that ends meanwhile is
    left out: its time is its parent's."""
    before = {}
    for pid, name in pids.items():
        with contextlib.suppress(FileNotFoundError):
            before[pid] = name, cpu_s(pid)
    began_s = time.monotonic()
    time.sleep(seconds)
    took_s = time.monotonic() - began_s
    parts: dict[str, dict[str, float]] = {}
    for pid, (name, cpu_before_s) in before.items():
        with contextlib.suppress(FileNotFoundError):
            percent, memory_mb = 100 * (cpu_s(pid) - cpu_before_s) / took_s, rss_mb(pid)
            part = parts.setdefault(name, {"core_percent": 0.0, "rss_mb": 0.0})
            part["core_percent"] += percent
            part["rss_mb"] += memory_mb
    return parts


def measure(
    command: list[str],
    ready: Callable[[str], bool],
    seconds: float,
    repetitions: int,
    beside: dict[int, str],
    warm_up_s: float,
) -> tuple[list[dict], int]:
    """CPU and memory of a command's processes and of those `beside` it, once it is ready, several times in a row; and
    the lines that it wrote in that time."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "controller")},
    )  # fmt: skip
    try:
        for line in process.stdout:
            if ready(line):
                break
        else:
            sys.exit(f"{' '.join(command)}: ended before it was ready")
        os.set_blocking(process.stdout.fileno(), True)
        lines = itertools.count()
        drain = ThreadPoolExecutor(1).submit(lambda: [next(lines) for _ in process.stdout] and None)
        time.sleep(warm_up_s)  # start-up work is no cost of a port
        lines_before = next(lines)
        windows = [window(family(process.pid) | beside, seconds) for _ in range(repetitions)]
        written = next(lines) - lines_before - 1
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
    drain.result()
    return windows, written


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def summary(windows: list[dict[str, dict[str, float]]]) -> dict:
    """Medians, least and most over the repetitions, of each process and of all together."""
    found: dict = {"parts": {}}
    for name in {name for parts in windows for name in parts}:
        found["parts"][name] = {
            key: spread([parts.get(name, {}).get(key, 0.0) for parts in windows]) for key in ("core_percent", "rss_mb")
        }
    for key in ("core_percent", "rss_mb"):
        found[key] = spread([sum(part[key] for part in parts.values()) for parts in windows])
    return found


def whole(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be 1 or more")
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=KINDS, default="bpf")
    parser.add_argument("--ports", type=whole, default=1000)
    parser.add_argument("--every-ms", type=whole, default=500, help="between a port's samples (default %(default)s)")
    parser.add_argument("--signal", choices=("backlog", "poll", "virtual"), default="backlog", help="of --kind bpf")
    parser.add_argument("--busy", action="store_true", help="with traffic; sets --signal virtual")
    parser.add_argument("--command", choices=("listen", "dry-run", "tune"), default="listen")
    parser.add_argument("--seconds", type=whole, default=30, help="of each measurement (default %(default)s)")
    parser.add_argument("--repetitions", type=whole, default=1, help="of it, in a row (default %(default)s)")
    parser.add_argument("--warm-up", type=whole, default=5, metavar="SECONDS", help="before that (default %(default)s)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.busy and args.kind not in SENDERS:
        parser.error("--busy is for --kind bpf and classes")
    if INSIDE not in os.environ:
        path = f"{os.environ['PATH']}:{REPOSITORY / 'build' / 'bin'}:/usr/sbin:/sbin"
        os.environ.update({INSIDE: "1", "PATH": path})
        os.execvp("unshare", ["unshare", "-nm", sys.executable, *sys.argv])
    with tempfile.TemporaryDirectory() as folder:
        began_s = time.monotonic()
        fleet = Path(folder) / "fleet.toml"
        signal_name = "virtual" if args.busy else args.signal
        fleet.write_text(KINDS[args.kind](args.ports, args.every_ms, signal_name, Path(folder)))
        setup_s = time.monotonic() - began_s
        if args.busy:
            resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
            threading.Thread(target=load, args=(SENDERS[args.kind](args.ports),), daemon=True).start()
        if args.command == "listen":
            command = [sys.executable, "-c", LISTEN, str(fleet)]
            said = f"up {args.ports}\n"
        else:
            command = [sys.executable, "-m", "weir.cli", "tune", "--fleet", str(fleet)]
            command += ["--dry-run"] if args.command == "dry-run" else []
            said = "tuning"
        beside = {} if args.kind == "p4runtime" else poll_processes()
        try:
            windows, lines = measure(
                command, lambda line: line.startswith(said), args.seconds, args.repetitions, beside, args.warm_up
            )
        finally:
            for pid in beside:  # each keeps our namespaces, and with them its pins
                os.kill(pid, signal.SIGTERM)
    found = summary(windows)
    result = {
        "kind": args.kind, "ports": args.ports, "every_ms": args.every_ms, "command": args.command, "busy": args.busy,
        "lines": lines, "setup_s": round(setup_s, 1), **found,
        "us_a_sample": found["core_percent"]["median"] / 100 * 1e6 / (args.ports * 1000 / args.every_ms),
    }  # fmt: skip
    if args.json:
        print(json.dumps(result))
        return
    print(
        f"{args.ports} ports ({args.kind}), a sample each {args.every_ms} ms, {args.command}; set up in {setup_s:.0f} s"
    )
    for name, part in [*sorted(found["parts"].items()), ("all", found)]:
        core, memory = part["core_percent"], part["rss_mb"]
        print(f"  {name:<12} {core['median']:6.1f} % of a core ({core['least']:.1f} to {core['most']:.1f})"
              f"  {memory['median']:7.1f} MB")  # fmt: skip
    print(f"  {result['us_a_sample']:.1f} us a sample, {lines} lines told in {args.repetitions * args.seconds} s")


if __name__ == "__main__":
    main()
