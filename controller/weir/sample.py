# SPDX-License-Identifier: Apache-2.0
"""The sample of a queue: its state at one time, whatever data plane it is in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sample:
    """The state of one queue. Counters are totals since the program was loaded, and may start anew.

    delay_us: as the law has it (Cao Eq. 1, or the sojourn time). u: the law's output, 0 .. 1; drop_probability: a
    packet's, U squared where the law squares. rate_bit_s: departures while the queue was busy, None while unknown.
    passed_*: entered the queue and were not dropped. config_id: changes with every change of gains, None where the
    device has no such thing. age_us: since the law's last step, rate_age_us: since the rate was measured; None where
    that is not told. trouble: what is wrong with the queue, "" for nothing.
    """

    device: str
    port: str
    t_us: int
    delay_us: int
    u: float
    drop_probability: float
    backlog_bytes: int
    rate_bit_s: int | None
    passed_packets: int
    passed_bytes: int
    marks_packets: int
    drops_aqm_packets: int
    drops_limit_packets: int
    row: int
    config_id: int | None = None
    age_us: int | None = None
    rate_age_us: int | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Counts:
    """Sample of a switch that gives counters and no registers (stock BMv2): totals in packets."""

    device: str
    port: str
    t_us: int
    forwarded_packets: int
    marks_packets: int
    drops_aqm_packets: int
