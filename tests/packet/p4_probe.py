# SPDX-License-Identifier: Apache-2.0
"""The frames of p4/programs/law_probe.p4 and bands_probe.p4, and tests/vectors as pairs of frames: what to send, what
must come back.

Every vector has all of its final state, so the frames are known beforehand and may be sent in any number.
"""

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from weir.params import ROWS

FOLDER = Path(__file__).resolve().parents[2] / "tests" / "vectors"
SENDER, SWITCH = bytes.fromhex("020000000001"), bytes.fromhex("020000000002")

_BITS = {row.param: row.range[1].bit_length() for row in ROWS.values()}


@dataclass(frozen=True)
class Probe:
    """Layout of a probe: EtherType, operations from 1 on, and width of each field, one of B, H, I, Q of `struct`.
    `of_a_flow`: the fields that each `in_flow` of the vectors has for itself."""

    program: str
    ether_type: int
    ops: tuple[str, ...]
    fields: dict[str, str]
    of_a_flow: tuple[str, ...] = field(default=())

    @cached_property
    def _layout(self) -> struct.Struct:
        return struct.Struct("!6s6sHB" + "".join(self.fields.values()))

    def frame(self, dst: bytes, src: bytes, op: str, values: dict[str, int]) -> bytes:
        number = self.ops.index(op) + 1
        return self._layout.pack(dst, src, self.ether_type, number, *(values.get(name, 0) for name in self.fields))

    def differences(self, got: bytes, wanted: bytes) -> list[str]:
        """The fields in which two answers differ, in words."""
        if len(got) != self._layout.size:
            return [f"no probe, but {got.hex()}"]
        names = ("dst", "src", "type", "op", *self.fields)
        pairs = zip(names, self._layout.unpack(got), self._layout.unpack(wanted), strict=True)
        return [f"{name} is {is_}, must be {must}" for name, is_, must in pairs if is_ != must]


def _fields(text: str) -> dict[str, str]:
    """`name:width` of each field, in order."""
    return dict(one.split(":") for one in text.split())


LAW = Probe(
    "law_probe",
    0x88B5,
    ("update", "departure", "tau", "decide", "arrival", "decide_low", "follow"),
    {name: "B" if bits <= 8 else "I" if bits <= 32 else "Q" for name, bits in _BITS.items()}
    | _fields(
        """
        coupling_q16:I ramp_least_us:I ramp_slope_q32_per_us:Q floor_bytes:I
        u_q40:Q last_us:Q o1_us:Q o2_us:Q no_i_run:I started:B row:B u_ecn_q40:Q
        sum_q32:Q flow_bytes:I flow_last_us:Q share_mean_q6:Q
        dq_time_q8_us:I dq_count_bytes:I dq_start_us:Q dq_on:B
        in_now_us:Q in_tau_us:I in_len_bytes:Q in_backlog_bytes:Q in_u_q40:Q
        in_r_q40:Q in_classic_active:B in_missed:B in_floor_us:I in_ect:B in_size:B
        in_rand_a:I in_rand_b:I
        stepped:B tau_us:I verdict:B size:B p_q32:Q r_q40:Q
        """
    ),
)
BANDS = Probe(
    "bands_probe",
    0x88B6,
    ("band_arrival", "passed", "ahead"),
    _fields(
        """
        ahead_share_q16:I ahead_most_bytes:I ahead_least_bytes:I target_us:I interval_us:I share_shift:B
        share_least_q16:I min_backlog_bytes:I delay_limit_us:I
        flow_bytes:I flow_last_us:Q flow_until_tick:H flow_large_tick:H share_mean_q6:Q
        ahead_bytes:I new_bytes:I bulk_bytes:I budget_last_us:Q
        in_now_us:Q in_len_bytes:Q in_tau_us:I in_backlog_bytes:Q
        kind:B refused:B late:B
        """
    ),
    ("flow_bytes", "flow_last_us", "flow_until_tick", "flow_large_tick"),
)


def probe_of(path: Path) -> Probe:
    """The probe that a file of vectors is for."""
    return BANDS if path.parent.name == "bands" else LAW


def vectors(probe: Probe) -> list[Path]:
    """All files for this probe. No P4 program gives advice."""
    paths = [path for path in sorted(FOLDER.rglob("*.jsonl")) if path.parent.name != "scone"]
    return [path for path in paths if probe_of(path) is probe]


def operations(path: Path) -> Iterator[tuple[str, bytes, bytes]]:
    """Where, the frame to send, the frame that must come back, for each operation of a file of vectors."""
    probe = probe_of(path)
    now: dict[str, int] = {}
    flows: dict[int, dict[str, int]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        vector = json.loads(line)
        op, _ = vector.pop("op"), vector.pop("case", None)
        values = {name: value % 2**64 for name, value in vector.items()}
        if op == "params":
            now, flows = {}, {}
        if op not in probe.ops:
            now |= values
            continue
        flow = values.pop("in_flow", 0)
        now |= flows.get(flow, dict.fromkeys(probe.of_a_flow, 0))
        now |= {name: value for name, value in values.items() if name.startswith("in_")}
        sent = probe.frame(SWITCH, SENDER, op, now)
        now |= values
        flows[flow] = {name: now[name] for name in probe.of_a_flow}
        yield f"{path.name}:{number} {op}", sent, probe.frame(SENDER, SWITCH, op, now)
