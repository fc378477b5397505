# SPDX-License-Identifier: Apache-2.0
"""What a device holds, as plain data and as tables for a terminal. Reading is apart from showing."""

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
from ..p4runtime.p4info import P4Info
from ..p4runtime.words import SECRET_PARAMS, describe_action, describe_key
from ..text import printable


@dataclass
class Snapshot:
    """What was read of a device, and what it could not tell, with its reason."""

    address: str
    device_id: int
    api_version: str
    cookie: int
    info: P4Info
    entities: list[Entity] = field(default_factory=list)
    not_told: dict[str, str] = field(default_factory=dict)


def read_all(device: Client, table: str | None = None) -> Snapshot:
    """Tables with their default actions, multicast groups, counters and registers; of one `table` only its entries."""
    present = device.get_pipeline()
    info = device.info
    snapshot = Snapshot(device.address, device.device_id, device.capabilities(), present.cookie if present else 0, info)
    tables = [info.tables[table]] if table is not None else list(info.tables)
    for item in tables:
        # P4Runtime 11.1: counts are told where the request has the field.
        wanted = TableEntry(item.name, counter=Count() if item.has_direct_counter else None)
        snapshot.entities += device.read(wanted)
        _try(device, snapshot, f"default action of {item.alias}", TableEntry(item.name, is_default=True))
    if table is None:
        _try(device, snapshot, "multicast groups", MulticastGroup(0))
        for counter in info.counters:
            _try(device, snapshot, f"counter {counter.alias}", CounterEntry(counter.name))
        for register in info.registers:
            _try(device, snapshot, f"register {register.alias}", RegisterEntry(register.name))
    return snapshot


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


def as_data(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as JSON has it: numbers as numbers, keys and actions in words beside their values. Counters and
    registers: only cells that are not zero."""
    info = snapshot.info
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


def names_data(
    snapshot: Snapshot, counters: dict[str, dict[int | None, Any]], registers: dict[str, dict[int | None, Any]]
) -> dict[str, Any]:
    """Of a program that forwards by name: what became of packets, in words, and how full the table of what was asked
    is. Takes these out of `counters` and `registers`; empty for other programs, and where only one table was read."""
    program = programs.of(snapshot.info)
    tables = program.names if program else None
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
    return data


def print_snapshot(snapshot: Snapshot, console: Console) -> None:
    """Tables for a terminal."""
    data = as_data(snapshot)
    console.print(
        f"[bold]device {data['device_id']}[/] at {_told(data['address'])}, P4Runtime {_told(data['p4runtime'])}, "
        f"program {data['cookie']}"
    )
    for name, table in data["tables"].items():
        shown = RichTable(title=f"table {_told(name)}", title_justify="left", title_style="bold", box=None)
        shown.add_column("key", no_wrap=True)
        shown.add_column("action", overflow="fold")
        counted = any("count" in entry for entry in table["entries"])
        for column in ("packets", "bytes") if counted else ():
            shown.add_column(column, justify="right")
        for entry in table["entries"]:
            counts = map(str, entry["count"].values()) if "count" in entry else ()
            shown.add_row(_told(entry["key"]), _told(entry["action"]), *counts)
        if "default" in table:
            shown.add_row("[dim]otherwise[/]", f"[dim]{_told(table['default']['action'])}[/]")
        console.print(shown)
    for group in data["multicast_groups"]:
        console.print(f"multicast group {group['id']}: ports {', '.join(map(str, group['ports']))}")
    if data["counters"]:
        shown = RichTable(title="counters", title_justify="left", title_style="bold", box=None)
        for column in ("counter", "index", "packets", "bytes"):
            shown.add_column(column, justify="left" if column == "counter" else "right")
        for name, cells in data["counters"].items():
            for index, count in cells.items():
                shown.add_row(_told(name), str(index), str(count["packets"]), str(count["bytes"]))
        console.print(shown)
    if names := data.get("names"):
        shown = RichTable(title="names", title_justify="left", title_style="bold", box=None)
        for column in ("what became of it", "packets"):
            shown.add_column(column, justify="left" if column != "packets" else "right")
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
    if data["registers"]:
        shown = RichTable(
            title="registers (cells that are not zero)", title_justify="left", title_style="bold", box=None
        )
        for column in ("register", "index", "value"):
            shown.add_column(column, justify="left" if column == "register" else "right")
        for name, cells in data["registers"].items():
            for index, value in cells.items():
                shown.add_row(_told(name), str(index), _told(str(value)))
        console.print(shown)
    reasons: dict[str, list[str]] = {}
    for what, reason in data["not_told"].items():
        reasons.setdefault(reason.split(": ", 2)[-1], []).append(what)
    for reason, what in reasons.items():
        named = ", ".join(what[:3]) + (f" and {len(what) - 3} more" if len(what) > 3 else "")
        console.print(f"[dim]not shown: {_told(named)}: {_told(reason)}[/]")
