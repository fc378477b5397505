# SPDX-License-Identifier: Apache-2.0
"""The fair share of bulk flows in a scenario: the tc program drops a flood, and not the flows beside it."""

from lab_rig import metrics_of

FLOOD = """
[scenario]
name = "small"
title = "two TCP flows beside a UDP flood of three times the line"
duration_s = 14
warmup_s = 8
seeds = [3]
[link.access]
rate_mbit_s = 100
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 12
delay_ms = 19
queue_limit_packets = 1000
[[flows]]
kind = "tcp"
count = 2
[[flows]]
kind = "udp"
rate_mbit_s = 36
start_s = 4
payload_bytes = 1412
[variants.bands]
qdisc = "weir"
profile = "tuned"
bands = true
"""


def test_tcp_keeps_most_of_its_share_beside_a_flood(experiment):
    """Two of three flows have 7.7 Mbit/s as their share. They keep 7.4; 6.2 without step 15 of flows.md, 3.3 without
    the fair share."""
    found = metrics_of(experiment("--json", text=FLOOD))["bands"]
    assert found["goodput_group_0_mbit_s"] > 6.8
    assert found["queue_delay_p99_ms"] < 30
