# SPDX-License-Identifier: Apache-2.0
"""Plots of the model, as PNG or SVG by the file's name."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from ..files import write_whole
from ..gains import Gains
from . import loop
from .fluid import Plant
from .margins import Margins, margins
from .readings import TOLD_DEG, Reading
from .simulate import Trace

LIMIT_DB = 48.0
"""Margins of the map are cut at this, either way."""


def save(figure: Figure, out: Path) -> None:
    """Write it. ValueError for a kind of file other than PNG or SVG."""
    kind = out.suffix.removeprefix(".").lower()
    if kind not in ("png", "svg"):
        raise ValueError(f"{out}: must end in .png or .svg")
    # No date and no random ids in the file, so that the same figure is the same bytes.
    with plt.rc_context({"svg.hashsalt": "weir"}):
        metadata = {"Software": None} if kind == "png" else {"Date": None}
        figure.savefig(image := io.BytesIO(), format=kind, dpi=80, metadata=metadata)
    plt.close(figure)
    write_whole(out, image.getvalue())


def _grid(plant: Plant, gains: Gains) -> np.ndarray:
    top = math.pi / loop.interval_s(plant, gains)
    return np.geomspace(0.03 / (plant.rtt_s + gains.target_us / 1e6), top, 3000)


def bode(plant: Plant, curves: Mapping[str, tuple[Gains, int]], signal: str) -> Figure:
    """Size and phase of L by name: (gains, row of Algorithm 1)."""
    figure, (size, phase) = plt.subplots(2, 1, sharex=True, figsize=(7.5, 6), constrained_layout=True)
    for name, (gains, row) in curves.items():
        omega = _grid(plant, gains)
        value = loop.open_loop(plant, gains, 1j * omega, row=row, signal=signal)
        found = margins(plant, gains, row=row, signal=signal, settling=False)
        (line,) = size.semilogx(omega, 20 * np.log10(np.abs(value)), label=f"{name}: {told(found)}")
        phase.semilogx(omega, np.degrees(np.unwrap(np.angle(value))), color=line.get_color())
        if found.crossover_rad_s:
            for axis in (size, phase):
                axis.axvline(found.crossover_rad_s, color=line.get_color(), linewidth=0.6, linestyle=":")
    size.axhline(0, color="black", linewidth=0.6)
    phase.axhline(-180, color="black", linewidth=0.6)
    phase.set_ylim(-900, 0)
    phase.set_yticks(range(-900, 1, 90))
    size.set(ylabel="size, dB", title=_told_plant(plant))
    phase.set(ylabel="phase, degrees", xlabel="rad/s")
    for axis in (size, phase):
        axis.grid(True, alpha=0.3)
    size.legend(fontsize=8)
    return figure


def nyquist(plant: Plant, curves: Mapping[str, tuple[Gains, int]], signal: str) -> Figure:
    """L in the plane, its size on a logarithmic scale beyond 1 so that -1 and the rest are both to be seen."""
    figure, axis = plt.subplots(figsize=(6.5, 6.5), constrained_layout=True)
    for name, (gains, row) in curves.items():
        value = loop.open_loop(plant, gains, 1j * _grid(plant, gains), row=row, signal=signal)
        size = np.abs(value)
        shown = np.where(size > 1, (1 + np.log10(np.maximum(size, 1))) / size, 1.0) * value
        found = margins(plant, gains, row=row, signal=signal, settling=False)
        axis.plot(shown.real, shown.imag, label=f"{name}: {told(found)}", linewidth=1)
    turn = np.linspace(0, 2 * np.pi, 200)
    for decade in range(3):
        axis.plot((1 + decade) * np.cos(turn), (1 + decade) * np.sin(turn), color="black", linewidth=0.5, alpha=0.5)
        axis.annotate(f"|L| = {10**decade}", (0.02, 1 + decade), fontsize=7)
    axis.plot([-1], [0], "+", color="black", markersize=12)
    axis.set(aspect="equal", xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), title=_told_plant(plant), xticks=[], yticks=[])
    axis.legend(fontsize=8, loc="lower right")
    return figure


def told(found: Margins) -> str:
    """Margins in a few words."""
    if found.phase_margin_deg is None and found.gain_margin_db is None:
        return "never reaches 0 dB" if found.stable else "unstable"
    words = [] if found.phase_margin_deg is None or not found.stable else [f"{found.phase_margin_deg:.0f} deg"]
    if found.gain_margin_db is not None:
        words.append(f"{found.gain_margin_db:+.1f} dB")
    return ("" if found.stable else "unstable, ") + ", ".join(words)


def _told_plant(plant: Plant) -> str:
    return (
        f"{plant.flows:g} {plant.cc} flows, {plant.capacity_bit_s / 1e6:g} Mbit/s, "
        f"{plant.rtt_s * 1e3:g} ms without the queue"
    )


def margin_map(
    names: Sequence[str],
    rtts_ms: Sequence[float],
    capacities_mbit_s: Sequence[float],
    flows: Sequence[float],
    table: np.ndarray,
) -> Figure:
    """table: gain margin in dB by profile, RTT, flows, capacity; nan where the flows don't fill the line."""
    shape = (len(names), len(rtts_ms))
    figure, axes = plt.subplots(
        *shape, sharex=True, sharey=True, squeeze=False, figsize=(2.6 * shape[1] + 1, 2.5 * shape[0]),
        constrained_layout=True,
    )  # fmt: skip
    for i, name in enumerate(names):
        for j, rtt_ms in enumerate(rtts_ms):
            axis = axes[i][j]
            mesh = axis.pcolormesh(
                capacities_mbit_s, flows, np.clip(table[i, j], -LIMIT_DB, LIMIT_DB), cmap="RdYlGn", vmin=-LIMIT_DB,
                vmax=LIMIT_DB, shading="nearest",
            )  # fmt: skip
            if np.nanmin(table[i, j]) < 0 < np.nanmax(table[i, j]):
                axis.contour(capacities_mbit_s, flows, table[i, j], [0], colors="black", linewidths=1)
            axis.set(xscale="log", yscale="log", facecolor="lightgrey")
            if i == 0:
                axis.set_title(f"RTT {rtt_ms:g} ms", fontsize=9)
            if i == len(names) - 1:
                axis.set_xlabel("Mbit/s")
        axes[i][0].set_ylabel(f"{name}\nflows")
    figure.colorbar(mesh, ax=axes, label="gain margin, dB; below 0 the linear loop swings", shrink=0.8)
    return figure


