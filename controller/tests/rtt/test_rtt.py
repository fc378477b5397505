# SPDX-License-Identifier: Apache-2.0
"""Round trips from packets: handshakes by both halves, Karn, the spin bit, and packets that are anything at all."""

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.packet import Raw, fuzz

from weir.rtt import packets
from weir.rtt.summary import RttSummary
from weir.rtt.tracker import HANDSHAKE_LIFE_US, QUIET_US, RttSample, RttTracker

A, B = ("10.0.0.1", 40000), ("10.0.0.2", 443)
A6, B6 = ("2001:db8::1", 40000), ("2001:db8::2", 443)
FLOW = "10.0.0.1:40000 > 10.0.0.2:443"


def ip(source, destination):
    return (IPv6 if ":" in source[0] else IP)(src=source[0], dst=destination[0])


def tcp(source, destination, flags, seq, ack=0, payload=b"") -> bytes:
    return bytes(
        ip(source, destination) / TCP(sport=source[1], dport=destination[1], flags=flags, seq=seq, ack=ack) / payload
    )


def udp(source, destination, payload: bytes) -> bytes:
    return bytes(ip(source, destination) / UDP(sport=source[1], dport=destination[1]) / Raw(payload))


def long_header(kind: str, version: int = packets.QUIC_V1, token: bytes = b"", payload: int = 40) -> bytes:
    types = packets._TYPES_V1 if version != packets.QUIC_V2 else packets._TYPES_V2
    head = bytes([0xC0 | types.index(kind) << 4]) + version.to_bytes(4, "big") + b"\x08" + b"d" * 8 + b"\x04ssss"
    if kind == packets.RETRY:
        return head + b"t" * 30
    tokens = bytes([len(token)]) + token if kind == packets.INITIAL else b""
    return head + tokens + (0x4000 | payload).to_bytes(2, "big") + b"p" * payload


@dataclass
class Wire:
    """Feeds a tracker; times in milliseconds."""

    tracker: RttTracker

    def __call__(self, at_ms: float, direction: str, data: bytes) -> list[RttSample]:
        return self.tracker.packet(round(at_ms * 1000), direction, data)


@pytest.fixture
def wire() -> Wire:
    return Wire(RttTracker())


@pytest.mark.parametrize(("a", "b"), [(A, B), (A6, B6)])
@pytest.mark.parametrize(("there", "back"), [("out", "in"), ("in", "out")])
def test_tcp_handshake_has_two_halves(wire, a, b, there, back) -> None:
    assert wire(0, there, tcp(a, b, "S", 2**32 - 1)) == []
    assert len(wire.tracker.wanted().acks) == 1
    assert wire(30, back, tcp(b, a, "SA", 500, 0)) == []
    [sample] = wire(32, there, tcp(a, b, "A", 0, 501))
    assert (sample.rtt_us, sample.half, sample.source) == (32000, "both", "tcp-handshake")
    assert wire.tracker.wanted().acks == ()
    assert wire(40, there, tcp(a, b, "A", 0, 501)) == []


def test_flow_is_named_from_the_client(wire) -> None:
    wire(0, "in", tcp(A, B, "S", 1))
    wire(1, "out", tcp(B, A, "SA", 5, 2))
    assert wire(2, "in", tcp(A, B, "A", 2, 6))[0].flow == f"{FLOW} tcp"


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (tcp(A, B, "PA", 2, 6, b"x"), "data waits for the application"),
        (tcp(A, B, "A", 9, 6), "a later ACK: the handshake's was missed"),
    ],
)
def test_tcp_without_its_ack_is_half_a_round_trip(wire, last, why) -> None:
    wire(0, "out", tcp(A, B, "S", 1))
    wire(30, "in", tcp(B, A, "SA", 5, 2))
    assert wire(90, "out", last) == [RttSample(f"{FLOW} tcp", 30000, "far", "tcp-handshake")], why


