# SPDX-License-Identifier: Apache-2.0
"""`weir gains`: the gains of every port of every device, whatever it is."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from .. import bands, coupled
from ..dataplane.base import DataPlaneError, Device, PortSettings
from ..dataplane.fleet import Fleet, FleetError
from ..gains import KEYS, GainError, Gains, Value, help_text, user_help_text
from ..options.arguments import DONE, EXIT_STATUS, command, end
from ..options.devices import FLEET_EXAMPLE, add_devices, fleet_of
from ..settings import closest_profile, key_values, profile
from ..text import printable

BANDS_HELP = "\n".join(f"  {key:<22} {text}" for key, text in bands.KEYS.items())
COUPLING_HELP = "\n".join(f"  {key:<22} {text}" for key, text in coupled.KEYS.items())
MORE_KEYS = "Profiles have more keys, which --set takes with --expert: `weir gains --expert --help` lists them."
EXAMPLE = f"""\
examples:
  weir gains                                                  of all interfaces weir-xdp is attached to
  weir gains --bpf eth0 --set target=5ms --set ecn=off        change these, keep the rest
  weir gains --bpf eth0 --set coupling=1.5                    how two coupled bands are coupled
  weir gains --p4 10.0.0.1:9559 --port 2 --profile tuned      set port 2 from a profile
  weir gains --p4 10.0.0.1:9559 --election-id 2 --port 2 --set target_us=5000      beside a controller with id 1
  weir gains --fleet fleet.toml --device s1 --json

A key in _us is also taken without it, and then with a unit: --set target=5ms.

keys:
{user_help_text()}
an interface with two coupled bands (`weir-xdp attach DEV --coupled L,C`) has four more:
{COUPLING_HELP}
a port of a P4 switch has two more:
  digest_interval_us     between two digests of the port, 0: none
  delay_source           where the law has the delay from: sojourn, rate (Cao Eq. 1), or flows (that
                         of a queue with flow queues)
with two bands of flows it has three more:
{BANDS_HELP}

{MORE_KEYS}

{FLEET_EXAMPLE}
Printing takes part in no election of controllers; setting on a P4 switch takes charge where nobody is. With --profile
a port of a switch that has no law is given it. A tuner that is at work takes a change for an operator's and leaves that
port alone.

{EXIT_STATUS}
"""


def parser(expert: bool = False) -> argparse.ArgumentParser:
    example = EXAMPLE.replace(MORE_KEYS, f"keys of profiles:\n{help_text()}") if expert else EXAMPLE
    made = command("gains", "Print or set the law's gains, port by port, on any device.", example)
    add_devices(made)
    made.add_argument("--device", metavar="NAME", help="this one only")
    made.add_argument("--port", metavar="PORT", help="this one only: an interface, a port's number")
    made.add_argument("--profile", metavar="NAME", help="set from a profile that comes with Weir, or a path")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="set this key; repeatable")
    made.add_argument("--expert", action="store_true", help="--set takes every key; --help lists them")
    made.add_argument("--json", action="store_true", help="one JSON document")
    return made


_NOTHING = "no interface has the law: `weir-xdp attach DEV` puts it on one; --p4 HOST:PORT names a switch"

Found = dict[tuple[str, str], PortSettings]


def _read(devices: Sequence[Device], port: str | None) -> Found:
    found = {(one.name, name): value for one in devices for name, value in one.read_settings().items()}
    if port is None:
        return found
    if not any(name == port for _, name in found):
        there = ", ".join(name for _, name in found) or "none"
        raise DataPlaneError(f"no port {port}: must be one of {there}")
    return {where: value for where, value in found.items() if where[1] == port}


def _to_set(devices: Sequence[Device], port: str | None) -> tuple[Device, str]:
    """The one device and port that is meant."""
    if port is not None and len(devices) == 1:
        return devices[0], port  # possibly without a law yet
    if port is None and any(device.gives_law for device in devices):
        raise FleetError("--port must say which port to set")
    found = list(_read(devices, port))
    if not found:
        raise DataPlaneError(_NOTHING)
    if len(found) != 1:
        ports = ", ".join(f"{device} {name}" for device, name in found[:20])
        raise FleetError(f"--port and --device must say which port to set: {ports}")
    [(name, port)] = found
    return next(device for device in devices if device.name == name), port


def _base(name: str | None) -> Gains | None:
    try:
        return None if name is None else profile(name)
    except GainError as error:
        raise GainError(f"--profile {error}") from None


def _run(args: argparse.Namespace) -> int:
    base = _base(args.profile)
    with fleet_of(args, default_all=True) as fleet:
        devices = _devices(fleet, args.device)
        own_keys = dict.fromkeys(key for device in devices for key in device.own_keys)
        changes = key_values(args.set, (*KEYS, *own_keys), expert=args.expert)
        if base is not None or changes:
            device, port = _to_set(devices, args.port)
            _change(device, port, base, changes)
            devices, args.port = [device], port
        found = _read(devices, args.port)
        if not found and not any(device.gives_law for device in devices):
            raise DataPlaneError(_NOTHING)
    if args.json:
        print(json.dumps([as_data(device, port, value) for (device, port), value in found.items()]))
        return DONE
    for (device_name, port), value in found.items():
        _print(device_name, port, value)
    if not found:
        print("no port runs the law; weir gains --p4 HOST:PORT --port N --profile tuned gives it to one of a switch")
    return DONE


def _devices(fleet: Fleet, name: str | None) -> list[Device]:
    return fleet.devices if name is None else [fleet.device(name)]


def _change(device: Device, port: str, base: Gains | None, changes: Mapping[str, Value]) -> None:
    try:
        device.change(port, base, changes)
    except ValueError as error:
        raise GainError(f"--set {error}") from None


def as_data(device: str, port: str, settings: PortSettings) -> dict[str, Any]:
    """Settings of a port, for JSON. `profile` is the closest one; `differs`: in what."""
    if settings.gains is None:
        return {"device": device, "port": port, "action": settings.what}
    name, differs = closest_profile(settings.gains)
    shown = {
        "device": device,
        "port": port,
        "profile": name,
        "differs": {key: new for key, (_, new) in differs.items()},
    }
    return shown | dict(settings.own) | {"gains": asdict(settings.gains)}


def origin(gains: Gains) -> str:
    """Where gains come from: `tuned`, `tuned but target_us=5000`, or `own` where they are like no profile."""
    name, differs = closest_profile(gains)
    if len(differs) > 6:
        return "own"
    changes = " ".join(f"{key}={_short(new)}" for key, (_, new) in differs.items())
    return f"{name} but {changes}" if changes else name


def _short(value: Value) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _print(device: str, port: str, settings: PortSettings) -> None:
    if settings.gains is None:
        print(printable(f"{device} {port}: {settings.what}"))
        return
    print(printable(f"{device} {port}  ({origin(settings.gains)})"))
    for key, value in (asdict(settings.gains) | dict(settings.own)).items():
        print(printable(f"  {key} = {_short(value)}"))


def main(words: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if words is None else words
    args = parser("--expert" in words).parse_args(words)
    return end("gains", lambda: _run(args))
