# SPDX-License-Identifier: Apache-2.0
"""Styles of disciplines and congestion controls in all suites' pictures: marks, colours, panels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weirlab.metrics.estimate import Estimate
from weirlab.report.plots import HUES, INKS, LIGHT, STAND_INS, inside

S = TypeVar("S")
MARKS = {
    "pfifo": "X",
    "red": "P",
    "pie": "s",
    "pie-5ms": "s",
    "codel": "D",
    "fq_pie": "<",
    "fq_codel": "v",
    "cake": "^",
    "paper": "p",
    "tuned": "o",
    "auto": "*",
    "tuned-half": "o",
    "auto-half": "*",
    "pbq": "*",
    "pbq-paper": "p",
    "bbr2_gcongestion": "o",
    "cubic": "s",
    "reno": "P",
    "noq-cubic": "d",
    "tcp-vegas": "v",
    "tcp-bic": "D",
    "tcp-lp": "X",
    "tcp-westwood": "<",
    "tcp-illinois": "^",
}
MARKS_BY_ENDING = {"-cubic": "s", "-reno": "P", "-bbr": "o", "-bbr3": "H"}  # controls of any stack
HOLLOW = ("-half", "-5ms")  # endings of disciplines that stand beside themselves at another target


def page_colour(name: str) -> str:
    """A colour that follows the reader's scheme."""
    return STAND_INS[hue(name)] if name not in INKS else STAND_INS[name]


def png_colour(name: str) -> str:
    """The same in the light scheme, for a file of its own."""
    return {**HUES, **INKS}[hue(name) if name not in INKS else name][LIGHT]


def hue(variant: str) -> str:
    """The colour of its own, or that of its stack."""
    stack = max((name for name in HUES if variant.startswith(f"{name}-")), key=len, default="other")
    return variant if variant in HUES else stack


def mark(variant: str) -> str:
    by_ending = (mark for ending, mark in MARKS_BY_ENDING.items() if variant.endswith(ending))
    return MARKS.get(variant) or next(by_ending, "h")


def hollow(variant: str) -> bool:
    return variant.endswith(HOLLOW) or variant.startswith("tcp-")


def size_of(variant: str) -> float:
    """Of a marker: a star is less wide than it measures."""
    return 9 if mark(variant) == "*" else 6


def handles(variants: Sequence[str], colour: Callable[[str], str]) -> list[Line2D]:
    return [
        Line2D([], [], color=colour(v), lw=0, marker=mark(v), label=v, markersize=size_of(v),
               markerfacecolor="none" if hollow(v) else colour(v))
        for v in variants
    ]  # fmt: skip


def point(
    ax: Axes, delay: Estimate, throughput: Estimate, name: str, colour: Callable[[str], str], in_front: bool
) -> None:
    """A discipline or control in a plane of delay and throughput, with its intervals."""
    if delay.mean is None or throughput.mean is None:
        return
    ax.errorbar(
        delay.mean,
        throughput.mean,
        xerr=inside(delay),
        yerr=throughput.ci95,
        color=colour(name),
        marker=mark(name),
        markersize=size_of(name),
        markerfacecolor="none" if hollow(name) else colour(name),
        markeredgewidth=1 if hollow(name) else 0,
        lw=1,
        zorder=3 if in_front else 2,
    )


def panels(scenarios: Sequence[S], columns: int) -> tuple[Figure, Iterator[tuple[Axes, S, bool, bool]]]:
    """A figure with a panel for each scenario; and each panel, its scenario, whether it is one of the lowest and
    whether it is one of the leftmost."""
    rows = -(-len(scenarios) // columns)
    figure = Figure(figsize=(11, 0.4 + 2.25 * rows), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.12)  # type: ignore[union-attr, call-arg]  # numbers of a row, titles of the next
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax in axes[len(scenarios) :]:
        ax.set_visible(False)
    last = len(scenarios) - columns
    places = (
        (ax, scenario, number >= last, number % columns == 0)
        for number, (ax, scenario) in enumerate(zip(axes, scenarios, strict=False))
    )
    return figure, places


def legend_plot(names: Sequence[str], columns: int) -> Figure:
    """The legend of all planes, by itself, in lines of about the same length."""
    lines = -(-len(names) // columns)
    figure = Figure(figsize=(11, 0.1 + 0.25 * lines))
    figure.legend(handles=handles(names, page_colour), loc="center left", ncols=-(-len(names) // lines),
                  handletextpad=0.1, columnspacing=1.2)  # fmt: skip
    return figure
