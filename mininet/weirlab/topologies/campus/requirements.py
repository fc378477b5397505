# SPDX-License-Identifier: Apache-2.0
"""Requirements on all five systems together, the contribution of each, each alone, and whether one makes another worse.
Pure: runs' figures in.

Variants are compared seed by seed: the same seed is the same network. A ratio is the mean over seeds of each seed's own
ratio, with its 95 % interval.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weirlab.metrics.estimate import Estimate, estimate

ALL, NONE, TODAY = "all", "none", "today"
WITHOUT, ALONE = re.compile(r"without-[a-z0-9-]+"), re.compile(r"alone-[a-z0-9-]+")
MET, MISSED, OPEN = "met", "missed", "open"
WORSE_MOST = 0.05
"""Limit of a system's cost to another."""
Figures = Mapping[str, Any]
BySeed = Mapping[int, Figures]


@dataclass(frozen=True)
class Aim:
    """A figure of `all` over that of another variant, at most or at least `bound`. Without a variant, the figure
    itself."""

    metric: str
    words: str
    bound: float
    beside: str = ""
    at_least: bool = False

    @property
    def bounds(self) -> str:
        return f"{'at least' if self.at_least else 'at most'} {self.bound:g}"

    def verdict(self, found: Estimate) -> str:
        """Met or missed if the whole interval says so; of a single seed its value decides."""
        if found.mean is None:
            return OPEN
        sign, half = (-1 if self.at_least else 1), found.ci95 or 0.0
        beyond = sign * (found.mean - self.bound)
        if beyond + half <= 0:
            return MET
        return MISSED if beyond - half > 0 else OPEN


AIMS = (
    Aim("request_p99_ms", "requests, p99, over none", 0.5, NONE),
    Aim("request_p99_ms", "requests, p99, over today", 0.8, TODAY),
    Aim("voice_delay_p99_ms", "voice, p99 of the delay, over none", 0.1, NONE),
    Aim("voice_delay_p99_ms", "voice, p99 of the delay, over today", 1.0, TODAY),
    Aim("upload_mbit_s", "upload, rate, over none", 1.0, NONE, at_least=True),
    Aim("upload_mbit_s", "upload, rate, over today", 1.0, TODAY, at_least=True),
    Aim("upload_rtt_mean_ms", "upload, round trip, over none", 1.0, NONE),
    Aim("upload_rtt_mean_ms", "upload, round trip, over today", 1.0, TODAY),
    Aim("publisher_sent_bytes", "file and stream on the backbone, over none", 0.2, NONE),
    Aim("handover_gap_ptos", "silence at a handover, PTO", 3.0),
    Aim("bytes_lost_transfers", "transfers that lost bytes", 0.0),
)
# Figures of each application, whether more of it is better, and how many decimals to show.
APPLICATIONS: dict[str, tuple[str, bool, int]] = {
    "request_p50_ms": ("requests, median, ms", False, 1),
    "request_p99_ms": ("requests, p99, ms", False, 0),
    "download_mean_s": ("download, s", False, 2),
    "upload_mbit_s": ("upload, Mbit/s", True, 2),
    "upload_rtt_mean_ms": ("upload, round trip, ms", False, 1),
    "stream_goodput_mbit_s": ("stream, Mbit/s", True, 3),
    "stream_stalled_s": ("stream stood, s", False, 1),
    "file_mean_s": ("file, s", False, 2),
    "voice_delay_p99_ms": ("voice, p99, ms", False, 1),
    "voice_loss_percent": ("voice, lost, %", False, 2),
    "web_p99_ms": ("web, p99, ms", False, 0),
    "handover_gap_ms": ("handover, ms", False, 0),
    "publisher_sent_bytes": ("publisher sent, bytes", False, 0),
}


def by_variant(runs: Sequence[tuple[str, int, Figures]]) -> dict[str, dict[int, Figures]]:
    """Figures by variant and seed, of runs as (variant, seed, figures)."""
    found: dict[str, dict[int, Figures]] = {}
    for variant, seed, metrics in runs:
        found.setdefault(variant, {})[seed] = metrics
    return found


def paired(these: BySeed, those: BySeed, metric: str, of: Callable[[float, float], float | None]) -> Estimate:
    """The mean over seeds of the result of each seed's two figures; nothing where a run has no figure."""
    values: list[float | None] = []
    for seed in sorted(set(these) & set(those)):
        one, other = these[seed].get(metric), those[seed].get(metric)
        values.append(None if one is None or other is None else of(one, other))
    return estimate(values)


def ratio(these: BySeed, those: BySeed, metric: str) -> Estimate:
    """The mean of each seed's ratio; nothing where the other's is 0."""
    return paired(these, those, metric, lambda one, other: one / other if other else None)


def difference(these: BySeed, those: BySeed, metric: str) -> Estimate:
    """The mean of each seed's difference."""
    return paired(these, those, metric, lambda one, other: one - other)


def answers(found: Mapping[str, BySeed]) -> Iterator[tuple[Aim, Estimate, str]]:
    """Each target with figures in the runs, its result, and whether it is met."""
    for aim in AIMS:
        if ALL not in found or (aim.beside and aim.beside not in found):
            continue
        here = found[ALL]
        if aim.beside:
            value = ratio(here, found[aim.beside], aim.metric)
        else:
            value = estimate([metrics.get(aim.metric) for metrics in here.values()])
        yield aim, value, aim.verdict(value)


def left_out(found: Mapping[str, BySeed]) -> list[str]:
    """The variants with one system taken out."""
    return [variant for variant in found if WITHOUT.fullmatch(variant)]


def alone(found: Mapping[str, BySeed]) -> list[str]:
    """The variants with the traffic of one system alone."""
    return [variant for variant in found if ALONE.fullmatch(variant)]


def in_company(found: Mapping[str, BySeed]) -> Iterator[tuple[str, str, Estimate, Estimate, Estimate]]:
    """Each variant with the traffic of one system alone, each figure that it has, that figure alone, with everything,
    and the latter over the former. A handover is not among them: its silence is that of whatever the phone heard first,
    and alone it hears one thing."""
    for variant in alone(found) if ALL in found else ():
        for metric in (metric for metric in APPLICATIONS if metric != "handover_gap_ms"):
            own, together = (estimate([run.get(metric) for run in found[which].values()]) for which in (variant, ALL))
            if own.mean is not None:
                yield variant, metric, own, together, ratio(found[ALL], found[variant], metric)


def costs(found: Mapping[str, BySeed]) -> Iterator[tuple[str, str, Estimate]]:
    """Where a system makes an application worse by more than WORSE_MOST, beyond doubt: the variant without the system,
    the figure, and the figure with everything over that without the system."""
    for variant in left_out(found) if ALL in found else ():
        for metric, (_, more_is_better, _) in APPLICATIONS.items():
            value = ratio(found[ALL], found[variant], metric)
            if value.mean is None:
                continue
            worse, half = (1 - value.mean if more_is_better else value.mean - 1), value.ci95 or 0.0
            if worse - half > WORSE_MOST:
                yield variant, metric, value


def as_documents(found: Mapping[str, BySeed]) -> list[dict[str, Any]]:
    """For JSON: each aim with its interval and its verdict."""
    return [
        {
            "metric": aim.metric,
            "beside": aim.beside or None,
            "mean": value.mean,
            "ci95": value.ci95,
            "n": value.n,
            "asked": aim.bounds,
            "met": verdict,
        }
        for aim, value, verdict in answers(found)
    ]
