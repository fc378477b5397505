# SPDX-License-Identifier: Apache-2.0
"""Figures of one server from the files that `drive.py` leaves: completion times, failures, behaviour."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from weirlab.bench.servers.drive import ALL

COMPLETE = "complete"
TARGET = 1.05
"""Completion time over the best single path's, at most."""
P99 = 99
PATH_LIMITS = ("active_connection_id_limit", "disable_active_migration", "preferred_address")


def lines(file: Path) -> list[dict]:
    """Objects of a file of JSON lines; the last line may be cut short."""
    found = []
    for text in file.read_text().splitlines():
        try:
            found.append(json.loads(text))
        except ValueError:
            break
    return found


def quantile(values: list[float], percent: int) -> float:
    """Smallest value that at least `percent` % of the values do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


def client(folder: Path, name: str, requests: int) -> dict[str, Any]:
    """Figures of a client: `failed` tasks and `failed_connections`, completion times in ms (None without any)."""
    status = int((folder / f"status-{name}").read_text())
    events = lines(folder / f"events-{name}.jsonl")
    tasks = [line for line in events if line["k"] == "task"]
    times_ms = [line["tct_us"] / 1e3 for line in tasks if line["outcome"] == COMPLETE]
    switches = sum(1 for line in tasks if line["switched"])
    moves = sum(1 for line in events if line["k"] == "move")
    paths: dict[str, int] = {}
    for line in tasks:
        paths[line["path"]] = paths.get(line["path"], 0) + 1
    log = next(folder.glob(f"log-*-client-{name}.txt"), None)
    return {
        "status": status,
        "error": log.read_text(errors="replace").strip()[-300:] if log and status else "",
        "failed": requests - len(times_ms),
        "failed_connections": int(status != 0),
        "migrations": switches + moves,
        "tasks_by_path": paths,
        "median_ms": statistics.median(times_ms) if times_ms else None,
        "mean_ms": statistics.fmean(times_ms) if times_ms else None,
        "p99_ms": quantile(times_ms, P99) if times_ms else None,
    }


def load(folder: Path, spec: dict, one: dict) -> dict[str, Any]:
    """Figures of a load: all paths, each path alone, the best of these by its median, and the ratios over it."""
    names = [path["name"] for path in spec["paths"]]
    found = {name: client(folder, f"{one['bytes']}-{name}", one["requests"]) for name in (ALL, *names)}
    usable = [name for name in names if not found[name]["failed"]]
    row: dict[str, Any] = {"bytes": one["bytes"], "requests": one["requests"], "clients": found, "best": None}
    if usable and found[ALL]["median_ms"] is not None:
        best = min(usable, key=lambda name: found[name]["median_ms"])
        row["best"] = best
        for figure in ("median", "mean", "p99"):
            row[f"{figure}_ratio"] = found[ALL][f"{figure}_ms"] / found[best][f"{figure}_ms"]
    return row


def parameters(folder: Path) -> dict[str, Any]:
    """The server's transport parameters that concern paths, as the client's qlog has them."""
    for file in sorted((folder / "qlog").glob("*.sqlog")):
        for text in file.read_text().replace("\x1e", "").splitlines():
            event = json.loads(text) if text.strip() else {}
            data = event.get("data", {})
            remote = "remote" in (data.get("owner"), data.get("initiator"))
            if event.get("name", "").endswith("parameters_set") and remote and "initial_max_data" in data:
                return {name: data[name] for name in PATH_LIMITS if name in data}
    return {}


def behaviour(folder: Path, spec: dict) -> dict[str, Any]:
    """Behaviour of the server in the run over all paths: connection IDs, permission to migrate, answers elsewhere."""
    events = lines(folder / f"events-{spec['loads'][0]['bytes']}-{ALL}.jsonl")
    cid = next((line for line in events if line["k"] == "cid"), {})
    return {
        **{key: cid.get(key) for key in ("migration_allowed", "peer_limit", "usable", "wanted")},
        "answers_elsewhere": sum(1 for line in events if line["k"] == "answers-elsewhere"),
        **parameters(folder),
    }


def server(folder: Path, spec: dict) -> dict[str, Any]:
    """All figures of a run."""
    return {"loads": [load(folder, spec, one) for one in spec["loads"]], "behaviour": behaviour(folder, spec)}
