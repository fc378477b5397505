# SPDX-License-Identifier: Apache-2.0
"""Idle timeouts of table entries: packets on real interfaces keep entries alive, a controller hears of the others."""

from dataclasses import replace
from pathlib import Path

import pytest
from p4_rig import P4Rig

from weir.p4runtime.client import Update, WriteError
from weir.p4runtime.entities import Call, Exact, TableEntry

PROGRAM = Path(__file__).parent / "programs" / "idle.p4"
TIMEOUT_NS = 3_000_000_000
USED, IDLE = 0x020000000002, 0x020000000003


def entry(mac: int, idle_timeout_ns: int = TIMEOUT_NS) -> TableEntry:
    return TableEntry(
        "mac", {"hdr.ethernet.dst": Exact(mac)}, Call("forward", {"port": 2}), idle_timeout_ns=idle_timeout_ns
    )


@pytest.fixture
def aging(target, tmp_path):
    rig = P4Rig(target, tmp_path, ports=(1, 2))
    try:
        rig.set_program(PROGRAM)
        yield rig
    finally:
        rig.close()


def macs(entries: list[TableEntry]) -> set[int]:
    return {entry.match["hdr.ethernet.dst"].value for entry in entries}


def test_an_entry_is_reported_when_packets_no_longer_hit_it(aging):
    client = aging.client
    client.write([Update.insert(entry(USED)), Update.insert(entry(IDLE))])
    assert {e.idle_timeout_ns for e in client.read(TableEntry("mac")) if not e.is_default} == {TIMEOUT_NS}
    frame = USED.to_bytes(6, "big") + bytes(6) + b"\x88\xb5" + bytes(50)
    reported: set[int] = set()
    while not reported:
        aging.send(1, frame)
        assert next(aging.arrivals(60)) == (2, frame)
        for entries in client.idle_entries(0.2):
            reported |= macs(entries)
            assert {e.idle_timeout_ns for e in entries} == {TIMEOUT_NS}
            break
    assert reported == {IDLE}
    # Without packets the other one follows; a deleted entry is not reported again.
    client.write([Update.delete(entry(IDLE))])
    assert any(USED in macs(entries) for entries in client.idle_entries(60))


def test_a_negative_timeout_is_rejected(aging):
    with pytest.raises(WriteError) as raised:
        aging.client.write([Update.insert(replace(entry(USED), idle_timeout_ns=-1))])
    assert [failure.code for failure in raised.value.failures] == ["INVALID_ARGUMENT"]
