# SPDX-License-Identifier: Apache-2.0
"""Records of flows and kinds of packets: traffic of several hosts through each program, its counts in `weir-xdp flows`
and `weir top --by`."""

import contextlib
import json
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from class_rig import tree
from packet_rig import BACKLOG, NEARLY_ONE, REPO, until
from scapy.all import IP, UDP, Dot1Q, Ether, IPv6, IPv6ExtHdrFragment, Raw
from test_xdp_coupled import through_both

ONE_IN = 16
RECORDS = 4096
ETHER = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
PASSING = ("--flow-records", "--fixed-probability", "0")
SIGNALS = {
    "poll": ("--shape", "1gbit", "--no-bands", "--signal", "poll"),
    "backlog": ("--shape", "1gbit", "--no-bands", "--signal", "backlog"),
    "bands": ("--shape", "1gbit", "--bands"),
    "veth": ("--peer", "PEER"),
    "virtual": ("--rate", "1gbit", "--hook", "tc"),
    "xdp": ("--rate", "1gbit"),
}


def udp(host: str, port: int, size: int = 1000, below=ETHER, **ip: int) -> bytes:
    to = IPv6(src=host, dst="fd00::99", **ip) if ":" in host else IP(src=host, dst="10.9.0.2", **ip)
    frame = below / to / UDP(sport=port, dport=9)
    return bytes(frame / Raw(bytes(size - len(frame))))


def flows(rig, dev: str = "rb") -> dict:
    return json.loads(rig.weir("flows", dev, "--json").stdout)


def by_source(found: dict) -> dict[tuple[str, int], dict]:
    return {(flow["source"], flow["source_port"]): flow for flow in found["flows"]}


@pytest.fixture
def attach(rig) -> Iterator[Callable]:
    @contextlib.contextmanager
    def attached(*words: object, dev: str = "rb") -> Iterator[None]:
        rig.unshape()
        with rig.attached(*(rig.peer if word == "PEER" else word for word in words), dev=dev):
            yield

    yield attached
    rig.unshape()


@pytest.mark.parametrize("by", [BACKLOG if name == "backlog" else name for name in SIGNALS])
def test_hosts_have_their_parts(rig, attach, by):
    """Each packet of two is another host's, so a sample at a fixed distance would miss one of them."""
    hosts = {"10.9.0.7": 2, "10.9.0.9": 1, "fd00::8": 1}
    frames = {host: udp(host, 7) for host in hosts}
    sent = [frames[host] for host in ("10.9.0.7", "10.9.0.9", "10.9.0.7", "fd00::8")] * 160
    dev = "ra" if by == "xdp" else "rb"
    with attach(*SIGNALS[by], *PASSING, dev=dev):
        through_both(rig, sent)
        found = flows(rig, dev)
    records = by_source(found)
    assert found["sample_one_in"] == ONE_IN
    assert set(records) == {(host, 7) for host in hosts}
    for (host, _), record in records.items():
        assert record["sampled_packets"] == pytest.approx(160 * hosts[host] / ONE_IN, abs=3)
        assert record["sampled_bytes"] == 1000 * record["sampled_packets"]
        assert (record["protocol"], record["destination_port"]) == (17, 9)
        assert sum(record["kinds"].values()) == record["sampled_packets"]
    kinds = {kind for kind, record in found["kinds"].items() if record["sampled_packets"]}
    assert kinds <= {"ahead", "small", "large", "spilled"} if by == "bands" else kinds == {"queue"}


PORTS = {
    "10.9.0.20": (udp("10.9.0.20", 7, below=ETHER / Dot1Q(vlan=7)), (7, 9)),
    "10.9.0.21": (udp("10.9.0.21", 7, frag=100), (0, 0)),
    "10.9.0.22": (udp("10.9.0.22", 7, flags=1), (0, 0)),  # the first fragment
    "10.9.0.23": (udp("10.9.0.23", 7)[:36], (0, 0)),
    "fd00::20": (
        bytes(ETHER / IPv6(src="fd00::20", dst="fd00::2") / IPv6ExtHdrFragment() / UDP(sport=7) / bytes(500)),
        (0, 0),
    ),
}


