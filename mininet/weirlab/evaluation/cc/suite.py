# SPDX-License-Identifier: Apache-2.0
"""Suites of congestion controls: the same flows over the same links with one control after the other.

    title = "..."
    folder = "cc"                        # where the scenarios stand, beside this file
    seeds = 3
    peers = ["pbq", "cubic"]             # the controls of a group that names none
    quick = ["table3-loss-1"]            # patterns of `--only`: the short selection
    rest = ["*-auto/tcp-*"]              # SCENARIO/CONTROL that only `--all` or the control's name in `--variants` runs

    [controls.pbq]                       # what the flows under test become
    stack = "quiche"                     # weir-server's; tcp, the kernel's; or a row of mininet/peers/servers.toml
    cc = "pbq"
    cc_weights = "my.weights"            # a policy of one's own, a file beside this one
    cc_changes = { growth = "always" }   # members of the weights file that are others, also of a built-in policy
    ours = true                          # judged beside all others

    [[groups]]
    name = "loss"
    title = "..."
    scenarios = ["table3-loss"]          # files in the folder, each with all its cells
    peers = "all"                        # or names, in place of those above
    seeds = 3
    more_seeds = { pbq = 10 }            # of single controls
    all_seeds = { pbq = 10 }             # the same, with `--all`
    core = ["table3-loss-2_5"]           # patterns of the scenarios that are run without --all; none: all are

In a core scenario all controls of the suite are run that have such flows, unless its group names `peers`.

A scenario is an ordinary one with `compares = "senders"`, whose variants are queues. Over the queue `fifo` it keeps
its name, over another it is NAME-QUEUE. Its flows are under test unless they say `neighbour = true`: these alone get
the control, and with it the stack's kind of flow and size of payload.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from weirlab import paths
from weirlab.evaluation.cc.own_stack import OwnStack
from weirlab.evaluation.plan import CONTROLS, Controls, Group, Plan, head_of
from weirlab.lab import quic_servers
from weirlab.lab.quic_servers import ServersError
from weirlab.run.scenarios import load_scenarios
from weirlab.scenario.checker import Checker
from weirlab.scenario.congestion import LEARNED
from weirlab.scenario.document import parsed, read_text
from weirlab.scenario.errors import ScenarioError, nearest
from weirlab.scenario.model import Scenario, seeds_of
from weirlab.scenario.policies import document_of, text_of_weights, with_document
from weirlab.scenario.sections import Name, Section, SeedCount
from weirlab.scenario.stacks import SERVER, row_of
from weirlab.topologies.dumbbell.name import NAME as DUMBBELL
from weirlab.topologies.dumbbell.schema import FLOW_KINDS

FIFO = "fifo"
ALL = "all"
TCP_PREFIX = "tcp-"
SENDERS = "senders"
QUICHE, TCP = "quiche", "tcp"
LABEL = r"[a-z0-9][a-z0-9_-]*"  # it names a folder
# By stack, the kind of a flow of each shape, and its payload: IP packets of 1440 bytes with QUIC, of 1452 with TCP.
STACKS: dict[str, dict[str, Any]] = {
    QUICHE: {"bulk": "quic-download", "upload": "quic-upload", "short": "quic-short", "payload_bytes": 1412},
    TCP: {"bulk": "tcp", "short": "tcp-short", "payload_bytes": 1400},
}
OTHERS = {"bulk": "quic-download", "short": "quic-short", "payload_bytes": 1412}
SHAPES = {kind: shape for stack in STACKS.values() for shape, kind in stack.items() if shape != "payload_bytes"}
# Keys set by a control; all else of a flow is the scenario's.
OF_THE_CONTROL = ("kind", "stack", SERVER, "cc", "cc_weights", "payload_bytes", "ecn")


class ControlSection(Section):
    """`[controls.NAME]`."""

    stack: Annotated[str, Field(min_length=1)]
    cc: str
    cc_weights: str | None = None
    cc_changes: dict[str, Any] = Field(default_factory=dict)
    ours: bool = False


class ControlsGroup(Section):
    """`[[groups]]`."""

    name: Name
    title: str = Field(min_length=1)
    description: str = ""
    scenarios: list[Name] = Field(min_length=1)
    peers: Annotated[list[str], Field(min_length=1)] | Literal["all"] | None = None
    seeds: SeedCount | None = None
    more_seeds: dict[str, SeedCount] = Field(default_factory=dict)
    all_seeds: dict[str, SeedCount] = Field(default_factory=dict)
    core: list[str] = Field(default_factory=list)

    def is_core(self, scenario: str) -> bool:
        return not self.core or any(fnmatchcase(scenario, pattern) for pattern in self.core)


class ControlsSuite(Section):
    """The head of the file."""

    title: str = Field(min_length=1)
    description: str = ""
    folder: Name
    seeds: SeedCount = 3
    peers: list[str] = Field(min_length=1)
    quick: list[str] = Field(default_factory=list)
    rest: list[str] = Field(default_factory=list)
    controls: dict[Name, Any] = Field(min_length=1)
    groups: list[Any] = Field(min_length=1)


def load_controls(
    path: Path, chosen: Sequence[str] | None = None, own: Sequence[OwnStack] = (), everything: bool = False
) -> Plan:
    """Read a suite of congestion controls. `chosen` are the controls to run in place of the groups' own: names of the
    suite, of the kernel as tcp-NAME, of other stacks as STACK-NAME, of our server as NAME, and NAME=FILE for a policy's
    weights; "all" are the suite's. Those of `own` come to each group. Without `everything` there are the core scenarios
    alone, without the suite's `rest` and `all_seeds`. Raises ScenarioError with all mistakes."""
    text = read_text(path)
    checker = Checker(path, text)
    head = head_of(checker, ControlsSuite, parsed(path, text))
    controls = {
        name: found
        for name, value in head.controls.items()
        if (found := checker.section(ControlSection, value, f"controls.{name}")) is not None
    }
    groups = list(checker.listed(ControlsGroup, head.groups, "groups").values())
    _check_names(checker, head, controls, groups)
    checker.raise_problems()
    asked: list[str] | None = None
    if chosen:
        asked, more = _asked(chosen, list(controls))
        controls = {**controls, **more}
    for label in (label for one in own for label in one.controls):
        if label in controls:
            raise ScenarioError([f"--stack: {label!r} is one of the suite's controls; give the program another name"])
    controls |= {
        label: ControlSection(stack=one.server.name, cc=cc, ours=True)
        for one in own
        for label, cc in one.controls.items()
    }
    built = _Builder(checker, path, head, controls, asked, own, everything)
    made = tuple(one for group in groups if (one := built.group(group)).scenarios or checker.problems)
    if not checker.problems:
        names = [s.name for group in made for s in group.scenarios]
        for name in sorted({name for name in names if names.count(name) > 1}):
            checker.problem("groups", f"scenario {name!r} is there twice; leave it in one group")
        idle = sorted(built.there - {name for group in groups for name in group.scenarios})
        for name in idle:
            checker.problem("groups", f"{head.folder}/{name}.toml is in no group; list it, or remove the file")
    checker.raise_problems()
    there = {label for group in made for s in group.scenarios for label in s.cases}
    variants = tuple(name for name in dict.fromkeys([*(asked or controls), *built.own]) if name in there)
    stacks = {name: controls[name].stack for name in variants}
    ours = tuple(name for name in variants if controls[name].ours)
    facts = Controls(stacks, ours, built.queues, built.seeds)
    return Plan(path, CONTROLS, head.title, head.description, variants, made, controls=facts, quick=tuple(head.quick))


