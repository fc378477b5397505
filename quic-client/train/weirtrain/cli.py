# SPDX-License-Identifier: Apache-2.0
"""`./run train`: the command line of the trainer."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NoReturn

from weirlab import paths
from weirlab.evaluation.progress import duration
from weirlab.lab.kernels import LabError, stop_all
from weirlab.run.runner import RunError
from weirtrain.profiles import PROFILES

DESCRIPTION = """\
Trains the policy of a congestion control in the lab: each episode is a run of real senders on a real kernel in virtual
time. The policy decides with noise, PPO learns from what came of it, and again. The same seed gives the same weights to
the byte on one machine, however many labs run at once and however often the training was stopped.

PyTorch is installed by this command alone: 3 GB are fetched once, and 6 GB kept in build/venv-train."""
EPILOG = """\
examples:
  ./run train pbq                     our profile, over random links; within two hours on two cores
  ./run train pbq --paper --seed 3    the paper's: the link of its Table 2 alone
  ./run train pbq --updates 2         a short try
  ./run train pbq --resume            go on after Ctrl-C, a full disk or a crash: the end is the same to the byte
  ./run train pbq --ray local         labs as tasks of Ray, here or on a cluster

In the folder of a training:
  PROFILE.weights   the policy as it is now: weir-server --cc PROFILE --cc-weights FILE runs it
  curves.csv        a line for each update: reward, throughput, RTT, loss, entropy, KL divergence, value loss
  index.html        the same as plots
  checkpoint.bin    what --resume goes on from
  failed/           the run's folder where a lab failed"""


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


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        "./run train", description=DESCRIPTION, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument("what", choices=["pbq"], help="the congestion control")
    found.add_argument("--paper", action="store_true", help="train pbq-paper: Zhang et al. to the letter")
    found.add_argument("--seed", type=lambda text: whole(text, 0), default=1, metavar="N", help="default: 1")
    found.add_argument("--updates", type=whole, metavar="N", help="updates in all; default: the profile's")
    found.add_argument(
        "--jobs", type=whole, default=len(os.sched_getaffinity(0)), metavar="N",
        help="labs at once; default: one for each core. The result does not depend on it",
    )  # fmt: skip
    found.add_argument("--ray", metavar="ADDRESS", help="run the labs on this Ray cluster, or 'local'")
    found.add_argument("--resume", action="store_true", help="go on with the training in the folder")
    found.add_argument("--out", type=Path, metavar="FOLDER", help="default: results/train/PROFILE-seed-N")
    found.add_argument("--check", action="store_true", help="check the command line only")
    return found


@contextmanager
def progress(total: int, done: int, episodes: int) -> Any:
    """A bar on a terminal, elsewhere a line for each update; what Training.run tells it."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    words = Console(stderr=True)
    began, before = time.monotonic(), done * episodes
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("{task.fields[left]}"))
    with Progress(*columns, console=words, disable=not words.is_terminal) as bar:
        task = bar.add_task(f"update {done}/{total}", total=total * episodes, completed=before, left="")

        def tell(updates: int, part: int, rollout: Any, figures: dict[str, float] | None) -> None:
            now = updates * episodes + part
            left_s = (time.monotonic() - began) / max(now - before, 1) * (total * episodes - now)
            left = f"{duration(left_s)} left"
            bar.update(task, completed=now, left=left, description=f"update {updates}/{total}")
            if figures is not None:
                shown = ", ".join(f"{name} {figures[name]:.3g}" for name in ("reward", "share", "rtt_mean_ms", "loss_percent", "kl"))  # fmt: skip # noqa: E501
                words.print(f"  [{updates}/{total}, {left}] {shown}", highlight=False, soft_wrap=True, markup=False)

        yield tell


def train(args: argparse.Namespace) -> int:
    from weirtrain import rollout
    from weirtrain.training import Training, alone

    profile = PROFILES["pbq-paper" if args.paper else "pbq"]
    updates = args.updates or profile.updates
    folder = args.out or paths.clone() / "results" / "train" / f"{profile.name}-seed-{args.seed}"
    command = f"./run train pbq{' --paper' if args.paper else ''} --seed {args.seed}"
    machines: AbstractContextManager[tuple[rollout.Runner, int]]
    if args.ray:
        machines = rollout.cluster(profile.name, args.ray)
    else:
        machines = nullcontext((rollout.here(profile.name, args.jobs, folder / "failed"), args.jobs))
    with alone(folder):
        if args.resume:
            training = Training.resume(folder, profile, args.seed, command)
        else:
            training = Training(folder, profile, args.seed, command)
            training.begin()
        done = training.learner.updates
        with machines as (runner, jobs), progress(updates, done, profile.episodes) as tell:
            print(f"{command}: {max(updates - done, 0)} updates of {profile.episodes} episodes, {jobs} labs at once; "
                  f"in {folder}", file=sys.stderr)  # fmt: skip
            training.run(runner, updates, tell)
        print(training.write_page())
        print(training.weights_path)
    return 0


def main(argv: list[str] | None = None) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    try:
        args = parser().parse_args(argv)
        return 0 if args.check else train(args)
    except Stopped as stopped:
        stop_all()
        said = f"stopped by {signal.Signals(stopped.number).name}; the updates done are kept, --resume goes on"
        print(said, file=sys.stderr)
        return 128 + stopped.number
    except Exception as error:
        from weirtrain.checkpoint import CheckpointError
        from weirtrain.training import TrainingError
        from weirtrain.trajectory import TrajectoryError

        expected = (CheckpointError, TrainingError, TrajectoryError, LabError, RunError, FloatingPointError,
                    paths.NoCloneError, OSError)  # fmt: skip
        if isinstance(error, expected):
            print(f"./run train: {error}", file=sys.stderr)
            return 1
        raise


if __name__ == "__main__":
    sys.exit(main())
