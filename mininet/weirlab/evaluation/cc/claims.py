# SPDX-License-Identifier: Apache-2.0
"""Targets of a control of ours, each held against its limit by 95 % intervals."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weirlab.evaluation.cc.analysis import (
    FAIRNESS,
    FRIENDLINESS,
    JAIN_LATER,
    NEIGHBOUR,
    PAPER_GROUPS,
    REFERENCE,
    THROUGHPUT,
    Bench,
    ScenarioResult,
)
from weirlab.evaluation.shared.claims import Case, Claim, claim, percent
from weirlab.evaluation.shared.ratios import NEAR, SAME, at_least, at_most
from weirlab.metrics.estimate import Estimate

FAIR, HALF, FRONT_SHARE = 0.95, 0.5, 0.8
FARTHER = "fairness-many"  # round trips farther apart than 1:4
BESIDE = "friendly-cubic-1"  # the scenario of one flow beside one of CUBIC, over each queue
CUBIC = "tcp-cubic"  # what that CUBIC flow is, and so beside what it has its fair share


def claims_of(bench: Bench) -> list[Claim]:
    """All claims of each control of ours that was run."""
    return [found for ours in bench.ours for found in _claims(bench, ours)]


def _claims(bench: Bench, ours: str) -> Iterable[Claim]:
    paper = [scenario for scenario in bench.scenarios if scenario.group in PAPER_GROUPS]
    peers = [control for control in bench.there if control not in bench.controls.ours]
    yield claim(
        ours, f"throughput on Table 3's link at least each peer's, to {percent(SAME)}; beside another stack's as bytes "
        "on the wire", "at every loss rate and number of flows", _throughput(bench, paper, ours, peers),
    )  # fmt: skip
    yield claim(
        ours, f"mean RTT on Table 3's link below {REFERENCE}'s", "at every loss rate and number of flows",
        [Case(s.name, ratio, at_most(ratio, 1)) for s in paper
         if (ratio := s.ratio(ours, REFERENCE, s.delay)).mean is not None],
    )  # fmt: skip
    yield claim(
        ours, f"Jain's index from 10 s after the last start on at least {FAIR:g}, round trips of 1:4 included",
        "wherever two to eight flows share a steady link alone",
        [Case(s.name, found, at_least(found, FAIR)) for s in bench.scenarios
         if s.group in (*PAPER_GROUPS, FAIRNESS) and not s.name.startswith(FARTHER)
         and (found := s.figure(ours, JAIN_LATER)).mean is not None],
    )  # fmt: skip
    beside = [s for s in bench.groups.get(FRIENDLINESS, []) if s.name == BESIDE or s.name.startswith(f"{BESIDE}-")]
    kept = [(s, s.ratio(ours, CUBIC, NEIGHBOUR)) for s in beside]
    yield claim(
        ours, f"a CUBIC flow beside one flow keeps at least {HALF:g} of what it has beside another CUBIC flow",
        "over a FIFO of one bandwidth-delay product, and under the law",
        [Case(s.name, ratio, at_least(ratio, HALF)) for s, ratio in kept if ratio.mean is not None],
    )  # fmt: skip
    yield claim(
        ours, f"not below {1 - NEAR:g} of {REFERENCE}'s throughput and above {1 + NEAR:g} of its RTT at once (of "
        "short transfers: of its time to complete)",
        "everywhere outside the training ranges", _never_worse(bench.beyond, ours),
    )  # fmt: skip
    for words, scenarios in (
        ("", bench.scenarios),
        (", friendliness left out, where more throughput is the neighbour's loss",
         [s for s in bench.scenarios if s.group != FRIENDLINESS]),
    ):  # fmt: skip
        yield claim(
            ours, f"on the front of delay and throughput{words}", f"in {percent(FRONT_SHARE)} of the scenarios",
            [Case(s.name, Estimate(round(standing.behind, 6), None, None, 1), standing.on_front) for s in scenarios
             if (standing := s.standings.get(ours)) is not None],
            FRONT_SHARE,
        )  # fmt: skip


def _throughput(bench: Bench, scenarios: Sequence[ScenarioResult], ours: str, peers: Sequence[str]) -> list[Case]:
    found = []
    for scenario in scenarios:
        for peer in peers:
            if ours in scenario.figures and peer in scenario.figures:
                ratio = scenario.duels[ours, peer].throughput
                if ratio.mean is not None:
                    found.append(Case(f"{scenario.name} beside {peer}", ratio, at_least(ratio, 1 - SAME)))
    return found


def _never_worse(scenarios: Sequence[ScenarioResult], ours: str) -> list[Case]:
    """A case's figure is the ratio of throughputs."""
    cases = []
    for scenario in scenarios:
        throughput, delay = (scenario.ratio(ours, REFERENCE, metric) for metric in (THROUGHPUT, scenario.delay))
        if throughput.mean is not None and delay.mean is not None:
            good = at_least(throughput, 1 - NEAR), at_most(delay, 1 + NEAR)
            cases.append(Case(scenario.name, throughput, True if True in good else None if None in good else False))
    return cases
