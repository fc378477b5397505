# SPDX-License-Identifier: Apache-2.0
"""Entities as P4Runtime messages and back. Pure: `encode(entity, info)`, `decode(message, info)`. Raises P4RuntimeError
naming table, field and value."""

from collections.abc import Callable, Iterable, Mapping

from .entities import (
    Call,
    CloneSession,
    Count,
    CounterEntry,
    DigestConfig,
    DirectCounterEntry,
    DirectMeterEntry,
    Entity,
    Exact,
    Group,
    GroupMember,
    Lpm,
    Match,
    Member,
    MeterEntry,
    MeterRates,
    MulticastGroup,
    OneShot,
    Optional,
    ProfileGroup,
    ProfileMember,
    Range,
    RegisterEntry,
    Replica,
    TableEntry,
    Ternary,
    ValueSet,
    Weighted,
)
from .messages import Message, config, v1
from .p4info import Field, P4Info, Table
from .values import (
    P4RuntimeError,
    decode_data,
    encode_data,
    format_value,
    from_bytes,
    to_bytes,
)

# Matches


_KIND_OF = {Exact: "exact", Lpm: "lpm", Ternary: "ternary", Range: "range", Optional: "optional"}


def _value(value: int, key: Field, where: str) -> bytes:
    if key.bitwidth == 0:
        raise P4RuntimeError(f"{where}: its type is translated to a string; this client takes numbers")
    try:
        return to_bytes(value, key.bitwidth)
    except P4RuntimeError as error:
        raise P4RuntimeError(f"{where}: {error}") from None


def _number(data: bytes, key: Field, where: str) -> int:
    try:
        return from_bytes(data, key.bitwidth)
    except P4RuntimeError as error:
        raise P4RuntimeError(f"{where}: {error}") from None


def _encode_field(key: Field, match: Match, where: str) -> Message:
    where = f"{where}, field {key.name}"
    kind = _KIND_OF.get(type(match))
    if kind != key.kind:
        raise P4RuntimeError(f"{where}: {match!r}: must be {key.kind}")
    message = v1.FieldMatch(field_id=key.id)
    full = (1 << key.bitwidth) - 1
    if isinstance(match, Exact | Optional):
        getattr(message, kind).value = _value(match.value, key, where)
    elif isinstance(match, Lpm):
        if not 1 <= match.prefix_len <= key.bitwidth:
            raise P4RuntimeError(f"{where}: prefix length {match.prefix_len}: must be 1 .. {key.bitwidth}")
        message.lpm.value = _value(match.value, key, where)
        message.lpm.prefix_len = match.prefix_len
        if match.value & (full >> match.prefix_len):
            shown = format_value(match.value, key.bitwidth, key.is_address)
            raise P4RuntimeError(f"{where}: {shown}/{match.prefix_len}: bits beyond the prefix are set")
    elif isinstance(match, Ternary):
        message.ternary.value = _value(match.value, key, where)
        message.ternary.mask = _value(match.mask, key, where)
        if match.mask == 0:
            raise P4RuntimeError(f"{where}: mask 0: leave the field out to match everything")
        if match.value & ~match.mask:
            raise P4RuntimeError(f"{where}: {match.value:#x} &&& {match.mask:#x}: bits outside the mask are set")
    else:
        message.range.low = _value(match.low, key, where)
        message.range.high = _value(match.high, key, where)
        if match.low > match.high:
            raise P4RuntimeError(f"{where}: {match.low} .. {match.high}: low is above high")
        if (match.low, match.high) == (0, full):
            raise P4RuntimeError(f"{where}: every value: leave the field out")
    return message


def _decode_field(key: Field, message: Message, where: str) -> Match:
    where = f"{where}, field {key.name}"
    kind = message.WhichOneof("field_match_type")
    if kind != key.kind:
        raise P4RuntimeError(f"{where}: the device sent {kind or 'nothing'}, the P4Info says {key.kind}")
    part = getattr(message, kind)
    if kind == "exact":
        return Exact(_number(part.value, key, where))
    if kind == "optional":
        return Optional(_number(part.value, key, where))
    if kind == "lpm":
        return Lpm(_number(part.value, key, where), part.prefix_len)
    if kind == "ternary":
        return Ternary(_number(part.value, key, where), _number(part.mask, key, where))
    return Range(_number(part.low, key, where), _number(part.high, key, where))


