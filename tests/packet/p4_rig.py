# SPDX-License-Identifier: Apache-2.0
"""A P4 switch, embedded or BMv2, and a station at each of its ports.

    station sN, MAC 02:00:00:00:00:0N, 10.0.N.1 and 2001:db8:N::1 --- port N of the switch, MAC 02:00:00:00:01:0N

The switch is in one namespace and its stations in another; both end with the test. A station is a packet socket: there
is no IP stack that would add frames of its own.
"""

import contextlib
import functools
import os
import select
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from packet_rig import REPO, Holder, take, until

from weir.p4runtime.client import Client, Packet, PipelineConfig, Update
from weir.p4runtime.entities import Call, CounterEntry, Exact, Lpm, TableEntry
from weir.switch import config as configuration
from weir.switch.deploy import deploy, set_program
from weir.switch.program import for_bmv2, for_embedded

EMBEDDED, BMV2 = "embedded", "bmv2"
TARGETS = {EMBEDDED: "weir-switch", BMV2: "simple_switch_grpc"}
PROGRAM = REPO / "p4" / "programs" / "pid_delay.p4"
PORTS = (1, 2, 3, 4)
CPU_PORT = 255
ONE = 1 << 32
"""A probability of 1 in u_q32 and ecn_bound_q32."""

_GRPC, _THRIFT_PORT = 9559, 9090
_PATH = f"{os.environ.get('PATH', os.defpath)}:{REPO / 'build' / 'bin'}:{REPO / 'build' / 'cargo-p4' / 'release'}"
_WINDOW = 24
"""Frames under way at once: with their copies and the markers they fit BMv2's queues of 64 packets."""

REASONS = (
    "truncated",
    "bad_ip_header",
    "bad_ipv4_checksum",
    "ttl_expired",
    "no_route",
    "no_next_hop",
    "no_l2_entry",
)
"""Why a packet is not forwarded, in the order of drop_reason_t in p4/include/l3.p4."""


def host_mac(port: int) -> int:
    return 0x020000000000 + port


def port_mac(port: int) -> int:
    return 0x020000000100 + port


def mac_text(mac: int) -> str:
    return ":".join(f"{mac:012x}"[i : i + 2] for i in range(0, 12, 2))


def hop(number: int, port: int, action: str = "forward", **more: int) -> TableEntry:
    """A next hop: the station of a port."""
    params = {"port": port, "dst_mac": host_mac(port), "src_mac": port_mac(port), **more}
    return TableEntry("next_hop", {"next_hop": Exact(number)}, Call(action, params))


def route(prefix: str, next_hop: int) -> TableEntry:
    network = ip_network(prefix)
    table, key = (f"ipv{network.version}_lpm", f"hdr.ipv{network.version}.dst")
    match = {key: Lpm(int(network.network_address), network.prefixlen)} if network.prefixlen else {}
    return TableEntry(table, match, Call("set_next_hop", {"next_hop": next_hop}))


def fixed(port: int, u_q32: int, *, squared: bool = False, ecn_bound: int = 0) -> TableEntry:
    """A port's packets dropped or marked with a probability that stays."""
    params = {"u_q32": u_q32, "squared": int(squared), "ecn_bound_q32": ecn_bound, "digest_interval_us": 0}
    return TableEntry("aqm", {"egress_port": Exact(port)}, Call("fixed_probability", params))


def basic_config(ports: Iterable[int] = PORTS, more: str = "") -> str:
    """A configuration for `weir p4 deploy`: routes to each station, ARP and the like flooded."""
    ports = list(ports)
    lines = [f"[flood]\nports = {ports}", "[routes]"]
    for n in ports:
        lines += [f'"10.0.{n}.0/24" = "h{n}"', f'"2001:db8:{n}::/48" = "h{n}"']
    for n in ports:
        lines += [f'[ports.{n}]\nmac = "{mac_text(port_mac(n))}"']
        lines += [f'[neighbours.h{n}]\nport = {n}\nmac = "{mac_text(host_mac(n))}"']
    return "\n".join(lines) + "\n" + more


def find(name: str) -> str | None:
    return shutil.which(name, path=_PATH)


def missing(kind: str) -> str | None:
    """Why this target can't be tested here."""
    if os.geteuid():
        return "needs root, for namespaces and packet sockets"
    if not find(TARGETS[kind]):
        return f"{kind}: {TARGETS[kind]} is not on PATH" + (" and not built" if kind == EMBEDDED else "")
    if kind == BMV2 and not find("simple_switch_CLI"):
        return "bmv2: simple_switch_CLI, which sets its queues, is not on PATH"
    if kind == BMV2 and not (find("p4c-bm2-ss") or find("p4c")):
        return "bmv2: neither p4c-bm2-ss nor p4c is on PATH"
    return None


