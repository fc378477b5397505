# SPDX-License-Identifier: Apache-2.0
"""Random tables and packets into two targets: the same frames come out of the same ports in the same order, and all
counters are the same. Embedded against BMv2 where there is one. Everywhere: the embedded target on its interfaces
against its pure core (the STF runner, which has neither interfaces nor P4Runtime), and against a second one of itself.
"""

import functools
import shutil
import subprocess
from pathlib import Path

import p4_random
import pytest
from p4_random import Scene
from p4_rig import BMV2, EMBEDDED, PORTS, PROGRAM, P4Rig, find, host_mac, missing
from packet_rig import REPO

from weir.p4runtime.client import Update
from weir.p4runtime.entities import (
    Call,
    CloneSession,
    DirectCounterEntry,
    Exact,
    Lpm,
    MulticastGroup,
    ProfileGroup,
    ProfileMember,
    TableEntry,
)

MIX = Path(__file__).parent / "programs" / "mix.p4"
SEEDS = range(1, 5)
FRAMES_EACH = 100
"""From each port."""
HOSTS = [
    TableEntry("l2_forward", {"hdr.ethernet.dst": Exact(host_mac(port))}, Call("to_port", {"port": port}))
    for port in PORTS
]
"""Route of an exchange's markers."""


@pytest.fixture(scope="module")
def embedded(tmp_path_factory):
    if reason := missing(EMBEDDED):
        pytest.skip(reason)
    switch = P4Rig(EMBEDDED, tmp_path_factory.mktemp("embedded"))
    yield switch
    switch.close()


@pytest.fixture(scope="module", params=[BMV2, EMBEDDED])
def other(request, embedded, tmp_path_factory):
    if reason := missing(request.param):
        pytest.skip(reason)
    switch = P4Rig(request.param, tmp_path_factory.mktemp("other"))
    yield switch
    switch.close()


def outcome(switch: P4Rig, made: Scene, program: Path = PROGRAM) -> tuple[dict, dict, list]:
    """Frames by the port they came in at and the port they left by; counters; the counters of table entries."""
    switch.set_program(program)
    hosts = HOSTS if program == PROGRAM else []
    # One after the other: a request's updates may be made in any order, and groups are of members
    for kind in (ProfileMember, ProfileGroup, CloneSession, MulticastGroup, TableEntry):
        switch.client.write([Update.insert(e) for e in [*made.entries, *hosts] if isinstance(e, kind)])
    switch.client.write([Update.modify(entry) for entry in made.defaults])
    switch.round = 0  # the same markers for all
    frames = {port: switch.exchange([(port, f) for f in some]) for port, some in made.frames.items()}
    counted = [table.name for table in switch.info.tables if table.has_direct_counter]
    direct = switch.client.read(*(DirectCounterEntry(TableEntry(table)) for table in counted))
    # BMv2 goes on copying to groups of a program that was replaced
    copies = (MulticastGroup, CloneSession)
    switch.client.write([Update.delete(entry) for entry in made.entries if isinstance(entry, copies)])
    return frames, switch.counts(), sorted(map(repr, direct))


def differences(frames: dict, one: dict, two: dict) -> list[str]:
    """In words, the first of each pair of ports."""
    said = []
    for came in frames:
        for left in PORTS:
            a, b = one[came][left], two[came][left]
            if a != b:
                at = next(
                    (i for i, pair in enumerate(zip(a, b, strict=False)) if pair[0] != pair[1]), min(len(a), len(b))
                )
                shown = [some[at].hex() if at < len(some) else "nothing" for some in (a, b)]
                said.append(f"from port {came} to {left}, frame {at}: {shown[0]} and {shown[1]}")
    return said


@functools.cache
def scene(seed: int) -> Scene:
    return p4_random.scene(seed, FRAMES_EACH)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_targets_do_the_same(embedded, other, seed):
    made = scene(seed)
    one, two = outcome(embedded, made), outcome(other, made)
    assert not differences(made.frames, one[0], two[0]), f"seed {seed}"
    assert one[1:] == two[1:], f"seed {seed}"
    # and that much was going on
    assert sum(len(f) for by_port in one[0].values() for f in by_port.values()) > FRAMES_EACH
    assert len(one[1]) > len(PORTS)


@pytest.mark.parametrize("seed", SEEDS)
def test_two_targets_do_the_same_with_all_of_v1model(embedded, other, seed):
    made = p4_random.mix_scene(seed, FRAMES_EACH)
    one, two = outcome(embedded, made, MIX), outcome(other, made, MIX)
    assert not differences(made.frames, one[0], two[0]), f"seed {seed}"
    assert one[1:] == two[1:], f"seed {seed}"
    assert sum(len(f) for by_port in one[0].values() for f in by_port.values()) > 4 * FRAMES_EACH


def stf(made: Scene, frames: dict, counts: dict) -> str:
    """The scene as a script of the Simple Test Framework, with what the switch on its interfaces made of it."""
    lines = []
    node = 0
    for entry in [*made.entries, *HOSTS]:
        if isinstance(entry, MulticastGroup):
            lines.append(f"mc_mgrp_create {entry.id}")
            for replica in entry.replicas:
                lines.append(f"mc_node_create {replica.instance} {replica.port}")
                lines.append(f"mc_node_associate {entry.id} {node}")
                node += 1
            continue
        key = " ".join(f"{name}:{_value(name, match)}" for name, match in entry.match.items())
        lines.append(f"add {entry.table} {key} {_call(entry.action)}")
    lines += [f"setdefault {entry.table} {_call(entry.action)}" for entry in made.defaults]
    for came, some in made.frames.items():
        lines += [f"packet {came} {frame.hex()}" for frame in some]
        for left in PORTS:
            lines += [f"expect {left} {frame.hex()} $" for frame in frames[came][left]]
    lines += [
        f"check_counter {name}({index}) packets == {packets}"
        for (name, index), (packets, _) in sorted(counts.items())
        if not name.endswith("forwarded")  # where the markers are counted, which the script has not
    ]
    return "\n".join(lines) + "\n"


def _value(name: str, match: Exact | Lpm) -> str:
    if isinstance(match, Lpm):
        return f"{match.value:#0{10 if 'ipv4' in name else 34}x}/{match.prefix_len}"
    return f"{match.value:#x}"


def _call(call: Call) -> str:
    return f"{call.action}({', '.join(f'{name}:{value:#x}' for name, value in call.params.items())})"


@pytest.mark.parametrize("seed", SEEDS)
def test_the_switch_does_what_its_core_does(embedded, seed, tmp_path):
    if not find("weir-stf"):
        pytest.skip("weir-stf is not built")
    made = scene(seed)
    frames, counts, _ = outcome(embedded, made)
    shutil.copy(REPO / "p4" / "pid_delay.p4", tmp_path / "scene.p4")
    (tmp_path / "scene.stf").write_text(stf(made, frames, counts))
    done = subprocess.run(
        [find("weir-stf"), "-I", REPO / "p4", tmp_path / "scene.stf"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"seed {seed}: {done.stdout}{done.stderr}"
    assert "1 passed" in done.stdout
