# SPDX-License-Identifier: Apache-2.0
"""`weir gains`: the gains of every port of every device, whatever it is; and the options that name devices."""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from queue import Empty

from .. import gains
from ..arguments import command, whole
from ..text import printable
from .base import DataPlaneError, Down, Up
from .fleet import Fleet, FleetError, from_words, load_fleet

_PATIENCE_S = 10.0
"""For a device's first word, good or bad."""

FLEET_EXAMPLE = """\
fleet.toml:
  [devices.edge]                  # a name of yours
  kind = "bpf"                    # interfaces of this machine; also pins, netns, every_ms
  interfaces = ["eth0", "eth1"]   # left out: all that are attached
  [devices.s1]
  kind = "p4runtime"              # a switch; also device_id, election_id, role, tls, switch, digest_interval_us
  address = "10.0.0.1:9559"
  ports = [2, 3]                  # left out: all that run the law
  config = "s1.toml"              # of `weir switch deploy`; with it a switch that comes back empty gets all that again
"""

EXAMPLE = f"""\
examples:
  weir gains                                                  of all interfaces weir-xdp is attached to
  weir gains --bpf eth0 --set target_us=5000 --set kp=24      change these, keep the rest
  weir gains --p4 10.0.0.1:9559 --port 2 --profile tuned      set port 2 from a profile
  weir gains --p4 10.0.0.1:9559 --election-id 2 --port 2 --set target_us=5000      beside a controller with id 1
  weir gains --fleet fleet.toml --device s1 --json

{FLEET_EXAMPLE}
A tuner that is at work takes a change for an operator's and leaves that port alone. exit status: 0 done, 1 failed, 2
wrong call.
"""


def add_devices(parser: argparse.ArgumentParser) -> None:
    """The options that name devices, for every command that has them."""
    devices = parser.add_argument_group("devices (one of --fleet, or any number of --bpf and --p4)")
    devices.add_argument("--fleet", metavar="FILE", help="devices by name; below is an example")
    devices.add_argument(
        "--bpf",
        action="append",
        default=[],
        metavar="DEV[@NETNS]",
        help="an interface with weir-xdp on it, in a namespace by name or path; `all`: whatever is attached",
    )
    devices.add_argument("--p4", action="append", default=[], metavar="HOST:PORT", help="a switch's P4Runtime server")
    devices.add_argument(
        "--device-id", type=whole(0, 2**64 - 1), default=0, metavar="N", help="of --p4 (default %(default)s)"
    )
    devices.add_argument(
        "--election-id",
        type=whole(1, 2**128 - 1),
        metavar="N",
        help="of --p4: takes charge from controllers with lower ones, until this command ends (default: from nobody)",
    )


def fleet_of(args: argparse.Namespace) -> Fleet:
    """What those options say. Raises FleetError, which names option and file."""
    if args.fleet is None:
        return from_words(args.bpf, args.p4, args.device_id, args.election_id)
    if args.bpf or args.p4:
        raise FleetError("--fleet: goes without --bpf and --p4")
    if args.election_id is not None:
        raise FleetError("--election-id: is of --p4; in a fleet's file it is the device's key election_id")
    try:
        return load_fleet(args.fleet)
    except OSError as error:
        raise FleetError(f"--fleet {args.fleet}: {error.strerror}") from None


def parser() -> argparse.ArgumentParser:
    made = command("gains", "Print or set the law's gains, port by port, on any device.", EXAMPLE)
    add_devices(made)
    made.add_argument("--device", metavar="NAME", help="this one only")
    made.add_argument("--port", metavar="PORT", help="this one only: an interface, a port's number")
    made.add_argument("--profile", metavar="NAME", help="set from a profile of controller/profiles, or a path")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="set this key; repeatable")
    made.add_argument("--json", action="store_true", help="one JSON document")
    return made


def _await_all(fleet: Fleet) -> None:
    """Waits until each device is there. DataPlaneError when one is not."""
    waiting = {device.name for device in fleet.devices}
    end_s = time.monotonic() + _PATIENCE_S
    while waiting:
        try:
            event = fleet.events.get(timeout=max(0.0, end_s - time.monotonic()))
        except Empty:
            raise DataPlaneError(f"device {min(waiting)}: no answer in {_PATIENCE_S:g} s") from None
        if isinstance(event, Down) and event.device in waiting:
            raise DataPlaneError(f"device {event.device}: {event.why}")
        if isinstance(event, Up):
            waiting.discard(event.device)


def _read(fleet: Fleet, device: str | None, port: str | None) -> dict[tuple[str, str], gains.Gains]:
    devices = fleet.devices if device is None else [fleet.device(device)]
    found = {(one.name, name): value for one in devices for name, value in one.read_gains().items()}
    if port is None:
        return found
    if not any(name == port for _, name in found):
        there = ", ".join(name for _, name in found) or "none"
        raise DataPlaneError(f"no port {port}: must be one of {there}")
    return {where: value for where, value in found.items() if where[1] == port}


def _run(args: argparse.Namespace) -> None:
    setting = args.profile is not None or bool(args.set)
    if args.fleet is None and not args.bpf and not args.p4:
        args.bpf = ["all"]
    base = None if args.profile is None else gains.profile(args.profile)
    with fleet_of(args) as fleet:
        if args.device is not None:
            fleet.devices = [fleet.device(args.device)]
        fleet.start()
        _await_all(fleet)
        found = _read(fleet, args.device, args.port)
        if setting and len(found) > 1:
            ports = ", ".join(f"{device} {port}" for device, port in list(found)[:20])
            raise FleetError(f"--port and --device must say which port to set: {ports}")
        if setting:
            [((device, port), present)] = found.items()
            fleet.device(device).write_gains(port, gains.changed(base or present, args.set))
            found = _read(fleet, args.device, args.port)
    if args.json:
        shown = [{"device": device, "port": port, "gains": asdict(value)} for (device, port), value in found.items()]
        print(json.dumps(shown))
        return
    for (device, port), value in found.items():
        print(f"{device} {port}")
        for key, number in asdict(value).items():
            print(f"  {key} = {number:.6g}" if isinstance(number, float) else f"  {key} = {number}")


def main(words: Sequence[str] | None = None) -> int:
    args = parser().parse_args(words)
    try:
        _run(args)
        sys.stdout.flush()
    except BrokenPipeError:
        # whoever read our output has seen enough; what is still buffered has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (FleetError, gains.GainError) as error:
        print(f"weir gains: {printable(error)}", file=sys.stderr)
        return 2
    except DataPlaneError as error:
        print(f"weir gains: {printable(error)}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"weir gains: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return 1
    return 0
