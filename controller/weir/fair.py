# SPDX-License-Identifier: Apache-2.0
"""The golden model of the fair share of bulk flows: docs/design/flows.md, "The fair share", step by step.

It continues `weir.bands` in data planes that can divide, and decides to which packets of band B the
verdict applies. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from .bands import Kind, halvings_due, sum_bytes, within
from .law import BYTES_MAX, U32_MAX, Params

FLOWS_MOST_Q16 = 2**40 - 1
FAIR_LEAST_BYTES = 1514
"""A full Ethernet frame: a share below it is that of one packet."""


@dataclass
class Fair:
    """Recent bytes that passed in band B and the number of its flows, halved each 2^`share_shift` us; zero at the
    start."""

    passed_bytes: int = 0
    flows_q16: int = 0
    fair_last_us: int = 0


def arrival(fair: Fair, params: Params, kind: Kind, flow_bytes: int, now_us: int, len_bytes: int) -> int:
    """Recent bytes of a flow that has its fair share of band B. Call with each packet of band B, after
    `weir.bands.arrival`, of whose flow `flow_bytes` is the counter (steps 11 to 13)."""
    len_bytes = min(within("len_bytes", len_bytes, 2**64 - 1), BYTES_MAX)
    within("flow_bytes", flow_bytes, U32_MAX)
    halvings, fair.fair_last_us = halvings_due(fair.fair_last_us, now_us, params.share_shift)  # 11
    fair.passed_bytes >>= halvings
    fair.flows_q16 >>= halvings
    if kind != Kind.STRANGER and flow_bytes:  # 12
        fair.flows_q16 = min(fair.flows_q16 + (len_bytes << 16) // flow_bytes, FLOWS_MOST_Q16)
    return max((fair.passed_bytes << 16) // max(fair.flows_q16, 2**16), FAIR_LEAST_BYTES)  # 13


def kind_by_share(kind: Kind, flow_bytes: int, fair_bytes: int) -> Kind:
    """Small or large by the fair share, in the place of the mean (step 14)."""
    if kind not in (Kind.SMALL, Kind.LARGE):
        return kind
    return Kind.LARGE if 4 * flow_bytes >= 5 * fair_bytes else Kind.SMALL


def is_policed(params: Params, flow_bytes: int, fair_bytes: int, tau_us: int, rand: int) -> bool:
    """Whether a packet of band B is dropped because its flow has three times its share (step 15), with the probability
    of approximate fair dropping (Pan et al. 2003). `rand` is uniform over 32 bits."""
    if tau_us < params.target_us >> 1 or flow_bytes < 3 * fair_bytes:
        return False
    return rand * flow_bytes < (flow_bytes - fair_bytes) << 32


def is_spared(kind: Kind, params: Params, tau_us: int) -> bool:
    """Whether a packet passes without the verdict (step 16)."""
    return kind == Kind.SMALL and tau_us < params.delay_limit_us


def passed(fair: Fair, len_bytes: int) -> None:
    """A packet of band B was not dropped (step 17)."""
    fair.passed_bytes = sum_bytes(fair.passed_bytes, min(len_bytes, BYTES_MAX))
