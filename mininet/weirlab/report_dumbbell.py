# SPDX-License-Identifier: Apache-2.0
"""The report of a dumbbell: queue disciplines beside each other, their delay, goodput and probability over time."""

import gzip
import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.markup import escape

from weirlab import report_parts as parts
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
from weirlab.report_parts import HUES, STAND_INS, Variant, count, inside, legend, log_ticks, mean_over_rows, plain
from weirlab.results import ResultsFolder, RunResult, Summary, read_json, samples_path

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
    ("loss_percent", "lost, all causes"),
    ("jain_index", "Jain index"),
)


P4_TARGETS = {"embedded": "weir-switch", "bmv2": "BMv2"}
# sch_pie.c lets its probability grow beyond 1 while the delay is above 250 ms, and shows 64 bits of it shifted by 8.
PIE_WRAPS = (
    "Kernel PIE does not bound its probability by 100 % and its reading starts again at 0 above that: where its line "
    "leaps down or up, PIE drops every packet that it may."
)
DELAY_BIN_S = 0.5
GOODPUT_BIN_S = 1.0
GOODPUT_SHOWN = 0.995  # share of the values that the scale has room for; one burst would flatten the rest
CDF_AT = np.concatenate([np.linspace(0, 0.99, 199), np.linspace(0.99, 0.9999, 25)])
DELAY_FLOOR_MS = 0.1  # logarithmic axes start here
DECISIONS_PRINTED = 8  # of a variant, on the terminal; the page has all of its first seed


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
    decisions: list[dict[str, Any]]


def headline(metrics: Mapping[str, Any]) -> str:
    """A run's figures in a few words."""
    delay_ms, goodput_mbit_s = (metrics[key] for key in ("queue_delay_mean_ms", "goodput_total_mbit_s"))
    return f"queue delay {delay_ms:.2f} ms, goodput {goodput_mbit_s:.3f} Mbit/s"


def print_table(folder: ResultsFolder, summary: Summary, console: Console) -> None:
    """Print the figures, the comparisons with kernel PIE and with eBPF if they were run, and the checks."""
    facts = folder.meta["scenario"]
    specs = {run.variant: read_json(folder.run_path(run.variant, run.seed) / "spec.json") for run in summary.runs}
    console.print(escape(run_counts(facts, summary)))
    cells = partial(parts.result_cells, ROWS, summary, facts["paper"])
    parts.print_chunks(console, "mean over seeds ± 95 %", list(summary.variants), cells)
    for found, corner in (
        (comparisons(specs, summary), "over kernel PIE, seed by seed"),
        (beside_ebpf(specs, summary), "over the same law as eBPF"),
    ):
        parts.print_chunks(console, corner, list(found), partial(parts.ratio_cells, RATIOS, found))
    print_decisions(folder, summary, console)
    parts.print_checks(console, check_lines(summary))


def print_decisions(folder: ResultsFolder, summary: Summary, console: Console) -> None:
    """What the tuner did in the first seed of each variant that has one."""
    seen = set()
    for run in summary.runs:
        path = folder.run_path(run.variant, run.seed)
        if run.variant in seen or not read_json(path / "spec.json")["aqm"].get("tune"):
            continue
        seen.add(run.variant)
        decisions = read_decisions(path)
        told = f"{run.variant}, seed {run.seed}: what the tuner did" + ("" if decisions else ": nothing")
        console.print(escape(told), style="bold", highlight=False)
        for decision in decisions[:DECISIONS_PRINTED]:
            time, what, why, changed = decision_in_words(decision)
            text = f"{time:>7} s  {what}: {why}{'; ' if changed else ''}{changed}"
            console.print(escape(text), highlight=False, soft_wrap=True)
        if len(decisions) > DECISIONS_PRINTED:
            console.print(f"  and {len(decisions) - DECISIONS_PRINTED} more, in the report", highlight=False)
        console.print()


def read_decisions(run_path: Path) -> list[dict[str, Any]]:
    """The tuner's decisions and their effects in one run, `t_s` counted from the run's start; none without a tuner."""
    path = run_path / "decisions.jsonl"
    if not path.is_file():
        return []
    samples = samples_path(run_path)
    with gzip.open(samples) if samples.suffix == ".gz" else open(samples, "rb") as file:
        start = json.loads(file.readline())  # always the first line
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [{**line, "t_s": (line["t_us"] - start["t_us"]) / 1e6} for line in lines]


