# SPDX-License-Identifier: Apache-2.0
"""`weir tune --rate`: the thin shell around a rate's rule. One thread: probes, counters, the rule, the class's rate."""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

from ..options.arguments import command
from ..text import printable
from .htb import Htb, HtbClass, HtbError, classid_of, root_handle
from .probes import ProbeError, Prober, Rotation
from .rate import LIMITS_BIT_S, TARGET_LIMITS_US, RateDecision, RateRule, RateSettings

HELP = """\
Sets the rate of an htb class to what the line behind it carries: lower while the delay beyond the shaper grows under
load, higher while it does not. The delay is that of ICMP echoes to reflectors, which bypass the shaper.
docs/use/tuning.md is the operator's page.

The rate stays within --min-mbit-s and --max-mbit-s, and returns to --base-mbit-s without load. A reflector that stops
answering is left out while others answer. The class has its former rate again at SIGTERM, SIGINT or SIGHUP.
"""
EXAMPLE = """\
examples:
  weir tune --rate eth0 --min-mbit-s 2 --max-mbit-s 40 --reflector 9.9.9.9 --reflector 1.1.1.1
  weir tune --rate ifb0 --probe-device eth0 --min-mbit-s 10 --max-mbit-s 200 --reflector 9.9.9.9   downloads

exit status: 0 ended by a signal, in order; 1 failed; 2 wrong call.
"""
NONE, FAILED, USAGE = 0, 1, 2
REFLECTORS_MOST = 32
PROBE_LIMITS_MS = (5.0, 1000.0)
CHANGE_LEAST = 0.005
"""Smaller changes are not written."""
TOLD_EVERY_US, TOLD_CHANGE = 1_000_000, 0.05
SILENT_US = 5_000_000


class RateError(Exception):
    """A wrong call: fault, and the right form."""


class StoodDown(Exception):
    """Somebody else has set the rate."""


class Rule(Protocol):
    """Interface of a rule: RateRule, or a peer's in the lab."""

    rate_bit_s: float

    def sent(self, key: int, reflector: str, now_us: int, total_bytes: int) -> None: ...
    def answered(self, key: int, now_us: int) -> bool: ...
    def tick(self, now_us: int, total_bytes: int) -> RateDecision: ...


def parser() -> argparse.ArgumentParser:
    found = command("tune --rate", HELP, EXAMPLE)
    found.add_argument("--rate", metavar="DEV", required=True, help="device whose htb class gets the rate")
    found.add_argument("--class", metavar="MAJOR:MINOR", dest="classid", help="the class (the only one at the top)")
    found.add_argument("--min-mbit-s", type=float, required=True, metavar="X", help="lowest rate")
    found.add_argument("--base-mbit-s", type=float, metavar="X", help="rate without load (the class's)")
    found.add_argument("--max-mbit-s", type=float, required=True, metavar="X", help="highest rate")
    found.add_argument("--reflector", action="append", default=[], metavar="HOST",
                       help=f"host that answers pings, beyond the line; give several, up to {REFLECTORS_MOST}"
    )  # fmt: skip
    found.add_argument("--delay-ms", type=float, default=30.0, metavar="X",
                       help="delay allowed beyond the shaper (30)")  # fmt: skip
    found.add_argument("--probe-every-ms", type=float, default=50.0, metavar="X",
                       help="between probes, to the reflectors in turn (50)")  # fmt: skip
    found.add_argument("--probe-device", metavar="DEV", help="device that the probes leave by (that of --rate)")
    found.add_argument("--decisions", metavar="FILE", type=Path, help="append each new rate as a JSON line")
    found.add_argument("--json", action="store_true", help="JSON lines on standard output too")
    found.add_argument("--dry-run", action="store_true", help="print rates, set none")
    return found


def settings_of(words: argparse.Namespace, present_bit_s: float) -> RateSettings:
    """Raises RateError that names the option."""
    base = words.base_mbit_s
    low, high = words.min_mbit_s, words.max_mbit_s
    for option, value in (("--min-mbit-s", low), ("--base-mbit-s", base), ("--max-mbit-s", high)):
        least, most = (limit / 1e6 for limit in LIMITS_BIT_S)
        if value is not None and not least <= value <= most:
            raise RateError(f"{option} {value:g}: must be {least:g} .. {most:g}")
    if low > high:
        raise RateError(f"--min-mbit-s {low:g} is above --max-mbit-s {high:g}")
    if base is not None and not low <= base <= high:
        raise RateError(f"--base-mbit-s {base:g}: must be {low:g} .. {high:g}, as --min-mbit-s and --max-mbit-s are")
    if base is None:
        base = min(max(present_bit_s / 1e6, low), high)
    least, most = (limit / 1e3 for limit in TARGET_LIMITS_US)
    if not least <= words.delay_ms <= most:
        raise RateError(f"--delay-ms {words.delay_ms:g}: must be {least:g} .. {most:g}")
    return RateSettings(low * 1e6, base * 1e6, high * 1e6, round(words.delay_ms * 1e3))