def _encode_key(fields: tuple[Field, ...], match: Mapping[str, Match], where: str) -> list[Message]:
    unknown = set(match) - {key.name for key in fields}
    if unknown:
        names = ", ".join(key.name for key in fields) or "none"
        raise P4RuntimeError(f"{where}: no field {min(unknown)!r}; it has {names}")
    return [_encode_field(key, match[key.name], where) for key in fields if key.name in match]


def _decode_key(fields: tuple[Field, ...], messages: Iterable[Message], where: str) -> dict[str, Match]:
    by_id = {key.id: key for key in fields}
    match = {}
    for message in messages:
        if message.field_id not in by_id:
            raise P4RuntimeError(f"{where}: the device sent field {message.field_id}, which the P4Info has not")
        key = by_id[message.field_id]
        match[key.name] = _decode_field(key, message, where)
    return {key.name: match[key.name] for key in fields if key.name in match}


# Actions


def _encode_call(call: Call, info: P4Info, where: str, allowed: tuple[str, ...] | None = None) -> Message:
    action = info.actions[call.action]
    if allowed is not None and action.name not in allowed:
        raise P4RuntimeError(f"{where}: action {action.alias} is not allowed here; {', '.join(allowed) or 'none'} are")
    where = f"{where}, action {action.alias}"
    names = [param.name for param in action.params]
    wrong = [name for name in call.params if name not in names] + [name for name in names if name not in call.params]
    if wrong:
        what = "no parameter" if wrong[0] in call.params else "missing parameter"
        raise P4RuntimeError(f"{where}: {what} {wrong[0]!r}; it has {', '.join(names) or 'none'}")
    message = v1.Action(action_id=action.id)
    for param in action.params:
        value = _value(call.params[param.name], param, f"{where}, parameter {param.name}")
        message.params.add(param_id=param.id, value=value)
    return message


def _decode_call(message: Message, info: P4Info) -> Call:
    action = info.actions.by_id(message.action_id)
    by_id = {param.id: param for param in action.params}
    values = {}
    for part in message.params:
        if part.param_id not in by_id:
            raise P4RuntimeError(f"action {action.alias}: the device sent parameter {part.param_id}, not in the P4Info")
        param = by_id[part.param_id]
        values[param.name] = _number(part.value, param, f"action {action.alias}, parameter {param.name}")
    return Call(action.name, {param.name: values[param.name] for param in action.params if param.name in values})


def _encode_action(entry: TableEntry, table: Table, info: P4Info, where: str) -> Message:
    message = v1.TableAction()
    action = entry.action
    if isinstance(action, Call):
        allowed = table.for_default if entry.is_default else table.for_entries
        message.action.CopyFrom(_encode_call(action, info, where, allowed))
    elif isinstance(action, Member):
        message.action_profile_member_id = action.id
    elif isinstance(action, Group):
        message.action_profile_group_id = action.id
    elif isinstance(action, OneShot):
        for weighted in action.actions:
            part = message.action_profile_action_set.action_profile_actions.add(weight=weighted.weight)
            part.action.CopyFrom(_encode_call(weighted.call, info, where, table.for_entries))
            if weighted.watch_port is not None:
                part.watch_port = to_bytes(weighted.watch_port, 32)
        message.action_profile_action_set.SetInParent()
    return message


def _decode_action(message: Message, info: P4Info) -> Call | Member | Group | OneShot | None:
    kind = message.WhichOneof("type")
    if kind == "action":
        return _decode_call(message.action, info)
    if kind == "action_profile_member_id":
        return Member(message.action_profile_member_id)
    if kind == "action_profile_group_id":
        return Group(message.action_profile_group_id)
    if kind == "action_profile_action_set":
        return OneShot(
            tuple(
                Weighted(_decode_call(part.action, info), part.weight, _watch_port(part))
                for part in message.action_profile_action_set.action_profile_actions
            )
        )
    return None


def _watch_port(part: Message) -> int | None:
    kind = part.WhichOneof("watch_kind")
    return None if kind is None else part.watch if kind == "watch" else from_bytes(part.watch_port, 32)


# Tables


def _encode_count(count: Count) -> Message:
    return v1.CounterData(packet_count=count.packets, byte_count=count.bytes)


def _decode_count(message: Message) -> Count:
    return Count(message.packet_count, message.byte_count)


