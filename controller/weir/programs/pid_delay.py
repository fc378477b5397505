# SPDX-License-Identifier: Apache-2.0
"""`p4/pid_delay.p4`: a layer 3 switch with the law on every port. p4/README.md lists its parts.

Tail drops read from registers are at most the reported number: they are the difference of two registers that are read
one after the other, and packets that leave in between count as dropped.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from ..bands import RANGES, Bands
from ..gains import Gains
from ..law import BYTES_MAX, TAU_MAX_US, U_ONE_Q40, Params
from ..p4runtime.entities import Call, Exact, Lpm, Match, TableEntry
from ..p4runtime.messages import Message
from ..p4runtime.p4info import P4Info
from ..p4runtime.values import P4RuntimeError
from ..resources import P4_PROGRAMS
from ..sample import Counts, Sample
from .base import DELAY_SOURCES, DigestReader, Network, PortLaw, Program, Record

FIELDS = (
    "port",
    "now_us",
    "delay_us",
    "u_q40",
    "backlog_bytes",
    "dq_time_q8_us",
    "row",
    "enqueued_packets",
    "enqueued_bytes",
    "tail_dropped_packets",
    "tail_dropped_bytes",
    "aqm_dropped_packets",
    "aqm_marked_packets",
)
"""Of the digest, in the order of a record."""

_ROWS = 5
_HALF = 48
_COUNT_MASK = (1 << _HALF) - 1
"""Packets and bytes are counted modulo 2^48; a pair of them is one register of 96 bits."""


class AqmState(DigestReader):
    """Reads `aqm_state_t`. Decoding by names as `client.decode_digests` does takes ten times as long."""

    def __init__(self, info: P4Info) -> None:
        digest = info.digests[PidDelay.digest]
        self.name, self.id = digest.name, digest.id
        spec = digest.message.type_spec
        structs = info.message.type_info.structs
        if spec.WhichOneof("type_spec") != "struct" or spec.struct.name not in structs:
            raise P4RuntimeError(f"the program's digest {digest.name} is no struct: it is not p4/{PidDelay.name}.p4")
        members = structs[spec.struct.name].members
        place = {member.name: index for index, member in enumerate(members)}
        missing = [name for name in FIELDS if name not in place]
        if missing:
            raise P4RuntimeError(
                f"the program's digest {digest.name} has no {missing[0]}: it is not p4/{PidDelay.name}.p4"
            )
        self._count = len(members)
        self._pick = operator.itemgetter(*(place[name] for name in FIELDS))
        widths = [members[place[name]].type_spec.bitstring.bit.bitwidth for name in FIELDS]
        self._most = tuple((1 << width) - 1 for width in widths)

    def record(self, data: Message) -> Record:
        """The values of FIELDS from one p4.v1.P4Data. P4RuntimeError: it is none of this digest's."""
        members = data.struct.members
        if len(members) != self._count:
            raise P4RuntimeError(f"a digest record of {len(members)} members; {self.name} has {self._count}")
        parts = [member.bitstring for member in members]
        if not all(parts):
            raise P4RuntimeError(f"a digest record whose member {parts.index(b'') + 1} is no number")
        record = tuple([int.from_bytes(part, "big") for part in self._pick(parts)])
        if any(map(operator.gt, record, self._most)):
            bad = next(i for i, most in enumerate(self._most) if record[i] > most)
            raise P4RuntimeError(f"a digest record with {FIELDS[bad]} = {record[bad]}: must be 0 .. {self._most[bad]}")
        if record[3] > U_ONE_Q40 or record[6] > _ROWS:
            raise P4RuntimeError(
                f"a digest record with U = {record[3]} / 2^40, row {record[6]}: must be 0 .. 1, 0 .. 5"
            )
        return record


