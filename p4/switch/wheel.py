# SPDX-License-Identifier: Apache-2.0
"""Build hook of the wheel (pyproject.toml): the programs as scripts, and the platforms on which they run."""

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PROGRAMS = ("weir-switch", "weir-p4c")
FOLDER = "WEIR_PROGRAMS"
"""Variable with the folder of built programs; without it cargo builds them."""


def built(root: Path) -> Path:
    """Folder of the programs. Raises CalledProcessError or FileNotFoundError when cargo fails or is missing."""
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    target = Path(os.environ.get("CARGO_TARGET_DIR", root / "target"))
    words = [word for name in PROGRAMS for word in ("--bin", name)]
    environment = {**os.environ, "CARGO_PROFILE_RELEASE_STRIP": "symbols"}
    subprocess.run(["cargo", "build", "--release", "--locked", *words], cwd=root, env=environment, check=True)
    return target / "release"


def least_glibc(programs: list[Path]) -> int:
    """Least minor version of glibc 2 with all symbols of the programs."""
    return max(int(minor) for path in programs for minor in re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes()))


class CustomBuildHook(BuildHookInterface):
    """Adds the programs to a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        programs = [built(Path(self.root)) / name for name in PROGRAMS]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-manylinux_2_{least_glibc(programs)}_{platform.machine()}"
        build_data["shared_scripts"] = {str(path): path.name for path in programs}
