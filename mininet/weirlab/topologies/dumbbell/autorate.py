# SPDX-License-Identifier: Apache-2.0
"""A peer of `weir tune --rate`: the rules that cake-autorate documents (README, comments of its defaults), written
anew.

Each answer is a sample of the one-way delay above a baseline: half of the round trip's with `fping`, the default, or
all of it where one-way delays are measured (`one_way`, `tsping`). Three samples of the last six above `delay_ms` are
bufferbloat: the rate falls by 1 % at `delay_ms` to 25 % at `most_down_ms` of mean delay, at most once in 300 ms. Else a
rate that is used to 75 % grows with each answer, by 4 % up to `most_up_ms` of mean delay and by nothing from `delay_ms`
on; one that is not returns to the base rate by 1 % a second.

Not modelled: choice of reflectors, sleep after a minute of idle time, stalls (no answer: no change, as documented).
"""

from __future__ import annotations

import json
import sys
from collections import deque
from dataclasses import dataclass

from weir.tuner.rate import RateDecision, RateSettings
from weir.tuner.rate_cli import main as follow_rate

DETECTION_WINDOW, DETECTIONS = 6, 3
BASELINE_UP, BASELINE_DOWN = 0.001, 0.9
FIRST_BASELINE_US = 100_000
DOWN_LEAST, DOWN_MOST = 0.99, 0.75
UP_LEAST, UP_MOST = 1.0, 1.04
DECAY_DOWN, DECAY_UP = 0.99, 1.01
HIGH_LOAD = 0.75
REFRACTORY_US, DECAY_US = 300_000, 1_000_000
LOAD_EVERY_US = 200_000
PACKET_BITS = 1514 * 8


@dataclass(frozen=True)
class AutorateSettings:
    """cake-autorate's settings of one direction, with its defaults."""

    min_bit_s: float
    base_bit_s: float
    max_bit_s: float
    one_way: bool = False
    most_up_ms: float = 10.0
    delay_ms: float = 30.0
    most_down_ms: float = 60.0


class Autorate:
    """The same interface as `weir.tuner.rate.RateRule`."""

    def __init__(self, settings: AutorateSettings, now_us: int) -> None:
        self.settings = settings
        self.rate_bit_s = settings.base_bit_s
        self._open: dict[int, tuple[str, int]] = {}
        self._baseline_us: dict[str, float] = {}
        self._window: deque[tuple[float, bool]] = deque([(0.0, False)] * DETECTION_WINDOW, DETECTION_WINDOW)
        self._bloat_us = self._decay_us = self._loaded_us = now_us
        self._loaded_bytes: int | None = None
        self._achieved_bit_s = 0.0
        self._delay_us: float | None = None
        self._action = "hold"

    def sent(self, key: int, reflector: str, now_us: int, total_bytes: int) -> None:
        self._open[key] = reflector, now_us

    def answered(self, key: int, now_us: int) -> bool:
        probe = self._open.pop(key, None)
        if probe is None:
            return False
        reflector, sent_us = probe
        rtt_us = float(now_us - sent_us)
        baseline_us = self._baseline_us.get(reflector, FIRST_BASELINE_US)
        alpha = BASELINE_UP if rtt_us >= baseline_us else BASELINE_DOWN
        baseline_us += alpha * (rtt_us - baseline_us)
        self._baseline_us[reflector] = baseline_us
        delay_us = (rtt_us - baseline_us) * (1.0 if self.settings.one_way else 0.5)
        threshold_us = self._thresholds_us()[1]
        self._window.append((delay_us, delay_us > threshold_us))
        self._delay_us = delay_us
        self._adjust(now_us)
        return True

    def _thresholds_us(self) -> tuple[float, float, float]:
        packet_us = 1e6 * PACKET_BITS / self.rate_bit_s
        wanted = self.settings
        up, middle, down = (1e3 * ms + packet_us for ms in (wanted.most_up_ms, wanted.delay_ms, wanted.most_down_ms))
        return up, middle, down

    def _adjust(self, now_us: int) -> None:
        up_us, middle_us, down_us = self._thresholds_us()
        mean_us = sum(delay for delay, _ in self._window) / DETECTION_WINDOW
        load = self._achieved_bit_s / self.rate_bit_s
        quiet = now_us > self._bloat_us + REFRACTORY_US
        self._action = "hold"
        if sum(late for _, late in self._window) >= DETECTIONS:
            if quiet:
                part = min(max((mean_us - middle_us) / (down_us - middle_us), 0.0), 1.0)
                self.rate_bit_s *= DOWN_LEAST + part * (DOWN_MOST - DOWN_LEAST)
                self._bloat_us, self._action = now_us, "down"
        elif load > HIGH_LOAD:
            if quiet:
                part = min(max((mean_us - up_us) / (middle_us - up_us), 0.0), 1.0)
                self.rate_bit_s *= UP_MOST + part * (UP_LEAST - UP_MOST)
                self._action = "up"
        elif quiet and now_us > self._decay_us + DECAY_US:
            base = self.settings.base_bit_s
            if self.rate_bit_s > base:
                self.rate_bit_s = max(self.rate_bit_s * DECAY_DOWN, base)
            else:
                self.rate_bit_s = min(self.rate_bit_s * DECAY_UP, base)
            self._decay_us, self._action = now_us, "decay"
        self.rate_bit_s = min(max(self.rate_bit_s, self.settings.min_bit_s), self.settings.max_bit_s)

    def tick(self, now_us: int, total_bytes: int) -> RateDecision:
        if self._loaded_bytes is None:
            self._loaded_us, self._loaded_bytes = now_us, total_bytes
        elif now_us - self._loaded_us >= LOAD_EVERY_US:
            passed_us = now_us - self._loaded_us
            self._achieved_bit_s = 8e6 * (total_bytes - self._loaded_bytes) / passed_us
            self._loaded_us, self._loaded_bytes = now_us, total_bytes
        load = self._achieved_bit_s / self.rate_bit_s
        return RateDecision(now_us, self.rate_bit_s, self._action, self._delay_us, None, load)


def main(words: list[str]) -> int:
    """`weir tune --rate` with these rules in the place of its own; the first word has the settings as JSON."""
    own = json.loads(words[0])

    def rule(settings: RateSettings, now_us: int) -> Autorate:
        bounds = settings.min_bit_s, settings.base_bit_s, settings.max_bit_s
        return Autorate(AutorateSettings(*bounds, **own), now_us)

    return follow_rate(words[1:], rule)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
