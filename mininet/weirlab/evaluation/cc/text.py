# SPDX-License-Identifier: Apache-2.0
"""Congestion controls in words and rows of tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weirlab.evaluation.cc.analysis import (
    ALONE_RTT,
    ALONE_THROUGHPUT,
    COMPLETION,
    COMPLETION_P95,
    CONVERGENCE,
    FAIRNESS,
    FRIENDLINESS,
    JAIN,
    JAIN_LATER,
    LOSS,
    NEIGHBOUR,
    NEIGHBOUR_SHARE,
    OUTSIDE,
    PAPER_GROUPS,
    PAPERS_LINK,
    REFERENCE,
    RTT,
    RTT_P95,
    THROUGHPUT,
    WIRE,
    Bench,
    ScenarioResult,
    power,
    share_of_best,
)
from weirlab.evaluation.cc.claims import CUBIC
from weirlab.evaluation.shared import duels
from weirlab.evaluation.shared.labels import geometric_mean
from weirlab.report.labels import NOTHING, count, fixed, shown
from weirlab.report.model import Prose, Section
from weirlab.topologies.dumbbell.metrics import DELAY_OUTSIDE_FLOOR_MS, DELAY_OUTSIDE_LIMIT_PERCENT

FIFO = "fifo"
PAPERS = "pbq-paper"  # the paper to the letter: shown beside ours, whatever it is
ENOUGH = 0.95  # throughput over the most that counts as enough where the least delay is asked for
ALONE = 1.01  # how much better the second must be for both to be named
LONG_AGO = "from 10 s after the last start"
# Columns of a scenario's tables, as far as a run has them: metric, words, decimals.
FIGURES = (
    (THROUGHPUT, "throughput, Mbit/s", 3),
    (WIRE, "on the wire, Mbit/s", 3),
    (RTT, "mean RTT, ms", 1),
    (RTT_P95, "RTT, 95th percentile, ms", 1),
    (LOSS, "lost, %", 2),
    (JAIN, "Jain's index", 3),
    (JAIN_LATER, f"Jain's index {LONG_AGO}", 3),
    (CONVERGENCE, "even after, s", 1),
    (NEIGHBOUR, "neighbours, Mbit/s", 3),
    (NEIGHBOUR_SHARE, "neighbours' share", 3),
    (ALONE_THROUGHPUT, "throughput alone again, Mbit/s", 3),
    (ALONE_RTT, "mean RTT alone again, ms", 1),
    (COMPLETION, "transfer time, median, s", 3),
    (COMPLETION_P95, "transfer time, 95th percentile, s", 3),
    (OUTSIDE, "decisions outside, %", 1),
)
METHOD = (
    "A control in a scenario is a point: mean RTT (of short transfers: the median time to complete) and throughput. "
    "Figures are means over seeds ± half the width of the 95 % interval (Student's t). Controls of one stack are "
    "compared by what applications received, those of two stacks by bytes on the wire: QUIC's and TCP's headers differ "
    "by more than the 1 % that decides here. **On the front** is who is behind nobody by more than 1 %, by the means, "
    "and is beaten by nobody, by the intervals; **beaten** is who has a peer that is better in one of the two and as "
    "good in the other."
)


INTRODUCTION = (
    "`./run evaluate --suite cc` writes this page; with `--from docs/results/cc` it writes it again from this folder "
    "alone. {counts}, all in the exact lab: virtual time, real stacks, every random draw by seed. [`cc.html`](cc.html) "
    "draws the plane of delay and throughput of every scenario and has every figure."
)


def run_counts(bench: Bench) -> str:
    rows = [row for scenario in bench.scenarios for row in scenario.rows]
    return f"{count(len(bench.scenarios), 'scenario')}, {count(len(bench.there), 'control')}, {count(len(rows), 'run')}"


def elsewhere_words(bench: Bench) -> list[str]:
    """Delay in other queues than the bottleneck's: one paragraph, or none."""
    found = []
    for scenario in bench.scenarios:
        for row in scenario.rows:
            share, queue_ms = row.metrics.get("delay_outside_percent"), row.metrics.get("queue_delay_mean_ms")
            if share is None or queue_ms is None or not DELAY_OUTSIDE_LIMIT_PERCENT < share < 100:
                continue
            if (outside_ms := queue_ms * share / (100 - share)) > DELAY_OUTSIDE_FLOOR_MS:
                found.append((outside_ms, share, f"{scenario.name}, {row.variant}, seed {row.seed}"))
    if not found:
        return []
    most_ms, share, where = max(found)
    return [
        f"In {count(len(found), 'run')} more than {DELAY_OUTSIDE_LIMIT_PERCENT:g} % of the queueing delay, and more "
        f"than {DELAY_OUTSIDE_FLOOR_MS:g} ms, arose in other queues than the bottleneck's: senders burst into faster "
        "links, too. They count like the others, since a round trip has all queues in it. The most was "
        f"{most_ms:.1f} ms, {share:.0f} % ({where})."
    ]


