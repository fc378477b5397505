# SPDX-License-Identifier: Apache-2.0
"""Tables of `./run bench servers` as Markdown, from its JSON."""

from __future__ import annotations

from typing import Any

from weirlab.bench import machine
from weirlab.bench.servers.drive import ALL
from weirlab.bench.servers.figures import TARGET

HEAD = """<!-- SPDX-License-Identifier: Apache-2.0 -->
# Servers of other projects

`weir-client` sends requests over three paths, and over each of them alone, to the same process of a server. The ratios
are its completion times over those on the best single path.

<!-- not run: lab -->
```sh
./run bench servers --page docs/results/servers
```
"""
TRIES = "Mean and p99 include the first tries of the other paths, which begin with a small congestion window."
REPEAT = "Servers that set-up does not build need to be on PATH ([table](../../../mininet/peers/servers.toml))."


def short(row: dict[str, Any]) -> str:
    """A server in one line."""
    said = []
    for load in row["loads"]:
        ratios = "no ratio" if load["best"] is None else f"median {load['median_ratio']:.3f} of {load['best']}"
        said.append(f"{load['bytes']} B: {load['clients'][ALL]['failed']} failed, {ratios}")
    return "; ".join(said)


def size(size_bytes: int) -> str:
    """A size with a unit."""
    return f"{size_bytes // 1_000_000} MB" if size_bytes % 1_000_000 == 0 else f"{size_bytes // 1000} kB"


def milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def paths_line(found: dict[str, Any]) -> str:
    """The network in a sentence."""
    words = [f"{path['rtt_ms']} ms" for path in found["paths"]]
    rates = {path["rate_mbit_s"] for path in found["paths"]}
    loads: list[dict[str, Any]] = next((row["loads"] for row in found["servers"] if "loads" in row), [])
    sizes = " and ".join(f"{load['requests']:,} requests of {size(load['bytes'])}" for load in loads)
    rate = rates.pop() if len(rates) == 1 else sorted(rates)
    return f"Paths: round trips of {', '.join(words)}, {rate} Mbit/s each; {sizes}."


def load_table(found: dict[str, Any], number: int) -> list[str]:
    """Completion times of a load, a row a server."""
    rows = []
    for row in found["servers"]:
        name = f"{row['server']} {row['version']}"
        if "loads" not in row or number >= len(row["loads"]):
            rows.append(f"| {name} | did not run | | | | |")
            continue
        load = row["loads"][number]
        mine, best = load["clients"][ALL], load["clients"].get(load["best"], {})
        times = [f"{milliseconds(one.get('median_ms'))}, {milliseconds(one.get('p99_ms'))}" for one in (mine, best)]
        ratios = ["-"] * 3
        if load["best"]:
            values = [load[f"{figure}_ratio"] for figure in ("median", "mean", "p99")]
            ratios = [f"**{value:.2f}**" if value > TARGET else f"{value:.2f}" for value in values]
        rows.append(f"| {name} | {mine['failed']} | {mine['migrations']} | {' | '.join([*times, ', '.join(ratios)])} |")
    if not rows:
        return []
    requests = next(row["loads"][number] for row in found["servers"] if len(row.get("loads", [])) > number)
    return [
        f"## {requests['requests']:,} requests of {size(requests['bytes'])}",
        "",
        "| server | failed | migrations | three paths: median, p99, ms | best path: median, p99, ms "
        "| ratio: median, mean, p99 |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def behaviour_table(found: dict[str, Any]) -> list[str]:
    """Behaviour of the servers, as the client saw it."""
    rows = []
    for row in found["servers"]:
        seen = row.get("behaviour")
        if seen is None:
            continue
        allowed = {True: "yes", False: "no", None: "-"}[seen["migration_allowed"]]
        preferred = "yes" if seen.get("preferred_address") else "no"
        cells = [allowed, seen["peer_limit"], f"{seen['usable']} of {seen['wanted']}", preferred]
        cells.append("yes" if seen["answers_elsewhere"] else "no")
        rows.append(f"| {row['server']} | {' | '.join(str(cell) for cell in cells)} |")
    return [
        "## Behaviour of the servers",
        "",
        "| server | migration allowed | connection IDs accepted | usable paths | preferred address "
        "| answers on another path |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def tables(found: dict[str, Any]) -> list[str]:
    """All tables, as lines."""
    most = max((len(row.get("loads", [])) for row in found["servers"]), default=0)
    lines = [paths_line(found), f"Bold: above {TARGET}. Failed: of the client on three paths.", TRIES, ""]
    for number in range(most):
        lines += load_table(found, number)
    lines += behaviour_table(found)
    if notes := [f"- {row['server']}: {row['note']}." for row in found["servers"] if row.get("note")]:
        lines += ["## Notes", "", *notes, ""]
    errors = [f"- {row['server']}: {row['error']}" for row in found["servers"] if "error" in row]
    skipped = [f"- {reason}" for reason in found["skipped"]]
    if errors or skipped:
        lines += ["## Not measured", "", *errors, *skipped, ""]
    return lines


def page(found: dict[str, Any]) -> str:
    """The results page."""
    made = f"{machine.line(found['machine'])}. Seed {found['seed']}; virtual time."
    return "\n".join([HEAD, made, REPEAT, *tables(found)])
