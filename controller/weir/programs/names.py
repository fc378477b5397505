# SPDX-License-Identifier: Apache-2.0
"""`p4/programs/icn.p4` and `p4/programs/edge.p4`: switches that forward by name (docs/design/icn.md), with the law on
every port; `edge.p4` routes IP beside names as `pid_delay.p4` does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ..names import groups
from ..names.switch import AGE_MOST_US, NO_PORT, SETS, WAYS, Count, Used
from ..p4runtime.entities import Call, CloneSession, Exact, Lpm, MulticastGroup, Replica, TableEntry
from ..p4runtime.p4info import P4Info
from ..resources import P4_PROGRAMS
from .base import NameLimits, NameTables, QuotaUsed
from .pid_delay import PidDelay


class Names(NameTables):
    """The tables, counters and registers of p4/include/icn_*.p4."""

    fib_table = "fib"
    limits_table = "names_limits"
    quota_table = "names_quota"
    counter = "names"
    cells: ClassVar[tuple[str, ...]] = tuple(count.name.lower() for count in Count)
    registers: ClassVar[tuple[str, ...]] = (
        "pit_name",
        "pit_segment_ports",
        "pit_asked_lifetime_payer",
        "pit_forwarded_us",
    )
    used_register = "quota_used"

    def route(self, prefix: int, bits: int, port: int, other: int | None, info: P4Info) -> TableEntry:
        call = Call(info.actions["via"].name, {"port": port, "other": NO_PORT if other is None else other})
        match = {"prefix": Lpm(prefix, bits)} if bits else {}
        return TableEntry(info.tables[self.fib_table].name, match, call)

    def prefix_of(self, route: TableEntry) -> tuple[int, int]:
        prefix = route.match.get("prefix")
        return (prefix.value, prefix.prefix_len) if isinstance(prefix, Lpm) else (0, 0)

    def limits(self, limits: NameLimits, info: P4Info) -> TableEntry:
        params = {
            "hash_key_low": limits.key & 0xFFFFFFFF,
            "hash_key_high": limits.key >> 32,
            "lifetime_least_us": limits.least_lifetime_us,
            "port_quota": limits.quota,
        }
        call = Call(info.actions["set_limits"].name, params)
        return TableEntry(info.tables[self.limits_table].name, action=call, is_default=True)

    def port_quota(self, port: int, quota: int, info: P4Info) -> TableEntry:
        call = Call(info.actions["set_quota"].name, {"port_quota": quota})
        return TableEntry(info.tables[self.quota_table].name, {"port": Exact(port)}, call)

    def port_quotas(self, entries: Iterable[TableEntry], info: P4Info) -> dict[int, int]:
        table = info.tables[self.quota_table].name
        quotas = {}
        for entry in entries:
            port = entry.match.get("port")
            if entry.table == table and isinstance(port, Exact) and isinstance(entry.action, Call):
                quotas[port.value] = entry.action.params["port_quota"]
        return quotas

    def limits_of(self, default: TableEntry | None) -> NameLimits | None:
        if default is None or not isinstance(default.action, Call):
            return None
        params = default.action.params
        key = params["hash_key_high"] << 32 | params["hash_key_low"]
        return NameLimits(key, params["lifetime_least_us"], params["port_quota"])

    def copies(self) -> tuple[MulticastGroup | CloneSession, ...]:
        made = [
            MulticastGroup(group, tuple(Replica(groups.AGAIN_PORT, instance) for instance in instances))
            for group, instances in groups.groups()
        ]
        return (CloneSession(groups.AGAIN_SESSION, (Replica(groups.AGAIN_PORT, 1),)), *made)

    def fill(self, registers: Mapping[str, Sequence[int]]) -> Fill | None:
        if any(len(registers.get(name, ())) != SETS * WAYS for name in self.registers):
            return None
        now_us = max(registers["pit_forwarded_us"])
        asked = [cell for cell, value in enumerate(registers["pit_segment_ports"]) if value & 0xFFFFFFFF]
        by_port: dict[int, int] = {}
        for cell in asked:
            rest = registers["pit_asked_lifetime_payer"][cell]
            lifetime_us, payer = rest >> 8 & 0xFFFFFF, rest & 0xFF
            if now_us - registers["pit_forwarded_us"][cell] <= min(2 * lifetime_us, AGE_MOST_US):
                by_port[payer] = by_port.get(payer, 0) + 1
        return Fill(SETS * WAYS, len(asked), dict(sorted(by_port.items())))

    def used(self, registers: Mapping[str, Sequence[int]]) -> dict[int, QuotaUsed]:
        now_us = max(registers.get("pit_forwarded_us", ()), default=0)
        found = {}
        for port, word in enumerate(registers.get(self.used_register, ())):
            used = Used(word >> 32, word >> 16 & 0xFFFF, word & 0xFFFF)
            used.bring_up_to(now_us)
            if used.total:
                found[port] = QuotaUsed(used.now, used.before)
        return found


@dataclass(frozen=True)
class Fill:
    """Fill level of the table of pending Interests. `held`: entries with askers, including dead ones that nothing took
    the place of. `live_by_port`: those that were alive when an Interest was forwarded last, by the port that pays."""

    cells: int
    held: int
    live_by_port: dict[int, int]

    @property
    def live(self) -> int:
        return sum(self.live_by_port.values())


class Edge(PidDelay):
    """See the module."""

    name = "edge"
    source = P4_PROGRAMS / "edge.p4"

    names = Names()
    tables = (*PidDelay.tables, Names.fib_table, Names.quota_table)
    leading_tables = (*PidDelay.leading_tables, Names.fib_table)


class Icn(PidDelay):
    """See the module."""

    name = "icn"
    source = P4_PROGRAMS / "icn.p4"

    names = Names()
    routes_ip = False
    tables = (Names.fib_table, PidDelay.law_table, Names.quota_table)
    leading_tables = (Names.fib_table,)


EDGE = Edge()
ICN = Icn()
