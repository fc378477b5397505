# SPDX-License-Identifier: Apache-2.0
"""Runtime files of p4lang's tutorials (`s1-runtime.json`): a program's files, table entries, multicast groups and clone
sessions, in JSON.

    {"target": "bmv2", "p4info": "build/basic.p4.p4info.txtpb", "bmv2_json": "build/basic.json",
     "table_entries": [{"table": "MyIngress.ipv4_lpm", "match": {"hdr.ipv4.dstAddr": ["10.0.1.1", 32]},
                        "action_name": "MyIngress.ipv4_forward", "action_params": {"port": 1}}],
     "multicast_group_entries": [{"multicast_group_id": 1, "replicas": [{"egress_port": 1, "instance": 1}]}],
     "clone_session_entries": [{"clone_session_id": 100, "replicas": [{"egress_port": 252, "instance": 1}]}]}

A value is a number (negative: two's complement), or a MAC, IPv4 or IPv6 address as text. A match of kind exact or
optional is a value, of kind lpm `[value, prefix length]`, ternary `[value, mask]`, range `[low, high]`.
"""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..p4runtime.client import Update
from ..p4runtime.codec import encode
from ..p4runtime.entities import (
    Call,
    CloneSession,
    Exact,
    Lpm,
    Match,
    MulticastGroup,
    Optional,
    Range,
    Replica,
    TableEntry,
    Ternary,
)
from ..p4runtime.p4info import Field, P4Info
from ..p4runtime.values import P4RuntimeError
from ..settings import SettingsError, nearest, read_text

KEYS = ("target", "p4info", "bmv2_json", "table_entries", "multicast_group_entries", "clone_session_entries")
_ENTRY_KEYS = ("table", "match", "default_action", "action_name", "action_params", "priority", "idle_timeout_ns")
_MAC = re.compile(r"([0-9A-Fa-f]{2}:){5}[0-9A-Fa-f]{2}")
_ADDRESS_BITS = {4: 32, 6: 128}


class RuntimeFileError(SettingsError):
    """A runtime file that can't be used; the message has the file and the key."""


@dataclass(frozen=True)
class RuntimeFile:
    """A runtime file. `p4info` and `device_config` are paths of the program's files; the rest waits for the P4Info."""

    source: str
    p4info: Path
    device_config: Path
    tables: tuple[Mapping[str, Any], ...] = ()
    groups: tuple[MulticastGroup, ...] = ()
    sessions: tuple[CloneSession, ...] = ()

    def entries(self, info: P4Info) -> list[TableEntry]:
        """The table entries of a program. Raises RuntimeFileError."""
        return [_table_entry(raw, info, f"{self.source}: table_entries[{n}]") for n, raw in enumerate(self.tables)]


def updates(file: RuntimeFile, info: P4Info) -> list[Update]:
    """All changes that the file asks of an empty switch with its program. Raises RuntimeFileError."""
    made = []
    lists: dict[str, Sequence[TableEntry | MulticastGroup | CloneSession]]
    lists = {KEYS[3]: file.entries(info), KEYS[4]: file.groups, KEYS[5]: file.sessions}
    for key, entities in lists.items():
        for number, entity in enumerate(entities):
            try:
                encode(entity, info)
            except P4RuntimeError as error:
                raise RuntimeFileError(f"{file.source}: {key}[{number}]: {error}") from None
            # A table always has a default action, which no controller can insert.
            is_default = isinstance(entity, TableEntry) and entity.is_default
            made.append(Update.modify(entity) if is_default else Update.insert(entity))
    return made


def load(path: Path) -> RuntimeFile:
    """The file at `path`; paths in it are relative to the working folder, else to the file's own. Raises
    SettingsError and OSError."""
    return loads(read_text(path), str(path), (Path(), path.parent))


def loads(text: str, source: str, folders: tuple[Path, ...]) -> RuntimeFile:
    """A file's text. `folders`: where the program's files are looked for. Raises RuntimeFileError."""
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RuntimeFileError(f"{source}: not JSON: {error}") from None
    _object(raw, source, KEYS)
    if raw.get("target", "bmv2") != "bmv2":
        raise RuntimeFileError(f"{source}: target: {raw['target']!r}: must be 'bmv2'")
    p4info, program = (_file(raw, key, source, folders) for key in ("p4info", "bmv2_json"))
    groups = [
        MulticastGroup(_whole(entry, "multicast_group_id", where, 1), _replicas(entry, where))
        for entry, where in _list(raw, "multicast_group_entries", source, ("multicast_group_id", "replicas"))
    ]
    session_keys = ("clone_session_id", "replicas", "packet_length_bytes", "class_of_service")
    sessions = [
        CloneSession(
            _whole(entry, "clone_session_id", where, 1),
            _replicas(entry, where),
            _whole(entry, "class_of_service", where, 0, 0),
            _whole(entry, "packet_length_bytes", where, 0, 0),
        )
        for entry, where in _list(raw, "clone_session_entries", source, session_keys)
    ]
    tables = tuple(entry for entry, _ in _list(raw, "table_entries", source, _ENTRY_KEYS))
    return RuntimeFile(source, p4info, program, tables, tuple(groups), tuple(sessions))


def _object(raw: Any, where: str, keys: tuple[str, ...]) -> None:
    if not isinstance(raw, dict):
        raise RuntimeFileError(f"{where}: must be an object, {{...}}")
    for key in raw:
        if key not in keys:
            raise RuntimeFileError(f"{where}: {key}: unknown key; {nearest(key, list(keys))}")


