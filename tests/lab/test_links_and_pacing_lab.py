# SPDX-License-Identifier: Apache-2.0
"""A way back of its own, a rate that follows a file, voice and games: what the packets meet in the lab."""

import json
from itertools import pairwise

import numpy as np
import pytest
from lab_rig import folder_of, metrics_of
from lab_samples import Samples

from weirlab import paths
from weirlab.lab.rates import Capacity

SLOW_BACK = """
[scenario]
name = "small"
title = "a slow way back"
duration_s = 8
warmup_s = 2
seeds = [3]
[link.access]
rate_mbit_s = 50
delay_ms = 1
[link.bottleneck]
rate_mbit_s = 10
delay_ms = 20
[link.return]
rate_mbit_s = 0.15
queue_limit_packets = 100
[[flows]]
kind = "tcp"
count = 2
[[flows]]
kind = "voice"
count = 2
[[flows]]
kind = "game"
start_s = 1
start_spread_s = 0
stop_s = 5
[variants.plain]
qdisc = "pie"
[variants.both]
qdisc = "pie"
return = { qdisc = "weir", profile = "tuned" }
"""
RATES = """
[scenario]
name = "small"
title = "a rate that follows a file"
duration_s = 8
warmup_s = 1
seeds = [3]
[link.access]
rate_mbit_s = 100
[link.bottleneck]
rate_file = "rates.csv"
delay_ms = 5
queue_limit_packets = 300
[[flows]]
kind = "udp"
rate_mbit_s = 30
[variants.pfifo]
qdisc = "pfifo"
"""
# Delay of a packet on an empty path, and as many clock readings as lie between (see test_dumbbell_scenarios.py).
CLOCK_US = 100


@pytest.fixture
def slow_back(experiment):
    if not (paths.build() / "bin" / "weir-paced").exists():
        pytest.skip("weir-paced is not built; ./run test builds it")
    done = experiment("--json", text=SLOW_BACK)
    metrics = metrics_of(done)  # a delay that arose elsewhere would have failed the run
    runs = folder_of(done) / "runs"
    return metrics, {name: Samples(runs / name / "seed-3" / "samples.jsonl.gz") for name in metrics}


def test_acknowledgements_queue_on_a_slow_way_back_and_paced_packets_keep_their_time(slow_back):
    metrics, runs = slow_back
    for name, samples in runs.items():
        found = metrics[name]
        # Two downloads make more acknowledgements than 0.15 Mbit/s carry.
        assert samples.mbit_s("return", 2, 8) <= 0.153
        assert 90 < found["return_utilisation_percent"] <= 102
        assert found["return_acks_packets"] > 0.99 * found["return_packets"] > 500
        assert found["return_delay_mean_ms"] > 10
        # Each way has its delay once.
        assert abs(samples.sojourn_us("return-delay", 0, 8) - 20000).max() < CLOCK_US
        assert abs(samples.sojourn_us("egress", 0, 8) - 20000).max() < CLOCK_US
        # 50 and 60 packets a second, to the moment.
        for flow, gap_us, count in (("1.0", 20_000, 400), ("1.1", 20_000, 400), ("2.0", 1e6 / 60, 240)):
            sent = [r["t_us"] for r in samples.kinds["sent"] if r["flow"] == flow]
            assert abs(len(sent) - count) <= 6
            gaps = np.array([later - at for at, later in pairwise(sent)])
            assert abs(gaps - gap_us).max() < CLOCK_US
        assert {r["bytes"] for r in samples.kinds["heard"]} == {100, 160}
        for kind in ("voice", "game"):
            assert found[f"{kind}_delay_p50_ms"] > 21  # the way alone
            assert 0 < found[f"{kind}_jitter_ms"] < found[f"{kind}_delay_p99_ms"]
            assert 0 <= found[f"{kind}_loss_percent"] < 20
        assert found["voice_packets"] == found["voice_1.0_packets"] + found["voice_1.1_packets"]
        assert abs(found["voice_packets"] - 400) <= 4  # two flows in four seconds
    # The queue of 100 packets is full without an AQM, and shorter with one.
    plain, both = metrics["plain"], metrics["both"]
    assert plain["return_drops_limit_packets"] > 10
    assert both["return_drops_aqm_packets"] > 10
    assert both["return_delay_mean_ms"] < plain["return_delay_mean_ms"]


def test_the_rate_follows_a_file_and_no_packet_is_lost_by_it(experiment):
    draw = np.random.default_rng(5)
    rows, at_ms = [], 0
    while at_ms < 5000:  # the run is longer: the file starts over
        rate = 0.0 if 2000 <= at_ms < 3000 else round(float(draw.uniform(2, 24)), 3)
        rows.append(f"{at_ms},{rate}")
        at_ms += int(draw.integers(10, 101))
    (experiment.folder / "rates.csv").write_text("\n".join(["time_ms,rate_mbit_s", *rows, ""]))
    done = experiment("--json", text=RATES)
    found = metrics_of(done)["pfifo"]
    assert found["utilisation_percent"] == pytest.approx(100, abs=3)
    assert found["unmeasured_percent"] == 0
    folder = folder_of(done) / "runs" / "pfifo" / "seed-3"
    samples = Samples(folder / "samples.jsonl.gz")
    steps = json.loads((folder / "spec.json").read_text())["link"]["bottleneck"]["rates"]
    capacity = Capacity(steps, 8)
    # Up to any time what is carried is what the file says, to within some packets for each change.
    for from_s in np.arange(1, 7.5, 0.5):
        carried_bits = samples.mbit_s("bottleneck", from_s, from_s + 0.5) * 0.5e6
        assert carried_bits == pytest.approx(capacity.bits(from_s, from_s + 0.5), rel=0.1, abs=12 * 1514 * 8)
    # The queue was never empty, and what it dropped it dropped because it was full.
    assert found["queue_delay_p50_ms"] > 50
    assert found["link_lost_packets"] == 0
    # In the outage hardly a packet goes.
    t_us, _, _ = samples.packets["bottleneck"]
    out_s = [(at, later) for (at, rate), (later, _) in pairwise(steps) if rate == 0]
    assert len(out_s) >= 1
    for at, later in out_s:
        assert np.count_nonzero((t_us > at * 1e6 + 20_000) & (t_us < later * 1e6 - 100_000)) <= 4


def test_beside_a_flood_the_law_is_between_pie_and_flow_queues(experiment):
    """docs/use/router.md has the figures; here is their order."""
    flood = (paths.clone() / "mininet" / "scenarios" / "flood.toml").read_text("utf-8")
    metrics = metrics_of(experiment("--json", "--seeds", "1", text=flood))
    kept = {name: found["goodput_group_0_mbit_s"] for name, found in metrics.items()}
    lost = {name: found["voice_loss_percent"] for name, found in metrics.items()}
    assert kept["pie"] < kept["tuned"] < min(kept["cake"], kept["fq_codel"])
    assert lost["pie"] > lost["tuned"] > max(lost["cake"], lost["fq_codel"])
