# SPDX-License-Identifier: Apache-2.0
"""Figures of the queue on the way back, where a scenario has one of its own ([link.return]). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

# A TCP segment without data has 94 bytes or less on the wire with timestamps and three SACK blocks, a QUIC packet with
# nothing but acknowledgements rarely more than 100. Handshakes and requests are longer.
ACK_MOST_BYTES = 150
METRICS: dict[str, str] = {
    "return_delay_mean_ms": "time a packet waited in the queue on the way back: mean over packets",
    "return_delay_p50_ms": "the same: median",
    "return_delay_p99_ms": "the same: 99th percentile",
    "return_delay_max_ms": "the same: largest",
    "return_utilisation_percent": "bits that left that queue, of what the way back can carry",
    "return_data_mbit_s": f"bits of the packets that left that queue and are longer than {ACK_MOST_BYTES} bytes",
    "return_packets": "packets that left that queue",
    "return_acks_packets": f"those of them that are acknowledgements: up to {ACK_MOST_BYTES} bytes long",
    "return_acks_per_packet": "acknowledgements that left that queue, for each packet that left the queue under test",
    "return_drops_aqm_packets": "packets dropped at that queue to control it",
    "return_drops_limit_packets": "packets dropped at that queue because it was full",
    "return_drops_qdisc_packets": "packets dropped at that queue by a discipline that doesn't say why",
    "return_marks_packets": "packets marked CE at that queue instead of dropped",
    "return_loss_percent": "packets dropped at that queue, of those that reached it",
}


def return_metrics(
    delay_us: np.ndarray,
    size_bytes: np.ndarray,
    counters: Mapping[str, int],
    forward_packets: int,
    rate_mbit_s: float,
    measured_s: float,
) -> dict[str, Any]:
    """The figures from departures of the queue in the measured time, and from its counters (`drops_aqm_packets`,
    ...)."""
    found: dict[str, Any] = dict.fromkeys(METRICS)
    found |= {f"return_{name}": value for name, value in counters.items()}
    drops = sum(value for name, value in counters.items() if name.startswith("drops_"))
    acks = int(np.count_nonzero(size_bytes <= ACK_MOST_BYTES))
    found["return_packets"], found["return_acks_packets"] = len(delay_us), acks
    data_bytes = float(size_bytes[size_bytes > ACK_MOST_BYTES].sum())
    found["return_data_mbit_s"] = data_bytes * 8 / (1e6 * measured_s)
    found["return_acks_per_packet"] = acks / forward_packets
    found["return_utilisation_percent"] = 100 * float(size_bytes.sum()) * 8 / (rate_mbit_s * 1e6 * measured_s)
    found["return_loss_percent"] = 100 * drops / max(1, drops + len(delay_us))
    if len(delay_us):
        delay_ms = delay_us / 1e3
        found["return_delay_mean_ms"], found["return_delay_max_ms"] = delay_ms.mean(), delay_ms.max()
        found["return_delay_p50_ms"], found["return_delay_p99_ms"] = np.quantile(delay_ms, (0.5, 0.99))
    return found
