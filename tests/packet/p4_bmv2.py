# SPDX-License-Identifier: Apache-2.0
"""p4/ on a real simple_switch, to be run in a network namespace of its own (test_p4_programs.py does).

    python p4_bmv2.py PROGRAM.json stf SCRIPT.stf...       packets, entries and counters of p4/tests
    python p4_bmv2.py PROGRAM.json vectors FILE.jsonl...   tests/vectors, through the probe of their kind

Prints one line per file; status 1 if one differs, 2 if the switch does not start. Entries go by Thrift
(simple_switch_CLI), because simple_switch is built without P4Runtime more often than with it.
"""

import json
import re
import select
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from p4_probe import operations, probe_of

PORTS = (*range(12), 31, 32)
"""Names are forwarded up to port 31."""
THRIFT_PORT = 9090
QUIET_S = 0.3
PATIENCE_S = 5
"""So long nothing has come: nothing more will."""
BETWEEN_S = 0.05
"""Between two packets. BMv2 reads its ports in turn: of two that wait, the later one may be first."""

_ETH_P_ALL = 3
_SOL_PACKET, _PACKET_AUXDATA = 263, 8
_TP_STATUS_VLAN_VALID, _TP_STATUS_VLAN_TPID_VALID = 0x10, 0x40


class SwitchError(Exception):
    """simple_switch did not start, or refused a command."""


class Bmv2:
    """simple_switch between veths; we hold the other ends."""

    def __init__(self, program: Path):
        ports = []
        for port in PORTS:
            subprocess.run(f"ip link add sw{port} type veth peer name host{port}".split(), check=True)
            for end in ("sw", "host"):
                subprocess.run(f"ip link set {end}{port} addrgenmode none mtu 2000 up".split(), check=True)
            # With TSO or GSO on, libpcap keeps 64 kB for each frame: BMv2's receive ring of 2 MB holds 32.
            subprocess.run(f"ethtool -K sw{port} tso off gso off gro off".split(), check=True)
            ports += ["-i", f"{port}@sw{port}"]
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self.json = json.loads(program.read_text(encoding="utf-8"))
        self.process = subprocess.Popen(
            ["simple_switch", "--thrift-port", str(THRIFT_PORT), *ports, str(program), "--", "--priority-queues", "2"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self.sockets: dict[int, socket.socket] = {}
        for port in PORTS:
            end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL))
            end.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
            end.bind((f"host{port}", 0))
            self.sockets[port] = end
        self._wait()

    def _wait(self) -> None:
        for _ in range(300):
            with suppress(OSError), socket.create_connection(("127.0.0.1", THRIFT_PORT), 1):
                return
            if self.process.poll() is not None:
                raise SwitchError(f"simple_switch ended with status {self.process.returncode}")
            time.sleep(0.1)
        raise SwitchError("simple_switch does not answer by Thrift")

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()
        for end in self.sockets.values():
            end.close()
        for port in PORTS:
            subprocess.run(f"ip link del sw{port}".split(), check=True)

    def command(self, *lines: str) -> str:
        done = subprocess.run(
            ["simple_switch_CLI", "--thrift-port", str(THRIFT_PORT)],
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            check=True,
        )
        if re.search("error|invalid|unknown", done.stdout + done.stderr, re.IGNORECASE):
            raise SwitchError(f"{'; '.join(lines)}: {done.stdout}{done.stderr}")
        return done.stdout

    def send(self, port: int, frame: bytes) -> None:
        self.sockets[port].send(frame)

    def receive(self, wait_s: float = QUIET_S) -> list[tuple[int, bytes]]:
        """All that comes until nothing has come for `wait_s`."""
        found = []
        port_of = {end: port for port, end in self.sockets.items()}
        while ready := select.select(port_of, [], [], wait_s)[0]:
            for end in ready:
                frame, notes, _, address = end.recvmsg(65535, 256)
                if address[2] != socket.PACKET_OUTGOING:
                    found.append((port_of[end], _with_tag(frame, notes)))
        return found

    def full_name(self, kind: str, name: str) -> str:
        """A table, action or counter by the end of its name."""
        if kind == "tables":
            names = [table["name"] for pipeline in self.json["pipelines"] for table in pipeline["tables"]]
        else:
            names = [thing["name"] for thing in self.json[kind]]
        found = {full for full in names if full == name or full.endswith(f".{name}")}
        if len(found) != 1:
            raise SwitchError(f"{kind}: {name} is {sorted(found) or 'not there'}; must be one")
        return found.pop()


def _with_tag(frame: bytes, notes: list) -> bytes:
    """The kernel takes the tag out of a frame and hands it over beside it."""
    for level, kind, data in notes:
        if (level, kind) == (_SOL_PACKET, _PACKET_AUXDATA):
            (status,) = struct.unpack_from("I", data)
            tci, tpid = struct.unpack_from("HH", data, 16)
            if status & _TP_STATUS_VLAN_VALID:
                tpid = tpid if status & _TP_STATUS_VLAN_TPID_VALID else 0x8100
                return frame[:12] + struct.pack("!HH", tpid, tci) + frame[12:]
    return frame


def _sendable(frame: bytes) -> bool:
    """Linux sends no frame that ends within its Ethernet header or its tag."""
    return len(frame) >= (18 if frame[12:14] == b"\x81\x00" else 14)


