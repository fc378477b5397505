# SPDX-License-Identifier: Apache-2.0
"""Policies beside each other in the same episodes of the training's ranges, none of which a training learns from or
chooses its result by: `./run train compare`, and the ablation. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import numpy as np

from weirlab.metrics.estimate import estimate
from weirlab.report import markdown
from weirlab.report.labels import shown
from weirlab.report.model import table
from weirtrain.settings import Start

# Validations have those from 0, and those from 1000 and 2000 chose the numbers of the rule.
FIRST = 3000
EPISODES = 48
# Start of a training. Behind a colon its numbers, where they are others: rule:packets=5,share=0.03.
RULE = "rule"
COLUMNS = (("reward", 3), ("rate over fair share", 3), ("RTT, ms", 1), ("loss, %", 2))


class RuleError(Exception):
    """Fault in the word for a rule, and the right form."""


def rule(word: str) -> dict[str, Any] | None:
    """Changes of the profile by the word for a rule (`Profile.changed`); None where it is no word for a rule.

    Raises RuleError."""
    kind, colon, rest = word.partition(":")
    if kind != RULE:
        return None
    names = [one.name for one in fields(Start)]
    found = {}
    for part in rest.split(",") if colon else []:
        match = re.fullmatch(r"(\w+)=([0-9]+(?:\.[0-9]+)?)", part)
        if match is None or match[1] not in names:
            raise RuleError(f"'{word}': '{part}', expected NAME=NUMBER with a name of {', '.join(names)}")
        found[f"start.{match[1]}"] = float(match[2])
    return found


def as_markdown(found: Mapping[str, np.ndarray]) -> str:
    """The table of names and their scores [episodes, COLUMNS]: means, and differences from the first one, episode by
    episode, with half the width of the 95 % interval."""
    titles = [title for title, _ in COLUMNS]
    first = next(iter(found.values()))
    rows = []
    for name, scores in found.items():
        means = [f"{mean:.{digits}f}" for mean, (_, digits) in zip(scores.mean(axis=0), COLUMNS, strict=True)]
        apart = [
            shown(estimate((scores - first)[:, n].tolist()), digits) if scores is not first else ""
            for n, (_, digits) in enumerate(COLUMNS)
        ]
        rows.append([name, *means, *apart])
    return markdown.table(table(["", *titles, *(f"{title}: less the first's" for title in titles)], rows)) + "\n"
