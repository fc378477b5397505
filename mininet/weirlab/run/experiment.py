# SPDX-License-Identifier: Apache-2.0
"""`./run experiment`: the runs of one scenario, as far as they are not in the cache, and their results folder.

A run appears in the results folder from the cache, whether it was there or has just been made: the files are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weirlab.lab.kernels import ExactLab
from weirlab.run import disk
from weirlab.run.cluster import run_all
from weirlab.run.costs import Costs
from weirlab.run.keys import Keys
from weirlab.run.progress import told
from weirlab.run.running import take_cached
from weirlab.run.series import Series
from weirlab.run.watching import run_watched
from weirlab.scenario.model import Run, Scenario
from weirlab.store.cache import Cache
from weirlab.store.folder import ResultsFolder, RunResult
from weirlab.topologies.registry import topology_of


@dataclass
class Experiment(Series):
    """Where an experiment stands."""

    results: ResultsFolder = field(kw_only=True)

    def finish(self, run: Run, found: dict[str, Any]) -> None:
        """Raises NoRoom."""
        entry = self.whole[self.keys.run(run.spec)]
        topology = topology_of(run.spec["topology"])
        checked = tuple(topology.failures(found)), tuple(topology.missed(found))
        try:
            self.results.take(run, entry)
            self.results.keep(RunResult(run.scenario, run.variant, run.seed, found, *checked))
        except OSError as error:
            if error.errno in disk.FULL:
                needed = sum((entry.folder / name).stat().st_size for name in entry.digests)
                raise disk.no_room(self.results.path, needed, "--results") from None
            raise


def run_experiment(
    scenario: Scenario,
    runs: Sequence[Run],
    cache: Path,
    results: ResultsFolder,
    jobs: int,
    fresh: bool = False,
    watch: bool = False,
    ray: str | None = None,
) -> list[str]:
    """Take or make these runs, reporting progress. Returns the failures, one line each: such a run is missing in the
    results, and stops no other. `watch`: make the only one, and show it as it goes. `ray`: the address of a cluster to
    run them on. Raises NoRoom, LabError, OSError."""
    results.note(versions={"lab kernel": ExactLab().version()})
    series = Experiment(Cache(cache), Keys(), list(runs), fresh or watch, results=results)
    costs = Costs()
    missing = take_cached(series, costs, jobs)
    there = {(run.variant, run.seed) for run in runs} - {(run.variant, run.seed) for run in missing}
    results.note(cached=[[run.variant, run.seed] for run in runs if (run.variant, run.seed) in there])
    heading = (
        f"{scenario.title}: {len(runs)} runs of {scenario.duration_s:g} virtual seconds, {len(there)} of them cached"
    )
    if watch:
        told(f"{heading}; watched as it runs")
        run_watched(series, runs[0], costs)
    elif missing:
        run_all(
            series, missing, costs, jobs, ray, lambda at_once: f"{heading}; {len(missing)} to run, {at_once} at a time"
        )
    else:
        told(heading)
    return series.failed
