# SPDX-License-Identifier: Apache-2.0
"""The ranking by regret in words and as a table, for the report."""

from __future__ import annotations

from weirlab.evaluation.cc.analysis import Bench
from weirlab.evaluation.cc.regret import DELAY, FIELD_SHARE, POWER, REPLICATES, THROUGHPUT, Interval, Ranking
from weirlab.evaluation.shared.claims import percent
from weirlab.report.labels import count, fixed
from weirlab.report.model import Block, Layout, Medium, Only, Paragraph, Prose, Section, table

CONTROLS = "controls"  # folder of the pages by control
CSV = "ranking.csv"
HEADS = ("", "rank", "stack", "regret", "in throughput", "in delay", "most regret in")
WORDS = (
    "Power is throughput over delay, as a logarithm, so that links of all rates and round trips count alike and a gain "
    "in throughput that costs as much in delay is none. A control's regret in a scenario is the best control's power "
    "there less its own: 0 is the best, 0.1 is 10 % less. Beside competing flows throughput counts up to the fair "
    "share. In throughput and in delay are the distances from the most throughput and from the least delay alone; they "
    "need not add up. The table has means over {scenarios}, each group of scenarios with the same weight, and 95 % "
    "intervals by {n} bootstrap replicates over scenarios and seeds. A control ranks behind those that "
    "97.5 % of the replicates put before it, and before those that they put behind it; between these it is tied. "
    "`ranking.csv` has the same."
)
ONE_SEED = "There is one seed, so that the intervals tell only how scenarios differ."
NOT_COMPARED = "Not in the ranking, since at least one of these controls has no run there: {names}."
LEFT_OUT = "Not ranked, since run in fewer than {share} of the groups of scenarios: {names}."


def section(bench: Bench, found: Ranking | None) -> Section:
    """The ranking; empty where there is none."""
    if found is None:
        return Section("Ranking", [])
    words = WORDS.format(scenarios=count(len(found.scenarios), "scenario"), n=REPLICATES)
    tables = {
        medium: table(HEADS, rows(bench, found, links), Layout.DENSE, words=(6,))
        for medium, links in ((Medium.HTML, False), (Medium.MARKDOWN, True))
    }
    if all(len({row.seed for row in scenario.rows}) == 1 for scenario in bench.scenarios):
        words += f" {ONE_SEED}"
    blocks: list[Block] = [Paragraph(Prose(words)), *(Only(medium, [of]) for medium, of in tables.items())]
    if lacking := [s.name for s in bench.scenarios if s.name not in found.scenarios]:
        blocks.append(Paragraph(Prose(NOT_COMPARED.format(names=", ".join(f"`{name}`" for name in lacking)))))
    if found.left_out:
        names = ", ".join(f"`{name}`" for name in found.left_out)
        blocks.append(Paragraph(Prose(LEFT_OUT.format(share=percent(FIELD_SHARE), names=names))))
    return Section("Ranking", blocks)


def rows(bench: Bench, found: Ranking, links: bool) -> list[list[str]]:
    """One line a control, under HEADS, with `links` to the controls' pages."""
    lines = []
    for row in found.rows:
        worst = max(row.groups, key=lambda group: row.groups[group])
        lines.append([
            Prose(f"[{row.control}]({CONTROLS}/{row.control}.md)") if links else row.control,
            row.rank, bench.controls.stacks[row.control],
            *(with_interval(row.scores[kind]) for kind in (POWER, THROUGHPUT, DELAY)),
            f"{bench.titles.get(worst, worst)} ({fixed(row.groups[worst], 2)})",
        ])  # fmt: skip
    return lines


def with_interval(score: Interval) -> str:
    return f"{fixed(score.mean, 3)} ({fixed(score.low, 3)} to {fixed(score.high, 3)})"
