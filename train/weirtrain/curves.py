# SPDX-License-Identifier: Apache-2.0
"""The curves of a training: a CSV, and a page with plots."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

Rows = Sequence[dict[str, float]]
FIRST = ("update", "steps")
FEW = 30
# Column, and what a plot of it is called.
PLOTS = {
    "reward": "Reward of an interval (Eq. 3), mean",
    "throughput_mbit_s": "Delivery rate of a connection, mean, Mbit/s",
    "share": "Delivery rate over the fair share of the link, mean",
    "rtt_mean_ms": "Round-trip time, mean, ms",
    "loss_percent": "Bytes lost, mean over intervals, %",
    "entropy": "Entropy of the action, nats",
    "kl": "KL divergence from the policy before, nats",
    "clipped_share": "Share of steps whose ratio is clipped",
    "value_loss": "Value loss: mean square of the critic's error",
}


COLUMNS = (*FIRST, *PLOTS)
VALIDATION_COLUMNS = ("update", "score", "share", "rtt_mean_ms", "loss_percent")


def as_csv(rows: Rows, names: Sequence[str]) -> str:
    """A line for each update or validation."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([[f"{row[name]:g}" if name in FIRST else repr(row[name]) for name in names] for row in rows])
    return out.getvalue()


def page(rows: Rows, validations: Rows, facts: dict[str, Any]) -> str:
    """An HTML page. `facts` has `title`, `description` and `Settings`, a profile's."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    from weirlab.report import html, plots
    from weirlab.report.model import Block, Figure, Report, Section, table

    parts: list[Block] = []
    with pyplot.rc_context(plots.STYLE):
        if validations:
            title = "Reward without noise in episodes that are not learnt from; the best is the result"
            figure, ax = pyplot.subplots(figsize=(7, 2.2))
            ax.plot([row["update"] for row in validations], [row["score"] for row in validations],
                    color=plots.STAND_INS["ink"], marker=".")  # fmt: skip
            ax.set_xlabel("updates")
            ax.set_title(title)
            parts.append(Figure(title, svg=plots.svg(figure, "validation", title)))
            pyplot.close(figure)
        for name, title in PLOTS.items():
            figure, ax = pyplot.subplots(figsize=(7, 2.2))
            steps, values = [row["steps"] for row in rows], [row[name] for row in rows]
            # The first updates are points too: one alone would make no line.
            ax.plot(steps, values, color=plots.STAND_INS["ink"], marker="." if len(rows) < FEW else "")
            ax.set_xlabel("decisions learnt from")
            ax.ticklabel_format(axis="y", scilimits=(-1, 4))  # the page keeps two decimals of a label
            ax.set_title(title)
            parts.append(Figure(title, svg=plots.svg(figure, name.replace("_", "-"), title)))
            pyplot.close(figure)
    parts.append(Section("Settings", [table(["Setting", "value"], settings(facts["Settings"]))]))
    return html.render(Report(facts["title"], parts, facts["description"]))


def settings(found: dict[str, Any], group: str = "") -> list[tuple[str, str]]:
    """A row for each setting, by its name in Profile.changed."""
    rows = []
    for name, value in found.items():
        if isinstance(value, dict) and value:
            rows += settings(value, f"{group}{name}.")
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
            rows.append((group + name, text))
    return rows
