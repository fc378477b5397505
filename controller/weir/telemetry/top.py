# SPDX-License-Identifier: Apache-2.0
"""`weir top`: every queue on one screen. Changes no gains."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import median_high
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from ..options.arguments import command, seconds
from ..options.devices import FLEET_EXAMPLE
from ..text import age, printable
from .keys import Keys, typed
from .source import P4_NOTE, End, add_source, open_source, run, until
from .view import HISTORY_POINTS, PortView, View

EXAMPLE = f"""\
examples:
  weir top                                             all eBPF queues of this machine
  weir top --fleet fleet.toml --decisions decisions.jsonl
  weir top --from samples.jsonl --follow --decisions decisions.jsonl       beside `weir tune`, which writes both
  weir top --p4 10.0.0.1:9559 --once                   a table, then end; so it does too where there is no terminal
  weir top --bpf eth0 --by host                        each host's rate, delay, drops and marks; also flow, kind
  weir top --by kind --json                            a JSON line a queue and update

keys: q quit, s sort by the next column, r reverse the order, / show only queues that contain a text, arrows and page
keys scroll. Delay is green up to one and a half times its target, yellow up to three times, red above. Age is the time
since the law's last step (of P4 queues since their registers changed). A queue without a sample for 5 s, or on a device
that is down, is grey and shows its age only. A port in red: the law can't use the queue's measurements; the note has
the reason.

--by reads records of eBPF queues: one packet in 16, and all drops and marks, over the last 10 s. Hosts and flows need
`weir-xdp attach --flow-records`. Delay is that of the queue or band which a packet joined; peaks are of the last 9 to
17 s. A host is local: the source of packets that leave by an interface with a default route, else the destination;
--host overrides. Sources behind NAT are found where /proc/net/nf_conntrack is readable. A flow is sparse, bulk, or
unresponsive: at least 500 packets, a tenth of them dropped or marked, at least 1.5 times the rate of an equal share,
and no less than 0.75 of its rate kept from the first 5 s to the last.

{FLEET_EXAMPLE}
{P4_NOTE}

exit status: 0 done, or stopped by SIGINT, SIGTERM or SIGHUP; 1 failed, or --once saw no queue; 2 wrong call.
"""

_WIDE, _WITH_GAINS, _WITH_COUNTS, _BARS_IN_FULL = 150, 130, 115, 95  # columns of the terminal
_SHOWN_GAINS = ("kp", "ki", "kd")
_BARS = " ▁▂▃▄▅▆▇█"
_KEYS = {
    b"\x1b[A": "up", b"\x1b[B": "down", b"\x1b[5~": "page-up", b"\x1b[6~": "page-down",
    b"\x1b[H": "home", b"\x1b[F": "end", b"\x7f": "erase", b"\r": "enter", b"\n": "enter", b"\x1b": "escape",
}  # fmt: skip


Row = tuple[tuple[str, str], PortView]


def _number(value: Callable[[PortView], float | None]) -> Callable[[Row], tuple]:
    """Largest first, unknown last."""

    def key(row: Row) -> tuple:
        found = value(row[1])
        return (found is None, -(found or 0.0), row[0])

    return key


def _natural(name: str) -> tuple:
    """So that port 10 comes after port 9."""
    return (0, int(name), name) if name.isascii() and name.isdigit() else (1, 0, name)


SORTS: dict[str, Callable[[Row], tuple]] = {
    "port": lambda row: (row[0][0], _natural(row[0][1])),
    "delay": _number(lambda port: port.sample.delay_us if port.sample else None),
    "probability": _number(lambda port: port.sample.drop_probability if port.sample else None),
    "rate": _number(lambda port: port.rates.passed_bit_s if port.rates else None),
    "drops": _number(lambda port: port.rates.drops_s if port.rates else None),
    "marks": _number(lambda port: port.rates.marks_s if port.rates else None),
    "backlog": _number(lambda port: port.sample.backlog_bytes if port.sample else None),
    "decision": _number(lambda port: port.decided_s or None),
}


def sparkline(delays_us: Sequence[int], target_us: int | None, width: int = HISTORY_POINTS) -> str:
    """Delays as bars; half the height is the target, or where that is not known (in a file) the median."""
    top = 2 * (target_us or median_high(delays_us or [0])) or max(delays_us, default=0)
    if not top:
        return " " * width
    bars = [_BARS[min(8, -(-delay * 8 // top))] for delay in delays_us[-width:]]
    return "".join(bars).rjust(width)


def _si(value: float) -> str:
    for factor, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g}{unit}"
    return f"{value:.3g}"


def _count(count: int, name: str) -> str:
    return f"{count} {name}{'' if count == 1 else 's'}"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _gain(gains: dict, key: str) -> str:
    return _short(gains.get(key, ""))


def _ago(port: PortView, decision: Mapping[str, Any], now_s: float) -> str:
    """Age of its decision, by the data plane's clock where both have a time: the input may be a recording."""
    decided_us = decision.get("t_us")
    if port.sample is not None and isinstance(decided_us, int) and decided_us <= port.sample.t_us:
        ago = round((port.sample.t_us - decided_us) / 1e6)
    else:
        ago = max(0, round(now_s - port.decided_s))
    return f"{ago} s" if ago < 100 else f"{ago // 60} min" if ago < 6000 else f"{ago // 3600} h"


