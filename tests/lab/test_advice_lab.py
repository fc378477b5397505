# SPDX-License-Identifier: Apache-2.0
"""Downloads follow the throughput advice of the eBPF and of the P4 data plane, in the lab."""

from lab_rig import metrics_of

TEXT = """
[scenario]
name = "small"
title = "a download with throughput advice"
duration_s = 12
warmup_s = 2
seeds = [3]
[link.access]
rate_mbit_s = 100
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 20
delay_ms = 19
[[flows]]
kind = "quic-download"
scone = "follow"
[variants.tc]
qdisc = "weir"
profile = "tuned"
advise = "8mbit"
[variants.p4]
qdisc = "p4"
profile = "tuned"
program = "p4/programs/pid_delay_scone.p4"
advise = "8mbit"
"""
SEGMENTS = TEXT.replace('scone = "follow"', 'scone = "follow"\nburst_bytes = 3000000\nburst_every_ms = 2000')


def test_a_download_follows_the_advice(experiment):
    found = metrics_of(experiment("--json", text=TEXT))
    for figures in (found["tc"], found["p4"]):
        assert 7.2 <= figures["goodput_total_mbit_s"] <= 8.2
        assert figures["drops_aqm_packets"] == figures["drops_limit_packets"] == 0


def test_segments_follow_the_advice(experiment):
    found = metrics_of(experiment("--json", "--only", "tc", text=SEGMENTS))
    assert 7.2 <= found["tc"]["goodput_total_mbit_s"] <= 8.2
