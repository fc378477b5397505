# SPDX-License-Identifier: Apache-2.0
"""Throughput advice of p4/programs/pid_delay_scone.p4 on real interfaces, byte for byte against the golden model."""

from random import Random

import pytest
from p4_packets import ip4, ip6, routed, tagged
from p4_rig import PROGRAM, P4Rig, basic_config
from scapy.all import TCP, UDP, IPOption, Packet, Raw
from scapy.layers.inet import IP
from scone_packets import ADVICE, LEFT_ALONE, PAYLOADS, SCONE

from weir import scone, scone_vectors
from weir.p4runtime.entities import Exact, TableEntry

WITH_ADVICE = PROGRAM.with_name("pid_delay_scone.p4")
PORTS = (1, 2, 3, 4)
SIGNALS = {2: ADVICE, 3: 0, 4: scone.GREATEST}
"""By port; port 1 has none."""
SECTIONS = "".join(f"[advice.port.{n}]\nrate_mbit_s = {mbit_s}\n" for n, mbit_s in ((2, 8), (3, 0.1), (4, 1e6)))


def with_options(**fields) -> Packet:
    return ip4(**fields, options=[IPOption(b"\x94\x04\0\0")])


def tagged4(**fields) -> Packet:
    return tagged(ip4(**fields), 3)


def tagged6(**fields) -> Packet:
    return tagged(ip6(**fields), 3)


BUILDS = {"ipv4": ip4, "options": with_options, "ipv6": ip6, "tag4": tagged4, "tag6": tagged6}


class Flows:
    """Packets of a flow each: rewrites of one flow are limited."""

    def __init__(self) -> None:
        self.port = 1024

    def pair(self, build, payload: bytes, to: int, signal: int | None, **udp: int) -> tuple[bytes, bytes]:
        """A frame to a station, and the frame that it should get: by scapy, checksums too."""
        self.port += 1
        found = []
        for load in (payload, payload if signal is None else scone.advised(payload, signal)):
            made = build(to=to, load=load)
            made[UDP].sport = self.port
            for name, value in udp.items():
                setattr(made[UDP], name, value)
            found.append(made)
        return bytes(found[0]), routed(found[1], to)


FLOWS = Flows()


@pytest.fixture(scope="module")
def switch(target, tmp_path_factory):
    switch = P4Rig(target, tmp_path_factory.mktemp("advice"), ports=PORTS)
    try:
        switch.deploy(basic_config(PORTS, SECTIONS), main=WITH_ADVICE)
        yield switch
    finally:
        switch.close()


def check(switch: P4Rig, to: int, pairs: list[tuple[bytes, bytes]], advised: int) -> None:
    before = switch.count("advised", to)[0]
    assert switch.exchange([(1, sent) for sent, _ in pairs], [to])[to] == [wanted for _, wanted in pairs]
    assert switch.count("advised", to)[0] - before == advised


@pytest.mark.parametrize("build", BUILDS.values(), ids=BUILDS)
def test_scone_packets_alone_are_rewritten_and_only_lowered(switch, build):
    both = [*PAYLOADS.values(), *LEFT_ALONE.values()]
    check(switch, 2, [FLOWS.pair(build, payload, 2, ADVICE) for payload in both], len(PAYLOADS))


@pytest.mark.parametrize(("to", "signal"), [(2, ADVICE), (3, 0), (4, scone.GREATEST), (1, None)])
def test_the_vectors(switch, to, signal):
    payloads = scone_vectors.payloads(Random(9287))
    pairs = [FLOWS.pair(ip4, payload, to, signal) for payload in payloads]
    advised = [payload for payload in payloads if signal is not None and scone.advised(payload, signal) != payload]
    check(switch, to, pairs, len(advised))


def test_any_payload(switch):
    """Bytes changed at random in payloads with SCONE packets, and the payloads cut."""
    random = Random(7)
    payloads = []
    for _ in range(200):
        payload = bytearray(random.choice(list(PAYLOADS.values())))
        for _ in range(random.randrange(3)):
            payload[random.randrange(min(20, len(payload)))] = random.randrange(256)
        payloads.append(bytes(payload[: random.choice((len(payload), random.randrange(len(payload) + 1)))]))
    advised = sum(scone.advised(payload, ADVICE) != payload for payload in payloads)
    assert 20 < advised < len(payloads)
    check(switch, 2, [FLOWS.pair(random.choice((ip4, ip6)), payload, 2, ADVICE) for payload in payloads], advised)


def test_a_datagram_without_a_checksum_stays_without(switch):
    check(switch, 2, [FLOWS.pair(ip4, SCONE, 2, ADVICE, chksum=0)], 1)


def test_a_checksum_never_becomes_that_of_none(switch):
    """The payload is chosen so that the new checksum is 0xffff, which RFC 768 puts for 0."""
    port = FLOWS.port
    _, frame = FLOWS.pair(ip4, scone.advised(SCONE + bytes(2 + len(SCONE) % 2), ADVICE), 2, None)
    FLOWS.port = port
    check_word = frame[40:42]
    sent, wanted = FLOWS.pair(ip4, SCONE + bytes(len(SCONE) % 2) + check_word, 2, ADVICE)
    assert wanted[40:42] == b"\xff\xff"
    check(switch, 2, [(sent, wanted)], 1)


def test_other_packets_are_as_they_were(switch):
    """UDP lengths beyond the frame, within the SCONE packet and below a UDP header; TCP; a fragment."""
    pairs = [
        FLOWS.pair(build, SCONE, 2, None, len=length)
        for build in (ip4, ip6)
        for length in (8 + len(SCONE) + 20, 8 + 15, 7)
    ]
    tcp, fragment = ip4(), ip4(load=SCONE, flags="MF")
    tcp[IP].remove_payload()
    tcp = tcp / TCP() / Raw(SCONE)
    pairs += [(bytes(made), routed(made, 2)) for made in (tcp, fragment)]
    check(switch, 2, pairs, 0)


def test_a_flow_is_rewritten_a_few_times_and_then_rests(switch):
    sent, wanted = FLOWS.pair(ip4, SCONE, 2, ADVICE)
    FLOWS.port -= 1
    _, unchanged = FLOWS.pair(ip4, SCONE, 2, None)
    got = switch.exchange([(1, sent)] * 12, [2])[2]
    # a fifth as soon as the clock has advanced
    assert got.count(wanted) in (scone.REWRITES_AT_ONCE, scone.REWRITES_AT_ONCE + 1)
    assert got == [wanted] * got.count(wanted) + [unchanged] * (12 - got.count(wanted))
    check(switch, 2, [FLOWS.pair(ip4, SCONE, 2, ADVICE)], 1)


def test_deploy_changes_and_removes_the_advice(target, tmp_path):
    switch = P4Rig(target, tmp_path, ports=(1, 2))
    try:
        for rate, signal in ((8, ADVICE), (1, 20), (None, None)):
            sections = "" if rate is None else f"[advice.port.2]\nrate_mbit_s = {rate}\n"
            switch.deploy(basic_config((1, 2), sections), main=WITH_ADVICE)
            entries = list(switch.client.read(TableEntry("advice")))
            assert [entry.match for entry in entries] == [{"egress_port": Exact(2)}] * (signal is not None)
            check(switch, 2, [FLOWS.pair(ip4, SCONE, 2, signal)], int(signal is not None))
    finally:
        switch.close()
