# SPDX-License-Identifier: Apache-2.0
"""Reads trajectory files, as senders write them (docs/design/pbq-weights-format.md, "The trajectory file")."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np

VERSION = 1
BY_POLICY = "policy"
# Numbers of a step's line that are kept as they are. The times of round trips may be null.
NUMBERS = ("t_us", "mean", "noise", "drawn", "log_probability", "interval_us", "acked_bytes", "lost_bytes",
           "rtt_least_us", "rate_greatest_bytes_s")  # fmt: skip
LAST_KNOWN = ("rtt_mean_us", "rtt_last_us")


class TrajectoryError(Exception):
    """A trajectory that can't be learnt from: which file and line, what it has, and what was expected."""


@dataclass(frozen=True)
class Trajectory:
    """The decisions of one connection, in order.

    `state` is [steps, inputs * history], normalised as the policy saw it; `by_policy` [steps]; `numbers` has for each
    name of NUMBERS and LAST_KNOWN an array [steps] in the units of its name. `whole` is false where the sender was
    killed before it wrote the last line."""

    name: str
    state: np.ndarray
    by_policy: np.ndarray
    numbers: dict[str, np.ndarray]
    whole: bool

    def __len__(self) -> int:
        return len(self.by_policy)


def read(content: bytes, name: str, weights: str | None = None) -> Trajectory:
    """A trajectory out of a file's content. `weights` is the SHA-256 of the policy that must have made it.

    A last line without an end is left out: its sender was killed. Raises TrajectoryError."""
    lines = content.split(b"\n")
    lines.pop()  # empty behind the last newline, or half a line
    if not lines:
        raise TrajectoryError(f"{name}: no whole line, expected one with k = trajectory first")
    head = _record(lines[0], name, 1)
    _expect(head, "k", "trajectory", name, 1)
    _expect(head, "version", VERSION, name, 1)
    if weights is not None:
        _expect(head, "weights", weights, name, 1)
    width = _width(head, name)
    states: list[list[float]] = []
    by_policy: list[bool] = []
    whole = False
    numbers: dict[str, list[float]] = {key: [] for key in (*NUMBERS, *LAST_KNOWN)}
    for place, line in enumerate(lines[1:], start=2):
        record = _record(line, name, place)
        if whole:
            raise TrajectoryError(f"{name}:{place}: a line behind the end, expected none")
        if record.get("k") == "end":
            _expect(record, "steps", len(states), name, place)
            whole = True
            continue
        _expect(record, "k", "step", name, place)
        _expect(record, "n", len(states), name, place)
        states.append(_state(record, width, name, place))
        by_policy.append(record.get("by") == BY_POLICY)
        for key in NUMBERS:
            numbers[key].append(_number(record, key, name, place))
        for key in LAST_KNOWN:  # as in the state, the last one known counts
            if record.get(key, 0) is not None:
                numbers[key].append(_number(record, key, name, place))
            elif states[1:]:
                numbers[key].append(numbers[key][-1])
            else:
                raise TrajectoryError(f"{name}:{place}: {key} is null, expected a number in the first step")
    return Trajectory(
        name,
        np.array(states, dtype=np.float64).reshape(len(states), width),
        np.array(by_policy, dtype=bool),
        {key: np.array(values, dtype=np.float64) for key, values in numbers.items()},
        whole,
    )


def _record(line: bytes, name: str, place: int) -> dict[str, Any]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        raise TrajectoryError(f"{name}:{place}: not JSON: {line[:40]!r}") from None
    if not isinstance(record, dict):
        raise TrajectoryError(f"{name}:{place}: {line[:40]!r}, expected a JSON object")
    return record


def _expect(record: dict[str, Any], key: str, wanted: Any, name: str, place: int) -> None:
    found = record.get(key)
    if found != wanted or isinstance(found, bool):
        raise TrajectoryError(f"{name}:{place}: {key} is {found!r}, expected {wanted!r}")


def _width(head: dict[str, Any], name: str) -> int:
    inputs, history = head.get("inputs"), head.get("history")
    if not isinstance(inputs, list) or not inputs or not isinstance(history, int) or history < 1:
        raise TrajectoryError(f"{name}:1: inputs {inputs!r} and history {history!r}, expected names and 1 or more")
    return len(inputs) * history


def _number(record: dict[str, Any], key: str, name: str, place: int) -> float:
    found = record.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not np.isfinite(found):
        raise TrajectoryError(f"{name}:{place}: {key} is {found!r}, expected a finite number")
    return float(found)


def _state(record: dict[str, Any], width: int, name: str, place: int) -> list[float]:
    state = record.get("state")
    if not isinstance(state, list) or len(state) != width:
        raise TrajectoryError(f"{name}:{place}: state is {str(state)[:40]}, expected {width} numbers")
    return [_number({"state": value}, "state", name, place) for value in state]
