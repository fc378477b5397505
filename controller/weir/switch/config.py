# SPDX-License-Identifier: Apache-2.0
"""The file of `weir p4 deploy`: ports, next hops, routes, flooding and gains of one switch. Pure but for reading.

    [ports.1]                               # what the switch sends from on this port
    mac = "02:00:00:00:01:01"
    [neighbours.h1]                         # where packets can be sent to
    port = 1
    mac = "02:00:00:00:00:01"
    [routes]                                # IPv4 and IPv6 prefixes, longest wins
    "10.0.1.0/24" = "h1"
    [flood]                                 # where ARP, neighbour discovery and frames to unknown stations go:
    ports = [1, 2]                          # to all of these but the one they came by
    [aqm.port.1]                            # the law on this port's queue
    profile = "tuned"                       # of controller/profiles, or a path; any of its keys may follow
    target_us = 5000
    [coupled.port.1]                        # two coupled bands for L4S on this port, with programs/pid_delay_l4s.p4
    coupling = 2                            # k; also ramp_least_us, ramp_us, floor_bytes
    [bands.port.2]                          # or two bands of flows (docs/design/flows.md)
    ahead_share = 0.1                       # also ahead_most_bytes, ahead_least_bytes
    [advice.port.2]                         # throughput advice in SCONE packets, with programs/pid_delay_scone.p4
    rate_mbit_s = 8
    [names]                                 # forwarding by name, with programs/edge.p4 or icn.p4 (names.py)
    [[names.route]]
    prefix = "/weir/files"
    port = 2

Every mistake is found at once and reported in one line each: file and line, key, fault, right form.
"""

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from .. import bands, coupled, scone
from ..bands import Bands
from ..coupled import Coupling
from ..gains import KEYS, GainError
from ..programs.base import DIGEST_INTERVAL_US, PORT_MAX, Network, PortLaw
from ..settings import SettingsError, nearest, one_of, parse_toml, profile, profile_names, read_text
from .names import NAMED_PORTS, NamesConfig, names_config


class ConfigError(Exception):
    """Mistakes in a configuration file; `problems` holds one line for each mistake."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


def _mac(text: object) -> int:
    if isinstance(text, str) and re.fullmatch(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}", text):
        value = int(text.replace(":", ""), 16)
        if value and not value >> 40 & 1:
            return value
    raise ValueError('must be the MAC address of one interface, like "02:00:00:00:00:01"')


Mac = Annotated[int, BeforeValidator(_mac)]
PortNumber = Annotated[int, Field(ge=0, le=PORT_MAX)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


def _vlan(value: object) -> object:
    if value in ("keep", "remove") or (isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 4094):
        return value
    raise ValueError('must be a VLAN number, 1 .. 4094, "keep" or "remove"')


class Port(_Section):
    """`[ports.N]`. `vlan`: routed packets leave with this tag; "keep": as they came; "remove": untagged."""

    mac: Mac
    vlan: Annotated[int | str, BeforeValidator(_vlan)] = "keep"


class Neighbour(_Section):
    """`[neighbours.NAME]`: the next station on a port."""

    port: PortNumber
    mac: Mac


class _Aqm(BaseModel):
    """`[aqm.port.N]` but for the profile's own keys, which `gains` checks. `delay_source`: where the law has the delay
    from, the packets' own sojourn time, Cao Eq. 1, or Eq. 1 for a queue with flow queues."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    profile: str = "tuned"
    digest_interval_us: Annotated[int, Field(ge=0, le=2**32 - 1)] = DIGEST_INTERVAL_US
    delay_source: Literal["sojourn", "rate", "flows"] = "sojourn"


class _Coupled(_Section):
    """`[coupled.port.N]`, in the units that `weir-xdp` has (docs/design/coupled.md). `coupling`: k. `ramp_us`: the
    ramp's width; 1 is a step."""

    coupling: Annotated[float, Field(ge=0, lt=16, strict=False)] = 2.0
    ramp_least_us: Annotated[int, Field(ge=0, le=coupled.RANGES["ramp_least_us"][1])] = coupled.DEFAULT.ramp_least_us
    ramp_us: Annotated[int, Field(ge=1, le=coupled.RAMP_MOST_US)] = 400
    floor_bytes: Annotated[int, Field(ge=0, le=coupled.RANGES["floor_bytes"][1])] = coupled.DEFAULT.floor_bytes


