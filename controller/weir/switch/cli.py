# SPDX-License-Identifier: Apache-2.0
"""`weir switch`: P4 switches over P4Runtime."""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from .. import gains
from ..arguments import seconds, whole
from ..p4runtime.client import Client, Tls, Update
from ..p4runtime.connection import parse_address
from ..p4runtime.descriptors import DescriptorError
from ..p4runtime.entities import DigestConfig
from ..p4runtime.values import P4RuntimeError
from ..text import printable
from . import config as configuration
from . import plan, show, watch
from .deploy import KINDS, deploy
from .program import PROGRAM

DEPLOY_EXAMPLE = """\
example:
  weir switch deploy --config s1.toml                                  the switch at 127.0.0.1:9559
  weir switch deploy --switch bmv2 --config s1.toml --dry-run          print what would be written
  weir switch deploy --switch bmv2 --config s1.toml \\
      --p4info pid_delay.p4info.txtpb --device-config pid_delay.json   a program compiled elsewhere

s1.toml:
  [ports.1]                            # each port that sends routed packets
  mac = "02:00:00:00:01:01"            #   from this address; vlan = 10 | "keep" | "remove"
  [ports.2]
  mac = "02:00:00:00:01:02"
  [neighbours.h1]                      # stations packets can be sent to
  port = 1
  mac = "02:00:00:00:00:01"
  [neighbours.h2]
  port = 2
  mac = "02:00:00:00:00:02"
  [routes]                             # IPv4 and IPv6, the longest prefix wins
  "10.0.1.0/24" = "h1"
  "10.0.2.0/24" = "h2"
  "2001:db8::/32" = "h2"
  [flood]                              # ARP and the like, to all of these ports
  ports = [1, 2]
  [aqm.port.2]                         # PID-Delay on the queue of port 2
  profile = "tuned"                    #   of controller/profiles, or a path; any of its keys may follow
  target_us = 5000

The file is the whole truth: routes, next hops, stations, flooding and gains that are on the switch and not in the file
are removed, and a switch that is right already is not written to. exit status: 0 done, 1 failed, 2 wrong call.
"""

SHOW_EXAMPLE = """\
examples:
  weir switch show                     tables, groups, counters, registers of the switch at 127.0.0.1:9559
  weir switch show --table ipv4_lpm    one table
  weir switch show --json | jq .counters
"""

GAINS_EXAMPLE = """\
examples:
  weir switch gains                                            what each port's law is set to
  weir switch gains --port 2 --profile tuned                   set port 2 from a profile
  weir switch gains --port 2 --set target_us=5000 --set kp=24  change these, keep the rest
"""

WATCH_EXAMPLE = """\
examples:
  weir switch watch                    delay, probability and losses of each port, twice a second
  weir switch watch --jsonl --every-ms 100 --seconds 60 > s1.jsonl
  weir switch watch --count 1          one record, then end
  weir switch watch --digest aqm_state_t --jsonl    each digest, as the switch sends it
Watching only reads: as many as like may watch, whoever is in charge. A switch without registers over P4Runtime (BMv2)
shows its counters alone. Tail drops are at most what is shown: they are the difference of two registers that are read
one after the other while packets leave. Digests go to the controller in charge alone, so --digest takes charge where
nobody is; a port sends one every digest_interval_us, with the first packet after it.
"""


class WrongCall(P4RuntimeError):
    """Options that do not go together or mean nothing, found after argparse's own look at them."""


