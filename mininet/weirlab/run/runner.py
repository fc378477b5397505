# SPDX-License-Identifier: Apache-2.0
"""Runs scenarios: each run in a lab of its own, several at once, samples gathered, figures computed."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from weirlab.lab.kernels import ExactLab, Job, LabResult, stop_all
from weirlab.scenario.model import Run
from weirlab.store.folder import ResultsFolder, RunResult, samples_path
from weirlab.topologies.base import Topology
from weirlab.topologies.registry import topology_of

# Wall time allowed for one virtual second; ten QUIC flows at 10 Mbit/s need about half of one on two idle cores.
WALL_LIMIT_PER_VIRTUAL = 15.0
WALL_LIMIT_FLOOR_S = 120.0
WALL_LIMIT_TIMES = 20.0  # factor on a run's expected time, for a busy machine
VIRTUAL_MARGIN_S = 30.0


class RunError(Exception):
    """A run did not come to its end: which, and the error of its lab or driver."""


def gather_samples(folder: Path, topology: Topology, spec: dict[str, Any]) -> None:
    """Put what the programs of a run wrote into one `samples.jsonl.gz` and remove the parts.

    The same parts give the same bytes: fixed order, no time in the gzip header.
    """
    parts = topology.sample_parts(folder, spec)
    draft = folder / ".samples.jsonl.gz"
    with open(draft, "wb") as raw, gzip.GzipFile("", "wb", compresslevel=1, fileobj=raw, mtime=0) as out:
        for part in parts:
            with open(part, "rb") as file:
                if not part.name.startswith("flows-"):
                    shutil.copyfileobj(file, out, 1 << 20)
                    continue
                for line in file:
                    sample = json.loads(line)
                    if sample["flow"] is None:
                        continue  # a server's connection that has not been asked for anything yet
                    sample["flow"] = topology.flow_name(spec, int(sample["flow"]))
                    out.write(json.dumps(sample, separators=(",", ":")).encode() + b"\n")
    draft.rename(folder / "samples.jsonl.gz")
    for part in parts:
        if part.name != "decisions.jsonl":  # kept beside them as it is: what a reader looks for first
            part.unlink()


def wall_limit_s(run: Run) -> float:
    """Real time after which a run is ended, in seconds."""
    expected_s: float = topology_of(run.spec["topology"]).keeping.expected_s(run.spec)
    virtual_s: float = run.spec["duration_s"]
    return max(WALL_LIMIT_FLOOR_S, virtual_s * WALL_LIMIT_PER_VIRTUAL, expected_s * WALL_LIMIT_TIMES)


def run_driver(folder: Path, run: Run) -> LabResult:
    """Run one run in an exact lab; what its programs write is in `folder`, where its spec.json must be already.

    Raises RunError or LabError.
    """
    topology, duration_s = topology_of(run.spec["topology"]), run.spec["duration_s"]
    result = ExactLab().run(
        Job(
            command=["python", "-m", topology.driver],
            folder=folder,
            seed=run.seed,
            wall_limit_s=wall_limit_s(run),
            virtual_limit_s=duration_s + VIRTUAL_MARGIN_S,
            environment=topology.environment(run.spec),
        )
    )
    if result.status != 0:
        said = (result.stderr or result.stdout).decode(errors="replace").strip().splitlines() or ["no message"]
        where = f"{run.place}: " if run.place else ""
        raise RunError(f"{where}{run.variant}, seed {run.seed}: status {result.status}: {said[-1]}; see {folder}")
    return result


def run_lab(folder: Path, run: Run) -> LabResult:
    """The same, and its samples are then in one file. Raises RunError or LabError."""
    result = run_driver(folder, run)
    gather_samples(folder, topology_of(run.spec["topology"]), run.spec)
    return result


def finish(results: ResultsFolder, run: Run) -> RunResult:
    """Compute a run's metrics from its samples and keep them. Raises SamplesError for unusable samples."""
    topology = topology_of(run.spec["topology"])
    found = topology.compute(samples_path(results.run_path(run.variant, run.seed)), run.spec)
    checked = tuple(topology.failures(found)), tuple(topology.missed(found))
    result = RunResult(run.scenario, run.variant, run.seed, found, *checked)
    results.keep(result)
    return result


def run_one(results: ResultsFolder, run: Run) -> RunResult:
    """Run one run in an exact lab and compute its figures. Raises RunError, LabError or SamplesError."""
    run_lab(results.run_folder(run), run)
    return finish(results, run)


def run_all(results: ResultsFolder, runs: Sequence[Run], jobs: int, done: Callable[[Run, RunResult], None]) -> None:
    """Run `runs`, `jobs` at a time, calling `done` as each ends. The first error ends the rest and is raised.

    Threads, because each only waits for its lab; an interrupt reaches the main one, which ends the labs.
    """
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {pool.submit(run_one, results, run): run for run in runs}
        try:
            for future in as_completed(futures):
                done(futures[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_all()
            raise
