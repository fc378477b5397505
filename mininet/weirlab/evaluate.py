# SPDX-License-Identifier: Apache-2.0
"""`./run evaluate`: the matrix of scenarios and queue disciplines, as far as it is not in the cache, then the report.

Every run stands for itself: it is cached by the content of all that it depends on, it appears whole or not at all, and
one that fails is told at the end and holds up nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weirlab import evaluate_disk
from weirlab import metrics as figures
from weirlab.evaluate_cache import Cache, Entry, seal
from weirlab.evaluate_keys import Keys
from weirlab.evaluate_plan import Plan, load_plan
from weirlab.evaluate_work import compute_metrics, measure
from weirlab.lab import BUILD, LabError, stop_all
from weirlab.matrix import RunRow
from weirlab.metrics import SamplesError
from weirlab.results import dumps
from weirlab.runner import RunError
from weirlab.scenario import Run, ScenarioError
from weirlab.sealed import Damaged

CACHE = BUILD / "evaluation"
# Seconds a run takes before any of its kind has been seen: to boot and set up, and for each virtual second and Mbit/s.
COST_FLOOR_S = 6.0
COST_PER_VIRTUAL_MBIT = {"tcp": 0.0048, "quic": 0.012}
COST_OF_SWITCH = 2.0  # a P4 switch takes that many times as long
COST_OF_TUNER_S = 3.0


@dataclass(frozen=True)
class Done:
    """A run with its figures."""

    run: Run
    group: str
    metrics: dict[str, Any]

    @property
    def failures(self) -> list[str]:
        return figures.failures(self.metrics)

    @property
    def words(self) -> str:
        return words_of(self.run)

    @property
    def row(self) -> RunRow:
        return RunRow(self.run.scenario, self.group, self.run.variant, self.run.seed, self.metrics)


@dataclass
class State:
    """Where an evaluation stands."""

    plan: Plan
    cache: Cache
    keys: Keys
    wanted: list[Run]
    done: dict[tuple[str, str, int], Done] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)
    whole: dict[str, Entry] = field(default_factory=dict)  # by key, what has been held against its digests already

    def entry(self, run: Run) -> Entry | None:
        """The run's entry in the cache, whole. One that is damaged is told in a line and set aside."""
        key = self.keys.run(run.spec)
        if key not in self.whole:
            try:
                found = self.cache.find(key)
            except Damaged as error:
                self.set_aside(run, str(error))
                found = None
            if found is None:
                return None
            self.whole[key] = found
        return self.whole[key]

    def set_aside(self, run: Run, why: str) -> None:
        """Tell that a run's entry is damaged, and take it out of the way."""
        key = self.keys.run(run.spec)
        self.whole.pop(key, None)
        place = self.cache.set_aside(key)
        print(f"{words_of(run)}: damaged in the cache ({why}); set aside in {place}", file=sys.stderr)

    def stored(self, run: Run, entry: Entry, key: str) -> dict[str, Any] | None:
        """What has been computed of a run's samples under that key; None if it is to be computed (again)."""
        try:
            return entry.metrics(key)
        except Damaged as error:
            print(f"{words_of(run)}: figures damaged in the cache ({error}); computed anew", file=sys.stderr)
            with contextlib.suppress(OSError):  # what can't be removed, as a folder, is replaced when they are stored
                entry.metrics_path(key).unlink()
            return None

    def finish(self, run: Run, found: dict[str, Any]) -> None:
        self.done[name_of(run)] = Done(run, self.plan.group_of(run.scenario), found)


def name_of(run: Run) -> tuple[str, str, int]:
    return run.scenario, run.variant, run.seed


def words_of(run: Run) -> str:
    return f"{run.scenario}/{run.variant}/{run.seed}"


