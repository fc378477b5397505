# SPDX-License-Identifier: Apache-2.0
"""`./run train compare`: words for policies, and the page of a comparison. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from weirlab.metrics.estimate import Estimate
from weirlab.report import markdown
from weirlab.report.labels import shown
from weirlab.report.model import table
from weirtrain.held_out import FIGURES, TERMS, Judged, Row, overall, rows
from weirtrain.settings import Start

EPISODES = 24  # of each kind
# Start of a training, without its random units. Behind a colon its numbers, where they are others:
# rule:packets=5,share=0.03.
RULE = "rule"
ALL = "all kinds"


class RuleError(Exception):
    """Fault in the word for a rule, and the right form."""


def rule(word: str) -> dict[str, Any] | None:
    """Changes of the profile by the word for a rule (`Profile.changed`); None where it is no word for a rule.

    Raises RuleError."""
    kind, colon, rest = word.partition(":")
    if kind != RULE:
        return None
    return changes(rest.split(",") if colon else [], word)


def names(words: Sequence[str]) -> dict[str, str]:
    """Words for policies by short names: a file's last part, where no other has the same."""
    last = [Path(word).name for word in words]
    return {name if last.count(name) == 1 else word: word for name, word in zip(last, words, strict=True)}


def changes(parts: list[str], word: str) -> dict[str, Any]:
    """Changes of the profile by parts as packets=5. Raises RuleError."""
    names = [one.name for one in fields(Start)]
    found = {}
    for part in parts:
        match = re.fullmatch(r"(\w+)=([0-9]+(?:\.[0-9]+)?)", part)
        if match is None or match[1] not in names:
            raise RuleError(f"'{word}': '{part}', expected NAME=NUMBER with a name of {', '.join(names)}")
        found[f"start.{match[1]}"] = float(match[2])
    return found


def verdicts(judged: Mapping[str, Judged]) -> list[str]:
    """A line for each kind and policy but the first, and one over all kinds."""
    first, *others = judged
    found = []
    for policy in others:
        for kind, row in _by_kind(judged, policy):
            difference = row.apart["reward"]
            found.append(f"{kind}: {policy} against {first}: {row.verdict} (reward {shown(difference, 3)})")
    return found


def as_markdown(judged: Mapping[str, Judged], facts: str) -> str:
    """The page: means of each policy by kind, differences from the first one episode by episode with 95 % intervals,
    and verdicts by the reward. `facts` says how it was made."""
    first, *others = judged
    heads = ["kind", "policy", *(title for _, title, _ in FIGURES), "verdict"]
    lines, terms = [], []
    kinds = [*next(iter(judged.values())), ALL]
    for kind in kinds:
        for row in overall(judged) if kind == ALL else rows(judged, kind):
            lines.append([kind, row.policy, *_means(row), ""])
            terms.append([kind, row.policy, *(_shown(row.means[name], 2) for name in TERMS)])
            if row.apart:
                lines.append([kind, f"{row.policy} less {first}", *_differences(row.apart), row.verdict or ""])
    title = f"# Policies on held-out links: {', '.join(others) or first}{f' against {first}' if others else ''}"
    told = "\n".join(f"- {line}" for line in verdicts(judged))
    of_terms = markdown.table(table(["kind", "policy", *(name.removeprefix("term_") for name in TERMS)], terms))
    parts = [facts, markdown.table(table(heads, lines)), told, "Weighed terms of the reward:", of_terms]
    return "\n\n".join([f"{markdown.LICENCE}\n{title}", *(part for part in parts if part)]) + "\n"


def _by_kind(judged: Mapping[str, Judged], policy: str) -> list[tuple[str, Row]]:
    pairs = [(kind, row) for kind in next(iter(judged.values())) for row in rows(judged, kind)]
    return [(kind, row) for kind, row in [*pairs, *((ALL, row) for row in overall(judged))] if row.policy == policy]


def _means(row: Row) -> list[str]:
    return [_shown(row.means[name], digits) for name, _, digits in FIGURES]


def _shown(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _differences(apart: Mapping[str, Estimate]) -> list[str]:
    return [shown(apart[name], digits) for name, _, digits in FIGURES]
