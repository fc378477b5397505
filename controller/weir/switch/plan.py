# SPDX-License-Identifier: Apache-2.0
"""What a configuration means in the tables of p4/pid_delay.p4, and what has to change on a device to get there.

Pure but for `read_state`.

The tables named here belong to `weir switch deploy`: what is in them and not in the file goes. Every other entity is
left alone.
"""

from dataclasses import asdict, dataclass, field

from ..gains import Gains
from ..law import Params
from ..p4runtime.client import Client, Update
from ..p4runtime.entities import Call, Entity, Exact, Lpm, MulticastGroup, Replica, TableEntry
from ..p4runtime.p4info import P4Info
from ..p4runtime.values import P4RuntimeError
from .config import Aqm, Config, Neighbour, Port

IPV4, IPV6, NEXT_HOP, L2, AQM = TABLES = ("ipv4_lpm", "ipv6_lpm", "next_hop", "l2_forward", "aqm")
AQM_DIGEST = "aqm_state_t"
FLOOD_GROUP = 1
DELAY_SOURCES = ("sojourn", "rate")
"""By the program's bit `delay_source`."""


@dataclass(frozen=True)
class State:
    """What a device has of what we own; entries without their counters, names in full."""

    entries: list[TableEntry] = field(default_factory=list)
    l2_default: TableEntry | None = None
    flood: MulticastGroup | None = None


@dataclass(frozen=True)
class Stage:
    """Updates that may be made in any order; stages are made one after another."""

    what: str
    updates: list[Update]


def pid_delay(aqm: Aqm) -> dict[str, int]:
    """The parameters of the action pid_delay."""
    params = asdict(aqm.gains.to_params())
    return params | {
        "delay_source": DELAY_SOURCES.index(aqm.delay_source),
        "digest_interval_us": aqm.digest_interval_us,
    }


def aqm_of(params: dict[str, int]) -> Aqm:
    """What `pid_delay` says, back in users' units. Raises P4RuntimeError for parameters that the law does not have."""
    rest = dict(params)
    try:
        source, digest_interval_us = DELAY_SOURCES[rest.pop("delay_source")], rest.pop("digest_interval_us")
        return Aqm(Gains.from_params(Params(**rest)), digest_interval_us, source)
    except (TypeError, KeyError, ValueError) as error:
        raise P4RuntimeError(f"action pid_delay: not the parameters of this law: {error}") from None


def aqm_entry(port: int, aqm: Aqm, info: P4Info) -> TableEntry:
    """The law on a port."""
    return _entry(info, AQM, {"egress_port": Exact(port)}, "pid_delay", pid_delay(aqm))


def _entry(info: P4Info, table: str, match: dict, action: str, params: dict[str, int]) -> TableEntry:
    return TableEntry(info.tables[table].name, match, Call(info.actions[action].name, params))


def _next_hop(neighbour: Neighbour, port: Port, info: P4Info) -> Call:
    params = {"port": neighbour.port, "dst_mac": neighbour.mac, "src_mac": port.mac}
    if port.vlan == "keep":
        return Call(info.actions["forward"].name, params)
    if port.vlan == "remove":
        return Call(info.actions["forward_untagged"].name, params)
    return Call(info.actions["forward_tagged"].name, params | {"vid": port.vlan})


def next_hop_ids(calls: dict[str, Call], present: list[TableEntry], size: int) -> dict[str, int]:
    """An id for each neighbour; names for the same station share one. One that the device knows already keeps its id;
    a new or changed one gets an id that nothing on the device uses, so that no route leads anywhere wrong while tables
    change."""
    taken = {entry.match["next_hop"].value for entry in present}
    known = {_same(entry.action): entry.match["next_hop"].value for entry in present}
    free = (number for number in range(1, 1 << 16) if number not in taken)
    chosen: dict[tuple, int] = {}
    for same in map(_same, calls.values()):
        if same not in chosen:
            chosen[same] = known[same] if same in known else next(free)
    if len(chosen) > size:
        raise P4RuntimeError(f"{len(chosen)} neighbours: the table {NEXT_HOP} holds {size}")
    new = [number for number in chosen.values() if number not in taken]
    if len(taken) + len(new) > size:
        raise P4RuntimeError(
            f"{len(new)} new next hops beside the {len(taken)} that are there: the table {NEXT_HOP} holds {size}, and "
            "old ones go only when no route needs them; deploy the change in two parts"
        )
    return {name: chosen[_same(call)] for name, call in calls.items()}