def add_options(command: argparse.ArgumentParser, positive: Callable[[str], int], cores: int) -> None:
    """The options of `./run evaluate`."""
    command.add_argument("--only", action="extend", nargs="+", metavar="PATTERN",
                         help="only runs that match SCENARIO[/VARIANT[/SEED]], each part as in a shell, as "
                         "'grid-*/auto'; a group's name stands for its scenarios")  # fmt: skip
    command.add_argument("--seeds", type=positive, metavar="N", help="seeds 1 to N instead of the scenarios'")
    command.add_argument("--seeds-from", type=positive, metavar="N",
                         help="seeds from N on instead of from 1: with --seeds 3, N to N + 2; unseen ones for what was "
                         "found on the first")  # fmt: skip
    command.add_argument("--jobs", type=positive, metavar="N", default=cores,
                         help="runs at a time (default: one per core); does not change any result")  # fmt: skip
    command.add_argument("--ray", metavar="ADDRESS",
                         help="run on that Ray cluster ('auto': the one this machine is in; 'local': a new one here), "
                         "whose machines have this clone, built, at the same path")  # fmt: skip
    command.add_argument("--cache", type=Path, metavar="FOLDER", default=CACHE,
                         help="where finished runs are kept (default: build/evaluation of the clone)")  # fmt: skip
    command.add_argument("--out", type=Path, metavar="FOLDER",
                         help="where the report goes (default: docs/results/evaluation/ if no run of the matrix is "
                         "missing and no seed left out, else results/evaluation/)")  # fmt: skip
    command.add_argument("--json", action="store_true",
                         help="print one JSON document: `runs`, each with group, scenario, variant, seed, metrics and "
                         "the checks it failed, `failed` and `missing`")  # fmt: skip
    command.add_argument("--from", dest="tables", type=Path, metavar="FOLDER",
                         help="run nothing and read no cache: make the report again from the CSV files of that folder "
                         "(docs/results/evaluation), into results/evaluation/ or --out")  # fmt: skip
    command.add_argument("--list", action="store_true", help="what would be run and what is there already; run nothing")
    command.add_argument("--matrix", type=Path, metavar="FILE", default=None,
                         help="another matrix than mininet/evaluation/matrix.toml")  # fmt: skip


def main_evaluate(args: argparse.Namespace) -> int:
    """Raises ScenarioError for what is wrong with the options or the files."""
    plan = load_plan(args.matrix) if args.matrix else load_plan()
    wanted = plan.chosen(args.only, seeds_of(args))
    if args.tables and (args.only or args.seeds or args.ray or args.json or args.list):
        raise ScenarioError(
            ["--from: takes all that the tables hold; leave out --only, --seeds, --ray, --json, --list"]
        )
    if args.check:
        return 0
    if args.tables:
        from weirlab import evaluate_report

        evaluate_report.of_tables(plan, args.tables, args.out)
        return 0
    state = State(plan, Cache(args.cache), Keys(), wanted)
    if args.list:
        return list_runs(state)
    costs = Costs()
    missing = take_cached(state, costs, args.jobs)
    if missing:
        run_missing(state, missing, costs, args)
    if args.json:
        sys.stdout.write(json_document(state))
    report(state, args)
    for line in state.failed:
        print(f"FAILED: {line}", file=sys.stderr)
    return 1 if state.failed else 0


def seeds_of(args: argparse.Namespace) -> range | None:
    """The seeds that the options ask for; None: those of the scenarios. Raises ScenarioError."""
    if args.seeds_from is not None and args.seeds is None:
        raise ScenarioError([f"--seeds-from {args.seeds_from}: how many from there on? give --seeds, too"])
    first = args.seeds_from or 1
    return None if args.seeds is None else range(first, first + args.seeds)


def list_runs(state: State) -> int:
    """One line a run: whether it is in the cache, and what it takes."""
    costs = Costs()
    there = {}
    for run in state.wanted:
        if entry := state.entry(run):
            there[name_of(run)] = entry.wall_s
            costs.learn(run, entry.wall_s)
    for run in state.wanted:
        known = there.get(name_of(run))
        print(
            f"{'cached' if known is not None else 'to run'}  {known or costs.expected_s(run):6.1f} s  {words_of(run)}"
        )
    left_s = sum(costs.expected_s(run) for run in state.wanted if name_of(run) not in there)
    print(f"{len(state.wanted)} runs, {len(there)} of them cached; {duration(left_s)} on one core for the others")
    return 0


