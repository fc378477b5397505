# SPDX-License-Identifier: Apache-2.0
"""`./run evaluate`: a suite of scenarios and queue disciplines, as far as it is not in the cache, then the report.

Every run stands for itself: it is cached by the content of all that it depends on, it appears whole or not at all, and
one that fails is reported at the end and stops no other.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from weirlab.evaluation.cc.own_stack import ARGV, check_places, own_stacks
from weirlab.evaluation.plan import Plan, recording_qlog
from weirlab.evaluation.state import State
from weirlab.evaluation.suites import load_suite
from weirlab.lab.quic_servers import ALPNS
from weirlab.run.cluster import run_all
from weirlab.run.costs import Costs
from weirlab.run.kernel import check_kernel
from weirlab.run.keys import Keys
from weirlab.run.progress import duration
from weirlab.run.running import take_cached
from weirlab.run.series import cache_folder, cache_option, name_of, ray_option, words_of
from weirlab.scenario.errors import ScenarioError
from weirlab.scenario.model import Run
from weirlab.scenario.stacks import servers_of, setup_steps
from weirlab.store.cache import Cache
from weirlab.store.documents import dumps
from weirlab.store.folder import FAILED, VALID


def add_options(command: argparse.ArgumentParser, positive: Callable[[str], int], cores: int) -> None:
    """The options of `./run evaluate`."""
    command.add_argument("--only", action="extend", nargs="+", metavar="PATTERN",
                         help="only runs that match SCENARIO[/VARIANT[/SEED]], each part as in a shell, as "
                         "'grid-*/auto'; a group's name stands for its scenarios")  # fmt: skip
    command.add_argument("--seeds", type=positive, metavar="N", help="seeds 1 to N instead of the scenarios'")
    command.add_argument("--seeds-from", type=positive, metavar="N",
                         help="seeds from N on instead of from 1: with --seeds 3, N to N + 2; for seeds that "
                         "nothing was tuned on")  # fmt: skip
    command.add_argument("--jobs", type=positive, metavar="N", default=cores,
                         help="runs at a time (default: one per core); does not change any result")  # fmt: skip
    ray_option(command)
    cache_option(command)
    command.add_argument("--out", type=Path, metavar="FOLDER",
                         help="where the report goes (default: docs/results/evaluation/, for the envelope "
                         "docs/results/envelope/, if no run is missing and no seed left out, else the same below "
                         "results/)")  # fmt: skip
    command.add_argument("--json", action="store_true",
                         help="print one JSON document: `runs`, each with group, scenario, variant, setting (the "
                         "discipline's own parameter, its value and unit), seed, metrics and the checks it failed, "
                         "`failed` and `missing`")  # fmt: skip
    command.add_argument("--parquet", type=Path, metavar="FILE",
                         help="write all runs of the report as one table, too: a row a run, with scenario, queue, "
                         "control, stack, seed and every figure")  # fmt: skip
    command.add_argument("--from", dest="tables", type=Path, metavar="FOLDER",
                         help="run nothing and read no cache: make the report again from the CSV files of that folder "
                         "(docs/results/evaluation), into results/evaluation/ or --out")  # fmt: skip
    command.add_argument("--list", action="store_true", help="print missing and finished runs; run nothing")
    command.add_argument("--suite", metavar="NAME", default="matrix",
                         help="suite to run: matrix (the default; each discipline once in each scenario), envelope "
                         "(each discipline at many settings, as curves), cc (congestion controls), parts (pbq without "
                         "one part each), ideas (each idea of Cao et al. alone), or a path to "
                         "a suite's TOML file")  # fmt: skip
    command.add_argument("--variants", nargs="+", metavar="NAME",
                         help="cc: these congestion controls in place of the suite's ('all': those, too): names of "
                         "the suite, of weir-server, tcp-NAME for the kernel, STACK-NAME for a row of "
                         "mininet/peers/servers.toml, NAME=FILE for a policy")  # fmt: skip
    stack_options(command)
    command.add_argument("--all", action="store_true",
                         help="envelope: in all scenarios of the matrix; cc: all scenarios, queues and seeds, not only "
                         "the core, which takes two hours on two cores")  # fmt: skip
    command.add_argument("--qlog", action="store_true",
                         help="record a qlog of each QUIC sender that writes some and put it below qlog/ beside the "
                         "report; these runs are cached apart from those without")  # fmt: skip
    command.add_argument("--verify", type=positive, nargs="?", const=20, metavar="N",
                         help="cc: repeat N (20) of the published runs without the cache and compare their digests; of "
                         "docs/results/cc, or of the folder that --from gives")  # fmt: skip
    command.add_argument("--verify-seed", type=positive, default=1, metavar="SEED",
                         help="draws the sample of --verify (default: 1)")  # fmt: skip


def stack_options(command: argparse.ArgumentParser) -> None:
    """The options for a server of the reader's own."""
    command.add_argument("--stack", action="append", default=[], metavar="PROGRAM",
                         help="cc: this QUIC server, too, in each group: a program, started with --stack-argv, or a "
                         "file in .toml with a row as in mininet/peers/servers.toml (can be repeated)")  # fmt: skip
    command.add_argument("--stack-argv", metavar="TEXT",
                         help="its arguments, with {address} {port} {cert} {key} {root} {payload}, and {qlog} for a "
                         f"folder of qlogs, for the lab to fill in (default: '{ARGV}')")  # fmt: skip
    command.add_argument("--stack-alpn", choices=ALPNS, help="its application protocol (default: h3)")
    command.add_argument(
        "--stack-path",
        metavar="PATH",
        help="path of its download of {bytes}; {root} has such a file (default: /bytes/{bytes})",
    )
    command.add_argument(
        "--quick",
        action="store_true",
        help="cc: only the suite's short selection, one seed: ten minutes on two cores; of these, the runs of --only",
    )


