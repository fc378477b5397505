# SPDX-License-Identifier: Apache-2.0
"""Numbers, addresses and P4 data as P4Runtime's bytes, and back. Pure."""

import ipaddress
from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

from .messages import Message, config, v1

Data = Any
"""A P4 value: int, bool, str (enum member, error), Varbit, tuple, dict (struct or valid header), list (stack), None
(invalid header), (member, header) for a header union."""


class P4RuntimeError(Exception):
    """Value that can't be sent to a device, or not understood from it; the message names it, and the right form."""


@dataclass(frozen=True)
class Varbit:
    """A value of a varbit type; `bitwidth` is its present width in bits."""

    value: int
    bitwidth: int


def to_bytes(value: int, bitwidth: int) -> bytes:
    """The canonical byte string: shortest, big-endian, zero is one byte. Raises P4RuntimeError when it does not fit."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << bitwidth:
        raise P4RuntimeError(f"{value!r}: must be a whole number of {bitwidth} bits, 0 .. {hex((1 << bitwidth) - 1)}")
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def from_bytes(data: bytes, bitwidth: int) -> int:
    """The number; leading zero bytes are taken too, older devices send them."""
    if not data:
        raise P4RuntimeError("a value of no bytes; at least one must be there")
    value = int.from_bytes(data, "big")
    if value >> bitwidth:
        raise P4RuntimeError(f"0x{data.hex()} does not fit {bitwidth} bits")
    return value


def signed_to_bytes(value: int, bitwidth: int) -> bytes:
    """The shortest two's complement."""
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bitwidth - 1) <= value < 1 << bitwidth - 1:
        limit = 1 << bitwidth - 1
        raise P4RuntimeError(f"{value!r}: must be a whole number of int<{bitwidth}>, {-limit} .. {limit - 1}")
    bits = (value if value >= 0 else ~value).bit_length() + 1
    return value.to_bytes((bits + 7) // 8, "big", signed=True)


def signed_from_bytes(data: bytes, bitwidth: int) -> int:
    """The number of a two's complement byte string."""
    if not data:
        raise P4RuntimeError("a value of no bytes; at least one must be there")
    value = int.from_bytes(data, "big", signed=True)
    if not -(1 << bitwidth - 1) <= value < 1 << bitwidth - 1:
        raise P4RuntimeError(f"0x{data.hex()} does not fit int<{bitwidth}>")
    return value


def format_value(value: int, bitwidth: int, is_address: bool = False) -> str:
    """The number as people write it: 48 bits as MAC, 128 as IPv6, 32 as IPv4 when it `is_address`, else decimal."""
    if bitwidth == 48:
        return ":".join(f"{byte:02x}" for byte in value.to_bytes(6, "big"))
    if bitwidth == 128:
        return str(ipaddress.IPv6Address(value))
    if bitwidth == 32 and is_address:
        return str(ipaddress.IPv4Address(value))
    return str(value)


def _named(table: dict, kind: str, name: str) -> Message:
    if name not in table:
        raise P4RuntimeError(f"{kind} {name!r} is not in the P4Info's type_info")
    return table[name]


def _members(values: dict, names: list[str], what: str) -> list:
    if not isinstance(values, dict) or set(values) != set(names):
        raise P4RuntimeError(f"{what}: {values!r}: must have exactly the members {', '.join(names)}")
    return [values[name] for name in names]


def _count(items: Sized, wanted: int, what: str) -> None:
    if len(items) != wanted:
        raise P4RuntimeError(f"{what}: {len(items)} members, must be {wanted}")


def _bits_out(spec: Message, value: Data) -> bytes:
    """A header's member: bit, int or varbit as its bare bytes."""
    kind = spec.WhichOneof("type_spec")
    if kind == "bit":
        return to_bytes(value, spec.bit.bitwidth)
    if kind == "int":
        return signed_to_bytes(value, spec.int.bitwidth)
    if not isinstance(value, Varbit):
        raise P4RuntimeError(f"{value!r}: must be a Varbit")
    return to_bytes(value.value, value.bitwidth)


def _bits_in(spec: Message, data: bytes) -> Data:
    kind = spec.WhichOneof("type_spec")
    if kind == "bit":
        return from_bytes(data, spec.bit.bitwidth)
    if kind == "int":
        return signed_from_bytes(data, spec.int.bitwidth)
    return Varbit(from_bytes(data, spec.varbit.max_bitwidth), 8 * len(data))


def _header_out(types: Message, name: str, value: dict | None) -> Message:
    header = v1.P4Header()
    if value is not None:
        members = _named(types.headers, "header", name).members
        header.is_valid = True
        for member, part in zip(members, _members(value, [m.name for m in members], name), strict=True):
            header.bitstrings.append(_bits_out(member.type_spec, part))
    return header


def _header_in(types: Message, name: str, header: Message) -> dict | None:
    if not header.is_valid:
        return None
    members = _named(types.headers, "header", name).members
    _count(header.bitstrings, len(members), f"header {name}")
    return {m.name: _bits_in(m.type_spec, part) for m, part in zip(members, header.bitstrings, strict=True)}


def _union_out(types: Message, name: str, value: tuple[str, dict] | None) -> Message:
    union = v1.P4HeaderUnion()
    if value is not None:
        member, fields = value
        kinds = {m.name: m.header.name for m in _named(types.header_unions, "header_union", name).members}
        if member not in kinds:
            raise P4RuntimeError(f"header_union {name} has no member {member!r}; it has {', '.join(kinds)}")
        union.valid_header_name = member
        union.valid_header.CopyFrom(_header_out(types, kinds[member], fields))
    return union


def _union_in(types: Message, name: str, union: Message) -> tuple[str, dict | None] | None:
    if not union.valid_header_name:
        return None
    kinds = {m.name: m.header.name for m in _named(types.header_unions, "header_union", name).members}
    if union.valid_header_name not in kinds:
        raise P4RuntimeError(
            f"header_union {name} has no member {union.valid_header_name!r}; it has {', '.join(kinds)}"
        )
    return union.valid_header_name, _header_in(types, kinds[union.valid_header_name], union.valid_header)


def encode_data(value: Data, spec: Message, types: Message) -> Message:
    """A value of the type `spec` (P4DataTypeSpec) as P4Data; `types` is the P4Info's type_info."""
    kind = spec.WhichOneof("type_spec")
    data = v1.P4Data()
    if kind == "bitstring":
        part = spec.bitstring
        if part.WhichOneof("type_spec") == "varbit":
            data.varbit.bitstring = _bits_out(part, value)
            data.varbit.bitwidth = value.bitwidth
        else:
            data.bitstring = _bits_out(part, value)
    elif kind == "bool":
        if not isinstance(value, bool):
            raise P4RuntimeError(f"{value!r}: must be True or False")
        data.bool = value
    elif kind == "tuple":
        specs = spec.tuple.members
        if not isinstance(value, tuple | list):
            raise P4RuntimeError(f"{value!r}: must be a tuple of {len(specs)}")
        _count(value, len(specs), "tuple")
        data.tuple.members.extend(encode_data(v, s, types) for v, s in zip(value, specs, strict=True))
        data.tuple.SetInParent()
    elif kind == "struct":
        members = _named(types.structs, "struct", spec.struct.name).members
        parts = _members(value, [m.name for m in members], f"struct {spec.struct.name}")
        data.struct.members.extend(encode_data(v, m.type_spec, types) for v, m in zip(parts, members, strict=True))
        data.struct.SetInParent()
    elif kind == "header":
        data.header.CopyFrom(_header_out(types, spec.header.name, value))
    elif kind == "header_union":
        data.header_union.CopyFrom(_union_out(types, spec.header_union.name, value))
    elif kind == "header_stack":
        _count(value, spec.header_stack.size, "header stack")
        data.header_stack.entries.extend(_header_out(types, spec.header_stack.header.name, v) for v in value)
        data.header_stack.SetInParent()
    elif kind == "header_union_stack":
        _count(value, spec.header_union_stack.size, "header union stack")
        name = spec.header_union_stack.header_union.name
        data.header_union_stack.entries.extend(_union_out(types, name, v) for v in value)
        data.header_union_stack.SetInParent()
    elif kind in ("enum", "error"):
        names = _enum_members(spec, types)
        if value not in names:
            raise P4RuntimeError(f"{value!r}: must be one of {', '.join(names)}")
        setattr(data, kind, value)
    elif kind == "serializable_enum":
        enum = _named(types.serializable_enums, "enum", spec.serializable_enum.name)
        by_name = {m.name: m.value for m in enum.members}
        data.enum_value = by_name[value] if value in by_name else to_bytes(value, enum.underlying_type.bitwidth)
    elif kind == "new_type":
        return encode_data(value, _original(spec, types), types)
    else:
        raise P4RuntimeError("the P4Info names no type for this value")
    return data


_DATA_FIELD = {"serializable_enum": "enum_value"}


def decode_data(data: Message, spec: Message, types: Message) -> Data:
    """Inverse of `encode_data`. A serializable enum comes as its member's name where one has the value."""
    kind = spec.WhichOneof("type_spec")
    if kind == "new_type":
        return decode_data(data, _original(spec, types), types)
    wanted = _DATA_FIELD.get(kind, kind)
    if kind == "bitstring" and spec.bitstring.WhichOneof("type_spec") == "varbit":
        wanted = "varbit"
    if kind is None or data.WhichOneof("data") != wanted:
        raise P4RuntimeError(f"the device sent {data.WhichOneof('data') or 'no data'} where the P4Info says {wanted}")
    if kind == "bitstring":
        if wanted == "varbit":
            return Varbit(from_bytes(data.varbit.bitstring, data.varbit.bitwidth), data.varbit.bitwidth)
        return _bits_in(spec.bitstring, data.bitstring)
    if kind == "tuple":
        _count(data.tuple.members, len(spec.tuple.members), "tuple")
        return tuple(decode_data(d, s, types) for d, s in zip(data.tuple.members, spec.tuple.members, strict=True))
    if kind == "struct":
        members = _named(types.structs, "struct", spec.struct.name).members
        _count(data.struct.members, len(members), f"struct {spec.struct.name}")
        pairs = zip(members, data.struct.members, strict=True)
        return {m.name: decode_data(d, m.type_spec, types) for m, d in pairs}
    if kind == "header":
        return _header_in(types, spec.header.name, data.header)
    if kind == "header_union":
        return _union_in(types, spec.header_union.name, data.header_union)
    if kind == "header_stack":
        return [_header_in(types, spec.header_stack.header.name, entry) for entry in data.header_stack.entries]
    if kind == "header_union_stack":
        name = spec.header_union_stack.header_union.name
        return [_union_in(types, name, entry) for entry in data.header_union_stack.entries]
    if kind == "serializable_enum":
        enum = _named(types.serializable_enums, "enum", spec.serializable_enum.name)
        value = from_bytes(data.enum_value, enum.underlying_type.bitwidth)
        names = {int.from_bytes(m.value, "big"): m.name for m in enum.members}
        return names.get(value, value)
    return getattr(data, wanted)


def _original(spec: Message, types: Message) -> Message:
    new_type = _named(types.new_types, "type", spec.new_type.name)
    if new_type.WhichOneof("representation") == "translated_type":
        translated = new_type.translated_type
        if translated.WhichOneof("sdn_type") != "sdn_bitwidth":
            raise P4RuntimeError(f"type {spec.new_type.name} is translated to a string; this client takes numbers")
        result = config.P4DataTypeSpec()
        result.bitstring.bit.bitwidth = translated.sdn_bitwidth
        return result
    return new_type.original_type


def _enum_members(spec: Message, types: Message) -> list[str]:
    if spec.WhichOneof("type_spec") == "error":
        return list(types.error.members)
    return [member.name for member in _named(types.enums, "enum", spec.enum.name).members]
