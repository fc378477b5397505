# SPDX-License-Identifier: Apache-2.0
"""`./run demo --first`: the scenario `first-look` in the lab that can show it soonest, all its queues in one lab.

Debian's packaged User-Mode Linux needs no kernel of its own, so the picture is there while that kernel is being built.
On CPUs where the packaged one can't run (lab/machine.py), private namespaces of the running kernel take its place if
that kernel has the qdiscs, and otherwise the exact lab. Real time, in the first two: figures are indicative, and are
kept in no cache. On a busy machine packets wait for the processor, not for the link. Then there is no picture, since it
would show the machine and not the queues.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from weirlab import paths
from weirlab.lab.kernels import ExactLab, HostLab, Job, Lab, LabError, PackagedLab, UmlLab, open_lab
from weirlab.lab.machine import MachineError, first_lab
from weirlab.report import results as report_parts
from weirlab.report import terminal
from weirlab.report.model import Report
from weirlab.run.progress import told
from weirlab.run.runner import RunError, finish, gather_samples
from weirlab.run.scenarios import load_scenario
from weirlab.scenario.model import Run
from weirlab.store import atomic
from weirlab.store.folder import ResultsFolder, Summary, summarise
from weirlab.topologies.dumbbell.metrics import ALL_METRICS
from weirlab.topologies.dumbbell.report.first import delay_picture
from weirlab.topologies.registry import topology_of

SCENARIO = "first-look"
DROP_TAIL = "drop-tail"  # its variant whose queue never runs empty: what it does not carry, the machine did not
LEAST_CARRIED_PERCENT = 90.0
MOST_OUTSIDE_MS = 5.0  # mean of what packets waited elsewhere; on an idle machine it is below 1 ms
PROGRAMS = ("weir-xdp", "weir-sojourn", "weir-traffic")
SET_UP_S = 20  # time of booting, building the network and drawing beside a compiler
WALL_LIMIT_S = 90  # of the whole lab, in which three times as much is to be done on a good day
EXACT_WALL_LIMIT_S = 600  # a busy machine makes a lab in virtual time slow, and changes nothing else
PICTURE = "first.png"
TABLE_WIDTH = 100
NOTES = {
    False: (
        "Measured in real time beside whatever else this machine does: indicative, and other figures the next time.",
        f"./run experiment {SCENARIO} measures the same in virtual time, which no load can change.",
    ),
    True: ("Measured in virtual time: the load of this machine has no effect.",),
}
"""Lines below the table and the picture, by whether the lab's time is virtual."""
ROWS: tuple[tuple[str | None, str, str, int], ...] = (
    ("queue_delay_mean_ms", "queue delay, mean", "ms", 1),
    ("queue_delay_p99_ms", "queue delay, p99", "ms", 1),
    ("goodput_total_mbit_s", "goodput", "Mbit/s", 2),
    ("drops_aqm_packets", "dropped early", "packets", 0),
    ("drops_limit_packets", "dropped, queue full", "packets", 0),
    ("marks_packets", "marked CE", "packets", 0),
    ("delay_outside_mean_ms", "delay outside the queue", "ms", 1),
)


def too_busy(found: Mapping[str, Mapping[str, float | None]]) -> str:
    """Why these figures, by variant, show the machine rather than the queues; empty if they show the queues."""
    carried_percent = found[DROP_TAIL]["utilisation_percent"] or 0.0
    if carried_percent < LEAST_CARRIED_PERCENT:
        return f"{DROP_TAIL}, whose queue is never empty, sent for {carried_percent:.0f} % of the time only"
    for variant, metrics in found.items():
        outside_ms = metrics["delay_outside_mean_ms"] or 0.0
        if outside_ms > MOST_OUTSIDE_MS:
            return f"packets of {variant} waited {outside_ms:.1f} ms elsewhere than in the queue"
    return ""


