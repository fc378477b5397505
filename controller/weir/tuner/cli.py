# SPDX-License-Identifier: Apache-2.0
"""`weir tune`: the thin shell around the tuners. Devices' threads feed one queue, read and answered here."""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..dataplane.base import DataPlaneError, Down, Event, GainsChanged, Note, Sample, Up
from ..dataplane.bpf import BpfDevice, run_folder
from ..dataplane.fleet import Fleet, FleetError
from ..gains import Gains
from ..options.arguments import add_metrics_hosts, command, complain, status_of
from ..options.devices import FLEET_EXAMPLE, add_devices, fleet_of
from ..text import printable
from .core import Tuner
from .decision import LIMITS, Decision, Effect, Settings
from .memory import Memory

HELP = """\
Measures each port's rate and load and how far its queue swings, and looks for the least delay below the target that
keeps the line as busy and is worth the packets that it costs. Prints one line for each decision, with its reason.
docs/use/tuning.md is the operator's page.

The target is an upper limit; --hold-target holds the target itself. The other gains stay as they are, except on lines
too slow for them.

The tuner changes a port at most once in --at-most-every-s and takes back a trial that costs too much. It leaves a
port alone once somebody else has set its gains; kill -USR1 makes it resume all such ports. It ends at SIGTERM, SIGINT
or SIGHUP, and when its output is no longer read. The gains stay as they are.
"""
EXAMPLE = f"""\
examples:
  weir tune --bpf eth0                                      a queue that weir-xdp is attached to
  weir tune --bpf all --observe-rtt eth0 --target-ms 5      all queues; measures the round trips of eth0's flows
  weir tune --p4 10.0.0.1:9559 --rtt-ms 40                  a P4 switch, which can't measure round trips
  weir tune --fleet fleet.toml --decisions decisions.jsonl --metrics 9464
  weir tune --bpf eth0 --dry-run                            print what would be set, write nothing
  weir tune --rate eth0 --min-mbit-s 2 --max-mbit-s 40 --reflector 9.9.9.9
                                                            the shaper's rate follows the line behind it (--rate eth0
                                                            --help: all its options)

{FLEET_EXAMPLE}
exit status: 0 ended by a signal, in order; 1 failed; 2 wrong call.
"""
FIRST_WORD_S = 5.0
"""A device without an event for so long is reported, and no longer waited for."""
UNJUDGED_MOST = 50
"""Samples of a port that wait while its gains are written, 5 s of them: older ones say little of what is now."""
BATCH_MOST = 10_000
NONE, USAGE, FAILED = 0, 2, 1


class TuneError(Exception):
    """Fault, and the right form."""


@dataclass(frozen=True)
class _Rtt:
    """Seen at an interface of the namespace; None is this process's own."""

    interface: str
    netns: str | None
    base_us: int
    source: str


@dataclass(frozen=True)
class _Written:
    """Result of writing a decision's gains; why: None where they were written."""

    decision: Decision
    why: str | None


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
        print(f"weir: {printable(text)}", file=sys.stderr, flush=True)


def utc(now_s: float) -> str:
    """A time of day, to the millisecond."""
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now_s))}.{int(now_s * 1000) % 1000:03d}Z"


def record(line: Decision | Effect, at: str) -> dict[str, Any]:
    """Its line for programs. `t_us` is the time of the sample it follows from, by the data plane's clock."""
    found = line.record()
    return {"k": found.pop("k"), "at": at, **found}


