# SPDX-License-Identifier: Apache-2.0
"""Requests that cost the embedded switch much: reads of everything, readers that do not read, programs that take for
ever, files that never end. It goes on forwarding, its memory stays small, and it reports what it rejects."""

import os
import signal
import subprocess
import threading
from pathlib import Path

import grpc
import pytest
from p4_packets import ip4, routed
from p4_rig import EMBEDDED, P4Rig, find, missing
from packet_rig import until

from weir.p4runtime.client import Client, DeviceError, PipelineConfig, Update, WriteError
from weir.p4runtime.entities import Call, Lpm, TableEntry
from weir.p4runtime.messages import v1

ROUTES = 10_000
ROOM_MB = 200
"""Many times what any of this takes, and less than the least of it took when answers were put together first."""

FORWARD = """\
#include <core.p4>
#include <v1model.p4>
{before}
header byte_t {{ bit<8> v; }}
struct h_t {{ byte_t b; }}
struct m_t {{ bit<32> sum; }}
parser P(packet_in p, out h_t h, inout m_t m, inout standard_metadata_t s) {{
    state start {{ p.extract(h.b); transition accept; }}
}}
control V(inout h_t h, inout m_t m) {{ apply {{ }} }}
control I(inout h_t h, inout m_t m, inout standard_metadata_t s) {{
    {locals}
    apply {{ {work} s.egress_spec = 3 - s.ingress_port; }}
}}
control E(inout h_t h, inout m_t m, inout standard_metadata_t s) {{ apply {{ }} }}
control C(inout h_t h, inout m_t m) {{ apply {{ }} }}
control D(packet_out p, in h_t h) {{ apply {{ p.emit(h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
"""From port 1 to port 2 and back."""


def forward(before: str = "", locals_: str = "", work: str = "") -> PipelineConfig:
    return PipelineConfig(None, FORWARD.format(before=before, locals=locals_, work=work).encode())


def doubling(levels: int) -> PipelineConfig:
    """Every packet takes 2^levels calls."""
    functions = ["bit<32> f0(in bit<32> x) { return x + 1; }"]
    functions += [f"bit<32> f{i}(in bit<32> x) {{ return f{i - 1}(f{i - 1}(x)); }}" for i in range(1, levels + 1)]
    return forward("\n".join(functions), work=f"m.sum = f{levels}(0);")


@pytest.fixture
def rig(tmp_path):
    if reason := missing(EMBEDDED):
        pytest.skip(reason)
    limits = tmp_path / "limits"
    limits.write_text("2:depth=1000p\n")
    rig = P4Rig(EMBEDDED, tmp_path, ports=(1, 2), options=["--queues", str(limits)])
    try:
        yield rig
    finally:
        rig.close()


def peak_mb(rig: P4Rig) -> float:
    """The most memory that it has had so far."""
    status = Path(f"/proc/{rig.process.pid}/status").read_text()
    assert "weir-switch" in status  # its starter has become it (exec)
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def passes(rig: P4Rig) -> None:
    """Asserts that packets are forwarded, each and in order."""
    frames = [ip4(to=2, id=n) for n in range(50)]
    assert rig.exchange([(1, bytes(f)) for f in frames])[2] == [routed(f, 2) for f in frames]


def wildcards(count: int):
    request = v1.ReadRequest(device_id=0)
    for _ in range(count):
        request.entities.add().table_entry.SetInParent()
    return request


def plain_stub(rig: P4Rig, name: str):
    """A call of a client that has gRPC's own limits."""
    channel = grpc.insecure_channel(rig.address)
    path = f"/p4.v1.P4Runtime/{name}"
    if name == "Read":
        return channel.unary_stream(path, v1.ReadRequest.SerializeToString, v1.ReadResponse.FromString)
    request = getattr(v1, f"{name}Request")
    return channel.unary_unary(path, request.SerializeToString, getattr(v1, f"{name}Response").FromString)


@pytest.fixture
def full(rig):
    """With thousands of routes."""
    rig.deploy()
    host = [Lpm((172 << 24) + (n << 4), 28) for n in range(ROUTES)]
    hop = Call("set_next_hop", {"next_hop": 1})
    rig.client.write([Update.insert(TableEntry("ipv4_lpm", {"hdr.ipv4.dst": key}, hop)) for key in host])
    return rig


