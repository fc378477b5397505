# SPDX-License-Identifier: Apache-2.0
"""Where things are: the clone with the built programs, and the files that come with this package."""

from __future__ import annotations

import os
import shutil
import sys
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

# A folder is a clone of Weir if it has all of these.
CLONE_MARKS = ("run", "setup/install.sh", "mininet/kernels")


class NoCloneError(Exception):
    """No clone of Weir was found, which has the programs that the lab runs."""


def clone() -> Path:
    """The clone of Weir whose programs the lab runs.

    It is the folder in WEIR_ROOT, else the clone that this package is part of, else the clone that the working folder
    is in. Raises NoCloneError.
    """
    return _clone(os.environ.get("WEIR_ROOT", ""), os.getcwd())


@cache
def _clone(given: str, working_folder: str) -> Path:
    if given:
        if _is_clone(Path(given)):
            return Path(given).resolve()
        raise NoCloneError(f"WEIR_ROOT = {given} is not a clone of Weir: it lacks one of {', '.join(CLONE_MARKS)}")
    for start in (Path(__file__).resolve(), Path(working_folder)):
        for folder in start.parents if start.is_file() else (start, *start.parents):
            if _is_clone(folder):
                return folder
    raise NoCloneError(
        "no clone of Weir found; its programs are needed: change into the clone, or set WEIR_ROOT to its folder"
    )


def _is_clone(folder: Path) -> bool:
    return all((folder / mark).exists() for mark in CLONE_MARKS)


def build() -> Path:
    """Build folder of the clone: `bin`, `lab`, `venv` and so on. Raises NoCloneError."""
    return clone() / "build"


def of_others(name: str, path: str | None = None) -> str | None:
    """First program of that name on PATH, or on `path`, that is not one of Weir's under BMv2's or p4c's name: links to
    weir-switch and weir-p4c, which `weir-switch --install-links` and the Debian package make."""
    for folder in (os.environ.get("PATH", os.defpath) if path is None else path).split(os.pathsep):
        found = shutil.which(name, path=folder)
        if found and not Path(found).resolve().name.startswith("weir-"):
            return found
    return None


def import_path() -> str:
    """PYTHONPATH for the lab: the folders that this package and `weir` were imported from, and distutils for Mininet
    where Python has none."""
    specs = [find_spec(package) for package in ("weir", "weirlab")]
    folders = [Path(spec.origin).parent.parent for spec in specs if spec is not None and spec.origin is not None]
    if sys.version_info >= (3, 12):
        folders.append(Path(__file__).parent / "lab" / "compat")
    return ":".join(dict.fromkeys(str(folder) for folder in folders))


def _data(name: str) -> Path:
    # In a clone these are links into mininet/; the files there are what messages should name.
    return Path(str(files("weirlab"))).joinpath("data", name).resolve()


def scenarios() -> Path:
    """The folder of the scenarios that come with the lab."""
    return _data("scenarios")


def evaluation() -> Path:
    """The folder of the evaluation's scenarios, with `matrix.toml`."""
    return _data("evaluation")


def kernels() -> Path:
    """The folder of the lab kernels' configuration, build script and first process."""
    return _data("kernels")
