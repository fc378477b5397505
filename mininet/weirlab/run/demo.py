# SPDX-License-Identifier: Apache-2.0
"""Contents of `./run demo`: all systems at once beside today's usual ones, or one system alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from weirlab import paths
from weirlab.run.scenarios import load_scenario
from weirlab.run.together import SCENARIO, SHORT_S, together
from weirlab.scenario.errors import ScenarioError
from weirlab.scenario.model import Run, Scenario


@dataclass(frozen=True)
class Part:
    """A scenario of the demo. `variants`: those that it shows (None: all); `seeds`: 1 to so many. `then`: the part that
    the same option shows after it."""

    scenario: str
    about: str
    variants: tuple[str, ...] | None = None
    seeds: int = 3
    then: Part | None = None

    def chain(self) -> Iterator[Part]:
        """This part and those after it."""
        yield self
        if self.then is not None:
            yield from self.then.chain()


TOGETHER = Part(SCENARIO, "all five systems in one network, beside the same network without any", ("all", "none"), 1)
PARTS: Mapping[str, Part] = {
    "aqm": Part(
        "pid-delay-table2",
        "ten QUIC downloads over Table II's dumbbell: two kernel queues, and the law in eBPF and in P4 by the paper, "
        "tuned, and with the tuner at work; then without random loss, marked and dropped",
        then=Part(
            "quic-ecn",
            "ten QUIC downloads with ECN and without",
            tuple(f"{sender},loss_percent=0" for sender in ("cubic", "cubic-ecn")),
        ),
    ),
    "paths": Part(
        "pcm-table5",
        "a thousand requests over Table 5's four paths: polling and one fixed path beside learned choices",
        ("polling", "best-single", "ops", "weir", "oracle"),
    ),
    "cc": Part("cc-loss", "a download at 5 % of random loss under CUBIC, BBR and PBQ"),
    "icn": Part(
        "icn-receivers",
        "a file of 512 kB for 1, 4 and 16 receivers at once, by name and as QUIC downloads",
        tuple(f"{carry},bytes=512000,receivers={count}" for count in (1, 4, 16) for carry in ("names", "unicast")),
        1,
    ),
}
"""The systems alone, by the demo's option."""


def _alone(part: Part) -> Scenario:
    return load_scenario(paths.scenarios() / f"{part.scenario}.toml")


def demo_runs(
    parts: Sequence[str], only: Sequence[str] | None = None, seeds: int | None = None
) -> list[tuple[Scenario, list[Run]]]:
    """The scenarios of these parts with their runs; without a part, all systems at once. `only` names variants of any
    of them, `seeds` takes the place of each part's own number. Raises ScenarioError."""
    shown = [part for name in parts for part in PARTS[name].chain()] or [TOGETHER]
    scenarios = {part: together(SHORT_S) if part is TOGETHER else _alone(part) for part in shown}
    known = {
        part: {word for label in scenario.cases for word in (label, label.split(",")[0])}
        for part, scenario in scenarios.items()
    }
    for word in only or []:
        if not any(word in words for words in known.values()):
            there = ", ".join(dict.fromkeys(label for scenario in scenarios.values() for label in scenario.cases))
            raise ScenarioError([f"this demo has no variant {word!r}; write one of {there}"])
    found = []
    for part, scenario in scenarios.items():
        wanted = part.variants if only is None else [word for word in only if word in known[part]]
        if wanted is None or wanted:
            found.append((scenario, scenario.runs(only=wanted, seeds=seeds or part.seeds)))
    return found
