# SPDX-License-Identifier: Apache-2.0
"""A model of a switch's handling of names (docs/design/icn.md, "Rules of a switch"), without the law. Pure: `now_us`
comes with each packet. p4/include/icn_*.p4 must do the same to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum

from .hashing import pit_set
from .packet import (
    DATA,
    ETHERNET_BYTES,
    FULL,
    HEADER_BYTES,
    HOP_LIMIT_ENOUGH,
    INTEREST,
    LIFETIME_UNIT_US,
    NACK,
    NO_ROUTE,
    QUOTA,
    SWITCH_ADDRESS,
    Header,
)

PORTS = 32
"""Names are forwarded on ports 0 to 31."""
NO_PORT = 511
SETS, WAYS = 8192, 2
AGE_MOST_US = 1 << 23
EPOCH_SHIFT = 23
LEAST_LIFETIME_US = 1000
PIT = "pit_"
"""Prefix of the names of the registers that hold the pending Interests."""
PORT_QUOTA = 2048


class Count(IntEnum):
    """Index into the counter `names`."""

    INTERESTS_FORWARDED = 0
    INTERESTS_JOINED = 1
    INTERESTS_REPEATED = 2
    DATA_FORWARDED = 3
    DATA_COPIES = 4
    NACKS_FORWARDED = 5
    NACKED_NO_ROUTE = 6
    NACKED_FULL = 7
    NACKED_QUOTA = 8
    MALFORMED = 9
    HOP_LIMIT = 10
    DATA_UNASKED = 11
    NACKS_UNASKED = 12
    BAD_PORT = 13
    DATA_FROM_ELSEWHERE = 14
    NACKS_FROM_ELSEWHERE = 15
    ENTRIES_DISPLACED = 16


@dataclass(frozen=True)
class Limits:
    """`key`: of the hash, 64 bits. `quota`: unanswered entries of one port; `port_quotas`: those that differ."""

    key: int = 0
    least_lifetime_us: int = LEAST_LIFETIME_US
    quota: int = PORT_QUOTA
    port_quotas: Mapping[int, int] = field(default_factory=dict)

    def quota_of(self, port: int) -> int:
        return self.port_quotas.get(port, self.quota)


@dataclass
class Entry:
    """One segment of a name that was requested by a prefix. `payer`: the port whose quota it counts in; `hop_limit`: of
    the Interest that was forwarded last, as it came."""

    prefix: int
    name: int
    segment: int
    ports: set[int]
    asked: set[int]
    forwarded_us: int
    lifetime_us: int
    payer: int
    hop_limit: int

    def is_of(self, header: Header) -> bool:
        return (self.prefix, self.name, self.segment) == (header.prefix, header.name, header.segment)

    def elapsed_us(self, now_us: int) -> int:
        return max(now_us - self.forwarded_us, 0)

    def lives(self, now_us: int) -> bool:
        return self.elapsed_us(now_us) <= min(2 * self.lifetime_us, AGE_MOST_US)


@dataclass
class Used:
    """Use of a port's quota in an epoch and in the one before."""

    epoch: int = 0
    now: int = 0
    before: int = 0

    @property
    def total(self) -> int:
        return self.now + self.before

    def bring_up_to(self, now_us: int) -> None:
        epoch = now_us >> EPOCH_SHIFT
        if epoch > self.epoch:
            self.before = self.now if epoch == self.epoch + 1 else 0
            self.epoch, self.now = epoch, 0

    def give_back(self, then_us: int) -> None:
        epoch = then_us >> EPOCH_SHIFT
        if epoch == self.epoch:
            self.now = max(self.now - 1, 0)
        elif epoch + 1 == self.epoch:
            self.before = max(self.before - 1, 0)


@dataclass(frozen=True)
class Route:
    """Of a prefix of `bits` bits: the port that leads there, and the other for packets from that port."""

    prefix: int
    bits: int
    port: int
    other: int = NO_PORT


