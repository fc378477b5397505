# SPDX-License-Identifier: Apache-2.0
"""What happened in the course of a run: requests, upload, stream, the phone's networks, with the events."""

from collections.abc import Callable, Mapping
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weirlab.report.plots import STAND_INS, STYLE, log_ticks, svg
from weirlab.topologies.campus.samples import Course, Samples
from weirlab.topologies.campus.sites import PATHS

BIN_S = 0.5
HUES = {"all": "tuned", "none": "pfifo", "today": "pie"}
OTHER_HUES = ("paper", "codel", "cake", "red", "fq_pie")
SHOWN = ("all", "none", "today")
"""The variants of a timeline, as far as they were run; else the first ones."""
MARKED = {"all": "o", "none": "s", "today": "^"}


def hue_of(label: str, place: int) -> str:
    return STAND_INS[HUES.get(label, OTHER_HUES[place % len(OTHER_HUES)])]


def chosen(labels: list[str]) -> list[str]:
    """Which variants are drawn: more than three hide each other."""
    return [label for label in SHOWN if label in labels] or labels[:3]


def rate_mbit_s(course: Course, end_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Mbit/s in each BIN_S of a run, at the bins' middles."""
    edges_us = np.arange(0, end_s + BIN_S / 2, BIN_S) * 1e6
    times, values = course
    if not len(times):
        return (edges_us[:-1] + BIN_S * 5e5) / 1e6, np.zeros(len(edges_us) - 1)
    at_edges = np.interp(edges_us, times, values, left=0.0)
    return (edges_us[:-1] + BIN_S * 5e5) / 1e6, np.diff(at_edges) * 8 / 1e6 / BIN_S


def timeline(samples: Mapping[str, Samples], spec: Mapping[str, Any]) -> str:
    """The course of one seed's runs, variants over each other; the phone's networks of the first."""
    labels, end_s = chosen(list(samples)), spec["duration_s"]
    panels: list[tuple[str, Callable[[Axes, str, str], None]]] = [
        (
            "completion time of the phone's requests, ms",
            lambda ax, label, hue: _requests(ax, samples[label], label, hue),
        ),
        ("upload, Mbit/s", lambda ax, label, hue: _upload(ax, samples[label], hue, end_s)),
        ("stream, mean of all receivers, Mbit/s", lambda ax, label, hue: _stream(ax, samples[label], hue, end_s)),
    ]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 8.0))
        axes = figure.subplots(4, 1, sharex=True, height_ratios=(1.6, 1, 1, 0.8))
        for ax, (title, draw) in zip(axes, panels, strict=False):
            ax.set_title(title)
            for place, label in enumerate(labels):
                draw(ax, label, hue_of(label, place))
        axes[0].set_yscale("log")
        log_ticks(axes[0], "y")
        _networks(axes[3], samples[labels[0]], labels[0])
        _events(axes, samples[labels[0]], spec)
        axes[3].set_xlim(0, end_s)
        axes[3].set_xlabel("s of the run")
        handles = [
            Line2D([], [], color=hue_of(label, place), marker=MARKED.get(label, "D"), ms=4, lw=1.5, label=label)
            for place, label in enumerate(labels)
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=3)
        return svg(figure, "timeline", "What happened in the course of a run")


def _requests(ax: Axes, samples: Samples, label: str, hue: str) -> None:
    done = [task for task in samples.tasks if task.flow.startswith("request.") and task.took_us is not None]
    ax.plot(
        [task.start_us / 1e6 for task in done],
        [(task.took_us or 0) / 1e3 for task in done],
        MARKED.get(label, "D"),
        ms=2.6,
        color=hue,
        alpha=0.8,
    )


def _upload(ax: Axes, samples: Samples, hue: str, end_s: float) -> None:
    if "upload.0" in samples.received:
        ax.plot(*rate_mbit_s(samples.received["upload.0"], end_s), color=hue, lw=1.5)


def _stream(ax: Axes, samples: Samples, hue: str, end_s: float) -> None:
    rates = [rate_mbit_s(course, end_s) for course in samples.came.values()]
    if rates:
        ax.plot(rates[0][0], np.mean([rate for _, rate in rates], axis=0), color=hue, lw=1.5)


def _networks(ax: Axes, samples: Samples, label: str) -> None:
    """Over which network each request went."""
    ax.set_title(f"network of each of the phone's requests, {label}")
    for place, path in enumerate(PATHS):
        starts = [task.start_us / 1e6 for task in samples.tasks if task.path == path]
        ax.plot(starts, [place] * len(starts), "|", ms=9, color=STAND_INS[f"path-{place + 1}"])
    ax.set_yticks(range(len(PATHS)), PATHS)
    ax.set_ylim(-0.6, len(PATHS) - 0.4)


def _events(axes: Any, samples: Samples, spec: Mapping[str, Any]) -> None:
    """Fades as bands, moves as lines, the controller's changes as ticks on the last panel."""
    for ax in axes:
        for fade in spec["fades"]:
            ax.axvspan(fade["at_s"], fade["at_s"] + fade["for_s"], color=STAND_INS["faint"], alpha=0.6, lw=0)
        for move in spec["moves"]:
            ax.axvline(move["at_s"], color=STAND_INS["dim"], lw=1, linestyle=(0, (4, 2)))
    changes = [line["t_us"] / 1e6 for line in samples.decisions]
    axes[2].plot(
        changes, [0.02] * len(changes), "v", ms=4, color=STAND_INS["auto"], transform=axes[2].get_xaxis_transform()
    )
    for move in spec["moves"]:
        axes[0].annotate(" moves", (move["at_s"], 1), xycoords=("data", "axes fraction"), fontsize=8, va="top")
    for fade in spec["fades"]:
        axes[0].annotate(" fade", (fade["at_s"], 0.02), xycoords=("data", "axes fraction"), fontsize=8)
