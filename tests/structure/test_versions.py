# SPDX-License-Identifier: Apache-2.0
"""One version for all: the newest of CHANGELOG.md is that of the Python packages, Rust workspaces and C tools."""

import re
import subprocess
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


PROGRAMS = "xdp sojourn client server icn switch stf corpus frames"


@pytest.mark.parametrize("name", [f"weir-{name}" for name in PROGRAMS.split()])
def test_programs_say_their_version_and_commit(name):
    """Programs built outside of git, or by cargo and make alone, have no commit."""
    program = REPO / "build" / "bin" / name
    if not program.exists():
        pytest.skip(f"{name} is not built")
    said = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    assert re.fullmatch(rf"{name} {re.escape(RELEASED)}( \([0-9a-f]{{12}}(\+changes)?\))?", said)


def version_of(clone, *folders):
    script = f'root={clone}; . "{REPO}/setup/version.sh"; build_version {" ".join(folders)}'
    return subprocess.run(["bash", "-euc", script], check=True, capture_output=True, text=True).stdout


def test_the_commit_is_that_of_the_sources(tmp_path):
    def git(*words):
        names = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        return subprocess.run(["git", *names, *words], cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    def commit(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
        git("add", "-A")
        git("commit", "-qm", path)
        return git("log", "-1", "--format=%h", "--abbrev=12").strip()

    (tmp_path / "CHANGELOG.md").write_text("## Unreleased\n\n## 9.8.7 - 2026-01-02\n")
    assert version_of(tmp_path, "xdp") == "9.8.7"
    git("init", "-q")
    first = commit("xdp/lib/a.c", "1")
    for path in ("xdp/README.md", "xdp/tests/a.c", "controller/a.py"):
        commit(path, "1")
    assert version_of(tmp_path, "xdp") == f"9.8.7 ({first})"
    (tmp_path / "xdp" / "lib" / "a.c").write_text("2")
    assert version_of(tmp_path, "xdp") == f"9.8.7 ({first}+changes)"
    second = commit("xdp/lib/a.c", "3")
    assert version_of(tmp_path, "controller", "xdp") == f"9.8.7 ({second})"
