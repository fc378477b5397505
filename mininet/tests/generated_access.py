# SPDX-License-Identifier: Apache-2.0
"""Samples of the topology `access` to test the arithmetic and the report with: made up, nothing was measured."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from weirlab.topologies.access.schedule import Schedule, sizes_of

T0_US = 2_000_000
TABLE_5 = (("cernet", 7.12, 0.446), ("telecom", 6.707, 0.636), ("unicom", 41.004, 6.458), ("mobile", 37.568, 16.756))
CLIENT = {
    "requests": 120,
    "interval_ms": 200.0,
    "bytes": 5000,
    "parallel": 1,
    "strategy": "weir",
    "model": "lognormal",
    "memory_tasks": 100,
    "weight_a": 0.8,
    "epsilon": 0.05,
    "explore_c": "adaptive",
    "standby": "validated",
    "aggregate": "never",
    "window": "double",
    "stream_window_bytes": 1 << 20,
    "max_stream_window_bytes": 16 << 20,
    "conn_window_bytes": 1536 << 10,
    "max_conn_window_bytes": 24 << 20,
    "memory_budget_bytes": 64 << 20,
}


def path(name: str, rtt_ms: float, rtt_sd_ms: float = 0.0, rate_mbit_s: float = 100.0, **more: Any) -> dict[str, Any]:
    given = {"name": name, "rtt_ms": rtt_ms, "rtt_sd_ms": rtt_sd_ms, "rate_mbit_s": rate_mbit_s, "loss_percent": 0.0}
    return {**given, "rtt_min_ms": 0.0, "draw": "round", "loss_up_percent": 0.0, "queue_limit_packets": 1000, **more}


def spec(paths: Sequence[dict[str, Any]] = (), variant: str = "weir", seed: int = 1, **client: Any) -> dict[str, Any]:
    return {
        "scenario": "made-up",
        "variant": variant,
        "topology": "access",
        "duration_s": 300.0,
        "paths": list(paths) or [path(*each) for each in TABLE_5],
        "server": {"cc": "cubic", "initial_window_packets": 10},
        "client": {**CLIENT, **client},
        "changes": [],
        "seed": seed,
    }


def task(number: int, name: str, tct_ms: float, interval_ms: float = 200.0, **more: Any) -> dict[str, Any]:
    start_us = T0_US + round(number * interval_ms * 1e3)
    given = {"k": "task", "t_us": start_us + round(tct_ms * 1e3), "flow": 0, "task": number, "path": name}
    given |= {"start_us": start_us, "tct_us": round(tct_ms * 1e3), "bytes": 5000, "outcome": "complete"}
    return {**given, "switched": False, "cold": False, **more}


def truth(number: int, name: str, rtt_ms: float, mean_ms: float) -> dict[str, Any]:
    return {"k": "truth", "round": number, "path": name, "rtt_ms": rtt_ms, "mean_ms": mean_ms}


def drawn(run: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """RTT of each path in each round, and which path is the best, from the schedule that the lab follows."""
    names = [each["name"] for each in run["paths"]]
    rtt_ms = np.full((run["client"]["requests"], len(names)), np.nan)
    best = np.zeros(len(rtt_ms), int)
    for line in Schedule(run).truth():
        if line["k"] == "truth":
            rtt_ms[line["round"] :, names.index(line["path"])] = line["rtt_ms"]
        elif line["k"] == "best":
            best[line["round"] :] = names.index(line["path"])
    return rtt_ms, best


def choices(strategy: str, paths: int, best: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Chosen path of a strategy in each round, roughly."""
    rounds = len(best)
    explored = np.arange(rounds) % paths
    match strategy:
        case "polling":
            return explored
        case "best-single":
            return np.zeros(rounds, int)
        case "oracle":
            return best
        case "epsilon-greedy":
            chosen = np.where(rng.random(rounds) < 0.05, rng.integers(0, paths, rounds), best)
        case _:
            chosen = np.where(rng.random(rounds) < 0.5 / np.sqrt(1 + np.arange(rounds)), explored, best)
    chosen[:paths] = explored[:paths]
    return chosen