def _same(call: Call) -> tuple:
    return call.action, tuple(call.params.items())


def desired(config: Config, info: P4Info, present: State) -> State:
    """The entries the configuration asks for. P4RuntimeError when the program is not one that has these tables."""
    hop_table = info.tables[NEXT_HOP]
    calls = {name: _next_hop(n, config.ports[n.port], info) for name, n in config.neighbours.items()}
    ids = next_hop_ids(calls, [e for e in present.entries if e.table == hop_table.name], hop_table.size)
    hops = {ids[name]: call for name, call in calls.items()}
    entries = [TableEntry(hop_table.name, {"next_hop": Exact(number)}, call) for number, call in hops.items()]
    for network, name in config.routes.items():
        table, key = (IPV4, "hdr.ipv4.dst") if network.version == 4 else (IPV6, "hdr.ipv6.dst")
        match = {key: Lpm(int(network.network_address), network.prefixlen)} if network.prefixlen else {}
        entries.append(_entry(info, table, match, "set_next_hop", {"next_hop": ids[name]}))
    stations = {neighbour.mac: neighbour.port for neighbour in config.neighbours.values()}
    entries += [
        _entry(info, L2, {"hdr.ethernet.dst": Exact(mac)}, "to_port", {"port": port}) for mac, port in stations.items()
    ]
    entries += [aqm_entry(port, aqm, info) for port, aqm in config.aqm.items()]
    l2 = info.tables[L2].name
    flood = Call(info.actions["flood"].name, {"group": FLOOD_GROUP}) if config.flood else None
    group = MulticastGroup(FLOOD_GROUP, tuple(Replica(port) for port in config.flood)) if config.flood else None
    return State(entries, TableEntry(l2, action=flood, is_default=True), group)


def _key(entry: TableEntry) -> tuple:
    return entry.table, tuple(sorted(entry.match.items())), entry.priority


def stages(wanted: State, present: State, info: P4Info) -> list[Stage]:
    """What to write, in an order in which no packet is ever sent by an entry that leads nowhere. Empty when the device
    is as wanted."""
    have = {_key(entry): entry for entry in present.entries if not entry.is_const}
    want = {_key(entry): entry for entry in wanted.entries}
    first, second, third, last = [], [], [], []
    leads_on = {info.tables[name].name for name in (IPV4, IPV6, L2)}
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
    if _floods(present.l2_default, info) != _floods(wanted.l2_default, info):
        second.append(Update.modify(wanted.l2_default))
    named = (
        ("next hops, gains and flooding", first),
        ("routes", second),
        ("old routes", third),
        ("old next hops, gains and flooding", last),
    )
    return [Stage(what, updates) for what, updates in named if updates]


def _floods(default: TableEntry | None, info: P4Info) -> int | None:
    """To which group the default action floods, if it does."""
    if default is None or not isinstance(default.action, Call) or default.action.action != info.actions["flood"].name:
        return None
    return default.action.params["group"]


def read_state(device: Client) -> State:
    """What the device has of what we own."""
    found = device.read(*(TableEntry(name) for name in TABLES), TableEntry(L2, is_default=True))
    group = device.find(MulticastGroup(FLOOD_GROUP))
    return state(found if group is None else [*found, group], device.info)


def state(found: list[Entity], info: P4Info) -> State:
    """A State from what was read."""
    tables = {info.tables[name].name for name in TABLES}
    entries = [e for e in found if isinstance(e, TableEntry) and not e.is_default and e.table in tables]
    l2 = info.tables[L2].name
    default = next((e for e in found if isinstance(e, TableEntry) and e.is_default and e.table == l2), None)
    groups = (e for e in found if isinstance(e, MulticastGroup) and e.id == FLOOD_GROUP)
    return State(entries, default, next(groups, None))
