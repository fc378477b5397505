# SPDX-License-Identifier: Apache-2.0
"""Provenance of a result: versions, commit, host."""

import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from weir import __version__
from weirlab import paths


def versions() -> dict[str, str]:
    """Versions of what a result can depend on; the runner adds the lab kernel's."""
    found = {"python": platform.python_version(), "host kernel": platform.release()}
    for package in ("numpy", "matplotlib", "mininet"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    lock = paths.clone() / "quic-client" / "Cargo.lock"
    quiche = re.search(r'name = "quiche"\nversion = "([^"]+)"', lock.read_text("utf-8")) if lock.is_file() else None
    found["quiche"] = quiche[1] if quiche else "unknown"
    found["weir"] = weir()
    return found


def weir() -> str:
    """Version and commit of Weir, as in `0.6.0 (0123456789ab)`."""
    return f"{__version__} ({git_commit()})"


def host_facts() -> dict[str, Any]:
    """Facts of the host that matter to wall time; figures from the exact lab don't depend on them."""
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf-8"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+)", Path("/proc/meminfo").read_text("utf-8"), re.MULTILINE)
    return {
        "cpu": cpu[1] if cpu else "unknown",
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": int(memory[1]) // 1024 if memory else 0,
    }


def git_commit() -> str:
    """The commit the code is at, with "+changes" if tracked files differ from it."""
    try:
        commit = subprocess.run(
            ["git", "describe", "--always", "--abbrev=12", "--exclude=*", "--dirty=+changes"],
            cwd=paths.clone(), capture_output=True, text=True, check=False, timeout=30,
        )  # fmt: skip
    except FileNotFoundError:
        return "unknown (no git)"
    return commit.stdout.strip() if commit.returncode == 0 else "unknown (not a git checkout)"
