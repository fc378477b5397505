# SPDX-License-Identifier: Apache-2.0
"""Features of a dumbbell scenario beside bulk flows: a link that changes, far senders, short transfers, bursts."""

import numpy as np
import pytest
from lab_rig import folder_of, metrics_of
from lab_samples import Samples

from weirlab import paths

REPO = paths.clone()

ALL = """
[scenario]
name = "small"
title = "all that a scenario can ask for"
duration_s = 12
warmup_s = 2
seeds = [3]
[link.access]
rate_mbit_s = 50
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 10
delay_ms = 20
[[flows]]
kind = "tcp"
count = 2
[[flows]]
kind = "tcp"
extra_rtt_ms = 40
[[flows]]
kind = "tcp-short"
count = 2
arrivals_per_s = 3
bytes_median = 20000
bytes_sigma = 1
stop_s = 9
[[flows]]
kind = "udp"
rate_mbit_s = 2
start_spread_s = 0
on_s = 1
off_s = 2
[[changes]]
at_s = 4
rate_mbit_s = 5
[[changes]]
at_s = 7
rate_mbit_s = 10
delay_ms = 40
[[changes]]
at_s = 10
delay_ms = 10
loss_percent = 2
[variants.red]
qdisc = "red"
min_ms = 5
max_ms = 30
[variants.tuned]
qdisc = "weir"
profile = "tuned"
"""

# Sleepers wake up to 50 us late (Linux's timer slack), and a call that would block takes 1 us of the lab's time. This
# is room for both, and far less than any delay that is told from another here.
CLOCK_US = 100


@pytest.fixture(scope="module")
def all_at_once(shared_experiment):
    done = shared_experiment("--json", text=ALL)
    metrics = metrics_of(done)  # a delay that arose elsewhere would have failed the run
    runs = folder_of(done) / "runs"
    return metrics, {name: Samples(runs / name / "seed-3" / "samples.jsonl.gz") for name in metrics}


def test_what_a_scenario_asks_for_is_what_the_packets_meet(all_at_once):
    _, runs = all_at_once
    for samples in runs.values():
        # The rate, to the packet that is under way when it changes.
        assert samples.mbit_s("bottleneck", 2, 4) > 7
        assert 3 < samples.mbit_s("bottleneck", 4.1, 7) <= 5.03
        assert samples.mbit_s("bottleneck", 7, 12) > 5.03
        # Each packet meets the delay at its arrival.
        for from_s, to_s, delay_us in ((0, 4, 20000), (4, 7, 20000), (7, 10, 40000), (10, 12, 10000)):
            found = samples.sojourn_us("egress", from_s, to_s)
            assert len(found) > 100
            assert abs(found - delay_us).max() < CLOCK_US
        lost_s = [(r["t_us"] - samples.start_us) / 1e6 for r in samples.kinds["lost"] if r["hop"] == "egress"]
        assert lost_s
        assert min(lost_s) >= 10
        # Far senders are 20 ms farther each way.
        near_us, far_us = (samples.packets[hop][1].min() for hop in ("access", "access-20ms"))
        assert far_us - near_us == pytest.approx(20000, abs=CLOCK_US)
        far_us = [r["min_rtt_us"] for r in samples.kinds["flow"] if r["side"] == "client" and r["flow"] == "1.0"]
        assert 62000 <= min(far_us) < 70000  # on the shortest way: 1 + 20 + 10 ms each way
        # Bursts: a second in three, 2 Mbit/s meanwhile.
        sent = [(r["t_us"] - samples.start_us, r["bytes"]) for r in samples.kinds["flow"] if r["flow"] == "3.0"]
        t_us, received = np.array(sent, dtype=float).T
        silent_from, silent_to, sent_from, sent_to = np.interp([1.5e6, 2.9e6, 3.2e6, 3.8e6], t_us, received)
        assert silent_from == silent_to
        assert 0.5 < (sent_to - sent_from) * 8 / 0.6 / 2e6 < 1.1


