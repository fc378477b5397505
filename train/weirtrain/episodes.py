# SPDX-License-Identifier: Apache-2.0
"""Episodes: parameters of lab runs, each made of the training's seed and the episode's number alone."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from weirtrain import draws, line_rates, ranges
from weirtrain.line_rates import Rates
from weirtrain.ranges import drawn

PACKET_BYTES = 1454  # on the wire
PAYLOAD_BYTES = 1412  # of UDP in it: what senders count
# Senders draw noise by a number of so many bits plus their own; JSON keeps whole numbers up to 2^53.
EXPLORE_BITS = 48
NO_SEED = -1  # seeds of trainings count from 0
UDP = "udp"
ECN = "-ecn"  # at the end of a queue's name: with ECN on all flows
AGAIN_ALONE_S = 5.0  # after the competing flows left: from then on the queue is to be short


@dataclass(frozen=True)
class Rival:
    """Competing flows from `start_s` to `stop_s`: `control` of kernel TCP, or UDP of `rate_mbit_s`, which sends for
    `period_s` and is silent for as long (0: it always sends)."""

    control: str
    flows: int
    start_s: float
    stop_s: float
    rate_mbit_s: float = 0.0
    period_s: float = 0.0


@dataclass(frozen=True)
class Episode:
    """Parameters of one lab run. `rates` are those of a line that varies, about `rate_mbit_s` on average. `kind` is the
    held-out one, or empty for the training's ranges."""

    number: int
    lab_seed: int
    explore: int | None  # None: without noise
    rate_mbit_s: float
    rtt_ms: float
    buffer_packets: int
    loss_percent: float
    flows: int
    duration_s: float
    queue: str
    rivals: tuple[Rival, ...] = ()
    rates: Rates = ()
    kind: str = ""
    fixed: bool = False  # the link of the paper
    extra_rtt_ms: float = 0.0  # of the later half of the senders

    @property
    def share_bytes_s(self) -> float:
        """Rate of the bottleneck over all its flows: what counts as 1 in the paper's reward."""
        return self.rate_bytes_s / (self.flows + self.crossing)

    @property
    def rate_bytes_s(self) -> float:
        return self.rate_mbit_s * 1e6 / 8

    @property
    def crossing(self) -> int:
        """Competing TCP flows in all."""
        return sum(rival.flows for rival in self.rivals if rival.control != UDP)

    @property
    def ecn(self) -> bool:
        return self.queue.endswith(ECN)

    @property
    def buffer_bdp(self) -> float:
        return self.buffer_packets * PACKET_BYTES / (self.rate_bytes_s * self.rtt_ms / 1e3)

    @property
    def farther(self) -> int:
        """Senders that have the longer round trip; they are the last ones."""
        return self.flows // 2 if self.extra_rtt_ms > 0 else 0

    @property
    def judged_from_s(self) -> float:
        """Start of what counts in figures: all flows have begun, and have the link alone again if others left it."""
        left = [rival.stop_s + AGAIN_ALONE_S for rival in self.rivals if rival.stop_s < self.duration_s]
        return max([self.duration_s / 3, *(left if self.kind else [])])

    def rtt_of_s(self, sender: int) -> float:
        """The round trip of a sender's path without a queue; senders count from 0."""
        return (self.rtt_ms + (self.extra_rtt_ms if sender >= self.flows - self.farther else 0.0)) / 1e3


def plan(profile: str, seed: int, number: int, duration_s: float | None = None) -> Episode:
    """Episode `number` of a training. `duration_s` stands for what ranges.toml says; rates and competing flows keep
    their times, and those that would begin later are left out."""
    found = _paper(seed, number) if profile == "pbq-paper" else _planned(ranges.load()["training"], seed, number)
    if not duration_s:
        return found
    there = [rival for rival in found.rivals if rival.start_s + 1 < duration_s]
    rivals = tuple(replace(rival, stop_s=min(rival.stop_s, duration_s)) for rival in there)
    return replace(
        found, duration_s=duration_s, rivals=rivals, rates=tuple(r for r in found.rates if r[0] < duration_s)
    )


def for_validation(profile: str, count: int, duration_s: float | None = None) -> list[Episode]:
    """Episodes of the training's ranges that no training learns from, without noise; the same for each seed."""
    return [replace(plan(profile, NO_SEED, n, duration_s), explore=None) for n in range(count)]