def _address(text: str) -> str:
    try:
        parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def parser() -> argparse.ArgumentParser:
    switch = argparse.ArgumentParser(
        prog="weir switch", description="P4 switches over P4Runtime. Each command has --help with examples."
    )
    commands = switch.add_subparsers(dest="command", required=True)

    def command(name: str, help_text: str, example: str) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=help_text,
            description=help_text[0].upper() + help_text[1:] + ".",
            epilog=example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        device = made.add_argument_group("the switch")
        device.add_argument(
            "--address",
            type=_address,
            default="127.0.0.1:9559",
            metavar="HOST:PORT",
            help="its P4Runtime server, or unix:PATH (default %(default)s)",
        )
        device.add_argument(
            "--device-id", type=whole(0, 2**64 - 1), default=0, metavar="N", help="(default %(default)s)"
        )
        device.add_argument(
            "--election-id",
            type=whole(1, 2**128 - 1),
            metavar="N",
            help="the controller with the highest one is in charge (default: 1, or what it takes when nobody is)",
        )
        device.add_argument("--role", default="", metavar="NAME", help="P4Runtime role (default: full access)")
        device.add_argument("--tls-ca", type=Path, metavar="FILE", help="use TLS; who signed the server's certificate")
        device.add_argument("--tls-cert", type=Path, metavar="FILE", help="our certificate, where the server asks")
        device.add_argument("--tls-key", type=Path, metavar="FILE", help="its key")
        device.add_argument(
            "--tls-server-name", default="", metavar="NAME", help="the name in the server's certificate"
        )
        device.add_argument("--connect-timeout-s", type=seconds, default=5.0, metavar="S", help="(default %(default)s)")
        device.add_argument(
            "--timeout-s", type=seconds, default=60.0, metavar="S", help="for each request (default %(default)s)"
        )
        return made

    made = command("deploy", "push program, routes, next hops, flooding and gains", DEPLOY_EXAMPLE)
    made.add_argument("--config", type=Path, required=True, metavar="FILE.toml", help="what the switch is to be")
    made.add_argument("--switch", choices=(*KINDS, "auto"), default="auto", help="its kind (default: ask it)")
    made.add_argument(
        "--program", type=Path, default=PROGRAM, metavar="FILE.p4", help="P4 source (default p4/pid_delay.p4)"
    )
    made.add_argument("--p4info", type=Path, metavar="FILE", help="a compiled program's P4Info, text or binary")
    made.add_argument("--device-config", type=Path, metavar="FILE", help="and its device configuration (BMv2: JSON)")
    made.add_argument("--empty", action="store_true", help="take a file by which the switch forwards nothing")
    made.add_argument("--dry-run", action="store_true", help="print what would be written, write nothing")
    made.add_argument("--json", action="store_true", help="print what was done as one JSON document")

    made = command("show", "print what the switch holds", SHOW_EXAMPLE)
    made.add_argument("--table", metavar="NAME", help="only this table")
    made.add_argument("--json", action="store_true", help="one JSON document")

    made = command("gains", "print or set the law's gains, port by port", GAINS_EXAMPLE)
    made.add_argument("--port", type=whole(0, configuration.PORT_MAX), metavar="N", help="only this port")
    made.add_argument("--profile", metavar="NAME", help="set from a profile of controller/profiles, or a path")
    made.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="set one key (can be repeated)")
    made.add_argument("--json", action="store_true", help="one JSON document")

    made = command("watch", "print the state of each port's queue and law, or digests as they come", WATCH_EXAMPLE)
    made.add_argument("--every-ms", type=whole(10, 3_600_000), metavar="N", help="how often to read (default 500)")
    made.add_argument("--digest", metavar="NAME", help="take charge, and print this digest of the program as it comes")
    made.add_argument("--jsonl", action="store_true", help="one JSON document a line")
    made.add_argument("--count", type=whole(1, 2**63), metavar="N", help="end after N records")
    made.add_argument("--seconds", type=seconds, metavar="S", help="end after S seconds")
    return switch


def _connect(args: argparse.Namespace) -> Client:
    if (args.tls_cert is None) != (args.tls_key is None):
        raise WrongCall("--tls-cert and --tls-key must be given together")
    files = (args.tls_ca, args.tls_cert, args.tls_key)
    tls = Tls(*files, server_name=args.tls_server_name) if any(files) or args.tls_server_name else None
    return Client(
        args.address,
        args.device_id,
        election_id=args.election_id,
        role=args.role,
        tls=tls,
        connect_timeout_s=args.connect_timeout_s,
        timeout_s=args.timeout_s,
    )


def _deploy(args: argparse.Namespace) -> None:
    if (args.p4info is None) != (args.device_config is None):
        raise WrongCall("--p4info and --device-config must be given together")
    wanted = configuration.load(args.config)
    if wanted.forwards_nothing and not args.empty:
        raise P4RuntimeError(
            f"{args.config}: has no [neighbours.NAME] and no [flood]: the switch would forward nothing; "
            "give --empty if that is meant"
        )
    precompiled = (args.p4info, args.device_config) if args.p4info else None
    with _connect(args) as device:
        if not args.dry_run or args.switch == "auto":
            device.become_primary()
        report = deploy(
            device,
            wanted,
            switch=args.switch,
            main=args.program,
            precompiled=precompiled,
            dry_run=args.dry_run,
            tell=(lambda _: None) if args.json else print,
        )
    if args.json:
        print(json.dumps(vars(report)))
        return
    done = "would be made" if args.dry_run else "made"
    pushed = ("would be pushed, " if args.dry_run else "pushed, ") if report.program_pushed else "is there already, "
    print(f"device {report.device_id} ({report.switch}): program {pushed}{len(report.updates)} changes {done}")


def _show(args: argparse.Namespace) -> None:
    with _connect(args) as device:
        snapshot = show.read_all(device, args.table)
    if args.json:
        print(json.dumps(show.as_data(snapshot)))
    else:
        show.print_snapshot(snapshot, Console(soft_wrap=not sys.stdout.isatty()))


def _changes(words: Sequence[str]) -> dict[str, int | float | str]:
    """What --set says, by key."""
    known = (*gains.KEYS, "digest_interval_us", "delay_source")
    changes = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in known:
            raise WrongCall(f"--set {word}: must be KEY=VALUE, KEY one of {', '.join(known)}")
        changes[key] = gains.value_of(value)
    return changes


def _profile(args: argparse.Namespace) -> gains.Gains | None:
    """The gains of --profile."""
    if args.profile is not None:
        path = Path(args.profile)
        if "/" not in args.profile and path.suffix != ".toml":
            path = configuration.PROFILES / f"{args.profile}.toml"
        try:
            return gains.load(path)
        except FileNotFoundError:
            names = ", ".join(sorted(file.stem for file in configuration.PROFILES.glob("*.toml")))
            raise WrongCall(f"--profile {args.profile}: no such profile; must be one of {names} or a path") from None
    return None


