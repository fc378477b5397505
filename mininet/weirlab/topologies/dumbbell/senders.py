# SPDX-License-Identifier: Apache-2.0
"""Figures of congestion controls, where a scenario compares senders (`compares = "senders"`). Pure: samples in, numbers
out.

Under test are the groups of flows that are no `neighbour`. Long flows are bulk transfers, whatever their application
holds back; short ones are connections of their own. Everything counts after the scenario's warm-up.

The time that fairness is measured over begins when the last long flow under test has started (`start_s` and
`start_spread_s` of its group), or with the end of the warm-up if that is later; flows that have stopped by then are
left out.

Round trips and losses are the senders' own. Of senders without samples the round trips are the network's
(`network_rtt.py`), and losses are not known.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from weirlab.metrics import decisions
from weirlab.topologies.dumbbell import network_rtt
from weirlab.topologies.dumbbell.fairness import BIN_S, convergence_s, jain_index, mean_rate_bit_s
from weirlab.topologies.dumbbell.samples import RECEIVER, RESPONSIVE, FlowEnd, Packets, Samples
from weirlab.topologies.dumbbell.traffic import ETHERNET_BYTES, HEADER_BYTES, PACED_KINDS, SHORT_KINDS

SETTLED_AFTER_S = 10.0
ALONE_AFTER_S = 5.0  # since the last competing flow has stopped
OUTSIDE = "decisions_outside_percent"
# Jain's index over time: its times, in s from the last start, and the figure's name.
COURSE_S: dict[str, tuple[float, float]] = {
    f"jain_{first_s}_to_{until_s}_s_index": (float(first_s), float(until_s))
    for first_s, until_s in ((0, 5), (5, 10), (10, 15), (15, 20), (20, 30), (30, 40), (40, 50))
}
METRICS: dict[str, str] = {
    "throughput_mbit_s": "application bytes that the flows under test delivered, over the time after warm-up",
    "wire_mbit_s": "bytes of their IP packets that left the queue under test: QUIC's and TCP's headers differ",
    "jain_after_10s_index": f"Jain's index as above, from {SETTLED_AFTER_S:g} s after the last start on",
    **{
        name: f"Jain's index from {first_s:g} to {until_s:g} s after the last start, if all those flows go on so long"
        for name, (first_s, until_s) in COURSE_S.items()
    },
    "convergence_s": "from the last start until each flow stays within 20 % of their mean for 5 s, in bins of 1 s",
    "neighbour_mbit_s": "application bytes that the neighbours delivered, over the time after warm-up",
    "neighbour_share": "their share of all application bytes delivered, 0 to 1",
    "alone_rtt_mean_ms": f"rtt_mean_ms from {ALONE_AFTER_S:g} s after the last competing flow has stopped",
    "alone_throughput_mbit_s": "throughput_mbit_s in that time",
    OUTSIDE: decisions.METRICS[OUTSIDE],
    "completion_p50_s": "time from opening a short transfer under test to its last byte: median; see fct_*",
    "completion_p95_s": "the same: 95th percentile",
}


@dataclass(frozen=True)
class Long:
    """A long flow under test: when its group has started and stops, and its two ends' counters."""

    started_s: float
    stop_s: float
    sender: FlowEnd | None
    receiver: FlowEnd | None

    def rate_bit_s(self, first_us: float, last_us: float) -> float:
        if self.receiver is None:  # not a packet came through
            return 0.0
        return mean_rate_bit_s(self.receiver.t_us, self.receiver.bytes, first_us, last_us)


def compared(spec: Mapping[str, Any]) -> bool:
    """Whether a run has these figures."""
    return bool(spec.get("compares") == "senders")


def under_test(spec: Mapping[str, Any]) -> list[int]:
    """The groups of flows under test."""
    return [group for group, flow in enumerate(spec["flows"]) if not flow.get("neighbour")]


