# SPDX-License-Identifier: Apache-2.0
"""The sections of a scenario file on the dumbbell: links, flows, changes, and queue disciplines as variants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from weirlab.lab.arrivals import LEAST_SHORT_BYTES
from weirlab.lab.kernel_config import CONGESTION_CONTROLS
from weirlab.lab.rates import LEAST_MBIT_S, RateFileError, Steps, mean_mbit_s, over_run, parse
from weirlab.scenario.cellular import text_of
from weirlab.scenario.checker import Checker
from weirlab.scenario.congestion import LEARNED, known_control
from weirlab.scenario.errors import nearest
from weirlab.scenario.policies import text_of_weights, without_policy
from weirlab.scenario.schema import Schema
from weirlab.scenario.sections import (
    AqmMs,
    Name,
    NotNegative,
    Percent,
    QueuePackets,
    RateMbit,
    Seconds,
    SecondsFrom0,
    Section,
    Seed,
    SeedCount,
)
from weirlab.scenario.stacks import row_of
from weirlab.topologies.dumbbell.metrics import ALL_METRICS
from weirlab.topologies.dumbbell.name import NAME
from weirlab.topologies.dumbbell.queues.check import queue
from weirlab.topologies.dumbbell.shaper import Line, shaper_of
from weirlab.topologies.dumbbell.traffic import LEAST_PACED_BYTES, MOST_HOSTS, SCALABLE

# The names stand in the kernel's configuration; a type checker needs them in the source.
if TYPE_CHECKING:
    CongestionControl = str
else:
    CongestionControl = Literal[CONGESTION_CONTROLS]

LEAST_MEASURED_S = 1.0  # flows are sampled every 100 ms and shown in bins of a second
BurstSeconds = Annotated[float, Field(ge=0.001, le=86_400)]
# The sink has a place and a file for each flow.
MOST_FLOWS = 900
FlowCount = Annotated[int, Field(ge=1, le=MOST_FLOWS)]
LINKS = ("access", "bottleneck")
CC_OPTIONS = ("cc_weights", "cc_explore", "cc_trajectories", "cc_agent")
RETURN = "return"  # a link that may be left out
LINE = "line"  # another
SHAPER = "shaper"  # a variant's table
SENDER = "sender"  # a variant's table
SENDER_KEYS = ("kind", "stack", "cc", "payload_bytes", "ecn", "ect1", *CC_OPTIONS)  # what it may put over a group's
DUMBBELL_HEAD = ("topology", "duration_s", "warmup_s", "reference_target_ms", "sample_one_in")
# Groups of flows that share no sender; the sampler times no more than 64 hops, and ten senders make a group.
MOST_GROUPS_APART = 6


class Head(Section):
    """`[scenario]` of a dumbbell. `warmup_s` at the start is left out of all figures; `reference_target_ms` is the
    reference of the excess of the queue delay, for every variant alike. `variants_from` names a file beside this one
    with variants that several scenarios share: it is read as if it stood at this file's end. Hops other than the queue
    under test time one packet in `sample_one_in`: on a fast link the watching costs more than the run. With `compares`
    "senders" the congestion controls of the flows are what is compared: `senders.py` has their figures. `source` is the
    publication that the scenario follows, for reports."""

    name: Name
    title: str = Field(min_length=1)
    description: str = ""
    source: str = ""
    topology: str = NAME
    variants_from: str | None = None
    duration_s: Seconds
    warmup_s: SecondsFrom0 = 0.0
    reference_target_ms: AqmMs = 15.0
    sample_one_in: Annotated[int, Field(ge=1, le=1000)] = 1
    compares: Literal["queues", "senders"] = "queues"
    seeds: SeedCount | list[Seed] = 3

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.duration_s - self.warmup_s < LEAST_MEASURED_S:
            raise ValueError(
                f"warmup_s {self.warmup_s:g} leaves less than {LEAST_MEASURED_S:g} s of duration_s "
                f"{self.duration_s:g}; write a shorter warmup_s or a longer duration_s"
            )
        return self


class Link(Section):
    """One link, the same in both directions except that loss and the queue under test are on the data's way."""

    rate_mbit_s: RateMbit
    delay_ms: NotNegative = 0.0
    loss_percent: Percent = 0.0
    queue_limit_packets: QueuePackets = 1000


