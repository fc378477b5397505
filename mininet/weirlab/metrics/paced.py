# SPDX-License-Identifier: Apache-2.0
"""Delay, jitter and loss of paced flows (voice, games). Pure: arrays in, numbers out.

A packet counts if it was sent after the warm-up and at least LAST_S before the run's end: a packet that had not arrived
by then is lost. Delays are one way, from the sender's socket to the receiver's, by one clock.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

LAST_S = 2.0
JITTER_GAIN = 1 / 16  # RFC 3550 6.4.1

MEANINGS = {
    "packets": f"packets sent after warm-up and {LAST_S:g} s before the end, all flows together",
    "delay_mean_ms": "one-way delay of those that arrived: mean",
    "delay_p50_ms": "the same: median",
    "delay_p99_ms": "the same: 99th percentile",
    "jitter_ms": "interarrival jitter as RFC 3550 6.4.1 estimates it, mean over packets, then over flows",
    "jitter_p99_ms": "how much longer or shorter than the packet before one was on its way: 99th percentile",
    "loss_percent": "packets that did not arrive",
    "loss_run_packets": "the longest run of packets lost one after the other, in any flow",
}


@dataclass(frozen=True)
class Stream:
    """One flow's packets: when each was sent, by its place in the flow; and what was heard, in order of arrival."""

    sent_us: np.ndarray
    heard_place: np.ndarray
    heard_us: np.ndarray
    heard_bytes: np.ndarray


@dataclass(frozen=True)
class Met:
    """Delays and losses of the packets of a flow that count."""

    delay_us: np.ndarray
    deviation_us: np.ndarray
    jitter_us: np.ndarray
    arrived: np.ndarray  # of each packet sent, in order


def met(stream: Stream, begin_us: float, end_us: float) -> Met:
    """Delays and losses of the packets sent between two times; of a packet that came twice the first counts."""
    first = np.sort(np.unique(stream.heard_place, return_index=True)[1])
    place, heard_us = stream.heard_place[first].astype(int), stream.heard_us[first]
    transit_us = heard_us - stream.sent_us[place]
    deviation_us = np.abs(np.diff(transit_us))
    jitter_us = estimated_jitter(deviation_us)
    counted = (stream.sent_us >= begin_us) & (stream.sent_us < end_us)
    these = counted[place]
    arrived = np.zeros(len(stream.sent_us), dtype=bool)
    arrived[place] = True
    return Met(transit_us[these], deviation_us[these[1:]], jitter_us[these[1:]], arrived[counted])


def estimated_jitter(deviation_us: np.ndarray) -> np.ndarray:
    """J after each packet but the first: J += (|D| - J) / 16, from 0 on (RFC 3550 6.4.1)."""
    found, jitter = np.zeros(len(deviation_us)), 0.0
    for i, deviation in enumerate(deviation_us.tolist()):
        jitter += (deviation - jitter) * JITTER_GAIN
        found[i] = jitter
    return found


def longest_run(arrived: np.ndarray) -> int:
    """Length of the longest run of lost packets."""
    edges = np.diff(np.concatenate([[True], arrived, [True]]).astype(int))
    starts, ends = np.flatnonzero(edges == -1), np.flatnonzero(edges == 1)
    return int((ends - starts).max()) if len(starts) else 0


def figures(flows: Sequence[Met]) -> dict[str, Any]:
    """The figures of one flow, or of several together; None where nothing arrived."""
    found: dict[str, Any] = dict.fromkeys(MEANINGS)
    sent = sum(len(each.arrived) for each in flows)
    found["packets"] = sent
    if not sent:
        return found
    arrived = sum(int(each.arrived.sum()) for each in flows)
    found["loss_percent"] = 100 * (sent - arrived) / sent
    found["loss_run_packets"] = max(longest_run(each.arrived) for each in flows)
    delay_ms = np.concatenate([each.delay_us for each in flows]) / 1e3
    if len(delay_ms):
        found["delay_mean_ms"] = math.fsum(delay_ms) / len(delay_ms)
        found["delay_p50_ms"], found["delay_p99_ms"] = np.quantile(delay_ms, (0.5, 0.99))
    jitters = [float(each.jitter_us.mean()) / 1e3 for each in flows if len(each.jitter_us)]
    if jitters:
        deviation_us = np.concatenate([each.deviation_us for each in flows])
        found["jitter_ms"] = math.fsum(jitters) / len(jitters)
        found["jitter_p99_ms"] = np.quantile(deviation_us, 0.99) / 1e3
    return found
