# SPDX-License-Identifier: Apache-2.0
"""State of a device, as plain data and as tables for a terminal. Reading is apart from showing."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from .. import programs
from ..names.switch import PIT
from ..p4runtime.client import Client, DeviceError
from ..p4runtime.entities import (
    Call,
    Count,
    CounterEntry,
    Entity,
    MulticastGroup,
    RegisterEntry,
    TableEntry,
)
from ..p4runtime.labels import SECRET_PARAMS, describe_action, describe_key
from ..p4runtime.p4info import P4Info, Resource, Table
from ..p4runtime.values import P4RuntimeError
from ..programs.base import NameTables
from ..text import printable

Prefixes = Mapping[tuple[int, int], str]
"""The text of prefixes of names by what a switch has of them: bits, and how many of them count."""


@dataclass
class Snapshot:
    """State read of a device, and the parts that it could not give, with its reason."""

    address: str
    device_id: int
    api_version: str
    cookie: int
    info: P4Info
    entities: list[Entity] = field(default_factory=list)
    not_told: dict[str, str] = field(default_factory=dict)
    groups_asked: bool = False


def read_all(device: Client, table: str | None = None) -> Snapshot:
    """Tables with their default actions, multicast groups, counters and registers; of one `table` only its entries."""
    snapshot = _begun(device)
    info = snapshot.info
    _read_tables(device, snapshot, list(info.tables) if table is None else [info.tables[table]])
    if table is None:
        _read_rest(device, snapshot, list(info.counters), list(info.registers))
    return snapshot


def read_names(device: Client) -> Snapshot:
    """The name tables of a program that forwards by name. P4RuntimeError: it does not."""
    snapshot = _begun(device)
    info = snapshot.info
    program = programs.of(info)
    if program is None or program.names is None:
        raise P4RuntimeError("the switch's program does not forward by name: deploy edge.p4 or icn.p4")
    names = program.names
    _read_tables(device, snapshot, [info.tables[t] for t in (names.fib_table, names.quota_table, names.limits_table)])
    registers = [info.registers[name] for name in (*names.registers, names.used_register)]
    _read_rest(device, snapshot, [info.counters[names.counter]], registers)
    own = {group.id for group in names.copies() if isinstance(group, MulticastGroup)}
    snapshot.entities = [e for e in snapshot.entities if not isinstance(e, MulticastGroup) or e.id in own]
    return snapshot


def read_counters(device: Client) -> Snapshot:
    """Only counters: little to read, however many registers and entries the program has."""
    snapshot = _begun(device)
    _read_counters(device, snapshot, list(snapshot.info.counters))
    return snapshot


def _begun(device: Client) -> Snapshot:
    present = device.get_pipeline()
    cookie = present.cookie if present else 0
    return Snapshot(device.address, device.device_id, device.capabilities(), cookie, device.info)


def _read_tables(device: Client, snapshot: Snapshot, tables: list[Table]) -> None:
    for table in tables:
        # P4Runtime 11.1: counts are reported where the request has the field.
        wanted = TableEntry(table.name, counter=Count() if table.has_direct_counter else None)
        snapshot.entities += device.read(wanted)
        _try(device, snapshot, f"default action of {table.alias}", TableEntry(table.name, is_default=True))


def _read_rest(device: Client, snapshot: Snapshot, counters: list[Resource], registers: list[Resource]) -> None:
    snapshot.groups_asked = True
    _try(device, snapshot, "multicast groups", MulticastGroup(0))
    _read_counters(device, snapshot, counters)
    for register in registers:
        _try(device, snapshot, f"register {register.alias}", RegisterEntry(register.name))


def _read_counters(device: Client, snapshot: Snapshot, counters: list[Resource]) -> None:
    for counter in counters:
        _try(device, snapshot, f"counter {counter.alias}", CounterEntry(counter.name))


def _try(device: Client, snapshot: Snapshot, what: str, entity: Entity) -> None:
    try:
        snapshot.entities += device.read(entity)
    except DeviceError as error:
        if error.code != "UNIMPLEMENTED":
            raise
        snapshot.not_told[what] = str(error)


def _is_zero(entity: Entity) -> bool:
    if isinstance(entity, CounterEntry):
        return entity.count is None or (entity.count.packets, entity.count.bytes) == (0, 0)
    return isinstance(entity, RegisterEntry) and not _any(entity.value)


def _any(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_any, value.values()))
    if isinstance(value, list | tuple):
        return any(map(_any, value))
    return bool(value)


def _told(text: str) -> str:
    """Text of the device's, which a console is to show and nothing else."""
    return escape(printable(text))


