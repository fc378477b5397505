# SPDX-License-Identifier: Apache-2.0
"""The report of a results folder: one table on the terminal, and one HTML page that needs nothing but itself.

The same results give the same page to the byte. Colours are CSS variables, so that the plots follow the reader's light
or dark scheme and print black on white.
"""

import html
import io
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, NullFormatter
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from weirlab.metrics import (
    DELAY_OUTSIDE_LIMIT_PERCENT,
    METRICS,
    QUEUE_UNDER_TEST,
    RECEIVER,
    UNMEASURED_LIMIT_PERCENT,
    Estimate,
    Samples,
    estimate,
    read_samples,
)
from weirlab.results import ResultsFolder, RunResult, Summary, read_json, samples_path, summarise

# The table: metric, label, unit, decimals; a None starts a group.
ROWS: tuple[tuple[str | None, str, str, int], ...] = (
    (None, "Goodput", "", 0),
    ("goodput_per_flow_mean_kbit_s", "per flow", "kbit/s", 1),
    ("goodput_total_mbit_s", "total", "Mbit/s", 3),
    ("jain_index", "Jain index", "", 3),
    (None, "Queue delay", "", 0),
    ("queue_delay_mean_ms", "mean", "ms", 2),
    ("queue_delay_sd_ms", "sd", "ms", 2),
    ("queue_delay_p50_ms", "median", "ms", 2),
    ("queue_delay_p95_ms", "p95", "ms", 2),
    ("queue_delay_p99_ms", "p99", "ms", 2),
    ("queue_delay_excess_ms", "excess over target", "ms", 2),
    (None, "Path", "", 0),
    ("rtt_mean_ms", "round-trip time", "ms", 1),
    ("loss_percent", "lost, all causes", "%", 2),
    ("drops_aqm_packets", "dropped early", "packets", 0),
    ("drops_limit_packets", "dropped, queue full", "packets", 0),
    ("drops_qdisc_packets", "dropped, cause not told", "packets", 0),
    ("link_lost_packets", "lost on links", "packets", 0),
    ("marks_packets", "marked CE", "packets", 0),
    ("utilisation_percent", "link utilisation", "%", 1),
)
RATIOS: tuple[tuple[str, str], ...] = (
    ("goodput_total_mbit_s", "goodput, total"),
    ("queue_delay_mean_ms", "queue delay, mean"),
    ("queue_delay_sd_ms", "queue delay, sd"),
    ("queue_delay_p99_ms", "queue delay, p99"),
    ("queue_delay_excess_ms", "queue delay, mean excess"),
)

# One hue for each discipline in every plot, light and dark scheme; after Okabe and Ito, told apart by lightness too.
HUES: dict[str, tuple[str, str]] = {
    "pfifo": ("#6b6f76", "#a9b0ba"),
    "pie": ("#c8500a", "#ff9150"),
    "paper": ("#b8509a", "#eaa3d9"),
    "tuned": ("#005a94", "#5cb6f2"),
    "p4-paper": ("#7d2f68", "#ffcdf2"),
    "p4-tuned": ("#00788a", "#56dcee"),
    "red": ("#8a6d00", "#e0bd3a"),
    "codel": ("#00805b", "#43cf9f"),
    "fq_codel": ("#5b7f00", "#a9cf45"),
    "cake": ("#5a4fcf", "#a9a2ff"),
    "other": ("#1f1f1f", "#f2f2f2"),
}
INKS = {"ink": ("#1c1e21", "#e9ebee"), "faint": ("#d9dce1", "#3a3f46"), "dim": ("#5d636b", "#a4abb5")}
DASHES = ("solid", (0, (5, 2)), (0, (1, 1.3)), (0, (6, 2, 1, 2)), (0, (3, 1.5)), (0, (8, 2, 1, 2, 1, 2)))
MARKERS = ("o", "s", "D", "^", "v", "P", "X")  # lines and points are told apart without colour, too
# Matplotlib wants real colours: each variable has a stand-in that is replaced in the finished SVG.
STAND_INS = {name: f"#0a0b{number:02x}" for number, name in enumerate([*HUES, *INKS])}

P4_TARGETS = {"embedded": "weir-switch", "bmv2": "BMv2"}
NOTHING = "\N{EN DASH}"  # shown where a run has nothing to measure a figure by
# sch_pie.c lets its probability grow beyond 1 while the delay is above 250 ms, and shows 64 bits of it shifted by 8.
PIE_WRAPS = (
    "Kernel PIE does not bound its probability by 100 % and its reading starts again at 0 above that: where its line "
    "leaps down or up, PIE drops every packet that it may."
)
BAD = ("FAILED", "MISSING")  # how a check line starts that isn't well
DELAY_BIN_S = 0.5
GOODPUT_BIN_S = 1.0
GOODPUT_SHOWN = 0.995  # share of the values that the scale has room for; one burst would flatten the rest
CDF_AT = np.concatenate([np.linspace(0, 0.99, 199), np.linspace(0.99, 0.9999, 25)])
DELAY_FLOOR_MS = 0.1  # logarithmic axes start here


