# SPDX-License-Identifier: Apache-2.0
"""`[link.line]` and `[variants.LABEL.shaper]`: a line of varying rate behind the queue under test, and how the rate of
that queue's shaper is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from weirlab.scenario.checker import Checker
from weirlab.scenario.sections import AqmMs, QueuePackets, RateMbit, Section


class Line(Section):
    """A line with a fifo behind the shaper: the last link on the data's way. The bottleneck's `rate_mbit_s` is the
    shaper's at first, and its `delay_ms` is on the way back; that of the data's way is `link.access.delay_ms`."""

    rate_file: Annotated[str, Field(min_length=1)]
    queue_limit_packets: QueuePackets = 1000


class Fixed(Section):
    """A rate for good."""

    rule: Literal["fixed"]
    rate_mbit_s: RateMbit


class Bounds(Section):
    """Common keys of the rules. The rate starts at `base_mbit_s`."""

    min_mbit_s: RateMbit
    base_mbit_s: RateMbit
    max_mbit_s: RateMbit
    probe_every_ms: Annotated[float, Field(ge=5, le=1000)] = 50.0

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if not self.min_mbit_s <= self.base_mbit_s <= self.max_mbit_s:
            raise ValueError("min_mbit_s, base_mbit_s and max_mbit_s are not in this order; write rising rates")
        return self


class Follow(Bounds):
    """`weir tune --rate`; `delay_ms` is its --delay-ms."""

    rule: Literal["follow"]
    delay_ms: AqmMs = 30.0


class AutorateRule(Bounds):
    """The rules of cake-autorate with its settings (`autorate.py`)."""

    rule: Literal["autorate"]
    one_way: bool = False
    most_up_ms: AqmMs = 10.0
    delay_ms: AqmMs = 30.0
    most_down_ms: AqmMs = 60.0

    @model_validator(mode="after")
    def _thresholds(self) -> Self:
        if not self.most_up_ms < self.delay_ms < self.most_down_ms:
            raise ValueError("most_up_ms, delay_ms and most_down_ms must rise; write larger values for the later ones")
        return self


RULES: dict[str, type[Section]] = {"fixed": Fixed, "follow": Follow, "autorate": AutorateRule}


def shaper_of(
    checker: Checker, options: Mapping[str, Any], path: str, common: Mapping[str, Any], aqm: Mapping[str, Any]
) -> dict[str, Any] | None:
    """A variant's shaper; the bottleneck's rate for good where the variant has none."""
    link = common.get("link", {})
    if "line" not in link:
        checker.problem(f"{path}.shaper", "there is no line behind the shaper; write [link.line] with a rate_file")
        return None
    if aqm["qdisc"] == "p4" or aqm.get("coupled") or aqm.get("tune"):
        checker.problem(f"{path}.qdisc", "does not go with [link.line]; write one queue behind htb, without tune")
        return None
    given = options.get("shaper", {"rule": "fixed", "rate_mbit_s": link["bottleneck"]["rate_mbit_s"]})
    if not isinstance(given, dict):
        checker.problem(f"{path}.shaper", 'not a table; write a table with rule = "follow", for example')
        return None
    found = checker.tagged(RULES, "rule", given, f"{path}.shaper")
    return None if found is None else found.model_dump()
