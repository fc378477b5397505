# SPDX-License-Identifier: Apache-2.0
"""Figures of the two bands of RFC 9332 at the queue under test, where a scenario has scalable flows (`ect1`, or QUIC's
`prague`). Pure.

A packet's band follows from its own mark as it goes in, ECT(1) or CE, so that every discipline is measured alike: also
one that has a single queue, and one that does not distinguish its queues.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from weirlab.topologies.dumbbell.traffic import PACED_KINDS, SHORT_KINDS

NAMES = {"low": "packets that go in with ECT(1) or CE (band L)", "classic": "all other packets (band C)"}
PRAGUE = "prague"
QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
METRICS: dict[str, str] = {
    **{
        f"queue_delay_{band}_{kind}_ms": words
        for band, text in NAMES.items()
        for kind, words in (
            ("mean", f"time that {text} waited in the queue under test: mean"),
            ("p50", "the same: median"),
            ("p95", "the same: 95th percentile"),
            ("p99", "the same: 99th percentile"),
            ("max", "the same: largest"),
        )
    },
    "low_share_percent": "bytes that left the queue under test in band L, of all that left it",
    "goodput_classic_over_scalable": "mean goodput of a classic bulk flow over that of a scalable one",
}


def is_scalable(flow: Mapping[str, Any]) -> bool:
    return bool(flow.get("ect1")) or (flow.get("cc") == PRAGUE and bool(flow.get("ecn")))


def has_both(spec: Mapping[str, Any]) -> bool:
    """Whether there are figures of bands: some flows are scalable, and others are not."""
    return len({is_scalable(flow) for flow in spec["flows"]}) == 2


def bands_metrics(
    delay_us: np.ndarray,
    size_bytes: np.ndarray,
    is_low: np.ndarray,
    group_mbit_s: Mapping[int, float],
    spec: Mapping[str, Any],
) -> dict[str, Any]:
    """The figures from departures of the queue in the measured time; None where a band had no packet, or where scalable
    flows got nothing. Bulk flows are compared, those that run for the whole measured time."""
    found: dict[str, Any] = dict.fromkeys(METRICS)
    for band, these in (("low", is_low), ("classic", ~is_low)):
        delay_ms = delay_us[these] / 1e3
        if len(delay_ms):
            found[f"queue_delay_{band}_mean_ms"] = delay_ms.mean()
            values = np.quantile(delay_ms, tuple(QUANTILES.values()))
            found |= {f"queue_delay_{band}_{name}_ms": value for name, value in zip(QUANTILES, values, strict=True)}
    found["low_share_percent"] = 100 * float(size_bytes[is_low].sum()) / float(size_bytes.sum())
    rates: dict[bool, list[tuple[float, int]]] = {True: [], False: []}
    for group, flow in enumerate(spec["flows"]):
        whole = flow["start_s"] <= spec["warmup_s"] and flow["stop_s"] >= spec["duration_s"]
        if whole and flow["kind"] not in ("udp", *SHORT_KINDS, *PACED_KINDS):
            rates[is_scalable(flow)].append((group_mbit_s[group], flow["count"]))
    if rates[True] and rates[False] and (scalable := _per_flow(rates[True])) > 0:
        found["goodput_classic_over_scalable"] = _per_flow(rates[False]) / scalable
    return found


def _per_flow(groups: list[tuple[float, int]]) -> float:
    return sum(rate for rate, _ in groups) / sum(count for _, count in groups)