@pytest.mark.parametrize("count", [50, 500], ids=["200 bytes", "2 kB"])
def test_a_request_of_many_wildcards_is_answered_once_and_packets_go_on(full, count):
    before_mb = peak_mb(full)
    request = wildcards(count)
    assert request.ByteSize() == 4 * count
    once = [e for part in full.client._calls["Read"](wildcards(1)) for e in part.entities]
    found = []

    def read():
        for part in full.client._calls["Read"](request, timeout=120):
            assert part.ByteSize() < 1 << 20
            found.extend(part.entities)

    reader = threading.Thread(target=read)
    reader.start()
    passes(full)
    while reader.is_alive():
        passes(full)
    reader.join()
    assert len(once) >= ROUTES
    # each entity as often as if it had been asked for once
    assert sorted(e.SerializeToString() for e in found) == sorted(e.SerializeToString() for e in once)
    assert peak_mb(full) < before_mb + ROOM_MB


def test_readers_that_do_not_read_hold_nothing_up(full):
    before_mb = peak_mb(full)
    absent = [full.client._calls["Read"](wildcards(1), timeout=300) for _ in range(20)]
    stubborn = [plain_stub(full, "Read")(wildcards(1), timeout=300) for _ in range(20)]
    try:
        passes(full)
        # gRPC's own window of 64 kB is all that the stubborn ones take; who changes something does not wait for them
        route = TableEntry("ipv4_lpm", {"hdr.ipv4.dst": Lpm(10 << 24, 9)}, Call("set_next_hop", {"next_hop": 1}))
        full.client.write([Update.insert(route)])
        full.client.write([Update.delete(route)])
        passes(full)
    finally:
        for call in absent + stubborn:
            call.cancel()
    until(lambda: len(full.client.read(TableEntry("ipv4_lpm"))) > ROUTES, "a place for one who reads", 60)
    assert peak_mb(full) < before_mb + ROOM_MB


def test_too_many_requests_in_one_read_are_refused_by_number(rig):
    rig.deploy()
    with pytest.raises(grpc.RpcError) as refused:
        list(plain_stub(rig, "Read")(wildcards(5000)))
    assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "5000 requests in one Read; the most are 4096" in refused.value.details()


def test_a_program_that_takes_for_ever_can_be_replaced_and_ended(rig):
    rig.client.set_pipeline(doubling(60))
    stop = threading.Event()

    def send():
        while not stop.is_set():
            rig.send(1, b"\0" * 64)
            stop.wait(0.005)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        until(lambda: "took more than" in rig.log.read_text(), "a packet that is given up", 60)
        rig.client.set_pipeline(forward())
        until(lambda: any(port == 2 for port, _ in rig.arrivals(0.2)), "the new program forwards", 60)
        rig.client.set_pipeline(doubling(60))
    finally:
        stop.set()
        sender.join()
    rig.process.send_signal(signal.SIGTERM)
    assert rig.process.wait(60) == 0


TUPLES = "typedef tuple<bit<8>, bit<8>> t0;\n" + "".join(f"typedef tuple<t{i}, t{i}> t{i + 1};\n" for i in range(38))
CONTROLS = "control c0(inout m_t m) { apply { m.sum = m.sum + 1; } }\n" + "".join(
    f"control c{i + 1}(inout m_t m) {{ c{i}() a; c{i}() b; apply {{ a.apply(m); b.apply(m); }} }}\n" for i in range(40)
)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (forward(TUPLES), r"a tuple of more than 65536 values in all"),
        (forward("", "register<bit<2048>>(1 << 24) r1; register<bit<2048>>(1 << 24) r2;"), r"in all \("),
        (forward("#define A0 ;\n" + "".join(f"#define A{i + 1} A{i} A{i}\n" for i in range(40)) + "A40"), "tokens"),
    ],
    ids=["tuples of tuples", "registers", "macros"],
)
def test_a_program_that_would_take_all_memory_is_refused_and_the_last_one_goes_on(rig, config, said):
    rig.deploy()
    before_mb = peak_mb(rig)
    with pytest.raises(DeviceError, match=said):
        rig.client.set_pipeline(config)
    assert peak_mb(rig) < before_mb + 2 * ROOM_MB
    passes(rig)


def test_controls_that_double_are_refused_and_the_last_program_goes_on(rig):
    rig.deploy()
    text = forward("", "c40() c;", "c.apply(m);").device_config.decode().replace("parser P", CONTROLS + "parser P", 1)
    with pytest.raises(DeviceError, match=r"more than [0-9]+ (instances|steps)"):
        rig.client.set_pipeline(PipelineConfig(None, text.encode()))
    passes(rig)


