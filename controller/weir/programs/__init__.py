# SPDX-License-Identifier: Apache-2.0
"""The P4 programs that Weir knows: their P4Runtime interfaces, one file a program."""

from ..p4runtime.p4info import P4Info
from .base import PortLaw, Program
from .names import EDGE, ICN
from .pid_delay import PID_DELAY
from .pid_delay_l4s import PID_DELAY_L4S
from .pid_delay_scone import PID_DELAY_SCONE

PROGRAMS: tuple[Program, ...] = (PID_DELAY, PID_DELAY_L4S, PID_DELAY_SCONE, EDGE, ICN)
"""The first is deployed by default."""


def of(info: P4Info) -> Program | None:
    """The program of this P4Info, None where it is none of `PROGRAMS`. Of one that adds tables to another's and that
    other, it is the one with more tables; one whose tables are all there goes before one that lacks some."""
    fitting = (program for program in PROGRAMS if program.missing(info) is None)

    def how_well(program: Program) -> tuple[bool, int]:
        return all(table in info.tables for table in program.tables), len(program.tables)

    return max(fitting, key=how_well, default=None)


def in_device(info: P4Info) -> Program:
    """The program whose tables, digests and registers a device has. Raises P4RuntimeError, which names the missing
    part, when it is none of `PROGRAMS`."""
    found = of(info)
    if found is not None:
        return found
    raise PROGRAMS[0].foreign(PROGRAMS[0].missing(info) or "known table")


__all__ = [
    "EDGE", "ICN", "PID_DELAY", "PID_DELAY_L4S", "PID_DELAY_SCONE", "PROGRAMS", "PortLaw", "Program", "in_device", "of",
]  # fmt: skip
