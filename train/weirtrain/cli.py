# SPDX-License-Identifier: Apache-2.0
"""`./run train`: the command line of the trainer."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from weir.options.arguments import Subcommand
from weirlab import paths
from weirlab.lab.kernels import LabError, stop_all
from weirlab.metrics.samples import SamplesError
from weirlab.run.disk import FULL
from weirlab.run.runner import RunError
from weirtrain import ranges
from weirtrain.ablation import NAMES
from weirtrain.compare import EPISODES, RuleError, changes, rule
from weirtrain.profiles import PROFILES
from weirtrain.sweep import SETTINGS

DESCRIPTION = """\
Trains the policy of a congestion control in the lab: each episode is a run of real senders on a real kernel in virtual
time. The policy decides with noise, PPO learns from what came of it, and again. The same seed gives the same weights to
the byte on one machine, however many labs run at once and however often the training was stopped.

PyTorch is installed by this command alone: 3 GB are fetched once, and 6 GB kept in build/venv-train."""
EPILOG = """\
examples:
  ./run train pbq                     our profile, over random links; about an hour on two cores
  ./run train pbq --paper --seed 3    the paper's: the link of its Table 2 alone
  ./run train pbq --updates 2         a short try
  ./run train pbq --resume            go on after Ctrl-C, a full disk or a crash: the end is the same to the byte
  ./run train pbq --ray local         labs as tasks of Ray, here or on a cluster
  ./run train sweep                   the settings that the paper does not publish, each tried on its training link
  ./run train rule > rule.weights     the rule that pbq begins with
  ./run train compare rule my.weights is a policy better than the rule on held-out links?
  ./run train ablation                the worth of each part of pbq, by taking it away
  ./run train figure8 --seeds 5       the paper's Fig. 8: PPO with BBR's pacing beside PPO alone
  ./run train crosscheck              the same environment learnt by stable-baselines3's PPO

./run train WHAT --help tells the options of each."""
PBQ = """\
Trains a policy. In the folder of a training:
  PROFILE.weights   the policy: weir-server --cc PROFILE --cc-weights FILE runs it. Of pbq, the one that was best
                    without noise in episodes that are not learnt from, tried after each 8 updates and before the
                    first; of pbq-paper, the last one
  curves.csv        a line for each update: reward, throughput, RTT, loss, entropy, KL divergence, value loss
  validation.csv    a line for each such trial; update 0 is the rule that the training begins with
  index.html        the same as plots
  checkpoint.bin    state that --resume goes on from
  failed/           the run's folder where a lab failed"""
SWEEP = """\
Trains pbq-paper with other coefficients of the reward and settings of PPO, each for a few updates on the paper's
training link, and judges each policy there without noise, beside quiche's BBR. The folder has a training for each
setting and table.md. The same command again goes on where it was stopped."""
ABLATION = """\
Takes parts of pbq away, one at a time, and judges what is left without noise in episodes that no training learns from,
as compare does. Parts of the sender are changed in the weights file of the programs (whole). Of the training, a profile
without the part is trained for a few updates, beside base, the profile with all of them. The folder has a training for
each and table.md. The same command again goes on where it was stopped."""
COMPARE = """\
Runs policies on held-out links, without noise and without the guard: the same episodes for each, of kinds that are
outside the training's ranges (ranges.toml). No training learns from these episodes or chooses its result by them. A
policy is a weights file of the profile pbq, or "rule": what a training begins with, without its random units;
rule:packets=5,share=0.03 is the same with other numbers. table.md and compare.json have the means by kind, differences
from the first policy with 95 % intervals, episode by episode, and a verdict for each kind and for all. Judged episodes
are kept; the same command again goes on."""
RULE = """\
Writes the rule that a training of pbq begins with as a weights file, without the random units that it learns by: to
standard output, or to --out FILE. NAME=NUMBER changes a number of the rule."""
FIGURE8 = """\
Trains pbq-paper with BBR's pacing and with none, several seeds of each, on the paper's training link. The folder has a
training for each, curves.csv, and index.html: reward, throughput and RTT over training with bands over the seeds, and
how many decisions each kind needs to 90 % of its final reward. The same command again goes on where it was stopped."""
CROSSCHECK = """\
Lets stable-baselines3's PPO and ours learn on weirtrain.env.CongestionEnv: one connection of the paper's training link;
the other runs the policy that both begin with. The same episodes, settings and first weights, for each seed. The folder
has curves.csv and index.html with the mean reward of each episode. It begins anew each time."""


