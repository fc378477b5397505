# SPDX-License-Identifier: Apache-2.0
"""Plots that follow the reader's colour scheme: colours, legends, scales, SVG."""

import html
import io
import math
import re
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator

from weirlab.metrics.estimate import Estimate
from weirlab.report.labels import Variant

# One hue for each discipline, sender, strategy, window rule or path in every plot, light and dark scheme; after Okabe
# and Ito, distinct by lightness too.
HUES: dict[str, tuple[str, str]] = {
    "pfifo": ("#6b6f76", "#a9b0ba"),
    "pie": ("#c8500a", "#ff9150"),
    "pie-5ms": ("#d98a4f", "#ffc39b"),
    "paper": ("#b8509a", "#eaa3d9"),
    "tuned": ("#005a94", "#5cb6f2"),
    "auto": ("#b00030", "#ff7488"),
    "tuned-half": ("#6a9bc3", "#a9d5f5"),
    "auto-half": ("#d27f93", "#ffb9c3"),
    "p4-paper": ("#7d2f68", "#ffcdf2"),
    "p4-tuned": ("#00788a", "#56dcee"),
    "p4-auto": ("#7a3b00", "#e3a15f"),
    "red": ("#8a6d00", "#e0bd3a"),
    "codel": ("#00805b", "#43cf9f"),
    "fq_pie": ("#7a5a3c", "#d6b48f"),
    "fq_codel": ("#5b7f00", "#a9cf45"),
    "cake": ("#5a4fcf", "#a9a2ff"),
    "polling": ("#6b6f76", "#a9b0ba"),
    "epsilon-greedy": ("#c8500a", "#ff9150"),
    "best-single": ("#8a6d00", "#e0bd3a"),
    "ops": ("#b8509a", "#eaa3d9"),
    "pps": ("#5a4fcf", "#a9a2ff"),
    "oracle": ("#00805b", "#43cf9f"),
    "weir": ("#005a94", "#5cb6f2"),
    "static": ("#6b6f76", "#a9b0ba"),
    "double": ("#c8500a", "#ff9150"),
    "fast": ("#b8509a", "#eaa3d9"),
    "cubic": ("#c8500a", "#ff9150"),
    "reno": ("#8a6d00", "#e0bd3a"),
    "bbr2_gcongestion": ("#005a94", "#5cb6f2"),
    "pbq": ("#b00030", "#ff7488"),
    "pbq-paper": ("#b8509a", "#eaa3d9"),
    "noq-bbr3": ("#5b7f00", "#a9cf45"),
    "noq-cubic": ("#7a5a3c", "#d6b48f"),
    "quinn": ("#00788a", "#56dcee"),
    "s2n-quic": ("#5a4fcf", "#a9a2ff"),
    "quic-go": ("#7a3b00", "#e3a15f"),
    "aioquic": ("#6b6f76", "#a9b0ba"),
    "tquic": ("#7d2f68", "#ffcdf2"),
    "ngtcp2": ("#00805b", "#43cf9f"),
    "lsquic": ("#d98a4f", "#ffc39b"),
    "tcp-cubic": ("#e08a55", "#ffc7a3"),
    "tcp-reno": ("#b59a2e", "#f3dc8a"),
    "tcp-bbr": ("#4b9bd1", "#a6d6fa"),
    "tcp-vegas": ("#00805b", "#43cf9f"),
    "tcp-bic": ("#5a4fcf", "#a9a2ff"),
    "tcp-lp": ("#6b6f76", "#a9b0ba"),
    "tcp-westwood": ("#00788a", "#56dcee"),
    "tcp-illinois": ("#7a3b00", "#e3a15f"),
    "tcp-dctcp": ("#7d2f68", "#ffcdf2"),
    "path-1": ("#005a94", "#5cb6f2"),
    "path-2": ("#c8500a", "#ff9150"),
    "path-3": ("#00805b", "#43cf9f"),
    "path-4": ("#b8509a", "#eaa3d9"),
    "path-5": ("#8a6d00", "#e0bd3a"),
    "path-6": ("#5a4fcf", "#a9a2ff"),
    "other": ("#1f1f1f", "#f2f2f2"),
}
PATH_HUES = [name for name in HUES if name.startswith("path-")]
INKS = {
    "ink": ("#1c1e21", "#e9ebee"),
    "faint": ("#d9dce1", "#3a3f46"),
    "dim": ("#5d636b", "#a4abb5"),
    "page": ("#ffffff", "#15181c"),
}
DASHES = ("solid", (0, (5, 2)), (0, (1, 1.3)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (8, 2, 1, 2, 1, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X")  # lines and points are told apart without colour, too
# Matplotlib wants real colours: each variable has a stand-in that is replaced in the finished SVG.
STAND_INS = {name: f"#0a0b{number:02x}" for number, name in enumerate([*HUES, *INKS])}
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "weir",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titlepad": 4,
    "axes.edgecolor": STAND_INS["dim"],
    "axes.labelcolor": STAND_INS["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": STAND_INS["faint"],
    "grid.linewidth": 0.6,
    "text.color": STAND_INS["ink"],
    "xtick.color": STAND_INS["dim"],
    "ytick.color": STAND_INS["dim"],
    "xtick.labelcolor": STAND_INS["ink"],
    "ytick.labelcolor": STAND_INS["ink"],
    "legend.frameon": False,
    "lines.solid_capstyle": "round",
    "figure.constrained_layout.use": True,
}


LIGHT = 0  # scheme of PNG files
PNG_DPI = 110


def png(figure: Figure, dpi: int) -> bytes:
    """A figure as PNG that has nothing of the clock in it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def png_style() -> dict[Any, Any]:
    """STYLE with real colours on white."""
    real = {stand_in: {**HUES, **INKS}[name][LIGHT] for name, stand_in in STAND_INS.items()}
    style = {key: real.get(value, value) if isinstance(value, str) else value for key, value in STYLE.items()}
    return {**style, "figure.facecolor": "white", "savefig.facecolor": "white"}


def look(place: int) -> tuple[Any, str]:
    """Dash and marker of the variant in that column."""
    return DASHES[place % len(DASHES)], MARKERS[place % len(MARKERS)]


def sender_hue(label: str, cc: str, tcp: bool) -> str:
    """Hue of a sender: that of its label, else of its congestion control; the kernel's have names of their own."""
    names = (label, f"tcp-{cc}" if tcp else cc)
    return next((name for name in names if name in HUES), "other")


def svg(figure: Figure, name: str, title: str) -> str:
    """A figure as inline SVG: identifiers of its own, colours by variable, text as text, no date."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(url\(#|href="#)', rf"\1{name}-", text)
    for variable, stand_in in STAND_INS.items():
        text = text.replace(stand_in, f"var(--{variable})")
    text = re.sub(r"font: ([\d.]+)px [^;\"]+", r"font-size: \1px", text)
    # Half of a page's bytes: the page has its own font, nobody sees a thousandth of a point or asks for a group
    text = re.sub(r" font-family: [^;\"]+;", "", text)
    text = re.sub(r' transform="rotate\(-0 [^"]*"', "", text)
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r"(\d\.\d\d)\d+", r"\1", text)
    text = re.sub(r"\n\s*", "\n", text)
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    assert size is not None  # matplotlib writes one
    opening = (
        f'<svg role="img" aria-labelledby="{name}-title" viewBox="0 0 {size[1]} {size[2]}" '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'<title id="{name}-title">{html.escape(title)}</title>'
    )
    return re.sub(r"<svg[^>]*>", lambda _: opening, text, count=1, flags=re.DOTALL).strip()


def legend(figure: Figure, variants: Sequence[Variant], points: bool = False) -> None:
    handles = [
        Line2D(
            [],
            [],
            color=STAND_INS[variant.hue],
            lw=0 if points else 2,
            linestyle="solid" if points else variant.dash,
            marker=variant.marker if points else "",
            label=variant.label,
        )
        for variant in variants
    ]
    figure.legend(handles=handles, loc="outside upper left", ncols=min(len(handles), 4), handlelength=2.8)


def log_ticks(ax: Axes, which: Literal["x", "y"]) -> None:
    """Plain numbers in place of powers of ten, at the decades and, where there are few, between them."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    ax.tick_params(which="both", axis=which, length=3.5, pad=3.5)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    low, high = ax.get_xlim() if which == "x" else ax.get_ylim()
    between = FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
    axis.set_minor_formatter(between if high / low < 100 else NullFormatter())


LEAST_GOODPUT_SPAN = 0.05  # of the highest value: what is less apart than a fifth of this looks alike, and nearly is
LEAST_DELAY_FACTOR = 5.0  # between the ends of a delay axis; holds two of 1, 2, 5, 10 at least


def plane_scales(ax: Axes, points: Sequence[tuple[float, float]]) -> None:
    """Scales for points of delay (logarithmic) and goodput that don't blow small differences up."""
    if points:
        delays, goodputs = zip(*points, strict=True)
        low, high = min(goodputs), max(goodputs)
        span = max(1.6 * (high - low), LEAST_GOODPUT_SPAN * high)
        bottom = max(0.0, (low + high - span) / 2)
        ax.set_ylim(bottom, bottom + span if span else 1.0)
        # A queue under test that stayed empty has no place on a logarithmic axis; its run says so in the table.
        shown_delays = [delay for delay in delays if delay > 0] or [1.0]
        middle, factor = (min(shown_delays) * max(shown_delays)) ** 0.5, max(shown_delays) / min(shown_delays)
        factor = max(1.6 * factor, LEAST_DELAY_FACTOR)
        ax.set_xlim(middle / factor**0.5, middle * factor**0.5)
    ax.set_xscale("log")
    if points and factor < 100:
        ends = [math.floor(math.log10(end)) for end in ax.get_xlim()]
        steps = [digit * 10.0**power for power in range(ends[0], ends[1] + 1) for digit in (1, 2, 5)]
        ax.xaxis.set_major_locator(
            FixedLocator([step for step in steps if ax.get_xlim()[0] <= step <= ax.get_xlim()[1]])
        )
        ax.xaxis.set_minor_locator(NullLocator())
    log_ticks(ax, "x")
    ax.ticklabel_format(axis="y", style="plain", useOffset=False)


def inside(value: Estimate) -> Any:
    """Error bars that stay right of zero, for a logarithmic axis."""
    if value.ci95 is None or value.mean is None:
        return None
    return [[min(value.ci95, 0.99 * value.mean)], [value.ci95]]


def mean_over_rows(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Mean over rows, leaving out NaN; NaN where all are."""
    stacked = np.array(rows)
    there = ~np.isnan(stacked)
    sums = np.where(there, stacked, 0.0).sum(axis=0)
    counts = there.sum(axis=0)
    return np.divide(sums, counts, out=np.full(stacked.shape[1], np.nan), where=counts > 0)
