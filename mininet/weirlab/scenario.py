# SPDX-License-Identifier: Apache-2.0
"""Scenario files: TOML in, a checked list of concrete runs out.

A scenario says what is measured: on `dumbbell` links, flows and the variants (queue disciplines) that are compared; on
`access` paths, changes and the variants (a client's settings); seeds, and the figures of a paper to show beside ours.
Lists in a variant and in `[sweep]` are crossed. Every mistake in the file is
found at once and told in one line each: file and line, key, what is wrong, what would be right.
"""

import difflib
import itertools
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, ValidationError, create_model, model_validator

from weir import gains, settings
from weirlab import access, metrics, metrics_access
from weirlab.kernel import CONGESTION_CONTROLS
from weirlab.red import red_refusal
from weirlab.sections import (
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

REPOSITORY = Path(__file__).resolve().parents[2]
PROFILES_FOLDER = REPOSITORY / "controller" / "profiles"

LEAST_SHORT_BYTES = 100
LEAST_MEASURED_S = 1.0  # flows are sampled every 100 ms and shown in bins of a second


# tc takes microseconds and turns shorter times into none; by PIE's timer the kernel counts milliseconds.
AqmMs = Annotated[float, Field(ge=0.01, le=1e5)]
RedBytes = Annotated[int, Field(ge=1, le=1 << 30)]
MemoryBytes = Annotated[int, Field(ge=1, le=1 << 31)]
BurstSeconds = Annotated[float, Field(ge=0.001, le=86_400)]
# The sink has a place and a file for each flow.
MOST_FLOWS = 900
FlowCount = Annotated[int, Field(ge=1, le=MOST_FLOWS)]
LONGEST_LABEL = 150  # it names a folder


class ScenarioError(Exception):
    """What is wrong with a scenario file or a selection of its runs; `problems` holds one line for each mistake."""

    def __init__(self, problems: Sequence[str]):
        self.problems = list(problems)
        super().__init__("\n".join(self.problems))


T = TypeVar("T", bound=Section)


class Head(Section):
    """`[scenario]` of a dumbbell. `warmup_s` at the start is left out of all figures; `reference_target_ms` is what the
    excess of the queue delay is measured against, for every variant alike. `variants_from` names a file beside this one
    with variants that several scenarios share: it is read as if it stood at this file's end. Hops other than the queue
    under test time one packet in `sample_one_in`: on a fast link the watching costs more than the run."""

    name: Name
    title: str = Field(min_length=1)
    description: str = ""
    topology: Literal["dumbbell"] = "dumbbell"
    variants_from: str | None = None
    duration_s: Seconds
    warmup_s: SecondsFrom0 = 0.0
    reference_target_ms: AqmMs = 15.0
    sample_one_in: Annotated[int, Field(ge=1, le=1000)] = 1
    seeds: SeedCount | list[Seed] = 3

    @model_validator(mode="after")
    def _consistent(self):
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


class LinkChange(Section):
    """`[[changes]]`: from `at_s` on the bottleneck is otherwise, for good. What it waits for on its way then still
    waits as it did: after a shorter `delay_ms` packets overtake those sent before it."""

    at_s: SecondsFrom0
    rate_mbit_s: RateMbit | None = None
    delay_ms: NotNegative | None = None
    loss_percent: Percent | None = None

    @model_validator(mode="after")
    def _consistent(self):
        if self.rate_mbit_s is None and self.delay_ms is None and self.loss_percent is None:
            raise ValueError("changes nothing; write at least one of rate_mbit_s, delay_ms, loss_percent")
        return self


class Flow(Section):
    """What all kinds of flow have. The flows of a group start at random within `start_spread_s` from `start_s` (so that
    a seed changes more than losses) and end at `stop_s` (the run's end). `extra_rtt_ms` is on the access links of the
    group's senders, half of it each way; where a group has some, no two groups share a sender."""

    count: FlowCount = 1
    extra_rtt_ms: NotNegative = 0.0
    start_s: SecondsFrom0 = 0.0
    start_spread_s: SecondsFrom0 = 0.1
    stop_s: Seconds | None = None

    @model_validator(mode="after")
    def _consistent(self):
        if self.stop_s is not None and self.stop_s <= self.start_s:
            raise ValueError(f"stop_s {self.stop_s:g} is not after start_s {self.start_s:g}; write a later stop_s")
        return self


class QuicFlow(Flow):
    """Bulk transfer by quiche; `payload_bytes` is the largest UDP payload (1412 gives IP packets of 1440 bytes)."""

    kind: Literal["quic-download", "quic-upload"]
    cc: Literal["reno", "cubic", "bbr2_gcongestion"] = "cubic"
    payload_bytes: Annotated[int, Field(ge=1200, le=1472)] = 1412


class TcpFlow(Flow):
    """Bulk transfer by the kernel's TCP; `payload_bytes` is the segment size (1400 gives IP packets of 1440 bytes)."""

    kind: Literal["tcp"]
    cc: Literal[CONGESTION_CONTROLS] = "cubic"
    payload_bytes: Annotated[int, Field(ge=88, le=1460)] = 1400
    ecn: bool = False


class TcpShortFlow(Flow):
    """Short transfers by the kernel's TCP, each over a connection of its own. They arrive as a Poisson process of
    `arrivals_per_s` in all, at `count` senders in turn; each is of `bytes`, or of a size drawn from the log-normal
    distribution of median `bytes_median` and standard deviation `bytes_sigma` of the logarithm."""

    kind: Literal["tcp-short"]
    cc: Literal[CONGESTION_CONTROLS] = "cubic"
    payload_bytes: Annotated[int, Field(ge=88, le=1460)] = 1400
    ecn: bool = False
    arrivals_per_s: Annotated[float, Field(gt=0, le=1e4)]
    bytes: Annotated[int, Field(ge=LEAST_SHORT_BYTES, le=10**9)] | None = None
    bytes_median: Annotated[float, Field(ge=LEAST_SHORT_BYTES, le=1e9)] | None = None
    bytes_sigma: Annotated[float, Field(gt=0, le=3)] | None = None

    @model_validator(mode="after")
    def _sized(self):
        drawn = self.bytes_median is not None and self.bytes_sigma is not None
        half = (self.bytes_median is None) != (self.bytes_sigma is None)
        if half or drawn == (self.bytes is not None):
            raise ValueError("needs either bytes or both bytes_median and bytes_sigma; write bytes = 100000, or both")
        return self


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
    def _bursts(self):
        if (self.on_s is None) != (self.off_s is None):
            raise ValueError("has one of on_s and off_s; write both, or none for a steady rate")
        return self


class Pfifo(Section):
    qdisc: Literal["pfifo"]


class Pie(Section):
    """tc-pie(8); `alpha` and `beta` are tc's integers of 0 to 32."""

    qdisc: Literal["pie"]
    target_ms: AqmMs = 15.0
    tupdate_ms: Annotated[float, Field(ge=1, le=1e4)] = 15.0
    alpha: Annotated[int, Field(ge=0, le=32)] | None = None
    beta: Annotated[int, Field(ge=0, le=32)] | None = None
    ecn: bool = False
    bytemode: bool = False
    dq_rate_estimator: bool = False


class Red(Section):
    """tc-red(8). Thresholds are of the average queue, in bytes or in ms at the bottleneck's rate (as the run starts);
    tc's burst follows from them unless given. What they may be together `weirlab.red.red_refusal` knows."""

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
    def _consistent(self):
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


class Codel(Section):
    """tc-codel(8)."""

    qdisc: Literal["codel"]
    target_ms: AqmMs = 5.0
    interval_ms: AqmMs = 100.0
    ce_threshold_ms: AqmMs | None = None
    ecn: bool = False


class FqCodel(Codel):
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


class WeirHead(Section):
    """tc eBPF. With `tune` the controller's tuner runs beside it from before the traffic starts."""

    qdisc: Literal["weir"]
    profile: str
    tune: bool = False


class P4Head(Section):
    """A P4 switch as the bottleneck. `program` is a path from the repository's top; `delay_source` is where the law
    has the delay from: the packets' time in the queue, or Cao Eq. 1 (backlog by departure rate)."""

    qdisc: Literal["p4"]
    profile: str
    tune: bool = False
    switch: Literal["embedded", "bmv2"] = "embedded"
    program: str = "p4/pid_delay.p4"
    delay_source: Literal["sojourn", "rate"] = "sojourn"


# Our law as tc eBPF and in a P4 switch; what a scenario gives overrides the profile. `weir.gains` knows the keys and
# checks the values.
LAW: dict[str, Any] = {key: (Any, None) for key in gains.KEYS}
Weir = create_model("Weir", __base__=WeirHead, **LAW)
P4 = create_model("P4", __base__=P4Head, **LAW)


class PaperHead(Section):
    """`[paper]`: where the figures come from; `[paper.figures.VARIANT]` holds them under our metrics' names."""

    source: str = Field(min_length=1)
    short: str = Field(min_length=1)
    note: str = ""


FLOWS: dict[str, type[Flow]] = {
    "quic-download": QuicFlow,
    "quic-upload": QuicFlow,
    "tcp": TcpFlow,
    "tcp-short": TcpShortFlow,
    "udp": UdpFlow,
}
VARIANTS: dict[str, type[Section]] = {
    "pfifo": Pfifo,
    "pie": Pie,
    "red": Red,
    "codel": Codel,
    "fq_codel": FqCodel,
    "cake": Cake,
    "weir": Weir,
    "p4": P4,
}
LINKS = ("access", "bottleneck")
DUMBBELL_HEAD = ("topology", "duration_s", "warmup_s", "reference_target_ms", "sample_one_in")
# Groups of flows that share no sender; the sampler times no more than 64 hops, and ten senders make a group.
MOST_GROUPS_APART = 6
COMMON = ("scenario", "variants", "sweep", "paper")
# What a scenario's sections are, by topology; all but the common ones can be swept.
OWN: dict[str, tuple[str, ...]] = {
    "dumbbell": ("link", "flows", "changes"),
    "access": ("paths", "server", "client", "changes"),
}
HEADS: dict[str, type[Section]] = {"dumbbell": Head, "access": access.AccessHead}
FIGURES: dict[str, dict[str, str]] = {"dumbbell": metrics.METRICS, "access": metrics_access.METRICS}


@dataclass(frozen=True)
class Run:
    """One concrete run. `spec` is plain data with nothing left to default: what the lab gets as JSON."""

    scenario: str
    variant: str
    seed: int
    spec: dict[str, Any]


@dataclass(frozen=True)
class Scenario:
    """A checked scenario. `cases` maps each variant label (with sub-variant and sweep values in it) to its spec."""

    path: Path
    text: str
    name: str
    title: str
    description: str
    duration_s: float
    warmup_s: float
    reference_target_ms: float
    seeds: tuple[int, ...]
    cases: dict[str, dict[str, Any]]
    paper: dict[str, Any]

    def runs(self, only: str | Iterable[str] | None = None, seeds: int | Iterable[int] | None = None) -> list[Run]:
        """The runs, ordered by seed and then by variant, so that an interrupted series is balanced.

        `only` names variants: a whole label or the part before its first comma. `seeds` is a count (1..N) or the
        seeds themselves; None means the scenario's. Raises ScenarioError for a name that isn't there and for seeds
        that aren't whole numbers.
        """
        labels = list(self.cases)
        if only is not None:
            wanted = [only] if isinstance(only, str) else list(only)
            bases = {label.split(",")[0] for label in labels}
            unknown = [name for name in wanted if name not in bases and name not in self.cases]
            if unknown or not wanted:
                known = sorted(bases | set(labels))
                raise ScenarioError(
                    [f"{self.path}: there is no variant {name!r}; {_nearest(name, known)}" for name in unknown]
                    or [f"{self.path}: no variant chosen; {_nearest('', known)}"]
                )
            labels = [label for label in labels if label in wanted or label.split(",")[0] in wanted]
        chosen = self.seeds if seeds is None else _seeds(seeds)
        return [Run(self.name, label, seed, {**self.cases[label], "seed": seed}) for seed in chosen for label in labels]


def _seeds(seeds: int | Iterable[int]) -> tuple[int, ...]:
    chosen = tuple(range(1, seeds + 1)) if isinstance(seeds, int) else tuple(seeds)
    if not chosen or len(set(chosen)) != len(chosen) or any(not isinstance(s, int) or s < 0 for s in chosen):
        raise ScenarioError([f"seeds: {seeds!r} won't do; give a count of 1 or more, or different whole numbers"])
    return chosen


def load_scenario(path: str | Path) -> Scenario:
    """Read and check one scenario file.

    Raises ScenarioError with one line for each mistake; OSError if the file can't be read.
    """
    path = Path(path)
    text = _read_text(path)
    raw = _parsed(path, text)
    head = raw.get("scenario")
    name = head.get("variants_from") if isinstance(head, dict) else None
    if not isinstance(name, str):  # not there, or told with the section's other mistakes
        return _Checker(path, text, raw).scenario()
    shared = path.parent / name
    if not shared.is_file():
        raise ScenarioError(
            [f"{path}: scenario.variants_from: no file {name!r}; write a file's name in the same folder"]
        )
    more_text = _read_text(shared)
    more = _parsed(shared, more_text)
    own = raw.get("variants", {})
    mistakes = [
        f"{shared}: {key}: not for a file of variants; leave only [variants.X]" for key in more if key != "variants"
    ]
    mistakes += [
        f"{path}: variants.{label}: is in {name} too; write another label, or remove it there"
        for label in more.get("variants", {})
        if isinstance(own, dict) and label in own
    ]
    if mistakes:
        raise ScenarioError(mistakes)
    text = text.rstrip("\n") + "\n"
    whole = text + more_text
    return _Checker(path, whole, _parsed(path, whole), shared, text.count("\n")).scenario()


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise ScenarioError([f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8"]) from None


def _parsed(path: Path, text: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        at = re.search(r"\s*\(at line (\d+), column (\d+)\)$", str(error))
        where = f"{path}:{at[1]}" if at else str(path)
        what = str(error)[: at.start()] if at else str(error)
        raise ScenarioError([f"{where}: not TOML: {what}; each key once, in the form `key = value`"]) from None


class _Checker:
    """Walks one parsed file and collects what is wrong with it; `scenario` raises if anything was."""

    def __init__(
        self, path: Path, text: str, raw: dict[str, Any], shared: Path | None = None, own_lines: int | None = None
    ):
        self.path, self.text, self.raw = path, text, raw
        self.shared, self.own_lines = shared, own_lines  # lines after those are another file's
        self.lines = _key_lines(text)
        self.problems: dict[str, int] = {}  # message to line; crossed cases repeat each other's mistakes
        self.topology = "dumbbell"
        self.swept: set[str] = set()

    def problem(self, key: str, message: str) -> None:
        at = key
        while at and at not in self.lines:
            at = at.rpartition(".")[0]
        line = self.lines[at] if at else 0
        where = f"{self.path}:{line}" if line else f"{self.path}"
        if self.own_lines is not None and line > self.own_lines:
            where = f"{self.shared}:{line - self.own_lines}"
        self.problems[f"{where}: {key}: {message}"] = line

    def scenario(self) -> Scenario:
        raw = self.raw
        self.topology = self.chosen_topology(raw.get("scenario"))
        own = OWN[self.topology]
        for key in raw:
            elsewhere = [topology for topology, sections in OWN.items() if key in sections and key not in own]
            if elsewhere:
                self.problem(key, f'not for {self.topology}; remove it, or write topology = "{elsewhere[0]}"')
            elif key not in COMMON + own:
                self.problem(key, f"unknown section; {_nearest(key, COMMON + own)}")
        head = self.section(HEADS[self.topology], raw.get("scenario"), "scenario")
        sweep = self.sweep(raw.get("sweep", {}))
        self.swept = set(sweep)
        cases: dict[str, dict[str, Any]] = {}
        for values in itertools.product(*sweep.values()):
            settings = dict(zip(sweep, values, strict=True))
            swept = {key: raw.get(key) for key in ("scenario", *own)}
            for key, value in settings.items():
                swept = _replaced(swept, key.split("."), value)
            suffix = "".join(f",{_short(key, sweep)}={_shown(value)}" for key, value in settings.items())
            for label, spec in self.specs(swept).items():
                if len(label + suffix) > LONGEST_LABEL:
                    self.problem(
                        f"variants.{label.split(',')[0]}",
                        f"{label + suffix!r} is too long to name a folder; write a shorter label or fewer lists",
                    )
                cases[label + suffix] = {"variant": label + suffix, **spec}
        paper = self.paper(raw.get("paper"))
        if (
            head is not None
            and isinstance(head.seeds, list)
            and (not head.seeds or len(set(head.seeds)) != len(head.seeds))
        ):
            self.problem("scenario.seeds", "an empty list or a seed twice; write different whole numbers, or a count")
        if self.problems or head is None:
            raise ScenarioError(sorted(self.problems, key=self.problems.__getitem__))
        return Scenario(
            path=self.path,
            text=self.text,
            name=head.name,
            title=head.title,
            description=head.description,
            duration_s=head.duration_s,
            warmup_s=getattr(head, "warmup_s", 0.0),
            reference_target_ms=getattr(head, "reference_target_ms", 15.0),
            seeds=_seeds(head.seeds),
            cases=cases,
            paper=paper,
        )

    def chosen_topology(self, head: Any) -> str:
        name = head.get("topology", "dumbbell") if isinstance(head, dict) else "dumbbell"
        if isinstance(name, str) and name in OWN:
            return name
        self.problem("scenario.topology", f"unknown name {_shown(name)!r}; {_nearest(str(name), OWN)}")
        raise ScenarioError(list(self.problems))  # which sections there may be is not known

    def specs(self, swept: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Each variant's spec, with the sweep's values in it."""
        variants = self.raw.get("variants")
        if self.topology == "dumbbell":
            common = self.dumbbell(swept)
            queues = self.variants(variants, lambda options, path: self.queue(options, path, common))
            return {label: {**common, "aqm": aqm} for label, aqm in queues.items()}
        common = self.access(swept)
        clients = self.variants(variants, lambda options, path: self.client(swept, options, path, common))
        return {label: {**common, "client": client} for label, client in clients.items()}

    def access(self, swept: Mapping[str, Any]) -> dict[str, Any]:
        """What all variants of an `access` scenario share."""
        head = self.section(access.AccessHead, swept["scenario"], "scenario")
        server = self.section(access.Server, {} if swept["server"] is None else swept["server"], "server")
        paths = self.listed(access.Path, swept["paths"], "paths")
        changes = self.listed(access.Change, [] if swept["changes"] is None else swept["changes"], "changes")
        if swept["paths"] is None or swept["paths"] == []:
            self.problem("paths", 'no paths; write at least one table [[paths]] with name = "wan1", for example')
        names = [path.name for path in paths.values()]
        given = swept["paths"] if isinstance(swept["paths"], list) else []
        known = [table["name"] for table in given if isinstance(table, dict) and isinstance(table.get("name"), str)]
        for i, path in paths.items():
            if names.count(path.name) > 1:
                self.problem(f"paths.{i}.name", f"{path.name!r} is there twice; write another name")
        for i, change in changes.items():
            if change.path not in known:
                self.problem(f"changes.{i}.path", f"no such path {change.path!r}; {_nearest(change.path, known)}")
            if head is not None and change.at_s is not None and change.at_s >= head.duration_s:
                self.problem(f"changes.{i}.at_s", f"not before the end, duration_s = {head.duration_s:g}; write less")
        if head is None or server is None:
            return {}
        return {
            "scenario": head.name,
            "topology": head.topology,
            "duration_s": head.duration_s,
            "warmup_s": 0.0,
            "reference_target_ms": 15.0,
            "paths": [path.model_dump() for path in paths.values()],
            "server": server.model_dump(),
            "changes": [change.model_dump(exclude_none=True) for change in changes.values()],
        }

    def client(
        self, swept: Mapping[str, Any], options: dict[str, Any], path: str, common: dict[str, Any]
    ) -> dict[str, Any] | None:
        """The client's settings with a variant's over them, and whether the paths' and changes' times fit."""
        base = swept["client"]
        if not isinstance(base, dict):
            self.problem("client", "missing or not a table; write a table [client] with bytes in it")
            return None
        for key in options:
            if f"client.{key}" in self.swept:
                self.problem(f"{path}.{key}", f"is in [sweep] too; remove it here, or client.{key} there")
        client = self.section(access.Client, {**base, **options}, "client", under=dict.fromkeys(options, path))
        if client is None or not common:
            return None
        for i, change in enumerate(common["changes"]):
            if change.get("round", 0) >= client.requests:
                self.problem(f"changes.{i}.round", f"there are {client.requests} rounds, from 0; write less")
            if not client.interval_ms and ("round" in change or "for_rounds" in change):
                self.problem(f"changes.{i}", "rounds without time; write at_s and for_s, or interval_ms in [client]")
        for i, way in enumerate(common["paths"]):
            if way["rtt_sd_ms"] and way["draw"] == "round" and client.requests > 1 and not client.interval_ms:
                self.problem(
                    f"paths.{i}.draw", 'rounds without time; write draw = "packet", or interval_ms in [client]'
                )
        last_s = (client.requests - 1) * client.interval_ms / 1000
        if last_s >= common["duration_s"]:
            self.problem(
                "client.interval_ms", f"the last task starts at {last_s:g} s, not before duration_s; write less"
            )
        return client.model_dump()

    def listed(self, model: type[T], value: Any, path: str) -> dict[int, T]:
        """A list of tables, each by its place in the file; those with mistakes are left out."""
        if value is None:
            return {}
        if not isinstance(value, list):
            self.problem(path, f"not a list of tables; write [[{path}]] above each")
            return {}
        checked = {i: self.section(model, table, f"{path}.{i}") for i, table in enumerate(value)}
        return {i: found for i, found in checked.items() if found is not None}

    def dumbbell(self, swept: Mapping[str, Any]) -> dict[str, Any]:
        """What all variants of a `dumbbell` scenario share."""
        head = self.section(Head, swept["scenario"], "scenario")
        links = {}
        for name, value in self.tables(swept["link"], "link", LINKS).items():
            links[name] = self.section(Link, value, f"link.{name}")
        flows = self.flows(swept["flows"])
        changes = self.listed(LinkChange, [] if swept["changes"] is None else swept["changes"], "changes")
        if head is None:
            return {}
        for i, change in changes.items():
            if change.at_s >= head.duration_s:
                self.problem(f"changes.{i}.at_s", f"not before the end, duration_s = {head.duration_s:g}; write less")
        groups = len(flows)
        if groups > MOST_GROUPS_APART and any(flow is not None and flow.extra_rtt_ms for flow in flows):
            self.problem(
                "flows", f"{groups} groups, of which one has extra_rtt_ms; write at most {MOST_GROUPS_APART} groups"
            )
        if (count := sum(flow.count for flow in flows if flow is not None)) > MOST_FLOWS:
            self.problem("flows", f"{count} flows in all; write at most {MOST_FLOWS}")
        if len({flow.ecn for flow in flows if isinstance(flow, TcpFlow | TcpShortFlow)}) > 1:
            self.problem("flows", "TCP flows must agree in ecn, a setting of the sending node; write the same in all")
        quic = {(flow.cc, flow.payload_bytes) for flow in flows if isinstance(flow, QuicFlow)}
        if len(quic) > 1:
            self.problem(
                "flows", "QUIC flows must agree in cc and payload_bytes, as they share servers; write the same"
            )
        for i, flow in enumerate(flows):
            if flow is not None and flow.start_s + flow.start_spread_s >= (flow.stop_s or head.duration_s):
                self.problem(f"flows.{i}.start_spread_s", "lets a flow start after its end; write less")
            if flow is not None and max(flow.start_s, flow.stop_s or 0) > head.duration_s:
                self.problem(f"flows.{i}", f"starts or stops after duration_s = {head.duration_s:g}; write less")
        return {
            "scenario": head.name,
            **{key: getattr(head, key) for key in DUMBBELL_HEAD},
            "link": {name: link.model_dump() for name, link in links.items() if link is not None},
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

    def tables(self, value: Any, path: str, names: Sequence[str]) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.problem(path, f"missing or not a table; write [{path}.{names[0]}] and so on: {', '.join(names)}")
            return {}
        for name in value:
            if name not in names:
                self.problem(f"{path}.{name}", f"unknown; {_nearest(name, names)}")
        for name in names:
            if name not in value:
                self.problem(path, f"{name} is missing; write a table [{path}.{name}]")
        return {name: value[name] for name in names if name in value}

    def flows(self, value: Any) -> list[Flow | None]:
        if not isinstance(value, list) or not value:
            self.problem("flows", "no flows; write at least one table [[flows]] with a kind")
            return []
        return [self.tagged(FLOWS, "kind", flow, f"flows.{i}") for i, flow in enumerate(value)]

    def variants(
        self, value: Any, check: Callable[[dict[str, Any], str], dict[str, Any] | None]
    ) -> dict[str, dict[str, Any]]:
        """Label to checked options, lists in a variant crossed into sub-variants such as `paper,kp=4`."""
        name, setting = ("pie", 'qdisc = "pie"') if self.topology == "dumbbell" else ("ops", 'strategy = "ops"')
        if not isinstance(value, dict) or not value:
            self.problem("variants", f"no variants; write at least one, as in [variants.{name}] with {setting}")
            return {}
        found: dict[str, dict[str, Any]] = {}
        for name, options in value.items():
            path = f"variants.{name}"
            if not re.fullmatch(r"[a-z0-9][a-z0-9_-]*", name):
                self.problem(path, "not a good label; write lower-case letters, digits, - and _ (it names a folder)")
                continue
            if not isinstance(options, dict):
                self.problem(path, f"not a table; write [variants.{name}] with {setting}, for example")
                continue
            lists = {key: values for key, values in options.items() if isinstance(values, list)}
            if not all([self.alternatives(f"{path}.{key}", values) for key, values in lists.items()]):
                continue
            for values in itertools.product(*lists.values()):
                chosen = dict(zip(lists, values, strict=True))
                checked = check({**options, **chosen}, path)
                if checked is not None:
                    label = name + "".join(f",{key}={_shown(value)}" for key, value in chosen.items())
                    if "/" in label:
                        self.problem(path, f"{label!r} can't name a folder; write a variant for each value with a /")
                    found[label] = checked
        return found

    def sweep(self, value: Any) -> dict[str, list[Any]]:
        if not isinstance(value, dict):
            self.problem("sweep", 'not a table; write [sweep] with, for example, "flows.0.count" = [2, 10]')
            return {}
        sweep = {}
        for key, values in value.items():
            parts = key.split(".")
            path = f"sweep.{key}"
            if isinstance(values, dict):
                self.problem(path, 'a dotted key without quotes; write it in quotes, as in "flows.0.count" = [2, 10]')
            elif parts[0] == "variants":
                self.problem(path, f"variants are swept where they are; write the list at {key} itself")
            elif parts[0] not in ("scenario", *OWN[self.topology]) or key in (
                "scenario.topology",
                "scenario.name",
                "scenario.title",
                "scenario.description",
                "scenario.seeds",
            ):
                example = "link.access.delay_ms" if self.topology == "dumbbell" else "client.bytes"
                places = _list([*OWN[self.topology], "scenario"])
                self.problem(path, f"can't be swept; give a key of one of {places}, as {example}")
            elif not isinstance(values, list):
                self.problem(path, f"not a list; write [{_shown(values)}] or set {key} itself")
            elif not _reachable(self.raw, parts):
                self.problem(path, f"the file has no {'.'.join(parts[:-1])}; give the dotted key of a section in it")
            elif self.alternatives(path, values):
                sweep[key] = values
        return sweep

    def alternatives(self, path: str, values: list[Any]) -> bool:
        if not values:
            self.problem(path, "an empty list; write at least one value")
        elif any(isinstance(value, dict | list) for value in values):
            self.problem(path, "a list within the list; write plain values")
        elif len({_shown(value) for value in values}) != len(values):
            self.problem(path, "the same value twice; write each value once")
        else:
            return True
        return False

    def paper(self, value: Any) -> dict[str, Any]:
        """The paper's figures; they belong to a variant as the file names it, before lists are crossed."""
        if value is None:
            return {}
        if not isinstance(value, dict):
            self.problem("paper", "not a table; write [paper] with a source")
            return {}
        figures = value.get("figures", {})
        head = self.section(PaperHead, {k: v for k, v in value.items() if k != "figures"}, "paper", extra=("figures",))
        if not isinstance(figures, dict):
            self.problem("paper.figures", "not a table; write [paper.figures.VARIANT] with metrics in it")
            return {}
        for name, row in figures.items():
            path = f"paper.figures.{name}"
            if name not in (variants := self.raw.get("variants", {})):
                self.problem(path, f"no such variant; {_nearest(name, list(variants))}")
            if not isinstance(row, dict):
                self.problem(path, f"not a table; write [{path}] with metrics in it")
                continue
            for metric, number in row.items():
                ours = FIGURES[self.topology]
                if metric not in ours:
                    close = difflib.get_close_matches(metric, ours, n=1) or list(ours)[:1]
                    self.problem(f"{path}.{metric}", f"unknown metric; write one of ours with its unit, as {close[0]}")
                elif isinstance(number, bool) or not isinstance(number, int | float):
                    self.problem(f"{path}.{metric}", f"{_shown(number)} is not a number; write the paper's figure")
        return {} if head is None else {**head.model_dump(), "figures": figures}

    def tagged(self, models: Mapping[str, type[Section]], tag: str, value: Any, path: str) -> Any:
        """Check a table whose `tag` key says which keys it may have."""
        if not isinstance(value, dict):
            self.problem(path, f"not a table; write a table with {tag} in it")
            return None
        name = value.get(tag)
        if name is None:
            self.problem(path, f'{tag} is missing; write {tag} = "{next(iter(models))}" or another of {_list(models)}')
            return None
        if not isinstance(name, str) or name not in models:
            self.problem(f"{path}.{tag}", f"unknown name {_shown(name)!r}; {_nearest(str(name), list(models))}")
            return None
        return self.section(models[name], value, path)

    def queue(self, options: dict[str, Any], path: str, common: dict[str, Any]) -> dict[str, Any] | None:
        """A queue discipline's options with nothing left to default."""
        checked = self.tagged(VARIANTS, "qdisc", options, path)
        if checked is None:
            return None
        given = checked.model_dump(exclude_none=True)
        bottleneck = common.get("link", {}).get("bottleneck")
        if isinstance(checked, Red) and bottleneck and (refusal := red_refusal(given, bottleneck["rate_mbit_s"])):
            self.problem(path, refusal)
        if not isinstance(checked, Weir | P4):
            return given
        if isinstance(checked, P4) and any("rate_mbit_s" in change for change in common.get("changes", ())):
            self.problem(
                f"{path}.qdisc",
                "a P4 switch's queue has one rate for good, and [[changes]] has rate_mbit_s; remove one of them",
            )
            return None
        if isinstance(checked, P4) and not (REPOSITORY / checked.program).is_file():
            self.problem(f"{path}.program", f"no file {checked.program!r}; write a path from the repository's top")
            return None
        profiles = {file.stem: file for file in sorted(PROFILES_FOLDER.glob("*.toml"))}
        if checked.profile not in profiles:
            self.problem(f"{path}.profile", f"unknown name {checked.profile!r}; {_nearest(checked.profile, profiles)}")
            return None
        overrides = {key: value for key, value in given.items() if key in gains.KEYS}
        try:
            law = replace(settings.load(profiles[checked.profile]), **overrides)
        except gains.GainError as error:
            key, _, what = str(error).partition(" = ")
            self.problem(f"{path}.{key}", what.replace(": must be ", " won't do; it must be "))
            return None
        return {**{key: value for key, value in given.items() if key not in gains.KEYS}, **asdict(law)}

    def section(
        self, model: type[T], value: Any, path: str, extra: Sequence[str] = (), under: Mapping[str, str] | None = None
    ) -> T | None:
        """Check one table against its model; what is wrong goes to `problems`. `under` says which keys stand in
        another table than at `path`."""
        under = under or {}
        if not isinstance(value, dict):
            self.problem(path, f"missing or not a table; write a table [{path}]")
            return None
        try:
            return model.model_validate(value)
        except ValidationError as errors:
            allowed = [*model.model_fields, *extra]
            meant = {_meant(str(e["loc"][0]), allowed) for e in errors.errors() if e["type"] == "extra_forbidden"}
            told = set()
            for error in errors.errors():
                key = str(error["loc"][0]) if error["loc"] else ""
                if error["type"] == "missing" and key in meant:
                    continue  # told already, as the unknown key that was meant to be this one
                if key in told:
                    continue  # the members of a union each complain
                told.add(key)
                if error["type"] == "value_error":
                    told_key, colon, rest = str(error["ctx"]["error"]).partition(": ")
                    at = f"{under.get(told_key, path)}.{told_key}" if colon and told_key in allowed else path
                    self.problem(at, rest if at != path else str(error["ctx"]["error"]))
                else:
                    at = f"{under.get(key, path)}.{key}" if key else path
                    self.problem(at, _explain(error, key, value.get(key), model, allowed))
            return None


def _explain(error: Any, key: str, value: Any, model: type[Section], allowed: Sequence[str]) -> str:
    """Pydantic's error in our words: what is wrong; what would be right."""
    kind, ctx = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        meant = _meant(key, allowed)
        if meant and meant.startswith(key + "_"):
            return f"unit left out; write {meant} = {_toml(value)}"
        if meant and _stem(meant) == _stem(key):
            return f"another unit than ours; write {meant} and convert the value"
        return f"unknown key; {_nearest(key, allowed)}"
    if kind == "missing":
        return f"missing; write {key} = {_wanted(model, key)}"
    if isinstance(value, list) and not (key == "seeds" and model in HEADS.values()):
        return "a list can't stand here; write one value, or put the list in [sweep] under the dotted key"
    if kind == "literal_error" and isinstance(value, str):
        names = re.findall(r"'([^']+)'", ctx["expected"])
        return f"unknown name {value!r}; {_nearest(value, names)}"
    return f"{_toml(value)} won't do; write {_wanted(model, key)}"


def _wanted(model: type[Section], key: str) -> str:
    """In words, the values a key may have, from its JSON schema."""
    schema = model.model_json_schema()["properties"][key]
    words = []
    for option in schema.get("anyOf", [schema]):
        if "enum" in option or "const" in option:
            words.append("one of " + ", ".join(f'"{name}"' for name in option.get("enum", [option.get("const")])))
        elif option.get("type") == "array":
            words.append("a list of different whole numbers")
        elif option.get("type") in ("number", "integer"):
            bounds = [
                f"{word} {option[name]:.10g}"
                for name, word in (
                    ("exclusiveMinimum", "above"),
                    ("minimum", "from"),
                    ("exclusiveMaximum", "below"),
                    ("maximum", "to"),
                )
                if name in option
            ]
            words.append(" ".join(["a number" if option["type"] == "number" else "a whole number", *bounds]))
        elif option.get("type") == "boolean":
            words.append("true or false")
        elif option.get("type") == "string":
            name = "a name of lower-case letters, digits, - and _"
            name += f", at most {option['maxLength']}" if "maxLength" in option else ""
            words.append(name if "pattern" in option else "a text in quotes")
    return " or ".join(words)


def _stem(key: str) -> str:
    """A key without its unit: the first words, up to the one that starts a unit."""
    return re.sub(r"_(?:[kmg]?bits?_s|[munk]?s|percent|packets|[km]?bytes|ms|bps|mbps|kbps|pct|sec)$", "", key)


def _meant(key: str, allowed: Sequence[str]) -> str | None:
    """The key that an unknown key was probably meant to be: the unit left out, another unit, a slip of the pen."""
    for candidate in allowed:
        if candidate != _stem(candidate) and _stem(key) == _stem(candidate):
            return candidate
    units = [candidate for candidate in allowed if candidate.startswith(key + "_") and candidate != _stem(candidate)]
    return units[0] if units else next(iter(difflib.get_close_matches(key, allowed, n=1)), None)


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}? ({_list(known)})" if close else f"write one of {_list(known)}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "(there is none)"


def _shown(value: Any) -> str:
    """A value as it stands in a label and in a message."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value) if isinstance(value, float) else _shown(value)


def _short(key: str, sweep: Mapping[str, Any]) -> str:
    """The last part of a swept key, or all of it where two swept keys end alike."""
    last = key.rpartition(".")[2]
    return last if sum(other.rpartition(".")[2] == last for other in sweep) == 1 else key


def _step(part: str, container: Any) -> Any:
    """The key or index that `part` is in `container`; None if there is no such place."""
    if isinstance(container, list):
        return int(part) if part.isdecimal() and int(part) < len(container) else None
    return part if isinstance(container, dict) else None


def _reachable(container: Any, parts: Sequence[str]) -> bool:
    for part in parts[:-1]:
        step = _step(part, container)
        if step is None or (isinstance(container, dict) and step not in container):
            return False
        container = container[step]
    return isinstance(container, dict) and len(parts) > 1


def _replaced(container: Any, parts: Sequence[str], value: Any) -> Any:
    """A copy of nested tables and lists with one place set."""
    if not parts:
        return value
    step = _step(parts[0], container)
    copy = container.copy()
    copy[step] = _replaced(copy[step], parts[1:], value) if len(parts) > 1 else value
    return copy


def _key_lines(text: str) -> dict[str, int]:
    """Dotted key to line number, read from the text since tomllib doesn't tell; a key not found has no line."""
    lines: dict[str, int] = {}
    arrays: dict[str, int] = {}
    prefix, quoted = "", ""
    for number, line in enumerate(text.splitlines(), start=1):
        if quoted:
            quoted = "" if quoted in line else quoted
            continue
        table = re.match(r"\s*(\[\[?)\s*([^\[\]]+?)\s*\]\]?\s*(?:#.*)?$", line)
        key = re.match(r"""\s*((?:[\w-]+|"[^"]+"|'[^']+')(?:\s*\.\s*(?:[\w-]+|"[^"]+"|'[^']+'))*)\s*=(.*)$""", line)
        if table:
            prefix = re.sub(r"""["'\s]""", "", table[2])
            if table[1] == "[[":
                arrays[prefix] = arrays.get(prefix, -1) + 1
                prefix = f"{prefix}.{arrays[prefix]}"
            lines.setdefault(prefix, number)
        elif key:
            name = re.sub(r"""["'\s]""", "", key[1])
            lines.setdefault(f"{prefix}.{name}" if prefix else name, number)
            for mark in ('"""', "'''"):
                if key[2].count(mark) == 1:
                    quoted = mark
    return lines
