# SPDX-License-Identifier: Apache-2.0
"""Figures of a policy in held-out episodes, differences between policies episode by episode, and verdicts. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

import numpy as np

from weirlab.metrics.estimate import Estimate, estimate
from weirtrain.episodes import Episode
from weirtrain.settings import SharedReward
from weirtrain.shared_reward import terms_of
from weirtrain.trajectory import Trajectory, TrajectoryError

BETTER, WORSE, UNDECIDED = "better", "worse", "no difference beyond doubt"
# Name, title in tables, and decimals. A figure is None where an episode has none.
FIGURES = (
    ("reward", "reward", 3),
    ("share", "rate over fair share", 3),
    ("rtt_ratio", "RTT over base", 3),
    ("loss_percent", "loss, %", 2),
    ("jain", "Jain", 3),
)
TERMS = tuple(f"term_{one.name}" for one in fields(SharedReward))  # weighed; their sum is the reward
Figures = dict[str, float | None]
Judged = Mapping[str, Sequence[Figures]]  # of one policy, by kind, in the order of the episodes' numbers


def figures(episode: Episode, flows: Sequence[Trajectory], reward: SharedReward) -> Figures:
    """Figures of an episode: `reward`, and its weighed terms, are means over the intervals from each flow's first
    decision on; the others are of the time from `judged_from_s` on. `jain` is over the time in which all flows are
    under way, None for one flow. Raises TrajectoryError where no flow has such an interval."""
    names = [name.removeprefix("term_") for name in TERMS]
    worth, parts = [], []
    for number, (flow, terms) in enumerate(zip(flows, terms_of(flows, episode), strict=True)):
        decided = np.cumsum(flow.by_policy) > 0
        worth.append(np.stack([getattr(reward, name) * getattr(terms, name) for name in names])[:, decided])
        later = flow.numbers["t_us"] * 1e-6 > episode.judged_from_s
        seconds = flow.numbers["interval_us"] * 1e-6
        ratios = flow.numbers["rtt_mean_us"] * 1e-6 / episode.rtt_of_s(number)
        parts.append(np.stack([
            flow.numbers["acked_bytes"], flow.numbers["lost_bytes"], terms.fair_bytes_s * seconds, ratios * seconds,
            seconds,
        ])[:, later])  # fmt: skip
    acked, lost, fair, late, seconds = np.concatenate(parts, axis=1).sum(axis=1).tolist()
    weighed = np.concatenate(worth, axis=1)
    if not seconds or not weighed.size:
        raise TrajectoryError(f"{episode.kind} episode {episode.number}: no decision to judge by")
    return {
        "reward": float(weighed.sum(axis=0).mean()),
        "share": acked / fair,
        "rtt_ratio": late / seconds,
        "loss_percent": 100 * lost / max(acked + lost, 1),
        "jain": jain(flows, episode.judged_from_s),
        **{name: float(values.mean()) for name, values in zip(TERMS, weighed, strict=True)},
    }


def jain(flows: Sequence[Trajectory], from_s: float) -> float | None:
    """Jain's index of the rates from that time on, once all flows are under way; None for one flow or no such time."""
    times = [flow.numbers["t_us"] * 1e-6 for flow in flows]
    if len(flows) < 2 or not all(len(one) for one in times):
        return None
    begin_s = max(from_s, *(one[0] for one in times))
    end_s = min(one[-1] for one in times)
    if end_s - begin_s < 1.0:
        return None
    rates = np.array([
        np.diff(np.interp([begin_s, end_s], one, np.cumsum(flow.numbers["acked_bytes"])))[0]
        for flow, one in zip(flows, times, strict=True)
    ])  # fmt: skip
    return float(rates.sum() ** 2 / (len(rates) * np.maximum((rates**2).sum(), 1e-9)))


@dataclass(frozen=True)
class Row:
    """One policy in the episodes of a kind: means of its figures, its differences from the first policy with 95 %
    intervals, and what they say of the reward; no difference and no verdict for the first."""

    policy: str
    means: dict[str, float | None]
    apart: dict[str, Estimate]
    verdict: str | None


def rows(judged: Mapping[str, Judged], kind: str) -> list[Row]:
    """A row of a kind for each policy. Policies have been judged in the same episodes."""
    first = next(iter(judged.values()))[kind]
    found = []
    for place, (policy, own) in enumerate(judged.items()):
        means = {name: _mean([one.get(name) for one in own[kind]]) for name in (*(one[0] for one in FIGURES), *TERMS)}
        apart = {name: _apart(first, own[kind], name) for name, _, _ in FIGURES} if place else {}
        found.append(Row(policy, means, apart, verdict(apart["reward"]) if place else None))
    return found


def overall(judged: Mapping[str, Judged]) -> list[Row]:
    """A row for each policy over all kinds, each kind alike. Better is a policy whose reward is better in all episodes
    together, and worse in no kind; worse one that is worse in all together."""
    kinds = list(next(iter(judged.values())))
    everything = {policy: {"": [one for kind in kinds for one in own[kind]]} for policy, own in judged.items()}
    worse = {row.policy for kind in kinds for row in rows(judged, kind) if row.verdict == WORSE}
    return [
        Row(row.policy, row.means, row.apart, UNDECIDED)
        if row.verdict == BETTER and row.policy in worse
        else row
        for row in rows(everything, "")
    ]  # fmt: skip


def verdict(difference: Estimate) -> str:
    """Better or worse where the 95 % interval leaves out 0."""
    if difference.mean is None or difference.ci95 is None or abs(difference.mean) <= difference.ci95:
        return UNDECIDED
    return BETTER if difference.mean > 0 else WORSE


def as_document(judged: Mapping[str, Judged]) -> dict[str, object]:
    """All of it as plain data: rows by kind, rows over all, and the figures of each episode."""
    kinds = list(next(iter(judged.values())))
    return {
        "baseline": next(iter(judged)),
        "kinds": {kind: [asdict(row) for row in rows(judged, kind)] for kind in kinds},
        "overall": [asdict(row) for row in overall(judged)],
        "episodes": {policy: {kind: list(own[kind]) for kind in kinds} for policy, own in judged.items()},
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _apart(first: Sequence[Figures], own: Sequence[Figures], name: str) -> Estimate:
    """Difference between the figures of the same episodes, of those that both have."""
    pairs = [(a[name], b[name]) for a, b in zip(first, own, strict=True)]
    return estimate([b - a for a, b in pairs if a is not None and b is not None])
