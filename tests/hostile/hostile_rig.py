# SPDX-License-Identifier: Apache-2.0
"""Common parts of the hostile tests: how much they send, and a process's memory."""

import os
from pathlib import Path

import grpc
from p4_packets import ip4, routed
from p4_rig import P4Rig

from weir.p4runtime.messages import v1

MOST_MB = 256
"""Resident memory of a switch or server, whatever strangers send."""
WHOLE = os.environ["WEIR_TEST_TIER"] != "default"
"""`--long` or `--release`; else the short form."""


def many(short: int, whole: int) -> int:
    """Repetitions of a case."""
    return whole if WHOLE else short


def _status_mb(pid: int, name: str) -> float:
    return int(Path(f"/proc/{pid}/status").read_text().split(f"{name}:")[1].split()[0]) / 1024


def peak_mb(pid: int) -> float:
    """The most resident memory that a process has had."""
    return _status_mb(pid, "VmHWM")


def resident_mb(pid: int) -> float:
    """Resident memory of a process now."""
    return _status_mb(pid, "VmRSS")


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def not_forwarded(switch: P4Rig, count: int = 48) -> int:
    """Sends so many packets, at most 24 of them under way at once, and gives how many did not come out, or not once
    each, in order and right."""
    packets = [ip4(to=2, id=n & 0xFFFF) for n in range(count)]
    got = switch.exchange([(1, bytes(p)) for p in packets])[2]
    if got == [routed(p, 2) for p in packets]:
        return 0
    return count - len(set(got) & {routed(p, 2) for p in packets}) or count


def stub(channel: grpc.Channel, name: str, stream: bool = False):
    """A call of P4Runtime whose request is bytes, as they are."""
    path, response = f"/p4.v1.P4Runtime/{name}", getattr(v1, f"{name}Response").FromString
    kind = channel.unary_stream if stream else channel.unary_unary
    return kind(path, bytes, response)


def channel(switch: P4Rig) -> grpc.Channel:
    """A connection of its own to the switch's P4Runtime server."""
    return grpc.insecure_channel(switch.address, options=[("grpc.use_local_subchannel_pool", 1)])
