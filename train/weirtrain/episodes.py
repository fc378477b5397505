# SPDX-License-Identifier: Apache-2.0
"""The episodes of a training: scenarios of the lab, each made of the training's seed and the episode's number alone."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, replace
from math import exp, log
from typing import Any

from weirtrain import draws, ranges
from weirtrain.ranges import Interval

PACKET_BYTES = 1454  # on the wire: UDP payload of 1412 bytes
ACCESS_MBIT_S = 1000
# Senders draw noise by a number of so many bits plus their own; JSON keeps whole numbers up to 2^53.
EXPLORE_BITS = 48
NO_SEED = -1  # seeds of trainings count from 0


@dataclass(frozen=True)
class Episode:
    """Parameters of one lab run. `share_bytes_s` is the rate of the bottleneck over its flows: the delivery rate that
    counts as 1 in rewards."""

    number: int
    lab_seed: int
    explore: int | None  # None: without noise
    rate_mbit_s: float
    rtt_ms: float
    buffer_packets: int
    loss_percent: float
    flows: int
    duration_s: float
    cross: str
    queue: str
    fixed: bool = False  # the link of the paper
    extra_rtt_ms: float = 0.0  # of the later half of the senders

    @property
    def share_bytes_s(self) -> float:
        return self.rate_bytes_s / (self.flows + self.crossing)

    @property
    def rate_bytes_s(self) -> float:
        return self.rate_mbit_s * 1e6 / 8

    @property
    def crossing(self) -> int:
        """Flows beside those of the policy."""
        return int(self.cross != "none")

    @property
    def buffer_bdp(self) -> float:
        return self.buffer_packets * PACKET_BYTES / (self.rate_bytes_s * self.rtt_ms / 1e3)

    @property
    def farther(self) -> int:
        """Senders that have the longer round trip; they are the last ones."""
        return self.flows // 2 if self.extra_rtt_ms > 0 else 0

    def rtt_of_s(self, sender: int) -> float:
        """The round trip of a sender's path without a queue; senders count from 0."""
        return (self.rtt_ms + (self.extra_rtt_ms if sender >= self.flows - self.farther else 0.0)) / 1e3


def plan(profile: str, seed: int, number: int, duration_s: float | None = None) -> Episode:
    """Episode `number` of a training. `duration_s` stands for what ranges.toml says."""
    found = _planned(profile, seed, number)
    return replace(found, duration_s=duration_s) if duration_s else found


def for_validation(profile: str, count: int, duration_s: float | None = None, first: int = 0) -> list[Episode]:
    """Episodes of the training's ranges that no training learns from, without noise; the same for each seed."""
    return [replace(plan(profile, NO_SEED, first + n, duration_s), explore=None) for n in range(count)]


def _planned(profile: str, seed: int, number: int) -> Episode:
    found = ranges.load()
    lab_seed = draws.number(seed, "lab", number, bits=31)
    explore = draws.number(seed, "explore", number, bits=EXPLORE_BITS)
    if profile == "pbq-paper":
        link = found["paper"]
        return Episode(
            number, lab_seed, explore, link["rate_mbit_s"], link["rtt_ms"], link["buffer_bytes"] // PACKET_BYTES, 0.0,
            link["flows"], link["duration_s"], "none", "fifo", fixed=True,
        )  # fmt: skip
    training, dice = found["training"], random.Random(draws.number(seed, "episode", number))
    rate = drawn(training["rate_mbit_s"], dice, logarithmic=True)
    rtt = drawn(training["rtt_ms"], dice, logarithmic=True)
    buffer = drawn(training["buffer_bdp"], dice, logarithmic=True)
    # Half of the episodes are without random loss.
    loss = drawn(training["loss_percent"], dice) if dice.random() < 0.5 else 0.0
    flows = round(drawn(training["flows"], dice))
    duration = round(drawn(training["duration_s"], dice))
    cross, queue = dice.choice(training["cross"]), dice.choice(training["queues"])
    # Fast links have shorter episodes: what a lab run costs goes by its packets.
    duration = max(min(duration, int(training["most_mbit"] / rate)), training["duration_s"][0][0])
    # In some episodes half of the flows have a longer round trip, of the same range.
    farther = rtt
    if flows > 1 and dice.random() < training["unequal_rtts"]:
        farther = drawn(training["rtt_ms"], dice, logarithmic=True)
        while not rtt <= farther <= training["most_rtt_ratio"] * rtt:
            rtt, farther = sorted(drawn(training["rtt_ms"], dice, logarithmic=True) for _ in range(2))
    product_packets = rate * 1e6 / 8 * rtt / 1e3 / PACKET_BYTES
    flows = max(1, min(flows, int(product_packets / training["least_packets"])))
    return Episode(
        number, lab_seed, explore, round(rate, 3), round(rtt, 2), max(4, round(buffer * product_packets)),
        round(loss, 2), flows, duration, cross, queue, extra_rtt_ms=round(farther - rtt, 2) if flows > 1 else 0.0,
    )  # fmt: skip