def test_tcp_that_never_ends_gives_its_far_half_at_last(wire) -> None:
    wire(0, "out", tcp(A, B, "S", 1))
    wire(30, "in", tcp(B, A, "SA", 5, 2))
    assert wire.tracker.expire(HANDSHAKE_LIFE_US - 1) == []
    assert wire.tracker.expire(HANDSHAKE_LIFE_US)[0].half == "far"
    assert not wire.tracker.pending


def test_a_retransmitted_syn_tells_nothing(wire) -> None:
    wire(0, "out", tcp(A, B, "S", 1))
    wire(1000, "out", tcp(A, B, "S", 1))
    assert wire(1030, "in", tcp(B, A, "SA", 5, 2)) == []
    assert wire(1031, "out", tcp(A, B, "A", 2, 6)) == []


def test_a_retransmitted_syn_ack_leaves_the_far_half(wire) -> None:
    wire(0, "out", tcp(A, B, "S", 1))
    wire(30, "in", tcp(B, A, "SA", 5, 2))
    assert wire(1030, "in", tcp(B, A, "SA", 5, 2)) == [RttSample(f"{FLOW} tcp", 30000, "far", "tcp-handshake")]
    assert wire(1031, "out", tcp(A, B, "A", 2, 6)) == []


def connected(wire) -> None:
    """A's flow to B with halves of 30 and 2 ms; A's data begins at 2**32 - 2000."""
    wire(0, "out", tcp(A, B, "S", 2**32 - 2001))
    wire(30, "in", tcp(B, A, "SA", 5, 2**32 - 2000))
    assert len(wire(32, "out", tcp(A, B, "A", 2**32 - 2000, 6))) == 1


def test_data_and_their_acks_follow_the_round_trip(wire) -> None:
    connected(wire)
    assert len(wire.tracker.wanted().data) == 2
    told, seq = [], 2**32 - 2000
    for i, far_ms in enumerate((60, 900, 60, 60)):  # the way has become longer; one segment was lost and sent again
        at_ms = 1000 * i + 100
        end = (seq + 1000) % 2**32
        assert wire(at_ms, "out", tcp(A, B, "A", seq % 2**32, 6, bytes(1000))) == []
        [(_, covered)] = wire.tracker.wanted().covers
        assert covered == end
        assert wire(at_ms + 1, "in", tcp(B, A, "A", 6, seq % 2**32)) == []  # not yet
        told += wire(at_ms + far_ms, "in", tcp(B, A, "A", 6, (end + 500) % 2**32))
        assert wire.tracker.wanted().data == ()  # for a while
        wire.tracker.expire((at_ms + far_ms) * 1000 + 500_000)
        seq += 2000
    assert told == [RttSample(f"{FLOW} tcp", 62000, "both", "tcp-ack")] * 2


def test_a_flow_that_has_fallen_silent_is_watched_no_longer(wire) -> None:
    connected(wire)
    wire(100, "in", tcp(B, A, "A", 6, 2**32 - 2000, bytes(500)))
    assert len(wire.tracker.wanted().covers) == 1
    wire.tracker.expire(100_000 + QUIET_US)
    assert not wire.tracker.pending


def test_a_refused_or_foreign_answer_tells_nothing(wire) -> None:
    wire(0, "out", tcp(A, B, "S", 1))
    assert wire(1, "in", tcp(B, A, "SA", 5, 77)) == []
    assert wire(2, "out", tcp(B, A, "SA", 5, 2)) == []  # same direction as the SYN
    assert wire(3, "in", tcp(B, A, "RA", 0, 2)) == []
    assert wire(4, "in", tcp(B, A, "SA", 5, 2)) == []
    assert not wire.tracker.pending


