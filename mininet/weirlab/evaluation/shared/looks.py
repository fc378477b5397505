# SPDX-License-Identifier: Apache-2.0
"""How disciplines look in all suites' pictures: marks, colours, files."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from weirlab.report.plots import HUES, INKS, STAND_INS, STYLE

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
}
HOLLOW = ("-half", "-5ms")  # endings of disciplines that stand beside themselves at another target
LIGHT = 0  # scheme of the PNG files
PNG_DPI = 110


def png(figure: Figure, dpi: int) -> bytes:
    """A figure as PNG that has nothing of the clock in it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi, metadata={"Software": None})
    return buffer.getvalue()


def page_colour(name: str) -> str:
    """A colour that follows the reader's scheme."""
    return STAND_INS[hue(name)] if name not in INKS else STAND_INS[name]


def png_colour(name: str) -> str:
    """The same in the light scheme, for a file of its own."""
    return {**HUES, **INKS}[hue(name) if name not in INKS else name][LIGHT]


def hue(variant: str) -> str:
    return variant if variant in HUES else "other"


def hollow(variant: str) -> bool:
    return variant.endswith(HOLLOW)


def size_of(variant: str) -> float:
    """Of a marker: a star is less wide than it measures."""
    return 9 if MARKS.get(variant) == "*" else 6


def png_style() -> dict:
    """STYLE with real colours on white."""
    real = {stand_in: {**HUES, **INKS}[name][LIGHT] for name, stand_in in STAND_INS.items()}
    style = {key: real.get(value, value) if isinstance(value, str) else value for key, value in STYLE.items()}
    return {**style, "figure.facecolor": "white", "savefig.facecolor": "white"}


def handles(variants: Sequence[str], colour: Callable[[str], str]) -> list[Line2D]:
    return [
        Line2D([], [], color=colour(v), lw=0, marker=MARKS.get(v, "h"), label=v, markersize=size_of(v),
               markerfacecolor="none" if hollow(v) else colour(v))
        for v in variants
    ]  # fmt: skip