def title_of(bench: Bench, group: str) -> str:
    return bench.titles.get(group, group)


def about(scenario: ScenarioResult) -> str:
    """A scenario's description with the publication that it follows."""
    words, source = (" ".join(scenario.about.get(key, "").split()) for key in ("description", "source"))
    return f"{words} Source: {source}." if source else words


CHOICE_HEADS = (
    "for", "queue", "of our server's", "of all stacks", "most throughput", "least delay, with enough throughput",
)  # fmt: skip
NAMED = 3
CHOICE_WORDS = (
    "Over drop-tail (`fifo`) and under PID-Delay with its tuner (`auto`). Of our server's, and of all: the control "
    "with the most throughput over delay, each beside the best of its scenario, as a geometric mean (1 is best in both "
    f"everywhere); of those within 1 % of it, up to {NAMED} are named. Enough throughput is "
    f"{ENOUGH:g} of the most. In brackets that figure, or the share of the best throughput, or the multiple of the "
    "least delay."
)


def situations(bench: Bench) -> list[tuple[str, str, list[ScenarioResult]]]:
    """The groups of scenarios by queue: group, queue, scenarios."""
    found: dict[tuple[str, str], list[ScenarioResult]] = {}
    for scenario in bench.scenarios:
        found.setdefault((scenario.group, scenario.queue), []).append(scenario)
    return [(group, queue, scenarios) for (group, queue), scenarios in found.items()]


def choice_rows(bench: Bench) -> list[list[str]]:
    """The best control of each group and queue, under CHOICE_HEADS."""
    rows = []
    for group, queue, scenarios in situations(bench):
        shares = shares_of(scenarios)
        if not shares:
            continue
        powers = {control: found for control, of in shares.items() if (found := power(of)) is not None}
        delays, throughputs = ({c: geometric_mean(s[k] for s in of) or 0.0 for c, of in shares.items()} for k in (0, 1))
        enough = {c: delay for c, delay in delays.items() if throughputs[c] >= ENOUGH * max(throughputs.values())}
        own = {c: found for c, found in powers.items() if bench.controls.stacks[c] == "quiche"}
        rows.append([
            title_of(bench, group), queue, _best(own), _best(powers), _best(throughputs),
            _best({c: 1 / delay for c, delay in enough.items()}, {c: f"{enough[c]:.2f}" for c in enough}),
        ])  # fmt: skip
    return rows


WISH_HEADS = ("for", "of our server's", "of all stacks")
WISH_WORDS = (
    "For others' sake: Jain's index of the fairness scenarios (mean), and what the neighbours keep of what they have "
    "beside a TCP CUBIC flow (geometric mean; above 1 the control gives way)."
)


def wish_rows(bench: Bench) -> list[list[str]]:
    """The control that shares best, under WISH_HEADS."""
    fair = [s for s in shared_alone(bench) if s.group == FAIRNESS]
    friendly = [s for s in bench.groups.get(FRIENDLINESS, [])]
    even, kept = {}, {}
    for control in bench.there:
        jains = [mean for s in fair if (mean := s.mean(control, JAIN_LATER)) is not None]
        if fair and len(jains) == len(fair):
            even[control] = sum(jains) / len(jains)
        ratios = [mean for s in friendly if (mean := s.ratio(control, CUBIC, NEIGHBOUR).mean)]
        if friendly and len(ratios) == len(friendly):
            kept[control] = geometric_mean(ratios) or 0.0
    rows = []
    for words, values in (("even shares among flows of one kind", even), ("leaving neighbours their share", kept)):
        if values:
            own = {c: value for c, value in values.items() if bench.controls.stacks[c] == "quiche"}
            rows.append([words, _best(own), _best(values)])
    return rows


