# SPDX-License-Identifier: Apache-2.0
"""The reward of `pbq`: goals of the whole run, so that no flow gains by what it takes from another. Ours. Pure.

The trainer knows the link: rates are beside its capacity at that time, delays beside the path's own round trip, and
not beside the greatest rate and the least round trip that were measured, which a policy could change. Five terms, each
0 where its goal is met and below 0 elsewhere; `settings.SharedReward` has their weights. In an interval of a flow, x
are the delivery rates of the policy's n flows under way, each over the last WINDOW_S. C is the link's capacity for UDP
payload in the same time but a round trip earlier, when these bytes left the queue; UDP of others is taken off. m is the
number of competing TCP flows. Where the link let no packet through in that time, use and share are 0.

    use       alone (m = 0): log2(min(sum x / C, 1))
    queue     alone: -log2(1 + d), d the round trip's excess over the path's own, by that and the time that
              PACKETS_EACH packets of each flow take: no queue is shorter
    share     beside others: band(s), s = sum x / (C n / (n + m)). band: 0 from 1 to MOST_SHARE, LEANING log2 s from
              LEAST_SHARE to 1; outside these the distance in powers of two
    fairness  mean over the flows, each from its first decision on, of log2(x / mean x): their part of the mean of log2
              of their shares (Kelly et al. 1998), which is 0 for equal rates alone
    loss      -(share of bytes lost, less the link's random loss)

Use, share and fairness are the same for all flows; queue and loss are of the flow itself. A ratio below FLOOR counts as
FLOOR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from weirtrain.episodes import PACKET_BYTES, PAYLOAD_BYTES, Episode
from weirtrain.link import Link
from weirtrain.rewards import loss_shares
from weirtrain.settings import SharedReward
from weirtrain.trajectory import Trajectory

WINDOW_S = 0.5
FLOOR = 1 / 64
LEAST_SHARE, MOST_SHARE = 0.5, 1.5
LEANING = 0.25
PACKETS_EACH = 5
FACTS = 10


@dataclass(frozen=True)
class Terms:
    """Terms of each interval of one flow, before their weights [steps], and the delivery rate that is its fair share,
    in bytes/s [steps]."""

    use: np.ndarray
    queue: np.ndarray
    share: np.ndarray
    fairness: np.ndarray
    loss: np.ndarray
    fair_bytes_s: np.ndarray

    def total(self, reward: SharedReward) -> np.ndarray:
        """The reward of each interval [steps]."""
        weighed = [getattr(reward, one.name) * getattr(self, one.name) for one in fields(reward)]
        return np.sum(weighed, axis=0)


def of_flows(flows: Sequence[Trajectory], episode: Episode, reward: SharedReward) -> list[np.ndarray]:
    """The reward of each interval of each flow, [steps] each. `flows` is in the order of the senders; their times are
    of the run."""
    return [terms.total(reward) for terms in terms_of(flows, episode)]


def terms_of(flows: Sequence[Trajectory], episode: Episode) -> list[Terms]:
    """The terms of each flow, in the order of the senders."""
    link = Link.of(episode)
    return [_terms(number, flows, episode, link) for number in range(len(flows))]


def of_one(share: float, rtt_s: float, lost: float, episode: Episode, reward: SharedReward) -> float:
    """The reward of an interval of the first flow, with all the others like it and all competing flows there: the part
    of its fair share that it had, its mean round trip, and the share of its bytes lost."""
    beside = episode.crossing > 0
    ratio = np.array([share])
    rate = reward.share * band(ratio) if beside else reward.use * use(ratio)
    late = 0.0 if beside else reward.queue * queue(excess(np.array([rtt_s]), 0, np.array([episode.flows]), episode))
    return float((rate + late)[0] - reward.loss * (lost - episode.loss_percent / 100))


def use(ratio: np.ndarray) -> np.ndarray:
    """Term of a rate over the capacity."""
    return np.log2(np.clip(ratio, FLOOR, 1.0))


def queue(excess_: np.ndarray) -> np.ndarray:
    """Term of a round trip's excess over the path's own, by that."""
    return -np.log2(1.0 + np.maximum(excess_, 0.0))


def band(share: np.ndarray) -> np.ndarray:
    """Term of a rate over the fair share beside competing flows."""
    share = np.maximum(share, FLOOR)
    below = np.log2(np.minimum(share / LEAST_SHARE, 1.0))
    inside = LEANING * np.log2(np.clip(share, LEAST_SHARE, 1.0))
    return below + inside - np.log2(np.maximum(share / MOST_SHARE, 1.0))


def fairness(rates: np.ndarray, there: np.ndarray) -> np.ndarray:
    """Term of the flows' rates [flows, steps], of which those count that are `there`."""
    count = np.maximum(there.sum(axis=0), 1)
    mean = np.where(there, rates, 0.0).sum(axis=0) / count
    parts = np.maximum(rates / np.maximum(mean, 1e-9), FLOOR)
    found = np.where(there, np.log2(parts), 0.0).sum(axis=0) / count
    return np.where(mean > 0, np.minimum(found, 0.0), 0.0)


