# SPDX-License-Identifier: Apache-2.0
"""Builds of the law's header for the tests beside this file."""

import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
INCLUDE = HERE.parents[1] / "include"
STRICT = ["-O2", "-Wall", "-Wextra", "-Werror", "-Wconversion", "-Wsign-conversion", f"-I{INCLUDE}"]


def compiler(*names: str) -> str:
    """The first of `names` on PATH; skips the test when there is none."""
    for name in names:
        if shutil.which(name):
            return name
    pytest.skip(f"no {' or '.join(names)} on PATH")


def llvm(tool: str) -> str:
    """The program of LLVM that the build uses for `tool`; skips the test when there is none."""
    done = subprocess.run([HERE.parents[2] / "setup" / "llvm.sh", tool], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(done.stderr.strip())
    return done.stdout.strip()


def compile_law(command: list[str], source: str, target: Path, libraries: tuple[str, ...] = ()) -> Path:
    """Compile `source` of this folder; a compiler's complaint is a failure of the test that asked."""
    arguments = [*command, str(HERE / source), *libraries, "-o", str(target)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(arguments)}\n{done.stderr}"
    return target
