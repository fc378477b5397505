# SPDX-License-Identifier: Apache-2.0
"""Bands and flow queues at both queues, and a ping through both: what the packets meet in the lab."""

from lab_rig import metrics_of

BOTH = """
[scenario]
name = "small"
title = "downloads beside an upload"
duration_s = 8
warmup_s = 2
seeds = [3]
[link.access]
rate_mbit_s = 100
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 12
delay_ms = 9
[link.return]
rate_mbit_s = 4
tcp_flows = 1
[[flows]]
kind = "tcp"
count = 2
[[flows]]
kind = "ping"
[variants.one]
qdisc = "weir"
profile = "tuned"
return = { qdisc = "weir", profile = "tuned" }
[variants.both]
qdisc = "weir"
profile = "tuned"
bands = true
flow_queues = true
return = { qdisc = "weir", profile = "tuned", bands = true, flow_queues = true }
"""
PACKET_MS = 1500 * 8 / 4000


def test_a_ping_passes_two_queues_with_bands_and_flow_queues(experiment):
    found = metrics_of(experiment("--json", text=BOTH))
    one, both = found["one"], found["both"]
    assert one["ping_packets"] == both["ping_packets"] == 80  # 20 a second for 4 s
    assert both["ping_loss_percent"] == 0
    assert 20 <= both["ping_delay_p50_ms"] < 20 + 2 * PACKET_MS  # one packet that is on the line, in each direction
    assert one["ping_delay_p50_ms"] > both["ping_delay_p50_ms"] + 2 * PACKET_MS
    assert both["return_drops_aqm_packets"] > 0
    assert both["queue_delay_bulk_p99_ms"] >= both["queue_delay_p50_ms"]