def human(line: Decision | Effect, at: str) -> str:
    """A decision or a trial's outcome for people: one line."""
    where = f"{at} {line.device}:{line.port}"
    if isinstance(line, Effect):
        after = line.after
        if after is None:
            return f"{where} {line.verdict}: not measured to its end"
        parts = [
            f"delay {before:.1f} -> {after:.1f} ms, sd {sd_before:.1f} -> {sd_after:.1f} ms"
            for before, after, sd_before, sd_after in [
                (line.before.delay_mean_us / 1e3, after.delay_mean_us / 1e3,
                 line.before.delay_sd_us / 1e3, after.delay_sd_us / 1e3)
            ]
        ]  # fmt: skip
        if line.before.utilisation is not None and after.utilisation is not None:
            parts.append(f"line used {100 * line.before.utilisation:.1f} -> {100 * after.utilisation:.1f} %")
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
    """Standard output: a tuner goes on without it. `nobody_reads` is called when its reader has closed it."""

    def __init__(self, nobody_reads: Callable[[], object]):
        self._nobody_reads = nobody_reads
        self._failing = False

    def line(self, text: str) -> None:
        try:
            print(printable(text), flush=True)
            self._failing = False
        except BrokenPipeError:
            self._nobody_reads()
        except OSError as error:
            if not self._failing:
                _say(f"standard output: {error.strerror}; tuning goes on, lines may be missing there")
            self._failing = True

    def close(self) -> None:
        """Output that can't be written now never will be, and must not be this process's status."""
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Writes:
    """A thread for each device that writes one port's gains after the other: a device that answers late keeps nobody
    waiting but itself."""

    def __init__(self, fleet: Fleet):
        self._fleet = fleet
        self._jobs: dict[str, queue.SimpleQueue[Decision | None]] = {}
        self._threads: list[threading.Thread] = []
        self._closing = False

    def begin(self, decision: Decision) -> None:
        """To be answered by a _Written among the fleet's events. `decision` carries gains."""
        jobs = self._jobs.get(decision.device)
        if jobs is None:
            jobs = self._jobs[decision.device] = queue.SimpleQueue()
            thread = threading.Thread(target=self._run, args=(jobs,), name=f"writes {decision.device}", daemon=True)
            self._threads.append(thread)
            thread.start()
        jobs.put(decision)

    def _run(self, jobs: queue.SimpleQueue[Decision | None]) -> None:
        while (decision := jobs.get()) is not None and not self._closing:
            why = None
            try:
                if decision.gains is not None:
                    self._fleet.device(decision.device).write_gains(decision.port, decision.gains)
            except DataPlaneError as error:
                why = str(error)
            except Exception as error:  # any other error leaves the other tuners running
                why = f"not understood: {error!r}"
            self._fleet.events.put(_Written(decision, why))

    def close(self) -> None:
        """Writes under way are finished, others are not begun."""
        self._closing = True
        for jobs in self._jobs.values():
            jobs.put(None)
        for thread in self._threads:
            thread.join()


def _monotonic_us() -> int:
    return time.monotonic_ns() // 1000


