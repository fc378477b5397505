# SPDX-License-Identifier: Apache-2.0
"""dualpi2's parameters as the kernel takes them. tc is not asked: Debian 12's does not know this discipline."""

import struct
from collections.abc import Mapping
from typing import Any

from weirlab.lab.qdisc import attribute

HZ_UNIT = 256  # alpha and beta are whole numbers of 1/256 Hz
ECN_MASKS = {"l4s_ect": 1, "any_ect": 3}
# enum TCA_DUALPI2_* of linux/pkt_sched.h
(LIMIT, MEMORY_LIMIT, TARGET, TUPDATE, ALPHA, BETA, STEP_PACKETS, STEP_US, MIN_QLEN_STEP, COUPLING, DROP_OVERLOAD,
 DROP_EARLY, CLASSIC_PROTECTION, ECN_MASK, SPLIT_GSO) = range(1, 16)  # fmt: skip


def dualpi2_options(aqm: Mapping[str, Any], limit_packets: int) -> bytes:
    """The attributes in TCA_OPTIONS for a checked variant `aqm`."""
    words = {
        LIMIT: limit_packets,
        TARGET: _us(aqm["target_ms"]),
        TUPDATE: _us(aqm["tupdate_ms"]),
        ALPHA: round(aqm["alpha_hz"] * HZ_UNIT),
        BETA: round(aqm["beta_hz"] * HZ_UNIT),
        MIN_QLEN_STEP: aqm["min_qlen_step_packets"],
    }
    if "step_thresh_packets" in aqm:
        words[STEP_PACKETS] = aqm["step_thresh_packets"]
    else:
        words[STEP_US] = _us(aqm["step_thresh_ms"])
    if "memory_limit_bytes" in aqm:
        words[MEMORY_LIMIT] = aqm["memory_limit_bytes"]
    octets = {
        COUPLING: aqm["coupling_factor"],
        DROP_OVERLOAD: aqm["drop_on_overload"],
        DROP_EARLY: aqm["drop"] == "enqueue",
        CLASSIC_PROTECTION: aqm["classic_protection_percent"],
        ECN_MASK: ECN_MASKS[aqm["l_queue"]],
        SPLIT_GSO: aqm["split_gso"],
    }
    return b"".join(
        [
            *(attribute(kind, struct.pack("=I", value)) for kind, value in words.items()),
            *(attribute(kind, struct.pack("=B", value)) for kind, value in octets.items()),
        ]
    )


def _us(ms: float) -> int:
    return round(ms * 1000)
