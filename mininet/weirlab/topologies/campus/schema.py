# SPDX-License-Identifier: Apache-2.0
"""The sections of a scenario file with everything at once: networks, traffic of the phone and others, events.

Variants say which of the five systems are there, and the replacement of those that are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from weir import settings
from weirlab.lab.rates import LEAST_MBIT_S, RateFileError, Steps, over_run, parse
from weirlab.scenario.cellular import text_of
from weirlab.scenario.checker import Checker
from weirlab.scenario.congestion import QuicControl
from weirlab.scenario.errors import ScenarioError, nearest
from weirlab.scenario.schema import Schema
from weirlab.scenario.sections import (
    Count,
    Head,
    NotNegative,
    Percent,
    QueuePackets,
    RateMbit,
    Seconds,
    SecondsFrom0,
    Section,
)
from weirlab.topologies.campus.commands import requests_due
from weirlab.topologies.campus.metrics import METRICS
from weirlab.topologies.campus.name import NAME
from weirlab.topologies.campus.sites import MOST_RECEIVERS, SITES

Traffic = Literal["all", "requests", "downloads", "upload", "shared", "neighbours"]
MOST_FLOWS = 20
MOST_APPLICATIONS = 100  # their numbers are that far apart
LEAST_RUN_S = 4.0


class Line(Section):
    """A line with a rate of its own each way, and queues that are alike."""

    rate_mbit_s: RateMbit
    up_mbit_s: RateMbit
    delay_ms: NotNegative = 0.0
    queue_limit_packets: QueuePackets = 1000


class Backbone(Line):
    """`[backbone]`: between the origin and the sites, `rate_mbit_s` down and `up_mbit_s` up, `delay_ms` each way."""


class Cell(Section):
    """`[cell]`: the cellular network. Its rate down follows `rate_file`, a file beside the scenario's
    (`weirlab/lab/rates.py`). `delay_ms` is all on the way up."""

    rate_file: Annotated[str, Field(min_length=1)]
    up_mbit_s: RateMbit
    delay_ms: NotNegative = 0.0
    queue_limit_packets: QueuePackets = 1000


class Wifi(Line):
    """`[wifi]`: at each of the sites. `up_mbit_s` is the phone's own rate; `delay_ms` each way; losses behind the
    queues."""

    loss_percent: Percent = 0.0
    loss_up_percent: Percent = 0.0


class Tether(Line):
    """`[tether]`: a fixed line that the phone shares with a desk. `delay_ms` is all on the way up."""


class Receivers(Section):
    """`[receivers]`: hosts at the sites' switches that want the file and the stream, each on a link of its own (as the
    office is), `rate_mbit_s` down, `delay_ms` on the way up."""

    count: Annotated[int, Field(ge=0, le=MOST_RECEIVERS)]
    rate_mbit_s: RateMbit
    delay_ms: NotNegative = 0.0
    queue_limit_packets: QueuePackets = 1000


class Law(Section):
    """`[law]`: PID-Delay's profile and target on all queues, where a variant has it."""

    profile: str = "tuned"
    target_us: Annotated[int, Field(ge=1, le=10**7)] | None = None


class Priority(Section):
    """`[priority]`: on the Linux queues, where a variant has the law, packets marked EF go first, at `ef_mbit_s` at the
    most, and skip the law. 0: it is as the rest. The switches' queues ignore the mark."""

    ef_mbit_s: NotNegative = 0.0


class Switches(Section):
    """`[switches]`: which program the sites' switches are. BMv2 knows rates in packets/s only: a queue of the law has
    the rate of full-size packets then, so that short ones take as long."""

    target: Literal["embedded", "bmv2"] = "embedded"


class Server(Section):
    """`[server]`: the congestion control of senders to the phone over QUIC."""

    cc: QuicControl = "cubic"


class Requests(Section):
    """`[[requests]]`: one of the phone's applications, which asks for `bytes` every `interval_ms` on one connection."""

    bytes: Annotated[int, Field(ge=1, le=10**9)]
    interval_ms: Annotated[float, Field(gt=0, le=1e6)]
    start_s: SecondsFrom0 = 0.0


class Downloads(Section):
    """`[downloads]`: the phone fetches `bytes` at each of these times, on a new connection."""

    bytes: Annotated[int, Field(ge=1, le=10**10)]
    at_s: list[SecondsFrom0]


class Upload(Section):
    """`[upload]`: the phone sends as much as it can from `start_s` to `stop_s`."""

    start_s: SecondsFrom0
    stop_s: Seconds


class File(Section):
    """`[file]`: the file that the phone and the receivers fetch at `start_s`."""

    bytes: Annotated[int, Field(ge=1, le=10**10)]
    start_s: SecondsFrom0


class Stream(Section):
    """`[stream]`: live, for the phone and the receivers from `start_s` on."""

    rate_mbit_s: RateMbit
    start_s: SecondsFrom0


