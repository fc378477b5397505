# SPDX-License-Identifier: Apache-2.0
"""The lab as a package that pip installs: its scenarios come with it, and programs are looked for in a clone."""

import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from weirlab import paths

REPO = paths.clone()


def pip(*words):
    argv = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q", *map(str, words)]
    subprocess.run(argv, check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Calls the installed command line in a folder far from any clone."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed, which builds the package")
    folder = tmp_path_factory.mktemp("wheel")
    if folder.is_relative_to(REPO):
        pytest.skip("the folder for temporary files is in the clone")
    pip("wheel", "--no-deps", "--no-build-isolation", "-w", folder / "wheels", REPO / "mininet")
    (wheel,) = (folder / "wheels").glob("weirlab-*.whl")
    pip("install", "--no-deps", "--no-index", "--target", folder / "site", wheel)

    def call(*words, command=(sys.executable, folder / "site" / "bin" / "weirlab"), **variables):
        environment = {key: value for key, value in os.environ.items() if key not in ("WEIR_ROOT", "PYTHONPATH")}
        environment |= {"PYTHONPATH": f"{folder / 'site'}:{REPO / 'controller'}", **variables}
        argv = [*command, *words]
        return subprocess.run(argv, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return call


def test_a_shipped_scenario_is_found_and_checked_without_a_clone(installed):
    done = installed("--check", "experiment", "pid-delay-table2")
    assert (done.returncode, done.stderr) == (0, "")
    assert installed("--check", "experiment", "grid-10-160").returncode == 0
    assert installed("--check", "evaluate", "--only", "table2").returncode == 0
    told = installed("experiment", "--help").stdout
    assert told.startswith("usage: weirlab experiment")
    assert "pid-delay-table2" in "".join(told.split())  # a line may end at a hyphen


def test_pages_are_rendered_without_a_clone(installed):
    program = "from weirlab.report import html, model; print(html.render(model.Report('t', [])))"
    done = installed("-c", program, command=[sys.executable])
    assert (done.returncode, done.stderr) == (0, "")
    assert "<title>t</title>" in done.stdout
    assert "--page: " in done.stdout, "the style sheet is part of the package"


def test_without_a_clone_the_missing_programs_are_told_in_a_line(installed, tmp_path):
    done = installed("lab", "--", "true")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("no clone of Weir found")
    wrong = installed("lab", "--", "true", WEIR_ROOT=str(tmp_path))
    assert wrong.returncode == 1
    assert wrong.stderr.splitlines()[-1].startswith(f"WEIR_ROOT = {tmp_path} is not a clone of Weir")