class Bottleneck(Section):
    """The link with the queue under test. With `rate_file`, a file beside the scenario's, the rate on the data's way
    follows that file (`weirlab/lab/rates.py` has its form); the way back then has its mean rate, or that of
    [link.return]."""

    rate_mbit_s: RateMbit | None = None
    delay_ms: NotNegative = 0.0
    loss_percent: Percent = 0.0
    queue_limit_packets: QueuePackets = 1000
    rate_file: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _one_rate(self) -> Self:
        if self.rate_mbit_s is None and self.rate_file is None:
            raise ValueError("rate_mbit_s: missing; write rate_mbit_s = a number from 0.001, or a rate_file")
        if self.rate_mbit_s is not None and self.rate_file is not None:
            raise ValueError("rate_file: rate_mbit_s is there too; write only one of them")
        return self


class ReturnLink(Section):
    """`[link.return]`: the bottleneck's way back, where it is not the same as the way of the data. `rate_mbit_s` is the
    bottleneck's unless given. `[link.return.queue]` is its queue with the same options as a variant, drop-tail if left
    out; a variant's own table `return` takes its place. `tcp_flows` long transfers go that way, from the sink to the
    first sender, from the start to the end of the run; `ecn` as for `[[flows]]`."""

    rate_mbit_s: RateMbit | None = None
    queue_limit_packets: QueuePackets = 1000
    tcp_flows: FlowCount | None = None
    ecn: bool | None = None


class LinkChange(Section):
    """`[[changes]]`: from `at_s` on the bottleneck is otherwise, for good. Packets on their way keep their delay: after
    a shorter `delay_ms` packets overtake those sent before it."""

    at_s: SecondsFrom0
    rate_mbit_s: RateMbit | None = None
    delay_ms: NotNegative | None = None
    loss_percent: Percent | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.rate_mbit_s is None and self.delay_ms is None and self.loss_percent is None:
            raise ValueError("changes nothing; write at least one of rate_mbit_s, delay_ms, loss_percent")
        return self


class Flow(Section):
    """Common keys of all kinds of flow. The flows of a group start at random within `start_spread_s` from `start_s` (so
    that a seed changes more than losses) and end at `stop_s` (the run's end). `extra_rtt_ms` is on the access links of
    the group's senders, half of it each way; where a group has some, no two groups share a sender. The sink has an
    address for each `host`; a group without one goes to the first."""

    count: FlowCount = 1
    extra_rtt_ms: NotNegative = 0.0
    start_s: SecondsFrom0 = 0.0
    start_spread_s: SecondsFrom0 = 0.1
    stop_s: Seconds | None = None
    neighbour: bool | None = None
    host: Annotated[int, Field(ge=1, le=MOST_HOSTS)] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.host is not None and getattr(self, "kind", "") in ("quic-download", "quic-short"):
            raise ValueError("host is for flows that the sender opens; write another kind, or remove it")
        if self.stop_s is not None and self.stop_s <= self.start_s:
            raise ValueError(f"stop_s {self.stop_s:g} is not after start_s {self.start_s:g}; write a later stop_s")
        return self


class BulkFlow(Flow):
    """A long transfer. With `burst_bytes` its application has so much more to send every `burst_every_ms`, the first at
    its start, and nothing else: it, and not the network, limits the flow."""

    burst_bytes: Annotated[int, Field(ge=LEAST_SHORT_BYTES, le=10**9)] | None = None
    burst_every_ms: Annotated[int, Field(ge=1, le=86_400_000)] | None = None

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if (self.burst_bytes is None) != (self.burst_every_ms is None):
            raise ValueError("has one of burst_bytes and burst_every_ms; write both, or none for an endless transfer")
        return self


