# SPDX-License-Identifier: Apache-2.0
"""What an interval was worth (Zhang et al., Eq. 1 to 3)."""

from __future__ import annotations

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
