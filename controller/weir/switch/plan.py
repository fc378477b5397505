# SPDX-License-Identifier: Apache-2.0
"""What a configuration means in the tables of a program, and what has to change on a device to get there.

Pure but for `read_state`. The program's `tables` belong to `weir p4 deploy`: what is in them and not in the file goes.
Every other entity is left alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ..p4runtime.client import Client, Update
from ..p4runtime.entities import Call, Entity, Match, MulticastGroup, Replica, TableEntry
from ..p4runtime.p4info import P4Info
from ..p4runtime.values import P4RuntimeError
from ..programs.base import Program
from .config import Config, Neighbour, Port

FLOOD_GROUP = 1


@dataclass(frozen=True)
class State:
    """What a device has of what we own; entries without their counters, names in full."""

    entries: list[TableEntry] = field(default_factory=list)
    unknown_stations: TableEntry | None = None
    flood: MulticastGroup | None = None


@dataclass(frozen=True)
class Stage:
    """Updates that may be made in any order; stages are made one after another."""

    what: str
    updates: list[Update]


def _next_hop(program: Program, neighbour: Neighbour, port: Port, info: P4Info) -> Call:
    return program.next_hop(neighbour.port, neighbour.mac, port.mac, port.vlan, info)


def next_hop_ids(program: Program, calls: Mapping[str, Call], present: list[TableEntry], size: int) -> dict[str, int]:
    """An id for each neighbour; names for the same station share one. One that the device knows already keeps its id;
    a new or changed one gets an id that nothing on the device uses, so that no route leads anywhere wrong while tables
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


def desired(program: Program, config: Config, info: P4Info, present: State) -> State:
    """The entries the configuration asks for. P4RuntimeError when the device's program is not one that has them."""
    hop_table = info.tables[program.next_hop_table]
    calls = {name: _next_hop(program, n, config.ports[n.port], info) for name, n in config.neighbours.items()}
    ids = next_hop_ids(program, calls, [e for e in present.entries if e.table == hop_table.name], hop_table.size)
    hops = {ids[name]: call for name, call in calls.items()}
    entries = [program.next_hop_entry(number, call, info) for number, call in hops.items()]
    entries += [program.route(network, ids[name], info) for network, name in config.routes.items()]
    stations = {neighbour.mac: neighbour.port for neighbour in config.neighbours.values()}
    entries += [program.station(mac, port, info) for mac, port in stations.items()]
    entries += [program.law_entry(port, law, info) for port, law in config.aqm.items()]
    entries += [program.coupling_entry(port, coupling, info) for port, coupling in config.coupled.items()]
    group = MulticastGroup(FLOOD_GROUP, tuple(Replica(port) for port in config.flood)) if config.flood else None
    return State(entries, program.unknown_stations(FLOOD_GROUP if config.flood else None, info), group)


_Key = tuple[str | None, tuple[tuple[str, Match], ...], int]


def _key(entry: TableEntry) -> _Key:
    return entry.table, tuple(sorted(entry.match.items(), key=lambda item: item[0])), entry.priority


def stages(program: Program, wanted: State, present: State, info: P4Info) -> list[Stage]:
    """What to write, in an order in which no packet is ever sent by an entry that leads nowhere. Empty when the device
    is as wanted."""
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
    named = (
        ("next hops, gains and flooding", first),
        ("routes", second),
        ("old routes", third),
        ("old next hops, gains and flooding", last),
    )
    return [Stage(what, updates) for what, updates in named if updates]


def read_state(program: Program, device: Client) -> State:
    """What the device has of what we own."""
    asked = [TableEntry(name) for name in program.tables]
    found: list[Entity] = [*device.read(*asked, TableEntry(program.station_table, is_default=True))]
    group = device.find(MulticastGroup(FLOOD_GROUP))
    return state(program, found if group is None else [*found, group], device.info)


def state(program: Program, found: list[Entity], info: P4Info) -> State:
    """A State from what was read."""
    tables = {info.tables[name].name for name in program.tables}
    entries = [e for e in found if isinstance(e, TableEntry) and not e.is_default and e.table in tables]
    stations = info.tables[program.station_table].name
    default = next((e for e in found if isinstance(e, TableEntry) and e.is_default and e.table == stations), None)
    groups = (e for e in found if isinstance(e, MulticastGroup) and e.id == FLOOD_GROUP)
    return State(entries, default, next(groups, None))