def _decision(port: PortView, now_s: float) -> str:
    record = port.decision
    if record is None:
        return ""
    words = [f"{_ago(port, record, now_s)} ago: {record.get('action')}"]
    if record.get("dry_run"):
        words[0] += " (dry run)"
    if port.effect is not None:
        words.append(str(port.effect.get("verdict")))
    words.append(str(record.get("reason", "")))
    changes = record.get("changed", {}).items()
    words.append(", ".join(f"{key} {_short(old)} to {_short(new)}" for key, (old, new) in changes))
    return "; ".join(word for word in words if word)


def _delay_style(delay_us: int, target_us: int | None) -> str:
    if not target_us:
        return ""
    return "green" if delay_us <= 1.5 * target_us else "yellow" if delay_us <= 3 * target_us else "bold red"


class Screen:
    """Display of a View: sorted, filtered, scrolled. Pure but for what keys have set. recorded: the view is of what
    once was, which does not grow old. typed: there are keys, and the last line lists them."""

    def __init__(self, sort: str = "port", contains: str = "", recorded: bool = False, typed: bool = True) -> None:
        self.sort, self.contains, self.recorded, self.typed = sort, contains, recorded, typed
        self.reverse = False
        self.offset = 0
        self.page = 10
        self.typing = False
        self.quit = False

    def keys(self, data: bytes) -> None:
        """Keys typed: one, or several that came at once."""
        while data:
            sequence = next((one for one in _KEYS if data.startswith(one)), None)
            if sequence is None:
                self._key(chr(data[0]))
                data = data[1:]
            else:
                self._key(_KEYS[sequence])
                data = data[len(sequence) :]

    def _key(self, key: str) -> None:
        if self.typing:
            if key in ("enter", "escape"):
                self.typing = False
                self.contains = "" if key == "escape" else self.contains
            elif key == "erase":
                self.contains = self.contains[:-1]
            elif len(key) == 1 and key.isprintable():
                self.contains += key
            self.offset = 0
            return
        names = list(SORTS)
        match key:
            case "q" | "\x03":
                self.quit = True
            case "s":
                self.sort, self.offset = names[(names.index(self.sort) + 1) % len(names)], 0
            case "r":
                self.reverse = not self.reverse
            case "/":
                self.typing, self.contains = True, ""
            case "up" | "down" | "page-up" | "page-down":
                step = self.page if key.startswith("page") else 1
                self.offset += -step if key.endswith("up") else step
            case "home":
                self.offset = 0
            case "end":
                self.offset = sys.maxsize

    def rows(self, view: View) -> list[Row]:
        wanted = self.contains.casefold()
        found = [row for row in view.ports.items() if not wanted or wanted in f"{row[0][0]} {row[0][1]}".casefold()]
        return sorted(found, key=SORTS[self.sort], reverse=self.reverse)

    def render(self, view: View, now_s: float, width: int, height: int | None) -> Group:
        """For a screen of so many columns and lines; no height: all of it."""
        rows = self.rows(view)
        notes = list(view.notes)[-2:]
        self.page = max(1, len(rows) if height is None else height - 4 - len(notes))
        self.offset = max(0, min(self.offset, len(rows) - self.page))
        shown = rows[self.offset : self.offset + self.page]
        parts: list[RenderableType] = [self._head(view, rows, now_s), self._table(view, shown, now_s, width)]
        parts += [Text(note, style="yellow", no_wrap=True, overflow="ellipsis") for note in notes]
        if height is not None:
            parts.append(self._foot(len(rows), len(shown)))
        return Group(*parts)

    def _head(self, view: View, rows: list[Row], now_s: float) -> Text:
        down = [f"{name}: {state.why}" for name, state in view.devices.items() if state.up is False]
        rates = [port.rates for row in rows if (port := row[1]).rates and not self._is_old(view, row, now_s)]
        head = Text(no_wrap=True, overflow="ellipsis")
        head.append("weir top", style="bold")
        head.append(f"  {time.strftime('%H:%M:%S', time.localtime(now_s))}  ")
        head.append(f"{_count(len(view.devices) - len(down), 'device')} up, {_count(len(rows), 'queue')}, ")
        head.append(f"{_si(sum(rate.passed_bit_s for rate in rates))}bit/s, ")
        head.append(f"{sum(rate.drops_s for rate in rates):.0f} drops/s, {sum(r.marks_s for r in rates):.0f} marks/s")
        if down:
            head.append(f"  down: {printable('; '.join(down))}", style="bold red")
        return head

    def _is_old(self, view: View, row: Row, now_s: float) -> bool:
        (device, _), port = row
        return not self.recorded and (port.is_stale(now_s) or view.devices[device].up is False)

    def _table(self, view: View, shown: list[Row], now_s: float, width: int) -> Table:
        """A narrow terminal has fewer columns, not cut ones."""
        table = Table(box=None, pad_edge=False, padding=(0, 1), header_style="bold", expand=width >= _WIDE)
        bars = HISTORY_POINTS if width >= _BARS_IN_FULL else 8

        def column(name: str, sort: str = "", right: bool = True, **more: Any) -> None:
            mark = (" ▲" if self.reverse else " ▼") if sort == self.sort else ""
            table.add_column(name + mark, justify="right" if right else "left", no_wrap=True, **more)

        column("device", "port", right=False, overflow="ellipsis", max_width=20 if width >= _BARS_IN_FULL else 12)
        column("port", right=False, overflow="ellipsis", max_width=16)
        column("delay ms", "delay")
        column("target")
        column("last 12 s" if bars == HISTORY_POINTS else "last 4 s", right=False, min_width=bars)
        column("prob. %", "probability")
        column("bit/s", "rate")
        column("drops/s", "drops")
        column("age")
        if width >= _WITH_COUNTS:
            column("marks/s", "marks")
            column("backlog B", "backlog")
        if width >= _WITH_GAINS:
            for key in _SHOWN_GAINS:
                column(key)
        if width >= _WIDE:
            column("last decision", "decision", right=False, overflow="ellipsis", ratio=1)
        for row in shown:
            (device, name), port = row
            target_us = port.gains.get("target_us")
            stale = self._is_old(view, row, now_s)
            sample, rates = (None, None) if stale else (port.sample, port.rates)
            style = "" if sample is None else _delay_style(sample.delay_us, target_us)
            history = [] if stale else [delay for _, delay in port.history]
            cells: list[RenderableType] = [
                Text(printable(device)),
                Text(printable(name), style="bold red" if sample and sample.trouble else ""),
                Text(f"{sample.delay_us / 1000:.1f}" if sample else "", style=style),
                f"{target_us / 1000:g}" if target_us else "",
                Text(sparkline(history, target_us, bars), style=style),
                f"{100 * sample.drop_probability:.2f}" if sample else "",
                _si(rates.passed_bit_s) if rates else "",
                f"{rates.drops_s:.0f}" if rates else "",
                "" if self.recorded else age(port.age_s(now_s)),
            ]
            if width >= _WITH_COUNTS:
                cells += [f"{rates.marks_s:.0f}" if rates else "", _si(sample.backlog_bytes) if sample else ""]
            if width >= _WITH_GAINS:
                cells += [_gain(port.gains, key) for key in _SHOWN_GAINS]
            if width >= _WIDE:
                cells.append(Text(printable(_decision(port, now_s))))
            table.add_row(*cells, style="bright_black" if stale else "")
        return table

    def _foot(self, count: int, shown: int) -> Text:
        where = f"{self.offset + 1}..{self.offset + shown} of {count}" if shown < count else _count(count, "queue")
        if self.typing:
            return Text(f"/{printable(self.contains)}_", style="reverse", no_wrap=True)
        only = f"  only: {self.contains}" if self.contains else ""
        keys = "   q quit  s sort  r reverse  / filter  arrows scroll" if self.typed else ""
        return Text(f"{where}{only}{keys}", style="reverse", no_wrap=True)


