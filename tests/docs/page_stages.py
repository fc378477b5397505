# SPDX-License-Identifier: Apache-2.0
"""Hosts in network namespaces, on which commands of the pages run as they stand there.

Tests are root, so `sudo` is left out. `./run PROGRAM` starts the program that is built: a test builds nothing. All
hosts of a page have one folder, as if files were copied between them.
"""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from page_commands import REPO, simple_commands

PATIENCE_S = 60
LINKED = ("controller", "mininet", "p4", "build", "xdp")
RUN = """#!/bin/sh
command=$1; shift
case $command in
  aqm) exec weir-xdp "$@" ;;
  client | server | icn | switch | stf) exec "weir-$command" "$@" ;;
  weir) exec "$PAGES_PYTHON" -m weir.cli "$@" ;;
esac
echo "no ./run $command here" >&2; exit 127
"""
TREE = """
tc qdisc add dev eth0 root handle 1: htb default 20
tc class add dev eth0 parent 1: classid 1:1 htb rate 95mbit
tc class add dev eth0 parent 1:1 classid 1:10 htb rate 50mbit ceil 95mbit
tc class add dev eth0 parent 1:1 classid 1:20 htb rate 45mbit ceil 95mbit
tc qdisc add dev eth0 parent 1:10 pfifo limit 1000
tc qdisc add dev eth0 parent 1:20 pfifo limit 1000
"""
OTHER_END = """
ip netns add far
ip link add eth0 type veth peer name eth0 netns far
ip -n far link set eth0 up
ip link set eth0 up
"""
HOSTS = {
    "one": "",
    "router": OTHER_END,
    "classes": OTHER_END + TREE,
    "switch": "",
    "wired": """
for n in 1 2; do
  ip link add veth$n type veth peer name end$n
  ip link set veth$n up
  ip link set end$n up
done
""",
    "server": "mkdir -p films; head -c 300000 /dev/urandom >films/a.mp4",
    "phone": """
ip link add eth1 type veth peer name eth1 netns $server
ip address add 192.0.2.2/24 dev eth1
ip address add 198.51.100.1/32 dev lo
ip link set eth1 up
nsenter -t $server -n ip address add 192.0.2.1/24 dev eth1
nsenter -t $server -n ip link set eth1 up
""",
}  # fmt: skip
"""A host's own network, in the reader's place. `phone` is linked to `server`."""
NEW_HOST = """
mount -t sysfs sysfs /sys
mount -t bpf bpf /sys/fs/bpf
mount -t tmpfs run /run
mkdir -p /run/netns
ip link set lo up
echo ready
exec sleep infinity
"""
LINKED_FIRST = {"server": "phone"}

LASTING = {
    ("weir-server",),
    ("weir-switch",),
    *(("weir-icn", word) for word in ("server", "client", "publish", "cache", "edge")),
}
WATCHING = {("weir-xdp", "watch"), ("weir", "watch"), ("weir", "tune"), ("weir", "top")}
"""Programs that go on until they are ended: those that later lines use, and those that a reader ends first."""


def program_of(words: list[str]) -> list[str]:
    """The words of one of our programs, also where `./run` starts it."""
    if words[0] != "./run":
        return words
    names = {
        "aqm": ["weir-xdp"],
        "weir": ["weir"],
        **{name: [f"weir-{name}"] for name in ("client", "server", "icn", "switch", "stf")},
    }
    return names.get(words[1], words[:2]) + words[2:]


class Failed(Exception):
    """A statement that ended with another status than 0, or a program that ended before it had written a line."""


def processes_in(holder: subprocess.Popen) -> list[int]:
    """Those in the network namespace of a process, itself last."""
    inside = os.readlink(f"/proc/{holder.pid}/ns/net")
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and os.readlink(entry / "ns/net") == inside:
                found.append(int(entry.name))
    return sorted(found, key=lambda pid: pid == holder.pid)


class Stage:
    def __init__(self, folder: Path):
        self.folder, self.hosts, self.lasting = folder, {}, []
        for name in LINKED:
            (folder / name).symlink_to(REPO / name)
        (folder / "run").write_text(RUN)
        (folder / "run").chmod(0o755)
        build = REPO / "build"
        self.environment = {
            **os.environ,
            "PATH": f"{build / 'bin'}:{build / 'xdp'}:{os.environ['PATH']}",
            "PYTHONPATH": str(REPO / "controller"),
            "PAGES_PYTHON": sys.executable,
            "HOME": str(folder),
            "XDG_RUNTIME_DIR": str(folder),
            "BASH_FUNC_sudo%%": '() { "$@"; }',
            "BASH_FUNC_weir%%": '() { "$PAGES_PYTHON" -m weir.cli "$@"; }',
        }

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_exc: object) -> None:
        for process, _ in reversed(self.lasting):
            self.end(process)
        for holder in self.hosts.values():
            for pid in processes_in(holder):  # such as the poll process of a law that a page leaves attached
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            holder.wait()

    def host(self, name: str) -> subprocess.Popen:
        if name not in self.hosts:
            self.hosts[name] = subprocess.Popen(
                ["unshare", "-nm", "sh", "-ec", NEW_HOST], stdout=subprocess.PIPE, text=True, env=self.environment
            )
            self.hosts[name].stdout.readline()
            pids = {other: str(holder.pid) for other, holder in self.hosts.items()}
            self.run(name, HOSTS[name], pids)
            if name in LINKED_FIRST:
                self.host(LINKED_FIRST[name])
        return self.hosts[name]

    def start(self, host: str, text: str, output: Path, more: dict[str, str] | None = None) -> subprocess.Popen:
        inside = ["nsenter", "-t", str(self.host(host).pid), "-n", "-m", "bash", "-ec", f"cd {self.folder}\n{text}"]
        with output.open("wb") as file:
            return subprocess.Popen(
                inside, cwd="/", stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True,
                env={**self.environment, **(more or {})},
            )  # fmt: skip

    def run(self, host: str, statement: str, more: dict[str, str] | None = None) -> None:
        """A statement until it ends, or, of a program that goes on, until it has written something."""
        started = [program_of(words) for words in simple_commands(statement)]
        kinds = {kind for words in started for kind in LASTING | WATCHING if tuple(words[: len(kind)]) == kind}
        text = statement.split("&  ")[0].rstrip().removesuffix("&") if kinds else statement
        output = self.folder / f".output-{time.monotonic_ns()}"
        process = self.start(host, text, output, more)
        if not kinds:
            self.check(process.wait(timeout=PATIENCE_S), statement, output)
            return
        deadline = time.monotonic() + PATIENCE_S
        while not output.read_bytes():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{statement}: ended with {process.poll()} and wrote nothing")
            time.sleep(0.02)
        if kinds & LASTING:
            if (status := process.poll()) is not None:
                self.check(status or 1, statement, output)
            self.lasting.append((process, output))
        else:
            status = self.end(process)
            self.check(0 if status in (0, 130, -signal.SIGINT) else status, statement, output)

    def end(self, process: subprocess.Popen) -> int:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGINT)
        try:
            return process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return process.wait()

    def check(self, status: int, statement: str, output: Path) -> None:
        if status != 0:
            raise Failed(f"{statement}: exit status {status}: {output.read_text(errors='replace')[-1500:]}")
