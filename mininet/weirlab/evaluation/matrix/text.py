# SPDX-License-Identifier: Apache-2.0
"""The matrix in words and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence

from weirlab.evaluation.matrix.analysis import (
    COMPARED,
    ISOLATING,
    NO_FRONT,
    OSCILLATES_ABOVE,
    OURS,
    STARVED,
    Matrix,
    ScenarioResult,
    analyse,
    oscillates,
)
from weirlab.evaluation.shared import duels
from weirlab.evaluation.shared.claims import missed, targets
from weirlab.evaluation.shared.labels import FIGURES, GROUP_WORDS, geometric_mean
from weirlab.evaluation.shared.ratios import SAME, both_known, paired, paired_difference, paired_ratio
from weirlab.evaluation.shared.rows import DELAY, DELAY_FLOOR_MS, GOODPUT
from weirlab.metrics.estimate import Estimate, student_t95
from weirlab.report import results
from weirlab.report.labels import NOTHING, count, paper_figure, shown
from weirlab.report.model import Block, Bullets, Figure, Medium, Only, Paragraph, Prose, Section, Table, table

TABLE2_ROWS = (
    (GOODPUT, "goodput, total, Mbit/s", 3),
    ("goodput_per_flow_mean_kbit_s", "goodput per endpoint, kbit/s", 1),
    ("jain_index", "Jain index", 3),
    (DELAY, "queue delay, mean, ms", 2),
    ("queue_delay_sd_ms", "queue delay, sd, ms", 2),
    ("queue_delay_p99_ms", "queue delay, p99, ms", 1),
    ("queue_delay_excess_ms", "excess over 15 ms, ms", 2),
    ("rtt_mean_ms", "RTT per endpoint, ms", 1),
    ("loss_percent", "lost, %", 2),
    ("lost_packets", "lost packets", 0),
    ("rx_packets", "received packets", 0),
)
# Cao et al., section IV: PID-Delay's figures over PIE's. Its counts of packets say nothing by themselves, since it does
# not tell over which time they were taken; their ratios do.
PAPER_OVER_PIE = (
    ("goodput_per_flow_mean_kbit_s", "goodput per endpoint", 699.4 / 397.9),
    (DELAY, "queue delay, mean", 0.62 / 4.14),
    ("queue_delay_sd_ms", "queue delay, sd", 2.75 / 7.25),
    ("rtt_mean_ms", "RTT per endpoint", 196.8 / 206.5),
    ("lost_packets", "lost packets", 374.9 / 581.9),
    ("rx_packets", "received packets", 33380 / 31955),
)


def over_pie(matrix: Matrix, variant: str, metric: str, groups: Sequence[str] | None = None) -> list[float]:
    """The variant's figure over pie's in each scenario that has both (delays of less than 1 ms count as 1 ms)."""
    floor = DELAY_FLOOR_MS if metric.startswith("queue_delay") else 0.0
    found = []
    for scenario in matrix.scenarios:
        if groups is None or scenario.group in groups:
            mean = paired_ratio(scenario.pairs, variant, "pie", metric, floor).mean
            if mean:
                found.append(mean)
    return found


def front_counts(matrix: Matrix, variant: str, kind: str) -> tuple[int, int, int, int]:
    """In how many scenarios a discipline is on the front (to 1 %), near it, near it with much less goodput than pie,
    and measured at all."""
    standings = [(s, s.standings[kind][variant]) for s in matrix.scenarios if variant in s.standings[kind]]
    near = [scenario for scenario, standing in standings if standing.near]
    on = sum(standing.behind <= SAME for _, standing in standings)
    return on, len(near), sum(scenario.starved(variant) for scenario in near), len(standings)


def duel_counts(matrix: Matrix, ours: str, peer: str, group: str | None = None) -> dict[str, int]:
    found = dict.fromkeys(duels.VERDICTS, 0)
    for duel in matrix.duels:
        if (duel.ours, duel.peer) == (ours, peer) and group in (None, duel.group):
            found[duel.verdict or "untold"] += 1
    return found


def batches_told(matrix: Matrix, later: Sequence[str]) -> list[str]:
    """A paragraph for each batch after the first: what is in it, and what is compared with what."""
    found = []
    for number, name in enumerate(later, start=1):
        rows = [row for s in matrix.scenarios for row in s.pairs if row.batch == number]
        new = [
            v
            for v in matrix.variants
            if any(r.batch == number and r.variant == v for s in matrix.scenarios for r in s.rows)
        ]
        again = [v for v in matrix.variants if any(r.variant == v for r in rows) and v not in new]
        told = (
            f"**Two batches.** {_names(new)} {'was' if len(new) == 1 else 'were'} run later than the others, "
            f"{_names(again)} once more beside {'it' if len(new) == 1 else 'them'} ({count(len(rows), 'run')}, "
            f"[{name}]({name})), on another machine, where the same seed gives another, equally valid run. "
            f"Ratios of {_names(new)} to {_names(again)} are seed by seed within that batch; all other figures of "
            f"{_names(again)} are of the first batch. {_names(new)} is compared with the others by its means."
        )
        for variant in again:
            told += f" {_again(matrix, variant, number)}"
        found.append(told)
    return found


def _names(variants: Sequence[str]) -> str:
    return " and ".join(f"`{variant}`" for variant in variants)


def _again(matrix: Matrix, variant: str, number: int) -> str:
    """Agreement of a discipline's second measurement with its first."""
    said = []
    for metric, words, decimals in (
        (DELAY, "queue delay", 2),
        (GOODPUT, "goodput", 3),
        ("loss_percent", "packets lost", 2),
    ):
        ratios, apart, known = [], [], 0
        for scenario in matrix.scenarios:
            given = [
                [r.metrics.get(metric) for r in scenario.pairs if r.variant == variant and r.batch == batch]
                for batch in (0, number)
            ]
            first, second = ([value for value in values if value is not None] for values in given)
            if [len(first), len(second)] != [len(values) for values in given] or not (sum(first) and sum(second)):
                continue
            ratios.append(math.fsum(second) / len(second) / (math.fsum(first) / len(first)))
            if len(first) > 1 and len(second) > 1:
                known += 1
                if differ(first, second):
                    apart.append(scenario.name)
        if ratios:
            least, most = min(ratios), max(ratios)
            said.append(
                f"{words} {geometric_mean(ratios):.{decimals}f} of the first's ({least:.{decimals}f} to "
                f"{most:.{decimals}f} by scenario), beyond chance in {len(apart)} of {known}"
                + (f" ({', '.join(apart)})" if apart else "")
            )
    return (
        f"{_names([variant])} came out as: {'; '.join(said)} (t-test at 95 %: 1 of 20 is to be expected)."
        if said
        else ""
    )


