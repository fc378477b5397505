# SPDX-License-Identifier: Apache-2.0
"""`weir watch`: the samples of each port, as JSON lines or text, and for Prometheus. Changes no gains."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ..dataplane.base import Counts, Event, Sample
from ..dataplane.fleet import FleetError
from ..options.arguments import add_metrics_hosts, command, count, seconds
from ..options.devices import FLEET_EXAMPLE
from .jsonl import Writer, counts_line, human, to_line
from .source import P4_NOTE, add_source, open_source, run, until
from .view import Decision, View

EXAMPLE = f"""\
examples:
  weir watch --bpf eth0                                a JSON line a sample, on standard output
  weir watch --p4 10.0.0.1:9559 --text                 lines for people
  weir watch --p4 10.0.0.1:9559 --every-ms 100 --seconds 60 > s1.jsonl
  weir watch --out samples.jsonl --metrics 9464        to a file, and for Prometheus at 127.0.0.1:9464/metrics
  weir watch --fleet fleet.toml --metrics 0.0.0.0:9464 --out /dev/null
  weir watch --from samples.jsonl --follow --metrics 9464 --out /dev/null      beside `weir tune --samples`

{FLEET_EXAMPLE}
{P4_NOTE}

exit status: 0 done, or stopped by SIGINT, SIGTERM or SIGHUP; 1 failed, or lines were lost; 2 wrong call.
"""


def parser() -> argparse.ArgumentParser:
    made = command("watch", "Print the samples of each port. Changes no gains.", EXAMPLE)
    add_source(made)
    made.add_argument("--out", type=Path, metavar="FILE", help="append there instead of standard output")
    made.add_argument("--text", action="store_true", help="lines for people instead of JSON")
    made.add_argument("--metrics", metavar="[HOST:]PORT", help="serve Prometheus; on loopback if there is no HOST")
    add_metrics_hosts(made)
    made.add_argument("--count", type=count, metavar="N", help="end after N samples")
    made.add_argument("--seconds", type=seconds, metavar="S", help="end after this time")
    return made


def _line(event: Event | Decision, for_people: bool) -> str | None:
    if not isinstance(event, Sample | Counts):
        return None
    if for_people:
        return human(event, time.time())
    return to_line(event) if isinstance(event, Sample) else counts_line(event)


def _watch(args: argparse.Namespace) -> int:
    """Status: 1 when lines were lost."""
    view = View()
    if args.metrics_hosts and args.metrics is None:
        raise FleetError("--metrics-hosts: goes with --metrics")
    source = open_source(args)
    writer = server = None
    try:
        if args.metrics is not None:
            from .flow_metrics import FlowCollector
            from .prometheus import MetricsServer, parse_address

            devices = [] if source.fleet is None else source.fleet.devices
            flows = FlowCollector(devices, args.metrics_hosts)
            server = MetricsServer(view, parse_address(args.metrics), more=(flows,))
        if args.out is not None:
            writer = Writer(args.out)
        left = args.count
        with source:
            for batch in until(source, args.seconds):
                lines = []
                for event in batch:
                    line = _line(event, args.text)
                    if line is not None:
                        lines.append(line)
                        if len(lines) == left:
                            break
                left = None if left is None else left - len(lines)
                if writer is not None:
                    writer.write(*lines)
                elif lines:
                    print("\n".join(lines), flush=True)
                if left == 0:
                    break
                now_s = time.time()
                for event in batch:
                    told = view.take(event, now_s)
                    if told:
                        print(f"weir watch: {told}", file=sys.stderr, flush=True)
    finally:
        if writer is not None:
            writer.close()
        if server is not None:
            server.close()
    return 1 if writer is not None and writer.dropped else 0


def main(words: Sequence[str] | None = None) -> int:
    args = parser().parse_args(words)
    return run("watch", lambda: _watch(args))
