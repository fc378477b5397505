# SPDX-License-Identifier: Apache-2.0
"""`./run evaluate`: the matrix of scenarios and queue disciplines, as far as it is not in the cache, then the report.

Every run stands for itself: it is cached by the content of all that it depends on, it appears whole or not at all, and
one that fails is told at the end and holds up nothing.
"""

from __future__ import annotations

import argparse
import csv
import fnmatch
import io
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weirlab import metrics as figures
from weirlab.evaluate_cache import Cache, Entry
from weirlab.evaluate_keys import Keys
from weirlab.evaluate_plan import Plan, load_plan
from weirlab.evaluate_work import compute_metrics, measure
from weirlab.lab import BUILD, REPO, LabError, stop_all
from weirlab.metrics import SamplesError
from weirlab.results import dumps
from weirlab.runner import RunError
from weirlab.scenario import Run, ScenarioError

CACHE = BUILD / "evaluation"
DOCS = REPO / "docs"
PARTIAL = REPO / "results" / "evaluation"
# Seconds a run takes before any of its kind has been seen: to boot and set up, and for each virtual second and Mbit/s.
COST_FLOOR_S = 6.0
COST_PER_VIRTUAL_MBIT = {"tcp": 0.0048, "quic": 0.012}
COST_OF_SWITCH = 2.0  # a P4 switch takes that many times as long
COST_OF_TUNER_S = 3.0
# Of each run's figures, what the small tables in docs/results hold, as shell patterns; what no run of a group has is
# left out.
COLUMNS = (
    "goodput_total_mbit_s", "goodput_group_*", "utilisation_percent", "jain_index",
    "queue_delay_mean_ms", "queue_delay_sd_ms", "queue_delay_p50_ms", "queue_delay_p95_ms", "queue_delay_p99_ms",
    "queue_delay_max_ms", "queue_delay_excess_ms", "rtt_mean_ms", "rtt_p95_ms", "loss_percent", "drops_aqm_packets",
    "drops_limit_packets", "drops_qdisc_packets", "link_lost_packets", "marks_packets", "rx_packets",
    "settled_share", "step_*_settling_s", "step_*_overshoot_ms", "fct_*", "spectral_peak_*", "decisions_count",
    "delay_outside_percent",
)  # fmt: skip


OVER_TIME = "table2"  # the group whose runs are shown over time, as the paper does


@dataclass(frozen=True)
class Done:
    """A run with its figures."""

    run: Run
    group: str
    metrics: dict[str, Any]

    @property
    def failures(self) -> list[str]:
        return figures.failures(self.metrics)


@dataclass
class State:
    """Where an evaluation stands."""

    plan: Plan
    cache: Cache
    keys: Keys
    wanted: list[Run]
    done: dict[tuple[str, str, int], Done] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def entry(self, run: Run) -> Entry | None:
        return self.cache.find(self.keys.run(run.spec))

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
                         help="where results.md and results/ go (default: docs/ if no run of the matrix is missing and "
                         "no seed left out, else results/evaluation/)")  # fmt: skip
    command.add_argument("--json", action="store_true",
                         help="print one JSON document: `runs`, each with group, scenario, variant, seed, metrics and "
                         "the checks it failed, `failed` and `missing`")  # fmt: skip
    command.add_argument("--list", action="store_true", help="what would be run and what is there already; run nothing")
    command.add_argument("--matrix", type=Path, metavar="FILE", default=None,
                         help="another matrix than mininet/evaluation/matrix.toml")  # fmt: skip


def main_evaluate(args: argparse.Namespace) -> int:
    """Raises ScenarioError for what is wrong with the options or the files."""
    plan = load_plan(args.matrix) if args.matrix else load_plan()
    wanted = plan.chosen(args.only, seeds_of(args))
    if args.check:
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
        found = entry.metrics(state.keys.metrics(run.spec))
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
                    print(f"{words_of(run)}: {error}; it is run again", file=sys.stderr)
                    state.cache.drop(entry)
                    missing.append(run)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    order = {name_of(run): i for i, run in enumerate(state.wanted)}
    return sorted(missing, key=lambda run: order[name_of(run)])


def run_here(state: State, run: Run) -> tuple[dict[str, Any], float]:
    """Run one run in a lab of this machine and put it into the cache; its figures and the seconds it took.

    Raises RunError, LabError or SamplesError; what the run left is then kept.
    """
    key = state.keys.run(run.spec)
    with state.cache.draft() as draft:
        try:
            facts = measure(run, draft)
            if Keys().run(run.spec) != key:
                raise RunError("sources were changed since the evaluation began; run it again")
            found = compute_metrics(Entry(draft), run.spec, state.keys.metrics(run.spec))
        except (RunError, LabError, SamplesError) as error:
            kept = state.cache.put_failed(draft, run)
            said = str(error).replace(str(draft), str(kept))
            raise type(error)(said) from None
        state.cache.forget_failed(run)
        state.cache.keep(draft, key, facts)
        return found, facts["wall_s"]


