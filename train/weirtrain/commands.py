# SPDX-License-Identifier: Apache-2.0
"""Actions of the commands of `./run train`, once their command line is known to be right."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from weirlab import paths
from weirlab.store import atomic
from weirlab.store.provenance import git_commit
from weirtrain import ablation, compare, curves, figure8, ranges, rollout, sweep, weights
from weirtrain.episodes import held_out, plan
from weirtrain.held_out import as_document
from weirtrain.judge import judge
from weirtrain.judging import judge_all
from weirtrain.learner import Learner
from weirtrain.profiles import PROFILES
from weirtrain.progress import progress
from weirtrain.settings import SharedReward
from weirtrain.training import PAGE, Training, alone
from weirtrain.trials import Trial, trained
from weirtrain.weights import digest

SEED = 1  # of a sweep's trainings


def folder_of(args: argparse.Namespace, name: str) -> Path:
    return args.out or paths.clone() / "results" / "train" / name


@contextmanager
def machines(args: argparse.Namespace, profile: str, folder: Path) -> Iterator[tuple[rollout.Runner, int]]:
    """Runner of episodes, and the number of labs at once."""
    if args.ray:
        with rollout.cluster(profile, args.ray) as found:
            yield found
    else:
        yield rollout.here(profile, args.jobs, folder / "failed"), args.jobs


def say(text: str) -> None:
    print(text, file=sys.stderr)


def pbq(args: argparse.Namespace) -> int:
    profile = args.profile
    updates = args.updates or profile.updates
    pacing = f" --pacing {args.pacing}" if args.pacing else ""
    command = f"./run train pbq{' --paper' if args.paper else ''}{pacing} --seed {args.seed}"
    if updates != profile.updates:
        command += f" --updates {updates}"
    unpaced = "-unpaced" if args.pacing == "none" else ""
    folder = folder_of(args, f"{profile.name}{unpaced}-seed-{args.seed}")
    with alone(folder):
        if args.resume:
            training = Training.resume(folder, profile, args.seed, command)
        else:
            training = Training(folder, profile, args.seed, command)
            training.begin()
        done = training.learner.updates
        with machines(args, profile.name, folder) as (runner, jobs):
            before = f"{done} done, " if done else ""
            say(f"{command}: {count(updates, 'update')}, {before}{count(profile.episodes, 'episode')} each, "
                f"{count(jobs, 'lab')} at once, in {folder}")  # fmt: skip
            with progress(updates * profile.episodes) as told:
                told.training("", updates, done, profile.episodes)
                try:
                    training.run(runner, updates, told)
                finally:
                    training.write_page()
        if training.best_update == 0:
            say("in no validation was a policy better than what the training begins with: that is the result")
        print(folder / PAGE)
        print(training.weights_path)
    return 0


def count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def sweep_(args: argparse.Namespace) -> int:
    folder, names = folder_of(args, "sweep"), args.only or list(sweep.SETTINGS)
    trials = [
        Trial(name, sweep.profile_of(name), SEED, f"./run train sweep --updates {args.updates} --only {name}")
        for name in names
    ]
    episode = plan("pbq-paper", SEED, 0)
    with alone(folder), machines(args, "pbq-paper", folder) as (runner, _):
        say(f"./run train sweep: {count(len(trials), 'setting')} of {count(args.updates, 'update')}, in {folder}")
        reference = kept(folder / "reference.json", partial(judge, episode, sweep.REFERENCE, None))
        rows = []
        with progress(sum(trial.profile.episodes for trial in trials) * args.updates) as told:
            for trial, training in trained(folder, trials, args.updates, runner, told):
                judged = folder / trial.name / f"judged-{training.learner.updates}.json"
                found = kept(judged, partial(judge, episode, trial.profile.name, training.weights()))
                rows.append(sweep.row(trial.name, training.rows[-1], found))
                atomic.write(folder / "table.md", sweep.as_markdown(rows, reference))
    print(sweep.as_markdown(rows, reference), end="")
    print(folder / "table.md")
    return 0


def ablation_(args: argparse.Namespace) -> int:
    folder, names = folder_of(args, "ablation"), args.only or list(ablation.NAMES)
    trained_ones = [name for name in ablation.TRAINED if name in names]
    if trained_ones and "base" not in trained_ones:
        trained_ones.insert(0, "base")
    whole = (paths.clone() / "quic-client" / "core" / "weights" / "pbq.weights").read_bytes()
    trials = [
        Trial(name, ablation.profile_of(name), SEED, f"./run train ablation --updates {args.updates} --only {name}")
        for name in trained_ones
    ]
    policies = {ablation.WHOLE: whole}
    policies |= {name: ablation.changed(whole, how) for name, how in ablation.CHANGED.items() if name in names}
    policies |= {name: ablation.blind(whole, hidden) for name, hidden in ablation.BLIND.items() if name in names}
    if compare.RULE in names:
        policies[compare.RULE] = policy_of(compare.RULE)
    with alone(folder), machines(args, "pbq", folder) as (runner, _):
        say(f"./run train ablation: {count(len(trials), 'training')} of {count(args.updates, 'update')}, in {folder}")
        with progress(sum(trial.profile.episodes for trial in trials) * args.updates) as told:
            for trial, training in trained(folder, trials, args.updates, runner, told):
                policies[trial.name] = training.weights()
        command = f"./run train ablation --updates {args.updates}"
        compared(folder, policies, list(ranges.load()["held_out"]), compare.EPISODES, runner, command)
    return 0


def compared(folder: Path, policies: Mapping[str, bytes], kinds: Sequence[str], count_: int, runner: rollout.Runner,
             command: str) -> None:  # fmt: skip
    """Judges policies in the same held-out episodes, without a guard: the folder has what was judged already, and
    `table.md` and `compare.json`."""
    episodes = {kind: held_out(kind, count_) for kind in kinds}
    whole = count_ * len(kinds)
    parts = rollout.parts_here(episodes[kinds[0]][0], "pbq", next(iter(policies.values())))
    reward = PROFILES["pbq"].reward
    assert isinstance(reward, SharedReward)
    found = {}
    with progress(len(policies) * whole) as told:
        for number, (name, guarded) in enumerate(policies.items()):
            say(f"judging {name} in {count(whole, 'episode')}, {number + 1} of {len(policies)}")

            def tell(done: int, name: str = name, number: int = number) -> None:
                told.reached(number * whole + done, name)

            policy = ablation.unguarded(guarded)
            found[name] = judge_all(folder, policy, episodes, runner, reward, parts, tell)
            facts = (f"{count(count_, 'episode')} of each kind, 95 % intervals of each row alone. "
                     f"Made by `{command}` at commit {git_commit()}.")  # fmt: skip
            digests = {one: digest(policies[one]) for one in found}
            document = {"command": command, "commit": git_commit(), "parts": parts, "weights": digests}
            atomic.write_all({
                folder / "table.md": compare.as_markdown(found, facts),
                folder / "compare.json": json.dumps(document | as_document(found), indent=1) + "\n",
            })  # fmt: skip
    print(compare.as_markdown(found, facts), end="")
    print(folder / "table.md")
    print(folder / "compare.json")


def kept(path: Path, find: Callable[[], Any]) -> Any:
    """Figures out of a file, or found now and put there."""
    if not path.exists():
        atomic.write(path, json.dumps(find(), indent=1) + "\n")
    return json.loads(path.read_text())


def compare_(args: argparse.Namespace) -> int:
    folder = folder_of(args, "compare")
    policies = {name: policy_of(word) for name, word in compare.names(args.policies).items()}
    kinds = args.only or list(ranges.load()["held_out"])
    command = " ".join(["./run train compare", *args.policies, f"--episodes {args.episodes}",
                        *(f"--only {kind}" for kind in args.only or [])])  # fmt: skip
    with alone(folder), machines(args, "pbq", folder) as (runner, _):
        compared(folder, policies, kinds, args.episodes, runner, command)
    return 0


def policy_of(word: str) -> bytes:
    """Weights file of a word for a policy. Raises OSError, WeightsError."""
    changes = compare.rule(word)
    if changes is not None:
        return Learner.rule(PROFILES["pbq"].changed(changes)).weights_file("none", "./run train compare")
    file = Path(word).read_bytes()
    try:
        weights.read(file)
    except weights.WeightsError as error:
        raise weights.WeightsError(f"{word}: {error}") from None
    return file


def rule_(args: argparse.Namespace) -> int:
    changes = compare.changes(args.numbers, " ".join(args.numbers))
    command = " ".join(["./run train rule", *args.numbers])
    file = Learner.rule(PROFILES["pbq"].changed(changes)).weights_file(git_commit(), command, guarded=False)
    if args.out:
        atomic.write(args.out, file)
        print(args.out)
    else:
        sys.stdout.buffer.write(file)
    return 0


def figure_8(args: argparse.Namespace) -> int:
    folder = folder_of(args, "figure8")
    profile = PROFILES["pbq-paper"]
    updates = args.updates or profile.updates
    trials = figure8.trials(args.seeds)
    runs: dict[str, list[curves.Rows]] = {pacing: [] for pacing in figure8.KINDS}
    with alone(folder), machines(args, profile.name, folder) as (runner, _):
        say(f"./run train figure8: {count(len(trials), 'training')} of {count(updates, 'update')}, in {folder}")
        with progress(len(trials) * profile.episodes * updates) as told:
            for trial, training in trained(folder, trials, updates, runner, told):
                runs[trial.profile.document["pacing"]].append(training.rows[:updates])
                if all(runs.values()):
                    write_figure8(folder, runs, updates)
    print(folder / "index.html")
    return 0


def write_figure8(folder: Path, runs: figure8.Runs, updates: int) -> None:
    facts = {
        "title": "Training with BBR's pacing and without (Fig. 8)",
        "description": f"pbq-paper on Table 2's link, {updates} updates of each training. Made by ./run train figure8.",
    }
    atomic.write_all({
        folder / "index.html": figure8.page(runs, facts), folder / "curves.csv": figure8.as_csv(runs),
    })  # fmt: skip


def crosscheck(args: argparse.Namespace) -> int:
    from weirtrain import crosscheck

    folder = folder_of(args, "crosscheck")
    with alone(folder):
        print(crosscheck.run(folder, args.episodes, args.episode_seconds, args.seeds, say))
    return 0


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {
    "pbq": pbq, "sweep": sweep_, "ablation": ablation_, "compare": compare_, "figure8": figure_8,
    "crosscheck": crosscheck, "rule": rule_,
}  # fmt: skip
