# SPDX-License-Identifier: Apache-2.0
"""State of many queues now, for the metrics endpoint and `weir top`. Fed with events by one thread, read by others
under `lock`. No I/O; the caller passes the time."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..dataplane.base import Counts, Down, Event, GainsChanged, Note, Sample, Up
from ..gains import KEYS, Gains
from ..text import printable
from .track import Rates, Track

HISTORY_US = 500_000  # one point of the history of delays: the highest in this time
HISTORY_POINTS = 24
NOTES = 64
STALE_S = 5.0
"""A queue's last sample is no longer shown as its state when it is older than this."""
_IN_FORCE = ("set", "trial", "roll-back")  # decisions that change gains
ACTIONS = (*_IN_FORCE, "keep", "hold", "stand-down", "resume")
"""All that a tuner decides."""
DELAY_BOUNDS_US = (1000, 2000, 5000, 10_000, 15_000, 20_000, 30_000, 50_000, 100_000, 200_000, 500_000, 1_000_000)
"""Samples are counted by delay: up to the first of these, up to the second, and so on; the last count is of the rest.
Closer where targets are."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A line of `weir tune --decisions`, a decision or an effect, as an event beside those of data planes. `device` and
    `port` are text, `changed`, if there, has a pair for each key."""

    record: Mapping[str, Any]


@dataclass(slots=True)
class DeviceView:
    """up: None before its first event. why: its fault."""

    up: bool | None = None
    why: str = ""


@dataclass(slots=True)
class PortView:
    """gains: as far as they are known, by key. heard_s: time of day of the last usable sample. delays: usable samples
    so far, by DELAY_BOUNDS_US; delays_us: the sum of their delays. stood_down: the tuner leaves the port to its
    operator."""

    track: Track = field(default_factory=Track)
    sample: Sample | None = None
    rates: Rates | None = None
    heard_s: float = 0.0
    gains: dict[str, Any] = field(default_factory=dict)
    decision: Mapping[str, Any] | None = None
    effect: Mapping[str, Any] | None = None
    decided_s: float = 0.0
    decisions: Counter[str] = field(default_factory=Counter)
    stood_down: bool = False
    delays: list[int] = field(default_factory=lambda: [0] * (len(DELAY_BOUNDS_US) + 1))
    delays_us: int = 0
    history: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=HISTORY_POINTS))  # time slot, delay_us

    def age_s(self, now_s: float) -> float | None:
        """Since the law's last step, or since the last sample where the device does not report steps."""
        if self.sample is None:
            return None
        return max(0.0, now_s - self.heard_s) + (self.sample.age_us or 0) / 1e6

    def is_stale(self, now_s: float) -> bool:
        return self.sample is None or now_s - self.heard_s > STALE_S


class View:
    """`ports` by device and port, `devices` by name, `notes` the last things an operator should know. tuned: there is a
    tuner, so that what it has not decided yet is known to be none."""

    def __init__(self, tuned: bool = False) -> None:
        self.lock = threading.Lock()
        self._tuned = tuned
        self.ports: dict[tuple[str, str], PortView] = {}
        self.devices: dict[str, DeviceView] = {}
        self.notes: deque[str] = deque(maxlen=NOTES)

    def take(self, event: Event | Decision, now_s: float) -> str | None:
        """A line about the event for an operator; None where nothing is unusual."""
        with self.lock:
            told = self._sample(event, now_s) if isinstance(event, Sample) else self._other(event, now_s)
            if told:
                told = printable(told)
                self.notes.append(told)
            return told

    def _port(self, device: str, port: str) -> PortView:
        found = self.ports.get((device, port))
        if found is None:
            self.devices.setdefault(device, DeviceView())
            found = self.ports[device, port] = PortView()
            if self._tuned:
                found.decisions.update(dict.fromkeys(ACTIONS, 0))
        return found

    def _sample(self, sample: Sample, now_s: float) -> str | None:
        port = self._port(sample.device, sample.port)
        taken = port.track.take(sample)
        if not taken.usable:
            port.rates = None
            return f"{sample.device} {sample.port}: {taken.words}"
        before = port.sample.trouble if port.sample is not None else ""
        port.sample, port.heard_s = sample, now_s
        port.rates = taken.rates
        port.delays[bisect_left(DELAY_BOUNDS_US, sample.delay_us)] += 1
        port.delays_us += sample.delay_us
        slot = sample.t_us // HISTORY_US
        history = port.history
        if history and history[-1][0] == slot:
            if sample.delay_us > history[-1][1]:
                history[-1] = (slot, sample.delay_us)
        else:
            history.append((slot, sample.delay_us))
        if sample.trouble == before:
            return None
        return f"{sample.device} {sample.port}: {sample.trouble or 'no trouble any more; the law uses its queue again'}"

    def _other(self, event: Event | Decision, now_s: float) -> str | None:
        match event:
            case Decision(record):
                return self._decision(record, now_s)
            case Up(device, gains, restored):
                state = self.devices.setdefault(device, DeviceView())
                was_down, state.up, state.why = state.up is False, True, ""
                for port, found in gains.items():
                    self._gains(device, port, found)
                if restored:
                    return f"{device}: had lost its gains and was given them back"
                return f"{device}: answers again" if was_down else None
            case Down(device, why, retry_s):
                state = self.devices.setdefault(device, DeviceView())
                state.up, state.why = False, why
                return f"{device}: {why}; tried again in {retry_s:.1f} s"
            case GainsChanged(device, port, gains):
                self._gains(device, port, gains)
                return f"{device} {port}: somebody else has set its gains"
            case Counts():
                return None  # there is no queue in it
            case Note(device, port, text):
                return f"{device}{f' {port}' if port is not None else ''}: {text}"
        raise TypeError(f"not an event: {event!r}")

    def _gains(self, device: str, port: str, gains: Gains) -> None:
        self._port(device, port).gains = {key: getattr(gains, key) for key in KEYS}

    def _decision(self, record: Mapping[str, Any], now_s: float) -> str | None:
        port = self._port(str(record.get("device")), str(record.get("port")))
        if record.get("k") == "effect":
            port.effect = record
            port.decided_s = now_s
            return None
        action = str(record.get("action"))
        port.decision, port.effect, port.decided_s = record, None, now_s
        port.decisions[action] += 1
        if action in ("stand-down", "resume"):
            port.stood_down = action == "stand-down"
        if action in _IN_FORCE and not record.get("dry_run"):
            port.gains.update({key: new for key, (_, new) in record.get("changed", {}).items()})
        return None
