# SPDX-License-Identifier: Apache-2.0
"""Interface of a P4 program to the controller. `weir.switch` and `weir.dataplane` ask this and name no table."""

from __future__ import annotations

import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from .. import bands
from ..bands import Bands
from ..coupled import Coupling
from ..gains import Gains, Value
from ..p4runtime.entities import Call, CloneSession, MulticastGroup, TableEntry
from ..p4runtime.messages import Message
from ..p4runtime.p4info import P4Info
from ..p4runtime.values import P4RuntimeError
from ..sample import Counts, Sample

DIGEST_INTERVAL_US = 100_000
DELAY_SOURCES = ("sojourn", "rate", "flows")
"""Where the law has the delay from: the packets' own sojourn time, Cao Eq. 1, or Eq. 1 for a queue with flow queues."""

PORT_MAX = 509
"""BMv2's ports are 9 bits; 511 is its drop port, 510 often the CPU's."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class PortLaw:
    """The law on one port of a switch. `digest_interval_us` 0: no digests. `bands`: of flows, None: one band. Raises
    ValueError."""

    gains: Gains
    digest_interval_us: int = DIGEST_INTERVAL_US
    delay_source: str = "sojourn"
    bands: Bands | None = None

    OWN_KEYS: ClassVar[tuple[str, ...]] = ("digest_interval_us", "delay_source")
    """Settings beside the gains."""

    def __post_init__(self) -> None:
        interval = self.digest_interval_us
        if not isinstance(interval, int) or isinstance(interval, bool) or not 0 <= interval < 2**32:
            raise ValueError(f"digest_interval_us = {interval!r}: must be a whole number, 0 .. {2**32 - 1}")
        if self.delay_source not in DELAY_SOURCES:
            raise ValueError(f"delay_source = {self.delay_source!r}: must be one of {', '.join(DELAY_SOURCES)}")

    @property
    def own(self) -> dict[str, Value]:
        """The values of OWN_KEYS, and of `bands.KEYS` if the port has these bands."""
        own: dict[str, Value] = {"digest_interval_us": self.digest_interval_us, "delay_source": self.delay_source}
        return own | (_users_units(self.bands) if self.bands else {})

    def with_changes(self, changes: Mapping[str, Value]) -> PortLaw:
        """With these keys, of gains, of OWN_KEYS or of `bands.KEYS`, changed. ValueError."""
        of_bands = {key: value for key, value in changes.items() if key in bands.KEYS}
        own: dict[str, Any] = {key: value for key, value in changes.items() if key in self.OWN_KEYS}
        gains = {key: value for key, value in changes.items() if key not in own and key not in of_bands}
        return replace(self, gains=self.gains.with_changes(gains), bands=self._bands_with(of_bands), **own)

    def _bands_with(self, changes: Mapping[str, Value]) -> Bands | None:
        if self.bands is None and changes:
            raise ValueError(f"{next(iter(changes))}: the port has no bands of flows; deploy [bands.port.N]")
        for key, value in changes.items():
            types = (int, float) if key == "ahead_share" else (int,)
            if type(value) not in types:
                raise ValueError(f"{key} = {value!r}: must be a {'number' if key == 'ahead_share' else 'whole number'}")
        values: dict[str, Any] = _users_units(self.bands) | dict(changes) if self.bands else {}
        return bands.in_users_units(**values) if values else None


def _users_units(of: Bands) -> dict[str, Value]:
    """Inverse of `bands.in_users_units`."""
    return {
        "ahead_share": of.ahead_share_q16 / bands.SHARE_ONE_Q16,
        "ahead_most_bytes": of.ahead_most_bytes,
        "ahead_least_bytes": of.ahead_least_bytes,
    }


Record = tuple[int, ...]
"""The values of a digest for one port, in the program's own order."""


class DigestReader(ABC):
    """Reads the lists of the program's digest. `name`, `id`: of the digest."""

    name: str
    id: int

    @abstractmethod
    def record(self, data: Message) -> Record:
        """One p4.v1.P4Data; the port's number comes first. P4RuntimeError: it is none of this digest's."""


