# SPDX-License-Identifier: Apache-2.0
"""Entries of a configuration in the tables of a program, and the changes that bring a device there.

Pure but for `read_state` and `draw_key`. The tables of `Program.tables` belong to `weir p4 deploy`: their entries that
are not in the file are removed. Every other entity is left alone.
"""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ..p4runtime.client import Client, Update
from ..p4runtime.entities import Call, CloneSession, Entity, Match, MulticastGroup, Replica, TableEntry
from ..p4runtime.p4info import P4Info
from ..p4runtime.values import P4RuntimeError
from ..programs.base import NameLimits, NameTables, Program
from .config import Config, Neighbour, Port
from .names import NamesConfig

FLOOD_GROUP = 1


def draw_key() -> int:
    """A key for the hash of names, never 0."""
    return secrets.randbits(64) or 1


@dataclass(frozen=True)
class State:
    """Our part of a device's state; entries without their counters, names in full."""

    entries: list[TableEntry] = field(default_factory=list)
    unknown_stations: TableEntry | None = None
    flood: MulticastGroup | None = None
    name_limits: TableEntry | None = None
    copies: tuple[MulticastGroup | CloneSession, ...] = ()


@dataclass(frozen=True)
class Stage:
    """Updates that may be made in any order; stages are made one after another. `in_short`: the text for each
    update."""

    what: str
    updates: list[Update]
    in_short: str | None = None


def _next_hop(program: Program, neighbour: Neighbour, port: Port, info: P4Info) -> Call:
    return program.next_hop(neighbour.port, neighbour.mac, port.mac, port.vlan, info)


def next_hop_ids(program: Program, calls: Mapping[str, Call], present: list[TableEntry], size: int) -> dict[str, int]:
    """An id for each next hop; names for the same station share one. One that the device knows already keeps its id; a
    new or changed one gets an id that nothing on the device uses, so that no route leads anywhere wrong while tables
    change."""
    table = program.next_hop_table
    taken = {program.next_hop_number(entry) for entry in present}
    known = {_same(e.action): program.next_hop_number(e) for e in present if isinstance(e.action, Call)}
    free = (number for number in range(1, 1 << 16) if number not in taken)
    chosen: dict[_Same, int] = {}
    for same in map(_same, calls.values()):
        if same not in chosen:
            chosen[same] = known[same] if same in known else next(free)
    if len(chosen) > size:
        raise P4RuntimeError(f"{len(chosen)} neighbours: the table {table} holds {size}")
    new = [number for number in chosen.values() if number not in taken]
    if len(taken) + len(new) > size:
        raise P4RuntimeError(
            f"{len(new)} new next hops beside the {len(taken)} that are there: the table {table} holds {size}, and "
            "old ones go only when no route needs them; deploy the change in two parts"
        )
    return {name: chosen[_same(call)] for name, call in calls.items()}


_Same = tuple[str, tuple[tuple[str, int], ...]]


def _same(call: Call) -> _Same:
    return call.action, tuple(call.params.items())


def desired(
    program: Program, config: Config, info: P4Info, present: State, draw_key: Callable[[], int] = draw_key
) -> State:
    """The entries the configuration asks for. P4RuntimeError when the device's program is not one that has them."""
    fits(program, config)
    wanted = _ip(program, config, info, present) if program.routes_ip else State()
    laws = [program.law_entry(port, law, info) for port, law in config.aqm.items()]
    laws += [program.coupling_entry(port, coupling, info) for port, coupling in config.coupled.items()]
    laws += [program.advice_entry(port, signal, info) for port, signal in config.advice.items()]
    wanted = replace(wanted, entries=wanted.entries + laws)
    if program.names is not None:
        wanted = _with_names(wanted, program.names, config.names or NamesConfig({}), info, present, draw_key)
    return wanted


def fits(program: Program, config: Config) -> None:
    """Raises P4RuntimeError where the configuration needs functions that the program lacks."""
    if config.names is not None and program.names is None:
        raise P4RuntimeError(
            f"[names] is there, and p4/programs/{program.name}.p4 does not forward by name: deploy p4/programs/edge.p4 "
            "(--program), or icn.p4 for names alone"
        )
    if not program.routes_ip and (config.ports or config.neighbours or config.routes or config.flood):
        raise P4RuntimeError(
            f"[ports], [neighbours], [routes] and [flood] are for IP, and p4/programs/{program.name}.p4 forwards names "
            "alone: leave them out, or deploy p4/programs/edge.p4 (--program)"
        )


def _with_names(
    wanted: State,
    tables: NameTables,
    names: NamesConfig,
    info: P4Info,
    present: State,
    draw_key: Callable[[], int],
) -> State:
    """The key that the device has stays: with another one it would not find earlier Interests."""
    limits = tables.limits_of(present.name_limits)
    key = limits.key if limits and limits.key else draw_key()
    routes = [tables.route(*bits, route.port, route.other, info) for bits, route in names.routes.items()]
    quotas = [tables.port_quota(port, quota, info) for port, quota in names.port_quotas.items()]
    return replace(
        wanted,
        entries=[*wanted.entries, *quotas, *routes],
        name_limits=tables.limits(NameLimits(key, names.least_lifetime_us, names.quota), info),
        copies=tables.copies(),
    )