def run_locally(state: State, missing: Sequence[Run], jobs: int) -> Iterator[tuple[Run, dict | Exception, float]]:
    """Run these, `jobs` at a time; each with its figures or its error as it ends. An interrupt ends the labs."""
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        futures = {pool.submit(run_here, state, run): run for run in missing}
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
    """Write the report over all of the matrix that there is, whatever `--only` has chosen to run now.

    Runs that fail their checks are told and left out: figures of a queue that was not measured compare nothing.
    """
    from weirlab import matrix, matrix_courses, matrix_report

    chosen = {name_of(run) for run in state.wanted}
    everything = state.plan.runs(seeds_of(args))
    for run in everything:
        if name_of(run) not in chosen and (entry := state.entry(run)):
            found = entry.metrics(state.keys.metrics(run.spec))
            if found is not None:
                state.finish(run, found)
    places = {s.name: i for i, s in enumerate(s for group in state.plan.groups for s in group.scenarios)}
    finished = [state.done[name_of(run)] for run in everything if name_of(run) in state.done]
    finished.sort(key=lambda done: places[done.run.scenario])
    there = [done for done in finished if not done.failures]
    unsound = [done for done in finished if done.failures]
    missing = [run for run in everything if name_of(run) not in state.done]
    state.failed += [
        f"{words_of(done.run)}: {line}" for done in unsound if name_of(done.run) in chosen for line in done.failures
    ]
    if not there:
        print("no run has ended well; there is nothing to report", file=sys.stderr)
        return
    out = args.out or (DOCS if not missing and not unsound and is_the_matrix(state.plan, args) else PARTIAL)
    folder = out / "results"
    folder.mkdir(parents=True, exist_ok=True)
    rows = [
        matrix.RunRow(done.run.scenario, done.group, done.run.variant, done.run.seed, done.metrics) for done in there
    ]
    about = {
        scenario.name: {"title": scenario.title, "description": scenario.description, "paper": scenario.paper}
        for group in state.plan.groups
        for scenario in group.scenarios
    }
    found = matrix.analyse(rows, about)
    for group in state.plan.groups:
        of_group = [done for done in there if done.group == group.name]
        if of_group:
            write_whole(folder / f"{group.name}.csv", csv_text(of_group))
    matrix_report.write(found, folder)
    over_time = courses(state, there)
    matrix_courses.write(over_time, folder)
    said = sys.stderr if args.json else sys.stdout
    notes = []
    if missing:
        told = f"{len(missing)} of {len(everything)} runs of the matrix are missing: {missing_words(missing)}"
        notes.append(f"**Not whole yet**: {told}.")
        print(told, file=said)
    if unsound:
        told = f"{len(unsound)} of {len(everything)} runs failed their checks and are left out of all that follows"
        lines = [f"- {words_of(done.run)}: {'; '.join(done.failures)}" for done in unsound]
        notes.append(f"**Left out**: {told}:\n\n" + "\n".join(lines))
        print(told, file=said)
    if args.seeds_from:
        notes.append(f"Seeds {args.seeds_from} to {args.seeds_from + args.seeds - 1}, not the matrix's own.")
    write_whole(out / "results.md", matrix_report.results_md(found, list(over_time), notes))
    print(out / "results.md", folder / "matrix.html", sep="\n", file=said)


def courses(state: State, there: Sequence[Done]) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The runs of the group OVER_TIME by the second, by scenario and variant; each is computed once."""
    from weirlab import matrix_courses

    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for run in (done.run for done in there if done.group == OVER_TIME):
        entry, key = state.entry(run), state.keys.course(run.spec)
        course = entry.metrics(key)
        if course is None:
            course = matrix_courses.course(entry.samples, run.spec)
            entry.put_metrics(key, course)
        found.setdefault(run.scenario, {}).setdefault(run.variant, []).append(course)
    return found


def is_the_matrix(plan: Plan, args: argparse.Namespace) -> bool:
    """Whether the options leave the matrix whole: no other one, no fewer seeds than its scenarios ask for."""
    most = max(max(scenario.seeds) for group in plan.groups for scenario in group.scenarios)
    return args.matrix is None and args.seeds_from in (None, 1) and (args.seeds is None or args.seeds >= most)


def missing_words(missing: Sequence[Run]) -> str:
    """What is missing, by variant, in a line."""
    by_variant: dict[str, int] = {}
    for run in missing:
        by_variant[run.variant] = by_variant.get(run.variant, 0) + 1
    return ", ".join(f"{count} of {variant}" for variant, count in by_variant.items())


def csv_text(rows: Sequence[Done]) -> str:
    """One line a run."""
    there = {name for done in rows for name, value in done.metrics.items() if value is not None}
    named = [name for pattern in COLUMNS for name in natural(fnmatch.filter(there, pattern))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["scenario", "variant", "seed", *named])
    for done in sorted(rows, key=lambda done: name_of(done.run)):
        writer.writerow([*name_of(done.run), *(cell(done.metrics.get(name)) for name in named)])
    return out.getvalue()


def natural(names: Iterable[str]) -> list[str]:
    """Sorted, numbers by their value."""
    return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])


def cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def write_whole(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
