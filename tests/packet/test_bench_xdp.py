# SPDX-License-Identifier: Apache-2.0
"""Output of `./run bench xdp`: ratios to an empty program with their spread, and the machine of the nanoseconds."""

import json
import os
import platform
import subprocess
import sys

from packet_rig import BUILD, REPO

BENCH = [sys.executable, REPO / "xdp" / "bench" / "bench_xdp.py", "--build", BUILD, "--cost-only", "--busy"]
BRIEF = ["--signals", "poll", "virtual-xdp", "--rounds", "3", "--repeat", "2000"]


def bench(*more: str, classes: int = 0) -> str:
    done = subprocess.run([*BENCH, *BRIEF, "--classes", str(classes), *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_ratios_to_an_empty_program_beside_nanoseconds(tools):
    told = json.loads(bench("--json"))
    assert set(told["cost"]) == {f"{name}, {load}" for name in ("poll", "virtual-xdp") for load in ("idle", "dropping")}
    for cost in told["cost"].values():
        for figure in ("ratio_to_empty", "program_ns", "empty_ns", "above_empty_ns"):
            assert cost[figure]["q1"] <= cost[figure]["median"] <= cost[figure]["q3"]
        assert cost["ratio_to_empty"]["median"] > 0
        assert cost["ratio_to_empty"]["n"] == 3
    assert told["machine"]["kernel"] == platform.release()
    assert told["machine"]["cpu"]


def test_the_table_names_the_machine(tools):
    machine, what, columns, *rows = bench().splitlines()
    assert f"Linux {platform.release()}" in machine
    assert "load " in machine
    assert "beside an empty program's" in what
    assert columns.split("  ")[0] == "signal"
    assert "ratio to empty" in columns
    assert len(rows) == 4


def test_advice_beside_the_law_without(tools):
    told = json.loads(bench("--json", "--signals", "advice"))
    assert told["cost"] == {}
    assert set(told["advice"]) == {"tcp", "quic", "quic-long", "scone"}
    for cost in told["advice"].values():
        for figure in ("without_ns", "with_ns", "above_ns"):
            assert cost[figure]["least"] <= cost[figure]["q1"] <= cost[figure]["median"] <= cost[figure]["q3"]
        assert cost["above_least_ns"] == cost["with_ns"]["least"] - cost["without_ns"]["least"]


def test_laws_of_classes_beside_one_law(tools):
    told = json.loads(bench("--json", "--seconds", "0.01", classes=5))["classes"]
    assert told["count"] == 5
    assert set(told["cost"]) == {"idle", "dropping"}
    for cost in told["cost"].values():
        for figure in ("ratio_to_one", "one_ns", "same_ns", "many_ns", "many_above_ns", "many_cold_above_ns"):
            assert cost[figure]["least"] <= cost[figure]["q1"] <= cost[figure]["median"] <= cost[figure]["q3"]
        assert cost["many_above_least_ns"] == cost["many_ns"]["least"] - cost["one_ns"]["least"]
    process = told["process"]
    assert set(process["cpu_share"]) == {"idle", "loaded"}
    assert process["resident_bytes"] > 0 < process["map_bytes"]


def test_a_shaper_on_one_and_on_more_cores(tools):
    command = [sys.executable, REPO / "xdp" / "bench" / "bench_cores.py", "--build", BUILD, "--json"]
    done = subprocess.run([*command, "--rounds", "2", "--seconds", "0.02"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert {"mq", "--shape", "--shape --bands"} <= {row["shaper"] for row in rows}
    assert {1, min(2, len(os.sched_getaffinity(0)))} <= {row["cores"] for row in rows}
    for row in rows:
        assert 0 < row["cpu_ns"]["least"] <= row["cpu_ns"]["median"]
        assert row["packets_per_s"] > 0
