# SPDX-License-Identifier: Apache-2.0
"""Many devices of any kind under one roof: from a fleet file, or from a command line.

fleet.toml:

    [devices.edge]                     # a name of yours, and its ports
    kind = "bpf"                       # interfaces of this machine with weir-xdp on them
    interfaces = ["eth0", "eth1"]      # left out: all that are attached
    # pins = "/sys/fs/bpf/weir", netns = "blue", every_ms = 100

    [devices.s1]
    kind = "p4runtime"                 # a P4 switch that runs p4/pid_delay.p4
    address = "10.0.0.1:9559"
    # device_id = 0, election_id = 1, role = "", ports = [2, 3], switch = "auto", digest_interval_us = 100000
    # config = "s1.toml": restored after a restart, a path from this file's folder
    # tls = {ca = "ca.pem", cert = "me.pem", key = "me.key", server_name = ""}, paths from there too
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from ..settings import SettingsError, nearest, read_toml
from .base import DataPlaneError, Device
from .bpf import BpfDevice


class FleetError(SettingsError):
    """A fleet that can't be: file, key, fault, right form."""


class Fleet:
    """Devices that report on one queue. `with` closes them."""

    def __init__(self, devices: list[Device]):
        names = [device.name for device in devices]
        for name in names:
            if names.count(name) > 1:
                raise FleetError(f"device {name}: given twice")
        _refuse_shared(devices)
        self.devices = devices
        self.events: SimpleQueue[Any] = SimpleQueue()
        """Events; its reader may put its own orders among them."""

    def start(self) -> None:
        """As controllers."""
        for device in self.devices:
            device.start(self.events)

    def watch(self, every_ms: int | None = None) -> None:
        """Only to read, which excludes nobody."""
        for device in self.devices:
            device.watch(self.events, every_ms)

    def device(self, name: str) -> Device:
        """Raises DataPlaneError, which names those that there are."""
        for device in self.devices:
            if device.name == name:
                return device
        there = ", ".join(device.name for device in self.devices) or "none"
        raise DataPlaneError(f"no device {name}: must be one of {there}")

    def close(self) -> None:
        for device in self.devices:
            device.close()

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _refuse_shared(devices: list[Device]) -> None:
    """Raises FleetError for ports that two devices have: each would take the other for an operator."""
    others = [device for device in devices if not isinstance(device, BpfDevice)]
    for index, one in enumerate(others):
        for other in others[:index]:
            if one.place("") == other.place(""):
                raise FleetError(f"device {one.name}: is device {other.name} too; must be another address or device_id")
    bpf = [device for device in devices if isinstance(device, BpfDevice)]
    for index, one in enumerate(bpf):
        for other in bpf[:index]:
            if not one.is_in(other.netns):
                continue
            if one.interfaces is None or other.interfaces is None:
                interfaces = one.interfaces or other.interfaces or ("all",)
                raise FleetError(
                    f"device {one.name}: {interfaces[0]} is device {other.name}'s too; one has all of them"
                )
            shared = set(one.interfaces) & set(other.interfaces)
            if shared:
                raise FleetError(f"device {one.name}: {min(shared)} is device {other.name}'s too; must be in one only")


def load_fleet(path: str | Path) -> Fleet:
    """The fleet of a file. OSError when it can't be read, FleetError naming file and key when it is wrong."""
    path = Path(path)
    try:
        table = read_toml(path)
    except SettingsError as error:
        raise FleetError(f"{error}; not a fleet") from None
    for key in table:
        if key != "devices":
            raise FleetError(f"{path}: {key}: no such key; a fleet has [devices.NAME] only")
    devices = table.get("devices")
    if not isinstance(devices, dict) or not devices:
        raise FleetError(f"{path}: no devices; must have a [devices.NAME] for each")
    made = [_device(f"{path}: devices.{name}", name, entry, path.parent) for name, entry in devices.items()]
    try:
        return Fleet(made)
    except FleetError as error:
        raise FleetError(f"{path}: {error}") from None


def from_words(bpf: Iterable[str] = (), p4: Iterable[str] = (), **p4_options: Any) -> Fleet:
    """The fleet of a command line: `bpf` of DEV[@NETNS] or all[@NETNS], `p4` of HOST:PORT; `p4_options` are keywords of
    P4RuntimeDevice. Raises FleetError.

    All interfaces of a namespace are one device, `bpf` or `bpf@NETNS`; a switch is called by its address.
    """
    places: dict[str, list[str]] = {}
    for word in bpf:
        dev, at, netns = word.partition("@")
        if not _is_interface(dev) or (at and not netns):
            raise FleetError(f"--bpf {word}: must be DEV or DEV@NETNS, an interface and where it is; or all")
        if dev in places.setdefault(netns, []):
            raise FleetError(f"--bpf {word}: given twice")
        places[netns].append(dev)
    devices: list[Device] = []
    for netns, devs in places.items():
        if "all" in devs and len(devs) > 1:
            raise FleetError(f"--bpf all: goes alone, without {next(dev for dev in devs if dev != 'all')}")
        name = f"bpf@{netns}" if netns else "bpf"
        devices.append(BpfDevice(name, None if devs == ["all"] else devs, netns=netns or None))
    for address in p4:
        devices.append(_switch(f"--p4 {address}", address, address=address, **p4_options))
    if not devices:
        raise FleetError("no devices: give --fleet FILE, --bpf DEV or --p4 HOST:PORT")
    return Fleet(devices)


