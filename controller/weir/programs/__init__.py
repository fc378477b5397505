# SPDX-License-Identifier: Apache-2.0
"""The P4 programs that Weir knows: what each offers over P4Runtime, one file a program."""

from ..p4runtime.p4info import P4Info
from .base import PortLaw, Program
from .pid_delay import PID_DELAY

PROGRAMS: tuple[Program, ...] = (PID_DELAY,)
"""The first is deployed by default."""


def in_device(info: P4Info) -> Program:
    """The program whose tables, digests and registers a device has. Raises P4RuntimeError, which says what is missing,
    when it is none of `PROGRAMS`."""
    for program in PROGRAMS:
        if program.missing(info) is None:
            return program
    raise PROGRAMS[0].foreign(PROGRAMS[0].missing(info) or "known table")


__all__ = ["PID_DELAY", "PROGRAMS", "PortLaw", "Program", "in_device"]
