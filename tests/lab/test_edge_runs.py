# SPDX-License-Identifier: Apache-2.0
"""Whole runs on `edge`: a publisher, P4 switches and receivers in the exact lab."""

import gzip
import json

import pytest
from lab_rig import folder_of, metrics_of

from weirlab import paths

EDGE = """
[scenario]
name = "small"
title = "one file for some receivers"
topology = "edge"
duration_s = 40
seeds = [3]
[tree]
edges = 2
[bottleneck]
rate_mbit_s = 16
delay_ms = 5
[last_hop]
delay_ms = 1
loss_percent = 1
[transfer]
receivers = 3
bytes = 300_000
[variants.names]
carry = "names"
[variants.unicast]
carry = "unicast"
"""
MOVES = """
[[moves]]
receiver = 1
at_s = 1.2
to_edge = 2
[[leaves]]
receiver = 2
at_s = 1.6
[variants.names]
"""


@pytest.fixture(scope="module")
def icn():
    if not (paths.clone() / "build" / "bin" / "weir-icn").is_file():
        pytest.skip("weir-icn is not built; ./run test builds it")


@pytest.fixture
def edge(icn, experiment):
    """`experiment` with the small scenario of this module."""
    return lambda *options, **kwargs: experiment(*options, text=EDGE, **kwargs)


@pytest.fixture(scope="module")
def as_it_is(icn, shared_experiment):
    """Run of the unchanged scenario."""
    return shared_experiment("--json", text=EDGE)


def test_by_name_the_publisher_sends_less_than_a_download_for_each(as_it_is):
    metrics = metrics_of(as_it_is)
    for found in metrics.values():
        assert (found["failed_receivers"], found["corrupt_receivers"]) == (0, 0)
        assert found["receivers_count"] == 3
        assert found["file_bytes"] == 300_000
        # Nobody can get more than the bottleneck carries, and by name all may get that much.
        assert 0 < found["goodput_mean_mbit_s"] < 16
    names, unicast = metrics["names"], metrics["unicast"]
    assert names["beta"] is not None
    assert unicast["publisher_sent_ratio"] > 3
    assert 1 < names["publisher_sent_ratio"] < unicast["publisher_sent_ratio"]
    assert names["merged_percent"] > 0
    assert names["names_dropped"] == 0
    assert names["copies_ratio"] >= 1


def test_what_one_receiver_lost_comes_from_the_cache(edge):
    changes = (
        ("loss_percent = 1", "loss_percent = 5"),
        ('carry = "unicast"', 'carry = "names"\ncache_mb = 16'),
        ("[variants.unicast]", "[variants.stored]"),
    )
    metrics = metrics_of(edge("--json", changes=changes))
    for found in metrics.values():
        assert (found["failed_receivers"], found["corrupt_receivers"], found["names_dropped"]) == (0, 0, 0)
    names, stored = metrics["names"], metrics["stored"]
    assert names["cache_hits_percent"] is None
    assert stored["cache_hits_percent"] > 0
    assert stored["publisher_sent_bytes"] < names["publisher_sent_bytes"]


def test_a_seed_repeats_a_run_to_the_byte(edge, as_it_is):
    again = edge("--json", "--only", "names")
    run = "runs/names/seed-3"
    for name in ("samples.jsonl.gz", "summary.json"):
        assert (folder_of(as_it_is) / run / name).read_bytes() == (folder_of(again) / run / name).read_bytes()


def test_a_broadcast_segment_carries_one_copy_for_all(edge):
    changes = (("[last_hop]", '[last_hop]\nmedium = "broadcast"\nrate_mbit_s = 20'), ("edges = 2", "edges = 1"))
    done = edge("--json", changes=changes)
    metrics = metrics_of(done)
    for found in metrics.values():
        assert (found["failed_receivers"], found["corrupt_receivers"]) == (0, 0)
    assert metrics["unicast"]["publisher_sent_ratio"] > 3
    assert metrics["names"]["publisher_sent_ratio"] < metrics["unicast"]["publisher_sent_ratio"]


ALONE = (
    ("edges = 2", "edges = 0"),
    ("[bottleneck]\nrate_mbit_s = 16\ndelay_ms = 5\n", ""),
    ("delay_ms = 1\n", ""),
    ("[last_hop]", '[last_hop]\nmedium = "broadcast"\nrate_mbit_s = 20'),
    ("[variants.names]", '[sweep]\n"last_hop.loss_percent" = [0, 10]\n[variants.names]'),
)
"""The publisher and the receivers on one segment, without a switch."""
QUEUE_PACKETS = 1000
"""Limit of a queue, the default of the topology's schema."""


