# SPDX-License-Identifier: Apache-2.0
"""The command line behind `./run demo`, `experiment`, `evaluate`, `lab` and `bench`."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from weir.options.arguments import Subcommand
from weirlab import paths
from weirlab.lab.kernels import LAB_KERNEL, LAB_KERNEL_SOURCE, LABS, TIMEOUT_STATUS, Job, LabError, open_lab, stop_all
from weirlab.run.demo import PARTS, TOGETHER, demo_runs
from weirlab.run.scenarios import read_scenarios, scenario_names
from weirlab.run.series import cache_folder, cache_option, ray_option
from weirlab.run.together import together
from weirlab.scenario.errors import ScenarioError
from weirlab.scenario.model import Run, Scenario
from weirlab.scenario.stacks import setup_steps
from weirlab.store.folder import Summary

BENCH_HELP = {
    "xdp": "cost per packet of the eBPF programs on the host kernel, beside an empty program's",
    "lab": "wall time of the demo's dumbbell (--aqm) in the exact lab, and whether a seed repeats it to the byte",
    "law": "queue delay and goodput of the tuned law over those of kernel pie, in three loads",
    "switch": "packets/s and memory of weir-switch and of the kernel's bridge, and of BMv2 where simple_switch and "
    "p4c-bm2-ss are on PATH",
    "quic": "a download over loopback and the memory of idle connections, beside quiche's examples, quinn, s2n-quic, "
    "tokio-quiche and TCP; what PBQ costs",
    "servers": "completion times of weir-client over three paths from servers of other projects, over those on the "
    "best path alone (an hour)",
    "proxy": "goodput of curl through weir-client proxy and weir-server --relay, over that of weir-client",
    "names": "what weir-icn's converters carry and add to the delay, beside UDP; a download through icn.p4 on "
    "weir-switch, and on BMv2 where simple_switch_grpc and p4c are on PATH",
    "scale": "processor time and memory of the controller, the switch, publisher, cache and edge server with 1 to 1000 "
    "of what they serve, and of a tree of switches with 1 to 1000 receivers (half an hour)",
    "hostile": "what weir-switch forwards and weir-server serves beside floods and large requests, over what they do "
    "without, and their memory (half an hour)",
}


def lab_kernel(text: str) -> str:
    if not re.fullmatch(r"[0-9]+\.[0-9]+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a version of Linux; write one as 6.12")
    return text


def lab_kernel_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--lab-kernel", type=lab_kernel, metavar="VERSION",
                         help="version of Linux in the exact lab, such as 7.3 (default 6.12). A missing version is "
                         "fetched from this machine's source of Debian packages and built once, in five to ten "
                         "minutes; the error for an unavailable one lists the others")  # fmt: skip
    lab_kernel_source_option(command)


def lab_kernel_source_option(command: argparse.ArgumentParser) -> None:
    command.add_argument("--lab-kernel-source", type=Path, metavar="FILE",
                         help="source of Linux to build the exact lab from, once: linux-source-6.12.tar.xz of Debian's "
                         "package, or linux-6.12.tar.xz of kernel.org, for a release without that package")  # fmt: skip


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{text} is too small; give 1 or more")
    return value


def parser() -> argparse.ArgumentParser:
    installed = Path(sys.argv[0]).name == "weirlab"
    top = argparse.ArgumentParser(prog="weirlab" if installed else "./run", description="Weir's lab.")
    top.add_argument("--check", action="store_true", help=argparse.SUPPRESS)  # look at the arguments, do nothing
    commands = top.add_subparsers(dest="command", required=True, parser_class=Subcommand)

    def experiment_options(command: argparse.ArgumentParser, seeds_help: str) -> None:
        cores = len(os.sched_getaffinity(0))
        jobs_help = "runs at a time (default: one per core); does not change any result"
        json_help = (
            "print one JSON document: `runs`, each with scenario, variant, seed and metrics; on some topologies "
            "`asked`, figures that are asked of all runs together, each with whether it is met"
        )
        command.add_argument("--seeds", type=positive, metavar="N", help=seeds_help)
        command.add_argument("--jobs", type=positive, metavar="N", default=cores, help=jobs_help)
        command.add_argument("--only", action="append", metavar="VARIANT", help="only this variant (can be repeated)")
        command.add_argument("--json", action="store_true", help=json_help)
        command.add_argument("--results", type=Path, metavar="FOLDER",
                             help="where to make the results folder (default: results/ of the clone)")  # fmt: skip
        ray_option(command)
        cache_option(command)
        command.add_argument("--fresh", action="store_true",
                             help="take nothing from the cache: run all again, and keep these instead")  # fmt: skip

    demo = commands.add_parser(
        "demo",
        help=f"{TOGETHER.about}; with an option, that system alone",
        description=f"Without an option that names a system: {TOGETHER.about}.",
    )
    for name, part in PARTS.items():
        demo.add_argument(
            f"--{name}", action="append_const", dest="parts", const=name, help=part.about.replace("%", "%%")
        )
    demo.add_argument("--first", action="store_true",
                      help="the law in eBPF beside drop-tail and fq_codel in Debian's User-Mode Linux, in real time, "
                      "as a table and a picture, in half a minute; needs no lab kernel and no Rust, and takes no other "
                      "option than --results")  # fmt: skip
    experiment_options(demo, f"seeds 1 to N (default: {TOGETHER.seeds} of all at once, 1 or 3 of a system alone)")
    lab_kernel_source_option(demo)
    experiment = commands.add_parser(
        "experiment",
        help="run a scenario",
        description="Runs each variant of a scenario with each seed, and prints a table. Finished runs are cached; the "
        "same command resumes.",
        epilog=f"scenarios: {scenario_names()}",
    )
    experiment.add_argument("name", help="a scenario by name, the evaluation's too, or a path to a TOML file")
    experiment_options(experiment, "seeds 1 to N instead of the scenario's")
    experiment.add_argument("--all", action="store_true",
                            help="also what the scenario keeps for this: only_with_all in its [[runs]]")  # fmt: skip
    lab_kernel_option(experiment)

    whole = commands.add_parser(
        "together",
        help="all five systems at once: a phone with three networks moves between two edge sites, among neighbours; "
        "then each system is taken out in turn (the scenario `together`)",
        description="Runs the variants of the scenario `together`: all systems, none, today, without one, each alone.",
    )
    experiment_options(whole, "seeds 1 to N instead of the scenario's")
    lab_kernel_source_option(whole)
    whole.add_argument("--seconds", type=positive, metavar="S", help="only the first S virtual seconds of 120")
    whole.add_argument("--switch", choices=("embedded", "bmv2"), default="embedded", help="the sites' P4 switches: "
                       "weir-switch, or BMv2, which with p4c must be on PATH (default: embedded)")  # fmt: skip
    whole.add_argument("--watch", action="store_true",
                       help="run one variant (default: all) with seed 1 anew, and show queues, phone, receivers "
                       "and events as it goes: a screen on a terminal, elsewhere a line a second")  # fmt: skip

    from weirlab.evaluation import command as evaluate

    command = commands.add_parser(
        "evaluate",
        help="a suite of scenarios and queue disciplines, and its report",
        description="Runs a suite of scenarios and variants, and writes its report. Finished runs are cached; the same "
        "command resumes.",
    )
    evaluate.add_options(command, positive, len(os.sched_getaffinity(0)))
    lab_kernel_option(command)

    replay = commands.add_parser(
        "replay",
        help="a run of `together` that is over in a Prometheus of its own, for Grafana",
        description="Puts what the controller knew of each queue in a run of `together` into a Prometheus on this "
        "machine, at the run's own time of day, as scrapes once a second would have found it. Grafana then shows the "
        "run on controller/boards/weir.json.",
    )
    replay.add_argument("folder", type=Path, metavar="RUN", help="a run's folder, as results/.../runs/all/seed-1")
    replay.add_argument("--port", type=positive, default=9090, help="on 127.0.0.1 (default: 9090)")
    replay.add_argument("--out", type=Path, metavar="FILE",
                        help="write OpenMetrics text to FILE instead, for "
                        "`promtool tsdb create-blocks-from openmetrics`")  # fmt: skip

    lacks = "; ".join(f"limits of {name}: {lab.lacks}" for name, lab in LABS.items())
    lab = commands.add_parser("lab", help="run a command in a lab", epilog=lacks)
    lab.add_argument("--kernel", choices=LABS, default="exact")
    lab_kernel_option(lab)
    lab.add_argument("--seed", type=int, default=1, help="exact lab: seed of every random draw (default 1)")
    lab.add_argument("--wall-limit-s", type=float, default=3600, metavar="S", help="stop after S seconds of real time")
    lab.add_argument("--virtual-limit-s", type=float, default=86400, metavar="S", help="the same in the lab's time")
    lab.add_argument("--out", type=Path, metavar="FOLDER", help="keep what the command writes to $WEIR_OUT here")
    lab.add_argument("words", nargs=argparse.REMAINDER, metavar="-- COMMAND", help="command to run, after --")

    bench = commands.add_parser(
        "bench",
        help="speed and CPU cost, as ratios to a peer in the same run",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="benchmarks:\n" + "\n".join(f"  {name:8}{text}" for name, text in BENCH_HELP.items()),
    )
    bench.takes_others = True
    bench.set_defaults(complain=bench.error)
    bench.add_argument("names", nargs="*", metavar="NAME",
                       help="benchmarks to run (default: all). Options behind a single name are its own: "
                       "./run bench hostile --only server")  # fmt: skip
    bench.add_argument("--json", action="store_true", help="one JSON document for each benchmark")
    bench.add_argument("--busy", action="store_true", help="measure although other programs use the processors")
    return top


def experiment_runs(args: argparse.Namespace) -> list[tuple[Scenario, list[Run]]]:
    """The named scenarios and the runs that the options leave of them. Raises ScenarioError."""
    scenarios = read_scenarios(args.name)
    return [(scenario, scenario.runs(only=args.only, seeds=args.seeds, every=args.all)) for scenario in scenarios]


def together_runs(args: argparse.Namespace) -> list[tuple[Scenario, list[Run]]]:
    """The run of all systems, as the options say. Raises ScenarioError."""
    scenario = together(args.seconds and float(args.seconds), args.switch)
    if not args.watch:
        runs = scenario.runs(only=args.only, seeds=args.seeds)
    elif args.ray:
        raise ScenarioError(["--watch shows a run on this machine; leave out --ray"])
    elif len(args.only or ()) > 1 or args.seeds not in (None, 1):
        raise ScenarioError(["--watch shows one run; give --only once at the most, and no --seeds"])
    else:
        runs = scenario.runs(only=args.only or "all", seeds=1)
    if args.switch == "bmv2" and not args.check:
        warn_of_bmv2(runs)
    return [(scenario, runs)]


def warn_of_bmv2(runs: list[Run]) -> None:
    """Time that runs with BMv2 may take, before they start."""
    from weirlab.run.runner import wall_limit_s

    limit_min = max(map(wall_limit_s, runs)) / 60
    print(
        f"BMv2 takes many times as long as weir-switch; runs: {len(runs)}, each ended after {limit_min:.0f} min; "
        "--seconds S, --only VARIANT and --seeds 1 take less",
        file=sys.stderr,
    )


def check_alone(args: argparse.Namespace) -> None:
    """Raises ScenarioError where `demo --first` has options that it does nothing with."""
    plain = vars(parser().parse_args(["demo", "--first"]))
    other = [name for name, value in vars(args).items() if name not in ("check", "results") and value != plain[name]]
    if other:
        raise ScenarioError(["--first shows one picture, the same each time; of the other options it takes --results"])


def watches(args: argparse.Namespace) -> bool:
    return getattr(args, "watch", False)


def main_experiment(args: argparse.Namespace, chosen: list[tuple[Scenario, list[Run]]]) -> int:
    from weirlab.run.kernel import check_kernel
    from weirlab.store.folder import runs_json

    with contextlib.suppress(LabError) if args.check else contextlib.nullcontext():  # it will be built
        check_kernel(run for _, runs in chosen for run in runs)
    if args.check:
        print(*setup_steps(run for _, runs in chosen for run in runs))
        return 0

    summaries: list[Summary] = []
    failures = missed = 0
    asked: list[Mapping[str, Any]] = []
    for scenario, runs in chosen:
        summary, page, failed, told = run_scenario(args, scenario, runs)
        summaries.append(summary)
        asked += [{"scenario": scenario.name, **each} for each in told]
        for failure in (*failed, *summary.failures):
            print(f"RUN FAILED: {failure}", file=sys.stderr)
            failures += 1
        for line in summary.missed:
            print(f"TARGET MISSED: {line}", file=sys.stderr)
            missed += 1
        if page is not None:
            print(page, file=sys.stderr if args.json else sys.stdout, flush=True)
    if args.json:
        sys.stdout.write(runs_json(*summaries, asked=asked))
    return 1 if failures else STATUS_MISSED if missed else 0


STATUS_MISSED = 3
"""Exit status of runs that are all sound, some of which missed a target."""


def run_scenario(
    args: argparse.Namespace, scenario: Scenario, runs: list[Run]
) -> tuple[Summary, Path | None, list[str], list[Mapping[str, Any]]]:
    """Run these as far as they are not cached, print their table unless JSON was asked for, write their page; the
    summary, the page's path (None: no run has ended well), what failed, and what was asked of all together."""
    from weirlab.run.experiment import run_experiment
    from weirlab.run.page import print_table, write_html
    from weirlab.store.folder import ResultsFolder, summarise
    from weirlab.topologies.registry import topology_of

    results = ResultsFolder.create(args.results or paths.clone() / "results", scenario, ["./run", *sys.argv[1:]], runs)
    cache = cache_folder(args.cache)
    failed = run_experiment(scenario, runs, cache, results, args.jobs, args.fresh, watches(args), args.ray)
    summary = summarise(results)
    if not summary.runs:
        print(f"no run has ended well; there is nothing to report in {results.path}", file=sys.stderr)
        return summary, None, failed, []
    page = write_html(results)
    if not args.json:
        print_table(results, summary)
    return summary, page, failed, topology_of(scenario.topology).asked(results, summary)


