# SPDX-License-Identifier: Apache-2.0
"""Figures to reach, and whether they are: a claim holds in each of its cases, or in a wanted share of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weirlab.evaluation.shared.labels import markdown
from weirlab.metrics.estimate import Estimate
from weirlab.report.labels import shown


@dataclass(frozen=True)
class Case:
    """One scenario under one claim: the figure with its interval, and whether it is reached; None: not shown."""

    scenario: str
    figure: Estimate
    met: bool | None


@dataclass(frozen=True)
class Claim:
    """A figure to reach. `met` is None where nothing was measured, or too little to show it or the contrary."""

    variant: str
    text: str
    limit: str
    measured: str
    met: bool | None
    cases: tuple[Case, ...]

    @property
    def reached(self) -> int:
        return sum(case.met is True for case in self.cases)

    @property
    def state(self) -> str:
        if self.met is None:
            return "not shown" if self.cases else "not measured"
        return "yes" if self.met else "no"


def claim(variant: str, text: str, limit: str, cases: Sequence[Case], least_share: float = 1.0) -> Claim:
    """A claim that is met when the wanted share of its cases are, missed when so many can't be any more."""
    if not cases:
        return Claim(variant, text, limit, "not measured", None, ())
    reached = sum(case.met is True for case in cases)
    open_ = sum(case.met is None for case in cases)
    wanted = least_share * len(cases) - 1e-9
    met = True if reached >= wanted else None if reached + open_ >= wanted else False
    known = [case.figure.mean for case in cases if case.figure.mean is not None]
    measured = f"{reached} of {len(cases)}"
    measured += f", not shown in {open_}" if open_ else ""
    measured += f"; {min(known):.3g} to {max(known):.3g}" if known else ""
    return Claim(variant, text, limit, measured, met, tuple(cases))


def with_unknown(claim: Claim, unknown: Sequence[str]) -> Claim:
    """The claim, saying in which scenarios it could not be measured."""
    if not claim.cases or not unknown:
        return claim
    return replace(claim, measured=f"{claim.measured}; not measured in {len(unknown)} more: {', '.join(unknown)}")


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def told(claims: Sequence[Claim]) -> str:
    """All claims as a table in Markdown."""
    heads = ["", "figure", "wanted", "measured (scenarios that reach it; range of the figure)", "reached"]
    rows = [[c.variant, c.text, c.limit, c.measured, "**no**" if c.met is False else c.state] for c in claims]
    return markdown(heads, rows)


def missed(claims: Sequence[Claim]) -> list[str]:
    """Where each claim is missed and where it is not shown, in Markdown."""
    return [
        *_cases(claims, False, "### Where they are missed"),
        *_cases(claims, None, "### Where the intervals do not decide"),
    ]


def _cases(claims: Sequence[Claim], met: bool | None, heading: str) -> list[str]:
    lines = []
    for one in claims:
        cases = cases_told(one, met)
        if cases:
            lines.append(f"- `{one.variant}`, {one.text}: {', '.join(cases)}")
    return [heading, "\n".join(lines)] if lines else []


def cases_told(claim: Claim, met: bool | None) -> list[str]:
    """The cases in which a figure is reached (True), missed (False) or not shown (None), with the figure."""
    return [
        case.scenario + (f" ({shown(case.figure, 3)})" if case.figure.mean is not None else "")
        for case in claim.cases
        if case.met is met
    ]
