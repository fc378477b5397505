# SPDX-License-Identifier: Apache-2.0
"""Paced flows (voice, games) in tables: all of a kind together, and each by itself."""

import html
import re

from weirlab.report import markup
from weirlab.report.labels import anywhere, shown
from weirlab.store.folder import Summary
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
        found += [(f"{kind}_{name}", text, unit, decimals) for name, text, unit, decimals in ROWS]
    return tuple(found)


def by_flow(summary: Summary) -> str:
    """Every paced flow's own figures, folded; empty if there is none."""
    found = []
    for kind in PACED_KINDS:
        if not anywhere(summary, f"{kind}_packets"):
            continue
        heads = [f"{text}, {unit}" if unit else text for _, text, unit, _ in ROWS]
        rows = []
        for label, estimates in summary.variants.items():
            each = re.compile(rf"{kind}_(\d+\.\d+)_packets")
            for flow in [match[1] for name in estimates if (match := each.fullmatch(name))]:
                cells = [(shown(estimates[f"{kind}_{flow}_{name}"], decimals), "") for name, _, _, decimals in ROWS]
                rows.append((f"{label}, flow {flow}", cells))
        text = html.escape(f"Every {kind} flow by itself (flows are GROUP.INDEX, counted from 0)")
        table = markup.plain_table("variant, flow", heads, rows)
        found.append(f"<details><summary>{text}</summary>{table}</details>")
    return "".join(found)
