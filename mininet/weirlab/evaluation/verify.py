# SPDX-License-Identifier: Apache-2.0
"""`./run evaluate --verify`: repeats a sample of published runs without the cache and compares their digests."""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weirlab.evaluation import tables
from weirlab.evaluation.cc.analysis import COMPLETION, RTT, THROUGHPUT
from weirlab.evaluation.digests import KEY_DIGITS, SCHEME, Digest, digest_of, is_within, misses_allowed, read
from weirlab.evaluation.plan import Plan
from weirlab.evaluation.state import Done, State
from weirlab.run.cluster import run_all
from weirlab.run.costs import Costs
from weirlab.run.keys import Keys
from weirlab.run.series import cache_folder, name_of
from weirlab.scenario.errors import ScenarioError
from weirlab.scenario.model import Run
from weirlab.store import installation
from weirlab.store.cache import Cache

FIGURES = (THROUGHPUT, RTT, COMPLETION)
SAMPLE = 20
GROSS = 2.0  # a figure that is so many times off all published ones is no chance


@dataclass(frozen=True)
class Verdict:
    """A repeated run beside the published one. `failed` is None for a run that is compared by figures: single ones may
    miss their interval."""

    words: str
    failed: bool | None
    missed: bool
    text: str

    @property
    def line(self) -> str:
        return f"{self.words}: {self.text}"


def verify(plan: Plan, wanted: Sequence[Run], folder: Path, args: argparse.Namespace) -> int:
    """Repeat a sample of the runs published in `folder` and report; the exit status. Raises ResultsError,
    ScenarioError."""
    runs = {name_of(run): run for run in wanted}
    published = [one for one in read(folder) if one.name in runs]
    if not published:
        raise ScenarioError([f"--verify: {folder}/digests.csv has none of these runs; leave out --only, or run them"])
    sample = chosen(published, args.verify, args.verify_seed)
    values = published_figures(plan, folder)
    here = cache_folder(args.cache)
    here.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="verify-", dir=here) as scratch:
        state = State(Cache(Path(scratch)), Keys(), [runs[one.name] for one in sample], plan=plan)
        run_all(state, state.wanted, Costs(), args.jobs, args.ray, lambda jobs: f"{len(sample)} runs, {jobs} at a time")
        verdicts = [
            compared(one, again, state.done[one.name], values)
            for one in sample
            if (again := made(state, runs[one.name])) is not None
        ]
    return told(verdicts, state.failed)


def chosen(published: Sequence[Digest], count: int, seed: int) -> list[Digest]:
    """A random sample, the same for the same seed and published runs."""
    ordered = sorted(published)
    return sorted(random.Random(seed).sample(ordered, min(count, len(ordered))))


def made(state: State, run: Run) -> Digest | None:
    """The digest of a run that is in the cache; None if it is not there."""
    entry = state.entry(run)
    if entry is None:
        return None
    found = state.stored(run, entry, SCHEME)
    if found is None:
        found = {"sha256": digest_of(entry.samples)}
        entry.put_metrics(SCHEME, found)
    key = state.keys.run(run.spec)[:KEY_DIGITS]
    return Digest(*name_of(run), found["sha256"], key, installation.name_of(installation.facts()))


def published_figures(plan: Plan, folder: Path) -> dict[tuple[str, str, str], list[float]]:
    """Figures of all seeds in the folder's tables, by scenario, control and metric."""
    found: dict[tuple[str, str, str], list[float]] = {}
    for row in (row for batch in tables.batches_in(folder, plan)[:1] for row in batch.rows):
        for metric in FIGURES:
            if (value := row.metrics.get(metric)) is not None:
                found.setdefault((row.scenario, row.variant, metric), []).append(value)
    return found


def compared(
    before: Digest, now: Digest, done: Done, published: Mapping[tuple[str, str, str], Sequence[float]]
) -> Verdict:
    """The verdict on one run: by digest where both had the same inputs and installation, else by figures."""
    if before.sha256 == now.sha256:
        return Verdict(before.words, False, False, f"same digest {now.sha256[:12]}")
    if before.must_equal(now):
        text = f"DIFFERS: published {before.sha256[:12]}, now {now.sha256[:12]}, of the same sources and installation"
        return Verdict(before.words, True, False, text)
    why = "other sources or kernel" if before.key != now.key else "another installation"
    outside, known, is_gross = [], 0, False
    for metric in FIGURES:
        values = published.get((before.scenario, before.variant, metric), [])
        value = done.metrics.get(metric)
        within = None if value is None else is_within(value, values)
        known += within is not None
        if within is False and value is not None:
            outside.append(f"{metric} {value:.4g}, published {min(values):.4g} to {max(values):.4g}")
            is_gross |= not min(values) / GROSS <= value <= max(values) * GROSS
    said = f"outside of the published seeds' interval: {'; '.join(outside)}" if outside else "within the interval"
    failed = True if is_gross else None
    return Verdict(before.words, failed, bool(outside), f"{why}: {said if known else 'too few seeds to compare'}")


def told(verdicts: Sequence[Verdict], failed: Sequence[str]) -> int:
    """Print the verdicts; 1 if a digest differs that must not, a figure by more than GROSS, more
    runs than chance allows miss their intervals, or a run failed."""
    for verdict in verdicts:
        print(verdict.line)
    for line in failed:
        print(f"RUN FAILED: {line}", file=sys.stderr)
    differ = sum(verdict.failed is True for verdict in verdicts)
    by_figures = [verdict for verdict in verdicts if verdict.failed is None]
    missed, allowed = sum(verdict.missed for verdict in by_figures), misses_allowed(len(by_figures))
    same = len(verdicts) - len(by_figures) - differ
    print(f"{same} of {len(verdicts)} repeated runs have the published digest, {differ} differ")
    if by_figures:
        print(
            f"{len(by_figures)} compared by figures, being of other sources or of another installation: {missed} "
            f"outside of the published seeds' 95 % interval; up to {allowed} are chance"
        )
    return 1 if differ or missed > allowed or failed else 0
