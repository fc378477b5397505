# SPDX-License-Identifier: Apache-2.0
"""Reward of an interval (Zhang et al., Eq. 1 to 3)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from weirtrain.settings import Reward
from weirtrain.trajectory import Trajectory


def rates_bytes_s(trajectory: Trajectory) -> np.ndarray:
    """Delivery rate in each interval, bytes/s [steps]."""
    numbers = trajectory.numbers
    return numbers["acked_bytes"] / (np.maximum(numbers["interval_us"], 1.0) * 1e-6)


def loss_shares(trajectory: Trajectory) -> np.ndarray:
    """Bytes lost over bytes lost or acknowledged [steps], 0 without either."""
    lost, acked = trajectory.numbers["lost_bytes"], trajectory.numbers["acked_bytes"]
    return lost / np.maximum(lost + acked, 1.0)


def of_intervals(trajectory: Trajectory, reward: Reward, unit_bytes_s: float) -> np.ndarray:
    """The reward of each interval [steps]; `unit_bytes_s` is the delivery rate that counts as 1.

    Interval n + 1 is what came of the action of step n."""
    numbers = trajectory.numbers
    linear = reward.alpha * rates_bytes_s(trajectory) / unit_bytes_s - reward.beta * loss_shares(trajectory)  # Eq. 2
    late = numbers["rtt_last_us"] > reward.gamma * numbers["rtt_least_us"]  # Eq. 1 speaks of the last
    return linear - reward.eta * late  # Eq. 3


def together(trajectories: Sequence[Trajectory], worths: Sequence[np.ndarray]) -> list[np.ndarray]:
    """For connections of one run: the mean of their rewards in the middle of each one's intervals [steps].

    A flow rewarded for its own rate alone takes it from the others: where all round trips are late anyway, a wider
    window costs nobody more. Connections at rest at that time do not count."""
    found = []
    for own, worth in zip(trajectories, worths, strict=True):
        middles = own.numbers["t_us"] - own.numbers["interval_us"] / 2
        total, count = worth.copy(), np.ones(len(worth))
        for other, its_worth in zip(trajectories, worths, strict=True):
            if other is own or not len(other):
                continue
            ends = other.numbers["t_us"]
            place = np.minimum(np.searchsorted(ends, middles), len(ends) - 1)
            within = (middles <= ends[place]) & (middles >= (ends - other.numbers["interval_us"])[place])
            total += np.where(within, its_worth[place], 0.0)
            count += within
        found.append(total / count)
    return found
