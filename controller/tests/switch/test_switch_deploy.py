# SPDX-License-Identifier: Apache-2.0
"""The client and the commands against real switches: weir-switch where it is built, BMv2 where it is on PATH."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import weir_forks
from places import CONTROLLER
from switch_rig import CONFIG, CONNECT_TIMEOUT_S, command, free_port

from weir.p4runtime.client import BATCH, Client, DeviceError, NotPrimary, Packet, Tls, Update, WriteError
from weir.p4runtime.entities import (
    Call,
    CloneSession,
    Count,
    CounterEntry,
    DirectCounterEntry,
    DirectMeterEntry,
    Exact,
    Group,
    GroupMember,
    Lpm,
    MeterEntry,
    MeterRates,
    MulticastGroup,
    Optional,
    ProfileGroup,
    ProfileMember,
    Range,
    RegisterEntry,
    Replica,
    TableEntry,
    Ternary,
    ValueSet,
)
from weir.p4runtime.values import P4RuntimeError
from weir.programs import PID_DELAY
from weir.programs.pid_delay import law_of_data
from weir.switch import config, plan, program
from weir.switch.deploy import DeployError, Report, deploy, write_stage

pytestmark = pytest.mark.lab

PROGRAM = PID_DELAY.source
FIXTURES = Path(__file__).parents[1] / "p4runtime"
SET_UP = """
ip link set lo up
for p in 1 2; do
  ip link add v$p type veth peer name h$p && ip link set v$p up && ip link set h$p up || exit 1
done
echo ready
exec sleep infinity
"""
SENDER = """
import socket, struct, time
header = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 48, 0, 0, 64, 17, 0, b"\\x0a\\0\\1\\2", b"\\x0a\\0\\2\\2")
total = sum(struct.unpack("!10H", header))
total = (total & 0xFFFF) + (total >> 16)
header = header[:10] + struct.pack("!H", ~total & 0xFFFF) + header[12:]
udp = struct.pack("!HHHH", 1, 2, 28, 0) + bytes(20)
port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
port.bind(("h1", 0))
while True:
    port.send(bytes.fromhex("020000000101" "020000000001" "0800") + header + udp)
    time.sleep(0.005)
