# SPDX-License-Identifier: Apache-2.0
"""A P4Info by names: tables, actions, fields and the rest, found as a person would write them. Pure."""

import difflib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

from google.protobuf import json_format, text_format
from google.protobuf.message import DecodeError
from google.protobuf.message import Message as AnyMessage

from .messages import Message, config
from .values import P4RuntimeError

_KINDS = {value: name.lower() for name, value in config.MatchField.MatchType.items()}
_NAMES_SHOWN = 32  # in a message
_COUNTER_UNITS = {value: name.lower() for name, value in config.CounterSpec.Unit.items()}


def _enumerated(names: Mapping[int, str], number: int, where: str, what: str) -> str:
    """Name of an enumeration's value; a switch of another version may send any number."""
    if number not in names:
        raise P4RuntimeError(f"the P4Info has {what} {number}, which is unknown, in {where[:NAME_BYTES_MOST]}")
    return names[number]


@dataclass(frozen=True)
class Field:
    """A match field or an action's parameter. `kind`: exact, lpm, ternary, range or optional; "" for a parameter."""

    id: int
    name: str
    bitwidth: int
    kind: str = ""
    is_address: bool = False


@dataclass(frozen=True)
class Action:
    """An action and its parameters in order."""

    id: int
    name: str
    alias: str
    params: tuple[Field, ...]


@dataclass(frozen=True)
class Table:
    """A table; `actions` are full names, `for_entries` and `for_default` those allowed there."""

    id: int
    name: str
    alias: str
    fields: tuple[Field, ...]
    for_entries: tuple[str, ...]
    for_default: tuple[str, ...]
    const_default: str | None
    is_const: bool
    has_direct_counter: bool
    has_direct_meter: bool
    implementation_id: int
    size: int

    @property
    def needs_priority(self) -> bool:
        return any(field.kind in ("ternary", "range", "optional") for field in self.fields)


@dataclass(frozen=True)
class Resource:
    """An action profile, counter, meter, register, digest, value set or packet header by its preamble."""

    id: int
    name: str
    alias: str
    size: int
    message: Message

    @property
    def unit(self) -> str:
        """Unit of a counter: bytes, packets or both."""
        return _enumerated(_COUNTER_UNITS, self.message.spec.unit, f"counter {self.name}", "unit")


Item = TypeVar("Item", Table, Action, Resource)


NAME_BYTES_MOST = 1024
ITEMS_MOST = 16_384
BYTES_MOST = 2 << 20
"""Bounds of a P4Info, which a switch sends: the longest name and alias, the number of items, the size of it all."""


class Names(Generic[Item]):
    """Items of one kind, by full name, alias, or the last parts of the name where only one item has them."""

    def __init__(self, kind: str, items: Iterable[Item]) -> None:
        self.kind = kind
        self._by_id: dict[int, Item] = {item.id: item for item in items}
        self._by_name: dict[str, Item] = {item.name: item for item in self._by_id.values()}
        for item in self._by_id.values():
            if len(item.name.encode()) > NAME_BYTES_MOST or len(item.alias.encode()) > NAME_BYTES_MOST:
                raise P4RuntimeError(
                    f"the P4Info has a {kind} with a name of more than {NAME_BYTES_MOST} bytes: {item.name[:40]!r}..."
                )
            if item.alias:
                self._by_name.setdefault(item.alias, item)

    def _find(self, name: str) -> Item | None:
        """Last parts of names are searched for and not kept: a name has many, and their length goes by its square."""
        if name in self._by_name:
            return self._by_name[name]
        found = [item for item in self._by_id.values() if item.name.endswith(f".{name}")]
        return found[0] if len(found) == 1 else None

    def __iter__(self) -> Iterator[Item]:
        return iter(self._by_id.values())

    def __len__(self) -> int:
        return len(self._by_id)

    def __contains__(self, name: str) -> bool:
        return self._find(name) is not None

    def __getitem__(self, name: str) -> Item:
        item = self._find(name)
        if item is not None:
            return item
        near = difflib.get_close_matches(name, [*self._by_name, *(i.name.rpartition(".")[2] for i in self)], n=1)
        names = [item.name for item in itertools.islice(self, _NAMES_SHOWN)] + ["..."] * (len(self) > _NAMES_SHOWN)
        hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(names) or 'none'}"
        raise P4RuntimeError(f"the program has no {self.kind} {name!r}; {hint}")

    def by_id(self, number: int) -> Item:
        if number not in self._by_id:
            raise P4RuntimeError(f"the device speaks of {self.kind} {number:#x}, which is not in the P4Info")
        return self._by_id[number]


