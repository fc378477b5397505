# SPDX-License-Identifier: Apache-2.0
"""Rates, delays, drops and marks of hosts, flows and kinds of packets, from two readings of `weir-xdp flows`; pure.

A flow is unresponsive if, over the window, at least 32 of its packets were sampled, a tenth of its packets were dropped
or marked, it sent at least 1.5 times the passed rate divided by the number of bulk flows, and its rate in the second
half of the window was at least 0.75 of its rate in the first. (After Floyd and Fall, Promoting the Use of End-to-End
Congestion Control in the Internet, 1999: a flow is unresponsive if its rate does not fall while its packets are
dropped.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

WINDOW_US = 10_000_000
SPARSE, BULK, UNRESPONSIVE = CLASSES = ("sparse", "bulk", "unresponsive")
OTHER = "other"
"""Name of the sum of all hosts without a name of their own."""

_SAMPLES_LEAST = 32  # fewer give no rate: their standard error is a sixth or more
_HIT_SHARE_LEAST = 0.1
_FAIR_SHARES_LEAST = 1.5
_KEPT_LEAST = 0.75
_BULK_LEAST = 0.01  # a flow with less of the passed rate has no share to be measured by
_PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp6", 132: "sctp"}


@dataclass(frozen=True, slots=True)
class FlowKey:
    source: str
    destination: str
    protocol: int
    source_port: int
    destination_port: int

    def __str__(self) -> str:
        def end(address: str, port: int) -> str:
            return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"

        name = _PROTOCOLS.get(self.protocol, str(self.protocol))
        return f"{name} {end(self.source, self.source_port)} > {end(self.destination, self.destination_port)}"


@dataclass(slots=True)
class Record:
    """Totals. sampled_*: one packet in `Reading.one_in`; marks, drops: all. delay_peak_us: of the last 9 to 17 s."""

    sampled_packets: int = 0
    sampled_bytes: int = 0
    delay_sum_us: int = 0
    marks: int = 0
    drops: int = 0
    delay_peak_us: int = 0
    kinds: dict[str, int] = field(default_factory=dict)

    def add(self, more: Record) -> None:
        for name in _TOTALS:
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.delay_peak_us = max(self.delay_peak_us, more.delay_peak_us)
        for kind, packets in more.kinds.items():
            self.kinds[kind] = self.kinds.get(kind, 0) + packets

    def since(self, before: Record | None) -> Record:
        """Growth; the whole where the record began anew."""
        if before is None or any(getattr(self, name) < getattr(before, name) for name in _TOTALS):
            before = Record()
        kinds = {kind: packets - before.kinds.get(kind, 0) for kind, packets in self.kinds.items()}
        grown = {name: getattr(self, name) - getattr(before, name) for name in _TOTALS}
        left = {kind: packets for kind, packets in kinds.items() if packets > 0}
        return Record(**grown, delay_peak_us=self.delay_peak_us, kinds=left)

    @property
    def is_idle(self) -> bool:
        return not (self.sampled_packets or self.marks or self.drops)


_TOTALS = ("sampled_packets", "sampled_bytes", "delay_sum_us", "marks", "drops")


@dataclass(frozen=True, slots=True)
class Reading:
    """One answer of `weir-xdp flows`. flows: None where none are recorded. local_is_source: hosts of the local network
    are sources of these packets."""

    t_us: int
    one_in: int
    local_is_source: bool
    kinds: Mapping[str, Record]
    flows: Mapping[FlowKey, Record] | None


def _count(table: Mapping[str, Any], key: str) -> int:
    value = table[key]
    if type(value) is not int or value < 0:
        raise ValueError(f"{key} = {value!r}: must be a whole number")
    return value


def _record(table: Mapping[str, Any]) -> Record:
    kinds = table.get("kinds", {})
    counts = {str(kind): _count(kinds, kind) for kind in kinds}
    return Record(**{name: _count(table, name) for name in (*_TOTALS, "delay_peak_us")}, kinds=counts)


def reading_of(table: Mapping[str, Any]) -> Reading:
    """ValueError, TypeError, KeyError or AttributeError for an answer of the wrong form."""
    one_in = _count(table, "sample_one_in")
    if not one_in:
        raise ValueError("sample_one_in = 0: must be 1 or more")
    flows: dict[FlowKey, Record] = {}
    for flow in table.get("flows", ()):
        ports = (_count(flow, "source_port"), _count(flow, "destination_port"))
        key = FlowKey(str(flow["source"]), str(flow["destination"]), _count(flow, "protocol"), *ports)
        flows[key] = _record(flow)
    # by --hosts; else a default route leads over an uplink: what leaves there comes from local hosts
    by_route = bool(table["uplink"]) != bool(table["ingress"])
    local_is_source = {"src": True, "dst": False}.get(table.get("hosts", "off"), by_route)
    kinds = {str(kind): _record(one) for kind, one in table["kinds"].items()}
    return Reading(_count(table, "t_us"), one_in, local_is_source, kinds, flows if "flows" in table else None)


@dataclass(frozen=True, slots=True)
class Row:
    """A host, a flow or a kind over `over_us`. share: of the bytes of all. drop_share, mark_share: of its packets.
    flows: numbers of its flows by CLASSES."""

    name: str
    over_us: int
    bit_s: float
    share: float
    delay_mean_us: float | None
    delay_peak_us: int
    drop_share: float
    mark_share: float
    flows: Mapping[str, int]

    @property
    def kind(self) -> str:
        """Its only class, or the numbers of flows by class."""
        if len(self.flows) == 1 and sum(self.flows.values()) == 1:
            return next(iter(self.flows))
        return ", ".join(f"{count} {name}" for name, count in self.flows.items())

    def data(self) -> dict[str, Any]:
        return {
            "name": self.name, "bit_s": round(self.bit_s), "share": round(self.share, 6),
            "delay_mean_us": None if self.delay_mean_us is None else round(self.delay_mean_us),
            "delay_peak_us": self.delay_peak_us, "drop_share": round(self.drop_share, 6),
            "mark_share": round(self.mark_share, 6), "flows": dict(self.flows),
        }  # fmt: skip


def _grown(before: Reading, now: Reading) -> dict[FlowKey, Record]:
    """Flows that had packets. One whose record was evicted and made anew counts from its new record."""
    old = before.flows or {}
    grown = {key: record.since(old.get(key)) for key, record in (now.flows or {}).items()}
    return {key: record for key, record in grown.items() if not record.is_idle}


def _rates(before: Reading, now: Reading) -> dict[FlowKey, float]:
    factor = 8e6 * now.one_in / max(1, now.t_us - before.t_us)
    return {key: record.sampled_bytes * factor for key, record in _grown(before, now).items()}


def _hits(record: Record) -> int:
    return record.drops + record.marks


def _shares(record: Record, one_in: int) -> tuple[float, float]:
    """Of dropped and of marked packets. All of these are counted, of the others a sample."""
    packets = max(record.sampled_packets * one_in, _hits(record), 1)
    return record.drops / packets, record.marks / packets


class Window:
    """The readings of one queue: at least three, as far as there are, and those of the last WINDOW_US."""

    def __init__(self) -> None:
        self._readings: deque[Reading] = deque()

    def take(self, reading: Reading) -> None:
        readings = self._readings
        if readings and reading.t_us <= readings[-1].t_us:
            return
        readings.append(reading)
        while len(readings) > 3 and reading.t_us - readings[1].t_us >= WINDOW_US:
            readings.popleft()

    @property
    def last(self) -> Reading | None:
        return self._readings[-1] if self._readings else None

    def classes(self) -> dict[FlowKey, str]:
        """Class of each flow that had packets: "" where the law has one queue, which does not classify."""
        if len(self._readings) < 2:
            return {}
        first, last = self._readings[0], self._readings[-1]
        flows, rates = _grown(first, last), _rates(first, last)
        passed = {key: rates[key] * (1 - _shares(record, last.one_in)[0]) for key, record in flows.items()}
        found = {key: _class(record) for key, record in flows.items()}
        least = _BULK_LEAST * sum(passed.values())
        bulk = [key for key, name in found.items() if name != SPARSE and passed[key] >= least]
        fair = sum(passed.values()) / max(1, len(bulk))
        middle_us = (first.t_us + last.t_us) // 2
        middle = min(self._readings, key=lambda reading: abs(reading.t_us - middle_us))
        early, late = _rates(first, middle), _rates(middle, last)
        for key in bulk:
            hit = sum(_shares(flows[key], last.one_in)) >= _HIT_SHARE_LEAST
            enough = hit and flows[key].sampled_packets >= _SAMPLES_LEAST
            kept = key in early and late.get(key, 0.0) >= _KEPT_LEAST * early[key]
            if enough and kept and rates[key] >= _FAIR_SHARES_LEAST * fair:
                found[key] = UNRESPONSIVE
        return found

    def rows(self, by: str, host: Callable[[FlowKey], str] | None = None) -> list[Row]:
        """by: "kind", "flow" or "host". host: the local host of a flow. Largest rate first."""
        if len(self._readings) < 2:
            return []
        first, last = self._readings[0], self._readings[-1]
        over_us = last.t_us - first.t_us
        groups: dict[str, Record] = {}
        classes: dict[str, dict[str, int]] = {}
        if by == "kind":
            groups = {kind: record.since(first.kinds.get(kind)) for kind, record in last.kinds.items()}
        else:
            local = host or (lambda key: key.source if last.local_is_source else key.destination)
            found = self.classes()
            for key, record in _grown(first, last).items():
                name = str(key) if by == "flow" else local(key)
                groups.setdefault(name, Record()).add(record)
                if found[key]:
                    of = classes.setdefault(name, {})
                    of[found[key]] = of.get(found[key], 0) + 1
        total = sum(record.sampled_bytes for record in groups.values()) or 1
        rows = [
            Row(
                name, over_us, record.sampled_bytes * last.one_in * 8e6 / over_us, record.sampled_bytes / total,
                record.delay_sum_us / record.sampled_packets if record.sampled_packets else None,
                record.delay_peak_us, *_shares(record, last.one_in), classes.get(name, {}),
            )
            for name, record in groups.items()
        ]  # fmt: skip
        return sorted(rows, key=lambda row: (-row.bit_s, row.name)) if by != "kind" else rows


def _class(record: Record) -> str:
    if set(record.kinds) <= {"queue"}:
        return ""
    ahead = record.kinds.get("ahead", 0)
    return SPARSE if 2 * ahead > sum(record.kinds.values()) else BULK


class HostTotals:
    """Totals of at most `limit` hosts by name and of all others as OTHER, for counters that only grow. A host with
    more recent bytes takes the name of the one with the fewest; that one's totals end, and OTHER counts it from then
    on."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._before: Mapping[FlowKey, Record] = {}
        self._recent: dict[str, float] = {}
        self.totals: dict[str, Record] = {OTHER: Record()}

    def take(self, reading: Reading, host: Callable[[FlowKey], str] | None = None) -> None:
        local = host or (lambda key: key.source if reading.local_is_source else key.destination)
        grown: dict[str, Record] = {}
        for key, record in (reading.flows or {}).items():
            more = record.since(self._before.get(key))
            if not more.is_idle:
                grown.setdefault(local(key), Record()).add(more)
        self._before = reading.flows or {}
        for name in self._recent:
            self._recent[name] /= 2
        for record in self.totals.values():
            record.delay_peak_us = 0
        for name, more in sorted(grown.items(), key=lambda one: -one[1].sampled_bytes):
            self._named(name, more.sampled_bytes).add(more)

    def _named(self, name: str, size: int) -> Record:
        if name not in self._recent and self._limit:
            if len(self._recent) >= self._limit:
                least = min(self._recent, key=lambda one: self._recent[one])
                if self._recent[least] >= size:
                    return self.totals[OTHER]
                del self._recent[least], self.totals[least]
            self._recent[name], self.totals[name] = 0.0, Record()
        if name not in self._recent:
            return self.totals[OTHER]
        self._recent[name] += size
        return self.totals[name]
