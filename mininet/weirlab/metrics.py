# SPDX-License-Identifier: Apache-2.0
"""Samples of one run in, flat metrics out."""

METRICS: dict[str, str] = {
    "goodput_total_mbit_s": "bytes all applications received, over the time after warm-up",
    "goodput_per_flow_mean_kbit_s": "the same for each responsive flow: mean",
    "goodput_per_flow_sd_kbit_s": "the same: standard deviation between flows",
    "goodput_per_flow_min_kbit_s": "the same: least",
    "goodput_per_flow_max_kbit_s": "the same: most",
    "jain_index": "Jain's fairness index of the responsive flows' goodput",
    "queue_delay_mean_ms": "time a packet waited in the queue under test, over packets: mean",
    "queue_delay_sd_ms": "the same: standard deviation",
    "queue_delay_p50_ms": "the same: median",
    "queue_delay_p95_ms": "the same: 95th percentile",
    "queue_delay_p99_ms": "the same: 99th percentile",
    "queue_delay_max_ms": "the same: largest",
    "queue_delay_excess_ms": "mean of what each packet's queue delay is above the reference target",
    "rtt_mean_ms": "round-trip time as the senders measured it: mean",
    "rtt_p95_ms": "the same: 95th percentile",
    "loss_percent": "packets lost for any cause, of those that were sent into the queue under test",
    "drops_aqm_packets": "packets the law or the kernel's discipline dropped to control the queue",
    "drops_limit_packets": "packets dropped because the queue was full",
    "link_lost_packets": "packets the link lost at random",
    "marks_packets": "packets marked CE instead of dropped",
    "rx_packets": "packets that left the queue under test",
    "utilisation_percent": "bits that left the queue under test, of what the link could carry",
    "delay_outside_percent": "share of all queueing delay that arose in other queues than the one under test",
}