def parser() -> argparse.ArgumentParser:
    made = command("top", "Show every queue. Changes no gains.", EXAMPLE)
    add_source(made)
    made.add_argument("--decisions", type=Path, metavar="FILE", help="file that `weir tune --decisions` writes")
    made.add_argument("--by", choices=("host", "flow", "kind"), help="the traffic of eBPF queues by these")
    made.add_argument(
        "--host", choices=("source", "destination"), help="--by host: the local end of a packet (default: by routes)"
    )
    made.add_argument("--json", action="store_true", help="--by: JSON lines")
    made.add_argument("--sort", choices=SORTS, default="port", help="(default %(default)s)")
    made.add_argument("--filter", default="", metavar="TEXT", help="only queues whose device or port contains it")
    made.add_argument(
        "--every-s", type=seconds, default=1.0, metavar="S", help="time between two updates (default %(default)s)"
    )
    made.add_argument("--once", action="store_true", help="one table, as text")
    made.add_argument(
        "--seconds", type=seconds, metavar="S", help="end after this time (--once: default 2, or a file's end)"
    )
    return made


def _once(args: argparse.Namespace, screen: Screen) -> int:
    """Status: 1 when there is no queue to show."""
    view = View()
    with open_source(args, args.decisions) as source:
        for batch in until(source, args.seconds or (None if source.ends else 2.0)):
            for event in batch:
                view.take(event, time.time())
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = 200
    console.print(screen.render(view, time.time(), console.width, None))
    if view.ports:
        return 0
    why = "; ".join(f"{name}: {state.why}" for name, state in view.devices.items() if state.why)
    print(f"weir top: no sample from any queue{': ' + printable(why) if why else ''}", file=sys.stderr)
    return 1