def drawn(range_: list[Interval], dice: random.Random, logarithmic: bool = False) -> float:
    """A number of a range; each interval as often as it is wide, and small numbers as often as great ones if
    `logarithmic`."""
    put, back = (log, exp) if logarithmic else (float, float)
    widths = [put(most) - put(least) for least, most in range_]
    least, most = dice.choices(range_, widths if sum(widths) > 0 else None)[0]
    return min(max(back(dice.uniform(put(least), put(most))), least), most)


def scenario(episode: Episode, profile: str, others: dict[str, Any] | None = None) -> str:
    """A scenario file of the lab; the policy stands beside it in `policy.weights`. `others` are more members of the
    group of QUIC flows, or None for one that is left out."""
    quic = {
        "kind": "quic-download", "cc": profile, "count": episode.flows, "cc_weights": "policy.weights",
        "cc_explore": episode.explore, "cc_trajectories": True,
        # Flows of the paper's link begin together; else within a third of the run.
        "start_spread_s": 0.1 if episode.fixed else round(episode.duration_s / 3, 3),
        **(others or {}),
    }  # fmt: skip
    groups = [{key: value for key, value in quic.items() if value is not None}]
    if episode.cross != "none":
        groups.append({"kind": "tcp", "cc": episode.cross, "start_s": round(episode.duration_s / 4, 3)})
    # 10 % of the round trip on the access links.
    access = round(episode.rtt_ms * 0.05, 4)
    tables: dict[str, dict[str, Any]] = {
        "scenario": {
            "name": f"episode-{episode.number}", "title": f"Episode {episode.number} of a training",
            "duration_s": episode.duration_s, "sample_one_in": 1000, "seeds": [episode.lab_seed],
        },
        "link.access": {"rate_mbit_s": ACCESS_MBIT_S, "delay_ms": access},
        "link.bottleneck": {
            "rate_mbit_s": episode.rate_mbit_s, "delay_ms": round(episode.rtt_ms / 2 - access, 4),
            "loss_percent": episode.loss_percent, "queue_limit_packets": episode.buffer_packets,
        },
    }  # fmt: skip
    lines = ["# SPDX-License-Identifier: Apache-2.0"]
    for name, table in tables.items():
        lines += [f"[{name}]", *_members(table)]
    for group in groups:
        lines += ["[[flows]]", *_members(group)]
    queue = {"fifo": {"qdisc": "pfifo"}, "pid-delay": {"qdisc": "weir", "profile": "tuned"}}[episode.queue]
    return "\n".join([*lines, f"[variants.{episode.queue}]", *_members(queue), ""])


def _members(table: dict[str, Any]) -> list[str]:
    return [f"{key} = {json.dumps(value)}" for key, value in table.items()]  # TOML's words for these are JSON's