def _is_interface(name: object) -> bool:
    """An interface; or one of its laws as `weir-xdp` names them: eth0/1:10 of a class, eth0/ingress of packets that
    arrive."""
    if not isinstance(name, str):
        return False
    dev, of, number = name.partition("/")
    if of and not re.fullmatch("[0-9a-f]{1,4}:[0-9a-f]{1,4}|ingress|egress", number):
        return False
    return 0 < len(dev.encode()) < 16 and not set(dev) & set("= \t") and dev[0] != "."


def _wrong(where: str, value: object, right: str) -> FleetError:
    return FleetError(f"{where} = {value!r}: must be {right}")


def _text(where: str, value: object, base: Path) -> str:
    if not isinstance(value, str) or not value:
        raise _wrong(where, value, "text")
    return value


def _whole(least: int, most: int) -> Callable[[str, object, Path], int]:
    def check(where: str, value: object, base: Path) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _wrong(where, value, f"a whole number, {least} .. {most}")
        return value

    return check


def _interfaces(where: str, value: object, base: Path) -> list[str]:
    if not isinstance(value, list) or not value or not all(_is_interface(name) for name in value):
        raise _wrong(where, value, 'a list of interfaces, ["eth0"]; left out for all')
    if len(set(value)) < len(value):
        raise _wrong(where, value, "without the same one twice")
    return value


def _folder(where: str, value: object, base: Path) -> str:
    if not isinstance(value, str) or not value.startswith("/"):
        raise _wrong(where, value, "an absolute path")
    return value


def _ports(where: str, value: object, base: Path) -> list[str]:
    if not isinstance(value, list) or not value or not all(type(port) is int for port in value):
        raise _wrong(where, value, "a list of port numbers, [2, 3]; left out for all")
    return [str(port) for port in value]


def _file(where: str, value: object, base: Path) -> Path:
    path = base / _text(where, value, base)
    if not path.is_file():
        raise _wrong(where, value, f"a file; there is no {path}")
    return path


def _one_of(*values: str) -> Callable[[str, object, Path], str]:
    def check(where: str, value: object, base: Path) -> str:
        if value not in values:
            raise _wrong(where, value, "one of " + ", ".join(f'"{one}"' for one in values))
        return str(value)

    return check


def _tls(where: str, value: object, base: Path) -> object:
    from ..p4runtime.connection import Tls

    if not isinstance(value, dict):
        raise _wrong(where, value, 'a table, {ca = "ca.pem"}')
    checks = {"ca": _file, "cert": _file, "key": _file, "server_name": _text}
    return Tls(**_checked(where, value, checks, base))


_KINDS: dict[str, dict[str, Callable[[str, object, Path], Any]]] = {
    "bpf": {
        "interfaces": _interfaces,
        "pins": _folder,
        "netns": _text,
        "every_ms": _whole(1, 86_400_000),
    },
    "p4runtime": {
        "address": _text,
        "device_id": _whole(0, 2**64 - 1),
        "election_id": _whole(1, 2**128 - 1),
        "role": _text,
        "tls": _tls,
        "ports": _ports,
        "config": _file,
        "switch": _one_of("auto", "embedded", "bmv2"),
        "digest_interval_us": _whole(1, 2**32 - 1),
    },
}


def _checked(where: str, entry: dict, checks: dict, base: Path) -> dict[str, Any]:
    for key, value in entry.items():
        if key not in checks:
            raise FleetError(f"{where}.{key} = {value!r}: no such key; {nearest(key, checks)}")
    return {key: checks[key](f"{where}.{key}", value, base) for key, value in entry.items()}


def _device(where: str, name: str, entry: object, base: Path) -> Device:
    if not isinstance(entry, dict):
        raise _wrong(where, entry, f"a table, [devices.{name}]")
    kind = entry.get("kind")
    if kind not in _KINDS:
        raise _wrong(f"{where}.kind", kind, " or ".join(f'"{kind}"' for kind in _KINDS))
    options = _checked(where, {key: value for key, value in entry.items() if key != "kind"}, _KINDS[kind], base)
    if kind == "bpf":
        return BpfDevice(name, **options)
    if "address" not in options:
        raise FleetError(f"{where}.address is missing: must be HOST:PORT")
    return _switch(where, name, **options)


def _switch(where: str, name: str, **options: Any) -> Device:
    # gRPC takes seconds to import in the exact lab: only where a switch is named
    from .p4runtime import P4RuntimeDevice

    try:
        return P4RuntimeDevice(name, **options)
    except DataPlaneError as error:
        raise FleetError(f"{where}: {error}") from None