@dataclass(frozen=True)
class NameLimits:
    """Of forwarding by name on one switch. `key`: 64 bits of the hash that nobody outside may know; 0: none was drawn.
    `quota`: entries of one port that nobody has answered."""

    key: int
    least_lifetime_us: int
    quota: int


@dataclass(frozen=True)
class QuotaUsed:
    """Entries that a port has paid for and that nobody has answered: in the epoch of the last Interest that was
    forwarded, and in the one before."""

    this_epoch: int
    epoch_before: int


class NameTables(ABC):
    """Tables of a program that forwards by name."""

    fib_table: ClassVar[str]
    limits_table: ClassVar[str]
    quota_table: ClassVar[str]
    """Quotas of single ports."""
    counter: ClassVar[str]
    """Counter of packets' fates; `cells` names its cells in order."""
    cells: ClassVar[tuple[str, ...]]
    registers: ClassVar[tuple[str, ...]]
    """Those that `fill` reads."""
    used_register: ClassVar[str]
    """The one that `used` reads too."""

    @abstractmethod
    def route(self, prefix: int, bits: int, port: int, other: int | None, info: P4Info) -> TableEntry:
        """Names whose first `bits` bits are those of `prefix` are asked for at `port`, and at `other` if the asker is
        there."""

    @abstractmethod
    def prefix_of(self, route: TableEntry) -> tuple[int, int]:
        """`prefix` and `bits` of an entry that `route` made."""

    @abstractmethod
    def limits(self, limits: NameLimits, info: P4Info) -> TableEntry: ...

    @abstractmethod
    def port_quota(self, port: int, quota: int, info: P4Info) -> TableEntry:
        """So many entries of this port may be there that nobody has answered."""

    @abstractmethod
    def limits_of(self, default: TableEntry | None) -> NameLimits | None:
        """Limits in an entry that `limits` made."""

    @abstractmethod
    def copies(self) -> tuple[MulticastGroup | CloneSession, ...]:
        """The groups and the clone session that copies need."""

    @abstractmethod
    def port_quotas(self, entries: Iterable[TableEntry], info: P4Info) -> dict[int, int]:
        """Quotas in those of these entries that `port_quota` made, by port."""

    @abstractmethod
    def fill(self, registers: Mapping[str, Sequence[int]]) -> Any:
        """Fill level of its table of pending Interests; None: the registers lack it."""

    @abstractmethod
    def used(self, registers: Mapping[str, Sequence[int]]) -> dict[int, QuotaUsed]:
        """By port, where it is not 0; empty too where the registers lack it."""


