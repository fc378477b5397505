# SPDX-License-Identifier: Apache-2.0
"""BMv2's JSON in place of P4 source: the same packets out of real interfaces, the same counters, over P4Runtime and on
the command line."""

import subprocess

import pytest
from p4_rig import EMBEDDED, P4Rig, find, missing
from packet_rig import REPO
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from weir.p4runtime.client import DeviceError, PipelineConfig, Update
from weir.p4runtime.entities import Call, CloneSession, CounterEntry, Lpm, Replica, TableEntry

FOLDER = REPO / "p4" / "switch" / "weir-p4" / "tests" / "bmv2"
STATION = 0x020000000002
ROUTE = TableEntry("routes", {"hdr.ipv4.dst": Lpm(0x0A000200, 24)}, Call("route", {"dst": STATION, "port": 2}))
MARKED = 4
"""Type of service of packets that are cloned."""

pytestmark = pytest.mark.skipif(missing(EMBEDDED) is not None, reason=str(missing(EMBEDDED)))


def packet(tos: int, ttl: int) -> bytes:
    ether = Ether(dst="02:00:00:00:01:01", src="02:00:00:00:00:01")
    return bytes(ether / IP(src="10.0.1.1", dst="10.0.2.9", tos=tos, ttl=ttl) / UDP(sport=1, dport=2) / bytes(40))


@pytest.fixture
def rig(tmp_path):
    rig = P4Rig(EMBEDDED, tmp_path, ports=(1, 2))
    try:
        yield rig
    finally:
        rig.close()


def outcome(rig: P4Rig, name: str) -> tuple[list[tuple[int, bytes]], tuple[int, int]]:
    """Frames that come out, and the packets and bytes that port 1 took in."""
    rig.client.set_pipeline(PipelineConfig(None, (FOLDER / name).read_bytes()))
    rig.client.write([Update.insert(ROUTE), Update.insert(CloneSession(5, (Replica(1),)))])
    for tos, ttl in ((0, 64), (MARKED, 6)):
        rig.send(1, packet(tos, ttl))
    got = []
    for port, frame in rig.arrivals(60):
        got.append((port, frame))
        if len(got) == 3:
            break
    cell = rig.client.find(CounterEntry("ports", 1))
    return sorted(got), (cell.count.packets, cell.count.bytes)


def test_json_does_as_its_source(rig):
    from_source, from_json = outcome(rig, "forward.p4"), outcome(rig, "forward.json")
    assert from_json == from_source
    frames, counted = from_json
    assert [port for port, _ in frames] == [1, 2, 2]
    assert counted == (2, 2 * len(packet(0, 64)))
    wrong = (FOLDER / "forward.json").read_bytes().replace(b'["dst", 48,', b'["dst", -1,', 1)
    with pytest.raises(DeviceError) as raised:
        rig.client.set_pipeline(PipelineConfig(None, wrong))
    assert "header_types[2].fields[0][1]" in str(raised.value)


def test_the_command_line_takes_json(tmp_path):
    command = [find("weir-switch"), "--check", "--p4"]
    run = subprocess.run([*command, FOLDER / "labels.json", "--p4info-out", "-"], capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")
    assert '"I.paths"' in run.stdout
    wrong = tmp_path / "wrong.json"
    wrong.write_text((FOLDER / "labels.json").read_text().replace('"op": "pop"', '"op": "pull"'))
    run = subprocess.run([*command, wrong], capture_output=True, text=True)
    assert run.returncode == 1
    assert f"{wrong}: error: actions[4].primitives[0].op: unsupported: " in run.stderr
