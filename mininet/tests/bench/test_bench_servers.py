# SPDX-License-Identifier: Apache-2.0
"""The arithmetic and the page of `./run bench servers`, and its rules for the command line."""

import json
import os
import subprocess
import sys

import pytest

from weirlab import paths
from weirlab.bench.servers import figures, page
from weirlab.bench.servers.__main__ import PATHS

SPEC = {"paths": [{"name": "slow"}, {"name": "fast"}], "loads": [{"bytes": 5000, "requests": 4}]}


def task(number: int, path: str, ms: float, outcome: str = "complete", switched: bool = False) -> dict:
    return {"k": "task", "task": number, "path": path, "tct_us": ms * 1000, "outcome": outcome, "switched": switched}


@pytest.fixture
def run(tmp_path):
    """Files of a run with these events by client."""

    def write(events: dict[str, list[dict]], statuses: dict[str, int]):
        for name, lines in events.items():
            text = "".join(json.dumps(line) + "\n" for line in lines)
            (tmp_path / f"events-5000-{name}.jsonl").write_text(text + '{"k":"cut sh')
            (tmp_path / f"status-5000-{name}").write_text(f"{statuses.get(name, 0)}\n")
        (tmp_path / "qlog").mkdir()
        return tmp_path

    return write


CID = {"k": "cid", "migration_allowed": True, "peer_limit": 4, "usable": 2, "wanted": 2}


def test_ratios_are_over_the_best_path_that_served_all(run):
    events = {
        "all": [CID, task(0, "slow", 40), *(task(n, "fast", 21, switched=n == 1) for n in (1, 2, 3))],
        "slow": [task(n, "slow", 40) for n in range(4)],
        "fast": [task(n, "fast", 20) for n in range(4)],
    }
    found = figures.server(run(events, {}), SPEC)
    [load] = found["loads"]
    assert load["best"] == "fast"
    assert load["median_ratio"] == pytest.approx(1.05)
    assert load["mean_ratio"] == pytest.approx((40 + 3 * 21) / 80)
    assert load["p99_ratio"] == 2
    assert load["clients"]["all"]["migrations"] == 1
    assert load["clients"]["all"]["tasks_by_path"] == {"slow": 1, "fast": 3}
    assert found["behaviour"]["migration_allowed"] is True


def test_a_path_with_failures_is_not_the_best_and_failures_are_counted(run):
    events = {
        "all": [CID, *(task(n, "slow", 40) for n in range(3)), task(3, "slow", 99, "reset")],
        "slow": [task(n, "slow", 40) for n in range(4)],
        "fast": [task(n, "fast", 20) for n in range(3)],
    }
    folder = run(events, {"fast": 6})
    (folder / "log-02-client-5000-fast.txt").write_text("weir-client: incomplete")
    [load] = figures.server(folder, SPEC)["loads"]
    assert load["best"] == "slow"
    assert load["clients"]["all"]["failed"] == 1
    assert load["clients"]["fast"] | {"failed": 1, "failed_connections": 1} == load["clients"]["fast"]
    assert load["clients"]["fast"]["error"] == "weir-client: incomplete"


def test_quantiles_are_values_that_were_measured():
    assert figures.quantile([1, 2, 3, 4], 99) == 4
    assert figures.quantile(list(range(1, 1001)), 99) == 990
    assert figures.quantile([7], 50) == 7


def test_the_page_marks_ratios_above_the_target_and_lists_what_did_not_run(run):
    events = {name: [CID, *(task(n, "fast", ms) for n in range(4))] for name, ms in
              (("all", 30), ("slow", 40), ("fast", 20))}  # fmt: skip
    row = {"server": "one", "version": "1", "alpn": "h3", **figures.server(run(events, {}), SPEC)}
    broken = {"server": "two", "version": "2", "alpn": "h3", "error": "did not start"}
    machine = {"cpu": "a CPU", "cpus": 2, "kernel": "6", "date": "2026-01-01", "commit": "abc", "busy_share": 0.0}
    found = {"servers": [row, broken], "paths": list(PATHS), "seed": 1, "machine": machine, "skipped": ["three: gone"]}
    text = page.page(found)
    assert "| one 1 | 0 | 0 | 30.0, 30.0 | 20.0, 20.0 | **1.50**, **1.50**, **1.50** |" in text
    assert "| two 2 | did not run | | | | |" in text
    assert "- two: did not start" in text
    assert "- three: gone" in text
    columns = {line.count("|") for line in text.splitlines() if line.startswith(("| one 1", "| two 2"))}
    assert columns == {7}


@pytest.mark.parametrize(
    ("words", "said", "status"),
    [
        (["--only", "nobody"], "bench servers: no server nobody; there are weir-server", 1),
        (["--requests", "0", "--large", "0"], "must be 0 or more, one of them", 2),
        (["--table", "none.toml"], "none.toml: No such file", 1),
    ],
)
def test_a_wrong_command_line_is_reported_before_a_lab_starts(words, said, status):
    environment = {**os.environ, "PYTHONPATH": "mininet:controller", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-m", "weirlab.bench.servers", *words], cwd=paths.clone(), env=environment,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert (done.returncode, said in done.stderr) == (status, True), done.stderr


def test_a_server_in_the_lab(exact, tmp_path):
    words = ["--only", "weir-server", "--requests", "10", "--large", "2", "--page", str(tmp_path), "--json"]
    environment = {**os.environ, "PYTHONPATH": "mininet:controller", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-m", "weirlab.bench.servers", *words], cwd=paths.clone(), env=environment,
                          capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)["servers"]
    for load in row["loads"]:
        assert load["best"] == "wan2"
        assert {name: one["failed"] for name, one in load["clients"].items()} == dict.fromkeys(load["clients"], 0)
    assert row["loads"][0]["median_ratio"] == pytest.approx(1, abs=0.01)
    assert row["behaviour"]["migration_allowed"]
    assert row["behaviour"]["disable_active_migration"] is False
    assert "weir-server" in (tmp_path / "report.md").read_text()
