# SPDX-License-Identifier: Apache-2.0
"""A switch's ports by its registers. Reads need neither an election nor a stream (P4Runtime 11): any number may watch,
beside the primary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..p4runtime.client import Client, DeviceError
from ..p4runtime.entities import CounterEntry, RegisterEntry
from ..programs.base import PortLaw, Program
from ..sample import Counts, Sample

WITHOUT_REGISTERS = (
    "this switch gives no registers over P4Runtime, as stock BMv2 does not: its counters are all that can be read. "
    "Delay, probability and backlog are in its digests, which go to the controller in charge alone: --digests takes "
    "charge where nobody is"
)


def read_bands(client: Client, program: Program, laws: Mapping[int, PortLaw]) -> dict[int, dict[str, int]]:
    """Counters of the ports with two bands of flows."""
    found = {}
    for port in (port for port, law in laws.items() if law.bands):
        ahead, refused = client.read(*(CounterEntry(name, port) for name in program.bands_counters))
        found[port] = {
            "ahead_packets": ahead.count.packets if ahead.count else 0,
            "ahead_bytes": ahead.count.bytes if ahead.count else 0,
            "refused_packets": refused.count.packets if refused.count else 0,
        }
    return found


class RegisterReader:
    """Reads the ports of one switch. Raises P4RuntimeError, at once when the program lacks these registers."""

    def __init__(self, client: Client, program: Program) -> None:
        self._client, self._program = client, program
        missing = program.missing_registers(client.info)
        if missing is not None:
            raise program.foreign(missing)
        self._registers = {name: client.info.registers[name].name for name in program.registers}
        self._counters = {name: client.info.counters[name].name for name in program.counters}
        self._before: dict[int, tuple[tuple[int, ...], int]] = {}
        self.has_registers = True
        try:
            client.read(RegisterEntry(program.registers[0], 0))
        except DeviceError as error:
            if error.code not in ("UNIMPLEMENTED", "UNKNOWN"):
                raise
            self.has_registers = False

    def read(self, device: str, laws: Mapping[int, PortLaw], t_us: int) -> list[Sample | Counts]:
        """The state of each of these ports now, at `t_us` of the reader's clock. A sample's `age_us` is since its
        registers changed last, as far as this reader has seen: None the first time."""
        if not laws:
            return []
        if not self.has_registers:
            return self._counts(device, laws, t_us)
        asked = [RegisterEntry(name, port) for port in laws for name in self._registers]
        cells = {(cell.register, cell.index): cell.value for cell in self._client.read(*asked)}
        found: list[Sample | Counts] = []
        for port, law in laws.items():
            values = {name: _number(cells[full, port]) for name, full in self._registers.items()}
            sample = self._program.sample_of_registers(device, port, values, law, t_us)
            found.append(replace(sample, age_us=self._age_us(port, tuple(values.values()), t_us)))
        return found

    def _age_us(self, port: int, values: tuple[int, ...], t_us: int) -> int | None:
        before = self._before.get(port)
        if before is None:
            self._before[port] = values, -1
            return None
        if before[0] != values:
            self._before[port] = values, t_us
            return 0
        return None if before[1] < 0 else t_us - before[1]

    def _counts(self, device: str, laws: Mapping[int, PortLaw], t_us: int) -> list[Sample | Counts]:
        asked = [CounterEntry(name, port) for port in laws for name in self._counters]
        cells = {
            (cell.counter, cell.index): cell.count.packets if cell.count is not None else 0
            for cell in self._client.read(*asked)
        }
        return [
            self._program.counts(device, port, {name: cells[full, port] for name, full in self._counters.items()}, t_us)
            for port in laws
        ]


def _number(value: object) -> int:
    if not isinstance(value, int):
        raise TypeError(f"{value!r}: must be a number")
    return value
