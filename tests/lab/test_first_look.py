# SPDX-License-Identifier: Apache-2.0
"""First part of `./run demo`, in the packaged lab: real queues in real time, so that no times are asserted."""

import os
import signal
import subprocess
import sys
import time

import pytest

from weirlab import paths
from weirlab.lab.kernels import LabError, PackagedLab
from weirlab.run import first
from weirlab.run.runner import RunError
from weirlab.run.scenarios import load_scenario
from weirlab.store.documents import read_json
from weirlab.store.folder import ResultsFolder, summarise
from weirlab.topologies.dumbbell.report.first import delay_picture

pytestmark = pytest.mark.lab

DROP_TAIL_VARIANT = '[variants.drop-tail]\nqdisc = "pfifo"'


@pytest.fixture
def lab():
    try:
        found = PackagedLab()
        found.binary()
    except LabError as error:
        pytest.skip(str(error))
    for program in first.PROGRAMS:
        if not (paths.build() / "bin" / program).exists():
            pytest.skip(f"{program} is not built; ./run test builds it")
    return found


def measured(lab, folder, *changes):
    """The first look, six seconds of it from the start on, with `changes` made to its scenario's text."""
    text = (paths.scenarios() / f"{first.SCENARIO}.toml").read_text()
    shorter = (("duration_s = 15", "duration_s = 6"), ("warmup_s = 3", "warmup_s = 0"))
    for old, new in (*shorter, *changes):
        assert text.count(old) == 1
        text = text.replace(old, new)
    path = folder / f"{first.SCENARIO}.toml"
    path.write_text(text)
    scenario = load_scenario(path)
    runs = scenario.runs()
    results = ResultsFolder.create(folder / "results", scenario, ["test"], runs)
    first.measure(lab, results, runs)
    return results, {run.variant: run.metrics for run in summarise(results).runs}


def test_packets_cross_all_queues_at_once_and_the_law_drops_some(lab, tmp_path):
    results, found = measured(lab, tmp_path)
    assert list(found) == ["weir", "fq_codel", "drop-tail"]
    assert found["weir"]["drops_aqm_packets"] > 0  # by the program's own counters
    assert found["drop-tail"]["drops_aqm_packets"] is None
    for metrics in found.values():
        assert metrics["rx_packets"] > 0
        assert metrics["goodput_total_mbit_s"] > 0
    assert read_json(results.run_path("weir", 1) / "attached.json")["signal"] == "veth"
    for notes in first.NOTES.values():
        assert delay_picture(results, summarise(results), notes).startswith(b"\x89PNG")


def test_a_run_that_the_kernel_refuses_ends_those_beside_it_and_is_named(lab, tmp_path):
    bad = '[variants.drop-tail]\nqdisc = "args"\nqdisc_args = "pfifo limit none"'
    with pytest.raises(RunError, match=r"first-look drop-tail: node r1: .*pfifo limit none") as caught:
        measured(lab, tmp_path, (DROP_TAIL_VARIANT, bad))
    stderr = caught.value.args[0].rpartition("see ")[2] + "/stderr"
    with open(stderr) as file:
        lines = file.read().splitlines()
    assert lines[0].startswith("first-look drop-tail: node r1")
    assert sorted(lines[1:]) == [f"first-look {name}: a run beside it has failed" for name in ("fq_codel", "weir")]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_lab_and_no_results(lab, tmp_path, number):
    process = subprocess.Popen(
        [sys.executable, "-m", "weirlab.cli", "demo", "--first", "--results", str(tmp_path)],
        env={**os.environ, "PYTHONPATH": paths.import_path()},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        while not list(tmp_path.glob("*/runs/console.log")):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        (results,) = tmp_path.iterdir()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 128 + number
    assert err.splitlines()[-1] == f"stopped by {number.name}"
    assert list(tmp_path.iterdir()) == []
    assert [pid for pid in os.listdir("/proc") if pid.isdecimal() and works_in(pid, str(results))] == []


def works_in(pid, folder):
    """Whether a process has its working directory below `folder`, as a lab's kernel has; removed folders count."""
    try:
        return os.readlink(f"/proc/{pid}/cwd").startswith(folder)
    except OSError:
        return False