class Stopped(KeyboardInterrupt):
    """Stopped by a signal: `number` says which."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def stop(number: int, _frame: object) -> NoReturn:
    raise Stopped(number)


def whole(text: str, least: int = 1) -> int:
    if not text.isdecimal() or int(text) < least or int(text) >= 2**53:
        raise argparse.ArgumentTypeError(f"'{text}', expected a whole number from {least}")
    return int(text)


def policy(text: str) -> str:
    try:
        rule(text)
    except RuleError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def number(text: str) -> str:
    try:
        changes([text], text)
    except RuleError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    found = argparse.ArgumentParser("./run train", description=DESCRIPTION, epilog=EPILOG, formatter_class=raw)
    found.add_argument("--check", action="store_true", help="check the command line only")
    commands = found.add_subparsers(
        dest="what", required=True, metavar="WHAT", title="what to do", parser_class=Subcommand
    )

    def command(name: str, summary: str, description: str, out: str) -> argparse.ArgumentParser:
        one = commands.add_parser(name, help=summary, description=description, formatter_class=raw)
        one.add_argument("--out", type=Path, metavar="FOLDER", help=f"default: results/train/{out}")
        return one

    def labs(one: argparse.ArgumentParser) -> None:
        one.add_argument(
            "--jobs", type=whole, default=len(os.sched_getaffinity(0)), metavar="N",
            help="labs at once; default: one for each core. The result does not depend on it",
        )  # fmt: skip
        one.add_argument("--ray", metavar="ADDRESS", help="run the labs on this Ray cluster, or 'local'")

    pbq = command("pbq", "train a policy", PBQ, "PROFILE-seed-N")
    pbq.add_argument("--paper", action="store_true", help="train pbq-paper: Zhang et al. to the letter")
    pbq.add_argument(
        "--pacing", choices=["bbr", "none"],
        help="with --paper: BBR's pacing, or none (the window alone; Fig. 8). Default: bbr",
    )  # fmt: skip
    pbq.add_argument("--seed", type=lambda text: whole(text, 0), default=1, metavar="N", help="default: 1")
    pbq.add_argument("--updates", type=whole, metavar="N", help="updates in all; default: the profile's")
    pbq.add_argument("--resume", action="store_true", help="go on with the training in the folder")
    labs(pbq)
    sweep = command("sweep", "try the settings that the paper does not publish", SWEEP, "sweep")
    sweep.add_argument("--updates", type=whole, default=12, metavar="N", help="of each setting; default: 12")
    sweep.add_argument(
        "--only", action="append", choices=list(SETTINGS), metavar="NAME",
        help=f"this setting; may be given several times. Default: all, {', '.join(SETTINGS)}",
    )  # fmt: skip
    labs(sweep)
    ablation = command("ablation", "take parts of pbq away, one at a time", ABLATION, "ablation")
    ablation.add_argument("--updates", type=whole, default=10, metavar="N", help="of each training; default: 10")
    ablation.add_argument(
        "--only", action="append", choices=NAMES, metavar="NAME",
        help=f"this part; may be given several times. Default: all, {', '.join(NAMES)}",
    )  # fmt: skip
    labs(ablation)
    compare = command("compare", "judge policies of pbq on held-out links", COMPARE, "compare")
    compare.add_argument("policies", nargs="+", metavar="POLICY", type=policy, help="a weights file, or rule")
    compare.add_argument(
        "--episodes", type=whole, default=EPISODES, metavar="N", help=f"of each kind; default: {EPISODES}"
    )
    kinds = list(ranges.load()["held_out"])
    compare.add_argument(
        "--only", action="append", choices=kinds, metavar="KIND",
        help=f"this kind; may be given several times. Default: all, {', '.join(kinds)}",
    )  # fmt: skip
    labs(compare)
    rule_ = commands.add_parser("rule", help="write the rule of pbq as a weights file", description=RULE)
    rule_.add_argument("numbers", nargs="*", metavar="NAME=NUMBER", type=number, help="a number of the rule")
    rule_.add_argument("--out", type=Path, metavar="FILE", help="default: standard output")
    figure8 = command("figure8", "the paper's Fig. 8 again: with BBR's pacing and without", FIGURE8, "figure8")
    figure8.add_argument("--seeds", type=whole, default=5, metavar="N", help="trainings of each kind; default: 5")
    figure8.add_argument("--updates", type=whole, metavar="N", help="of each; default: the profile's")
    labs(figure8)
    check = command("crosscheck", "let stable-baselines3's PPO learn the same", CROSSCHECK, "crosscheck")
    check.add_argument("--episodes", type=whole, default=20, metavar="N", help="default: 20")
    check.add_argument("--episode-seconds", type=whole, default=30, metavar="S", help="virtual; default: 30")
    check.add_argument(
        "--seeds", type=whole, default=1, metavar="N", help="trainings of each, one after another; default: 1"
    )
    return found


def main(argv: list[str] | None = None) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    args = checked(argv)
    if args.check:
        return 0
    again = {"pbq": "the updates done are kept, --resume goes on", "crosscheck": "it begins anew next time",
             "rule": "nothing was written"}.get(
        args.what, "what is done is kept, the same command goes on"
    )  # fmt: skip
    try:
        from weirtrain import commands
        from weirtrain.checkpoint import CheckpointError
        from weirtrain.training import TrainingError
        from weirtrain.trajectory import TrajectoryError
        from weirtrain.weights import WeightsError

        return commands.COMMANDS[args.what](args)
    except Stopped as stopped:
        stop_all()
        print(f"./run train: stopped by {signal.Signals(stopped.number).name}; {again}", file=sys.stderr)
        return 128 + stopped.number
    except (CheckpointError, TrainingError, TrajectoryError, WeightsError, LabError, RunError, SamplesError,
            FloatingPointError, paths.NoCloneError, OSError) as error:  # fmt: skip
        said = str(error)
        if isinstance(error, OSError) and error.errno in FULL:
            said = f"{error.filename}: {error.strerror}; make room; {again}"
        print(f"./run train: {said}", file=sys.stderr)
        return 1


def checked(argv: list[str] | None) -> argparse.Namespace:
    """The command line; ends the program with status 2 if it is wrong."""
    found = parser()
    args = found.parse_args(argv)
    if args.what == "pbq":
        if args.pacing and not args.paper:
            found.error("--pacing needs --paper; the profile pbq has a pacing of its own")
        profile = PROFILES["pbq-paper" if args.paper else "pbq"]
        args.profile = profile.changed({"document.pacing": args.pacing or profile.document["pacing"]})
    return args


if __name__ == "__main__":
    sys.exit(main())