def differ(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether two means differ beyond chance: Student's t-test with a pooled variance, at 95 %."""
    degrees = len(one) + len(other) - 2
    means = [math.fsum(values) / len(values) for values in (one, other)]
    squares = math.fsum((v - mean) ** 2 for values, mean in zip((one, other), means, strict=True) for v in values)
    error = math.sqrt(squares / degrees * (1 / len(one) + 1 / len(other)))
    return abs(means[0] - means[1]) > student_t95(degrees) * error


def run_counts(matrix: Matrix) -> str:
    rows = [row for scenario in matrix.scenarios for row in scenario.pairs]
    seeds = sorted({len({r.seed for r in s.rows if r.variant == v}) for s in matrix.scenarios for v in s.figures})
    spread = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    return (
        f"{count(len(matrix.scenarios), 'scenario')}, {count(len(matrix.variants), 'variant')}, {spread} seeds each, "
        f"{count(len(rows), 'run')}"
    )


INTRODUCTION = (
    "`./run evaluate` writes this page; `./run evaluate --from docs/results/evaluation` writes it again from the CSV "
    "files alone. {counts}, all in the exact lab: virtual time, real stacks, every random draw by seed. Figures are "
    "means over seeds ± half the width of the 95 % interval (Student's t). [`matrix.html`](matrix.html) has every "
    "figure, and delay against goodput for every scenario; the figures of each run are beside it as CSV."
)
VARIANTS = (
    "`paper` is Algorithm 1 to the letter. `tuned` is our law with one set of gains everywhere, and `auto` the same "
    "with the tuner. Those with `-half` have half of pie's target. Those with `p4-` run in the P4 switch, the others "
    "as tc eBPF. `tuned` has neither the D term nor the integral separation of PID-Delay: it is a PI law of a squared "
    "probability, its gain scheduled by the error as in Algorithm 1, and so is `auto` "
    "([differences.md](../../design/differences.md), items 6, 7 and 23). The target of these, of pie and of red is "
    "15 ms. The tuner takes it for an upper bound, and goes below it where the line stays in use "
    "([tuning.md](../../use/tuning.md)). `pie-5ms` is pie with a target of 5 ms. codel, fq_codel and cake have their "
    "own target of 5 ms, so that their delay is lower by setting; the goodput shows what that costs. Goodput counts "
    "bytes as they reach the application, in order. Bytes that waited behind a loss of the warm-up count when they "
    "arrive, so that after the loss of whole windows (pfifo) goodput can exceed what the line carries."
)
CLAIM_WORDS = (
    "A ratio reaches its limit in a scenario where the whole of its 95 % interval does, misses it where none of the "
    "interval does, and is not shown to do either where the limit is inside. Fronts and steps go by the means."
)


def sections(matrix: Matrix, over_time: Sequence[str]) -> list[Block]:
    """The sections of the Markdown page behind targets. `over_time` names the scenarios that have a picture by
    `matrix_courses`."""
    return [
        *_table2(matrix, over_time),
        *_flows(matrix),
        _fronts(matrix),
        _duels(matrix),
        _steps(matrix),
        _swings(matrix),
        *_others(matrix),
        _isolating(matrix),
    ]


SUMMARY_HEADS = (
    "queue delay over pie's",
    "its sd over pie's",
    "its p99 over pie's",
    "goodput over pie's",
    "packets lost over pie's",
    "Jain's index less pie's",
    "on or within 5 % of the front",
    f"of these with less than {STARVED:g} of pie's goodput",
    "settled in time after a step",
)


def summary_rows(matrix: Matrix) -> list[tuple[str, list[str]]]:
    """Each discipline with its cells under SUMMARY_HEADS."""
    rows = []
    for variant in (v for v in COMPARED if v in matrix.variants):
        _, near, starved, there = front_counts(matrix, variant, "all")
        cells = []
        for metric, decimals in ((DELAY, 2), ("queue_delay_sd_ms", 2), ("queue_delay_p99_ms", 2), (GOODPUT, 3)):
            mean = geometric_mean(over_pie(matrix, variant, metric))
            cells.append(NOTHING if mean is None else f"{mean:.{decimals}f}")
        lost, fairer = geometric_mean(lost_over_pie(matrix, variant).values()), jain_less_pie(matrix, variant)
        cells.append(NOTHING if lost is None else f"{lost:.2f}")
        cells.append(NOTHING if fairer is None else "0" if variant == "pie" else f"{fairer:+.3f}")
        rows.append((variant, [*cells, f"{near} of {there}", f"{starved}", steps_in_time(matrix, variant)]))
    return rows


def lost_over_pie(matrix: Matrix, variant: str) -> dict[str, float]:
    """The share of packets lost over pie's of the same seed, by scenario, where both lose some in every run."""
    found = {}
    for scenario in matrix.scenarios:
        pairs = paired(scenario.pairs, variant, "pie", "loss_percent")
        known = [(a, b) for a, b in both_known(pairs) if a and b]
        if known and len(known) == len(pairs):
            found[scenario.name] = math.fsum(a / b for a, b in known) / len(known)
    return found


def jain_less_pie(matrix: Matrix, variant: str) -> float | None:
    """Jain's index less pie's of the same seed, mean over the scenarios that have several flows to share."""
    found = [
        mean
        for scenario in matrix.scenarios
        if (scenario.mean("pie", "jain_index") or 1) < 1
        and (mean := paired_difference(scenario.pairs, variant, "pie", "jain_index").mean) is not None
    ]
    return math.fsum(found) / len(found) if found else None


def summary_table(matrix: Matrix) -> Table:
    """Each discipline over the whole matrix."""
    rows = [[Prose(f"**{v}**") if v in OURS else v, *cells] for v, cells in summary_rows(matrix)]
    return table(["discipline", *SUMMARY_HEADS], rows)


def summary_caption(matrix: Matrix) -> str:
    """Meaning of the summary's columns."""
    caption = (
        "Over all scenarios: geometric means of the ratios to pie of the same seed; for Jain's index the mean "
        "difference. Packets lost are those that the queue dropped or a link lost, as a share of those that reached "
        "the queue; a ratio needs losses on both sides in every run."
    )
    none = [
        s.name
        for s in matrix.scenarios
        if any(r.variant == "pie" and not r.metrics.get("loss_percent") for r in s.rows)
    ]
    if none:
        caption += f" It leaves out {', '.join(none)}, where pie loses none."
    caption += (
        " Within 5 % of the front: no other "
        "discipline has more than 5 % less mean queue delay at no less goodput, or more than 5 % more goodput at no "
        "more delay (to 1 %). A discipline with much less goodput than pie's can be there by its delay alone. "
        "Command: `./run evaluate`."
    )
    lacking = sum(s.group not in NO_FRONT and not set(COMPARED) <= set(s.figures) for s in matrix.scenarios)
    if lacking:
        caption += (
            f" In {count(lacking, 'scenario')} not all of these disciplines were run: the front is easier to reach."
        )
    return caption


def steps_in_time(matrix: Matrix, variant: str) -> str:
    rows = [
        r.metrics for s in matrix.scenarios for r in s.rows if r.variant == variant and r.metrics.get("steps_count")
    ]
    if not rows:
        return NOTHING
    steps = sum(row["steps_count"] for row in rows)
    return f"{sum(row['steps_count'] * row['settled_share'] for row in rows):.0f} of {steps:.0f}"


def targets_section(matrix: Matrix) -> Section:
    return Section(
        "Targets",
        [
            *targets(matrix.claims),
            Paragraph(CLAIM_WORDS),
            results.set_in(analyse),
            Only(Medium.MARKDOWN, missed(matrix.claims)),
        ],
    )


def lower_target(matrix: Matrix) -> Section:
    """Scenarios in which `auto`, or pie with a lower target, is clearly better."""
    both = [s for s in matrix.scenarios if {"auto", "pie-5ms"} <= set(s.standings["all"])]
    heading = Prose("`auto` beside pie at 5 ms")
    if not both:
        return Section(heading, [])
    wins = {
        winner: [s.name for s in both if winner in s.standings["all"][loser].beaten_by]
        for winner, loser in (("auto", "pie-5ms"), ("pie-5ms", "auto"))
    }
    said = []
    for metric, words, decimals in ((DELAY, "queue delay", 2), (GOODPUT, "goodput", 3)):
        ratios = {s.name: r for s in both if (r := paired_ratio(s.pairs, "pie-5ms", "auto", metric).mean)}
        least, most = min(ratios, key=lambda name: ratios[name]), max(ratios, key=lambda name: ratios[name])
        said.append(
            f"{words} {ratios[least]:.{decimals}f} of `auto`'s in {least} to {ratios[most]:.{decimals}f} in {most}, "
            f"{geometric_mean(ratios.values()):.{decimals}f} as a geometric mean"
        )
    counts = "; ".join(
        f"`{winner}` is clearly better in {len(names)}" + (f" ({', '.join(names)})" if names else "")
        for winner, names in wins.items()
    )
    told = (
        "The tuner goes below its target, so its nearest peer is pie with a lower one. By the rule of the fronts (more "
        "than 5 % better in one of delay and goodput, no worse in the other, to 1 %), in "
        f"{count(len(both), 'scenario')}: {counts}; in {len(both) - sum(map(len, wins.values()))} neither is. "
        f"`pie-5ms` has {' and '.join(said)}."
    )
    return Section(heading, [Paragraph(Prose(told))])


def losses(matrix: Matrix) -> Section:
    """Cost of less delay in packets, and scenarios where marks would have done."""
    found = []
    for ours in (v for v in OURS if v in matrix.variants):
        lost = lost_over_pie(matrix, ours)
        if lost:
            least, most = min(lost, key=lambda name: lost[name]), max(lost, key=lambda name: lost[name])
            found.append(
                f"`{ours}` loses {geometric_mean(lost.values()):.2f} times as large a share of the packets as pie "
                f"({lost[least]:.2f} in {least} to {lost[most]:.2f} in {most})"
            )
    if not found:
        return Section("", [])
    told = f"A shorter queue under the same flows takes more signals: {'; '.join(found)}."
    marking = [
        f"in {s.name} {figure_of(s, v, 'lost_packets').mean:.0f} drops and {figure_of(s, v, 'marks_packets').mean:.0f} "
        f"marks under `{v}`"
        for s in matrix.groups.get("ecn", [])
        for v in ("pie", *OURS)
        if None not in (s.mean(v, "lost_packets"), s.mean(v, "marks_packets"))
    ]
    if marking:
        told += (
            f" With ECN `auto` hardly marks (means over seeds): {'; '.join(marking)}. Our law marks up to a "
            "probability of 0.1, as pie does, and drops above it. Its high gain seems to take it past that bound at "
            "once."
        )
    return Section("Cost in packets", [Paragraph(Prose(told))])


def _table2(matrix: Matrix, over_time: Sequence[str]) -> list[Section]:
    found = []
    for scenario in matrix.groups.get("table2", []):
        variants = [v for v in matrix.variants if v in scenario.figures]
        paper = scenario.about.get("paper") or {}
        rows: list[list[str]] = []
        for metric, label, decimals in TABLE2_ROWS:
            if any(scenario.mean(v, metric) is not None for v in variants):
                rows.append([label, *(shown(figure_of(scenario, v, metric), decimals) for v in variants)])
                theirs = [paper_figure(paper, v, metric).rpartition(" ")[2] for v in variants]
                if any(theirs):
                    rows.append([Prose(f"*{paper['short']}*"), *(Prose(f"*{t}*") if t else "" for t in theirs)])
        blocks: list[Block] = [table(["", *variants], rows)]
        if paper:
            blocks.append(Paragraph(f"{paper['short']}: {paper['source']}. {' '.join(paper['note'].split())}"))
        variants = [v for v in ("paper", "tuned", "auto", "p4-paper", "p4-tuned", "p4-auto") if v in scenario.figures]
        if paper and variants and "pie" in scenario.figures:
            over = [
                [
                    label,
                    *(shown(paired_ratio(scenario.pairs, v, "pie", metric), 3) for v in variants),
                    Prose(f"*{theirs:.3f}*"),
                ]
                for metric, label, theirs in PAPER_OVER_PIE
            ]
            blocks += [
                Paragraph("Over pie of the same seed; for the paper, PID-Delay over PIE:"),
                table(["", *variants, paper["short"]], over),
            ]
        if scenario.name in over_time:
            blocks += [
                Paragraph("Over time, means over seeds, in a band from the least to the most of them:"),
                Figure(f"{scenario.name} over time", path=f"{scenario.name}-over-time.png"),
            ]
        found.append(Section(scenario.title, blocks))
    return found


def _flows(matrix: Matrix) -> list[Section]:
    scenarios = matrix.groups.get("flows", [])
    if not scenarios:
        return []
    variants = [
        v for v in ("pie", "pie-5ms", "paper", "tuned", "auto", "tuned-half", "auto-half") if v in matrix.variants
    ]
    found: list[Block] = []
    for metric, words, decimals in (
        *FIGURES,
        ("queue_delay_excess_ms", "mean excess over 15 ms, ms", 2),
        ("queue_delay_sd_ms", "standard deviation of the delay, ms", 2),
    ):
        if any(s.mean(v, metric) for s in scenarios for v in variants):
            found += _by_scenario(scenarios, variants, metric, words, decimals)
    return [Section("Numbers of flows", found)]


def _fronts(matrix: Matrix) -> Section:
    rows = []
    for variant in (v for v in COMPARED if v in matrix.variants):
        row = [variant]
        for kind in ("all", "single"):
            on, near, starved, there = front_counts(matrix, variant, kind)
            row += [f"{on}", f"{near}", f"{starved}", f"{there}"] if there else [NOTHING] * 4
        rows.append(row)
    columns = ("on", "within 5 %", "of these starving", "of")
    heads = ["", *columns, *(f"{columns[0]} (single)", *columns[1:])]
    words = (
        "In how many scenarios a discipline is beaten in delay or goodput by no more than 1 % (it is on the front), or "
        "by no more than 5 %, by any that is no worse in the other, to 1 %. A discipline may be there by its delay "
        f"alone: starving are those with less than {STARVED:g} of pie's goodput. Left among all disciplines, right "
        "among those with a single queue. By the means over seeds."
    )
    return Section("Front of delay and goodput", [Paragraph(words), table(heads, rows)])


def _duels(matrix: Matrix) -> Section:
    told = sum((d.delay_verdict is not None) + (d.goodput_verdict is not None) for d in matrix.duels)
    caution = (
        f"These are {told} verdicts, each from a 95 % interval of its own and none corrected for their number: where "
        "there is no difference at all, one in twenty would still report one. Read the counts, not single verdicts."
    )
    counted = [(ours, peer, duel_counts(matrix, ours, peer)) for ours in OURS for peer in COMPARED]
    return duels.section(counted, "goodput", caution)


def _steps(matrix: Matrix) -> Section:
    scenarios = [s for s in matrix.scenarios if any(r.metrics.get("steps_count") for r in s.rows)]
    if not scenarios:
        return Section("", [])
    variants = [v for v in matrix.variants if v in COMPARED]
    settled = (
        "Settled: from then on the delay stays below one and a half times the target and the link carries nine tenths "
        "of its capacity, both as means over half a second, for a second without a break and for nine tenths of the "
        "rest (`mininet/weirlab/topologies/dumbbell/step_response.py` has the definition). Where it never does, the "
        "whole phase counts. A discipline whose delay is noisy misses this band by its noise, and pfifo by its buffer."
    )
    found: list[Block] = [Paragraph(Prose(settled))]
    for metric, words, decimals in (
        ("settled_share", "Share of the steps that settled within 2 s or 10 round trips", 2),
        ("settling_mean_s", "Settling time, mean over steps, s", 2),
        ("overshoot_mean_ms", "Overshoot above the target, mean over steps, ms", 1),
    ):
        found += _by_scenario(scenarios, variants, metric, words, decimals)
    return Section("After a step", found)


def _swings(matrix: Matrix) -> Section:
    variants = [v for v in ("pie", "codel", "paper", "tuned", "auto") if v in matrix.variants]
    scenarios = [s for s in matrix.scenarios if any(s.mean(v, "spectral_peak_ratio") is not None for v in variants)]
    if not scenarios:
        return Section("", [])
    rows = []
    for variant in variants:
        ratios = [r for s in scenarios if (r := s.mean(variant, "spectral_peak_ratio")) is not None]
        swinging = [s.name for s in scenarios if oscillates(s, variant)]
        worst = max(scenarios, key=lambda s: s.mean(variant, "spectral_peak_ratio") or 0)
        rows.append([
            variant, f"{geometric_mean(ratios):.1f}", f"{max(ratios):.1f} ({worst.name})",
            f"{sum(r > OSCILLATES_ABOVE for r in ratios)} of {len(ratios)}",
            ", ".join(swinging) or ("" if variant == "pie" else "none"),
        ])  # fmt: skip
    words = (
        f"The highest peak in the queue delay's spectrum over its floor. Noise alone gives 2 to 5, and more "
        f"than {OSCILLATES_ABOVE:g} in one run of a hundred; above that something swings. Named are the scenarios "
        f"where it is above {OSCILLATES_ABOVE:g}, "
        f"higher over its floor than pie's, and holds more milliseconds (root mean square) than pie's peak; all three. "
        f"In the 20 s of most runs swings of 0.4 to 8.8 Hz can be seen; slower ones can't. Scenarios with less than "
        f"8 s between their steps are not measured."
    )
    heads = ["", "peak over floor", "highest", f"above {OSCILLATES_ABOVE:g}", "swings more than pie"]
    return Section("Oscillation", [Paragraph(words), table(heads, rows)])


def _others(matrix: Matrix) -> list[Section]:
    """The groups that have figures of their own."""
    variants = [v for v in matrix.variants if v in COMPARED]
    found = []
    for group, more in (
        ("unresponsive", (("goodput_group_0_mbit_s", "goodput of the TCP flows, Mbit/s", 2),)),
        ("short", (("fct_p95_ms", "95th percentile of the short transfers, ms", 0),
                   ("fct_unfinished_percent", "under way at the end, % (these count with their age, too little)",
                    1))),
        ("fairness", ()),
        ("grid", ()),
        ("cc", ()),
        ("bursts", (("goodput_group_0_mbit_s", "goodput of the TCP flows, Mbit/s", 2),)),
        ("long", (("queue_delay_sd_ms", "standard deviation of the delay, ms", 2),)),
        ("ecn", (("lost_packets", "lost, packets", 0),)),
    ):  # fmt: skip
        scenarios = matrix.groups.get(group, [])
        if scenarios:
            blocks: list[Block] = []
            for metric, words, decimals in (*FIGURES, *more):
                if any(s.mean(v, metric) is not None for s in scenarios for v in variants):
                    blocks += _by_scenario(scenarios, variants, metric, words, decimals)
            found.append(Section(GROUP_WORDS[group], blocks))
    return found


def _isolating(matrix: Matrix) -> Section:
    """Where a queue for each flow wins, and why."""
    lines = []
    for peer in ISOLATING:
        for ours in OURS:
            lost = [d.scenario for d in matrix.duels if (d.ours, d.peer, d.verdict) == (ours, peer, "loss")]
            counts = duel_counts(matrix, ours, peer)
            told = sum(counts.values()) - counts["untold"]
            if told:
                lines.append(
                    f"`{peer}` wins against `{ours}` in {len(lost)} of {told}"
                    + (f": {', '.join(lost)}" if lost else "")
                )
    if not lines:
        return Section("", [])
    words = (
        "fq_pie, fq_codel and cake give every flow a queue of its own and serve the queues in turn. A flow that builds "
        "no queue then waits for nobody else's, a flow that takes more than its share waits behind itself alone, and "
        "the mean delay over packets falls without any drop. One queue with one law, ours or pie's, can't do that: all "
        "packets wait as long, whoever filled it. What it needs less of is state: one queue, some bytes, no look at "
        "the packet, which is what a switch port in P4 has. Also, fq_codel and cake aim at 5 ms rather than 15: "
        "compare `auto-half`."
    )
    bullets = Bullets([Prose(line) for line in lines])
    return Section("Scenarios that a queue for each flow wins, and why", [Paragraph(Prose(words)), bullets])


def _by_scenario(
    scenarios: Sequence[ScenarioResult], variants: Sequence[str], metric: str, words: str, decimals: int
) -> list[Block]:
    """A figure of these disciplines, a line a scenario."""
    rows = [
        [scenario.name, *(shown(figure_of(scenario, v, metric), decimals) for v in variants)] for scenario in scenarios
    ]
    return [Paragraph(f"{words[0].upper()}{words[1:]}:"), table(["", *variants], rows)]


def figure_of(scenario: ScenarioResult, variant: str, metric: str) -> Estimate:
    return scenario.figures.get(variant, {}).get(metric, Estimate(None, None, None, 0))
