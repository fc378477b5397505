# SPDX-License-Identifier: Apache-2.0
"""Traces of `weir-switch --trace` on real interfaces: the frames that come out are those that the trace says were sent,
and `weir p4 trace` prints their paths."""

import json
import select
import signal
import subprocess
import sys

import pytest
from p4_rig import EMBEDDED, P4Rig, find, missing
from packet_rig import REPO, until
from scapy.layers.inet import IP, UDP
from scapy.layers.l2 import Ether
from test_p4_json import FOLDER, MARKED, ROUTE, STATION, packet

from weir.p4runtime.client import PipelineConfig, Update
from weir.p4runtime.entities import Call, CloneSession, Lpm, Replica, TableEntry

pytestmark = pytest.mark.skipif(missing(EMBEDDED) is not None, reason=str(missing(EMBEDDED)))
UNKNOWN = bytes(Ether(dst="02:00:00:00:01:01") / IP(src="10.0.1.1", dst="10.9.9.9") / UDP(sport=1, dport=2))


def weir(*words: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "weir.cli", "p4", "trace", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, cwd=REPO / "controller")


@pytest.mark.parametrize("program", ["forward.p4", "forward.json"])
def test_frames_that_come_out_are_those_of_the_trace(tmp_path, program):
    trace = tmp_path / "trace.jsonl"
    rig = P4Rig(EMBEDDED, tmp_path, ports=(1, 2), options=["--trace", str(trace)])
    try:
        rig.client.set_pipeline(PipelineConfig(None, (FOLDER / program).read_bytes()))
        rig.client.write([Update.insert(ROUTE), Update.insert(CloneSession(5, (Replica(1),)))])
        for frame in (packet(0, 64), packet(MARKED, 6), UNKNOWN):
            rig.send(1, frame)
        frames = []
        for port, frame in rig.arrivals(60):
            frames.append((port, len(frame)))
            if len(frames) == 3:
                break
        until(lambda: trace.read_text().count('"packet":3,') == 1, "the third packet is in the trace", 30)
    finally:
        rig.close()
    lines = [json.loads(line) for line in trace.read_text().splitlines()]
    results = [result for line in lines for result in line["results"]]
    sent = [(result["port"], result["length"]) for result in results if result["result"] == "sent"]
    assert sorted(sent) == sorted(frames)
    assert {line["stage"] for line in lines} == {"ingress", "egress"}
    [table] = [e for e in lines[0]["events"] if e["event"] == "table" and e["table"].endswith("routes")]
    assert (table["hit"], table["entry"]["keys"]) == (True, ["0x0a000200/24"])
    assert {int(v, 16) for v in table["params"].values()} == {0x020000000002, 2}
    clones = [line for line in lines if line["kind"] == "ingress_clone"]
    assert [(line["packet"], line["port"], line["stage"]) for line in clones] == [(2, 1, "egress")]

    tree = weir(trace, "--packet", 2)
    assert (tree.returncode, tree.stderr) == (0, "")
    assert tree.stdout.startswith(f"packet 2: {len(packet(MARKED, 6))} bytes on port 1")
    assert "to port 1 (ingress_clone)" in tree.stdout
    dropped = weir(trace, "--dropped")
    assert dropped.stdout.startswith("packet 3: ")
    assert "dropped: egress_spec is the drop port 511 at the end of ingress" in dropped.stdout
    assert weir(trace, "--table", "routes").stdout.count("packet ") == 3


