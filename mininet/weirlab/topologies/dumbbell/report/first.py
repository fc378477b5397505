# SPDX-License-Identifier: Apache-2.0
"""The first picture of the demo: the queue delay of a few short runs over time, in one plane, as a file of its own."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from weirlab.report.plots import HUES, INKS, LIGHT, PNG_DPI, log_ticks, png, png_style
from weirlab.store.folder import ResultsFolder, Summary, samples_path
from weirlab.topologies.dumbbell.hops import QUEUE_UNDER_TEST
from weirlab.topologies.dumbbell.report.series import read_variants
from weirlab.topologies.dumbbell.samples import Packets, read_samples

BIN_S = 0.1
DELAY_FLOOR_MS = 0.3  # the axis is logarithmic and starts here


def delay_picture(folder: ResultsFolder, summary: Summary, notes: Sequence[str]) -> bytes:
    """A PNG with a line for each variant; `notes` are lines below it."""
    facts = folder.meta["scenario"]
    with mpl.rc_context(png_style()):
        figure = Figure(figsize=(9, 4.6))
        ax = figure.subplots()
        ax.set_title(f"{facts['title']}: how long packets waited in the queue", fontsize=10)
        ax.axvspan(0, facts["warmup_s"], color=INKS["faint"][LIGHT], alpha=0.5, linewidth=0)
        ax.text(facts["warmup_s"] / 2, 0.02, "start", transform=ax.get_xaxis_transform(),
                ha="center", color=INKS["dim"][LIGHT])  # fmt: skip
        for variant in read_variants(folder, summary):
            run = next(iter(variant.runs.values()))
            samples = read_samples(samples_path(folder.run_path(run.variant, run.seed)), variant.spec)
            t_s, delay_ms = means(samples.packets[QUEUE_UNDER_TEST], facts["duration_s"])
            label = f"{variant.label}: mean {run.metrics['queue_delay_mean_ms']:.0f} ms"
            ax.plot(t_s, np.maximum(delay_ms, DELAY_FLOOR_MS), color=HUES[variant.hue][LIGHT], lw=1.8,
                    linestyle=variant.dash, label=label)  # fmt: skip
        ax.set_xlim(0, facts["duration_s"])
        ax.set_yscale("log")
        ax.set_ylim(bottom=DELAY_FLOOR_MS)
        log_ticks(ax, "y")
        ax.set_xlabel("time, s")
        ax.set_ylabel(f"queue delay, ms\n(means over {BIN_S:g} s)")
        figure.legend(loc="outside upper left", ncols=3, handlelength=2.8, fontsize=10)
        figure.supxlabel("\n".join(notes), x=0.01, ha="left", fontsize=8, color=INKS["dim"][LIGHT])
        return png(figure, PNG_DPI)


def means(packets: Packets, duration_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Mean delay of the packets that left in each BIN_S: the bins' middles in s, the means in ms; NaN where none
    left."""
    bins = round(duration_s / BIN_S)
    edges_s = np.linspace(0, bins * BIN_S, bins + 1)
    counts, _ = np.histogram(packets.t_us / 1e6, edges_s)
    sums, _ = np.histogram(packets.t_us / 1e6, edges_s, weights=packets.delay_us / 1e3)
    return (edges_s[:-1] + edges_s[1:]) / 2, np.divide(sums, counts, out=np.full(bins, np.nan), where=counts > 0)