class Costs:
    """What a run takes, in seconds of ours, learnt from those that have finished."""

    def __init__(self) -> None:
        self.seen: dict[tuple, list[float]] = {}  # how many, their seconds, the seconds expected of them at first

    @staticmethod
    def at_first_s(run: Run) -> float:
        spec = run.spec
        kind = "quic" if any(flow["kind"].startswith("quic") for flow in spec["flows"]) else "tcp"
        traffic_s = spec["duration_s"] * spec["link"]["bottleneck"]["rate_mbit_s"] * COST_PER_VIRTUAL_MBIT[kind]
        cost_s = (COST_FLOOR_S + traffic_s) * (COST_OF_SWITCH if spec["aqm"]["qdisc"] == "p4" else 1)
        return cost_s + (COST_OF_TUNER_S if spec["aqm"].get("tune") else 0)

    @staticmethod
    def kinds(run: Run) -> list[tuple]:
        """From the closest relatives to all runs."""
        aqm = run.spec["aqm"]
        like = (aqm["qdisc"], bool(aqm.get("tune")))
        return [(run.scenario, run.variant), (run.scenario, *like), (run.scenario,), like, ()]

    def learn(self, run: Run, wall_s: float) -> None:
        for kind in self.kinds(run):
            sums = self.seen.setdefault(kind, [0.0, 0.0])
            sums[0] += wall_s
            sums[1] += self.at_first_s(run)

    def expected_s(self, run: Run) -> float:
        for kind in self.kinds(run):
            if kind in self.seen:
                took_s, expected_s = self.seen[kind]
                return self.at_first_s(run) * took_s / expected_s
        return self.at_first_s(run)


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
        print(f"figures of {len(to_compute)} cached runs are computed anew", file=sys.stderr)
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
                    if evaluate_disk.is_full(state.cache.folder, run, error):
                        raise evaluate_disk.no_room(state.cache.folder, evaluate_disk.FLOOR_BYTES) from None
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
    evaluate_disk.check(state.cache.folder, [run] * jobs)
    key = state.keys.run(run.spec)
    try:
        with state.cache.draft() as draft:
            try:
                facts = measure(run, draft)
                if Keys().run(run.spec) != key:
                    raise RunError("sources were changed since the evaluation began; run it again")
                entry = seal(draft, key, facts)
                found = compute_metrics(entry, run.spec, state.keys.metrics(run.spec))
            except (RunError, LabError, SamplesError) as error:
                if evaluate_disk.is_full(state.cache.folder, run, error):
                    raise
                kept = state.cache.put_failed(draft, run)
                said = str(error).replace(str(draft), str(kept))
                raise type(error)(said) from None
            state.cache.forget_failed(run)
            state.whole[key] = state.cache.keep(entry, key)
            return found, facts["wall_s"]
    except Exception as error:
        if evaluate_disk.is_full(state.cache.folder, run, error):
            raise evaluate_disk.no_room(state.cache.folder, evaluate_disk.needs_bytes(run) * jobs) from None
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
        from weirlab.evaluate_ray import cluster

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
                said = f"{wall_s:.1f} s, " + headline(found)
            tell(f"{words_of(run)}: {said}", len(left), sum(map(costs.expected_s, left.values())))


def headline(found: dict[str, Any]) -> str:
    from weirlab.report import headline as dumbbell_headline

    return dumbbell_headline("dumbbell", found)


@contextmanager
def told_progress(count: int, wanted: int, jobs: int) -> Iterator[Callable[[str | None, int, float], None]]:
    """A bar on a terminal, elsewhere a line for each run; called with a line, how many runs are left and their cost."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    words = Console(stderr=True)
    began = time.monotonic()
    words.print(f"{count} runs of {wanted}, {jobs} at a time; the others are cached", highlight=False)
    columns = (TextColumn("{task.fields[runs]}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=words, disable=not words.is_terminal) as bar:
        task = bar.add_task("runs", total=None, runs=f"0/{count}", left="")

        def tell(line: str | None, left: int, left_s: float) -> None:
            remaining_s = left_s / min(jobs, max(left, 1))
            elapsed_s = time.monotonic() - began
            bar.update(task, total=elapsed_s + remaining_s, completed=elapsed_s, runs=f"{count - left}/{count}",
                       left=f"{duration(remaining_s)} left")  # fmt: skip
            if line is not None and (not words.is_terminal or "FAILED" in line):
                told = f"  [{count - left}/{count}, {duration(remaining_s)} left] {line}"
                words.print(told, highlight=False, soft_wrap=True, markup=False)

        yield tell


def duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60:02d} min"


def json_document(state: State) -> str:
    runs = [
        {"group": done.group, "scenario": done.run.scenario, "variant": done.run.variant, "seed": done.run.seed,
         "metrics": done.metrics, "failures": done.failures}
        for run in state.wanted if (done := state.done.get(name_of(run)))
    ]  # fmt: skip
    missing = [words_of(run) for run in state.wanted if name_of(run) not in state.done]
    return dumps({"runs": runs, "failed": state.failed, "missing": missing})


def report(state: State, args: argparse.Namespace) -> None:
    """Write the report over all of the matrix that there is, whatever `--only` has chosen to run now."""
    from weirlab import evaluate_report

    chosen = {name_of(run) for run in state.wanted}
    everything = state.plan.runs(seeds_of(args))
    for run in everything:
        if name_of(run) not in chosen and (entry := state.entry(run)):
            found = state.stored(run, entry, state.keys.metrics(run.spec))
            if found is not None:
                state.finish(run, found)
    finished = [state.done[name_of(run)] for run in everything if name_of(run) in state.done]
    state.failed += [
        f"{done.words}: {line}" for done in finished if name_of(done.run) in chosen for line in done.failures
    ]
    missing = [run for run in everything if name_of(run) not in state.done]
    evaluate_report.of_runs(state, finished, missing, args)
