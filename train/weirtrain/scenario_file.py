# SPDX-License-Identifier: Apache-2.0
"""Scenario file of the lab for an episode."""

from __future__ import annotations

import json
from typing import Any

from weirtrain import line_rates
from weirtrain.episodes import ECN, UDP, Episode, Rival

ACCESS_MBIT_S = 1000
POLICY, SCENARIO, RATES = "policy.weights", "scenario.toml", "rates.csv"  # in a run's folder
QUEUES: dict[str, dict[str, Any]] = {"fifo": {"qdisc": "pfifo"}, "pid-delay": {"qdisc": "weir", "profile": "tuned"}}


def files(episode: Episode, profile: str, weights: bytes, others: dict[str, Any] | None = None) -> dict[str, bytes]:
    """Files of a run's folder, by name."""
    found = {POLICY: weights, SCENARIO: scenario(episode, profile, others).encode()}
    if episode.rates:
        found[RATES] = line_rates.text(episode.rates, episode.duration_s).encode()
    return found


def scenario(episode: Episode, profile: str, others: dict[str, Any] | None = None) -> str:
    """Text of the file; policy and rates stand beside it. `others` are more members of the group of QUIC flows, or None
    for one that is left out."""
    quic = {
        "kind": "quic-download", "cc": profile, "cc_weights": POLICY,
        "cc_explore": episode.explore, "cc_trajectories": True, "ecn": True if episode.ecn else None,
        # Flows of the paper's link begin together; else within a third of the run.
        "start_spread_s": 0.1 if episode.fixed else round(episode.duration_s / 3, 3),
        **(others or {}),
    }  # fmt: skip
    quic = {key: value for key, value in quic.items() if value is not None}
    groups = [quic | {"count": episode.flows - episode.farther}]
    if episode.farther:
        groups.append(quic | {"count": episode.farther, "extra_rtt_ms": episode.extra_rtt_ms})
    groups += [_rival(rival, episode) for rival in episode.rivals]
    # 10 % of the round trip on the access links.
    access = round(episode.rtt_ms * 0.05, 4)
    rate = {"rate_file": RATES} if episode.rates else {"rate_mbit_s": episode.rate_mbit_s}
    tables: dict[str, dict[str, Any]] = {
        "scenario": {
            "name": f"episode-{episode.number}", "title": f"Episode {episode.number} of a training",
            "duration_s": episode.duration_s, "sample_one_in": 1000, "seeds": [episode.lab_seed],
        },
        "link.access": {"rate_mbit_s": ACCESS_MBIT_S, "delay_ms": access},
        "link.bottleneck": {
            **rate, "delay_ms": round(episode.rtt_ms / 2 - access, 4), "loss_percent": episode.loss_percent,
            "queue_limit_packets": episode.buffer_packets,
        },
    }  # fmt: skip
    lines = ["# SPDX-License-Identifier: Apache-2.0"]
    for name, table in tables.items():
        lines += [f"[{name}]", *_members(table)]
    for group in groups:
        lines += ["[[flows]]", *_members(group)]
    return "\n".join([
        *lines, f"[variants.{episode.queue}]", *_members(QUEUES[episode.queue.removesuffix(ECN)]), ""
    ])  # fmt: skip


def _rival(rival: Rival, episode: Episode) -> dict[str, Any]:
    """Group of competing flows."""
    times = {"start_s": rival.start_s, "stop_s": rival.stop_s, "ecn": episode.ecn}
    if rival.control != UDP:
        return {"kind": "tcp", "cc": rival.control, "count": rival.flows, **times}
    bursts = {"on_s": rival.period_s, "off_s": rival.period_s} if rival.period_s else {}
    return {"kind": "udp", "rate_mbit_s": rival.rate_mbit_s, **bursts, **times, "ecn": False}


def _members(table: dict[str, Any]) -> list[str]:
    return [f"{key} = {json.dumps(value)}" for key, value in table.items()]  # TOML's words for these are JSON's
