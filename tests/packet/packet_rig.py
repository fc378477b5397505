# SPDX-License-Identifier: Apache-2.0
"""A sender, a bridge and a receiver in namespaces of their own, and the tools run inside them.

a:a0 --- ra:[bridge]:rb --- b0:b. The AQM is on rb, which forwards what it did not make, so a drop looks like loss and
not like local congestion. Namespaces hang on holder processes: when those end, nothing is left.
"""

import contextlib
import ctypes
import errno
import functools
import json
import os
import select
import socket
import subprocess
import time
from pathlib import Path

import pytest

from weir.settings import is_expert

REPO = Path(__file__).resolve().parents[2]
PROFILES = REPO / "controller" / "profiles"
BUILD = Path(os.environ.get("WEIR_XDP_BUILD", REPO / "build" / "xdp"))
WEIR = BUILD / "weir-xdp"
NEARLY_ONE = "0.9999999995"
"""A U that drops or marks every packet but stays below an ecn_bound of 1."""

NEEDS_BTF = pytest.mark.skipif(
    not Path("/sys/kernel/btf/vmlinux").exists(), reason="signal backlog: this kernel has no BTF"
)
BACKLOG = pytest.param("backlog", marks=NEEDS_BTF)
HAS_TCX = tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 6)
NEEDS_TCX = pytest.mark.skipif(not HAS_TCX, reason="TCX: this kernel is older than 6.6")
HOOKS = [pytest.param("tcx", marks=NEEDS_TCX), "clsact"]
"""The two ways to be at tc's hooks, for tests that go both."""

_SKB_IFINDEX_AT, _SKB_REST_BYTES = 40, 148  # where struct __sk_buff of linux/bpf.h has `ifindex`, what follows it
_CLONE_NEWNET = 0x40000000
_ETH_P_ALL = 3
_LIBC = ctypes.CDLL(None, use_errno=True)
_TCX = {"ingress": 46, "egress": 47}  # BPF_TCX_*
_TCX_PROGRAMS_MAX = 64  # BPF_MPROG_MAX
_SCHED_CLS = 3  # BPF_PROG_TYPE_SCHED_CLS
_RUN_OUT_BYTES = 1 << 16  # more than any frame
_PATH = f"{BUILD}:/usr/sbin:/sbin:{os.environ['PATH']}"


class Failed(Exception):
    """A command that ended badly: its exit status and what it wrote to standard error."""

    def __init__(self, command: list[str], status: int, stderr: str):
        super().__init__(f"{' '.join(command)}: exit {status}: {stderr}")
        self.status = status
        self.stderr = stderr


class _TestRun(ctypes.Structure):
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


def needs_expert(word: str) -> bool:
    key, equals, _ = word.partition("=")
    return bool(equals) and (is_expert(key) or is_expert(f"{key}_us"))


