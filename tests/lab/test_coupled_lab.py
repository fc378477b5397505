# SPDX-License-Identifier: Apache-2.0
"""Two coupled bands in a scenario: the lab builds the classes, the program takes them, and both are reported."""

import gzip
import json

from lab_rig import folder_of, metrics_of

TWO_BANDS = """
[scenario]
name = "small"
title = "two coupled bands"
duration_s = 10
warmup_s = 4
seeds = [3]
[link.access]
rate_mbit_s = 50
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 10
delay_ms = 10
queue_limit_packets = 400
[[flows]]
kind = "tcp"
count = 2
[variants.pfifo]
qdisc = "pfifo"
[variants.coupled]
qdisc = "weir"
profile = "tuned"
coupled = true
"""


def test_classic_flows_have_the_line_and_the_laws_delay(experiment):
    done = experiment("--json", text=TWO_BANDS)
    metrics = metrics_of(done)
    assert metrics["coupled"]["queue_delay_mean_ms"] < metrics["pfifo"]["queue_delay_mean_ms"] / 3
    assert metrics["coupled"]["goodput_total_mbit_s"] > 8.5
    run = folder_of(done) / "runs" / "coupled" / "seed-3"
    coupled = json.loads((run / "attached.json").read_text())["coupled"]
    assert (coupled["class_low"], coupled["class_classic"]) == ("1:10", "1:20")
    with gzip.open(run / "samples.jsonl.gz") as file:
        last = [record for record in map(json.loads, file) if record["k"] == "aqm"][-1]
    assert last["classic"]["seen"] > 5000
    assert last["classic"]["drops_aqm"] > 0
    assert last["low"]["seen"] == 0


def test_scalable_packets_wait_less_and_have_figures_of_their_own(experiment):
    flows = '[[flows]]\nkind = "tcp"\ncc = "dctcp"\nect1 = true\n[[flows]]\nkind = "tcp"\n'
    text = TWO_BANDS.replace('[[flows]]\nkind = "tcp"\ncount = 2\n', flows)
    done = experiment("--json", text=text)
    metrics = metrics_of(done)
    assert metrics["coupled"]["queue_delay_low_p95_ms"] < metrics["coupled"]["queue_delay_classic_p95_ms"] / 2
    assert metrics["coupled"]["queue_delay_low_mean_ms"] < metrics["pfifo"]["queue_delay_low_mean_ms"] / 3
    for one in metrics.values():
        assert 0 < one["low_share_percent"] < 100
        low, classic = one["goodput_group_0_mbit_s"], one["goodput_group_1_mbit_s"]
        assert abs(one["goodput_classic_over_scalable"] - classic / low) < 1e-3


def test_quic_with_prague_waits_less_and_shares_the_line(experiment):
    flows = '[[flows]]\nkind = "quic-download"\ncc = "prague"\necn = true\n[[flows]]\nkind = "tcp"\n'
    text = TWO_BANDS.replace('[[flows]]\nkind = "tcp"\ncount = 2\n', flows)
    done = experiment("--json", "--only", "coupled", text=text.replace('profile = "tuned"', 'profile = "coupled"'))
    metrics = metrics_of(done)["coupled"]
    assert metrics["queue_delay_low_p99_ms"] < metrics["queue_delay_classic_mean_ms"]
    assert metrics["goodput_total_mbit_s"] > 8.5
    assert 1 / 3 < metrics["goodput_classic_over_scalable"] < 3
    with gzip.open(folder_of(done) / "runs" / "coupled" / "seed-3" / "samples.jsonl.gz") as file:
        last = [record for record in map(json.loads, file) if record["k"] == "aqm"][-1]
    assert last["low"]["marks"] > 0
    assert last["low"]["drops_aqm"] == 0


def test_quic_with_prague_has_about_as_much_as_cubic_at_100_mbit_s(experiment):
    """One CUBIC flow is dropped every two seconds there, and U swings with it."""
    flows = '[[flows]]\nkind = "quic-download"\ncc = "prague"\necn = true\n[[flows]]\nkind = "tcp"\n'
    text = TWO_BANDS.replace('[[flows]]\nkind = "tcp"\ncount = 2\n', flows).replace(
        'profile = "tuned"', 'profile = "coupled"'
    )
    for before, after in (
        ("rate_mbit_s = 10\n", "rate_mbit_s = 100\n"),
        ("rate_mbit_s = 50", "rate_mbit_s = 1000"),
        ("queue_limit_packets = 400", "queue_limit_packets = 2000"),
        ("duration_s = 10", "duration_s = 30"),
        ("warmup_s = 4", "warmup_s = 10"),
        ("seeds = [3]", "seeds = [1]"),
    ):
        assert before in text
        text = text.replace(before, after)
    metrics = metrics_of(experiment("--json", "--only", "coupled", text=text))["coupled"]
    assert 0.75 < metrics["goodput_classic_over_scalable"] < 1.33
    assert metrics["queue_delay_low_p99_ms"] < 1
