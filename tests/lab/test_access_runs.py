# SPDX-License-Identifier: Apache-2.0
"""Whole runs over several access networks: weir-client, weir-server and the lab's changes in the exact lab."""

import gzip
import json
import subprocess

import pytest
from lab_rig import ACCESS, folder_of, metrics_of

from weirlab import paths

REPO = paths.clone()

HANDOVER = (
    ("requests = 20\ninterval_ms = 300\nbytes = 5000", "requests = 2\nbytes = 4_000_000"),
    ("round = 10\nrtt_ms = 90", 'at_s = 0.3\nlink = "down"'),
    ("rtt_sd_ms = 2\nrtt_min_ms = 10\n[[paths]]", "[[paths]]"),
    ("rtt_sd_ms = 2\nrtt_min_ms = 10\n[client]", "[client]"),
)


@pytest.fixture(scope="module")
def client():
    done = subprocess.run(
        [REPO / "build" / "bin" / "weir-client", "--help"], capture_output=True, text=True, check=True
    )
    if "--path" not in done.stdout:
        pytest.skip("weir-client is of an older build and has no --path; ./run test builds it anew")


@pytest.fixture
def access(client, experiment):
    """`experiment` with the small scenario of this module."""
    return lambda *options, **kwargs: experiment(*options, text=ACCESS, **kwargs)


@pytest.fixture(scope="module")
def as_it_is(client, shared_experiment):
    """Run of the unchanged scenario."""
    return shared_experiment("--json", text=ACCESS)


def samples(run):
    with gzip.open(run / "samples.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def test_strategies_meet_the_same_network(as_it_is):
    metrics = metrics_of(as_it_is)
    assert list(metrics) == ["polling", "polling-cold", "oracle", "weir"]
    runs = {label: folder_of(as_it_is) / "runs" / label / "seed-3" for label in metrics}
    truth = [line for line in samples(runs["polling"]) if line["k"] in ("truth", "best", "change")]
    assert len([line for line in truth if line["k"] == "truth"]) == 2 * 20
    assert [(line["round"], line["path"]) for line in truth if line["k"] == "best"] == [(0, "near"), (10, "far")]
    for label, found in metrics.items():
        assert truth == [line for line in samples(runs[label]) if line["k"] in ("truth", "best", "change")]
        assert (found["failed_tasks"], found["missing_tasks"], found["tasks_below_rtt"]) == (0, 0, 0)
    assert metrics["polling"]["best_path_rate"] == 0.5
    assert metrics["oracle"]["best_path_rate"] == 1
    assert metrics["oracle"]["tct_mean_ms"] < metrics["weir"]["tct_mean_ms"] < metrics["polling"]["tct_mean_ms"]
    # A path kept validated carries the request in its first flight; a cold one is validated first.
    assert metrics["polling"]["extra_rtts_per_migration"] == pytest.approx(0, abs=0.1)
    assert metrics["polling-cold"]["extra_rtts_per_migration"] == pytest.approx(1, abs=0.1)


def test_a_seed_repeats_a_run_to_the_byte(access, as_it_is):
    again = access("--json", "--only", "weir")
    for name in ("samples.jsonl.gz", "summary.json"):
        once, twice = (folder_of(done) / "runs" / "weir" / "seed-3" / name for done in (as_it_is, again))
        assert once.read_bytes() == twice.read_bytes()


# The path manager's own tests bound the probe timeouts of a silent path, since they know its timeout.
@pytest.mark.parametrize("link", ["down", "silent"])
def test_a_path_that_dies_in_mid_transfer_costs_no_task(access, link):
    changes = (*HANDOVER[:1], (HANDOVER[1][0], HANDOVER[1][1].replace("down", link)), *HANDOVER[2:])
    done = access("--json", "--only", "weir", changes=changes)
    found = metrics_of(done)["weir"]
    assert found["failed_tasks"] == 0
    assert found["moves"] in (1, 2)  # away from the dead path, and to it before if the other was drawn at the start
    assert found["bytes_on_far"] > 0
    assert found.get("takeover_ms", 0) < 1000  # none if the path was left before the last byte came


@pytest.mark.parametrize("cc", ["pbq", "pbq-paper"])
def test_a_policy_sends_on_each_path_of_a_handover(access, cc):
    # The paper's policy knows a link of 2 Mbit/s, and is slow on these.
    small = ("bytes = 4_000_000", "bytes = 1_000_000"), ("duration_s = 30", "duration_s = 120")
    server = ("[client]\n", f'[server]\ncc = "{cc}"\n[client]\n')
    found = metrics_of(access("--json", "--only", "weir", changes=(*HANDOVER, *small, server)))["weir"]
    assert (found["failed_tasks"], found["missing_tasks"]) == (0, 0)
    assert found["bytes_on_far"] > 0
    assert 0 <= found["decisions_outside_percent"] <= 100
    # The paper's has the window from the first packet on; ours leaves each path's startup to BBR.
    assert (found["decisions_by_bbr_percent"] > 0) == (cc == "pbq")


def test_a_client_that_can_not_connect_ends_the_run_and_says_so(access):
    # Nothing comes back on the only path from the start.
    one = ACCESS[ACCESS.index("[[paths]]") : ACCESS.index("[client]")]
    change = (one, one[: one.index("[[paths]]", 1)]), ("round = 10\nrtt_ms = 90", 'round = 0\nlink = "silent"')
    done = access("--only", "weir", changes=change)
    assert done.returncode == 1
    assert "weir" in done.stderr.splitlines()[-1]