@functools.cache
def bmv2_form(main: Path):
    """The program as p4c compiles it, once a session."""
    return for_bmv2(main)


@dataclass(frozen=True)
class Queue:
    """Of a port. `rate_pps` packets/s, `depth` packets; None: the target's own, no rate and 64 packets. `priority`: of
    this one of the port's queues, None: of all."""

    rate_pps: int | None = None
    depth: int | None = None
    priority: int | None = None


class Road:
    """A TCP port here that leads to one in another namespace, for a client whose library makes its own sockets."""

    def __init__(self, holder: Holder, port: int):
        self._holder, self._port = holder, port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return  # closed
            with self._holder.inside():
                far = socket.socket()
            try:
                far.connect(("127.0.0.1", self._port))
            except OSError:
                near.close()
                far.close()
                continue
            self._open += [near, far]
            for a, b in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(a, b), daemon=True).start()

    @staticmethod
    def _pump(source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                sink.sendall(data)
        except OSError:
            pass  # an end is gone; so is the other then
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        # close() alone leaves an accept() that waits in another thread waiting
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for end in self._open:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Broken(Exception):
    """The target ended, or does not do what every test needs."""


class P4Rig:
    """A running target with stations. `options` are more words for its command line, `before` words in front of it."""

    def __init__(
        self,
        kind: str,
        folder: Path,
        ports: Iterable[int] = PORTS,
        queues: dict[int, Queue] | None = None,
        mtu: int = 1500,
        options: Iterable[str] = (),
        priorities: int = 1,
        before: Iterable[str] = (),
        goes_round: bool = False,
    ):
        """`goes_round`: the program sends packets through the switch more than once."""
        self.before, self.goes_round = tuple(before), goes_round
        self.kind, self.folder, self.ports, self.mtu, self.priorities = kind, folder, tuple(ports), mtu, priorities
        self._closing = contextlib.ExitStack()
        self.round = 0
        try:
            self._build(queues or {}, list(options))
        except BaseException:
            self.close()
            raise

    def _build(self, queues: dict[int, Queue], options: list[str]) -> None:
        self.box, self.stations = Holder(sysfs=True), Holder()
        self._closing.callback(self.box.close)
        self._closing.callback(self.stations.close)
        for node in (self.box, self.stations):
            # of the namespace: no router solicitations among the packets
            node.sh("echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6")
        self.taps: dict[int, socket.socket] = {}
        self._closing.callback(lambda: [tap.close() for tap in self.taps.values()])
        for n in self.ports:
            self.plug(n)
        self._start(queues, options)
        if self.kind == BMV2 and queues:
            self._bmv2_queues(queues)
        road = Road(self.box, _GRPC)
        self._closing.callback(road.close)
        self.address = road.address
        self.client = self.connect()
        self.client.become_primary()

    def reconnect(self, election_id: int) -> None:
        """A new controller in place of ours. `election_id`: not below any that the switch has seen, or it stays backup
        even when all others have ended (P4Runtime 5.3)."""
        self.client.close()
        self.client = self.connect(election_id=election_id)
        self.client.become_primary()

    def plug(self, n: int) -> None:
        """Port n's cable and its station."""
        self.stations.sh(
            f"ip link add s{n} mtu {self.mtu} type veth peer name p{n} mtu {self.mtu} netns {self.box.process.pid};"
            f"ethtool -K s{n} tso off gso off gro off tx off >/dev/null; ip link set s{n} up"
        )
        self.box.sh(f"ethtool -K p{n} tso off gso off gro off tx off >/dev/null; ip link set p{n} up")
        self.taps[n] = self.stations.tap(f"s{n}")

    def unplug(self, n: int) -> None:
        """Takes port n's cable away, and the interfaces at both of its ends with it."""
        self.taps.pop(n).close()
        self.box.sh(f"ip link del p{n}")

    def _start(self, queues: dict[int, Queue], options: list[str]) -> None:
        words = [find(TARGETS[self.kind]), "--no-p4", *(w for n in self.ports for w in ("-i", f"{n}@p{n}"))]
        if self.kind == BMV2:
            words += ["--thrift-port", str(_THRIFT_PORT), *options, "--"]
        else:
            for n, queue in queues.items():
                limits = {"rate": queue.rate_pps and f"{queue.rate_pps}pps", "depth": queue.depth and f"{queue.depth}p"}
                place = n if queue.priority is None else f"{n}.{queue.priority}"
                words += ["--queue", f"{place}:" + ",".join(f"{k}={v}" for k, v in limits.items() if v)]
            words += options
        words += ["--priority-queues", str(self.priorities)] if self.priorities > 1 else []
        words += ["--grpc-server-addr", f"127.0.0.1:{_GRPC}", "--cpu-port", str(CPU_PORT)]
        self.log = self.folder / f"{self.kind}.log"
        with open(self.log, "ab") as log:
            # it ends with us, whatever ends us
            command = ["setpriv", "--pdeathsig", "KILL", *self.box.command(*self.before, *words)]
            self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self._closing.callback(self._stop)
        until(self._answers, f"the server of {self.kind}", 60)

    def _stop(self) -> None:
        # BMv2 leaves no state to be saved, and takes seconds to end politely
        self.process.kill() if self.kind == BMV2 else self.process.terminate()
        try:
            self.process.wait(20)
        finally:
            self.process.kill()
            self.process.wait()

    def kill(self) -> None:
        """As kill -9 does it; the stations and their cables stay."""
        self.process.kill()
        self.process.wait()

    def start_again(self, queues: dict[int, Queue] | None = None) -> None:
        """After `kill`: an empty target at the same address, with nobody in charge."""
        self._start(queues or {}, [])
        if self.kind == BMV2 and queues:
            self._bmv2_queues(queues)

    def _answers(self, port: int = _GRPC) -> bool:
        self.check()
        try:
            self._socket(port).close()
        except ConnectionRefusedError:
            return False
        return True

    def grpc_socket(self) -> socket.socket:
        """A connection to the P4Runtime server, without a client."""
        return self._socket(_GRPC)

    def _socket(self, port: int) -> socket.socket:
        with self.box.inside():
            sock = socket.socket()
        try:
            sock.connect(("127.0.0.1", port))
        except OSError:
            sock.close()
            raise
        return sock

    def _bmv2_queues(self, queues: dict[int, Queue]) -> None:
        lines = []
        for n, queue in queues.items():
            place = n if queue.priority is None else f"{n} {queue.priority}"
            lines += [f"set_queue_rate {queue.rate_pps} {place}"] if queue.rate_pps else []
            lines += [f"set_queue_depth {queue.depth} {place}"] if queue.depth else []
        until(lambda: self._answers(_THRIFT_PORT), "BMv2's Thrift server, which starts after that of P4Runtime", 60)
        cli = self.box.command(find("simple_switch_CLI"), "--thrift-port", str(_THRIFT_PORT))
        done = subprocess.run(cli, input="\n".join(lines), capture_output=True, text=True)
        # its status is 0 whatever became of a command
        if done.returncode or "Error" in done.stdout or "Invalid" in done.stdout:
            raise Broken(f"simple_switch_CLI: {lines}: {done.stdout}{done.stderr}")

    def check(self) -> None:
        """Raises when the target has ended."""
        if self.process.poll() is not None:
            last = "\n".join(self.log.read_text(errors="replace").splitlines()[-10:])
            raise Broken(f"{self.kind} ended with {self.process.returncode}:\n{last}")

    def close(self) -> None:
        self._closing.close()

    # The controller's side

    def connect(self, kind: type[Client] = Client, **options) -> Client:
        client = kind(self.address, **options)
        self._closing.callback(client.close)
        return client

    @property
    def info(self):
        return self.client.info

    def deploy(self, config: str | None = None, main: Path = PROGRAM) -> None:
        """Program and configuration as `weir p4 deploy` brings them."""
        wanted = configuration.loads(basic_config(self.ports) if config is None else config, "test", self.folder)
        deploy(self.client, wanted, switch=self.kind, main=main, precompiled=self._files(main))

    def _files(self, main: Path) -> tuple[Path, Path] | None:
        if self.kind == EMBEDDED:
            return None
        form = bmv2_form(main)
        info, json = self.folder / f"{main.stem}.p4info", self.folder / f"{main.stem}.json"
        info.write_bytes(form.p4info.message.SerializeToString(deterministic=True))
        json.write_bytes(form.device_config)
        return info, json

    def pipeline(self, main: Path) -> PipelineConfig:
        """A program in this target's form."""
        return bmv2_form(main) if self.kind == BMV2 else for_embedded(main)

    def set_program(self, main: Path) -> None:
        """Only the program; all tables start empty."""
        set_program(self.client, self.pipeline(main), self.kind)

    def all_tables(self) -> list[TableEntry]:
        """To read all entries of all tables."""
        return [TableEntry(table.name) for table in self.info.tables]

    def count(self, counter: str, index: int) -> tuple[int, int]:
        """Packets and bytes of a cell."""
        cell = self.client.find(CounterEntry(counter, index))
        return cell.count.packets, cell.count.bytes

    def counts(self) -> dict[tuple[str, int], tuple[int, int]]:
        """All cells of all counters that are not 0."""
        found = self.client.read(CounterEntry(None))
        return {(c.counter, c.index): (c.count.packets, c.count.bytes) for c in found if c.count.packets}

    def dropped(self) -> dict[str, int]:
        """Packets not forwarded, by reason; reasons without any are left out."""
        cells = {c.index: c.count.packets for c in self.client.read(CounterEntry("dropped"))}
        return {name: cells[i] for i, name in enumerate(REASONS) if cells[i]}

    @contextlib.contextmanager
    def entries(self, *entities):
        """These are there for the length of a with."""
        self.client.write([Update.insert(e) for e in entities])
        try:
            yield
        finally:
            self.client.write([Update.delete(e) for e in reversed(entities)])

    @contextlib.contextmanager
    def default_action(self, table: str, action: Call):
        """A table's default action for the length of a with."""
        before = self.client.find(TableEntry(table, is_default=True))
        self.client.write([Update.modify(TableEntry(table, action=action, is_default=True))])
        try:
            yield
        finally:
            self.client.write([Update.modify(TableEntry(table, action=before.action, is_default=True))])

    # The stations' side

    def tell(self, frames: Iterable[tuple[int, bytes]]) -> tuple[dict[int, list[bytes]], dict[str, int]]:
        """As `exchange`, and by which reasons how many frames were dropped; no key for none."""
        before = self.dropped()
        got = self.exchange(frames)
        after = self.dropped()
        changes = {reason: after[reason] - before.get(reason, 0) for reason in after}
        return {n: some for n, some in got.items() if some}, {reason: n for reason, n in changes.items() if n}

    def exchange(
        self,
        frames: Iterable[tuple[int, bytes]],
        stations: Iterable[int] = (),
        patience_s: float = 60.0,
        awaited: int = 0,
    ) -> dict[int, list[bytes]]:
        """Sends frames, each from the station of a port, and gives what each station (default: all) got, in order.

        Complete without waiting for time to pass: after every few frames, markers follow from each sending port to each
        station. As packets from one port to another keep their order, what has not come before its marker never will.
        A copy that goes round in BMv2 is behind the marker, and several rounds of markers may overtake it: there are
        rounds until one brings nothing and the `awaited` number of frames came.
        Raises Broken when a marker does not come; the patience is for a machine that hangs.
        """
        got = {n: [] for n in stations or self.ports}
        frames = list(frames)
        for start in range(0, len(frames), _WINDOW):
            window = frames[start : start + _WINDOW]
            for port, frame in window:
                self.send(port, frame)
            sources = {port for port, _ in window}
            more = self._collect(got, sources, patience_s)
            while self.goes_round and self.kind == BMV2 and more:
                more = self._collect(got, sources, patience_s)
        limit = time.monotonic() + patience_s
        while self.goes_round and self.kind == BMV2 and sum(map(len, got.values())) < awaited:
            if time.monotonic() > limit:
                break  # the caller compares
            self._collect(got, sources, patience_s)
        return got

    def send(self, port: int, frame: bytes) -> None:
        self.taps[port].send(frame)

    def send_from_controller(self, frame: bytes) -> None:
        self.client.send_packet(Packet(frame))

    def marker(self, source: int, to: int) -> bytes:
        ether = host_mac(to).to_bytes(6, "big") + (0x024D00000000 + source).to_bytes(6, "big") + b"\x88\xb6"
        return ether + f"marker {self.round} from {source} to {to}".encode().ljust(46)

    def _collect(self, got: dict[int, list[bytes]], sources: set[int], patience_s: float) -> int:
        """Number of frames that came before this round's markers."""
        self.round += 1
        awaited, count = set(), 0
        for source in sorted(sources):
            for to in got:
                self.send(source, self.marker(source, to))
                awaited.add((to, self.marker(source, to)))
        while awaited:
            for n, frame in self.arrivals(patience_s):
                if (n, frame) in awaited:
                    awaited.remove((n, frame))
                elif n in got:
                    got[n].append(frame)
                    count += 1
                break
            else:
                self.check()
                raise Broken(f"never came: {sorted(m[14:].decode().strip() for _, m in awaited)}")
        return count

    def drain(self) -> None:
        """Waits until nothing comes to any station any more, and forgets what came."""
        for _ in self.arrivals(1):
            pass

    def arrivals(self, patience_s: float):
        """(port, frame) as they come to stations, until nothing came for so long. Take what you want of it."""
        by_fd = {tap.fileno(): (n, tap) for n, tap in self.taps.items()}
        poll = select.poll()
        for fd in by_fd:
            poll.register(fd, select.POLLIN)
        while ready := poll.poll(patience_s * 1000):
            for fd, _ in ready:
                n, tap = by_fd[fd]
                frame = take(tap)
                if frame is not None:
                    yield n, frame