def _ip(program: Program, config: Config, info: P4Info, present: State) -> State:
    hop_table = info.tables[program.next_hop_table]
    calls = {name: _next_hop(program, n, config.ports[n.port], info) for name, n in config.neighbours.items()}
    ids = next_hop_ids(program, calls, [e for e in present.entries if e.table == hop_table.name], hop_table.size)
    hops = {ids[name]: call for name, call in calls.items()}
    entries = [program.next_hop_entry(number, call, info) for number, call in hops.items()]
    entries += [program.route(network, ids[name], info) for network, name in config.routes.items()]
    stations = {neighbour.mac: neighbour.port for neighbour in config.neighbours.values()}
    entries += [program.station(mac, port, info) for mac, port in stations.items()]
    group = MulticastGroup(FLOOD_GROUP, tuple(Replica(port) for port in config.flood)) if config.flood else None
    unknown = program.unknown_stations(FLOOD_GROUP if config.flood else None, info)
    return State(entries, unknown, group)


_Key = tuple[str | None, tuple[tuple[str, Match], ...], int]


def _key(entry: TableEntry) -> _Key:
    return entry.table, tuple(sorted(entry.match.items(), key=lambda item: item[0])), entry.priority


def stages(program: Program, wanted: State, present: State, info: P4Info) -> list[Stage]:
    """Updates in an order in which no packet is ever sent by an entry that leads nowhere. Empty when the device is as
    wanted."""
    have = {_key(entry): entry for entry in present.entries if not entry.is_const}
    want = {_key(entry): entry for entry in wanted.entries}
    first: list[Update] = []
    second: list[Update] = []
    third: list[Update] = []
    last: list[Update] = []
    leads_on = {info.tables[name].name for name in program.leading_tables}
    for key, entry in want.items():
        stage = second if entry.table in leads_on else first
        if key not in have:
            stage.append(Update.insert(entry))
        elif have[key].action != entry.action:
            stage.append(Update.modify(entry))
    for key, entry in have.items():
        if key not in want:
            (third if entry.table in leads_on else last).append(Update.delete(entry))
    if wanted.flood is not None:
        if present.flood is None:
            first.append(Update.insert(wanted.flood))
        elif set(present.flood.replicas) != set(wanted.flood.replicas):
            first.append(Update.modify(wanted.flood))
    elif present.flood is not None:
        last.append(Update.delete(present.flood))
    unknown = wanted.unknown_stations
    if unknown is not None and program.floods_to(present.unknown_stations, info) != program.floods_to(unknown, info):
        second.append(Update.modify(unknown))
    if wanted.name_limits is not None and (
        present.name_limits is None or present.name_limits.action != wanted.name_limits.action
    ):
        first.append(Update.modify(wanted.name_limits))
    copies = [update for entity in wanted.copies if (update := _copy_update(entity, present.copies))]
    named = (
        ("next hops, gains and flooding", first),
        ("routes", second),
        ("old routes", third),
        ("old next hops, gains and flooding", last),
    )
    in_short = f"make {len(copies)} groups and sessions for copies of names"
    before = [Stage("copies of names", copies, in_short)] if copies else []
    return before + [Stage(what, updates) for what, updates in named if updates]


def _copy_update(
    wanted: MulticastGroup | CloneSession, present: tuple[MulticastGroup | CloneSession, ...]
) -> Update | None:
    found = next((other for other in present if type(other) is type(wanted) and other.id == wanted.id), None)
    if found is None:
        return Update.insert(wanted)
    return None if set(found.replicas) == set(wanted.replicas) else Update.modify(wanted)


def read_state(program: Program, device: Client) -> State:
    """Our part of the device's state."""
    asked = [TableEntry(name) for name in program.tables]
    if program.routes_ip:
        asked.append(TableEntry(program.station_table, is_default=True))
    if program.names is not None:
        asked.append(TableEntry(program.names.limits_table, is_default=True))
    found: list[Entity] = [*device.read(*asked)]
    if program.names is not None:
        found += device.read(MulticastGroup(0))
        sessions = (entity for entity in program.names.copies() if isinstance(entity, CloneSession))
        found += [there for entity in sessions if (there := device.find(CloneSession(entity.id)))]
    elif group := device.find(MulticastGroup(FLOOD_GROUP)):
        found.append(group)
    return state(program, found, device.info)


def state(program: Program, found: list[Entity], info: P4Info) -> State:
    """A State from the entities read."""
    tables = {info.tables[name].name for name in program.tables}
    entries = [e for e in found if isinstance(e, TableEntry) and not e.is_default and e.table in tables]
    defaults = {e.table: e for e in found if isinstance(e, TableEntry) and e.is_default}
    stations = defaults.get(info.tables[program.station_table].name) if program.routes_ip else None
    flood = next((e for e in found if isinstance(e, MulticastGroup) and e.id == FLOOD_GROUP), None)
    if program.names is None:
        return State(entries, stations, flood)
    limits = defaults.get(info.tables[program.names.limits_table].name)
    copies = tuple(e for e in found if isinstance(e, MulticastGroup | CloneSession) and e is not flood)
    return State(entries, stations, flood, limits, copies)
