# SPDX-License-Identifier: Apache-2.0
"""Timeline of a run: the phone's transfers, the switches, the queues and the controller, with the events."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weirlab.report.labels import count
from weirlab.report.plots import STAND_INS, STYLE, log_ticks, svg
from weirlab.topologies.campus.report.labels import QUEUES, queue_name
from weirlab.topologies.campus.samples import Course, Samples
from weirlab.topologies.campus.sites import PATHS

BIN_S = 0.5
HUES = {"all": "tuned", "none": "pfifo", "today": "pie"}
OTHER_HUES = ("paper", "codel", "cake", "red", "fq_pie")
SHOWN = ("all", "none", "today")
"""The variants of a timeline, as far as they were run; else the first ones."""
MARKED = {"all": "o", "none": "s", "today": "^"}
QUEUE_HUES = ("path-1", "path-2", "path-3", "path-4", "path-5")
"""As many queues are drawn, those with the most delay: more hide each other."""
INTERESTS = {"interests_forwarded": "asked on", "interests_joined": "merged", "interests_repeated": "repeated"}
"""Actions of a switch on an Interest, by the names of its counter."""
INTEREST_HUES = ("path-2", "path-1", "path-5")
GOES = {"request": "1", "download": "D", "upload": "^"}
"""Marks of the phone's connections where they migrate to another network."""
GOES_WORDS = {"request": "requests", "download": "download", "upload": "upload"}
GOES_HUES = {"request": "ink", "download": "path-4", "upload": "path-6"}


def hue_of(label: str, place: int) -> str:
    return STAND_INS[HUES.get(label, OTHER_HUES[place % len(OTHER_HUES)])]


def chosen(labels: list[str]) -> list[str]:
    """Variants that are drawn: more than three hide each other."""
    return [label for label in SHOWN if label in labels] or labels[:3]


def rate_mbit_s(course: Course, end_s: float) -> tuple[np.ndarray, np.ndarray]:
    """Mbit/s in each BIN_S of a run, at the bins' middles."""
    edges_us = np.arange(0, end_s + BIN_S / 2, BIN_S) * 1e6
    times, values = course
    if not len(times):
        return (edges_us[:-1] + BIN_S * 5e5) / 1e6, np.zeros(len(edges_us) - 1)
    at_edges = np.interp(edges_us, times, values, left=0.0)
    return (edges_us[:-1] + BIN_S * 5e5) / 1e6, np.diff(at_edges) * 8 / 1e6 / BIN_S


def each_second(counts: Sequence[tuple[float, Mapping[str, int]]], cell: str) -> tuple[np.ndarray, np.ndarray]:
    """Increments of a cell of a switch's counter per second, between two readings, at the later one (s). A switch that
    restarted counts from 0."""
    times = np.array([t_us for t_us, _ in counts]) / 1e6
    values = np.array([float(packets.get(cell, 0)) for _, packets in counts])
    if len(times) < 2:
        return np.array([]), np.array([])
    grown = np.diff(values)
    return times[1:], np.where(grown < 0, values[1:], grown) / np.diff(times)


def of_all_switches(samples: Samples, cell: str) -> tuple[np.ndarray, np.ndarray]:
    """The same, of all switches together, at whole seconds."""
    found: dict[int, float] = {}
    for counts in samples.names.values():
        for at_s, rate in zip(*each_second(counts, cell), strict=True):
            found[round(at_s)] = found.get(round(at_s), 0.0) + rate
    return np.array(sorted(found), dtype=float), np.array([found[at_s] for at_s in sorted(found)])


def longest(queues: Mapping[tuple[str, str], Course]) -> list[tuple[str, str]]:
    """The queues with the most delay on average, as many as are drawn; of the receivers' own, which are alike, one."""
    means = {queue: float(delays.mean()) for queue, (_, delays) in queues.items() if len(delays)}
    found: list[tuple[str, str]] = []
    for queue in sorted(means, key=lambda queue: -means[queue]):
        if means[queue] > 0 and not (_is_receivers(queue) and any(map(_is_receivers, found))):
            found.append(queue)
    return found[: len(QUEUE_HUES)]


def _is_receivers(queue: tuple[str, str]) -> bool:
    return queue not in QUEUES


def timeline(samples: Mapping[str, Samples], spec: Mapping[str, Any]) -> str:
    """The course of one seed's runs, variants over each other; actions of switches, queues and networks in the
    first."""
    labels, end_s = chosen(list(samples)), spec["duration_s"]
    first = samples[labels[0]]
    panels: list[tuple[str, float, Callable[[Axes, Samples, str, str], None]]] = [
        ("completion time of the phone's requests, ms", 1.5, _requests),
        ("upload, Mbit/s", 1, lambda ax, run, label, hue: _upload(ax, run, hue, end_s)),
        ("upload's congestion window, kB", 1, lambda ax, run, label, hue: _window(ax, run, hue)),
        ("stream, mean of all receivers, Mbit/s", 1, lambda ax, run, label, hue: _stream(ax, run, hue, end_s)),
    ]
    of_first: list[tuple[str, float, Callable[[Axes, Samples], None]]] = []
    if any(first.names.values()):
        of_first.append(("Interests in the switches, a second", 1, _interests))
    if first.queues_ms:
        changes = count(len(first.decisions), "change")
        of_first.append((f"delay in the longest queues, ms, and {changes} by the controller", 1.3, _queues))
    of_first.append(("the phone's networks", 1.1, _networks))
    heights = [height for _, height, _ in panels] + [height for _, height, _ in of_first]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(9.6, 1.0 + 1.45 * sum(heights)))
        axes = list(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights))
        for ax, (title, _, draw) in zip(axes, panels, strict=False):
            ax.set_title(title)
            for place, label in enumerate(labels):
                draw(ax, samples[label], label, hue_of(label, place))
        axes[0].set_yscale("log")
        log_ticks(axes[0], "y")
        for ax in axes[1 : len(panels)]:
            ax.set_ylim(bottom=0)
        for ax, (title, _, draw_first) in zip(axes[len(panels) :], of_first, strict=True):
            ax.set_title(f"{title}: {labels[0]}")
            draw_first(ax, first)
        _events(axes, first, spec)
        axes[-1].set_xlim(0, end_s)
        axes[-1].set_xlabel("s of the run")
        handles = [
            Line2D([], [], color=hue_of(label, place), marker=MARKED.get(label, "D"), ms=4, lw=1.5, label=label)
            for place, label in enumerate(labels)
        ]
        figure.legend(handles=handles, loc="outside upper left", ncols=3)
        return svg(figure, "timeline", "Timeline of a run")


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