@pytest.mark.parametrize("by", ["virtual", "xdp"])
def test_ports_are_read_where_they_are(rig, attach, by):
    dev = "ra" if by == "xdp" else "rb"
    with attach(*SIGNALS[by], *PASSING, dev=dev):
        through_both(rig, [frame for frame, _ in PORTS.values()] * 60)
        found = flows(rig, dev)["flows"]
    ports = {flow["source"]: (flow["source_port"], flow["destination_port"]) for flow in found}
    assert ports == {host: expected for host, (_, expected) in PORTS.items()}


@pytest.mark.parametrize("ecn", [0, 1])
def test_every_drop_and_mark_counts(rig, attach, ecn):
    """Of the kind from the first packet on, of a flow from its record on."""
    words = ("--rate", "1gbit", "--hook", "tc", "--flow-records", "--fixed-probability", NEARLY_ONE, "--expert")
    never_wait = ("min_backlog_bytes=0", "min_delay_share=0", "space_least=0", "space_most=0", "share_least=0")
    frames = [udp("10.9.0.7", 7, tos=2 * ecn), udp("fd00::8", 8, tc=2 * ecn)] * 100
    with attach(*words, *never_wait):
        rig.through(frames)
        status, found = rig.status()["counters"], flows(rig)
    of = "marks" if ecn else "drops"
    assert found["kinds"]["queue"][of] == status["marked_packets" if ecn else "dropped_aqm_packets"] == 200
    records = by_source(found)
    assert len(records) == 2
    for record in records.values():
        assert 100 - 3 * ONE_IN <= record[of] <= 100
        assert record["drops" if ecn else "marks"] == 0


def test_a_young_flow_has_less_delay_than_the_bulk_it_overtakes(rig, attach):
    def peaks() -> list[dict[str, int]]:
        """Of two readers: neither takes the other's."""
        return [{name: one["delay_peak_us"] for name, one in flows(rig)["kinds"].items()} for _ in range(2)]

    bulk, young = udp("10.9.0.7", 1), [udp("10.9.0.8", 1000 + i, 100) for i in range(100)]
    with (
        attach("--shape", "1mbit", "--bands", *PASSING, "--expert", "ahead_most_bytes=3028"),
        rig.sender.tap("a0") as out,
    ):
        for _ in range(100):
            out.send(bulk)
        until(lambda: rig.status()["bulk"]["tau_us"] > 0, "bulk waits")

        def both_wait() -> bool:
            for frame in [bulk] * 32 + young[:50]:
                out.send(frame)
            return all(peak["ahead"] < max(peak["large"], peak["spilled"]) for peak in peaks())

        until(both_wait, "delays of both bands")
        found = flows(rig)
    bulks = [found["kinds"][kind] for kind in ("large", "spilled") if found["kinds"][kind]["sampled_packets"]]
    means = [one["delay_sum_us"] / one["sampled_packets"] for one in (found["kinds"]["ahead"], *bulks)]
    assert means[0] < max(means[1:])
    [flow] = [flow for flow in found["flows"] if flow["source"] == "10.9.0.7"]
    assert 0 < flow["delay_sum_us"] <= flow["sampled_packets"] * flow["delay_peak_us"]


@pytest.mark.parametrize(("age", "peak_us"), [(0, 7000), (2, 0)])
def test_a_peak_ends_with_its_epochs(rig, attach, age, peak_us):
    """Of the present epoch a peak is shown to every reader, of the one before the last to none."""
    epoch = (time.monotonic_ns() >> 33) - age
    key = bytes(36) + bytes([17, 0, 0, 0])
    value = struct.pack("=5Q4IQ8I", 1, 100, 0, 0, 0, epoch, 7000, 0, 0, time.monotonic_ns(), *range(8))
    with attach("--rate", "1gbit", "--hook", "tc", *PASSING):
        pin = f"{rig.pins()}/flow_records"
        octets = {name: " ".join(map(str, data)).split() for name, data in (("key", key), ("value", value))}
        rig.router.run("bpftool", "map", "update", "pinned", pin, "key", *octets["key"], "value", *octets["value"])
        readings = [flows(rig)["flows"] for _ in range(2)]
    assert [[flow["delay_peak_us"] for flow in flows] for flows in readings] == [[peak_us]] * 2