@dataclass(frozen=True)
class Series:
    """What the plots need of one run: times in s from its start, bins by their middles; NaN where nothing was."""

    delay_t_s: np.ndarray
    delay_ms: np.ndarray
    delay_quantiles_ms: np.ndarray
    goodput_t_s: np.ndarray
    goodput_kbit_s: dict[tuple[int, int], np.ndarray]
    probability_t_s: np.ndarray
    probability_percent: np.ndarray


@dataclass(frozen=True)
class Variant:
    """A column of the table: its label, what was run, its runs and their series by seed, and how it is drawn."""

    label: str
    spec: dict[str, Any]
    runs: dict[int, RunResult]
    series: dict[int, Series]
    hue: str
    dash: Any
    marker: str


def print_table(folder: ResultsFolder, summary: Summary, console: Console | None = None) -> None:
    """Print a folder's table, the comparison with kernel PIE if it was run, and the checks."""
    console = console or Console()
    if not console.is_terminal:
        console.width = max(console.width, 145)  # a pipe has no width of its own
    facts = folder.meta["scenario"]
    specs = {run.variant: read_json(folder.run_path(run.variant, run.seed) / "spec.json") for run in summary.runs}
    console.print(f"\n[bold]{escape(facts['title'])}[/bold]")
    console.print(escape(run_counts(facts, summary)))
    _print_chunks(
        console, "mean over seeds ± 95 %", list(summary.variants), partial(_result_cells, summary, facts["paper"])
    )
    for found, corner in (
        (comparisons(specs, summary), "over kernel PIE, seed by seed"),
        (beside_ebpf(specs, summary), "over the same law as eBPF"),
    ):
        _print_chunks(console, corner, list(found), partial(_ratio_cells, found))
    for line in check_lines(summary):
        console.print(escape(line), style="bold red" if line.startswith(BAD) else "")


