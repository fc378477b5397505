# SPDX-License-Identifier: Apache-2.0
"""Targets of the controls under judgement, each held against its limit by 95 % intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weirlab.evaluation.cc.analysis import (
    ALONE_RTT,
    FAIRNESS,
    FRIENDLINESS,
    JAIN_LATER,
    NEIGHBOUR_SHARE,
    PAPER_GROUPS,
    RTT,
    WIRE,
    Bench,
    ScenarioResult,
)
from weirlab.evaluation.shared.claims import Case, Claim, claim
from weirlab.evaluation.shared.ratios import at_least, at_most, both, either
from weirlab.metrics.estimate import Estimate, estimate

FAIR = 0.95  # Jain's index
MOST_OF_BEST, RTT_OVER_BASE = 0.95, 1.25
OF_BBR = 0.8
LEAST_SHARE, MOST_SHARE = 0.5, 1.5  # of the fair one
FARTHER = "fairness-many"  # round trips farther apart than 1:4
CUBIC = "tcp-cubic"  # a competing CUBIC flow beside it has its fair share
BBR = "bbr"  # in the names of all its versions


def claims_of(bench: Bench) -> list[Claim]:
    """All claims of each control under judgement that was run."""
    return [found for ours in bench.ours for found in _claims(bench, ours)]


def _claims(bench: Bench, ours: str) -> Iterable[Claim]:
    alone = [s for s in bench.scenarios if s.group != FRIENDLINESS and ours in s.figures]
    peers = [control for control in bench.there if control not in bench.controls.ours]
    yield claim(
        ours, f"at least {MOST_OF_BEST:g} of the best other control's throughput at a mean RTT of at most "
        f"{RTT_OVER_BASE:g} of the path's, or on the front of delay and throughput",
        "in every scenario but those of friendliness", _throughput(bench, alone, ours, peers),
    )  # fmt: skip
    yield claim(
        ours, f"at least {OF_BBR:g} of the throughput of each BBR", "in every scenario but those of friendliness",
        _over_bbr(bench, alone, ours, [peer for peer in peers if BBR in peer]),
    )  # fmt: skip
    beside = [s for s in bench.groups.get(FRIENDLINESS, []) if s.about.get("fair_share")]
    shares = [(s, _of_fair_share(s, ours)) for s in beside]
    yield claim(
        ours, f"a share of {LEAST_SHARE:g} to {MOST_SHARE:g} of the fair one",
        "beside one to eight CUBIC flows and beside BBR",
        [Case(s.name, found, both(at_least(found, LEAST_SHARE), at_most(found, MOST_SHARE)))
         for s, found in shares if found.mean is not None],
    )  # fmt: skip
    again = [(s, _over_base(s, ours, ALONE_RTT)) for s in bench.scenarios]
    yield claim(
        ours, f"mean RTT at most {RTT_OVER_BASE:g} of the path's, from 5 s after the last competing flow has stopped",
        "where one comes and goes",
        [Case(s.name, found, at_most(found, RTT_OVER_BASE)) for s, found in again if found.mean is not None],
    )  # fmt: skip
    yield claim(
        ours, f"Jain's index from 10 s after the last start on at least {FAIR:g}, round trips of 1:4 included",
        "wherever two to eight flows share a steady link alone",
        [Case(s.name, found, at_least(found, FAIR)) for s in bench.scenarios
         if s.group in (*PAPER_GROUPS, FAIRNESS) and not s.name.startswith(FARTHER)
         and (found := s.figure(ours, JAIN_LATER)).mean is not None],
    )  # fmt: skip


def _throughput(bench: Bench, scenarios: Sequence[ScenarioResult], ours: str, peers: Sequence[str]) -> list[Case]:
    """A case's figure is the throughput over the best other control's."""
    cases = []
    for scenario in scenarios:
        others = {peer: wire for peer in peers if (wire := scenario.mean(peer, WIRE)) is not None}
        if not others or ours not in scenario.standings:
            continue
        best = max(others, key=lambda peer: others[peer])
        ratio = scenario.ratio(ours, best, bench.throughput(ours, best))
        enough = at_least(ratio, MOST_OF_BEST)
        short = at_most(_over_base(scenario, ours, RTT), RTT_OVER_BASE) if scenario.delay == RTT else False
        met = either(both(enough, short), scenario.standings[ours].on_front)
        cases.append(Case(f"{scenario.name} beside {best}", ratio, met))
    return cases


def _over_bbr(bench: Bench, scenarios: Sequence[ScenarioResult], ours: str, peers: Sequence[str]) -> list[Case]:
    """A case's figure is the ratio of throughputs."""
    return [
        Case(f"{scenario.name} beside {peer}", ratio, at_least(ratio, OF_BBR))
        for scenario in scenarios
        for peer in peers
        if peer in scenario.figures
        and (ratio := scenario.ratio(ours, peer, bench.throughput(ours, peer))).mean is not None
    ]


def _of_fair_share(scenario: ScenarioResult, ours: str) -> Estimate:
    """Share of all bytes delivered, over the one that each flow's equal share gives."""
    shares = [row.metrics.get(NEIGHBOUR_SHARE) for row in scenario.rows if row.variant == ours]
    return estimate([None if share is None else (1 - share) / scenario.about["fair_share"] for share in shares])


def _over_base(scenario: ScenarioResult, ours: str, metric: str) -> Estimate:
    """An RTT over the path's without queues; nothing where that changes, or the metric is not known."""
    base_ms = scenario.about.get("base_rtt_ms")
    values = [row.metrics.get(metric) for row in scenario.rows if row.variant == ours]
    return estimate([value / base_ms if base_ms and value is not None else None for value in values])
