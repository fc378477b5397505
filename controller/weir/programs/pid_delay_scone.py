# SPDX-License-Identifier: Apache-2.0
"""`p4/programs/pid_delay_scone.p4`: `pid_delay.p4` with throughput advice, in SCONE packets of QUIC, on the ports that
the table `advice` names."""

from __future__ import annotations

from ..p4runtime.entities import Exact, TableEntry
from ..p4runtime.p4info import P4Info
from ..resources import P4_PROGRAMS
from .pid_delay import PidDelay


class PidDelayScone(PidDelay):
    """See the module."""

    name = "pid_delay_scone"
    source = P4_PROGRAMS / "pid_delay_scone.p4"

    tables = (*PidDelay.tables, "advice")
    advice_table = "advice"

    def advice_entry(self, port: int, signal: int, info: P4Info) -> TableEntry:
        return self._entry(info, self.advice_table, {self._law_key: Exact(port)}, "advise", {"signal": signal})


PID_DELAY_SCONE = PidDelayScone()
