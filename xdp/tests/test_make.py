# SPDX-License-Identifier: Apache-2.0
"""xdp/Makefile: `make` without a version leaves the one that the set-up gave, and its programs, as they are."""

import subprocess
from pathlib import Path

XDP = Path(__file__).resolve().parents[1]


def commands(out: Path, *words: str) -> str:
    """Commands that would make the object that holds the version."""
    target = out / "obj" / "lib" / "version.o"
    command = ["make", "--dry-run", "-C", XDP, f"OUT={out}", *words, target]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_the_version_stays_where_none_is_given(tmp_path):
    assert "WEIR_BUILD" not in commands(tmp_path)
    given = commands(tmp_path, "WEIR_BUILD=1.2.3 (abc)")
    assert "1.2.3 (abc)" in given
    written_ns = (tmp_path / "build-version").stat().st_mtime_ns
    assert commands(tmp_path) == given
    assert (tmp_path / "build-version").stat().st_mtime_ns == written_ns
    assert "1.2.4" in commands(tmp_path, "WEIR_BUILD=1.2.4")
