# SPDX-License-Identifier: Apache-2.0
"""Targets, and whether they are reached: a claim holds in each of its cases, or in a wanted share of them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weirlab.metrics.estimate import Estimate
from weirlab.report.labels import shown
from weirlab.report.model import Block, Bullets, Cell, Column, Folded, Paragraph, Prose, Section, table


@dataclass(frozen=True)
class Case:
    """One scenario under one claim: the figure with its interval, and whether it is reached; None: not shown."""

    scenario: str
    figure: Estimate
    met: bool | None


@dataclass(frozen=True)
class Claim:
    """A target. `met` is None where nothing was measured, or too little to show it or the contrary."""

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


def targets(claims: Sequence[Claim]) -> list[Block]:
    """All claims as a table, and how many are reached."""
    counts = {state: sum(claim.state == state for claim in claims) for state in ("yes", "no", "not shown")}
    columns: list[str | Column] = [
        "",
        Column("figure", wraps=True, half=True),
        Column("target", wraps=True),
        Column("measured (scenarios that reach it; range of the figure)", wraps=True),
        "reached",
    ]
    rows: list[list[str | Cell]] = [
        [
            claim.variant,
            Cell(claim.text, folded=_open_cases(claim)),
            claim.limit,
            claim.measured,
            Cell(claim.state, strong=claim.met is False, good=claim.met is True),
        ]
        for claim in claims
    ]
    return [
        Paragraph(
            f"A target holds in every scenario unless the table says otherwise: {counts['yes']} of {len(claims)} are "
            f"reached, {counts['no']} are missed, {counts['not shown']} are not shown to be either."
        ),
        table(columns, rows),
    ]


def _open_cases(claim: Claim) -> Folded | None:
    """Scenarios that miss the target or do not decide."""
    found = [
        Paragraph(f"{words} {'; '.join(cases)}")
        for words, met in (("Missed in", False), ("Not shown in", None))
        if (cases := cases_told(claim, met))
    ]
    return Folded("scenarios that miss it or do not decide", found) if found else None


def missed(claims: Sequence[Claim]) -> list[Block]:
    """Scenarios in which each claim is missed, and in which it is not shown."""
    return [
        _cases(claims, False, "Missed targets"),
        _cases(claims, None, "Targets that the intervals do not decide"),
    ]


def _cases(claims: Sequence[Claim], met: bool | None, heading: str) -> Section:
    lines = [
        Prose(f"`{one.variant}`, {one.text}: {', '.join(cases)}") for one in claims if (cases := cases_told(one, met))
    ]
    return Section(heading, [Bullets(lines)])


def cases_told(claim: Claim, met: bool | None) -> list[str]:
    """The cases in which a figure is reached (True), missed (False) or not shown (None), with the figure."""
    return [
        case.scenario + (f" ({shown(case.figure, 3)})" if case.figure.mean is not None else "")
        for case in claim.cases
        if case.met is met
    ]