def test_on_one_segment_each_frame_takes_the_one_rate_once_and_reaches_all(edge):
    done = edge("--json", changes=ALONE)
    for label, found in metrics_of(done).items():
        assert (found["failed_receivers"], found["corrupt_receivers"]) == (0, 0)
        passed = passed_on_air(folder_of(done) / "runs" / label / "seed-3" / "samples.jsonl.gz")
        air, stations = passed.pop("air"), {name: passed[name] for name in ("up", "r1", "r2", "r3")}
        # Frames of all stations, requests too, cross at the one rate; at the end some wait in the queue of the air.
        sent = {name: counts["received_packets"] for name, counts in stations.items()}
        assert min(sent.values()) > 0
        waits = sum(sent.values()) - air["sent_packets"]
        assert 0 <= waits <= QUEUE_PACKETS
        all_bytes = sum(counts["received_bytes"] for counts in stations.values())
        assert 0 <= all_bytes - air["sent_bytes"] <= 1514 * waits
        assert found["medium_busy_percent"] < 101
        for name, counts in stations.items():
            heard, from_others = counts["sent_packets"], air["sent_packets"] - sent[name]
            if label.endswith("=0"):
                assert from_others <= heard <= from_others + waits
            else:
                assert 0.85 * from_others < heard < 0.95 * (from_others + waits)
        if not label.endswith("=0"):
            # Each loses others of them; two may lose as many by chance.
            assert len({counts["sent_packets"] + sent[name] for name, counts in stations.items()}) > 1
    metrics = metrics_of(done)
    assert metrics["unicast,loss_percent=0"]["medium_carried_ratio"] > 3
    assert metrics["names,loss_percent=0"]["publisher_sent_ratio"] < 1.5
    assert metrics["names,loss_percent=0"]["medium_requests_percent"] > 1


def passed_on_air(samples):
    """Growth of the counts of each device of the node `air0`."""
    found = {}
    with gzip.open(samples, "rt") as file:
        for line in map(json.loads, file):
            if line["k"] == "link" and line["node"] == "air0":
                counts = {key: value for key, value in line.items() if key.endswith(("_bytes", "_packets"))}
                before = found.get(line["device"])
                found[line["device"]] = {k: v - before[k] for k, v in counts.items()} if before else counts
    return found


def test_a_receiver_that_moves_gets_the_whole_file_and_the_new_key(edge):
    """The key that is drawn when another leaves comes over the mover's connection, from its new address."""
    changes = (
        ("[variants.names]\n", MOVES.lstrip()),
        ("bytes = 300_000", "bytes = 6_000_000"),
        ("loss_percent = 1", "loss_percent = 0"),
    )
    done = edge("--json", "--only", "names", changes=changes)
    found = metrics_of(done)["names"]
    assert (found["failed_receivers"], found["corrupt_receivers"], found["left_receivers"]) == (0, 0, 1)
    assert found["group_migrated"] + found["group_lost"] >= 1
    assert found["rekeys"] >= 1
    with gzip.open(folder_of(done) / "runs" / "names" / "seed-3" / "samples.jsonl.gz", "rt") as file:
        lines = [json.loads(line) for line in file]
    kinds = [line["k"] for line in lines]
    assert (kinds.count("move"), kinds.count("leave")) == (1, 1)
    ended_us = {line["receiver"]: line["ended_us"] for line in lines if line["k"] == "receiver"}
    left_us = next(line["t_us"] for line in lines if line["k"] == "leave")
    assert ended_us[1] > left_us, "the key was needed"
    mover = next(line for line in lines if line["k"] == "receiver" and line["receiver"] == 1)
    round_trip_ms = 2 * (5 + 1)
    assert 0 < found["move_gap_ms"] < round_trip_ms + mover["beta"] * mover["response_time_us"] / 1e3


def test_a_receiver_that_moves_goes_on_at_the_edge_server_there_in_its_first_packets(edge):
    """Nobody at another switch can reach the edge server that it came from."""
    changes = (
        ("[variants.names]\n", MOVES.lstrip()),
        ("bytes = 300_000", "bytes = 6_000_000"),
        ("loss_percent = 1", "loss_percent = 0"),
        ('carry = "names"', 'carry = "names"\ncache_mb = 16\nedge_server = "local"'),
    )
    found = metrics_of(edge("--json", "--only", "names", changes=changes))["names"]
    assert (found["failed_receivers"], found["moved_wrong_receivers"], found["left_receivers"]) == (0, 0, 1)
    assert (found["group_migrated"], found["group_reconnected"], found["group_early_data"]) == (0, 1, 1)
    assert 0 < found["move_gap_ratio"] < 1
    assert found["move_back_ms"] > 100, "it has its address 100 ms later"
