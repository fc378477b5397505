# SPDX-License-Identifier: Apache-2.0
"""A run's samples on `access` in, flat metrics out: path choice, migration, receive windows.

`compute` is pure but for reading the file: the same samples and spec give the same metrics to the last digit.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from weirlab.metrics import decisions
from weirlab.metrics.estimate import rounded
from weirlab.topologies.access.peers import RELATIVE_METRICS, choosing
from weirlab.topologies.access.samples import Samples, Tasks, Truth, read_samples

RUN_METRICS: dict[str, str] = {
    "tct_mean_ms": "task completion time, from a task's start, when its path is chosen, to its last byte (Tan Eq. 3): "
    "mean over tasks. What a task waits for the one before it is no part of it: see start_lag_mean_ms",
    "tct_var_ms2": "the same: variance over tasks, in square milliseconds",
    "tct_p50_ms": "the same: median",
    "tct_p95_ms": "the same: 95th percentile",
    "tct_max_ms": "the same: longest",
    "tctpb_mean_ms_per_kb": "completion time over size, ms per 1000 bytes (Tan Eq. 4): mean over tasks (several sizes)",
    "start_lag_mean_ms": "from when a task was due, n intervals after the start, until it started, held up by those "
    "before it: mean over tasks (runs with an interval)",
    "start_lag_max_ms": "the same: longest",
    "best_path_rate": "share of tasks, 0 to 1, on the path with the least mean RTT in force in their round",
    "regret_ms": "sum over tasks of completion time less what the best path was to give: its mean RTT in force plus "
    "the time that the task's bytes take at its rate, the same for every variant with the same seed. Packet headers, "
    "the draws' luck, migration and loss are left in it: a loss that only a probe timeout repairs costs any strategy, "
    "the oracle too",
    "pseudo_regret_ms": "sum over tasks of the mean RTT in force on the path taken less that on the best: the choices' "
    "own cost, without luck, loss or what a migration costs",
    "regret_eq22": "Tan Eq. 22 with the run's a and b: a (sum of completion times - T times the least of them) + b "
    "(variance of all - least variance of a path's), in ms and square ms added as the paper adds them",
    "switches": "tasks that began by changing the path",
    "moves": "tasks that had to change the path on their way",
    "switches_cold": "changes of path at a task's start that had to wait for the path's validation",
    "extra_rtts_per_migration": "round trips that the first task after a change of path takes beyond what the path's "
    "other tasks do, each less its round's RTT, in RTTs of that round: mean. Where a path has no "
    "other tasks, beyond one RTT and the time that its bytes take at the path's rate. Tasks that moved on their way "
    "are left out (see moves). None where packets are lost: what losses took from the congestion window would count "
    "as the migration's",
    "extra_rtts_per_migration_median": "the same: median",
    "extra_rtts_validated": "the same: mean over changes to a path kept validated",
    "extra_rtts_cold": "the same: mean over changes to a path that had to be validated first",
    "failed_tasks": "tasks that ended other than complete",
    "missing_tasks": "tasks requested of the client and not reported by it",
    "tasks_below_rtt": "complete tasks that took less time than their round's RTT, which is impossible",
    "events_out_of_order": "lines of the client's that are older than the one before",
    "stall_ms": "longest time without a byte delivered, a task being under way, at the moment a link went away: until "
    "the next byte; to one interval of the client's samples",
    "stall_pto": "the same in probe timeouts, taken as short as they can be: the client's smoothed RTT when it last "
    "heard the path (at least the path's own) + 1 ms + 25 ms (RFC 9002 6.2.1, no variance)",
    "takeover_ms": "from the last packet heard before another path took over until the client had changed to that "
    "path; to one interval of the client's samples",
    "takeover_pto": "the same in such probe timeouts",
    "cid_wanted": "connection IDs that every path and spare ones would need",
    "cid_peer_limit": "connection IDs that the server takes (active_connection_id_limit)",
    "cid_usable": "paths that both sides' connection IDs let the client use at once",
    "migration_allowed": "1 if the server allows active migration, 0 if its transport parameters forbid it",
    "transfer_time_mean_s": "time of a whole transfer: with tasks in parallel from the first one's start to the last "
    "one's end, otherwise each task's, mean over them (runs without an interval, all tasks complete)",
    "stream_time_mean_s": "time from a task's start to its last byte: mean over tasks, whether in parallel or not "
    "(the same)",
    "goodput_mbit_s": "bytes of all tasks over the time from the first one's start to the last one's end (the same)",
    "window_promised_peak_bytes": "most receive window promised to the peer and not yet used, over all connections",
    "time_to_window_s": "from the first task's start until a stream's window reached 512 KiB, or its bound if less",
    "full_pipe_rtts": "from the first task's start until the windows held the path's rate times its RTT, in RTTs",
    **decisions.METRICS,
}
METRICS: dict[str, str] = {**RUN_METRICS, **RELATIVE_METRICS}
LOSSES = ("loss_percent", "loss_up_percent")
# Two clocks read one after the other, and netem's rounding; anything more is a wrong path or a wrong round.
BELOW_RTT_MS = 0.05
LATE_US = 5000  # latest start of a task within its round, for finding round 0
PTO_LEAST_MS = 1 + 25  # kGranularity and the default max_ack_delay, RFC 9002 6.2.1
WINDOW_ASKED_BYTES = 512 << 10


def compute(samples_path: str | Path, spec: Mapping[str, Any]) -> dict[str, Any]:
    """All metrics of one run, by the names in RUN_METRICS, plus `tasks_on_PATH` and `bytes_on_PATH` for each path.

    Numbers are rounded to 6 decimals; None where the run has nothing to measure it by. Raises SamplesError if the file
    is damaged or lacks lines that the spec promises (tasks, a path's truth).
    """
    return metrics_of(read_samples(samples_path, spec), spec)


TARGETS = ("failed_tasks",)
"""Metrics of applications' failures."""


def failures(metrics: Mapping[str, Any]) -> list[str]:
    """The checks that a run's metrics fail, one line each; empty if they all pass."""
    found = []
    for metric, text in (
        ("missing_tasks", "tasks were requested and not reported; see the client's stderr in the run's folder"),
        ("failed_tasks", "tasks did not end complete; see the outcome in the task lines of the samples"),
        ("tasks_below_rtt", "tasks took less time than their round's RTT; the lab's delay was not on their path"),
        ("events_out_of_order", "lines of the client's events are older than the line before; its clock went back"),
    ):
        if metrics[metric]:
            found.append(f"{metrics[metric]} {text}")
    return found


def missed(metrics: Mapping[str, Any]) -> list[str]:
    """Those of the failures that are targets missed; the rest make the run's figures doubtful."""
    return failures({name: value if name in TARGETS else 0 for name, value in metrics.items()})


def metrics_of(samples: Samples, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The metrics of samples in memory. See `compute`."""
    tasks = samples.tasks
    found: dict[str, Any] = dict.fromkeys(RUN_METRICS)
    found |= tct_metrics(tasks.tct_ms[tasks.complete])
    if spec["client"]["interval_ms"]:
        found |= {"start_lag_mean_ms": tasks.lag_ms.mean(), "start_lag_max_ms": tasks.lag_ms.max()}
    if of_several_sizes(tasks):
        found["tctpb_mean_ms_per_kb"] = (tasks.tct_ms / (tasks.bytes / 1e3))[tasks.complete].mean()
    found["failed_tasks"] = int(np.count_nonzero(~tasks.complete))
    found["tasks_below_rtt"] = 0
    found["missing_tasks"] = max(0, spec["client"]["requests"] - len(tasks.number))
    found["events_out_of_order"] = samples.out_of_order
    if len(spec["paths"]) > 1:
        found["switches"] = int(np.count_nonzero(tasks.switched))
        found["switches_cold"] = int(np.count_nonzero(tasks.switched & tasks.cold))
        found["moves"] = int(np.count_nonzero(tasks.moved))
    for index, path in enumerate(spec["paths"]):
        here = tasks.path == index
        found[f"tasks_on_{path['name']}"] = int(np.count_nonzero(here))
        found[f"bytes_on_{path['name']}"] = int(tasks.bytes[here].sum())
    if choosing(spec):
        if samples.truth is not None:
            found |= choice_metrics(tasks, samples.truth, spec)
            if not lossy(spec):
                found |= migration_metrics(tasks, samples.truth, spec)
        found["regret_eq22"] = regret_eq22(tasks, spec["client"].get("weight_a", 0.8))
    found |= handover_metrics(samples, spec)
    if samples.cid is not None:
        found |= {f"cid_{name}": int(samples.cid[name]) for name in ("wanted", "peer_limit", "usable")}
        found["migration_allowed"] = int(bool(samples.cid["migration_allowed"]))
    if not spec["client"]["interval_ms"]:
        found |= transfer_metrics(tasks, spec["client"]["parallel"])
        found |= window_metrics(samples, spec)
    found["window_promised_peak_bytes"] = samples.promised_peak_bytes
    found |= decisions.percentages([samples.decisions])
    return {name: rounded(value) for name, value in found.items()}


def lossy(spec: Mapping[str, Any]) -> bool:
    """Whether a path loses packets at any time."""
    return any(each.get(key) for each in [*spec["paths"], *spec["changes"]] for key in LOSSES)


def tct_metrics(tct_ms: np.ndarray) -> dict[str, float]:
    """Figures of the completion times of complete tasks; the variance is over n - 1."""
    if not len(tct_ms):
        return {}
    p50, p95 = np.quantile(tct_ms, (0.5, 0.95))
    return {
        "tct_mean_ms": tct_ms.mean(),
        "tct_var_ms2": tct_ms.var(ddof=1) if len(tct_ms) > 1 else 0.0,
        "tct_p50_ms": p50,
        "tct_p95_ms": p95,
        "tct_max_ms": tct_ms.max(),
    }


def at_best(tasks: Tasks, truth: Truth) -> np.ndarray:
    """Whether each task was on a path as good as the best of its round; with several sizes, for its size."""
    if not of_several_sizes(tasks):
        return truth.best[tasks.round, tasks.path]
    expected_ms = expected_by_path_ms(tasks, truth)
    return expected_ms[np.arange(len(tasks.path)), tasks.path] <= expected_ms.min(axis=1) + 1e-9


def of_several_sizes(tasks: Tasks) -> bool:
    """Whether the complete tasks differ in size."""
    return len(np.unique(tasks.bytes[tasks.complete])) > 1


def expected_by_path_ms(tasks: Tasks, truth: Truth) -> np.ndarray:
    """By task and path: mean RTT and the bytes at the path's rate, ms."""
    return truth.mean_ms[tasks.round] + tasks.bytes[:, np.newaxis] * 8 / (truth.rate_mbit_s * 1e3)


def beyond_rtt_ms(tasks: Tasks, truth: Truth) -> np.ndarray:
    """Time of each task beyond its round's RTT; NaN where it is no measurement of its path."""
    beyond_ms = tasks.tct_ms - truth.rtt_ms[tasks.round, tasks.path]
    return np.where(tasks.complete & ~tasks.moved, beyond_ms, np.nan)


def regrets_ms(tasks: Tasks, truth: Truth) -> np.ndarray:
    """Each task's completion time less the expected time of its round's best path; 0 for those not complete.

    The best path's time comes from the lab's settings alone: mean RTT and the bytes at the path's rate. A baseline from
    the run's own tasks would forgive a variant that is slow on the best path too.
    """
    expected_ms = expected_by_path_ms(tasks, truth)
    if not of_several_sizes(tasks):
        expected_ms = np.where(truth.best[tasks.round], expected_ms, np.inf)
    return np.where(tasks.complete, tasks.tct_ms - expected_ms.min(axis=1), 0.0)


def pseudo_regrets_ms(tasks: Tasks, truth: Truth) -> np.ndarray:
    """Each task's path's mean RTT less the best path's; with several sizes, with the bytes at the paths' rates."""
    if of_several_sizes(tasks):
        expected_ms = expected_by_path_ms(tasks, truth)
        return expected_ms[np.arange(len(tasks.path)), tasks.path] - expected_ms.min(axis=1)
    best_ms = np.where(truth.best, truth.mean_ms, np.inf).min(axis=1)
    return truth.mean_ms[tasks.round, tasks.path] - best_ms[tasks.round]


def regret_eq22(tasks: Tasks, weight_a: float) -> float | None:
    """Tan Eq. 22 to the letter, with b = 1 - a; None if nothing was complete."""
    tct_ms = tasks.tct_ms[tasks.complete]
    if not len(tct_ms):
        return None
    by_path = (tasks.tct_ms[tasks.complete & (tasks.path == path)] for path in np.unique(tasks.path))
    variances = [each.var(ddof=1) for each in by_path if len(each) > 1]
    spread_ms2 = tct_ms.var(ddof=1) - min(variances) if variances else 0.0
    return weight_a * (tct_ms.sum() - len(tct_ms) * tct_ms.min()) + (1 - weight_a) * spread_ms2


def choice_metrics(tasks: Tasks, truth: Truth, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Share of choices of the best path, the cost of the others, and whether the lab's delays were where they should
    be."""
    found: dict[str, Any] = {
        "best_path_rate": at_best(tasks, truth).mean(),
        "regret_ms": regrets_ms(tasks, truth).sum(),
        "pseudo_regret_ms": pseudo_regrets_ms(tasks, truth).sum(),
    }
    by_round = np.array([path.get("draw", "round") == "round" for path in spec["paths"]])
    # A task that is under way when the round ends may have had part of its way in the next one.
    within = tasks.start_us / 1e3 + tasks.tct_ms < (tasks.round + 1) * spec["client"]["interval_ms"] - 1
    below = beyond_rtt_ms(tasks, truth) < -BELOW_RTT_MS
    found["tasks_below_rtt"] = int(np.count_nonzero(below & within & by_round[tasks.path]))
    return found


def migration_metrics(tasks: Tasks, truth: Truth, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Cost of a change of path to the task that begins with it."""
    beyond_ms = beyond_rtt_ms(tasks, truth)
    extra = np.full(len(beyond_ms), np.nan)
    for index, path in enumerate(spec["paths"]):
        here = tasks.path == index
        sending_ms = tasks.bytes * 8 / (path["rate_mbit_s"] * 1e3)
        steady_ms = np.where(here & ~tasks.switched, beyond_ms, np.nan)
        usual_ms = np.where(np.isnan(steady_ms).all(), sending_ms, _median(steady_ms, 0.0))
        first = here & tasks.switched
        extra[first] = ((beyond_ms - usual_ms) / truth.rtt_ms[tasks.round, tasks.path])[first]
    found: dict[str, Any] = {}
    for name, chosen in (
        ("extra_rtts_per_migration", np.ones(len(extra), bool)),
        ("extra_rtts_validated", ~tasks.cold),
        ("extra_rtts_cold", tasks.cold),
    ):
        values = extra[chosen & ~np.isnan(extra)]
        if len(values):
            found[name] = values.mean()
    known = extra[~np.isnan(extra)]
    if len(known):
        found["extra_rtts_per_migration_median"] = np.median(known)
    return found


def handover_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, float]:
    """The longest silence at a change of a path that was in use, and when another path took over."""
    found: dict[str, float] = {}
    for change in samples.changes:
        gap = silence(samples, change)
        if gap is None:
            continue
        begin_us, end_us = gap
        if (end_us - begin_us) / 1e3 <= found.get("stall_ms", 0.0):
            continue
        found = {"stall_ms": (end_us - begin_us) / 1e3}
        took_us = [event["t_us"] for event in samples.path_events if event["event"] == "switched"]
        took_us = [t_us for t_us in took_us if change["at_s"] * 1e6 <= t_us <= end_us]
        heard_us, rtt_ms = last_heard(samples, min([*took_us, end_us]))
        path_rtt_ms = next(each["rtt_ms"] for each in spec["paths"] if each["name"] == change["path"])
        pto_ms = max(rtt_ms, path_rtt_ms) + PTO_LEAST_MS
        found["stall_pto"] = found["stall_ms"] / pto_ms
        if took_us and heard_us is not None:
            found["takeover_ms"] = (took_us[0] - heard_us) / 1e3
            found["takeover_pto"] = found["takeover_ms"] / pto_ms
    return found


def last_heard(samples: Samples, until_us: float) -> tuple[float | None, float]:
    """When the client last received a packet before `until_us`, and its smoothed RTT then; None and 0 if never."""
    t_us, packets = samples.heard
    grew = np.flatnonzero((np.diff(packets, prepend=0) > 0) & (t_us <= until_us))
    return (float(t_us[grew[-1]]), float(samples.rtt_ms[grew[-1]])) if len(grew) else (None, 0.0)


def silence(samples: Samples, change: Mapping[str, Any]) -> tuple[float, float] | None:
    """The longest time without a byte, within a task, that holds a change's moment or begins in the second after it.

    None unless the link went down or silent then, or if nobody was receiving.
    """
    if change["what"].startswith("as before") or not re.search(r"link = (down|silent)", change["what"]):
        return None
    t_us, received = samples.received
    if len(t_us) < 2:
        return None
    grew = np.flatnonzero(np.diff(received) > 0)
    # Bytes stood at a value from the sample that first had it to the one that had more.
    ends_us, begins_us = t_us[grew + 1][1:], t_us[grew + 1][:-1]
    change_us = change["at_s"] * 1e6
    tasks = samples.tasks
    stops_us = tasks.start_us + np.where(tasks.complete, tasks.tct_ms * 1e3, np.inf)
    within = [
        bool(np.any((tasks.start_us <= begin_us) & (end_us <= stops_us + LATE_US)))
        for begin_us, end_us in zip(begins_us, ends_us, strict=True)
    ]
    chosen = np.array(within, bool) & (ends_us > change_us) & (begins_us < change_us + 1e6)
    if not chosen.any():
        return None
    index = np.flatnonzero(chosen)[np.argmax((ends_us - begins_us)[chosen])]
    return float(begins_us[index]), float(ends_us[index])


def transfer_metrics(tasks: Tasks, parallel: int) -> dict[str, float]:
    """Transfer time and goodput of tasks without a pause; none if one failed, as the others had its share."""
    if not tasks.complete.all():
        return {}
    whole_s = float((tasks.start_us + tasks.tct_ms * 1e3).max() - tasks.start_us.min()) / 1e6
    each_s = float(tasks.tct_ms.mean()) / 1e3
    return {
        "transfer_time_mean_s": whole_s if parallel > 1 else each_s,
        "stream_time_mean_s": each_s,
        "goodput_mbit_s": float(tasks.bytes.sum()) * 8 / (whole_s * 1e6),
    }


def window_metrics(samples: Samples, spec: Mapping[str, Any]) -> dict[str, float]:
    """Time until the receive windows were open, counted from the first task's start."""
    streams = {key: course for key, course in samples.windows.items() if key[1] is not None}
    if not streams:
        return {}
    client, path = spec["client"], spec["paths"][0]
    begin_us = float(samples.tasks.start_us.min())
    found: dict[str, float] = {}
    asked_bytes = min(WINDOW_ASKED_BYTES, client["max_stream_window_bytes"])
    reached_us = [t_us[sizes >= asked_bytes][0] for t_us, sizes in streams.values() if (sizes >= asked_bytes).any()]
    if client["stream_window_bytes"] >= asked_bytes:
        found["time_to_window_s"] = 0.0
    elif reached_us:
        found["time_to_window_s"] = max(0.0, min(reached_us) - begin_us) / 1e6
    pipe_bytes = path["rate_mbit_s"] * path["rtt_ms"] * 1e3 / 8
    t_us, open_bytes = open_windows(samples, spec)
    if (open_bytes >= pipe_bytes).any() and path["rtt_ms"]:
        full_us = max(0.0, t_us[open_bytes >= pipe_bytes][0] - begin_us)
        found["full_pipe_rtts"] = full_us / (path["rtt_ms"] * 1e3)
    return found


def open_windows(samples: Samples, spec: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """At each update, the bytes that the windows allow in flight: the streams' sum, or the connection's window if
    less."""
    client = spec["client"]
    now: dict[Any, float] = {}
    conn: dict[Any, float] = {}
    steps = sorted(
        (t, flow, -1 if stream is None else stream, size)
        for (flow, stream), course in samples.windows.items()
        for t, size in zip(*course, strict=True)
    )
    found_t, found_bytes = [], []
    for t, flow, stream, size in steps:
        if stream == -1:
            conn[flow] = size
        else:
            now[flow, stream] = size
        total = 0.0
        for each in {key[0] for key in now} | set(conn):
            sizes = [value for key, value in now.items() if key[0] == each]
            unopened = max(0, min(client["parallel"], client["requests"]) - len(sizes))
            streams = sum(sizes) + unopened * client["stream_window_bytes"]
            total += min(streams, conn.get(each, client["conn_window_bytes"]))
        found_t.append(t)
        found_bytes.append(total)
    return np.array(found_t), np.array(found_bytes)


def _median(values: np.ndarray, otherwise: float) -> float:
    """Median of the values that are not NaN; `otherwise` if nothing is."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else otherwise
