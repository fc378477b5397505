# SPDX-License-Identifier: Apache-2.0
"""Takes runs from the cache, and runs those that it lacks."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Any

from weirlab.evaluation import disk
from weirlab.evaluation.cache import seal
from weirlab.evaluation.costs import Costs
from weirlab.evaluation.keys import Keys
from weirlab.evaluation.progress import told_progress
from weirlab.evaluation.state import State, name_of, words_of
from weirlab.evaluation.work import compute_metrics, measure
from weirlab.lab.kernels import LabError, stop_all
from weirlab.metrics.samples import SamplesError
from weirlab.run.runner import RunError
from weirlab.scenario.model import Run
from weirlab.topologies.registry import topology_of


def take_cached(state: State, costs: Costs, jobs: int) -> list[Run]:
    """Take what is there already, computing figures where the cache has samples alone; the runs that are not there."""
    missing, to_compute = [], []
    for run in state.wanted:
        entry = state.entry(run)
        if entry is None:
            missing.append(run)
            continue
        costs.learn(run, entry.wall_s)
        found = state.stored(run, entry, state.keys.metrics(run.spec))
        if found is None:
            to_compute.append((run, entry))
        else:
            state.finish(run, found)
    if to_compute:
        print(f"figures of {len(to_compute)} cached runs are computed again", file=sys.stderr)
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {
            pool.submit(compute_metrics, entry, run.spec, state.keys.metrics(run.spec)): (run, entry)
            for run, entry in to_compute
        }
        try:
            for future in as_completed(futures):
                run, entry = futures[future]
                try:
                    state.finish(run, future.result())
                except SamplesError as error:
                    state.set_aside(run, str(error))
                    missing.append(run)
                except RunError as error:
                    state.failed.append(f"{words_of(run)}: {error}")
                except OSError as error:
                    if disk.is_full(state.cache.folder, run, error):
                        raise disk.no_room(state.cache.folder, disk.FLOOR_BYTES) from None
                    raise
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    order = {name_of(run): i for i, run in enumerate(state.wanted)}
    return sorted(missing, key=lambda run: order[name_of(run)])


def run_here(state: State, run: Run, jobs: int) -> tuple[dict[str, Any], float]:
    """Run one run in a lab of this machine and put it into the cache; its figures and the seconds it took.

    Raises RunError, LabError or SamplesError, what the run left then being kept; NoRoom.
    """
    key, metrics_key = state.keys.run(run.spec), state.keys.metrics(run.spec)
    entry = state.entry(run)
    if entry is not None:  # the same run under another scenario's name has ended in the meantime
        return entry.metrics(metrics_key) or compute_metrics(entry, run.spec, metrics_key), entry.wall_s
    disk.check(state.cache.folder, [run] * jobs)
    try:
        with state.cache.draft() as draft:
            try:
                facts = measure(run, draft)
                if Keys().run(run.spec) != key:
                    raise RunError("sources were changed since the evaluation began; run it again")
                entry = seal(draft, key, facts)
                found = compute_metrics(entry, run.spec, metrics_key)
            except (RunError, LabError, SamplesError) as error:
                if disk.is_full(state.cache.folder, run, error):
                    raise
                kept = state.cache.put_failed(draft, run)
                said = str(error).replace(str(draft), str(kept))
                raise type(error)(said) from None
            state.cache.forget_failed(run)
            state.whole[key] = state.cache.keep(entry, key)
            return found, facts["wall_s"]
    except Exception as error:
        if disk.is_full(state.cache.folder, run, error):
            raise disk.no_room(state.cache.folder, disk.needs_bytes(run) * jobs) from None
        raise


def run_locally(state: State, missing: Sequence[Run], jobs: int) -> Iterator[tuple[Run, dict | Exception, float]]:
    """Run these, `jobs` at a time; each with its figures or its error as it ends. An interrupt ends the labs, and so
    does a disk without room (NoRoom): each run after that would fail the same way."""
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {pool.submit(run_here, state, run, jobs): run for run in missing}
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


def run_missing(state: State, missing: Sequence[Run], costs: Costs, args: argparse.Namespace) -> None:
    """Run what the cache has not, telling how far it is."""
    if args.ray:
        from weirlab.evaluation.cluster import cluster

        with cluster(args.ray) as machines:
            follow(state, missing, costs, machines.jobs, machines.run(state, missing))
    else:
        follow(state, missing, costs, args.jobs, run_locally(state, missing, args.jobs))


def follow(state: State, missing: Sequence[Run], costs: Costs, jobs: int, ending: Iterable) -> None:
    """Take runs as they end, and show progress and the time left."""
    left = {name_of(run): run for run in missing}
    with told_progress(len(missing), len(state.wanted), jobs) as tell:
        tell(None, len(left), sum(map(costs.expected_s, left.values())))
        for run, found, wall_s in ending:
            del left[name_of(run)]
            if isinstance(found, Exception):
                state.failed.append(f"{words_of(run)}: {found}")
                said = f"FAILED: {found}"
            else:
                costs.learn(run, wall_s)
                state.finish(run, found)
                said = f"{wall_s:.1f} s, " + topology_of(run.spec["topology"]).headline(found)
            tell(f"{words_of(run)}: {said}", len(left), sum(map(costs.expected_s, left.values())))
