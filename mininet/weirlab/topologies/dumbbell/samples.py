# SPDX-License-Identifier: Apache-2.0
"""Reads a run's samples on the dumbbell: lines in, arrays out.

A samples file holds one JSON object a line. `t_us` is the lab's CLOCK_MONOTONIC in microseconds. Kinds (`k`):

- `start`: the run's time 0; exactly one. Warm-up and end follow from the spec.
- `hop`: `hop`, `propagation_us`: the delay that any packet has there in an empty queue, and `rate_mbit_s` if its own
  transmission time at that rate comes on top (0 or left out: no). The time above both is queueing.
- `pkt`: a packet left a hop at `t_us`: `hop`, `sojourn_us`, `bytes`, `ce` (0 or 1: whether it carried CE by
  then), `low` (1 if it went in as one of band L: ECT(1) or CE; 0 or left out: no), `flow` (a hash of its flow; 0 or
  left out: unknown).
- `lost`: a packet went into a hop and never came out: `hop`, `bytes`.
- `aqm`, `qdisc`: state of a queue: `hop`, and of those that apply `backlog_bytes`, `backlog_packets`, `tau_us`, `u`,
  `drop_probability` (what a packet meets, so U squared where the law squares), `dq_rate_bit_s`, `row`; and counters
  since the start: `seen`, `marks`, `drops_aqm`, `drops_limit`, `drops_qdisc` (a kernel discipline that doesn't say
  why it dropped). A drop stands in one counter of one kind only.
- `flow`: one end of a flow: `side` (client or server), `flow` ("GROUP.INDEX" of the scenario's flows, or just an
  index if there is one group), `bytes` (application data so far); from the sender `rtt_us`, and whatever else it knows.
  An `rtt_us` beside a `min_rtt_us` of null is a stack's first guess and not counted. Counts of packets so far: `sent`
  and `lost` (declared lost; TCP: sent again) from the sender, `recv` from the receiver.
- `end`: the last line of that end of a flow: `side`, `flow`, `bytes`; and `decisions` of a learned congestion control:
  `made`, `outside` of the ranges of its training, and `by_bbr`.
- `change`: state of the bottleneck from `t_us` on: `what`, an object of those of `rate_mbit_s`, `delay_ms` (one way)
  and `loss_percent` that changed.
- `short`: a short transfer ended at `t_us`: `flow` ("GROUP.N"), `bytes`, `fct_us` (from opening the connection). With
  `open` 1 it was under way at the run's end, and `fct_us` is the time until then.
- `sent`, `heard`: a packet of a paced flow left its sender, or came to its receiver, at `t_us`: `flow`, `seq` (its
  place in the flow, from 0), and `bytes` where it was heard.
- `decision`, `effect`: actions of the tuner and their results, in its own words: `device`, `port`, and `action` or
  `verdict`.
- `sampler`: fates of the packets timed at a hop: `hop`, `stamped`, and those that escaped measurement: `collisions`,
  `full`, `strays`, `ring_drops`.
"""

import gzip
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from weirlab.metrics import decisions
from weirlab.metrics.paced import Stream
from weirlab.metrics.samples import (
    SamplesError,
    by_kind_of,
    column,
    grouped,
    is_number,
    listed,
    parsed_lines,
    records_of,
)
from weirlab.topologies.dumbbell.traffic import PACED_KINDS, SHORT_KINDS

