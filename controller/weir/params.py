# SPDX-License-Identifier: Apache-2.0
# Generated from law/params.toml by law/generate.py (`./run generate`); don't edit.
# fmt: off
# ruff: noqa: E501
"""Parameters of the law: the integers of a data plane, the values of users, and a row for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Row(NamedTuple):
    """`param`: the integer, in `range`. `least`, `most`: of its key; `right` has those in words."""

    param: str
    form: str
    range: tuple[int, int]
    least: float
    most: float
    unit: str
    group: str
    level: str
    right: str
    doc: str


class Switch(NamedTuple):
    key: str
    on: float
    off: float
    doc: str


@dataclass(frozen=True)
class Integers:
    target_us: int
    interval_us: int
    kp_q40_per_us: int
    ki_q40_per_us: int
    kd_q40_per_us: int
    z1_q16: int
    z2_q16: int
    z3_q16: int
    m1_us: int
    m2_us: int
    integral_drop_max: int
    squared: int
    idle_halflife_us: int
    min_backlog_bytes: int
    min_delay_us: int
    dq_shift: int
    dq_weight_shift: int
    space_least_q16: int
    space_most_q16: int
    delay_bound_us: int
    delay_bound_slope_q40_per_us: int
    delay_limit_us: int
    delay_guard_bytes: int
    share_least_q16: int
    share_shift: int
    ecn_weight_shift: int
    ecn_drop_us: int
    ecn_bound_q32: int


@dataclass(frozen=True, kw_only=True)
class Values:
    target_us: int
    interval_us: int
    kp: float
    ki: float
    kd: float
    z1: float
    z2: float
    z3: float
    m1_us: int
    m2_us: int
    integral: str | int
    probability: str
    idle_halflife_us: int
    min_backlog_bytes: int
    min_delay_share: float = 0.0
    dq_shift: int
    dq_weight_shift: int
    space_least: float = 0.0
    space_most: float = 0.0
    delay_bound_share: float = 0.0
    delay_bound_slope: float = 0.0
    delay_limit_share: float = 0.0
    delay_guard_bytes: int = 0
    share_least: float = 0.0
    share_shift: int = 17
    ecn_weight_shift: int = 0
    ecn_drop_share: float = 0.0
    ecn_bound: float


ROWS = {
    "target_us": Row("target_us", "whole", (1, 16777215), 1, 16777215, "us", "paper", "user", "a whole number, 1 .. 16777215", "queue delay to hold"),
    "interval_us": Row("interval_us", "whole", (1, 16777215), 1, 16777215, "us", "paper", "expert", "a whole number, 1 .. 16777215", "time between two steps of the law"),
    "kp": Row("kp_q40_per_us", "per_second", (0, 4294967295), 0, 3906.2499990905053, "1/s", "paper", "expert", "a number per second, 0 .. 3906", "proportional gain: probability per second of delay"),
    "ki": Row("ki_q40_per_us", "per_second", (0, 4294967295), 0, 3906.2499990905053, "1/s", "paper", "expert", "a number per second, 0 .. 3906", "integral gain"),
    "kd": Row("kd_q40_per_us", "per_second", (0, 4294967295), 0, 3906.2499990905053, "1/s", "paper", "expert", "a number per second, 0 .. 3906", "derivative gain"),
    "z1": Row("z1_q16", "factor", (1, 1048575), 0, 16, "factor", "paper", "expert", "a number above 0 and below 16", "factor of row 1 of Algorithm 1, above z2"),
    "z2": Row("z2_q16", "factor", (1, 1048575), 0, 16, "factor", "paper", "expert", "a number above 0 and below 16", "factor of rows 2 and 3, above 1"),
    "z3": Row("z3_q16", "factor", (1, 1048575), 0, 16, "factor", "paper", "expert", "a number above 0 and below 16", "factor of row 4, below 1"),
    "m1_us": Row("m1_us", "whole", (0, 16777215), 1, 16777215, "us", "paper", "expert", "a whole number, 1 .. 16777215", "error (delay less target) above which row 1 holds"),
    "m2_us": Row("m2_us", "whole", (0, 16777215), 0, 16777214, "us", "paper", "expert", "a whole number, 0 .. 16777214", "error above which rows 2 and 3 hold, below m1_us"),
    "integral": Row("integral_drop_max", "intervals", (0, 4294967295), 1, 4294967294, "\"drop\", \"keep\" or steps", "paper", "expert", "\"drop\", \"keep\" or a number of intervals, 1 .. 4294967294", "consecutive steps for which Algorithm 1 may leave the integral out"),
    "probability": Row("squared", "curve", (0, 1), 0, 1, "\"linear\" or \"squared\"", "marking", "expert", "\"linear\" or \"squared\"", "packets are dropped with probability U, or U squared"),
    "idle_halflife_us": Row("idle_halflife_us", "whole", (0, 4294967295), 0, 4294967295, "us", "rate", "expert", "a whole number, 0 .. 4294967295", "time in which U halves while the queue is idle, 0 off"),
    "min_backlog_bytes": Row("min_backlog_bytes", "whole", (0, 4294967295), 0, 4294967295, "bytes", "marking", "expert", "a whole number, 0 .. 4294967295", "no drop while the backlog is below this"),
    "min_delay_share": Row("min_delay_us", "share", (0, 16777215), 0, 1, "share of target_us", "marking", "expert", "a share of target_us, 0 .. 1", "no drop while the delay is below this share of the target"),
    "dq_shift": Row("dq_shift", "whole", (10, 24), 10, 24, "log2 bytes", "rate", "expert", "a whole number, 10 .. 24", "the departure rate is measured over 2^this bytes"),
    "dq_weight_shift": Row("dq_weight_shift", "whole", (0, 8), 0, 8, "-log2", "rate", "expert", "a whole number, 0 .. 8", "a new rate has weight 2^-this"),
    "space_least": Row("space_least_q16", "factor_or_0", (0, 1048575), 0, 16, "sum of probabilities", "marking", "expert", "a number, 0 or above and below 16", "no drop or mark while the sum of probabilities since the last one is below this"),
    "space_most": Row("space_most_q16", "factor_or_0", (0, 1048575), 0, 16, "sum of probabilities", "marking", "expert", "a number, 0 or above and below 16", "a drop or mark at this sum, 0: independent draws"),
    "delay_bound_share": Row("delay_bound_us", "share", (0, 16777215), 0, 16777215, "share of target_us", "time bound", "expert", "a share of target_us, 0 .. 16777215", "delay above which delay_bound_slope counts, 0 off"),
    "delay_bound_slope": Row("delay_bound_slope_q40_per_us", "per_second", (0, 4294967295), 0, 3906.2499990905053, "1/s", "time bound", "expert", "a number per second, 0 .. 3906", "rise of the probability per second of delay above that bound, 0 off"),
    "delay_limit_share": Row("delay_limit_us", "share", (0, 16777215), 0, 16777215, "share of target_us", "time bound", "expert", "a share of target_us, 0 .. 16777215", "delay from which every packet that is not marked is dropped, in band A all, 0 off"),
    "delay_guard_bytes": Row("delay_guard_bytes", "whole", (0, 4294967295), 0, 4294967295, "bytes", "time bound", "expert", "a whole number, 0 .. 4294967295", "bound and limit need a backlog of this and 2^dq_shift bytes, 0: any backlog"),
    "share_least": Row("share_least_q16", "factor_or_0", (0, 1048575), 0, 16, "times the mean", "flow shares", "expert", "a number, 0 or above and below 16", "drops and marks wait for flows that have sent this many times the mean, 0 off"),
    "share_shift": Row("share_shift", "whole", (10, 24), 10, 24, "log2 us", "flow shares", "expert", "a whole number, 10 .. 24", "bytes counted for a flow halve every 2^this us"),
    "ecn_weight_shift": Row("ecn_weight_shift", "whole", (0, 15), 0, 15, "-log2", "marking", "expert", "a whole number, 0 .. 15", "marks follow a mean of U in which a step has weight 2^-this, 0: U itself"),
    "ecn_drop_share": Row("ecn_drop_us", "share", (0, 16777215), 0, 16777215, "share of target_us", "marking", "expert", "a share of target_us, 0 .. 16777215", "delay from which ECT packets are dropped and new flows not spared, 0 off"),
    "ecn_bound": Row("ecn_bound_q32", "bound", (0, 4294967296), 0, 1, "probability", "marking", "expert", "a probability, 0 .. 1", "probability of drop up to which ECT packets are marked, 0: never"),
}
"""By key."""

SWITCHES = {
    "ecn": Switch("ecn_bound", 1.0, 0.0, "ECT packets are marked, not dropped"),
    "flows": Switch("share_least", 1.0, 0.0, "drops and marks are taken from the flows that send most"),
}
"""Words of users that set a key, by name."""

REMOVED = {
    "burst_us": "",
    "mark_gain": "",
    "schedule_shift": "",
    "schedule_weight_shift": "",
    "delay_bound_us": "delay_bound_share",
    "delay_limit_us": "delay_limit_share",
    "ecn_drop_us": "ecn_drop_share",
}
"""Keys of earlier releases, with the key to use instead, or nothing."""
