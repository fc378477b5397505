# SPDX-License-Identifier: Apache-2.0
"""The small tables in docs/results/evaluation: one line a run, one file a group of scenarios. They hold all that the
report needs.

A folder holds a batch: what one machine has run by one command. A folder in it holds another batch, run later: some of
the disciplines, and what they are compared with once more.
"""

from __future__ import annotations

import csv
import fnmatch
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weirlab.evaluation.plan import Plan
from weirlab.evaluation.shared.rows import RunRow
from weirlab.scenario.model import Scenario
from weirlab.store.documents import ResultsError
from weirlab.topologies.dumbbell.course import steps_of
from weirlab.topologies.dumbbell.samples import RESPONSIVE

# Of each run's figures, what the tables hold, as shell patterns; what no run of a group has is left out.
COLUMNS = (
    "goodput_total_mbit_s", "goodput_group_*", "utilisation_percent", "jain_index",
    "queue_delay_mean_ms", "queue_delay_sd_ms", "queue_delay_p50_ms", "queue_delay_p95_ms", "queue_delay_p99_ms",
    "queue_delay_max_ms", "queue_delay_excess_ms", "rtt_mean_ms", "rtt_p95_ms", "loss_percent", "drops_aqm_packets",
    "drops_limit_packets", "drops_qdisc_packets", "link_lost_packets", "marks_packets", "rx_packets",
    "settled_share", "step_*_settling_s", "step_*_overshoot_ms", "fct_*", "spectral_peak_*", "decisions_count",
    "delay_outside_percent",
)  # fmt: skip
HEAD = ("scenario", "variant", "seed")
DROPS = ("drops_aqm_packets", "drops_limit_packets", "drops_qdisc_packets")


@dataclass(frozen=True)
class Batch:
    """A folder's runs; `name` is that of a folder in the first one, whose own is empty."""

    name: str
    rows: tuple[RunRow, ...]


def text_of(rows: Iterable[RunRow]) -> str:
    """A group's table."""
    rows = sorted(rows, key=lambda row: (row.scenario, row.variant, row.seed))
    there = {name for row in rows for name, value in row.metrics.items() if value is not None}
    named = [name for pattern in COLUMNS for name in natural(fnmatch.filter(there, pattern))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*HEAD, *named])
    for row in rows:
        writer.writerow([row.scenario, row.variant, row.seed, *(cell(row.metrics.get(name)) for name in named)])
    return out.getvalue()


def natural(names: Iterable[str]) -> list[str]:
    """Sorted, numbers by their value."""
    return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])