class KernelTcp(Flow):
    """Common keys of flows by the kernel's TCP. dctcp negotiates ECN by itself, the others if `ecn` says so. With
    `ect1` a dctcp flow's packets carry ECT(1), as those of L4S do, and not ECT(0)."""

    cc: CongestionControl = "cubic"
    payload_bytes: Annotated[int, Field(ge=88, le=1460)] = 1400
    ecn: bool = False
    ect1: bool | None = None

    @model_validator(mode="after")
    def _scalable(self) -> Self:
        if self.ect1 and self.cc != SCALABLE:
            raise ValueError(f'ect1 is for scalable congestion controls, not {self.cc}; write cc = "{SCALABLE}"')
        return self


class QuicCommon(Flow):
    """Common keys of QUIC flows. `payload_bytes` is the largest UDP payload (1412 gives IP packets of 1440 bytes). With
    `stack` the server of that row in mininet/peers/servers.toml sends in place of weir-server, and `cc` is one of the
    row's controls; a name that ends in .toml is a file beside the scenario's with such a row. The check fills in
    `server`, the row itself. With `ecn` both ends use ECN, with the codepoint of the congestion control; a `stack` uses
    ECN as it does by default. With `scone` both take throughput advice of the network: the receiver reports or follows
    it.

    `cc_weights` is a file beside the scenario's with the policy of a learned congestion control; without it the
    programs' own decides. For training: `cc_explore` adds noise to its actions (sender N of the run takes this number
    plus N for its seed), `cc_trajectories` keeps what it saw and did in `trajectories-NODE/` of the run's folder, and
    with `cc_agent` another program decides for the first connection of the first sender, by files in `agent/` there
    (docs/design/pbq.md)."""

    stack: Annotated[str, Field(min_length=1)] | None = None
    server: dict[str, Any] | None = None
    cc: str = "cubic"
    payload_bytes: Annotated[int, Field(ge=1200, le=1472)] = 1412
    ecn: bool = False
    scone: Literal["report", "follow"] | None = None
    cc_weights: Annotated[str, Field(min_length=1)] | None = None
    cc_explore: Seed | None = None
    cc_trajectories: bool | None = None
    cc_agent: bool | None = None

    @field_validator("cc")
    @classmethod
    def _known(cls, cc: str, info: ValidationInfo) -> str:
        return cc if info.data.get("stack") else known_control(cc)

    @model_validator(mode="after")
    def _learned(self) -> Self:
        given = [name for name in CC_OPTIONS if getattr(self, name) is not None]
        if given and (self.cc not in LEARNED or self.stack):
            raise ValueError(without_policy(given[0], self.cc))
        if self.scone is not None and self.stack:
            raise ValueError(f"scone: the lab gives {self.stack} no advice; write a flow without stack, or remove it")
        return self

    def take_row(self, checker: Checker, path: str) -> None:
        """Put the row of the stack into `server`, checked for this kind of flow."""
        if self.stack is None:
            return
        self.server = row_of(checker, self.stack, self.cc, f"{path}.stack")
        if self.server is not None and getattr(self, "burst_bytes", None) and "bursts" not in self.server:
            checker.problem(f"{path}.burst_bytes", f"{self.stack} has no bursts; name their path in its row's bursts")


class QuicFlow(BulkFlow, QuicCommon):
    """Bulk transfer over QUIC, by quiche."""

    kind: Literal["quic-download", "quic-upload"]

    @model_validator(mode="after")
    def _sends(self) -> Self:
        if self.kind == "quic-upload" and self.stack:
            raise ValueError(f'{self.stack} is a server, and this client sends; write kind = "quic-download"')
        return self


class TcpFlow(BulkFlow, KernelTcp):
    """Bulk transfer by the kernel's TCP; `payload_bytes` is the segment size (1388 gives IP packets of 1440
    bytes)."""

    kind: Literal["tcp"]


