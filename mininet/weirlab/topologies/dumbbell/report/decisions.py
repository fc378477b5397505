# SPDX-License-Identifier: Apache-2.0
"""Decisions of the tuner in a run."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from weirlab.report.labels import plain
from weirlab.report.model import Block, Cell, Column, Paragraph, Row, Section, Table
from weirlab.store.folder import ResultsFolder, Summary, samples_path

DECISIONS_PRINTED = 8  # of a variant, on the terminal


def decisions(folder: ResultsFolder, summary: Summary, specs: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """Decisions of the tuner in the first seed of each variant that has one."""
    first_seeds = {run.variant: run.seed for run in reversed(summary.runs)}
    return [
        Section(f"Decisions of the tuner: {label}, seed {seed}", [_table(read_decisions(folder.run_path(label, seed)))])
        for label, seed in sorted(first_seeds.items(), key=lambda item: list(specs).index(item[0]))
        if specs[label]["aqm"].get("tune")
    ]


def _table(lines: Sequence[Mapping[str, Any]]) -> Block:
    if not lines:
        return Paragraph("None: the tuner kept the gains that it found.")
    rows = [Row(time, list(map(Cell, words))) for time, *words in map(decision_in_words, lines)]
    columns = [Column(head, wraps=True) for head in ("decision", "reason", "changes")]
    return Table(columns, rows, "time, s", brief=DECISIONS_PRINTED)


def read_decisions(run_path: Path) -> list[dict[str, Any]]:
    """The tuner's decisions and their effects in one run, `t_s` counted from the run's start; none without a tuner."""
    path = run_path / "decisions.jsonl"
    if not path.is_file():
        return []
    samples = samples_path(run_path)
    with gzip.open(samples) if samples.suffix == ".gz" else open(samples, "rb") as file:
        start = json.loads(file.readline())  # always the first line
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [{**line, "t_s": (line["t_us"] - start["t_us"]) / 1e6} for line in lines]


def decision_in_words(line: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """Time (s of the run), decision, reason, and changes."""
    time = f"{line['t_s']:.1f}"
    if line["k"] == "effect":
        pairs = [(key, value, line["after"].get(key)) for key, value in line["before"].items()]
        course = ", ".join(
            f"{key} {before:.4g} \N{RIGHTWARDS ARROW} {after:.4g}"
            for key, before, after in pairs
            if before is not None and after is not None
        )
        return time, line["verdict"], "effect of the trial", course
    changed = ", ".join(
        f"{key} {plain(old)} \N{RIGHTWARDS ARROW} {plain(new)}" for key, (old, new) in line["changed"].items()
    )
    return time, line["action"], line["reason"], changed