def test_spoofed_addresses_stay_in_the_table(rig, attach):
    frame = bytearray(udp("10.0.0.0", 7, 100))
    with attach("--rate", "10gbit", "--hook", "tc", *PASSING):
        pin = f"{rig.pins()}/prog_weir_egress"
        for host in range(2 * RECORDS):
            frame[28:30] = host.to_bytes(2, "big")
            rig.program_run(pin, bytes(frame), 20)
        found = flows(rig)
    assert RECORDS / 2 < len(found["flows"]) <= RECORDS


def test_addresses_are_recorded_where_asked_for(rig, attach):
    frames = [udp("10.9.0.7", 7)] * 64
    with attach("--rate", "1gbit", "--hook", "tc", "--fixed-probability", "0"):
        through_both(rig, frames)
        found = flows(rig)
        assert found["kinds"]["queue"]["sampled_packets"] == pytest.approx(4, abs=1)
        assert "flows" not in found
        shown = json.loads(
            rig.router.run("bpftool", "-j", "map", "show", "pinned", f"{rig.pins()}/flow_records").stdout
        )
        assert shown["max_entries"] == 1
        said = json.loads(rig.weir("ensure", "rb", "--flow-records", "--json").stdout)
        assert said["did"] == "replaced"
        for _ in range(2):
            assert json.loads(rig.weir("ensure", "rb", "--json").stdout)["did"] == "adopted"
            through_both(rig, frames)
            assert set(by_source(flows(rig))) == {("10.9.0.7", 7)}
        modes = rig.router.run("stat", "-c", "%a", rig.pins(), f"{rig.pins()}/flow_records").stdout.split()
        assert modes == ["700", "600"]
        assert rig.status()["flow_records"] is True
        assert json.loads(rig.weir("ensure", "rb", "--no-flow-records", "--json").stdout)["did"] == "replaced"
        assert "flows" not in flows(rig)
        assert "flow_records" not in rig.status()


def test_the_daemon_keeps_them(rig, daemon):
    rig.unshape()
    daemon.configure('[rb]\nshape = "1gbit"\nbands = false\nflow_records = true\n')
    daemon.start()
    until(lambda: daemon.metric("attached", dev="rb") == 1, "the law on rb")
    assert flows(rig)["flows"] == []
    daemon.looked()
    assert daemon.metric("attaches_total", dev="rb") == 1
    daemon.configure('[rb]\nshape = "1gbit"\nbands = false\nflow_records = false\n')
    daemon.process.send_signal(signal.SIGHUP)
    until(lambda: "flows" not in flows(rig), "no records")
    daemon.stop()
    rig.weir("detach", "rb")


def test_laws_without_records_are_refused(rig):
    rig.unshape()
    tree(rig, {"1:10": "1gbit", "1:20": "1gbit"})
    for words in (("--class", "1:10"), ("--coupled", "1:10,1:20", "--peer", rig.peer)):
        assert rig.weir("attach", "rb", "--flow-records", *words, check=False).returncode == 1
    with rig.attached("--class", "1:10"):
        assert rig.weir("flows", "rb", check=False).returncode == 1
        assert json.loads(rig.weir("flows", "--json").stdout) == []
    rig.unshape()


SINK = """
import selectors, socket
waiting = selectors.DefaultSelector()
for family, host in ((socket.AF_INET, "10.9.0.2"), (socket.AF_INET6, "fd00::2")):
    listener = socket.socket(family)
    listener.bind((host, 5001))
    listener.listen()
    datagrams = socket.socket(family, socket.SOCK_DGRAM)
    datagrams.bind((host, 5001))
    waiting.register(listener, selectors.EVENT_READ, True)
    waiting.register(datagrams, selectors.EVENT_READ, False)
print(flush=True)
while True:
    for key, _ in waiting.select():
        if key.data:
            waiting.register(key.fileobj.accept()[0], selectors.EVENT_READ, False)
        elif not key.fileobj.recv(65536):
            waiting.unregister(key.fileobj)
"""
SEND = """
import socket, sys, time
kind, host, to, pause_s, size = sys.argv[1:]
family = socket.AF_INET6 if ":" in host else socket.AF_INET
out = socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
out.bind((host, 0))
out.connect((to, 5001))
while True:
    out.send(bytes(int(size)))
    time.sleep(float(pause_s))
"""


