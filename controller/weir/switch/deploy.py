# SPDX-License-Identifier: Apache-2.0
"""Deploys a configuration to a device: its program, then only the differences in its tables."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from .. import programs
from ..p4runtime.client import Client, DeviceError, NotPrimary, PipelineConfig, Update, WriteError
from ..p4runtime.codec import encode
from ..p4runtime.entities import CloneSession, MulticastGroup, TableEntry
from ..p4runtime.labels import describe, describe_action
from ..p4runtime.p4info import P4Info
from ..p4runtime.values import P4RuntimeError
from ..programs.base import Program
from . import plan, program
from .config import Config

KINDS = ("embedded", "bmv2")
SHOWN = 50
"""Updates of a stage that are printed one by one; a dry run prints all."""


class DeployError(P4RuntimeError):
    """A deployment that failed part of the way; the message names the updates applied before."""


@dataclass
class Report:
    """Actions of a deployment, or with `dry_run` of a planned one. `updates` are in words."""

    address: str
    device_id: int
    switch: str
    cookie: int
    dry_run: bool = False
    program_pushed: bool = False
    updates: list[str] = field(default_factory=list)


def say(update: Update, info: P4Info) -> str:
    """`insert table ipv4_lpm 10.0.1.0/24 -> set_next_hop(next_hop=1)`."""
    text = f"{update.kind} {describe(update.entity, info)}"
    if update.kind == "delete":
        return text
    if isinstance(update.entity, TableEntry):
        action = update.entity.action
        return f"{text} -> {describe_action(action, info) if action else 'as the program has it'}"
    if isinstance(update.entity, MulticastGroup):
        return f"{text} -> ports {', '.join(str(replica.port) for replica in update.entity.replicas)}"
    return text


def kind_of_config(device_config: bytes) -> str | None:
    """Kind of switch that a program's form is for; None for an empty one."""
    if not device_config:
        return None
    return "bmv2" if device_config.lstrip()[:1] == b"{" else "embedded"


def detect(device: Client) -> str:
    """Kind of the switch: by the program in it, else by whether it understands P4 source."""
    try:
        present = device.get_pipeline("DEVICE_CONFIG_AND_COOKIE")
    except DeviceError as error:
        if error.code != "UNIMPLEMENTED":
            raise
        present = None
    kind = kind_of_config(present.device_config) if present else None
    if kind:
        return kind
    return "embedded" if compiles(device) else "bmv2"


def compiles(device: Client) -> bool:
    """Whether the device compiles P4. The embedded switch compiles the source that it is asked to verify, and rejects
    one that is no program; BMv2 lets anything pass, and breaks when it is to run it."""
    try:
        device.set_pipeline(PipelineConfig(None, b"is this P4?"), "VERIFY")
    except NotPrimary:
        raise
    except DeviceError as error:
        if error.code == "INVALID_ARGUMENT":
            return True
        raise
    return False


def prepare(kind: str, main: Path, precompiled: tuple[Path, Path] | None) -> PipelineConfig:
    """The program in the form of that kind of switch; P4Info and device configuration from files when given."""
    if precompiled is not None:
        wanted = program.precompiled(*precompiled)
        if kind == "bmv2":
            program.check_bmv2(wanted, str(precompiled[1]))
        return wanted
    return program.for_bmv2(main) if kind == "bmv2" else program.for_embedded(main)


def offered(info: P4Info) -> Program:
    """The program whose tables these are; the first where they are nobody's, whose use reports the missing tables."""
    return programs.of(info) or programs.PID_DELAY


def check(config: Config, info: P4Info) -> None:
    """Checks that the program has all tables of the configuration: no update is impossible to express. P4RuntimeError
    names what does not fit."""
    empty = plan.State()
    offer = offered(info)
    for name in offer.tables:
        info.tables[name]
    for stage in plan.stages(offer, plan.desired(offer, config, info, empty), empty, info):
        for update in stage.updates:
            encode(update.entity, info)


def check_before_push(config: Config, wanted: PipelineConfig, main: Path, is_replaced: bool) -> P4Info | None:
    """Refuses a program that can't be what the file says before it takes the place of one that may be good: pushing
    empties the tables. Its P4Info; None for P4 source where nothing here compiles it, which only an empty switch is
    given unseen."""
    try:
        info = wanted.p4info or program.local_p4info(main)
    except program.NoCompiler:
        if is_replaced:
            raise
        return None
    try:
        check(config, info)
    except P4RuntimeError as error:
        raise P4RuntimeError(f"{error}; the switch is left as it was") from None
    return info