"""


@dataclass
class Rig:
    """A switch in a network namespace of its own with two ports, v1 and v2; h1 and h2 are their other ends."""

    kind: str
    namespace: str
    config: Path

    @property
    def inside(self) -> list[str]:
        return ["nsenter", f"--net={self.namespace}", "--"]

    def start(self, *words: str, **options) -> subprocess.Popen:
        environment = os.environ | {"PYTHONPATH": str(CONTROLLER), "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}
        return subprocess.Popen([*self.inside, *words], env=environment, text=True, **options)

    def words(self, *words: str) -> list[str]:
        """Of `weir`, for this switch."""
        words = ("p4", *words) if words[0] in ("deploy", "show", "digests") else words
        more = [] if words[:2] != ("p4", "deploy") else ["--config", str(self.config)]
        options = ["--p4", "127.0.0.1:9559", "--device-id", "3", "--connect-timeout-s", str(CONNECT_TIMEOUT_S)]
        return [*words, *more, *options]

    def weir(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "weir.cli", *self.words(*words)]

    def gains(self) -> dict[str, dict]:
        """By port."""
        return {one["port"]: one["gains"] for one in json.loads(self.call("gains", "--json"))}

    def call(self, *words: str, fails: int = 0) -> str:
        """Output of a command that succeeds, or the error of one that ends with the status `fails`."""
        status, out, error = weir_forks.call(self.namespace, self.words(*words), self.config.parent)
        assert status == fails, error
        return error if fails else out


@pytest.fixture(params=["embedded", "bmv2"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rig]:
    kind = request.param
    words = command(kind, "127.0.0.1:9559", ["1@v1", "2@v2"])
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    with subprocess.Popen(["unshare", "-n", "sh", "-c", SET_UP], stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout.readline() == "ready\n"
            (tmp_path / "s1.toml").write_text(CONFIG)
            made = Rig(kind, f"/proc/{holder.pid}/ns/net", tmp_path / "s1.toml")
            log = (tmp_path / "switch.log").open("w")
            with log, subprocess.Popen([*made.inside, *words], stdout=log, stderr=log, cwd=tmp_path) as switch:
                try:
                    yield made
                    assert switch.poll() is None, (tmp_path / "switch.log").read_text()[-2000:]
                finally:
                    switch.kill()
        finally:
            holder.kill()


@dataclass
class Server:
    """A switch without ports on the loopback address."""

    kind: str
    address: str

    def client(self, election_id: int | None = None) -> Client:
        return Client(self.address, 3, election_id=election_id, connect_timeout_s=CONNECT_TIMEOUT_S)


@pytest.fixture(params=["embedded", "bmv2"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    address = f"127.0.0.1:{free_port()}"
    words = command(request.param, address, [])
    log = (tmp_path / "switch.log").open("w")
    with log, subprocess.Popen(words, stdout=log, stderr=log, cwd=tmp_path) as switch:
        try:
            yield Server(request.param, address)
            assert switch.poll() is None, (tmp_path / "switch.log").read_text()[-2000:]
        finally:
            switch.kill()


@pytest.fixture
def device(server: Server) -> Iterator[Client]:
    """A primary controller of a switch that has our program and nothing in its tables."""
    with server.client() as client:
        client.become_primary()
        client.set_pipeline(program.for_embedded(PROGRAM) if server.kind == "embedded" else program.for_bmv2(PROGRAM))
        yield client


def route(number: int, next_hop: int = 1) -> TableEntry:
    return TableEntry("ipv4_lpm", {"hdr.ipv4.dst": Lpm(number << 8, 24)}, Call("set_next_hop", {"next_hop": next_hop}))


# The command


def test_deploy_is_repeatable_and_follows_the_file(rig: Rig) -> None:
    would = rig.call("deploy", "--dry-run").splitlines()
    assert would[-1] == f"device 3 ({rig.kind}): program would be pushed, 11 changes would be made"
    done = rig.call("deploy").splitlines()
    assert done[-1] == f"device 3 ({rig.kind}): program pushed, 11 changes made"
    assert sorted(line.removeprefix("would ") for line in would[1:-1]) == sorted(done[1:-1])
    assert rig.call("deploy") == f"device 3 ({rig.kind}): program is there already, 0 changes made\n"

    rig.config.write_text(CONFIG.replace('"10.0.2.0/24" = "h2"\n', "").replace("5000", "7000"))
    would = rig.call("deploy", "--dry-run").splitlines()
    assert would[-1] == f"device 3 ({rig.kind}): program is there already, 2 changes would be made"
    report = json.loads(rig.call("deploy", "--json", "--switch", rig.kind))
    assert report["program_pushed"] is False
    assert [line.split(" -> ")[0] for line in report["updates"]] == [
        "modify table aqm 2",
        "delete table ipv4_lpm 10.0.2.0/24",
    ]

    rig.config.write_text("")
    assert "give --empty if that is meant" in rig.call("deploy", fails=2)
    rig.call("deploy", "--empty")
    shown = json.loads(rig.call("show", "--json"))
    assert not any(table["entries"] for table in shown["tables"].values())
    assert shown["multicast_groups"] == []
    assert shown["tables"]["l2_forward"]["default"]["action"] == "no_l2_entry()"


def test_show_and_gains_say_what_is_there(rig: Rig) -> None:
    assert "has no program yet" in rig.call("show", fails=1)
    rig.call("deploy")
    shown = json.loads(rig.call("show", "--json"))
    routes = {entry["key"]: entry["action"] for entry in shown["tables"]["ipv4_lpm"]["entries"]}
    assert set(routes) == {"10.0.1.0/24", "10.0.2.0/24", "0.0.0.0/0"}
    assert routes["10.0.1.0/24"] == routes["0.0.0.0/0"] != routes["10.0.2.0/24"]
    assert shown["multicast_groups"] == [{"id": 1, "ports": [1, 2]}]
    assert bool(shown["not_told"]) == (rig.kind == "bmv2")  # registers
    assert "10.0.1.0/24" in rig.call("show", "--table", "ipv4_lpm")
    assert "no table 'ipv5_lpm'" in rig.call("show", "--table", "ipv5_lpm", fails=1)

    assert rig.gains()["2"]["target_us"] == 5000
    rig.call("gains", "--port", "2", "--set", "target_us=6000")
    rig.call("gains", "--port", "1", "--profile", "paper")
    found = rig.gains()
    assert (found["2"]["target_us"], found["2"]["probability"]) == (6000, "squared")
    assert (found["1"]["target_us"], found["1"]["probability"]) == (15000, "linear")
    assert "has no gains to change" in rig.call("gains", "--port", "9", "--set", "kp=1", "--expert", fails=1)
    assert "no port 77: must be one of 1, 2" in rig.call("gains", "--port", "77", fails=1)


@pytest.fixture
def traffic(rig: Rig) -> Iterator[subprocess.Popen[str]]:
    """Sends packets to port 2 of a switch that has been deployed to."""
    rig.call("deploy")
    sender = rig.start(sys.executable, "-c", SENDER)
    try:
        yield sender
    finally:
        sender.kill()
        sender.wait()


PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


def test_watch_prints_what_the_switch_has(rig: Rig, traffic: subprocess.Popen[str]) -> None:
    records: list[dict] = []
    while len(records) < 2 or records[-1]["drops_aqm"] + _passed(records[-1]) < 10:
        assert traffic.poll() is None, "the sender has ended"
        words = ("watch", "--every-ms", "50", "--count", "3")
        records = [json.loads(line) for line in rig.call(*words).splitlines()]
    assert [record["port"] for record in records] == ["2", "2", "2"]
    assert _passed(records[0]) <= _passed(records[1]) <= _passed(records[2])
    shown = json.loads(rig.call("show", "--json"))
    if rig.kind == "embedded":
        enqueued = records[2]["seen"] - records[2]["drops_aqm"]
        assert shown["counters"]["forwarded"]["2"]["packets"] >= enqueued - 1
        alone = json.loads(rig.call("show", "--counters", "--json"))
        assert alone["counters"]["forwarded"]["2"]["packets"] >= shown["counters"]["forwarded"]["2"]["packets"]
        assert (alone["tables"], alone["multicast_groups"], alone["registers"]) == ({}, [], {})
        assert "port   2  delay" in rig.call("watch", "--text", "--count", "1")
        assert {"tau_us", "u", "backlog_bytes", "row", "drops_limit"} <= set(records[0])
    else:
        with rig.start(*rig.weir("watch", "--text", "--count", "1"), **PIPES) as process:
            out, error = process.communicate()
        assert "port   2  forwarded" in out
        assert "gives no registers" in error


def test_status_says_what_is_there(rig: Rig, traffic: None) -> None:
    (device,) = json.loads(rig.call("status", "--json"))
    assert device["program"].startswith("pid_delay, cookie 0x")
    (port,) = device["ports"]
    assert (port["port"], port["attached"], port["trouble"]) == ("2", "table aqm", "")
    assert (port["profile"], port["differs"], port["digest_interval_us"]) == ("tuned", {"target_us": 5000}, 20000)
    assert bool(device["notes"]) == (rig.kind == "bmv2")
    if rig.kind == "embedded":
        assert {"delay_us", "u", "backlog_bytes", "age_us"} <= set(port["reading"])
    assert "tuned but target_us=5000" in rig.call("status")


def _is_in_charge(rig: Rig) -> bool:
    """Whether somebody is."""
    with rig.start(*rig.weir("gains", "--port", "2", "--set", "kp=20", "--expert"), **PIPES) as process:
        _, error = process.communicate()
    assert process.returncode == 0 or "use a higher one" in error
    return process.returncode != 0


def _passed(record: dict) -> int:
    if record["k"] == "counters":
        return record["forwarded_packets"]
    return record["seen"] - record["drops_aqm"] - record["drops_limit"]


def test_watching_and_changing_gains_do_not_exclude_each_other(rig: Rig, traffic: None) -> None:
    with (
        rig.start(*rig.weir("watch", "--text"), **PIPES) as one,
        rig.start(*rig.weir("watch"), **PIPES) as other,
    ):
        try:
            assert "port   2" in one.stdout.readline()
            assert json.loads(other.stdout.readline())["port"] == "2"
            rig.call("gains", "--port", "2", "--set", "target_us=6000")
            rig.call("gains", "--port", "1", "--profile", "tuned")
            assert set(rig.gains()) == {"1", "2"}
            assert rig.call("watch", "--count", "1")
            # a tuner is in charge as long as it runs, and takes charge again when it can
            tune = [sys.executable, "-m", "weir.cli", "tune", "--p4", "127.0.0.1:9559", "--device-id", "3"]
            with rig.start(*tune, "--rtt-ms", "40", stdout=subprocess.DEVNULL) as tuner:
                try:
                    while not _is_in_charge(rig):
                        assert tuner.poll() is None
                    assert rig.call("watch", "--count", "1")
                    rig.call("gains", "--port", "2", "--set", "target_us=7000", "--election-id", "9")
                    assert rig.gains()["2"]["target_us"] == 7000
                    assert tuner.poll() is None
                finally:
                    tuner.terminate()
            # port 1 has the law by now, and is in what is watched
            while json.loads(other.stdout.readline())["port"] != "1":
                pass
            assert one.poll() is None
            assert other.poll() is None
        finally:
            one.kill()
            other.kill()


def test_digests_are_printed_by_who_is_in_charge(rig: Rig, traffic: None) -> None:
    digest = ("digests", "aqm_state_t")
    records = [json.loads(line) for line in rig.call(*digest, "--jsonl", "--count", "3").splitlines()]
    line = rig.call(*digest, "--count", "1")
    assert [record["port"] for record in records] == [2, 2, 2]
    assert records[0]["now_us"] + 20000 <= records[1]["now_us"] <= records[2]["now_us"] - 20000
    assert records[0]["enqueued_packets"] < records[2]["enqueued_packets"]
    assert "port   2  delay" in line
    shown = json.loads(rig.call("show", "--json"))
    assert shown["counters"]["forwarded"]["2"]["packets"] >= records[2]["enqueued_packets"]
    if rig.kind == "embedded":
        assert "2" in shown["registers"]["aqm_enqueued"]


def test_watch_ends_when_told_or_replaced(rig: Rig, traffic: None) -> None:
    with rig.start(*rig.weir("digests", "--election-id", "7"), **PIPES) as watch:
        assert "delay" in watch.stdout.readline()
        assert "election id 7 is primary" in rig.call("deploy", "--switch", rig.kind, fails=1)
        rig.call("gains", "--port", "2", "--set", "target_us=6000", "--election-id", "9")
        assert "a controller with election id 9 is primary" in watch.communicate()[1]
        assert watch.returncode == 1
    by_digests = ["watch", "--text", "--digests", "--election-id", "9"]
    for words, status in (
        (["watch", "--text"], 0),
        (by_digests, 0),
        (["digests", "--election-id", "9"], 128 + signal.SIGTERM),
    ):
        with rig.start(*rig.weir(*words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as watch:
            assert "port   2" in watch.stdout.readline()
            watch.send_signal(signal.SIGTERM)
            watch.communicate()
            assert watch.returncode == status


# The client


def test_a_higher_election_id_is_respected(server: Server) -> None:
    wanted = config.loads("", "test", Path("."))
    with server.client(5) as first:
        first.become_primary()
        with server.client(4) as second:
            with pytest.raises(NotPrimary, match=r"election id 5 is primary of device 3 .* this one's is 4"):
                second.become_primary()
            with pytest.raises(NotPrimary):
                deploy(second, wanted, switch=server.kind, main=PROGRAM)
        with server.client(5) as third, pytest.raises(NotPrimary, match="election id 5"):
            third.become_primary()
        with server.client(6) as fourth:
            fourth.become_primary()
            with pytest.raises(NotPrimary, match="election id 6"):
                next(first.digests())
            with pytest.raises(NotPrimary):
                first.set_pipeline(program.for_embedded(PROGRAM))
            with (
                server.client() as fifth,
                pytest.raises(NotPrimary, match=r"election id 6 is primary .* this one's is 1"),
            ):
                fifth.become_primary()
    with server.client() as last:
        last.become_primary()  # nobody is in charge, whatever ids there were


def test_batches_and_errors_by_update(device: Client) -> None:
    routes = [route(number) for number in range(1, 3 * BATCH // 2)]
    device.write([Update.insert(entry) for entry in routes])
    found = device.read(TableEntry("ipv4_lpm"))
    assert {entry.match["hdr.ipv4.dst"].value >> 8 for entry in found} == set(range(1, 3 * BATCH // 2))

    updates = [
        Update.insert(route(5000)),
        Update.insert(route(7)),
        Update.delete(route(6000)),
        Update.insert(route(5001)),
    ]
    with pytest.raises(WriteError) as caught:
        device.write(updates)
    assert [(failure.index, failure.code) for failure in caught.value.failures] == [
        (1, "ALREADY_EXISTS"),
        (2, "NOT_FOUND"),
    ]
    assert caught.value.applied == [0, 3]
    assert "update 2 (insert table ipv4_lpm 0.0.7.0/24): ALREADY_EXISTS: " in str(caught.value)
    assert "2 of 4 updates applied" in str(caught.value)
    assert device.find(route(5001)) is not None

    # The first request that fails is the last.
    updates = [Update.insert(route(10000 + number)) for number in range(2 * BATCH)]
    updates[3] = Update.insert(route(8))
    with pytest.raises(WriteError, match=f"update 4 .*; {BATCH - 1} of {2 * BATCH} updates applied"):
        device.write(updates)
    assert device.find(route(10000 + BATCH)) is None

    # A value that can't be encoded is found before anything is sent.
    with pytest.raises(P4RuntimeError, match=r"update 2: table ipv4_lpm: no field 'x'"):
        device.write(
            [Update.insert(route(9000)), Update.insert(TableEntry("ipv4_lpm", {"x": Exact(1)}, Call("no_route")))]
        )
    assert device.find(route(9000)) is None


def test_everything_the_device_holds(device: Client, server: Server) -> None:
    truncate_bytes = 0 if server.kind == "bmv2" else 128  # BMv2 refuses sessions that cut
    group, session = MulticastGroup(7, (Replica(1), Replica(2))), CloneSession(9, (Replica(2, 1),), 0, truncate_bytes)
    default = TableEntry("l2_forward", action=Call("flood", {"group": 7}), is_default=True)
    law = config.loads("[flood]\nports = [2, 4]\n[aqm.port.4]", "test", Path(".")).aqm[4]
    aqm = PID_DELAY.law_entry(4, law, device.info)
    device.write([Update.insert(group), Update.insert(session), Update.modify(default), Update.insert(aqm)])
    assert device.find(MulticastGroup(7)) == group
    assert device.read(MulticastGroup(0)) == [group]
    assert device.find(CloneSession(9)) == session
    assert device.find(MulticastGroup(8)) is None
    (found,) = device.read(TableEntry("l2_forward", is_default=True))
    assert found.action.params == {"group": 7}
    (found,) = device.read(TableEntry("aqm"))
    assert law_of_data(found.action.params).gains.to_params() == law.gains.to_params()
    device.write([Update.modify(TableEntry("l2_forward", is_default=True))])
    (found,) = device.read(TableEntry("l2_forward", is_default=True))
    assert found.action.action.endswith("no_l2_entry")
    device.write([Update.delete(group), Update.delete(session), Update.delete(aqm)])
    assert device.read(MulticastGroup(0), TableEntry("aqm")) == []

    assert len(device.read(CounterEntry("forwarded"))) == 512
    assert device.read(CounterEntry("forwarded", 511))[0].count.packets == 0
    if server.kind == "bmv2":
        with pytest.raises(DeviceError, match="UNIMPLEMENTED: this device does not implement it"):
            device.read(RegisterEntry("law_u_q40"))
    else:
        device.write([Update.modify(RegisterEntry("law_u_q40", 3, 2**40))])
        assert device.find(RegisterEntry("law_u_q40", 3)).value == 2**40
        assert [entry.index for entry in device.read(RegisterEntry("law_u_q40")) if entry.value] == [3]


def test_one_of_each_thing(server: Server) -> None:
    main = FIXTURES / "everything.p4"
    with server.client() as client:
        client.become_primary()
        client.set_pipeline(program.for_embedded(main) if server.kind == "embedded" else program.for_bmv2(main))
        send = [Call("TestIngress.send", {"port": port}) for port in (1, 2)]
        members = [ProfileMember("TestIngress.choices", number, call) for number, call in enumerate(send, 1)]
        group = ProfileGroup("TestIngress.choices", 9, (GroupMember(1, 2), GroupMember(2, 1)), 8)
        client.write([Update.insert(member) for member in members])
        client.write([Update.insert(group)])
        key = {"type": Exact(0x1234)}
        punt = TableEntry("TestIngress.acl", key, Call("TestIngress.to_cpu", {"reason": 5}), 10)
        others = {"a": Ternary(0x0A000000, 0xFF000000), "b": Range(10, 20), "c": Optional(7)}
        drop = TableEntry("TestIngress.acl", key | others, Call("TestIngress.drop"), 20)
        way = TableEntry("TestIngress.routes", {"a": Lpm(0x0A000000, 8)}, Call("TestIngress.forward", {"port": 3}))
        spread = TableEntry("TestIngress.spread", {"d": Exact(1)}, Group(9))
        types = ValueSet("TestParser.types", ({"": Exact(0x1234)},))
        rates = MeterRates(1000, 100, 2000, 200)
        client.write([Update.insert(entry) for entry in (punt, drop, way, spread)])
        client.write([Update.modify(MeterEntry("TestIngress.limits", 3, rates))])
        client.write([Update.modify(DirectMeterEntry(way, rates))])
        if server.kind == "embedded":
            client.write([Update.modify(types)])
            assert client.read(ValueSet("types")) == [types]
        else:
            with pytest.raises(WriteError, match=r"modify value set TestParser\.types\): UNIMPLEMENTED"):
                client.write([Update.modify(types)])

        found = {member.id: member for member in client.read(ProfileMember("TestIngress.choices"))}
        assert found == {member.id: member for member in members}  # BMv2 tells of one as often as it weighs
        (found,) = client.read(ProfileGroup("TestIngress.choices"))
        assert (set(found.members), found.max_size) == (set(group.members), group.max_size)
        assert sorted(client.read(TableEntry("acl")), key=lambda e: e.priority) == [punt, drop]
        assert client.read(TableEntry("spread")) == [spread]
        assert client.read(MeterEntry("limits", 3)) == [MeterEntry("TestIngress.limits", 3, rates)]
        (meter,) = client.read(DirectMeterEntry(TableEntry("routes")))
        assert (meter.entry.match, meter.rates) == (way.match, rates)

        # One of our packets goes through the tables as if it had come in at the CPU's port, and comes back from there.
        def packet(ether_type: int, a: int, b: int) -> bytes:
            body = a.to_bytes(4, "big") + b.to_bytes(2, "big") + bytes([7, 0])
            return bytes.fromhex("020000000001020000000002") + ether_type.to_bytes(2, "big") + body + bytes(30)

        def send_out(payload: bytes) -> None:
            client.send_packet(Packet(payload, {"egress_port": 0, "unused": 0}))

        send_out(packet(0x1234, 0x0A000001, 15))  # dropped
        send_out(packet(0x1234, 0x0A000001, 21))
        got = next(client.packets(timeout_s=30.0))
        assert got == Packet(packet(0x1234, 0x0A000001, 21), {"ingress_port": 510, "reason": 5})
        assert list(client.packets(timeout_s=0.2)) == []
        assert client.read(CounterEntry("seen", 510 & 15))[0].count.packets == 2
        (counter,) = client.read(DirectCounterEntry(TableEntry("routes")))
        assert counter.count == Count(2, 2 * (2 + len(packet(0, 0, 0))))  # the packet_out header counts
        (entry,) = client.read(TableEntry("routes", counter=Count()))
        assert entry.counter == counter.count
        with pytest.raises(P4RuntimeError, match=r"packet_out: .* must have exactly the fields egress_port, unused"):
            client.send_packet(Packet(b"", {"egress_port": 0}))
        if server.kind == "embedded":
            assert client.find(RegisterEntry("last", 510 & 15)).value == 0x020000000002
        client.write([Update.modify(CounterEntry("seen", 14, Count(40)))])
        assert client.read(CounterEntry("seen", 14))[0].count.packets == 40


def test_a_device_without_a_program(server: Server) -> None:
    with server.client() as client:
        assert client.capabilities()
        with pytest.raises(DeviceError, match="has no program yet"):
            client.read(TableEntry(None))
        with pytest.raises(NotPrimary, match="nobody is"):
            client.set_pipeline(program.for_embedded(PROGRAM))


def test_a_program_that_is_not_ours_is_refused_by_name(server: Server) -> None:
    wanted = config.loads(CONFIG, "test", Path("."))
    other = PROGRAM.with_name("law_probe.p4")
    with server.client() as client:
        client.become_primary()
        with pytest.raises(P4RuntimeError, match=r"the program has no table '(next_hop|ipv4_lpm)'"):
            deploy(client, wanted, switch=server.kind, main=other)
        with pytest.raises(P4RuntimeError, match=r"cannot read .*absent\.p4"):
            deploy(client, wanted, switch="auto", main=PROGRAM.with_name("absent.p4"))


def test_a_program_that_is_not_ours_does_not_replace_the_good_one(
    device: Client, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wanted = config.loads(CONFIG, "test", Path("."))
    deploy(device, wanted, switch=server.kind, main=PROGRAM)
    good = device.get_pipeline("COOKIE_ONLY").cookie
    narrow = tmp_path / "programs" / PROGRAM.name  # all tables are there, but a MAC address does not fit in
    for folder in ("programs", "include"):
        shutil.copytree(PROGRAM.parents[1] / folder, tmp_path / folder)
    routing = tmp_path / "include" / "l3.p4"
    text = routing.read_text()
    assert text.count("bit<48> dst_mac") == 3
    routing.write_text(text.replace("bit<48> dst_mac", "bit<8> dst_mac").replace("= dst_mac", "= (bit<48>) dst_mac"))
    for main, message in [
        (PROGRAM.with_name("law_probe.p4"), r"the program has no table 'ipv4_lpm'"),
        (narrow, r"dst_mac.*8 bits"),
    ]:
        with pytest.raises(P4RuntimeError, match=f"{message}.*; the switch is left as it was"):
            deploy(device, wanted, switch=server.kind, main=main)
        with server.client() as other:
            assert other.get_pipeline("COOKIE_ONLY").cookie == good
            assert len(other.read(TableEntry("ipv4_lpm"))) == 3
    if server.kind == "embedded":
        monkeypatch.setattr(program.shutil, "which", lambda *_, **__: None)
        with pytest.raises(program.NoCompiler, match="before it replaces what runs"):
            deploy(device, wanted, switch=server.kind, main=narrow)
        assert device.get_pipeline("COOKIE_ONLY").cookie == good


def test_an_empty_switch_takes_a_program_that_nothing_here_compiles(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.kind == "bmv2":
        pytest.skip("BMv2 takes only compiled programs")
    monkeypatch.setattr(program.shutil, "which", lambda *_, **__: None)
    with server.client() as client:
        client.become_primary()
        report = deploy(client, config.loads(CONFIG, "test", Path(".")), switch=server.kind, main=PROGRAM)
        assert (report.program_pushed, len(report.updates)) == (True, 11)


def test_bmv2_is_not_given_what_would_wreck_it(device: Client, server: Server, tmp_path: Path) -> None:
    if server.kind == "embedded":
        pytest.skip("weir-switch reads what it is given by itself")
    wanted = config.loads(CONFIG, "test", Path("."))
    deploy(device, wanted, switch="bmv2", main=PROGRAM)
    good = device.get_pipeline("COOKIE_ONLY").cookie
    info, json_file = tmp_path / "p4info", tmp_path / "program.json"
    info.write_bytes(device.info.message.SerializeToString())
    whole = program.for_bmv2(PROGRAM).device_config
    for data, message in [
        (b"\0garbage", "program.json: not JSON"),
        (whole[: len(whole) // 2], "program.json: not JSON"),
        (b"{}", "program.json: no program for BMv2: has no header_types"),
        (program.for_bmv2(PROGRAM.with_name("law_probe.p4")).device_config, "has no table .*, which the P4Info has"),
    ]:
        json_file.write_bytes(data)
        with pytest.raises(program.ProgramError, match=message):
            deploy(device, wanted, switch="bmv2", main=PROGRAM, precompiled=(info, json_file))
        assert device.get_pipeline("COOKIE_ONLY").cookie == good
        assert len(device.read(TableEntry("ipv4_lpm"))) == 3


def test_the_other_kind_of_switch_is_left_as_it_was(device: Client, server: Server, tmp_path: Path) -> None:
    device.write([Update.insert(route(1))])
    wanted = config.loads("", "test", tmp_path)
    files = FIXTURES / "p4info_everything.txtpb", tmp_path / "program.json"
    files[1].write_text('{"program": "x"}')
    if server.kind == "bmv2":
        with pytest.raises(P4RuntimeError, match=r"does not compile P4 .* give --switch bmv2"):
            deploy(device, wanted, switch="embedded", main=PROGRAM)
    else:
        with pytest.raises(P4RuntimeError, match=r"program\.json: no program for BMv2"):
            deploy(device, wanted, switch="bmv2", main=PROGRAM, precompiled=files)
        with pytest.raises(P4RuntimeError, match="INVALID_ARGUMENT"):
            device.set_pipeline(program.precompiled(*files))
    assert len(device.read(TableEntry("ipv4_lpm"))) == 1


def test_a_program_that_does_not_compile_leaves_the_switch_as_it_was(
    device: Client, server: Server, tmp_path: Path
) -> None:
    device.write([Update.insert(route(1))])
    bad = tmp_path / "bad.p4"
    bad.write_text("#include <core.p4>\n#include <v1model.p4>\nparser p(\n")
    with pytest.raises(P4RuntimeError, match=r"bad\.p4"):
        deploy(device, config.loads("", "test", tmp_path), switch=server.kind, main=bad)
    assert len(device.read(TableEntry("ipv4_lpm"))) == 1


def test_what_failed_and_what_was_applied_is_said(server: Server) -> None:
    # Updates that a switch rejects although it has the file's program: here, an entry that exists already.
    wanted = config.loads(CONFIG, "test", Path("."))
    with server.client() as client:
        client.become_primary()
        deploy(client, wanted, switch=server.kind, main=PROGRAM)
        stage = plan.Stage("routes", [Update.insert(route(1)), Update.insert(client.read(TableEntry("aqm"))[0])])
        report = Report(server.address, 3, server.kind, 0, program_pushed=True, updates=["earlier"])
        with pytest.raises(DeployError) as caught:
            write_stage(client, stage, report)
    message = str(caught.value)
    assert message.startswith("routes: update 2 (insert table aqm 2): ALREADY_EXISTS: ")
    assert (
        "the program was pushed; 1 updates before these were applied; of these: insert table ipv4_lpm 0.0.1.0/24"
        in message
    )


# TLS


def certificates(folder: Path) -> None:
    """An authority, a server at 127.0.0.1 and a client that it vouches for; another authority, and its client."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem",
                "-subj", f"/CN={name}", "-days", "2")  # fmt: skip
    for name, names, by in (
        ("server", "IP:127.0.0.1,DNS:switch", "ca"),
        ("client", "DNS:controller", "ca"),
        ("stranger", "DNS:controller", "other"),
    ):
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj",
                f"/CN={name}")  # fmt: skip
        (folder / "extensions").write_text(f"subjectAltName={names}\n")
        openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial",
                "-out", f"{name}.pem", "-days", "2", "-extfile", "extensions")  # fmt: skip