def decision_in_words(line: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """When (s of the run), what, why, and what changed by it."""
    time = f"{line['t_s']:.1f}"
    if line["k"] == "effect":
        pairs = [(key, value, line["after"].get(key)) for key, value in line["before"].items()]
        course = ", ".join(
            f"{key} {before:.4g} \N{RIGHTWARDS ARROW} {after:.4g}"
            for key, before, after in pairs
            if before is not None and after is not None
        )
        return time, line["verdict"], "what the trial brought", course
    changed = ", ".join(
        f"{key} {plain(old)} \N{RIGHTWARDS ARROW} {plain(new)}" for key, (old, new) in line["changed"].items()
    )
    return time, line["action"], line["reason"], changed


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
            decisions = read_decisions(run_path)
            series[seed] = series_of(read_samples(samples_path(run_path), spec), spec, decisions)
        hue = spec["aqm"].get("profile", spec["aqm"]["qdisc"])
        hue = "auto" if spec["aqm"].get("tune") else hue
        hue = f"p4-{hue}" if spec["aqm"]["qdisc"] == "p4" else hue
        hue = hue if hue in HUES else "other"
        variants.append(Variant(label, spec, runs, series, hue, *parts.look(len(variants))))
    return variants


def series_of(samples: Samples, spec: Mapping[str, Any], decisions: list[dict[str, Any]]) -> Series:
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
        decisions=decisions,
    )


# ---- words ----


def run_counts(facts: Mapping[str, Any], summary: Summary) -> str:
    seeds = sorted({run.seed for run in summary.runs})
    return (
        f"{count(len(summary.variants), 'variant')}, {count(len(seeds), 'seed')}, {count(len(summary.runs), 'run')} "
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
            "tcp-short": "place of short TCP transfers",
            "udp": "UDP flow",
        }
        text = count(flow["count"], kinds[flow["kind"]])
        if flow["kind"] == "udp":
            text += f", unresponsive, {flow['rate_mbit_s']:g} Mbit/s each"
            if "on_s" in flow:
                text += f" for {flow['on_s']:g} s, then silent for {flow['off_s']:g} s, in turn"
        else:
            text += f", {flow['cc']}"
        if flow["kind"] == "tcp-short":
            drawn = "bytes" not in flow
            size = f"median {flow['bytes_median']:g} bytes, log-normal" if drawn else f"{flow['bytes']} bytes each"
            text += f", {flow['arrivals_per_s']:g} arriving a second in all, {size}"
        if flow.get("extra_rtt_ms"):
            text += f", {flow['extra_rtt_ms']:g} ms more of round trip than the others"
        text += f", up to {flow['payload_bytes']} bytes of payload a packet"
        lines.append(f"{text}, from {flow['start_s']:g} to {flow['stop_s']:g} s")
    access, bottleneck = spec["link"]["access"], spec["link"]["bottleneck"]
    lines.append(f"access links, one for each sender: {_link(access)}")
    lines.append(f"bottleneck, shared by all: {_link(bottleneck)}")
    words = {"rate_mbit_s": "{:g} Mbit/s", "delay_ms": "{:g} ms one way", "loss_percent": "{:g} % lost at random"}
    for change in spec.get("changes", ()):
        what = ", ".join(text.format(change[key]) for key, text in words.items() if key in change)
        lines.append(f"from {change['at_s']:g} s on the bottleneck has {what}")
    return lines


def aqm_in_words(aqm: Mapping[str, Any]) -> str:
    """A discipline and its options."""
    rest = {key: value for key, value in aqm.items() if key not in ("qdisc", "profile", "switch", "program", "tune")}
    match aqm["qdisc"]:
        case "weir":
            name = f"PID law as tc eBPF, profile {aqm['profile']}"
        case "p4":
            name = f"PID law in {aqm['program']} on {P4_TARGETS[aqm['switch']]}, profile {aqm['profile']}"
        case kind:
            name = f"kernel {kind}"
    if aqm.get("tune"):
        name += ", the tuner running beside it and starting from"
    return f"{name}: {', '.join(f'{k} {plain(v)}' for k, v in rest.items())}" if rest else f"{name} (drop-tail)"


