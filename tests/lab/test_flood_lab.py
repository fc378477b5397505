# SPDX-License-Identifier: Apache-2.0
"""Effect on others of a receiver that floods its switch with Interests: in the exact lab, in virtual time."""

import json
import sys
from pathlib import Path

import pytest

from weirlab import paths
from weirlab.lab.kernels import ExactLab, Job, LabError
from weirlab.run.scenarios import load_scenario

REPO = paths.clone()
SCENARIO = """
[scenario]
name = "flood"
title = "two receivers, and one that floods"
topology = "edge"
duration_s = 30
seeds = [3]
[bottleneck]
rate_mbit_s = 16
delay_ms = 5
[last_hop]
delay_ms = 1
[transfer]
receivers = 3
bytes = 3_000_000
[variants.names]
carry = "names"
"""
EACH_MS = 4
"""Interests of the flood: 4,000 a second, which fill the quota of 2,048 in half a second."""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """By what the last receiver does: the lines that the run left."""
    try:
        lab = ExactLab()
    except LabError as error:
        pytest.skip(str(error))
    for tool in ("weir-icn", "weir-switch"):
        if not (REPO / "build" / "bin" / tool).exists():
            pytest.skip(f"{tool} is not built; ./run test builds it")
    return {kind: run(lab, tmp_path_factory.mktemp(kind), kind) for kind in ("quiet", "flood")}


def run(lab: ExactLab, folder: Path, kind: str) -> list[dict]:
    (folder / "flood.toml").write_text(SCENARIO)
    (found,) = load_scenario(folder / "flood.toml").runs()
    (folder / "spec.json").write_text(json.dumps(found.spec))
    script = str(REPO / "tests" / "lab" / "flood_in_lab.py")
    job = Job([sys.executable, script, kind, str(EACH_MS)], folder, seed=3, wall_limit_s=500, virtual_limit_s=80)
    done = lab.run(job)
    assert done.status == 0, done.stderr.decode()
    return [json.loads(line) for line in (folder / "run.jsonl").read_text().splitlines()]


def completions_s(told: list[dict]) -> list[float]:
    found = [line for line in told if line["k"] == "receiver"]
    assert [line["outcome"] for line in found] == ["complete", "complete", "failed"]
    return [(line["ended_us"] - line["started_us"]) / 1e6 for line in found[:2]]


def counted(told: list[dict], node: str) -> dict[str, int]:
    return next(line["packets"] for line in told if line["k"] == "switch" and line["node"] == node)


def test_the_others_keep_their_goodput(lines):
    quiet, flooded = completions_s(lines["quiet"]), completions_s(lines["flood"])
    for alone, beside in zip(quiet, flooded, strict=True):
        assert alone >= 0.95 * beside, (quiet, flooded)


def test_the_flood_is_refused_at_its_own_port_and_counted(lines):
    edge, core = counted(lines["flood"], "edge1"), counted(lines["flood"], "core")
    # Some 48,000 were sent; what a port may have out in two epochs is all that went on.
    assert edge["nacked_quota"] + edge.get("nacked_full", 0) > 30_000
    assert edge["interests_forwarded"] < 3 * 2048 + 2 * 3_000_000 / 1440
    assert core.get("nacked_quota", 0) == 0
    assert counted(lines["quiet"], "edge1").get("nacked_quota", 0) == 0