class Holder:
    """A process that keeps a network namespace alive, and a mount namespace: with a BPF file system if asked, with a
    /sys that shows the namespace's own interfaces if asked."""

    def __init__(self, bpffs: bool = False, sysfs: bool = False):
        mount = "mount -t sysfs sysfs /sys && " if sysfs else ""
        mount += "mount -t bpf -o mode=0755 bpf /sys/fs/bpf && " if bpffs else ""
        # it reads our pipe: should we die, it ends
        self.process = subprocess.Popen(
            ["unshare", "-nm", "sh", "-c", f"{mount}ip link set lo up && echo ready && exec cat >/dev/null"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PATH": _PATH},
        )
        if self.process.stdout.readline() != "ready\n":
            raise Failed(self.process.args, self.process.wait(), self.process.stderr.read().strip())
        self.netns = f"/proc/{self.process.pid}/ns/net"

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def command(self, *args: object) -> list[str]:
        """The words that run a command in here; `weir-xdp` is given --expert where its KEY=VALUE words need it."""
        words = [*map(str, args)]
        more = ["--expert"] if str(WEIR) in words and any(map(needs_expert, words)) else []
        return ["nsenter", "-t", str(self.process.pid), "-n", "-m", "--", *words, *more]

    def run(self, *args: object, check: bool = True, env: dict | None = None) -> subprocess.CompletedProcess:
        """Runs a command in here. Raises Failed unless check is False."""
        done = subprocess.run(
            self.command(*args), capture_output=True, text=True, env={**os.environ, "PATH": _PATH, **(env or {})}
        )
        if check and done.returncode:
            raise Failed(list(map(str, args)), done.returncode, done.stderr.strip())
        return done

    def start(self, *args: object, **kwargs: object) -> subprocess.Popen:
        return subprocess.Popen(self.command(*args), text=True, env={**os.environ, "PATH": _PATH}, **kwargs)

    def sh(self, script: str) -> str:
        return self.run("sh", "-ec", script).stdout

    @contextlib.contextmanager
    def inside(self):
        """This thread is in the network namespace for the length of a with: sockets made here stay in it."""
        own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        other = os.open(self.netns, os.O_RDONLY)
        try:
            _setns(other)
            yield
        finally:
            _setns(own)
            os.close(own)
            os.close(other)

    def tcx_programs(self, interface: str, side: str) -> list[int]:
        """Ids of the programs at a TCX hook; none where there is no TCX. Debian 12's bpftool can't list them."""
        found, flags = (ctypes.c_uint32 * _TCX_PROGRAMS_MAX)(), ctypes.c_uint32()
        count = ctypes.c_uint32(_TCX_PROGRAMS_MAX)
        with self.inside():
            index = socket.if_nametoindex(interface)
            error = _libbpf().bpf_prog_query(index, _TCX[side], 0, ctypes.byref(flags), found, ctypes.byref(count))
        if HAS_TCX:
            _checked(error)
        return [] if error else list(found[: count.value])

    @contextlib.contextmanager
    def tcx_programs_at(self, interface: str, side: str, count: int = _TCX_PROGRAMS_MAX + 1):
        """So many empty programs at a TCX hook, or as many as the kernel takes, for the length of a with."""
        pass_it = (ctypes.c_uint64 * 2)(0xFFFFFFFF_000000B7, 0x95)  # r0 = -1 (TCX_NEXT); exit
        fds = []
        try:
            with self.inside():
                index = socket.if_nametoindex(interface)
                link = 0
                while link != -errno.ERANGE and len(fds) < 2 * count:
                    fds.append(_checked(_libbpf().bpf_prog_load(_SCHED_CLS, b"filler", b"GPL", pass_it, 2, None)))
                    link = _libbpf().bpf_link_create(fds[-1], index, _TCX[side], None)
                    if link != -errno.ERANGE:
                        fds.append(_checked(link))
            yield
        finally:
            for fd in fds:
                os.close(fd)

    @contextlib.contextmanager
    def losing(self, interface: str, one_in: int):
        """Loses packets that leave an interface at random, one frame in so many, for the length of a with."""
        lose = (ctypes.c_uint64 * 7)(
            0x7_00000085,  # r0 = get_prandom_u32()
            one_in << 32 | 0x94,  # w0 %= one_in
            0x2_0015,  # if r0 == 0 goto the last two
            0xFFFFFFFF_000000B7,  # r0 = -1 (TCX_NEXT)
            0x95,  # exit
            0x2_000000B7,  # r0 = 2 (TCX_DROP)
            0x95,
        )
        with self.inside():
            program = _checked(_libbpf().bpf_prog_load(_SCHED_CLS, b"losing", b"GPL", lose, len(lose), None))
            link = _checked(_libbpf().bpf_link_create(program, socket.if_nametoindex(interface), _TCX["egress"], None))
        try:
            yield
        finally:
            os.close(link)
            os.close(program)

    @contextlib.contextmanager
    def classifying(self, interface: str):
        """For the length of a with, what leaves an interface as IPv4 gets its class by its DSCP: from 16 on the class
        1:DSCP as its priority, below that the DSCP as its mark."""
        sort = (ctypes.c_uint64 * 10)(
            0x16BF,  # r6 = r1
            15 << 32 | 0x30,  # r0 = the byte at 15, the traffic class
            2 << 32 | 0x77,  # r0 >>= 2
            16 << 32 | 3 << 16 | 0xA5,  # if r0 < 16 goto the mark
            0x10000 << 32 | 0x07,  # r0 += 1:
            32 << 16 | 0x0663,  # skb->priority = r0
            1 << 16 | 0x05,  # goto the end
            8 << 16 | 0x0663,  # skb->mark = r0
            0xFFFFFFFF_000000B7,  # r0 = -1 (TCX_NEXT)
            0x95,  # exit
        )
        with self.inside():
            program = _checked(_libbpf().bpf_prog_load(_SCHED_CLS, b"sorting", b"GPL", sort, len(sort), None))
            link = _checked(_libbpf().bpf_link_create(program, socket.if_nametoindex(interface), _TCX["egress"], None))
        try:
            yield
        finally:
            os.close(link)
            os.close(program)

    def tap(self, interface: str) -> socket.socket:
        """A packet socket: what it sends leaves the interface, what it reads came in there."""
        with self.inside():
            sock = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
        # 263 PACKET, 8 AUXDATA: a VLAN tag is beside the data, not in it
        sock.setsockopt(263, 8, 1)
        sock.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # RCVBUFFORCE
        sock.bind((interface, _ETH_P_ALL))
        return sock


def _setns(fd: int) -> None:
    if _LIBC.setns(fd, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@functools.cache
def _libbpf() -> ctypes.CDLL:
    return ctypes.CDLL("libbpf.so.1")


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(-result, os.strerror(-result))
    return result


LAST = bytes.fromhex("02000000000202000000000188b6") + b"the last one".ljust(50)
"""A frame that is not IP, so the law leaves it alone: when it has come, all sent before it have, or never will."""


def take(sock: socket.socket) -> bytes | None:
    """The frame that waits at a tap, its VLAN tag put back; None if it is one that was sent there."""
    data, ancillary, _, address = sock.recvmsg(65536, 256)
    if address[2] == socket.PACKET_OUTGOING:
        return None
    for level, kind, aux in ancillary:
        if (level, kind) == (263, 8):
            status, tci, tpid = (
                int.from_bytes(aux[0:4], "little"),
                int.from_bytes(aux[16:18], "little"),
                int.from_bytes(aux[18:20], "little"),
            )
            if status & 0x10:  # TP_STATUS_VLAN_VALID
                tag = (tpid if status & 0x40 else 0x8100).to_bytes(2, "big") + tci.to_bytes(2, "big")
                data = data[:12] + tag + data[12:]
    return data


def receive(sock: socket.socket, patience_s: float = 10.0) -> list[bytes]:
    """All frames that came in (not those sent), VLAN tags put back, up to LAST or until nothing comes any more."""
    frames = []
    while select.select([sock], [], [], patience_s)[0]:
        data = take(sock)
        if data is None:
            continue
        if data == LAST:
            break
        frames.append(data)
    return frames


class Rig:
    """The three nodes. `router` also holds the BPF file system the loader pins in."""

    def __init__(self, mtu: int = 1500):
        self.nodes = []
        try:
            self._build(mtu)
        except BaseException:
            self.close()
            raise

    def _node(self, bpffs: bool = False) -> Holder:
        node = Holder(bpffs)
        self.nodes.append(node)
        return node

    def _build(self, mtu: int) -> None:
        self.router, self.sender, self.receiver = self._node(bpffs=True), self._node(), self._node()
        quiet = "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6; "
        for node in self.nodes:
            node.sh(quiet)  # our own namespace's: no router solicitations among the packets
        a, b = self.sender.process.pid, self.receiver.process.pid
        self.router.sh(
            f"ip link add ra mtu {mtu} type veth peer name a0 mtu {mtu} netns {a};"
            f"ip link add rb mtu {mtu} type veth peer name b0 mtu {mtu} netns {b};"
            f"ip link add name sw mtu {mtu} type bridge stp_state 0 mcast_snooping 0;"
            # else it checks and trims what it takes for IP
            "for f in /proc/sys/net/bridge/bridge-nf-call-*; do [ ! -e $f ] || echo 0 > $f; done;"
            "ip link set ra master sw; ip link set rb master sw;"
            "for i in ra rb; do ethtool -K $i tso off gso off gro off tx off >/dev/null; ip link set $i up; done;"
            "ip link set sw up"
        )
        for node, interface, address, peer in ((self.sender, "a0", 1, 2), (self.receiver, "b0", 2, 1)):
            node.sh(
                f"ethtool -K {interface} tso off gso off gro off tx off >/dev/null;"
                f"ip link set {interface} address 02:00:00:00:00:0{address} up;"
                f"ip addr add 10.9.0.{address}/24 dev {interface};"
                f"ip neigh add 10.9.0.{peer} lladdr 02:00:00:00:00:0{peer} dev {interface}"
            )

    def close(self) -> None:
        for node in reversed(self.nodes):
            node.close()

    @property
    def peer(self) -> str:
        return f"b0@{self.receiver.netns}"

    def weir(self, *args: object, check: bool = True) -> subprocess.CompletedProcess:
        return self.router.run(WEIR, *args, check=check)

    def status(self, dev: str = "rb") -> dict:
        return json.loads(self.weir("status", dev, "--json").stdout)

    def pins(self, dev: str = "rb") -> str:
        """The folder in which what is attached to dev is pinned."""
        return self.status(dev)["pins"]

    def as_of_another_version(self, pins: str) -> None:
        """The attachment says that other programs than this version's made it, as before an upgrade."""
        build = 12 * 4 + 6 * 8  # where struct weir_meta has it: behind 12 words and 6 double words
        meta = f"{pins}/meta"
        [row] = json.loads(self.router.run("bpftool", "-j", "map", "dump", "pinned", meta).stdout)
        value = bytes(int(byte, 16) for byte in row["value"])
        value = value[:build] + bytes(8) + value[build + 8 :]
        self.router.run("bpftool", "map", "update", "pinned", meta, "key", "0", "0", "0", "0", "value", *value)

    @contextlib.contextmanager
    def attached(self, *args: object, dev: str = "rb", profile: str = "tuned"):
        """The AQM on dev for the length of a with."""
        self.weir("attach", dev, "--gains", PROFILES / f"{profile}.toml", *args)
        try:
            yield
        finally:
            self.weir("detach", dev)

    def shape(self, rate: str = "10mbit", limit: int = 1000) -> None:
        """An htb bottleneck with a drop-tail queue at rb."""
        self.unshape()
        self.router.sh(
            "tc qdisc add dev rb root handle 1: htb default 1;"
            f"tc class add dev rb parent 1: classid 1:1 htb rate {rate};"
            f"tc qdisc add dev rb parent 1:1 pfifo limit {limit}"
        )

    def unshape(self) -> None:
        self.router.run("tc", "qdisc", "del", "dev", "rb", "root", check=False)

    def through(self, frames: list[bytes], patience_s: float = 10.0) -> list[bytes]:
        """Sends frames, and LAST after them, at a0; returns those that came in at b0."""
        out, back = self.sender.tap("a0"), self.receiver.tap("b0")
        with out, back:
            for frame in [*frames, LAST]:
                out.send(frame)
            return receive(back, patience_s)

    def backlog_bytes(self) -> int:
        """Of the real queue at rb, by tc."""
        out = self.router.run("tc", "-s", "-j", "qdisc", "show", "dev", "rb").stdout
        return max((q.get("backlog", 0) for q in json.loads(out)), default=0)

    def program_run(self, pin: str, frame: bytes, repeat: int = 1) -> tuple[int, bytes]:
        """BPF_PROG_TEST_RUN of a pinned program, at rb if it is one of tc's: its verdict and the frame it left."""
        out = ctypes.create_string_buffer(_RUN_OUT_BYTES)
        run = _TestRun(
            ctypes.sizeof(_TestRun),
            data_in=frame,
            data_size_in=len(frame),
            data_out=ctypes.addressof(out),
            data_size_out=_RUN_OUT_BYTES,
            repeat=repeat,
        )
        program = self.pinned(pin)
        try:
            with self.router.inside():
                if not pin.endswith("/prog_weir_ingress"):
                    index = socket.if_nametoindex("rb")
                    context = bytes(_SKB_IFINDEX_AT) + index.to_bytes(4, "little") + bytes(_SKB_REST_BYTES)
                    run.ctx_in, run.ctx_size_in = context, len(context)
                _checked(_libbpf().bpf_prog_test_run_opts(program, ctypes.byref(run)))
        finally:
            os.close(program)
        return run.retval, out.raw[: run.data_size_out]

    def pinned(self, pin: str) -> int:
        """A descriptor of what is pinned in the router's BPF file system; to be closed."""
        return _checked(_libbpf().bpf_obj_get(f"/proc/{self.router.process.pid}/root{pin}".encode()))

    def looked_up(self, pin: str, value_bytes: int) -> bytes:
        """The first value of a pinned array."""
        value = ctypes.create_string_buffer(value_bytes)
        array = self.pinned(pin)
        try:
            _checked(_libbpf().bpf_map_lookup_elem(array, ctypes.byref(ctypes.c_uint32(0)), value))
        finally:
            os.close(array)
        return value.raw


def by_name(table: dict) -> list:
    """A table's keys as a test's parameters; the signal that not every kernel has is skipped where it lacks."""
    return [BACKLOG if name == "backlog" else name for name in table]


def runs(pid: int) -> bool:
    """Whether there is such a process; one that has ended and waits for its parent to notice is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def until(true: "callable", what: str, patience_s: float = 60.0) -> None:
    """Waits for something that comes by itself; the patience is for a hung machine, not a measurement."""
    end = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < end, f"never came: {what}"
        time.sleep(0.02)