def checked(words: argparse.Namespace) -> int | None:
    """The class's number, None for the only one. Raises RateError for faults of the words alone."""
    settings_of(words, words.max_mbit_s * 1e6 if words.max_mbit_s > 0 else 0.0)
    if not words.reflector:
        raise RateError("--reflector: give at least one host that answers pings")
    if len(words.reflector) > REFLECTORS_MOST:
        raise RateError(f"--reflector: {len(words.reflector)} of them; give at most {REFLECTORS_MOST}")
    if len(set(words.reflector)) < len(words.reflector):
        raise RateError("--reflector: one is given twice")
    least, most = PROBE_LIMITS_MS
    if not least <= words.probe_every_ms <= most:
        raise RateError(f"--probe-every-ms {words.probe_every_ms:g}: must be {least:g} .. {most:g}")
    try:
        return None if words.classid is None else classid_of(words.classid)
    except ValueError as error:
        raise RateError(f"--class {error}") from None


def record(decision: RateDecision, device: str, classid: str) -> dict[str, Any]:
    """A decision as a JSON line has it."""
    found = asdict(decision)
    rounded = {key: round(value, 3) if isinstance(value, float) else value for key, value in found.items()}
    return {"k": "rate", "device": device, "class": classid, **rounded}


def human(decision: RateDecision, device: str) -> str:
    parts = [f"{decision.rate_bit_s / 1e6:.3g} Mbit/s", f"{100 * decision.load:.0f} % used"]
    if decision.delay_us is not None:
        parts.append(f"{decision.delay_us / 1e3:.1f} ms beyond the shaper")
    if decision.line_bit_s is not None:
        parts.append(f"line {decision.line_bit_s / 1e6:.3g} Mbit/s")
    return f"{device} {decision.action}: {', '.join(parts)}"


def say(text: str) -> None:
    with suppress(OSError):  # nowhere is left to report to
        print(f"weir: {printable(text)}", file=sys.stderr, flush=True)


def now_us() -> int:
    return time.monotonic_ns() // 1000


