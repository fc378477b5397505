# SPDX-License-Identifier: Apache-2.0
"""`./run train compare`: policies beside each other in the same episodes of the training's ranges, none of which a
training learns from or chooses its result by. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weirlab.metrics.estimate import estimate
from weirlab.report.words import shown

# Validations have those before.
FIRST = 1000
# What a training begins with.
RULE = "rule"
COLUMNS = (("reward", 3), ("rate over fair share", 3), ("RTT, ms", 1), ("loss, %", 2))


def as_markdown(found: Mapping[str, np.ndarray]) -> str:
    """The table of names and their scores [episodes, COLUMNS]: means, and differences from the first one, episode by
    episode, with half the width of the 95 % interval."""
    titles = [title for title, _ in COLUMNS]
    lines = [
        "| | " + " | ".join([*titles, *(f"{title}: less the first's" for title in titles)]) + " |",
        "|---" * (2 * len(COLUMNS) + 1) + "|",
    ]
    first = next(iter(found.values()))
    for name, scores in found.items():
        means = [f"{mean:.{digits}f}" for mean, (_, digits) in zip(scores.mean(axis=0), COLUMNS, strict=True)]
        apart = [
            shown(estimate((scores - first)[:, n].tolist()), digits) if scores is not first else ""
            for n, (_, digits) in enumerate(COLUMNS)
        ]
        lines.append(f"| {name} | " + " | ".join([*means, *apart]) + " |")
    return "\n".join(lines) + "\n"