def senders_metrics(
    samples: Samples, spec: Mapping[str, Any], group_mbit_s: Mapping[int, float], left: Packets
) -> dict[str, Any]:
    """All figures of this page, and those of the same names for all senders that here are of the flows under test
    alone. `group_mbit_s` is each group's delivered rate after warm-up, `left` the departures of the queue under test
    then."""
    begin_us, end_us = spec["warmup_s"] * 1e6, spec["duration_s"] * 1e6
    tested = under_test(spec)
    longs = list(_longs(samples, spec))
    found: dict[str, Any] = dict.fromkeys((*METRICS, "rtt_mean_ms", "rtt_p95_ms", "loss_percent", "jain_index"))
    found["throughput_mbit_s"] = sum(group_mbit_s[group] for group in tested)
    ip_bytes = float(left.bytes.sum()) - ETHERNET_BYTES * len(left.bytes)
    found["wire_mbit_s"] = ip_bytes * 8 / (end_us - begin_us) * _share_of_wire(samples, spec)
    found |= _rtt_and_loss(longs, begin_us, end_us)
    if longs and found["rtt_mean_ms"] is None:
        groups = [group for group in tested if spec["flows"][group]["kind"] in RESPONSIVE]
        found |= _rtt_figures(network_rtt.rtts_ms(left, samples.changes, spec, groups))
    found |= _fairness(longs, spec)
    found |= _alone(longs, spec)
    others = [rate for group, rate in group_mbit_s.items() if group not in tested]
    if others:
        found["neighbour_mbit_s"] = sum(others)
        together = found["throughput_mbit_s"] + sum(others)
        found["neighbour_share"] = sum(others) / together if together > 0 else None
    shares = decisions.percentages(end.decisions for end in (flow.sender for flow in longs) if end is not None)
    found[OUTSIDE] = shares.get(OUTSIDE)
    return found


def completion_metrics(fct_us: np.ndarray) -> dict[str, float]:
    """Completion times of the short transfers under test."""
    if not len(fct_us):
        return {}
    p50, p95 = np.quantile(fct_us, (0.5, 0.95)) / 1e6
    return {"completion_p50_s": p50, "completion_p95_s": p95}


def _longs(samples: Samples, spec: Mapping[str, Any]) -> Iterator[Long]:
    for group in under_test(spec):
        flow = spec["flows"][group]
        if flow["kind"] not in RESPONSIVE:
            continue
        receiver = RECEIVER[flow["kind"]]
        sender = "client" if receiver == "server" else "server"
        for index in range(flow["count"]):
            ends = (samples.flows.get((group, index, side)) for side in (sender, receiver))
            yield Long(flow["start_s"] + flow.get("start_spread_s", 0.0), flow["stop_s"], *ends)


def _together(longs: list[Long], spec: Mapping[str, Any]) -> tuple[float, list[Long]]:
    """When the last long flow has started and warm-up is over, and the flows that go on from there for a while."""
    begin_s = max([spec["warmup_s"], *(flow.started_s for flow in longs)])
    return begin_s, [flow for flow in longs if flow.stop_s >= begin_s + BIN_S]


def _binned(flows: list[Long], begin_s: float) -> np.ndarray:
    """The rate of each flow in each BIN_S from a time on in which all of them run."""
    until_s = min((flow.stop_s for flow in flows), default=begin_s)
    edges_us = (begin_s + BIN_S * np.arange(int((until_s - begin_s) / BIN_S + 1e-9) + 1)) * 1e6
    pairs = list(pairwise(edges_us))
    return np.array([[flow.rate_bit_s(*pair) for pair in pairs] for flow in flows]).reshape(len(flows), len(pairs))


