# SPDX-License-Identifier: Apache-2.0
"""`weir p4`: functions of P4 switches alone, over P4Runtime."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from ..gains import GainError
from ..options.arguments import (
    DONE,
    EXIT_STATUS,
    FAILED,
    WRONG_CALL,
    Subcommand,
    complain,
    count,
    seconds,
    status_of,
    whole,
)
from ..options.devices import add_p4_options, p4_options
from ..p4runtime.client import Client
from ..p4runtime.connection import parse_address
from ..p4runtime.descriptors import DescriptorError
from ..p4runtime.values import P4RuntimeError
from ..programs import PID_DELAY, PROGRAMS
from ..settings import SettingsError
from ..switch import config as configuration
from ..switch import digests, runtime_json, show, trace
from ..switch.deploy import KINDS, deploy, set_program
from ..switch.program import UnreadableProgram, precompiled
from ..text import printable

DEPLOY_EXAMPLE = """\
examples:
  weir p4 deploy --config s1.toml                                  the switch at 127.0.0.1:9559
  weir p4 deploy --switch bmv2 --config s1.toml --dry-run          print what would be written
  weir p4 deploy --switch bmv2 --config s1.toml \\
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
  profile = "tuned"                    #   that comes with Weir, or a path; any of its keys may follow
  target_us = 5000
  [coupled.port.2]                     # two coupled bands for L4S: --program pid_delay_l4s.p4, p4/README.md
  coupling = 2                         #   also ramp_least_us, ramp_us, floor_bytes
  [aqm.port.1]
  [bands.port.1]                       # sparse and young flows ahead of bulk; the switch needs --priority-queues 2
  ahead_share = 0.1                    #   also ahead_most_bytes, ahead_least_bytes
  [advice.port.1]                      # throughput advice for QUIC (SCONE): --program pid_delay_scone.p4
  rate_mbit_s = 8
  [names]                              # forwarding by name: --program edge.p4, or icn.p4 for names alone
  quota = 2048                         #   unanswered entries of one port; also least_lifetime_us
  [names.port.4]                       # of this port another number
  quota = 8192
  [[names.route]]                      # Interests for these names go to the port (0 .. 31),
  prefix = "/weir/files"
  port = 2
  other = 3                            #   to this one if they came from it

The file describes all of the switch: routes, next hops, stations, flooding and gains that are on the switch and not in
the file are removed. A switch that already agrees with the file is not written to.

exit status: 0 done, 1 failed, 2 wrong call.
"""

SHOW_EXAMPLE = f"""\
examples:
  weir p4 show                     tables, groups, counters, registers of the switch at 127.0.0.1:9559
  weir p4 show --table ipv4_lpm    one table
  weir p4 show --names --config s1.toml    only what is forwarded by name; routes, which are hashes, by the file's names
  weir p4 show --counters --json | jq .counters    only these, and of them those that are not 0
Reading takes part in no election of controllers.

{EXIT_STATUS}
"""

LOAD_EXAMPLE = f"""\
examples:
  weir p4 load s1-runtime.json --p4 127.0.0.1:50051    a runtime file of p4lang's tutorials
  weir p4 load pod-topo/s1-runtime.json --dry-run      check the file, write nothing
The program takes the place of the present one and its entries. Paths in the file are relative to the working folder,
else to the file's own.

{EXIT_STATUS}
"""

DIGESTS_EXAMPLE = f"""\
examples:
  weir p4 digests                                  the law's, of each port as it comes, as lines for people
  weir p4 digests aqm_state_t --jsonl --seconds 60 > s1.jsonl
  weir p4 digests --election-id 9                  takes charge from a controller with a lower id
Digests go to the controller in charge alone: this command takes charge where nobody is, and ends when another takes it.
`weir watch` reads the same of each port's law and excludes nobody. A port sends a digest every digest_interval_us, with
the first packet after it.

{EXIT_STATUS}
"""

TRACE_EXAMPLE = f"""\
examples:
  weir-switch --p4 router.p4 -i 1@veth0 -i 2@veth1 --trace trace.jsonl
  weir p4 trace trace.jsonl --packet 3        the path of the third packet received
  weir p4 trace trace.jsonl --dropped --follow    packets that are dropped, as they come
  weir-switch --p4 router.p4 -i 1@veth0 --trace - | weir p4 trace --table ipv4_lpm
Each packet is a tree: parser states, tables with keys and entries, actions, copies, the ports that it leaves by, the
reason of a drop. Of random choices and action selectors the possible outcomes are listed. Where no packet matches, the
exit status is 1, and the message has the ports or tables of the trace.

