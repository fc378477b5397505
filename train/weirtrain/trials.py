# SPDX-License-Identifier: Apache-2.0
"""Several trainings in one folder, one after the other; each goes on where it was stopped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from weirtrain.profiles import Profile
from weirtrain.progress import Told
from weirtrain.rollout import Runner
from weirtrain.training import CHECKPOINT, Training


@dataclass(frozen=True)
class Trial:
    """A training by its name, which is its folder's too. `command` is what its files say has made them."""

    name: str
    profile: Profile
    seed: int
    command: str


def trained(
    folder: Path, trials: Sequence[Trial], updates: int, runner: Runner, told: Told
) -> Iterator[tuple[Trial, Training]]:
    """Each trial's training once it has its updates. Raises what Training.resume, begin and run do."""
    for trial in trials:
        own = folder / trial.name
        if (own / CHECKPOINT).exists():
            training = Training.resume(own, trial.profile, trial.seed, trial.command)
        else:
            training = Training(own, trial.profile, trial.seed, trial.command)
            training.begin()
        told.training(trial.name, updates, training.learner.updates, trial.profile.episodes)
        training.run(runner, updates, told)
        training.write_page()
        yield trial, training