def excess(rtt_s: np.ndarray, sender: int, flows: np.ndarray, episode: Episode) -> np.ndarray:
    """A round trip's excess over the path's own, by that and PACKETS_EACH packets of each of so many flows [steps]."""
    least_s = episode.rtt_of_s(sender)
    packets_s = PACKETS_EACH * PACKET_BYTES / episode.rate_bytes_s * flows
    return np.maximum(rtt_s - least_s, 0) / (least_s + packets_s)


def _terms(number: int, flows: Sequence[Trajectory], episode: Episode, link: Link) -> Terms:
    flow = flows[number]
    end_s, interval_s = flow.numbers["t_us"] * 1e-6, flow.numbers["interval_us"] * 1e-6
    window_s = np.maximum(interval_s, WINDOW_S)
    there = np.stack([_under_way(one, flow, end_s) for one in flows])
    rates = np.stack([_delivered(one, end_s, window_s) for one in flows])
    own, rivals = there.sum(axis=0), link.rivals_at(end_s - interval_s / 2)
    rtt_s = episode.rtt_of_s(number)
    capacity = link.capacity(end_s - window_s - rtt_s, end_s - rtt_s) * PAYLOAD_BYTES / PACKET_BYTES
    out = capacity * window_s < PAYLOAD_BYTES
    capacity = np.maximum(capacity, 1.0)
    decided = np.stack([decided_at(one, end_s) for one in flows])
    total = np.where(there, rates, 0.0).sum(axis=0)
    alone = rivals == 0
    late = excess(flow.numbers["rtt_mean_us"] * 1e-6, number, own, episode)
    return Terms(
        use=np.where(alone & ~out, use(total / capacity), 0.0),
        queue=np.where(alone, queue(late), 0.0),
        share=np.where(alone | out, 0.0, band(total / capacity * (own + rivals) / own)),
        fairness=fairness(rates, there & decided),
        loss=episode.loss_percent / 100 - loss_shares(flow),
        fair_bytes_s=capacity / (own + rivals),
    )


def _under_way(one: Trajectory, flow: Trajectory, end_s: np.ndarray) -> np.ndarray:
    """Whether a flow is under way at these times; the one whose times they are is."""
    times_s = one.numbers["t_us"] * 1e-6
    if one is flow or not len(times_s):
        return np.full(len(end_s), one is flow)
    return (end_s >= times_s[0]) & (end_s <= times_s[-1])


def decided_at(one: Trajectory, end_s: np.ndarray) -> np.ndarray:
    """Whether a flow's first decision by the policy was before these times: until then it is in its startup."""
    first = np.flatnonzero(one.by_policy)
    if not len(first):
        return np.full(len(end_s), False)
    return end_s > one.numbers["t_us"][first[0]] * 1e-6


def _delivered(one: Trajectory, end_s: np.ndarray, window_s: np.ndarray) -> np.ndarray:
    """Delivery rate of a flow in the windows that end at these times, or since its begin if that is later, bytes/s."""
    if not len(one):
        return np.zeros(len(end_s))
    times_s = one.numbers["t_us"] * 1e-6
    begin_s = times_s[0] - one.numbers["interval_us"][0] * 1e-6
    times_s = np.concatenate([[begin_s], times_s])
    done = np.concatenate([[0.0], np.cumsum(one.numbers["acked_bytes"])])
    since_s = np.maximum(end_s - window_s, begin_s)
    return (np.interp(end_s, times_s, done) - np.interp(since_s, times_s, done)) / np.maximum(end_s - since_s, 1e-6)


def facts(flow: Trajectory, sender: int, flows: Sequence[Trajectory], episode: Episode) -> np.ndarray:
    """Critic's facts of the link, which no sender can know [steps, FACTS]."""
    end_s = flow.numbers["t_us"] * 1e-6
    link = Link.of(episode)
    own = np.stack([_under_way(one, flow, end_s) for one in flows]).sum(axis=0)
    now = link.capacity(end_s - WINDOW_S, end_s)
    constant = (
        np.log2(episode.rate_mbit_s / 8), np.log2(episode.rtt_of_s(sender) / 0.04), np.log2(episode.buffer_bdp),
        episode.loss_percent / 3, float(episode.queue != "fifo"), float(episode.ecn),
    )  # fmt: skip
    return np.column_stack([
        *(np.full(len(flow), value) for value in constant),
        np.log2(np.maximum(now / episode.rate_bytes_s, FLOOR)), link.rivals_at(end_s, "cubic") / 4,
        link.rivals_at(end_s, "bbr") / 4, own / 3,
    ])  # fmt: skip