DELAY_CHANGES_AT = frozenset({"egress", "reverse", "return-delay"})  # the hops that the bottleneck's `delay_ms` is on
ESCAPES = ("collisions", "full", "strays", "ring_drops")
END_COUNTERS = ("sent", "lost", "recv")
COUNTERS = ("drops_aqm", "drops_limit", "drops_qdisc", "marks")
# Required fields of each kind of line; more may be there.
FIELDS: dict[str, tuple[str, ...]] = {
    "start": ("t_us",),
    "hop": ("hop", "propagation_us"),
    "pkt": ("t_us", "hop", "sojourn_us", "bytes", "ce"),
    "lost": ("t_us", "hop", "bytes"),
    "aqm": ("t_us", "hop"),
    "qdisc": ("t_us", "hop"),
    "flow": ("t_us", "side", "flow", "bytes"),
    "end": ("t_us", "side", "flow", "bytes"),
    "change": ("t_us", "what"),
    "short": ("t_us", "flow", "bytes", "fct_us"),
    "sent": ("t_us", "flow", "seq"),
    "heard": ("t_us", "flow", "seq", "bytes"),
    "decision": ("t_us", "device", "port", "action"),
    "effect": ("t_us", "device", "port", "verdict"),
    "sampler": ("hop", "stamped", *ESCAPES),
}
# The many lines are checked by the column.
FEW = ("start", "hop", "aqm", "qdisc", "change", "short", "decision", "effect", "sampler")
NUMBERS = {"t_us", "propagation_us", "rate_mbit_s", "drop_probability", "fct_us", "stamped", *COUNTERS, *ESCAPES}
RECEIVER = {
    "quic-download": "client", "quic-upload": "server", "quic-short": "client",
    "tcp": "server", "tcp-short": "server", "udp": "server",
}  # fmt: skip
# Bulk transfers that react to loss: those whose shares are compared.
RESPONSIVE = frozenset(RECEIVER) - {*SHORT_KINDS, "udp"}
UNRESPONSIVE = frozenset({"udp", *PACED_KINDS})
# A `pkt` line as weir-sojourn writes it. Numbers of so few digits are exact as floating point, too.
PKT = re.compile(
    rb'^{"k":"pkt","t_us":(0|[1-9]\d{0,14}),"hop":"([\w.-]{1,31})","sojourn_us":(0|[1-9]\d{0,14}),'
    rb'"bytes":(0|[1-9]\d{0,14}),"ce":([01])(?:,"low":([01]))?(?:,"flow":(0|[1-9]\d{0,6}))?}\n',
    re.MULTILINE,
)
BLOCK_BYTES = 1 << 23
# Packets that left each hop, in the file's order: exit time, sojourn time, bytes, CE, band L, flow.
Exits = dict[str, tuple[np.ndarray, ...]]


@dataclass(frozen=True)
class Packets:
    """Packets that left one hop, in order of exit. `delay_us` is the time spent queueing, never below 0."""

    t_us: np.ndarray
    delay_us: np.ndarray
    bytes: np.ndarray
    ce: np.ndarray
    low: np.ndarray
    flow: np.ndarray


@dataclass(frozen=True)
class Counter:
    """A count that only grows, at the times when it was read."""

    t_us: np.ndarray
    value: np.ndarray


@dataclass(frozen=True)
class FlowEnd:
    """One end of a flow over time; `rtt_us` is 0 where that end had no estimate. `counters` are those of END_COUNTERS
    that it has, `decisions` the counters of a learned congestion control at its end."""

    t_us: np.ndarray
    bytes: np.ndarray
    rtt_us: np.ndarray
    counters: Mapping[str, Counter] = field(default_factory=dict)
    decisions: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Shorts:
    """Short transfers in order of their end; `open` is 1 for those that were under way at the run's."""

    t_us: np.ndarray
    group: np.ndarray
    bytes: np.ndarray
    fct_us: np.ndarray
    open: np.ndarray


@dataclass(frozen=True)
class Change:
    """Change of the bottleneck from `t_us` on; None where it stays as it was."""

    t_us: float
    rate_mbit_s: float | None
    delay_ms: float | None
    loss_percent: float | None


@dataclass(frozen=True)
class Samples:
    """One run's samples with times counted from its start. `flows` is by (group, index, side), `paced` by (group,
    index)."""

    packets: dict[str, Packets]
    lost_t_us: dict[str, np.ndarray]
    states: list[dict[str, Any]]
    flows: dict[tuple[int, int, str], FlowEnd]
    unmeasured_percent: dict[str, float]
    changes: list[Change]
    shorts: Shorts
    decisions: list[dict[str, Any]]
    paced: dict[tuple[int, int], Stream] = field(default_factory=dict)