def held_out(kind: str, count: int) -> list[Episode]:
    """Episodes on held-out links of a kind, without noise: outside the training's ranges, which chose nothing."""
    table = ranges.load()["held_out"][kind]
    return [replace(_planned(table, NO_SEED, n, kind), explore=None, kind=kind) for n in range(count)]


def _seeds(seed: int, number: int, kind: str = "") -> tuple[int, int, int]:
    """Number, the lab's seed, and the seed of the noise."""
    where = (kind, number) if kind else (number,)
    lab_seed = draws.number(seed, "lab", *where, bits=31)
    return number, lab_seed, draws.number(seed, "explore", *where, bits=EXPLORE_BITS)


def _paper(seed: int, number: int) -> Episode:
    link = ranges.load()["paper"]
    return Episode(
        *_seeds(seed, number), link["rate_mbit_s"], link["rtt_ms"], link["buffer_bytes"] // PACKET_BYTES, 0.0,
        link["flows"], link["duration_s"], "fifo", fixed=True,
    )  # fmt: skip


def _planned(table: Mapping[str, Any], seed: int, number: int, kind: str = "") -> Episode:
    """An episode of a table of ranges.toml."""
    dice = random.Random(draws.number(seed, "episode", *((kind,) if kind else ()), number))
    rate = drawn(table["rate_mbit_s"], dice, logarithmic=True)
    rtt, farther = _round_trips(table, dice)
    buffer = drawn(table["buffer_bdp"], dice, logarithmic=True)
    loss = drawn(table["loss_percent"], dice) if dice.random() >= table["lossless"] else 0.0
    queue, varying = dice.choice(table["queues"]), dice.choice(table["rates"])
    # Fast links have shorter episodes: what a lab run costs goes by its packets.
    least_s = table["duration_s"][0][0]
    duration = max(min(round(drawn(table["duration_s"], dice)), int(table["most_mbit"] / rate)), least_s)
    product = rate * 1e6 / 8 * rtt / 1e3 / PACKET_BYTES
    buffer_packets = max(4, round(buffer * product))
    flows = max(1, min(round(drawn(table["flows"], dice, logarithmic=True)), int(product / table["least_packets"])))
    room = max(1, int((product + buffer_packets) / table["least_packets"]) - flows)
    return Episode(
        *_seeds(seed, number, kind), round(rate, 3), round(rtt, 2), buffer_packets, round(loss, 2), flows, duration,
        queue, _rivals(table, dice, rate, duration, room),
        line_rates.rates(varying, rate, duration, draws.number(seed, "rates", kind, number, bits=EXPLORE_BITS)),
        extra_rtt_ms=round(farther - rtt, 2) if flows > 1 else 0.0,
    )  # fmt: skip


def _round_trips(table: Mapping[str, Any], dice: random.Random) -> tuple[float, float]:
    """Round trips in ms of the earlier and of the later half of the flows."""
    rtt = drawn(table["rtt_ms"], dice, logarithmic=True)
    if "rtt_ratio" in table:
        return rtt, rtt * table["rtt_ratio"]
    if dice.random() >= table["unequal_rtts"]:
        return rtt, rtt
    while True:
        rtt, farther = sorted(drawn(table["rtt_ms"], dice, logarithmic=True) for _ in range(2))
        if farther <= table["most_rtt_ratio"] * rtt:
            return rtt, farther


def _rivals(
    table: Mapping[str, Any], dice: random.Random, rate: float, duration_s: float, room: int
) -> tuple[Rival, ...]:
    """Competing flows; `room` is the most TCP flows that path and buffer can hold."""
    control = dice.choice(table["rivals"])
    if control == "none":
        return ()
    left = min(round(drawn(table["rival_flows"], dice)), room)
    waves = min(round(drawn(table["rival_waves"], dice)), left)
    found = []
    for wave in range(waves):
        start_s = round(drawn(table["rival_from"], dice) * duration_s, 3)
        stop_s = round(min(drawn(table["rival_until"], dice), 1.0) * duration_s, 3)
        stop_s = max(stop_s, min(start_s + 1.0, duration_s))
        if control == UDP:
            share, period_s = drawn(table["udp_share"], dice), drawn(table["udp_period_s"], dice)
            return (Rival(UDP, 1, start_s, stop_s, round(share * rate, 3), round(period_s, 3)),)
        flows = left if wave == waves - 1 else dice.randint(1, left - (waves - 1 - wave))
        left -= flows
        found.append(Rival(control, flows, start_s, stop_s))
    return tuple(found)
