# SPDX-License-Identifier: Apache-2.0
"""`weir tune`: the thin shell around the tuners. Devices' threads feed one queue, read and answered here."""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..dataplane.base import DataPlaneError, Down, Event, GainsChanged, Note, Sample, Up
from ..dataplane.fleet import Fleet, FleetError, from_words, load_fleet
from .core import Decision, Effect, Settings, Tuner

HELP = """
Finds out what each port's line carries, how long round trips are and how heavy the load is, gives it gains that fit,
and watches what they do. Prints one line for each decision, with its reason; docs/tuning.md is the operator's page.

It changes a port at most once in --at-most-every-s, takes back a trial that makes things worse, and leaves a port
alone once somebody else has set its gains (kill -USR1 resumes all such ports). It ends at SIGTERM or SIGINT, and the
gains stay as they are.
"""
FIRST_WORD_S = 5.0
"""A device that has said nothing for so long is reported, and no longer waited for."""
NONE, USAGE, FAILED = 0, 2, 1


class TuneError(Exception):
    """What is wrong, and what would be right."""


@dataclass(frozen=True)
class _Rtt:
    base_us: int
    source: str


@dataclass(frozen=True)
class _Told:
    """A line from a thread for standard error."""

    text: str


class _Stop:
    pass


class _Resume:
    pass


def _say(text: str) -> None:
    with suppress(OSError):  # standard error fails too: nowhere is left to tell it, and queues still need their tuner
        print(f"weir: {text}", file=sys.stderr, flush=True)


def human(line: Decision | Effect) -> str:
    """A decision or a trial's outcome for people: one line."""
    where = f"{line.t_us / 1e6:10.3f} {line.device}:{line.port}"
    if isinstance(line, Effect):
        parts = [
            f"delay {before:.1f} -> {after:.1f} ms, sd {sd_before:.1f} -> {sd_after:.1f} ms"
            for before, after, sd_before, sd_after in [
                (line.before.delay_mean_us / 1e3, line.after.delay_mean_us / 1e3,
                 line.before.delay_sd_us / 1e3, line.after.delay_sd_us / 1e3)
            ]
        ]  # fmt: skip
        if line.before.utilisation is not None and line.after.utilisation is not None:
            parts.append(f"line used {100 * line.before.utilisation:.1f} -> {100 * line.after.utilisation:.1f} %")
        return f"{where} {line.verdict}: {', '.join(parts)}"
    changes = ", ".join(f"{key} {old} -> {new}" for key, (old, new) in line.changed.items())
    known = []
    if line.rtt_ms is not None and line.changed:
        known.append(f"RTT {line.rtt_ms:.3g} ms {line.rtt_source}")
    if line.flows is not None:
        known.append(f"about {line.flows:.2g} flows")
    if line.stable is False:
        decibels = "" if line.gain_margin_db is None else f", {line.gain_margin_db:.0f} dB"
        known.append(f"unstable by the linear model{decibels}")
    elif line.phase_margin_deg is not None:
        known.append(f"phase margin {line.phase_margin_deg:.0f} degrees by the linear model")
    dry = " (dry run: not written)" if line.dry_run and line.changed else ""
    told = f" [{'; '.join(known)}]" if known else ""
    return f"{where} {line.action}: {line.reason}{': ' + changes if changes else ''}{told}{dry}"


