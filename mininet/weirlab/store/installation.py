# SPDX-License-Identifier: Apache-2.0
"""Facts of an installation that the bytes of an exact run depend on, and a short name of them.

Virtual time moves only while all programs of a lab sleep, but each reads the clock and waits for others as often as its
libraries do. So another interpreter, C library, lab kernel, compiler or version of iproute2 can take another, equally
valid path of the same seed. The processor and the kernel of the host have no effect.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import subprocess
from functools import cache

from weirlab import paths
from weirlab.lab.kernels import ExactLab

FILE = "installation.json"
PACKAGES = ("libc6", "python3", "iproute2", "mininet")  # of Debian
# Compilers leave their versions in the section .comment of a program.
COMPILERS = {"rustc": rb"rustc version [0-9.]+", "gcc": rb"GCC: \([^)\x00]+\) [0-9.]+"}
BUILT = "weir-server"
UNKNOWN = "unknown"


@cache
def facts() -> dict[str, str]:
    """Raises LabError if there is no lab kernel."""
    found = {"machine": platform.machine(), "python": platform.python_version(), "lab kernel": ExactLab().folder.name}
    found |= {name: _first_line("dpkg-query", "--show", "--showformat", "${Version}", name) for name in PACKAGES}
    built = paths.build() / "bin" / BUILT
    program = built.read_bytes() if built.is_file() else b""
    return found | {name: match[0].decode() if (match := re.search(mark, program)) else UNKNOWN
                    for name, mark in COMPILERS.items()}  # fmt: skip


def name_of(found: dict[str, str]) -> str:
    """Twelve digits that stand for these facts."""
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]


def _first_line(*words: str) -> str:
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return UNKNOWN
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else UNKNOWN