def test_limits_of_queues_in_a_pipe_are_refused_while_packets_go_on(rig):
    rig.deploy()
    limits = rig.folder / "limits"
    limits.unlink()
    os.mkfifo(limits)
    rig.process.send_signal(signal.SIGHUP)
    passes(rig)
    until(lambda: "not a regular file" in rig.log.read_text(), "what is wrong with the pipe", 60)
    limits.unlink()
    limits.write_text("2:rate=1bit\n")
    rig.process.send_signal(signal.SIGHUP)
    until(lambda: "a rate is from 10kbit" in rig.log.read_text(), "what is wrong with the rate", 60)
    passes(rig)


def test_a_rate_s_correction_is_felt_by_what_waits(rig):
    rig.deploy()
    limits = rig.folder / "limits"
    limits.write_text("2:rate=10kbit,depth=1000p\n")
    rig.process.send_signal(signal.SIGHUP)
    large = bytes(ip4(to=2)) + bytes(1300)

    def waits() -> bool:
        for _ in range(20):
            rig.send(1, large)
        return len(list(rig.arrivals(0.5))) < 20

    until(waits, "packets wait", 60)
    limits.write_text("2:depth=1000p\n")
    rig.process.send_signal(signal.SIGHUP)
    until(lambda: not waits(), "none waits any more", 60)


def test_an_answer_fits_what_grpc_s_clients_receive(rig):
    rig.deploy()
    request = v1.WriteRequest(device_id=0)
    request.election_id.low = 1
    for n in range(500):
        update = request.updates.add(type="INSERT")
        update.entity.table_entry.table_id = 0x02FFFFFF - n
    with pytest.raises(grpc.RpcError) as refused:
        plain_stub(rig, "Write")(request)
    assert refused.value.code() == grpc.StatusCode.UNKNOWN
    assert refused.value.details().startswith("500 of 500 updates failed; the first: updates[0]")
    program = v1.SetForwardingPipelineConfigRequest(device_id=0, action="VERIFY")
    program.election_id.low = 1
    wrong = "\n".join(f"const bit<8> c{n} = nothing{n};" for n in range(99))
    program.config.p4_device_config = forward(wrong).device_config
    with pytest.raises(grpc.RpcError) as refused:
        plain_stub(rig, "SetForwardingPipelineConfig")(program)
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "nothing0" in refused.value.details()
    assert refused.value.details().endswith("lines more")


def test_a_write_s_errors_reach_our_own_client_one_by_one(rig):
    rig.deploy()
    wrong = [Update.delete(TableEntry("ipv4_lpm", {"hdr.ipv4.dst": Lpm(n << 8, 24)})) for n in range(400)]
    with pytest.raises(WriteError) as refused:
        rig.client.write(wrong)
    assert len(refused.value.failures) == 400


def test_a_server_that_all_can_reach_without_tls_is_meant(tmp_path):
    if reason := missing(EMBEDDED):
        pytest.skip(reason)
    words = [find("weir-switch"), "--no-p4", "--grpc-server-addr", "0.0.0.0:0"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert "--insecure-listen" in done.stderr
    process = subprocess.Popen([*words, "--insecure-listen"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline().startswith("ready")
    finally:
        process.terminate()
        assert process.wait(60) == 0
        process.stdout.close()


@pytest.mark.parametrize(
    "words",
    [
        "--no-p4 --queue 2:foo",
        "--no-p4 --queue 2:rate=1mbit",
        "--no-p4 -i 2@a --queue 2:depth=1p --queue 2:depth=2p",
        "--no-p4 --p4info-out p4info.foo",
        "--p4 none.p4 --p4info-out p4info.foo",
        "--no-p4 --p4info-out p4info.json",
        "--no-p4 --check",
        "--no-p4 --priority-queues 9",
        "--no-p4 --bogus",
    ],
)
def test_a_wrong_command_line_ends_with_status_2(words, tmp_path):
    if not find("weir-switch"):
        pytest.skip("weir-switch is neither on PATH nor built")
    command = [find("weir-switch"), "--grpc-server-addr", "127.0.0.1:0", *words.split()]
    done = subprocess.run(command, capture_output=True, check=False, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr
    assert not list(tmp_path.iterdir())


def test_connections_that_say_nothing_cost_little(rig):
    rig.deploy()
    before_mb = peak_mb(rig)
    idle = [rig.grpc_socket() for _ in range(600)]
    try:
        passes(rig)
        assert peak_mb(rig) < before_mb + ROOM_MB
    finally:
        for connection in idle:
            connection.close()

    def connects() -> bool:
        try:
            Client(rig.address, connect_timeout_s=5).close()
        except DeviceError:
            return False
        return True

    until(connects, "a place for a new connection", 60)