def _list(raw: Mapping[str, Any], key: str, source: str, keys: tuple[str, ...]) -> list[tuple[dict[str, Any], str]]:
    found = raw.get(key, [])
    if not isinstance(found, list):
        raise RuntimeFileError(f"{source}: {key}: must be a list, [...]")
    placed = [(entry, f"{source}: {key}[{number}]") for number, entry in enumerate(found)]
    for entry, where in placed:
        _object(entry, where, keys)
    return placed


def _file(raw: Mapping[str, Any], key: str, source: str, folders: tuple[Path, ...]) -> Path:
    name = _text(raw, key, source)
    if "\0" in name:
        raise RuntimeFileError(f"{source}: {key}: {name!r}: must be a path")
    tried = [folder / name for folder in folders]
    found = next((path for path in tried if path.is_file()), None)
    if found is None:
        places = " nor ".join(map(str, dict.fromkeys(tried)))
        raise RuntimeFileError(f"{source}: {key}: no file {places}; compile the program first")
    return found


def _text(raw: Mapping[str, Any], key: str, where: str) -> str:
    found = raw.get(key)
    if not isinstance(found, str) or not found:
        raise RuntimeFileError(f"{where}: {key}: {'missing' if found is None else repr(found)}; must be text")
    return found


def _whole(raw: Mapping[str, Any], key: str, where: str, least: int, default: int | None = None) -> int:
    found = raw.get(key, default)
    if type(found) is not int or not least <= found < 1 << 31:
        shown = "missing" if found is None else repr(found)
        raise RuntimeFileError(f"{where}: {key}: {shown}; must be a whole number of {least} or more")
    return found


def _replicas(entry: Mapping[str, Any], where: str) -> tuple[Replica, ...]:
    made = _list(entry, "replicas", where, ("egress_port", "instance"))
    return tuple(Replica(_whole(raw, "egress_port", at, 0), _whole(raw, "instance", at, 0, 0)) for raw, at in made)


def _table_entry(raw: Mapping[str, Any], info: P4Info, where: str) -> TableEntry:
    name = _text(raw, "table", where)
    try:
        table = info.tables[name]
        match = raw.get("match") or {}
        fields = {field.name: field for field in table.fields}
        _object(match, f"{where}: match", tuple(fields))
        keys = {key: _match(value, fields[key], f"{where}: match: {key}") for key, value in match.items()}
        call = _call(raw, info, where)
    except RuntimeFileError:
        raise
    except P4RuntimeError as error:
        raise RuntimeFileError(f"{where}: {error}") from None
    is_default = raw.get("default_action") or False
    if not isinstance(is_default, bool):
        raise RuntimeFileError(f"{where}: default_action: {is_default!r}: must be true or false")
    priority = _whole({"priority": raw.get("priority") or 0}, "priority", where, 0)
    if table.needs_priority and not is_default and not priority:
        raise RuntimeFileError(f"{where}: priority: missing; table {name} needs one, 1 or more, the largest wins")
    return TableEntry(
        table.name,
        {key: found for key, found in keys.items() if found is not None},
        call,
        priority,
        is_default,
        idle_timeout_ns=_whole(raw, "idle_timeout_ns", where, 0, 0),
    )


def _call(raw: Mapping[str, Any], info: P4Info, where: str) -> Call:
    action = info.actions[_text(raw, "action_name", where)]
    params = {param.name: param for param in action.params}
    given = raw.get("action_params") or {}
    _object(given, f"{where}: action_params", tuple(params))
    values = {name: _value(value, params[name], f"{where}: action_params: {name}") for name, value in given.items()}
    return Call(action.name, values)


def _match(value: Any, field: Field, where: str) -> Match | None:
    """A match; None for one that matches everything, which P4Runtime leaves out."""
    if field.kind in ("exact", "optional"):
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        return (Exact if field.kind == "exact" else Optional)(_value(value, field, where))
    second = {"lpm": "prefix length", "ternary": "mask"}.get(field.kind, "high")
    if not isinstance(value, list) or len(value) != 2:
        first = "low" if field.kind == "range" else "value"
        raise RuntimeFileError(f"{where}: {value!r}: must be [{first}, {second}]")
    number = _value(value[0], field, where)
    full = (1 << field.bitwidth) - 1
    if field.kind == "lpm":
        length = _whole({second: value[1]}, second, where, 0)
        return Lpm(number, length) if length else None
    other = _value(value[1], field, where)
    if field.kind == "ternary":
        return Ternary(number, other) if other else None
    return Range(number, other) if (number, other) != (0, full) else None


def _value(value: Any, field: Field, where: str) -> int:
    if isinstance(value, str):
        return _address(value, field, where)
    if type(value) is int and -(1 << field.bitwidth) // 2 <= value < 1 << field.bitwidth:
        return value % (1 << field.bitwidth)
    raise RuntimeFileError(f"{where}: {value!r}: must be an address, or a whole number of {field.bitwidth} bits")


def _address(text: str, field: Field, where: str) -> int:
    if _MAC.fullmatch(text):
        number, bits = int(text.replace(":", ""), 16), 48
    else:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            raise RuntimeFileError(f"{where}: {text!r}: must be a number, or a MAC, IPv4 or IPv6 address") from None
        number, bits = int(address), _ADDRESS_BITS[address.version]
    if bits != field.bitwidth:
        raise RuntimeFileError(f"{where}: {text!r}: an address of {bits} bits; must have {field.bitwidth}")
    return number