@pytest.mark.parametrize("version", [packets.QUIC_V1, packets.QUIC_V2, 0xFF00001D])
def test_quic_handshake_leaves_out_the_servers_own_time(wire, version) -> None:
    def flight(*kinds):
        return b"".join(long_header(kind, version) for kind in kinds)

    wire(0, "out", udp(A, B, flight("initial", "0-rtt")))
    wire(1, "out", udp(A, B, flight("0-rtt")))
    wire(30, "in", udp(B, A, flight("initial")))  # acknowledged at once,
    wire(90, "in", udp(B, A, flight("initial", "handshake")))  # answered later
    wire(91, "in", udp(B, A, flight("handshake")))
    assert wire(91, "out", udp(A, B, flight("initial"))) == []
    [sample] = wire(95, "out", udp(A, B, flight("initial", "handshake") + b"\x40short"))
    assert sample == RttSample(f"{FLOW} quic", 35000, "both", "quic-handshake")
    for kinds in (("initial",), ("handshake",)):  # the rest of it resembles no other handshake
        assert wire(96, "out", udp(A, B, flight(*kinds))) == []
        assert wire(97, "in", udp(B, A, flight(*kinds))) == []


def test_quic_retry(wire) -> None:
    wire(0, "out", udp(A, B, long_header("initial")))
    wire(30, "in", udp(B, A, long_header("retry")))
    [sample] = wire(33, "out", udp(A, B, long_header("initial", token=b"token")))
    assert (sample.rtt_us, sample.half) == (33000, "both")


def test_a_retransmitted_initial_tells_nothing(wire) -> None:
    wire(0, "out", udp(A, B, long_header("initial")))
    wire(1000, "out", udp(A, B, long_header("initial")))
    assert wire(1030, "in", udp(B, A, long_header("initial") + long_header("handshake"))) == []
    assert wire(1035, "out", udp(A, B, long_header("handshake"))) == []


def test_a_retransmitted_flight_leaves_the_far_half(wire) -> None:
    wire(0, "out", udp(A, B, long_header("initial")))
    wire(30, "in", udp(B, A, long_header("handshake")))
    [sample] = wire(300, "in", udp(B, A, long_header("handshake")))
    assert (sample.rtt_us, sample.half) == (30000, "far")
    assert wire(310, "out", udp(A, B, long_header("handshake"))) == []


def handshake(wire, at_ms: float, rtt_ms: float, a=A, b=B) -> None:
    wire(at_ms, "out", udp(a, b, long_header("initial")))
    wire(at_ms + rtt_ms, "in", udp(b, a, long_header("initial") + long_header("handshake")))
    assert len(wire(at_ms + rtt_ms, "out", udp(a, b, long_header("handshake")))) == 1


def short(value: bool) -> bytes:
    return b"\x60data" if value else b"\x40data"


def test_spin_bit_edges(wire) -> None:
    handshake(wire, 0, 50)
    told = []
    for i in range(1000):  # 1 ms apart; the bit turns every 40 ms, and a packet comes late after each edge
        turn, since = divmod(i, 40)
        told += wire(100 + i, "in", udp(B, A, short(turn % 2 == (since != 3))))
    assert len(told) == 23
    assert {(sample.rtt_us, sample.half, sample.source) for sample in told} == {(40000, "both", "spin-bit")}
    (_, client_wants), (_, server_wants) = wire.tracker.wanted().spins
    assert client_wants is None
    assert server_wants is not None  # only the next edge is asked for


def test_a_bit_that_is_random_or_never_turns_is_watched_no_longer(wire) -> None:
    handshake(wire, 0, 50)
    for i in range(200):
        assert wire(100 + i / 10, "in", udp(B, A, short(i * i % 7 < 3))) == []
    assert wire.tracker.wanted().spins == ()
    handshake(wire, 6000, 50)
    assert wire(6100, "in", udp(B, A, short(False))) == []
    assert len(wire.tracker.wanted().spins) == 2
    wire.tracker.expire(6_200_000 + QUIET_US)
    assert wire.tracker.wanted().spins == ()


