#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time of a packet through one shaper, for senders on one and on more cores, beside mq, whose queues share no lock.

A sender is a process on a core of its own that sends UDP datagrams of 1400 bytes into a veth of four transmit queues.
Other work on the machine lowers packets per second, so CPU time is measured, the sender's own included; packets per
second are cores divided by the least of it. The rate is too high to shape: packets do not wait.
"""

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
RATE = "100gbit"
# name: commands that set it up and take it off
SHAPERS = {
    "mq": ("tc qdisc add dev wc0 root handle 1: mq", "tc qdisc del dev wc0 root"),
    "--shape": (f"weir-xdp attach wc0 --shape {RATE} --signal poll", "weir-xdp detach wc0"),
    "--shape --bands": (f"weir-xdp attach wc0 --shape {RATE} --bands", "weir-xdp detach wc0"),
    "cake": (f"tc qdisc add dev wc0 root cake bandwidth {RATE}", "tc qdisc del dev wc0 root"),
}
# The far end has other addresses, so that its IP drops what comes in.
LINK = """
mount -t sysfs sysfs /sys; mount -t bpf bpf /sys/fs/bpf
ip link add name wc0 numtxqueues 4 numrxqueues 4 type veth peer name wc1 numtxqueues 4 numrxqueues 4 netns {far}
nsenter -n -t {far} ip link set wc1 up
ethtool -K wc0 tso off gso off gro off >/dev/null; ip addr add 10.9.0.1/24 dev wc0; ip link set wc0 up
ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev wc0
"""


class Failed(Exception):
    """A command that ended badly."""


def sh(command: str) -> None:
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{command}: exit {done.returncode}: {done.stderr.strip()}")


@contextlib.contextmanager
def link() -> Iterator[None]:
    """The veth pair in this namespace, which main has made, and a second one."""
    with subprocess.Popen(["unshare", "-n", "sh", "-c", "echo ready; exec cat"], stdin=-1, stdout=-1) as far:
        far.stdout.readline()
        sh(LINK.format(far=far.pid))
        try:
            yield
        finally:
            far.stdin.close()


def cpu_ns(flood: Path, cores: list[int], seconds: float) -> float:
    """CPU time of a packet, over all senders."""
    senders = [
        subprocess.Popen(
            ["taskset", "-c", str(core), flood, "send", "10.9.0.2", str(9000 + core), str(seconds)],
            stdout=-1,
            text=True,
        )
        for core in cores
    ]
    packets, used = 0, 0.0
    for sender in senders:
        out = sender.stdout.read()
        _, status, usage = os.wait4(sender.pid, 0)
        sender.returncode = os.waitstatus_to_exitcode(status)
        sender.stdout.close()
        if sender.returncode:
            raise Failed(f"flood: exit {sender.returncode}")
        packets += int(out.split()[0])
        used += usage.ru_utime + usage.ru_stime
    return used * 1e9 / packets


def measured(args: argparse.Namespace) -> list[dict]:
    available = sorted(os.sched_getaffinity(0))
    counts = sorted({1, min(2, len(available)), len(available)})
    rounds: dict[tuple[str, int], list[float]] = {}
    shapers = dict(SHAPERS)
    for _ in range(args.rounds):
        for name, (up, down) in list(shapers.items()):
            try:
                sh(up)
            except Failed:
                if name != "cake":
                    raise
                del shapers[name]  # this kernel has none
                continue
            for count in counts:
                found = cpu_ns(args.build / "flood", available[:count], args.seconds)
                rounds.setdefault((name, count), []).append(found)
            sh(down)
    return [
        {
            "shaper": name, "cores": count, "cpu_ns": {"least": min(found), "median": statistics.median(found)},
            "packets_per_s": count * 1e9 / min(found),
        }
        for (name, count), found in rounds.items()
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=0.4, help="of a sender in a round [0.4]")
    parser.add_argument("--build", type=Path, default=REPO / "build" / "xdp", help="where weir-xdp and flood are")
    args = parser.parse_args()
    if os.geteuid():
        print("bench_cores: needs root, for namespaces and eBPF", file=sys.stderr)
        return 1
    os.environ["PATH"] = f"{args.build}:{os.environ['PATH']}:/usr/sbin:/sbin"
    if "WEIR_BENCH_INSIDE" not in os.environ:
        os.environ["WEIR_BENCH_INSIDE"] = "1"
        os.execvp("unshare", ["unshare", "-nm", sys.executable, *sys.argv])
    try:
        with link():
            rows = measured(args)
    except Failed as error:
        print(f"bench_cores: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    print(f"{'shaper':17}cores  CPU ns a packet: least  median  packets/s at the least")
    for row in rows:
        figures = row["cpu_ns"]
        print(
            f"{row['shaper']:17}{row['cores']:5}{figures['least']:24.0f}{figures['median']:8.0f}{row['packets_per_s']:24.0f}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
