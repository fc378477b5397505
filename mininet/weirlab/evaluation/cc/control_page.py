# SPDX-License-Identifier: Apache-2.0
"""One page per congestion control: scenarios won, scenarios lost with the control that is better, and costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from weirlab.evaluation.cc.analysis import (
    JAIN_LATER,
    LOSS,
    NEIGHBOUR,
    RTT,
    WIRE,
    Bench,
    ScenarioResult,
    share_of_best,
)
from weirlab.evaluation.cc.claims import CUBIC
from weirlab.evaluation.cc.ranking_section import with_interval
from weirlab.evaluation.cc.regret import DELAY, POWER, THROUGHPUT, Ranking, regrets_of
from weirlab.evaluation.shared.labels import geometric_mean
from weirlab.evaluation.shared.ratios import SAME
from weirlab.report.labels import NOTHING, count, fixed
from weirlab.report.model import Block, Layout, Paragraph, Prose, Report, Section, table

WIN_HEADS = ("scenario", "on the wire, Mbit/s", "delay, ms", "next control", "its regret")
LOSS_HEADS = (
    "scenario", "regret", "in throughput", "in delay", "best control", "its throughput over this one's",
    "its delay over this one's",
)  # fmt: skip
GROUP_HEADS = ("scenarios", "number", "regret", "in throughput", "in delay", "won")
COST_HEADS = (
    "scenarios", "packets lost, %", "delay over the least", "Jain's index, from 10 s after the last start",
    "competing flows keep, of what they have beside TCP CUBIC",
)  # fmt: skip
COST_WORDS = (
    "Means over the scenarios of a group, of ratios the geometric ones. Packets lost by the link itself are included. "
    "Delay is the mean RTT, of short transfers the median time to complete."
)


@dataclass(frozen=True)
class Place:
    """A control in a scenario: its regrets (power, throughput, delay), and those of all controls by power."""

    scenario: ScenarioResult
    power: float
    throughput: float
    delay: float
    others: tuple[tuple[str, float], ...]

    @property
    def is_won(self) -> bool:
        """Whether others were run, and none has more than 1 % more power."""
        return bool(self.others) and self.power <= SAME


def places(bench: Bench) -> dict[str, list[Place]]:
    """Each control's place in each scenario that it was run in."""
    found: dict[str, list[Place]] = {control: [] for control in bench.there}
    for scenario in bench.scenarios:
        each = regrets_of(scenario)
        for control, own in each.items():
            others = sorted(
                ((other, float(of[POWER])) for other, of in each.items() if other != control), key=lambda pair: pair[1]
            )
            place = Place(scenario, float(own[POWER]), float(own[THROUGHPUT]), float(own[DELAY]), tuple(others))
            found[control].append(place)
    return found


def pages(bench: Bench, ranking: Ranking | None) -> dict[str, Report]:
    """The page of each control, by its name."""
    return {control: page(bench, ranking, control, of) for control, of in places(bench).items() if of}


def page(bench: Bench, ranking: Ranking | None, control: str, of: Sequence[Place]) -> Report:
    return Report(
        f"Congestion control {control} ({bench.controls.stacks[control]})",
        [
            Paragraph(Prose("[All controls](../report.md).")),
            *summary(bench, ranking, control, of),
            Section("Kinds of scenarios", [table(GROUP_HEADS, group_rows(bench, of), Layout.DENSE)]),
            Section("Scenarios won", [table(WIN_HEADS, win_rows(control, of), Layout.DENSE)]),
            Section("Scenarios lost", [table(LOSS_HEADS, loss_rows(control, of), Layout.DENSE)]),
            Section("Costs", [Paragraph(COST_WORDS), table(COST_HEADS, cost_rows(bench, control, of), Layout.DENSE)]),
        ],
    )


