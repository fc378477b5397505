# SPDX-License-Identifier: Apache-2.0
"""The model beside runs of the exact lab: where the queue starts to swing, and its response to new flows.

Reads results folders of scenarios on the dumbbell whose flows are all TCP, one or two groups, the second joining later.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from ..gains import Gains
from .fluid import Plant
from .margins import Margins, margins
from .simulate import Change, simulate

STEP_S = 0.02
"""Delays are compared on this grid."""
SEEDS = (1, 2, 3)
SHOWN = (0.18, 0.64, 0.91)
"""Runs whose flows that join are drawn, by place among all."""
HEADER_BYTES = 66
"""Bytes of a packet on a link beyond its TCP payload: Ethernet 14, IP 20, TCP with time stamps 32."""
_PKT = re.compile(rb'^{"k":"pkt","t_us":(\d+),"hop":"bottleneck","sojourn_us":(\d+),"bytes":(\d+)', re.MULTILINE)


class CompareError(ValueError):
    """A results folder this can't be compared with; the message gives fault and right form."""


@dataclass(frozen=True)
class Run:
    """One run: its settings, and the queue delay in seconds on a grid of STEP_S from the start (nan: no packet)."""

    variant: str
    seed: int
    plant: Plant
    gains: Gains
    warmup_s: float
    duration_s: float
    join_s: float | None
    joined_flows: float
    delay_s: np.ndarray


@dataclass(frozen=True)
class Swing:
    """A queue delay's motion at rest: mean, standard deviation, and the strongest frequency with its share of power.

    Share: of the variance, within a quarter of an octave either side; noise spreads, a limit cycle stands out.
    """

    mean_ms: float
    sd_ms: float
    peak_hz: float
    peak_share: float


@dataclass(frozen=True)
class Row:
    """One run beside the model."""

    run: Run
    linear: Margins
    lab: Swing
    fluid: Swing
    drawn: Swing
    fluid_delay_s: np.ndarray
    drawn_delay_s: np.ndarray

    def join_peaks_ms(self) -> tuple[float, ...]:
        """Highest delay in the 2 s after flows joined: lab, fluid, fluid with drawn losses; empty if none did."""
        if self.run.join_s is None:
            return ()
        start = round(self.run.join_s / STEP_S)
        after = slice(start, start + round(2 / STEP_S))
        return tuple(
            1e3 * float(np.max(np.nan_to_num(delay_s[after])))
            for delay_s in (self.run.delay_s, self.fluid_delay_s, self.drawn_delay_s)
        )

    def told(self) -> dict:
        return {
            "variant": self.run.variant,
            "seed": self.run.seed,
            "kp": self.run.gains.kp,
            "linear": asdict(self.linear),
            "join_peak_ms": self.join_peaks_ms(),
            "lab": asdict(self.lab),
            "fluid": asdict(self.fluid),
            "fluid_drawn_losses": asdict(self.drawn),
        }


def load(folder: Path) -> list[Run]:
    """Every finished run of a results folder, by kp. CompareError, or OSError."""
    found = [_run(path) for path in sorted(folder.glob("runs/*/seed-*/spec.json"))]
    if not found:
        raise CompareError(f"{folder}: no runs in it; give a results folder, as `./run experiment` prints it")
    return sorted(found, key=lambda run: (run.gains.kp, run.variant, run.seed))


def _run(path: Path) -> Run:
    spec = json.loads(path.read_text(encoding="utf-8"))
    try:
        flows, bottleneck, access = spec["flows"], spec["link"]["bottleneck"], spec["link"]["access"]
        told = {key: spec["aqm"][key] for key in (field.name for field in fields(Gains))}
        if any(group["kind"] != "tcp" for group in flows) or not 1 <= len(flows) <= 2 or flows[0]["start_s"]:
            raise CompareError(f"{path}: its flows must be one or two groups of tcp, the first from the start")
        later = flows[1] if len(flows) == 2 else None
        plant = Plant(
            bottleneck["rate_mbit_s"] * 1e6,
            2e-3 * (bottleneck["delay_ms"] + access["delay_ms"]),
            flows[0]["count"],
            flows[0]["payload_bytes"] + HEADER_BYTES,
            flows[0]["cc"],
            bottleneck["loss_percent"] / 100,
        )
        joined, join_s = (float(later["count"]), float(later["start_s"])) if later else (0.0, None)
        timed = float(spec["warmup_s"]), float(spec["duration_s"])
        gains = Gains(**told)
    except (KeyError, TypeError) as error:
        raise CompareError(f"{path}: {error} is missing: must be a run on the dumbbell with qdisc weir") from None
    delay_s = _delay(path.parent, timed[1])
    return Run(spec["variant"], spec["seed"], plant, gains, *timed, join_s, joined, delay_s)


