# SPDX-License-Identifier: Apache-2.0
"""Reads a run's samples on `access`: lines in, arrays out.

The samples' kinds (`k`), one JSON object a line, `t_us` the lab's CLOCK_MONOTONIC in microseconds:

- `start`: the start of round 0; exactly one.
- `task`, `choice`, `path`, `cid`, `window`, `promised`: weir-client's `--events`; their fields are in
  quic-client/endpoint/README.md.
- `flow`, `end`: one end of a connection, as on the dumbbell (`dumbbell/samples.py`), the server's `decisions` too.
- `truth`: the lab's settings of a path: `round`, `path`, `rtt_ms` as drawn for that round, `mean_ms` then. A path's
  first line is of round 0; a round without a line is as the last one before it.
- `best`: from `round` on, `path` is the best there is. `change`: `round`, `path`, `at_s` from round 0 on, `what`.

A round is an interval of the client's: task n starts no sooner than n times `interval_ms`, one that starts late belongs
to the round it starts in. Without an interval there is one round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from weirlab.metrics import decisions
from weirlab.metrics.samples import SamplesError, column, grouped, read_kinds

FIELDS: dict[str, tuple[str, ...]] = {
    "start": ("t_us",),
    "task": ("t_us", "flow", "task", "path", "start_us", "tct_us", "bytes", "outcome", "switched", "cold"),
    "task-retry": ("t_us", "flow", "task", "path", "bytes"),
    "move": ("t_us", "flow", "path", "from", "reason"),
    "answers-elsewhere": ("t_us", "flow", "path", "on"),
    "choice": ("t_us", "flow", "task", "path"),
    "path": ("t_us", "flow", "path", "event"),
    "cid": ("t_us", "flow", "wanted", "peer_limit", "usable", "migration_allowed"),
    "window": ("t_us", "flow", "stream", "window_bytes", "promised_bytes", "received_bytes"),
    "promised": ("t_us", "promised_bytes", "peak_bytes", "budget_bytes"),
    "flow": ("t_us", "side", "flow", "bytes"),
    "end": ("t_us", "side", "flow", "bytes"),
    "truth": ("round", "path", "rtt_ms", "mean_ms"),
    "best": ("round", "path"),
    "change": ("round", "path", "at_s", "what"),
}
NUMBERS: dict[str, tuple[str, ...]] = {
    "start": ("t_us",),
    "task": ("t_us", "task", "start_us", "bytes"),
    "choice": ("t_us", "task"),
    "path": ("t_us",),
    "cid": ("t_us", "wanted", "peer_limit", "usable"),
    "truth": ("round", "rtt_ms", "mean_ms"),
    "best": ("round",),
    "change": ("round", "at_s"),
}
EVENTS = ("task", "task-retry", "move", "answers-elsewhere", "choice", "path", "cid", "window", "promised")


@dataclass(frozen=True)
class Tasks:
    """The tasks of a run in order of their start; `path` counts in the spec's order, `start_us` from round 0 on.

    `lag_ms` is how long after it was due a task started, NaN without an interval. `tct_ms` counts from the start and is
    NaN where a task did not end complete. `path` is the one chosen, whatever came of it.
    """

    number: np.ndarray
    round: np.ndarray
    path: np.ndarray
    start_us: np.ndarray
    lag_ms: np.ndarray
    tct_ms: np.ndarray
    bytes: np.ndarray
    complete: np.ndarray
    switched: np.ndarray
    cold: np.ndarray
    moved: np.ndarray


@dataclass(frozen=True)
class Truth:
    """True conditions of the lab, by round and path: RTT as drawn, its mean, and which paths were as good as the best.

    `rate_mbit_s` is by path, as the spec gives it.
    """

    rtt_ms: np.ndarray
    mean_ms: np.ndarray
    best: np.ndarray
    rate_mbit_s: np.ndarray


@dataclass(frozen=True)
class Samples:
    """One run's samples, times in microseconds from round 0 on; None where the run had none.

    `received` is time and bytes delivered to the client, `heard` time and packets received by it, `rtt_ms` its smoothed
    RTT at those times; `windows` by stream, None for the connection; `decisions` the counters of a learned congestion
    control at its end, empty for others.
    """

    tasks: Tasks
    truth: Truth | None
    changes: tuple[dict[str, Any], ...]
    path_events: tuple[dict[str, Any], ...]
    received: tuple[np.ndarray, np.ndarray]
    heard: tuple[np.ndarray, np.ndarray]
    rtt_ms: np.ndarray
    windows: dict[tuple[Any, Any], tuple[np.ndarray, np.ndarray]]
    promised: tuple[np.ndarray, np.ndarray]
    promised_peak_bytes: float | None
    cid: dict[str, Any] | None
    out_of_order: int
    decisions: Mapping[str, float]


def read_samples(path: str | Path, spec: Mapping[str, Any]) -> Samples:
    """Read a samples file (`.gz` or plain). Raises SamplesError naming file and line, OSError if it can't be read."""
    path = Path(path)
    by_kind = read_kinds(path, FIELDS, NUMBERS)
    names = [each["name"] for each in spec["paths"]]
    t0_us = by_kind["start"][0]["t_us"]
    tasks = _tasks(path, by_kind["task"], names, spec, t0_us)
    rounds = 1 + int(tasks.round.max())
    received = sorted(
        (line for line in by_kind["flow"] + by_kind["end"] if line["side"] == "client"), key=lambda line: line["t_us"]
    )
    told = [line for line in received if line.get("recv") is not None and line.get("rtt_us") is not None]
    windows = grouped(by_kind["window"], lambda line: (line["flow"], line["stream"]))
    last_us: dict[Any, float] = {}
    out_of_order = 0
    for kind in EVENTS:
        for line in by_kind[kind]:
            key = kind, line.get("flow")
            out_of_order += line["t_us"] < last_us.get(key, line["t_us"])
            last_us[key] = line["t_us"]
    peaks = column(path, by_kind["promised"], "peak_bytes")
    return Samples(
        tasks=tasks,
        truth=_truth(path, by_kind["truth"], by_kind["best"], names, spec, rounds),
        changes=tuple(by_kind["change"]),
        path_events=tuple({**line, "t_us": line["t_us"] - t0_us} for line in by_kind["path"]),
        received=(column(path, received, "t_us") - t0_us, _summed(path, received)),
        heard=_course(path, told, "recv", t0_us),
        rtt_ms=column(path, told, "rtt_us") / 1e3,
        windows={key: _course(path, lines, "window_bytes", t0_us) for key, lines in windows.items()},
        promised=_course(path, by_kind["promised"], "promised_bytes", t0_us),
        promised_peak_bytes=float(peaks.max()) if len(peaks) else None,
        cid=by_kind["cid"][0] if by_kind["cid"] else None,
        out_of_order=out_of_order,
        decisions=decisions.counted(path, by_kind["end"]),
    )