def readings(found: Sequence[Reading]) -> Figure:
    """Histogram of every reading's phase margin, and where 49 degrees are."""
    least = np.array([one.least_deg for one in found if one.least_deg is not None])
    stable = np.array([one.least_deg for one in found if one.stable and one.least_deg is not None])
    proper = [one.least_deg for one in found if one.proper and one.least_deg is not None]
    figure, axes = plt.subplots(2, 1, sharex=True, figsize=(7.5, 5), constrained_layout=True)
    bins = np.arange(-180, 181, 5)
    axes[0].hist(least, bins, color="tab:gray")
    axes[0].set(ylabel="readings", title=f"all {len(found)}, {least.size} of them with a crossover")
    axes[1].hist(stable, bins, color="tab:green", label="stable")
    axes[1].hist(proper, bins, color="tab:blue", label="all quantities as the paper's text has them")
    axes[1].set(xlabel="least phase margin, degrees", ylabel="readings")
    axes[1].legend(fontsize=8)
    for axis in axes:
        axis.axvline(TOLD_DEG, color="tab:red", linewidth=1)
    return figure


def trace(found: Trace, target_s: float) -> Figure:
    """Queue delay, U and window over time."""
    figure, axes = plt.subplots(3, 1, sharex=True, figsize=(8, 6), constrained_layout=True)
    axes[0].plot(found.t_s, found.queue_delay_s * 1e3, linewidth=0.8)
    axes[0].axhline(target_s * 1e3, color="black", linewidth=0.6, linestyle="--")
    axes[0].set_ylabel("queue delay, ms")
    axes[1].plot(found.t_s, found.u, linewidth=0.8)
    axes[1].set_ylabel("U")
    axes[2].plot(found.t_s, found.window_packets, linewidth=0.8)
    axes[2].set(ylabel="window, packets", xlabel="s")
    return figure