class PidDelay(Program):
    """See the module."""

    name = "pid_delay"
    source = P4_PROGRAMS / "pid_delay.p4"

    tables: ClassVar[tuple[str, ...]] = ("ipv4_lpm", "ipv6_lpm", "next_hop", "l2_forward", "aqm")
    leading_tables: ClassVar[tuple[str, ...]] = ("ipv4_lpm", "ipv6_lpm", "l2_forward")
    next_hop_table = "next_hop"
    station_table = "l2_forward"
    law_table = "aqm"
    digest = "aqm_state_t"
    registers = (
        # packets pass while they are read: what has left must not be more than what came
        "aqm_dequeued",
        "aqm_drained",
        "aqm_enqueued",
        "aqm_sojourn_us",
        "law_u_q40",
        "law_dq_time_q8_us",
        "law_row",
        "aqm_dropped_packets",
        "aqm_marked_packets",
    )
    counters: ClassVar[tuple[str, ...]] = ("forwarded", "aqm_drops", "aqm_marks")
    bands_counters = ("aqm_ahead", "aqm_refused")

    _law_key = "egress_port"
    _law_action = "pid_delay"
    _bands_action = "pid_delay_bands"

    # Forwarding

    def _entry(
        self, info: P4Info, table: str, match: Mapping[str, Match], action: str, params: Mapping[str, int]
    ) -> TableEntry:
        return TableEntry(info.tables[table].name, match, Call(info.actions[action].name, params))

    def next_hop(self, port: int, station_mac: int, own_mac: int, vlan: int | str, info: P4Info) -> Call:
        params = {"port": port, "dst_mac": station_mac, "src_mac": own_mac}
        if isinstance(vlan, int):
            return Call(info.actions["forward_tagged"].name, params | {"vid": vlan})
        return Call(info.actions["forward" if vlan == "keep" else "forward_untagged"].name, params)

    def next_hop_entry(self, number: int, call: Call, info: P4Info) -> TableEntry:
        return TableEntry(info.tables[self.next_hop_table].name, {"next_hop": Exact(number)}, call)

    def next_hop_number(self, entry: TableEntry) -> int:
        return _exact(entry, "next_hop")

    def route(self, network: Network, next_hop: int, info: P4Info) -> TableEntry:
        table, key = ("ipv4_lpm", "hdr.ipv4.dst") if network.version == 4 else ("ipv6_lpm", "hdr.ipv6.dst")
        match = {key: Lpm(int(network.network_address), network.prefixlen)} if network.prefixlen else {}
        return self._entry(info, table, match, "set_next_hop", {"next_hop": next_hop})

    def station(self, mac: int, port: int, info: P4Info) -> TableEntry:
        return self._entry(info, self.station_table, {"hdr.ethernet.dst": Exact(mac)}, "to_port", {"port": port})

    def unknown_stations(self, group: int | None, info: P4Info) -> TableEntry:
        action = None if group is None else Call(info.actions["flood"].name, {"group": group})
        return TableEntry(info.tables[self.station_table].name, action=action, is_default=True)

    def floods_to(self, default: TableEntry | None, info: P4Info) -> int | None:
        if default is None or not isinstance(default.action, Call):
            return None
        return default.action.params["group"] if default.action.action == info.actions["flood"].name else None

    # The law

    def law_entry(self, port: int, law: PortLaw, info: P4Info) -> TableEntry:
        action = self._bands_action if law.bands else self._law_action
        return self._entry(info, self.law_table, {self._law_key: Exact(port)}, action, action_data(law))

    def law_port(self, entry: TableEntry) -> int | None:
        return _exact(entry, self._law_key) if self._law_key in entry.match else None

    def law_of(self, entry: TableEntry, info: P4Info) -> PortLaw | None:
        actions = [info.actions[name].name for name in (self._law_action, self._bands_action) if name in info.actions]
        if not isinstance(entry.action, Call) or entry.action.action not in actions:
            return None
        return law_of_data(entry.action.params)

    # Telemetry of a port

    def digest_reader(self, info: P4Info) -> DigestReader:
        return AqmState(info)

    def sample_of_record(self, device: str, record: Record, law: PortLaw) -> Sample:
        return to_sample(device, record, law)

    def sample_of_registers(self, device: str, port: int, values: Mapping[str, int], law: PortLaw, t_us: int) -> Sample:
        told = from_registers(port, values)
        return to_sample(device, tuple(t_us if name == "now_us" else told[name] for name in FIELDS), law)

    def counts(self, device: str, port: int, packets: Mapping[str, int], t_us: int) -> Counts:
        return Counts(device, str(port), t_us, packets["forwarded"], packets["aqm_marks"], packets["aqm_drops"])

    def describe_record(self, digest: str, record: object) -> str:
        if digest != self.digest or not isinstance(record, dict):
            return f"{digest}: {record}"
        try:
            return _line(record)
        except (KeyError, TypeError) as error:
            raise P4RuntimeError(f"digest {digest}: not this program's: {error} is missing") from None


PID_DELAY = PidDelay()


