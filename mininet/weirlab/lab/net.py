# SPDX-License-Identifier: Apache-2.0
"""Mininet with three changes: it raises when the kernel refuses something, starts no shells, and works in batches.

Stock Mininet prints tc's errors and goes on without the effect, starts a shell in a pseudo-terminal per node and
a process per setting. In the exact lab each of those processes costs 10 to 30 ms of wall time, so settings are
collected in a `Plan` and applied by one `ip` and one `tc` process per node. `Topo`, `Mininet.get`, `node.cmd` and
`node.popen` work as Mininet users know them.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Node
from mininet.topo import Topo

CLONE_NEWNET = 0x40000000
SIOCETHTOOL = 0x8946
# ethtool commands that switch a device's offloads (linux/ethtool.h). With them on, packets cross the queue as 64 kB
# super-packets without checksums, which no queue on a wire ever sees.
OFFLOADS_OFF = {"rx-checksum": 0x15, "tx-checksum": 0x17, "sg": 0x19, "tso": 0x1F, "gso": 0x24, "gro": 0x2C}
_libc = ctypes.CDLL(None, use_errno=True)


class NetError(Exception):
    """A setting that the kernel refused (node, setting, error), or that can't be (keyword, value, right form)."""


Rule = tuple[Callable[[Any], bool], str]
"""Check of a keyword's value, and the right form."""


def expect(where: str, values: Mapping[str, Any], rules: Mapping[str, Rule]) -> None:
    """Check keywords of addSwitch, addHost or addLink; None leaves a keyword out. Raises NetError for the first wrong
    value."""
    for key, value in values.items():
        if value is not None and key in rules and not rules[key][0](value):
            raise NetError(f"{where}{key} {value!r}: expected {rules[key][1]}")


def is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def are_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(is_text(each) for each in value)


def is_interface_address(value: Any) -> bool:
    address, _, prefix = value.partition("/") if isinstance(value, str) else ("", "", "")
    for family, bits in ((socket.AF_INET, 32), (socket.AF_INET6, 128)):
        try:
            socket.inet_pton(family, address)
        except OSError:
            continue
        return prefix.isascii() and prefix.isdigit() and int(prefix) <= bits
    return False


LINES: Rule = (are_texts, "a list of texts")
NODE_VALUES: dict[str, Rule] = {
    "forwards": (lambda value: isinstance(value, bool), "True or False"),
    **dict.fromkeys(("rules", "routes", "ip_lines", "tc_lines"), LINES),
}
LINK_VALUES: dict[str, Rule] = {
    "ip": (is_interface_address, "ADDRESS/PREFIX, as 10.0.0.1/24"),
    **dict.fromkeys(("tc", "neighbours"), LINES),
}