def _tasks(
    path: Path, lines: list[dict[str, Any]], names: Sequence[str], spec: Mapping[str, Any], t0_us: float
) -> Tasks:
    """The tasks in order of start."""
    if not lines:
        raise SamplesError(f"{path}: no task lines; the client wrote no events, see its stderr in the run's folder")
    lines = sorted(lines, key=lambda line: (line["start_us"], line["task"]))
    seen = set()
    for line in lines:
        if line["path"] not in names:
            raise SamplesError(f"{path}: task {line['task']} is on path {line['path']!r}; the spec has {listed(names)}")
        if line["outcome"] == "complete" and not isinstance(line["tct_us"], int | float):
            raise SamplesError(f"{path}: task {line['task']} is complete and its tct_us is {line['tct_us']!r}")
        key = line["flow"], line["task"]
        if key in seen:
            raise SamplesError(f"{path}: task {line['task']} of flow {line['flow']} has two task lines, not one")
        seen.add(key)
    number = column(path, lines, "task").astype(int)
    start_us = column(path, lines, "start_us")
    interval_us = spec["client"]["interval_ms"] * 1e3
    since_us = start_us - t0_us
    complete = np.array([line["outcome"] == "complete" for line in lines])
    tct_ms = np.array([line["tct_us"] / 1e3 if ok else np.nan for line, ok in zip(lines, complete, strict=True)])
    return Tasks(
        number=number,
        round=np.maximum(since_us // interval_us, 0).astype(int) if interval_us else np.zeros(len(lines), int),
        path=np.array([names.index(line["path"]) for line in lines]),
        start_us=since_us,
        lag_ms=(since_us - number * interval_us) / 1e3 if interval_us else np.full(len(lines), np.nan),
        tct_ms=tct_ms,
        bytes=column(path, lines, "bytes"),
        complete=complete,
        switched=np.array([bool(line["switched"]) for line in lines]),
        cold=np.array([bool(line["cold"]) for line in lines]),
        moved=np.array([line.get("moved_to") is not None for line in lines]),
    )


def _truth(
    path: Path,
    lines: list[dict[str, Any]],
    best_lines: list[dict[str, Any]],
    names: Sequence[str],
    spec: Mapping[str, Any],
    rounds: int,
) -> Truth | None:
    """Truth by round and path, each round's first line; None for one path that the lab says nothing of."""
    if not lines and len(names) == 1:
        return None
    rtt_ms, mean_ms = np.full((rounds, len(names)), np.nan), np.full((rounds, len(names)), np.nan)
    for line in lines + best_lines:
        if line["path"] not in names:
            raise SamplesError(f"{path}: a {line['k']} line has path {line['path']!r}; the spec has {listed(names)}")
    for index, name in enumerate(names):
        mine = _in_force([line for line in lines if line["path"] == name], rounds)
        if mine[0] is None:
            raise SamplesError(f"{path}: no truth line of path {name} for round 0; without it no choice can be judged")
        rtt_ms[:, index] = [line["rtt_ms"] for line in mine if line is not None]
        mean_ms[:, index] = [line["mean_ms"] for line in mine if line is not None]
    best = np.zeros((rounds, len(names)), bool)
    for number, told in enumerate(_in_force(best_lines, rounds)):
        winner = int(np.argmin(mean_ms[number])) if told is None else names.index(told["path"])
        for index, each in enumerate(spec["paths"]):
            same = all(each.get(key) == spec["paths"][winner].get(key) for key in ("rate_mbit_s", "loss_percent"))
            best[number, index] = index == winner or (same and mean_ms[number, index] == mean_ms[number, winner])
    rates = np.array([each["rate_mbit_s"] for each in spec["paths"]], float)
    return Truth(rtt_ms=rtt_ms, mean_ms=mean_ms, best=best, rate_mbit_s=rates)


def _in_force(lines: list[dict[str, Any]], rounds: int) -> list[dict[str, Any] | None]:
    """For each round the first line of it, or else the last one before it."""
    first = {int(line["round"]): line for line in reversed(lines)}
    last = {int(line["round"]): line for line in lines}
    found, now = [], None
    for number in range(rounds):
        found.append(first.get(number, now))
        now = last.get(number, now)
    return found


def _course(path: Path, lines: list[dict[str, Any]], field: str, t0_us: float) -> tuple[np.ndarray, np.ndarray]:
    return column(path, lines, "t_us") - t0_us, column(path, lines, field)


def _summed(path: Path, lines: list[dict[str, Any]]) -> np.ndarray:
    """Bytes of all connections at each of these lines."""
    now: dict[Any, float] = {}
    total = []
    for line, received in zip(lines, column(path, lines, "bytes"), strict=True):
        now[line["flow"]] = received
        total.append(sum(now.values()))
    return np.array(total)


def listed(names: Sequence[str]) -> str:
    return ", ".join(names)
