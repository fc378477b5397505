# SPDX-License-Identifier: Apache-2.0
"""Capacity and competing flows of an episode's link at any time of the run. Pure."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weirtrain.episodes import UDP, Episode, Rival

LEAST_LEFT = 0.05  # of the rate beside UDP


@dataclass(frozen=True)
class Link:
    """Free capacity in bytes/s from each of `times_s` on, and the bytes that it lets through before each."""

    times_s: np.ndarray
    rates: np.ndarray
    before: np.ndarray
    rivals: tuple[Rival, ...]

    @classmethod
    def of(cls, episode: Episode) -> Link:
        """Unresponsive traffic is taken off the capacity, down to LEAST_LEFT of it."""
        steps = episode.rates or ((0.0, episode.rate_mbit_s),)
        bursts = [burst for rival in episode.rivals if rival.control == UDP for burst in _bursts(rival)]
        edges = np.unique([at_s for at_s, _ in steps] + [at_s for burst in bursts for at_s in burst[:2]])
        rates = np.array([rate for _, rate in steps])[
            np.searchsorted([at_s for at_s, _ in steps], edges, side="right") - 1
        ]
        taken = sum((np.where((edges >= begin_s) & (edges < end_s), rate, 0.0) for begin_s, end_s, rate in bursts),
                    np.zeros(len(edges)))  # fmt: skip
        free = np.maximum(rates - taken, LEAST_LEFT * rates) * 1e6 / 8
        before = np.concatenate([[0.0], np.cumsum(free[:-1] * np.diff(edges))])
        return cls(edges, free, before, tuple(rival for rival in episode.rivals if rival.control != UDP))

    def capacity(self, begin_s: np.ndarray, end_s: np.ndarray) -> np.ndarray:
        """Mean capacity between two times each, bytes/s; before the run it is that of its first moment."""
        return (self._until(end_s) - self._until(begin_s)) / np.maximum(end_s - begin_s, 1e-9)

    def rivals_at(self, t_s: np.ndarray, control: str | None = None) -> np.ndarray:
        """Competing TCP flows at each time, of one control or of all."""
        count = np.zeros(len(t_s))
        for rival in self.rivals:
            if control in (None, rival.control):
                count += np.where((t_s >= rival.start_s) & (t_s < rival.stop_s), rival.flows, 0)
        return count

    def _until(self, t_s: np.ndarray) -> np.ndarray:
        place = np.maximum(np.searchsorted(self.times_s, t_s, side="right") - 1, 0)
        return self.before[place] + (t_s - self.times_s[place]) * self.rates[place]


def _bursts(rival: Rival) -> list[tuple[float, float, float]]:
    """Begin and end in s of each time in which UDP is sent, and its rate in Mbit/s."""
    if not rival.period_s:
        return [(rival.start_s, rival.stop_s, rival.rate_mbit_s)]
    begins = np.arange(rival.start_s, rival.stop_s, 2 * rival.period_s).tolist()
    return [(begin, min(begin + rival.period_s, rival.stop_s), rival.rate_mbit_s) for begin in begins]