def as_data(snapshot: Snapshot, prefixes: Prefixes | None = None) -> dict[str, Any]:
    """The snapshot as JSON has it: numbers as numbers, keys and actions in words beside their values. Counters and
    registers: only cells that are not zero. Routes whose prefix is one of `prefixes` have its `name`."""
    info = snapshot.info
    tables_of_names = _name_tables(snapshot)
    fib = info.tables[tables_of_names.fib_table].name if tables_of_names else None
    tables: dict[str, Any] = {table.alias: {"entries": []} for table in info.tables}
    groups: list[dict[str, Any]] = []
    counters: dict[str, dict[int | None, Any]] = {}
    registers: dict[str, dict[int | None, Any]] = {}
    for entity in snapshot.entities:
        if isinstance(entity, TableEntry) and entity.table is not None:
            table = info.tables[entity.table]
            data: dict[str, Any] = {"key": describe_key(entity, table), "action": describe_action(entity.action, info)}
            if isinstance(entity.action, Call):
                data["params"] = {k: v for k, v in entity.action.params.items() if k not in SECRET_PARAMS}
            if entity.counter is not None:
                data["count"] = asdict(entity.counter)
            if tables_of_names and entity.table == fib and not entity.is_default:
                name = {(0, 0): "/", **(prefixes or {})}.get(tables_of_names.prefix_of(entity))
                data |= {"name": name} if name else {}
            if entity.is_default:
                tables[table.alias]["default"] = data
            else:
                tables[table.alias]["entries"].append(data)
        elif isinstance(entity, MulticastGroup):
            groups.append({"id": entity.id, "ports": [replica.port for replica in entity.replicas]})
        elif isinstance(entity, CounterEntry) and entity.counter and entity.count and not _is_zero(entity):
            counters.setdefault(info.counters[entity.counter].alias, {})[entity.index] = asdict(entity.count)
        elif isinstance(entity, RegisterEntry) and entity.register and not _is_zero(entity):
            registers.setdefault(info.registers[entity.register].alias, {})[entity.index] = entity.value
    names = names_data(snapshot, counters, registers)
    return {
        "address": snapshot.address,
        "device_id": snapshot.device_id,
        "p4runtime": snapshot.api_version,
        "cookie": f"{snapshot.cookie:#x}",
        "tables": {name: table for name, table in tables.items() if table["entries"] or "default" in table},
        "multicast_groups": groups,
        "counters": counters,
        "registers": registers,
        **({"names": names} if names else {}),
        "not_told": snapshot.not_told,
    }


def _name_tables(snapshot: Snapshot) -> NameTables | None:
    program = programs.of(snapshot.info)
    return program.names if program else None


def names_data(
    snapshot: Snapshot, counters: dict[str, dict[int | None, Any]], registers: dict[str, dict[int | None, Any]]
) -> dict[str, Any]:
    """Of a program that forwards by name: what became of packets, in words, how full the table of pending Interests is,
    what ports have used of their quotas, and whether what copies need is there, as far as these were read. Takes the
    counter out of `counters` and what the table is kept in out of `registers`; empty for other programs, and where only
    one table was read."""
    tables = _name_tables(snapshot)
    if tables is None or not any(isinstance(entity, CounterEntry) for entity in snapshot.entities):
        return {}
    cells = counters.pop(tables.counter, {})
    data: dict[str, Any] = {"packets": {name: cells[i]["packets"] for i, name in enumerate(tables.cells) if i in cells}}
    values: dict[str, list[int]] = {}
    for entity in snapshot.entities:
        if isinstance(entity, RegisterEntry) and entity.register and isinstance(entity.value, int):
            values.setdefault(snapshot.info.registers[entity.register].alias, []).append(entity.value)
    fill = tables.fill(values)
    if fill is not None:
        data["pit"] = asdict(fill) | {"live": fill.live}
        for name in [name for name in registers if name.startswith(PIT)]:
            del registers[name]
    quota_of, quota_else = _quotas(snapshot, tables)
    if tables.used_register in values:
        data["quotas"] = {
            port: asdict(used) | {"quota": quota_of.get(port, quota_else)} for port, used in tables.used(values).items()
        }
    if snapshot.groups_asked and "multicast groups" not in snapshot.not_told:
        wanted, there = _copies(snapshot, tables)
        data["copies"] = {"groups": len(there), "missing": sorted(wanted.keys() - there)}
    return data


def _quotas(snapshot: Snapshot, tables: NameTables) -> tuple[dict[int, int], int | None]:
    """Those of single ports, and that of all others; None: not reported."""
    entries = [entity for entity in snapshot.entities if isinstance(entity, TableEntry)]
    limits_table = snapshot.info.tables[tables.limits_table].name
    default = next((entry for entry in entries if entry.is_default and entry.table == limits_table), None)
    limits = tables.limits_of(default)
    return tables.port_quotas(entries, snapshot.info), limits.quota if limits else None