class Shell:
    """Takes events in, asks the tuners, has gains written, reports. One thread's; `_Writes` has others.

    `event` takes one in, and `judge` then asks the tuners about samples: the newest UNJUDGED_MOST of each port, and
    none of a port whose gains are being written. `clock`: the controller's own, in us.
    """

    def __init__(
        self,
        fleet: Fleet,
        settings: Settings,
        tell: Callable[[Decision | Effect], None],
        clock: Callable[[], int] = _monotonic_us,
        memory: Memory | None = None,
    ):
        self._memory, self._remembers = memory or Memory(None), True
        self._known_before: dict[tuple[str, str], str | None] = {}
        self.fleet, self.settings, self.tell, self.clock = fleet, settings, tell, clock
        self.tuners: dict[tuple[str, str], Tuner] = {}
        self.last_us: dict[tuple[str, str], int] = {}
        self.heard: set[str] = set()
        self.unjudged: dict[tuple[str, str], deque[Sample]] = {}
        self.passed_over: Counter[tuple[str, str]] = Counter()
        self.writing: set[tuple[str, str]] = set()
        self.on_sample: list[Callable[[Sample], object]] = []
        self.on_event: list[Callable[[Event], object]] = []
        self.on_line: list[Callable[[Decision | Effect], object]] = []
        self._writes = _Writes(fleet)

    def close(self) -> None:
        """Waits for pending writes."""
        self._writes.close()

    def event(self, event: Any) -> None:
        if isinstance(event, Event):  # the data planes'; orders to this shell are nobody else's
            for take in self.on_event:
                take(event)
        if isinstance(event, Sample):
            for take_sample in self.on_sample:
                take_sample(event)
            self._keep(event)
            return
        self.judge()  # samples from before it
        if isinstance(event, Up):
            self.heard.add(event.device)
            if event.restored:
                ports = ", ".join(event.gains)
                _say(f"{event.device}: had lost its gains and was given them back ({ports})")
            for port, gains in event.gains.items():
                key = event.device, port
                target_us = self._memory.recall(self.fleet.device(event.device).place(port), gains)
                if key in self.tuners:
                    self.act(self.tuners[key].back(gains, self._last_us(key), target_us))
                else:
                    self.tuners[key] = Tuner(self.settings, event.device, port, gains, self.clock(), target_us)
        elif isinstance(event, Down):
            self.heard.add(event.device)
            _say(f"{event.device}: {event.why}; tried again in {event.retry_s:.1f} s")
            for key, tuner in self.tuners.items():
                if key[0] == event.device:
                    self.unjudged.pop(key, None)
                    self.act(tuner.lost(self._last_us(key)))
        elif isinstance(event, GainsChanged):
            key = event.device, event.port
            if key in self.tuners:
                if event.gains.target_us == self.tuners[key].gains.target_us:  # his hand was not about the target
                    self._remember(key, self.tuners[key].gains, event.gains)
                self.act(self.tuners[key].operator_set(event.gains, self._last_us(key)))
        elif isinstance(event, Note):
            _say(f"{event.device}{'' if event.port is None else ':' + event.port}: {event.text}")
        elif isinstance(event, _Written):
            decision = event.decision
            key = decision.device, decision.port
            self.writing.discard(key)
            if event.why is None:
                self.tuners[key].written()
            else:
                try:
                    self._memory.put_back(self.fleet.device(key[0]).place(key[1]), self._known_before.get(key))
                except OSError as error:
                    self._not_remembered(f"{error.filename}: {error.strerror}")
                self.act(self.tuners[key].refused(decision, event.why, decision.t_us))
        elif isinstance(event, _Rtt):
            for tuner in self.passed_by(event.interface, event.netns):
                tuner.rtt(event.base_us, event.source, self.clock())
        elif isinstance(event, _Told):
            _say(event.text)
        elif isinstance(event, _Resume):
            for key, tuner in self.tuners.items():
                self.act(tuner.resume(self._last_us(key)))

    def passed_by(self, interface: str, netns: str | None) -> list[Tuner]:
        """The tuners of the flows that pass an interface: its own port's, or that of the only port there is."""
        found = []
        for (device, port), tuner in self.tuners.items():
            there = self.fleet.device(device)
            if port == interface and isinstance(there, BpfDevice) and there.is_in(netns):
                found.append(tuner)
        return found or (list(self.tuners.values()) if len(self.tuners) == 1 else [])

    def _last_us(self, key: tuple[str, str]) -> int:
        """Now by the data plane's clock, as far as it is known."""
        return self.last_us.get(key) or self.clock()

    def _keep(self, sample: Sample) -> None:
        key = sample.device, sample.port
        self.last_us[key] = sample.t_us
        if key not in self.tuners:
            return
        waiting = self.unjudged.setdefault(key, deque())
        waiting.append(sample)
        if len(waiting) > UNJUDGED_MOST:
            waiting.popleft()
            self.passed_over[key] += 1
            count = self.passed_over[key]
            if str(count).strip("0") == "1":
                _say(f"{sample.device}:{sample.port}: {count} samples passed over: more came than could be judged")

    def judge(self) -> None:
        for key, waiting in self.unjudged.items():
            while waiting and key not in self.writing:
                self.act(self.tuners[key].sample(waiting.popleft(), self.clock()))

    def act(self, lines: list[Decision] | list[Decision | Effect]) -> None:
        """Gains are on their way before the decision is reported: a reader may be slow or closed, the queue is not."""
        for line in lines:
            if isinstance(line, Decision) and line.gains is not None:
                key = line.device, line.port
                self._remember(key, self.tuners[key].previous, line.gains)
                self.writing.add(key)
                self._writes.begin(line)
            self.tell(line)
            for take in self.on_line:
                take(line)

    def _remember(self, key: tuple[str, str], now: Gains, soon: Gains) -> None:
        try:
            place = self.fleet.device(key[0]).place(key[1])
            self._known_before[key] = self._memory.keep(place, self.tuners[key].base.target_us, now, soon)
            self._remembers = True
        except OSError as error:
            self._not_remembered(f"{error.filename}: {error.strerror}")

    def _not_remembered(self, why: str) -> None:
        if self._remembers:
            _say(f"{why}; the next tuner will take the target it finds in force for the operator's")
        self._remembers = False


