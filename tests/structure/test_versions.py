# SPDX-License-Identifier: Apache-2.0
"""One version for all: the newest of CHANGELOG.md is that of the Python packages, Rust workspaces and C tools."""

import re
import tomllib
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
RELEASED = re.search(r"^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$", (REPO / "CHANGELOG.md").read_text(), re.M)[1]


@pytest.mark.parametrize(
    ("path", "keys"),
    [
        ("controller/pyproject.toml", ("project", "version")),
        ("mininet/pyproject.toml", ("project", "version")),
        ("p4/switch/Cargo.toml", ("workspace", "package", "version")),
        ("quic-client/Cargo.toml", ("workspace", "package", "version")),
    ],
)
def test_packages_have_the_newest_version_of_the_changelog(path, keys):
    found = tomllib.loads((REPO / path).read_text())
    for key in keys:
        found = found[key]
    assert found == RELEASED


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        ("xdp/lib/version.h", r'#define WEIR_VERSION "(.*?)"'),
        ("controller/weir/__init__.py", r'^__version__ = "(.*?)"'),
    ],
)
def test_programs_say_the_newest_version_of_the_changelog(path, pattern):
    assert re.search(pattern, (REPO / path).read_text(), re.M)[1] == RELEASED