@pytest.mark.parametrize("program", ["forward.p4", "forward.json"])
def test_frames_for_ports_that_take_none_are_dropped_in_the_trace(tmp_path, program):
    trace, stats = tmp_path / "trace.jsonl", tmp_path / "stats.json"
    rig = P4Rig(EMBEDDED, tmp_path, ports=(1, 2), options=["--trace", str(trace), "--stats-json", str(stats)])
    try:
        rig.client.set_pipeline(PipelineConfig(None, (FOLDER / program).read_bytes()))
        away = Call("route", {"dst": STATION, "port": 9})
        away_route = TableEntry("routes", {"hdr.ipv4.dst": Lpm(0x0A000900, 24)}, away)
        rig.client.write([Update.insert(ROUTE), Update.insert(away_route)])
        to_nowhere = bytes(Ether(packet(0, 64)[:14]) / IP(src="10.0.1.1", dst="10.0.9.9") / UDP(sport=1, dport=2))
        rig.send(1, packet(0, 64))
        until(lambda: '"packet":1,' in trace.read_text(), "the first packet is in the trace", 30)
        # The kernel reports a new link up to a second late, and a port that was never up counts as new.
        until(lambda: port(rig, stats, "2")["up"], "the port is up", 30)
        rig.box.run("ip", "link", "set", "p2", "down")
        until(lambda: not port(rig, stats, "2")["up"], "the port is down", 30)
        for frame in (packet(0, 64), to_nowhere):
            rig.send(1, frame)
        until(lambda: '"packet":3,' in trace.read_text(), "the third packet is in the trace", 30)
        counters = port(rig, stats, "2")
    finally:
        rig.close()
    results = [result for line in map(json.loads, trace.read_text().splitlines()) for result in line["results"]]
    sent = [result["port"] for result in results if result["result"] == "sent"]
    assert sent == [2]
    assert [r["reason"] for r in results if r["result"] == "drop"] == ["port 2 is down", "port 9 has no interface"]
    assert (counters["sent_packets"], counters["send_drops"]["down"], counters["waiting_packets"]) == (1, 1, 0)
    assert weir(trace, "--dropped").stdout.count("packet ") == 2
    nothing = weir(trace, "--port", 9)
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "no packet matches --port 9" in nothing.stderr


def port(rig: P4Rig, stats, number: str) -> dict:
    """Present counters of a port."""
    stats.unlink(missing_ok=True)
    rig.process.send_signal(signal.SIGUSR1)
    until(stats.exists, "the counters are written", 30)
    return json.loads(stats.read_text())["ports"][number]


def test_a_full_file_becomes_the_one_before(tmp_path):
    trace = tmp_path / "trace.jsonl"
    options = ["--trace", str(trace), "--trace-mib", "1"]
    rig = P4Rig(EMBEDDED, tmp_path, ports=(1, 2), options=options)
    try:
        rig.client.set_pipeline(PipelineConfig(None, (FOLDER / "forward.p4").read_bytes()))
        older = trace.with_name("trace.jsonl.1")

        def full() -> bool:
            for _ in range(200):
                rig.send(1, UNKNOWN)
            return older.exists() and trace.exists() and trace.stat().st_size > 100_000

        until(full, "the file is full once", 60)
    finally:
        rig.close()
    for file in (trace, older):
        assert file.stat().st_size <= 1 << 20
        assert all(json.loads(line)["v"] == 1 for line in file.read_text().splitlines())


def test_a_reader_that_stops_reading_holds_up_neither_packets_nor_the_end(tmp_path):
    rig = P4Rig(EMBEDDED, tmp_path, ports=(1, 2))
    try:
        rig.kill()
        words = [find("weir-switch"), "--p4", str(FOLDER / "forward.p4"), "-i", "1@p1", "--no-grpc", "--trace", "-"]
        stats = tmp_path / "stats.json"
        command = rig.box.command(*words, "--stats-json", str(stats))
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as switch:
            assert switch.stdout.readline().startswith("ready")

            def is_traced() -> bool:
                rig.send(1, UNKNOWN)
                return bool(select.select([switch.stdout], [], [], 0)[0])

            until(is_traced, "a frame is traced", 30)
            for _ in range(500):
                rig.send(1, UNKNOWN)
            switch.send_signal(signal.SIGTERM)
            assert switch.wait(timeout=30) == 0
            # The pipe was full; the rest was given up.
            assert 0 < len(switch.stdout.read()) < 1 << 17
        assert json.loads(stats.read_text())["drops"]["ingress"] > 0
    finally:
        rig.close()