@dataclass
class Names:
    """The names of one switch: its tables, and the state that packets leave."""

    routes: list[Route]
    limits: Limits = field(default_factory=Limits)
    sets: dict[int, list[Entry | None]] = field(default_factory=dict)
    used: list[Used] = field(default_factory=lambda: [Used() for _ in range(PORTS)])
    counts: list[int] = field(default_factory=lambda: [0] * len(Count))

    def packet(self, frame: bytes, port: int, now_us: int) -> list[tuple[int, bytes]]:
        """Result of a frame of ETHER_TYPE that arrived at a port: ports and frames."""
        header = Header.unpack(frame[ETHERNET_BYTES:])
        behind = frame[ETHERNET_BYTES + HEADER_BYTES :]
        if header is None or header.malformed(len(behind)):
            return self._dropped(Count.MALFORMED)
        if port >= PORTS:
            return self._dropped(Count.BAD_PORT)
        if header.hop_limit <= 1:
            return self._dropped(Count.HOP_LIMIT)
        sent: list[tuple[int, Header]] = []
        for single in each_segment(header):
            sent += self._one(single, port, now_us)
        own = frame[:6] + SWITCH_ADDRESS + frame[12:ETHERNET_BYTES]  # of its Nacks
        return [
            (to, (frame[:ETHERNET_BYTES] if made.kind == header.kind else own) + made.pack() + behind)
            for to, made in sent
        ]

    def _dropped(self, why: Count) -> list:
        self.counts[why] += 1
        return []

    def _one(self, header: Header, port: int, now_us: int) -> list[tuple[int, Header]]:
        number = pit_set(self.limits.key, header.prefix, header.name, header.segment, SETS)
        ways = self.sets.setdefault(number, [None] * WAYS)
        live = [entry if entry and entry.lives(now_us) else None for entry in ways]
        found = next((entry for entry in live if entry and entry.is_of(header)), None)
        if header.kind == INTEREST:
            free = next((way for way, entry in enumerate(live) if entry is None), None)
            return self._interest(header, port, now_us, found, ways, free)
        return self._answer(header, port, now_us, found, ways)

    def _route(self, prefix: int) -> Route | None:
        fitting = [r for r in self.routes if (r.prefix ^ prefix) >> 64 - r.bits == 0]
        return max(fitting, key=lambda route: route.bits, default=None)

    def _interest(
        self,
        header: Header,
        port: int,
        now_us: int,
        found: Entry | None,
        ways: list[Entry | None],
        free: int | None,
    ) -> list[tuple[int, Header]]:
        def nack(why: Count, code: int) -> list[tuple[int, Header]]:
            self.counts[why] += 1
            refused = Header(NACK, code=code, prefix=header.prefix, name=header.name, segment=header.segment)
            return [(port, refused)]

        lifetime_us = max(header.lifetime * LIFETIME_UNIT_US, self.limits.least_lifetime_us)
        route = self._route(header.prefix)
        to = NO_PORT if route is None else route.other if route.port == port else route.port
        if route is None or to >= PORTS or to == port:
            return nack(Count.NACKED_NO_ROUTE, NO_ROUTE)
        passes_on = found is not None and port in found.asked and to not in found.asked
        gets_farther = found is not None and found.hop_limit < min(header.hop_limit, HOP_LIMIT_ENOUGH)
        if found and not passes_on and not gets_farther and found.elapsed_us(now_us) < lifetime_us:
            found.ports.add(port)
            found.lifetime_us = max(found.lifetime_us, lifetime_us)
            return self._dropped(Count.INTERESTS_JOINED)
        payer = found.payer if found and passes_on else port
        used = replace(self.used[payer])
        used.bring_up_to(now_us)
        if found and found.payer == payer:
            used.give_back(found.forwarded_us)
        if found is None and free is None:
            free, most, elapsed_us = self._gives_way(ways, now_us)
            displaced = ways[free]
            waits_long = displaced is not None and displaced.payer == payer and elapsed_us >= lifetime_us
            if most <= used.total + 1 and not waits_long:
                return nack(Count.NACKED_FULL, FULL)
        if not passes_on and used.total >= self.limits.quota_of(port):
            return nack(Count.NACKED_QUOTA, QUOTA)
        used.now += 1
        self.used[payer] = used
        if found:
            self.counts[Count.INTERESTS_REPEATED] += 1
            if found.payer != payer:
                self._give_back(found, now_us)
        else:
            assert free is not None
            self.counts[Count.INTERESTS_FORWARDED] += 1
            displaced = ways[free]
            self.counts[Count.ENTRIES_DISPLACED] += displaced is not None and displaced.lives(now_us)
            found = ways[free] = Entry(header.prefix, header.name, header.segment, set(), set(), now_us, 0, payer, 0)
        found.ports.add(port)
        found.asked = found.asked & {route.port, route.other} | {to}
        found.forwarded_us, found.payer, found.hop_limit = now_us, payer, header.hop_limit
        found.lifetime_us = max(found.lifetime_us, lifetime_us)
        return [(to, replace(header, hop_limit=header.hop_limit - 1))]

    def _answer(
        self, header: Header, port: int, now_us: int, found: Entry | None, ways: list[Entry | None]
    ) -> list[tuple[int, Header]]:
        is_data = header.kind == DATA
        if found is None:
            return self._dropped(Count.DATA_UNASKED if is_data else Count.NACKS_UNASKED)
        if port not in found.asked:
            return self._dropped(Count.DATA_FROM_ELSEWHERE if is_data else Count.NACKS_FROM_ELSEWHERE)
        self._give_back(found, now_us)
        ways[ways.index(found)] = None
        forwarded = replace(header, hop_limit=header.hop_limit - 1)
        copies = [(to, forwarded) for to in sorted(found.ports - {port})]
        self.counts[Count.DATA_FORWARDED if is_data else Count.NACKS_FORWARDED] += 1
        if is_data:
            self.counts[Count.DATA_COPIES] += len(copies)
        return copies

    def _gives_way(self, ways: list[Entry | None], now_us: int) -> tuple[int, int, int]:
        """Of a full set: the way whose port pays for most, of two such the older; its cost, and its age."""
        found = [(self._used_by_payer(e, now_us), e.elapsed_us(now_us) if e else 0, -way) for way, e in enumerate(ways)]
        most, elapsed_us, way = max(found)
        return -way, most, elapsed_us

    def _used_by_payer(self, entry: Entry | None, now_us: int) -> int:
        if entry is None:
            return 0
        used = replace(self.used[entry.payer])
        used.bring_up_to(now_us)
        return used.total

    def _give_back(self, entry: Entry, now_us: int) -> None:
        used = self.used[entry.payer]
        used.bring_up_to(now_us)
        used.give_back(entry.forwarded_us)


def each_segment(header: Header) -> Iterator[Header]:
    """One Interest for the segment and each hole; Data and Nacks as they are."""
    yield replace(header, holes=0)
    for bit in range(16):
        if header.holes >> bit & 1:
            yield replace(header, holes=0, segment=header.segment + 1 + bit & 0xFFFFFFFF)