def _live(args: argparse.Namespace, screen: Screen) -> int:
    view = View()
    end_s = None if args.seconds is None else time.monotonic() + args.seconds
    console = Console(highlight=False)
    with open_source(args, args.decisions) as source, typed(source.events):
        first = screen.render(view, time.time(), *console.size)
        with Live(first, console=console, screen=True, auto_refresh=False) as live:
            shown_s = time.monotonic()
            while not screen.quit and (end_s is None or time.monotonic() < end_s):
                pressed = False
                for event in source.next(max(0.0, shown_s + args.every_s - time.monotonic())):
                    if isinstance(event, Keys):
                        screen.keys(event.data)
                        pressed = True
                    elif not isinstance(event, End):  # a file's last state stays on the screen
                        view.take(event, time.time())
                if pressed or time.monotonic() - shown_s >= args.every_s:
                    live.update(screen.render(view, time.time(), *console.size), refresh=True)
                    shown_s = time.monotonic()
    return 0


def main(words: Sequence[str] | None = None) -> int:
    args = parser().parse_args(words)
    if args.by is not None or args.json or args.host is not None:
        from . import flow_top

        return run("top", lambda: flow_top.show(args))
    show = _once if args.once or not sys.stdout.isatty() else _live
    return run("top", lambda: show(args, Screen(args.sort, args.filter, args.file is not None and not args.follow)))
