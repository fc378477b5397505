# SPDX-License-Identifier: Apache-2.0
"""Round-trip times from the packets that pass one interface; pure, with bounded memory.

An observer between two ends sees the round trip in two halves: to the end that answers and back (`far`), and to the end
that began and back (near). Both together are the RTT:

- TCP: SYN, SYN/ACK, and the ACK that ends the handshake. From then on now and then a segment with data and the first
  ACK that covers it, which measure one half anew; the other is as the handshake had it.
- QUIC (RFC 9000, 9369): the client's first Initial, the server's first answer; the server's first Handshake packet, the
  client's first one, which both ends owe at once (RFC 9000 13.2.1). The server's own time between the two is left out.
  With a Retry: Initial, Retry, Initial with token.
- QUIC's spin bit (RFC 9000 17.4): the time between its edges in one direction. Both ends must spin; most don't.

Retransmitted packets give no sample, since nobody knows which of the two was answered (Karn). Packets are timed where
the interface sends or receives them: an outgoing SYN has waited in the interface's queue already, the ACK's wait is in
the RTT.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from . import packets
from .packets import Address, Datagram, Segment

HANDSHAKE_LIFE_US = 5_000_000  # an unanswered one never will be; longer than a SYN's first two retransmissions
BURST_US = 25_000  # a flight of several datagrams is sent within this; later ones are retransmissions
QUIET_US = 5_000_000  # a watched flow without an edge for so long doesn't spin, or has ended
TURN_US = 30_000_000  # a watched flow makes room for another after this
PROBE_US = 500_000  # between two segments of a TCP flow that are timed
PROBES = 3  # the middle one of so many stands: one may have been lost, sent twice, or acknowledged late
SPIN_MAX_US = 10_000_000
NOISE_MAX = 16  # changes of the spin bit too soon after an edge: more of them are no reordering but a random bit
_KIND = packets.SYN | packets.ACK | packets.RST | packets.FIN

Key = tuple[Address, Address]


@dataclass(frozen=True, slots=True)
class RttSample:
    """One measurement. flow: `CLIENT > SERVER tcp|quic`. half: "both", or "far" when the near half was not seen: then
    the RTT is at least this. source: "tcp-handshake", "tcp-ack", "quic-handshake" or "spin-bit"."""

    flow: str
    rtt_us: int
    half: str
    source: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """The packets beyond handshakes that would give samples, by their ports (source << 16 | destination): acks, TCP
    segments of any kind; data, those with a payload; covers, those that acknowledge this number or a later one; spins,
    short-header QUIC datagrams with a spin bit of this value (None: either)."""

    acks: tuple[int, ...] = ()
    data: tuple[int, ...] = ()
    covers: tuple[tuple[int, int], ...] = ()
    spins: tuple[tuple[int, bool | None], ...] = ()


@dataclass(slots=True)
class _Tcp:
    direction: str
    syn_us: int
    syn: Segment
    answer_us: int = 0
    answer: Segment | None = None
    spoilt: bool = False


@dataclass(slots=True)
class _Quic:
    direction: str
    initial_us: int
    far_us: int | None = None
    retry_us: int | None = None
    handshake_us: int | None = None
    done: bool = False


@dataclass(slots=True)
class _Spin:
    """One direction of a watched flow: its bit's value, since when, and whether the edge to it was seen."""

    value: bool | None = None
    since_us: int = 0
    edge_seen: bool = False
    noise: int = 0


@dataclass(slots=True)
class _Spinning:
    """A QUIC flow watched for its spin bit."""

    rtt_us: int
    ways: dict[Key, _Spin] = field(default_factory=dict)
    since_us: int = 0
    heard_us: int = 0


@dataclass(slots=True)
class _Probed:
    """A TCP flow some of whose segments are timed. halves: by the way a packet goes, from here to that end and back.
    way: of the segment under way, or None; acked_by: what an ACK for it acknowledges."""

    halves: dict[Key, int]
    way: Key | None = None
    acked_by: int = 0
    sent_us: int = 0
    paused_until_us: int | None = None
    told_way: Key | None = None
    told: list[int] = field(default_factory=list)
    since_us: int = 0
    heard_us: int = 0


