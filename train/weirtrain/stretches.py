# SPDX-License-Identifier: Apache-2.0
"""Stretches of decisions by the policy, and how much better each was than expected (GAE)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weirtrain.trajectory import Trajectory


@dataclass(frozen=True)
class Stretch:
    """Steps `first` to `last` of a trajectory are the policy's, and the one after `last` shows the last one's result.

    Its state is what the rest is estimated from: an episode is cut, never done."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class Preceding:
    """Of each step of a trajectory the decision before it, whoever acted: state [steps, inputs], action drawn and its
    noise [steps], and 1 where there is one, else 0 [steps]."""

    states: np.ndarray
    drawn: np.ndarray
    noise: np.ndarray
    there: np.ndarray

    @classmethod
    def of(cls, trajectory: Trajectory) -> Preceding:
        drawn, noise = trajectory.numbers["drawn"], trajectory.numbers["noise"]
        there = np.ones(len(trajectory))
        there[:1] = 0
        return cls(_later(trajectory.state), _later(drawn), _later(noise), there)


def _later(of: np.ndarray) -> np.ndarray:
    """Each step has that of the step before, the first one zeros."""
    return np.concatenate([np.zeros_like(of[:1]), of[:-1]])


def stretches(trajectory: Trajectory) -> list[Stretch]:
    """All stretches of a trajectory, in order. A step with none behind it has no result that is known."""
    known = trajectory.by_policy[:-1].astype(int)  # the last line's action has no result
    edges = np.diff(known, prepend=0, append=0)
    return [
        Stretch(int(first), int(end) - 1)
        for first, end in zip(np.flatnonzero(edges == 1), np.flatnonzero(edges == -1), strict=True)
    ]


def advantages(rewards: np.ndarray, values: np.ndarray, discount: float, decay: float) -> np.ndarray:
    """Generalised advantage estimates of a stretch (Schulman et al. 2016, Eq. 16), doubles [steps].

    `rewards` [steps]; `values` [steps + 1], the last of the state after the stretch; `decay` is GAE's lambda."""
    if len(values) != len(rewards) + 1:
        raise ValueError(f"{len(values)} values of {len(rewards)} rewards, expected one more")
    errors = rewards + discount * values[1:] - values[:-1]
    found = np.zeros(len(rewards))
    carried = 0.0
    for n in reversed(range(len(rewards))):
        carried = errors[n] + discount * decay * carried
        found[n] = carried
    return found
