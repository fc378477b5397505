# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios in the exact lab, and says why where they can't run."""

import itertools
import os
import subprocess
import sys

import pytest
from lab_rig import SMALL, small

from weirlab import paths
from weirlab.lab.kernels import ExactLab, LabError

REPO = paths.clone()


@pytest.fixture
def experiment(tmp_path):
    """Runs a small scenario and gives back the finished process; its results lie beside the scenario, and so do caches,
    a new one each time unless `cache` names one: a repeated run is run twice."""
    return experiments_in(tmp_path)


@pytest.fixture(scope="module")
def shared_experiment(tmp_path_factory):
    """The same, for runs that several tests of a file use."""
    return experiments_in(tmp_path_factory.mktemp("shared"))


def experiments_in(folder):
    try:
        ExactLab()
    except LabError as error:
        pytest.skip(str(error))
    for tool in ("weir-xdp", "weir-sojourn", "weir-client", "weir-traffic"):
        if not (REPO / "build" / "bin" / tool).exists():
            pytest.skip(f"{tool} is not built; ./run test builds it")

    numbers = itertools.count(1)

    def start(*options, changes=(), text=SMALL, cache="", **kwargs):
        path = folder / "small.toml"
        path.write_text(small(*changes, text=text))
        return subprocess.Popen(
            [
                sys.executable,
                "-m",
                "weirlab.cli",
                "experiment",
                str(path),
                "--results",
                str(folder / "results"),
                "--cache",
                str(folder / (cache or f"cache-{next(numbers)}")),
                *options,
            ],
            env={
                **os.environ,
                "PYTHONPATH": paths.import_path(),
                "PATH": f"{REPO / 'build' / 'venv' / 'bin'}:{os.environ['PATH']}",
            },
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **kwargs,
        )

    def run(*options, **kwargs):
        process = start(*options, **kwargs)
        out, err = process.communicate(timeout=600)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    run.start = start
    run.folder = folder
    return run