class _Output:
    """Standard output: a tuner goes on without it. `nobody_reads` is called when its reader has gone."""

    def __init__(self, nobody_reads: Callable[[], object]):
        self._nobody_reads = nobody_reads
        self._failing = False

    def line(self, text: str) -> None:
        try:
            print(text, flush=True)
            self._failing = False
        except BrokenPipeError:
            self._nobody_reads()
        except OSError as error:
            if not self._failing:
                _say(f"standard output: {error.strerror}; tuning goes on, lines may be missing there")
            self._failing = True

    def close(self) -> None:
        """What can't be written now never will be, and must not be this process's status."""
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class Shell:
    """Takes events from one queue, asks the tuners, writes gains, tells. All in one thread but for the devices'."""

    def __init__(self, fleet: Fleet, settings: Settings, tell: Callable[[Decision | Effect], None]):
        self.fleet, self.settings, self.tell = fleet, settings, tell
        self.tuners: dict[tuple[str, str], Tuner] = {}
        self.last_us: dict[tuple[str, str], int] = {}
        self.heard: set[str] = set()
        self.on_sample: list[Callable[[Sample], object]] = []
        self.on_event: list[Callable[[Any], object]] = []
        self.on_line: list[Callable[[dict[str, Any]], object]] = []

    def event(self, event: Any) -> None:
        now_us = time.monotonic_ns() // 1000
        if isinstance(event, Event):  # the data planes'; orders to this shell are nobody else's
            for take in self.on_event:
                take(event)
        if isinstance(event, Sample):
            for take in self.on_sample:
                take(event)
            key = event.device, event.port
            self.last_us[key] = event.t_us
            tuner = self.tuners.get(key)
            if tuner is not None:
                self.act(tuner.sample(event, event.t_us))
        elif isinstance(event, Up):
            self.heard.add(event.device)
            if event.restored:
                ports = ", ".join(event.gains)
                _say(f"{event.device}: had lost its gains and was given them back ({ports})")
            for port, gains in event.gains.items():
                key = event.device, port
                if key in self.tuners:
                    self.act(self.tuners[key].back(gains, self.last_us.get(key, now_us)))
                else:
                    self.tuners[key] = Tuner(self.settings, event.device, port, gains, now_us)
        elif isinstance(event, Down):
            self.heard.add(event.device)
            _say(f"{event.device}: {event.why}; tried again in {event.retry_s:g} s")
            for (device, port), tuner in self.tuners.items():
                if device == event.device:
                    self.act(tuner.lost(self.last_us.get((device, port), now_us)))
        elif isinstance(event, GainsChanged):
            tuner = self.tuners.get((event.device, event.port))
            if tuner is not None:
                self.act(tuner.operator_set(event.gains, self.last_us.get((event.device, event.port), now_us)))
        elif isinstance(event, Note):
            _say(f"{event.device}{'' if event.port is None else ':' + event.port}: {event.text}")
        elif isinstance(event, _Rtt):
            for tuner in self.tuners.values():
                tuner.rtt(event.base_us, event.source, now_us)
        elif isinstance(event, _Told):
            _say(event.text)
        elif isinstance(event, _Resume):
            for key, tuner in self.tuners.items():
                self.act(tuner.resume(self.last_us.get(key, now_us)))

    def act(self, lines: list[Decision] | list[Decision | Effect]) -> None:
        for line in lines:
            refused = self.write(line) if isinstance(line, Decision) and line.gains is not None else []
            self.tell(line)
            for take in self.on_line:
                take(line.record())
            self.act(refused)

    def write(self, decision: Decision) -> list[Decision]:
        """Before it is told: whoever listens may be slow or gone, the queue is not."""
        tuner = self.tuners[decision.device, decision.port]
        try:
            self.fleet.device(decision.device).write_gains(decision.port, decision.gains)
        except DataPlaneError as error:
            return tuner.refused(decision, str(error), decision.t_us)
        tuner.written()
        return []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="weir tune", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    devices = parser.add_argument_group("devices")
    devices.add_argument("--fleet", metavar="FILE", type=Path, help="the devices of a fleet file")
    devices.add_argument("--bpf", metavar="DEV[@NETNS]", action="append", default=[],
                         help="an interface with weir-xdp on it; all: every one")  # fmt: skip
    devices.add_argument("--p4", metavar="HOST:PORT", action="append", default=[],
                         help="a P4 switch that runs p4/pid_delay.p4")  # fmt: skip
    devices.add_argument("--device-id", type=int, default=0, metavar="N", help="P4Runtime's device id with --p4")
    known = parser.add_argument_group("what you know and want; left out, it is found out")
    known.add_argument("--rtt-ms", type=float, metavar="X", help="round trip of the flows, without the queue")
    known.add_argument("--capacity-mbit-s", type=float, metavar="X", help="what the line carries")
    known.add_argument("--target-ms", type=float, metavar="X", help="queue delay to hold; left out: the port's own")
    known.add_argument("--phase-margin-deg", type=float, metavar="X",
                       help="promise this much by the linear model in each row of Algorithm 1, from a quarter "
                       "to four times the drops, even where it costs; what can't be promised is said")  # fmt: skip
    known.add_argument("--observe-rtt", metavar="DEV[@NETNS]", help="see round trips in the handshakes that pass here")
    how = parser.add_argument_group("how")
    how.add_argument("--at-most-every-s", type=float, default=1.0, metavar="X", help="between changes of a port (1)")
    how.add_argument("--no-trials", action="store_true", help="only set what the measurements say, try nothing")
    how.add_argument("--dry-run", action="store_true", help="decide and tell, write nothing")
    told = parser.add_argument_group("what is told")
    told.add_argument("--decisions", metavar="FILE", type=Path, help="append decisions and effects as JSON lines")
    told.add_argument("--samples", metavar="FILE", type=Path, help="append all samples as JSON lines")
    told.add_argument("--metrics", metavar="[HOST:]PORT", help="serve Prometheus metrics there (127.0.0.1)")
    told.add_argument("--json", action="store_true", help="JSON lines on standard output too")
    return parser


def settings_of(words: argparse.Namespace) -> Settings:
    """Raises TuneError that names the option."""
    scaled = {
        "rtt_s": ("--rtt-ms", words.rtt_ms, 1e-3),
        "capacity_bit_s": ("--capacity-mbit-s", words.capacity_mbit_s, 1e6),
        "target_us": ("--target-ms", words.target_ms, 1e3),
        "phase_margin_deg": ("--phase-margin-deg", words.phase_margin_deg, 1),
        "at_most_every_s": ("--at-most-every-s", words.at_most_every_s, 1),
    }
    found: dict[str, Any] = {"dry_run": words.dry_run, "trials": not words.no_trials}
    for key, (option, value, factor) in scaled.items():
        if value is None:
            continue
        found[key] = round(value * factor) if key == "target_us" and value == value else value * factor
        try:
            Settings(**{key: found[key]})
        except (ValueError, OverflowError) as error:
            raise TuneError(f"{option} {value:g}: {error}") from None
    return Settings(**found)


