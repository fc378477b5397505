#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables and the picture of docs/notebook/2026-11-ideas.md, from the CSV files of `./run evaluate --suite ideas`.

    PYTHONPATH=mininet build/venv/bin/python mininet/tools/ideas.py docs/results/ideas \\
        --picture docs/design/pictures/ideas.png

Reads the folder's CSV files and those of its `trial`, of which the page says how they are made. A ratio is that of an
idea to the gains without it, `pi` or `paper`: at the same target the geometric mean over seeds, at equal goodput as
`weirlab/evaluation/envelope/curves.py` compares two curves. Intervals are at 95 %, over seeds.
"""

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import fmean

from weirlab.evaluation.envelope.curves import At, Curve, Interval, area, at_equal_x, curve_of, jackknife
from weirlab.report import markdown
from weirlab.report.model import table

SHOWN = {
    "pi": "PI alone",
    "d-5": "D, kd 5",
    "d-20": "D, kd 20",
    "d-64": "D, kd 64",
    "d-20-filtered": "D on a filtered difference, kd 20",
    "d-64-filtered": "the same, kd 64",
    "sojourn": "sojourn time in place of Eq. 1",
    "sojourn-d-20": "the same with D, kd 20",
    "separate-4": "separation, at most 4 steps",
    "separate-20": "separation, at most 20 steps",
    "separate": "separation, always",
    "z-1": "Z of 1 (none)",
    "z-paper": "Z of Table II (1.5, 1.2, 0.8)",
    "z-steep": "Z of 4, 2, 0.5",
    "m-wide": "M of 40 and 20 ms",
    "paper": "Algorithm 1, Table II",
    "paper-no-d": "without D",
    "paper-d-half": "D, kd 0.5 (four times)",
    "paper-d-2": "D, kd 2 (sixteen times)",
    "paper-filtered": "D on a filtered difference",
    "paper-sojourn": "sojourn time in place of Eq. 1",
    "paper-separate-20": "separation, at most 20 steps",
    "paper-keep": "no separation",
    "paper-z-1": "Z of 1 (none)",
    "paper-m-wide": "M of 40 and 20 ms",
}
SCENARIOS = {
    "flows-2": "two CUBIC flows",
    "flows-10": "ten CUBIC flows",
    "cc-reno": "ten Reno flows",
    "unresponsive-30": "30 Mbit/s of UDP",
    "table2-cubic": "Table II, QUIC",
}
CURVES_OF = "cc-reno"
TARGET_MS = 15
MEAN, SD, P99, GOODPUT = "queue_delay_mean_ms", "queue_delay_sd_ms", "queue_delay_p99_ms", "goodput_total_mbit_s"

Runs = dict[tuple[str, str, float], dict[int, dict[str, float]]]  # by scenario, variant, target in ms; then by seed


def read(folders: Iterable[Path]) -> Runs:
    """The figures of all runs. Raises SystemExit where there are none."""
    found: Runs = defaultdict(dict)
    for folder in folders:
        for path in sorted(folder.glob("*.csv")):
            with path.open(encoding="utf-8") as file:
                for row in csv.DictReader(file):
                    target_ms = float(row["setting"].removeprefix("target_us=")) / 1000
                    figures = {key: float(row[key]) for key in (MEAN, SD, P99, GOODPUT)}
                    found[row["scenario"], row["variant"], target_ms][int(row["seed"])] = figures
    if not found:
        raise SystemExit(
            f"{', '.join(map(str, folders))}: no CSV file of runs; ./run evaluate --suite ideas writes them"
        )
    return found


def base_of(variant: str) -> str:
    return "paper" if variant.startswith("paper") else "pi"


def words(ratio: Interval | None) -> str:
    if ratio is None:
        return ""
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.2f}"
    return f"{ratio.ratio:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def at_equal_target(runs: Runs, scenario: str, variant: str, figure: str) -> Interval | None:
    """Ratio of a figure to that without the idea, at the same target and over the seeds that both have."""
    ours, theirs = (runs.get((scenario, name, TARGET_MS), {}) for name in (variant, base_of(variant)))
    seeds = sorted(set(ours) & set(theirs))
    if not seeds:
        return None
    logs = {seed: math.log(ours[seed][figure] / theirs[seed][figure]) for seed in seeds}
    return jackknife(lambda some: math.exp(fmean(logs[seed] for seed in some)), seeds)


def curve(runs: Runs, variant: str, seeds: Sequence[int], figure: str) -> Curve | None:
    points = []
    for (scenario, name, target_ms), by_seed in sorted(runs.items()):
        if (scenario, name) == (CURVES_OF, variant) and set(seeds) <= set(by_seed):
            x, y = (fmean(by_seed[seed][key] for seed in seeds) for key in (GOODPUT, figure))
            points.append(At(x, y, {}, f"{target_ms:g} ms"))
    return curve_of(points)


def seeds_of_curve(runs: Runs, variant: str) -> list[int]:
    """The seeds that all targets of both curves have."""
    sets = [set(by_seed) for (s, v, _), by_seed in runs.items() if s == CURVES_OF and v in (variant, base_of(variant))]
    return sorted(set.intersection(*sets))


def of_curves(runs: Runs, variant: str, figure: str, ratio: Callable[[Curve, Curve], float]) -> Interval | None:
    def over(seeds: Sequence[int]) -> float | None:
        one, other = (curve(runs, name, seeds, figure) for name in (variant, base_of(variant)))
        return ratio(one, other) if one and other else None

    return jackknife(over, seeds_of_curve(runs, variant))


def at_equal_goodput(one: Curve, other: Curve) -> float:
    ours, theirs = at_equal_x(one, other)
    return ours.y / theirs.y


def area_ratio(one: Curve, other: Curve) -> float:
    return math.exp(area(one, other))


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return markdown.table(table(heads, rows))


def figures_table(runs: Runs, base: str) -> str:
    """Delay and goodput at the one target, in every scenario, and how many seeds they are of."""
    rows = []
    for variant in (name for name in SHOWN if base_of(name) == base):
        cells = []
        for scenario in SCENARIOS:
            by_seed = runs.get((scenario, variant, TARGET_MS))
            if not by_seed:
                cells.append("")
                continue
            mean, sd, p99, goodput = (fmean(run[key] for run in by_seed.values()) for key in (MEAN, SD, P99, GOODPUT))
            cells.append(f"{mean:.1f} / {sd:.1f} / {p99:.1f}, {goodput:.2f}" + ("" if len(by_seed) > 2 else " *"))
        rows.append([SHOWN[variant], *cells])
    filled = [i for i in range(1, len(SCENARIOS) + 1) if any(row[i] for row in rows)]
    return markdown_table(
        ["", *(list(SCENARIOS.values())[i - 1] for i in filled)], [[row[0], *(row[i] for i in filled)] for row in rows]
    )


def ratios_table(runs: Runs, base: str) -> str:
    """Change by each idea against `base`, in the scenario that has curves."""
    rows = []
    for variant in (name for name in SHOWN if base_of(name) == base and name != base):
        if (CURVES_OF, variant, TARGET_MS) not in runs:
            continue
        same = [words(at_equal_target(runs, CURVES_OF, variant, figure)) for figure in (MEAN, SD, P99, GOODPUT)]
        curves = [words(of_curves(runs, variant, figure, at_equal_goodput)) for figure in (MEAN, P99)]
        rows.append([SHOWN[variant], *same, *curves, words(of_curves(runs, variant, P99, area_ratio))])
    heads = ["", "mean", "sd", "p99", "goodput", "equal goodput: mean", "p99", "area of p99"]
    if base == "paper":  # it has one target only
        heads, rows = heads[:5], [row[:5] for row in rows]
    return markdown_table(heads, rows)


def picture(runs: Runs, out: Path) -> None:
    """Goodput and p99 at all targets, a line for each variant beside `pi`; one panel for each kind of idea."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = {
        "D and the signal": ("d-5", "d-20", "d-64", "d-20-filtered", "sojourn", "sojourn-d-20"),
        "integral separation": ("separate-4", "separate-20", "separate"),
        "Z and M": ("z-1", "z-paper", "z-steep", "m-wide"),
    }
    figure, axes = plt.subplots(1, len(panels), figsize=(12, 4.2), sharex=True, sharey=True, layout="constrained")
    for ax, (title, variants) in zip(axes, panels.items(), strict=True):
        for variant in ("pi", *variants):
            of_variant = {t: seeds for (s, v, t), seeds in runs.items() if (s, v) == (CURVES_OF, variant)}
            points = [
                (fmean(run[GOODPUT] for run in seeds.values()), fmean(run[P99] for run in seeds.values()))
                for _, seeds in sorted(of_variant.items())
            ]
            style = {"color": "black", "linewidth": 2.5} if variant == "pi" else {"linewidth": 1.2}
            ax.plot(*zip(*points, strict=True), marker="o", markersize=4, label=SHOWN[variant], **style)
        ax.set_title(title)
        ax.set_xlabel("goodput, Mbit/s (right is better)")
        ax.grid(alpha=0.3)
        ax.legend(fontsize=8, loc="lower right")
    axes[0].set_ylabel("p99 of the queue delay, ms (lower is better)")
    figure.suptitle("Ten Reno flows, 10 Mbit/s, 102 ms: targets of 8, 15 and 30 ms")
    figure.savefig(out, dpi=90, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description="The tables and the picture of docs/notebook/2026-11-ideas.md.")
    parser.add_argument("folder", type=Path, help="with the CSV files of the suite `ideas`, as docs/results/ideas")
    parser.add_argument("--picture", type=Path, help="write the curves there, as PNG")
    args = parser.parse_args()
    runs = read([args.folder, args.folder / "trial"])
    for base in ("pi", "paper"):
        print(f"{figures_table(runs, base)}\n\n{ratios_table(runs, base)}\n")
    if args.picture:
        picture(runs, args.picture)


if __name__ == "__main__":
    main()