def _parser() -> argparse.ArgumentParser:
    parser = command("tune", HELP, EXAMPLE)
    add_devices(parser)
    known = parser.add_argument_group("what you know and want (without these it is measured)")
    known.add_argument("--rtt-ms", type=float, metavar="X", help="round trip of the flows, without the queue")
    known.add_argument("--capacity-mbit-s", type=float, metavar="X", help="the line's rate")
    known.add_argument(
        "--target-ms", type=float, metavar="X", help="upper limit of the queue delay (default: the port's own target)"
    )
    known.add_argument("--hold-target", action="store_true",
                       help="hold the target itself, even where less delay would keep the line as busy"
    )  # fmt: skip
    known.add_argument("--loss-price", type=float, metavar="X",
                       help="percentage points more of the packets that may be lost for each ms less delay (0.2)"
    )  # fmt: skip
    known.add_argument("--phase-margin-deg", type=float, metavar="X",
                       help="keep this phase margin by the linear model in each row of Algorithm 1, from a quarter "
                       "to four times the drops, even where it costs; a miss is reported")  # fmt: skip
    known.add_argument("--observe-rtt", metavar="DEV[@NETNS]",
                       help="measure round trips in the handshakes that pass here: of the port of that name, or of "
                            "the only port")  # fmt: skip
    how = parser.add_argument_group("how")
    how.add_argument("--at-most-every-s", type=float, default=1.0, metavar="X", help="between changes of a port (1)")
    how.add_argument("--dry-run", action="store_true", help="print decisions, write nothing")
    told = parser.add_argument_group("output")
    told.add_argument("--decisions", metavar="FILE", type=Path, help="append decisions and effects as JSON lines")
    told.add_argument("--samples", metavar="FILE", type=Path, help="append all samples as JSON lines")
    told.add_argument("--metrics", metavar="[HOST:]PORT", help="serve Prometheus metrics there (127.0.0.1)")
    add_metrics_hosts(told)
    told.add_argument("--json", action="store_true", help="JSON lines on standard output too")
    return parser


def settings_of(words: argparse.Namespace) -> Settings:
    """Raises TuneError that names the option and its range, both in the option's unit."""
    scaled = {
        "rtt_s": ("--rtt-ms", words.rtt_ms, 1e-3, "ms"),
        "capacity_bit_s": ("--capacity-mbit-s", words.capacity_mbit_s, 1e6, "Mbit/s"),
        "target_us": ("--target-ms", words.target_ms, 1e3, "ms"),
        "loss_price": ("--loss-price", words.loss_price, 1, "% a ms"),
        "phase_margin_deg": ("--phase-margin-deg", words.phase_margin_deg, 1, "degrees"),
        "at_most_every_s": ("--at-most-every-s", words.at_most_every_s, 1, "s"),
    }
    found: dict[str, Any] = {
        "dry_run": words.dry_run,
        "hold_target": words.hold_target,
    }
    for key, (option, value, factor, unit) in scaled.items():
        if value is None:
            continue
        least, most = LIMITS[key]
        if not least <= value * factor <= most:
            raise TuneError(f"{option} {value:g}: must be {least / factor:g} .. {most / factor:g} {unit}")
        found[key] = round(value * factor) if key == "target_us" else value * factor
    return Settings(**found)


def main(words: Sequence[str]) -> int:
    if any(word == "--rate" or word.startswith("--rate=") for word in words):
        from .rate_cli import main as follow_rate

        return follow_rate(words)
    given = _parser().parse_args(words)
    try:
        settings = settings_of(given)
        metrics = None if given.metrics is None else _metrics_address(given.metrics)
        if given.metrics_hosts and metrics is None:
            raise TuneError("--metrics-hosts: goes with --metrics")
        fleet = fleet_of(given)
    except (TuneError, FleetError) as error:
        complain("tune", error)
        return USAGE
    try:
        return _tune(given, settings, fleet, metrics)
    except (TuneError, DataPlaneError) as error:
        said, status = str(error), FAILED
    except OSError as error:
        said, status = f"{error.filename}: {error.strerror}" if error.filename else str(error), status_of(error)
    complain("tune", said)
    return status


