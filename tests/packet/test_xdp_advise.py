# SPDX-License-Identifier: Apache-2.0
"""Throughput advice in SCONE packets (`--advise`): byte for byte, by BPF_PROG_TEST_RUN and on the wire."""

import socket

import pytest
from packet_rig import Failed
from scapy.all import IP, TCP, UDP, Dot1Q, Ether, IPv6, Raw
from scone_packets import ADVICE, LEFT_ALONE, PAYLOADS, QUIC, SCONE

from weir import scone

ETHER = {"src": "02:00:00:00:00:01", "dst": "02:00:00:00:00:02"}


def ipv4(payload: bytes, **udp: int) -> Ether:
    return Ether(**ETHER) / IP(src="10.9.0.1", dst="10.9.0.2", id=7) / UDP(sport=4433, dport=5000, **udp) / Raw(payload)


def ipv6(payload: bytes) -> Ether:
    return Ether(**ETHER) / IPv6(src="fd00::1", dst="fd00::2") / UDP(sport=4433, dport=5000) / Raw(payload)


def tagged(payload: bytes) -> Ether:
    inner = ipv4(payload)
    return Ether(**ETHER) / Dot1Q(vlan=3) / inner[IP]


def of_flow(port: int, payload: bytes = SCONE) -> bytes:
    """A frame of a flow of its own: rewrites of one flow are limited."""
    frame = ipv4(payload)
    frame[UDP].sport = port
    return bytes(frame)


BUILDS = {"ipv4": ipv4, "ipv6": ipv6, "vlan": tagged}
PROGRAMS = {
    "veth": (("--peer", "ra"), "prog_weir_egress"),
    "virtual-tc": (("--rate", "100gbit", "--hook", "tc"), "prog_weir_egress"),
    "virtual-xdp": (("--rate", "100gbit"), "prog_weir_ingress"),
    "poll": (("--signal", "poll"), "prog_weir_egress"),
    "backlog": (("--signal", "backlog"), "prog_weir_egress"),
}


@pytest.fixture(scope="module")
def shaped(rig):
    rig.shape()
    yield rig
    rig.unshape()


def advised(build, payload: bytes) -> bytes:
    """The frame with advice, whose checksums scapy computes."""
    return bytes(build(scone.advised(payload, ADVICE)))


@pytest.fixture(params=list(PROGRAMS))
def program(request, shaped):
    options, name = PROGRAMS[request.param]
    with shaped.attached(*options, "--fixed-probability", "0", "--advise", "8mbit"):
        yield shaped, f"{shaped.pins()}/{name}"


def test_scone_packets_alone_are_rewritten_and_only_lowered(program):
    rig, pin = program
    rewritten = 0
    for kind, build in BUILDS.items():
        for name, payload in PAYLOADS.items():
            want = advised(build, payload)
            frame = bytes(build(payload))
            out = rig.program_run(pin, frame)[1]
            rewritten += out != frame
            # rewrites of a flow, and all of these are of three, are limited
            assert out in (want, frame), (kind, name)
        for name, payload in LEFT_ALONE.items():
            frame = bytes(build(payload))
            assert rig.program_run(pin, frame)[1] == frame, (kind, name)
    assert rig.status()["counters"]["advised"] == rewritten > 0


def test_each_kind_of_scone_packet_is_rewritten(program):
    rig, pin = program
    for port, (name, payload) in enumerate(PAYLOADS.items(), 6000):
        frame = of_flow(port, payload)
        want = of_flow(port, scone.advised(payload, ADVICE))
        assert rig.program_run(pin, frame)[1] == want != frame, name
    for build in (ipv6, tagged):
        assert rig.program_run(pin, bytes(build(SCONE)))[1] == advised(build, SCONE)


def test_other_packets_are_as_they_were(program):
    rig, pin = program
    tcp = Ether(**ETHER) / IP(src="10.9.0.1", dst="10.9.0.2") / TCP(sport=4433, dport=5000) / Raw(SCONE)
    fragment = ipv4(SCONE)
    fragment[IP].flags = "MF"
    longer = ipv4(SCONE, len=8 + len(SCONE) + 20)
    shorter = ipv4(SCONE, len=8 + 15)
    for other in (tcp, fragment, longer, shorter, Ether(**ETHER, type=0x88B6) / Raw(SCONE)):
        assert rig.program_run(pin, bytes(other))[1] == bytes(other), other.summary()
    assert rig.status()["counters"]["advised"] == 0


def test_a_datagram_without_a_checksum_stays_without(program):
    rig, pin = program
    out = rig.program_run(pin, bytes(ipv4(SCONE, chksum=0)))[1]
    assert out == bytes(ipv4(scone.advised(SCONE, ADVICE), chksum=0))


def test_a_checksum_never_becomes_that_of_none(program):
    """The payload is chosen so that the new checksum is 0xffff, which RFC 768 puts for 0."""
    rig, pin = program
    wanted = scone.advised(SCONE + bytes(2), ADVICE)
    check = int.from_bytes(bytes(ipv4(wanted))[40:42], "big")
    payload = SCONE + check.to_bytes(2, "big") if len(SCONE) % 2 == 0 else SCONE + bytes(1) + check.to_bytes(2, "big")
    want = bytes(ipv4(scone.advised(payload, ADVICE)))
    assert want[40:42] == b"\xff\xff"
    assert rig.program_run(pin, bytes(ipv4(payload)))[1] == want


