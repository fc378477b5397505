# SPDX-License-Identifier: Apache-2.0
"""Sections of a dumbbell scenario's variant: a queue discipline and its options.

A new discipline is a section here with its row in DISCIPLINES, and its words for tc in `tc.py`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import Field, create_model, field_validator, model_validator

from weir import gains
from weirlab.scenario.sections import AqmMs, Section

RedBytes = Annotated[int, Field(ge=1, le=1 << 30)]
MemoryBytes = Annotated[int, Field(ge=1, le=1 << 31)]
ADVISED_RATE = r"[0-9]+(\.[0-9]+)?[kmg]bit"
DualPi2Hz = Annotated[float, Field(ge=0.004, le=1e6)]


class Pfifo(Section):
    qdisc: Literal["pfifo"]


class PieOptions(Section):
    """Common options of pie and fq_pie; `alpha` and `beta` are tc's integers of 0 to 32."""

    qdisc: Literal["pie", "fq_pie"]
    target_ms: AqmMs = 15.0
    tupdate_ms: Annotated[float, Field(ge=1, le=1e4)] = 15.0
    alpha: Annotated[int, Field(ge=0, le=32)] | None = None
    beta: Annotated[int, Field(ge=0, le=32)] | None = None
    ecn: bool = False
    bytemode: bool = False
    dq_rate_estimator: bool = False


class Pie(PieOptions):
    """tc-pie(8)."""

    qdisc: Literal["pie"]


class FqPie(PieOptions):
    """tc-fq_pie(8): a queue and a pie for each flow."""

    qdisc: Literal["fq_pie"]
    flows: Annotated[int, Field(ge=1, le=65_536)] = 1024
    quantum_bytes: Annotated[int, Field(ge=256, le=1 << 20)] = 1514
    memory_limit_bytes: MemoryBytes | None = None


class Red(Section):
    """tc-red(8). Thresholds are of the average queue, in bytes or in ms at the bottleneck's rate (as the run starts);
    tc's burst follows from them unless given. `red.red_refusal` checks them together."""

    qdisc: Literal["red"]
    min_bytes: RedBytes | None = None
    max_bytes: RedBytes | None = None
    min_ms: AqmMs | None = None
    max_ms: AqmMs | None = None
    avpkt_bytes: Annotated[int, Field(ge=1, le=65_535)] = 1000
    burst_packets: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    probability: Annotated[float, Field(gt=0, le=1)] = 0.02
    adaptive: bool = False
    ecn: bool = False

    @model_validator(mode="after")
    def _consistent(self) -> Red:
        given = [key for key in ("min_bytes", "max_bytes", "min_ms", "max_ms") if getattr(self, key) is not None]
        if given not in (["min_bytes", "max_bytes"], ["min_ms", "max_ms"]):
            raise ValueError(
                f"its thresholds are {' and '.join(given) or 'missing'}; write min_bytes and max_bytes, or min_ms and "
                "max_ms"
            )
        least, most = given
        if getattr(self, least) >= getattr(self, most):
            raise ValueError(
                f"{least} {getattr(self, least):g} is not below {most} {getattr(self, most):g}; write a larger {most}"
            )
        return self


class CodelOptions(Section):
    """Common options of codel and fq_codel."""

    qdisc: Literal["codel", "fq_codel"]
    target_ms: AqmMs = 5.0
    interval_ms: AqmMs = 100.0
    ce_threshold_ms: AqmMs | None = None
    ecn: bool = False


class Codel(CodelOptions):
    """tc-codel(8)."""

    qdisc: Literal["codel"]


class FqCodel(CodelOptions):
    """tc-fq_codel(8)."""

    qdisc: Literal["fq_codel"]
    flows: Annotated[int, Field(ge=1, le=65_536)] = 1024
    quantum_bytes: Annotated[int, Field(ge=256, le=1 << 20)] = 1514
    memory_limit_bytes: MemoryBytes | None = None


class Cake(Section):
    """tc-cake(8), without a shaper of its own: the link's rate shapes, as for the others."""

    qdisc: Literal["cake"]
    rtt_ms: AqmMs = 100.0
    isolation: Literal[
        "flowblind", "srchost", "dsthost", "hosts", "flows", "dual-srchost", "dual-dsthost", "triple-isolate"
    ] = "triple-isolate"
    diffserv: Literal["besteffort", "diffserv3", "diffserv4", "diffserv8"] = "besteffort"
    memory_limit_bytes: MemoryBytes | None = None