def main_evaluate(args: argparse.Namespace) -> int:
    """Raises ScenarioError for what is wrong with the options or the files."""
    plan, wanted = chosen_of(args)
    check_together(args, plan)
    if args.check:
        print(*setup_steps(wanted))
        return 0
    if args.tables and not args.verify:
        from weirlab.evaluation.report import of_tables

        wanted_plan = load_suite(args.suite, args.all, args.variants) if plan.controls else plan
        of_tables(plan, args.tables, args.out, args.parquet, wanted_plan)
        return 0
    wanted, absent = with_programs(wanted)
    for line in absent:
        print(f"evaluate: left out: {line}", file=sys.stderr)
    if not wanted:
        raise ScenarioError(["no run is left: their servers are missing"])
    if args.verify:
        from weirlab.evaluation.report import docs
        from weirlab.evaluation.verify import verify

        check_kernel(wanted)
        return verify(plan, wanted, args.tables or docs(plan), args)
    state = State(Cache(cache_folder(args.cache)), Keys(), wanted, plan=plan)
    if args.list:
        return list_runs(state)
    check_kernel(state.wanted)
    costs = Costs()
    missing = take_cached(state, costs, args.jobs)
    if missing:
        run_missing(state, missing, costs, args)
    if args.json:
        sys.stdout.write(json_document(state))
    report(state, args)
    for line in state.failed:
        print(f"RUN FAILED: {line}", file=sys.stderr)
    return 1 if state.failed else 0


def check_together(args: argparse.Namespace, plan: Plan) -> None:
    """Raises ScenarioError for options that exclude each other."""
    if args.qlog and (args.verify or args.tables):
        raise ScenarioError(["--qlog: records new runs; leave out --verify, --from"])
    if args.verify and (args.json or args.list):
        raise ScenarioError(["--verify: runs a sample and compares; leave out --json, --list"])
    if args.verify and plan.controls is None:
        raise ScenarioError([f"--verify: {plan.name} publishes no digests; write --suite cc"])
    if args.tables and not args.verify and (args.only or args.seeds or args.ray or args.json or args.list):
        raise ScenarioError(["--from: uses all runs of the tables; leave out --only, --seeds, --ray, --json, --list"])