def _check_names(
    checker: Checker, head: ControlsSuite, controls: Mapping[str, ControlSection], groups: Sequence[ControlsGroup]
) -> None:
    """Whether the controls that groups speak of are there, and each group once."""
    if not checker.alternatives("peers", head.peers):
        return
    for name in head.peers:
        if name not in head.controls:
            checker.problem("peers", f"no control {name!r}; {nearest(name, list(head.controls))}")
    for number, group in enumerate(groups):
        for name in [*(group.peers or [] if group.peers != ALL else []), *group.more_seeds, *group.all_seeds]:
            if name not in head.controls:
                checker.problem(f"groups.{number}", f"no control {name!r}; {nearest(name, list(head.controls))}")
        if [other.name for other in groups].count(group.name) > 1:
            checker.problem(f"groups.{number}.name", f"{group.name!r} is there twice; write another name")
    for name, control in controls.items():
        given = [key for key in ("cc_weights", "cc_changes") if getattr(control, key)]
        if given and control.cc not in LEARNED:
            wrong = f"for {' and '.join(LEARNED)}, not {control.cc}; remove it"
            checker.problem(f"controls.{name}.{given[0]}", wrong)


def _asked(chosen: Sequence[str], known: Sequence[str]) -> tuple[list[str], dict[str, ControlSection]]:
    """The controls that `--variants` names, in its order, and those of them that the suite lacks."""
    names: list[str] = []
    more: dict[str, ControlSection] = {}
    problems = []
    for word in chosen:
        name, equals, file = word.partition("=")
        if word == ALL:
            names += known
            continue
        names.append(name)
        if equals and (name in known or not re.fullmatch(LABEL, name)):
            problems.append(
                f"--variants {word}: {name!r} is one of the suite's, or no good name; write NAME=FILE with another, of "
                "lower-case letters, digits, - and _"
            )
        elif equals:
            try:
                cc, weights = profile_of(Path(file)), str(Path(file).resolve())
                more[name] = ControlSection(stack="quiche", cc=cc, cc_weights=weights, ours=True)
            except ScenarioError as error:
                problems += [f"--variants {word}: {problem}" for problem in error.problems]
        elif name not in known:
            more[name] = named(name)
    if problems:
        raise ScenarioError(problems)
    return list(dict.fromkeys(names)), more