{EXIT_STATUS}
"""


class WrongCall(P4RuntimeError):
    """Options that do not go together or mean nothing, found after argparse's own checks."""


def _address(text: str) -> str:
    try:
        parse_address(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def parser() -> argparse.ArgumentParser:
    switch = argparse.ArgumentParser(
        prog="weir p4",
        description="Programs, tables, digests of P4 switches (P4Runtime). Gains: `weir gains`; samples: `weir watch`.",
        epilog=f"Each command has --help with examples.\n\n{EXIT_STATUS}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = switch.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Subcommand)

    def command(name: str, help_text: str, example: str, has_device: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name,
            help=help_text,
            description=help_text[0].upper() + help_text[1:] + ".",
            epilog=example,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if not has_device:
            return made
        device = made.add_argument_group("the switch")
        device.add_argument(
            "--p4",
            "--address",
            dest="address",
            type=_address,
            default="127.0.0.1:9559",
            metavar="HOST:PORT",
            help="its P4Runtime server, or unix:PATH (default %(default)s)",
        )
        add_p4_options(device)
        return made

    made = command("deploy", "push program, routes, next hops, flooding and gains", DEPLOY_EXAMPLE)
    made.add_argument("--config", type=Path, required=True, metavar="FILE.toml", help="the switch's configuration")
    made.add_argument("--switch", choices=(*KINDS, "auto"), default="auto", help="its kind (default: ask it)")
    made.add_argument(
        "--program", type=Path, default=PID_DELAY.source, metavar="FILE.p4", help="P4 source (default pid_delay.p4)"
    )
    made.add_argument("--p4info", type=Path, metavar="FILE", help="a compiled program's P4Info: text, JSON or binary")
    made.add_argument("--device-config", type=Path, metavar="FILE", help="its device configuration (BMv2: JSON)")
    made.add_argument("--empty", action="store_true", help="accept a file with which the switch forwards nothing")
    made.add_argument("--dry-run", action="store_true", help="print what would be written, write nothing")
    made.add_argument("--json", action="store_true", help="print what was done as one JSON document")

    made = command("load", "push the program and the entries of a runtime file of p4lang's tutorials", LOAD_EXAMPLE)
    made.add_argument("file", type=Path, metavar="FILE.json", help="the runtime file")
    made.add_argument("--dry-run", action="store_true", help="check the file and its program's P4Info, write nothing")

    made = command("show", "print tables, groups, counters and registers of a switch", SHOW_EXAMPLE)
    part = made.add_mutually_exclusive_group()
    part.add_argument("--table", metavar="NAME", help="only this table")
    part.add_argument("--names", action="store_true", help="only tables and registers of forwarding by name")
    part.add_argument("--counters", action="store_true", help="only counters: little to read, as often as you like")
    made.add_argument(
        "--config",
        type=Path,
        metavar="FILE.toml",
        help="deployed configuration; its prefixes are printed beside hashes",
    )
    made.add_argument("--json", action="store_true", help="one JSON document")

    made = command("digests", "take charge, and print a program's digests as they come", DIGESTS_EXAMPLE)
    made.add_argument(
        "name", nargs="?", default=PID_DELAY.digest, metavar="NAME", help="name of the digest (default %(default)s)"
    )
    made.add_argument("--jsonl", action="store_true", help="one JSON document a line")
    made.add_argument("--count", type=count, metavar="N", help="end after N records")
    made.add_argument("--seconds", type=seconds, metavar="S", help="end after S seconds")

    made = command("trace", "print the paths of packets that weir-switch traced", TRACE_EXAMPLE, has_device=False)
    made.add_argument("file", nargs="?", default="-", metavar="FILE", help="the trace (default: standard input)")
    made.add_argument("--packet", type=count, metavar="N", help="only the Nth packet received")
    made.add_argument("--port", type=whole(0, 511), metavar="P", help="only packets received or sent on this port")
    made.add_argument("--table", metavar="NAME", help="only packets to which this table was applied")
    made.add_argument("--dropped", action="store_true", help="only packets that were dropped, or a copy of which was")
    made.add_argument("--follow", action="store_true", help="go on with lines that are added to FILE")
    return switch


def _connect(args: argparse.Namespace) -> Client:
    return Client(args.address, **p4_options(args))


def _deploy(args: argparse.Namespace) -> None:
    if (args.p4info is None) != (args.device_config is None):
        raise WrongCall("--p4info and --device-config must be given together")
    wanted = configuration.load(args.config)
    if wanted.forwards_nothing and not args.empty:
        raise WrongCall(
            f"{args.config}: has no [neighbours.NAME], no [flood] and no [[names.route]]: the switch would forward "
            "nothing; "
            "give --empty if that is meant"
        )
    files = (args.p4info, args.device_config) if args.p4info else None
    with _connect(args) as device:
        if not args.dry_run or args.switch == "auto":
            device.become_primary()
        report = deploy(
            device,
            wanted,
            switch=args.switch,
            main=args.program,
            precompiled=files,
            dry_run=args.dry_run,
            tell=(lambda _: None) if args.json else print,
        )
    if args.json:
        print(json.dumps(vars(report)))
        return
    done = "would be made" if args.dry_run else "made"
    pushed = ("would be pushed, " if args.dry_run else "pushed, ") if report.program_pushed else "is there already, "
    print(f"device {report.device_id} ({report.switch}): program {pushed}{len(report.updates)} changes {done}")


def _load(args: argparse.Namespace) -> None:
    wanted = runtime_json.load(args.file)
    program = precompiled(wanted.p4info, wanted.device_config)
    if program.p4info is None:
        raise WrongCall(f"{wanted.p4info}: must be a P4Info")
    updates = runtime_json.updates(wanted, program.p4info)
    where = "dry run"
    if not args.dry_run:
        with _connect(args) as device:
            device.become_primary()
            set_program(device, program, "bmv2")
            device.write(updates)
            where = f"device {device.device_id} at {device.address}"
    counts = f"{len(wanted.tables)} table entries, {len(wanted.groups)} multicast groups"
    done = "would be loaded" if args.dry_run else "loaded"
    print(f"{where}: program, {counts} and {len(wanted.sessions)} clone sessions {done}")


def _show(args: argparse.Namespace) -> None:
    names = configuration.load(args.config).names if args.config else None
    prefixes = {bits: route.prefix for bits, route in names.routes.items()} if names else {}
    with _connect(args) as device:
        if args.counters:
            snapshot = show.read_counters(device)
        else:
            snapshot = show.read_names(device) if args.names else show.read_all(device, args.table)
    if args.json:
        print(json.dumps(show.as_data(snapshot, prefixes)))
    else:
        show.print_snapshot(snapshot, Console(soft_wrap=not sys.stdout.isatty()), prefixes)


def _digests(args: argparse.Namespace) -> None:
    with _connect(args) as device:
        device.become_primary()
        left = args.count
        with digests.sent(device, args.name) as name:
            for found in digests.lists(device, name, args.seconds):
                if args.jsonl:
                    lines = [json.dumps(record) for record in digests.as_data(found)]
                else:
                    lines = [describe_record(found.digest, record) for record in found.records]
                for line in lines[:left]:
                    print(printable(line), flush=True)
                left = None if left is None else left - len(lines[:left])
                if left == 0:
                    return


def _trace(args: argparse.Namespace) -> None:
    def tell(text: str) -> None:
        print(f"weir p4 trace: {text}", file=sys.stderr, flush=True)

    wanted = (args.port, args.table, args.dropped)
    seen, is_printed = trace.Seen(), False
    for packet in trace.packets(trace.read(args.file, args.follow), tell):
        if args.packet is not None and packet.number != args.packet:
            continue
        seen.add(packet)
        if trace.is_wanted(packet, *wanted):
            print(printable("\n".join(trace.tree(packet).lines()), lines=True), flush=True)
            is_printed = True
        if args.packet is not None:
            break
    if args.packet is not None and not seen.packets:
        raise trace.TraceError(f"packet {args.packet} is not in the trace")
    if not is_printed and wanted != (None, None, False):
        chosen = "" if args.packet is None else f"packet {args.packet}: "
        raise trace.TraceError(printable(chosen + seen.none_wanted(*wanted)))


def describe_record(digest: str, record: object) -> str:
    """A record of a digest as a line for people, in the words of the program that has such a digest."""
    program = next((program for program in PROGRAMS if program.digest == digest), PID_DELAY)
    return program.describe_record(digest, record)


COMMANDS = {"deploy": _deploy, "load": _load, "show": _show, "digests": _digests, "trace": _trace}


def main(words: Sequence[str] | None = None) -> int:
    args = parser().parse_args(words)
    try:
        COMMANDS[args.command](args)
    except BrokenPipeError:
        # The reader of our output has seen enough; buffered output has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except (WrongCall, UnreadableProgram, SettingsError, configuration.ConfigError, GainError) as error:
        said, status = str(error), WRONG_CALL
    except (P4RuntimeError, DescriptorError, trace.TraceError) as error:
        said, status = str(error), FAILED
    except OSError as error:
        said, status = f"{error.filename or 'standard output'}: {error.strerror}", status_of(error)
    else:
        return DONE
    complain(f"p4 {args.command}", said, lines=True)
    return status