def chosen_of(args: argparse.Namespace) -> tuple[Plan, list[Run]]:
    """The suite and the runs that are wanted of it, with qlogs if asked for. Raises ScenarioError."""
    plan, patterns, seeds = selected(args)
    plan = recording_qlog(plan) if args.qlog else plan
    runs = plan.chosen(patterns, seeds)
    if args.quick and args.only:
        named = plan.chosen(args.only, seeds)
        runs = [run for run in runs if run in named]
        if not runs:
            raise ScenarioError([f"--only: none of --quick's runs; it has {', '.join(plan.quick)}"])
    return plan, runs


def selected(args: argparse.Namespace) -> tuple[Plan, list[str] | None, range | None]:
    """The suite, with the patterns and seeds that choose its runs. A suite of congestion controls is taken whole, too,
    where `--only` names something outside of its core, and for a report of tables. Raises ScenarioError."""
    own = own_stacks(args.stack, args.stack_argv, args.stack_alpn, args.stack_path)
    check_places(own)
    plan = load_suite(args.suite, args.all, args.variants, own)
    seeds, patterns = seeds_of(args), quick_patterns(args, plan)
    if args.all or plan.controls is None or not (patterns or args.tables or args.verify):
        return plan, patterns, seeds
    if not (args.tables or args.verify):
        with contextlib.suppress(ScenarioError):
            plan.chosen(patterns, seeds)
            return plan, patterns, seeds
    return load_suite(args.suite, True, args.variants, own), patterns, seeds


def with_programs(runs: Sequence[Run]) -> tuple[list[Run], list[str]]:
    """The runs whose servers of other stacks are here, and a line for each control of the others."""
    absent: dict[str, str] = {}
    found = []
    for run in runs:
        reason = next((reason for server in servers_of(run.spec) if (reason := server.missing())), "")
        if reason:
            absent[run.variant] = reason
        else:
            found.append(run)
    return found, [f"{variant}: {reason}" for variant, reason in absent.items()]


def quick_patterns(args: argparse.Namespace, plan: Plan) -> list[str] | None:
    """The patterns of the suite's short selection with `--quick`, else of `--only`. Raises ScenarioError where it has
    none."""
    given: list[str] | None = args.only
    if not args.quick:
        return given
    if not plan.quick:
        raise ScenarioError([f"--quick: {args.suite} has no short selection; write --only"])
    if args.all or args.seeds or args.seeds_from:
        raise ScenarioError(["--quick: has its own scenarios and seed; leave out --all, --seeds, --seeds-from"])
    return list(plan.quick)


def run_missing(state: State, missing: Sequence[Run], costs: Costs, args: argparse.Namespace) -> None:
    """Run what the cache has not, telling how far it is."""

    def heading(jobs: int) -> str:
        return f"{len(missing)} runs of {len(state.wanted)}, {jobs} at a time; the others are cached"

    run_all(state, missing, costs, args.jobs, args.ray, heading)


def seeds_of(args: argparse.Namespace) -> range | None:
    """The seeds that the options ask for; None: those of the scenarios. Raises ScenarioError."""
    if args.quick:
        return range(1, 2)
    if args.seeds_from is not None and args.seeds is None:
        raise ScenarioError([f"--seeds-from {args.seeds_from}: give --seeds, too"])
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


def json_document(state: State) -> str:
    runs = [
        {"group": done.group, "scenario": done.run.scenario, "variant": done.variant,
         "setting": done.setting and done.setting.document, "seed": done.run.seed, "metrics": done.metrics,
         "failures": done.failures, "state": FAILED if done.failures else VALID}
        for run in state.wanted if (done := state.done.get(name_of(run)))
    ]  # fmt: skip
    missing = [words_of(run) for run in state.wanted if name_of(run) not in state.done]
    return dumps({"runs": runs, "failed": state.failed, "missing": missing})


def report(state: State, args: argparse.Namespace) -> None:
    """Write the report over all of the suite that there is, whatever `--only` has chosen to run now."""
    from weirlab.evaluation.report import of_runs

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
    of_runs(state, finished, missing, args)