def _is_address(message: Message) -> bool:
    text = " ".join(message.annotations).upper()
    return "IPV4_ADDRESS" in text or "IPV6_ADDRESS" in text


def _action(message: Message) -> Action:
    params = (Field(p.id, p.name, p.bitwidth, is_address=_is_address(p)) for p in message.params)
    return Action(message.preamble.id, message.preamble.name, message.preamble.alias, tuple(params))


class P4Info:
    """Indexes of one P4Info message. Text form: `from_text`; the program's objects: the cached properties."""

    def __init__(self, message: Message) -> None:
        items = sum(len(value) for _, value in message.ListFields() if not isinstance(value, AnyMessage))
        if message.ByteSize() > BYTES_MOST or items > ITEMS_MOST:
            raise P4RuntimeError(
                f"the P4Info has {message.ByteSize()} bytes and {items} items; at most {BYTES_MOST} and {ITEMS_MOST}"
            )
        self.message = message

    @classmethod
    def from_file(cls, data: bytes, source: str) -> "P4Info":
        """From protobuf's text format, as p4c writes it, its JSON or its binary format. `source` is for the message."""
        if data.lstrip().startswith(b"{"):  # no text does, and no binary one: P4Info has no field 15
            try:
                return cls(json_format.Parse(data, config.P4Info()))
            except (json_format.ParseError, ValueError, RecursionError) as error:
                raise P4RuntimeError(f"{source}: not a P4Info in JSON ({error})") from None
        try:
            return cls(text_format.Parse(data.decode("utf-8"), config.P4Info()))
        except (UnicodeDecodeError, text_format.ParseError) as text_error:
            try:
                return cls(config.P4Info.FromString(data))
            except DecodeError:
                raise P4RuntimeError(f"{source}: not a P4Info, neither text ({text_error}) nor binary") from None

    def _resources(self, kind: str, messages: Iterable[Message]) -> Names[Resource]:
        return Names(
            kind,
            (
                Resource(m.preamble.id, m.preamble.name, m.preamble.alias, int(getattr(m, "size", 0)), m)
                for m in messages
            ),
        )

    @cached_property
    def actions(self) -> Names[Action]:
        return Names("action", map(_action, self.message.actions))

    @cached_property
    def tables(self) -> Names[Table]:
        return Names("table", map(self._table, self.message.tables))

    def _table(self, message: Message) -> Table:
        ref = config.ActionRef
        counters = {m.preamble.id for m in self.message.direct_counters}
        meters = {m.preamble.id for m in self.message.direct_meters}
        return Table(
            id=message.preamble.id,
            name=message.preamble.name,
            alias=message.preamble.alias,
            fields=tuple(
                Field(
                    f.id,
                    f.name,
                    f.bitwidth,
                    _enumerated(_KINDS, f.match_type, f"table {message.preamble.name}, field {f.name}", "match type"),
                    _is_address(f) or (f.match_type == config.MatchField.LPM and f.bitwidth in (32, 128)),
                )
                for f in message.match_fields
            ),
            for_entries=tuple(
                self.actions.by_id(r.id).name for r in message.action_refs if r.scope != ref.DEFAULT_ONLY
            ),
            for_default=tuple(self.actions.by_id(r.id).name for r in message.action_refs if r.scope != ref.TABLE_ONLY),
            const_default=(
                self.actions.by_id(message.const_default_action_id).name if message.const_default_action_id else None
            ),
            is_const=message.is_const_table,
            has_direct_counter=bool(counters & set(message.direct_resource_ids)),
            has_direct_meter=bool(meters & set(message.direct_resource_ids)),
            implementation_id=message.implementation_id,
            size=message.size,
        )

    @cached_property
    def action_profiles(self) -> Names[Resource]:
        return self._resources("action profile", self.message.action_profiles)

    @cached_property
    def counters(self) -> Names[Resource]:
        return self._resources("counter", self.message.counters)

    @cached_property
    def meters(self) -> Names[Resource]:
        return self._resources("meter", self.message.meters)

    @cached_property
    def registers(self) -> Names[Resource]:
        return self._resources("register", self.message.registers)

    @cached_property
    def digests(self) -> Names[Resource]:
        return self._resources("digest", self.message.digests)

    @cached_property
    def value_sets(self) -> Names[Resource]:
        return self._resources("value set", self.message.value_sets)

    @cached_property
    def packet_headers(self) -> Names[Resource]:
        return self._resources("controller header", self.message.controller_packet_metadata)
