# SPDX-License-Identifier: Apache-2.0
"""The report of a dumbbell: queue disciplines beside each other, their delay, goodput and probability over time."""

from collections.abc import Mapping, Sequence
from typing import Any

from weirlab.report import results
from weirlab.report.labels import Variant, anywhere
from weirlab.report.model import Block, Figure, Report, Section, SideBySide
from weirlab.store.folder import ResultsFolder, Summary
from weirlab.topologies.dumbbell.metrics import ALL_METRICS, METRICS
from weirlab.topologies.dumbbell.report.compare import RATIOS, beside_ebpf, comparisons
from weirlab.topologies.dumbbell.report.decisions import decisions
from weirlab.topologies.dumbbell.report.labels import checks, in_words, run_counts, variant_in_words
from weirlab.topologies.dumbbell.report.paced import by_flow, paced_rows
from weirlab.topologies.dumbbell.report.plots import all_plots
from weirlab.topologies.dumbbell.report.series import read_variants

SETTINGS = "Settings: links, flows, and each variant"
RATIO_NOTE = "mean of the ratios ± half the width of its 95 % interval."
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
    ("queue_delay_bulk_p99_ms", "p99 of bulk flows", "ms", 2),
    ("queue_delay_excess_ms", "excess over target", "ms", 2),
    (None, "Senders under test", "", 0),
    ("throughput_mbit_s", "throughput", "Mbit/s", 3),
    ("wire_mbit_s", "on the wire", "Mbit/s", 3),
    ("jain_after_10s_index", "Jain index after 10 s", "", 3),
    ("convergence_s", "shares even after", "s", 1),
    ("neighbour_mbit_s", "neighbours", "Mbit/s", 3),
    ("neighbour_share", "the neighbours' share", "", 3),
    ("decisions_outside_percent", "decisions outside the training", "%", 2),
    ("completion_p50_s", "short transfers, median", "s", 3),
    ("completion_p95_s", "p95", "s", 3),
    (None, "Bands", "", 0),
    ("queue_delay_low_mean_ms", "L: queue delay, mean", "ms", 2),
    ("queue_delay_low_p50_ms", "median", "ms", 2),
    ("queue_delay_low_p95_ms", "p95", "ms", 2),
    ("queue_delay_low_p99_ms", "p99", "ms", 2),
    ("queue_delay_classic_mean_ms", "C: queue delay, mean", "ms", 2),
    ("queue_delay_classic_p99_ms", "p99", "ms", 2),
    ("low_share_percent", "L's share of bytes", "%", 1),
    ("goodput_classic_over_scalable", "goodput, classic over scalable", "", 3),
    (None, "Path", "", 0),
    ("rtt_mean_ms", "round-trip time", "ms", 1),
    ("loss_percent", "lost, all causes", "%", 2),
    ("drops_aqm_packets", "dropped early", "packets", 0),
    ("drops_limit_packets", "dropped, queue full", "packets", 0),
    ("drops_qdisc_packets", "dropped, cause not told", "packets", 0),
    ("link_lost_packets", "lost on links", "packets", 0),
    ("marks_packets", "marked CE", "packets", 0),
    ("utilisation_percent", "link utilisation", "%", 1),
    ("capacity_mean_mbit_s", "link capacity, mean", "Mbit/s", 3),
    ("goodput_of_capacity_percent", "goodput, of that capacity", "%", 1),
    (None, "Way back", "", 0),
    ("return_delay_mean_ms", "queue delay, mean", "ms", 2),
    ("return_delay_p50_ms", "median", "ms", 2),
    ("return_delay_p99_ms", "p99", "ms", 2),
    ("return_loss_percent", "dropped", "%", 2),
    ("return_drops_aqm_packets", "dropped early", "packets", 0),
    ("return_drops_limit_packets", "dropped, queue full", "packets", 0),
    ("return_drops_qdisc_packets", "dropped, cause not told", "packets", 0),
    ("return_marks_packets", "marked CE", "packets", 0),
    ("return_acks_packets", "acknowledgements", "packets", 0),
    ("return_acks_per_packet", "for each data packet", "", 3),
    ("return_utilisation_percent", "utilisation", "%", 1),
    *paced_rows(),
)


def report(folder: ResultsFolder, summary: Summary, drawn: bool) -> Report:
    """The figures, the comparisons with kernel PIE and with eBPF if they were run, the plots if `drawn`, the checks."""
    facts = folder.meta["scenario"]
    specs = results.specs_of(folder, summary)
    variants = read_variants(folder, summary) if drawn else []
    hues = {variant.label: variant.hue for variant in variants}
    plots = _plots(variants, facts)
    found: list[Block] = [
        Section("Figures", [results.figures(ROWS, ALL_METRICS, facts, summary, hues), *by_flow(summary)]),
        *_comparisons(specs, summary),
    ]
    if variants:
        words = results.variant_terms(variants, lambda variant: variant_in_words(variant.spec))
        found.append(results.settings(SETTINGS, in_words(variants[0].spec), words))
    found += plots[:1]
    found += decisions(folder, summary, specs)
    found += plots[1:]
    found.append(results.by_seed(_by_seed_columns(), summary))
    definitions = {name: text for name, text in ALL_METRICS.items() if name in METRICS or anywhere(summary, name)}
    found += results.closing(folder.meta, checks(summary), definitions)
    return results.report(facts, run_counts(facts, summary), found)


def _plots(variants: Sequence[Variant], facts: Mapping[str, Any]) -> list[Block]:
    """A section for each plot that there is, the delay over time first."""
    if not variants:
        return []
    figure = {name: Figure(alt, caption, svg) for name, alt, caption, svg in all_plots(variants, facts)}
    both = [SideBySide([figure["cdf"], figure["plane"]])] if "cdf" in figure else []
    return [
        Section("Queue delay over time", [figure["delay"]] if "delay" in figure else []),
        Section("Distribution of the delay, and goodput", both),
        Section("Goodput per flow over time", [figure["goodput"]] if "goodput" in figure else []),
        Section("Probability over time", [figure["probability"]] if "probability" in figure else []),
    ]


def _comparisons(specs: Mapping[str, Mapping[str, Any]], summary: Summary) -> list[Block]:
    return [
        Section(heading, [results.ratios(RATIOS, found, corner, f"{note}: {RATIO_NOTE}")])
        for heading, found, corner, note in (
            (
                "Beside kernel PIE",
                comparisons(specs, summary),
                "over kernel PIE, seed by seed",
                "Each variant over kernel PIE with the same seed and setting",
            ),
            (
                "The P4 switch beside eBPF",
                beside_ebpf(specs, summary),
                "over the same law as eBPF",
                "Each P4 variant over the same law and gains as tc eBPF with the same seed and setting",
            ),
        )
    ]


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
    "queue_delay_bulk_p99_ms": "p99 of bulk, ms",
    "queue_delay_excess_ms": "excess, ms",
    "rtt_mean_ms": "RTT, ms",
    "loss_percent": "loss, %",
}