def summary(bench: Bench, ranking: Ranking | None, control: str, of: Sequence[Place]) -> list[Block]:
    """Rank, and counts of scenarios."""
    won = sum(place.is_won for place in of)
    alone = sum(not place.others for place in of)
    front = sum(
        place.scenario.standings[control].on_front is True for place in of if control in place.scenario.standings
    )
    words = (
        f"{count(len(of), 'scenario')}: won {won} (no other control has more than 1 % more throughput over delay), on "
        f"the front of delay and throughput in {front}."
    )
    if alone:
        words += f" In {alone} of them no other control was run."
    row = next((row for row in ranking.rows if row.control == control), None) if ranking else None
    if row is not None and ranking is not None:
        score = with_interval(row.scores[POWER])
        words = f"Rank {row.rank} of {len(ranking.rows)} by regret: {score}. {words}"
    return [Paragraph(words)]


def group_rows(bench: Bench, of: Sequence[Place]) -> list[list[str]]:
    """One line a group of scenarios, under GROUP_HEADS."""
    rows = []
    for group, found in by_group(of).items():
        means = [
            fixed(math.fsum(value(place) for place in found) / len(found), 3)
            for value in (lambda p: p.power, lambda p: p.throughput, lambda p: p.delay)
        ]
        won = f"{sum(place.is_won for place in found)}"
        rows.append([bench.titles.get(group, group), f"{len(found)}", *means, won])
    return rows


def win_rows(control: str, of: Sequence[Place]) -> list[list[str]]:
    """Under WIN_HEADS, the largest margin first."""
    rows = []
    won = [place for place in of if place.is_won]
    for place in sorted(won, key=lambda place: place.power - place.others[0][1]):
        following, regret = place.others[0]
        wire, delay = (place.scenario.mean(control, metric) or 0.0 for metric in (WIRE, place.scenario.delay))
        delay_ms = delay if place.scenario.delay == RTT else 1000 * delay
        rows.append([
            place.scenario.name, fixed(wire, 3), fixed(delay_ms, 1), following, fixed(regret, 3)
        ])  # fmt: skip
    return rows


def loss_rows(control: str, of: Sequence[Place]) -> list[list[str]]:
    """Under LOSS_HEADS, the greatest regret first."""
    rows = []
    for place in sorted((place for place in of if place.others and not place.is_won), key=lambda place: -place.power):
        best = place.others[0][0]
        ratios = [
            fixed(theirs / own, 2) if (own := place.scenario.mean(control, metric)) and theirs is not None else NOTHING
            for metric in (WIRE, place.scenario.delay)
            for theirs in (place.scenario.mean(best, metric),)
        ]
        values = [fixed(value, 3) for value in (place.power, place.throughput, place.delay)]
        rows.append([place.scenario.name, *values, best, *ratios])
    return rows


def cost_rows(bench: Bench, control: str, of: Sequence[Place]) -> list[list[str]]:
    """One line a group of scenarios, under COST_HEADS."""

    def mean(scenarios: Sequence[ScenarioResult], metric: str) -> float | None:
        known = [value for s in scenarios if (value := s.mean(control, metric)) is not None]
        return math.fsum(known) / len(known) if known else None

    def over_least(scenarios: Sequence[ScenarioResult]) -> float | None:
        return geometric_mean(shares[0] for s in scenarios if (shares := share_of_best(s, control)) is not None)

    def kept(scenarios: Sequence[ScenarioResult]) -> float | None:
        return geometric_mean(value for s in scenarios if (value := s.ratio(control, CUBIC, NEIGHBOUR).mean))

    columns: tuple[tuple[Callable[[Sequence[ScenarioResult]], float | None], int], ...] = (
        (lambda s: mean(s, LOSS), 2), (over_least, 2), (lambda s: mean(s, JAIN_LATER), 3), (kept, 2),
    )  # fmt: skip
    rows = []
    for group, found in by_group(of).items():
        scenarios = [place.scenario for place in found]
        cells = [NOTHING if (value := of_(scenarios)) is None else fixed(value, places) for of_, places in columns]
        rows.append([bench.titles.get(group, group), *cells])
    return rows


def by_group(of: Sequence[Place]) -> dict[str, list[Place]]:
    found: dict[str, list[Place]] = {}
    for place in of:
        found.setdefault(place.scenario.group, []).append(place)
    return found