def cell(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def batches_in(folder: Path, plan: Plan) -> list[Batch]:
    """The batch in a folder, then those in its folders, by name. Raises ResultsError."""
    if not folder.is_dir():
        raise ResultsError(f"{folder}: no such folder; give one that holds the CSV files of an evaluation")
    places = [folder, *sorted(path for path in folder.iterdir() if path.is_dir() and any(path.glob("*.csv")))]
    found = []
    for number, place in enumerate(places):
        rows = [row for path in sorted(place.glob("*.csv")) for row in rows_of(path, plan, number)]
        if not rows:
            raise ResultsError(f"{place}: no CSV file with a run in it; give the folder that an evaluation has written")
        found.append(Batch("" if number == 0 else place.name, in_order(rows, plan)))
    return found


def rows_of(path: Path, plan: Plan, batch: int = 0) -> list[RunRow]:
    """The runs of a group's table. Raises ResultsError naming file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ResultsError(f"{path}: can't be read: {error}") from None
    return rows_of_text(text, path.stem, plan, str(path), batch)


def rows_of_text(text: str, group: str, plan: Plan, where: str, batch: int = 0) -> list[RunRow]:
    """The same of a table in memory. Raises ResultsError."""
    scenarios = {s.name: s for g in plan.groups if g.name == group for s in g.scenarios}
    if not scenarios:
        raise ResultsError(f"{where}: no group {group!r} in {plan.path}; a file has its group's name")
    reader = csv.reader(io.StringIO(text), strict=True)
    rows: list[RunRow] = []
    seen: set[tuple[str, str, int]] = set()
    try:
        heads = next(reader, [])
        unknown = [name for name in heads[len(HEAD) :] if not any(fnmatch.fnmatchcase(name, p) for p in COLUMNS)]
        if tuple(heads[: len(HEAD)]) != HEAD or unknown or len(set(heads)) != len(heads):
            raise ResultsError(f"{where}:1: the columns are not {', '.join(HEAD)} and figures of a run, each once")
        for cells in reader:
            row = _row(heads, cells, scenarios, group, batch, f"{where}:{reader.line_num}")
            if (key := (row.scenario, row.variant, row.seed)) in seen:
                raise ResultsError(f"{where}:{reader.line_num}: {'/'.join(map(str, key))} is there twice")
            seen.add(key)
            rows.append(row)
    except csv.Error as error:
        raise ResultsError(f"{where}:{reader.line_num}: not CSV: {error}") from None
    return rows


def _row(
    heads: Sequence[str], cells: Sequence[str], scenarios: Mapping[str, Scenario], group: str, batch: int, where: str
) -> RunRow:
    if len(cells) != len(heads):
        raise ResultsError(f"{where}: {len(cells)} cells under {len(heads)} heads")
    name, variant, seed = cells[: len(HEAD)]
    scenario = scenarios.get(name)
    if scenario is None or variant not in scenario.cases:
        raise ResultsError(f"{where}: no run {name}/{variant} in group {group}")
    if not re.fullmatch(r"[0-9]{1,18}", seed):
        raise ResultsError(f"{where}: seed {seed!r} is not a whole number")
    metrics: dict[str, Any] = {}
    for head, text in zip(heads[len(HEAD) :], cells[len(HEAD) :], strict=True):
        try:
            metrics[head] = float(text) if text else None
        except ValueError:
            metrics[head] = math.nan
        if metrics[head] is not None and not math.isfinite(metrics[head]):
            raise ResultsError(f"{where}: {head} is {text!r}; write a number, or nothing")
    spec = scenario.cases[variant]
    return RunRow(name, group, variant, int(seed), metrics | derived(metrics, spec), batch)


def derived(metrics: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """What the report shows and the tables leave out, because it follows from what they hold and from the scenario."""
    found: dict[str, Any] = {}
    drops = [metrics[name] for name in DROPS if metrics.get(name) is not None]
    links, rx, loss = (metrics.get(name) for name in ("link_lost_packets", "rx_packets", "loss_percent"))
    if links is not None and drops:
        found["lost_packets"] = math.fsum(drops) + links
    elif links is not None and rx is not None and loss is not None and loss < 100:
        dropped = (loss / 100 * rx - links) / (1 - loss / 100)  # loss_percent is (dropped + links) / (rx + dropped)
        found["lost_packets"] = round(dropped) + links
    begin_s, end_s = spec["warmup_s"], spec["duration_s"]
    running = {(max(flow["start_s"], begin_s), min(flow["stop_s"], end_s)) for flow in spec["flows"]}
    alike = len(running) == 1 and all(flow["kind"] in RESPONSIVE for flow in spec["flows"])
    if alike and metrics.get("goodput_total_mbit_s") is not None:
        ((first_s, last_s),) = running
        flows = sum(flow["count"] for flow in spec["flows"])
        total_kbit = 1000 * metrics["goodput_total_mbit_s"] * (end_s - begin_s)
        found["goodput_per_flow_mean_kbit_s"] = total_kbit / (last_s - first_s) / flows
    settling, overshoot = (
        [metrics[name] for name in natural(fnmatch.filter(metrics, pattern)) if metrics[name] is not None]
        for pattern in ("step_*_settling_s", "step_*_overshoot_ms")
    )
    if settling:
        found["steps_count"] = len(settling)
        found["settling_mean_s"] = math.fsum(settling) / len(settling)
        found |= {f"step_{n}_at_s": step.at_s for n, step in enumerate(steps_of(spec), start=1) if n <= len(settling)}
    if overshoot:
        found["overshoot_mean_ms"] = math.fsum(overshoot) / len(overshoot)
    return found


def in_order(rows: Iterable[RunRow], plan: Plan) -> tuple[RunRow, ...]:
    """Rows in the matrix's order of scenarios, within each by seed, then by the scenario's order of variants."""
    scenarios = [scenario for group in plan.groups for scenario in group.scenarios]
    places = {s.name: (i, {v: j for j, v in enumerate(s.cases)}) for i, s in enumerate(scenarios)}
    return tuple(sorted(rows, key=lambda r: (places[r.scenario][0], r.seed, places[r.scenario][1][r.variant])))