class Program(ABC):
    """One P4 program. Names are the program's; with a P4Info they are found as in `p4runtime.p4info.Names`."""

    name: ClassVar[str]
    source: ClassVar[Path]
    """The P4 source, with its includes in their place."""

    # Contents

    tables: ClassVar[tuple[str, ...]]
    """Those that `weir p4 deploy` owns: their entries that are not in its file are removed."""
    routes_ip: ClassVar[bool] = True
    """Whether it has tables for stations, next hops and routes."""
    names: ClassVar[NameTables | None] = None
    """Of one that forwards by name."""
    leading_tables: ClassVar[tuple[str, ...]]
    """Of these, those whose entries send packets to what the others hold: they are written last and cleared first."""
    next_hop_table: ClassVar[str]
    station_table: ClassVar[str]
    law_table: ClassVar[str]
    coupling_table: ClassVar[str | None] = None
    """Of ports with two coupled bands; None: a port has one band."""
    advice_table: ClassVar[str | None] = None
    """Of ports with throughput advice; None: no port has any."""
    digest: ClassVar[str]
    registers: ClassVar[tuple[str, ...]]
    """The registers that hold a port's state, in the order in which they must be read."""
    counters: ClassVar[tuple[str, ...]]
    """The same where registers can't be read."""
    bands_counters: ClassVar[tuple[str, str]]
    """Packets of band A; packets of new flows that were dropped beyond its budget."""

    def missing(self, info: P4Info) -> str | None:
        """The first that a P4Info lacks of the tables of law, coupling, advice and names and the digest; None: it is
        this one's."""
        fib_table = self.names.fib_table if self.names else None
        for table in (self.law_table, self.coupling_table, self.advice_table, fib_table):
            if table is not None and table not in info.tables:
                return table
        return None if self.digest in info.digests else self.digest

    def missing_registers(self, info: P4Info) -> str | None:
        """The first register or counter that a P4Info lacks."""
        missing = [name for name in self.registers if name not in info.registers]
        missing += [name for name in self.counters if name not in info.counters]
        return missing[0] if missing else None

    def foreign(self, missing: str) -> P4RuntimeError:
        """The error for a device whose program lacks this."""
        return P4RuntimeError(f"the switch's program has no {missing}: it is not p4/{self.name}.p4")

    # Forwarding

    @abstractmethod
    def next_hop(self, port: int, station_mac: int, own_mac: int, vlan: int | str, info: P4Info) -> Call:
        """Action for packets to a station. vlan: a tag's number, "keep" or "remove"."""

    @abstractmethod
    def next_hop_entry(self, number: int, call: Call, info: P4Info) -> TableEntry: ...

    @abstractmethod
    def next_hop_number(self, entry: TableEntry) -> int: ...

    @abstractmethod
    def route(self, network: Network, next_hop: int, info: P4Info) -> TableEntry: ...

    @abstractmethod
    def station(self, mac: int, port: int, info: P4Info) -> TableEntry:
        """Frames for a station on the same network."""

    @abstractmethod
    def unknown_stations(self, group: int | None, info: P4Info) -> TableEntry:
        """Frames for stations that are not known go to this multicast group; None: nowhere."""

    @abstractmethod
    def floods_to(self, default: TableEntry | None, info: P4Info) -> int | None:
        """The group of an entry that `unknown_stations` made."""

    # The law

    @abstractmethod
    def law_entry(self, port: int, law: PortLaw, info: P4Info) -> TableEntry: ...

    @abstractmethod
    def law_port(self, entry: TableEntry) -> int | None:
        """The port of an entry of `law_table`; None: it has none."""

    @abstractmethod
    def law_of(self, entry: TableEntry, info: P4Info) -> PortLaw | None:
        """The law of an entry of `law_table`; None: it has another action. P4RuntimeError: the action's data are no
        gains of the law."""

    def coupling_entry(self, port: int, coupling: Coupling, info: P4Info) -> TableEntry:
        """The coupled law of a port's two bands. P4RuntimeError: the program has one band a port."""
        raise P4RuntimeError(
            f"port {port} is to have two coupled bands, and p4/programs/{self.name}.p4 has one band a port: deploy "
            "p4/programs/pid_delay_l4s.p4 (--program)"
        )

    def advice_entry(self, port: int, signal: int, info: P4Info) -> TableEntry:
        """Advice in SCONE packets that leave by a port. P4RuntimeError: the program gives none."""
        raise P4RuntimeError(
            f"port {port} is to have throughput advice, which p4/programs/{self.name}.p4 does not give: deploy "
            "p4/programs/pid_delay_scone.p4 (--program)"
        )

    # Telemetry of a port

    @abstractmethod
    def digest_reader(self, info: P4Info) -> DigestReader:
        """Raises P4RuntimeError when the program's digest lacks something."""

    @abstractmethod
    def sample_of_record(self, device: str, record: Record, law: PortLaw) -> Sample: ...

    @abstractmethod
    def sample_of_registers(self, device: str, port: int, values: Mapping[str, int], law: PortLaw, t_us: int) -> Sample:
        """`values`: of `registers`, by their short names."""

    @abstractmethod
    def counts(self, device: str, port: int, packets: Mapping[str, int], t_us: int) -> Counts:
        """`packets`: of `counters`, by their short names."""

    @abstractmethod
    def describe_record(self, digest: str, record: object) -> str:
        """A record of a digest, decoded by names, as a line for people."""
