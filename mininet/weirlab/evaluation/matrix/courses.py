# SPDX-License-Identifier: Apache-2.0
"""Runs over time, as Fig. 6 to 15 of Cao et al. have them: goodput, queue delay, round trips, losses, received packets.

A course is small and plain, so that it can be kept beside a run's figures: lists by the second, None where nothing was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from weirlab.evaluation.shared.styles import mark, png_colour
from weirlab.report.plots import log_ticks, mean_over_rows, png, png_style
from weirlab.topologies.dumbbell.hops import QUEUE_UNDER_TEST
from weirlab.topologies.dumbbell.samples import COUNTERS, RECEIVER, RESPONSIVE, Samples, read_samples

BIN_S = 1.0
PANELS = (
    ("goodput_kbit_s", "goodput per endpoint, kbit/s", False),
    ("delay_ms", "queue delay, ms", True),
    ("rtt_ms", "RTT per endpoint, ms", True),
    ("lost_packets", "lost packets, all", False),
    ("received_packets", "received packets, all", False),
)
# Variants of each column of panels; pie and auto are in both to compare by.
COLUMNS = (
    ("pie", "auto", "tuned", "paper", "p4-auto"),
    ("pie", "auto", "pfifo", "red", "codel", "fq_pie", "fq_codel", "cake"),
)
DELAY_FLOOR_MS = 0.1
PNG_DPI = 80


def course(samples_path: str | Path, spec: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """One run by the second. Raises SamplesError."""
    return course_of(read_samples(samples_path, spec), spec)


def course_of(samples: Samples, spec: Mapping[str, Any]) -> dict[str, list[float | None]]:
    """The same of samples in memory: `t_s` (middles of the bins), and a list for each of PANELS. Losses and received
    packets are counts from the run's start to the bin's end."""
    edges_s = np.arange(0, spec["duration_s"] + BIN_S / 2, BIN_S)
    packets = samples.packets[QUEUE_UNDER_TEST]
    goodput, rtt_t_s, rtt_ms = [], [], []
    endpoints = sum(flow["count"] for flow in spec["flows"] if flow["kind"] in RESPONSIVE)
    for (group, _, side), end in sorted(samples.flows.items()):
        kind = spec["flows"][group]["kind"]
        if kind not in RESPONSIVE:
            continue
        if side == RECEIVER[kind]:
            received = np.interp(edges_s * 1e6, end.t_us, end.bytes, left=0.0)
            goodput.append(np.diff(received) * 8 / 1e3 / BIN_S)
        else:
            known = end.rtt_us > 0
            rtt_t_s.append(end.t_us[known] / 1e6)
            rtt_ms.append(end.rtt_us[known] / 1e3)
    none = np.array([])
    found = {
        "t_s": (edges_s[:-1] + edges_s[1:]) / 2,
        "goodput_kbit_s": np.sum(goodput, axis=0) / endpoints if goodput else np.full(len(edges_s) - 1, np.nan),
        "delay_ms": _means(packets.t_us / 1e6, packets.delay_us / 1e3, edges_s),
        "rtt_ms": _means(np.concatenate([*rtt_t_s, none]), np.concatenate([*rtt_ms, none]), edges_s),
        "lost_packets": _lost(samples, edges_s[1:], spec.get("sample_one_in", 1)),
        "received_packets": np.searchsorted(packets.t_us / 1e6, edges_s[1:]).astype(float),
    }
    return {name: [None if np.isnan(v) else round(float(v), 3) for v in values] for name, values in found.items()}


def pictures(courses: Mapping[str, Mapping[str, Sequence[Mapping[str, Any]]]]) -> dict[str, bytes]:
    """A PNG for each scenario, from {scenario: {variant: its seeds' courses}}."""
    found = {}
    for scenario, variants in courses.items():
        with mpl.rc_context(png_style()):
            found[scenario] = png(plot(variants), PNG_DPI)
    return found


def plot(variants: Mapping[str, Sequence[Mapping[str, Any]]]) -> Figure:
    """Means over seeds, in a band from the least to the most of them."""
    columns = [[v for v in names if v in variants] for names in COLUMNS]
    figure = Figure(figsize=(10.5, 2.1 * len(PANELS)))
    grid = figure.subplots(len(PANELS), len(columns), sharex=True, sharey="row", squeeze=False)
    for row, (name, label, logarithmic) in zip(grid, PANELS, strict=True):
        for ax, names in zip(row, columns, strict=True):
            for place, variant in enumerate(names):
                runs = [np.array(run[name], dtype=float) for run in variants[variant]]
                t_s = np.array(variants[variant][0]["t_s"])
                mean = mean_over_rows(runs)
                colour = png_colour(variant)
                every = (place, max(1, len(t_s) // 6))
                least, most = (bound.reduce(runs, axis=0) for bound in (np.fmin, np.fmax))
                if logarithmic:
                    least, most, mean = (np.maximum(values, DELAY_FLOOR_MS) for values in (least, most, mean))
                ax.fill_between(t_s, least, most, color=colour, alpha=0.2, lw=0)
                ax.plot(t_s, mean, color=colour, lw=1.4, marker=mark(variant), markersize=5, markevery=every,
                        label=variant)  # fmt: skip
        if logarithmic:
            row[0].set_yscale("log")
            log_ticks(row[0], "y")
        else:
            row[0].set_ylim(bottom=0)
        row[0].set_ylabel(label)
    for ax, names in zip(grid[0], columns, strict=True):
        if names:
            ax.legend(ncols=4, loc="lower left", bbox_to_anchor=(0, 1), handlelength=1.6, columnspacing=1)
    for ax in grid[-1]:
        ax.set_xlabel("time, s")
    return figure


def _means(t_s: np.ndarray, values: np.ndarray, edges_s: np.ndarray) -> np.ndarray:
    """Mean in each bin; NaN where nothing was."""
    counts, _ = np.histogram(t_s, edges_s)
    sums, _ = np.histogram(t_s, edges_s, weights=values)
    return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)


def _lost(samples: Samples, at_s: np.ndarray, one_in: int) -> np.ndarray:
    """Packets dropped by the queue under test or lost by a link until then, the drops by the queue's own counters where
    it has some, else by what never came out of it."""
    total = np.zeros(len(at_s))
    counted = False
    for counter in (name for name in COUNTERS if name != "marks"):
        for kind in ("aqm", "qdisc"):
            states = [s for s in samples.states if s["k"] == kind and s["hop"] == QUEUE_UNDER_TEST and counter in s]
            if states:
                counted = True
                total += np.interp(at_s * 1e6, [s["t_us"] for s in states], [s[counter] for s in states], left=0.0)
    for hop, t_us in samples.lost_t_us.items():
        if hop != QUEUE_UNDER_TEST or not counted:
            weight = 1 if hop == QUEUE_UNDER_TEST else one_in
            total += weight * np.searchsorted(np.sort(t_us) / 1e6, at_s, side="right")
    return total