def test_memory_is_bounded() -> None:
    tracker = RttTracker(max_pending=16, max_watched=2, max_armed=4)
    wire = Wire(tracker)
    for i in range(300):
        a = (f"10.1.{i >> 8}.{i & 255}", 1000 + i)
        wire(i / 100, "in", tcp(a, B, "S", i))
        handshake(wire, i / 100, 0.001, a)
    assert len(tracker._tcp) == len(tracker._quic) == 16
    assert len(tracker._spinning.waiting) <= 16
    assert len(tracker.wanted().acks) == 4
    assert len(tracker.wanted().spins) == 4


@given(st.lists(st.tuples(st.integers(0, 2**40), st.sampled_from(["in", "out"]), st.binary(max_size=120))))
def test_any_bytes_at_any_time(seen) -> None:
    tracker = RttTracker()
    for now_us, direction, data in seen:
        tracker.packet(now_us, direction, data)


VALID = [
    tcp(A, B, "S", 1), tcp(B, A, "SA", 5, 2), tcp(A, B, "A", 2, 6), tcp(A6, B6, "S", 1), tcp(B6, A6, "SA", 5, 2),
    udp(A, B, long_header("initial", token=b"t") + long_header("handshake")), udp(B, A, long_header("retry")),
    udp(B, A, long_header("initial") + long_header("handshake")), udp(A, B, short(True)), udp(B, A, short(False)),
]  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.tuples(st.sampled_from(VALID), st.integers(0, 120), st.integers(0, 119), st.integers(0, 255))))
def test_packets_cut_short_and_changed(seen) -> None:
    tracker = RttTracker()
    for at, (data, length, where, value) in enumerate(seen):
        data = bytearray(data[:length] if length < 100 else data)
        if where < len(data):
            data[where] = value
        for sample in tracker.packet(at * 1000, "out" if at % 2 else "in", bytes(data)):
            assert 0 < sample.rtt_us <= len(seen) * 1000


def test_scapys_nonsense() -> None:
    tracker = RttTracker()
    for i in range(300):
        for packet in (
            IP() / fuzz(TCP()),
            IP() / fuzz(UDP()) / VALID[5][28:],
            fuzz(IP()) / TCP(),
            IPv6() / fuzz(TCP()),
        ):
            tracker.packet(i, "in", bytes(packet))


def test_fragments_are_left_alone(wire) -> None:
    syn = IP(src=A[0], dst=B[0], flags="MF") / TCP(sport=A[1], dport=B[1], flags="S")
    wire(0, "in", bytes(syn))
    assert not wire.tracker.pending


def sample_of(flow: str, rtt_us: int, half: str = "both", source: str = "tcp-handshake") -> RttSample:
    return RttSample(flow, rtt_us, half, source)


def test_summary_is_the_median_over_flows_and_the_least() -> None:
    summary = RttSummary(flows=3, window_us=1000)
    assert summary.at(0) is None
    for i, rtt_us in enumerate((1, 100, 130, 160)):  # the first falls out
        summary.add(sample_of(str(i), rtt_us), i)
    for _ in range(50):  # a talkative flow weighs no more
        summary.add(sample_of("3", 160, source="spin-bit"), 10)
    found = summary.at(10)
    assert (found.rtt_us, found.spread_us, found.base_us, found.flows) == (130, 30, 100, 3)
    assert (found.source, found.lower_bound) == ("tcp-handshake", False)
    assert summary.at(1008).flows == 1
    assert summary.at(1011) is None


def test_summary_takes_far_halves_only_for_want_of_whole_ones() -> None:
    summary = RttSummary()
    summary.add(sample_of("a", 30, half="far"), 0)
    assert summary.at(0).lower_bound
    summary.add(sample_of("b", 50), 1)
    assert (summary.at(1).rtt_us, summary.at(1).base_us, summary.at(1).lower_bound) == (50, 50, False)