def _window(ax: Axes, samples: Samples, hue: str) -> None:
    if "upload.0" in samples.window_bytes:
        times, window = samples.window_bytes["upload.0"]
        ax.plot(times / 1e6, window / 1e3, color=hue, lw=1.3)


def _stream(ax: Axes, samples: Samples, hue: str, end_s: float) -> None:
    rates = [rate_mbit_s(course, end_s) for course in samples.came.values()]
    if rates:
        ax.plot(rates[0][0], np.mean([rate for _, rate in rates], axis=0), color=hue, lw=1.5)


def _interests(ax: Axes, samples: Samples) -> None:
    for (cell, words), hue in zip(INTERESTS.items(), INTEREST_HUES, strict=True):
        ax.plot(*of_all_switches(samples, cell), color=STAND_INS[hue], lw=1.5, label=words)
    ax.set_ylim(bottom=0)
    _beside(ax)


def _queues(ax: Axes, samples: Samples) -> None:
    """The delay of each queue, and under it a mark where the controller changed its gains."""
    for place, (queue, hue) in enumerate(zip(longest(samples.queues_ms), QUEUE_HUES, strict=False)):
        times, delays = samples.queues_ms[queue]
        ax.plot(times / 1e6, delays, color=STAND_INS[hue], lw=1.0, label=queue_name(*queue))
        changed = [line["t_us"] / 1e6 for line in samples.decisions if (line["device"], str(line["port"])) == queue]
        _changes(ax, changed, hue, 0.96 - 0.05 * place)
    drawn = set(longest(samples.queues_ms))
    others = [line["t_us"] / 1e6 for line in samples.decisions if (line["device"], str(line["port"])) not in drawn]
    _changes(ax, others, "dim", 0.96 - 0.05 * len(QUEUE_HUES))
    ax.set_ylim(bottom=0)
    _beside(ax)


def _changes(ax: Axes, times_s: Sequence[float], hue: str, height: float) -> None:
    heights = [height] * len(times_s)
    ax.plot(times_s, heights, "v", ms=4, color=STAND_INS[hue], transform=ax.get_xaxis_transform())


def _networks(ax: Axes, samples: Samples) -> None:
    """Over which network each request went, and where connections went over to another."""
    for place, path in enumerate(PATHS):
        starts = [task.start_us / 1e6 for task in samples.tasks if task.path == path]
        ax.plot(starts, [place - 0.15] * len(starts), "|", ms=7, color=STAND_INS[f"path-{place + 1}"])
    for what, marker in GOES.items():
        goes = [(at_us / 1e6, path) for at_us, flow, path in samples.switched if flow.startswith(f"{what}.")]
        ax.plot(
            [at_s for at_s, _ in goes],
            [PATHS.index(path) + 0.25 for _, path in goes],
            marker,
            ms=4,
            lw=0,
            color=STAND_INS[GOES_HUES[what]],
            label=GOES_WORDS[what],
        )
    ax.set_yticks(range(len(PATHS)), PATHS)
    ax.set_ylim(-0.6, len(PATHS) - 0.4)
    ax.grid(axis="y", visible=False)
    _beside(ax, "goes over:")


def _beside(ax: Axes, title: str = "") -> None:
    """A panel's own legend, on its right."""
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.02), fontsize=8, handlelength=1.4, title=title or None,
              title_fontsize=8, alignment="left", borderaxespad=0.3)  # fmt: skip


def _events(axes: Sequence[Axes], samples: Samples, spec: Mapping[str, Any]) -> None:
    """Fades as bands, moves as lines, kills as bands of another colour."""
    for fade in spec["fades"]:
        for ax in axes:
            ax.axvspan(fade["at_s"], fade["at_s"] + fade["for_s"], color=STAND_INS["faint"], alpha=0.6, lw=0)
        _name(axes[0], fade["at_s"] * 1e6, f"Wi-Fi loses {fade['loss_percent']:g} %", 0.02)
    for move in spec["moves"]:
        for ax in axes:
            ax.axvline(move["at_s"], color=STAND_INS["dim"], lw=1, linestyle=(0, (4, 2)))
        _name(axes[0], move["at_s"] * 1e6, f"moves to site {move['to_site']}", 1.0)
    for part, killed_us, back_us in samples.kills:
        for ax in axes:
            ax.axvspan(killed_us / 1e6, back_us / 1e6, color=STAND_INS["auto"], alpha=0.2, lw=0)
        _name(axes[0], killed_us, f"{part} killed", 0.1)


def _name(ax: Axes, t_us: float, words: str, height: float) -> None:
    at = "top" if height > 0.5 else "bottom"
    ax.annotate(f" {words}", (t_us / 1e6, height), xycoords=("data", "axes fraction"), fontsize=8, va=at)
