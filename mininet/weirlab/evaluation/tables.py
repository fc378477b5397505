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
from weirlab.evaluation.shared.rows import BULK_GOODPUT, RunRow, Setting
from weirlab.scenario.model import Scenario
from weirlab.store.documents import ResultsError
from weirlab.topologies.dumbbell.samples import RESPONSIVE
from weirlab.topologies.dumbbell.step_response import steps_of

# Of each run's figures, what the tables hold, as shell patterns; what no run of a group has is left out.
COLUMNS = (
    "goodput_total_mbit_s", "goodput_group_*", "utilisation_percent", "jain_index",
    "queue_delay_mean_ms", "queue_delay_sd_ms", "queue_delay_p50_ms", "queue_delay_p95_ms", "queue_delay_p99_ms",
    "queue_delay_bulk_p99_ms", "queue_delay_max_ms", "queue_delay_excess_ms", "rtt_mean_ms", "rtt_p95_ms",
    "loss_percent", "drops_aqm_packets",
    "drops_limit_packets", "drops_qdisc_packets", "link_lost_packets", "marks_packets", "rx_packets",
    "settled_share", "step_*_settling_s", "step_*_overshoot_ms", "fct_*", "spectral_peak_*", "decisions_count",
    "throughput_mbit_s", "wire_mbit_s", "jain_after_10s_index", "jain_*_s_index", "convergence_s", "neighbour_*",
    "alone_*", "completion_*", "decisions_outside_percent", "delay_outside_percent", "capacity_*",
    "goodput_of_capacity_percent", "return_*", "voice_*", "game_*", "ping_*",
)  # fmt: skip
NO_RUNS = ("ranking.csv", "digests.csv")  # files beside the tables that are made of them, or of the runs
HEAD = ("scenario", "variant", "seed")
CURVES_HEAD = ("scenario", "variant", "setting", "seed")  # of a suite that runs a variant at several settings
DROPS = ("drops_aqm_packets", "drops_limit_packets", "drops_qdisc_packets")


NO_SETTING = Setting("", 0)


@dataclass(frozen=True)
class Batch:
    """A folder's runs; `name` is that of a folder in the first one, whose own is empty."""

    name: str
    rows: tuple[RunRow, ...]


def text_of(rows: Iterable[RunRow], head: Sequence[str] = HEAD) -> str:
    """A group's table; `head` is HEAD or CURVES_HEAD."""
    rows = sorted(rows, key=lambda row: (row.scenario, row.variant, row.setting or NO_SETTING, row.seed))
    there = {name for row in rows for name, value in row.metrics.items() if value is not None}
    named = [name for pattern in COLUMNS for name in natural(fnmatch.filter(there, pattern))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*head, *named])
    for row in rows:
        own = {"setting": row.setting.text if row.setting else ""}
        own |= {"scenario": row.scenario, "variant": row.variant, "seed": str(row.seed)}
        writer.writerow([*(own[name] for name in head), *(cell(row.metrics.get(name)) for name in named)])
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
        names = [path for path in sorted(place.glob("*.csv")) if path.name not in NO_RUNS]
        rows = [row for path in names for row in rows_of(path, plan, number)]
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
    head = head_of(plan)
    reader = csv.reader(io.StringIO(text), strict=True)
    rows: list[RunRow] = []
    seen: set[tuple[str, str, Setting | None, int]] = set()
    try:
        heads = next(reader, [])
        unknown = [name for name in heads[len(head) :] if not any(fnmatch.fnmatchcase(name, p) for p in COLUMNS)]
        if tuple(heads[: len(head)]) != head or unknown or len(set(heads)) != len(heads):
            raise ResultsError(f"{where}:1: the columns are not {', '.join(head)} and figures of a run, each once")
        for cells in reader:
            row = _row(heads, cells, scenarios, plan, group, batch, f"{where}:{reader.line_num}")
            if (key := (row.scenario, row.variant, row.setting, row.seed)) in seen:
                raise ResultsError(f"{where}:{reader.line_num}: {'/'.join(cells[: len(head)])} is there twice")
            seen.add(key)
            rows.append(row)
    except csv.Error as error:
        raise ResultsError(f"{where}:{reader.line_num}: not CSV: {error}") from None
    return rows


def head_of(plan: Plan) -> tuple[str, ...]:
    """The columns before the figures."""
    return CURVES_HEAD if plan.points else HEAD


def _row(
    heads: Sequence[str],
    cells: Sequence[str],
    scenarios: Mapping[str, Scenario],
    plan: Plan,
    group: str,
    batch: int,
    where: str,
) -> RunRow:
    if len(cells) != len(heads):
        raise ResultsError(f"{where}: {len(cells)} cells under {len(heads)} heads")
    head = head_of(plan)
    own = dict(zip(head, cells, strict=False))
    name, variant, seed = (own[column] for column in HEAD)
    scenario = scenarios.get(name)
    labels = {(point.variant, point.setting.text): label for label, point in plan.points.items()}
    label = labels.get((variant, own["setting"]), "") if plan.points else variant
    if scenario is None or label not in scenario.cases:
        run = "/".join(own[column] for column in head if column != "seed")
        again = "; a control of --stack or --variants has to be named again" if plan.controls else ""
        raise ResultsError(f"{where}: no run {run} in group {group}{again}")
    if not re.fullmatch(r"[0-9]{1,18}", seed):
        raise ResultsError(f"{where}: seed {seed!r} is not a whole number")
    metrics: dict[str, Any] = {}
    for metric, text in zip(heads[len(head) :], cells[len(head) :], strict=True):
        try:
            metrics[metric] = float(text) if text else None
        except ValueError:
            metrics[metric] = math.nan
        if metrics[metric] is not None and not math.isfinite(metrics[metric]):
            raise ResultsError(f"{where}: {metric} is {text!r}; write a number, or nothing")
    setting = plan.points[label].setting if plan.points else None
    return RunRow(name, group, variant, int(seed), metrics | derived(metrics, scenario.cases[label]), batch, setting)


def derived(metrics: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """Metrics that the report shows and the tables leave out, because they follow from the tables and from the
    scenario."""
    found: dict[str, Any] = {}
    drops = [metrics[name] for name in DROPS if metrics.get(name) is not None]
    links, rx, loss = (metrics.get(name) for name in ("link_lost_packets", "rx_packets", "loss_percent"))
    if links is not None and drops:
        found["lost_packets"] = math.fsum(drops) + links
    elif links is not None and rx is not None and loss is not None and loss < 100:
        dropped = (loss / 100 * rx - links) / (1 - loss / 100)  # loss_percent is (dropped + links) / (rx + dropped)
        found["lost_packets"] = round(dropped) + links
    kinds = [flow["kind"] for flow in spec["flows"]]
    bulk = [metrics.get(f"goodput_group_{n}_mbit_s") for n, kind in enumerate(kinds) if kind in RESPONSIVE]
    if "tcp-short" in kinds and (known := [value for value in bulk if value is not None]):
        found[BULK_GOODPUT] = math.fsum(known)
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
    """Rows in the suite's order of scenarios, within each by seed, then by the suite's or scenario's order of variants,
    then by setting."""
    scenarios = [scenario for group in plan.groups for scenario in group.scenarios]
    places = {
        s.name: (i, {v: j for j, v in enumerate(plan.variants if plan.points else s.cases)})
        for i, s in enumerate(scenarios)
    }

    def place(row: RunRow) -> tuple[int, int, int, Setting]:
        number, variants = places[row.scenario]
        return number, row.seed, variants[row.variant], row.setting or NO_SETTING

    return tuple(sorted(rows, key=place))