def parsed(argv: list[str] | None) -> tuple[argparse.Namespace, list[str]]:
    """The command line, and the options in it that are a single benchmark's own."""
    args, own = parser().parse_known_args(argv)
    if own and (args.command != "bench" or len(args.names) != 1):
        args.complain(f"unrecognized arguments: {' '.join(own)}")
    return args, own


def main_bench(args: argparse.Namespace, own: Sequence[str]) -> int:
    from weirlab.bench import machine
    from weirlab.bench.benches import BENCHES, OWN_OPTIONS

    names = args.names or list(BENCHES)
    for name in names:
        if name not in BENCHES:
            print(f"./run bench: no benchmark {name}; there are {', '.join(BENCHES)}", file=sys.stderr)
            return 2
    if own and names[0] not in OWN_OPTIONS:
        print(f"./run bench: {names[0]} takes no options; {', '.join(OWN_OPTIONS)} do", file=sys.stderr)
        return 2
    if args.check:
        return 0
    try:
        machine.idle_machine(args.busy)
    except machine.BusyError as e:
        print(f"./run bench: {e}", file=sys.stderr)
        return 1
    if own:
        return BENCHES[names[0]](args.json, own)
    return max(BENCHES[name](args.json) for name in names)


def main_lab(
    kernel: str, seed: int, command: list[str], out: Path | None, wall_limit_s: float, virtual_limit_s: float
) -> int:
    """`./run lab`: the command's output is ours, and so is its status. `out` keeps what it left in $WEIR_OUT."""
    paths.clone()  # reported before a kernel that only a clone can build
    lab = open_lab(kernel)
    print(f"lab {kernel}: {lab.lacks}", file=sys.stderr)
    with contextlib.nullcontext(out) if out else tempfile.TemporaryDirectory(prefix="weir-lab-run-") as folder:
        result = lab.run(Job(command, Path(folder), seed, wall_limit_s, virtual_limit_s, directory=Path.cwd()))
        sys.stdout.buffer.write(result.stdout)
        sys.stdout.flush()
        sys.stderr.buffer.write(result.stderr)
    if result.status == TIMEOUT_STATUS:
        print(f"lab {kernel}: stopped at its limit of {virtual_limit_s:g} s of the lab's time", file=sys.stderr)
    print(
        f"lab {kernel}: status {result.status}, {result.virtual_s:.2f} s in the lab, {result.wall_s:.1f} s here",
        file=sys.stderr,
    )
    return result.status


