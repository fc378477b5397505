# SPDX-License-Identifier: Apache-2.0
"""The frames of p4/programs/law_probe.p4, and tests/vectors as pairs of frames: what to send, what must come back.

Every vector has all of its final state, so the frames are known beforehand and may be sent in any number.
"""

import json
import struct
from collections.abc import Iterator
from pathlib import Path

from scapy.all import ByteEnumField, ByteField, Ether, IntField, LongField, Packet, bind_layers

from weir.params import ROWS

ETHER_TYPE = 0x88B5
OPS = {"update": 1, "departure": 2, "tau": 3, "decide": 4, "arrival": 5, "decide_low": 6}
ASKER, SWITCH = "02:00:00:00:00:01", "02:00:00:00:00:02"

_PARAMS = {row.param: row.range[1].bit_length() for row in ROWS.values()}
_BYTES = {name for name, bits in _PARAMS.items() if bits <= 8} | {"started", "row", "dq_on"}
_BYTES |= {"in_ect", "in_size", "stepped", "verdict", "size"}
_LONGS = {name for name, bits in _PARAMS.items() if bits > 32}
_LONGS |= {"u_q40", "last_us", "o1_us", "o2_us", "u_ecn_q40", "sum_q32", "dq_start_us"}
_LONGS |= {"flow_last_us", "share_mean_q6", "in_now_us", "in_len_bytes", "in_backlog_bytes"}
_LONGS |= {"ramp_slope_q32_per_us", "in_u_q40", "p_q32"}
_NAMES = [
    *_PARAMS,
    "coupling_q16",
    "ramp_least_us",
    "ramp_slope_q32_per_us",
    "floor_bytes",
    "u_q40",
    "last_us",
    "o1_us",
    "o2_us",
    "no_i_run",
    "started",
    "row",
    "u_ecn_q40",
    "sum_q32",
    "flow_bytes",
    "flow_last_us",
    "share_mean_q6",
    "dq_time_q8_us",
    "dq_count_bytes",
    "dq_start_us",
    "dq_on",
    "in_now_us",
    "in_tau_us",
    "in_len_bytes",
    "in_backlog_bytes",
    "in_u_q40",
    "in_floor_us",
    "in_ect",
    "in_size",
    "in_rand_a",
    "in_rand_b",
    "stepped",
    "tau_us",
    "verdict",
    "size",
    "p_q32",
]


def _field(name: str) -> ByteField | IntField | LongField:
    kind = ByteField if name in _BYTES else LongField if name in _LONGS else IntField
    return kind(name, 0)


class Probe(Packet):
    """Operation, parameters, state, spacing, flow, rate, inputs, outputs; o1_us and o2_us in two's complement."""

    name = "Probe"
    fields_desc = [  # noqa: RUF012 - scapy's way
        ByteEnumField("op", 0, {number: op for op, number in OPS.items()}),
        *(_field(name) for name in _NAMES),
    ]


bind_layers(Ether, Probe, type=ETHER_TYPE)

# The same layout again, because scapy takes a millisecond for each of the 18,000 frames of the vectors.
_LAYOUT = struct.Struct("!B" + "".join("B" if n in _BYTES else "Q" if n in _LONGS else "I" for n in _NAMES))
_ASKED = bytes(Ether(src=ASKER, dst=SWITCH, type=ETHER_TYPE))
_ANSWER = bytes(Ether(src=SWITCH, dst=ASKER, type=ETHER_TYPE))


def _packed(fields: dict[str, int]) -> bytes:
    return _LAYOUT.pack(fields["op"], *(fields.get(name, 0) for name in _NAMES))


def operations(path: Path) -> Iterator[tuple[str, bytes, bytes]]:
    """Where, the frame to send, the frame that must come back, for each operation of a file of vectors."""
    fields: dict[str, int] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        vector = json.loads(line)
        op, _ = vector.pop("op"), vector.pop("case", None)
        values = {name: value % 2**64 for name, value in vector.items()}
        if op == "params":
            fields = {}
        if op in ("params", "state", "spacing", "flow", "rate"):
            fields |= values
            continue
        fields |= {"op": OPS[op]} | {name: value for name, value in values.items() if name.startswith("in_")}
        asked = _ASKED + _packed(fields)
        fields |= values
        yield f"{path.name}:{number} {op}", asked, _ANSWER + _packed(fields)


def differences(got: bytes, wanted: bytes) -> list[str]:
    """The fields in which two answers differ, in words."""
    got_probe, wanted_probe = Ether(got), Ether(wanted)
    if Probe not in got_probe:
        return [f"no probe, but {got.hex()}"]
    pairs = [(name, got_probe[Probe].getfieldval(name), wanted_probe[Probe].getfieldval(name)) for name in _NAMES]
    return [f"{name} is {is_}, must be {must}" for name, is_, must in pairs if is_ != must]