class Script:
    """One STF script; the commands are those that p4/tests uses, another one is an error."""

    def __init__(self, switch: Bmv2, path: Path):
        self.switch, self.wrong = switch, []
        self.sent: dict[int, list[str]] = {port: [] for port in PORTS}
        self.expected: dict[int, list[str]] = {port: [] for port in PORTS}
        self.pending: list[str] = []
        self.checks: list[tuple[int, str]] = []
        self.unsent: list[int] = []
        self.patience_s = PATIENCE_S
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line := line.partition("#")[0].strip():
                if not line.startswith("check_counter"):
                    self.check()
                self.line(number, line)
        self.flush()
        self.check()
        self.take(QUIET_S)
        for port in PORTS:
            if self.sent[port] != self.expected[port]:
                self.wrong.append(f"port {port}: {self.expected[port]} was expected, {self.sent[port]} came")

    def flush(self) -> None:
        if self.pending:
            self.switch.command(*self.pending)
            self.pending = []

    def take(self, wait_s: float) -> None:
        for port, frame in self.switch.receive(wait_s):
            self.sent[port].append(frame.hex())

    def settle(self) -> None:
        """Waits until all that was expected so far has come: BMv2 keeps no order among packets of several ports."""
        end_s = time.monotonic() + self.patience_s
        while any(len(self.sent[port]) < len(self.expected[port]) for port in PORTS):
            if time.monotonic() > end_s:
                self.patience_s = 0  # something is missing: the rest need not wait for it
                return
            self.take(BETWEEN_S)

    def call(self, text: str) -> tuple[str, str]:
        name, _, rest = text.partition("(")
        values = [part.split(":")[1].strip() for part in rest.rpartition(")")[0].split(",")]
        return self.switch.full_name("actions", name.strip()), " ".join(values)

    def line(self, number: int, line: str) -> None:
        command, *words = line.split()
        if command == "add":
            table, key, call = line.split(None, 3)[1:]
            action, values = self.call(call)
            table = self.switch.full_name("tables", table)
            self.pending.append(f"table_add {table} {action} {key.rpartition(':')[2]} => {values}")
        elif command == "setdefault":
            table, call = line.split(None, 2)[1:]
            action, values = self.call(call)
            self.pending.append(f"table_set_default {self.switch.full_name('tables', table)} {action} {values}")
        elif command.startswith("mc_") or command == "mirroring_add":
            self.pending.append(line)
        elif command == "wait":
            time.sleep(1)
        elif command == "packet":
            self.flush()
            self.settle()
            frame = bytes.fromhex("".join(words[1:]))
            if _sendable(frame):
                self.switch.send(int(words[0]), frame)
                self.take(BETWEEN_S)
            else:
                self.unsent.append(len(frame))
        elif command == "expect":
            self.expected[int(words[0])].append("".join(words[1:]).removesuffix("$"))
        elif command == "check_counter":
            self.checks.append((number, line))
        else:
            raise SwitchError(f"line {number}: {command}: not a command of p4/tests")

    def check(self) -> None:
        """Counters asked for on lines one behind the other are read together: each call of the client is a process."""
        if not self.checks:
            return
        self.flush()
        self.take(QUIET_S)
        lines = [re.fullmatch(r"check_counter (\w+)\((\d+)\) (\w+) == (\d+)", line).groups() for _, line in self.checks]
        asked = [f"counter_read {self.switch.full_name('counter_arrays', name)} {index}" for name, index, *_ in lines]
        found = re.findall(r"\((\d+) bytes, (\d+) packets\)", self.switch.command(*asked))
        if len(found) != len(asked):
            raise SwitchError(f"{len(asked)} counters were asked, {len(found)} came: {found}")
        for (number, line), (name, index, unit, wanted), values in zip(self.checks, lines, found, strict=True):
            value = int(values[unit == "packets"])
            if (name, index) in (("dropped", "0"), ("other_frames", "0")):  # cut short: some of these could not be sent
                value += len(self.unsent) if unit == "packets" else sum(self.unsent)
            if value != int(wanted):
                self.wrong.append(f"line {number}: {line}: there are {value}")
        self.checks = []


def vectors(switch: Bmv2, path: Path) -> tuple[int, list[str]]:
    """Number of operations, and the differences."""
    count, wrong = 0, []
    for where, asked, wanted in operations(path):
        switch.send(3, asked)
        ready = select.select([switch.sockets[3]], [], [], 5)[0]
        got = switch.sockets[3].recv(65535) if ready else b""
        if got != wanted:
            wrong.append(f"{where}: {', '.join(probe_of(path).differences(got, wanted)) if got else 'no answer'}")
        count += 1
    return count, wrong


def main(program: Path, what: str, files: list[Path]) -> int:
    status, switch = 0, None
    for path in files:
        if switch is None:
            switch = Bmv2(program)
        try:
            count, wrong = vectors(switch, path) if what == "vectors" else (1, Script(switch, path).wrong)
        except BaseException:
            switch.close()
            raise
        if what != "vectors" or path is files[-1]:  # the probe keeps nothing, so one switch serves all its files
            switch.close()
            switch = None
        print(f"{path.name}: {count} asked, {len(wrong)} wrong", *wrong[:10], sep="\n  ")
        status |= bool(wrong)
    return status


if __name__ == "__main__":
    try:
        sys.exit(main(Path(sys.argv[1]), sys.argv[2], [Path(name) for name in sys.argv[3:]]))
    except (SwitchError, subprocess.CalledProcessError, OSError) as error:
        print(f"p4_bmv2: {error}", file=sys.stderr)
        sys.exit(2)