class ShortFlow(Flow):
    """Short transfers, each over a connection of its own. They arrive as a Poisson process of `arrivals_per_s` in all,
    at `count` senders in turn; each is of `bytes`, or of a size drawn from the log-normal distribution of median
    `bytes_median` and standard deviation `bytes_sigma` of the logarithm."""

    arrivals_per_s: Annotated[float, Field(gt=0, le=1e4)]
    bytes: Annotated[int, Field(ge=LEAST_SHORT_BYTES, le=10**9)] | None = None
    bytes_median: Annotated[float, Field(ge=LEAST_SHORT_BYTES, le=1e9)] | None = None
    bytes_sigma: Annotated[float, Field(gt=0, le=3)] | None = None

    @model_validator(mode="after")
    def _sized(self) -> Self:
        drawn = self.bytes_median is not None and self.bytes_sigma is not None
        half = (self.bytes_median is None) != (self.bytes_sigma is None)
        if half or drawn == (self.bytes is not None):
            raise ValueError("needs either bytes or both bytes_median and bytes_sigma; write bytes = 100000, or both")
        return self


class QuicShortFlow(ShortFlow, QuicCommon):
    """Short downloads over QUIC."""

    kind: Literal["quic-short"]


class TcpShortFlow(ShortFlow, KernelTcp):
    """Short transfers by the kernel's TCP."""

    kind: Literal["tcp-short"]


class UdpFlow(Flow):
    """Unresponsive traffic at a constant rate of UDP payload, for each flow of the group. With `on_s` and `off_s` it
    comes in bursts: at that rate for `on_s`, then silent for `off_s`, and so on from its start."""

    kind: Literal["udp"]
    rate_mbit_s: RateMbit
    payload_bytes: Annotated[int, Field(ge=16, le=1472)] = 1412
    ecn: bool = False
    on_s: BurstSeconds | None = None
    off_s: BurstSeconds | None = None

    @model_validator(mode="after")
    def _bursts(self) -> Self:
        if (self.on_s is None) != (self.off_s is None):
            raise ValueError("has one of on_s and off_s; write both, or none for a steady rate")
        return self


class PacedFlow(Flow):
    """UDP at exact times: each flow `packets_per_s` packets of `payload_bytes` of UDP payload, the first numbers of
    which are its place in the flow and when it was sent. `ecn` makes them ECT(0)."""

    payload_bytes: Annotated[int, Field(ge=LEAST_PACED_BYTES, le=1472)]
    packets_per_s: Annotated[float, Field(ge=0.01, le=1e4)]
    dscp: Annotated[int, Field(ge=0, le=63)] = 0
    ecn: bool = False


class VoiceFlow(PacedFlow):
    """A call: 20 ms of G.711 a packet (RFC 3551 4.5.14), by default."""

    kind: Literal["voice"]
    payload_bytes: Annotated[int, Field(ge=LEAST_PACED_BYTES, le=1472)] = 160
    packets_per_s: Annotated[float, Field(ge=0.01, le=1e4)] = 50.0


class GameFlow(PacedFlow):
    """The updates that a game's server sends to a player, 60 a second by default."""

    kind: Literal["game"]
    payload_bytes: Annotated[int, Field(ge=LEAST_PACED_BYTES, le=1472)] = 100
    packets_per_s: Annotated[float, Field(ge=0.01, le=1e4)] = 60.0


class PingFlow(PacedFlow):
    """Packets that the sink sends back: figures are of round trips."""

    kind: Literal["ping"]
    payload_bytes: Annotated[int, Field(ge=LEAST_PACED_BYTES, le=1472)] = 64
    packets_per_s: Annotated[float, Field(ge=0.01, le=1e4)] = 20.0


FLOW_KINDS: dict[str, type[Flow]] = {
    "quic-download": QuicFlow,
    "quic-upload": QuicFlow,
    "quic-short": QuicShortFlow,
    "tcp": TcpFlow,
    "tcp-short": TcpShortFlow,
    "udp": UdpFlow,
    "voice": VoiceFlow,
    "game": GameFlow,
    "ping": PingFlow,
}


