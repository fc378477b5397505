# SPDX-License-Identifier: Apache-2.0
"""No program, page or example uses a fixed name in /tmp: another user can have put a link of that name there."""

import re
import subprocess
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
PLACES = (
    "README.md",
    "run",
    "docs",
    "setup",
    "mininet/weirlab",
    "mininet/scenarios",
    "controller/weir",
    "xdp",
    "p4",
    "quic-client",
    "icn",
    "train",
)
FIXED = re.compile(r"/tmp/[A-Za-z0-9_]")
SOURCES = (".md", ".py", ".sh", ".toml", ".c", ".h", ".rs", ".service", ".txt", "")


def test_no_fixed_names_in_tmp():
    listed = subprocess.run(["git", "-C", REPO, "ls-files", *PLACES], capture_output=True, text=True, check=True)
    paths = [path for path in listed.stdout.splitlines() if Path(path).suffix in SOURCES and "/tests/" not in path]
    paths = [path for path in paths if (REPO / path).is_file()]
    assert len(paths) > 100
    found = []
    for path in paths:
        text = (REPO / path).read_text(encoding="utf-8", errors="replace")
        if path.endswith(".rs"):
            text = text.partition("#[cfg(test)]")[0]
        found += [f"{path}: {line.strip()}" for line in text.splitlines() if FIXED.search(line)]
    assert found == []