def main_first(root: Path | None, argv: Sequence[str]) -> int:
    """Measure, write the picture into a new results folder, and print the table.

    Raises LabError, RunError, SamplesError, OSError; the folder is then removed, unless RunError names it.
    """
    lab = choose_lab()
    for program in PROGRAMS:
        if not (paths.build() / "bin" / program).exists():
            raise LabError(f"{program} is not built; build it with: setup/install.sh python xdp lab_tools")
    scenario = load_scenario(paths.scenarios() / f"{SCENARIO}.toml")
    runs = scenario.runs()
    virtual = isinstance(lab, ExactLab)
    takes = "" if virtual else f"; about {scenario.duration_s + SET_UP_S:g} s"
    told(
        f"A first look, in {'virtual' if virtual else 'real'} time: {scenario.title}, {len(runs)} queues at once{takes}"
    )
    results = ResultsFolder.create(root or paths.clone() / "results", scenario, argv, runs)
    try:
        results.note(versions={"lab kernel": f"{lab.name} ({kernel_of(lab)})"})
        measure(lab, results, runs)
        summary = summarise(results)
        if not virtual and (why := too_busy({run.variant: run.metrics for run in summary.runs})):
            raise LabError(f"no first picture: {why}; this machine is too busy to measure in real time")
        atomic.write(results.path / PICTURE, delay_picture(results, summary, NOTES[virtual]))
    except RunError:
        raise
    except BaseException:
        shutil.rmtree(results.path, ignore_errors=True)
        raise
    print_figures(results, summary, NOTES[virtual])
    return 0


def choose_lab() -> Lab:
    """The lab that can show the first look soonest on this machine. Raises LabError."""
    try:
        lab = open_lab(first_lab())
    except MachineError as error:
        raise LabError(str(error)) from None
    if isinstance(lab, PackagedLab):
        lab.binary()
    return lab


def kernel_of(lab: Lab) -> str:
    """The kernel's version, or its file, for the results folder."""
    if isinstance(lab, HostLab):
        return os.uname().release
    return lab.version() if isinstance(lab, ExactLab) else str(lab.binary()) if isinstance(lab, UmlLab) else ""


def measure(lab: Lab, results: ResultsFolder, runs: Sequence[Run]) -> None:
    """All runs in one lab, and their figures."""
    folders = {run.variant: results.run_folder(run) for run in runs}
    together = results.path / "runs"
    driver = topology_of(runs[0].spec["topology"]).driver
    inside = [str(folder.relative_to(together)) for folder in folders.values()]
    job = Job(["python", "-m", "weirlab.lab.side_by_side", driver, *inside], together,
              wall_limit_s=EXACT_WALL_LIMIT_S if isinstance(lab, ExactLab) else WALL_LIMIT_S)  # fmt: skip
    ended = lab.run(job)
    if ended.status != 0:
        # The first to fail reports the reason, the others that one has failed.
        said = (ended.stderr or ended.stdout).decode(errors="replace").strip().splitlines() or ["no message"]
        raise RunError(f"the first look failed with status {ended.status}: {said[0]}; see {together}")
    for run in runs:
        gather_samples(folders[run.variant], topology_of(run.spec["topology"]), run.spec)
        finish(results, run)


def print_figures(results: ResultsFolder, summary: Summary, notes: Sequence[str]) -> None:
    facts = results.meta["scenario"]
    console = Console()
    if not console.is_terminal:
        console.width = max(console.width, TABLE_WIDTH)  # a pipe has no width of its own
    corner = f"{facts['duration_s'] - facts['warmup_s']:g} s, after {facts['warmup_s']:g} s of start"
    definitions = {metric: ALL_METRICS[metric] for metric, *_ in ROWS if metric}
    figures = report_parts.figures(ROWS, definitions, {"paper": {}}, summary, {})
    terminal.render(Report(facts["title"], [replace(figures, corner=corner)]), console)
    for line in (*notes, "", f"The picture: {results.path / PICTURE}", ""):
        console.print(line, soft_wrap=True, highlight=False, markup=False)
