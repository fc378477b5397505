# SPDX-License-Identifier: Apache-2.0
"""Trajectories that a test makes by itself."""

import json
from collections.abc import Sequence

STATE = [0.1, -0.2]


def head(weights: str = "0" * 64, inputs: int = 2, history: int = 1) -> dict:
    return {"k": "trajectory", "version": 1, "profile": "pbq", "weights": weights, "side": "server", "conn": 0,
            "explore_seed": 1, "inputs": ["window_bdp", "loss_share"][:inputs], "history": history, "deviation": 0.5,
            "action_bound": 1.0}  # fmt: skip


def step(n: int, **members) -> dict:
    found = {"k": "step", "n": n, "t_us": 100_000 * n, "state": STATE, "mean": 0.0, "noise": 0.0, "drawn": 0.0,
             "log_probability": -0.2, "action": 0.0, "window_bytes": 1e4, "used_bytes": 1e4, "by": "policy",
             "outside": None, "interval_us": 100_000, "acked_bytes": 10_000, "lost_bytes": 0, "rtt_mean_us": 30_000,
             "rtt_last_us": 30_000, "rtt_least_us": 30_000, "in_flight_bytes": 1000, "window_before_bytes": 10_000,
             "pacing_bytes_s": 1e5, "rate_greatest_bytes_s": 1e5}  # fmt: skip
    return found | members


def end(steps: int) -> dict:
    return {"k": "end", "steps": steps, "reason": "closed"}


def content(records: Sequence[dict]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)
