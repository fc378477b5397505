# SPDX-License-Identifier: Apache-2.0
"""A shaper's rule as a run needs it: its first rate, and the words of its program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def first_rate_mbit_s(spec: Mapping[str, Any]) -> float:
    """The rate of the queue under test as the run starts."""
    shaper = spec.get("shaper", {})
    rate = shaper.get("base_mbit_s", shaper.get("rate_mbit_s", spec["link"]["bottleneck"]["rate_mbit_s"]))
    return float(rate)


def rule_words(shaper: Mapping[str, Any]) -> list[str]:
    """The options of `weir tune --rate` beside the device and reflectors."""
    words = []
    for key in ("min_mbit_s", "base_mbit_s", "max_mbit_s", "probe_every_ms"):
        words += [f"--{key.replace('_', '-')}", f"{shaper[key]:.10g}"]
    if shaper["rule"] == "follow":
        words += ["--delay-ms", f"{shaper['delay_ms']:.10g}"]
    return words