def shares_of(scenarios: Sequence[ScenarioResult]) -> dict[str, list[tuple[float, float]]]:
    """By control its delay over the least and its throughput over the most, in each of these scenarios; of those
    controls that were measured in all of them."""
    names = list(dict.fromkeys(control for scenario in scenarios for control in scenario.figures))
    found = {name: [share_of_best(scenario, name) for scenario in scenarios] for name in names}
    return {name: [s for s in of if s is not None] for name, of in found.items() if None not in of}


def _best(values: dict[str, float], words: dict[str, str] | None = None) -> str:
    """The controls within 1 % of the highest value, with the value of each: at most NAMED, and how many more."""
    if not values:
        return NOTHING
    most = max(values.values())
    best = sorted((c for c, value in values.items() if value * ALONE >= most), key=lambda c: -values[c])
    names = [f"`{c}` ({words[c] if words else f'{values[c]:.2f}'})" for c in best[:NAMED]]
    return Prose(", ".join([*names, *([f"{len(best) - NAMED} more"] if len(best) > NAMED else [])]))


CLAIM_WORDS = (
    "A figure is reached in a case where the whole of its 95 % interval is on the right side of the limit, missed "
    "where none of it is, and not shown to be either where the limit is inside. Fronts are as defined above. The "
    "figure of a throughput is that over the named control's."
)

# The paper gives its results as figures without numbers; these orderings are in its text (sections 4.4 and 4.5).
LOSS_BASED = ("cubic", "reno", "tcp-cubic", "tcp-reno", "tcp-bic", "tcp-westwood", "tcp-illinois")
ORDER_HEADS = ("the paper", "pbq-paper", "pbq")
CURVE_WORDS = (
    "The paper (Zhang et al., Fig. 9 and 10) shows curves without numbers; its text gives orderings. Of its peers Remy "
    "is absent, since it needs a table of rules that is not published with it, and TCP LP stands for LEDBAT."
)


def point_of(scenario: ScenarioResult) -> str:
    """Place of a scenario of Table 3 along its curve: a loss in %, or a number of flows."""
    return scenario.name.rpartition("-")[2].replace("_", ".")


def curve_table(
    bench: Bench, scenarios: Sequence[ScenarioResult], metric: str, decimals: int
) -> tuple[list[str], list[list[str]]]:
    """One line a control, one column a point of the curve; heads and rows."""
    rows = [
        [control, *(shown(s.figure(control, metric), decimals) for s in scenarios)]
        for control in bench.there
        if any(control in s.figures for s in scenarios)
    ]
    return ["", *(point_of(s) for s in scenarios)], rows


def order_rows(bench: Bench) -> list[list[str]]:
    """The paper's orderings beside ours, under ORDER_HEADS; by the means."""
    loss, flows = (bench.groups.get(group, []) for group in PAPER_GROUPS)
    if not loss or not flows:
        return []
    rows = []
    for words, cell in (
        ("the highest throughput at each loss rate", _highest),
        ("its throughput falls least as loss grows", _falls),
        ("its RTT is below BBR's", _below_bbr),
    ):
        rows.append(
            [words, *(cell(bench, c, loss if cell is not _below_bbr else [*loss, *flows]) for c in ORDER_HEADS[1:])]
        )
    based = [c for c in LOSS_BASED if c in bench.there]
    rtts = [mean for s in loss[1:] for c in based if (mean := s.mean(c, RTT)) is not None]
    if rtts:
        rows.append(["loss-based controls' RTT stays close to the link's 100 ms",
                     f"theirs under loss: {min(rtts):.0f} to {max(rtts):.0f} ms", ""])  # fmt: skip
    grown = {c: b / a for c in based
             if (a := flows[0].mean(c, THROUGHPUT)) and (b := flows[-1].mean(c, THROUGHPUT)) is not None}  # fmt: skip
    if grown:
        times = f"{point_of(flows[-1])} flows over {point_of(flows[0])}"
        factors = ", ".join(f"`{c}` {value:.1f}" for c, value in grown.items())
        rows.append(["loss-based controls' total grows linearly with the flows", Prose(f"{times}: {factors}"), ""])
    return rows