def test_a_flow_is_rewritten_a_few_times_and_then_rests(program):
    rig, pin = program
    frame, want = of_flow(7000), of_flow(7000, scone.advised(SCONE, ADVICE))
    outs = [rig.program_run(pin, frame)[1] for _ in range(12)]
    assert outs[: scone.REWRITES_AT_ONCE] == [want] * scone.REWRITES_AT_ONCE
    assert outs[-1] == frame
    assert rig.program_run(pin, of_flow(7001))[1] != of_flow(7001), "another flow has its own limit"


def test_without_advice_nothing_is_rewritten(shaped):
    with shaped.attached("--signal", "poll", "--fixed-probability", "0"):
        pin = f"{shaped.pins()}/prog_weir_egress"
        for frame in (bytes(ipv4(SCONE)), bytes(ipv6(SCONE))):
            assert shaped.program_run(pin, frame)[1] == frame
        status = shaped.status()
        assert "advise" not in status
        with pytest.raises(Failed) as refused:
            shaped.weir("set", "rb", "advise=8mbit")
        assert refused.value.status == 2


def signal_of(frame: bytes) -> int:
    return scone.signal_in(bytes(Ether(frame)[UDP].payload))


def test_advice_is_set_and_ensured(shaped):
    with shaped.attached("--signal", "poll", "--fixed-probability", "0", "--advise", "100kbit"):
        pin = f"{shaped.pins()}/prog_weir_egress"
        assert shaped.status()["advise"] == {"rate_bit_s": 100_000, "signal": 0, "signal_bit_s": 100_000}
        assert signal_of(shaped.program_run(pin, of_flow(8000))[1]) == 0
        shaped.weir("set", "rb", "advise=199gbit")
        assert signal_of(shaped.program_run(pin, of_flow(8001))[1]) == 125
        shaped.weir("set", "rb", "advise=off")
        assert shaped.program_run(pin, of_flow(8002))[1] == of_flow(8002)
        shaped.weir("ensure", "rb", "--advise", "1mbit")
        pin = f"{shaped.pins()}/prog_weir_egress"
        assert signal_of(shaped.program_run(pin, of_flow(8003))[1]) == 20
        shaped.weir("ensure", "rb")
        assert shaped.status()["advise"]["signal"] == 20, "without --advise it stays"
    for wrong in ("99kbit", "share8", "8", "-1mbit"):
        with pytest.raises(Failed):
            shaped.weir("attach", "rb", "--advise", wrong)
    with pytest.raises(Failed):
        shaped.weir("attach", "rb", "--class", "1:1", "--advise", "8mbit")


def test_a_share_is_the_line_over_its_active_flows(shaped):
    """20 Mbit/s, by one flow and by twenty: as many as twenty frames of 1500 bytes in a moment."""
    with shaped.attached("--rate", "20mbit", "--hook", "tc", "--fixed-probability", "0", "--advise", "share"):
        pin = f"{shaped.pins()}/prog_weir_egress"
        assert shaped.status()["advise"] == "share"
        assert signal_of(shaped.program_run(pin, of_flow(9000))[1]) == scone.signal_of(20_000_000)
    with shaped.attached("--rate", "20mbit", "--hook", "tc", "--fixed-probability", "0", "--advise", "share",
                         "share_shift=24"):  # fmt: skip
        pin = f"{shaped.pins()}/prog_weir_egress"
        for port in range(9100, 9120):
            shaped.program_run(pin, of_flow(port, QUIC + bytes(1400)), repeat=200)
        # Two of twenty flows share a counter in one of twenty runs. A flow's bytes halve in 17 s, so a slow machine
        # sees fewer flows.
        shares = [scone.signal_of(scone.share_bit_s(20_000_000, flows)) for flows in range(8, 21)]
        assert signal_of(shaped.program_run(pin, of_flow(9300))[1]) in shares


def test_on_the_wire(shaped):
    frames = [of_flow(port, payload) for port, payload in enumerate([*PAYLOADS.values(), *LEFT_ALONE.values()], 10_000)]
    wanted = [of_flow(port, scone.advised(payload, ADVICE)) for port, payload in enumerate(PAYLOADS.values(), 10_000)]
    with shaped.attached("--signal", "poll", "--advise", "8mbit"):
        assert shaped.through(frames) == wanted + frames[len(PAYLOADS) :]
        assert shaped.status()["counters"]["advised"] == len(PAYLOADS)


SO_ZEROCOPY, MSG_ZEROCOPY = 60, 0x4000000  # linux/socket.h


def test_a_payload_outside_of_the_linear_part(shaped):
    """As from drivers that put only headers there: MSG_ZEROCOPY leaves the payload in the sender's pages."""
    shaped.sender.sh("ethtool -K a0 tx on sg on >/dev/null")
    try:
        with shaped.attached("--signal", "poll", "--advise", "8mbit"):
            with shaped.receiver.inside():
                reads = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with shaped.sender.inside():
                sends = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            with reads, sends:
                reads.bind(("10.9.0.2", 5000))
                reads.settimeout(60)
                sends.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
                for payload in (SCONE, QUIC):
                    sends.sendto(payload, MSG_ZEROCOPY, ("10.9.0.2", 5000))
                assert reads.recv(2048) == scone.advised(SCONE, ADVICE) != SCONE
                assert reads.recv(2048) == QUIC
            assert shaped.status()["counters"]["advised"] == 1
    finally:
        shaped.sender.sh("ethtool -K a0 tx off sg off >/dev/null")
