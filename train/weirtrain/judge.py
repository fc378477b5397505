# SPDX-License-Identifier: Apache-2.0
"""Test of a trained policy: a lab run of an episode's scenario without noise, or one of quiche's controls there in its
place."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from weirlab.run.runner import run_lab
from weirlab.topologies.dumbbell.metrics import goodput_metrics
from weirlab.topologies.dumbbell.samples import read_samples
from weirtrain.episodes import Episode
from weirtrain.rollout import prepare

SECONDS, WARMUP_S = 60, 5
FIGURES = ("goodput_mbit_s", "rtt_mean_ms", "rtt_p95_ms", "jain_index")


def judge(episode: Episode, control: str, weights: bytes | None) -> dict[str, float]:
    """FIGURES over SECONDS of virtual time but for the first WARMUP_S: goodput of all connections, and the round-trip
    time as their senders estimate it. `control` is a name for `--cc`; `weights` is its policy, or None for one of
    quiche's. Raises RunError, LabError, SamplesError."""
    others = {"cc_explore": None, "cc_trajectories": None, "cc_weights": "policy.weights" if weights else None}
    with tempfile.TemporaryDirectory(prefix="weir-judge-") as folder:
        run = prepare(Path(folder), replace(episode, duration_s=SECONDS), control, weights or b"", others)
        run_lab(Path(folder), run)
        spec = run.spec | {"warmup_s": WARMUP_S}
        samples = read_samples(Path(folder) / "samples.jsonl.gz", spec)
    found = goodput_metrics(samples, spec)
    senders = [end for (_, _, side), end in samples.flows.items() if side == "server"]
    rtt_ms = np.concatenate([end.rtt_us[(end.t_us >= WARMUP_S * 1e6) & (end.rtt_us > 0)] for end in senders]) / 1e3
    values = (found["goodput_total_mbit_s"], rtt_ms.mean(), np.quantile(rtt_ms, 0.95), found["jain_index"])
    return dict(zip(FIGURES, map(float, values), strict=True))