def _copies(snapshot: Snapshot, tables: NameTables) -> tuple[dict[int, MulticastGroup], set[int]]:
    """The groups that copies need by their numbers, and the numbers of those that are there as they should be."""
    wanted = {group.id: group for group in tables.copies() if isinstance(group, MulticastGroup)}
    found = (entity for entity in snapshot.entities if isinstance(entity, MulticastGroup) and entity.id in wanted)
    return wanted, {group.id for group in found if set(group.replicas) == set(wanted[group.id].replicas)}


def print_snapshot(snapshot: Snapshot, console: Console, prefixes: Prefixes | None = None) -> None:
    """Tables for a terminal; `prefixes` as with `as_data`."""
    data = as_data(snapshot, prefixes)
    console.print(
        f"[bold]device {data['device_id']}[/] at {_told(data['address'])}, P4Runtime {_told(data['p4runtime'])}, "
        f"program {data['cookie']}"
    )
    names = data.get("names", {})
    tables = _name_tables(snapshot)
    copies = _copies(snapshot, tables)[1] if tables else set()
    for name, table in data["tables"].items():
        _print_table(name, table, console)
    for group in data["multicast_groups"]:
        if group["id"] not in copies:
            console.print(f"multicast group {group['id']}: ports {', '.join(map(str, group['ports']))}")
    if data["counters"]:
        shown = _table("counters", "counter", "index", "packets", "bytes")
        for name, cells in data["counters"].items():
            for index, count in cells.items():
                shown.add_row(_told(name), str(index), str(count["packets"]), str(count["bytes"]))
        console.print(shown)
    if names:
        _print_names(names, console)
    registers = {
        name: cells
        for name, cells in data["registers"].items()
        if not (tables and "quotas" in names and name == tables.used_register)
    }
    if registers:
        shown = _table("registers (cells that are not zero)", "register", "index", "value")
        for name, cells in registers.items():
            for index, value in cells.items():
                shown.add_row(_told(name), str(index), _told(str(value)))
        console.print(shown)
    reasons: dict[str, list[str]] = {}
    for what, reason in data["not_told"].items():
        reasons.setdefault(reason.split(": ", 2)[-1], []).append(what)
    for reason, what in reasons.items():
        named = ", ".join(what[:3]) + (f" and {len(what) - 3} more" if len(what) > 3 else "")
        console.print(f"[dim]not shown: {_told(named)}: {_told(reason)}[/]")


def _table(title: str, first: str, *others: str) -> RichTable:
    """Of numbers: all columns but the first are on the right."""
    shown = RichTable(title=title, title_justify="left", title_style="bold", box=None)
    shown.add_column(first)
    for column in others:
        shown.add_column(column, justify="right")
    return shown


def _print_table(name: str, table: dict[str, Any], console: Console) -> None:
    shown = RichTable(title=f"table {_told(name)}", title_justify="left", title_style="bold", box=None)
    shown.add_column("key", no_wrap=True)
    shown.add_column("action", overflow="fold")
    counted = any("count" in entry for entry in table["entries"])
    for column in ("packets", "bytes") if counted else ():
        shown.add_column(column, justify="right")
    for entry in table["entries"]:
        counts = map(str, entry["count"].values()) if "count" in entry else ()
        key = f"{entry['name']} ({entry['key']})" if "name" in entry else entry["key"]
        shown.add_row(_told(key), _told(entry["action"]), *counts)
    if "default" in table:
        shown.add_row("[dim]otherwise[/]", f"[dim]{_told(table['default']['action'])}[/]")
    console.print(shown)


def _print_names(names: dict[str, Any], console: Console) -> None:
    if copies := names.get("copies"):
        there, missing = copies["groups"], copies["missing"]
        said = f"{there} multicast groups, all that are needed"
        if not there:
            said = "no multicast groups; what goes to several ports is lost until a file with [names] is deployed"
        elif missing:
            said = (
                f"{len(missing)} of {there + len(missing)} multicast groups are missing or wrong, the first is "
                f"{missing[0]}; what goes to several ports is lost without them: deploy again"
            )
        console.print(f"copies of names: {said}")
    shown = _table("names", "what became of it", "packets")
    for name, packets in names["packets"].items():
        shown.add_row(name, str(packets))
    console.print(shown)
    if pit := names.get("pit"):
        paying = ", ".join(f"port {port} pays for {count}" for port, count in pit["live_by_port"].items())
        console.print(
            f"asked and not answered: {pit['live']} of {pit['cells']} entries alive at the last Interest"
            + (f" ({paying})" if paying else "")
            + f", {pit['held'] - pit['live']} dead"
        )
    if quotas := names.get("quotas"):
        shown = _table("quotas", "port", "entries of this epoch", "of the one before", "quota")
        for port, used in quotas.items():
            shown.add_row(str(port), str(used["this_epoch"]), str(used["epoch_before"]), str(used["quota"] or "?"))
        console.print(shown)