@contextlib.contextmanager
def hosts_that_send(rig) -> Iterator[None]:
    """TCP of an IPv4 and of an IPv6 host, a call, and a flood of twice the line."""
    rig.sender.sh(
        "for i in 7 8; do ip addr add 10.9.0.$i/24 dev a0; done; echo 0 > /proc/sys/net/ipv6/conf/a0/disable_ipv6;"
        "ip addr add fd00::1/64 dev a0 nodad; ip -6 neigh replace fd00::2 lladdr 02:00:00:00:00:02 dev a0"
    )
    rig.receiver.sh(
        "for i in 7 8; do ip neigh replace 10.9.0.$i lladdr 02:00:00:00:00:01 dev b0; done;"
        "echo 0 > /proc/sys/net/ipv6/conf/b0/disable_ipv6; ip addr add fd00::2/64 dev b0 nodad;"
        "ip -6 neigh replace fd00::1 lladdr 02:00:00:00:00:01 dev b0"
    )
    senders = [
        ("tcp", "10.9.0.7", "10.9.0.2", 0, 65536), ("tcp", "fd00::1", "fd00::2", 0, 65536),
        ("udp", "10.9.0.8", "10.9.0.2", 0.002, 1000), ("udp", "10.9.0.1", "10.9.0.2", 0.02, 160),
    ]  # fmt: skip
    running = [rig.receiver.start(sys.executable, "-c", SINK, stdout=-1)]
    try:
        running[0].stdout.readline()
        running += [rig.sender.start(sys.executable, "-c", SEND, *map(str, words)) for words in senders]
        yield
    finally:
        for process in reversed(running):
            process.kill()
            process.wait()
        rig.sender.sh(
            "for i in 7 8; do ip addr del 10.9.0.$i/24 dev a0; done; echo 1 > /proc/sys/net/ipv6/conf/a0/disable_ipv6"
        )
        rig.receiver.sh("echo 1 > /proc/sys/net/ipv6/conf/b0/disable_ipv6")


def top(rig, *words: str) -> dict[str, dict]:
    """Rows by name."""
    command = ("env", f"PYTHONPATH={REPO / 'controller'}", sys.executable, "-m", "weir.cli", "top", "--bpf", "rb")
    said = rig.router.run(*command, "--once", "--json", *words).stdout
    return {row["name"]: row for row in json.loads(said)["rows"]}


def test_top_finds_the_flow_that_does_not_respond(rig, attach):
    with attach("--shape", "2mbit", "--bands", "--flow-records"), hosts_that_send(rig):
        hosts: dict[str, dict] = {}

        def found() -> bool:
            hosts.clear()
            hosts.update(top(rig, "--by", "host", "--host", "source", "--seconds", "2"))
            classes = {name: set(row["flows"]) for name, row in hosts.items()}
            return len(hosts) == 4 and classes["10.9.0.8"] == {"unresponsive"} and classes["10.9.0.1"] == {"sparse"}

        until(found, "the flood is called unresponsive, the call sparse")
        kinds = top(rig, "--by", "kind", "--seconds", "0.2")
    assert set(hosts) == {"10.9.0.7", "fd00::1", "10.9.0.8", "10.9.0.1"}
    assert [name for name, row in hosts.items() if "unresponsive" in row["flows"]] == ["10.9.0.8"]
    assert max(hosts, key=lambda name: hosts[name]["bit_s"]) == "10.9.0.8"
    assert hosts["10.9.0.8"]["drop_share"] > 0.1
    assert hosts["10.9.0.1"]["delay_mean_us"] < hosts["10.9.0.8"]["delay_mean_us"]
    assert set(kinds) == {"ahead", "small", "large", "spilled", "stranger"}
