# SPDX-License-Identifier: Apache-2.0
"""Round trips as the network has them, for senders that leave no samples. Pure: packets in, numbers out.

A sample is the mean delay in the queue under test within SAMPLE_US, and the propagation delay of the flow's path both
ways at that time. A sender's own figure has the receiver's acknowledgement delay on top.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weirlab.topologies.dumbbell.samples import Change, Packets

SAMPLE_US = 1e5


def rtts_ms(left: Packets, changes: Sequence[Change], spec: Mapping[str, Any], groups: Sequence[int]) -> np.ndarray:
    """Samples of all long flows of these groups, in ms; `left` are the departures of the queue under test."""
    if not len(left.t_us):
        return np.array([])
    places = (left.t_us // SAMPLE_US).astype(int)
    places -= places[0]
    counts = np.bincount(places)
    used = counts > 0
    queue_ms = np.bincount(places, weights=left.delay_us)[used] / counts[used] / 1e3
    at_us = (left.t_us[0] // SAMPLE_US + np.flatnonzero(used)) * SAMPLE_US
    own_ms = queue_ms + 2 * (spec["link"]["access"]["delay_ms"] + _bottleneck_ms(at_us, changes, spec))
    flows = [spec["flows"][group] for group in groups]
    return np.concatenate([own_ms + flow["extra_rtt_ms"] for flow in flows for _ in range(flow["count"])])


def _bottleneck_ms(at_us: np.ndarray, changes: Sequence[Change], spec: Mapping[str, Any]) -> np.ndarray:
    """Delay of the bottleneck one way at these times."""
    delay_ms = np.full(len(at_us), float(spec["link"]["bottleneck"]["delay_ms"]))
    for change in changes:
        if change.delay_ms is not None:
            delay_ms[at_us >= change.t_us] = change.delay_ms
    return delay_ms
