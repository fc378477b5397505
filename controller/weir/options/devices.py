# SPDX-License-Identifier: Apache-2.0
"""The options that name devices, the same for every command."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from ..dataplane.fleet import Fleet, FleetError, from_words, load_fleet
from .arguments import seconds, whole

FLEET_EXAMPLE = """\
fleet.toml:
  [devices.edge]                  # a name of yours
  kind = "bpf"                    # interfaces of this machine; also pins, netns, every_ms
  interfaces = ["eth0", "eth1"]   # left out: all that are attached
  [devices.s1]
  kind = "p4runtime"              # a switch; also device_id, election_id, role, tls, switch, digest_interval_us
  address = "10.0.0.1:9559"
  ports = [2, 3]                  # left out: all that run the law
  config = "s1.toml"              # of `weir p4 deploy`; a switch that restarts empty is set up again from it
"""


def add_devices(parser: argparse.ArgumentParser) -> None:
    """The options that name devices."""
    devices = parser.add_argument_group("devices (one of --fleet, or any number of --bpf and --p4)")
    devices.add_argument("--fleet", metavar="FILE", help="a file that names devices; an example is below")
    devices.add_argument(
        "--bpf",
        action="append",
        default=[],
        metavar="DEV[@NETNS]",
        help="an interface with weir-xdp on it, in a namespace by name or path; `all`: every one that is attached",
    )
    devices.add_argument("--p4", action="append", default=[], metavar="HOST:PORT", help="a switch's P4Runtime server")
    add_p4_options(parser.add_argument_group("options of --p4"))


def add_p4_options(group: Any) -> None:
    """Options for a P4Runtime server. `group`: of a parser."""
    group.add_argument("--device-id", type=whole(0, 2**64 - 1), metavar="N", help="(default 0)")
    group.add_argument(
        "--election-id",
        type=whole(1, 2**128 - 1),
        metavar="N",
        help="takes charge from controllers with lower ids, until this command ends (default: takes over from none)",
    )
    group.add_argument("--role", metavar="NAME", help="P4Runtime role (default: full access)")
    group.add_argument("--tls-ca", type=Path, metavar="FILE", help="use TLS, with this CA certificate")
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="our certificate, if the server asks for one")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
    group.add_argument("--tls-server-name", metavar="NAME", help="the name in the server's certificate")
    group.add_argument("--connect-timeout-s", type=seconds, metavar="S", help="limit for connecting (2; weir p4: 5)")
    group.add_argument("--timeout-s", type=seconds, metavar="S", help="limit for each request (5; weir p4: 60)")


_P4_OPTIONS = ("device_id", "election_id", "role", "connect_timeout_s", "timeout_s")
_TLS_OPTIONS = ("tls_ca", "tls_cert", "tls_key", "tls_server_name")


def p4_options(args: argparse.Namespace) -> dict[str, Any]:
    """Values of add_p4_options' options, as keywords of a Client; those that were not given are left out.
    FleetError."""
    found = {name: getattr(args, name) for name in _P4_OPTIONS if getattr(args, name) is not None}
    if (args.tls_cert is None) != (args.tls_key is None):
        raise FleetError("--tls-cert and --tls-key must be given together")
    for name in ("tls_ca", "tls_cert", "tls_key"):
        try:
            if getattr(args, name) is not None:
                getattr(args, name).open("rb").close()
        except OSError as error:
            raise FleetError(f"--{name.replace('_', '-')} {getattr(args, name)}: {error.strerror}") from None
    if any(getattr(args, name) for name in _TLS_OPTIONS):
        from ..p4runtime.connection import Tls

        found["tls"] = Tls(args.tls_ca, args.tls_cert, args.tls_key, server_name=args.tls_server_name or "")
    return found


def fleet_of(args: argparse.Namespace, default_all: bool = False) -> Fleet:
    """Fleet named by those options. default_all: where they name nothing, all interfaces that weir-xdp is attached to.
    Raises FleetError, which names option and file."""
    if args.fleet is None:
        nothing = not args.bpf and not args.p4
        return from_words(["all"] if nothing and default_all else args.bpf, args.p4, **p4_options(args))
    if args.bpf or args.p4:
        raise FleetError("--fleet: goes without --bpf and --p4")
    for name in (*_P4_OPTIONS, *_TLS_OPTIONS):
        if getattr(args, name) is not None:
            option = name.replace("_", "-")
            raise FleetError(f"--{option}: is of --p4; in a fleet's file it is the device's key {name}")
    try:
        return load_fleet(args.fleet)
    except OSError as error:
        raise FleetError(f"--fleet {args.fleet}: {error.strerror}") from None
