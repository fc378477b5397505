# SPDX-License-Identifier: Apache-2.0
"""A program's digests as they come, in the program's own words. They go to the controller in charge alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..p4runtime.client import Client, DigestList, Update
from ..p4runtime.entities import DigestConfig
from ..p4runtime.values import P4RuntimeError

ACK_TIMEOUT_NS = 1_000_000_000


@contextmanager
def sent(device: Client, name: str) -> Iterator[str]:
    """While this runs the device, whose primary we are, sends this digest: each record at once and acknowledged, as a
    report a port and interval is not much. Its full name. P4RuntimeError at the end when some were lost."""
    full = device.info.digests[name].name
    ours = device.find(DigestConfig(full)) is None
    if ours:
        device.write([Update.insert(DigestConfig(full, max_list_size=1, ack_timeout_ns=ACK_TIMEOUT_NS))])
    try:
        yield full
    finally:
        if ours:
            device.write([Update.delete(DigestConfig(full))])
    if device.lost_digests:
        raise P4RuntimeError(f"{device.lost_digests} digest lists came faster than they were printed")


def lists(device: Client, name: str, seconds: float | None) -> Iterator[DigestList]:
    """The lists of the digest of that full name, for so long or for ever."""
    end_s = None if seconds is None else time.monotonic() + seconds
    while True:
        left_s = None if end_s is None else end_s - time.monotonic()
        if left_s is not None and left_s <= 0:
            return
        for digests in device.digests(left_s):
            if digests.digest == name:
                yield digests
            if end_s is not None and time.monotonic() >= end_s:
                return


def as_data(digests: DigestList) -> list[dict[str, Any]]:
    """One record a line of JSON: the digest's fields as they are, with list and device time."""
    head = {"digest": digests.digest, "list_id": digests.list_id, "device_time_ns": digests.timestamp_ns}
    return [head | (record if isinstance(record, dict) else {"value": record}) for record in digests.records]