def lines(run: dict[str, Any]) -> list[dict[str, Any]]:
    """A run of short tasks over several paths; the delays depend on the seed alone."""
    client, paths = run["client"], run["paths"]
    own = np.random.default_rng([run["seed"], *run["variant"].encode()])
    rtt_ms, best = drawn(run)
    limits = {"wanted": len(paths) + 1, "peer_limit": 8, "own_limit": 8, "usable": 8, "migration_allowed": True}
    found: list[dict[str, Any]] = [
        {"k": "start", "t_us": T0_US},
        *Schedule(run).truth(),
        {"k": "cid", "t_us": T0_US - 90_000, "flow": 0, **limits},
    ]
    received, before = 0, None
    for number, chosen in enumerate(choices(client["strategy"], len(paths), best, own)):
        name, switched = paths[chosen]["name"], before is not None and bool(before != chosen)
        tct_ms = float(rtt_ms[number, chosen] + 0.45 + own.uniform(0, 0.02))
        cold = switched and client["standby"] == "cold"
        tct_ms += cold * rtt_ms[number, chosen]
        done = task(number, name, tct_ms, client["interval_ms"], switched=switched, cold=cold)
        choice = {"k": "choice", "t_us": done["start_us"], "flow": 0, "task": number, "path": name}
        found.append({**choice, "reason": "index", "index": {p["name"]: p["rtt_ms"] for p in paths}})
        if switched:
            event = {"k": "path", "t_us": done["start_us"], "flow": 0, "path": name, "event": "switched"}
            found.append({**event, "rtt_us": None})
        found.append(done)
        received += sizes_of(client)[number % len(sizes_of(client))]
        found.append({"k": "flow", "t_us": done["t_us"], "side": "client", "flow": 0, "bytes": received})
        before = chosen
    return found


def download(run: dict[str, Any]) -> list[dict[str, Any]]:
    """One long transfer per stream over the first path: its windows double (or grow eightfold) once every RTT."""
    client, way = run["client"], run["paths"][0]
    rng = np.random.default_rng(run["seed"])
    factor = {"static": 1, "double": 2, "fast": 8, "weir": 16}[client["window"]]
    found: list[dict[str, Any]] = [{"k": "start", "t_us": T0_US}, truth(0, way["name"], way["rtt_ms"], way["rtt_ms"])]
    streams, rtt_us = client["parallel"], way["rtt_ms"] * 1e3
    window, received, t_us, peak = client["stream_window_bytes"], 0.0, float(T0_US), 0.0
    total = client["bytes"] * streams
    while received < total:
        t_us += rtt_us * rng.uniform(1.0, 1.05)
        received = min(total, received + min(window * streams, way["rate_mbit_s"] * rtt_us / 8))
        found.append({"k": "flow", "t_us": round(t_us), "side": "client", "flow": 0, "bytes": round(received)})
        window = min(window * factor, client["max_stream_window_bytes"])
        promised = window * streams
        peak = max(peak, promised)
        update = {"k": "window", "t_us": round(t_us), "flow": 0, "promised_bytes": window}
        for stream in range(streams):
            line = {"stream": 4 * stream, "window_bytes": window, "received_bytes": round(received / streams)}
            found.append({**update, **line})
        found.append({**update, "stream": None, "window_bytes": 2 * promised, "received_bytes": round(received)})
        told = {"promised_bytes": promised, "peak_bytes": peak, "budget_bytes": client["memory_budget_bytes"]}
        found.append({"k": "promised", "t_us": round(t_us), "flow": None, **told})
    for number in range(streams):
        tct_ms = (t_us - T0_US) / 1e3
        found.append({**task(number, way["name"], tct_ms, 0.0), "bytes": client["bytes"]})
    return found


def handover(run: dict[str, Any], down_s: float = 2.0, stall_ms: float = 180.0) -> list[dict[str, Any]]:
    """One download whose first path dies; `stall_ms` without a byte, the other path from 60 % of that on."""
    first, second = (each["name"] for each in run["paths"])
    down_us = T0_US + round(down_s * 1e6)
    found: list[dict[str, Any]] = [
        {"k": "start", "t_us": T0_US},
        {"k": "change", "round": 0, "path": first, "at_s": down_s, "what": "link = down"},
        *(truth(0, each["name"], each["rtt_ms"], each["rtt_ms"]) for each in run["paths"]),
    ]
    received, t_us = 0, T0_US
    while received < run["client"]["bytes"]:
        resumed_us = down_us + stall_ms * 1e3
        t_us += 10_000
        if down_us < t_us < resumed_us:
            t_us = round(resumed_us)
            for name, event, share in ((first, "lost", 0.5), (second, "switched", 0.6)):
                at_us = round(down_us + share * stall_ms * 1e3)
                line = {"k": "path", "t_us": at_us, "flow": 0, "path": name, "event": event}
                found.append({**line, "rtt_us": None})
        received += 50_000
        told = {"bytes": received, "recv": received // 1000, "rtt_us": 34_000}
        found.append({"k": "flow", "t_us": t_us, "side": "client", "flow": 0, **told})
    done = task(0, first, (t_us - T0_US) / 1e3, 0.0)
    found.append({**done, "bytes": run["client"]["bytes"], "moved_to": second})
    for number in range(1, run["client"]["requests"]):
        start_us, t_us = t_us, t_us + 4_000_000
        received += run["client"]["bytes"]
        found.append({"k": "flow", "t_us": t_us, "side": "client", "flow": 0, "bytes": received})
        told = {"start_us": start_us, "t_us": t_us, "bytes": run["client"]["bytes"]}
        found.append({**task(number, second, 4000.0, 0.0), **told})
    return found