class Shell:
    """Until `stop`: sends probes, asks the rule at each probe and each answer, sets the class's rate."""

    def __init__(
        self, htb: Htb, prober: Prober, names: list[str], rule: Rule, every_us: int,
        tell: Callable[[RateDecision, bool], None], dry_run: bool = False,
    ) -> None:  # fmt: skip
        self.htb, self.prober, self.rule, self.every_us = htb, prober, rule, every_us
        self.rotation = Rotation(names)
        self.names = names
        self._tell, self._dry_run = tell, dry_run
        self._set_bit_s = 0.0
        self._set_bytes_s: int | None = None
        self._answered_us = now_us()
        self._is_silent = False
        self.stopped = False

    def stop(self, *_: object) -> None:
        self.stopped = True

    def run(self) -> None:
        poll = select.poll()
        poll.register(self.prober, select.POLLIN)
        due_us = now_us()
        half = False
        while not self.stopped:
            wait_us = due_us - now_us()
            if wait_us > 0 and poll.poll(wait_us / 1000):
                self._answers()
            elif wait_us > 0:
                continue
            else:
                if not half:
                    self._probe()
                half = not half
                due_us = max(due_us + self.every_us // 2, now_us())
            self._step()

    def _probe(self) -> None:
        at_us = now_us()
        place = self.rotation.next(at_us)
        total_bytes = self.htb.read().sent_bytes
        key = self.prober.send(place)
        if key is None:
            return
        self.rule.sent(key, self.names[place], at_us, total_bytes)
        if self.rotation.sent(place, at_us):
            say(f"{self.names[place]}: no answers any more; left out")
        if at_us - self._answered_us > SILENT_US and not self._is_silent:
            self._is_silent = True
            say(f"no reflector has answered for {SILENT_US // 1_000_000} s")

    def _answers(self) -> None:
        for answer in self.prober.receive():
            if not self.rule.answered(answer.key, answer.now_us):
                continue
            self._answered_us, self._is_silent = answer.now_us, False
            if self.rotation.answered(answer.place, answer.now_us):
                say(f"{self.names[answer.place]}: answers again")

    def _step(self) -> None:
        found = self.htb.read()
        if self._set_bytes_s is not None and found.rate_bytes_s != self._set_bytes_s:
            raise StoodDown(f"{self.htb.device}: the rate of class {found.name} was set by another; it stays")
        decision = self.rule.tick(now_us(), found.sent_bytes)
        is_new = abs(decision.rate_bit_s - self._set_bit_s) > CHANGE_LEAST * self._set_bit_s
        if is_new:
            self._set_bit_s = decision.rate_bit_s
            if not self._dry_run:
                self._set_bytes_s = round(decision.rate_bit_s / 8)
                self.htb.set_rate(self._set_bytes_s)
        self._tell(decision, is_new)


def restore(htb: Htb, before: HtbClass) -> None:
    """Restores the class's rate, where the class still exists."""
    try:
        htb.set_rate(before.rate_bytes_s, before.ceil_bytes_s)
    except HtbError as error:
        say(f"{error}; its former rate was {before.rate_bytes_s * 8 / 1e6:g} Mbit/s")


def main(words: Sequence[str], rule_of: Callable[[RateSettings, int], Rule] = RateRule) -> int:
    given = parser().parse_args(words)
    try:
        classid = checked(given)
    except RateError as error:
        print(f"weir tune: error: {printable(error)}", file=sys.stderr)
        return USAGE
    try:
        with ExitStack() as stack:
            return _follow(given, classid, rule_of, stack)
    except RateError as error:
        print(f"weir tune: error: {printable(error)}", file=sys.stderr)
        return USAGE
    except (HtbError, ProbeError) as error:
        said = str(error)
    except OSError as error:
        said = f"{error.filename}: {error.strerror}" if error.filename else str(error)
    print(f"weir tune: error: {printable(said)}", file=sys.stderr)
    return FAILED


def _follow(
    given: argparse.Namespace, classid: int | None, rule_of: Callable[[RateSettings, int], Rule], stack: ExitStack
) -> int:
    htb = Htb(given.rate, classid)
    stack.callback(htb.close)
    before = htb.first
    settings = settings_of(given, before.rate_bytes_s * 8)
    device = given.probe_device or given.rate
    try:
        priority = root_handle(device)
    except OSError:
        raise HtbError(f"{device}: no such device") from None
    prober = Prober(device, given.reflector, priority)
    stack.callback(prober.close)
    tell = _teller(given, before.name, stack)
    shell = Shell(
        htb, prober, given.reflector, rule_of(settings, now_us()), round(given.probe_every_ms * 1e3), tell,
        given.dry_run,
    )  # fmt: skip
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        stack.callback(signal.signal, number, signal.signal(number, shell.stop))
    with suppress(OSError):
        print("tuning", file=sys.stderr, flush=True)
    is_ours = not given.dry_run
    try:
        shell.run()
    except StoodDown as why:
        is_ours = False
        say(str(why))
        return FAILED
    finally:
        if is_ours:
            restore(htb, before)
    return NONE


def _teller(given: argparse.Namespace, classid: str, stack: ExitStack) -> Callable[[RateDecision, bool], None]:
    """Each new rate to --decisions; to standard output at most once a second."""
    write: Callable[[str], None] | None = None
    if given.decisions is not None:
        from ..telemetry.jsonl import Writer

        try:
            write = stack.enter_context(Writer(given.decisions)).write
        except OSError as error:
            raise HtbError(f"--decisions {given.decisions}: {error.strerror}") from None
    told = [0.0, -float(TOLD_EVERY_US)]
    is_read = True

    def tell(decision: RateDecision, is_new: bool) -> None:
        nonlocal is_read
        if is_new and write is not None:
            write(json.dumps(record(decision, given.rate, classid), separators=(",", ":")))
        changed = abs(decision.rate_bit_s - told[0]) > TOLD_CHANGE * told[0]
        if not is_read or not changed or decision.t_us - told[1] < TOLD_EVERY_US:
            return
        told[:] = decision.rate_bit_s, decision.t_us
        text = json.dumps(record(decision, given.rate, classid)) if given.json else human(decision, given.rate)
        try:
            print(printable(text), flush=True)
        except OSError as error:
            is_read = False
            say(f"standard output: {error.strerror}; the rate is followed without it")
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    return tell