def test_short_transfers_are_the_same_ones_for_every_variant(all_at_once):
    metrics, runs = all_at_once
    kinds = {name: samples.kinds["short"] for name, samples in runs.items()}
    offered = [
        {(r["flow"], r["bytes"]): r["t_us"] - r["fct_us"] - runs[name].start_us for r in records}
        for name, records in kinds.items()
    ]
    assert offered[0] == pytest.approx(offered[1], rel=0, abs=10 * CLOCK_US)  # a program starts when it is let
    assert 10 < len(offered[0]) < 40
    for name, records in kinds.items():
        numbers = sorted(int(record["flow"].removeprefix("2.")) for record in records)
        assert numbers == list(range(len(numbers)))
        assert all(record["fct_us"] > 2 * 42000 for record in records if record["t_us"] < runs[name].start_us + 7e6)
        assert metrics[name]["goodput_total_mbit_s"] > 4


def test_one_packet_in_some_gives_the_same_figures_of_the_queue_under_test(experiment):
    changes = [('kind = "quic-download"', 'kind = "tcp"')]
    every = metrics_of(experiment("--json", "--only", "pie", changes=changes))["pie"]
    changes += [("seeds = [3]", "seeds = [3]\nsample_one_in = 8")]
    done = experiment("--json", "--only", "pie", changes=changes)
    some = metrics_of(done)["pie"]
    for name in ("queue_delay_mean_ms", "queue_delay_sd_ms", "goodput_total_mbit_s", "rtt_mean_ms", "rx_packets"):
        assert some[name] == every[name]
    assert some["delay_outside_mean_ms"] == pytest.approx(every["delay_outside_mean_ms"], rel=0.5, abs=0.02)
    samplers = Samples(folder_of(done) / "runs" / "pie" / "seed-3" / "samples.jsonl.gz").kinds["sampler"]
    stamped = {record["hop"]: record["stamped"] for record in samplers}
    assert 0.08 < stamped["egress"] / stamped["bottleneck"] < 0.17


@pytest.fixture(scope="module", params=["weir", "p4"])
def tuned(request, shared_experiment):
    """Samples of a run with the tuner beside the queue, and a function that runs it once more."""
    qdisc = request.param
    if qdisc == "p4" and not (REPO / "build" / "bin" / "weir-switch").exists():
        pytest.skip("weir-switch is not built; ./run test builds it")
    variant = 'qdisc = "weir"\nprofile = "tuned"'
    many = ('kind = "quic-download"\ncount = 3', 'kind = "tcp"\ncount = 12')  # so that there is delay to spare
    changes = [many, ("duration_s = 8", "duration_s = 12"), (variant, variant.replace("weir", qdisc) + "\ntune = true")]

    def run():
        done = shared_experiment("--json", "--only", "tuned", changes=changes)
        assert metrics_of(done)["tuned"]["goodput_total_mbit_s"] > 7
        return folder_of(done) / "runs" / "tuned" / "seed-3" / "samples.jsonl.gz"

    return run(), run


def test_the_tuner_repeats_what_it_did(tuned):
    once, run = tuned
    assert once.read_bytes() == run().read_bytes()


def test_the_tuner_runs_beside_the_queue(tuned):
    samples = Samples(tuned[0])
    end_us = samples.start_us + 12e6
    assert samples.kinds["decision"]
    for decision in samples.kinds["decision"]:
        assert decision["hop"] == "bottleneck"
        assert samples.start_us - 10e6 < decision["t_us"] < end_us + 1e6
    gains = [decision for decision in samples.kinds["decision"] if decision["changed"]]
    assert 9e6 < gains[-1]["capacity_bit_s"] < 11e6
    told = [record["t_us"] for record in samples.kinds["aqm"]]
    assert len(told) > 60
    assert end_us - 1e6 < max(told) < end_us + 1e6