def test_tls_to_a_server_without_it(server: Server, tmp_path: Path) -> None:
    certificates(tmp_path)
    with server.client() as client:
        assert client.capabilities()
    with pytest.raises(
        DeviceError, match=r"\(with TLS\) .*, but does not speak TLS; leave the --tls-\.\.\. options out"
    ):
        Client(server.address, 3, tls=Tls(tmp_path / "ca.pem"), connect_timeout_s=1.0)


def test_tls_files_are_looked_at_first(tmp_path: Path) -> None:
    certificates(tmp_path)
    text = tmp_path / "s1.toml"
    text.write_text(CONFIG)
    ca, cert, key = (tmp_path / name for name in ("ca.pem", "client.pem", "client.key"))
    for tls, message in [
        (Tls(text), r"TLS: the CA .*s1\.toml holds no certificate; must be PEM"),
        (Tls(ca, text, key), r"TLS: the certificate .*s1\.toml holds no certificate"),
        (Tls(ca, cert, text), r"TLS: the key .*s1\.toml holds no key"),
        (Tls(ca, cert, tmp_path / "server.key"), r"the key .*server\.key is not that of the certificate .*client\.pem"),
    ]:
        with pytest.raises(P4RuntimeError, match=message):
            Client("127.0.0.1:9", tls=tls)


