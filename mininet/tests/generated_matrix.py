# SPDX-License-Identifier: Apache-2.0
"""Rows to test the matrix and its page with: made-up figures, not a measurement of anything."""

from typing import Any

import numpy as np

from weirlab.evaluation.matrix.analysis import COMPARED
from weirlab.evaluation.shared.rows import RunRow

GROUPS = {
    "table2": ["table2-cubic"],
    "flows": ["flows-2", "flows-10", "flows-100"],
    "grid": ["grid-2-10", "grid-200-160"],
    "steps": ["steps-load"],
    "short": ["short-web"],
}
DELAYS_MS = {
    "pfifo": 400,
    "red": 14,
    "pie": 16,
    "pie-5ms": 6,
    "codel": 7,
    "fq_pie": 12,
    "fq_codel": 6,
    "cake": 5,
    "paper": 30,
    "tuned": 14,
    "auto": 13,
}
PAPER = {
    "short": "Cao et al.",
    "source": "PID-Delay, section IV",
    "note": "One value each.",
    "figures": {"pie": {"queue_delay_mean_ms": 4.14, "rtt_mean_ms": 206.5}, "paper": {"queue_delay_mean_ms": 0.62}},
}
ABOUT: dict[str, dict[str, Any]] = {
    "table2-cubic": {"title": "Table II, <ten> QUIC downloads", "description": "As in the paper.", "paper": PAPER}
}


def rows(seeds: int = 3) -> list[RunRow]:
    found = []
    for group, scenarios in GROUPS.items():
        for scenario in scenarios:
            more = {"flows": ["tuned-half", "auto-half"], "table2": ["tuned-half", "auto-half", "p4-tuned"]}
            for variant in [*COMPARED, *more.get(group, [])]:
                for seed in range(1, seeds + 1):
                    found.append(RunRow(scenario, group, variant, seed, metrics(scenario, group, variant, seed)))
    return found


def metrics(scenario: str, group: str, variant: str, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng([seed, *scenario.encode(), *variant.encode()])
    base = variant.removesuffix("-half").removeprefix("p4-")
    delay_ms = DELAYS_MS[base] * (0.5 if variant.endswith("-half") else 1) * rng.uniform(0.9, 1.1)
    goodput = 9.6 * rng.uniform(0.98, 1.0)
    figures = {
        "queue_delay_mean_ms": delay_ms,
        "queue_delay_sd_ms": 0.4 * delay_ms,
        "queue_delay_p99_ms": 2 * delay_ms,
        "queue_delay_excess_ms": max(delay_ms - 15, 1.0),
        "goodput_total_mbit_s": goodput,
        "goodput_per_flow_mean_kbit_s": goodput * 100,
        "jain_index": rng.uniform(0.8, 1),
        "utilisation_percent": goodput * 10,
        "rtt_mean_ms": 104 + delay_ms,
        "loss_percent": 1.5,
        "rx_packets": 20_000,
        "lost_packets": 300 if base == "pie" else 250,
        "spectral_peak_ratio": rng.uniform(2, 5),
        "spectral_peak_hz": 1.2,
        "spectral_peak_rms_ms": 0.1 * delay_ms,
        "steps_count": None,
        "settled_share": None,
        "overshoot_mean_ms": None,
        "fct_mean_ms": None,
        "decisions_count": 4 if "auto" in variant else None,
    }
    if group == "steps":
        figures |= {"steps_count": 2, "settled_share": 1.0, "settling_mean_s": 0.4, "settling_max_s": 0.8}
        figures |= {"overshoot_mean_ms": delay_ms, "overshoot_max_ms": 2 * delay_ms}
        for n in (1, 2):
            figures |= {f"step_{n}_at_s": 10.0 * n, f"step_{n}_settling_s": 0.4, f"step_{n}_settled": 1}
            figures |= {f"step_{n}_overshoot_ms": delay_ms}
    if group == "short":
        figures |= {"fct_count": 200, "fct_mean_ms": 300 + delay_ms, "fct_p95_ms": 600 + delay_ms}
    return figures
