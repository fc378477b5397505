# SPDX-License-Identifier: Apache-2.0
"""Samples to test the arithmetic and the report with: a made-up queue, not a measurement of anything."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from weirlab.topologies.dumbbell.traffic import PACED_KINDS

CAPTURED = Path(__file__).parent / "captured"
DELAYS_MS = {"pfifo": (180.0, 60.0), "pie": (15.5, 9.0), "paper": (12.5, 6.2), "tuned": (14.8, 5.0)}
T0_US = 1_000_000


def lines(spec: dict[str, Any], packets: int = 4000, outside_ms: float = 0.01) -> list[dict[str, Any]]:
    """A run's sample lines; the queue delay is an autoregressive course about the variant's figure."""
    key = spec["aqm"].get("profile", spec["aqm"]["qdisc"])
    mean_ms, sd_ms = DELAYS_MS.get(key, (10.0, 5.0))
    rng = np.random.default_rng([spec["seed"], *key.encode()])
    duration_us = spec["duration_s"] * 1e6
    found: list[dict[str, Any]] = [
        {"k": "start", "t_us": T0_US},
        {"k": "hop", "hop": "bottleneck", "propagation_us": 0},
        {"k": "hop", "hop": "access", "propagation_us": 1000, "rate_mbit_s": 50},
    ]
    t_us = np.sort(rng.uniform(0, duration_us, packets)).astype(int)
    noise = rng.normal(size=packets)
    course = np.zeros(packets)
    for i in range(1, packets):
        course[i] = 0.995 * course[i - 1] + 0.1 * noise[i]
    start_ms = 60 * np.exp(-t_us / 2e6)
    delay_us = (np.maximum(mean_ms + sd_ms * course + start_ms, 0.05) * 1e3).astype(int)
    for t, delay in zip(t_us.tolist(), delay_us.tolist(), strict=True):
        found.append({"k": "pkt", "t_us": T0_US + t, "hop": "bottleneck", "sojourn_us": delay, "bytes": 1440, "ce": 0})
    for t in t_us[::10].tolist():
        sojourn_us = 1000 + 230.4 + outside_ms * 1e4  # every tenth packet stands for ten
        found.append({"k": "pkt", "t_us": T0_US + t, "hop": "access", "sojourn_us": sojourn_us, "bytes": 1440, "ce": 0})
    for t in t_us[::100].tolist():
        found.append({"k": "lost", "t_us": T0_US + t, "hop": "egress", "bytes": 1440})
    state_times = range(0, int(duration_us) + 1, 100_000)
    for n, t in enumerate(state_times):
        state = {"t_us": T0_US + t, "hop": "bottleneck", "drops_limit": 0, "backlog_bytes": 15000}
        if key == "pfifo":
            found.append({"k": "qdisc", **state, "drops_limit": n})
        else:
            p = float(np.clip(0.012 + 0.004 * rng.normal(), 0, 1))
            found.append({"k": "aqm", **state, "drops_aqm": 2 * n, "marks": 0, "drop_probability": p})
    for group, flow in enumerate(spec["flows"]):
        for index in range(flow["count"]):
            rate_bit_s = 9.6e6 / flow["count"] * rng.uniform(0.7, 1.3, len(state_times))
            received = np.cumsum(rate_bit_s * 0.1 / 8).astype(int)
            receiver, sender = ("client", "server") if flow["kind"] == "quic-download" else ("server", "client")
            for n, t in enumerate(state_times):
                line = {"k": "flow", "t_us": T0_US + t, "flow": f"{group}.{index}"}
                found.append({**line, "side": receiver, "bytes": int(received[n])})
                rtt_us = int(102_000 + 1e3 * mean_ms * rng.uniform(0.8, 1.2))
                found.append({**line, "side": sender, "bytes": int(received[n]) + 9000, "rtt_us": rtt_us})
        if flow["kind"] in PACED_KINDS:
            found = [r for r in found if r["k"] != "flow" or not r["flow"].startswith(f"{group}.")]
            found += paced_lines(group, flow, duration_us)
    if "return" in spec["link"]:
        found.append({"k": "hop", "hop": "return", "propagation_us": 0})
        for n, t in enumerate(t_us[::2].tolist()):
            pkt = {"k": "pkt", "t_us": T0_US + t, "hop": "return", "sojourn_us": 40_000 + n % 7, "bytes": 66, "ce": 0}
            found.append(pkt)
        for n, t in enumerate(state_times):
            found.append({"k": "qdisc", "t_us": T0_US + t, "hop": "return", "drops_limit": n})
    return found


def paced_lines(group: int, flow: dict[str, Any], duration_us: float) -> list[dict[str, Any]]:
    """Every packet is 30 ms on its way but each tenth, which is 40; each hundredth is lost."""
    found: list[dict[str, Any]] = []
    for index in range(flow["count"]):
        label = f"{group}.{index}"
        for seq, t in enumerate(range(index, int(duration_us), round(1e6 / flow["packets_per_s"]))):
            found.append({"k": "sent", "t_us": T0_US + t, "flow": label, "seq": seq})
            if seq % 100:
                t_us = T0_US + t + (30_000 if seq % 10 else 40_000)
                found.append({"k": "heard", "t_us": t_us, "flow": label, "seq": seq, "bytes": flow["payload_bytes"]})
    return found


def write(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path