def _exact(entry: TableEntry, key: str) -> int:
    match = entry.match[key]
    if not isinstance(match, Exact):
        raise P4RuntimeError(f"table {entry.table}, field {key}: {match!r}: must be exact")
    return match.value


def action_data(law: PortLaw) -> dict[str, int]:
    """The parameters of the action pid_delay: the law's integers under their own names, and the port's own; with bands
    of flows those of pid_delay_bands."""
    own = {"delay_source": DELAY_SOURCES.index(law.delay_source), "digest_interval_us": law.digest_interval_us}
    return asdict(law.gains.to_params()) | own | (asdict(law.bands) if law.bands else {})


def law_of_data(params: Mapping[str, int]) -> PortLaw:
    """Law with those parameters, in users' units. Raises P4RuntimeError for parameters that the law does not have."""
    rest = dict(params)
    try:
        source, digest_interval_us = DELAY_SOURCES[rest.pop("delay_source")], rest.pop("digest_interval_us")
        of_bands = {name: rest.pop(name) for name in RANGES if name in rest}
        bands = Bands(**of_bands) if of_bands else None
        return PortLaw(Gains.from_params(Params(**rest)), digest_interval_us, source, bands)
    except (TypeError, KeyError, ValueError) as error:
        raise P4RuntimeError(f"action pid_delay: not the parameters of this law: {error}") from None


def from_registers(port: int, values: Mapping[str, int]) -> dict[str, int]:
    """The digest of a port from its registers, by the digest's names but for the time."""
    packets = {name: values[f"aqm_{name}"] >> _HALF for name in ("dequeued", "drained", "enqueued")}
    octets = {name: values[f"aqm_{name}"] & _COUNT_MASK for name in ("dequeued", "drained", "enqueued")}
    return {
        "port": port,
        "delay_us": values["aqm_sojourn_us"],
        "u_q40": values["law_u_q40"],
        "backlog_bytes": octets["enqueued"] - octets["drained"] & _COUNT_MASK,
        "dq_time_q8_us": values["law_dq_time_q8_us"],
        "row": values["law_row"],
        "enqueued_packets": packets["enqueued"],
        "enqueued_bytes": octets["enqueued"],
        "tail_dropped_packets": packets["drained"] - packets["dequeued"] & _COUNT_MASK,
        "tail_dropped_bytes": octets["drained"] - octets["dequeued"] & _COUNT_MASK,
        "aqm_dropped_packets": values["aqm_dropped_packets"],
        "aqm_marked_packets": values["aqm_marked_packets"],
    }


def to_sample(device: str, record: Record, law: PortLaw) -> Sample:
    """Sample of a record's port. Where the law has its delay by Cao Eq. 1, so has the sample; until a rate is known
    that is 0, as in the law."""
    (port, now_us, delay_us, u_q40, backlog_bytes, dq_time_q8_us, row) = record[:7]
    (in_packets, in_bytes, lost_packets, lost_bytes, dropped, marked) = record[7:]
    dq_shift = law.gains.dq_shift
    if law.delay_source != "sojourn":
        delay_us = min(min(backlog_bytes, BYTES_MAX) * dq_time_q8_us >> dq_shift + 8, TAU_MAX_US)
    u = u_q40 / U_ONE_Q40
    rate_bit_s = None
    if dq_time_q8_us:
        # 2^dq_shift bytes in dq_time_q8_us / 256 us
        rate_bit_s = (8 * 256 * 1_000_000 << dq_shift) // dq_time_q8_us
    return Sample(
        device,
        str(port),
        now_us,
        delay_us,
        u,
        u * u if law.gains.probability == "squared" else u,
        backlog_bytes,
        rate_bit_s,
        in_packets - lost_packets & _COUNT_MASK,
        in_bytes - lost_bytes & _COUNT_MASK,
        marked,
        dropped,
        lost_packets,
        row,
    )


def _line(r: Mapping[str, Any]) -> str:
    return (
        f"{r['now_us'] / 1e6:12.6f} s  port {r['port']:3d}  delay {r['delay_us'] / 1e3:8.3f} ms  "
        f"U {r['u_q40'] / 2**40:8.6f}  backlog {r['backlog_bytes']:8d} B  row {r['row']}  "
        f"AQM drops {r['aqm_dropped_packets']}  marks {r['aqm_marked_packets']}  "
        f"tail drops {r['tail_dropped_packets']}"
    )