def _new_aqm(
    port: int, profile: gains.Gains | None, changes: dict[str, int | float | str], present: plan.Aqm | str | None
) -> plan.Aqm:
    """The law that the command line asks for, on top of what the port has."""
    if profile is not None:
        base = plan.Aqm(profile)
    elif isinstance(present, plan.Aqm):
        base = present
    else:
        raise P4RuntimeError(f"port {port} has no gains to change; give --profile too")
    changes = dict(changes)
    own = {key: changes.pop(key) for key in ("digest_interval_us", "delay_source") if key in changes}
    interval = own.get("digest_interval_us", base.digest_interval_us)
    if not isinstance(interval, int) or not 0 <= interval < 2**32:
        raise WrongCall(f"--set digest_interval_us = {interval!r}: must be a whole number, 0 .. {2**32 - 1}")
    if own.get("delay_source", base.delay_source) not in plan.DELAY_SOURCES:
        raise WrongCall(f"--set delay_source = {own['delay_source']!r}: must be one of {', '.join(plan.DELAY_SOURCES)}")
    try:
        return replace(base, gains=replace(base.gains, **changes), **own)
    except gains.GainError as error:
        raise WrongCall(f"--set {error}") from None


def _gains(args: argparse.Namespace) -> None:
    setting = args.profile is not None or bool(args.set)
    if setting and args.port is None:
        raise WrongCall("--port must say which port to set")
    profile, changes = _profile(args), _changes(args.set)
    with _connect(args) as device:
        found = show.read_gains(device)
        if setting:
            device.become_primary()
            present = found.get(args.port)
            aqm = _new_aqm(args.port, profile, changes, present)
            if aqm != present:
                entry = plan.aqm_entry(args.port, aqm, device.info)
                device.write([Update.insert(entry) if present is None else Update.modify(entry)])
            found = show.read_gains(device)
    if args.port is not None:
        if args.port not in found:
            there = ", ".join(map(str, found)) or "none, no port runs the law"
            raise P4RuntimeError(f"no port {args.port}: must be one of {there}")
        found = {args.port: found[args.port]}
    if args.json:
        print(json.dumps(show.gains_data(found)))
    else:
        show.print_gains(found, Console(soft_wrap=not sys.stdout.isatty()))


def _watch(args: argparse.Namespace) -> None:
    if args.digest is not None:
        if args.every_ms is not None:
            raise WrongCall("--every-ms means nothing with --digest: digests come when the switch sends them")
        _watch_digests(args)
        return
    if args.election_id is not None:
        raise WrongCall("--election-id means nothing without --digest: watching takes part in no election")
    end_s = None if args.seconds is None else time.monotonic() + args.seconds
    with _connect(args) as device:
        reader = watch.Reader(device, lambda text: print(f"weir: {text}", file=sys.stderr, flush=True))
        records = watch.follow(reader, (args.every_ms or 500) / 1000, end_s)
        watch.print_records(records, json.dumps if args.jsonl else watch.line, args.count)


def _watch_digests(args: argparse.Namespace) -> None:
    with _connect(args) as device:
        device.become_primary()
        name = device.info.digests[args.digest].name
        ours = device.find(DigestConfig(name)) is None
        if ours:
            # Each record at once and acknowledged: a report a port and interval is not much.
            device.write([Update.insert(DigestConfig(name, max_list_size=1, ack_timeout_ns=1_000_000_000))])
        try:
            _print_digests(device, name, args)
        finally:
            if ours:
                device.write([Update.delete(DigestConfig(name))])
        if device.lost_digests:
            raise P4RuntimeError(f"{device.lost_digests} digest lists came faster than they were printed")


def _print_digests(device: Client, name: str, args: argparse.Namespace) -> None:
    end = None if args.seconds is None else time.monotonic() + args.seconds
    count = 0
    while True:
        left_s = None if end is None else end - time.monotonic()
        if left_s is not None and left_s <= 0:
            return
        for digests in device.digests(left_s):
            if digests.digest != name:
                continue
            lines = [json.dumps(r) for r in show.digest_data(digests)] if args.jsonl else show.digest_line(digests)
            for line in lines:
                print(printable(line), flush=True)
                count += 1
                if count == args.count:
                    return
            if end is not None and time.monotonic() >= end:
                return


COMMANDS = {"deploy": _deploy, "show": _show, "gains": _gains, "watch": _watch}


def main(words: Sequence[str] | None = None) -> int:
    args = parser().parse_args(words)
    try:
        COMMANDS[args.command](args)
    except BrokenPipeError:
        # Whoever read our output has seen enough; what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except WrongCall as error:
        print(f"weir: {printable(error, lines=True)}", file=sys.stderr)
        return 2
    except (P4RuntimeError, DescriptorError, configuration.ConfigError, gains.GainError) as error:
        print(f"weir: {printable(error, lines=True)}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"weir: {error.filename or ''}: {error.strerror}", file=sys.stderr)
        return 1
    return 0
