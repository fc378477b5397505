# SPDX-License-Identifier: Apache-2.0
"""A switch's ports read by registers or, where there are none, by counters."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from weir.dataplane.p4registers import RegisterReader
from weir.p4runtime.client import DeviceError
from weir.p4runtime.entities import Count, CounterEntry, RegisterEntry
from weir.p4runtime.values import P4RuntimeError
from weir.programs import PID_DELAY, PortLaw
from weir.sample import Counts, Sample
from weir.settings import profile
from weir.telemetry.jsonl import counts_line, human
from weir.telemetry.view import View

LAW = PortLaw(profile("tuned"))
PAIR = 1 << 48
CELLS = {
    "aqm_dequeued": 90 * PAIR + 90_000, "aqm_drained": 95 * PAIR + 95_000, "aqm_enqueued": 98 * PAIR + 98_000,
    "aqm_sojourn_us": 5250, "law_u_q40": 1 << 39, "law_dq_time_q8_us": 0, "law_row": 2, "aqm_dropped_packets": 4,
    "aqm_marked_packets": 3,
}  # fmt: skip


class Switch:
    """Interface of a Client as a RegisterReader uses it: names in full, and cells."""

    def __init__(self, registers: bool = True, names: Sequence[str] = PID_DELAY.registers) -> None:
        def named(items: Sequence[str]) -> dict[str, Any]:
            return {name: SimpleNamespace(name=f"full.{name}") for name in items}

        self.info: Any = SimpleNamespace(registers=named(names), counters=named(PID_DELAY.counters))
        self.cells = dict(CELLS)
        self._registers = registers

    def read(self, *asked: Any) -> list[Any]:
        found: list[Any] = []
        for one in asked:
            if isinstance(one, RegisterEntry):
                if not self._registers:
                    raise DeviceError("not implemented", "UNIMPLEMENTED")
                value = self.cells[str(one.register).removeprefix("full.")]
                found.append(RegisterEntry(f"full.{str(one.register).removeprefix('full.')}", one.index, value))
            else:
                found.append(CounterEntry(f"full.{one.counter}", one.index, Count(7, 700)))
        return found


def reader(switch: Any) -> RegisterReader:
    return RegisterReader(switch, PID_DELAY)


def test_registers_are_a_sample() -> None:
    (sample,) = reader(Switch()).read("s1", {2: LAW}, 1000)
    assert sample == Sample("s1", "2", 1000, 5250, 0.5, 0.25, 3000, None, 93, 93_000, 3, 4, 5, 2)
    assert "s1  port   2  delay    5.250 ms  U 0.500000  backlog     3000 B  row 2  AQM drops 4" in human(sample, 0.0)


def test_a_reading_is_as_old_as_its_registers() -> None:
    switch = Switch()
    reading = reader(switch)

    def age_us(t_us: int) -> int | None:
        (sample,) = reading.read("s1", {2: LAW}, t_us)
        assert isinstance(sample, Sample)
        return sample.age_us

    assert age_us(1000) is None  # nobody knows since when
    assert age_us(2000) is None
    switch.cells["aqm_enqueued"] += PAIR
    assert age_us(3000) == 0
    assert age_us(4500) == 1500


def test_a_switch_without_registers_gives_counters() -> None:
    reading = reader(Switch(registers=False))
    assert not reading.has_registers
    (counts,) = reading.read("s1", {2: LAW}, 1000)
    assert counts == Counts("s1", "2", 1000, 7, 7, 7)
    assert counts_line(counts) == (
        '{"k":"counters","t_us":1000,"device":"s1","port":"2","forwarded_packets":7,"marks":7,"drops_aqm":7}'
    )
    assert human(counts, 0.0).endswith("s1  port   2  forwarded 7  AQM drops 7  marks 7")
    view = View()
    assert view.take(counts, 1.0) is None
    assert not view.ports


def test_no_port_is_no_question() -> None:
    assert reader(Switch()).read("s1", {}, 1000) == []


def test_another_program_is_named() -> None:
    with pytest.raises(P4RuntimeError, match=r"has no aqm_dequeued: it is not p4/pid_delay\.p4"):
        reader(Switch(names=PID_DELAY.registers[1:]))
