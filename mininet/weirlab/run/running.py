# SPDX-License-Identifier: Apache-2.0
"""Takes runs from the cache, and runs those that it lacks."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from pathlib import Path
from typing import Any

from weirlab.lab.kernels import LabError, stop_all
from weirlab.metrics.samples import SamplesError
from weirlab.run import disk
from weirlab.run.costs import Costs
from weirlab.run.keys import Keys, keeping_of
from weirlab.run.progress import told_progress
from weirlab.run.runner import RunError
from weirlab.run.series import Series, name_of, words_of
from weirlab.run.work import compute_metrics, measure
from weirlab.scenario.model import Run
from weirlab.store.cache import seal
from weirlab.topologies.cache_key import FLOOR_BYTES
from weirlab.topologies.registry import topology_of

# Runs as they end, each with its figures or its error, and its seconds.
Ending = Generator[tuple[Run, dict[str, Any] | Exception, float], None, None]


def take_cached(series: Series, costs: Costs, jobs: int) -> list[Run]:
    """Take the runs that are there already, computing figures where the cache has samples alone; the runs that are not
    there."""
    missing, to_compute = [], []
    for run in series.wanted:
        entry = series.entry(run)
        if entry is None:
            missing.append(run)
            continue
        costs.learn(run, entry.wall_s)
        found = series.stored(run, entry, series.keys.metrics(run.spec))
        if found is None:
            to_compute.append((run, entry))
        else:
            series.finish(run, found)
    if to_compute:
        print(f"figures of {len(to_compute)} cached runs are computed again", file=sys.stderr)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {
            pool.submit(compute_metrics, entry, run.spec, series.keys.metrics(run.spec)): (run, entry)
            for run, entry in to_compute
        }
        try:
            for future in as_completed(futures):
                run, entry = futures[future]
                try:
                    series.finish(run, future.result())
                except SamplesError as error:
                    series.set_aside(run, str(error))
                    missing.append(run)
                except RunError as error:
                    series.failed.append(f"{words_of(run)}: {error}")
                except OSError as error:
                    if disk.is_full(series.cache.folder, run, error):
                        raise disk.no_room(series.cache.folder, FLOOR_BYTES) from None
                    raise
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    order = {name_of(run): i for i, run in enumerate(series.wanted)}
    return sorted(missing, key=lambda run: order[name_of(run)])


def run_here(
    series: Series, run: Run, jobs: int, began: Callable[[Path], None] = lambda _: None
) -> tuple[dict[str, Any], float]:
    """Run one run in a lab of this machine and put it into the cache; its figures and the seconds it took. `began` gets
    the folder that it writes to meanwhile.

    Raises RunError, LabError or SamplesError, what the run left then being kept; NoRoom.
    """
    key, metrics_key = series.keys.run(run.spec), series.keys.metrics(run.spec)
    entry = series.entry(run)
    if entry is not None:  # the same run under another scenario's name has ended in the meantime
        return entry.metrics(metrics_key) or compute_metrics(entry, run.spec, metrics_key), entry.wall_s
    disk.check(series.cache.folder, [run] * jobs)
    try:
        with series.cache.draft() as draft:
            began(draft)
            try:
                facts = measure(run, draft)
                if Keys().run(run.spec) != key:
                    raise RunError("sources were changed since the first run began; run it again")
                entry = seal(draft, key, facts, keeping_of(run.spec).kept)
                found = compute_metrics(entry, run.spec, metrics_key)
            except (RunError, LabError, SamplesError) as error:
                if disk.is_full(series.cache.folder, run, error):
                    raise
                kept = series.cache.put_failed(draft, run)
                said = str(error).replace(str(draft), str(kept))
                raise type(error)(said) from None
            series.cache.forget_failed(run)
            series.keep(run, entry)
            return found, facts["wall_s"]
    except Exception as error:
        if disk.is_full(series.cache.folder, run, error):
            raise disk.no_room(series.cache.folder, disk.needs_bytes(run) * jobs) from None
        raise


def run_locally(series: Series, missing: Sequence[Run], jobs: int) -> Ending:
    """Run these, `jobs` at a time; each with its figures or its error as it ends. An interrupt ends the labs, and so
    does a full disk (NoRoom): each run after that would fail the same way."""
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {pool.submit(run_here, series, run, jobs): run for run in missing}
        try:
            for future in as_completed(futures):
                try:
                    found, wall_s = future.result()
                except (RunError, LabError, SamplesError, OSError) as error:
                    yield futures[future], error, 0.0
                else:
                    yield futures[future], found, wall_s
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            stop_all()
            raise


def follow(series: Series, missing: Sequence[Run], costs: Costs, jobs: int, ending: Ending, heading: str) -> None:
    """Take runs as they end, and show progress and the time left."""
    left = {name_of(run): run for run in missing}
    with closing(ending), told_progress(heading, len(missing), jobs) as tell:
        tell(None, len(left), sum(map(costs.expected_s, left.values())))
        for run, found, wall_s in ending:
            del left[name_of(run)]
            if isinstance(found, Exception):
                series.failed.append(f"{words_of(run)}: {found}")
                said = f"RUN FAILED: {found}"
            else:
                costs.learn(run, wall_s)
                series.finish(run, found)
                said = f"{wall_s:.1f} s, " + topology_of(run.spec["topology"]).headline(found)
            tell(f"{words_of(run)}: {said}", len(left), sum(map(costs.expected_s, left.values())))
