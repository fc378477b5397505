# SPDX-License-Identifier: Apache-2.0
"""Tuner's decisions in a run, for the terminal and the page."""

import gzip
import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from weirlab.report.labels import Variant, plain
from weirlab.store.documents import read_json
from weirlab.store.folder import ResultsFolder, Summary, samples_path

DECISIONS_PRINTED = 8  # of a variant, on the terminal; the page has all of its first seed


def print_decisions(folder: ResultsFolder, summary: Summary, console: Console) -> None:
    """Tuner's decisions in the first seed of each variant that has one."""
    seen = set()
    for run in summary.runs:
        path = folder.run_path(run.variant, run.seed)
        if run.variant in seen or not read_json(path / "spec.json")["aqm"].get("tune"):
            continue
        seen.add(run.variant)
        decisions = read_decisions(path)
        told = f"{run.variant}, seed {run.seed}: what the tuner did" + ("" if decisions else ": nothing")
        console.print(escape(told), style="bold", highlight=False)
        for decision in decisions[:DECISIONS_PRINTED]:
            time, what, why, changed = decision_in_words(decision)
            text = f"{time:>7} s  {what}: {why}{'; ' if changed else ''}{changed}"
            console.print(escape(text), highlight=False, soft_wrap=True)
        if len(decisions) > DECISIONS_PRINTED:
            console.print(f"  and {len(decisions) - DECISIONS_PRINTED} more, in the report", highlight=False)
        console.print()


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
    """When (s of the run), action, reason, and its effect."""
    time = f"{line['t_s']:.1f}"
    if line["k"] == "effect":
        pairs = [(key, value, line["after"].get(key)) for key, value in line["before"].items()]
        course = ", ".join(
            f"{key} {before:.4g} \N{RIGHTWARDS ARROW} {after:.4g}"
            for key, before, after in pairs
            if before is not None and after is not None
        )
        return time, line["verdict"], "what the trial brought", course
    changed = ", ".join(
        f"{key} {plain(old)} \N{RIGHTWARDS ARROW} {plain(new)}" for key, (old, new) in line["changed"].items()
    )
    return time, line["action"], line["reason"], changed


def decision_table(variant: Variant) -> str:
    """Tuner's decisions in a variant's first seed; empty for a variant without one."""
    if not variant.spec["aqm"].get("tune"):
        return ""
    seed, series = next(iter(variant.series.items()))
    heading = f"<h2>What the tuner did: {html.escape(variant.label)}, seed {seed}</h2>"
    if not series.decisions:
        return f"{heading}<p>Nothing: the gains that it found are those that it kept.</p>"
    heads = ("time, s", "what", "why", "what changed")
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in decision_in_words(line)) for line in series.decisions)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    table = f'<table class="words"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'{heading}<div class="wide">{table}</div>'