class _Bands(_Section):
    """`[bands.port.N]`, in the units that `weir-xdp` has (docs/design/flows.md)."""

    ahead_share: Annotated[float, Field(ge=0, lt=16, strict=False)] = (
        bands.DEFAULT.ahead_share_q16 / bands.SHARE_ONE_Q16
    )
    ahead_most_bytes: Annotated[int, Field(ge=1, le=2**32 - 1)] = bands.DEFAULT.ahead_most_bytes
    ahead_least_bytes: Annotated[int, Field(ge=1, le=2**32 - 1)] = bands.DEFAULT.ahead_least_bytes


class _Advice(_Section):
    """`[advice.port.N]`: the greatest rate in a SCONE packet is 199.5 Gbit/s."""

    rate_mbit_s: Annotated[float, Field(ge=scone.LEAST_FLOW_BIT_S / 1e6, le=1e6, strict=False)]


@dataclass(frozen=True)
class Config:
    """A checked file. `routes`: prefix to a neighbour's name. `flood`: ports, none: nothing is flooded. `coupled`:
    ports with two bands. `advice`: signals by port."""

    ports: dict[int, Port]
    neighbours: dict[str, Neighbour]
    routes: dict[Network, str]
    flood: tuple[int, ...]
    aqm: dict[int, PortLaw]
    coupled: dict[int, Coupling] = field(default_factory=dict)
    names: NamesConfig | None = None
    advice: dict[int, int] = field(default_factory=dict)

    @property
    def forwards_nothing(self) -> bool:
        """Whether a switch set up like this has nowhere to send a packet."""
        return not self.neighbours and not self.flood and not (self.names and self.names.routes)


def load(path: str | Path) -> Config:
    """The file's configuration. OSError when it can't be read, ConfigError naming file, line and key."""
    path = Path(path)
    try:
        return loads(read_text(path), str(path), path.parent)
    except SettingsError as error:
        raise ConfigError([str(error)]) from None


def loads(text: str, source: str, folder: Path) -> Config:
    """The text's configuration; profiles given as paths are relative to `folder`."""
    try:
        raw = parse_toml(text, source)
    except SettingsError as error:
        raise ConfigError([str(error)]) from None
    checker = _Checker(source, folder, _key_lines(text))
    config = checker.config(raw)
    if checker.problems:
        raise ConfigError(checker.problems)
    return config


_HEADER = re.compile(r"^\s*\[+\s*([^\]]+?)\s*\]+")
_KEY = re.compile(r"""^\s*("[^"]*"|'[^']*'|[A-Za-z0-9_.-]+)\s*=""")


def _key_lines(text: str) -> dict[str, int]:
    """The line of each table's header and each key by dotted path, as far as single lines show. Tables of an array are
    numbered from 1: `names.route.2.port`."""
    lines: dict[str, int] = {}
    table = ""
    seen: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = header[1].replace('"', "")
            lines.setdefault(table, number)
            if line.lstrip().startswith("[["):
                seen[table] += 1
                table = f"{table}.{seen[table]}"
                lines.setdefault(table, number)
        elif key := _KEY.match(line):
            name = key[1].strip("\"'")
            lines.setdefault(f"{table}.{name}" if table else name, number)
    return lines


_TABLES = ("ports", "neighbours", "routes", "flood", "aqm", "coupled", "bands", "advice", "names")


