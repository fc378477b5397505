# SPDX-License-Identifier: Apache-2.0
"""Controller's samples and decisions in a run, as events by the time of day."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from weir.dataplane.base import Event, Up
from weir.gains import Gains
from weir.resources import PROFILES
from weir.settings import load
from weir.telemetry.source import parsed
from weir.telemetry.view import Decision
from weirlab.metrics.samples import SamplesError
from weirlab.topologies.base import Recorded, Spec

US_PER_S = 1e6


def recorded(samples: Path, spec: Spec) -> Recorded:
    """The samples and decisions in a run's file, in order of time, each device answering first, with the gains of the
    run's law. Raises SamplesError naming file and line."""
    clock: _Clock | None = None
    events: Recorded = []
    read: list[tuple[dict[str, Any], Event | Decision]] = []
    for where, line in _lines(samples):
        if line.get("k") in ("start", "clock"):
            clock = (clock or _Clock()).told(where, line)
        elif line.get("k") == "aqm":
            read.append((line, _event(where, line)))
        elif line.get("k") in ("decision", "effect") and "device" in line:
            events.append((_time_of_day(where, line), _event(where, line)))
    if clock is None or clock.day_less_monotonic_us is None:
        raise SamplesError(f"{samples}: no start of the run in it; the file is damaged")
    events += [(clock.time_of_day_s(line), event) for line, event in read]
    events.sort(key=lambda event: event[0])
    lines = [line for line, _ in read]
    return [*_answering(lines, spec, events[0][0]), *events] if lines else []


def _answering(lines: list[dict[str, Any]], spec: Spec, now_s: float) -> Iterator[tuple[float, Event]]:
    """Each device as the controller met it: with the gains of the run's law on all its ports."""
    law = dict(spec["law"])
    gains = load(PROFILES / f"{law.pop('profile')}.toml").with_changes(law)
    ports: dict[str, dict[str, Gains]] = {}
    for line in lines:
        ports.setdefault(line["device"], {})[line["port"]] = gains
    for device, found in ports.items():
        yield now_s, Up(device, found)


class _Clock:
    """The run's clocks. A switch counts from its start, and anew when it is started again: its samples then go back."""

    def __init__(self) -> None:
        self.day_less_monotonic_us: float | None = None
        self._starts: dict[str, list[float]] = {}
        self._last: dict[tuple[str, str], tuple[float, int]] = {}

    def told(self, where: str, line: Mapping[str, Any]) -> _Clock:
        try:
            if line["k"] == "start":
                self.day_less_monotonic_us = line["time_of_day_us"] - line["t_us"]
            else:
                self._starts.setdefault(line["node"], []).append(line["started_us"])
        except (KeyError, TypeError):
            raise SamplesError(f"{where}: not a line of the run's clocks; the file is damaged") from None
        return self

    def time_of_day_s(self, line: Mapping[str, Any]) -> float:
        starts = self._starts.get(line["device"])
        t_us = line["t_us"]
        if starts is not None:
            key = (line["device"], line["port"])
            last_us, again = self._last.get(key, (0.0, 0))
            again += t_us < last_us
            self._last[key] = (t_us, again)
            t_us += starts[min(again, len(starts) - 1)]
        return (t_us + (self.day_less_monotonic_us or 0.0)) / US_PER_S


def _lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
            for number, text in enumerate(file, 1):
                where = f"{path}, line {number}"
                try:
                    line = json.loads(text)
                except ValueError as error:
                    raise SamplesError(f"{where}: not JSON ({error}); the file is damaged") from None
                if isinstance(line, dict):
                    yield where, line
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise SamplesError(f"{path}: {error}; the file is damaged or can't be read") from None


def _event(where: str, line: dict[str, Any]) -> Event | Decision:
    try:
        event = parsed(line)
    except ValueError as error:
        raise SamplesError(f"{where}: {error}") from None
    assert event is not None
    return event


def _time_of_day(where: str, line: Mapping[str, Any]) -> float:
    try:
        return datetime.fromisoformat(line["at"]).timestamp()
    except (KeyError, TypeError, ValueError):
        raise SamplesError(f"{where}: a decision without its time `at`") from None