def _print_chunks(console: Console, corner: str, labels: Sequence[str], rows: Callable[[Sequence[str]], Any]) -> None:
    """One table, or several under each other where the columns don't fit."""
    room = max(1, (console.width - 30) // 19)
    for first in range(0, len(labels), room):
        chunk = labels[first : first + room]
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        table.add_column(corner, no_wrap=True)
        for label in chunk:
            table.add_column(escape(label), justify="right", no_wrap=True)
        for row in rows(chunk):
            table.add_row(*row)
        console.print(table)


def _result_cells(summary: Summary, paper: Mapping[str, Any], labels: Sequence[str]) -> Iterable[list[str]]:
    for metric, text, unit, decimals in ROWS:
        if metric is None:
            yield [f"[bold]{text}[/bold]"]
        elif _anywhere(summary, metric):
            cells = [f"  {text}" + (f", {unit}" if unit else "")]
            for label in labels:
                figure = paper_figure(paper, label, metric)
                cell = shown(summary.variants[label][metric], decimals)
                cells.append(f"{cell}\n[dim]{escape(figure)}[/dim]" if figure else cell)
            yield cells


def _ratio_cells(found: Mapping[str, Mapping[str, Estimate]], labels: Sequence[str]) -> Iterable[list[str]]:
    for metric, text in RATIOS:
        yield [f"  {text}", *(shown(found[label][metric], 3) for label in labels)]


def write_html(folder: ResultsFolder) -> Path:
    """Write report.html into a results folder and return its path. Raises ResultsError, SamplesError."""
    summary = summarise(folder)
    variants = read_variants(folder, summary)
    path = folder.path / "report.html"
    draft = folder.path / ".report.html.new"
    draft.write_text(page(folder.meta, summary, variants), encoding="utf-8")
    draft.replace(path)
    return path


def read_variants(folder: ResultsFolder, summary: Summary) -> list[Variant]:
    """The finished runs by variant, with what the plots need read from their samples."""
    by_label: dict[str, dict[int, RunResult]] = {}
    for run in summary.runs:
        by_label.setdefault(run.variant, {})[run.seed] = run
    variants: list[Variant] = []
    for label, runs in by_label.items():
        series, spec = {}, {}
        for seed in runs:
            run_path = folder.run_path(label, seed)
            spec = read_json(run_path / "spec.json")
            series[seed] = series_of(read_samples(samples_path(run_path), spec), spec)
        hue = spec["aqm"].get("profile", spec["aqm"]["qdisc"])
        hue = f"p4-{hue}" if spec["aqm"]["qdisc"] == "p4" else hue
        hue = hue if hue in HUES else "other"
        place = len(variants)
        look = DASHES[place % len(DASHES)], MARKERS[place % len(MARKERS)]
        variants.append(Variant(label, spec, runs, series, hue, *look))
    return variants


def series_of(samples: Samples, spec: Mapping[str, Any]) -> Series:
    """Bin one run's samples. The distribution leaves out warm-up; the courses over time don't."""
    packets = samples.packets[QUEUE_UNDER_TEST]
    edges_s = np.arange(0, spec["duration_s"] + DELAY_BIN_S / 2, DELAY_BIN_S)
    counts, _ = np.histogram(packets.t_us / 1e6, edges_s)
    sums, _ = np.histogram(packets.t_us / 1e6, edges_s, weights=packets.delay_us / 1e3)
    delay_ms = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    measured = (packets.t_us >= spec["warmup_s"] * 1e6) & (packets.t_us < spec["duration_s"] * 1e6)
    grid_s = np.arange(0, spec["duration_s"] + GOODPUT_BIN_S / 2, GOODPUT_BIN_S)
    goodput = {}
    for (group, index, side), end in sorted(samples.flows.items()):
        if side == RECEIVER[spec["flows"][group]["kind"]]:
            received = np.interp(grid_s * 1e6, end.t_us, end.bytes, left=0.0)
            goodput[group, index] = np.diff(received) * 8 / 1e3 / GOODPUT_BIN_S
    states = [s for s in samples.states if s["hop"] == QUEUE_UNDER_TEST and "drop_probability" in s]
    return Series(
        delay_t_s=(edges_s[:-1] + edges_s[1:]) / 2,
        delay_ms=delay_ms,
        delay_quantiles_ms=np.quantile(packets.delay_us[measured] / 1e3, CDF_AT),
        goodput_t_s=(grid_s[:-1] + grid_s[1:]) / 2,
        goodput_kbit_s=goodput,
        probability_t_s=np.array([s["t_us"] / 1e6 for s in states]),
        probability_percent=np.array([100 * s["drop_probability"] for s in states]),
    )


# ---- words ----


def shown(value: Estimate, decimals: int) -> str:
    """Mean, plus or minus half its interval; an en dash where there is nothing."""
    if value.mean is None:
        return NOTHING
    mean = f"{value.mean:.{decimals}f}"
    return mean if value.ci95 is None else f"{mean} ± {value.ci95:.{decimals}f}"


def run_counts(facts: Mapping[str, Any], summary: Summary) -> str:
    seeds = sorted({run.seed for run in summary.runs})
    return (
        f"{_count(len(summary.variants), 'variant')}, {_count(len(seeds), 'seed')}, {_count(len(summary.runs), 'run')} "
        f"of {facts['duration_s']:g} s of virtual time each; the first {facts['warmup_s']:g} s are left out of every "
        f"figure. The excess is over {facts['reference_target_ms']:g} ms for all."
    )


def in_words(spec: Mapping[str, Any]) -> list[str]:
    """What was run, a sentence for each part."""
    lines = []
    for flow in spec["flows"]:
        kinds = {
            "quic-download": "QUIC download",
            "quic-upload": "QUIC upload",
            "tcp": "TCP transfer",
            "udp": "UDP flow",
        }
        text = _count(flow["count"], kinds[flow["kind"]])
        if flow["kind"] == "udp":
            text += f", unresponsive, {flow['rate_mbit_s']:g} Mbit/s each"
        else:
            text += f", {flow['cc']}"
        text += f", up to {flow['payload_bytes']} bytes of payload a packet"
        lines.append(f"{text}, from {flow['start_s']:g} to {flow['stop_s']:g} s")
    access, bottleneck = spec["link"]["access"], spec["link"]["bottleneck"]
    lines.append(f"access links, one for each sender: {_link(access)}")
    lines.append(f"bottleneck, shared by all: {_link(bottleneck)}")
    return lines


def aqm_in_words(aqm: Mapping[str, Any]) -> str:
    """A discipline and its options."""
    rest = {key: value for key, value in aqm.items() if key not in ("qdisc", "profile", "switch", "program")}
    match aqm["qdisc"]:
        case "weir":
            name = f"PID law as tc eBPF, profile {aqm['profile']}"
        case "p4":
            name = f"PID law in {aqm['program']} on {P4_TARGETS[aqm['switch']]}, profile {aqm['profile']}"
        case kind:
            name = f"kernel {kind}"
    return f"{name}: {', '.join(f'{k} {_plain(v)}' for k, v in rest.items())}" if rest else f"{name} (drop-tail)"


def check_lines(summary: Summary) -> list[str]:
    """The checks, passed or failed, and what is missing."""
    lines = [f"MISSING: {variant}, seed {seed} was planned and has no result" for variant, seed in summary.missing]
    lines += [f"FAILED: {line}" for line in summary.failures]
    for metric, name, what, limit in (
        (
            "delay_outside_percent",
            "Where the delay arose",
            "of the queueing delay was in other queues than the one under test",
            DELAY_OUTSIDE_LIMIT_PERCENT,
        ),
        (
            "unmeasured_percent",
            "Whether all was measured",
            "of the packets at any hop escaped measurement",
            UNMEASURED_LIMIT_PERCENT,
        ),
    ):
        known = [value for run in summary.runs if (value := run.metrics[metric]) is not None]
        if known:
            passed = sum(value <= limit for value in known)
            lines.append(
                f"{name}: {passed} of {_count(len(summary.runs), 'run')} passed; at most {max(known):.2f} % {what} "
                f"(limit {limit:g} %)."
            )
    for label, metrics in summary.variants.items():
        spreads = [value.sd for value in metrics.values() if value.sd is not None]
        if spreads and not any(spreads):
            lines.append(
                f"NOTE: {label}: every seed gave the same figures; nothing in these runs was left to chance, so their "
                f"interval of zero says nothing about other starts."
            )
    return lines


def comparisons(specs: Mapping[str, Mapping[str, Any]], summary: Summary) -> dict[str, dict[str, Estimate]]:
    """Each variant's metrics over kernel PIE's of the same seed in the same setting; empty if PIE was not run."""
    return _ratios(specs, summary, lambda ours, theirs: theirs["qdisc"] == "pie" != ours["qdisc"])


def beside_ebpf(specs: Mapping[str, Mapping[str, Any]], summary: Summary) -> dict[str, dict[str, Estimate]]:
    """Each P4 variant's metrics over those of the same law as tc eBPF, seed by seed; empty unless both were run."""

    def same_law(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
        law = {key: value for key, value in ours.items() if key not in ("qdisc", "switch", "program", "delay_source")}
        return ours["qdisc"] == "p4" and theirs == {"qdisc": "weir", **law}

    return _ratios(specs, summary, same_law)


def _ratios(
    specs: Mapping[str, Mapping[str, Any]],
    summary: Summary,
    is_peer: Callable[[Mapping[str, Any], Mapping[str, Any]], bool],
) -> dict[str, dict[str, Estimate]]:
    """The metrics of each variant that has a peer in the same setting, over that peer's of the same seed."""

    def setting(label: str) -> dict[str, Any]:
        return {key: value for key, value in specs[label].items() if key not in ("aqm", "variant", "seed")}

    by_run = {(run.variant, run.seed): run.metrics for run in summary.runs}
    found: dict[str, dict[str, Estimate]] = {}
    for label in specs:
        peer = next(
            (
                other
                for other in specs
                if is_peer(specs[label]["aqm"], specs[other]["aqm"]) and setting(other) == setting(label)
            ),
            None,
        )
        if peer is None:
            continue
        seeds = [seed for variant, seed in by_run if variant == label and (peer, seed) in by_run]
        found[label] = {}
        for metric, _ in RATIOS:
            pairs = [(by_run[label, seed][metric], by_run[peer, seed][metric]) for seed in seeds]
            usable = all(ours is not None and theirs for ours, theirs in pairs)
            found[label][metric] = estimate([ours / theirs for ours, theirs in pairs] if usable else [])
    return found


def paper_figure(paper: Mapping[str, Any], label: str, metric: str) -> str:
    """The paper's figure with its name; empty if it gives none. Sub-variants are not the paper's."""
    figure = paper["figures"].get(label, {}).get(metric) if paper else None
    return "" if figure is None else f"{paper['short']} {figure:g}"


def _link(link: Mapping[str, Any]) -> str:
    loss = f", {link['loss_percent']:g} % random loss" if link["loss_percent"] else ", no random loss"
    queue = f"queue of {link['queue_limit_packets']} packets"
    return f"{link['rate_mbit_s']:g} Mbit/s, {link['delay_ms']:g} ms one way{loss}, {queue}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _anywhere(summary: Summary, metric: str) -> bool:
    return any(metric in m and m[metric].mean is not None for m in summary.variants.values())


# ---- plots ----


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
    size = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', text)
    opening = (
        f'<svg role="img" aria-labelledby="{name}-title" viewBox="0 0 {size[1]} {size[2]}" '
        f'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'<title id="{name}-title">{html.escape(title)}</title>'
    )
    return re.sub(r"<svg[^>]*>", lambda _: opening, text, count=1, flags=re.DOTALL).strip()


def plots(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Each plot as name, caption and SVG."""
    ink, faint, dim = (STAND_INS[name] for name in ("ink", "faint", "dim"))
    style = {
        "svg.hashsalt": "weir",
        "svg.fonttype": "none",
        "font.size": 9,
        "axes.titlesize": 9,
        "axes.titlelocation": "left",
        "axes.titlepad": 4,
        "axes.edgecolor": dim,
        "axes.labelcolor": ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": faint,
        "grid.linewidth": 0.6,
        "text.color": ink,
        "xtick.color": dim,
        "ytick.color": dim,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "legend.frameon": False,
        "lines.solid_capstyle": "round",
        "figure.constrained_layout.use": True,
    }
    with mpl.rc_context(style):
        for name, caption, draw in (
            (
                "delay",
                f"Queue delay over time: means over {DELAY_BIN_S:g} s. Bold: mean over seeds; faint: each seed; dashed "
                "line: the reference target; shaded: warm-up. All panels have the same logarithmic scale.",
                delay_over_time,
            ),
            (
                "cdf",
                "Distribution of the queue delay over packets after warm-up, all seeds (faint: each seed), "
                f"logarithmic; what is below {DELAY_FLOOR_MS:g} ms is left of the axis. Dashed line: the target.",
                delay_cdf,
            ),
            (
                "plane",
                "Mean queue delay against total goodput: faint points are seeds, the others means with 95 % intervals. "
                "Better is up and to the left.",
                delay_goodput_plane,
            ),
            (
                "goodput",
                f"Goodput of each responsive flow over time, means over {GOODPUT_BIN_S:g} s, of the first seed. Bold: "
                "mean over these flows and all seeds. All panels have the same scale; the largest 0.5 % of the values "
                "may lie above it.",
                goodput_over_time,
            ),
            (
                "probability",
                "Probability with which the discipline drops or marks a packet, over time. Bold: mean over seeds; "
                "faint: each seed. All panels have the same scale, that of the time after warm-up; disciplines that "
                "tell no probability have none.",
                probability_over_time,
            ),
        ):
            figure = draw(variants, facts)
            if name == "probability" and any(_wraps(variant) for variant in variants):
                caption += " " + PIE_WRAPS
            if figure is not None:
                yield name, caption, svg(figure, name, caption.split(":")[0].split(",")[0])


def _panels(variants: Sequence[Variant], facts: Mapping[str, Any], y_label: str) -> tuple[Figure, list[Axes]]:
    """A grid of small plots, one for each variant, with the same axes."""
    columns = len(variants) if len(variants) <= 3 else 2
    rows = -(-len(variants) // columns)
    figure = Figure(figsize=(11, 0.5 + 1.95 * rows))
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    axes = list(grid.flat)
    for variant, ax in zip(variants, axes, strict=False):
        ax.set_title(variant.label, color=STAND_INS[variant.hue], fontweight="bold")
        ax.axvspan(0, facts["warmup_s"], color=STAND_INS["faint"], alpha=0.5, linewidth=0)
        ax.set_xlim(0, facts["duration_s"])
    for ax in axes[len(variants) :]:
        ax.set_visible(False)
    for ax in axes[max(0, len(variants) - columns) : len(variants)]:
        ax.set_xlabel("time, s")
        ax.tick_params(labelbottom=True)
    for row in grid:
        row[0].set_ylabel(y_label)
    return figure, axes


def delay_over_time(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Figure:
    figure, axes = _panels(variants, facts, "queue delay, ms")
    for variant, ax in zip(variants, axes, strict=False):
        colour = STAND_INS[variant.hue]
        ax.axhline(facts["reference_target_ms"], color=STAND_INS["ink"], linestyle=(0, (4, 3)), linewidth=0.9)
        for series in variant.series.values():
            ax.plot(series.delay_t_s, np.maximum(series.delay_ms, DELAY_FLOOR_MS), color=colour, alpha=0.35, lw=0.8)
        some = next(iter(variant.series.values()))
        mean = _mean([series.delay_ms for series in variant.series.values()])
        ax.plot(some.delay_t_s, np.maximum(mean, DELAY_FLOOR_MS), color=colour, lw=1.8)
    axes[0].set_yscale("log")
    _log_ticks(axes[0], "y")
    return figure


def delay_cdf(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Figure:
    figure = Figure(figsize=(5.4, 3.7))
    ax = figure.subplots()
    ax.axvline(facts["reference_target_ms"], color=STAND_INS["ink"], linestyle=(0, (4, 3)), linewidth=0.9)
    for variant in variants:
        colour = STAND_INS[variant.hue]
        quantiles = [series.delay_quantiles_ms for series in variant.series.values()]
        for values in quantiles:
            ax.plot(np.maximum(values, 1e-6), CDF_AT, color=colour, alpha=0.3, lw=0.8)
        pooled_ms = np.sort(np.concatenate(quantiles))
        share = np.mean([np.interp(pooled_ms, values, CDF_AT) for values in quantiles], axis=0)
        ax.plot(np.maximum(pooled_ms, 1e-6), share, color=colour, lw=1.8, linestyle=variant.dash, label=variant.label)
    ax.set_xscale("log")
    ax.set_xlim(left=DELAY_FLOOR_MS)
    _log_ticks(ax, "x")
    ax.set_ylim(0, 1)
    ax.set_xlabel("queue delay, ms")
    ax.set_ylabel("share of packets")
    _legend(figure, variants)
    return figure


def delay_goodput_plane(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Figure:
    figure = Figure(figsize=(5.4, 3.7))
    ax = figure.subplots()
    for variant in variants:
        colour = STAND_INS[variant.hue]
        x = [run.metrics["queue_delay_mean_ms"] for run in variant.runs.values()]
        y = [run.metrics["goodput_total_mbit_s"] for run in variant.runs.values()]
        ex, ey = estimate(x), estimate(y)
        ax.plot(x, y, variant.marker, color=colour, alpha=0.45, markersize=4, markeredgewidth=0)
        bars = {"xerr": _inside(ex), "yerr": ey.ci95, "lw": 1.4, "capsize": 2.5}
        ax.errorbar(ex.mean, ey.mean, color=colour, marker=variant.marker, markersize=6.5, **bars)
    ax.set_xscale("log")
    ax.margins(x=0.2, y=0.15)
    _log_ticks(ax, "x")
    ax.set_xlabel("mean queue delay, ms")
    ax.set_ylabel("total goodput, Mbit/s")
    _legend(figure, variants, points=True)
    return figure


def goodput_over_time(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Figure | None:
    if all(flow["kind"] == "udp" for variant in variants for flow in variant.spec["flows"]):
        return None
    figure, axes = _panels(variants, facts, "goodput, kbit/s")
    seen: list[np.ndarray] = []
    for variant, ax in zip(variants, axes, strict=False):
        colour = STAND_INS[variant.hue]
        responsive = {group for group, flow in enumerate(variant.spec["flows"]) if flow["kind"] != "udp"}
        flows = [
            [rate for (group, _), rate in series.goodput_kbit_s.items() if group in responsive]
            for series in variant.series.values()
        ]
        time_s = next(iter(variant.series.values())).goodput_t_s
        for rate in flows[0]:
            ax.plot(time_s, rate, color=colour, alpha=0.35, lw=0.7)
        ax.plot(time_s, _mean([rate for seed in flows for rate in seed]), color=colour, lw=2)
        seen += flows[0]
    axes[0].set_ylim(0, 1.1 * max(1.0, np.quantile(np.concatenate(seen), GOODPUT_SHOWN)))
    return figure


def probability_over_time(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Figure | None:
    having = [variant for variant in variants if any(len(s.probability_t_s) for s in variant.series.values())]
    if not having:
        return None
    figure, axes = _panels(having, facts, "probability, %")
    edges_s = np.arange(0, facts["duration_s"] + DELAY_BIN_S / 2, DELAY_BIN_S)
    middle_s = (edges_s[:-1] + edges_s[1:]) / 2
    settled: list[np.ndarray] = []
    for variant, ax in zip(having, axes, strict=False):
        colour = STAND_INS[variant.hue]
        binned = []
        for series in variant.series.values():
            counts, _ = np.histogram(series.probability_t_s, edges_s)
            sums, _ = np.histogram(series.probability_t_s, edges_s, weights=series.probability_percent)
            binned.append(np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0))
            ax.plot(middle_s, binned[-1], color=colour, alpha=0.35, lw=0.8)
        ax.plot(middle_s, _mean(binned), color=colour, lw=1.8)
        settled += [rates[middle_s >= facts["warmup_s"]] for rates in binned]
    # The start of slow starts would press all that follows onto the axis.
    top = np.nanmax(np.concatenate(settled))
    axes[0].set_ylim(0, 1.15 * top if top > 0 else 1)
    return figure


def _wraps(variant: Variant) -> bool:
    """Whether kernel PIE's reading went over 1: it leaps by more than its steps of at most 4 % an update allow."""
    leaps = (np.abs(np.diff(series.probability_percent)) > 50 for series in variant.series.values())
    return variant.spec["aqm"]["qdisc"] == "pie" and any(leap.any() for leap in leaps)


def _legend(figure: Figure, variants: Sequence[Variant], points: bool = False) -> None:
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


def _log_ticks(ax: Axes, which: str) -> None:
    """Plain numbers in place of powers of ten, at the decades and, where there are few, between them."""
    axis = ax.xaxis if which == "x" else ax.yaxis
    ax.tick_params(which="both", axis=which, length=3.5, pad=3.5)
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    low, high = ax.get_xlim() if which == "x" else ax.get_ylim()
    between = FuncFormatter(lambda value, _: f"{value:g}" if f"{value:e}"[0] in "25" else "")
    axis.set_minor_formatter(between if high / low < 100 else NullFormatter())


def _inside(value: Estimate) -> Any:
    """Error bars that stay right of zero, for a logarithmic axis."""
    return None if value.ci95 is None else [[min(value.ci95, 0.99 * value.mean)], [value.ci95]]


def _mean(rows: Sequence[np.ndarray]) -> np.ndarray:
    """Mean over rows, leaving out NaN; NaN where all are."""
    stacked = np.array(rows)
    there = ~np.isnan(stacked)
    sums = np.where(there, stacked, 0.0).sum(axis=0)
    counts = there.sum(axis=0)
    return np.divide(sums, counts, out=np.full(stacked.shape[1], np.nan), where=counts > 0)


# ---- the page ----

CSS = """
:root { color-scheme: light dark; LIGHT }
@media (prefers-color-scheme: dark) { :root { DARK } }
@media print {
  :root { color-scheme: light; LIGHT }
  body { max-width: none; padding: 0; font-size: 10pt }
  figure, table, section { break-inside: avoid }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 1120px; padding: 2rem 1.5rem 4rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif }
h1 { font-size: 1.55rem; line-height: 1.25; margin: 0 0 .6rem; text-wrap: balance }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem }
p { max-width: 90ch }
ul { padding-left: 1.2rem; margin: .3rem 0 }
.dim, figcaption, caption, dt { color: var(--dim) }
figcaption, caption { font-size: .9rem; text-align: left }
caption { padding-bottom: .6rem }
.wide { overflow-x: auto }
table.even { table-layout: fixed }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100% }
th, td { padding: .28rem .7rem; border-bottom: 1px solid var(--faint); text-align: right; vertical-align: top;
  white-space: nowrap }
th[scope=row], th[scope=rowgroup], thead th:first-child { text-align: left }
th[scope=row] { font-weight: 400 }
th[scope=rowgroup] { background: var(--panel); font-size: .9rem }
thead th { border-bottom: 2px solid var(--dim) }
td small { display: block; color: var(--dim); font-size: .82em }
td .pm { color: var(--dim) }
details table { font-size: .82rem }
details th, details td { padding: .2rem .45rem }
details thead th { white-space: normal; vertical-align: bottom }
.bar { display: inline-block; width: .8em; height: .8em; border-radius: 2px; margin-right: .45em }
figure { margin: 1rem 0 }
figure svg { width: 100%; height: auto; display: block }
svg text { font-family: inherit }
.pair { display: grid; grid-template-columns: 1fr 1fr; gap: 1.5rem }
.pair figure { margin: 0 }
@media (max-width: 800px) { .pair { grid-template-columns: 1fr } }
pre { background: var(--panel); padding: .7rem 1rem; overflow-x: auto; border-radius: 4px; font-size: .88rem }
.bad { color: var(--bad); font-weight: 600 }
.good { color: var(--good) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; margin: .5rem 0 }
dd { margin: 0 }
details { margin: .8rem 0 }
summary { cursor: pointer }
"""
PAGE_COLOURS = {
    "page": ("#ffffff", "#15181c"),
    "panel": ("#f3f4f7", "#20252b"),
    "bad": ("#b3261e", "#ff8a80"),
    "good": ("#1b6e3c", "#7fd6a0"),
}


def page(meta: Mapping[str, Any], summary: Summary, variants: Sequence[Variant]) -> str:
    """The whole HTML document."""
    facts = meta["scenario"]
    e = html.escape
    drawn = {name: (caption, text) for name, caption, text in plots(variants, facts)} if variants else {}
    figure = {
        name: f"<figure>{text}<figcaption>{e(caption)}</figcaption></figure>" for name, (caption, text) in drawn.items()
    }
    parts = [
        f"<h1>{e(facts['title'])}</h1>",
        f"<p>{e(' '.join(facts['description'].split()))}</p>" if facts["description"] else "",
        _what_ran(facts, summary, variants),
        _checks(summary),
        "<h2>Figures</h2>",
        _table(facts, summary, variants),
        _ratio_tables(summary, variants),
        "<h2>Queue delay over time</h2>" + figure["delay"] if "delay" in figure else "",
        '<h2>How the delay is spread, and what it buys</h2><div class="pair">'
        + figure["cdf"]
        + figure["plane"]
        + "</div>"
        if "cdf" in figure
        else "",
        "<h2>Goodput per flow over time</h2>" + figure["goodput"] if "goodput" in figure else "",
        "<h2>Probability over time</h2>" + figure["probability"] if "probability" in figure else "",
        _by_seed(summary),
        _repeat(meta),
        _definitions(facts),
    ]
    css = CSS.replace("LIGHT", _variables(0)).replace("DARK", _variables(1))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{e(facts["title"])}</title>\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<style>{css}</style>\n</head>\n'
        f"<body>\n<main>\n{chr(10).join(part for part in parts if part)}\n</main>\n</body>\n</html>\n"
    )


def _variables(scheme: int) -> str:
    return " ".join(f"--{name}: {colours[scheme]};" for name, colours in {**HUES, **INKS, **PAGE_COLOURS}.items())


def _what_ran(facts: Mapping[str, Any], summary: Summary, variants: Sequence[Variant]) -> str:
    e = html.escape
    common = f"<ul>{''.join(f'<li>{e(line)}</li>' for line in in_words(variants[0].spec))}</ul>" if variants else ""
    rows = "".join(
        f'<dt><span class="bar" style="background: var(--{v.hue})"></span>{e(v.label)}</dt><dd>'
        f"{e(aqm_in_words(v.spec['aqm']))}</dd>"
        for v in variants
    )
    return f"<p>{e(run_counts(facts, summary))}</p>{common}<dl>{rows}</dl>"


def _checks(summary: Summary) -> str:
    lines = []
    for line in check_lines(summary):
        bad = line.startswith(BAD)
        kind = "bad" if bad else "dim" if line.startswith("NOTE") or summary.failures else "good"
        lines.append(f'<li class="{kind}">{html.escape(line)}</li>')
    return f"<section><h2>Checks</h2><ul>{''.join(lines)}</ul></section>"


def _table(facts: Mapping[str, Any], summary: Summary, variants: Sequence[Variant]) -> str:
    e = html.escape
    paper = facts["paper"]
    head = "".join(
        f'<th scope="col"><span class="bar" style="background: var(--{v.hue})"></span>{e(v.label)}</th>'
        for v in variants
    )
    body = []
    for metric, text, unit, decimals in ROWS:
        if metric is None:
            body.append(f'<tr><th scope="rowgroup" colspan="{len(variants) + 1}">{e(text)}</th></tr>')
            continue
        if not _anywhere(summary, metric):
            continue
        cells = []
        for variant in variants:
            cell = e(shown(summary.variants[variant.label][metric], decimals))
            cell = re.sub(r" ± (.+)", r' <span class="pm">± \1</span>', cell)
            figure = paper_figure(paper, variant.label, metric)
            cells.append(f"<td>{cell}{f'<small>{e(figure)}</small>' if figure else ''}</td>")
        unit_text = f' <span class="dim">{e(unit)}</span>' if unit else ""
        label = f'<th scope="row" title="{e(METRICS[metric])}">{e(text)}{unit_text}</th>'
        body.append(f"<tr>{label}{''.join(cells)}</tr>")
    note = f" {paper['short']}: {paper['source']}. {' '.join(paper['note'].split())}" if paper else ""
    even = ' class="even"' if len(variants) <= 5 else ""  # more than fit scroll
    caption = "Mean over seeds ± half the width of its 95 % interval (Student's t)." + note
    return (
        f'<div class="wide"><table{even}><caption>{e(caption)}</caption>'
        f'<thead><tr><th scope="col"></th>{head}</tr></thead>'
        f"<tbody>{''.join(body)}</tbody></table></div>"
    )


def _ratio_tables(summary: Summary, variants: Sequence[Variant]) -> str:
    specs = {v.label: v.spec for v in variants}
    return _ratio_table(
        comparisons(specs, summary),
        "Beside kernel PIE",
        "Each variant over kernel PIE with the same seed and setting: mean of the ratios ± half the width of its 95 % "
        "interval.",
    ) + _ratio_table(
        beside_ebpf(specs, summary),
        "The P4 switch beside eBPF",
        "Each P4 variant over the same law and gains as tc eBPF with the same seed and setting: mean of the ratios ± "
        "half the width of its 95 % interval.",
    )


def _ratio_table(found: Mapping[str, Mapping[str, Estimate]], heading: str, caption: str) -> str:
    e = html.escape
    if not found:
        return ""
    head = "".join(f'<th scope="col">{e(label)}</th>' for label in found)
    body = "".join(
        f'<tr><th scope="row">{e(text)}</th>'
        f"{''.join(f'<td>{e(shown(ratios[metric], 3))}</td>' for ratios in found.values())}</tr>"
        for metric, text in RATIOS
    )
    return (
        f'<h2>{e(heading)}</h2><div class="wide"><table><caption>{e(caption)}</caption>'
        f'<thead><tr><th scope="col">ratio</th>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _by_seed(summary: Summary) -> str:
    e = html.escape
    metrics = [(metric, text, unit, decimals) for metric, text, unit, decimals in ROWS if metric]
    chosen = [row for row in metrics if row[0].startswith(("goodput", "queue_delay", "rtt", "loss"))]
    head = "".join(f'<th scope="col">{e(METRIC_HEADS[row[0]])}</th>' for row in chosen)
    rows = []
    for run in summary.runs:
        values = [(run.metrics.get(row[0]), row[3]) for row in chosen]
        cells = "".join(f"<td>{NOTHING if value is None else f'{value:.{d}f}'}</td>" for value, d in values)
        rows.append(f'<tr><th scope="row">{e(run.variant)}, {run.seed}</th>{cells}</tr>')
    return (
        f'<details><summary>Every run by itself</summary><div class="wide"><table><thead><tr><th scope="col">variant, '
        f"seed</th>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div></details>"
    )


METRIC_HEADS = {
    "goodput_per_flow_mean_kbit_s": "per flow, kbit/s",
    "goodput_total_mbit_s": "total, Mbit/s",
    "queue_delay_mean_ms": "delay mean, ms",
    "queue_delay_sd_ms": "sd, ms",
    "queue_delay_p50_ms": "p50, ms",
    "queue_delay_p95_ms": "p95, ms",
    "queue_delay_p99_ms": "p99, ms",
    "queue_delay_excess_ms": "excess, ms",
    "rtt_mean_ms": "RTT, ms",
    "loss_percent": "loss, %",
}


def _repeat(meta: Mapping[str, Any]) -> str:
    e = html.escape
    seeds = ", ".join(map(str, meta["seeds"]))
    facts = {"seeds": seeds, "started (UTC)": meta["started_utc"], **meta["versions"], **meta["host"]}
    rows = "".join(f"<dt>{e(str(key).replace('_', ' '))}</dt><dd>{e(str(value))}</dd>" for key, value in facts.items())
    return (
        f"<section><h2>How to repeat it</h2><pre>{e(shlex.join(meta['argv']))}</pre><p>In the exact lab time is "
        f"virtual and every source of chance is seeded, so the same seed gives the same bytes again on "
        f"this machine, from any clone, however busy it is. Another installation of Debian (other files read at start) "
        f"gives another run of the same seed, within the intervals.</p>"
        f"<dl>{rows}</dl></section>"
    )


def _definitions(facts: Mapping[str, Any]) -> str:
    e = html.escape
    rows = "".join(f"<dt><code>{e(name)}</code></dt><dd>{e(text)}</dd>" for name, text in METRICS.items())
    return f"<details><summary>What each figure is</summary><dl>{rows}</dl></details>"
