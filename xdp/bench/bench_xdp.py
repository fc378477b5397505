#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Cost of the AQM: the time a packet takes, as a ratio to an empty program's and in nanoseconds, and packets per second
through a veth pair.

Nanoseconds belong to a machine, which is named: two of the same kind have differed by a factor of two. So each figure
is taken beside an empty program's, in turns, some tenths of a second apart, and given as their ratio too, with its
spread (first and third quartile of the rounds). Aims: 60 ns or less above empty, 3 % or less of the packets per second.

With laws of many classes each packet is of another class at random, so that what the caches miss is in the figure. In
turns with it run one law for a whole interface, and the laws of classes with all packets of one class: that is the
program without the misses. Then both once more with the caches emptied before each round, in which a class has ten
packets. Other work on the machine only ever adds time: the difference of the least rounds is what the program costs,
and quartiles far from it tell of a busy machine. Aims for 1000 classes: 30 ns or less above one law, a fifth of a CPU
or less for their process, 200 MB or less for it and the maps.

Throughput advice (`--advise`) is measured in turns with the same law without it, for a packet of TCP, of QUIC with a
short and with a long header, and with a SCONE packet. Aims: 20 ns or less for QUIC, nothing for TCP.
"""

import argparse
import contextlib
import ctypes
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

REPO = Path(__file__).resolve().parents[2]
PROFILE = REPO / "controller" / "profiles" / "tuned.toml"
EMPTY = "/sys/fs/bpf/weir-bench"
SPREAD = "/sys/fs/bpf/weir-spread"
CLASSES_MAX = 0xFFFD  # numbers of tc that are left beside the inner class
LOAD_EVERY_US = 15000  # an interval of the profile: each class has traffic at each look
FRAME_BYTES = 1414
CACHES_BYTES = 128 << 20  # more than they hold
COLD_PACKETS = 10  # of each class, after the caches were emptied

# name: options of attach, program, the empty one of its kind, qdisc needed
SIGNALS = {
    "veth": (("--peer", "wb0@{peer}"), "prog_weir_egress", "empty_tc", False),
    "backlog": (("--signal", "backlog"), "prog_weir_egress", "empty_tc", True),
    "poll": (("--signal", "poll"), "prog_weir_egress", "empty_tc", True),
    "poll-records": (("--signal", "poll", "--flow-records"), "prog_weir_egress", "empty_tc", True),
    "poll-bands": (("--signal", "poll", "--bands", "--shape", "10gbit"), "prog_weir_egress", "empty_tc", False),
    "virtual-tc": (("--rate", "1000gbit", "--hook", "tc"), "prog_weir_egress", "empty_tc", False),
    "virtual-xdp": (("--rate", "1000gbit"), "prog_weir_ingress", "empty_xdp", False),
}
SHAPED = ("poll-bands",)
"""Their own shaper bounds packets per second, so only the cost is measured."""
# cost of any program at these hooks
EMPTY_CLSACT, EMPTY_TCX, EMPTY_XDP = "empty-clsact", "empty-tcx", "empty-xdp"
BPF_TCX_EGRESS = 47  # linux/bpf.h since 6.6
# of laws of classes: whose program, how its packets are spread, whether the caches are emptied before; what the cost of
# each is counted above
CLASS_RUNS = {
    "one": ("one law", "one", False),
    "same": ("of one class", "many", False),
    "many": ("of classes at random", "many", False),
    "one_cold": ("one law, caches emptied", "one", True),
    "many_cold": ("at random, caches emptied", "many", True),
}
ADVICE = "advice"
"""Of `--signals`: the law with advice above the law without."""
CLASS_ABOVE = {"same": "one", "many": "one", "many_cold": "one_cold"}


class Failed(Exception):
    """A command that ended badly."""


class TestRun(ctypes.Structure):
    """struct bpf_test_run_opts of libbpf's bpf.h."""

    _fields_ = (
        ("sz", ctypes.c_size_t),
        ("data_in", ctypes.c_char_p),
        ("data_out", ctypes.c_void_p),
        ("data_size_in", ctypes.c_uint32),
        ("data_size_out", ctypes.c_uint32),
        ("ctx_in", ctypes.c_char_p),
        ("ctx_out", ctypes.c_void_p),
        ("ctx_size_in", ctypes.c_uint32),
        ("ctx_size_out", ctypes.c_uint32),
        ("retval", ctypes.c_uint32),
        ("repeat", ctypes.c_int),
        ("duration", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("cpu", ctypes.c_uint32),
        ("batch_size", ctypes.c_uint32),
    )


def run(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def spread(values: list[float]) -> dict:
    low, mid, high = statistics.quantiles(values, n=4)
    return {"least": min(values), "q1": low, "median": mid, "q3": high, "n": len(values)}


def machine() -> ModuleType:
    """`weirlab.bench.machine`, from the clone of this script."""
    sys.path.insert(0, str(REPO / "mininet"))
    from weirlab.bench import machine as found

    return found


def frame(protocol: int = 17, transport: bytes = b"") -> bytes:
    head = bytes.fromhex("02000000000202000000000108004500") + (FRAME_BYTES - 14).to_bytes(2, "big")
    ip = bytes.fromhex("0000 0000 40") + bytes([protocol]) + bytes.fromhex("0000 0a090001 0a090002")
    return (head + ip + transport).ljust(FRAME_BYTES, b"\0")


def advice_frames() -> dict[str, bytes]:
    """A frame of each kind of packet: TCP, QUIC with each form of header, SCONE."""
    ports = (4433).to_bytes(2, "big") + (5000).to_bytes(2, "big")
    udp = ports + (FRAME_BYTES - 34).to_bytes(2, "big") + bytes(2)
    cid = b"\x08" + b"12345678"
    return {
        "tcp": frame(6, ports + bytes(8) + b"\x50\x10"),
        "quic": frame(17, udp + b"\x41" + cid[1:]),
        "quic-long": frame(17, udp + b"\xc1\0\0\0\1" + cid),
        "scone": frame(17, udp + bytes.fromhex("ffef7dc0fd") + cid + b"\0\x41" + cid[1:]),
    }


def map_bytes() -> dict[int, int]:
    """Kernel memory of each BPF map, by its number."""
    return {one["id"]: one["bytes_memlock"] for one in json.loads(run("bpftool", "-j", "map", "show"))}


def cpu_share(pid: int, wait: Callable[[], object]) -> float:
    """Of one CPU, that a process has while something else goes on."""
    used, began = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]), time.monotonic_ns()
    wait()
    now = int(Path(f"/proc/{pid}/schedstat").read_text().split()[0])
    return (now - used) / (time.monotonic_ns() - began)