class Neighbours(Section):
    """`[neighbours]`: bulk TCP downloads (CUBIC to the desk, BBR to the office), web-like transfers and calls to the
    desk, bursts of UDP that nothing slows down to the office."""

    cubic_count: Annotated[int, Field(ge=0, le=MOST_FLOWS)] = 0
    bbr_count: Annotated[int, Field(ge=0, le=MOST_FLOWS)] = 0
    web_per_s: NotNegative = 0.0
    web_bytes_median: Count = 20_000
    web_bytes_sigma: NotNegative = 1.0
    calls: Annotated[int, Field(ge=0, le=MOST_FLOWS)] = 0
    burst_mbit_s: NotNegative = 0.0
    burst_on_s: Seconds = 1.0
    burst_off_s: Seconds = 1.0


class Move(Section):
    """`[[moves]]`: at `at_s` the phone leaves its site's Wi-Fi for `to_site`'s. It has an address there
    `address_after_s` later."""

    at_s: SecondsFrom0
    to_site: Literal[1, 2]
    address_after_s: SecondsFrom0 = 0.1


class Fade(Section):
    """`[[fades]]`: for a while Wi-Fi loses `loss_percent` of packets to the phone."""

    at_s: SecondsFrom0
    for_s: Seconds
    loss_percent: Percent


class Kill(Section):
    """`[[kills]]`: at `at_s` a part is killed without a word, and started again `back_after_s` later. `request-0` is
    the phone's first application, `server-origin` its server, `publish` and `live` offer file and stream by name,
    `tune` is the controller. Killing a part that the variant lacks has no effect."""

    part: Literal["edge1", "edge2", "tune", "server-origin", "publish", "live", "cache1", "cache2", "request-0"]
    at_s: SecondsFrom0
    back_after_s: Seconds = 1.0


class Has(Section):
    """A variant: which of the five systems are there, and the replacement of those that are not.

    `aqm`: the law on all queues, or the kernel's discipline with its own settings. `tune`: the law's controller.
    `paths`: the phone chooses, or has one network only. `window`: the rule of the phone's receive windows.
    `upload_cc`: the phone's congestion control. `timestamps`: the server says when it sent acknowledgements, if that
    control asks. `ecn`: QUIC uses ECN. `names`: the file and the stream by name, or a QUIC download for each.
    `traffic`: that of all sections, or of one alone (`shared`: the file and the stream); a system's own traffic alone
    shows what the others cost it.
    """

    aqm: Literal["law", "pfifo", "pie", "fq_codel"] = "law"
    tune: bool = True
    paths: Literal["choice", "cell", "wifi", "tether"] = "choice"
    window: Literal["static", "double", "fast", "weir"] = "weir"
    upload_cc: QuicControl = "pbq"
    timestamps: bool = True
    ecn: bool = True
    names: bool = True
    traffic: Traffic = "all"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.aqm != "law" and "tune" in self.model_fields_set:
            raise ValueError(f'tune: aqm = "{self.aqm}" has no gains; remove it')
        return self


SECTIONS: dict[str, type[Section]] = {
    "backbone": Backbone,
    "cell": Cell,
    "wifi": Wifi,
    "tether": Tether,
    "receivers": Receivers,
    "law": Law,
    "priority": Priority,
    "switches": Switches,
    "server": Server,
    "downloads": Downloads,
    "upload": Upload,
    "file": File,
    "stream": Stream,
    "neighbours": Neighbours,
}
MAY_BE_LEFT_OUT = ("law", "priority", "switches", "server", "neighbours")
LISTS: dict[str, type[Section]] = {"requests": Requests, "moves": Move, "fades": Fade, "kills": Kill}