class _Checker:
    def __init__(self, source: str, folder: Path, lines: dict[str, int]) -> None:
        self.source, self.folder, self.lines = source, folder, lines
        self.problems: list[str] = []

    def wrong(self, key: str, message: str) -> None:
        line = None
        at = key
        while at and line is None:
            below = (number for name, number in self.lines.items() if name.startswith(f"{at}."))
            line = self.lines.get(at) or next(below, None)
            at = at.rpartition(".")[0]
        self.problems.append(f"{self.source}{f':{line}' if line else ''}: {key}: {message}")

    def config(self, raw: dict[str, Any]) -> Config:
        for key in raw:
            if key not in _TABLES:
                self.wrong(key, f"unknown; {nearest(key, list(_TABLES))}")
        ports = self.numbered(raw, "ports", Port)
        neighbours = {
            name: found
            for name, value in self.table(raw, "neighbours").items()
            if (found := self.section(Neighbour, value, f"neighbours.{name}"))
        }
        for name, neighbour in neighbours.items():
            if neighbour.port not in ports and str(neighbour.port) not in raw.get("ports", {}):
                message = f"port {neighbour.port} has no [ports.{neighbour.port}] with the MAC to send from"
                self.wrong(f"neighbours.{name}.port", message)
            other = next(
                (o for o, n in neighbours.items() if n.mac == neighbour.mac and n.port != neighbour.port), None
            )
            if other is not None:
                self.wrong(f"neighbours.{name}.mac", f"{other} has it too, at another port; a station is at one port")
        routes = self.routes(self.table(raw, "routes"), list(self.table(raw, "neighbours")))
        flood = self.flood(self.table(raw, "flood"))
        laws = self.aqm(raw)
        for number, of_flows in self.bands(raw).items():
            if number in laws:
                laws[number] = replace(laws[number], bands=of_flows)
        advice = self.advice(raw)
        names = names_config(raw["names"], self.wrong) if "names" in raw else None
        for section, port in [*(("aqm", port) for port in laws), *(("advice", port) for port in advice)]:
            if names is not None and port < NAMED_PORTS:
                continue  # the requester need not be in the file
            if port not in flood and str(port) not in self.table(raw, "ports"):
                others = [str(other) for other in sorted({*ports, *flood})]
                self.wrong(
                    f"{section}.port.{port}",
                    f"nothing is sent from port {port}: there is no [ports.{port}] and it is not in flood.ports; "
                    f"{one_of(others)}",
                )
        return Config(ports, neighbours, routes, flood, laws, self.coupled(raw, laws), names, advice)

    def table(self, raw: dict[str, Any], name: str) -> dict[str, Any]:
        value = raw.get(name, {})
        if not isinstance(value, dict):
            self.problems_once(name, f"must be a table, [{name}]")
            return {}
        return value

    def problems_once(self, key: str, message: str) -> None:
        if not any(f" {key}: {message}" in problem for problem in self.problems):
            self.wrong(key, message)

    def section(self, model: type[BaseModel], value: Any, path: str) -> Any:
        if not isinstance(value, dict):
            self.wrong(path, "must be a table with " + ", ".join(model.model_fields))
            return None
        try:
            return model(**value)
        except ValidationError as error:
            for problem in error.errors():
                self.pydantic_problem(problem, model, path)
            return None

    def pydantic_problem(self, problem: Any, model: type[BaseModel], path: str) -> None:
        key = ".".join([path, *map(str, problem["loc"])])
        if problem["type"] == "missing":
            self.wrong(key, "missing")
        elif problem["type"] == "extra_forbidden":
            self.wrong(key, f"unknown key; {nearest(str(problem['loc'][-1]), list(model.model_fields))}")
        else:
            text = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
            self.wrong(key, f"{problem['input']!r}: {text}")

    def numbered(self, raw: dict[str, Any], name: str, model: type[BaseModel]) -> dict[int, Any]:
        found = {}
        for key, value in self.table(raw, name).items():
            number = self.port_number(key, f"{name}.{key}")
            section = self.section(model, value, f"{name}.{key}")
            if number is not None and section is not None:
                found[number] = section
        return found

    def port_number(self, key: str, path: str) -> int | None:
        if re.fullmatch(r"0|[1-9][0-9]{0,2}", key) and int(key) <= PORT_MAX:
            return int(key)
        self.wrong(path, f"{key!r}: must be a port number, 0 .. {PORT_MAX}")
        return None

    def routes(self, raw: dict[str, Any], neighbours: list[str]) -> dict[Network, str]:
        routes: dict[Network, str] = {}
        for prefix, via in raw.items():
            key = f"routes.{prefix}"
            try:
                network = ipaddress.ip_network(prefix)
            except ValueError as error:
                self.wrong(key, f"{error}; must be a prefix like 10.0.1.0/24 or 2001:db8::/32, its other bits 0")
                continue
            if not isinstance(via, str) or via not in neighbours:
                self.wrong(key, f"{via!r}: no such neighbour; {nearest(str(via), neighbours)}")
            elif network in routes:
                self.wrong(key, f"{network} is there twice")
            else:
                routes[network] = via
        return routes

    def flood(self, raw: dict[str, Any]) -> tuple[int, ...]:
        for key in raw:
            if key != "ports":
                self.wrong(f"flood.{key}", "unknown key; there is only ports")
        ports = raw.get("ports", [])
        if not isinstance(ports, list) or any(
            isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= PORT_MAX for port in ports
        ):
            self.wrong("flood.ports", f"{ports!r}: must be a list of port numbers, 0 .. {PORT_MAX}")
            return ()
        if len(set(ports)) != len(ports) or len(ports) == 1:
            self.wrong("flood.ports", f"{ports!r}: must be two ports or more, each once")
        return tuple(ports)

    def aqm(self, raw: dict[str, Any]) -> dict[int, PortLaw]:
        found = {}
        for number, section in self.by_port(raw, "aqm", _Aqm):
            law = self.law(section, f"aqm.port.{number}")
            if law is not None:
                found[number] = law
        return found

    def coupled(self, raw: dict[str, Any], laws: dict[int, PortLaw]) -> dict[int, Coupling]:
        found = {}
        for number, section in self.by_port(raw, "coupled", _Coupled):
            law = laws.get(number)
            if f"{number}" not in self.ports_of(raw, "aqm"):
                self.wrong(f"coupled.port.{number}", f"there is no [aqm.port.{number}], whose law it is coupled to")
            elif law is not None and law.gains.probability != "squared":
                self.wrong(f"aqm.port.{number}.probability", 'two coupled bands need "squared"')
            found[number] = coupled.in_users_units(
                section.coupling, section.ramp_least_us, section.ramp_us, section.floor_bytes
            )
        return found

    def bands(self, raw: dict[str, Any]) -> dict[int, Bands]:
        found = {}
        for number, section in self.by_port(raw, "bands", _Bands):
            if f"{number}" not in self.ports_of(raw, "aqm"):
                self.wrong(f"bands.port.{number}", f"there is no [aqm.port.{number}], whose law has the second band")
            elif f"{number}" in self.ports_of(raw, "coupled"):
                self.wrong(f"bands.port.{number}", f"[coupled.port.{number}] has two bands already; leave one out")
            found[number] = bands.in_users_units(
                section.ahead_share, section.ahead_most_bytes, section.ahead_least_bytes
            )
        return found

    def advice(self, raw: dict[str, Any]) -> dict[int, int]:
        sections = self.by_port(raw, "advice", _Advice)
        return {number: scone.signal_of(round(section.rate_mbit_s * 1e6)) for number, section in sections}

    def ports_of(self, raw: dict[str, Any], name: str) -> dict[str, Any]:
        """The sections of [NAME.port.N], unchecked."""
        by_port = self.table(raw, name).get("port", {})
        return by_port if isinstance(by_port, dict) else {}

    def by_port(self, raw: dict[str, Any], name: str, model: type[BaseModel]) -> Iterator[tuple[int, Any]]:
        """The sections of [NAME.port.N] that are right so far, with N."""
        table = self.table(raw, name)
        for key in table:
            if key != "port":
                self.wrong(f"{name}.{key}", f"unknown; write [{name}.port.N]")
        by_port = table.get("port", {})
        if not isinstance(by_port, dict):
            self.wrong(f"{name}.port", f"must be a table for each port, [{name}.port.N]")
            return
        for key, value in by_port.items():
            path = f"{name}.port.{key}"
            number = self.port_number(key, path)
            section = self.section(model, value, path)
            if number is not None and section is not None:
                yield number, section

    def law(self, section: _Aqm, path: str) -> PortLaw | None:
        changes = dict(section.model_extra or {})
        unknown = [key for key in changes if key not in KEYS]
        for key in unknown:
            self.wrong(f"{path}.{key}", f"unknown key; {nearest(key, [*_Aqm.model_fields, *KEYS])}")
        name = section.profile
        if "/" not in name and not name.endswith(".toml") and name not in profile_names():
            hint = f"must be a path or one of {', '.join(profile_names())}"
            self.wrong(f"{path}.profile", f"{name!r}: no such profile; {hint}")
            return None
        try:
            base = profile(name, self.folder)
        except OSError as error:
            self.wrong(f"{path}.profile", f"{name!r}: {error.strerror}")
            return None
        except GainError as error:
            self.wrong(f"{path}.profile", str(error))  # its text begins with the file
            return None
        if unknown:
            return None
        try:
            return PortLaw(base.with_changes(changes), section.digest_interval_us, section.delay_source)
        except GainError as error:
            key, _, message = str(error).partition(" = ")
            if key in changes:
                self.wrong(f"{path}.{key}", message)
            else:
                self.wrong(path, str(error))
            return None