class DualPi2(Section):
    """The kernel's dualpi2 (RFC 9332), with the names of tc-dualpi2(8) and the kernel's defaults; Linux 6.17 and newer.

    `alpha_hz` and `beta_hz` are of RFC 9332 A.1, in steps of 1/256 Hz. In the L queue packets are marked from
    `step_thresh_ms` (or `step_thresh_packets`) on while it holds `min_qlen_step_packets` or more. `l_queue` says which
    packets go there: ECT(1) and CE (`l4s_ect`), or ECT(0) too (`any_ect`). `drop` is where the C queue drops.
    """

    qdisc: Literal["dualpi2"]
    target_ms: AqmMs = 15.0
    tupdate_ms: Annotated[float, Field(ge=0.1, le=4_000)] = 16.0
    alpha_hz: DualPi2Hz = 0.16
    beta_hz: DualPi2Hz = 3.2
    step_thresh_ms: Annotated[float, Field(ge=0.001, le=4_000)] | None = None
    step_thresh_packets: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    min_qlen_step_packets: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    coupling_factor: Annotated[int, Field(ge=1, le=255)] = 2
    drop_on_overload: bool = True
    drop: Literal["dequeue", "enqueue"] = "dequeue"
    classic_protection_percent: Annotated[int, Field(ge=0, le=100)] = 10
    l_queue: Literal["l4s_ect", "any_ect"] = "l4s_ect"
    split_gso: bool = True
    memory_limit_bytes: MemoryBytes | None = None

    @model_validator(mode="after")
    def _one_threshold(self) -> DualPi2:
        if self.step_thresh_packets is None:
            self.step_thresh_ms = 1.0 if self.step_thresh_ms is None else self.step_thresh_ms
        elif self.step_thresh_ms is not None:
            raise ValueError("has step_thresh_ms and step_thresh_packets; write one of them")
        return self


class Args(Section):
    """Any discipline of the kernel: `qdisc_args` are tc's arguments after `qdisc add ... handle 10:`, its name first.
    The link's `queue_limit_packets` is not in it: write a limit there."""

    qdisc: Literal["args"]
    qdisc_args: str

    @field_validator("qdisc_args")
    @classmethod
    def _one_discipline(cls, text: str) -> str:
        if not re.fullmatch(r"[a-z][a-z0-9_]*( [A-Za-z0-9_.:/%,+=-]+)*", text):
            raise ValueError("qdisc_args: not a discipline and its options as tc has them; write words with one space "
                             'between, as "fq_codel limit 500 target 5ms"')  # fmt: skip
        return text


class WeirHead(Section):
    """tc eBPF. With `tune` the controller's tuner runs beside it from before the traffic starts. With `coupled` there
    are two bands, for L4S and for the rest, and the keys of docs/design/coupled.md for how they are coupled. With
    `bands` sparse and young flows go ahead of bulk, by the keys of docs/design/flows.md; with `hosts` each source or
    destination address has a fair share of bulk. With `flow_queues` a scheduler of flows (fq_codel without CoDel) is
    below the law, with `bands` below that of bulk. `signal` is veth unless given; with poll the queue has its limit
    itself. `advise` is the throughput advice for QUIC (SCONE): a rate, or a share of the line."""

    qdisc: Literal["weir"]
    profile: str
    signal: Literal["veth", "poll"] | None = None
    tune: bool = False
    coupled: bool = False
    coupling: Annotated[float, Field(ge=0, lt=16)] | None = None
    ramp_least_us: Annotated[int, Field(ge=0, lt=1 << 24)] | None = None
    ramp_us: Annotated[int, Field(ge=1, lt=1 << 16)] | None = None
    floor_bytes: Annotated[int, Field(ge=0, lt=1 << 24)] | None = None
    bands: bool = False
    flow_queues: bool = False
    hosts: Literal["src", "dst"] | None = None
    advise: Annotated[str, Field(pattern=rf"^(share|{ADVISED_RATE})$")] | None = None
    ahead_share: Annotated[float, Field(ge=0, lt=16)] | None = None
    ahead_most_bytes: Annotated[int, Field(ge=1, lt=1 << 32)] | None = None
    ahead_least_bytes: Annotated[int, Field(ge=1, lt=1 << 32)] | None = None


class P4Head(Section):
    """A P4 switch as the bottleneck. `program` is a path from the repository's top; `delay_source` is where the law
    has the delay from: the packets' time in the queue, or Cao Eq. 1 (backlog by departure rate). `advise` is the
    throughput advice for QUIC (SCONE), of a `program` that gives any."""

    qdisc: Literal["p4"]
    profile: str
    tune: bool = False
    switch: Literal["embedded", "bmv2"] = "embedded"
    program: str = "p4/pid_delay.p4"
    delay_source: Literal["sojourn", "rate"] = "sojourn"
    advise: Annotated[str, Field(pattern=rf"^{ADVISED_RATE}$")] | None = None


# Our law as tc eBPF and in a P4 switch; a scenario's keys override the profile. `weir.gains` knows the keys and checks
# the values.
LAW: dict[str, Any] = {key: (Any, None) for key in gains.KEYS}
Weir = create_model("Weir", __base__=WeirHead, **LAW)
P4 = create_model("P4", __base__=P4Head, **LAW)


DISCIPLINES: dict[str, type[Section]] = {
    "pfifo": Pfifo,
    "pie": Pie,
    "fq_pie": FqPie,
    "red": Red,
    "codel": Codel,
    "fq_codel": FqCodel,
    "cake": Cake,
    "dualpi2": DualPi2,
    "args": Args,
    "weir": Weir,
    "p4": P4,
}
