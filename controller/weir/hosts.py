# SPDX-License-Identifier: Apache-2.0
"""The golden model of the fair share of hosts: docs/design/flows.md, "Hosts", step by step.

It takes the place of steps 11 to 13 of `weir.fair` where each host has a fair share of band B. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from .bands import Kind, sum_bytes, within
from .fair import FAIR_LEAST_BYTES, FLOWS_MOST_Q16, Fair
from .law import BYTES_MAX, U32_MAX, Params


@dataclass
class Host:
    """Recent bytes of the hosts that share a counter, the number of their flows in band B, and the last share of one of
    these flows; zero at the start."""

    host_bytes: int = 0
    host_flows_q16: int = 0
    host_last_us: int = 0
    host_share_bytes: int = 0


@dataclass
class HostFair(Fair):
    """`flows_q16` is the number of hosts."""

    share_bytes: int = 0
    """The last share of a host."""
    all_q16: int = 0
    """The sum that `flows_q16` would be if all packets were of one host: above 1 while the counters fill after a
    silence."""
    all_bytes: int = 0


LONGER_SHIFT = 4
"""Half-life of these counters beside that of flows: a TCP flow's rate varies over some seconds, and its mean is what is
to be fair."""
ONE_Q16 = 2 ** (16 + LONGER_SHIFT)
"""One flow in `host_flows_q16`."""
STEPS_SHIFT = 6
STEPS_MOST = 2048
LN2_Q16 = 45426


def steps_due(last_us: int, now_us: int, half_life_shift: int) -> tuple[int, int]:
    """Number of steps of decay due, 64 a half-life, and the counter's new time. By halvings alone the counters of two
    hosts with the same rate differ by up to 2, because they halve at different times."""
    shift, elapsed_us = half_life_shift - STEPS_SHIFT, (now_us - last_us) % 2**64
    steps = elapsed_us >> shift
    if elapsed_us >= 2**63:
        return 0, now_us
    if steps >= STEPS_MOST:
        return STEPS_MOST, now_us
    return steps, (last_us + (steps << shift)) % 2**64


def decayed(value: int, steps: int) -> int:
    value >>= steps >> STEPS_SHIFT
    return value - (value * (steps % 2**STEPS_SHIFT) * LN2_Q16 >> 16 + STEPS_SHIFT)


def host_arrival(host: Host, params: Params, now_us: int, len_bytes: int) -> None:
    """A packet of the host arrives, of either band (step 18)."""
    len_bytes = min(within("len_bytes", len_bytes, 2**64 - 1), BYTES_MAX)
    steps, host.host_last_us = steps_due(host.host_last_us, now_us, params.share_shift + LONGER_SHIFT)
    host.host_flows_q16 = decayed(host.host_flows_q16, steps)
    host.host_bytes = sum_bytes(decayed(host.host_bytes, steps), len_bytes)


def count_q16(sum_q16: int, len_bytes: int, of_bytes: int, share_bytes: int) -> int:
    """Number of hosts or flows with one more, of which one packet of `len_bytes` came: one with less than half of its
    share counts in part, so that demand below a share leaves more to the others."""
    of_bytes = max(of_bytes, share_bytes >> 1)
    return min(sum_q16 + ((len_bytes << 16) // of_bytes if of_bytes else 0), FLOWS_MOST_Q16)


def host_share(
    host: Host, fair: HostFair, params: Params, kind: Kind, flow_bytes: int, now_us: int, len_bytes: int
) -> int:
    """Recent bytes of a flow of this host that has its fair share. Call with each packet of band B after `host_arrival`
    (steps 19 and 20)."""
    len_bytes = min(within("len_bytes", len_bytes, 2**64 - 1), BYTES_MAX)
    within("flow_bytes", flow_bytes, U32_MAX)
    steps, fair.fair_last_us = steps_due(fair.fair_last_us, now_us, params.share_shift + LONGER_SHIFT)  # 19
    fair.passed_bytes = decayed(fair.passed_bytes, steps)
    fair.flows_q16 = decayed(fair.flows_q16, steps)
    fair.all_q16 = decayed(fair.all_q16, steps)
    fair.all_bytes = decayed(fair.all_bytes, steps)
    if kind != Kind.STRANGER and flow_bytes:
        fair.flows_q16 = count_q16(fair.flows_q16, len_bytes, host.host_bytes, fair.share_bytes)
        host.host_flows_q16 = count_q16(host.host_flows_q16, len_bytes, flow_bytes, host.host_share_bytes)
        fair.all_bytes = sum_bytes(fair.all_bytes, len_bytes)
        fair.all_q16 = count_q16(fair.all_q16, len_bytes, fair.all_bytes, 0)
    hosts_q8, all_q8 = fair.flows_q16 >> 8, fair.all_q16 >> 8  # 20
    fair.share_bytes = fair.passed_bytes * all_q8 // hosts_q8 if hosts_q8 > all_q8 else fair.passed_bytes
    host.host_share_bytes = (fair.share_bytes << 16) // max(host.host_flows_q16, ONE_Q16)
    return max(host.host_share_bytes, FAIR_LEAST_BYTES)


def kind_by_host(kind: Kind, host: Host, fair: HostFair, flow_bytes: int) -> Kind:
    """Small or large, in the place of `weir.fair.kind_by_share`: large are the flows of a host above its share that
    have at least the mean of its flows (step 21)."""
    if kind not in (Kind.SMALL, Kind.LARGE):
        return kind
    mean_reached = flow_bytes * max(host.host_flows_q16 >> 8, ONE_Q16 >> 8) >= host.host_bytes << 8
    return Kind.LARGE if host.host_bytes >= fair.share_bytes and mean_reached else Kind.SMALL