@pytest.mark.parametrize("kind", ["embedded", "bmv2"])
def test_tls_with_certificates_on_both_sides(kind: str, tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    words = command(kind, address, [])
    certificates(tmp_path)
    words += ["--grpc-server-ssl", "--grpc-server-cert", "server.pem", "--grpc-server-key", "server.key"]
    words += ["--grpc-server-cacert", "ca.pem", "--grpc-server-with-client-auth"]
    ca, cert, key = (tmp_path / name for name in ("ca.pem", "client.pem", "client.key"))
    strangers = (tmp_path / "stranger.pem", tmp_path / "stranger.key")
    log = (tmp_path / "switch.log").open("w")
    with log, subprocess.Popen(words, stdout=log, stderr=log, cwd=tmp_path) as switch:
        try:
            with Client(address, 3, tls=Tls(ca, cert, key), connect_timeout_s=CONNECT_TIMEOUT_S) as client:
                client.become_primary()
                assert client.capabilities()
            with Client(
                address, 3, tls=Tls(ca, cert, key, server_name="switch"), connect_timeout_s=CONNECT_TIMEOUT_S
            ) as client:
                assert client.capabilities()
            for tls, message in [
                (None, r"\(without TLS\) .*: the server speaks TLS; say who signed its certificate"),
                (Tls(ca), r"\(with TLS\) .*: TLS: .* want a client certificate; give --tls-cert"),
                (Tls(ca, *strangers), r"TLS: .* not to trust the client certificate .*stranger\.pem"),
                (Tls(tmp_path / "other.pem", cert, key), r"certificate is not signed by .*other\.pem .* --tls-ca"),
                (Tls(ca, cert, key, server_name="elsewhere"), r"is not for 'elsewhere'; .* \(--tls-server-name"),
            ]:
                with (
                    pytest.raises(DeviceError, match=message),
                    Client(address, 3, tls=tls, connect_timeout_s=1.0) as client,
                ):
                    client.capabilities()
            assert switch.poll() is None, (tmp_path / "switch.log").read_text()[-2000:]
        finally:
            switch.kill()
