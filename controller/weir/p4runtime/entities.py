# SPDX-License-Identifier: Apache-2.0
"""Entities of a P4Runtime device, by names. Pure data; `codec` makes messages of it and back, `labels` text.

In a read, a name or index of None asks for all, and a table entry without match or action asks for all entries of its
table; a part that is None (counter, meter) is not asked for.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from .values import Data


@dataclass(frozen=True)
class Exact:
    """The field is this value."""

    value: int


@dataclass(frozen=True)
class Lpm:
    """The first `prefix_len` bits are those of `value`, whose other bits are 0. Length 0 can't be: leave it out."""

    value: int
    prefix_len: int


@dataclass(frozen=True)
class Ternary:
    """The bits of `mask` are those of `value`, whose other bits are 0. Mask 0 can't be: leave it out."""

    value: int
    mask: int


@dataclass(frozen=True)
class Range:
    """From `low` to `high`, both included. All values can't be: leave it out."""

    low: int
    high: int


@dataclass(frozen=True)
class Optional:
    """The field is this value; omit it for any value."""

    value: int


Match = Exact | Lpm | Ternary | Range | Optional


@dataclass(frozen=True)
class Call:
    """An action with its parameters by name."""

    action: str
    params: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Member:
    """A table entry's action by way of a member of the table's action profile."""

    id: int


@dataclass(frozen=True)
class Group:
    """A table entry's action by way of a group of the table's action profile."""

    id: int


@dataclass(frozen=True)
class Weighted:
    """An action of a one-shot set; `watch_port` None: none."""

    call: Call
    weight: int = 1
    watch_port: int | None = None


@dataclass(frozen=True)
class OneShot:
    """A set of actions that the device makes members and a group of."""

    actions: tuple[Weighted, ...]


@dataclass(frozen=True)
class Count:
    """A counter's state; values outside the counter's unit are 0."""

    packets: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class MeterRates:
    """Rates in bytes or packets (as the meter's unit says) per second, bursts in the same unit."""

    cir: int
    cburst: int
    pir: int
    pburst: int


@dataclass(frozen=True)
class TableEntry:
    """A table's entry, or its default action. `priority`: larger wins; only where the key has ternary, range or
    optional fields. An `action` of None on a default resets it to the program's."""

    table: str | None
    match: Mapping[str, Match] = field(default_factory=dict)
    action: Call | Member | Group | OneShot | None = None
    priority: int = 0
    is_default: bool = False
    metadata: bytes = b""
    idle_timeout_ns: int = 0
    counter: Count | None = None
    meter: MeterRates | None = None
    is_const: bool = False


@dataclass(frozen=True)
class ProfileMember:
    """A member of an action profile."""

    profile: str | None
    id: int = 0
    action: Call | None = None


@dataclass(frozen=True)
class GroupMember:
    """A member's part in a group."""

    id: int
    weight: int = 1
    watch_port: int | None = None


@dataclass(frozen=True)
class ProfileGroup:
    """A group of an action profile with a selector."""

    profile: str | None
    id: int = 0
    members: tuple[GroupMember, ...] = ()
    max_size: int = 0


@dataclass(frozen=True)
class CounterEntry:
    """A cell of an indirect counter."""

    counter: str | None
    index: int | None = None
    count: Count | None = None


@dataclass(frozen=True)
class DirectCounterEntry:
    """A table entry's counter."""

    entry: TableEntry
    count: Count | None = None


@dataclass(frozen=True)
class MeterEntry:
    """A cell of an indirect meter; rates None: the default, everything green."""

    meter: str | None
    index: int | None = None
    rates: MeterRates | None = None


@dataclass(frozen=True)
class DirectMeterEntry:
    """A table entry's meter."""

    entry: TableEntry
    rates: MeterRates | None = None


@dataclass(frozen=True)
class RegisterEntry:
    """A cell of a register. Stock BMv2 has no registers over P4Runtime (UNIMPLEMENTED)."""

    register: str | None
    index: int | None = None
    value: Data | None = None


@dataclass(frozen=True)
class Replica:
    """A copy: out of `port`, seen as `instance` (egress_rid) by the program."""

    port: int
    instance: int = 0


@dataclass(frozen=True)
class MulticastGroup:
    """A multicast group; id 0 in a read: all."""

    id: int
    replicas: tuple[Replica, ...] = ()


@dataclass(frozen=True)
class CloneSession:
    """Where clones go; id 0 in a read: all. `truncate_bytes` 0: whole packets."""

    id: int
    replicas: tuple[Replica, ...] = ()
    class_of_service: int = 0
    truncate_bytes: int = 0


@dataclass(frozen=True)
class DigestConfig:
    """Delivery of a digest: a list at the latest `max_timeout_ns` after its first record, or when `max_list_size` are
    there; a record is not repeated until acknowledged or for `ack_timeout_ns`."""

    digest: str | None
    max_timeout_ns: int = 0
    max_list_size: int = 1
    ack_timeout_ns: int = 0


@dataclass(frozen=True)
class ValueSet:
    """The members of a parser's value set, each a match by field names."""

    value_set: str | None
    members: tuple[Mapping[str, Match], ...] = ()


Entity = (
    TableEntry
    | ProfileMember
    | ProfileGroup
    | CounterEntry
    | DirectCounterEntry
    | MeterEntry
    | DirectMeterEntry
    | RegisterEntry
    | MulticastGroup
    | CloneSession
    | DigestConfig
    | ValueSet
)
