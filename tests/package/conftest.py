# SPDX-License-Identifier: Apache-2.0
"""The Debian packages, built once for all tests of one run, whichever worker asks for them first."""

import fcntl
import os
from pathlib import Path

import pytest
from bare_debian import run_package

NAMES = ("weir", "weir-switch", "weir-client", "weir-server")


@pytest.fixture(scope="session")
def packages(tmp_path_factory):
    """Paths of the packages, by name."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # of all workers
    folder = shared / "packages"
    folder.mkdir(exist_ok=True)
    paths = folder / "paths"
    with open(folder / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not paths.exists():
            done = run_package(*NAMES, "--out", folder)
            assert done.returncode == 0, done.stderr
            paths.write_text(done.stdout)
    made = [Path(line) for line in paths.read_text().splitlines()]
    assert [path.name.split("_")[0] for path in made] == list(NAMES)
    return dict(zip(NAMES, made, strict=True))


@pytest.fixture(scope="session")
def package(packages):
    """Package of `weir`."""
    return packages["weir"]