class Bench:
    """A veth pair wa0 - wb0, the far end in a namespace of its own."""

    def __init__(self, build: Path, gains: Path, work: Path):
        self.build, self.gains, self.work = build, gains, work
        self.holder = subprocess.Popen(
            ["unshare", "-n", "sh", "-c", "echo ready; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.holder.stdout.readline()
        self.peer = f"/proc/{self.holder.pid}/ns/net"
        run("ip", "link", "add", "wa0", "type", "veth", "peer", "name", "wb0", "netns", self.holder.pid)
        far = ("nsenter", f"--net={self.peer}")
        for inside, dev, address in (((), "wa0", "10.9.0.1/24"), (far, "wb0", "10.9.0.2/24")):
            run(*inside, "ethtool", "-K", dev, "tso", "off", "gso", "off", "gro", "off")
            run(*inside, "ip", "addr", "add", address, "dev", dev)
            run(*inside, "ip", "link", "set", dev, "up")
        run("bpftool", "prog", "loadall", build / "empty.bpf.o", EMPTY)
        self.frame = frame()
        # struct __sk_buff with its ifindex: without it a program at tc would find itself on the loopback interface
        index = socket.if_nametoindex("wa0").to_bytes(4, sys.byteorder)
        self.context = bytes(40) + index + bytes(148)
        self.cold, self.zeros = bytearray(CACHES_BYTES // 2), bytes(CACHES_BYTES // 2)
        self.far = far
        self.libbpf = ctypes.CDLL("libbpf.so.1", use_errno=True)
        self.tcx_link = -1

    def close(self) -> None:
        self.holder.stdin.close()
        self.holder.wait()

    def attach(self, name: str, *more: object) -> None:
        """Where the packets of `rate` go by: tc where they leave, XDP where they arrive."""
        if name == EMPTY_CLSACT:
            run("tc", "qdisc", "add", "dev", "wa0", "clsact")
            run("tc", "filter", "add", "dev", "wa0", "egress", "bpf", "da", "pinned", f"{EMPTY}/empty_tc")
            return
        if name == EMPTY_TCX:  # neither tc nor bpftool of Debian 12 knows how
            program = self.libbpf.bpf_obj_get(f"{EMPTY}/empty_tc".encode())
            self.tcx_link = self.libbpf.bpf_link_create(program, socket.if_nametoindex("wa0"), BPF_TCX_EGRESS, None)
            if self.tcx_link < 0:
                raise Failed(f"TCX link on wa0: {os.strerror(ctypes.get_errno())}")
            os.close(program)
            return
        if name == EMPTY_XDP:
            run(*self.far, "ip", "link", "set", "dev", "wb0", "xdp", "pinned", f"{EMPTY}/empty_xdp")
            return
        options = [str(o).format(peer=self.peer) for o in SIGNALS[name][0]]
        run(self.build / "weir-xdp", "attach", *self.where(name), "--gains", self.gains, *options, *more)

    def detach(self, name: str) -> None:
        if name == EMPTY_CLSACT:
            run("tc", "qdisc", "del", "dev", "wa0", "clsact")
        elif name == EMPTY_TCX:
            os.close(self.tcx_link)
        elif name == EMPTY_XDP:
            run(*self.far, "ip", "link", "set", "dev", "wb0", "xdp", "off")
        else:
            run(self.build / "weir-xdp", "detach", *self.where(name))

    def where(self, name: str) -> tuple:
        return ("wb0", "--netns", self.peer) if name == "virtual-xdp" else ("wa0",)

    def qdisc(self, needed: bool) -> None:
        """A shaper that never shapes, where the signal is a qdisc's; with and without the program alike."""
        subprocess.run(["tc", "qdisc", "del", "dev", "wa0", "root"], capture_output=True)
        if needed:
            run("tc", "qdisc", "add", "dev", "wa0", "root", "handle", "1:", "htb", "default", "1")
            run("tc", "class", "add", "dev", "wa0", "parent", "1:", "classid", "1:1", "htb", "rate", "100gbit")

    def checked(self, what: str, result: int) -> int:
        if result < 0:
            raise Failed(f"{what}: {os.strerror(ctypes.get_errno())}")
        return result

    @contextlib.contextmanager
    def pinned(self, pin: str) -> Iterator[int]:
        number = self.checked(pin, self.libbpf.bpf_obj_get(pin.encode()))
        try:
            yield number
        finally:
            os.close(number)

    def program_ns(self, pin: str, repeat: int) -> float:
        """From in here, because a process that starts between two rounds takes the caches for itself."""
        context = b"" if pin.endswith(("_ingress", "_xdp")) else self.context
        test = TestRun(
            sz=ctypes.sizeof(TestRun),
            data_in=self.frame,
            data_size_in=len(self.frame),
            ctx_in=context or None,
            ctx_size_in=len(context),
            repeat=repeat,
        )
        with self.pinned(pin) as program:
            self.checked(pin, self.libbpf.bpf_prog_test_run_opts(program, ctypes.byref(test)))
        return float(test.duration)

    def empty_caches(self) -> None:
        self.cold[:] = self.zeros

    def cost(self, name: str, u: float, rounds: int, repeat: int) -> dict:
        """Nanoseconds a packet: the program, the empty one, and ratio and difference round by round."""
        _, pin, empty, needs_qdisc = SIGNALS[name]
        self.qdisc(needs_qdisc)
        self.attach(name, "--fixed-probability", u) if u else self.attach(name)
        ours, theirs = [], []
        try:
            pins = json.loads(run(self.build / "weir-xdp", "status", *self.where(name), "--json"))["pins"]
            for _ in range(rounds):
                theirs.append(self.program_ns(f"{EMPTY}/{empty}", repeat))
                ours.append(self.program_ns(f"{pins}/{pin}", repeat))
        finally:
            self.detach(name)
        rounds_ns = list(zip(ours, theirs, strict=True))
        return {
            "program_ns": spread(ours),
            "empty_ns": spread(theirs),
            "above_empty_ns": spread([a - b for a, b in rounds_ns]),
            "ratio_to_empty": spread([a / max(b, 1) for a, b in rounds_ns]),  # the kernel gives whole ns
        }

    def advice_cost(self, rounds: int, repeat: int) -> dict:
        """Nanoseconds a packet of each kind, with advice and without: the same law at wa0 and at wc0."""
        self.qdisc(False)
        run("ip", "link", "add", "wc0", "type", "veth", "peer", "name", "wd0")
        weir, common = self.build / "weir-xdp", ("--gains", self.gains, "--signal", "poll")
        for dev in ("wa0", "wc0"):
            run("ip", "link", "set", dev, "up")
            run("tc", "qdisc", "add", "dev", dev, "root", "handle", "1:", "pfifo")
        run(weir, "attach", "wa0", *common)
        run(weir, "attach", "wc0", *common, "--advise", "8mbit")
        frames, whole = advice_frames(), self.frame
        taken: dict[str, tuple[list[float], list[float]]] = {kind: ([], []) for kind in frames}
        try:
            pins = [json.loads(run(weir, "status", dev, "--json"))["pins"] for dev in ("wa0", "wc0")]
            for _ in range(rounds):
                for kind, self.frame in frames.items():
                    for times, pin in zip(taken[kind], pins, strict=True):
                        times.append(self.program_ns(f"{pin}/prog_weir_egress", repeat))
            advised = json.loads(run(weir, "status", "wc0", "--json"))["counters"]["advised"]
        finally:
            self.frame = whole
            for dev in ("wa0", "wc0"):
                run(weir, "detach", dev)
        if not advised:
            raise Failed("no SCONE packet was rewritten")
        return {
            kind: {
                "without_ns": spread(without),
                "with_ns": spread(with_advice),
                "above_ns": spread([a - b for a, b in zip(with_advice, without, strict=True)]),
                "above_least_ns": min(with_advice) - min(without),
            }
            for kind, (without, with_advice) in taken.items()
        }

    def trees(self, classes: int, rate: str) -> None:
        """Many classes at wa0, and one at an interface of its own, wc0."""
        run("ip", "link", "add", "wc0", "type", "veth", "peer", "name", "wd0")
        for dev in ("wc0", "wd0"):
            run("ip", "link", "set", dev, "up")
        lines = [
            "qdisc add dev wc0 root handle 1: htb default 1",
            "class add dev wc0 parent 1: classid 1:1 htb rate 100gbit quantum 1514",
            "qdisc add dev wa0 root handle 1: htb default 1",
            "class add dev wa0 parent 1: classid 1:ffff htb rate 100gbit quantum 1514",
        ]
        for number in range(1, classes + 1):
            of = f"dev wa0 parent 1:ffff classid 1:{number:x}"
            lines += [f"class add {of} htb rate {rate} quantum 1514"]
            lines += [f"qdisc add dev wa0 parent 1:{number:x} pfifo limit 200"]
        subprocess.run(["tc", "qdisc", "del", "dev", "wa0", "root"], capture_output=True)
        (self.work / "tree").write_text("\n".join(lines) + "\n")
        run("tc", "-b", self.work / "tree")

    def put(self, pin: str, number: int) -> None:
        """Into the only place of a pinned map."""
        with self.pinned(pin) as at:
            key, value = ctypes.byref(ctypes.c_uint32(0)), ctypes.byref(ctypes.c_uint32(number))
            self.checked(pin, self.libbpf.bpf_map_update_elem(at, key, value, ctypes.c_uint64(0)))

    def spread_ns(self, pin: str, classes: int, packets: int, cold: bool) -> float:
        """A packet's time in the program at `pin`, each packet one of the first so many classes, at random."""
        self.put(f"{SPREAD}/spread", classes)
        with self.pinned(pin) as program:
            self.put(f"{SPREAD}/tested", program)
        if cold:
            self.empty_caches()
        return self.program_ns(f"{SPREAD}/spread_tc", packets)

    def class_cost(self, classes: int, u: float, rounds: int, repeat: int) -> dict:
        """Nanoseconds a packet in each of CLASS_RUNS, and above one law."""
        options = ["--fixed-probability", u] if u else []
        weir, gains = self.build / "weir-xdp", ("--gains", self.gains)
        run(weir, "attach", "wa0", "--class", "1:", *gains, *options)
        run(weir, "attach", "wc0", "--signal", "poll", *gains, *options)
        taken: dict[str, list[float]] = {name: [] for name in CLASS_RUNS}
        try:
            laws = json.loads(run(weir, "status", "wa0", "--json"))
            pins = {"many": laws[0]["pins"], "one": json.loads(run(weir, "status", "wc0", "--json"))["pins"]}
            for _ in range(rounds):
                for name, (_, which, cold) in CLASS_RUNS.items():
                    packets = COLD_PACKETS * classes if cold else repeat
                    over = 1 if name == "same" else classes
                    taken[name].append(self.spread_ns(f"{pins[which]}/prog_weir_egress", over, packets, cold))
            seen = [law["counters"]["seen_packets"] for law in json.loads(run(weir, "status", "wa0", "--json"))]
        finally:
            run(weir, "detach", "wa0")
            run(weir, "detach", "wc0")
        ran = rounds * (2 * repeat + COLD_PACKETS * classes)
        if len(laws) != classes or sum(seen) < ran:
            raise Failed(f"{len(laws)} laws saw {sum(seen)} packets, of {classes} and {ran}")
        above = {name: (taken[name], taken[base]) for name, base in CLASS_ABOVE.items()}
        return {
            **{f"{name}_ns": spread(times) for name, times in taken.items()},
            **{f"{name}_above_ns": spread([a - b for a, b in zip(*two, strict=True)]) for name, two in above.items()},
            **{f"{name}_above_least_ns": min(times) - min(base) for name, (times, base) in above.items()},
            "ratio_to_one": spread([a / b for a, b in zip(*above["many"], strict=True)]),
        }

    def class_process(self, rounds: int, classes: int, seconds: float) -> dict:
        """The process that takes the laws' steps: its share of a CPU, without and with packets in all classes, and the
        memory of it and of the maps."""
        before = map_bytes()
        run(self.build / "weir-xdp", "attach", "wa0", "--class", "1:", "--gains", self.gains)
        maps = sum(size for number, size in map_bytes().items() if number not in before)
        pid = json.loads(run(self.build / "weir-xdp", "status", "wa0", "--json"))[0]["poll"]["pid"]
        shares: dict[str, list[float]] = {"idle": [], "loaded": []}
        try:
            for _ in range(rounds):
                shares["idle"].append(cpu_share(pid, lambda: time.sleep(seconds)))
                load = ("classes", "10.9.0.2", 9, seconds, classes, LOAD_EVERY_US)
                shares["loaded"].append(cpu_share(pid, lambda load=load: run(self.build / "flood", *load)))
            resident = Path(f"/proc/{pid}/status").read_text().partition("VmRSS:")[2].split()[0]
            laws = json.loads(run(self.build / "weir-xdp", "status", "wa0", "--json"))
        finally:
            run(self.build / "weir-xdp", "detach", "wa0")
        return {
            "cpu_share": {name: spread(values) for name, values in shares.items()},
            "resident_bytes": 1024 * int(resident),
            "map_bytes": maps,
            "hit_packets": sum(law["counters"]["dropped_aqm_packets"] for law in laws),
        }

    def classes(self, count: int, rounds: int, repeat: int, seconds: float) -> dict:
        run("bpftool", "prog", "loadall", self.build / "spread.bpf.o", SPREAD, "pinmaps", SPREAD)
        # so slow that the load makes a queue in each class
        self.trees(count, f"{FRAME_BYTES * 8 * 1_000_000 // LOAD_EVERY_US * 2 // 3}bit")
        cost = {label: self.class_cost(count, u, rounds, repeat) for label, u in (("idle", 0), ("dropping", 0.01))}
        return {"count": count, "cost": cost, "process": self.class_process(max(2, rounds // 3), count, seconds)}

    def rate(self, load: str, seconds: float) -> float:
        """Packets per second a single sender brings through while nobody disturbs it (flood's upper decile)."""
        if load == "raw":
            out = run(self.build / "flood", "raw", "wa0", seconds)
        else:
            out = run(self.build / "flood", "send", "10.9.0.2", 9000, seconds)
        return float(out.split()[1])

    def throughput(self, name: str, load: str, rounds: int, seconds: float) -> dict:
        """Packets per second with and without, in the order A B B A, and the ratio of each round."""
        self.qdisc(name in SIGNALS and SIGNALS[name][3])
        sink = subprocess.Popen(
            [*self.far, str(self.build / "flood"), "sink", "9000"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        sink.stdout.readline()
        plain, ours, ratios = [], [], []
        try:
            self.rate(load, seconds)  # to warm up
            for _ in range(rounds):
                a1 = self.rate(load, seconds)
                self.attach(name)
                b1, b2 = self.rate(load, seconds), self.rate(load, seconds)
                self.detach(name)
                a2 = self.rate(load, seconds)
                plain += [a1, a2]
                ours += [b1, b2]
                ratios.append((b1 + b2) / (a1 + a2))
        finally:
            sink.communicate()
        return {"plain_packets_s": spread(plain), "aqm_packets_s": spread(ours), "ratio": spread(ratios)}


def measure(args: argparse.Namespace, work: Path) -> dict:
    result = {"machine": machine().idle_machine(args.busy), "frame_bytes": FRAME_BYTES, "cost": {}, "throughput": {}}
    bench = Bench(args.build.resolve(), args.gains.resolve(), work)
    try:
        for name in (name for name in args.signals if name != ADVICE):
            for label, u in (("idle", 0), ("dropping", 0.01)):
                print(f"cost of {name}, {label} ...", file=sys.stderr)
                result["cost"][f"{name}, {label}"] = bench.cost(name, u, args.rounds, args.repeat)
        if ADVICE in args.signals:
            print("cost of advice ...", file=sys.stderr)
            result["advice"] = bench.advice_cost(args.rounds, args.repeat)
        signals = [name for name in args.signals if name not in (*SHAPED, ADVICE)]
        for name in [] if args.cost_only else [EMPTY_CLSACT, EMPTY_TCX, EMPTY_XDP, *signals]:
            for load in ("udp", "raw"):
                print(f"throughput with {name}, {load} ...", file=sys.stderr)
                result["throughput"][f"{name}, {load}"] = bench.throughput(name, load, args.rounds, args.seconds)
        if args.classes:
            print(f"laws of {args.classes} classes ...", file=sys.stderr)
            result["classes"] = bench.classes(args.classes, args.rounds, args.repeat, 10 * args.seconds)
    finally:
        bench.close()
    result["machine"]["load_1_min_at_end"] = os.getloadavg()[0]
    return result


def class_table(c: dict, cell: Callable[..., str]) -> list[str]:
    process = c["process"]
    rounds = c["cost"]["idle"]["one_ns"]["n"]
    lines = [
        f"laws of {c['count']} classes beside one law for all packets: ns a packet, the least of {rounds} rounds and "
        "their median (quartiles)"
    ]
    lines.append(f"{'packets':<36}{'least':>8}{'median':>20}{'above one law: least':>24}{'median':>20}")
    for load, cost in c["cost"].items():
        for name, (what, _, _) in CLASS_RUNS.items():
            ns = cost[f"{name}_ns"]
            line = f"{f'{load}, {what}':<36}{ns['least']:>8.0f}{cell(ns):>20}"
            if name in CLASS_ABOVE:
                line += f"{cost[f'{name}_above_least_ns']:>24.0f}{cell(cost[f'{name}_above_ns']):>20}"
            lines.append(line)
    shares = ", ".join(f"{cell(share, 3)} {name}" for name, share in process["cpu_share"].items())
    lines.append(f"its process: {shares} of a CPU; {process['resident_bytes'] / 1e6:.1f} MB resident")
    lines.append(f"its maps: {process['map_bytes'] / 1e6:.1f} MB; packets hit under load: {process['hit_packets']}")
    return lines


def advice_table(costs: dict, cell: Callable[..., str]) -> list[str]:
    lines = [
        "throughput advice above the same law without: ns a packet, median (quartiles), and difference of the least"
    ]
    lines.append(f"{'packet':<24}{'without':>20}{'with':>20}{'above':>20}{'least':>8}")
    for kind, cost in costs.items():
        cells = "".join(f"{cell(cost[key]):>20}" for key in ("without_ns", "with_ns", "above_ns"))
        lines.append(f"{kind:<24}{cells}{cost['above_least_ns']:>8.0f}")
    return lines


def table(result: dict) -> str:
    def cell(s: dict, digits: int = 0) -> str:
        return f"{s['median']:.{digits}f} ({s['q1']:.{digits}f} .. {s['q3']:.{digits}f})"

    m = result["machine"]
    lines = [f"{machine().line(m)}, load {m['load_1_min_at_end']:.1f} at the end"]
    lines.append(f"time of a {result['frame_bytes']}-byte packet beside an empty program's: median (quartiles)")
    lines.append(f"{'signal':<24}{'ratio to empty':>22}{'program, ns':>20}{'empty, ns':>20}{'above empty, ns':>20}")
    for name, c in result["cost"].items():
        ns = "".join(f"{cell(c[key]):>20}" for key in ("program_ns", "empty_ns", "above_empty_ns"))
        lines.append(f"{name:<24}{cell(c['ratio_to_empty'], 1):>22}{ns}")
    lines += advice_table(result["advice"], cell) if "advice" in result else []
    lines += class_table(result["classes"], cell) if "classes" in result else []
    if not result["throughput"]:
        return "\n".join(lines)
    lines.append("packets per second through a veth pair, one sender")
    lines.append(f"{'signal, load':<24}{'without':>12}{'with':>12}{'ratio':>26}")
    for name, t in result["throughput"].items():
        plain, aqm = t["plain_packets_s"]["median"], t["aqm_packets_s"]["median"]
        lines.append(f"{name:<24}{plain:>12.0f}{aqm:>12.0f}{cell(t['ratio'], 3):>26}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=REPO / "build" / "xdp", help="folder `make -C xdp` filled")
    parser.add_argument("--gains", type=Path, default=PROFILE, help="profile to measure (default tuned)")
    parser.add_argument("--signals", nargs="+", choices=[*SIGNALS, ADVICE], default=[*SIGNALS, ADVICE])
    parser.add_argument("--rounds", type=int, default=9, help="interleaved repeats, 2 or more (default 9)")
    parser.add_argument("--repeat", type=int, default=500_000, help="packets per PROG_TEST_RUN (default 500000)")
    parser.add_argument("--classes", type=int, default=1000, help="laws of so many classes too, 0 none (default 1000)")
    parser.add_argument("--cost-only", action="store_true", help="leave the packets per second out")
    parser.add_argument("--seconds", type=float, default=0.2, help="length of one flood (default 0.2)")
    parser.add_argument("--json", action="store_true", help="one JSON document on standard output")
    parser.add_argument("--busy", action="store_true", help="measure although other programs use the processors")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)  # set by ourselves, in our own namespaces
    args = parser.parse_args()
    if args.rounds < 2:
        parser.error("--rounds: must be 2 or more, for a spread")
    if not 0 <= args.classes <= CLASSES_MAX:
        parser.error(f"--classes: must be 0 .. {CLASSES_MAX}")
    if os.geteuid():
        print("bench_xdp: needs root, for namespaces and eBPF", file=sys.stderr)
        return 1
    if not (args.build / "weir-xdp").exists():
        print(f"bench_xdp: no weir-xdp in {args.build}; make -C xdp OUT={args.build}", file=sys.stderr)
        return 1
    if not args.inside:  # private network and mount namespaces: nothing of ours is left when they end
        os.environ["PATH"] += ":/usr/sbin:/sbin"
        script = (
            'mount -t bpf bpf /sys/fs/bpf && mount -t tmpfs tmp /mnt && ip link set lo up && exec "$@" --inside /mnt'
        )
        return subprocess.run(["unshare", "-nm", "sh", "-ec", script, "sh", sys.executable, *sys.argv]).returncode
    try:
        result = measure(args, args.inside)
    except (Failed, machine().BusyError) as error:
        print(f"bench_xdp: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result) if args.json else table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
