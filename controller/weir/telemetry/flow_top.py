# SPDX-License-Identifier: Apache-2.0
"""`weir top --by`: hosts, flows or kinds of packets of eBPF queues. Changes nothing."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from queue import Empty, SimpleQueue
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..dataplane.bpf import BpfDevice
from ..dataplane.fleet import FleetError
from ..options.devices import fleet_of
from ..text import printable
from .flow_readings import FlowReadings
from .flow_records import UNRESPONSIVE, Row
from .keys import Keys, typed

SORTS: dict[str, Callable[[Row], float]] = {
    "rate": lambda row: row.bit_s,
    "delay": lambda row: row.delay_mean_us or 0.0,
    "drops": lambda row: row.drop_share,
    "marks": lambda row: row.mark_share,
}
_ONCE_S = 2.0
_WIDE, _NARROW = 110, 64  # columns of the terminal
_FIGURES = {name: name for name in ("bit/s", "share %", "delay ms", "peak ms", "drops %", "marks %")}
_FIGURES_SHORT = {"bit/s": "bit/s", "delay ms": "ms", "peak ms": "peak", "drops %": "drop%"}
_FIGURES_NARROW = {"bit/s": "bit/s", "delay ms": "ms", "drops %": "drop%"}


def _rows(readings: FlowReadings, args: argparse.Namespace) -> Iterator[tuple[tuple[str, str], Row]]:
    for port, window in readings.windows.items():
        last = window.last
        if last is not None:
            for row in window.rows(args.by, readings.local(last, args.host) if args.by == "host" else None):
                if args.filter.casefold() in row.name.casefold():
                    yield port, row


def _json_lines(readings: FlowReadings, args: argparse.Namespace) -> list[str]:
    lines = []
    rows = list(_rows(readings, args))
    for (device, port), window in readings.windows.items():
        last = window.last
        if last is None or (last.flows is None and args.by != "kind"):
            continue
        of = [row for where, row in rows if where == (device, port)]
        lines.append(
            json.dumps(
                {
                    "k": "flows", "t_us": last.t_us, "device": device, "port": port, "by": args.by,
                    "sample_one_in": last.one_in, "over_us": of[0].over_us if of else 0,
                    "rows": [row.data() for row in of],
                }
            )
        )  # fmt: skip
    return lines


def _si(value: float) -> str:
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


def _cells(row: Row) -> dict[str, str]:
    return {
        "bit/s": _si(row.bit_s),
        "share %": f"{100 * row.share:.1f}",
        "delay ms": "" if row.delay_mean_us is None else f"{row.delay_mean_us / 1000:.1f}",
        "peak ms": f"{row.delay_peak_us / 1000:.1f}",
        "drops %": f"{100 * row.drop_share:.2f}",
        "marks %": f"{100 * row.mark_share:.2f}",
    }


class FlowScreen:
    def __init__(self, args: argparse.Namespace) -> None:
        self._args = args
        self.sort = args.sort if args.sort in SORTS else "rate"
        self.reverse = self.quit = False

    def keys(self, data: bytes) -> None:
        for key in data.decode(errors="replace"):
            if key in ("q", "\x03"):
                self.quit = True
            elif key == "s":
                names = list(SORTS)
                self.sort = names[(names.index(self.sort) + 1) % len(names)]
            elif key == "r":
                self.reverse = not self.reverse

    def render(self, readings: FlowReadings, width: int, height: int | None, typed: bool) -> Group:
        rows = list(_rows(readings, self._args))
        if self._args.by != "kind":
            rows.sort(key=lambda one: SORTS[self.sort](one[1]), reverse=not self.reverse)
        last = next((window.last for window in readings.windows.values() if window.last), None)
        sampled = f", one packet in {last.one_in}" if last else ""
        over_s = rows[0][1].over_us / 1e6 if rows else 0
        head = f"weir top by {self._args.by}: {len(rows)}, over {over_s:.1f} s{sampled}"
        parts: list[RenderableType] = [Text(head, style="bold", no_wrap=True, overflow="ellipsis")]
        notes = [] if self._args.by == "kind" and rows else [f"{who}: {why}" for who, why in readings.why.items()]
        room = len(rows) if height is None else max(1, height - 3 - len(notes))
        parts.append(self._table(readings, rows[:room], width))
        parts += [Text(printable(note), style="yellow", no_wrap=True, overflow="ellipsis") for note in notes]
        if height is not None:
            keys = f"   q quit  s sort ({self.sort})  r reverse" if typed else ""
            shown = f"{min(room, len(rows))} of {len(rows)}"
            parts.append(Text(shown + keys, style="reverse", no_wrap=True))
        return Group(*parts)

    def _table(self, readings: FlowReadings, rows: list[tuple[tuple[str, str], Row]], width: int) -> Table:
        """A narrow terminal has fewer columns, and the names of unresponsive flows and their hosts begin with "!"."""
        narrow, several = width < _NARROW, len(readings.windows) > 1
        figures = _FIGURES_NARROW if narrow else _FIGURES if width >= _WIDE else _FIGURES_SHORT
        has_kinds = self._args.by != "kind" and not narrow
        kind_width = 0 if not has_kinds else 12 if self._args.by == "flow" else max(12, width // 4)
        port_width = 8 if narrow else 12
        taken = (
            sum(max(5, len(head)) + 2 for head in figures.values())
            + has_kinds * (kind_width + 2)
            + several * (port_width + 2)
        )
        table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold")
        if several:
            table.add_column("port", no_wrap=True, overflow="ellipsis", max_width=port_width)
        table.add_column(self._args.by, no_wrap=True, overflow="ellipsis", max_width=max(8, width - taken))
        for name in figures:
            table.add_column(figures[name], justify="right", no_wrap=True, min_width=5)
        if has_kinds:
            table.add_column("kind", no_wrap=True, overflow="ellipsis", max_width=kind_width)
        for (_, port), row in rows:
            style = "bold red" if UNRESPONSIVE in row.flows else ""
            found = _cells(row)
            cells: list[RenderableType] = [printable(port)] if several else []
            cells.append(Text(("!" if narrow and style else "") + printable(row.name), style=style))
            cells += [found[name] for name in figures]
            table.add_row(*cells, *([Text(row.kind, style=style)] if has_kinds else []))
        return table


def _check(args: argparse.Namespace) -> None:
    if args.by is None:
        raise FleetError(f"--{'json' if args.json else 'host'}: goes with --by")
    if args.host is not None and args.by != "host":
        raise FleetError("--host: goes with --by host")
    if args.file is not None or args.p4 or args.decisions is not None:
        raise FleetError("--by: reads eBPF queues; goes without --from, --p4 and --decisions")
    if args.sort != "port" and args.sort not in SORTS:
        raise FleetError(f"--sort {args.sort}: must be one of {', '.join(SORTS)} with --by")


def _once(args: argparse.Namespace, readings: FlowReadings) -> int:
    """Three readings, so that a rate has two halves. Status: 1 when there is nothing to show."""
    for _ in range(2):
        readings.read()
        time.sleep((args.seconds or _ONCE_S) / 2)
    readings.read()
    if args.json:
        lines = _json_lines(readings, args)
        print("\n".join(lines), end="\n" if lines else "")
        found = bool(lines)
    else:
        console = Console(highlight=False)
        if not console.is_terminal and "COLUMNS" not in os.environ:
            console.width = 200
        console.print(FlowScreen(args).render(readings, console.width, None, False))
        found = any(
            window.last is not None and (args.by == "kind" or window.last.flows is not None)
            for window in readings.windows.values()
        )
    if found:
        return 0
    why = "; ".join(f"{who}: {words}" for who, words in readings.why.items()) or "no eBPF queue"
    print(f"weir top: {printable(why)}", file=sys.stderr)
    return 1


def _lines(args: argparse.Namespace, readings: FlowReadings) -> int:
    end_s = None if args.seconds is None else time.monotonic() + args.seconds
    while end_s is None or time.monotonic() < end_s:
        readings.read()
        for line in _json_lines(readings, args):
            print(line, flush=True)
        time.sleep(args.every_s)
    return 0


def _live(args: argparse.Namespace, readings: FlowReadings) -> int:
    screen = FlowScreen(args)
    events: SimpleQueue[Any] = SimpleQueue()
    console = Console(highlight=False)
    end_s = None if args.seconds is None else time.monotonic() + args.seconds
    due_s = time.monotonic()
    keyed = sys.stdin.isatty()
    with typed(events), Live(Text(""), console=console, screen=True, auto_refresh=False) as live:
        while not screen.quit and (end_s is None or time.monotonic() < end_s):
            if time.monotonic() >= due_s:
                readings.read()
                due_s = time.monotonic() + args.every_s
            live.update(screen.render(readings, *console.size, keyed), refresh=True)
            try:
                event = events.get(timeout=max(0.0, due_s - time.monotonic()))
            except Empty:
                continue
            if isinstance(event, Keys):
                screen.keys(event.data)
    return 0


def show(args: argparse.Namespace) -> int:
    _check(args)
    fleet = fleet_of(args, default_all=True)
    if not any(isinstance(device, BpfDevice) for device in fleet.devices):
        raise FleetError("--by: reads eBPF queues; the fleet has none")
    readings = FlowReadings(fleet.devices)
    if args.once or not (args.json or sys.stdout.isatty()):
        return _once(args, readings)
    return _lines(args, readings) if args.json else _live(args, readings)
