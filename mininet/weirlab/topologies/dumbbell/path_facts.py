# SPDX-License-Identifier: Apache-2.0
"""Facts of a scenario's path that figures are held against: the round trip without queues, and fair shares. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from weirlab.topologies.dumbbell.samples import RESPONSIVE


def path_facts(spec: Mapping[str, Any]) -> dict[str, float | None]:
    """`base_rtt_ms` is the mean over flows under test; None where the delay changes. `fair_share` is the share of the
    link that these have if each flow has the same, beside responsive flows that go on all the time, and `fair_mbit_s`
    its rate; None without such ones, and where flows under test are short."""
    share = fair_share(spec)
    rate_mbit_s = spec["link"]["bottleneck"]["rate_mbit_s"]
    return {
        "base_rtt_ms": base_rtt_ms(spec),
        "fair_share": share,
        "fair_mbit_s": None if share is None else share * rate_mbit_s,
    }


def base_rtt_ms(spec: Mapping[str, Any]) -> float | None:
    if any("delay_ms" in change for change in spec.get("changes", [])):
        return None
    path_ms = 2 * sum(spec["link"][name]["delay_ms"] for name in ("access", "bottleneck"))
    tested = [flow for flow in spec["flows"] if not flow.get("neighbour")]
    extra_ms = sum(flow["count"] * flow.get("extra_rtt_ms", 0) for flow in tested)
    return float(path_ms + extra_ms / sum(flow["count"] for flow in tested))


def fair_share(spec: Mapping[str, Any]) -> float | None:
    others = [flow for flow in spec["flows"] if flow.get("neighbour") and flow["kind"] in RESPONSIVE]
    tested = [flow for flow in spec["flows"] if not flow.get("neighbour")]
    steady = all(flow["start_s"] <= spec["warmup_s"] and flow["stop_s"] >= spec["duration_s"] for flow in others)
    if not others or not steady or any(flow["kind"] not in RESPONSIVE for flow in tested):
        return None
    count = sum(flow["count"] for flow in tested)
    return float(count / (count + sum(flow["count"] for flow in others)))