Flow = TypeVar("Flow", _Spinning, _Probed)


class _Turns(Generic[Flow]):
    """Flows that are watched, a few at a time, and those that wait for their turn."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.waiting: OrderedDict[Key, Flow] = OrderedDict()
        self.watched: dict[Key, Flow] = {}

    def add(self, key: Key, flow: Flow, now_us: int) -> None:
        self.watched.pop(key, None)
        self.waiting.pop(key, None)
        _make_room(self.waiting, 8 * self.most)
        self.waiting[key] = flow
        self.turn(now_us)

    def turn(self, now_us: int) -> None:
        for key, flow in list(self.watched.items()):
            is_quiet = now_us - flow.heard_us >= QUIET_US
            if is_quiet or (self.waiting and now_us - flow.since_us >= TURN_US):
                del self.watched[key]
                if not is_quiet:
                    self.waiting[key] = flow
        while self.waiting and len(self.watched) < self.most:
            key, flow = self.waiting.popitem(last=False)
            flow.since_us = flow.heard_us = now_us
            self.watched[key] = flow

    def of(self, way: Key) -> tuple[Key, Flow] | None:
        """The watched flow of a packet, by whichever end sent it, and its key."""
        for key in (way, way[::-1]):
            if key in self.watched:
                return key, self.watched[key]
        return None


def _name(key: Key, protocol: str) -> str:
    return f"{packets.text(key[0])} > {packets.text(key[1])} {protocol}"


def _word(key: Key) -> int:
    return key[0][1] << 16 | key[1][1]


class RttTracker:
    """Feed it the packets of one interface; it returns the samples that each one completes. Handshakes under way are
    bounded by `max_pending` for each protocol (the oldest goes), flows watched beyond them by `max_watched` for
    each."""

    def __init__(self, max_pending: int = 256, max_watched: int = 8, max_armed: int = 32) -> None:
        self._max_pending, self._max_watched, self._max_armed = max_pending, max_watched, max_armed
        self.forget()

    def forget(self) -> None:
        """Start anew: packets have been missed, and pending measurements can't be trusted."""
        self._tcp: OrderedDict[Key, _Tcp] = OrderedDict()
        self._quic: OrderedDict[Key, _Quic] = OrderedDict()
        self._spinning: _Turns[_Spinning] = _Turns(self._max_watched)
        self._probed: _Turns[_Probed] = _Turns(self._max_watched)

    def packet(self, now_us: int, direction: str, data: bytes) -> list[RttSample]:
        """`data` from the IP header on, seen at `now_us` (any clock that doesn't go back) going "in" or "out"."""
        done = self.expire(now_us)
        found = packets.parse(data)
        if isinstance(found, Segment):
            done += self._segment(now_us, direction, found)
        elif isinstance(found, Datagram):
            done += self._long(now_us, direction, found) if found.types else self._short(now_us, found)
        return done

    def expire(self, now_us: int) -> list[RttSample]:
        """Give up entries that have waited too long; of a TCP handshake whose end was not seen the far half remains."""
        done = []
        for table, began in ((self._tcp, lambda e: e.syn_us), (self._quic, lambda e: e.initial_us)):
            while table:
                key, entry = next(iter(table.items()))
                if now_us - began(entry) < HANDSHAKE_LIFE_US:
                    break
                del table[key]
                if isinstance(entry, _Tcp):
                    done += self._far(key, entry)
        self._spinning.turn(now_us)
        self._probed.turn(now_us)
        for flow in self._probed.watched.values():
            if flow.paused_until_us is not None and now_us >= flow.paused_until_us:
                flow.paused_until_us = None
        return done

    def wanted(self) -> Wanted:
        """Packets worth seeing now. Handshakes that have been answered come first, then the newest."""
        waiting = [(entry.answer is not None, entry.syn_us, _word(key)) for key, entry in self._tcp.items()]
        acks = sorted(waiting, reverse=True)[: self._max_armed]
        flows = self._spinning.watched.values()
        spins = [(_word(way), spin.value) for flow in flows for way, spin in flow.ways.items()]
        probed = self._probed.watched.items()
        return Wanted(
            acks=tuple(sorted({word for _, _, word in acks})),
            data=tuple(
                _word(way)
                for key, flow in probed
                if flow.way is None and flow.paused_until_us is None
                for way in (key, key[::-1])
            ),
            covers=tuple((_word(flow.way[::-1]), flow.acked_by) for _, flow in probed if flow.way is not None),
            spins=tuple((word, None if value is None else not value) for word, value in spins),
        )

    @property
    def pending(self) -> bool:
        """Whether `expire` has anything to wait for."""
        return bool(self._tcp or self._quic or self._spinning.watched or self._probed.watched)

    # ---- TCP ----

    def _segment(self, now_us: int, direction: str, seen: Segment) -> list[RttSample]:
        key = (seen.source, seen.destination)
        if seen.flags & _KIND == packets.SYN:
            entry = self._tcp.get(key)
            if entry and entry.syn.seq == seen.seq:
                entry.spoilt = True
            else:
                self._tcp.pop(key, None)
                _make_room(self._tcp, self._max_pending)
                self._tcp[key] = _Tcp(direction, now_us, seen)
            return []
        back = key[::-1]
        if seen.flags & (packets.RST | packets.FIN):
            self._tcp.pop(key, None)
            self._tcp.pop(back, None)
            return []
        if seen.flags & packets.SYN:
            return self._syn_ack(now_us, direction, back, seen)
        entry = self._tcp.get(key)
        if entry is None:
            return self._probe(now_us, key, seen)
        if entry.answer is None or direction != entry.direction:
            return []
        del self._tcp[key]
        ends = seen.ack == (entry.answer.seq + 1) % 2**32 and seen.seq == entry.answer.ack and not seen.payload_bytes
        if not ends or entry.spoilt:  # data waits for the application: it tells no time
            return self._far(key, entry)
        halves = {key: entry.answer_us - entry.syn_us, key[::-1]: now_us - entry.answer_us}
        self._probed.add(key, _Probed(halves), now_us)
        return _checked(_name(key, "tcp"), now_us - entry.syn_us, "both", "tcp-handshake")

    def _probe(self, now_us: int, way: Key, seen: Segment) -> list[RttSample]:
        """A segment of a flow whose handshake is over."""
        found = self._probed.of(way)
        if found is None:
            return []
        key, flow = found
        if flow.way is None:
            if flow.paused_until_us is None and seen.payload_bytes:
                flow.way, flow.acked_by = way, (seen.seq + seen.payload_bytes) % 2**32
                flow.sent_us = flow.heard_us = now_us
            return []
        if way == flow.way or (seen.ack - flow.acked_by) % 2**32 >= 2**31:
            return []
        timed_way = flow.way
        if flow.told_way != timed_way:
            flow.told_way, flow.told = timed_way, []
        flow.told = [*flow.told, now_us - flow.sent_us][-PROBES:]
        flow.way, flow.heard_us, flow.paused_until_us = None, now_us, now_us + PROBE_US
        if len(flow.told) < PROBES:
            return []
        flow.halves[timed_way] = sorted(flow.told)[PROBES // 2]
        return _checked(_name(key, "tcp"), sum(flow.halves.values()), "both", "tcp-ack")

    def _syn_ack(self, now_us: int, direction: str, key: Key, seen: Segment) -> list[RttSample]:
        entry = self._tcp.get(key)
        if entry is None or direction == entry.direction:
            return []
        # up to the end of what a SYN carries, for Fast Open
        if (seen.ack - entry.syn.seq - 1) % 2**32 > entry.syn.payload_bytes:
            return []
        if entry.answer is not None:  # again: nobody knows which one the ACK is for
            del self._tcp[key]
            return self._far(key, entry)
        entry.answer, entry.answer_us = seen, now_us
        if entry.spoilt:
            del self._tcp[key]
        return []

    def _far(self, key: Key, entry: _Tcp) -> list[RttSample]:
        if entry.answer is None or entry.spoilt:
            return []
        return _checked(_name(key, "tcp"), entry.answer_us - entry.syn_us, "far", "tcp-handshake")

    # ---- QUIC ----

    def _long(self, now_us: int, direction: str, seen: Datagram) -> list[RttSample]:
        key = (seen.source, seen.destination)
        entry = self._quic.get(key)
        if entry is not None:
            return [] if entry.done or direction != entry.direction else self._from_client(now_us, key, entry, seen)
        entry = self._quic.get(key[::-1])
        if entry is not None:
            return (
                [] if entry.done or direction == entry.direction else self._from_server(now_us, key[::-1], entry, seen)
            )
        if packets.INITIAL in seen.types:
            _make_room(self._quic, self._max_pending)
            self._quic[key] = _Quic(direction, now_us)
        return []

    def _from_client(self, now_us: int, key: Key, entry: _Quic, seen: Datagram) -> list[RttSample]:
        if entry.far_us is None:
            entry.done = now_us - entry.initial_us > BURST_US  # its Initial once more
            return []
        if entry.retry_us is not None and packets.INITIAL in seen.types and seen.token:
            return self._quic_done(now_us, key, entry, entry.far_us, entry.retry_us)
        if entry.handshake_us is not None and packets.HANDSHAKE in seen.types:
            return self._quic_done(now_us, key, entry, entry.far_us, entry.handshake_us)
        return []

    def _from_server(self, now_us: int, key: Key, entry: _Quic, seen: Datagram) -> list[RttSample]:
        if entry.far_us is None:
            entry.far_us = now_us - entry.initial_us
            if packets.RETRY in seen.types:
                entry.retry_us = now_us
        if packets.HANDSHAKE not in seen.types:
            return []
        if entry.handshake_us is None:
            entry.handshake_us = now_us
        elif now_us - entry.handshake_us > BURST_US:  # its flight once more: which one was answered?
            entry.done = True
            return _checked(_name(key, "quic"), entry.far_us, "far", "quic-handshake")
        return []

    def _quic_done(self, now_us: int, key: Key, entry: _Quic, far_us: int, answered_us: int) -> list[RttSample]:
        entry.done = True  # and remembered as such: what is left of the handshake must not look like another
        rtt_us = far_us + now_us - answered_us
        self._spinning.add(key, _Spinning(rtt_us, {key: _Spin(), key[::-1]: _Spin()}), now_us)
        return _checked(_name(key, "quic"), rtt_us, "both", "quic-handshake")

    def _short(self, now_us: int, seen: Datagram) -> list[RttSample]:
        way = (seen.source, seen.destination)
        found = self._spinning.of(way)
        if found is None:
            return []
        key, flow = found
        spin = flow.ways[way]
        if spin.value is None:
            spin.value, spin.since_us = seen.spin, now_us
        if seen.spin == spin.value:
            return []
        if now_us - spin.since_us < flow.rtt_us // 8:  # reordered across an edge
            spin.noise += 1
            if spin.noise > NOISE_MAX:
                del self._spinning.watched[key]
                self._spinning.turn(now_us)
            return []
        whole, rtt_us = spin.edge_seen, now_us - spin.since_us
        flow.ways[way] = _Spin(seen.spin, now_us, edge_seen=True)
        flow.heard_us = now_us
        if not whole or rtt_us > SPIN_MAX_US:
            return []
        flow.rtt_us = max(rtt_us, flow.rtt_us // 2)  # one edge taken wrongly must not let all the noise in
        return _checked(_name(key, "quic"), rtt_us, "both", "spin-bit")


def _make_room(table: OrderedDict, most: int) -> None:
    while len(table) >= most:
        table.popitem(last=False)


def _checked(flow: str, rtt_us: int, half: str, source: str) -> list[RttSample]:
    """Nothing where the clock went back."""
    return [RttSample(flow, rtt_us, half, source)] if rtt_us > 0 else []