def read_samples(path: str | Path, spec: Mapping[str, Any]) -> Samples:
    """Read a samples file (`.gz` or plain). Raises SamplesError naming file and line, OSError if it can't be read."""
    path = Path(path)
    by_kind, exits = _read_quickly(path) or _read_checked(path)
    t0_us = by_kind["start"][0]["t_us"]
    hops = {record["hop"]: record for record in by_kind["hop"]}
    changes = _changes(path, by_kind["change"], t0_us)
    packets = {}
    for hop, (exit_us, sojourn_us, size_bytes, ce, low, flow) in sorted(exits.items()):
        if hop not in hops:
            raise SamplesError(f"{path}: no hop line for {hop}; its propagation_us is needed for queueing delay")
        t_us = exit_us - t0_us
        order = np.argsort(t_us, kind="stable")
        rate_mbit_s = hops[hop].get("rate_mbit_s", 0)
        alone_us = hops[hop]["propagation_us"] + (size_bytes * 8 / rate_mbit_s if rate_mbit_s else 0.0)
        if hop in DELAY_CHANGES_AT:
            alone_us = alone_us + _later_propagation_us(t_us - sojourn_us, changes, spec)
        packets[hop] = Packets(
            t_us=t_us[order],
            delay_us=np.maximum(sojourn_us - alone_us, 0.0)[order],
            bytes=size_bytes[order],
            ce=ce[order],
            low=low[order],
            flow=flow[order],
        )
    shorts = sorted(by_kind["short"], key=lambda record: record["t_us"])
    lost = grouped(by_kind["lost"], lambda r: r["hop"])
    states = sorted(by_kind["aqm"] + by_kind["qdisc"], key=lambda r: (r["t_us"], r["k"]))
    ends = grouped(by_kind["flow"] + by_kind["end"], lambda r: (*_flow_id(path, r["flow"], spec), r["side"]))
    samplers = grouped(by_kind["sampler"], lambda r: r["hop"])
    return Samples(
        packets=packets,
        lost_t_us={hop: column(path, records, "t_us") - t0_us for hop, records in lost.items()},
        states=[{**record, "t_us": record["t_us"] - t0_us} for record in states],
        flows={key: _flow_end(path, records, t0_us) for key, records in ends.items()},
        unmeasured_percent={hop: _unmeasured(records) for hop, records in samplers.items()},
        changes=changes,
        shorts=Shorts(
            t_us=column(path, shorts, "t_us") - t0_us,
            group=np.array([_group(path, record["flow"], spec) for record in shorts], dtype=int),
            bytes=column(path, shorts, "bytes"),
            fct_us=column(path, shorts, "fct_us"),
            open=column(path, shorts, "open"),
        ),
        decisions=[{**record, "t_us": record["t_us"] - t0_us} for record in by_kind["decision"] + by_kind["effect"]],
        paced=_streams(path, by_kind, t0_us, spec),
    )


def _streams(
    path: Path, by_kind: Mapping[str, list[dict[str, Any]]], t0_us: float, spec: Mapping[str, Any]
) -> dict[tuple[int, int], Stream]:
    """The paced flows. Raises SamplesError where a packet is heard that was not sent."""
    sent, heard = (grouped(by_kind[kind], lambda r: r["flow"]) for kind in ("sent", "heard"))
    if strangers := set(heard) - set(sent):
        raise SamplesError(f"{path}: flow {min(strangers)} was heard, and nothing of it was sent")
    found = {}
    for flow, records in sent.items():
        records.sort(key=lambda record: record["seq"])
        arrived = sorted(heard.get(flow, ()), key=lambda record: record["t_us"])
        places = column(path, records, "seq")
        if not np.array_equal(places, np.arange(len(records))) or any(
            not is_number(record["seq"]) or not 0 <= record["seq"] < len(records) for record in arrived
        ):
            raise SamplesError(f"{path}: the packets of flow {flow} are not numbered from 0 without a gap")
        found[_flow_id(path, flow, spec)] = Stream(
            sent_us=column(path, records, "t_us") - t0_us,
            heard_place=column(path, arrived, "seq").astype(int),
            heard_us=column(path, arrived, "t_us") - t0_us,
            heard_bytes=column(path, arrived, "bytes"),
        )
    return found


def _read_checked(path: Path) -> tuple[dict[str, list[dict[str, Any]]], Exits]:
    """A file's lines by kind, and departures of each hop. Any JSON will do; an error gives fault and place."""
    by_kind = by_kind_of(path, records_of(path), FIELDS, dict.fromkeys(FEW, NUMBERS))
    leaving = grouped(by_kind.pop("pkt"), lambda r: r["hop"])
    return by_kind, {
        hop: tuple(column(path, records, field) for field in ("t_us", "sojourn_us", "bytes", "ce", "low", "flow"))
        for hop, records in leaving.items()
    }


def _read_quickly(path: Path) -> tuple[dict[str, list[dict[str, Any]]], Exits] | None:
    """The same as `_read_checked` for a file whose `pkt` lines are as weir-sojourn writes them; None for any other.

    Nearly all lines are of that kind, up to millions. They are cut out by one expression and turned into numbers by the
    column, a block of the file at a time: in less than half the time and a fifth of the memory.
    """
    rest: list[bytes] = []
    blocks: dict[bytes, list[list[np.ndarray]]] = {}
    try:
        with gzip.open(path) if path.suffix == ".gz" else open(path, "rb") as file:
            behind = b""
            while block := file.read(BLOCK_BYTES):
                text = behind + block
                end = text.rfind(b"\n") + 1
                behind = text[end:]
                pieces = PKT.split(text[:end])
                others, t_us, hops, sojourn_us, size_bytes, ce, *left_out = (pieces[n::8] for n in range(8))
                rest += others
                known = ([was or b"0" for was in column] for column in left_out)  # low, flow
                _take_columns(blocks, hops, (t_us, sojourn_us, size_bytes, ce, *known))
        lines = b"".join(rest).split(b"\n")
        if behind or lines.pop():
            return None
        records = parsed_lines(lines)
        if records is None:
            return None
        by_kind = by_kind_of(path, records, FIELDS, dict.fromkeys(FEW, NUMBERS))
    except (EOFError, zlib.error, gzip.BadGzipFile, SamplesError):
        return None
    if by_kind.pop("pkt"):
        return None  # two ways of writing them in one file; their order counts
    exits = {
        hop.decode(): tuple(np.concatenate(parts) for parts in zip(*columns, strict=True))
        for hop, columns in blocks.items()
    }
    return by_kind, exits


