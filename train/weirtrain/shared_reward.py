# SPDX-License-Identifier: Apache-2.0
"""The reward of `pbq`: what all flows of a run have together, so that none gains by what it takes from another.

Ours. The mean of the logarithms of rates is greatest, for a given total, where all rates are equal (Kelly et al. 1998).
The trainer knows the link, so rates are beside the fair share, and delays beside the path's own round trip: not beside
the least that was measured, which a policy could make longer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weirtrain.episodes import Episode
from weirtrain.rewards import loss_shares, rates_bytes_s, together
from weirtrain.settings import SharedReward
from weirtrain.trajectory import Trajectory

LEAST_SHARE = 1 / 64
MOST_SHARE = 2.0
# Delays are beside the round trip and the time that so many packets of each flow take: no queue is shorter.
PACKETS_EACH = 5
PACKET_BYTES = 1454


def of_flows(flows: Sequence[Trajectory], episode: Episode, reward: SharedReward) -> list[np.ndarray]:
    """The reward of each interval of each flow, [steps] each. `flows` is in the order of the senders."""
    worth = together(flows, [_worth(flow, flows, episode) for flow in flows])
    found = []
    for number, flow in enumerate(flows):
        lost = loss_shares(flow) - episode.loss_percent / 100
        delay = delays(flow, number, active_at(flow.numbers["t_us"], flows), episode)
        found.append(reward.throughput * worth[number] - reward.delay * delay - reward.loss * lost)
    return found


def of_one(share: float, rtt_s: float, lost: float, episode: Episode, reward: SharedReward) -> float:
    """The reward of an interval of the first flow, with all the others like it: the part of its fair share that it had,
    its mean round trip, and the share of its bytes lost."""
    worth = np.log2(np.clip(share, LEAST_SHARE, 1.0 if episode.crossing else MOST_SHARE))
    delay = _delay(np.array([rtt_s]), 0, np.array([episode.flows]), episode)[0]
    return float(reward.throughput * worth - reward.delay * delay - reward.loss * (lost - episode.loss_percent / 100))


def active_at(now_us: np.ndarray, flows: Sequence[Trajectory]) -> np.ndarray:
    """Number of flows that are under way at each of these times; at least one."""
    count = np.zeros(len(now_us))
    for flow in flows:
        times = flow.numbers["t_us"]
        if len(times):
            count += (now_us >= times[0]) & (now_us <= times[-1])
    return np.maximum(count, 1)


def delays(flow: Trajectory, sender: int, active: np.ndarray, episode: Episode) -> np.ndarray:
    """The queue's delay beside the path's own round trip [steps]; 0.1 is a tenth of it."""
    return _delay(flow.numbers["rtt_mean_us"] * 1e-6, sender, active, episode)


def _delay(rtt_s: np.ndarray, sender: int, active: np.ndarray, episode: Episode) -> np.ndarray:
    least_s = episode.rtt_of_s(sender)
    packets_s = PACKETS_EACH * PACKET_BYTES / episode.rate_bytes_s * (active + episode.crossing)
    return np.maximum(rtt_s - least_s, 0) / (least_s + packets_s)


def _worth(flow: Trajectory, flows: Sequence[Trajectory], episode: Episode) -> np.ndarray:
    """log2 of the fair share that a flow has in each of its intervals [steps]. Beside other traffic more than the fair
    share is worth no more."""
    fair = episode.rate_bytes_s / (active_at(flow.numbers["t_us"], flows) + episode.crossing)
    most = 1.0 if episode.crossing else MOST_SHARE
    return np.log2(np.clip(rates_bytes_s(flow) / fair, LEAST_SHARE, most))


def facts(flow: Trajectory, sender: int, flows: Sequence[Trajectory], episode: Episode) -> np.ndarray:
    """Critic's facts of the link, which no sender can know [steps, FACTS]."""
    active = active_at(flow.numbers["t_us"], flows)
    constant = (
        np.log2(episode.rate_mbit_s / 8), np.log2(episode.rtt_of_s(sender) / 0.04), np.log2(episode.buffer_bdp),
        episode.loss_percent / 3, float(episode.cross == "cubic"), float(episode.cross == "bbr"),
        float(episode.queue != "fifo"),
    )  # fmt: skip
    return np.column_stack([np.full(len(flow), value) for value in constant] + [active / 3])


FACTS = 8