class Stopped(KeyboardInterrupt):
    """Stopped by a signal: `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def stop(number: int, _frame: object) -> NoReturn:
    raise Stopped(number)


def main(argv: list[str] | None = None) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        args, own = parsed(argv)
        if getattr(args, "lab_kernel", None):
            os.environ[LAB_KERNEL] = args.lab_kernel
        if getattr(args, "lab_kernel_source", None):
            if not args.lab_kernel_source.is_file():
                print(f"./run {args.command}: --lab-kernel-source: no file {args.lab_kernel_source}", file=sys.stderr)
                return 2
            os.environ[LAB_KERNEL_SOURCE] = str(args.lab_kernel_source.resolve())
        if args.command == "lab":
            words = args.words[1:] if args.words[:1] == ["--"] else args.words
            if not words:
                print("./run lab: no command given; write one after --", file=sys.stderr)
                return 2
            return main_lab(args.kernel, args.seed, words, args.out, args.wall_limit_s, args.virtual_limit_s)
        if args.command == "bench":
            return main_bench(args, own)
        if args.command == "evaluate":
            from weirlab.evaluation.command import main_evaluate

            return main_evaluate(args)
        if args.command == "replay":
            from weirlab.run.replay import main_replay

            return main_replay(args.folder, args.out, args.port)
        if args.command == "together":
            return main_experiment(args, together_runs(args))
        if args.command == "demo" and args.first:
            check_alone(args)
            if args.check:
                return 0
            from weirlab.run.first import main_first

            return main_first(args.results, ["./run", *sys.argv[1:]])
        if args.command == "demo":
            return main_experiment(args, demo_runs(args.parts or (), args.only, args.seeds))
        return main_experiment(args, experiment_runs(args))
    except Stopped as stopped:
        stop_all()
        cached = "the cache, the same command goes on"
        place = "the results' folder" if args.command == "bench" else cached
        nothing = args.command in ("lab", "replay") or getattr(args, "first", False)
        kept = "" if nothing else f"; what had finished is kept in {place}"
        print(f"stopped by {signal.Signals(stopped.number).name}{kept}", file=sys.stderr)
        return 128 + stopped.number
    except Exception as error:
        from weirlab.metrics.samples import SamplesError
        from weirlab.run.disk import NoRoom
        from weirlab.run.replay import ReplayError
        from weirlab.run.runner import RunError
        from weirlab.store.documents import ResultsError

        expected = (LabError, paths.NoCloneError, RunError, SamplesError, ResultsError, ScenarioError, NoRoom, OSError)
        if isinstance(error, (*expected, ReplayError)):
            print(f"{error}", file=sys.stderr)
            return 2 if isinstance(error, ScenarioError) else 1
        raise


if __name__ == "__main__":
    sys.exit(main())
