# SPDX-License-Identifier: Apache-2.0
"""Ranking of congestion controls by regret, with bootstrap intervals.

Pure. In one scenario the power of a control is log(throughput / delay) (Kleinrock, "Power and deterministic rules of
thumb", ICC 1979); its regret is the greatest power of any control there less its own, in nats: 0 for the best, 0.1 for
about 10 % less. Throughput regret and delay regret are the distances from the most throughput and from the least delay
alone. Logarithms make links of every rate and round trip count alike; a control that gains a factor in throughput for
the same factor in delay stays where it is.

- **Throughput** is bytes on the wire. Beside competing TCP flows that go on all the time it counts up to the fair
  share, so that nothing is gained by starving them.
- **Score**: the mean regret over scenarios, each group of scenarios with the same weight.
- **Field**: the controls that were run in most groups, in the scenarios that all of these were run in.
- **Intervals**: 95 %, percentiles of a bootstrap that draws scenarios, each group with the same probability, and in
  each the seeds, the same for all controls.
- **Ranks**: a control ranks behind those whose score is less than its own in 97.5 % of the replicates, and before those
  of which the reverse is true. Between these two ranks it is tied.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weirlab.evaluation.cc.analysis import WIRE, Bench, ScenarioResult

REPLICATES = 2000
SEED = 46
TAIL = 0.025
FIELD_SHARE = 0.8  # of the groups that a control must have been run in
LEAST = 1e-3  # Mbit/s; a control that carries nothing has a finite regret
POWER, THROUGHPUT, DELAY = range(3)  # the kinds of regret, as axes of arrays
KINDS = ("power", "throughput", "delay")


@dataclass(frozen=True)
class Interval:
    """A score with its 95 % interval, in nats."""

    mean: float
    low: float
    high: float


@dataclass(frozen=True)
class Ranked:
    """A control in the ranking: its regrets by KINDS, its ranks from `first` to `last`, and its power regret by group
    of scenarios."""

    control: str
    scores: tuple[Interval, Interval, Interval]
    first: int
    last: int
    groups: Mapping[str, float]

    @property
    def rank(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"


@dataclass(frozen=True)
class Ranking:
    """The field, by power regret; the scenarios it was compared in; the controls outside of the field with the number
    of groups that each was run in."""

    rows: tuple[Ranked, ...]
    scenarios: tuple[str, ...]
    left_out: Mapping[str, int]


def samples_of(scenario: ScenarioResult, controls: Sequence[str]) -> tuple[np.ndarray, np.ndarray] | None:
    """Logarithms of throughput and of delay, each an array of controls by the seeds that all of them have; None where a
    control has no point, or no seed is common."""
    fair = scenario.about.get("fair_mbit_s")
    values: dict[str, dict[int, tuple[float, float]]] = {control: {} for control in controls}
    for row in scenario.rows:
        wire, delay = row.metrics.get(WIRE), row.metrics.get(scenario.delay)
        if row.variant in values and wire is not None and delay is not None and delay > 0:
            counted = wire if fair is None else min(wire, fair)
            values[row.variant].setdefault(row.seed, (max(counted, LEAST), delay))
    seeds = sorted(set.intersection(*(set(found) for found in values.values()))) if values else []
    if not seeds:
        return None
    table = np.log([[values[control][seed] for seed in seeds] for control in controls])
    return table[:, :, 0], table[:, :, 1]


def regrets(throughput: np.ndarray, delay: np.ndarray) -> np.ndarray:
    """Regrets by KINDS and control, of the means of logarithms by control (first axis); further axes are kept."""
    power = throughput - delay
    return np.stack([
        power.max(axis=0) - power,
        throughput.max(axis=0) - throughput,
        delay - delay.min(axis=0),
    ])  # fmt: skip


def regrets_of(scenario: ScenarioResult) -> dict[str, np.ndarray]:
    """Regrets by KINDS of each control that was run in a scenario."""
    controls = [
        control
        for control in scenario.figures
        if scenario.mean(control, WIRE) is not None and scenario.mean(control, scenario.delay) is not None
    ]
    found = samples_of(scenario, controls)
    if found is None:
        return {}
    each = regrets(*(values.mean(axis=1) for values in found))
    return {control: each[:, place] for place, control in enumerate(controls)}


def field_of(bench: Bench) -> tuple[list[str], dict[str, int]]:
    """The controls that are ranked, and the others with the number of groups that each was run in."""
    groups = {control: len({s.group for s in bench.scenarios if control in s.figures}) for control in bench.there}
    wanted = FIELD_SHARE * max(groups.values(), default=0)
    field = [control for control, count in groups.items() if count >= wanted]
    return field, {control: count for control, count in groups.items() if control not in field}


def ranking(bench: Bench, replicates: int = REPLICATES) -> Ranking | None:
    """None with fewer than two controls, or no scenario in which all of the field were run."""
    field, left_out = field_of(bench)
    samples = {s.name: found for s in bench.scenarios if (found := samples_of(s, field)) is not None}
    if len(field) < 2 or not samples:
        return None
    groups = [scenario.group for scenario in bench.scenarios if scenario.name in samples]
    weights = np.array([1 / groups.count(group) for group in groups])
    weights /= weights.sum()
    each = np.stack([regrets(t.mean(axis=1), d.mean(axis=1)) for t, d in samples.values()])
    means = np.tensordot(weights, each, axes=1)
    drawn = bootstrap(list(samples.values()), weights, replicates)
    low, high = np.quantile(drawn, (TAIL, 1 - TAIL), axis=0)
    first, last = ranks(drawn[:, POWER])
    by_group = {
        group: each[[place for place, name in enumerate(groups) if name == group]][:, POWER].mean(axis=0)
        for group in dict.fromkeys(groups)
    }
    rows = [
        Ranked(
            control,
            tuple(Interval(float(means[k, c]), float(low[k, c]), float(high[k, c])) for k in range(len(KINDS))),  # type: ignore[arg-type]
            int(first[c]),
            int(last[c]),
            {group: float(found[c]) for group, found in by_group.items()},
        )
        for c, control in enumerate(field)
    ]
    return Ranking(tuple(sorted(rows, key=lambda row: row.scores[POWER].mean)), tuple(samples), left_out)


def bootstrap(
    samples: Sequence[tuple[np.ndarray, np.ndarray]], weights: np.ndarray, replicates: int, seed: int = SEED
) -> np.ndarray:
    """Scores of replicates, by KINDS and control: scenarios drawn with these probabilities, as many as there are, and
    in each its seeds."""
    rng = np.random.default_rng(seed)
    count, controls = len(samples), len(samples[0][0])
    chosen = rng.choice(count, size=(replicates, count), p=weights)
    found = np.zeros((replicates, len(KINDS), controls))
    for place, (throughput, delay) in enumerate(samples):
        owners = np.nonzero(chosen == place)[0]
        if not len(owners):
            continue
        seeds = rng.integers(throughput.shape[1], size=(len(owners), throughput.shape[1]))
        means = (values[:, seeds].mean(axis=2) for values in (throughput, delay))
        np.add.at(found, owners, np.moveaxis(regrets(*means), 2, 0))
    return found / count


def ranks(scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First and last rank of each control, by scores of replicates (first axis) and controls."""
    worst = np.quantile(scores[:, :, None] - scores[:, None, :], 1 - TAIL, axis=0)
    better = worst < 0  # [i, j]: i is better than j
    return 1 + better.sum(axis=0), len(better) - better.sum(axis=1)


def csv_of(found: Ranking, stacks: Mapping[str, str]) -> str:
    """The ranking as CSV: regrets in nats."""
    groups = list(found.rows[0].groups)
    heads = ["rank_first", "rank_last", "control", "stack"]
    heads += [f"{kind}_regret_{part}_nats" for kind in KINDS for part in ("mean", "low", "high")]
    heads += [f"power_regret_{group}_nats" for group in groups]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(heads)
    for row in found.rows:
        values = [value for score in row.scores for value in (score.mean, score.low, score.high)]
        values += [row.groups[group] for group in groups]
        writer.writerow([row.first, row.last, row.control, stacks[row.control], *(f"{value:.4f}" for value in values)])
    return out.getvalue()
