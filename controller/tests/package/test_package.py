# SPDX-License-Identifier: Apache-2.0
"""The controller as an installed package: what it brings, and that it needs no checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from places import CONTROLLER, REPOSITORY

BUILD = "from hatchling.build import build_wheel; import sys; print(build_wheel(sys.argv[1]))"
"""Command that pip runs; with pip itself it takes three times as long."""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [sys.executable, "-c", BUILD, str(folder)], cwd=CONTROLLER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel's files as an installer puts them; its dependencies are this environment's."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def weir(installed: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    code = "import sys, weir.cli; assert weir.__file__.startswith(sys.argv.pop(1)); sys.exit(weir.cli.run())"
    return subprocess.run(
        [sys.executable, "-c", code, str(installed), *words],
        cwd=installed, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_the_wheel_has_profiles_programs_and_a_command(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entry_points,) = [name for name in names if name.endswith(".dist-info/entry_points.txt")]
        entry = archive.read(entry_points).decode()
    assert "weir = weir.cli:run" in entry
    profiles = {f"weir/profiles/{file.name}" for file in (CONTROLLER / "profiles").glob("*.toml")}
    programs = {f"weir/p4_source/programs/{file.name}" for file in (REPOSITORY / "p4" / "programs").glob("*.p4")}
    includes = {f"weir/p4_source/include/{file.name}" for file in (REPOSITORY / "p4" / "include").glob("*.p4")}
    assert profiles | programs | includes <= names
    assert {"weir/profiles/tuned.toml", "weir/p4_source/programs/pid_delay.p4"} <= names


def test_it_says_what_it_can(installed: Path) -> None:
    done = weir(installed, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: weir COMMAND" in done.stdout


def test_a_profile_is_found_by_name(installed: Path) -> None:
    nobody = ("--p4", "unix:/nonexistent/weir", "--connect-timeout-s", "0.2", "--port", "1")
    done = weir(installed, "gains", *nobody, "--profile", "tuned")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no connection to unix:/nonexistent/weir" in done.stderr  # the profile was read before
    done = weir(installed, "gains", *nobody, "--profile", "none")
    assert (done.returncode, done.stdout) == (2, "")
    assert "must be one of coupled, paper, tuned, or a path" in done.stderr


def test_the_model_runs(installed: Path) -> None:
    done = weir(installed, "model", "margins", "--profile", "tuned", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("{")


def test_the_program_is_read_with_all_it_includes(installed: Path) -> None:
    code = (
        "from weir.programs import PID_DELAY; from weir.switch.program import source_files\n"
        "print(*sorted(path.name for path in source_files(PID_DELAY.source)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=installed, env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert {"pid_delay.p4", "law.p4", "law_types.p4", "aqm_ingress.p4"} <= set(done.stdout.split())


def test_nothing_asks_for_a_checkout() -> None:
    """A path above the package is there in a checkout alone."""
    for file in (CONTROLLER / "weir").rglob("*.py"):
        assert ".parents[" not in file.read_text(encoding="utf-8"), file