def deploy(
    device: Client,
    config: Config,
    *,
    switch: str = "auto",
    main: Path,
    precompiled: tuple[Path, Path] | None = None,
    dry_run: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> Report:
    """Makes the device as `config` says; `device` must be primary unless `dry_run`. `tell` hears of each step.

    A device that is right already is not written to. Raises P4RuntimeError; DeployError when something was applied.
    """
    kind = switch if switch != "auto" else detect(device)
    wanted = prepare(kind, main, precompiled)
    running = device.get_pipeline("COOKIE_ONLY")
    report = Report(device.address, device.device_id, kind, wanted.cookie, dry_run)
    present = plan.State()
    info: P4Info | None
    if running is not None and running.cookie == wanted.cookie:
        info = device.info
        present = plan.read_state(offered(info), device)
    else:
        info = check_before_push(config, wanted, main, is_replaced=running is not None or dry_run)
        report.program_pushed = True
        if dry_run:
            tell(f"would push the program ({len(wanted.device_config)} bytes, {kind})")
        else:
            if switch == "embedded" and not compiles(device):
                raise DeviceError(
                    f"the switch at {device.address} does not compile P4 (it let pass what is none), so it is no "
                    "weir-switch; give --switch bmv2",
                    "INVALID_ARGUMENT",
                )
            tell(f"pushing the program ({len(wanted.device_config)} bytes, {kind})")
            set_program(device, wanted, kind)
            info = device.info
            try:
                present = plan.read_state(offered(info), device)
            except P4RuntimeError as error:
                raise DeployError(f"{error}; the program was pushed, no table was written") from None
    if info is None:  # an empty switch, and nothing here compiles P4: it is given the program unseen
        info = device.info
    try:
        offer = offered(info)
        stages = plan.stages(offer, plan.desired(offer, config, info, present), present, info)
    except P4RuntimeError as error:
        if report.program_pushed and not dry_run:
            raise DeployError(f"{error}; the program was pushed, no table was written") from None
        raise
    for stage in stages:
        said = [stage.in_short] if stage.in_short else [say(update, info) for update in stage.updates]
        shown = said if dry_run else said[:SHOWN]
        for line in shown:
            tell(f"{'would ' if dry_run else ''}{line}")
        if len(said) > len(shown):
            tell(f"and {len(said) - len(shown)} more of {stage.what}")
        if not dry_run:
            write_stage(device, stage, report)
        report.updates += said
    return report


def set_program(device: Client, wanted: PipelineConfig, kind: str) -> None:
    """Gives the device its program. Raises P4RuntimeError.

    BMv2 (1.15.5) keeps what its multicast groups and clone sessions were made of when another program takes the place
    of theirs. It has room for 4096 replicas in all, and a session made again clones twice. So they go first, and come
    back if it does not take the program.
    """
    copies: list[MulticastGroup | CloneSession] = []
    if kind == "bmv2":
        for all_of_a_kind in (MulticastGroup(0), CloneSession(0)):
            with suppress(P4RuntimeError):  # without a program it has none, and says so
                copies += device.read(all_of_a_kind)
    if copies:
        device.write([Update("delete", entity) for entity in copies])
    try:
        device.set_pipeline(wanted)
    except P4RuntimeError:
        if copies:
            device.write([Update("insert", entity) for entity in copies])
        raise


def write_stage(device: Client, stage: plan.Stage, report: Report) -> None:
    """Makes a stage's updates; DeployError names the applied ones when one fails. `report` has those before."""
    try:
        device.write(stage.updates)
    except P4RuntimeError as error:
        before = len(report.updates)
        parts = ["the program was pushed"] if report.program_pushed else []
        parts.append(f"{before} updates before these were applied")
        if isinstance(error, WriteError) and error.applied:
            applied = [say(stage.updates[index], device.info) for index in error.applied]
            shown = "; ".join(applied[:10]) + (f"; and {len(applied) - 10} more" if len(applied) > 10 else "")
            parts.append(f"of these: {shown}")
        raise DeployError(f"{stage.what}: {error}. {'; '.join(parts)}. Deploying again continues from there") from None