def _delay(folder: Path, duration_s: float) -> np.ndarray:
    """Mean queue delay of the packets that left in each step of the grid."""
    packed, plain = folder / "samples.jsonl.gz", folder / "samples.jsonl"
    try:
        data = gzip.decompress(packed.read_bytes()) if packed.exists() else plain.read_bytes()
    except (EOFError, gzip.BadGzipFile) as error:
        raise CompareError(f"{packed}: {error}: must be a whole samples file") from None
    start = re.search(rb'^{"k":"start","t_us":(\d+)}', data, re.MULTILINE)
    hop = re.search(rb'^{"k":"hop","hop":"bottleneck",.*$', data, re.MULTILINE)
    packets = np.array(_PKT.findall(data), dtype=np.int64)
    if not start or not hop or not packets.size:
        raise CompareError(f"{folder}: its samples have no packets at the bottleneck")
    told = json.loads(hop[0])
    sojourn_us = packets[:, 1] - told["propagation_us"]
    if told.get("rate_mbit_s"):
        sojourn_us = sojourn_us - packets[:, 2] * 8 / told["rate_mbit_s"]
    steps = round(duration_s / STEP_S)
    at = (packets[:, 0] - int(start[1])) // round(STEP_S * 1e6)
    inside = (at >= 0) & (at < steps)
    count = np.bincount(at[inside], minlength=steps)
    total = np.bincount(at[inside], sojourn_us[inside], minlength=steps)
    with np.errstate(invalid="ignore"):
        return total / count / 1e6


def swing(delay_s: np.ndarray) -> Swing:
    """Of a delay on the grid; steps without a packet are an empty queue."""
    delay_ms = np.nan_to_num(delay_s) * 1e3
    centred = delay_ms - delay_ms.mean()
    power = np.abs(np.fft.rfft(centred * np.hanning(centred.size))) ** 2
    hertz = np.fft.rfftfreq(centred.size, STEP_S)
    wide = 2**0.25
    bands = [(power[(hertz > f / wide) & (hertz < f * wide)].sum(), f) for f in np.geomspace(0.15, 10, 120)]
    best, at = max(bands)
    whole = power[hertz > 0.1].sum()
    return Swing(float(delay_ms.mean()), float(delay_ms.std()), float(at), float(best / whole) if whole > 1e-9 else 0.0)