class DumbbellSchema(Schema):
    """A dumbbell's sections."""

    name = NAME
    head = Head
    sections = ("link", "flows", "changes")
    figures = ALL_METRICS
    variant_example = ("pie", 'qdisc = "pie"')
    sweep_example = "link.access.delay_ms"

    def specs(self, checker: Checker, raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        common = self.common(checker, raw)

        def both_ways(options: dict[str, Any], path: str) -> dict[str, Any] | None:
            """A variant's queue under test, and its own queue on the way back if it has one."""
            given = {key: value for key, value in options.items() if key not in (RETURN, SHAPER)}
            aqm = queue(checker, given, path, common)
            if given.get("qdisc") == "p4" and "rates" in common.get("link", {}).get("bottleneck", {}):
                checker.problem(f"{path}.qdisc", "a P4 switch's queue can't follow rate_file; write another qdisc")
            if RETURN not in options:
                return None if aqm is None else {"aqm": aqm}
            if raw["link"] is not None and RETURN not in raw["link"]:
                checker.problem(f"{path}.{RETURN}", "the scenario has no way back of its own; write [link.return]")
                return None
            back = self.return_queue(checker, options[RETURN], f"{path}.{RETURN}", common)
            return None if aqm is None or back is None else {"aqm": aqm, "return_aqm": back}

        def variant(options: dict[str, Any], path: str) -> dict[str, Any] | None:
            """A variant's queues, and the flows if it has senders of its own."""
            given = {key: value for key, value in options.items() if key != SENDER}
            found = both_ways(given, path)
            if found is not None and (SHAPER in options or LINE in common.get("link", {})):
                shaper = shaper_of(checker, options, path, common, found["aqm"])
                found = None if shaper is None else {**found, SHAPER: shaper}
            if SENDER not in options:
                return found
            own = self.flows_with(checker, raw, options[SENDER], f"{path}.{SENDER}")
            return None if found is None or own is None else {**found, **own}

        variants = checker.variants(raw["variants"], self.variant_example, variant)
        return {label: {**common, **own} for label, own in variants.items()}

    def flows_with(self, checker: Checker, raw: Mapping[str, Any], sender: Any, path: str) -> dict[str, Any] | None:
        """The flows with the keys of a variant's `sender` put over those of each group under test."""
        if not isinstance(sender, dict):
            checker.problem(path, 'not a table; write a table with cc = "cubic", for example')
            return None
        head = raw["scenario"]
        if not isinstance(head, dict) or head.get("compares") != "senders":
            checker.problem(
                path, 'the scenario compares queues; write compares = "senders" in [scenario], or remove it'
            )
            return None
        fixed = [key for key in sender if key not in SENDER_KEYS]
        for key in fixed:
            checker.problem(f"{path}.{key}", f"not for a sender; {nearest(key, SENDER_KEYS)}")
        groups = raw["flows"]
        if fixed or not isinstance(groups, list) or not all(isinstance(group, dict) for group in groups):
            return None  # mistakes in flows are reported with the common sections
        tested = [not group.get("neighbour") for group in groups]
        with_sender = [{**group, **sender} if mine else group for group, mine in zip(groups, tested, strict=True)]
        under = [dict.fromkeys(sender, path) if mine else {} for mine in tested]
        flows = self.common(checker, {**raw, "flows": with_sender}, under).get("flows")
        return None if flows is None else {"flows": flows}

    def common(
        self, checker: Checker, raw: Mapping[str, Any], under: Sequence[Mapping[str, str]] = ()
    ) -> dict[str, Any]:
        """Common part of all variants. `under` gives for each group of flows its keys that stand in another table."""
        head = checker.section(Head, raw["scenario"], "scenario")
        tables = checker.tables(raw["link"], "link", LINKS, (RETURN, LINE))
        access = checker.section(Link, tables["access"], "link.access") if "access" in tables else None
        bottleneck = (
            checker.section(Bottleneck, tables["bottleneck"], "link.bottleneck") if "bottleneck" in tables else None
        )
        flows = self.flows(checker, raw["flows"], under)
        changes = checker.listed(LinkChange, [] if raw["changes"] is None else raw["changes"], "changes")
        if head is None:
            return {}
        for i, change in changes.items():
            if change.rate_mbit_s is not None and bottleneck is not None and bottleneck.rate_file is not None:
                checker.problem(f"changes.{i}.rate_mbit_s", "the rate follows rate_file; remove one of them")
            if change.at_s >= head.duration_s:
                checker.problem(
                    f"changes.{i}.at_s", f"not before the end, duration_s = {head.duration_s:g}; write less"
                )
        groups = len(flows)
        if groups > MOST_GROUPS_APART and any(flow is not None and flow.extra_rtt_ms for flow in flows):
            checker.problem(
                "flows", f"{groups} groups, of which one has extra_rtt_ms; write at most {MOST_GROUPS_APART} groups"
            )
        if (count := sum(flow.count for flow in flows if flow is not None)) > MOST_FLOWS:
            checker.problem("flows", f"{count} flows in all; write at most {MOST_FLOWS}")
        tcp = [flow for flow in flows if isinstance(flow, KernelTcp)]
        if len({flow.ecn for flow in tcp if flow.cc != SCALABLE}) > 1:
            checker.problem(
                "flows", "TCP flows must agree in ecn, a setting of the sending node; write the same in all"
            )
        if len({bool(flow.ect1) for flow in tcp if flow.cc == SCALABLE}) > 1:
            checker.problem(
                "flows", f"{SCALABLE} flows must agree in ect1, as they share a port; write the same in all"
            )
        for i, flow in enumerate(flows):
            if isinstance(flow, QuicCommon):
                place = {key: under[i].get(key, f"flows.{i}") if under else f"flows.{i}" for key in SENDER_KEYS}
                flow.take_row(checker, place["stack"])
                if flow.cc_weights is not None:
                    key = "cc_weights"
                    flow.cc_weights = text_of_weights(checker, flow.cc_weights, f"{place[key]}.{key}")
        for i, flow in enumerate(flows):
            if flow is not None and flow.start_s + flow.start_spread_s >= (flow.stop_s or head.duration_s):
                checker.problem(f"flows.{i}.start_spread_s", "lets a flow start after its end; write less")
            if flow is not None and max(flow.start_s, flow.stop_s or 0) > head.duration_s:
                checker.problem(f"flows.{i}", f"starts or stops after duration_s = {head.duration_s:g}; write less")
        self.neighbours(checker, head, flows)
        return {
            "scenario": head.name,
            **{key: getattr(head, key) for key in DUMBBELL_HEAD},
            **({"compares": head.compares} if head.compares == "senders" else {}),
            "link": self.links(checker, head, access, bottleneck, tables.get(RETURN))
            | self.line(checker, head, bottleneck, tables),
            "flows": [
                {
                    **flow.model_dump(exclude_none=True),
                    "stop_s": head.duration_s if flow.stop_s is None else flow.stop_s,
                }
                for flow in flows
                if flow is not None
            ],
            "changes": [
                change.model_dump(exclude_none=True) for change in sorted(changes.values(), key=lambda c: c.at_s)
            ],
        }

    @staticmethod
    def neighbours(checker: Checker, head: Head, flows: Sequence[Flow | None]) -> None:
        """Competing flows are for scenarios that compare senders, of which some must be left."""
        marked = [i for i, flow in enumerate(flows) if flow is not None and flow.neighbour is not None]
        if marked and head.compares != "senders":
            checker.problem(
                f"flows.{marked[0]}.neighbour",
                'the scenario compares queues; write compares = "senders" in [scenario], or remove it',
            )
        if head.compares == "senders" and flows and all(flow is not None and flow.neighbour for flow in flows):
            checker.problem("flows.0.neighbour", "all groups are neighbours; write at least one that is not")

    def links(
        self, checker: Checker, head: Head, access: Link | None, bottleneck: Bottleneck | None, back: Any
    ) -> dict[str, Any]:
        """The links with nothing left to default; of a bottleneck that follows a file the mean rate and `rates`, from
        when on (in s) it has which rate."""
        found: dict[str, Any] = {} if access is None else {"access": access.model_dump()}
        if bottleneck is None:
            return found
        found["bottleneck"] = link = bottleneck.model_dump(exclude_none=True)
        if bottleneck.rate_file is not None:
            rates = self.rates(checker, bottleneck.rate_file, head.duration_s)
            if rates is None:
                return {}
            link |= {"rates": rates, "rate_mbit_s": round(mean_mbit_s(rates, head.duration_s), 6)}
        if back is not None:
            given = {key: value for key, value in back.items() if key != "queue"} if isinstance(back, dict) else back
            way = checker.section(ReturnLink, given, "link.return", extra=("queue",))
            if way is None:
                return found
            found[RETURN] = way.model_dump(exclude_none=True)
            if way.rate_mbit_s is None:
                found[RETURN]["rate_mbit_s"] = link["rate_mbit_s"]
            table = back.get("queue", {"qdisc": "pfifo"})
            found[RETURN]["queue"] = self.return_queue(checker, table, "link.return.queue", {"link": found})
        return found

    @staticmethod
    def rates(checker: Checker, name: str, duration_s: float, path: str = "link.bottleneck.rate_file") -> Steps | None:
        """Rates of a run by its `rate_file`; None if that has mistakes."""
        try:
            found = over_run(parse(text_of(checker.path.parent, name)), duration_s)
            if mean_mbit_s(found, duration_s) >= LEAST_MBIT_S:
                return found
            wrong = f"{name}: a mean of less than {LEAST_MBIT_S:g} Mbit/s in this run; write higher rates"
        except RateFileError as error:
            wrong = f"{name}, {error}"
        except UnicodeDecodeError as error:
            wrong = f"{name}: not UTF-8 at byte {error.start}; save the file as UTF-8"
        except (OSError, ValueError) as error:  # a name may hold what no path can
            why = error.strerror if isinstance(error, OSError) else error
            wrong = f"{name!r} can't be read: {why}; write a file's path from the scenario's folder, or cellular:SEED"
        checker.problem(path, wrong)
        return None

    def line(
        self, checker: Checker, head: Head, bottleneck: Bottleneck | None, tables: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The line behind the shaper, with the rates of its file."""
        if LINE not in tables:
            return {}
        line = checker.section(Line, tables[LINE], "link.line")
        if RETURN in tables:
            checker.problem("link.return", "the way back of a line is the bottleneck's; remove it")
        if bottleneck is not None and bottleneck.rate_file is not None:
            checker.problem("link.bottleneck.rate_file", "the bottleneck is the shaper before the line; write a rate")
        rates = line and self.rates(checker, line.rate_file, head.duration_s, "link.line.rate_file")
        if line is None or not rates:
            return {}
        mean = round(mean_mbit_s(rates, head.duration_s), 6)
        return {LINE: {**line.model_dump(), "rates": rates, "rate_mbit_s": mean}}

    def return_queue(
        self, checker: Checker, options: Any, path: str, common: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """A queue on the way back: any discipline that the kernel or our eBPF program has."""
        if not isinstance(options, dict):
            checker.problem(path, 'not a table; write a table with qdisc = "pie", for example')
            return None
        if options.get("qdisc") == "p4":
            checker.problem(f"{path}.qdisc", "a P4 switch is for the data's way; write another qdisc")
            return None
        if options.get("tune"):
            checker.problem(f"{path}.tune", "the tuner is for the queue under test; remove it here")
            return None
        if options.get("coupled"):
            checker.problem(f"{path}.coupled", "two bands are for the queue under test; remove it here")
            return None
        link = common.get("link", {}).get(RETURN)
        return queue(checker, options, path, {"link": {"bottleneck": link}} if link else {})

    def flows(self, checker: Checker, value: Any, under: Sequence[Mapping[str, str]]) -> list[Flow | None]:
        if not isinstance(value, list) or not value:
            checker.problem("flows", "no flows; write at least one table [[flows]] with a kind")
            return []
        places = under or [{}] * len(value)
        return [
            checker.tagged(FLOW_KINDS, "kind", flow, f"flows.{i}", place)
            for i, (flow, place) in enumerate(zip(value, places, strict=True))
        ]
