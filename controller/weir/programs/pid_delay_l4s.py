# SPDX-License-Identifier: Apache-2.0
"""`p4/programs/pid_delay_l4s.p4`: `pid_delay.p4` with two coupled bands on the ports that the table `coupling` names.

Digests are of both bands together, as docs/design/coupled.md has it. Registers are of band C.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from ..coupled import Coupling
from ..p4runtime.entities import Exact, TableEntry
from ..p4runtime.p4info import P4Info
from ..resources import P4_PROGRAMS
from ..sample import Counts
from .pid_delay import PidDelay


class PidDelayL4s(PidDelay):
    """See the module."""

    name = "pid_delay_l4s"
    source = P4_PROGRAMS / "pid_delay_l4s.p4"

    tables = (*PidDelay.tables, "coupling")
    coupling_table = "coupling"
    counters = (*PidDelay.counters, "low_marks")

    def coupling_entry(self, port: int, coupling: Coupling, info: P4Info) -> TableEntry:
        return self._entry(info, self.coupling_table, {self._law_key: Exact(port)}, "coupled", asdict(coupling))

    def counts(self, device: str, port: int, packets: Mapping[str, int], t_us: int) -> Counts:
        found = super().counts(device, port, packets, t_us)
        return replace(found, marks_packets=found.marks_packets + packets["low_marks"])


PID_DELAY_L4S = PidDelayL4s()