def _fairness(longs: list[Long], spec: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    begin_s, flows = _together(longs, spec)
    last_s = max((flow.started_s for flow in longs), default=0.0)
    until_s = min((flow.stop_s for flow in flows), default=begin_s)
    for name, first_s in (
        ("jain_index", begin_s),
        ("jain_after_10s_index", max(begin_s, last_s + SETTLED_AFTER_S)),
    ):
        if flows and until_s - first_s >= BIN_S:
            found[name] = jain_index([flow.rate_bit_s(first_s * 1e6, until_s * 1e6) for flow in flows])
    # From the last start on, also during the warm-up.
    still = [flow for flow in longs if flow.stop_s >= last_s + BIN_S]
    end_s = min((flow.stop_s for flow in still), default=last_s)
    for name, (first_s, until_s) in COURSE_S.items():
        if len(still) > 1 and last_s + until_s <= end_s:
            rates = [flow.rate_bit_s((last_s + first_s) * 1e6, (last_s + until_s) * 1e6) for flow in still]
            found[name] = jain_index(rates)
    found["convergence_s"] = convergence_s(_binned(still, last_s))
    return found


def _alone(longs: list[Long], spec: Mapping[str, Any]) -> dict[str, Any]:
    """RTT and throughput of the flows under test after all competing flows have stopped; empty without such a time."""
    stops_s = [flow["stop_s"] for flow in spec["flows"] if flow.get("neighbour")]
    first_s, end_s = max(stops_s, default=math.inf) + ALONE_AFTER_S, spec["duration_s"]
    if end_s - first_s < BIN_S:
        return {}
    rates = [flow.rate_bit_s(first_s * 1e6, min(flow.stop_s, end_s) * 1e6) for flow in longs if flow.stop_s > first_s]
    rtt = _rtt_and_loss(longs, first_s * 1e6, end_s * 1e6).get("rtt_mean_ms")
    return {"alone_rtt_mean_ms": rtt, "alone_throughput_mbit_s": sum(rates) / 1e6}


def _rtt_and_loss(longs: list[Long], begin_us: float, end_us: float) -> dict[str, float]:
    rtts, sent, lost = [], 0.0, 0.0
    for end in (flow.sender for flow in longs):
        if end is not None:
            rtts.append(end.rtt_us[(end.t_us >= begin_us) & (end.t_us < end_us) & (end.rtt_us > 0)])
            sent += _counted(end, "sent", begin_us, end_us)
            lost += _counted(end, "lost", begin_us, end_us)
    found = _rtt_figures(np.concatenate(rtts) / 1e3 if rtts else np.array([]))
    if sent > 0:
        found["loss_percent"] = 100 * lost / sent
    return found


def _rtt_figures(rtt_ms: np.ndarray) -> dict[str, float]:
    if not len(rtt_ms):
        return {}
    return {"rtt_mean_ms": float(np.sort(rtt_ms).mean()), "rtt_p95_ms": float(np.quantile(rtt_ms, 0.95))}


def _counted(end: FlowEnd, name: str, begin_us: float, end_us: float) -> float:
    """Growth of one of an end's counters between two times."""
    counter = end.counters.get(name)
    if counter is None:
        return 0.0
    at = np.searchsorted(counter.t_us, (begin_us, end_us), side="right") - 1
    before, after = (counter.value[n] if n >= 0 else 0.0 for n in at)
    return float(after - before)


def _share_of_wire(samples: Samples, spec: Mapping[str, Any]) -> float:
    """The share of the flows under test in the queue's departures: 1 without neighbours, else by the packets that came
    to the receivers, each taken for a full one (of short transfers by their bytes)."""
    tested = under_test(spec)
    if len(tested) == len(spec["flows"]):
        return 1.0
    begin_us, end_us = spec["warmup_s"] * 1e6, spec["duration_s"] * 1e6
    parts = [_wire_bytes(samples, spec, group, begin_us, end_us) for group in range(len(spec["flows"]))]
    return sum(parts[group] for group in tested) / sum(parts) if sum(parts) > 0 else 0.0


def _wire_bytes(samples: Samples, spec: Mapping[str, Any], group: int, begin_us: float, end_us: float) -> float:
    """About how many bytes of a group's IP packets came to their receivers between two times."""
    flow = spec["flows"][group]
    packet_bytes = flow["payload_bytes"] + HEADER_BYTES[flow["kind"]] - ETHERNET_BYTES
    if flow["kind"] in PACED_KINDS:
        heard = [samples.paced[key].heard_us for key in samples.paced if key[0] == group]
        return packet_bytes * sum(int(np.count_nonzero((t >= begin_us) & (t < end_us))) for t in heard)
    if flow["kind"] in SHORT_KINDS:
        short = samples.shorts
        these = (short.group == group) & (short.t_us >= begin_us) & (short.t_us < end_us) & (short.open == 0)
        return float(short.bytes[these].sum()) * packet_bytes / flow["payload_bytes"]
    ends = (samples.flows.get((group, index, RECEIVER[flow["kind"]])) for index in range(flow["count"]))
    return packet_bytes * sum(_counted(end, "recv", begin_us, end_us) for end in ends if end is not None)