def beside(run: Run) -> Row:
    """The linear margins, the fluid, and the fluid with drawn losses (SEEDS, their swings averaged) for one run."""
    changes = [] if run.join_s is None else [Change(run.join_s, flows=run.plant.flows + run.joined_flows)]
    every = round(STEP_S / 0.001)

    def gridded(seed: int | None) -> np.ndarray:
        trace = simulate(run.plant, run.gains, run.duration_s, changes, start="empty", seed=seed)
        return trace.queue_delay_s[: trace.t_s.size // every * every].reshape(-1, every).mean(axis=1)

    calm = slice(round(run.warmup_s / STEP_S), round((run.join_s or run.duration_s) / STEP_S))
    fluid = gridded(None)
    drawn = [gridded(seed) for seed in SEEDS]
    swings = [swing(one[calm]) for one in drawn]
    mean = Swing(*(float(np.mean([getattr(one, field.name) for one in swings])) for field in fields(Swing)))
    return Row(
        run, margins(run.plant, run.gains), swing(run.delay_s[calm]), swing(fluid[calm]), mean, fluid, drawn[0]
    )  # fmt: skip


def table(rows: Sequence[Row]) -> str:
    heads = ("linear loop".rjust(14), *(name.rjust(28) for name in ("lab", "fluid", "fluid, drawn losses")))
    lines = [
        "queue delay at rest, ms: mean / sd, strongest frequency in Hz (its share of the variance);",
        "peak in the 2 s after flows joined, ms: lab / fluid / drawn losses",
        f"{'variant':<10}{'kp':>8}{''.join(heads)}{'peaks':>22}",
    ]
    for row in rows:
        edge = row.linear.gain_margin_db
        words = [f"{row.run.variant:<10}{row.run.gains.kp:>8.3g}{'' if edge is None else f'{edge:+.1f} dB':>14}"]
        for one in (row.lab, row.fluid, row.drawn):
            words.append(f"{one.mean_ms:.1f} / {one.sd_ms:.1f}, {one.peak_hz:.2f} ({one.peak_share:.2f})".rjust(28))
        peaks = " / ".join(f"{peak:.0f}" for peak in row.join_peaks_ms())
        lines.append("".join(words) + peaks.rjust(22))
    return "\n".join(lines)


def draw(rows: Sequence[Row]) -> Figure:
    """Onset above, the flows that join below for three of the runs."""
    rows = [row for row in rows if row.run.gains.kd] or rows  # one without D is not on the same line
    figure = plt.figure(figsize=(9, 8), constrained_layout=True)
    grid = figure.add_gridspec(3, 3, height_ratios=(1.3, 1, 1))
    size, tone = figure.add_subplot(grid[0, :2]), figure.add_subplot(grid[0, 2])
    kp = [row.run.gains.kp for row in rows]
    for name, colour, of in (
        ("exact lab", "tab:blue", lambda row: row.lab),
        ("fluid", "tab:orange", lambda row: row.fluid),
        ("fluid, drawn losses", "tab:green", lambda row: row.drawn),
    ):
        size.plot(kp, [of(row).sd_ms for row in rows], "o-", color=colour, label=name, markersize=4)
        tone.plot(kp, [of(row).peak_hz for row in rows], "o-", color=colour, markersize=4)
    edges = [row.run.gains.kp * 10 ** (row.linear.gain_margin_db / 20) for row in rows if row.linear.gain_margin_db]
    if edges:
        for axis in (size, tone):
            axis.axvspan(min(edges), max(edges), color="tab:red", alpha=0.3)
        size.plot([], [], color="tab:red", alpha=0.4, linewidth=6, label="edge of the linear loop")
    size.set(xscale="log", xlabel="kp per s, ki and kd in proportion", ylabel="sd of the queue delay, ms")
    size.set_ylim(0, None)
    size.legend(fontsize=8)
    tone.set(xscale="log", yscale="log", xlabel="kp per s", ylabel="strongest frequency, Hz")
    joined = [(row, row.run.join_s) for row in rows if row.run.join_s is not None]
    joined = [joined[round(k * (len(joined) - 1))] for k in SHOWN] if joined else []
    for column, (row, join_s) in enumerate(joined):
        for line, (name, colour, delay_s) in enumerate(
            (("exact lab", "tab:blue", row.run.delay_s), ("model", "tab:green", row.drawn_delay_s))
        ):
            axis = figure.add_subplot(grid[1 + line, column])
            t_s = np.arange(delay_s.size) * STEP_S - join_s
            axis.plot(t_s, np.nan_to_num(delay_s) * 1e3, color=colour, linewidth=0.6)
            if line:
                t_s = np.arange(row.fluid_delay_s.size) * STEP_S - join_s
                axis.plot(t_s, row.fluid_delay_s * 1e3, color="tab:orange", linewidth=0.9)
            axis.set(xlim=(-5, 10), ylim=(0, 120))
            axis.set_title(f"{name}, kp {row.run.gains.kp:g}", fontsize=9)
            axis.axhline(row.run.gains.target_us / 1e3, color="black", linewidth=0.5, linestyle="--")
            if column == 0:
                axis.set_ylabel("queue delay, ms")
            if line:
                axis.set_xlabel("s since ten more flows joined")
    return figure
