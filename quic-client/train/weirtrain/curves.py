# SPDX-License-Identifier: Apache-2.0
"""The curves of a training: a CSV, and a page with plots."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Sequence
from typing import Any

from weirlab.report import markup

Rows = Sequence[dict[str, float]]
FIRST = ("update", "steps")
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


def as_csv(rows: Rows) -> str:
    """A line for each update."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = [*FIRST, *PLOTS]
    writer.writerow(names)
    writer.writerows([[f"{row[name]:g}" if name in FIRST else repr(row[name]) for name in names] for row in rows])
    return out.getvalue()


def page(rows: Rows, facts: dict[str, Any]) -> str:
    """An HTML page. `facts` has `title`, `description`, and more that is listed."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    from weirlab.report import plots

    parts = markup.heading(facts)
    described = [(name, str(value)) for name, value in facts.items() if name not in ("title", "description")]
    parts += [f"<p>{html.escape(name)}: {html.escape(value)}</p>" for name, value in described]
    with pyplot.rc_context(plots.STYLE):
        for name, title in PLOTS.items():
            figure, ax = pyplot.subplots(figsize=(7, 2.2))
            ax.plot([row["steps"] for row in rows], [row[name] for row in rows], color=plots.STAND_INS["ink"])
            ax.set_xlabel("decisions learnt from")
            ax.set_title(title)
            parts.append(markup.drawing(title, plots.svg(figure, name.replace("_", "-"), title)))
            pyplot.close(figure)
    return markup.document(facts["title"], parts)