def _setns(fd: int) -> None:
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def in_namespace(path: str) -> Iterator[None]:
    """This thread is in the network namespace at `path` while the block runs; children started there stay in it."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(home)


def device_counts(namespace: str) -> dict[str, dict[str, int]]:
    """Packets and bytes of each interface in a namespace but the loopback, since they were made."""
    with in_namespace(namespace), open("/proc/thread-self/net/dev") as file:
        rows = [line.split(":") for line in file.read().splitlines()[2:]]
    found = {}
    for name, numbers in rows:
        values = [int(number) for number in numbers.split()]
        if name.strip() != "lo":
            found[name.strip()] = {
                "received_bytes": values[0],
                "received_packets": values[1],
                "sent_bytes": values[8],
                "sent_packets": values[9],
            }
    return found


class Plan:
    """Settings waiting to be applied, in order: root `ip` lines, then per node `ip` lines, `tc` lines and the rest."""

    def __init__(self) -> None:
        self.root_ip: list[str] = []
        self.ip: dict[str, list[str]] = {}
        self.tc: dict[str, list[str]] = {}
        self.devices: dict[str, list[str]] = {}
        self.sysctls: dict[str, dict[str, str]] = {}

    @staticmethod
    def _batch(tool: str, node: str | None, lines: list[str]) -> None:
        there = in_namespace(f"/run/netns/{node}") if node else nullcontext()  # less work for the tool than with `-n`
        with there:
            text = "\n".join(lines) + "\n"
            done = subprocess.run([tool, "-batch", "-"], input=text, capture_output=True, text=True, check=False)
        message = done.stderr.strip()
        # iproute2 exits 0 for some refusals that it only prints, so any word of it counts.
        if done.returncode == 0 and not message:
            return
        failed = ""
        if "Command failed -:" in message:
            number = int(message.rsplit("Command failed -:", 1)[1].split()[0])
            failed = f"'{tool} {lines[number - 1]}': "
        raise NetError(f"node {node or '(root)'}: {failed}{' '.join(message.split())}")

    def apply(self) -> None:
        """Apply everything and empty the plan. Raises NetError at the first refusal."""
        if self.root_ip:
            self._batch("ip", None, self.root_ip)
            self.root_ip = []
        for node, devices in self.devices.items():
            with in_namespace(f"/run/netns/{node}"):
                for device in devices:
                    offloads_off(device)
        self.devices = {}
        for node, lines in self.ip.items():
            self._batch("ip", node, lines)
        self.ip = {}
        for node, lines in self.tc.items():
            self._batch("tc", node, lines)
        self.tc = {}
        for node, settings in self.sysctls.items():
            with in_namespace(f"/run/netns/{node}"):
                for key, value in settings.items():
                    with open(f"/proc/sys/{key.replace('.', '/')}", "w") as file:
                        file.write(value)
        self.sysctls = {}


def offloads_off(device: str) -> None:
    """Switch off segmentation, receive merging and checksum offloads of `device` in the current namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for name, command in OFFLOADS_OFF.items():
            value = ctypes.create_string_buffer(struct.pack("II", command, 0))
            request = struct.pack("16sP", device.encode(), ctypes.addressof(value)).ljust(40, b"\0")
            try:
                fcntl.ioctl(control, SIOCETHTOOL, request)
            except OSError as error:
                raise NetError(f"device {device}: cannot switch off {name}: {error.strerror}") from error


class LabNode(Node):
    """A node is a named network namespace and nothing else: no shell, no process until one is started.

    Parameters: `forwards`, `rules` and `routes` (lines for `ip rule add` and `ip route add`), and `ip_lines` and
    `tc_lines`, whole lines for these two tools, which are applied when all interfaces are there, `ip` first.
    """

    def __init__(self, name: str, plan: Plan, **params: Any) -> None:
        self.plan = plan
        expect(f"node {name}: ", params, NODE_VALUES)
        super().__init__(name, **params)

    def startShell(self, mnopts: str | None = None) -> None:
        self.namespace = f"/run/netns/{self.name}"
        self.plan.root_ip.append(f"netns add {self.name}")
        self.plan.ip.setdefault(self.name, []).append("link set lo up")
        if self.params.get("forwards"):
            self.plan.sysctls.setdefault(self.name, {})["net.ipv4.ip_forward"] = "1"

    def config(self, **_params: Any) -> dict:
        return {}  # addresses are part of the links

    def terminate(self) -> None:
        self.plan.root_ip.append(f"netns del {self.name}")

    def popen(self, argv: str | list[str], **kwargs: Any) -> subprocess.Popen:
        """Start `argv` (a list, or a string for the shell) in this node; keyword arguments as subprocess.Popen."""
        with in_namespace(self.namespace):
            return subprocess.Popen(argv, shell=isinstance(argv, str), **kwargs)

    def pexec(self, argv: str | list[str], **kwargs: Any) -> tuple[str, str, int]:
        process = self.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kwargs)
        out, err = process.communicate()
        return out, err, process.returncode

    def cmd(self, *args: Any, **_kwargs: Any) -> str:
        """Run a command and return its output. Raises NetError when it fails: Mininet would go on silently."""
        argv = args[0] if len(args) == 1 else [str(arg) for arg in args]
        out, err, status = self.pexec(argv)
        if status != 0:
            raise NetError(f"node {self.name}: '{argv}' exited with {status}: {(err or out).strip()}")
        return out