def _encode_rates(rates: MeterRates) -> Message:
    return v1.MeterConfig(cir=rates.cir, cburst=rates.cburst, pir=rates.pir, pburst=rates.pburst)


def _decode_rates(message: Message) -> MeterRates:
    return MeterRates(message.cir, message.cburst, message.pir, message.pburst)


def _encode_table_entry(entry: TableEntry, info: P4Info) -> Message:
    message = v1.TableEntry(is_default_action=entry.is_default)
    if entry.counter is not None:
        message.counter_data.CopyFrom(_encode_count(entry.counter))
        message.counter_data.SetInParent()
    if entry.meter is not None:
        message.meter_config.CopyFrom(_encode_rates(entry.meter))
    if entry.table is None:
        if entry.match or entry.action:
            raise P4RuntimeError("a table entry with match or action must name its table")
        return message
    table = info.tables[entry.table]
    where = f"table {table.alias}"
    message.table_id = table.id
    if entry.is_default and (entry.match or entry.priority):
        raise P4RuntimeError(f"{where}: a default action has no match and no priority")
    message.match.extend(_encode_key(table.fields, entry.match, where))
    if entry.match or entry.action:
        if not entry.is_default:
            for key in table.fields:
                if key.kind == "exact" and key.name not in entry.match:
                    raise P4RuntimeError(f"{where}: field {key.name} is missing; an exact field must be given")
            if table.needs_priority and entry.priority <= 0:
                raise P4RuntimeError(
                    f"{where}: priority {entry.priority}: must be above 0 (ternary, range or optional)"
                )
        if not table.needs_priority and entry.priority:
            raise P4RuntimeError(f"{where}: priority {entry.priority}: must be 0, its key is exact or lpm")
    message.priority = entry.priority
    if entry.action is not None:
        message.action.CopyFrom(_encode_action(entry, table, info, where))
    message.metadata = entry.metadata
    message.idle_timeout_ns = entry.idle_timeout_ns
    return message


def _decode_table_entry(message: Message, info: P4Info) -> TableEntry:
    table = info.tables.by_id(message.table_id)
    return TableEntry(
        table=table.name,
        match=_decode_key(table.fields, message.match, f"table {table.alias}"),
        action=_decode_action(message.action, info) if message.HasField("action") else None,
        priority=message.priority,
        is_default=message.is_default_action,
        metadata=message.metadata,
        idle_timeout_ns=message.idle_timeout_ns,
        counter=_decode_count(message.counter_data) if message.HasField("counter_data") else None,
        meter=_decode_rates(message.meter_config) if message.HasField("meter_config") else None,
        is_const=message.is_const,
    )


# The rest, one pair of functions a kind


def _index(message: Message, index: int | None) -> None:
    if index is not None:
        if index < 0:
            raise P4RuntimeError(f"index {index}: must be 0 or more")
        message.index.index = index


def _index_of(message: Message) -> int | None:
    return message.index.index if message.HasField("index") else None


def _encode_replicas(replicas: tuple[Replica, ...], message: Message) -> None:
    # The number, not the bytes that replaced it in 1.4: every device takes it.
    for replica in replicas:
        message.replicas.add(egress_port=replica.port, instance=replica.instance)


def _decode_replicas(message: Message) -> tuple[Replica, ...]:
    def port(replica: Message) -> int:
        return from_bytes(replica.port, 32) if replica.WhichOneof("port_kind") == "port" else replica.egress_port

    return tuple(Replica(port(replica), replica.instance) for replica in message.replicas)


def _encode_member(entity: ProfileMember, info: P4Info) -> Message:
    message = v1.ActionProfileMember(member_id=entity.id)
    if entity.profile is not None:
        message.action_profile_id = info.action_profiles[entity.profile].id
    if entity.action is not None:
        message.action.CopyFrom(_encode_call(entity.action, info, f"action profile {entity.profile}"))
    return message


def _decode_member(message: Message, info: P4Info) -> ProfileMember:
    profile = info.action_profiles.by_id(message.action_profile_id)
    action = _decode_call(message.action, info) if message.HasField("action") else None
    return ProfileMember(profile.name, message.member_id, action)


