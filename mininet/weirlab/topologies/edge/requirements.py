# SPDX-License-Identifier: Apache-2.0
"""Requirements on forwarding by name in figures, and whether the runs meet them. Pure.

A figure has a case for each setting that it can be told of: each file size, each number of receivers, each loss. It is
met if it is met in all cases. A case is met if its whole 95 % interval is within the bounds, missed if all of it is
outside, and open if a bound is inside of it. A single seed has no interval; its value alone decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weirlab.metrics.estimate import Estimate
from weirlab.report.labels import count
from weirlab.topologies.edge.cross_run_stats import (
    UNICAST_NAMES,
    Point,
    alike,
    beside_unicast,
    fall_of_mean,
    over_beta,
    over_receivers,
    over_sizes,
)

MET, MISSED, OPEN, NOT_ASKED = "met", "missed", "open", "not asked here"


@dataclass(frozen=True)
class Asked:
    """A figure with its bounds, both included. `one_to_32`: only of 1 receiver beside 32, at 1 % of loss, is it asked;
    of other runs the figure is told beside the paper's."""

    metric: str
    words: str
    bounds: str
    decimals: int
    least: float = float("-inf")
    most: float = float("inf")
    one_to_32: bool = False

    def outside(self, value: float) -> float:
        """Distance of a value from the bounds; within them it is less than 0: the nearer to one, the larger."""
        return max(self.least - value, value - self.most)

    def verdict(self, found: Estimate) -> str:
        """Whether a case is met."""
        if found.mean is None:
            return OPEN
        half = found.ci95 or 0.0
        if self.least <= found.mean - half and found.mean + half <= self.most:
            return MET
        return MISSED if found.mean + half < self.least or found.mean - half > self.most else OPEN


FIGURES = (
    Asked(
        "goodput_fall_of_mean_percent", "goodput falls, mean over sizes, %", "at most 1", 2, most=1.0, one_to_32=True
    ),
    Asked("goodput_fall_percent", "goodput falls, %", "at most 1", 2, most=1.0, one_to_32=True),
    Asked("completion_r2", "time over size, R²", "at least 0.999", 6, least=0.999),
    Asked("completion_ratio", "time, of the fewest's", "0.98 to 1.02", 4, least=0.98, most=1.02, one_to_32=True),
    Asked("sent_ratio", "publisher sent, of the fewest's", "at most 1.1", 4, most=1.1, one_to_32=True),
    Asked("retransmissions_ratio", "asked again, beta 20 over 4", "at most 0.25", 3, most=0.25),
    Asked("goodput_inside_ratio", "best inside the range of beta, over the ends", "at least 1", 4, least=1.0),
    Asked("goodput_vs_unicast", "goodput of QUIC over names, of UDP's", "at least 0.95", 3, least=0.95),
    Asked("handshake_more_rtts", "its handshake is later by so many round trips", "at most 0.5", 3, most=0.5),
    Asked("first_byte_more_rtts", "its first byte is later by so many round trips", "at most 0.5", 3, most=0.5),
    Asked("move_gap_ratio", "gap at a move, of a round trip and beta response times", "at most 1", 3, most=1.0),
    Asked("move_stall_ratio", "the same, without content", "at most 1", 3, most=1.0),
    Asked("moved_wrong_receivers", "moved, and have not each byte once", "0", 2, least=0.0, most=0.0),
    Asked("goodput_of_best", "goodput of the default beta, of the best's", "at least 0.98", 4, least=0.98),
)
LOSS_PERCENT = 1.0
RECEIVERS = (1, 32)


@dataclass(frozen=True)
class Case:
    """A figure in one setting. `asked`: whether it is asked of this setting."""

    where: str
    found: Estimate
    asked: bool


@dataclass(frozen=True)
class Answer:
    """A figure of one variant over all its cases; `worst` is the one that is nearest to a bound, or farthest beyond, of
    those that are asked if some are."""

    asked: Asked
    way: str
    rate_mbit_s: float
    cases: tuple[Case, ...]

    @property
    def worst(self) -> Case:
        asked = [case for case in self.cases if case.asked] or self.cases
        return max(asked, key=lambda case: self.asked.outside(case.found.mean or 0.0))

    @property
    def verdicts(self) -> list[str]:
        return [self.asked.verdict(case.found) for case in self.cases if case.asked]

    @property
    def verdict(self) -> str:
        """Missed if a case is, else open if a case is, else met."""
        verdicts = self.verdicts
        return next((word for word in (MISSED, OPEN, MET) if word in verdicts), NOT_ASKED)


