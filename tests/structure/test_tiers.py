# SPDX-License-Identifier: Apache-2.0
"""The tiers of the tests (conftest.py, TABLE): every test is in one, and every row of the table decides one."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def tiers(pytestconfig):
    """The top-level conftest.py, as this run has loaded it."""
    return pytestconfig.pluginmanager.get_plugin(str(REPO / "conftest.py"))


def collected(*options: str) -> list[str]:
    """Ids of the tests of a run."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "--collect-only", "-q", *options],
        cwd=REPO, env={**os.environ, "PYTEST_ADDOPTS": "-o addopts="}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    return [line for line in done.stdout.splitlines() if "::" in line]


@pytest.fixture(scope="module")
def every_test(pytestconfig, tiers):
    """All ids; a run of the whole command has them already."""
    if pytestconfig.args_source is pytest.Config.ArgsSource.TESTPATHS and not pytestconfig.option.keyword:
        return pytestconfig.stash[tiers.COLLECTED]
    return collected("--release")


def test_every_row_decides_the_tier_of_a_test(tiers, every_test):
    """Files that a machine can't collect (PyTorch is missing) count by their paths."""
    folders = ("controller", "mininet", "quic-client", "icn", "train", "xdp", "tests")
    files = [str(path.relative_to(REPO)) for folder in folders for path in (REPO / folder).rglob("test_*.py")]
    deciding = {tiers.row_of(test) for test in [*every_test, *files]}
    assert [row for place, row in enumerate(tiers.TABLE) if place not in deciding] == []


def test_rows_name_a_tier_and_no_id_twice(tiers):
    assert {tier for tier, _ in tiers.TABLE} <= set(tiers.TIERS)
    patterns = [pattern for _, pattern in tiers.TABLE]
    assert len(set(patterns)) == len(patterns)


def test_no_test_is_lost(tiers, every_test):
    """Each is in one tier, and a run has those of its tier and the tiers before it."""
    assert len(set(every_test)) == len(every_test)
    assert {tiers.tier_of(test) for test in every_test} == set(tiers.TIERS)
    folder = "tests/hostile"
    of_folder = sorted(test for test in every_test if test.startswith(folder))
    of_tier = {tier: [test for test in of_folder if tiers.tier_of(test) == tier] for tier in tiers.TIERS[:2]}
    assert sorted(collected("--tier", "default", folder)) == of_tier["default"] != []
    assert sorted(collected("--long", folder)) == sorted(of_tier["default"] + of_tier["long"]) != of_tier["default"]


def test_busy_files_run_beside_files_that_wait(tiers, every_test):
    files = dict.fromkeys(test.partition("::")[0] for test in every_test)
    order = tiers.order_of(files)
    assert sorted(order) == sorted(files)
    for start in range(0, len(order) // 2, 4):
        assert len({file.startswith(tiers.BUSY) for file in order[start : start + 4]}) == 2
    last = [file.startswith(tiers.BUSY) for file in order[-len(order) // 6 :]]
    assert not any(last), "a busy file at the end would run alone"


def test_a_named_test_runs_whatever_its_tier(tiers):
    path = "tests/hostile/test_kills.py"
    assert tiers.tier_of(path) == "long"
    assert collected(path)


def test_ignored_rust_tests_are_those_of_the_long_tier():
    """setup/test.sh runs them with --include-ignored."""
    git = ["git", "-c", f"safe.directory={REPO}", "ls-files", "-z", "*.rs"]
    listed = subprocess.run(git, cwd=REPO, capture_output=True, text=True, check=True).stdout.split("\0")
    found = [line for path in listed if path for line in re.findall(r"#\[ignore.*", (REPO / path).read_text())]
    assert set(found) == {'#[ignore = "long tier"]'}
