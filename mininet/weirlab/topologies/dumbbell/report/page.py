# SPDX-License-Identifier: Apache-2.0
"""The report of a dumbbell: queue disciplines beside each other, their delay, goodput and probability over time."""

import html
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from rich.console import Console
from rich.markup import escape

from weirlab.report import markup
from weirlab.report.labels import Variant, anywhere
from weirlab.report.terminal import print_checks, print_chunks, ratio_cells, result_cells
from weirlab.store.documents import read_json
from weirlab.store.folder import ResultsFolder, Summary
from weirlab.topologies.dumbbell.metrics import ALL_METRICS, METRICS
from weirlab.topologies.dumbbell.report.compare import RATIOS, beside_ebpf, comparisons
from weirlab.topologies.dumbbell.report.decisions import decision_table, print_decisions
from weirlab.topologies.dumbbell.report.labels import check_lines, in_words, run_counts, variant_in_words
from weirlab.topologies.dumbbell.report.paced import by_flow, paced_rows
from weirlab.topologies.dumbbell.report.plots import all_plots

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


def print_table(folder: ResultsFolder, summary: Summary, console: Console) -> None:
    """Print the figures, the comparisons with kernel PIE and with eBPF if they were run, and the checks."""
    facts = folder.meta["scenario"]
    specs = {run.variant: read_json(folder.run_path(run.variant, run.seed) / "spec.json") for run in summary.runs}
    console.print(escape(run_counts(facts, summary)))
    cells = partial(result_cells, ROWS, summary, facts["paper"])
    print_chunks(console, "mean over seeds ± 95 %", list(summary.variants), cells)
    for found, corner in (
        (comparisons(specs, summary), "over kernel PIE, seed by seed"),
        (beside_ebpf(specs, summary), "over the same law as eBPF"),
    ):
        print_chunks(console, corner, list(found), partial(ratio_cells, RATIOS, found))
    print_decisions(folder, summary, console)
    print_checks(console, check_lines(summary))


def page(meta: Mapping[str, Any], summary: Summary, variants: Sequence[Variant]) -> str:
    """The whole HTML document."""
    facts = meta["scenario"]
    drawn = all_plots(variants, facts) if variants else ()
    figure = {name: markup.drawing(caption, text) for name, caption, text in drawn}
    common = in_words(variants[0].spec) if variants else []
    lines = check_lines(summary)
    found = [
        *markup.heading(facts),
        f"<p>{html.escape(run_counts(facts, summary))}</p>",
        markup.failed_checks(lines),
        "<h2>Figures</h2>",
        markup.table(ROWS, ALL_METRICS, facts, summary, variants),
        by_flow(summary),
        _ratio_tables(summary, variants),
        markup.what_ran(common, variants, lambda v: variant_in_words(v.spec)),
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
        markup.by_seed(_by_seed_columns(), summary),
        markup.checks(lines),
        markup.repeat(meta),
        markup.definitions({n: text for n, text in ALL_METRICS.items() if n in METRICS or anywhere(summary, n)}),
    ]
    return markup.document(facts["title"], found)


def _ratio_tables(summary: Summary, variants: Sequence[Variant]) -> str:
    specs = {v.label: v.spec for v in variants}
    return markup.ratio_table(
        RATIOS,
        comparisons(specs, summary),
        "Beside kernel PIE",
        "Each variant over kernel PIE with the same seed and setting: mean of the ratios ± half the width of its 95 % "
        "interval.",
    ) + markup.ratio_table(
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