class CampusSchema(Schema):
    """The sections of `campus`."""

    name = NAME
    head = Head
    sections = (*SECTIONS, *LISTS)
    figures = METRICS
    variant_example = ("all", 'aqm = "law"')
    sweep_example = "backbone.rate_mbit_s"

    def specs(self, checker: Checker, raw: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        common = self.common(checker, raw)

        def has(options: dict[str, Any], path: str) -> dict[str, Any] | None:
            found = checker.section(Has, options, path)
            return None if found is None or not common else found.model_dump()

        variants = checker.variants(raw["variants"], self.variant_example, has)
        return {label: {**common, "has": found} for label, found in variants.items()}

    def common(self, checker: Checker, raw: Mapping[str, Any]) -> dict[str, Any]:
        """Common part of all variants; empty if it has mistakes."""
        head = checker.section(Head, raw["scenario"], "scenario")
        found = {
            key: checker.section(model, {} if raw[key] is None and key in MAY_BE_LEFT_OUT else raw[key], key)
            for key, model in SECTIONS.items()
        }
        lists = {key: checker.listed(model, raw[key] or [], key) for key, model in LISTS.items()}
        if head is None or any(section is None for section in found.values()):
            return {}
        spec: dict[str, Any] = {
            "scenario": head.name,
            "topology": head.topology,
            "duration_s": head.duration_s,
            "warmup_s": 0.0,
            "reference_target_ms": 15.0,
            **{key: section.model_dump(exclude_none=True) for key, section in found.items() if section},
            **{key: [each.model_dump() for each in tables.values()] for key, tables in lists.items()},
        }
        spec["cell"]["rates"] = self.rates(checker, spec["cell"].pop("rate_file"), head.duration_s)
        for key in ("moves", "fades", "kills"):
            spec[key].sort(key=lambda happening: happening["at_s"])
        self.check_times(checker, spec)
        if spec["law"]["profile"] not in settings.profile_names():
            known = nearest(spec["law"]["profile"], settings.profile_names())
            checker.problem("law.profile", f"unknown name {spec['law']['profile']!r}; {known}")
        if len(spec["requests"]) > MOST_APPLICATIONS or len(spec["downloads"]["at_s"]) > MOST_APPLICATIONS:
            checker.problem("requests", f"more than {MOST_APPLICATIONS} of a kind; write fewer requests and downloads")
        return spec

    def shortened(self, spec: Mapping[str, Any], duration_s: float) -> dict[str, Any]:
        """Events from then on are left out. The upload ends as long before the end as it did."""
        lasts_s = spec["duration_s"]
        if not LEAST_RUN_S <= duration_s <= lasts_s:
            raise ScenarioError(
                [f"{duration_s:g} s: from {LEAST_RUN_S:g} to {lasts_s:g} s can be had; write one of these"]
            )
        late = [key for key in ("upload", "file", "stream") if spec[key]["start_s"] >= duration_s]
        stop_s = min(spec["upload"]["stop_s"], duration_s - (lasts_s - spec["upload"]["stop_s"]))
        if late or stop_s <= spec["upload"]["start_s"]:
            raise ScenarioError([f"in {duration_s:g} s there is nothing of [{(late or ['upload'])[0]}]; write more"])
        return {
            **spec,
            "duration_s": duration_s,
            "requests": [asked for asked in spec["requests"] if requests_due(asked, duration_s) > 0],
            "upload": {**spec["upload"], "stop_s": stop_s},
            "downloads": {**spec["downloads"], "at_s": [at for at in spec["downloads"]["at_s"] if at < duration_s]},
            "cell": {**spec["cell"], "rates": [step for step in spec["cell"]["rates"] if step[0] < duration_s]},
            "moves": [move for move in spec["moves"] if move["at_s"] < duration_s],
            "fades": [fade for fade in spec["fades"] if fade["at_s"] < duration_s],
            "kills": [kill for kill in spec["kills"] if kill["at_s"] + kill["back_after_s"] < duration_s],
        }

    @staticmethod
    def rates(checker: Checker, name: str, duration_s: float) -> Steps:
        """The cellular rates of a run, the first of which is no outage; a steady one if the file has mistakes."""
        key = "cell.rate_file"
        try:
            found = over_run(parse(text_of(checker.path.parent, name)), duration_s)
        except RateFileError as error:
            checker.problem(key, f"{name}: {error}")
        except (OSError, ValueError) as error:  # a name may hold what no path can
            why = error.strerror if isinstance(error, OSError) else error
            checker.problem(key, f"{name}: {why}; write the name of a file beside this one, or cellular:SEED")
        else:
            if found[0][1] >= LEAST_MBIT_S:
                return found
            checker.problem(key, f"{name}: begins with an outage; write a first rate above 0")
        return [(0.0, 1.0)]

    @staticmethod
    def check_times(checker: Checker, spec: Mapping[str, Any]) -> None:
        """Checks that all events are within the run."""
        end_s = spec["duration_s"]
        if end_s < LEAST_RUN_S:
            checker.problem("scenario.duration_s", f"less than {LEAST_RUN_S:g} s; write more")
        times = [(f"{key}.{i}.at_s", each["at_s"]) for key in ("moves", "fades") for i, each in enumerate(spec[key])]
        times += [(f"{key}.start_s", spec[key]["start_s"]) for key in ("upload", "file", "stream")]
        times += [(f"requests.{i}.start_s", each["start_s"]) for i, each in enumerate(spec["requests"])]
        times += [("downloads.at_s", at_s) for at_s in spec["downloads"]["at_s"]]
        times += [
            (f"kills.{i}.back_after_s", each["at_s"] + each["back_after_s"]) for i, each in enumerate(spec["kills"])
        ]
        for key, at_s in times:
            if at_s >= end_s:
                checker.problem(key, f"{at_s:g} is not before the end, duration_s = {end_s:g}; write less")
        for i, asked in enumerate(spec["requests"]):
            if not requests_due(asked, end_s):
                checker.problem(f"requests.{i}.interval_ms", "no request has its whole interval in the run; write less")
        if not spec["upload"]["start_s"] < spec["upload"]["stop_s"] <= end_s:
            checker.problem("upload.stop_s", f"not after start_s and at most duration_s = {end_s:g}; write such a time")
        parts = [kill["part"] for kill in spec["kills"]]
        if len(parts) != len(set(parts)):
            checker.problem("kills", "a part is killed twice; remove one of them")
        site = SITES[0]
        for i, move in enumerate(spec["moves"]):
            if move["to_site"] == site:
                checker.problem(f"moves.{i}.to_site", f"the phone is at site {site} by then; write the other one")
            site = move["to_site"]
