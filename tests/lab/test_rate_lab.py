# SPDX-License-Identifier: Apache-2.0
"""A line of varying rate behind the shaper, in the lab: each rule runs, and the shaper's rate follows the line."""

import json
from statistics import fmean

import pytest
from lab_rig import folder_of, metrics_of

from weirlab import paths

LINE = """
[scenario]
name = "small"
title = "a line behind a shaper"
duration_s = 14
warmup_s = 2
seeds = [3]
[link.access]
rate_mbit_s = 50
delay_ms = 5
[link.bottleneck]
rate_mbit_s = 12
delay_ms = 10
[link.line]
rate_file = "rates.csv"
queue_limit_packets = 300
[[flows]]
kind = "tcp"
count = 4
[[flows]]
kind = "voice"
[variants.fixed]
qdisc = "cake"
[variants.follow]
qdisc = "weir"
profile = "tuned"
shaper = { rule = "follow", min_mbit_s = 1, base_mbit_s = 12, max_mbit_s = 20 }
[variants.autorate]
qdisc = "cake"
shaper = { rule = "autorate", min_mbit_s = 1, base_mbit_s = 12, max_mbit_s = 20 }
"""


def test_the_shapers_rate_follows_the_line(experiment):
    if not (paths.build() / "bin" / "weir-paced").exists():
        pytest.skip("weir-paced is not built; ./run test builds it")
    (experiment.folder / "rates.csv").write_text("time_s,rate_mbit_s\n0,10\n6,4\n14,4\n")
    done = experiment("--json", text=LINE)
    metrics = metrics_of(done)
    runs = folder_of(done) / "runs"
    for label in ("follow", "autorate"):
        lines = [json.loads(line) for line in (runs / label / "seed-3" / "rates.jsonl").read_text().splitlines()]
        assert all(1e6 <= line["rate_bit_s"] <= 20e6 for line in lines)
        start_us = lines[0]["t_us"]
        late = [line["rate_bit_s"] for line in lines if line["t_us"] - start_us > 15_000_000]
        assert 2e6 < fmean(late) < 6e6
    assert not (runs / "fixed" / "seed-3" / "rates.jsonl").exists()
    assert metrics["fixed"]["line_delay_p99_ms"] > 2 * metrics["follow"]["line_delay_p99_ms"]
    assert metrics["follow"]["goodput_of_capacity_percent"] > 75