def _take_columns(
    blocks: dict[bytes, list[list[np.ndarray]]], hops: list[bytes], columns: Sequence[list[bytes]]
) -> None:
    """Put a block's packets to those of their hops, as numbers."""
    if not hops:
        return
    numbers = [np.fromstring(b",".join(column), dtype=np.int64, sep=",").astype(float) for column in columns]
    where = np.array(hops)
    for name in set(hops):
        here = where == name
        blocks.setdefault(name, []).append([column[here] for column in numbers])


def _changes(path: Path, records: list[dict[str, Any]], t0_us: float) -> list[Change]:
    found = []
    for record in records:
        what, known = record["what"], ("rate_mbit_s", "delay_ms", "loss_percent")
        if not isinstance(what, dict) or not what or not all(k in known and is_number(v) for k, v in what.items()):
            raise SamplesError(f"{path}: what is {what!r} in a change line; it must be numbers by {listed(known)}")
        found.append(Change(record["t_us"] - t0_us, *(what.get(key) for key in known)))
    return sorted(found, key=lambda change: change.t_us)


def _later_propagation_us(entry_us: np.ndarray, changes: Sequence[Change], spec: Mapping[str, Any]) -> np.ndarray:
    """Additional propagation delay, against the run's start, of packets that enter at these times: netem gives a packet
    the delay at its arrival."""
    longer_us = np.zeros(len(entry_us))
    for change in changes:
        if change.delay_ms is not None:
            first_ms = spec["link"]["bottleneck"]["delay_ms"]
            longer_us[entry_us >= change.t_us] = (change.delay_ms - first_ms) * 1e3
    return longer_us


def _flow_id(path: Path, flow: Any, spec: Mapping[str, Any]) -> tuple[int, int]:
    """Group and index of a flow, checked against the spec."""
    group, dot, index = str(flow).partition(".")
    if not dot and len(spec["flows"]) == 1:
        group, index = "0", group
    if group.isdecimal() and index.isdecimal():
        found = int(group), int(index)
        if found[0] < len(spec["flows"]) and found[1] < spec["flows"][found[0]]["count"]:
            return found
    raise SamplesError(f"{path}: flow {flow!r} is not in the scenario; write GROUP.INDEX, as 0.3, counted from 0")


def _group(path: Path, flow: Any, spec: Mapping[str, Any]) -> int:
    """The group of a short transfer, checked against the spec."""
    group, _, index = str(flow).partition(".")
    if group.isdecimal() and index.isdecimal() and int(group) < len(spec["flows"]):
        return int(group)
    raise SamplesError(f"{path}: short transfer {flow!r} is not in the scenario; write GROUP.N, as 1.37")


def _flow_end(path: Path, records: list[dict[str, Any]], t0_us: float) -> FlowEnd:
    records.sort(key=lambda record: record["t_us"])
    for record in records:
        if record.get("min_rtt_us", 0) is None or record.get("rtt_us") is None:
            record["rtt_us"] = 0
    return FlowEnd(
        t_us=column(path, records, "t_us") - t0_us,
        bytes=column(path, records, "bytes"),
        rtt_us=column(path, records, "rtt_us"),
        counters={name: found for name in END_COUNTERS if (found := _counter(path, records, name, t0_us))},
        decisions=decisions.counted(path, records),
    )


def _counter(path: Path, records: list[dict[str, Any]], name: str, t0_us: float) -> Counter | None:
    having = [record for record in records if name in record]
    return Counter(column(path, having, "t_us") - t0_us, column(path, having, name)) if having else None


def _unmeasured(records: list[dict[str, Any]]) -> float:
    """The percentage of a hop's packets that escaped measurement, over all devices of that hop.

    A packet that could not be stamped on its way in (`collisions`, `full`) is a stray on its way out, and one packet.
    """
    escaped = sum(
        max(record["strays"], record["collisions"] + record["full"]) + record["ring_drops"] for record in records
    )
    return 100 * escaped / max(1, sum(record["stamped"] for record in records))
