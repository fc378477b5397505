# SPDX-License-Identifier: Apache-2.0
"""BMv2's JSON in place of P4 source: the same packets out of real interfaces, the same counters, over P4Runtime and on
the command line."""

import os
import re
import socket
import subprocess

import pytest
from p4_rig import EMBEDDED, P4Rig, find, missing
from packet_rig import REPO, until
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


@pytest.mark.parametrize("suffix", ["txtpb", "binpb", "json"])
def test_p4info_is_no_program(rig, tmp_path, suffix):
    info = tmp_path / f"forward.{suffix}"
    subprocess.run([find("weir-switch"), "--check", FOLDER / "forward.p4", "--p4info-out", info], check=True)
    for words, named in (([info], str(info)), (["--p4", info], f"--p4 {info}")):
        run = subprocess.run([find("weir-switch"), "--check", *words], capture_output=True, text=True)
        assert run.returncode == 1
        assert run.stderr.startswith(f"weir-switch: {named}: is P4Info, which describes a program to controllers; give")
    run = subprocess.run([find("weir-p4c"), info], capture_output=True, text=True, cwd=tmp_path)
    assert (run.returncode, run.stderr.split(";")[0]) == (
        1,
        f"{info}: is P4Info, which describes a program to controllers",
    )
    with pytest.raises(DeviceError, match="the device configuration is P4Info") as raised:
        rig.client.set_pipeline(PipelineConfig(None, info.read_bytes()))
    assert raised.value.code == "INVALID_ARGUMENT"


def test_a_missing_folder_and_a_pipe_without_a_writer_are_named(tmp_path):
    program, switch, compiler = FOLDER / "forward.p4", find("weir-switch"), find("weir-p4c")
    commands = [
        ([compiler, "-o", "none/x.json", program], ""),
        ([compiler, "-o", "x.json", "--p4runtime-files", "none/x.txtpb", program], ""),
        ([switch, "--check", program, "--p4info-out", "none/x.txtpb"], "weir-switch: --p4info-out "),
        ([switch, program, "--no-grpc", "--thrift-port", "0", "--trace", "none/x"], "weir-switch: --trace "),
        ([switch, program, "--no-grpc", "--thrift-port", "0", "--stats-json", "none/x"], "weir-switch: --stats-json "),
        ([switch, program, "--no-grpc", "--thrift-port", "0", "--log-file", "none/x"], "weir-switch: --log-file "),
        ([switch, program, "--grpc-server-addr", "127.0.0.1:0", "--audit", "none/x"], "weir-switch: --audit "),
    ]
    for command, head in commands:
        run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
        assert run.returncode == 1
        assert run.stderr.startswith(f"{head}none/x")
        assert "there is no folder none; make it first" in run.stderr
    pipe = tmp_path / "pipe.p4"
    os.mkfifo(pipe)
    waiting = [
        subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        for words in ([compiler, pipe], [switch, "--check", pipe])
    ]
    for process in waiting:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 1
        assert f"{pipe}: is a pipe that no program has opened for writing in 5 s" in said
    for words in ([compiler, "-o", "x.json", "/dev/stdin"], [switch, "--check", "/dev/stdin"]):
        run = subprocess.run(words, input=program.read_text(), capture_output=True, text=True, cwd=tmp_path, timeout=60)
        assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("option", ["--log-file", "--trace", "--audit", "--p4info-out"])
def test_outputs_without_a_reader_are_named(tmp_path, option):
    os.mkfifo(tmp_path / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(tmp_path / "socket.txt"))
    words = [find("weir-switch"), FOLDER / "forward.p4", "--grpc-server-addr", "127.0.0.1:0"]
    words += ["--check"] if option == "--p4info-out" else []
    for name in ("pipe.txt", "socket.txt"):
        run = subprocess.run([*words, option, tmp_path / name], capture_output=True, text=True, timeout=60)
        assert run.returncode == 1
        assert f"{option} {tmp_path / name}: is a socket, or a pipe that no program has open for reading" in run.stderr


def test_p4info_goes_through_a_pipe(tmp_path):
    pipe = tmp_path / "pipe.txt"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE, text=True) as reader:
        words = [find("weir-switch"), FOLDER / "forward.p4", "--check", "--p4info-out", pipe]

        def is_written() -> bool:
            return subprocess.run(words, capture_output=True, text=True, timeout=60).returncode == 0

        until(is_written, "the pipe has a reader", 30)
        assert "preamble" in reader.communicate(timeout=60)[0]


def test_a_port_in_use_is_named_with_its_program(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as mine:
        port = mine.getsockname()[1]
        words = [find("weir-switch"), "--no-p4", "--grpc-server-addr"]
        for given, server in (([f"127.0.0.1:{port}"], "P4Runtime"), (["127.0.0.1:0", "--thrift-port", port], "Thrift")):
            run = subprocess.run([*words, *map(str, given)], capture_output=True, text=True, timeout=60)
            assert run.returncode == 1
            assert f"{server} server on 127.0.0.1:{port}: process {os.getpid()} (" in run.stderr


def test_an_interface_in_use_is_named_with_its_program(rig):
    switch = rig.box.command(find("weir-switch"), "--no-p4", "--grpc-server-addr", "127.0.0.1:0", "-i", "7@p1")
    run = subprocess.run(switch, capture_output=True, text=True, timeout=60)
    assert run.returncode == 1
    assert re.search(r"interface p1: another weir-switch has it: process \d+ \(weir-switch\)", run.stderr)
    rig.kill()
    rig.start_again()  # nothing is left in the way


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