def _encode_group(entity: ProfileGroup, info: P4Info) -> Message:
    message = v1.ActionProfileGroup(group_id=entity.id, max_size=entity.max_size)
    if entity.profile is not None:
        message.action_profile_id = info.action_profiles[entity.profile].id
    for member in entity.members:
        part = message.members.add(member_id=member.id, weight=member.weight)
        if member.watch_port is not None:
            part.watch_port = to_bytes(member.watch_port, 32)
    return message


def _decode_group(message: Message, info: P4Info) -> ProfileGroup:
    members = tuple(GroupMember(part.member_id, part.weight, _watch_port(part)) for part in message.members)
    profile = info.action_profiles.by_id(message.action_profile_id)
    return ProfileGroup(profile.name, message.group_id, members, message.max_size)


def _encode_counter(entity: CounterEntry, info: P4Info) -> Message:
    message = v1.CounterEntry(counter_id=info.counters[entity.counter].id if entity.counter else 0)
    _index(message, entity.index)
    if entity.count is not None:
        message.data.CopyFrom(_encode_count(entity.count))
        message.data.SetInParent()
    return message


def _decode_counter(message: Message, info: P4Info) -> CounterEntry:
    count = _decode_count(message.data) if message.HasField("data") else None
    return CounterEntry(info.counters.by_id(message.counter_id).name, _index_of(message), count)


def _encode_direct_counter(entity: DirectCounterEntry, info: P4Info) -> Message:
    message = v1.DirectCounterEntry(table_entry=_encode_table_entry(entity.entry, info))
    if entity.count is not None:
        message.data.CopyFrom(_encode_count(entity.count))
        message.data.SetInParent()
    return message


def _decode_direct_counter(message: Message, info: P4Info) -> DirectCounterEntry:
    count = _decode_count(message.data) if message.HasField("data") else None
    return DirectCounterEntry(_decode_table_entry(message.table_entry, info), count)


def _encode_meter(entity: MeterEntry, info: P4Info) -> Message:
    message = v1.MeterEntry(meter_id=info.meters[entity.meter].id if entity.meter else 0)
    _index(message, entity.index)
    if entity.rates is not None:
        message.config.CopyFrom(_encode_rates(entity.rates))
    return message


def _decode_meter(message: Message, info: P4Info) -> MeterEntry:
    rates = _decode_rates(message.config) if message.HasField("config") else None
    return MeterEntry(info.meters.by_id(message.meter_id).name, _index_of(message), rates)


def _encode_direct_meter(entity: DirectMeterEntry, info: P4Info) -> Message:
    message = v1.DirectMeterEntry(table_entry=_encode_table_entry(entity.entry, info))
    if entity.rates is not None:
        message.config.CopyFrom(_encode_rates(entity.rates))
    return message


def _decode_direct_meter(message: Message, info: P4Info) -> DirectMeterEntry:
    rates = _decode_rates(message.config) if message.HasField("config") else None
    return DirectMeterEntry(_decode_table_entry(message.table_entry, info), rates)


def _encode_register(entity: RegisterEntry, info: P4Info) -> Message:
    message = v1.RegisterEntry()
    if entity.register is not None:
        register = info.registers[entity.register]
        message.register_id = register.id
        if entity.value is not None:
            try:
                data = encode_data(entity.value, register.message.type_spec, info.message.type_info)
            except P4RuntimeError as error:
                raise P4RuntimeError(f"register {register.alias}: {error}") from None
            message.data.CopyFrom(data)
    _index(message, entity.index)
    return message


def _decode_register(message: Message, info: P4Info) -> RegisterEntry:
    register = info.registers.by_id(message.register_id)
    value = None
    if message.HasField("data"):
        try:
            value = decode_data(message.data, register.message.type_spec, info.message.type_info)
        except P4RuntimeError as error:
            raise P4RuntimeError(f"register {register.alias}: {error}") from None
    return RegisterEntry(register.name, _index_of(message), value)


def _encode_multicast(entity: MulticastGroup, info: P4Info) -> Message:
    message = v1.PacketReplicationEngineEntry()
    message.multicast_group_entry.multicast_group_id = entity.id
    _encode_replicas(entity.replicas, message.multicast_group_entry)
    return message


def _encode_clone(entity: CloneSession, info: P4Info) -> Message:
    message = v1.PacketReplicationEngineEntry()
    session = message.clone_session_entry
    session.session_id = entity.id
    session.class_of_service = entity.class_of_service
    session.packet_length_bytes = entity.truncate_bytes
    _encode_replicas(entity.replicas, session)
    return message


