# SPDX-License-Identifier: Apache-2.0
"""Entities as text, for messages and tables. Pure."""

from .entities import (
    Call,
    CloneSession,
    DigestConfig,
    DirectCounterEntry,
    DirectMeterEntry,
    Entity,
    Group,
    Lpm,
    Match,
    Member,
    MulticastGroup,
    OneShot,
    ProfileGroup,
    ProfileMember,
    Range,
    TableEntry,
    Ternary,
    ValueSet,
)
from .p4info import Field, P4Info, Table
from .values import format_value


def describe_match(key: Field, match: Match) -> str:
    """`10.0.0.0/8`, `0x0a&&&0xff`, `1..5` or the bare value."""

    def show(value: int) -> str:
        return format_value(value, key.bitwidth, key.is_address)

    if isinstance(match, Lpm):
        value = show(match.value) if key.is_address else f"{match.value:#0{2 + (key.bitwidth + 3) // 4}x}"
        return f"{value}/{match.prefix_len}"
    if isinstance(match, Ternary):
        return f"{match.value:#x}&&&{match.mask:#x}"
    if isinstance(match, Range):
        return f"{show(match.low)}..{show(match.high)}"
    return show(match.value)


def describe_key(entry: TableEntry, table: Table) -> str:
    """A table entry's key in one line; a table of one field leaves its name out."""
    if entry.is_default:
        return "default action"
    parts = [(key, describe_match(key, entry.match[key.name])) for key in table.fields if key.name in entry.match]
    if not parts and entry.action and len(table.fields) == 1 and table.fields[0].kind == "lpm":
        return describe_match(table.fields[0], Lpm(0, 0))
    shown = [text if len(table.fields) == 1 else f"{key.name}={text}" for key, text in parts]
    if entry.priority:
        shown.append(f"priority {entry.priority}")
    return ", ".join(shown) or "any"


SECRET_PARAMS = ("hash_key_low", "hash_key_high")
"""Action parameters that are worth something to an attacker: they are not shown."""


def describe_call(call: Call, info: P4Info) -> str:
    """`set_next_hop(next_hop=3)`; of many parameters only the first."""
    action = info.actions[call.action]
    shown = [
        f"{p.name}={'...' if p.name in SECRET_PARAMS else format_value(call.params[p.name], p.bitwidth, p.is_address)}"
        for p in action.params
    ]
    if len(shown) > 8:
        shown[4:] = [f"and {len(shown) - 4} more"]
    return f"{action.alias}({', '.join(shown)})"


def describe_action(action: Call | Member | Group | OneShot | None, info: P4Info) -> str:
    """An entry's action in one line."""
    if isinstance(action, Call):
        return describe_call(action, info)
    if isinstance(action, OneShot):
        return "one of " + ", ".join(f"{describe_call(w.call, info)} x{w.weight}" for w in action.actions)
    if action is None:
        return "none"
    return f"{type(action).__name__.lower()} {action.id}"


def describe(entity: Entity, info: P4Info) -> str:
    """Name of an entity, for messages: `table ipv4_lpm 10.0.0.0/8`, without its contents."""
    if isinstance(entity, TableEntry):
        if entity.table is None:
            return "all tables"
        table = info.tables[entity.table]
        return f"table {table.alias} {describe_key(entity, table)}"
    if isinstance(entity, DirectCounterEntry):
        return f"counter of {describe(entity.entry, info)}"
    if isinstance(entity, DirectMeterEntry):
        return f"meter of {describe(entity.entry, info)}"
    if isinstance(entity, ProfileMember | ProfileGroup):
        kind = "member" if isinstance(entity, ProfileMember) else "group"
        return f"{entity.profile or 'all action profiles'} {kind} {entity.id or 'any'}"
    if isinstance(entity, MulticastGroup):
        return f"multicast group {entity.id or 'any'}"
    if isinstance(entity, CloneSession):
        return f"clone session {entity.id or 'any'}"
    if isinstance(entity, DigestConfig):
        return f"digest {entity.digest or 'any'}"
    if isinstance(entity, ValueSet):
        return f"value set {entity.value_set or 'any'}"
    kind, name = next(
        (k, getattr(entity, k)) for k in ("counter", "meter", "register") if k in type(entity).__dataclass_fields__
    )
    return f"{kind} {name or 'any'}[{'all' if entity.index is None else entity.index}]"