class LabIntf(Intf):
    """An interface with its address and its queueing disciplines, set through the plan."""

    def config(
        self, ip: str | None = None, tc: list[str] | None = None, neighbours: list[str] | None = None, **_params: Any
    ) -> None:
        plan, node = self.node.plan, self.node.name
        expect(f"interface {self.name}: ", {"ip": ip, "tc": tc, "neighbours": neighbours}, LINK_VALUES)
        lines = plan.ip.setdefault(node, [])
        if ip:
            self.ip, prefix = ip.split("/")
            self.prefixLen = int(prefix)
            lines.append(f"addr add {ip} dev {self.name}")
        # TCP builds super-packets for any device, whatever its offloads say, unless it takes one segment only.
        lines.append(f"link set dev {self.name} addrgenmode none gso_max_segs 1 up")
        lines.extend(f"neigh add {neighbour} dev {self.name}" for neighbour in neighbours or [])
        plan.devices.setdefault(node, []).append(self.name)
        plan.tc.setdefault(node, []).extend(line.format(dev=self.name) for line in tc or [])

    def delete(self) -> None:
        pass  # goes with its namespace


class LabLink(Link):
    """A veth pair. `params1` and `params2` take `ip`, `tc` (lines for `tc -batch`, `{dev}` for the device) and
    `neighbours` (lines for `ip neigh add`, without the device)."""

    def __init__(self, node1: LabNode, node2: LabNode, **params: Any) -> None:
        super().__init__(node1, node2, **{**params, "intf": LabIntf})

    @classmethod
    def makeIntfPair(
        cls,
        name1: str,
        name2: str,
        addr1: str | None = None,
        addr2: str | None = None,
        node1: Any = None,
        node2: Any = None,
        deleteIntfs: bool = True,
    ) -> None:
        del deleteIntfs
        node1.plan.root_ip.append(
            f"link add name {name1} address {addr1} netns {node1.name} numtxqueues 1 numrxqueues 1 "
            f"type veth peer name {name2} address {addr2} netns {node2.name}"
        )


class LabNet(Mininet):
    """Build a `mininet.topo.Topo` whose nodes are LabNodes. Use as a context manager: it cleans up after itself.

    `switch` is the class of the topology's switches: a LabNode with Mininet's `start(controllers)` and `stop()`, as
    `weirlab.lab.p4switch.LabP4Switch`.
    """

    def __init__(self, topo: Topo, switch: type[LabNode] | None = None, **params: Any) -> None:
        self.plan = Plan()
        self._next_mac = 0
        super().__init__(
            topo=topo, host=self._node, link=LabLink, switch=switch, controller=None, waitConnected=False, **params
        )

    @classmethod
    def init(cls) -> None:
        pass  # Mininet would raise the machine's limits by sysctl, for everybody on it

    def _node(self, name: str, **params: Any) -> LabNode:
        return LabNode(name, plan=self.plan, **params)

    def addSwitch(self, name: str, cls: type[Node] | None = None, **params: Any) -> Node:
        return super().addSwitch(name, cls, plan=self.plan, **params)

    def randMac(self) -> str:
        self._next_mac += 1
        return "02:00:00:00:{:02x}:{:02x}".format(*divmod(self._next_mac, 256))

    def build(self) -> None:
        super().build()
        for node in self.hosts:
            lines = self.plan.ip.setdefault(node.name, [])
            lines.extend(f"rule add {rule}" for rule in node.params.get("rules", ()))
            lines.extend(f"route add {route}" for route in node.params.get("routes", ()))
            lines.extend(node.params.get("ip_lines", ()))
            if node.params.get("tc_lines"):
                self.plan.tc.setdefault(node.name, []).extend(node.params["tc_lines"])
        self.plan.apply()

    def stop(self) -> None:
        super().stop()
        self.plan.apply()

    def __enter__(self) -> LabNet:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()
