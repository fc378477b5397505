# SPDX-License-Identifier: Apache-2.0
"""Paced flows (voice, games) in tables: all of a kind together, and each by itself."""

import re

from weirlab.report.labels import anywhere, shown
from weirlab.report.model import Block, Cell, Column, Folded, Row, Table
from weirlab.store.folder import Summary
from weirlab.topologies.dumbbell.paced import of_kind
from weirlab.topologies.dumbbell.traffic import PACED_KINDS

ROWS: tuple[tuple[str, str, str, int], ...] = (
    ("delay_mean_ms", "one-way delay, mean", "ms", 2),
    ("delay_p50_ms", "median", "ms", 2),
    ("delay_p99_ms", "p99", "ms", 2),
    ("jitter_ms", "jitter (RFC 3550)", "ms", 3),
    ("jitter_p99_ms", "deviation between packets, p99", "ms", 2),
    ("loss_percent", "lost", "%", 2),
    ("loss_run_packets", "longest run of losses", "packets", 0),
)


def paced_rows() -> tuple[tuple[str | None, str, str, int], ...]:
    """The rows of the table of figures, a group for each kind."""
    found: list[tuple[str | None, str, str, int]] = []
    for kind in PACED_KINDS:
        found.append((None, kind.capitalize(), "", 0))
        found += [(f"{kind}_{name}", of_kind(kind, text), unit, decimals) for name, text, unit, decimals in ROWS]
    return tuple(found)


def by_flow(summary: Summary) -> list[Block]:
    """Every paced flow's own figures, folded, for each kind that there is."""
    found: list[Block] = []
    for kind in PACED_KINDS:
        if not anywhere(summary, f"{kind}_packets"):
            continue
        rows = []
        for label, estimates in summary.variants.items():
            each = re.compile(rf"{kind}_(\d+\.\d+)_packets")
            for flow in [match[1] for name in estimates if (match := each.fullmatch(name))]:
                cells = [Cell(shown(estimates[f"{kind}_{flow}_{name}"], decimals)) for name, _, _, decimals in ROWS]
                rows.append(Row(f"{label}, flow {flow}", cells))
        columns = [Column(of_kind(kind, text), unit) for _, text, unit, _ in ROWS]
        summary_text = f"Every {kind} flow by itself (flows are GROUP.INDEX, counted from 0)"
        found.append(Folded(summary_text, [Table(columns, rows, "variant, flow")]))
    return found
