# SPDX-License-Identifier: Apache-2.0
"""RED's parameters for tc: bytes from a scenario's keys, the burst, and the limits of tc and the kernel."""

import math

MOST_MBIT_S = 34_000  # tc keeps RED's rate as bytes a second, in 32 bits
LEAST_WARNED = 10
NS_A_TICK = 64


def red_thresholds(aqm: dict, rate_mbit_s: float) -> tuple[int, int]:
    """Of the average queue, in bytes."""
    if "min_ms" not in aqm:
        return aqm["min_bytes"], aqm["max_bytes"]
    least, most = (max(1, round(aqm[key] * rate_mbit_s * 1e3 / 8)) for key in ("min_ms", "max_ms"))
    return least, max(most, least + 1)


def red_burst(aqm: dict, rate_mbit_s: float) -> int:
    """tc-red(8)'s recommendation: (2 min + max) / (3 avpkt)."""
    least, most = red_thresholds(aqm, rate_mbit_s)
    return (2 * least + most) // (3 * aqm["avpkt_bytes"]) + 1


def red_refusal(aqm: dict, rate_mbit_s: float) -> str | None:
    """Why tc or the kernel would not take these thresholds and bursts, and the right form; None if they do.

    tc looks for a weight 2^-w of the average that lets a burst pass, and warns from w = 10 on; the kernel wants room
    for w beside the thresholds in 32 bits. The decay of the average in silence is computed by tc from the rate, in
    ticks.
    """
    least, most = red_thresholds(aqm, rate_mbit_s)
    avpkt, burst = aqm["avpkt_bytes"], aqm.get("burst_packets") or red_burst(aqm, rate_mbit_s)
    shown = f"thresholds of {least} and {most} bytes at {rate_mbit_s:g} Mbit/s"
    if rate_mbit_s > MOST_MBIT_S:
        return f"tc takes RED up to {MOST_MBIT_S} Mbit/s; write another qdisc, or a lower rate_mbit_s of the bottleneck"
    if least <= avpkt and burst > 1:
        return f"{shown}, min not above avpkt_bytes = {avpkt}; write larger thresholds, or a smaller avpkt_bytes"
    over = burst + 1 - least / avpkt
    if over < 1:
        return f"{shown}, burst_packets = {burst} below min / avpkt_bytes; write {math.ceil(least / avpkt)} or more"
    weight = next((w for w in range(1, LEAST_WARNED) if over <= (1 - (1 - 0.5**w) ** burst) * 2**w), None)
    if weight is None or most.bit_length() + weight >= 32:
        return (
            f"{shown}, bursts of {burst} packets are too large for them; write a smaller burst_packets or a larger min"
        )
    if aqm["probability"] / (most - least) * 2**31 <= 1:
        return f"{shown}, probability {aqm['probability']:g} is too small for them; write a larger probability"
    packet_ticks = avpkt * 8 / rate_mbit_s * 1000 / NS_A_TICK
    if packet_ticks >= 2**32 or 31 * packet_ticks / -math.log1p(-(0.5**weight)) >= 512 * 2**31:
        return f"{shown}, packets of avpkt_bytes = {avpkt} take too long there; write a smaller avpkt_bytes"
    return None
