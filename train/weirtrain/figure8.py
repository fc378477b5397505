# SPDX-License-Identifier: Apache-2.0
"""`./run train figure8`: Fig. 8 of Zhang et al. again, PPO with BBR's pacing beside PPO alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

import numpy as np

from weirlab.metrics.estimate import Estimate, estimate, student_t95
from weirtrain.curves import Rows
from weirtrain.profiles import PROFILES
from weirtrain.trials import Trial

KINDS = {"bbr": "PPO with BBR's pacing", "none": "PPO alone"}
PLOTS = {
    "reward": "Reward of an interval (Eq. 3)",
    "throughput_mbit_s": "Delivery rate of a connection, Mbit/s",
    "rtt_mean_ms": "Round-trip time, ms",
}
# Rows of the table: title and decimals.
FIGURES = {
    "first_reward": ("reward of the first update", 3),
    "final_reward": ("reward at last", 3),
    "final_throughput_mbit_s": ("delivery rate of a connection at last, Mbit/s", 3),
    "final_rtt_mean_ms": ("round-trip time at last, ms", 1),
    "steps_to_90_percent": ("decisions to 90 % of the reward at last", 0),
    "steps_of_90_percent_of_the_way": ("decisions to 90 % of the way from the first reward to the last", 0),
}
SHARE = 0.9
LAST, SMOOTHED = 5, 3
Runs = Mapping[str, Sequence[Rows]]


def trials(seeds: int) -> list[Trial]:
    """Seeds 1, 2, ... of both kinds, seed by seed, so that a stop leaves as many of one as of the other."""
    return [
        Trial(
            f"pacing-{pacing}-seed-{seed}", PROFILES["pbq-paper"].changed({"document.pacing": pacing}), seed,
            f"./run train pbq --paper --pacing {pacing} --seed {seed}",
        )
        for seed in range(1, seeds + 1)
        for pacing in KINDS
    ]  # fmt: skip


def final(rows: Rows) -> float:
    """The reward that a training ends with: the mean of its last updates."""
    return float(np.mean([row["reward"] for row in rows[-LAST:]]))


def steps_to(rows: Rows, level: float) -> float | None:
    """Decisions made when the mean reward of SMOOTHED updates first is `level` or more; None if it never is."""
    rewards = np.convolve([row["reward"] for row in rows], np.ones(SMOOTHED) / SMOOTHED, "valid")
    reached = np.flatnonzero(rewards >= level)
    return rows[int(reached[0]) + SMOOTHED - 1]["steps"] if len(reached) else None


def results(runs: Runs) -> dict[str, dict[str, Estimate]]:
    """For each kind, over seeds: the reward at first and at last, what rate and RTT are at last, and how many decisions
    it takes to SHARE of the way from a training's first reward to its last, and to SHARE of the last itself."""
    found = {}
    for kind, trainings in runs.items():
        way = [rows[0]["reward"] + SHARE * (final(rows) - rows[0]["reward"]) for rows in trainings]
        figures: dict[str, list[float | None]] = {
            "first_reward": [rows[0]["reward"] for rows in trainings],
            "final_reward": [final(rows) for rows in trainings],
            "final_throughput_mbit_s": [_last(rows, "throughput_mbit_s") for rows in trainings],
            "final_rtt_mean_ms": [_last(rows, "rtt_mean_ms") for rows in trainings],
            "steps_to_90_percent": [steps_to(rows, SHARE * final(rows)) for rows in trainings],
            "steps_of_90_percent_of_the_way": [steps_to(rows, at) for rows, at in zip(trainings, way, strict=True)],
        }
        found[kind] = {name: estimate(values) for name, values in figures.items()}
    return found


def _last(rows: Rows, name: str) -> float:
    return float(np.mean([row[name] for row in rows[-LAST:]]))


def as_csv(runs: Runs) -> str:
    """A line for each update of each training: what the plots are made of."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["pacing", "seed", "update", "steps", *PLOTS])
    for kind, trainings in runs.items():
        for seed, rows in enumerate(trainings, start=1):
            for row in rows:
                writer.writerow([kind, seed, f"{row['update']:g}", f"{row['steps']:g}", *(repr(row[k]) for k in PLOTS)])
    return out.getvalue()


def page(runs: Runs, facts: Mapping[str, str]) -> str:
    """Plots of the means over seeds with their 95 % bands, and a table. `facts` has `title` and `description`."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    from weirlab.report import html, labels, plots
    from weirlab.report.model import Block, Figure, Report, table

    parts: list[Block] = []
    with pyplot.rc_context(plots.STYLE):
        for name, title in PLOTS.items():
            figure, ax = pyplot.subplots(figsize=(7, 2.6))
            for place, (kind, trainings) in enumerate(runs.items()):
                colour = plots.STAND_INS[plots.PATH_HUES[place]]
                steps, mean, band = bands(trainings, name)
                ax.plot(steps, mean, color=colour, linestyle=plots.look(place)[0], label=KINDS[kind])
                if band is not None:
                    ax.fill_between(steps, mean - band, mean + band, color=colour, alpha=0.2, linewidth=0)
            ax.set_xlabel("decisions learnt from")
            ax.set_title(title)
            ax.legend(frameon=False)
            svg = plots.svg(figure, name.replace("_", "-"), title)
            parts.append(Figure(title, f"{title}: mean over seeds and its 95 % interval", svg))
            pyplot.close(figure)
    found = results(runs)
    rows = [
        [title, *(labels.shown(found[kind][name], digits) for kind in runs)]
        for name, (title, digits) in FIGURES.items()
    ]
    heads = ["Figure", *(f"{KINDS[kind]}, {len(runs[kind])} seeds" for kind in runs)]
    return html.render(Report(facts["title"], [*parts, table(heads, rows)], facts["description"]))


def bands(trainings: Sequence[Rows], name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Decisions, mean over seeds and half the width of its 95 % interval (None of one seed) after each update that all
    have."""
    updates = min(map(len, trainings))
    steps = np.array([[row["steps"] for row in rows[:updates]] for rows in trainings]).mean(axis=0)
    values = np.array([[row[name] for row in rows[:updates]] for rows in trainings])
    count = len(values)
    half = student_t95(count - 1) * values.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else None
    return steps, values.mean(axis=0), half
