# SPDX-License-Identifier: Apache-2.0
"""Rows to test the suite of congestion controls with: made-up figures, not a measurement of anything.

Expected result: under loss pbq carries most, at the least RTT but for Vegas, whose throughput is poor; pbq-paper is
behind it in both. Beside others pbq leaves a CUBIC flow 0.7 of its share over fifo and 0.4 of it under auto. Beyond the
paper's links pbq has bbr2's throughput at 0.8 of its RTT, but for one scenario, where it is worse in both."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from weirlab.evaluation.plan import Plan
from weirlab.evaluation.shared.rows import RunRow
from weirlab.scenario.model import Run

# At no loss: Mbit/s, RTT in ms, and what a percent of loss takes off the throughput.
POINTS = {
    "pbq": (9.6, 104, 0.005),
    "pbq-paper": (9.2, 112, 0.01),
    "bbr2_gcongestion": (9.4, 130, 0.02),
    "cubic": (9.4, 150, 0.09),
    "noq-bbr3": (9.3, 128, 0.03),
    "reno": (9.3, 145, 0.095),
    "tcp-cubic": (9.4, 150, 0.09),
    "tcp-reno": (9.3, 140, 0.095),
    "tcp-bbr": (9.3, 135, 0.015),
    "tcp-vegas": (7.0, 102, 0.09),
    "tcp-bic": (9.4, 155, 0.09),
    "tcp-lp": (9.0, 120, 0.09),
    "tcp-westwood": (9.3, 140, 0.08),
    "tcp-illinois": (9.4, 150, 0.07),
}
OTHER_STACKS = (9.2, 132, 0.08)
NEIGHBOUR_MBIT_S = {"tcp-cubic": 5.0, "pbq": 3.5, "bbr2_gcongestion": 2.0}
LOSING = "efficiency-10mbit_20ms_0_25bdp"  # where pbq is worse in both


def rows(plan: Plan, seeds: Iterable[int] | None = None) -> list[RunRow]:
    """A row for each run of the plan."""
    return [
        RunRow(run.scenario, plan.group_of(run.scenario), run.variant, run.seed, metrics(run))
        for run in plan.runs(seeds)
    ]


def metrics(run: Run) -> dict[str, Any]:
    rng = np.random.default_rng([run.seed, *run.scenario.encode(), *run.variant.encode()])
    mbit_s, rtt_ms, per_percent = POINTS.get(run.variant, OTHER_STACKS)
    tested = [flow for flow in run.spec["flows"] if not flow.get("neighbour")]
    others = [flow for flow in run.spec["flows"] if flow.get("neighbour")]
    loss = run.spec["link"]["bottleneck"]["loss_percent"]
    flows = sum(flow["count"] for flow in tested)
    if loss and per_percent > 0.05:  # loss-based: by the flows, not by the line
        mbit_s *= (1 - per_percent * loss) * min(1.0, flows / 8)
    mbit_s *= (1 - per_percent * loss) * rng.uniform(0.999, 1.001)
    if run.variant == "pbq" and run.scenario == LOSING:
        mbit_s, rtt_ms = 0.8 * mbit_s, 1.5 * rtt_ms
    figures: dict[str, Any] = {
        "throughput_mbit_s": mbit_s, "wire_mbit_s": mbit_s * (1.029 if "tcp" in run.variant else 1.043),
        "rtt_mean_ms": rtt_ms * rng.uniform(0.999, 1.001), "rtt_p95_ms": 1.2 * rtt_ms, "loss_percent": loss + 0.1,
        "delay_outside_percent": 0.0, "goodput_total_mbit_s": mbit_s,
    }  # fmt: skip
    if any(flow["kind"].endswith("short") for flow in tested):
        figures |= {"rtt_mean_ms": None, "rtt_p95_ms": None, "completion_p50_s": rtt_ms / 200}
        figures["completion_p95_s"] = rtt_ms / 50
    elif flows > 1:
        jain = 0.98 if run.variant == "pbq" and "rtt" not in run.scenario else 0.9
        figures |= {"jain_index": jain - 0.01, "jain_after_10s_index": jain * rng.uniform(0.999, 1.001)}
        figures |= {"jain_0_to_5_s_index": jain - 0.2, "jain_5_to_10_s_index": jain - 0.01}
        figures["convergence_s"] = None if run.variant == "cubic" else 3.0
    if others:
        kept = NEIGHBOUR_MBIT_S.get(run.variant, 4.0) * rng.uniform(0.99, 1.01)
        if run.variant == "pbq" and run.scenario.endswith("-auto"):
            kept = 2.0
        figures |= {"neighbour_mbit_s": kept, "neighbour_share": kept / (kept + mbit_s)}
    if run.scenario.startswith("leaving"):
        figures |= {"alone_rtt_mean_ms": rtt_ms / 2, "alone_throughput_mbit_s": mbit_s}
    if run.variant.startswith("pbq"):
        figures["decisions_outside_percent"] = 12.5 if "efficiency" in run.scenario else 0.0
    return figures