def main(words: Sequence[str]) -> int:
    given = _parser().parse_args(words)
    try:
        settings = settings_of(given)
        if given.fleet is not None and (given.bpf or given.p4):
            raise TuneError("--fleet goes alone: name --bpf and --p4 in the file")
        fleet = load_fleet(given.fleet) if given.fleet is not None else _fleet(given)
    except (TuneError, FleetError, OSError) as error:
        print(f"weir tune: error: {error}", file=sys.stderr)
        return USAGE
    try:
        return _tune(given, settings, fleet)
    except (TuneError, DataPlaneError, OSError) as error:
        print(f"weir tune: error: {error}", file=sys.stderr)
        return FAILED


def _fleet(given: argparse.Namespace) -> Fleet:
    return from_words(given.bpf, given.p4, given.device_id)


def _tune(given: argparse.Namespace, settings: Settings, fleet: Fleet) -> int:
    with ExitStack() as stack:
        files = []
        if given.decisions is not None:
            files.append(stack.enter_context(_writer(given.decisions)).write)
        # SIGTERM must not cut a write of gains or a line short, so it is an event like the others
        events = fleet.events
        for number, kind in ((signal.SIGTERM, _Stop), (signal.SIGINT, _Stop), (signal.SIGUSR1, _Resume)):
            before = signal.signal(number, lambda *_, kind=kind: events.put(kind()))
            stack.callback(signal.signal, number, before)

        output = _Output(lambda: events.put(_Stop()))
        stack.callback(output.close)

        def tell(line: Decision | Effect) -> None:
            text = json.dumps(line.record(), separators=(",", ":"))
            for write in files:
                write(text)
            output.line(text if given.json else human(line))

        shell = Shell(fleet, settings, tell)
        if given.samples is not None:
            from ..telemetry.jsonl import to_line

            samples = stack.enter_context(_writer(given.samples))
            shell.on_sample.append(lambda sample: samples.write(to_line(sample)))
        if given.metrics is not None:
            _serve_metrics(given.metrics, shell, stack)
        if given.observe_rtt is not None:
            stack.callback(_observed(given.observe_rtt, events).close)
        stack.enter_context(fleet)
        if not settings.dry_run:
            for device in fleet.devices:
                device.claim()
        fleet.start()
        _loop(shell, [device.name for device in fleet.devices])
    return NONE


def _writer(path: Path) -> Any:
    from ..telemetry.jsonl import Writer

    try:
        return Writer(path)
    except OSError as error:
        raise TuneError(f"{path}: {error.strerror}") from None


def _observed(place: str, events: queue.SimpleQueue) -> Any:
    from ..rtt.observe import ObserveError, observe
    from ..rtt.summary import RttSummary

    interface, at, netns = place.partition("@")
    if not interface or (at and not netns):
        raise TuneError(f"--observe-rtt {place}: must be DEV or DEV@NETNS")
    summary = RttSummary()

    def heard(samples: list) -> None:
        now_us = time.monotonic_ns() // 1000
        for sample in samples:
            summary.add(sample, now_us)
        found = summary.at(now_us)
        if found is not None and not found.lower_bound:
            events.put(_Rtt(found.base_us, found.source))

    try:
        return observe(interface, heard, netns or None, lambda text: events.put(_Told(text))).start()
    except ObserveError as error:
        raise TuneError(f"--observe-rtt {place}: {error}") from None


def _serve_metrics(place: str, shell: Shell, stack: ExitStack) -> None:
    from ..telemetry.prometheus import MetricsAddressError, MetricsServer, parse_address
    from ..telemetry.view import Decision as Told
    from ..telemetry.view import View

    view = View()
    try:
        address = parse_address(place)
    except MetricsAddressError as error:
        raise TuneError(str(error)) from None
    stack.callback(MetricsServer(view, address).close)
    shell.on_event.append(lambda event: view.take(event, time.time()))
    shell.on_line.append(lambda record: view.take(Told(record), time.time()))


def _loop(shell: Shell, devices: list[str]) -> None:
    """Until a signal. `tuning` is printed when each device is up or has said why not, or has kept silent too long."""
    waited_until = time.monotonic() + FIRST_WORD_S
    ready = False
    while True:
        try:
            left_s = None if ready else max(0.0, waited_until - time.monotonic())
            event = shell.fleet.events.get(timeout=left_s)
        except queue.Empty:
            event = None
        if isinstance(event, _Stop):
            return
        if event is not None:
            shell.event(event)
        silent = [name for name in devices if name not in shell.heard]
        if not ready and (not silent or event is None):
            for name in silent:
                _say(f"{name}: has not answered yet; it is tuned as soon as it does")
            print("tuning", file=sys.stderr, flush=True)
            ready = True