def answers(points: Sequence[Point]) -> list[Answer]:
    """Each figure that the points say something of, variant by variant."""
    found: dict[tuple[str, str, float], list[Case]] = {}
    for metric, point, case in _cases(points):
        if case.found.mean is not None:
            found.setdefault((point.way, metric, point.rate_mbit_s), []).append(case)
    ways = list(dict.fromkeys((point.way, point.rate_mbit_s) for point in points))
    return [
        Answer(asked, way, rate, tuple(found[way, asked.metric, rate]))
        for asked in FIGURES
        for way, rate in ways
        if (way, asked.metric, rate) in found
    ]


def _cases(points: Sequence[Point]) -> Iterator[tuple[str, Point, Case]]:
    """Metric, a point of the setting, case."""
    for make in (_over_receivers_cases, _over_sizes_cases, _over_beta_cases, _carried_by_name_cases, _moved_cases):
        yield from make(points)


def _over_receivers_cases(points: Sequence[Point]) -> Iterator[tuple[str, Point, Case]]:
    groups = alike(points, "receivers").values()
    several: dict[tuple[Any, ...], list[list[Point]]] = {}
    for group in groups:
        several.setdefault((*group[0].setting, group[0].beta), []).append(group)
        for metric, estimate in over_receivers(group).items():
            where = f"{group[0].file_bytes / 1000:g} kB, {_ends(group[0], group[-1])}"
            yield metric, group[0], Case(where, estimate, _as_asked(group[0], group[-1]))
    for sizes in several.values():
        if len(sizes) > 1:
            first = min((group[0] for group in sizes), key=lambda point: point.receivers)
            last = max((group[-1] for group in sizes), key=lambda point: point.receivers)
            where = _ends(first, last)
            yield "goodput_fall_of_mean_percent", first, Case(where, fall_of_mean(sizes), _as_asked(first, last))


def _over_sizes_cases(points: Sequence[Point]) -> Iterator[tuple[str, Point, Case]]:
    for group in alike(points, "file_bytes").values():
        for metric, estimate in over_sizes(group).items():
            yield metric, group[0], Case(count(group[0].receivers, "receiver"), estimate, True)


def _over_beta_cases(points: Sequence[Point]) -> Iterator[tuple[str, Point, Case]]:
    for group in alike(points, "beta").values():
        for metric, estimate in over_beta(group).items():
            yield metric, group[0], Case(f"{group[0].loss_percent:g} % loss", estimate, True)


def _carried_by_name_cases(points: Sequence[Point]) -> Iterator[tuple[str, Point, Case]]:
    """Of QUIC programs that know nothing of names; other ways to carry a file are not asked for that."""
    beside = beside_unicast(points)
    for point in points:
        if point.carry == UNICAST_NAMES:
            for metric, estimate in beside.get(point.label, {}).items():
                yield metric, point, Case(f"{point.loss_percent:g} % loss", estimate, True)


def _moved_cases(points: Sequence[Point]) -> Iterator[tuple[str, Point, Case]]:
    """Of runs in which receivers move."""
    for point in points:
        for metric in ("move_gap_ratio", "move_stall_ratio", "moved_wrong_receivers"):
            yield metric, point, Case(f"{point.loss_percent:g} % loss", point.estimated(metric), True)


def _ends(first: Point, last: Point) -> str:
    return f"{first.receivers} to {last.receivers}"


def _as_asked(first: Point, last: Point) -> bool:
    return (first.receivers, last.receivers) == RECEIVERS and first.loss_percent == LOSS_PERCENT


def as_documents(found: Sequence[Answer], paper: Callable[[str, str], float | None]) -> list[Mapping[str, Any]]:
    """For JSON: each case with its interval and its verdict. `paper` gives the paper's figure for a variant and a
    metric."""
    return [
        {
            "variant": answer.way,
            "metric": answer.asked.metric,
            "rate_mbit_s": answer.rate_mbit_s,
            "where": case.where,
            "mean": case.found.mean,
            "ci95": case.found.ci95,
            "n": case.found.n,
            "asked": answer.asked.bounds if case.asked else None,
            "paper": paper(answer.way, answer.asked.metric),
            "met": answer.asked.verdict(case.found) if case.asked else NOT_ASKED,
        }
        for answer in found
        for case in answer.cases
    ]