def check_lines(summary: Summary) -> list[str]:
    """The checks, passed or failed, and what is missing."""
    lines = parts.failed_lines(summary)
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
            "of the packets at the queue under test escaped measurement",
            UNMEASURED_LIMIT_PERCENT,
        ),
    ):
        known = [value for run in summary.runs if (value := run.metrics[metric]) is not None]
        if known:
            passed = sum(value <= limit for value in known)
            lines.append(
                f"{name}: {passed} of {count(len(summary.runs), 'run')} passed; at most {max(known):.2f} % {what} "
                f"(limit {limit:g} %)."
            )
    return lines + parts.chance_lines(summary)


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


def _link(link: Mapping[str, Any]) -> str:
    loss = f", {link['loss_percent']:g} % random loss" if link["loss_percent"] else ", no random loss"
    queue = f"queue of {link['queue_limit_packets']} packets"
    return f"{link['rate_mbit_s']:g} Mbit/s, {link['delay_ms']:g} ms one way{loss}, {queue}"


# ---- plots ----


def plots(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Iterable[tuple[str, str, str]]:
    """Each plot as name, caption and SVG."""
    with mpl.rc_context(parts.STYLE):
        for name, caption, draw in (
            (
                "delay",
                f"Queue delay over time: means over {DELAY_BIN_S:g} s. Bold: mean over seeds; faint: each seed; dashed "
                "line: the reference target; shaded: warm-up; triangles: where the tuner changed gains in the first "
                "seed. All panels have the same logarithmic scale.",
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
                yield name, caption, parts.svg(figure, name, caption.split(":")[0].split(",")[0])


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
        mean = mean_over_rows([series.delay_ms for series in variant.series.values()])
        ax.plot(some.delay_t_s, np.maximum(mean, DELAY_FLOOR_MS), color=colour, lw=1.8)
        changed_s = [line["t_s"] for line in some.decisions if line.get("changed") and line["t_s"] >= 0]
        if changed_s:
            top = {"transform": ax.get_xaxis_transform(), "clip_on": False, "linestyle": "none"}
            ax.plot(changed_s, [1.0] * len(changed_s), marker="v", color=STAND_INS["ink"], markersize=6, **top)
    axes[0].set_yscale("log")
    log_ticks(axes[0], "y")
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
    log_ticks(ax, "x")
    ax.set_ylim(0, 1)
    ax.set_xlabel("queue delay, ms")
    ax.set_ylabel("share of packets")
    legend(figure, variants)
    return figure


def delay_goodput_plane(variants: Sequence[Variant], facts: Mapping[str, Any]) -> Figure:
    figure = Figure(figsize=(5.4, 3.7))
    ax = figure.subplots()
    seen: list[tuple[float, float]] = []
    for variant in variants:
        colour = STAND_INS[variant.hue]
        x = [run.metrics["queue_delay_mean_ms"] for run in variant.runs.values()]
        y = [run.metrics["goodput_total_mbit_s"] for run in variant.runs.values()]
        seen += zip(x, y, strict=True)
        ex, ey = estimate(x), estimate(y)
        ax.plot(x, y, variant.marker, color=colour, alpha=0.45, markersize=4, markeredgewidth=0)
        bars = {"xerr": inside(ex), "yerr": ey.ci95, "lw": 1.4, "capsize": 2.5}
        ax.errorbar(ex.mean, ey.mean, color=colour, marker=variant.marker, markersize=6.5, **bars)
    parts.plane_scales(ax, seen)
    ax.set_xlabel("mean queue delay, ms")
    ax.set_ylabel("total goodput, Mbit/s")
    legend(figure, variants, points=True)
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
        ax.plot(time_s, mean_over_rows([rate for seed in flows for rate in seed]), color=colour, lw=2)
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
        ax.plot(middle_s, mean_over_rows(binned), color=colour, lw=1.8)
        settled += [rates[middle_s >= facts["warmup_s"]] for rates in binned]
    # The start of slow starts would press all that follows onto the axis.
    top = np.nanmax(np.concatenate(settled))
    axes[0].set_ylim(0, 1.15 * top if top > 0 else 1)
    return figure


def _wraps(variant: Variant) -> bool:
    """Whether kernel PIE's reading went over 1: it leaps by more than its steps of at most 4 % an update allow."""
    leaps = (np.abs(np.diff(series.probability_percent)) > 50 for series in variant.series.values())
    return variant.spec["aqm"]["qdisc"] == "pie" and any(leap.any() for leap in leaps)


# ---- the page ----


def page(meta: Mapping[str, Any], summary: Summary, variants: Sequence[Variant]) -> str:
    """The whole HTML document."""
    facts = meta["scenario"]
    drawn = plots(variants, facts) if variants else ()
    figure = {name: parts.drawing(caption, text) for name, caption, text in drawn}
    common = in_words(variants[0].spec) if variants else []
    lines = check_lines(summary)
    found = [
        *parts.heading(facts),
        f"<p>{html.escape(run_counts(facts, summary))}</p>",
        parts.failed_checks(lines),
        "<h2>Figures</h2>",
        parts.table(ROWS, METRICS, facts, summary, variants),
        _ratio_tables(summary, variants),
        parts.what_ran(common, variants, lambda v: aqm_in_words(v.spec["aqm"])),
        "<h2>Queue delay over time</h2>" + figure["delay"] if "delay" in figure else "",
        *(decision_table(variant) for variant in variants),
        '<h2>How the delay is spread, and what it buys</h2><div class="pair">'
        + figure["cdf"]
        + figure["plane"]
        + "</div>"
        if "cdf" in figure
        else "",
        "<h2>Goodput per flow over time</h2>" + figure["goodput"] if "goodput" in figure else "",
        "<h2>Probability over time</h2>" + figure["probability"] if "probability" in figure else "",
        parts.by_seed(_by_seed_columns(), summary),
        parts.checks(lines),
        parts.repeat(meta),
        parts.definitions(METRICS),
    ]
    return parts.document(facts["title"], found)


def decision_table(variant: Variant) -> str:
    """What the tuner did in a variant's first seed; empty for a variant without one."""
    if not variant.spec["aqm"].get("tune"):
        return ""
    seed, series = next(iter(variant.series.items()))
    heading = f"<h2>What the tuner did: {html.escape(variant.label)}, seed {seed}</h2>"
    if not series.decisions:
        return f"{heading}<p>Nothing: the gains that it found are those that it kept.</p>"
    heads = ("time, s", "what", "why", "what changed")
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in decision_in_words(line)) for line in series.decisions)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    table = f'<table class="words"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'{heading}<div class="wide">{table}</div>'


def _ratio_tables(summary: Summary, variants: Sequence[Variant]) -> str:
    specs = {v.label: v.spec for v in variants}
    return parts.ratio_table(
        RATIOS,
        comparisons(specs, summary),
        "Beside kernel PIE",
        "Each variant over kernel PIE with the same seed and setting: mean of the ratios ± half the width of its 95 % "
        "interval.",
    ) + parts.ratio_table(
        RATIOS,
        beside_ebpf(specs, summary),
        "The P4 switch beside eBPF",
        "Each P4 variant over the same law and gains as tc eBPF with the same seed and setting: mean of the ratios ± "
        "half the width of its 95 % interval.",
    )


def _by_seed_columns() -> list[tuple[str, str, int]]:
    return [(row[0], METRIC_HEADS[row[0]], row[3]) for row in ROWS if row[0] in METRIC_HEADS]


METRIC_HEADS = {
    "goodput_per_flow_mean_kbit_s": "per flow, kbit/s",
    "goodput_total_mbit_s": "total, Mbit/s",
    "jain_index": "Jain index",
    "queue_delay_mean_ms": "delay mean, ms",
    "queue_delay_sd_ms": "sd, ms",
    "queue_delay_p50_ms": "p50, ms",
    "queue_delay_p95_ms": "p95, ms",
    "queue_delay_p99_ms": "p99, ms",
    "queue_delay_excess_ms": "excess, ms",
    "rtt_mean_ms": "RTT, ms",
    "loss_percent": "loss, %",
}
