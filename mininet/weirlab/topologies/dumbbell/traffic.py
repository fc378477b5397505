# SPDX-License-Identifier: Apache-2.0
"""Senders and their start times: pure, from a spec's flows and its seed."""

from __future__ import annotations

PACED_KINDS = ("voice", "game", "ping")  # UDP at exact times, each packet timed
ECHOED = "ping"  # the kind of these whose packets return
MOST_SENDERS = 10  # more flows than this, of all groups or of one that shares with no other, share sender nodes
HEADER_BYTES = {
    "quic-download": 42,
    "quic-upload": 42,
    "quic-short": 42,
    "udp": 42,
    "voice": 42,
    "game": 42,
    "ping": 42,
    "tcp": 66,
    "tcp-short": 66,
}  # Ethernet, IPv4, UDP or TCP with timestamps
ETHERNET_BYTES = 14
SHORT_KINDS = ("quic-short", "tcp-short")  # transfers of which each is a connection of its own
MOST_HOSTS = 100  # addresses of the sink
LEAST_PACED_BYTES = 24  # flow, place in it, and when it was sent
TRAFFIC_PORT, PACED_PORT, ECHO_PORT = 5201, 5202, 5204
# Flows of a congestion control that reacts to each mark, and must get each echoed: they have a sink of their own.
SCALABLE, SCALABLE_PORT = "dctcp", 5203


# Settings by which QUIC flows share a server.
PBQ_SETTINGS = ("cc_weights", "cc_explore", "cc_trajectories", "cc_agent")
QUIC_SETTINGS = ("cc", "stack", "payload_bytes", "ecn", "scone", *PBQ_SETTINGS)


def quic_settings(flows: list[dict]) -> list[tuple]:
    """The different settings of QUIC flows, each of which has servers of its own, at the port that is by its place here
    above the first."""
    return list(dict.fromkeys(quic_setting(flow) for flow in flows if flow["kind"].startswith("quic")))


def quic_setting(flow: dict) -> tuple:
    return tuple(flow.get(key) for key in QUIC_SETTINGS)


def sink_of(flow: dict) -> tuple[int, str]:
    """The sink's port for a flow of TCP or UDP, and the congestion control there."""
    return (SCALABLE_PORT, SCALABLE) if flow.get("cc") == SCALABLE else (TRAFFIC_PORT, "cubic")


def sink_address(flow: dict) -> str:
    """Address of the sink for a group of flows."""
    return f"10.0.254.{1 + flow.get('host', 1)}"


def sender_shares(flows: list[dict]) -> list[list[int]]:
    """For each flow of each group the number of its sender, from 1.

    All groups take the same senders in turn, unless one has an `extra_rtt_ms`: then each has its own.
    """
    if not any(flow["extra_rtt_ms"] for flow in flows):
        senders = min(sum(flow["count"] for flow in flows), MOST_SENDERS)
        labels = iter(range(sum(flow["count"] for flow in flows)))
        return [[next(labels) % senders + 1 for _ in range(flow["count"])] for flow in flows]
    shares, before = [], 0
    for flow in flows:
        own = min(flow["count"], MOST_SENDERS)
        shares.append([before + index % own + 1 for index in range(flow["count"])])
        before += own
    return shares