def named(name: str) -> ControlSection:
    """A control by its name alone: of the kernel as tcp-NAME, of another stack as STACK-NAME, else of our server."""
    if name.startswith(TCP_PREFIX):
        return ControlSection(stack=TCP, cc=name.removeprefix(TCP_PREFIX))
    try:
        stacks = [server.name for server in quic_servers.read(quic_servers.table()) if server.controls]
    except ServersError as error:
        raise ScenarioError([str(error)]) from None
    if found := max((stack for stack in stacks if name.startswith(f"{stack}-")), key=len, default=None):
        return ControlSection(stack=found, cc=name.removeprefix(f"{found}-"))
    return ControlSection(stack=QUICHE, cc=name)


def profile_of(weights: Path) -> str:
    """Our control that a weights file is for: its `profile` (docs/design/pbq.md). Raises ScenarioError."""
    try:
        _, _, body = weights.read_text(encoding="utf-8").partition("\n")
        profile = json.loads(body)["profile"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a weights file of PBQ"
        raise ScenarioError([f"{weights}: {why}; give a file that ./run train pbq has written"]) from None
    if profile not in LEARNED:
        raise ScenarioError([f"{weights}: profile {profile!r}; {nearest(str(profile), LEARNED)}"])
    return str(profile)


class _Builder:
    """Makes the groups' scenarios of the folder's files and the controls."""

    def __init__(
        self,
        checker: Checker,
        path: Path,
        head: ControlsSuite,
        controls: Mapping[str, ControlSection],
        asked: Sequence[str] | None,
        own: Sequence[OwnStack] = (),
        everything: bool = False,
    ) -> None:
        self.checker, self.head, self.controls, self.asked = checker, head, controls, asked
        self.everything = everything
        self.own = {label: one for one in own for label in one.controls}
        self.rows: dict[str, dict[str, Any] | None] = {}  # of other stacks, by control
        self.folder = path.parent / head.folder
        self.there = {
            file.stem
            for file in self.folder.glob("*.toml")
            if "[scenario]" in file.read_text(encoding="utf-8", errors="replace")
        }
        self.seeds: dict[str, dict[str, int]] = {}
        self.queues: dict[str, str] = {}
        self.names: dict[str, list[str]] = {}  # of the scenarios of a file, over all queues
        self.weights: dict[str, str | None] = {}

    def group(self, section: ControlsGroup) -> Group:
        peers = self.head.peers if section.peers is None else section.peers
        names = [*(self.asked or (list(self.head.controls) if peers == ALL else list(peers))), *self.own]
        least = section.seeds or self.head.seeds
        more = section.more_seeds | (section.all_seeds if self.everything else {})
        own = {name: max(more.get(name, least), least) for name in dict.fromkeys((*names, *self.head.controls))}
        self.seeds[section.name] = own
        scenarios: list[Scenario] = []
        for stem in section.scenarios:
            if stem not in self.there:
                self.checker.problem(
                    "groups", f"no file {self.head.folder}/{stem}.toml; {nearest(stem, sorted(self.there))}"
                )
                continue
            try:
                found = load_scenarios(self.folder / f"{stem}.toml")
            except ScenarioError as error:
                for problem in error.problems:
                    self.checker.problems[problem] = 0
                continue
            for scenario in found:
                for made in self.over_queues(scenario, stem, section, names, seeds_of(max(own.values()))):
                    if self.everything or section.is_core(made.name):
                        scenarios.append(made)
        known = [name for stem in section.scenarios for name in self.names.get(stem, [])]
        for pattern in section.core if known else ():
            if not any(fnmatchcase(name, pattern) for name in known):
                self.checker.problem("groups", f"core: no scenario {pattern!r}; {nearest(pattern, known)}")
        return Group(section.name, section.title, section.description, tuple(scenarios))

    def over_queues(
        self, scenario: Scenario, stem: str, section: ControlsGroup, names: Sequence[str], seeds: tuple[int, ...]
    ) -> Iterator[Scenario]:
        """The scenario over each of its queues, with these controls as its variants; in the core with all that have
        such flows."""
        if scenario.topology != DUMBBELL or any(
            spec.get("compares") != SENDERS for spec in scenario.cases.values()
        ):  # fmt: skip
            self.checker.problem(
                f"groups.{stem}", f'{stem}.toml compares no senders; write compares = "{SENDERS}" in [scenario]'
            )
            return
        if scenario.name != stem and not scenario.name.startswith(f"{stem}-"):
            self.checker.problem(f"groups.{stem}", f"{stem}.toml: {scenario.name!r} must begin with the file's name")
        for queue, spec in scenario.cases.items():
            name = scenario.name if queue == FIFO else f"{scenario.name}-{queue}"
            self.names.setdefault(stem, []).append(name)
            cases = {
                label: made
                for label in self.chosen(section, name, spec, names)
                if self.is_run(name, label) and (made := self.spec(spec, label, f"{stem}.toml", name)) is not None
            }
            if not cases:
                continue
            self.queues[name] = queue
            title = scenario.title if queue == FIFO else f"{scenario.title}, under {queue}"
            places = {label: self.checker.place(f"controls.{label}")[0] for label in cases}
            yield replace(
                scenario, name=name, title=title, seeds=seeds, cases=cases, paper={}, places=places
            )  # fmt: skip

    def chosen(self, section: ControlsGroup, name: str, spec: Mapping[str, Any], names: Sequence[str]) -> Sequence[str]:
        """The controls of a scenario: those named, or in a group that names none those that have such flows, in its
        core of all, else of the suite's peers."""
        if self.asked is not None or section.peers is not None:
            return names
        known = list(self.controls) if section.core and section.is_core(name) else names
        return [label for label in known if label in self.own or self.has_flows(spec, label)]

    def has_flows(self, spec: Mapping[str, Any], label: str) -> bool:
        """Whether a control's stack has the kinds of flows that this scenario tests; a mistake in its row counts as
        such, to be reported."""
        tested = [flow for flow in spec["flows"] if not flow.get("neighbour")]
        stack = STACKS.get(self.controls[label].stack, OTHERS)
        if not {SHAPES.get(flow["kind"], "") for flow in tested} <= set(stack):
            return False
        row = self.row(label) if stack is OTHERS else None
        return row is None or "bursts" in row or not any(flow.get("burst_bytes") for flow in tested)

    def is_run(self, name: str, label: str) -> bool:
        """Whether a control runs in a scenario: always where it was named, or all are wanted."""
        if self.everything or self.asked is not None or label in self.own:
            return True
        return not any(fnmatchcase(f"{name}/{label}", pattern) for pattern in self.head.rest)

    def spec(self, spec: Mapping[str, Any], label: str, where: str, name: str) -> dict[str, Any] | None:
        """One case: the queue's spec with the control in the flows under test."""
        flows = [
            flow if flow.get("neighbour") else self.flow(flow, label, f"{where}, flows.{number}")
            for number, flow in enumerate(spec["flows"])
        ]
        if any(flow is None for flow in flows):
            return None
        return {**spec, "variant": label, "scenario": name, "flows": flows}

    def policy(self, control: ControlSection, path: str) -> str | None:
        """The text of a control's weights file, with its changes; None after a mistake."""
        key = f"{path}.cc_weights"
        built_in = paths.clone() / "quic-client" / "core" / "weights" / f"{control.cc}.weights"
        name = control.cc_weights or str(built_in)
        text = text_of_weights(self.checker, name, key)
        if text is None or not control.cc_changes:
            return text
        try:
            document = document_of(text)
        except ValueError as error:
            self.checker.problem(key, f"{name}: {error}; write the name of a weights file")
            return None
        for member in sorted(set(control.cc_changes) - set(document)):
            self.checker.problem(
                f"{path}.cc_changes.{member}", f"no member of {name}; {nearest(member, sorted(document))}"
            )
        return with_document(text, document | control.cc_changes)

    def row(self, label: str) -> dict[str, Any] | None:
        """The row of a control on another stack; None after a mistake."""
        if label not in self.rows:
            control, path = self.controls[label], f"controls.{label}.stack"
            if label in self.own:
                self.rows[label] = self.own[label].server.spec(control.cc)
            elif control.stack not in (known := self.known_stacks()) and not control.stack.endswith(".toml"):
                self.checker.problem(path, f"no stack {control.stack!r}; {nearest(control.stack, known)}")
                self.rows[label] = None
            else:
                self.rows[label] = row_of(self.checker, control.stack, control.cc, path)
        return self.rows[label]

    @staticmethod
    def known_stacks() -> list[str]:
        """Stacks that a control may have, by name. Raises ScenarioError if the table is bad."""
        try:
            rows = quic_servers.read(quic_servers.table())
        except ServersError as error:
            raise ScenarioError([str(error)]) from None
        return [*STACKS, *(server.name for server in rows if server.controls)]

    def flow(self, flow: Mapping[str, Any], label: str, where: str) -> dict[str, Any] | None:
        """A flow under test with the control; None after a mistake, or where its stack has no such kind of flow."""
        control = self.controls[label]
        stack = STACKS.get(control.stack, OTHERS)
        kind = stack.get(SHAPES.get(flow["kind"], ""))
        path = f"controls.{label}"
        may_lack = self.asked is not None or label in self.own
        if kind is None:
            if may_lack:
                return None
            self.checker.problem(
                path, f"{where}: {control.stack} has no flow like {flow['kind']}; leave {label} out of that group"
            )
            return None
        given = {key: value for key, value in flow.items() if key not in OF_THE_CONTROL}
        given |= {"kind": kind, "cc": control.cc, "payload_bytes": stack["payload_bytes"]}
        if stack is OTHERS:
            row = self.row(label)
            if row is None:
                return None
            given |= {"stack": control.stack, SERVER: row}
        foreign = [key for key in given if key not in FLOW_KINDS[kind].model_fields]
        if given.get("burst_bytes") and "bursts" not in given.get(SERVER, {"bursts": True}):
            foreign.append("bursts")
        if foreign and may_lack:
            return None
        if foreign:
            self.checker.problem(
                path, f"{where}: {kind} has no {', '.join(foreign)}; leave {label} out of that group"
            )  # fmt: skip
            return None
        if control.cc_weights is not None or control.cc_changes:
            if label not in self.weights:
                self.weights[label] = self.policy(control, path)
            if self.weights[label] is None:
                return None
            given["cc_weights"] = self.weights[label]
        checked = self.checker.tagged(FLOW_KINDS, "kind", given, path)
        return None if checked is None else checked.model_dump(exclude_none=True)