def _decode_replication(message: Message, info: P4Info) -> MulticastGroup | CloneSession:
    kind = message.WhichOneof("type")
    if kind == "multicast_group_entry":
        group = message.multicast_group_entry
        return MulticastGroup(group.multicast_group_id, _decode_replicas(group))
    if kind == "clone_session_entry":
        session = message.clone_session_entry
        replicas = _decode_replicas(session)
        return CloneSession(session.session_id, replicas, session.class_of_service, session.packet_length_bytes)
    raise P4RuntimeError("the device sent a replication entry that is neither multicast group nor clone session")


def _encode_digest(entity: DigestConfig, info: P4Info) -> Message:
    if entity.digest is None:
        return v1.DigestEntry()
    message = v1.DigestEntry(digest_id=info.digests[entity.digest].id)
    message.config.max_timeout_ns = entity.max_timeout_ns
    message.config.max_list_size = entity.max_list_size
    message.config.ack_timeout_ns = entity.ack_timeout_ns
    return message


def _decode_digest(message: Message, info: P4Info) -> DigestConfig:
    settings = message.config
    name = info.digests.by_id(message.digest_id).name
    return DigestConfig(name, settings.max_timeout_ns, settings.max_list_size, settings.ack_timeout_ns)


def _value_set_fields(message: Message) -> tuple[Field, ...]:
    kinds = {value: name.lower() for name, value in config.MatchField.MatchType.items()}
    return tuple(Field(f.id, f.name, f.bitwidth, kinds[f.match_type]) for f in message.match)


def _encode_value_set(entity: ValueSet, info: P4Info) -> Message:
    message = v1.ValueSetEntry()
    if entity.value_set is not None:
        value_set = info.value_sets[entity.value_set]
        message.value_set_id = value_set.id
        fields = _value_set_fields(value_set.message)
        for member in entity.members:
            message.members.add().match.extend(_encode_key(fields, member, f"value set {value_set.alias}"))
    return message


def _decode_value_set(message: Message, info: P4Info) -> ValueSet:
    value_set = info.value_sets.by_id(message.value_set_id)
    fields = _value_set_fields(value_set.message)
    where = f"value set {value_set.alias}"
    return ValueSet(value_set.name, tuple(_decode_key(fields, member.match, where) for member in message.members))


_ENCODERS: dict[type, tuple[str, Callable[..., Message]]] = {
    TableEntry: ("table_entry", _encode_table_entry),
    ProfileMember: ("action_profile_member", _encode_member),
    ProfileGroup: ("action_profile_group", _encode_group),
    CounterEntry: ("counter_entry", _encode_counter),
    DirectCounterEntry: ("direct_counter_entry", _encode_direct_counter),
    MeterEntry: ("meter_entry", _encode_meter),
    DirectMeterEntry: ("direct_meter_entry", _encode_direct_meter),
    RegisterEntry: ("register_entry", _encode_register),
    MulticastGroup: ("packet_replication_engine_entry", _encode_multicast),
    CloneSession: ("packet_replication_engine_entry", _encode_clone),
    DigestConfig: ("digest_entry", _encode_digest),
    ValueSet: ("value_set_entry", _encode_value_set),
}

_DECODERS: dict[str, Callable[..., Entity]] = {
    "table_entry": _decode_table_entry,
    "action_profile_member": _decode_member,
    "action_profile_group": _decode_group,
    "counter_entry": _decode_counter,
    "direct_counter_entry": _decode_direct_counter,
    "meter_entry": _decode_meter,
    "direct_meter_entry": _decode_direct_meter,
    "register_entry": _decode_register,
    "packet_replication_engine_entry": _decode_replication,
    "digest_entry": _decode_digest,
    "value_set_entry": _decode_value_set,
}


def encode(entity: Entity, info: P4Info) -> Message:
    """The entity as p4.v1.Entity."""
    name, encoder = _ENCODERS[type(entity)]
    return v1.Entity(**{name: encoder(entity, info)})


def decode(message: Message, info: P4Info) -> Entity:
    """The entity of a p4.v1.Entity, with full names."""
    kind = message.WhichOneof("entity")
    if kind not in _DECODERS:
        raise P4RuntimeError(f"the device sent {kind or 'an empty entity'}, which this client does not know")
    return _DECODERS[kind](getattr(message, kind), info)