def _highest(bench: Bench, control: str, scenarios: Sequence[ScenarioResult]) -> str:
    there = [s for s in scenarios if s.mean(control, THROUGHPUT) is not None]
    above: dict[str, int] = {}
    best = 0
    for scenario in there:
        higher = [
            other
            for other in scenario.figures
            if other != control
            and (mine := scenario.mean(control, bench.throughput(control, other))) is not None
            and (theirs := scenario.mean(other, bench.throughput(control, other))) is not None
            and theirs > mine
        ]
        best += not higher
        for other in higher:
            above[other] = above.get(other, 0) + 1
    if not there:
        return NOTHING
    who = ", ".join(f"`{other}` in {n}" for other, n in above.items())
    return Prose(f"in {best} of {len(there)}" + (f"; above it: {who}" if who else ""))


def _falls(bench: Bench, control: str, scenarios: Sequence[ScenarioResult]) -> str:
    kept = {
        c: last / first
        for c in bench.there
        if (first := scenarios[0].mean(c, THROUGHPUT)) and (last := scenarios[-1].mean(c, THROUGHPUT)) is not None
    }
    if control not in kept:
        return NOTHING
    better = [f"`{c}` {value:.2f}" for c, value in kept.items() if value > kept[control]]
    ends = f"{point_of(scenarios[-1])} % over {point_of(scenarios[0])} %"
    return Prose(f"{ends}: {kept[control]:.2f}" + (f"; less fall: {', '.join(better)}" if better else ", least of all"))


def _below_bbr(bench: Bench, control: str, scenarios: Sequence[ScenarioResult]) -> str:
    pairs = [(s.mean(control, RTT), s.mean(REFERENCE, RTT)) for s in scenarios]
    known = [(mine, theirs) for mine, theirs in pairs if mine is not None and theirs is not None]
    return f"in {sum(mine < theirs for mine, theirs in known)} of {len(known)}" if known else NOTHING


FAIR_WORDS = (
    "Flows of one control among themselves. Even after: from then on each flow is within 20 % of the mean of all, for "
    "5 s; counted from the last start. An en dash: never, in some run, or too few flows or seconds to say."
)


def shared_alone(bench: Bench) -> list[ScenarioResult]:
    """The scenarios that are about flows of one control sharing a link."""
    return [s for group in (PAPER_GROUPS[1], FAIRNESS) for s in bench.groups.get(group, [])]


def by_scenario(
    bench: Bench, scenarios: Sequence[ScenarioResult], metric: str, decimals: int
) -> tuple[list[str], list[list[str]]]:
    """A figure as a table: one line a scenario, one column a control that has it somewhere; heads and rows."""
    controls = [c for c in bench.there if any(s.mean(c, metric) is not None for s in scenarios)]
    rows = [
        [scenario.name, *(shown(scenario.figure(control, metric), decimals) for control in controls)]
        for scenario in scenarios
        if any(scenario.mean(control, metric) is not None for control in controls)
    ]
    return ["", *controls], rows


FRIENDLY_WORDS = (
    "Goodput of the neighbours, flows of kernel TCP, beside one flow of each control: in Mbit/s, and in brackets over "
    f"that of the same neighbours beside a TCP CUBIC flow (`{CUBIC}`)."
)


def friendly_table(bench: Bench) -> tuple[list[str], list[list[str]]]:
    """One line a scenario with competing flows, one column a control; heads and rows."""
    heads, rows = by_scenario(bench, bench.groups.get(FRIENDLINESS, []), NEIGHBOUR, 2)
    by_name = {scenario.name: scenario for scenario in bench.scenarios}
    for row in rows:
        for place, control in enumerate(heads[1:], start=1):
            kept = by_name[row[0]].ratio(control, CUBIC, NEIGHBOUR)
            row[place] += f" ({shown(kept, 2)})" if kept.mean is not None and control != CUBIC else ""
    return heads, rows