def _tune(given: argparse.Namespace, settings: Settings, fleet: Fleet, metrics: tuple[str, int] | None) -> int:
    with ExitStack() as stack:
        files = []
        if given.decisions is not None:
            files.append(stack.enter_context(_writer("--decisions", given.decisions)).write)
        # SIGTERM must not cut a write of gains or a line short, so it is an event like the others
        events = fleet.events
        ends = [(number, _Stop) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]
        for number, kind in [*ends, (signal.SIGUSR1, _Resume)]:
            before = signal.signal(number, lambda *_, kind=kind: events.put(kind()))
            stack.callback(signal.signal, number, before)

        output = _Output(lambda: events.put(_Stop()))
        stack.callback(output.close)

        def tell(line: Decision | Effect) -> None:
            at = utc(time.time())
            text = json.dumps(record(line, at), separators=(",", ":"))
            for write in files:
                write(text)
            output.line(text if given.json else human(line, at))

        shell = Shell(fleet, settings, tell, memory=Memory(_folder()))
        place = None
        if given.samples is not None:
            from ..telemetry.jsonl import to_line

            samples = stack.enter_context(_writer("--samples", given.samples))
            shell.on_sample.append(lambda sample: samples.write(to_line(sample)))
        if metrics is not None:
            from ..telemetry.flow_metrics import FlowCollector

            _serve_metrics(metrics, shell, stack, FlowCollector(fleet.devices, given.metrics_hosts))
        if given.observe_rtt is not None:
            place = _place(given.observe_rtt)
            stack.callback(_observed(*place, events).close)
        stack.enter_context(fleet)
        stack.callback(shell.close)
        if not settings.dry_run:
            for device in fleet.devices:
                device.claim()
        fleet.start()
        _loop(shell, [device.name for device in fleet.devices], place)
    return NONE


def _folder() -> Path | None:
    try:
        return run_folder("weir tune")
    except DataPlaneError as error:  # P4 switches can be tuned without
        _say(f"{error}; the next tuner will take the target it finds in force for the operator's")
        return None


def _writer(option: str, path: Path) -> Any:
    from ..telemetry.jsonl import Writer

    try:
        return Writer(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"{option} {path}") from None


def _place(word: str) -> tuple[str, str | None]:
    interface, at, netns = word.partition("@")
    if not interface or (at and not netns):
        raise TuneError(f"--observe-rtt {word}: must be DEV or DEV@NETNS")
    return interface, netns or None


def _observed(interface: str, netns: str | None, events: queue.SimpleQueue) -> Any:
    from ..rtt.observe import ObserveError, observe
    from ..rtt.summary import RttSummary

    summary = RttSummary()

    def heard(samples: list) -> None:
        now_us = time.monotonic_ns() // 1000
        for sample in samples:
            summary.add(sample, now_us)
        found = summary.at(now_us)
        if found is not None and not found.lower_bound:
            events.put(_Rtt(interface, netns, found.base_us, found.source))

    try:
        return observe(interface, heard, netns, lambda text: events.put(_Told(text))).start()
    except ObserveError as error:
        raise TuneError(f"--observe-rtt {interface}: {error}") from None


def _metrics_address(place: str) -> tuple[str, int]:
    from ..telemetry.prometheus import MetricsAddressError, parse_address

    try:
        return parse_address(place)
    except MetricsAddressError as error:
        raise TuneError(str(error)) from None


def _serve_metrics(address: tuple[str, int], shell: Shell, stack: ExitStack, flows: Any) -> None:
    from ..telemetry.prometheus import MetricsServer
    from ..telemetry.view import Decision as Told
    from ..telemetry.view import View

    view = View(tuned=True)
    stack.callback(MetricsServer(view, address, more=(flows,)).close)
    shell.on_event.append(lambda event: view.take(event, time.time()))
    shell.on_line.append(lambda line: view.take(Told(line.record()), time.time()))


def _loop(shell: Shell, devices: list[str], place: tuple[str, str | None] | None) -> None:
    """Until a signal. `place`: where round trips are seen; TuneError when it is nobody's.

    `tuning` is printed when each device is up or has given the reason why not, or has kept silent too long.
    """
    waited_until = time.monotonic() + FIRST_WORD_S
    ready = False
    while True:
        batch = []
        with suppress(queue.Empty):
            left_s = None if ready else max(0.0, waited_until - time.monotonic())
            batch.append(shell.fleet.events.get(timeout=left_s))
            while len(batch) < BATCH_MOST:
                batch.append(shell.fleet.events.get_nowait())
        for event in batch:
            if isinstance(event, _Stop):
                return
            shell.event(event)
        shell.judge()
        silent = [name for name in devices if name not in shell.heard]
        if not ready and (not silent or not batch):
            for name in silent:
                _say(f"{name}: has not answered yet; it is tuned as soon as it does")
            if place is not None and shell.tuners and not shell.passed_by(*place):
                ports = ", ".join(port for _, port in list(shell.tuners)[:20])
                raise TuneError(
                    f"--observe-rtt {place[0]}: whose round trips are these? must be the interface of a port, "
                    f"or of the only port; there are {ports}"
                )
            with suppress(OSError):
                print("tuning", file=sys.stderr, flush=True)
            ready = True
