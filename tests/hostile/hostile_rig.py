# SPDX-License-Identifier: Apache-2.0
"""What hostile tests share: how much they send, what a process has in memory, and packets that must come out."""

import os
from pathlib import Path

from p4_packets import ip4, routed
from p4_rig import P4Rig

MOST_MB = 256
"""Resident memory of a switch or server, whatever strangers send."""
WHOLE = os.environ.get("WEIR_HOSTILE") == "whole"
"""`./run test --hostile`; else the short form."""


def many(short: int, whole: int) -> int:
    """How often a case does what it does."""
    return whole if WHOLE else short


def peak_mb(pid: int) -> float:
    """The most resident memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def not_forwarded(switch: P4Rig, count: int = 48) -> int:
    """Sends so many packets, at most 24 of them under way at once, and gives how many did not come out, or not once
    each, in order and right."""
    packets = [ip4(to=2, id=n & 0xFFFF) for n in range(count)]
    got = switch.exchange([(1, bytes(p)) for p in packets])[2]
    if got == [routed(p, 2) for p in packets]:
        return 0
    return count - len(set(got) & {routed(p, 2) for p in packets}) or count