FRONT_HEADS = (
    "",
    "on the front",
    "beaten",
    "not decided",
    "on the front beyond the paper's links",
    "of these, under the law",
)
FRONT_WORDS = "In how many scenarios each control is on the front of delay and throughput, of those it was run in."


def front_rows(bench: Bench) -> list[list[str]]:
    """Counts of scenarios by each control's place, under FRONT_HEADS."""

    def of(count: int, states: Sequence[bool | None]) -> str:
        return f"{count} of {len(states)}" if states else NOTHING

    rows = []
    for control in bench.there:
        found = [(s, s.standings[control]) for s in bench.scenarios if control in s.standings]
        states = [standing.on_front for _, standing in found]
        beyond = [standing.on_front for s, standing in found if s.group not in PAPERS_LINK]
        law = [standing.on_front for s, standing in found if s.group not in PAPERS_LINK and s.queue != FIFO]
        rows.append([
            control, *(of(states.count(state), states) for state in (True, False, None)),
            of(beyond.count(True), beyond), of(law.count(True), law),
        ])  # fmt: skip
    return rows


def duels_section(bench: Bench) -> Section:
    """Each control of ours beside each other control."""
    caution = (
        "The intervals are not corrected for their number: one in twenty would report a difference where there is none."
    )
    pairs = [(ours, peer) for ours in bench.ours for peer in bench.there if peer != ours]
    counted = [(ours, peer, duel_counts(bench.scenarios, ours, peer)) for ours, peer in pairs]
    return duels.section(counted, "throughput", caution)


def duel_counts(scenarios: Iterable[ScenarioResult], ours: str, peer: str) -> dict[str, int]:
    found = dict.fromkeys(duels.VERDICTS, 0)
    for scenario in scenarios:
        duel = scenario.duels.get((ours, peer))
        if duel is not None and duel.delay.mean is not None and duel.throughput.mean is not None:
            found[duel.verdict or "untold"] += 1
    return found


OUTSIDE_WORDS = (
    "Share of a learned control's decisions, in percent, that met a quantity out of the ranges it was trained in. With "
    "a guard, many of these in a row hand the window to BBR. Means over the scenarios of a group."
)


def outside_table(bench: Bench) -> tuple[list[str], list[list[str]]]:
    """One line a group and queue, one column a control that decides; heads and rows."""
    learned = [c for c in bench.there if any(s.mean(c, OUTSIDE) is not None for s in bench.scenarios)]
    rows = []
    for group, queue, scenarios in situations(bench) if learned else ():
        cells = []
        for control in learned:
            known = [mean for s in scenarios if (mean := s.mean(control, OUTSIDE)) is not None]
            cells.append(fixed(sum(known) / len(known), 1) if known else NOTHING)
        rows.append([title_of(bench, group), queue, *cells])
    return ["", "queue", *learned], rows


def columns_of(scenario: ScenarioResult) -> list[tuple[str, str, int]]:
    """Those of FIGURES that some run of the scenario has a figure for."""
    there = {metric for row in scenario.rows for metric, value in row.metrics.items() if value is not None}
    return [column for column in FIGURES if column[0] in there]


def figure_rows(bench: Bench, scenario: ScenarioResult) -> list[list[str]]:
    """One line a control: its figures; bold are those on the front."""
    rows = []
    for control in (c for c in bench.there if c in scenario.figures):
        standing = scenario.standings.get(control)
        name = Prose(f"**{control}**") if standing is not None and standing.on_front else control
        cells = [shown(scenario.figure(control, metric), decimals) for metric, _, decimals in columns_of(scenario)]
        rows.append([name, *cells])
    return rows


def behind_told(scenario: ScenarioResult, control: str) -> str:
    """Distance of a control from the front, and the controls that beat it."""
    standing = scenario.standings.get(control)
    if standing is None:
        return NOTHING
    if standing.on_front:
        return "on the front"
    who = f"beaten by {', '.join(standing.beaten_by)}" if standing.beaten_by else "not decided"
    return f"{who}, {fixed(100 * standing.behind, 0)} % behind"
